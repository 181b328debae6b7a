"""Between the core's messages and KIP-595's bytes, and the policy of its draft."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kraftspec.generated.kip_595 import QuorumStateMessage
from kraftspec.reference.profiles.common.profile import ProfileBase
from kraftspec.reference.profiles.kafka.membership import API_VERSIONS
from kraftspec.reference.profiles.kip_595 import assignment, translation
from kraftspec.reference.profiles.kip_595.assignment import Assignment
from kraftspec.reference.profiles.kip_595.memory import Stored
from kraftspec.reference.profiles.kip_595.policy import FIXES, DraftPolicy
from kraftspec.reference.raft.control import ControlRecord
from kraftspec.reference.raft.effects import PersistElection
from kraftspec.reference.raft.profile import StoredState
from kraftspec.reference.raft.types import NONE, ElectionState, ReplicaKey
from kraftspec.reference.raft.voters import VoterSet

VERSION = 0  # Of quorum-state and of control records: there is no other.


class KipProfile(ProfileBase):
    """Flat requests and replies; ``without`` names the ``fixes`` that it does without."""

    name = "kip-595"
    state_message = QuorumStateMessage
    fixes: Mapping[str, str] = FIXES
    policy_without = DraftPolicy
    translations = (
        translation.VOTE,
        translation.BEGIN_EPOCH,
        translation.END_EPOCH,
        translation.FETCH,
        translation.FIND_QUORUM,
        translation.ALTER_QUORUM,
        translation.DESCRIBE_QUORUM,
        API_VERSIONS,
    )

    encode_control = staticmethod(assignment.encode_control)
    decode_control = staticmethod(assignment.decode_control)

    def snapshot_controls(
        self, kraft_version: int, voters: VoterSet | None
    ) -> tuple[ControlRecord, ...]:
        """Raise TypeError: KIP-595 has no snapshots, and no request by which to send one."""
        raise TypeError(f"{self.name} has no snapshots: its log is never cut at its start")

    def put_state(self, effect: PersistElection) -> tuple[Any, int]:
        """Return quorum-state: the vote, and the voters: committed, or else learned."""
        state = effect.state
        stored: Stored = effect.rest or Stored()
        kind = QuorumStateMessage
        applied = stored.applied
        voter_ids = stored.learned if applied is None else applied.ids
        targets = None if applied is None else applied.targets
        message = kind(
            cluster_id=stored.cluster_id,
            leader_id=state.leader_id,
            leader_epoch=state.epoch,
            voted_id=NONE if state.voted is None else state.voted.id,
            applied_offset=stored.applied_offset,
            current_voters=[kind.Voter(voter_id=id) for id in voter_ids],
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
        voter_ids = tuple(voter.voter_id for voter in state.current_voters)
        # The first assignment is committed together with the LeaderChangeMessage after it.
        is_learned = state.applied_offset == 0
        if voter_ids and not is_learned:
            targets = state.target_voters
            applied = Assignment(
                state.cluster_id,
                voter_ids,
                None if targets is None else [voter.voter_id for voter in targets],
            )
        return StoredState(
            ElectionState(state.leader_epoch, state.leader_id, voted),
            applied,
            state.applied_offset,
            Stored(
                state.cluster_id, state.applied_offset, applied, voter_ids if is_learned else ()
            ),
        )


PROFILE = KipProfile
