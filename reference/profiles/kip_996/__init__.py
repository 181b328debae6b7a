"""The profile ``kip-996``: pre-votes and Check Quorum as the first draft of KIP-996 had them.

The draft changes one API, Vote, whose version 1 says PreVote in the request and in the response.
The rest of the protocol is what Apache Kafka 3.6, the release of that time, spoke: static voters
without directory ids, and quorum-state of version 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kraftspec.generated.control_records import ControlRecordType
from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kip_996 import LeaderChangeMessage, QuorumStateData
from kraftspec.reference.profiles.kafka import KafkaProfile
from kraftspec.reference.profiles.kip_996 import elections, replication, tools
from kraftspec.reference.profiles.kip_996.policy import (
    CHECK_QUORUM,
    CURES,
    LEADER_REFUSES,
    OWN_WORD,
    PRE_VOTE,
    PRE_VOTES_ALONE,
    DraftPolicy,
)
from kraftspec.reference.raft.control import ControlRecord, LeaderChange
from kraftspec.reference.raft.effects import PersistElection
from kraftspec.reference.raft.messages import Bytes, Reply, Request, Vote
from kraftspec.reference.raft.profile import StoredState
from kraftspec.reference.raft.types import NONE, ElectionState, ReplicaKey
from kraftspec.reference.raft.voters import VoterSet

VERSION = 0  # Of quorum-state and of LeaderChangeMessage: there is no other.


class Kip996Profile(KafkaProfile):
    """See the module. ``without`` names cures that it does without; ``cures`` has them all."""

    name = "kip-996"
    state_message = QuorumStateData
    cures: Mapping[str, str] = CURES
    translations = (
        elections.VOTE,
        elections.BEGIN_EPOCH,
        elections.END_EPOCH,
        replication.FETCH,
        replication.FETCH_SNAPSHOT,
        tools.DESCRIBE_QUORUM,
        tools.API_VERSIONS,
    )

    def __init__(self, listener: str = "CONTROLLER", *, without: Sequence[str] = ()) -> None:
        super().__init__(listener)
        self.without = frozenset(without)
        self.policy = DraftPolicy(without)

    def decode_reply(self, request: Request, version: int, body: Bytes) -> Reply:
        """Return what an answer says; one to another kind of vote than was asked for says nothing.

        That is what PreVote in the response is for: which of the two was granted.
        """
        reply = super().decode_reply(request, version, body)
        if isinstance(request, Vote) and version >= elections.PRE_VOTE_FROM:
            answers_pre_vote = elections.answers_pre_vote(body, version)
            if answers_pre_vote not in (None, request.pre_vote):
                return type(reply)(top_error=ErrorCode.INVALID_REQUEST)
        return reply

    def encode_control(self, record: ControlRecord) -> tuple[int, bytes]:
        """Return the control type and the value of a record: LeaderChange is the only one."""
        if not isinstance(record, LeaderChange):
            raise TypeError(f"{self.name} has no control record for {record!r}")
        kind = LeaderChangeMessage
        change = kind(
            leader_id=record.leader_id,
            voters=[kind.Voter(voter_id=id) for id in record.voters],
            granting_voters=[kind.Voter(voter_id=id) for id in record.granting_voters],
        )
        return ControlRecordType.LEADER_CHANGE, change.encode(VERSION)

    def decode_control(self, control_type: int, value: Bytes) -> ControlRecord | None:
        """Return a record that the core knows, or None for one that it passes over."""
        return replication.decode_control(control_type, value)

    def snapshot_controls(
        self, kraft_version: int, voters: VoterSet | None
    ) -> tuple[ControlRecord, ...]:
        """Return nothing: the voters are static."""
        return ()

    def put_state(self, effect: PersistElection) -> tuple[Any, int]:
        """Return quorum-state; voters stand in it for people to read."""
        state = effect.state
        data = QuorumStateData(
            leader_id=state.leader_id,
            leader_epoch=state.epoch,
            voted_id=NONE if state.voted is None else state.voted.id,
            current_voters=[QuorumStateData.Voter(voter_id=id) for id in effect.voter_ids],
        )
        return data, VERSION

    def get_state(self, state: Any, version: int) -> StoredState:
        """Return what quorum-state says; ValueError for an epoch below 0."""
        if state.leader_epoch < 0:
            raise ValueError(f"quorum-state has epoch {state.leader_epoch}; epochs start at 0")
        voted = ReplicaKey(state.voted_id) if state.voted_id >= 0 else None
        return StoredState(ElectionState(state.leader_epoch, state.leader_id, voted))


__all__ = [
    "CHECK_QUORUM",
    "LEADER_REFUSES",
    "OWN_WORD",
    "PRE_VOTE",
    "PRE_VOTES_ALONE",
    "Kip996Profile",
]
