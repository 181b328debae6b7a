"""The profile ``kip-853``: the first version of KIP-853, much of it left open by its author.

A replica is an id and a uuid that it makes for itself and keeps in quorum-state. The log says who
votes, a record for each voter that is added or removed. ``docs/drafts.md`` has what is filled in.

The uuid is the core's ``config.directory_id``; a shell leaves that zero, and the core takes what
quorum-state has, or makes one before it writes that file for the first time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.generated.kip_853 import QuorumStateData
from kraftspec.reference.profiles.kafka import KafkaProfile
from kraftspec.reference.profiles.kip_853 import elections, quorum, replication
from kraftspec.reference.profiles.kip_853.control import (
    LeaderChange,
    VoterAdded,
    VoterRemoved,
    decode_control,
    encode_control,
)
from kraftspec.reference.profiles.kip_853.membership import CURES
from kraftspec.reference.profiles.kip_853.policy import Kept, KipPolicy
from kraftspec.reference.raft.control import ControlRecord
from kraftspec.reference.raft.effects import PersistElection
from kraftspec.reference.raft.messages import Bytes
from kraftspec.reference.raft.profile import StoredState
from kraftspec.reference.raft.types import NONE, ElectionState, ReplicaKey
from kraftspec.reference.raft.voters import VoterSet


class KipProfile(KafkaProfile):
    """See the module. ``without`` are names of ``cures``: rules that the draft does not have."""

    name = "kip-853"
    state_message = QuorumStateData
    cures: Mapping[str, str] = CURES
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

    def __init__(self, listener: str = "CONTROLLER", *, without: tuple[str, ...] = ()) -> None:
        super().__init__(listener)
        self.policy = KipPolicy(without)

    def encode_control(self, record: ControlRecord) -> tuple[int, bytes]:
        """Return the control type and the value of a control record."""
        return encode_control(record)

    def decode_control(self, control_type: int, value: Bytes) -> ControlRecord | None:
        """Return a control record of the draft's, or None for one that it passes over."""
        return decode_control(control_type, value)

    def snapshot_controls(
        self, kraft_version: int, voters: VoterSet | None
    ) -> tuple[ControlRecord, ...]:
        """Return what a snapshot begins with: a record for each voter ("Snapshot")."""
        return tuple(VoterAdded(voter) for voter in voters or ())

    def put_state(self, effect: PersistElection) -> tuple[Any, int]:
        """Return quorum-state at version 1; at 0 where there is no uuid, as an old node's is."""
        state = effect.state
        voted = state.voted or ReplicaKey(NONE, ZERO_UUID)
        data = QuorumStateData(
            leader_id=state.leader_id, leader_epoch=state.epoch, voted_id=voted.id
        )
        ids = effect.voter_ids if effect.rest is None else effect.rest.static_ids
        data.current_voters = None
        if ids is not None:
            data.current_voters = [QuorumStateData.Voter(voter_id=id) for id in ids]
        if effect.rest is None:
            return data, 0
        data.voter_uuid = effect.rest.uuid
        data.voted_uuid = voted.directory_id
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


__all__ = ["CURES", "KipPolicy", "KipProfile", "LeaderChange", "VoterAdded", "VoterRemoved"]
