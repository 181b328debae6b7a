"""No node asks another one again and again, or wakes itself, faster than its backoffs let it.

What comes to nothing is tried again after the retry backoff, and a request that finds nothing new
waits at its receiver. A node that does neither keeps others, and itself, from work.
"""

from __future__ import annotations

from kraftspec.reference.raft.messages import Request
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.swarm import S

# How many retry backoffs in one: a voter is left alone by its id, and apart from that as a
# bootstrap server. And clocks are fast, by a tenth at the most.
BACKOFFS = 5 / 2
NAME = "no_spin"
TICKS_MAX = 2_000  # Of a clock in a second: each node that it may ask has its backoffs.


class _Window:
    """A second, or less, in which nothing got on; and how often something was tried in it."""

    __slots__ = ("count", "progress", "since_us")

    def __init__(self) -> None:
        self.progress: object = None
        self.since_us = self.count = 0

    def tried(self, progress: object, now_us: int) -> int:
        """Count a try; return how many there were in this second without progress."""
        if progress != self.progress or now_us - self.since_us >= S:
            self.progress, self.since_us, self.count = progress, now_us, 0
        self.count += 1
        return self.count


class NoSpin(Invariant):
    """Counts requests, and strikes of a clock, in seconds in which the node does not get on."""

    def __init__(self) -> None:
        self.requests: dict[tuple[int, int, type[Request]], _Window] = {}
        self.ticks: dict[int, _Window] = {}

    def asked(self, replica: Replica, target: int, request: Request) -> None:
        """Look how often it asked the same of the same node."""
        if NAME in replica.unseen:
            return
        key = (replica.id, target, request.__class__)
        window = self.requests.get(key) or self.requests.setdefault(key, _Window())
        position = getattr(request, "position", 0)  # Of a snapshot.
        tries = window.tried((*_progress(replica), position), replica.world.now_us)
        if tries > BACKOFFS * S / replica.config.retry_backoff_us:
            name = type(request).__name__
            self.fail(f"node {replica.id} sent {name} to node {target} {tries} times in a second")

    def ticked(self, replica: Replica) -> None:
        """Look how often its clock struck."""
        if NAME in replica.unseen:
            return
        window = self.ticks.get(replica.id) or self.ticks.setdefault(replica.id, _Window())
        strikes = window.tried(_progress(replica), replica.world.now_us)
        if strikes > TICKS_MAX:
            self.fail(f"the clock of node {replica.id} struck {strikes} times in a second")


def _progress(replica: Replica) -> tuple[int, ...]:
    """Return what changes when a node gets on; another incarnation begins anew."""
    return (
        replica.incarnation, replica.core.high_watermark,
        replica.log_model.start_offset, replica.log_model.end_offset, replica.durable_end,
    )  # fmt: skip


INVARIANT = NoSpin
