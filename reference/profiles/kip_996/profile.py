"""Between the core's messages and KIP-996's bytes, and the policy of its draft."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kip_996 import QuorumStateData
from kraftspec.reference.profiles.common.profile import ProfileBase, put_static_state
from kraftspec.reference.profiles.kip_996 import translation
from kraftspec.reference.profiles.kip_996.policy import (
    CHECK_QUORUM,
    FIXES,
    LEADER_REFUSES,
    OWN_WORD,
    PRE_VOTE,
    PRE_VOTES_ALONE,
    DraftPolicy,
)
from kraftspec.reference.raft.control import ControlRecord
from kraftspec.reference.raft.effects import PersistElection
from kraftspec.reference.raft.messages import Bytes, Reply, Request, Vote
from kraftspec.reference.raft.profile import StoredState
from kraftspec.reference.raft.types import ElectionState, ReplicaKey
from kraftspec.reference.raft.voters import VoterSet

VERSION = 0  # Of quorum-state: there is no other.


class Kip996Profile(ProfileBase):
    """Vote with PreVote in answers; ``without`` names the ``fixes`` that it does without."""

    name = "kip-996"
    state_message = QuorumStateData
    fixes: Mapping[str, str] = FIXES
    policy_without = DraftPolicy
    translations = (
        translation.VOTE,
        translation.BEGIN_EPOCH,
        translation.END_EPOCH,
        translation.FETCH,
        translation.FETCH_SNAPSHOT,
        translation.DESCRIBE_QUORUM,
        translation.API_VERSIONS,
    )

    encode_control = staticmethod(translation.encode_control)
    decode_control = staticmethod(translation.decode_control)

    def decode_reply(self, request: Request, version: int, body: Bytes) -> Reply:
        """Return what an answer says; one to another kind of vote than was asked for says nothing.

        That is what PreVote in the response is for: which of the two was granted.
        """
        reply = super().decode_reply(request, version, body)
        if isinstance(request, Vote) and version >= translation.PRE_VOTE_FROM:
            answers_pre_vote = translation.answers_pre_vote(body, version)
            if answers_pre_vote not in (None, request.pre_vote):
                return type(reply)(top_error=ErrorCode.INVALID_REQUEST)
        return reply

    def snapshot_controls(
        self, kraft_version: int, voters: VoterSet | None
    ) -> tuple[ControlRecord, ...]:
        """Return nothing: the voters are static."""
        return ()

    def put_state(self, effect: PersistElection) -> tuple[Any, int]:
        """Return quorum-state; voters stand in it for people to read."""
        return put_static_state(QuorumStateData, effect), VERSION

    def get_state(self, state: Any, version: int) -> StoredState:
        """Return what quorum-state says; ValueError for an epoch below 0."""
        if state.leader_epoch < 0:
            raise ValueError(f"quorum-state has epoch {state.leader_epoch}; epochs start at 0")
        voted = ReplicaKey(state.voted_id) if state.voted_id >= 0 else None
        return StoredState(ElectionState(state.leader_epoch, state.leader_id, voted))


PROFILE = Kip996Profile

__all__ = [
    "CHECK_QUORUM",
    "LEADER_REFUSES",
    "OWN_WORD",
    "PRE_VOTE",
    "PRE_VOTES_ALONE",
    "Kip996Profile",
]
