"""Decoding bytes written by hand: what each error says, and what Kafka's laxness makes of them."""

from __future__ import annotations

import tracemalloc
from array import array
from typing import Any

import pytest

from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.types import Uuid
from kraftspec.generated.kafka import ApiVersionsRequest, BeginQuorumEpochRequest, VoteRequest

from .messages import by_interpreter, by_straight_line, field, message, tagged

E = ErrorClass
INNER = [field("X", "int8"), field("Y", "string")]

# VoteRequest v2, written by hand: offset of each primitive on the left.
VOTE = bytes.fromhex(
    "0263"                              # 0 clusterId "c"
    "00000007"                          # 2 voterId
    "02"                                # 6 topics: one
    "0274"                              # 7 topicName "t"
    "02"                                # 9 partitions: one
    "00000001" "00000002" "00000003"    # 10, 14, 18 partitionIndex, replicaEpoch, replicaId
    "000102030405060708090a0b0c0d0e0f"  # 22 replicaDirectoryId
    "101112131415161718191a1b1c1d1e1f"  # 38 voterDirectoryId
    "00000004" "0000000000000005"       # 54, 58 lastOffsetEpoch, lastOffset
    "01"                                # 66 preVote
    "00" "00" "00"                      # 67, 68, 69 no tagged fields of partition, topic, request
)  # fmt: skip
IN_PARTITION = "topics[0].partitions[0]"
VOTE_FIELDS = [  # (first byte, end of the length or count, end of all that it promises, path)
    (0, 1, 2, "clusterId"), (2, 6, 6, "voterId"), (6, 7, 8, "topics"),
    (7, 8, 9, "topics[0].topicName"), (9, 10, 11, "topics[0].partitions"),
    (10, 14, 14, f"{IN_PARTITION}.partitionIndex"), (14, 18, 18, f"{IN_PARTITION}.replicaEpoch"),
    (18, 22, 22, f"{IN_PARTITION}.replicaId"), (22, 38, 38, f"{IN_PARTITION}.replicaDirectoryId"),
    (38, 54, 54, f"{IN_PARTITION}.voterDirectoryId"),
    (54, 58, 58, f"{IN_PARTITION}.lastOffsetEpoch"), (58, 66, 66, f"{IN_PARTITION}.lastOffset"),
    (66, 67, 67, f"{IN_PARTITION}.preVote"), (67, 68, 68, IN_PARTITION), (68, 69, 69, "topics[0]"),
    (69, 70, 70, ""),
]  # fmt: skip

# BeginQuorumEpochRequest v0, not flexible.
BEGIN = bytes.fromhex(
    "0001" "63"                         # 0 clusterId "c"
    "00000001"                          # 3 topics: one
    "0001" "74"                         # 7 topicName "t"
    "00000001"                          # 10 partitions: one
    "00000001" "00000002" "00000003"    # 14, 18, 22 partitionIndex, leaderId, leaderEpoch
)  # fmt: skip
BEGIN_FIELDS = [
    (0, 2, 3, "clusterId"), (3, 7, 8, "topics"), (7, 9, 10, "topics[0].topicName"),
    (10, 14, 15, "topics[0].partitions"), (14, 18, 18, f"{IN_PARTITION}.partitionIndex"),
    (18, 22, 22, f"{IN_PARTITION}.leaderId"), (22, 26, 26, f"{IN_PARTITION}.leaderEpoch"),
]  # fmt: skip


def vote() -> VoteRequest:
    return VoteRequest(
        cluster_id="c",
        voter_id=7,
        topics=[
            VoteRequest.TopicData(
                topic_name="t",
                partitions=[
                    VoteRequest.PartitionData(
                        partition_index=1,
                        replica_epoch=2,
                        replica_id=3,
                        replica_directory_id=Uuid(bytes(range(16))),
                        voter_directory_id=Uuid(bytes(range(16, 32))),
                        last_offset_epoch=4,
                        last_offset=5,
                        pre_vote=True,
                    )
                ],
            )
        ],
    )


def refusal(cls: Any, data: Any, version: int = 0, **options: Any) -> CodecError:
    with pytest.raises(CodecError) as caught:
        cls.decode(data, version, **options)
    return caught.value


def shown(error: CodecError) -> tuple[ErrorClass, str, int | None]:
    return error.error_class, error.path, error.offset


def test_the_hand_written_messages_are_good() -> None:
    assert VoteRequest.decode(VOTE, 2) == vote()
    assert vote().encode(2) == VOTE
    begin = BeginQuorumEpochRequest.decode(BEGIN, 0)
    assert begin.to_json(0) == {
        "clusterId": "c",
        "topics": [
            {
                "topicName": "t",
                "partitions": [{"partitionIndex": 1, "leaderId": 2, "leaderEpoch": 3}],
            }
        ],
    }


# ------------------------------------------------------------------------------ errors, by class


@pytest.mark.parametrize(
    ("cls", "data", "version", "fields"),
    [(VoteRequest, VOTE, 2, VOTE_FIELDS), (BeginQuorumEpochRequest, BEGIN, 0, BEGIN_FIELDS)],
)
def test_truncated_at_each_byte(
    cls: Any, data: bytes, version: int, fields: list[tuple[int, int, int, str]]
) -> None:
    for length in range(len(data)):
        at, prefix, _, path = next(entry for entry in fields if length < entry[2])
        why = E.TRUNCATED if length < prefix else E.LENGTH_EXCEEDS_INPUT
        for lenient in (False, True):
            error = refusal(cls, data[:length], version, lenient=lenient)
            assert shown(error) == (why, path, at), length
        assert by_straight_line(cls, data[:length], version) is None


TEXT, MAYBE = field("Text", "string"), field("Text", "string", nullableVersions="0+")
BLOB, LOG = field("Blob", "bytes"), field("Log", "records")
COUNTS, NAMES = field("Counts", "[]int32"), field("Names", "[]string")
FLAG, FLAGS = field("Flag", "bool"), field("Flags", "[]bool")
ONE = field("One", "Inner", fields=INNER)
MAYBE_ONE = field("One", "Inner", nullableVersions="0+", fields=INNER)
MANY = field("Many", "[]Inner", fields=INNER)
TAG = tagged(0, "Number", "int32")
TAG_TEXT = tagged(0, "Text", "string")
TAG_ONE = tagged(0, "One", "Inner", nullableVersions="0+", default="null", fields=INNER)
TAG_FLAG = tagged(0, "Flag", "bool")
TAG_V1 = tagged(0, "Number", "int32", versions="1+")
OLD, NEW = "none", "0+"
TOO_LONG = "61" * 32768

TAG_NULL = tagged(0, "One", "Inner", nullableVersions="0+", fields=INNER)
TAG_WORDS = tagged(0, "Names", "[]string", nullableVersions="0+")
NAMES_NULL = field("Names", "[]string", nullableVersions="0+")

READ: list[tuple[Any, str, str, Any]] = [
    (TEXT, OLD, "0000", {"text": ""}),
    (TEXT, NEW, "0100", {"text": ""}),
    (MAYBE, OLD, "ffff", {"text": None}),
    (MAYBE, NEW, "0000", {"text": None}),
    (MAYBE, NEW, "0100", {"text": ""}),
    (LOG, OLD, "00000000", {"log": ""}),
    (NAMES, OLD, "00000002" "0000" "000161", {"names": ["", "a"]}),
    (NAMES_NULL, OLD, "ffffffff", {"names": None}),
    (NAMES_NULL, NEW, "0000", {"names": None}),
    (NAMES_NULL, NEW, "0100", {"names": []}),
    (COUNTS, NEW, "03" "00000001" "ffffffff" "00", {"counts": [1, -1]}),
    (FLAGS, NEW, "03" "0100" "00", {"flags": [True, False]}),
    (ONE, OLD, "ff000161", {"one": {"x": -1, "y": "a"}}),
    (MAYBE_ONE, OLD, "ff", {"one": None}),
    (MAYBE_ONE, OLD, "01" "05000161", {"one": {"x": 5, "y": "a"}}),
    (MAYBE_ONE, NEW, "ff" "00", {"one": None}),
    (MAYBE_ONE, NEW, "01" "05026100" "00", {"one": {"x": 5, "y": "a"}}),
    (MANY, NEW, "03" "05026100" "060100" "00", {"many": [{"x": 5, "y": "a"}, {"x": 6, "y": ""}]}),
    (TAG_NULL, NEW, "01" "0001" "00", {"one": None}),
    (TAG_NULL, NEW, "01" "0005" "01" "05026100", {"one": {"x": 5, "y": "a"}}),
    (TAG_NULL, NEW, "00", {}),
    (TAG_ONE, NEW, "01" "0005" "01" "05026100", {"one": {"x": 5, "y": "a"}}),
    (TAG_WORDS, NEW, "01" "0001" "00", {"names": None}),
    (TAG_WORDS, NEW, "01" "0003" "02" "0261", {"names": ["a"]}),
    (TAG_TEXT, NEW, "02" "0003" "036162" "090100",
     {"text": "ab", "_unknownTaggedFields": [{"tag": 9, "hex": "00"}]}),
    (TAG_V1, NEW, "01" "0500", {"_unknownTaggedFields": [{"tag": 5, "hex": ""}]}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("entry", "flexible", "data", "value"),
    [pytest.param(*case, id=f"{case[2][:16]}-{case[0]['name']}") for case in READ],
)
def test_read(entry: Any, flexible: str, data: str, value: Any) -> None:
    cls = message(entry, flexible=flexible)
    raw = bytes.fromhex(data)
    for read in (
        cls.decode(raw, 0),
        cls.decode(raw, 0, lenient=True),
        by_straight_line(cls, raw, 0),
        by_interpreter(cls, raw, 0),
    ):
        assert read.to_json(0) == value
        assert read.encode(0) == raw


# (field, flexibleVersions, bytes, why, path, offset, what Kafka makes of it: a value or why not)
REFUSED: list[tuple[Any, str, str, ErrorClass, str, int, Any]] = [
    (TEXT, OLD, "0001" "61" "00", E.TRAILING, "", 3, {"text": "a"}),
    (TEXT, NEW, "0261" "00" "ffff", E.TRAILING, "", 3, {"text": "a"}),
    # Null, and lengths below it.
    (TEXT, OLD, "ffff", E.NULL_FOR_NON_NULLABLE, "text", 0, E.NULL_FOR_NON_NULLABLE),
    (TEXT, NEW, "00" "00", E.NULL_FOR_NON_NULLABLE, "text", 0, E.NULL_FOR_NON_NULLABLE),
    (TEXT, OLD, "fffe", E.NEGATIVE_LENGTH, "text", 0, E.NULL_FOR_NON_NULLABLE),
    (MAYBE, OLD, "fffe", E.NEGATIVE_LENGTH, "text", 0, {"text": None}),
    (MAYBE, OLD, "8000", E.NEGATIVE_LENGTH, "text", 0, {"text": None}),
    (BLOB, OLD, "ffffffff", E.NULL_FOR_NON_NULLABLE, "blob", 0, E.NULL_FOR_NON_NULLABLE),
    (BLOB, NEW, "0000", E.NULL_FOR_NON_NULLABLE, "blob", 0, E.NULL_FOR_NON_NULLABLE),
    (BLOB, OLD, "80000000", E.NEGATIVE_LENGTH, "blob", 0, E.NULL_FOR_NON_NULLABLE),
    (LOG, OLD, "ffffffff", E.NULL_FOR_NON_NULLABLE, "log", 0, E.NULL_FOR_NON_NULLABLE),
    (COUNTS, OLD, "ffffffff", E.NULL_FOR_NON_NULLABLE, "counts", 0, E.NULL_FOR_NON_NULLABLE),
    (COUNTS, NEW, "0000", E.NULL_FOR_NON_NULLABLE, "counts", 0, E.NULL_FOR_NON_NULLABLE),
    (COUNTS, OLD, "fffffffe", E.NEGATIVE_LENGTH, "counts", 0, E.NULL_FOR_NON_NULLABLE),
    (NAMES, OLD, "00000002" "000161" "ffff", E.NULL_FOR_NON_NULLABLE, "names[1]", 7,
     E.NULL_FOR_NON_NULLABLE),
    # Lengths and counts of more than there is.
    (TEXT, OLD, "000261", E.LENGTH_EXCEEDS_INPUT, "text", 0, E.LENGTH_EXCEEDS_INPUT),
    (TEXT, NEW, "056100", E.LENGTH_EXCEEDS_INPUT, "text", 0, E.LENGTH_EXCEEDS_INPUT),
    (BLOB, OLD, "7fffffff00", E.LENGTH_EXCEEDS_INPUT, "blob", 0, E.LENGTH_EXCEEDS_INPUT),
    (BLOB, NEW, "ffffffff0700", E.LENGTH_EXCEEDS_INPUT, "blob", 0, E.LENGTH_EXCEEDS_INPUT),
    (LOG, OLD, "0000000200", E.LENGTH_EXCEEDS_INPUT, "log", 0, E.LENGTH_EXCEEDS_INPUT),
    (COUNTS, NEW, "0400000001" "00", E.TRUNCATED, "counts[1]", 5, E.TRUNCATED),
    (COUNTS, OLD, "00000005" "00000001", E.LENGTH_EXCEEDS_INPUT, "counts", 0,
     E.LENGTH_EXCEEDS_INPUT),
    (MANY, OLD, "00000002" "01000161" "02", E.TRUNCATED, "many[1].y", 9, E.TRUNCATED),
    (MANY, OLD, "00000003" "0100", E.LENGTH_EXCEEDS_INPUT, "many", 0, E.LENGTH_EXCEEDS_INPUT),
    (TEXT, OLD, "8000" + TOO_LONG, E.NEGATIVE_LENGTH, "text", 0, E.NULL_FOR_NON_NULLABLE),
    (TEXT, NEW, "818002" + TOO_LONG + "00", E.LENGTH_TOO_LONG, "text", 0, E.LENGTH_TOO_LONG),
    # Varints.
    (TEXT, NEW, "82", E.VARINT_TRUNCATED, "text", 0, E.VARINT_TRUNCATED),
    (TEXT, NEW, "820061" "00", E.NON_MINIMAL_VARINT, "text", 0, {"text": "a"}),
    (TEXT, NEW, "828080800061" "00", E.NON_MINIMAL_VARINT, "text", 0, {"text": "a"}),
    (TEXT, NEW, "82808080800061" "00", E.VARINT_OVERFLOW, "text", 0, E.VARINT_OVERFLOW),
    (MAYBE, NEW, "ffffffffff01" "00", E.VARINT_OVERFLOW, "text", 0, E.VARINT_OVERFLOW),
    # More than an int: Java's wraps to -1, less 1 is -2, which is null; -2^31 less 1 is 2^31-1.
    (MAYBE, NEW, "ffffffff0f" "00", E.VARINT_OVERFLOW, "text", 0, {"text": None}),
    (MAYBE, NEW, "8080808008" "00", E.VARINT_OVERFLOW, "text", 0, E.LENGTH_TOO_LONG),
    (COUNTS, NEW, "8080808008" "00", E.VARINT_OVERFLOW, "counts", 0, E.LENGTH_EXCEEDS_INPUT),
    (COUNTS, NEW, "8100" "00", E.NON_MINIMAL_VARINT, "counts", 0, {"counts": []}),
    (FLAG, NEW, "01" "8000", E.NON_MINIMAL_VARINT, "", 1, {"flag": True}),
    (FLAG, NEW, "01" "80", E.VARINT_TRUNCATED, "", 1, E.VARINT_TRUNCATED),
    # Contents.
    (TEXT, OLD, "0003" "61ff62", E.INVALID_UTF8, "text", 0, {"text": "a\ufffdb"}),
    (TEXT, NEW, "02ff" "00", E.INVALID_UTF8, "text", 0, {"text": "\ufffd"}),
    (TEXT, NEW, "04eda080" "00", E.INVALID_UTF8, "text", 0, {"text": "\ufffd"}),  # a surrogate
    (NAMES, NEW, "03" "0261" "02c3" "00", E.INVALID_UTF8, "names[1]", 3,
     {"names": ["a", "\ufffd"]}),
    (FLAG, OLD, "02", E.INVALID_BOOLEAN, "flag", 0, {"flag": True}),
    (FLAG, NEW, "ff" "00", E.INVALID_BOOLEAN, "flag", 0, {"flag": True}),
    (FLAGS, OLD, "00000002" "0080", E.INVALID_BOOLEAN, "flags[1]", 5, {"flags": [False, True]}),
    (TAG_FLAG, NEW, "01" "0001" "03", E.INVALID_BOOLEAN, "flag", 3, {"flag": True}),
    (MAYBE_ONE, OLD, "00" "05000161", E.INVALID_STRUCT_MARKER, "one", 0,
     {"one": {"x": 5, "y": "a"}}),
    (MAYBE_ONE, NEW, "7f" "050261" "00" "00", E.INVALID_STRUCT_MARKER, "one", 0,
     {"one": {"x": 5, "y": "a"}}),
    (MAYBE_ONE, NEW, "fe" "00", E.INVALID_STRUCT_MARKER, "one", 0, {"one": None}),
    (MAYBE_ONE, OLD, "", E.TRUNCATED, "one", 0, E.TRUNCATED),
    (ONE, NEW, "0582", E.VARINT_TRUNCATED, "one.y", 1, E.VARINT_TRUNCATED),
    (TAG_ONE, NEW, "01" "0005" "02" "050261" "00", E.INVALID_STRUCT_MARKER, "one", 3,
     {"one": {"x": 5, "y": "a"}}),
    # Tagged fields.
    (FLAG, NEW, "01" "02" "0500" "0300", E.TAG_OUT_OF_ORDER, "", 4,
     {"flag": True, "_unknownTaggedFields": [{"tag": 5, "hex": ""}, {"tag": 3, "hex": ""}]}),
    (FLAG, NEW, "01" "02" "0501aa" "0501bb", E.TAG_DUPLICATE, "", 5,
     {"flag": True, "_unknownTaggedFields": [{"tag": 5, "hex": "aa"}, {"tag": 5, "hex": "bb"}]}),
    (TAG, NEW, "02" "000400000001" "000400000002", E.TAG_DUPLICATE, "", 7, {"number": 2}),
    (TAG, NEW, "02" "0500" "000400000001", E.TAG_OUT_OF_ORDER, "", 3,
     {"number": 1, "_unknownTaggedFields": [{"tag": 5, "hex": ""}]}),
    (TAG, NEW, "01" "000500000001" "00", E.TAGGED_SIZE_MISMATCH, "number", 2, {"number": 1}),
    (TAG, NEW, "01" "000300000001", E.TAGGED_SIZE_MISMATCH, "number", 2, {"number": 1}),
    (TAG_TEXT, NEW, "01" "0004" "036162" "00", E.TAGGED_SIZE_MISMATCH, "text", 2, {"text": "ab"}),
    (TAG, NEW, "01" "000900000001", E.LENGTH_EXCEEDS_INPUT, "", 2, {"number": 1}),
    (TAG, NEW, "01" "0004000000", E.LENGTH_EXCEEDS_INPUT, "", 2, E.TRUNCATED),
    (TAG, NEW, "01" "0001" "00", E.TRUNCATED, "number", 3, E.TRUNCATED),
    (FLAG, NEW, "01" "01" "0502aa", E.LENGTH_EXCEEDS_INPUT, "", 3, E.LENGTH_EXCEEDS_INPUT),
    (FLAG, NEW, "01" "02" "0501aa", E.TRUNCATED, "", 5, E.TRUNCATED),
    (FLAG, NEW, "01" "01" "8500" "00", E.NON_MINIMAL_VARINT, "", 2,
     {"flag": True, "_unknownTaggedFields": [{"tag": 5, "hex": ""}]}),
    (FLAG, NEW, "0101" "05" "ffffffff0f", E.VARINT_OVERFLOW, "", 3, E.LENGTH_EXCEEDS_INPUT),
    (TAG_V1, NEW, "01" "000400000001", E.TAG_BELOW_VERSION, "", 1, E.TAG_BELOW_VERSION),
    (TAG_V1, NEW, "02" "0500" "000400000001", E.TAG_OUT_OF_ORDER, "", 3, E.TAG_BELOW_VERSION),
]  # fmt: skip


@pytest.mark.parametrize(
    ("entry", "flexible", "data", "why", "path", "offset", "lax"),
    [pytest.param(*case, id=f"{case[2][:16]}-{case[0]['name']}-{case[3]}") for case in REFUSED],
)
def test_refused(
    entry: Any, flexible: str, data: str, why: ErrorClass, path: str, offset: int, lax: Any
) -> None:
    cls = message(entry, flexible=flexible)
    raw = bytes.fromhex(data)
    assert shown(refusal(cls, raw)) == (why, path, offset)
    assert by_straight_line(cls, raw, 0) is None
    if isinstance(lax, ErrorClass):
        assert refusal(cls, raw, lenient=True).error_class is lax
    else:
        assert cls.decode(raw, 0, lenient=True).to_json(0) == lax


def test_every_class_of_a_message_is_shown() -> None:
    of_messages = {
        E.TRUNCATED, E.TRAILING, E.NEGATIVE_LENGTH, E.LENGTH_EXCEEDS_INPUT, E.VARINT_OVERFLOW,
        E.VARINT_TRUNCATED, E.NON_MINIMAL_VARINT, E.TAG_OUT_OF_ORDER, E.TAG_DUPLICATE,
        E.TAG_BELOW_VERSION, E.TAGGED_SIZE_MISMATCH, E.INVALID_UTF8, E.INVALID_BOOLEAN,
        E.INVALID_STRUCT_MARKER, E.NULL_FOR_NON_NULLABLE, E.LENGTH_TOO_LONG,
    }  # fmt: skip
    assert {case[3] for case in REFUSED} == of_messages


def test_a_tag_in_a_struct_names_the_struct() -> None:
    cls = message(MANY, flexible="0+")
    raw = bytes.fromhex("020101020500030000")
    assert shown(refusal(cls, raw)) == (E.TAG_OUT_OF_ORDER, "many[0]", 6)


@pytest.mark.parametrize("version", [-1, 3, 1.5, "2", None, [2]])
def test_unsupported_version(version: Any) -> None:
    for lenient in (False, True):
        error = refusal(VoteRequest, VOTE, version, lenient=lenient)
        assert shown(error) == (E.UNSUPPORTED_VERSION, "", None)
        assert error.detail == f"VoteRequest has versions 0 to 2, not {version!r}"


def test_a_message_without_versions() -> None:
    cls = message(versions="none", flexible="none")
    error = refusal(cls, b"", 0)
    assert error.detail == "Sample has versions none, not 0"


def test_what_an_error_says() -> None:
    error = refusal(VoteRequest, VOTE[:12], 2)
    assert str(error) == (
        "topics[0].partitions[0].partitionIndex at byte 10: "
        "int32 takes 4 bytes, 2 are left [truncated]"
    )
    assert str(refusal(VoteRequest, VOTE + b"x", 2)) == (
        "message at byte 70: 1 bytes follow the message [trailing]"
    )
    assert isinstance(error, ValueError)


# ------------------------------------------------------------------------------ claims of memory

SIXTEEN = [field(f"F{number}", "int64") for number in range(16)]
CLAIMS = ["int8", "int64", "float64", "bool", "uuid", "string", "bytes"]


@pytest.mark.parametrize("flexible", [OLD, NEW])
@pytest.mark.parametrize("element", [*CLAIMS, "Inner"])
def test_a_claim_of_two_thousand_million_elements_costs_nothing(
    element: str, flexible: str
) -> None:
    more: dict[str, Any] = {"fields": SIXTEEN} if element == "Inner" else {}
    cls = message(field("Many", f"[]{element}", **more), flexible=flexible)
    claim = bytes.fromhex("7fffffff" if flexible == OLD else "ffffffff07") + bytes(1000)
    cls.CODEC.decoders  # noqa: B018 - loads the rendered code
    refusal(cls, claim)
    tracemalloc.start()
    try:
        error = refusal(cls, claim)
        refusal(cls, claim, lenient=True)
        assert by_straight_line(cls, claim, 0) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert shown(error) == (E.LENGTH_EXCEEDS_INPUT, "many", 0)
    assert peak < 100_000


@pytest.mark.parametrize(
    ("entry", "data"),
    [
        (BLOB, "ffffffff07"),  # a blob of 2^31-2 bytes
        (tagged(0, "Blob", "bytes"), "0100ffffffff07ffffffff07"),
        (tagged(0, "Blob", "bytes"), "ffffffff07"),  # as many tags
        (tagged(0, "Blob", "bytes"), "0105ffffffff07"),  # an unknown tag of that size
    ],
)
def test_other_claims_cost_nothing_either(entry: Any, data: str) -> None:
    cls = message(entry)
    claim = bytes.fromhex(data) + bytes(1000)
    refusal(cls, claim)
    tracemalloc.start()
    try:
        refusal(cls, claim)
        refusal(cls, claim, lenient=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


# --------------------------------------------------------------------------------------- inputs


def test_any_contiguous_buffer_is_read() -> None:
    class Octets(bytes):
        pass

    around = b"xx" + VOTE + b"yyy"
    inputs: list[Any] = [
        VOTE, bytearray(VOTE), memoryview(VOTE), memoryview(bytearray(VOTE)), Octets(VOTE),
        memoryview(around)[2:-3], array("B", VOTE), memoryview(VOTE).cast("c"),
        array("h", VOTE), memoryview(array("b", VOTE)), memoryview(VOTE).cast("B", (7, 10)),
    ]  # fmt: skip
    for data in inputs:
        assert VoteRequest.decode(data, 2) == vote()
        assert VoteRequest.decode(data, 2, copy=True) == vote()
        assert VoteRequest.decode(data, 2, lenient=True) == vote()
        assert VoteRequest.decode_from(data, 0, 2) == (vote(), len(VOTE))
        assert by_interpreter(VoteRequest, bytes(memoryview(data).cast("B")), 2) == vote()


def test_what_is_no_contiguous_buffer_is_refused() -> None:
    released = memoryview(VOTE)
    released.release()
    inputs = [
        memoryview(VOTE * 2)[::2], memoryview(VOTE)[::-1], released, VOTE.hex(), None, 70,
        list(VOTE), object(), vote(),
    ]  # fmt: skip
    for data in inputs:
        error = refusal(VoteRequest, data, 2)
        assert shown(error) == (E.WRONG_TYPE, "", 0)
        assert error.detail == f"contiguous bytes wanted, not {type(data).__name__}"


def test_the_input_may_be_empty() -> None:
    """ApiVersionsRequest v0 has no field: it is nothing at all."""
    for data in (b"", bytearray(), memoryview(b"")):
        assert ApiVersionsRequest.decode(data, 0) == ApiVersionsRequest()
    assert shown(refusal(ApiVersionsRequest, b"\0", 0)) == (E.TRAILING, "", 0)
    assert ApiVersionsRequest().encode(0) == b""
