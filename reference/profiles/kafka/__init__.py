"""The profile ``kafka``: what Apache Kafka 4.3.1 speaks between controllers.

Requests and replies are the generated classes of ``kraftspec.generated.kafka``. They have a list of
topics, of which a quorum has one, with one partition; whatever else a request asks about is refused
at the place in the order of checks where Kafka refuses it, so the translator only marks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.generated.kafka import QuorumStateData
from kraftspec.reference.profiles.common.translation import Translation
from kraftspec.reference.profiles.kafka import elections, membership, replication
from kraftspec.reference.profiles.kafka.records import decode_control, encode_control
from kraftspec.reference.raft.control import ControlRecord, KRaftVersion, Voters
from kraftspec.reference.raft.effects import PersistElection
from kraftspec.reference.raft.messages import Api, Bytes, Reply, Request
from kraftspec.reference.raft.policy import Policy
from kraftspec.reference.raft.profile import StoredState
from kraftspec.reference.raft.types import NONE, ElectionState, ReplicaKey
from kraftspec.reference.raft.voters import VoterSet

_TRANSLATIONS = (
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


class KafkaProfile:
    """See the module. ``listener`` is the controllers' own, which answers do not name."""

    name = "kafka"
    state_message: Any = QuorumStateData
    cures: Mapping[str, str] = {}
    translations: tuple[Translation, ...] = _TRANSLATIONS

    def __init__(self, listener: str = "CONTROLLER") -> None:
        self.policy = Policy()
        self.listener = listener
        self.apis: Mapping[int, Api] = {t.api.key: t.api for t in self.translations}
        self._by_key: dict[int, Translation] = {t.api.key: t for t in self.translations}
        self._by_request: dict[type[Request], Translation] = {t.asks: t for t in self.translations}

    def api_of(self, request: Request) -> Api:
        """Return the API that carries this kind of request."""
        return self._by_request[request.__class__].api

    def min_version(self, request: Request) -> int:
        """Return the lowest version that can carry this very request."""
        return self._by_request[request.__class__].min_version(request)

    def encode_request(self, request: Request, version: int) -> bytes:
        """Return the body of a request; CodecError if this version cannot say it."""
        encoded: bytes = (
            self._by_request[request.__class__].put_request(request, version).encode(version)
        )
        return encoded

    def decode_request(self, api_key: int, version: int, body: Bytes) -> Request:
        """Return what a request asks; CodecError for bytes that are no such request."""
        translation = self._by_key[api_key]
        return translation.get_request(translation.request_class.decode(body, version), version)

    def encode_reply(self, request: Request, reply: Reply, version: int, listener: str) -> bytes:
        """Return the body of the answer to ``request``, which came in on ``listener``."""
        translation = self._by_request[request.__class__]
        encoded: bytes = translation.put_reply(request, reply, version, listener).encode(version)
        return encoded

    def decode_reply(self, request: Request, version: int, body: Bytes) -> Reply:
        """Return what the answer to ``request`` says; CodecError for bytes that are none."""
        translation = self._by_request[request.__class__]
        message: Any = translation.response_class.decode(body, version)
        return translation.get_reply(message, self.listener)

    def encode_control(self, record: ControlRecord) -> tuple[int, bytes]:
        """Return the control type and the value of a control record."""
        return encode_control(record)

    def decode_control(self, control_type: int, value: Bytes) -> ControlRecord | None:
        """Return a control record that the core knows, or None for one that it passes over."""
        return decode_control(control_type, value)

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
        state = effect.state
        voted = state.voted or ReplicaKey(NONE, ZERO_UUID)
        data = QuorumStateData(
            leader_id=state.leader_id, leader_epoch=state.epoch, voted_id=voted.id
        )
        version = min(effect.kraft_version, 1)
        if version == 0:
            data.current_voters = [QuorumStateData.Voter(voter_id=id) for id in effect.voter_ids]
        else:
            data.voted_directory_id = voted.directory_id
        return data, version

    def get_state(self, state: QuorumStateData, version: int) -> StoredState:
        """Return what quorum-state says; of its voters, the log or the properties know better."""
        voted = None
        if state.voted_id >= 0:
            voted = ReplicaKey(state.voted_id, state.voted_directory_id)
        return StoredState(ElectionState(state.leader_epoch, state.leader_id, voted))
