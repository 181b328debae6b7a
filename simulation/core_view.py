"""What the simulator reads of a core, ours or another's."""

from __future__ import annotations

from typing import Protocol

from kraftspec.reference.raft import ReplicaKey, RoleName
from kraftspec.reference.raft.voters import History, VoterSet


class RoleView(Protocol):
    """A role, by its name."""

    @property
    def name(self) -> RoleName:
        """Which it is."""


class LogView(Protocol):
    """What a core knows of its log: voter sets and levels of kraft.version, by offset."""

    voters: History[VoterSet]
    kraft_versions: History[int]


class CoreView(Protocol):
    """What the simulator reads of a core, ours or another's, after each step.

    The words are those of `reference.raft.Core`: -1 where there is no leader or no high watermark,
    ``NEVER_US`` where it waits for nothing.
    """

    epoch: int
    leader_id: int
    voted: ReplicaKey | None
    high_watermark: int
    is_voter: bool
    now_us: int
    deadline_us: int
    shutdown_deadline_us: int

    @property
    def role(self) -> RoleView:
        """Its role."""

    @property
    def log(self) -> LogView:
        """Its log."""
