"""``spec show``: the tree of a plan, and bytes compared with it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kraftspec.codegen.generate import read_set, specs_sets
from kraftspec.codegen.model import Message
from kraftspec.codegen.plan import LayoutTable, plan_message
from kraftspec.codegen.reader import check_text, read_message
from kraftspec.codegen.show import Line, dump, headline, layout_lines, parse_hex, show_value
from kraftspec.fastpath.errors import ErrorClass
from kraftspec.fastpath.interpret import Decoder, Span
from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.specs import specs_root

VECTORS = Path(__file__).resolve().parents[2] / "conformance/vectors"


def real(name: str) -> Message:
    return read_message(specs_root() / f"kafka/{name}.json")


def sample(*fields: dict[str, Any], flexible: str = "0+") -> Message:
    text = {
        "type": "data", "name": "Sample", "validVersions": "0", "flexibleVersions": flexible,
        "fields": fields,
    }  # fmt: skip
    message, diagnostics = check_text(json.dumps(text), "Sample.json")
    assert message is not None, [str(diagnostic) for diagnostic in diagnostics]
    return message


def field(name: str, type: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, "versions": "0+", **more}


INNER = [field("X", "int8")]


# -------------------------------------------------------------------------------------- layouts


def test_headlines() -> None:
    assert headline(plan_message(real("clients/VoteRequest"), 2)) == (
        "VoteRequest v2 (request, API key 52, flexible, header v2)"
    )
    assert headline(plan_message(real("raft/QuorumStateData"), 0)) == (
        "QuorumStateData v0 (data, flexible)"
    )
    assert headline(plan_message(real("clients/SaslHandshakeResponse"), 1)) == (
        "SaslHandshakeResponse v1 (response, API key 17, not flexible, header v0)"
    )


def test_the_tree_of_a_real_message() -> None:
    tags = Line(0, "(tagged fields)", "uvarint count", "each: uvarint tag, uvarint size")
    assert layout_lines(plan_message(real("clients/VoteRequest"), 0)) == [
        Line(0, "clusterId", "compact_string", "uvarint length+1, UTF-8; nullable"),
        Line(0, "topics", "compact_array of TopicData", "uvarint count+1"),
        Line(1, "topicName", "compact_string", "uvarint length+1, UTF-8"),
        Line(1, "partitions", "compact_array of PartitionData", "uvarint count+1"),
        Line(2, "partitionIndex", "int32", "4 bytes"),
        Line(2, "replicaEpoch", "int32", "4 bytes"),
        Line(2, "replicaId", "int32", "4 bytes"),
        Line(2, "lastOffsetEpoch", "int32", "4 bytes"),
        Line(2, "lastOffset", "int64", "8 bytes"),
        Line(2, tags.name, tags.wire, tags.detail),
        Line(1, tags.name, tags.wire, tags.detail),
        tags,
    ]


def test_the_tree_of_structs_and_tags() -> None:
    message = sample(
        field("One", "One", fields=INNER),
        field("Maybe", "Maybe", nullableVersions="0+", fields=INNER),
        field("Ids", "[]uuid"),
        field("Tag", "int32", tag=0, taggedVersions="0+"),
        field("Null", "Null", tag=1, taggedVersions="0+", nullableVersions="0+", fields=INNER),
    )
    lines = [
        (line.depth, line.name, line.wire, line.detail)
        for line in layout_lines(plan_message(message, 0))
        if line.name not in ("x", "(tagged fields)")
    ]
    assert lines == [
        (0, "one", "struct", "fields"),
        (0, "maybe", "struct", "int8 -1/1, fields; nullable"),
        (0, "ids", "compact_array of uuid", "uvarint count+1"),
        (1, "tag 0: tag", "int32", "4 bytes; left out when default"),
        (1, "tag 1: null", "struct", "uvarint 0/1, fields; nullable; left out when default"),
    ]
    old = sample(field("Log", "records"), field("Ids", "[]uuid"), flexible="none")
    assert [line.detail for line in layout_lines(plan_message(old, 0))] == [
        "int32 length, record batches", "int32 count",
    ]  # fmt: skip


# ----------------------------------------------------------------------------------------- dumps


def test_a_dump_by_hand() -> None:
    message = sample(
        field("Text", "string"),
        field("Log", "records", nullableVersions="0+"),
        field("Many", "[]One", fields=[field("Flag", "bool")]),
        field("Maybe", "Maybe", nullableVersions="0+", fields=INNER),
        field("Tag", "int16", tag=2, taggedVersions="0+"),
        field("A", "int8", tag=0, taggedVersions="0+"),
        field("B", "int8", tag=1, taggedVersions="0+"),
    )
    data = bytes.fromhex("026100020100ff02020200050901ee")
    shown = dump(message, 0, data)
    assert shown.error is None
    assert [(span.path, span.wire, span.start, span.end, span.value) for span in shown.spans] == [
        ("text", "compact_string", 0, 2, "a"),
        ("log", "compact_records", 2, 3, None),
        ("many", "count", 3, 4, 1),
        ("many[0].flag", "bool", 4, 5, True),
        ("many[0]", "tag count", 5, 6, 0),
        ("maybe", "marker", 6, 7, -1),
        ("", "tag count", 7, 8, 2),
        ("", "tag 2", 8, 10, 2),
        ("tag", "int16", 10, 12, 5),
        ("", "tag 9", 12, 14, 1),
        ("", "unknown", 14, 15, b"\xee"),
    ]
    assert shown.value == {
        "text": "a", "log": None, "many": [{"flag": True}], "maybe": None, "tag": 5,
        "unknown_tagged_fields": ((9, b"\xee"),),
    }  # fmt: skip
    reported = shown.to_json()
    assert (reported["message"], reported["version"], "error" in reported) == ("Sample", 0, False)
    assert reported["spans"][8] == {
        "path": "tag", "wire": "int16", "start": 10, "end": 12, "hex": "0005", "value": "5",
    }  # fmt: skip


def test_a_dump_ends_at_the_first_wrong_byte() -> None:
    message = sample(field("Text", "string"), field("Flag", "bool"))
    shown = dump(message, 0, bytes.fromhex("02610700"))
    assert [span.path for span in shown.spans] == ["text"]
    assert shown.value is None
    assert shown.to_json()["error"] == {
        "class": "invalid_boolean", "offset": 2, "path": "flag",
        "detail": "a bool is 0 or 1, not 7",
    }  # fmt: skip
    assert dump(message, 0, bytes.fromhex("02610700"), lenient=True).error is None


def test_a_dump_of_more_than_the_message() -> None:
    message = sample(field("Flag", "bool"))
    shown = dump(message, 0, bytes.fromhex("0100ffff"))
    assert shown.error is not None
    assert (shown.error.error_class, shown.error.offset) == (ErrorClass.TRAILING, 2)
    assert shown.value == {"flag": True}
    assert dump(message, 0, bytes.fromhex("0100ffff"), lenient=True).error is None


def test_a_dump_of_another_version() -> None:
    with pytest.raises(ValueError, match="Sample has versions 0, not 7"):
        dump(sample(), 7, b"")


def messages() -> Iterator[tuple[str, str, Message]]:
    for message_set in specs_sets(specs_root(), Path(), ""):
        for message in read_set(message_set).values():
            if not message.valid_versions.empty:
                yield message_set.name, message.name, message


def tile(spans: Sequence[Span], length: int) -> bool:
    at = 0
    for span in spans:
        if span.start != at:
            return False
        at = span.end
    return at == length


@pytest.mark.soak
@pytest.mark.parametrize("spec", ["kafka", "kip-595", "kip-853", "kip-996"])
def test_spans_tile_the_input(spec: str) -> None:
    """Every byte of every golden vector belongs to one span, and they stand in order."""
    for name, message_name, message in messages():
        if name != spec:
            continue
        table = LayoutTable.of(message)
        layouts = table.literal()
        vectors = json.loads((VECTORS / spec / f"{message_name}.json").read_bytes())["tests"]
        for test in (test for test in vectors if test["result"] == "valid"):
            data = bytes.fromhex(test["hex"])
            spans: list[Span] = []
            decoder = Decoder(data, 0, layouts, lambda _, fields: fields, trace=spans)
            decoder.struct(layouts[table.plans[test["version"]]])
            assert tile(spans, len(data)), test["id"]
        shown = dump(message, test["version"], data)  # of the last
        assert shown.error is None
        assert shown.spans == tuple(spans)


# ---------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (5, "5"),
        ("it's", '"it\'s"'),
        ("a\nb", "'a\\nb'"),
        (b"abc", "3 bytes"),
        (memoryview(b""), "0 bytes"),
        (ZERO_UUID, "A" * 22),
        ("x" * 58, f"'{'x' * 58}'"),
        ("x" * 59, f"'{'x' * 58}…"),
    ],
)
def test_values(value: Any, shown: str) -> None:
    assert show_value(value) == shown


@pytest.mark.parametrize("text", ["00ff10", "00 FF 10", "0x00ff10", "0x00 0xff 0x10", "00:ff:10",
                                  "\n00ff\n\t10\n"])  # fmt: skip
def test_hex_as_people_paste_it(text: str) -> None:
    assert parse_hex(text) == b"\x00\xff\x10"


@pytest.mark.parametrize("text", ["0", "zz", "00f", "0x0"])
def test_what_is_no_hex(text: str) -> None:
    with pytest.raises(ValueError, match="not hex digits"):
        parse_hex(text)
