"""Between the core's messages and Apache Kafka's bytes.

Requests and replies are the generated classes of ``kraftspec.generated.kafka``. They have a list of
topics, of which a quorum has one, with one partition; whatever else a request asks about is refused
at the place in the order of checks where Kafka refuses it, so the translator only marks it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.generated.kafka import QuorumStateData
from kraftspec.reference.profiles.common.profile import ProfileBase, put_static_state
from kraftspec.reference.profiles.kafka import elections, membership, replication
from kraftspec.reference.profiles.kafka.records import (
    decode_control,
    encode_control,
)
from kraftspec.reference.raft.control import ControlRecord, KRaftVersion, Voters
from kraftspec.reference.raft.effects import PersistElection
from kraftspec.reference.raft.policy import FIXES
from kraftspec.reference.raft.profile import StoredState
from kraftspec.reference.raft.types import NONE, ElectionState, ReplicaKey
from kraftspec.reference.raft.voters import VoterSet
from kraftspec.reference.wire.apis import Api

AS_KAFKA = tuple(FIXES)  # What to be without, to do as Kafka's node does.


class KafkaProfile(ProfileBase):
    """Requests and replies of Apache Kafka; controllers are the log of the cluster's metadata."""

    name = "kafka"
    fixes = FIXES
    state_message: Any = QuorumStateData
    # What older ones support is not what they format new clusters with.
    releases = ("4.3.1",)
    translations = (
        elections.VOTE,
        elections.BEGIN_EPOCH,
        elections.END_EPOCH,
        replication.FETCH,
        replication.FETCH_SNAPSHOT,
        membership.DESCRIBE_QUORUM,
        membership.ADD_VOTER,
        membership.REMOVE_VOTER,
        membership.UPDATE_VOTER,
        membership.API_VERSIONS,
    )

    def __init__(
        self,
        listener: str = "CONTROLLER",
        *,
        without: Sequence[str] = (),
        release: str | None = None,
    ) -> None:
        """``release``: speak as that one, where it is not the newest; KeyError for an unknown."""
        self.release = release
        super().__init__(listener, without=without)

    def served(self, apis: Mapping[int, Api]) -> Mapping[int, Api]:
        """Return what the release serves of APIs."""
        if self.release is None:
            return apis
        # What reads the history of all messages is loaded where it is needed, which is seldom.
        releases = import_module("kraftspec.reference.profiles.kafka.releases")
        newest = releases.newest_versions(self.release)
        return {
            key: api._replace(max_version=min(api.max_version, newest[key]))
            for key, api in apis.items()
            if key in newest
        }

    encode_control = staticmethod(encode_control)
    decode_control = staticmethod(decode_control)

    def snapshot_controls(
        self, kraft_version: int, voters: VoterSet | None
    ) -> tuple[ControlRecord, ...]:
        """Return what a snapshot begins with: nothing, while voters are static (KIP-853)."""
        if kraft_version < 1:
            return ()
        level = KRaftVersion(kraft_version)
        return (level,) if voters is None else (level, Voters(voters))

    def put_state(self, effect: PersistElection) -> tuple[QuorumStateData, int]:
        """Return quorum-state: version 0 with static voters, else 1 (``QuorumState``)."""
        if effect.kraft_version < 1:
            return put_static_state(QuorumStateData, effect), 0
        state = effect.state
        voted = state.voted or ReplicaKey(NONE, ZERO_UUID)
        data = QuorumStateData(
            leader_id=state.leader_id,
            leader_epoch=state.epoch,
            voted_id=voted.id,
            voted_directory_id=voted.directory_id,
        )
        return data, 1

    def get_state(self, state: QuorumStateData, version: int) -> StoredState:
        """Return what quorum-state says; of its voters, the log or the properties know better."""
        voted = None
        if state.voted_id >= 0:
            voted = ReplicaKey(state.voted_id, state.voted_directory_id)
        return StoredState(ElectionState(state.leader_epoch, state.leader_id, voted))


PROFILE = KafkaProfile
