"""What a message class offers beside its bytes: buffers, views, copies, headers, lazy imports."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import uuid
from array import array
from importlib import import_module
from typing import Any

import pytest

from kraftspec import generated
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.message import PART_BYTES_MIN, Codec
from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.generated import kafka
from kraftspec.generated.kafka import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    FetchResponse,
    FetchSnapshotResponse,
    LeaderChangeMessage,
    ProduceRequest,
    RequestHeader,
    ResponseHeader,
    VoteRequest,
    VoteResponse,
    VotersRecord,
)

METADATA_TOPIC_ID = Uuid(bytes(15) + b"\x01")

# VoteRequest v2 with null, -1, no topics, no tags; with cluster "c" and an unknown tag 9.
EMPTY = bytes.fromhex("00ffffffff0100")
NAMED = bytes.fromhex("0263ffffffff01010902abcd")
# ProduceRequest v9: no transactional id, acks -1, timeout 1 s, topic "t", partition 0, 4 bytes.
PRODUCE = bytes.fromhex("00ffff000003e8020274020000000005deadbeef000000")


def produce_records(request: ProduceRequest) -> Any:
    return request.topic_data[0].partition_data[0].records


# -------------------------------------------------------------------------------------- buffers


def test_encode_into_returns_the_end() -> None:
    buffer = bytearray(b"\xee" * 12)
    assert VoteRequest().encode_into(buffer, 3, 2) == 3 + len(EMPTY)
    assert buffer == b"\xee\xee\xee" + EMPTY + b"\xee\xee"
    view = memoryview(buffer)
    assert VoteRequest().encode_into(view, 5, 2) == 12
    assert buffer[5:] == EMPTY
    assert VoteRequest().encode_into(bytearray(7), 0, 2) == 7


@pytest.mark.parametrize(("size", "offset"), [(6, 0), (12, 6), (12, 12), (0, 0), (12, -7), (9, 99)])
def test_encode_into_a_buffer_without_room(size: int, offset: int) -> None:
    buffer = bytearray(size)
    with pytest.raises(CodecError) as caught:
        VoteRequest().encode_into(buffer, offset, 2)
    assert caught.value.error_class is ErrorClass.LENGTH_TOO_LONG
    assert caught.value.detail == f"7 bytes do not fit from byte {offset} of a buffer of {size}"
    assert buffer == bytes(size)  # which did not grow either


@pytest.mark.parametrize("buffer", [memoryview(bytes(20)), memoryview(array("i", [0] * 20))])
def test_encode_into_what_is_not_writable_bytes(buffer: Any) -> None:
    with pytest.raises(CodecError) as caught:
        VoteRequest().encode_into(buffer, 0, 2)
    assert caught.value.error_class is ErrorClass.WRONG_TYPE


def test_encode_into_refuses_what_encode_refuses() -> None:
    buffer = bytearray(b"\xee" * 20)
    with pytest.raises(CodecError, match="voterId"):
        VoteRequest(voter_id=1 << 40).encode_into(buffer, 0, 2)
    assert buffer == b"\xee" * 20


@pytest.mark.parametrize("lenient", [False, True])
def test_decode_from_returns_the_end(lenient: bool) -> None:
    data = b"xxx" + NAMED + EMPTY + b"yy"
    for value in (data, bytearray(data), memoryview(data)):
        first, at = VoteRequest.decode_from(value, 3, 2, lenient=lenient)
        assert (first.cluster_id, at) == ("c", 3 + len(NAMED))
        second, at = VoteRequest.decode_from(value, at, 2, lenient=lenient)
        assert (second, at) == (VoteRequest(), len(data) - 2)


def test_decode_from_names_offsets_of_the_whole_input() -> None:
    with pytest.raises(CodecError) as caught:
        VoteRequest.decode_from(b"xxx" + NAMED[:5], 3, 2)
    assert (caught.value.path, caught.value.offset) == ("voterId", 5)


@pytest.mark.parametrize(("offset", "shown"), [(-1, 0), (8, 8), (1 << 70, 1 << 70)])
def test_decode_from_outside_the_input(offset: int, shown: int) -> None:
    with pytest.raises(CodecError) as caught:
        VoteRequest.decode_from(EMPTY, offset, 2)
    assert (caught.value.error_class, caught.value.offset) == (ErrorClass.TRUNCATED, shown)
    assert caught.value.detail == "the input has 7 bytes"


def test_decode_from_does_not_read_past_the_end() -> None:
    """The last field is text whose length is more than what is left."""
    cut = bytes.fromhex("00056162")
    with pytest.raises(CodecError) as caught:
        kafka.SaslHandshakeRequest.decode_from(cut, 0, 0)
    assert (caught.value.error_class, caught.value.path, caught.value.offset) == (
        ErrorClass.LENGTH_EXCEEDS_INPUT, "mechanism", 0
    )  # fmt: skip


def test_encode_parts_does_not_copy_what_is_large() -> None:
    records = bytes(range(256)) * 16
    assert len(records) == PART_BYTES_MIN
    request = ProduceRequest.decode(PRODUCE, 9)
    partition = request.topic_data[0].partition_data[0]
    large: Any
    for large in (records, bytearray(records), memoryview(b"x" + records)[1:]):
        partition.records = large
        head, piece, tail = request.encode_parts(9)
        assert b"".join((head, piece, tail)) == request.encode(9)
        assert type(head) is type(tail) is bytes
        if isinstance(large, bytes):
            assert piece is large
        else:
            assert isinstance(piece, memoryview)
            assert piece.obj is (large.obj if isinstance(large, memoryview) else large)
    partition.records = records[1:]
    assert request.encode_parts(9) == [request.encode(9)]


def test_encode_parts_refuses_what_encode_refuses() -> None:
    with pytest.raises(CodecError, match="voterId"):
        VoteRequest(voter_id=1 << 40).encode_parts(2)
    with pytest.raises(CodecError, match="versions 0 to 2, not 3"):
        VoteRequest().encode_parts(3)


# ---------------------------------------------------------------------------------------- views


def test_records_are_a_view_of_the_input() -> None:
    data = bytearray(PRODUCE)
    request = ProduceRequest.decode(data, 9)
    records = produce_records(request)
    assert isinstance(records, memoryview)
    assert bytes(records) == b"\xde\xad\xbe\xef"
    data[PRODUCE.index(b"\xde\xad")] = 0x00
    assert bytes(records) == b"\x00\xad\xbe\xef"  # not a copy
    assert request.encode(9) == data
    assert produce_records(ProduceRequest.decode(PRODUCE, 9)).obj is PRODUCE
    inside = memoryview(b"ab" + PRODUCE)[2:]
    assert produce_records(ProduceRequest.decode(inside, 9)).obj is inside.obj
    lenient = ProduceRequest.decode(data, 9, lenient=True)
    data[PRODUCE.index(b"\xad\xbe")] = 0x01
    assert produce_records(lenient) == b"\x00\x01\xbe\xef"


@pytest.mark.parametrize("lenient", [False, True])
def test_decode_with_copy_keeps_nothing_of_a_mutable_input(lenient: bool) -> None:
    data = bytearray(PRODUCE)
    request = ProduceRequest.decode(data, 9, lenient=lenient, copy=True)
    other, _ = ProduceRequest.decode_from(data, 0, 9, lenient=lenient, copy=True)
    data[:] = bytes(len(data))
    data.clear()  # a view that was left would forbid it: BufferError
    assert produce_records(request) == produce_records(other) == b"\xde\xad\xbe\xef"
    assert request.encode(9) == PRODUCE
    own = produce_records(ProduceRequest.decode(PRODUCE, 9, lenient=lenient, copy=True))
    assert type(own) is bytes


def test_bytes_fields_are_bytes() -> None:
    data = bytearray(kafka.SaslAuthenticateRequest(auth_bytes=b"secret").encode(0))
    read = kafka.SaslAuthenticateRequest.decode(data, 0)
    data[4:] = b"public"
    assert type(read.auth_bytes) is bytes
    assert read.auth_bytes == b"secret"


def test_unknown_tags_are_bytes_too() -> None:
    data = bytearray(NAMED)
    read = VoteRequest.decode(memoryview(data), 2)
    data[-1] = 0
    assert read.unknown_tagged_fields == ((9, b"\xab\xcd"),)
    assert type(read.unknown_tagged_fields[0][1]) is bytes


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_turns_views_into_bytes(protocol: int) -> None:
    request = ProduceRequest.decode(PRODUCE, 9)
    again = pickle.loads(pickle.dumps(request, protocol))
    assert again == request
    assert type(again) is ProduceRequest
    assert type(produce_records(again)) is bytes
    assert isinstance(produce_records(request), memoryview)  # the original is as it was
    assert again.encode(9) == PRODUCE


def test_deep_copies_turn_views_into_bytes() -> None:
    data = bytearray(PRODUCE)
    request = ProduceRequest.decode(data, 9)
    deep = copy.deepcopy(request)
    shallow = copy.copy(request)
    data[PRODUCE.index(b"\xde\xad")] = 0
    assert type(produce_records(deep)) is bytes
    assert produce_records(deep) == b"\xde\xad\xbe\xef"
    assert shallow.topic_data is request.topic_data
    deep.topic_data[0].name = "other"
    assert request.topic_data[0].name == "t"


def test_pickling_keeps_everything_else() -> None:
    value = VotersRecord(voters=[VotersRecord.Voter(
        voter_id=1, voter_directory_id=METADATA_TOPIC_ID,
        endpoints=[VotersRecord.Endpoint(name="A", host="h", port=9093)],
    )], unknown_tagged_fields=((3, b"x"),))  # fmt: skip
    again = pickle.loads(pickle.dumps(value))
    assert again == value
    assert type(again.voters[0]) is VotersRecord.Voter
    assert type(again.voters[0].voter_directory_id) is Uuid


# -------------------------------------------------------------------------------------- equality


def test_equality_is_by_value() -> None:
    one, other = VoteRequest.decode(NAMED, 2), VoteRequest.decode(bytearray(NAMED), 2)
    assert one == other
    other.unknown_tagged_fields = ()
    assert one != other
    empty: list[Any] = [VoteRequest(), VoteResponse(), VoteRequest.TopicData()]
    assert [[one == other for one in empty] for other in empty] == [
        [True, False, False], [False, True, False], [False, False, True],
    ]  # fmt: skip
    view, plain = ProduceRequest.decode(PRODUCE, 9), ProduceRequest.decode(PRODUCE, 9)
    plain.topic_data[0].partition_data[0].records = b"\xde\xad\xbe\xef"
    assert view == plain


def test_a_list_is_equal_to_a_tuple_of_the_same() -> None:
    partition = kafka.MetadataResponse.MetadataResponsePartition
    topic = kafka.MetadataResponse.MetadataResponseTopic

    def message(replicas: Any, kind: Any) -> kafka.MetadataResponse:
        partitions = kind([partition(replica_nodes=replicas)])
        return kafka.MetadataResponse(topics=kind([topic(partitions=partitions)]))

    given = message([1, 2], tuple)
    assert given == kafka.MetadataResponse.decode(given.encode(9), 9) == message((1, 2), list)
    assert given != message([1, 3], tuple)
    assert given != message([1], tuple)
    with pytest.raises(TypeError, match="unhashable"):
        hash(given)


def test_defaults_are_not_shared() -> None:
    one = VoteRequest()
    one.topics.append(VoteRequest.TopicData())
    assert VoteRequest().topics == []
    response = FetchResponse.PartitionData()
    response.diverging_epoch.epoch = 5
    assert FetchResponse.PartitionData().diverging_epoch.epoch == -1
    for _ in range(2):  # the decoder's defaults as well
        read = FetchSnapshotResponse.decode(bytes.fromhex("0000000000000100"), 0)
        assert read.topics == []
        read.topics.append(FetchSnapshotResponse.TopicSnapshot())


def test_unknown_tags_survive() -> None:
    read = VoteRequest.decode(NAMED, 2)
    assert read.encode(2) == NAMED
    assert VoteRequest.from_json(read.to_json(2), 2) == read
    assert read.to_json(2)["_unknownTaggedFields"] == [{"tag": 9, "hex": "abcd"}]


# --------------------------------------------------------------------------------------- headers


@pytest.mark.parametrize(
    ("cls", "version", "header"),
    [
        (VoteRequest, 0, 2),
        (VoteResponse, 0, 1),
        (BeginQuorumEpochRequest, 0, 1),
        (BeginQuorumEpochResponse, 0, 0),
        (BeginQuorumEpochRequest, 1, 2),
        (BeginQuorumEpochResponse, 1, 1),
        (ApiVersionsRequest, 2, 1),
        (ApiVersionsRequest, 3, 2),
        (ApiVersionsResponse, 2, 0),
        (ApiVersionsResponse, 3, 0),  # flexible, but the client cannot know (KIP-511)
        (ApiVersionsResponse, 4, 0),
        (kafka.SaslHandshakeRequest, 1, 1),  # never flexible
        (kafka.SaslHandshakeResponse, 1, 0),
    ],
)
def test_header_versions(cls: Any, version: int, header: int) -> None:
    assert cls.header_version(version) == header


def test_header_versions_of_drafts() -> None:
    for name in ("kip_595", "kip_853", "kip_996"):
        package: Any = import_module(f"kraftspec.generated.{name}")
        assert package.ApiVersionsResponse.header_version(3) == 0
        assert package.VoteRequest.header_version(0) == 2


def test_what_has_no_header() -> None:
    with pytest.raises(CodecError, match="VotersRecord is a data: it has no header"):
        VotersRecord.header_version(0)
    with pytest.raises(CodecError, match="VoteRequest has versions 0 to 2, not 3"):
        VoteRequest.header_version(3)


def test_the_client_id_of_a_header_is_never_compact() -> None:
    header = RequestHeader(
        request_api_key=52, request_api_version=2, correlation_id=7, client_id="raft"
    )
    fixed = "0034000200000007"
    assert header.encode(1).hex() == fixed + "0004" + b"raft".hex()
    assert header.encode(2).hex() == fixed + "0004" + b"raft".hex() + "00"  # still an int16
    header.client_id = None
    assert header.encode(2).hex() == fixed + "ffff" + "00"
    assert RequestHeader.decode(header.encode(2), 2) == header
    assert ResponseHeader(correlation_id=7).encode(0).hex() == "00000007"
    assert ResponseHeader(correlation_id=7).encode(1).hex() == "0000000700"


def test_class_facts() -> None:
    assert (VoteRequest.API_KEY, VoteRequest.TYPE) == (52, "request")
    assert [*VoteRequest.VALID_VERSIONS] == [0, 1, 2]
    assert [*BeginQuorumEpochRequest.FLEXIBLE_VERSIONS] == [1]
    assert [*kafka.SaslHandshakeRequest.FLEXIBLE_VERSIONS] == []
    assert (LeaderChangeMessage.API_KEY, LeaderChangeMessage.TYPE) == (None, "data")
    assert kafka.CATALOGUE["VoteRequest"] == ("vote_request", "request", 52, 0, 3, 0)


# ----------------------------------------------------------------------------------------- uuids


def test_uuid_text_is_kafkas() -> None:
    assert str(METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert repr(ZERO_UUID) == "Uuid('AAAAAAAAAAAAAAAAAAAAAA')"
    both = Uuid(bytes.fromhex("fbefbe" * 5 + "ff"))
    assert str(both) == "--" + str(both)[2:]
    assert str(Uuid(b"\xff" * 16)) == "_" * 21 + "w"
    for value in (ZERO_UUID, METADATA_TOPIC_ID, both, Uuid.random()):
        assert Uuid.parse(str(value)) == value
        assert len(str(value)) == 22


@pytest.mark.parametrize(
    "text", ["", "AAAA", "A" * 23, "AAAAAAAAAAAAAAAAAAAAA!", "é" * 22, "A" * 24, None, 5]
)
def test_uuid_of_bad_text(text: Any) -> None:
    with pytest.raises(ValueError, match="uuid"):
        Uuid.parse(text)


def test_uuid_is_bytes() -> None:
    raw = bytes(range(16))
    value = Uuid(raw)
    assert value == raw
    assert hash(value) == hash(raw)
    assert {value: 1}[raw] == 1  # type: ignore[index]  # a Uuid stands for its bytes
    assert value.to_uuid() == uuid.UUID(bytes=raw)
    assert Uuid(uuid.UUID(bytes=raw)) == value
    assert Uuid() == bytes(16)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(value, protocol))
        assert (again, type(again)) == (value, Uuid)
    assert type(copy.deepcopy(value)) is Uuid
    with pytest.raises(ValueError, match="a uuid is 16 bytes, not 15"):
        Uuid(bytes(15))


def test_random_uuids_are_of_version_4_and_do_not_look_like_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = {Uuid.random() for _ in range(200)}
    assert len(drawn) == 200
    assert {value.to_uuid().version for value in drawn} == {4}
    assert not any(str(value).startswith("-") for value in drawn)
    # Sixteen bytes that begin with 0xf8 would begin with a dash in base64.
    answers = [b"\xf8" + bytes(15), b"\x01" + bytes(15)]
    monkeypatch.setattr("kraftspec.fastpath.types.os.urandom", lambda _: answers.pop(0))
    assert Uuid.random()[0] == 1
    assert answers == []


# ---------------------------------------------------------------------------------------- errors


def test_errors_travel() -> None:
    error = CodecError(ErrorClass.TRUNCATED, "int32 takes 4 bytes", path="a[0].b", offset=7)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert str(again) == str(error) == "a[0].b at byte 7: int32 takes 4 bytes [truncated]"
        assert (again.error_class, again.path, again.offset) == (ErrorClass.TRUNCATED, "a[0].b", 7)
        assert again.detail == "int32 takes 4 bytes"
    assert str(CodecError(ErrorClass.WRONG_TYPE, "no")) == "message: no [wrong_type]"
    assert str(CodecError(ErrorClass.TRAILING, "x", offset=0)) == "message at byte 0: x [trailing]"


# ---------------------------------------------------------------------------------- lazy imports

LAZY = """
import sys
import msgspec
from kraftspec.generated.kafka import VoteRequest
assert VoteRequest(voter_id=5).encode(2)
loaded = set(sys.modules)
VoteRequest.decode(VoteRequest().encode(2), 2)
others = {name for name in loaded if name.startswith("kraftspec.generated.kafka.")}
pure = {"kraftspec.generated.kafka.pure", "kraftspec.generated.kafka.pure.vote_request"}
from kraftspec.fastpath import native
needed = set() if native.describe() == "native" else pure
assert others == {"kraftspec.generated.kafka.vote_request"} | needed, others
heavy = {"jinja2", "jsonschema", "asyncio", "click", "rich", "watchfiles", "kraftspec.codegen",
         "kraftspec.conformance", "kraftspec.cli", "kraftspec.fastpath.interpret",
         "kraftspec.fastpath.values"}
assert not heavy & loaded, heavy & loaded
"""


def run_python(program: str, pure: bool) -> None:
    environment = {**os.environ, "KRAFTSPEC_PURE": "1"} if pure else None
    subprocess.run([sys.executable, "-c", program], check=True, timeout=600, env=environment)


@pytest.mark.parametrize("pure", [False, True])
def test_a_message_loads_no_more_than_it_needs(pure: bool) -> None:
    run_python(LAZY, pure)


def test_the_straight_line_code_is_loaded_by_its_first_use() -> None:
    program = """
import sys
from kraftspec.generated.kafka import VoteRequest, VoteResponse
VoteRequest(), VoteRequest.CODEC.plans, VoteRequest.header_version(0)
assert "kraftspec.generated.kafka.pure" not in sys.modules
VoteResponse().encode(0)
assert "kraftspec.generated.kafka.pure.vote_response" in sys.modules
assert "kraftspec.generated.kafka.pure.vote_request" not in sys.modules
"""
    run_python(program, pure=True)


def test_straight_line_code_that_is_missing_is_no_reason_to_be_slow() -> None:
    """Its absence is an error, not a message that the interpreter would decode ten times slower."""
    codec = Codec("kraftspec.no_such_module", (), (), {0: 0})
    with pytest.raises(ModuleNotFoundError):
        codec.encoders  # noqa: B018 - the look-up is the test
    with pytest.raises(AttributeError, match="other"):
        codec.other  # noqa: B018 - the look-up is the test


def test_a_package_lists_its_messages() -> None:
    listed = dir(kafka)
    assert len([name for name in listed if name != "CATALOGUE"]) == 286
    assert {"VoteRequest", "CATALOGUE"} <= set(listed)
    assert set(kafka.__all__) == set(kafka.CATALOGUE)  # type: ignore[attr-defined]  # no stub
    with pytest.raises(
        AttributeError, match=r"module 'kraftspec\.generated\.kafka' has no message"
    ):
        kafka.NoSuchRequest  # type: ignore[attr-defined]  # noqa: B018 - the look-up is the test
    assert generated.__doc__


@pytest.mark.parametrize("method", ["encode", "encode_parts", "to_json"])
def test_a_version_that_is_not_given_is_named(method: str) -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'version'"):
        getattr(VoteRequest(), method)()


def test_a_decode_without_a_version_names_it() -> None:
    decode: Any = VoteRequest.decode
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'version'"):
        decode(b"")
