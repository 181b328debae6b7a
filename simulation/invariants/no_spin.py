"""No node asks another one again and again, or wakes itself, faster than its backoffs let it.

What comes to nothing is tried again after the retry backoff, and a request that finds nothing new
waits at its receiver. A node that does neither keeps others, and itself, from work.

Of a node of ours it breaks at once, for such a run may not end. Of a node of a harness, which may
be known for it, it breaks at the end of the run, so that the run shows all else that it has.
"""

from __future__ import annotations

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft.messages import Request
from kraftspec.simulation.invariants.base import Invariant, role_of
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.swarm import MS, S

# How many retry backoffs in one: a voter is left alone by its id, and apart from that as a
# bootstrap server. And clocks are fast, by a tenth at the most.
BACKOFFS = 5 / 2
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
        # Who does what, after which answer → how often, and in words.
        self.worst: dict[tuple[str, str, str], tuple[int, str]] = {}

    def asked(self, replica: Replica, target: int, request: Request) -> None:
        """Look how often it asked the same of the same node."""
        key = (replica.id, target, request.__class__)
        window = self.requests.get(key) or self.requests.setdefault(key, _Window())
        position = getattr(request, "position", 0)  # Of a snapshot.
        tries = window.tried((*_progress(replica), position), replica.world.now_us)
        if tries > BACKOFFS * S / replica.config.retry_backoff_us:
            name = type(request).__name__
            why = _answer(replica, target, request)
            self._spins(replica, f"sent {name}", f"to node {target} ", tries, why)

    def ticked(self, replica: Replica) -> None:
        """Look how often its clock struck."""
        window = self.ticks.get(replica.id) or self.ticks.setdefault(replica.id, _Window())
        strikes = window.tried(_progress(replica), replica.world.now_us)
        if strikes > TICKS_MAX:
            self._spins(replica, "was woken by its clock", "", strikes)

    def _spins(self, replica: Replica, what: str, whom: str, times: int, why: str = "") -> None:
        """Fail, or note the worst of each kind."""
        who = role_of(replica)
        told = f"node {replica.id}, {who}, {what} {whom}{times} times in a second"
        if not replica.is_foreign:
            self.fail(told)
        kind = who, what, why
        if times > self.worst.get(kind, (0, ""))[0]:
            until = f"until {replica.world.now_us / MS:,.0f} ms"
            self.worst[kind] = times, f"{told}{why}, {until}"

    def finished(self, replicas: list[Replica]) -> None:
        """Tell what nodes of harnesses did."""
        if self.worst:
            self.fail("; ".join(told for _, (_, told) in sorted(self.worst.items())))


def _answer(replica: Replica, target: int, request: Request) -> str:
    """Say what the other node answered to the last of these requests that it answered."""
    last = replica.last_replies.get((request.__class__, target))
    if last is None:
        return ", none answered"
    asked, message = last
    reply = replica.profile.decode_reply(asked, message.version, message.body)
    error = ErrorCode(reply.error or reply.top_error).name
    return f", the last answered {error}"


def _progress(replica: Replica) -> tuple[int, ...]:
    """Return what changes when a node gets on; another incarnation begins anew."""
    core = replica.core
    return (
        replica.incarnation, core.epoch, core.leader_id, core.high_watermark,
        replica.log_model.start_offset, replica.log_model.end_offset, replica.durable_end,
    )  # fmt: skip


INVARIANT = NoSpin
