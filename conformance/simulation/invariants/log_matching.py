"""Logs with a batch of the same epoch at the same offset are the same up to it (log matching)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftspec.conformance.simulation.invariants.base import Invariant

if TYPE_CHECKING:
    from kraftspec.conformance.simulation.replica import Replica


class LogMatching(Invariant):
    """See the module (Raft, figure 3)."""

    def __init__(self) -> None:
        self.chains: dict[tuple[int, int], int] = {}  # (end offset, epoch) of a batch → chain.

    def appended(self, replica: Replica, first: int) -> None:
        """Hold each new batch against whoever had it first; epochs do not fall within a log."""
        mirror = replica.mirror
        chains = self.chains
        epoch = mirror.epochs[first - 1] if first else mirror.start_epoch
        for index in range(first, len(mirror.ends)):
            if mirror.epochs[index] < epoch:
                self.fail(f"node {replica.id} has epoch {mirror.epochs[index]} after {epoch}")
            epoch = mirror.epochs[index]
            key = (mirror.ends[index], epoch)
            chain = mirror.chains[index]
            if chains.setdefault(key, chain) != chain:
                self.fail(
                    f"node {replica.id} has another log before offset {key[0]}, epoch {epoch}"
                )


INVARIANT = LogMatching
