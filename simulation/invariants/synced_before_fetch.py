"""A voter that fetches from an offset has everything before it on its disk: so it acknowledges."""

from __future__ import annotations

from kraftspec.reference.raft.messages import Fetch
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class SyncedBeforeFetch(Invariant):
    """Compares the offset that a voter fetches from with what it has synced.

    KIP-595, "the leader counts what was fetched".
    """

    def fetch_requested(self, replica: Replica, request: Fetch) -> None:
        """Compare a fetch offset to what is durable."""
        if replica.syncs:
            durable = replica.durable_end
            if request.fetch_offset > durable:
                self.fail(
                    f"node {replica.id} fetches from {request.fetch_offset}, durable are {durable}"
                )


INVARIANT = SyncedBeforeFetch
