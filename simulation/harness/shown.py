"""What the events of a node say of its core: a `core_view.CoreView`."""

from __future__ import annotations

from kraftspec.fastpath.types import Uuid
from kraftspec.reference.raft import ElectionState, ReplicaKey, RoleName
from kraftspec.reference.raft.types import NEVER_US
from kraftspec.reference.raft.voters import History, VoterSet

ROLES = (
    RoleName.UNATTACHED, RoleName.PROSPECTIVE, RoleName.CANDIDATE, RoleName.LEADER,
    RoleName.FOLLOWER, RoleName.RESIGNED,
)  # fmt: skip


class RoleShown:
    """A role, by its name."""

    __slots__ = ("name",)

    def __init__(self, name: RoleName) -> None:
        self.name = name


class LogShown:
    """What the node has said of its voters and of its level of kraft.version."""

    def __init__(self, voters: VoterSet) -> None:
        self.voters: History[VoterSet] = History(voters)
        self.kraft_versions: History[int] = History(0)


class CoreShown:
    """What the last events said of the core: see `core_view.CoreView`."""

    def __init__(self, voters: VoterSet) -> None:
        self.role = RoleShown(RoleName.UNATTACHED)
        self.log = LogShown(voters)
        self.epoch = 0
        self.leader_id = -1
        self.voted: ReplicaKey | None = None
        self.high_watermark = -1
        self.is_voter = False
        self.now_us = 0
        self.deadline_us = NEVER_US
        self.shutdown_deadline_us = NEVER_US


def election_of(epoch: int, leader_id: int, voted_id: int, directory: bytes) -> ElectionState:
    """Return what quorum-state has, from the fields of an event."""
    voted = ReplicaKey(voted_id, Uuid(directory)) if voted_id >= 0 else None
    return ElectionState(epoch, leader_id, voted)
