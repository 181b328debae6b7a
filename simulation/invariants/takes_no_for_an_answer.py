"""Who is told that a snapshot is gone asks the same leader for it no more (KIP-630)."""

from __future__ import annotations

from typing import Final

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft.messages import FetchSnapshot, Request
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.network import Message
from kraftspec.simulation.replica import Replica

TIMES_MAX: Final = 2  # It need not have read the answer in the step in which it came.


class TakesNoForAnAnswer(Invariant):
    """Counts how often a node asks again for what it was told is gone.

    Who has given up a request takes no answer to it.
    """

    def __init__(self) -> None:
        # Who asks → its last request, and when by its own clock.
        self.last: dict[int, tuple[FetchSnapshot, int]] = {}
        self.gone: dict[int, tuple[object, int]] = {}  # Who asks → what, and how often since.

    def snapshot_answered(self, replica: Replica, request: FetchSnapshot, message: Message) -> None:
        """Remember what is gone."""
        last, asked_us = self.last[replica.id]
        timeout_us = replica.config.request_timeout_us
        if last is not request or replica.clock_us() >= asked_us + timeout_us:
            return
        reply = replica.profile.decode_reply(request, message.version, message.body)
        if reply.error == ErrorCode.SNAPSHOT_NOT_FOUND:
            what = _what(replica, message.source, request)
            if self.gone.get(replica.id, (None,))[0] != what:
                self.gone[replica.id] = (what, 0)

    def asked(self, replica: Replica, target: int, request: Request) -> None:
        """Count what it asks for again."""
        if not isinstance(request, FetchSnapshot):
            return
        self.last[replica.id] = request, replica.clock_us()
        if replica.id not in self.gone:
            return
        what, times = self.gone[replica.id]
        if what != _what(replica, target, request):
            return
        self.gone[replica.id] = (what, times + 1)
        if times + 1 > TIMES_MAX:
            self.fail(
                f"node {replica.id} asked node {target} {times + 1} times for snapshot "
                f"{request.snapshot_end_offset}-{request.snapshot_epoch}, after it was told that "
                "there is none"
            )


def _what(replica: Replica, leader: int, request: FetchSnapshot) -> tuple[int, ...]:
    return (
        replica.incarnation, leader, request.leader_epoch, request.snapshot_end_offset,
        request.snapshot_epoch,
    )  # fmt: skip


INVARIANT = TakesNoForAnAnswer
