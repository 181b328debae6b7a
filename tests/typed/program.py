"""A program of a user, for type checkers: what the public names take and give."""

from pathlib import Path
from typing import Any, assert_type

from kraftspec.fastpath import LogAppender, RecordBatch, decode_batch, encode_batch
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.records import Compression, Record
from kraftspec.fastpath.types import Uuid
from kraftspec.generated.kafka import FetchResponse, VoteRequest, VoteResponse
from kraftspec.pipeline import scan
from kraftspec.reference.wire.frames import RequestHead, read_request, read_response

partition = VoteRequest.PartitionData(replica_id=1, replica_epoch=7, last_offset=42)
topic = VoteRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])
vote = VoteRequest(voter_id=2, topics=[topic])
data = vote.encode(2)

assert_type(data, bytes)
assert_type(VoteRequest.decode(data, 2), VoteRequest)
assert_type(VoteRequest.decode_from(data, 0, 2), tuple[VoteRequest, int])
assert_type(vote.topics, list[VoteRequest.TopicData])
assert_type(vote.topics[0].partitions[0].last_offset, int)
assert_type(vote.cluster_id, str | None)
assert_type(VoteRequest.header_version(2), int)
assert_type(FetchResponse().responses[0].topic_id, Uuid)
assert_type(read_request(data), tuple[RequestHead, Message])
assert_type(read_response(data, VoteResponse, 2), VoteResponse)

batch = encode_batch([b"value"], timestamps=0, compression=Compression.LZ4)
assert_type(batch, bytes)
assert_type(decode_batch(batch)[0], Record)
assert_type(RecordBatch.decode(batch, 2).records[0].key, bytes | None)

try:
    VoteRequest.from_json({"voterId": 2}, 2)
except CodecError as error:
    assert_type(error.error_class, ErrorClass)
    assert_type(error.path, str)
    assert_type(error.offset, int | None)

with LogAppender(Path("orders.log")) as log:
    assert_type(log.sync(log.append(batch)), int)
logs: Any = scan("logs")

# What must be refused. An ignore that is not needed is an error, too.
VoteRequest(voter_id="2")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
VoteRequest(no_such_field=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
vote.encode("2")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
