"""Vote 0-1, BeginQuorumEpoch 0, EndQuorumEpoch 0 (KIP-853's first draft, "Vote").

Version 1 of Vote names the candidate and the voter by id, at the top, and by uuid; one without the
voter's id fails as a whole. No answer says where the leader is: its id is all.
"""

from __future__ import annotations

from functools import partial

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kip_853 import (
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
    get_vote_reply,
    put_vote_reply,
    refused_vote,
)
from kraftspec.reference.profiles.common.translation import (
    PARTITION,
    TOPIC,
    Translation,
    only_partition,
)
from kraftspec.reference.raft.messages import Vote
from kraftspec.reference.raft.types import NONE
from kraftspec.reference.wire.apis import Api


def _put_vote(request: Vote, version: int) -> VoteRequest:
    partition = VoteRequest.PartitionData(
        partition_index=PARTITION,
        candidate_epoch=request.epoch,
        last_offset_epoch=request.last_epoch,
        last_offset=request.end_offset,
    )
    message = VoteRequest(
        cluster_id=request.cluster_id,
        topics=[VoteRequest.TopicData(topic_name=TOPIC, partitions=[partition])],
    )
    if version == 0:
        partition.candidate_id = request.replica_id
        return message
    message.candidate_id = request.replica_id
    message.voter_id = request.voter_id
    partition.candidate_uuid = request.replica_directory_id
    partition.voter_uuid = request.voter_directory_id
    return message


def _get_vote(message: VoteRequest, version: int) -> Vote:
    partition = only_partition(message.topics)
    if partition is None:
        return refused_vote(message.cluster_id)
    names_keys = version > 0
    is_unnamed = names_keys and message.voter_id < 0
    return Vote(
        cluster_id=message.cluster_id,
        refused=ErrorCode.INVALID_VOTER_KEY if is_unnamed else 0,
        epoch=partition.candidate_epoch,
        replica_id=message.candidate_id if names_keys else partition.candidate_id,
        replica_directory_id=partition.candidate_uuid if names_keys else ZERO_UUID,
        voter_id=message.voter_id if names_keys else NONE,
        voter_directory_id=partition.voter_uuid if names_keys else ZERO_UUID,
        last_epoch=partition.last_offset_epoch,
        end_offset=partition.last_offset,
    )


VOTE = Translation(
    Api.of(VoteRequest, VoteResponse),
    Vote,
    _put_vote,
    _get_vote,
    partial(put_vote_reply, VoteResponse),
    get_vote_reply,
)

BEGIN_EPOCH = begin_epoch(BeginQuorumEpochRequest, BeginQuorumEpochResponse)
END_EPOCH = end_epoch(EndQuorumEpochRequest, EndQuorumEpochResponse)
