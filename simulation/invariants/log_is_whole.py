"""A log has no hole: what comes continues it, and what it has can be read from end to end."""

from __future__ import annotations

from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class LogIsWhole(Invariant):
    """Looks for holes in a log when it is written and when it is read.

    Read again where a part of it went; `durable_survives` reads at a start.
    """

    def appending(self, replica: Replica, base_offset: int) -> None:
        """Hold what a leader sent against the end of the log."""
        if base_offset != replica.log_model.end_offset:
            self.fail(
                f"node {replica.id} appends a batch of offset {base_offset} to a log that ends at "
                f"{replica.log_model.end_offset}"
            )

    def log_start_changed(self, replica: Replica) -> None:
        """Read what cleaning has left."""
        try:
            read = replica.read_log()
        except (ValueError, LookupError) as error:
            self.fail(f"node {replica.id} cannot read its log after cleaning: {error!r}")
            return
        if (read.end_offset, read.end_chain) != (
            replica.log_model.end_offset,
            replica.log_model.end_chain,
        ):
            self.fail(f"node {replica.id} reads another log after cleaning than it had before")


INVARIANT = LogIsWhole
