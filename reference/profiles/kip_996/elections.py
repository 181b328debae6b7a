"""Vote 0-1, with PreVote in both directions, BeginQuorumEpoch 0 and EndQuorumEpoch 0."""

from __future__ import annotations

from functools import partial

from kraftspec.generated.kip_996 import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from kraftspec.reference.profiles.common.elections import (
    begin_epoch,
    end_epoch,
    get_vote,
    get_vote_reply,
    put_vote,
    put_vote_reply,
)
from kraftspec.reference.profiles.common.translation import Translation, api, only_partition
from kraftspec.reference.raft.messages import Bytes, Vote, VoteReply

PRE_VOTE_FROM = 1


def _put_vote_reply(request: Vote, reply: VoteReply, version: int, listener: str) -> VoteResponse:
    message = put_vote_reply(VoteResponse, request, reply, version, listener)
    for topic in message.topics:
        topic.partitions[0].pre_vote = request.pre_vote and version >= PRE_VOTE_FROM
    return message


def answers_pre_vote(body: Bytes, version: int) -> bool | None:
    """Return what PreVote of a VoteResponse says; None where it is not about this log."""
    partition = only_partition(VoteResponse.decode(body, version).topics)
    return None if partition is None else partition.pre_vote


VOTE = Translation(
    api(VoteRequest),
    Vote,
    VoteRequest,
    VoteResponse,
    partial(put_vote, VoteRequest),
    get_vote,
    _put_vote_reply,
    get_vote_reply,
    lambda request: PRE_VOTE_FROM if request.pre_vote else 0,
)

BEGIN_EPOCH = begin_epoch(BeginQuorumEpochRequest, BeginQuorumEpochResponse)
END_EPOCH = end_epoch(EndQuorumEpochRequest, EndQuorumEpochResponse)
