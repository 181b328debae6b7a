"""Between the core's messages and KIP-853's bytes, and the policy of its draft.

The uuid of a replica is the core's ``config.directory_id``; a shell leaves that zero, and the core
takes what quorum-state has, or makes one before it writes that file for the first time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.generated.kip_853 import QuorumStateData
from kraftspec.reference.profiles.common.profile import ProfileBase, put_static_state
from kraftspec.reference.profiles.kip_853 import elections, quorum, replication
from kraftspec.reference.profiles.kip_853.control import (
    LeaderChange,
    VoterAdded,
    VoterRemoved,
    decode_control,
    encode_control,
)
from kraftspec.reference.profiles.kip_853.membership import FIXES
from kraftspec.reference.profiles.kip_853.policy import Kept, KipPolicy
from kraftspec.reference.raft.control import ControlRecord
from kraftspec.reference.raft.effects import PersistElection
from kraftspec.reference.raft.profile import StoredState
from kraftspec.reference.raft.types import ElectionState, ReplicaKey
from kraftspec.reference.raft.voters import VoterSet


class KipProfile(ProfileBase):
    """Messages with uuids; ``without`` names the ``fixes`` that it does without."""

    name = "kip-853"
    state_message = QuorumStateData
    fixes: Mapping[str, str] = FIXES
    policy_without = KipPolicy
    translations = (
        elections.VOTE,
        elections.BEGIN_EPOCH,
        elections.END_EPOCH,
        replication.FETCH,
        replication.FETCH_SNAPSHOT,
        quorum.DESCRIBE_QUORUM,
        quorum.ADD_VOTER,
        quorum.REMOVE_VOTER,
        quorum.API_VERSIONS,
    )

    encode_control = staticmethod(encode_control)
    decode_control = staticmethod(decode_control)

    def snapshot_controls(
        self, kraft_version: int, voters: VoterSet | None
    ) -> tuple[ControlRecord, ...]:
        """Return what a snapshot begins with: a record for each voter ("Snapshot")."""
        return tuple(VoterAdded(voter) for voter in voters or ())

    def put_state(self, effect: PersistElection) -> tuple[Any, int]:
        """Return quorum-state at version 1; at 0 where there is no uuid, as an old node's is."""
        data = put_static_state(QuorumStateData, effect)
        if effect.rest is None:
            return data, 0
        voted = effect.state.voted
        ids = effect.rest.static_ids
        data.current_voters = None
        if ids is not None:
            data.current_voters = [QuorumStateData.Voter(voter_id=id) for id in ids]
        data.voter_uuid = effect.rest.uuid
        data.voted_uuid = ZERO_UUID if voted is None else voted.directory_id
        return data, 1

    def get_state(self, state: Any, version: int) -> StoredState:
        """Return what quorum-state says; of version 0 there is no uuid, and one will be made.

        Raises ValueError for a negative epoch, which stands for a file that is not there yet.
        """
        if state.leader_epoch < 0:
            raise ValueError(f"quorum-state has epoch {state.leader_epoch}, where 0 is the lowest")
        voted = None
        if state.voted_id >= 0:
            voted = ReplicaKey(state.voted_id, state.voted_uuid if version else ZERO_UUID)
        election = ElectionState(state.leader_epoch, state.leader_id, voted)
        if not version or state.voter_uuid == ZERO_UUID:
            return StoredState(election)
        ids = state.current_voters
        static_ids = None if ids is None else tuple(voter.voter_id for voter in ids)
        return StoredState(election, rest=Kept(state.voter_uuid, static_ids))


PROFILE = KipProfile

__all__ = ["FIXES", "KipPolicy", "KipProfile", "LeaderChange", "VoterAdded", "VoterRemoved"]
