"""Apache Kafka's own classes behind the protocol: expectations are derived by hand from the wire.

The bytes here are put together from the protocol's rules and the schemas' field lists, one
primitive at a time, so that the adapter is judged by something that is not itself.
"""

from __future__ import annotations

import base64
import json
import math
import struct
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from msgspec import UNSET

from kraftspec.conformance.adapters.harness import Reply, decode_request, encode_request
from kraftspec.conformance.adapters.kafka import KafkaAdapter, RefusedError
from kraftspec.conformance.adapters.registry import find, kafka_adapter
from kraftspec.specs import kafka_release

pytestmark = pytest.mark.kafka

SCHEMA = json.loads((files("kraftspec.conformance") / "schemas/harness.schema.json").read_text())
REPLY = Draft202012Validator({**SCHEMA, "anyOf": [{"$ref": "#/$defs/reply"}]})


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaAdapter]:
    with kafka_adapter() as adapter:
        yield adapter


def encode(
    kafka: KafkaAdapter, message: str, version: int, value: Any, spec: str | None = None
) -> Reply:
    reply = kafka.request(encode_request("e", message, version, value, spec))
    REPLY.validate(reply)
    return reply


def decode(
    kafka: KafkaAdapter, message: str, version: int, hex: str, spec: str | None = None
) -> Reply:
    reply = kafka.request(decode_request("d", message, version, hex, spec))
    REPLY.validate(reply)
    return reply


def both_ways(
    kafka: KafkaAdapter,
    message: str,
    version: int,
    value: Any,
    *pieces: str,
    spec: str | None = None,
) -> None:
    """Hold that the value is written as the pieces put together, and read back as it was."""
    expected = "".join(pieces).replace(" ", "")
    assert encode(kafka, message, version, value, spec) == {"id": "e", "hex": expected}
    assert decode(kafka, message, version, expected, spec) == {"id": "d", "value": value}


def refused_as(reply: Reply) -> str:
    """Return the class of a refusal; its detail must be Kafka's own words, never empty."""
    assert reply["error"]["detail"]
    return str(reply["error"]["class"])


def data_spec(*fields: dict[str, Any], **more: Any) -> str:
    """Return a spec of a flexible message of one version."""
    spec = {"type": "data", "name": "Sample", "validVersions": "0", "flexibleVersions": "0+"}
    return json.dumps({**spec, **more, "fields": list(fields)})


# --- what it has ---


def test_hello_names_every_message_of_kafka(kafka: KafkaAdapter) -> None:
    hello = kafka.hello()
    assert (hello.name, hello.language, hello.spec) == ("kafka", "java", f"kafka/{kafka_release()}")
    assert hello.messages.pop("RecordBatch") == "2-2"  # It has no schema.
    ranges = [text.split("-") for text in hello.messages.values() if text != "none"]
    assert len(hello.messages) == 286
    assert len(ranges) == 286 - 8
    assert sum(int(high) - int(low) + 1 for low, high in ranges) == 744
    # One of each module: clients, raft, metadata, storage, and the three coordinators.
    assert hello.messages["VoteRequest"] == "0-2"
    assert hello.messages["QuorumStateData"] == "0-1"
    assert hello.messages["RegisterBrokerRecord"] == "0-4"
    assert hello.messages["RemotePartitionDeleteMetadataRecord"] == "0-0"
    assert hello.messages["ConsumerGroupMemberMetadataValue"] == "0-0"
    assert hello.messages["ShareSnapshotKey"] == "0-0"
    assert hello.messages["TransactionLogValue"] == "0-1"
    assert hello.messages["LeaderAndIsrRequest"] == "none"


def test_every_pair_has_usable_classes(kafka: KafkaAdapter) -> None:
    """Bytes of zeros or ones mean something in nearly every pair: what they mean must last."""
    pairs = [
        (name, version)
        for name, text in kafka.hello().messages.items()
        if text != "none" and name != "RecordBatch"
        for version in range(int(text.split("-")[0]), int(text.split("-")[1]) + 1)
    ]
    fillers = ("00" * 600, "01" * 600)
    requests = [
        decode_request(f"{name} {version} {filler[:4]}", name, version, filler)
        for name, version in pairs
        for filler in fillers
    ]
    read = list(zip(requests, kafka.run(requests), strict=True))
    accepted = [(request, reply) for request, reply in read if "value" in reply]
    expected = {"truncated", "null_for_non_nullable", "length_exceeds_input", "tag_below_version"}
    assert {refused_as(reply) for _, reply in read if "error" in reply} <= expected
    assert len({(request["message"], request["version"]) for request, _ in accepted}) > 700
    written = kafka.run(
        encode_request(
            str(request["id"]),
            str(request["message"]),
            int(str(request["version"])),
            reply["value"],
        )
        for request, reply in accepted
    )
    written_again = [reply["hex"] for reply in written]
    # Zeros hold no tagged fields, so there is one way to write what they mean. Of a tagged field
    # Kafka does not hold the size against the content: what ones mean may be written otherwise.
    for (request, reply), hex in zip(accepted, written_again, strict=True):
        if str(request["hex"]).startswith("00"):
            assert hex == str(request["hex"])[: -2 * reply.get("trailing", 0)], request["id"]
    again = kafka.run(
        decode_request(
            str(request["id"]), str(request["message"]), int(str(request["version"])), hex
        )
        for (request, _), hex in zip(accepted, written_again, strict=True)
    )
    for (request, reply), second in zip(accepted, again, strict=True):
        assert second == {"id": request["id"], "value": reply["value"]}


# --- bytes derived by hand ---


def test_strings_of_a_flexible_request(kafka: KafkaAdapter) -> None:
    both_ways(
        kafka, "ApiVersionsRequest", 3,
        {"clientSoftwareName": "kraft", "clientSoftwareVersion": "é"},
        "06 6b72616674",  # length + 1, then UTF-8
        "03 c3a9",
        "00",  # no tagged fields
    )  # fmt: skip


def test_nested_arrays_of_a_vote(kafka: KafkaAdapter) -> None:
    partition = {
        "partitionIndex": 0, "replicaEpoch": 5, "replicaId": 2, "lastOffsetEpoch": 4,
        "lastOffset": 2**63 - 1,
    }  # fmt: skip
    both_ways(
        kafka, "VoteRequest", 0,
        {"clusterId": None, "topics": [{"topicName": "t", "partitions": [partition]}]},
        "00",  # null cluster id
        "02 02 74",  # one topic, "t"
        "02 00000000 00000005 00000002 00000004 7fffffffffffffff 00",
        "00 00",
    )  # fmt: skip


def test_a_version_that_is_not_flexible(kafka: KafkaAdapter) -> None:
    both_ways(
        kafka, "BeginQuorumEpochRequest", 0,
        {
            "clusterId": "c",
            "topics": [
                {
                    "topicName": "t",
                    "partitions": [{"partitionIndex": 1, "leaderId": 2, "leaderEpoch": 3}],
                }
            ],
        },
        "0001 63",
        "00000001 0001 74",
        "00000001 00000001 00000002 00000003",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("cursor", "expected"),
    [(None, "ff"), ({"topicName": "a", "partitionIndex": 1}, "01 02 61 00000001 00")],
)
def test_a_nullable_struct_is_marked_by_an_int8(
    kafka: KafkaAdapter, cursor: Any, expected: str
) -> None:
    both_ways(
        kafka, "DescribeTopicPartitionsRequest", 0,
        {"topics": [], "responsePartitionLimit": 2000, "cursor": cursor},
        "01 000007d0", expected, "00",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("metadata", "tagged"),
    [
        ({}, "00"),  # The default is a struct of defaults, and stays unwritten.
        ({"classicMemberMetadata": None}, "01 00 01 00"),
        (
            {
                "classicMemberMetadata": {
                    "sessionTimeoutMs": 9,
                    "supportedProtocols": [{"name": "r", "metadata": "AAE="}],
                }
            },
            # tag 0 of 13 bytes: present, int32, one protocol ("r", two bytes), no tags, no tags
            "01 00 0d 01 00000009 02 0272 030001 00 00",
        ),
    ],
)
def test_a_nullable_struct_in_a_tag_is_marked_by_a_varint(
    kafka: KafkaAdapter, metadata: dict[str, Any], tagged: str
) -> None:
    value = {
        "instanceId": None, "rackId": None, "clientId": "", "clientHost": "",
        "subscribedTopicNames": ["a"], "subscribedTopicRegex": None, "rebalanceTimeoutMs": -1,
        "serverAssignor": None,
    }  # fmt: skip
    both_ways(
        kafka, "ConsumerGroupMemberMetadataValue", 0, {**value, **metadata},
        "00 00 01 01 02 0261 00 ffffffff 00", tagged,
    )  # fmt: skip


def test_uuid_uint16_and_a_collection_with_a_map_key_given_twice(kafka: KafkaAdapter) -> None:
    endpoint = {"name": "C", "host": "h", "port": 65535}
    both_ways(
        kafka, "BeginQuorumEpochRequest", 1,
        {
            "clusterId": None, "voterId": 1,
            "topics": [
                {
                    "topicName": "t",
                    "partitions": [
                        {
                            "partitionIndex": 0, "voterDirectoryId": "AAAAAAAAAAAAAAAAAAAAAQ",
                            "leaderId": 1, "leaderEpoch": 2,
                        }
                    ],
                }
            ],
            "leaderEndpoints": [endpoint, endpoint],
        },
        "00 00000001 02 0274",
        "02 00000000", "00" * 15 + "01", "00000001 00000002 00 00",
        "03", "0243 0268 ffff 00" * 2, "00",
    )  # fmt: skip


# --- records, unknown tags, float64: what the converters lose ---


@pytest.mark.parametrize(
    ("records", "flexible", "old"),
    [
        (None, "00", "ffffffff"),
        (b"", "01", "00000000"),
        (bytes(range(256)) * 2, "8104", "00000200"),  # 513 as a varint: 0x81 0x04
    ],
)
def test_records_travel_as_base64(
    kafka: KafkaAdapter, records: bytes | None, flexible: str, old: str
) -> None:
    text = None if records is None else base64.b64encode(records).decode()
    value = {
        "transactionalId": None, "acks": -1, "timeoutMs": 1,
        "topicData": [{"name": "t", "partitionData": [{"index": 0, "records": text}]}],
    }  # fmt: skip
    body = "" if records is None else records.hex()
    both_ways(
        kafka, "ProduceRequest", 9, value,
        "00 ffff 00000001 02 0274 02 00000000", flexible, body, "00 00 00",
    )  # fmt: skip
    both_ways(
        kafka, "ProduceRequest", 8, value,
        "ffff ffff 00000001 00000001 000174 00000001 00000000", old, body,
    )  # fmt: skip


def test_unaligned_records(kafka: KafkaAdapter) -> None:
    partition = {
        "index": 0, "errorCode": 0, "snapshotId": {"endOffset": 1, "epoch": 2},
        "size": 3, "position": 0, "unalignedRecords": "/wA=",
    }  # fmt: skip
    both_ways(
        kafka, "FetchSnapshotResponse", 0,
        {
            "throttleTimeMs": 0, "errorCode": 0,
            "topics": [{"name": "t", "partitions": [partition]}],
        },
        "00000000 0000 02 0274 02 00000000 0000 0000000000000001 00000002 00",
        "0000000000000003 0000000000000000 03 ff00 00 00 00",
    )  # fmt: skip


def test_unknown_tags_at_every_level(kafka: KafkaAdapter) -> None:
    unknown = "_unknownTaggedFields"
    both_ways(
        kafka, "BeginQuorumEpochRequest", 1,
        {
            "clusterId": None, "voterId": 0,
            "topics": [
                {"topicName": "", "partitions": [], unknown: [{"tag": 0, "hex": ""}]},
            ],
            "leaderEndpoints": [
                {"name": "", "host": "", "port": 0, unknown: [{"tag": 10009, "hex": "3b44a1"}]},
            ],
            unknown: [{"tag": 127, "hex": "01"}, {"tag": 128, "hex": "02"}],
        },
        "00 00000000",
        "02 01 01 01 00 00",
        "02 01 01 0000 01 994e 03 3b44a1",  # 10009 as a varint: 0x99 0x4e
        "02 7f 01 01 8001 01 02",
    )  # fmt: skip


def test_known_and_unknown_tags_merge_in_order(kafka: KafkaAdapter) -> None:
    kafka.load(
        "tags",
        specs={
            "Sample.json": data_spec(
                *(
                    {
                        "name": f"T{tag}", "type": "int8", "versions": "0+",
                        "taggedVersions": "0+", "tag": tag,
                    }
                    for tag in (0, 1)
                ),
            )
        },
    )  # fmt: skip
    both_ways(
        kafka, "Sample", 0,
        {"t1": 5, "_unknownTaggedFields": [{"tag": 2, "hex": "ff"}]},
        "02 01 01 05 02 01 ff",
        spec="tags",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("written", "number"),
    [
        (1.5, 1.5),
        (-0.0, -0.0),
        (5e-324, 5e-324),
        (1.7976931348623157e308, 1.7976931348623157e308),
        ("0x7ff8000000000000", math.nan),
        ("0x7ff0000000000000", math.inf),
        ("0xfff0000000000000", -math.inf),
    ],
)
def test_float64(kafka: KafkaAdapter, written: float | str, number: float) -> None:
    both_ways(
        kafka, "ClientQuotaRecord", 0,
        {"entity": [], "key": "k", "value": written, "remove": True},
        "01 026b", struct.pack(">d", number).hex(), "01 00",
    )  # fmt: skip
    both_ways(
        kafka, "DescribeClientQuotasResponse", 0,
        {
            "throttleTimeMs": 0, "errorCode": 0, "errorMessage": None,
            "entries": [{"entity": [], "values": [{"key": "", "value": written}]}],
        },
        "00000000 0000 ffff 00000001 00000000 00000001 0000", struct.pack(">d", number).hex(),
    )  # fmt: skip


def test_float64_written_as_an_integer_and_the_bits_of_a_nan(kafka: KafkaAdapter) -> None:
    value = {"entity": [], "key": "", "value": 3, "remove": False}
    hex = encode(kafka, "ClientQuotaRecord", 0, value)["hex"]
    assert hex == "0101" + struct.pack(">d", 3.0).hex() + "0000"
    payload = "7ff80000deadbeef"
    reply = decode(kafka, "ClientQuotaRecord", 0, f"0101{payload}0000")
    assert reply["value"]["value"] == f"0x{payload}"


def test_integers_are_exact(kafka: KafkaAdapter) -> None:
    value: dict[str, Any] = {"clusterId": None, "topics": []}
    big = {"partitionIndex": 0, "replicaEpoch": 0, "replicaId": 0, "lastOffsetEpoch": 0}
    for number in (2**53 + 1, -(2**63), 2**63 - 1):
        topic = {"topicName": "", "partitions": [{**big, "lastOffset": number}]}
        hex = encode(kafka, "VoteRequest", 0, {**value, "topics": [topic]})["hex"]
        assert struct.pack(">q", number).hex() in hex
        back = decode(kafka, "VoteRequest", 0, hex)["value"]
        assert back["topics"][0]["partitions"][0]["lastOffset"] == number


# --- verdicts ---


def test_trailing_bytes_are_counted(kafka: KafkaAdapter) -> None:
    reply = decode(kafka, "ApiVersionsRequest", 3, "010100aabbcc")
    assert reply["value"] == {"clientSoftwareName": "", "clientSoftwareVersion": ""}
    assert reply["trailing"] == 3


VOTE: dict[str, Any] = {"clusterId": None, "voterId": 1, "topics": []}


@pytest.mark.parametrize(
    ("message", "version", "value", "expected"),
    [
        ("VoteRequest", 3, VOTE, "unsupported_version"),
        ("FetchRequest", 3, {}, "unsupported_version"),
        ("LeaderAndIsrRequest", 0, {}, "unsupported_version"),
        ("NoSuchRequest", 0, {}, "unknown_message"),
        ("VoteRequest", 1, {"clusterId": None, "topics": []}, "missing_field"),
        ("VoteRequest", 1, {**VOTE, "topics": None}, "null_for_non_nullable"),
        ("VoteRequest", 1, {**VOTE, "voterId": None}, "null_for_non_nullable"),
        ("VoteRequest", 1, {**VOTE, "clusterId": 5}, "wrong_type"),
        ("VoteRequest", 1, {**VOTE, "voterId": 1.5}, "wrong_type"),
        ("VoteRequest", 1, {**VOTE, "voterId": 2**31}, "integer_out_of_range"),
        ("VoteRequest", 1, {**VOTE, "topics": [5]}, "wrong_type"),
        ("VoteRequest", 1, {**VOTE, "topics": [{"partitions": []}]}, "missing_field"),
        (
            "VoteRequest", 1,
            {**VOTE, "topics": [{"topicName": None, "partitions": []}]},
            "null_for_non_nullable",
        ),
        ("VoteRequest", 1, {**VOTE, "clusterId": "x" * 32768}, "length_too_long"),
        (
            "VoteRequest", 1,
            {**VOTE, "_unknownTaggedFields": [{"tag": 2, "hex": ""}, {"tag": 1, "hex": ""}]},
            "tag_out_of_order",
        ),
        (
            "BeginQuorumEpochRequest", 0,
            {"clusterId": None, "topics": [], "_unknownTaggedFields": [{"tag": 2, "hex": ""}]},
            "field_not_in_version",
        ),
    ],
)  # fmt: skip
def test_refusals_on_encode(
    kafka: KafkaAdapter, message: str, version: int, value: Any, expected: str
) -> None:
    assert refused_as(encode(kafka, message, version, value)) == expected


@pytest.mark.parametrize(
    ("hex", "expected"),
    [
        ("", "truncated"),
        ("00 0000", "truncated"),
        ("08 61", "length_exceeds_input"),  # a string of seven bytes
        ("00 00000000 00", "null_for_non_nullable"),  # the topics
        ("00 00000000 ffffffff07", "length_exceeds_input"),
        ("ffffffffff01", "varint_overflow"),
    ],
)
def test_refusals_on_decode(kafka: KafkaAdapter, hex: str, expected: str) -> None:
    assert refused_as(decode(kafka, "VoteRequest", 1, hex.replace(" ", ""))) == expected


def test_a_known_tag_below_its_version(kafka: KafkaAdapter) -> None:
    # FetchRequest has its tag 1 (ReplicaState) since version 15.
    body = "00000000 00000000 00000000 00 00000000 00000000 01 01 01".replace(" ", "")
    assert "value" in decode(kafka, "FetchRequest", 14, "00000000" + body + "00")
    reply = decode(kafka, "FetchRequest", 14, "00000000" + body + "010100")
    assert refused_as(reply) == "tag_below_version"


def test_a_field_that_the_version_lacks(kafka: KafkaAdapter) -> None:
    """The generated class decides, not its converter: ignorable fields go, others are refused."""
    empty: dict[str, Any] = {"clusterId": None, "topics": []}
    endpoint = {"name": "C", "host": "h", "port": 1}
    plain = encode(kafka, "BeginQuorumEpochRequest", 0, empty)
    for ignorable in ({"voterId": 7}, {"leaderEndpoints": [endpoint]}):
        assert encode(kafka, "BeginQuorumEpochRequest", 0, {**empty, **ignorable}) == plain

    partition = {
        "partitionIndex": 0, "replicaEpoch": 0, "replicaId": 0, "lastOffsetEpoch": 0,
        "lastOffset": 0,
    }  # fmt: skip

    def vote(**more: Any) -> dict[str, Any]:
        return {**empty, "topics": [{"topicName": "", "partitions": [{**partition, **more}]}]}

    assert "hex" in encode(kafka, "VoteRequest", 0, vote(preVote=False))
    assert refused_as(encode(kafka, "VoteRequest", 0, vote(preVote=True))) == "field_not_in_version"
    # Structs that are younger than the version, and not ignorable.
    reply = encode(
        kafka, "FetchResponse", 12,
        {
            "throttleTimeMs": 0, "errorCode": 0, "sessionId": 0, "responses": [],
            "nodeEndpoints": [{"nodeId": 1, "host": "h", "port": 1, "rack": None}],
        },
    )  # fmt: skip
    assert refused_as(reply) == "field_not_in_version"


def test_lines_that_are_no_requests(kafka: KafkaAdapter) -> None:
    for request in ({"cmd": "dance"}, {"cmd": "encode", "id": "x"}, {}, {"cmd": "hello"}):
        reply = kafka.request(request)
        REPLY.validate(reply)
        assert refused_as(reply) == "refused"
    assert refused_as(decode(kafka, "VoteRequest", 1, "0x")) == "refused"
    assert kafka.hello().protocol == 1


def test_what_is_not_json_is_answered_too() -> None:
    completed = subprocess.run(
        find("kafka").command(),
        input='rubbish\n{"cmd":"hello","protocol":1}\n{"cmd":"stop"}\nnever read\n',
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    first, second = map(json.loads, completed.stdout.splitlines())
    assert (first["error"]["class"], second["name"], completed.returncode) == (
        "refused",
        "kafka",
        0,
    )


# --- Kafka's generator ---


def test_load_serves_specs_beside_kafka(kafka: KafkaAdapter, tmp_path: Path) -> None:
    spec = data_spec(
        {"name": "Epochs", "type": "[]uint16", "versions": "0+"},
        {"name": "Loads", "type": "[]float64", "versions": "0+"},
        {
            "name": "Voter", "type": "Voter", "versions": "0+", "nullableVersions": "0+",
            "fields": [{"name": "VoterId", "type": "int32", "versions": "0+"}],
        },
    )  # fmt: skip
    request = json.dumps(
        {
            "type": "request", "apiKey": 52, "name": "VoteRequest", "validVersions": "0",
            "flexibleVersions": "none", "listeners": ["controller"],
            "fields": [{"name": "Term", "type": "int64", "versions": "0"}],
        }
    )  # fmt: skip
    specs = {"Sample.json": spec, "Vote.json": "// ours\n" + request, "notes.json": '{"a": 1}'}
    ranges = {"Sample": "0-0", "VoteRequest": "0-0"}
    assert kafka.load("inline", specs=specs) == ranges
    for name, text in specs.items():
        (tmp_path / name).write_text(text)
    assert kafka.load("files", directory=tmp_path) == ranges
    sets = kafka.hello().sets
    assert sets is not UNSET
    assert (sets["inline"], sets["files"]) == (ranges, ranges)
    for name in ("inline", "files"):
        both_ways(
            kafka, "Sample", 0,
            {"epochs": [65535, 0], "loads": ["0xfff0000000000000", 1.0], "voter": {"voterId": 1}},
            "03 ffff 0000", "03 fff0000000000000 3ff0000000000000", "01 00000001 00", "00",
            spec=name,
        )  # fmt: skip
        both_ways(kafka, "VoteRequest", 0, {"term": -2}, "fffffffffffffffe", spec=name)
    # The set kafka still has its own message of that name, and is not to be replaced.
    assert kafka.hello().messages["VoteRequest"] == "0-2"
    with pytest.raises(RefusedError, match="take another name"):
        kafka.load("kafka", specs=specs)
    assert refused_as(encode(kafka, "Sample", 0, {}, "nowhere")) == "unknown_message"


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        ({"Bad.json": data_spec({"name": "A", "type": "message", "versions": "0+"})}, "message"),
        ({"Broken.json": "{"}, "Broken.json"),
        ({"A.json": data_spec(), "B.json": data_spec()}, "Sample"),
        (
            # The generator takes a field that Java cannot have.
            {"A.json": data_spec({"name": "Class", "type": "int8", "versions": "0+"})},
            "does not compile",
        ),
    ],
)
def test_load_says_what_was_wrong(kafka: KafkaAdapter, specs: dict[str, str], message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        kafka.load("bad", specs=specs)
    sets = kafka.hello().sets
    assert sets is not UNSET
    assert "bad" not in sets


def test_load_of_a_missing_directory_and_of_neither(kafka: KafkaAdapter, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="no such directory"):
        kafka.load("none", directory=tmp_path / "none")
    with pytest.raises(ValueError, match="either a directory or specs"):
        kafka.load("none")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (data_spec({"name": "A", "type": "int32", "versions": "0+"}), None),
        ("// a comment\n" + data_spec(), None),
        (data_spec(flexibleVersions="0-3"), "flexibleVersions"),
        (data_spec({"name": "A", "type": "uuid", "versions": "0+", "nullableVersions": "0+"}), "A"),
        (data_spec({"name": "A", "type": "int8", "versions": "0+", "nullableVersion": "0+"}),
         "nullableVersion"),
        (data_spec(*[{"name": "A", "type": "int8", "versions": "0+"}] * 2), "A"),
        (data_spec({"name": "A", "type": "int8", "versions": "0+", "default": "300"}), "300"),
        ('{"type": "data"', "Unexpected end-of-input"),
    ],
)  # fmt: skip
def test_verdicts_of_the_generator(kafka: KafkaAdapter, text: str, message: str | None) -> None:
    verdict = kafka.verdict(text)
    if message is None:
        assert verdict is None
    else:
        assert verdict is not None
        assert message in verdict
        assert "/tmp" not in verdict


def test_registers(kafka: KafkaAdapter) -> None:
    errors = {row.code: row for row in kafka.errors()}
    assert (errors[74].name, errors[74].retriable) == ("FENCED_LEADER_EPOCH", True)
    assert (errors[0].name, errors[-1].name) == ("NONE", "UNKNOWN_SERVER_ERROR")
    assert (errors[42].name, errors[42].retriable) == ("INVALID_REQUEST", False)
    assert sorted(errors) == list(errors) == list(range(-1, len(errors) - 1))
    keys = {row.id: row for row in kafka.api_keys()}
    assert (keys[52].name, keys[52].message) == ("VOTE", "Vote")
    assert (keys[80].name, keys[80].message) == ("ADD_RAFT_VOTER", "AddRaftVoter")
    for command in ("errors", "api-keys", "header-versions"):
        REPLY.validate(kafka.request({"cmd": command, "id": command}))
