"""The profile ``kip-595``: the quorum protocol as the first drafts of KIP-595 had it.

Flat requests with private API keys, FindQuorum in place of addresses in the log, voters that move
one by one by AlterQuorum, no pre-votes and no snapshots. What the drafts leave open, or get wrong,
has a rule beside it: `policy.CURES`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kraftspec.generated.kip_595 import QuorumStateMessage
from kraftspec.reference.profiles.kafka import KafkaProfile
from kraftspec.reference.profiles.kip_595 import assignment, tools, translation
from kraftspec.reference.profiles.kip_595.assignment import Assignment
from kraftspec.reference.profiles.kip_595.memory import Stored
from kraftspec.reference.profiles.kip_595.policy import CURES, DraftPolicy
from kraftspec.reference.raft.control import ControlRecord
from kraftspec.reference.raft.effects import PersistElection
from kraftspec.reference.raft.messages import Bytes
from kraftspec.reference.raft.profile import StoredState
from kraftspec.reference.raft.types import NONE, ElectionState, ReplicaKey
from kraftspec.reference.raft.voters import VoterSet

VERSION = 0  # Of quorum-state: there is no other.


class KipProfile(KafkaProfile):
    """See the module. ``without`` names cures that it does without; ``cures`` has them all."""

    name = "kip-595"
    state_message = QuorumStateMessage
    cures: Mapping[str, str] = CURES
    translations = (
        translation.VOTE,
        translation.BEGIN_EPOCH,
        translation.END_EPOCH,
        translation.FETCH,
        translation.FIND_QUORUM,
        translation.ALTER_QUORUM,
        tools.DESCRIBE_QUORUM,
        tools.API_VERSIONS,
    )

    def __init__(self, listener: str = "CONTROLLER", *, without: Sequence[str] = ()) -> None:
        super().__init__(listener)
        self.policy = DraftPolicy(without)

    def encode_control(self, record: ControlRecord) -> tuple[int, bytes]:
        """Return the control type and the value of a control record."""
        return assignment.encode_control(record)

    def decode_control(self, control_type: int, value: Bytes) -> ControlRecord | None:
        """Return a record that the core knows, or None for one that it passes over."""
        return assignment.decode_control(control_type, value)

    def snapshot_controls(
        self, kraft_version: int, voters: VoterSet | None
    ) -> tuple[ControlRecord, ...]:
        """Raise TypeError: KIP-595 has no snapshots, and no request by which to send one."""
        raise TypeError(f"{self.name} has no snapshots: its log is never cut at its start")

    def put_state(self, effect: PersistElection) -> tuple[Any, int]:
        """Return quorum-state: the vote, and the voters that are committed."""
        state = effect.state
        stored: Stored = effect.rest or Stored()
        kind = QuorumStateMessage
        applied = stored.applied
        targets = None if applied is None else applied.targets
        message = kind(
            cluster_id=stored.cluster_id,
            leader_id=state.leader_id,
            leader_epoch=state.epoch,
            voted_id=NONE if state.voted is None else state.voted.id,
            applied_offset=stored.applied_offset,
            current_voters=[kind.Voter(voter_id=id) for id in (applied.ids if applied else ())],
            target_voters=None if targets is None else [kind.Voter(voter_id=id) for id in targets],
        )
        return message, VERSION

    def get_state(self, state: Any, version: int) -> StoredState:
        """Return what quorum-state says; ValueError for what no node of the draft writes."""
        if state.leader_epoch < 0:
            raise ValueError(f"quorum-state has epoch {state.leader_epoch}; epochs start at 0")
        if state.applied_offset < 0:
            raise ValueError(f"quorum-state has AppliedOffset {state.applied_offset}, below 0")
        voted = ReplicaKey(state.voted_id) if state.voted_id >= 0 else None
        applied = None
        if state.current_voters:
            targets = state.target_voters
            applied = Assignment(
                state.cluster_id,
                [voter.voter_id for voter in state.current_voters],
                None if targets is None else [voter.voter_id for voter in targets],
            )
        return StoredState(
            ElectionState(state.leader_epoch, state.leader_id, voted),
            applied,
            state.applied_offset,
            Stored(state.cluster_id, state.applied_offset, applied),
        )
