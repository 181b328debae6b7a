"""Which vectors concern another release: two versions of one schema, held against each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kraftspec.codegen.model import Message
from kraftspec.codegen.reader import check_text
from kraftspec.conformance.runner.cases import Case, Direction, RawTest
from kraftspec.conformance.runner.releases import OtherRelease
from kraftspec.conformance.vectors import vectors_release, vectors_root, write_vectors
from kraftspec.specs import kafka_release


def field(name: str, versions: str = "0+", type: str = "int32", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, "versions": versions, **more}


def spec(*fields: dict[str, Any], **more: Any) -> Message:
    text = {
        "type": "data", "name": "Sample", "validVersions": "0-2", "flexibleVersions": "1+",
        "fields": fields, **more,
    }  # fmt: skip
    message, diagnostics = check_text(json.dumps(text), "Sample.json")
    assert message is not None, [str(diagnostic) for diagnostic in diagnostics]
    return message


def tagged(name: str, versions: str, tag: int, **more: Any) -> dict[str, Any]:
    return field(name, versions, tag=tag, taggedVersions=versions, **more)


def reason(
    ours: Message | None,
    theirs: Message | None,
    version: int = 1,
    direction: Direction = "encode",
    spec_set: str = "kafka",
    message: str = "Sample",
    **more: Any,
) -> str | None:
    """Why a vector of our schema does not concern the release; None: it does."""
    fields = {"id": "0" * 16, "version": version, "op": direction, "family": "alone",
              "value": {"id": 1}, "hex": "0000000100", "result": "valid", **more}  # fmt: skip
    test = msgspec.json.decode(json.dumps(fields), type=RawTest)
    sides = [{} if one is None else {"Sample": one} for one in (ours, theirs)]
    skip = OtherRelease("3.9.1", *sides).skip(Case(spec_set, message, test, direction))
    if skip is None:
        return None
    name, _, text = skip.reason.partition(": ")
    assert name == "not of Kafka 3.9.1"
    return text


ID = field("Id")
OURS = spec(ID, field("Name", "2+", "string", ignorable=True))


def invalid(class_: str, **more: Any) -> dict[str, Any]:
    return {"result": "invalid", "error": {"class": class_, **more}}


def test_the_same_schema_concerns_it() -> None:
    assert [reason(OURS, OURS, version) for version in range(3)] == [None] * 3


def test_a_field_of_another_version_does_not_matter() -> None:
    theirs = spec(ID, validVersions="0-1")
    assert reason(OURS, theirs, 1) is None
    assert reason(OURS, theirs, 2) == "it has no such version"


def test_messages_and_drafts() -> None:
    assert reason(OURS, None) == "it has no such message"
    assert reason(OURS, OURS, spec_set="kip-595") == "a draft"
    assert reason(None, None, message="RecordBatch", version=2) is None


@pytest.mark.parametrize(
    ("theirs", "text"),
    [
        (spec(field("Number")), "Sample: id is another field in it"),
        (spec(field("Id", type="int64")), "Sample: id is another field in it"),
        (spec(ID, field("More")), "Sample: more is only in it"),
        (
            spec(ID, flexibleVersions="none"),
            "Sample: the version is flexible in one of the releases",
        ),
        (spec(ID, tagged("More", "1+", 0)), "Sample: more is only in it"),
        (spec(validVersions="1-2"), "Sample: id is not in it"),
        # What is not on the wire: ignorable, a map's key, the default of an untagged field.
        (spec(field("Id", default="7", ignorable=True)), None),
    ],
)
def test_a_version_with_other_fields(theirs: Message, text: str | None) -> None:
    assert reason(spec(ID), theirs) == text


def test_a_default_matters_where_a_field_is_tagged() -> None:
    ours, theirs = (spec(ID, tagged("More", "1+", 0, default=text)) for text in ("7", "8"))
    assert reason(ours, theirs) == "Sample: more is another field in it"


def struct(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return field("Parts", type=f"[]{name}", fields=list(fields))


def test_structs_are_compared_and_their_names_are_not() -> None:
    ours, named = spec(struct("Part", ID)), spec(struct("Piece", ID))
    assert reason(ours, named) is None
    other = spec(struct("Part", ID, field("Size")))
    assert reason(ours, other) == "Sample: parts.size is only in it"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (field("Name", "2+", "string", ignorable=True), None),
        (
            field("Name", "2+", "string"),
            "Sample: name has another default in it, or is not ignored alike",
        ),
        (field("Other", "2+"), "Sample: name is in no version of it"),
    ],
)
def test_a_value_that_names_a_field_which_the_version_lacks(
    name: dict[str, Any], text: str | None
) -> None:
    value = {"id": 1, "name": "a"}
    assert reason(OURS, spec(ID, name), value=value) == text
    assert reason(OURS, spec(ID, name)) is None  # Another value does not name it.
    assert reason(OURS, spec(ID, name), direction="decode", value=value) is None


def test_a_field_that_a_struct_lacks() -> None:
    ours, theirs = spec(struct("Part", ID, field("Size", "2+"))), spec(struct("Part", ID))
    value = {"parts": [{"id": 1}, {"id": 2, "size": 3}]}
    assert reason(ours, theirs, value=value) == "Sample: size is in no version of it"
    del value["parts"][1]["size"]
    assert reason(ours, theirs, value=value) is None


def test_a_tag_of_another_version() -> None:
    ours = spec(ID, tagged("First", "2+", 0), tagged("Second", "2+", 1))
    theirs = spec(ID, tagged("First", "2+", 0))
    refusal = invalid("tag_below_version", offset=5)
    reasons = [
        reason(ours, theirs, direction="decode", hex=f"0000000101{tag}00", **refusal)
        for tag in ("00", "01")
    ]
    assert reasons == [None, "Sample: tag 1 is in no version of it"]


def test_a_tag_of_another_version_in_a_struct() -> None:
    ours = spec(struct("Part", ID, tagged("More", "2+", 0)))
    theirs = spec(struct("Part", ID))
    refusal = invalid("tag_below_version", offset=6, path="parts[0]")
    reasons = [
        reason(ours, release, direction="decode", hex="020000000101000000", **refusal)
        for release in (theirs, ours)
    ]
    assert reasons == ["Sample: parts: tag 0 is in no version of it", None]


def test_what_is_to_be_refused_and_is_not_unknown_to_it() -> None:
    older = spec(ID, validVersions="0-1")
    assert reason(older, OURS, 2, **invalid("unsupported_version")) == "it has the version"
    assert reason(older, older, 2, **invalid("unsupported_version")) is None
    assert reason(OURS, OURS, **invalid("unknown_message")) == "it has the message"
    assert reason(OURS, None, **invalid("unknown_message")) is None


def test_the_release_that_made_the_vectors(tmp_path: Path) -> None:
    assert vectors_release(vectors_root()) == kafka_release()
    source = {"kafka": "4.3.1"}
    head = {"schemaVersion": 1, "message": "Sample", "source": source, "notes": {}}
    write_vectors(tmp_path / "kip-595" / "Sample.json", head, [])
    assert vectors_release(tmp_path) == ""
    write_vectors(tmp_path / "kafka" / "Sample.json", head, [])
    assert vectors_release(tmp_path) == "4.3.1"
