"""What the core asks of every role."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from kraftspec.reference.raft.types import NEVER_US, Endpoints, ReplicaKey, RoleName

if TYPE_CHECKING:
    from kraftspec.reference.raft.core import Core
    from kraftspec.reference.raft.messages import Request
    from kraftspec.reference.raft.transitions import Cause
    from kraftspec.reference.raft.types import Node


class Role:
    """Base of the roles: a role that lacks a rule does nothing.

    ``election_deadline_us`` is when its election timer expires, if it has one.
    """

    __slots__ = ("core", "election_deadline_us")

    name: ClassVar[RoleName]

    def __init__(self, core: Core) -> None:
        self.core = core
        self.election_deadline_us = NEVER_US

    @classmethod
    def enter(
        cls,
        core: Core,
        cause: Cause,
        epoch: int,
        leader_id: int,
        endpoints: Endpoints,
        voted: ReplicaKey | None,
    ) -> None:
        """Make this the core's role; raise `FatalError` for a transition that is none."""
        raise NotImplementedError

    def begin(self) -> None:
        """Do what the role does first, now that it is the core's."""

    def left(self) -> None:
        """Clear up, now that another role is the core's."""

    def poll(self, now_us: int) -> int:
        """Do what timers say and send what there is to send; return the next deadline."""
        raise NotImplementedError

    def grants(self, candidate: ReplicaKey, up_to_date: bool, pre_vote: bool) -> bool:
        """Whether this role gives its vote to ``candidate`` (KIP-595, KIP-996)."""
        raise NotImplementedError

    def remaining_election_us(self) -> int | None:
        """Return the deadline that an Unattached after this role inherits; None: it draws one."""
        return None

    def hurry(self) -> None:
        """Campaign as soon as it may, if it is a voter that waits for a timer."""

    def successors(self) -> tuple[ReplicaKey, ...]:
        """Return who should lead next, best first, as this role sees it."""
        return ()

    def granting_voters(self) -> tuple[int, ...]:
        """Return whose votes this role has, ascending."""
        return ()

    def on_flushed(self) -> None:
        """More of the log is durable."""

    def on_timed_out(self, node: Node) -> None:
        """A node did not answer within the request time-out."""

    def on_failed(self, node: Node, request: Request, unsupported: bool) -> bool:
        """A request will not be answered; return whether the node may be asked again at once."""
        return False


def up_to_date(core: Core, last_epoch: int, end_offset: int) -> bool:
    """Whether a log that ends so holds everything that this one does (Raft §5.4.1, KIP-595)."""
    log = core.log
    return (last_epoch, end_offset) >= (log.last_epoch, log.end_offset)


def grants_without_leader(
    core: Core, candidate: ReplicaKey, is_up_to_date: bool, pre_vote: bool
) -> bool:
    """Decide as Unattached and Prospective do (KIP-595, Vote; KIP-996).

    A pre-vote costs nothing, so only the log counts (KIP-996). A standard vote goes to one
    candidate an epoch (Raft §5.2), and to nobody once a leader of the epoch is known.
    """
    if pre_vote:
        return is_up_to_date
    if core.voted is not None:
        return core.voted.matches(candidate)
    return core.leader_id < 0 and is_up_to_date
