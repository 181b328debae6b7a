"""Plans: what is left of a spec's ranges at one version. Expectations by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kraftspec.codegen.model import Message
from kraftspec.codegen.plan import (
    LayoutTable,
    attribute,
    camel_case,
    class_name,
    module_name,
    plan_message,
    snake_case,
)
from kraftspec.codegen.reader import check_text, read_message
from kraftspec.specs import specs_root


def spec(fields: list[dict[str, Any]], **more: Any) -> Message:
    text = {
        "type": "data", "name": "Sample", "validVersions": "0-3", "flexibleVersions": "2+",
        "fields": fields, **more,
    }  # fmt: skip
    message, diagnostics = check_text(json.dumps(text), "Sample.json")
    assert message is not None, [str(diagnostic) for diagnostic in diagnostics]
    return message


def field(name: str, type: str, versions: str = "0+", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, "versions": versions, **more}


def real(path: str) -> Message:
    return read_message(specs_root() / path)


# ----------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "camel", "snake"),
    [
        ("ClusterId", "clusterId", "cluster_id"),
        ("IsrWithEpochs", "isrWithEpochs", "isr_with_epochs"),
        ("ISR", "iSR", "isr"),
        ("ACLs", "aCLs", "ac_ls"),
        ("HTTPServer2Go", "hTTPServer2Go", "http_server2_go"),
        ("acks", "acks", "acks"),
        ("X", "x", "x"),
    ],
)
def test_names(name: str, camel: str, snake: str) -> None:
    assert (camel_case(name), snake_case(name)) == (camel, snake)


@pytest.mark.parametrize(
    ("name", "python"),
    [
        ("From", "from_"), ("Class", "class_"), ("None", "none"), ("Encode", "encode_"),
        ("ToJson", "to_json_"), ("HeaderVersion", "header_version_"), ("Bytes", "bytes_"),
        ("Range", "range_"), ("UnknownTaggedFields", "unknown_tagged_fields_"),
        ("Msgspec", "msgspec_"), ("Match", "match"), ("Type", "type"), ("Name", "name"),
    ],
)  # fmt: skip
def test_attributes_stand_clear_of_what_a_class_uses(name: str, python: str) -> None:
    assert attribute(name) == python


def test_modules_stand_clear_of_the_package_of_the_codecs() -> None:
    assert [module_name(name) for name in ("VoteRequest", "Pure", "Import", "Purer")] == [
        "vote_request", "pure_", "import_", "purer",
    ]  # fmt: skip


def test_classes_stand_clear_of_what_packages_and_classes_use() -> None:
    assert [class_name(name) for name in ("None", "TYPE", "CATALOGUE", "Type", "Message")] == [
        "None_", "TYPE_", "CATALOGUE_", "Type", "Message",
    ]  # fmt: skip


# -------------------------------------------------------------------------------- by the version


def test_a_field_is_untagged_in_one_version_and_tagged_in_another() -> None:
    """Where it is tagged it is left out at its default; where it is not, the tag is foreign."""
    message = spec([
        field("A", "int32", "0+", tag=0, taggedVersions="3+", default="7"),
        field("B", "string", "2+", tag=1, taggedVersions="2+"),
    ])  # fmt: skip
    tops = [plan_message(message, version).struct for version in range(4)]
    assert [[entry.name for entry in top.fields] for top in tops] == [["a"], ["a"], ["a"], []]
    assert [[entry.name for entry in top.tagged] for top in tops] == [[], [], ["b"], ["a", "b"]]
    assert [[entry.name for entry in top.absent] for top in tops] == [["b"], ["b"], [], []]
    assert [top.later_tags for top in tops] == [(), (), (0,), ()]  # no section, no foreign tags
    assert [entry.tag for entry in tops[3].tagged] == [0, 1]
    assert [entry.default for entry in tops[3].tagged] == [7, ""]
    assert tops[2].fields[0].tag is None


def test_tagged_fields_stand_in_the_order_of_their_tags() -> None:
    message = spec([
        field("C", "int8", "2+", tag=2, taggedVersions="2+"),
        field("A", "int8", "2+", tag=0, taggedVersions="2+"),
        field("B", "int8", "3+", tag=1, taggedVersions="3+"),
    ])  # fmt: skip
    assert [entry.name for entry in plan_message(message, 3).struct.tagged] == ["a", "b", "c"]
    older = plan_message(message, 2).struct
    assert ([entry.name for entry in older.tagged], older.later_tags) == (["a", "c"], (1,))


def test_compact_forms_in_flexible_versions_only() -> None:
    message = spec([
        field("S", "string"), field("B", "bytes"), field("R", "records"),
        field("L", "[]string"), field("N", "[]int16"), field("I", "int32"),
        field("M", "[]Inner", fields=[field("T", "string")]),
        field("O", "Inner2", fields=[field("T", "bytes")]),
    ])  # fmt: skip

    def wires(version: int) -> list[tuple[str, Any]]:
        return [
            (entry.wire, getattr(entry.element, "fields", entry.element))
            for entry in plan_message(message, version).struct.fields
        ]

    old, new = wires(1), wires(2)
    assert [wire for wire, _ in old] == [
        "string", "bytes", "records", "array", "array", "int32", "array", "struct",
    ]  # fmt: skip
    assert [wire for wire, _ in new] == [
        "compact_string", "compact_bytes", "compact_records", "compact_array", "compact_array",
        "int32", "compact_array", "struct",
    ]  # fmt: skip
    assert [element for _, element in old][3:5] == ["string", "int16"]
    assert [element for _, element in new][3:5] == ["compact_string", "int16"]
    assert [inner[1][0].wire for inner in (old[6], new[6])] == ["string", "compact_string"]
    assert [inner[1][0].wire for inner in (old[7], new[7])] == ["bytes", "compact_bytes"]


def test_a_field_with_flexible_versions_of_its_own() -> None:
    """RequestHeader's ClientId stays an int16-length string in a flexible header."""
    header = real("kafka/clients/RequestHeader.json")
    client_id = plan_message(header, 2).struct.fields[-1]
    assert (client_id.name, client_id.wire, client_id.nullable) == ("clientId", "string", True)
    assert plan_message(header, 2).struct.flexible
    assert [entry.name for entry in plan_message(header, 1).struct.fields] == [
        "requestApiKey", "requestApiVersion", "correlationId", "clientId",
    ]  # fmt: skip
    later = spec([field("S", "string", flexibleVersions="3+")])
    wires = [plan_message(later, version).struct.fields[0].wire for version in range(4)]
    assert wires == ["string", "string", "string", "compact_string"]


def test_nullable_versions() -> None:
    message = spec([
        field("A", "string", nullableVersions="1-2"),
        field("B", "Inner", "0+", nullableVersions="2+", fields=[field("X", "int8")]),
        field("C", "[]int8", "1+", nullableVersions="0+"),
    ])  # fmt: skip
    nullable = [
        {entry.name for entry in plan_message(message, version).struct.fields if entry.nullable}
        for version in range(4)
    ]
    assert nullable == [set(), {"a", "c"}, {"a", "b", "c"}, {"b", "c"}]


def test_common_structs_are_resolved_in_each_place() -> None:
    message = spec(
        [field("One", "Pair"), field("Many", "[]Pair", "1+")],
        commonStructs=[
            {"name": "Pair", "versions": "0+", "fields": [field("Key", "string"),
                                                          field("Late", "int8", "2+")]},
        ],
    )  # fmt: skip
    old, new = plan_message(message, 0).struct, plan_message(message, 2).struct
    assert [entry.name for entry in old.fields] == ["one"]
    pair: Any = old.fields[0].element
    assert [entry.name for entry in pair.fields] == ["key"]
    assert [entry.name for entry in pair.absent] == ["late"]
    newer: Any = new.fields[0].element
    assert [entry.wire for entry in newer.fields] == ["compact_string", "int8"]
    assert new.fields[1].element == newer
    table = LayoutTable.of(message)
    assert table.structs == ["Sample", "Pair"]
    # Pair at 0-1 and at 2-3; Sample at 0, at 1 and at 2-3.
    assert len(table.layouts) == 5
    assert table.plans[2] == table.plans[3]
    assert len({table.plans[version] for version in range(3)}) == 3


def test_versions_of_a_field_may_reach_beyond_the_messages_own() -> None:
    message = spec([field("Gone", "int8", "0-1"), field("Kept", "int8", "0+")],
                   validVersions="2-3")  # fmt: skip
    for version in (2, 3):
        struct = plan_message(message, version).struct
        assert [entry.name for entry in struct.fields] == ["kept"]
        assert [entry.name for entry in struct.absent] == ["gone"]
    table = LayoutTable.of(message)
    assert list(table.plans) == [2, 3]
    for version in (0, 1, 4):
        with pytest.raises(ValueError, match=f"Sample has versions 2-3, not {version}"):
            plan_message(message, version)


def test_a_message_without_versions_has_no_plans() -> None:
    message = spec([], validVersions="none", flexibleVersions="none")
    assert LayoutTable.of(message).plans == {}
    assert LayoutTable.of(message).literal() == ()


@pytest.mark.parametrize(
    ("path", "version", "header"),
    [
        ("kafka/clients/VoteRequest.json", 0, 2),
        ("kafka/clients/VoteResponse.json", 0, 1),
        ("kafka/clients/BeginQuorumEpochRequest.json", 0, 1),
        ("kafka/clients/BeginQuorumEpochResponse.json", 0, 0),
        ("kafka/clients/ApiVersionsRequest.json", 3, 2),
        ("kafka/clients/ApiVersionsResponse.json", 4, 0),  # the asker cannot know (KIP-511)
        ("kafka/clients/RequestHeader.json", 2, None),
        ("kafka/raft/QuorumStateData.json", 1, None),
        ("kafka/metadata/PartitionRecord.json", 2, None),
    ],
)
def test_header_versions(path: str, version: int, header: int | None) -> None:
    assert plan_message(real(path), version).header_version == header


# ------------------------------------------------------------------------------------ both forms


def test_the_documented_form() -> None:
    message = spec(
        [
            field("Name", "string", nullableVersions="2+"),
            field("Parts", "[]Part", fields=[field("Ids", "[]uuid"), field("Log", "records")]),
            field("Old", "int8", "0-1", ignorable=True, default="-1"),
            field("Tag", "uuid", "2+", tag=0, taggedVersions="2+"),
            field("One", "One", "2+", tag=1, taggedVersions="2+", fields=[field("X", "bool")]),
            field("Few", "[]int8", "2+", tag=2, taggedVersions="2+"),
            field("Blob", "bytes", "2+", tag=3, taggedVersions="2+"),
        ],
        type="request", apiKey=77,
    )  # fmt: skip
    assert plan_message(message, 2).to_json() == {
        "message": "Sample", "type": "request", "apiKey": 77, "version": 2, "flexible": True,
        "headerVersion": 2, "struct": "Sample", "taggedSection": True,
        "fields": [
            {"name": "name", "wire": "compact_string", "nullable": True},
            {"name": "parts", "wire": "compact_array", "nullable": False, "element": {
                "struct": "Part", "taggedSection": True, "tagged": [], "absent": [],
                "fields": [
                    {"name": "ids", "wire": "compact_array", "nullable": False, "element": "uuid"},
                    {"name": "log", "wire": "compact_records", "nullable": False},
                ],
            }},
        ],
        "tagged": [
            {"tag": 0, "name": "tag", "wire": "uuid", "nullable": False, "default": "A" * 22},
            {"tag": 1, "name": "one", "wire": "struct", "nullable": False,
             "default": "struct of defaults", "element": {
                "struct": "One", "taggedSection": True, "tagged": [], "absent": [],
                "fields": [{"name": "x", "wire": "bool", "nullable": False}],
             }},
            {"tag": 2, "name": "few", "wire": "compact_array", "nullable": False,
             "element": "int8", "default": []},
            {"tag": 3, "name": "blob", "wire": "compact_bytes", "nullable": False, "default": ""},
        ],
        "absent": [{"name": "old", "ignorable": True, "default": -1}],
    }  # fmt: skip


def test_the_literal_form() -> None:
    message = spec([
        field("Ones", "[]One", fields=[field("X", "bool"), field("Y", "int8", "3+")]),
        field("Tag", "One2", "3+", tag=0, taggedVersions="3+", nullableVersions="3+",
              default="null", fields=[field("Z", "[]string")]),
    ])  # fmt: skip
    table = LayoutTable.of(message)
    absent = (("y", "y", False, 0),), (("tag", "tag", False, None),)
    assert table.structs == ["Sample", "One", "One2"]
    assert table.plans == {0: 1, 1: 1, 2: 3, 3: 6}
    assert table.literal() == (
        (1, False, (("x", "x", "bool", False, None),), (), absent[0], ()),
        (0, False, (("ones", "ones", "array", False, 0),), (), absent[1], ()),
        (1, True, (("x", "x", "bool", False, None),), (), absent[0], ()),
        (0, True, (("ones", "ones", "compact_array", False, 2),), (), absent[1], (0,)),
        (1, True, (("x", "x", "bool", False, None), ("y", "y", "int8", False, None)), (), (), ()),
        (2, True, (("z", "z", "compact_array", False, "compact_string"),), (), (), ()),
        (0, True, (("ones", "ones", "compact_array", False, 4),),
         ((0, "tag", "tag", "struct", True, 5, None),), (), ()),
    )  # fmt: skip


def test_equal_plans_are_one_layout_however_they_were_made() -> None:
    vote = real("kafka/clients/VoteRequest.json")
    assert plan_message(vote, 1) == plan_message(vote, 1)
    assert hash(plan_message(vote, 1).struct) == hash(plan_message(vote, 1).struct)
    assert plan_message(vote, 1).struct != plan_message(vote, 2).struct
    produce = LayoutTable.of(real("kafka/clients/ProduceRequest.json"))
    assert len(produce.layouts) < 4 * len(produce.plans)
