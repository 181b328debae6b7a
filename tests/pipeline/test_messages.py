"""``decode_message`` over columns of every kind: nulls, versions, chunks, rejected values."""

from __future__ import annotations

import pickle
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.types import Uuid
from kraftspec.generated import kafka
from kraftspec.pipeline.messages import (
    MessageDecodeError,
    arrow_type,
    decode,
    decode_message,
    split_requests,
)
from kraftspec.pipeline.messages.columns import uuid_text

ORDERS = kafka.TopicRecord(name="orders", topic_id=Uuid(b"\xff" * 16)).encode(0)


def names(structs: pa.StructArray) -> list[str | None]:
    return [row and row["name"] for row in structs.to_pylist()]


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(len(ORDERS))], ids=str
)
def test_binary_of_any_kind(kind: pa.DataType) -> None:
    column = pa.array([ORDERS, None, ORDERS], kind)
    assert names(decode_message(column, "TopicRecord", 0)) == ["orders", None, "orders"]
    assert names(decode_message(column.slice(1), kafka.TopicRecord, 0)) == [None, "orders"]


def test_chunks_and_columns_of_nothing() -> None:
    chunks = pa.chunked_array([[ORDERS], [], [None, ORDERS]], pa.binary())
    versions = pa.chunked_array([[0, 0], [0]], pa.int8())
    decoded = decode_message(chunks, "TopicRecord", versions)
    assert isinstance(decoded, pa.StructArray)
    assert names(decoded) == ["orders", None, "orders"]
    for column in (pa.array([], pa.binary()), pa.chunked_array([], pa.binary())):
        none = decode_message(column, "TopicRecord", 0)
        assert (len(none), none.type) == (0, arrow_type("TopicRecord"))
    nulls = decode_message(pa.nulls(2), "TopicRecord", 0, errors=True)
    assert (nulls.null_count, nulls.type) == (2, arrow_type("TopicRecord", errors=True))


def test_large_columns_are_decoded_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [kafka.TopicRecord(name=f"topic-{number}").encode(0) for number in range(100)]
    expected = [f"topic-{number}" for number in range(100)]
    column = pa.array(records)
    monkeypatch.setattr(decode, "PIECE_ROWS_MAX", 7)
    assert names(decode_message(column, "TopicRecord", 0)) == expected
    monkeypatch.setattr(decode, "PIECE_BYTES_MAX", 1)
    assert names(decode_message(column, "TopicRecord", pa.array([0] * 100))) == expected
    broken = pa.array([*records[:31], b"", *records[32:]])
    with pytest.raises(MessageDecodeError, match=r"^row 31: no TopicRecord of version 0: name at"):
        decode_message(broken, "TopicRecord", 0, mode="FAILFAST")


def test_versions_of_rows_and_fields_that_they_lack() -> None:
    votes = [kafka.VoteRequest(voter_id=7).encode(version) for version in (1, 0, 2)]
    decoded = decode_message(pa.array(votes), "VoteRequest", pa.array([1, 0, 2])).to_pylist()
    assert [(row["_version"], row["voterId"]) for row in decoded] == [(1, 7), (0, None), (2, 7)]


def test_what_is_refused_is_null_or_says_why() -> None:
    column = pa.array([ORDERS, ORDERS + b"\0", ORDERS, ORDERS[:3], None])
    versions = pa.array([0, 0, None, 0, 0], pa.int32())
    assert names(decode_message(column, "TopicRecord", versions)) == ["orders"] + [None] * 4
    rows = decode_message(column, "TopicRecord", versions, errors=True).to_pylist()
    assert rows[0]["_error"] is None
    assert rows[4] is None
    assert [row["_error"]["class"] for row in rows[1:4]] == [
        "trailing", "unsupported_version", "length_exceeds_input",
    ]  # fmt: skip
    assert [row["_error"]["position"] for row in rows[1:4]] == [len(ORDERS), None, 0]
    assert rows[3]["_error"]["detail"].startswith("name: ")
    assert [row["_version"] for row in rows[1:4]] == [None] * 3


def test_failfast_names_the_row() -> None:
    column = pa.array([None, ORDERS, b""])
    with pytest.raises(MessageDecodeError) as raised:
        decode_message(column, "TopicRecord", 0, mode="FAILFAST")
    copy = pickle.loads(pickle.dumps(raised.value))
    assert str(copy) == str(raised.value)
    assert (copy.row, copy.error.error_class) == (2, ErrorClass.TRUNCATED)
    assert isinstance(raised.value.__cause__, CodecError)


def test_what_there_is_not_is_refused() -> None:
    column = pa.array([ORDERS])
    with pytest.raises(ValueError, match=r"no message 'TopicRecrd' in kafka; did you mean Topic"):
        decode_message(column, "TopicRecrd", 0)
    with pytest.raises(ValueError, match="no set of specs 'kip-1'"):
        decode_message(column, "TopicRecord", 0, spec_set="kip-1")
    with pytest.raises(ValueError, match="mode 'LAX' is none of PERMISSIVE, FAILFAST"):
        decode_message(column, "TopicRecord", 0, mode=cast("Any", "LAX"))
    with pytest.raises(ValueError, match="decoded from binary, not from string"):
        decode_message(pa.array(["text"]), "TopicRecord", 0)
    with pytest.raises(ValueError, match="1 values and 2 versions"):
        decode_message(column, "TopicRecord", pa.array([0, 0]))


def test_unknown_tags_survive() -> None:
    tagged = kafka.TopicRecord(name="a", unknown_tagged_fields=((5, b"x"), (9, b"")))
    column = pa.array([tagged.encode(0), ORDERS])
    decoded = decode_message(column, "TopicRecord", 0).to_pylist()
    assert [row["_unknownTaggedFields"] for row in decoded] == [[(5, b"x"), (9, b"")], None]


def test_records_are_binary() -> None:
    cls = kafka.ProduceRequest
    parts = [cls.PartitionProduceData(index=number, records=b"batch") for number in range(2)]
    parts.append(cls.PartitionProduceData(records=None))
    topic = cls.TopicProduceData(name="t", partition_data=parts)
    value = cls(acks=1, timeout_ms=1, topic_data=[topic]).encode(9)
    (row,) = decode_message(pa.array([value]), "ProduceRequest", 9).to_pylist()
    (topics,) = row["topicData"]
    assert [one["records"] for one in topics["partitionData"]] == [b"batch", b"batch", None]


@given(st.lists(st.binary(min_size=16, max_size=16)))
def test_uuids_are_kafkas_text(values: list[bytes]) -> None:
    assert uuid_text(values).to_pylist() == [str(Uuid(value)) for value in values]


def refusal(cls: type[Message], value: bytes, version: int) -> str | None:
    try:
        cls.decode(value, version)
    except CodecError as error:
        return error.error_class
    return None


@given(st.lists(st.tuples(st.binary(max_size=60), st.integers(-1, 20)), min_size=1))
def test_no_bytes_are_too_strange(rows: list[tuple[bytes, int]]) -> None:
    column, versions = pa.array([row[0] for row in rows]), pa.array([row[1] for row in rows])
    for name in ("FetchRequest", "MetadataResponse", "PartitionChangeRecord"):
        decoded = decode_message(column, name, versions, errors=True)
        decoded.validate(full=True)
        cls = getattr(kafka, name)
        for (value, version), row in zip(rows, decoded.to_pylist(), strict=True):
            why = refusal(cls, value, version)
            assert (row["_error"] and row["_error"]["class"]) == why
            assert row["_version"] == (None if why else version)


def test_requests_are_split_into_header_and_body() -> None:
    header = kafka.RequestHeader(
        request_api_key=1, request_api_version=17, correlation_id=9, client_id="me"
    )
    fetch = kafka.FetchRequest(max_wait_ms=500)
    good = header.encode(2) + fetch.encode(17)
    old = kafka.RequestHeader(request_api_key=18, correlation_id=1, client_id=None).encode(1)
    frames = pa.array(
        [good, None, old, b"\x00", b"\x7f\xff\x00\x00", b"\x00\x01\x00\x63", good[:9]]
    )
    actual = split_requests(frames)
    first, none, second, *bad = actual.to_pylist()
    assert none is None
    assert (first["message"], first["version"], first["correlationId"], first["clientId"]) == (
        "FetchRequest", 17, 9, "me",
    )  # fmt: skip
    assert (second["message"], second["clientId"]) == ("ApiVersionsRequest", None)
    assert (second["body"], second["_error"]) == (b"", None)
    body = decode_message(actual.field("body"), "FetchRequest", actual.field("version"))
    assert body.to_pylist()[0]["maxWaitMs"] == 500
    assert [row["_error"]["class"] for row in bad] == [
        "truncated", "unknown_message", "unsupported_version", "truncated",
    ]  # fmt: skip
    assert [row["message"] for row in bad] == [None, None, "FetchRequest", "FetchRequest"]
