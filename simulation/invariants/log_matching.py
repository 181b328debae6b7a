"""Logs with a batch of the same epoch at the same offset are the same up to it (log matching)."""

from __future__ import annotations

from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica


class LogMatching(Invariant):
    """Compares logs up to the last batch that they share (Raft, figure 3)."""

    def __init__(self) -> None:
        self.chains: dict[tuple[int, int], int] = {}  # (end offset, epoch) of a batch → chain.

    def appended(self, replica: Replica, first: int) -> None:
        """Hold each new batch against whoever had it first; epochs do not fall within a log."""
        log_model = replica.log_model
        chains = self.chains
        epoch = log_model.epochs[first - 1] if first else log_model.start_epoch
        for index in range(first, len(log_model.ends)):
            if log_model.epochs[index] < epoch:
                self.fail(f"node {replica.id} has epoch {log_model.epochs[index]} after {epoch}")
            epoch = log_model.epochs[index]
            key = (log_model.ends[index], epoch)
            chain = log_model.chains[index]
            if chains.setdefault(key, chain) != chain:
                self.fail(
                    f"node {replica.id} has another log before offset {key[0]}, epoch {epoch}"
                )


INVARIANT = LogMatching
