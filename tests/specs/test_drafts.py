"""The draft sets: the specs of the seeds are rejected for the reason that ERRATA.md gives, and what
was made of it has the fields that the drafts name, agrees with Kafka where Kafka has the same, and
is taken by Kafka's own generator.
"""

from __future__ import annotations

import json
import re
import zipfile
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kraftspec.codegen.diagnostics import RULES
from kraftspec.codegen.importer import fields_by_path, read_schema
from kraftspec.codegen.reader import check_text, read_message
from kraftspec.codegen.versions import Versions
from kraftspec.conformance.adapters.kafka import KafkaAdapter
from kraftspec.conformance.adapters.registry import kafka_adapter
from kraftspec.specs import specs_root

KafkaJar = Callable[[str, str], Path]  # (artifact, release), from conftest.py
Spec = dict[str, Any]

AS_WRITTEN = Path(__file__).with_name("bad") / "seeds"
SETS = {"kip-595": 21, "kip-853": 26, "kip-996": 20}
COPIES = ("ApiVersionsRequest", "ApiVersionsResponse", "RequestHeader", "ResponseHeader")
# The release of the drafts' time whose jars hold every schema that the drafts build on.
ERA = "3.6.2"


class Row(NamedTuple):
    """A repair, of the first table of an ERRATA.md."""

    folder: str
    message: str
    as_written: str
    as_repaired: str
    why: str
    rule: str


def table(folder: str, heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading of a set's ERRATA.md."""
    text = (specs_root() / folder / "ERRATA.md").read_text("utf-8")
    section = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    assert all(len(row) == len(cells[0]) for row in cells)
    return cells[1:]  # Without the head.


REPAIRS = [Row(folder, *row) for folder in SETS for row in table(folder, "Refused as written")]
READINGS = [
    (folder, message, kind)
    for folder in SETS
    for message, *_, kind in table(folder, "Readings and proposals")
]


def as_written(folder: str, message: str) -> list[str]:
    """Return the texts of a message as the seeds have it, the earlier revision first."""
    paths = sorted(AS_WRITTEN.glob(f"{folder}-{message}*.json"), key=lambda path: len(path.name))
    return [path.read_text("utf-8") for path in paths]


@cache
def rules_broken(text: str) -> frozenset[str]:
    _, diagnostics = check_text(text, "as-written.json")
    return frozenset(diagnostic.rule for diagnostic in diagnostics)


def load(folder: str, message: str) -> Spec:
    spec: Spec = json.loads((specs_root() / folder / f"{message}.json").read_text("utf-8"))
    return spec


def messages(folder: str) -> list[str]:
    return sorted(path.stem for path in (specs_root() / folder).glob("*.json"))


def kafka(message: str) -> Path | None:
    return next(iter((specs_root() / "kafka").glob(f"*/{message}.json")), None)


def squeezed(text: str) -> str:
    return re.sub(r"[ \r\n]+", "", text)  # Other white space is a mistake, and is compared.


def quoted(cell: str) -> str:
    return squeezed(cell.strip("`")).replace("U+00A0", "\u00a0")


# ---- ERRATA.md ------------------------------------------------------------------------------


@pytest.mark.parametrize("row", REPAIRS, ids=lambda row: f"{row.folder}-{row.message}-{row.rule}")
def test_as_written_is_refused_for_the_reason_given(row: Row) -> None:
    assert row.rule in RULES
    texts = as_written(row.folder, row.message)
    having = [text for text in texts if quoted(row.as_written) in squeezed(text)]
    assert having
    assert all(row.rule in rules_broken(text) for text in having)


@pytest.mark.parametrize("row", REPAIRS, ids=lambda row: f"{row.folder}-{row.message}-{row.rule}")
def test_the_repair_is_made(row: Row) -> None:
    repaired = squeezed((specs_root() / row.folder / f"{row.message}.json").read_text("utf-8"))
    assert quoted(row.as_repaired) in repaired
    assert quoted(row.as_written) not in repaired


@pytest.mark.parametrize(
    ("folder", "message"), sorted({(row.folder, row.message) for row in REPAIRS})
)
def test_no_refusal_is_left_out(folder: str, message: str) -> None:
    listed = {row.rule for row in REPAIRS if (row.folder, row.message) == (folder, message)}
    assert set().union(*map(rules_broken, as_written(folder, message))) == listed


def test_what_was_printed_without_mistakes_is_kept() -> None:
    """But for its white space."""
    refused = {(row.folder, row.message) for row in REPAIRS if row.rule != "json-space"}
    names = {re.sub("-later$", "", path.stem) for path in AS_WRITTEN.glob("*.json")}
    printed = {(name[:7], name[8:]) for name in names}
    assert refused < printed
    assert printed - refused == {
        ("kip-853", "AddVoterRecord"),
        ("kip-853", "RemoveVoterRecord"),
        ("kip-853", "BeginQuorumEpochRequest"),
    }
    for folder, message in printed - refused:
        (text,) = as_written(folder, message)
        assert rules_broken(text) <= {"json-space"}
        ours, theirs = load(folder, message), json.loads(text.replace("\u00a0", " "))
        for spec in (ours, theirs):
            for _, field in fields_by_path(spec):
                field.pop("about", None)
        assert ours == theirs


@pytest.mark.parametrize("folder", SETS)
def test_every_message_is_accounted_for(folder: str) -> None:
    reported = {row.message for row in REPAIRS if row.folder == folder}
    reported |= {message for where, message, _ in READINGS if where == folder}
    assert reported | set(COPIES) == set(messages(folder))
    assert {kind for _, _, kind in READINGS} == {"reading", "proposal"}


def test_the_two_claims_on_vote_stand_side_by_side() -> None:
    heading = "Two drafts claim version 1 of Vote"
    assert table("kip-853", heading) == table("kip-996", heading)
    assert len(table("kip-853", heading)) == 5
    for folder in ("kip-853", "kip-996"):
        assert load(folder, "VoteRequest")["validVersions"] == "0-1"


# ---- what the sets hold ----------------------------------------------------------------------


@pytest.mark.parametrize("folder", SETS)
def test_every_spec_is_good(folder: str) -> None:
    assert len(messages(folder)) == SETS[folder]
    for message in messages(folder):
        assert read_message(specs_root() / folder / f"{message}.json").name == message


@pytest.mark.parametrize("folder", SETS)
def test_every_field_is_documented(folder: str) -> None:
    for message in messages(folder):
        for path, field in fields_by_path(load(folder, message)):
            assert re.fullmatch(r"\S.*\S\.", field.get("about", "")), f"{message}: {path}"


@pytest.mark.parametrize("folder", SETS)
def test_copies_are_kafkas(folder: str) -> None:
    for message in COPIES:
        source = kafka(message)
        assert source is not None
        copy = specs_root() / folder / f"{message}.json"
        assert copy.read_bytes() == source.read_bytes()


def wire(spec: Spec, version: int) -> Iterator[tuple[str, str]]:
    """Yield (path, ``type ?nullable #tag =default-in-a-tag``) of each field of a version."""
    common = {struct["name"]: struct["fields"] for struct in spec.get("commonStructs", ())}

    def walk(fields: list[Spec], prefix: str) -> Iterator[tuple[str, str]]:
        for field in fields:
            tagged: str = field.get("taggedVersions", "none")
            if version not in Versions.parse(field.get("versions") or tagged):
                continue
            note = field["type"]
            if version in Versions.parse(field.get("nullableVersions", "none")):
                note += "?"
            if version in Versions.parse(tagged):
                note += f"#{field['tag']}={field.get('default', '')}"
            yield prefix + field["name"], note
            inner = field.get("fields") or common.get(field["type"].removeprefix("[]"), [])
            yield from walk(inner, f"{prefix}{field['name']}.")

    yield from walk(spec.get("fields", []), "")


def brief(spec: Spec, version: int) -> str:
    """Return a version's fields in one line, structs in parentheses: ``A:int32 B:[]X(C:bool)``."""
    line = ""
    depth = 0
    for path, note in wire(spec, version):
        *_, name = path.split(".")
        level = path.count(".")
        line += "(" if level > depth else ")" * (depth - level) + (" " if line else "")
        depth = level
        line += f"{name}:{note}"
    return line + ")" * depth


ENDPOINTS = "EndPoints:[]VoterEndpoint(Name:string Host:string Port:uint16 SecurityProtocol:int16)"
ANSWER = "ErrorCode:int16 LeaderId:int32 LeaderEpoch:int32"
VOTERS = (
    "ClusterId:string {} CurrentVoters:[]Voter(VoterId:int32) TargetVoters:[]Voter?(VoterId:int32)"
)
ADDRESS = "BootTimestamp:int64 Host:string Port:int32 SecurityProtocol:int16"
VOTE_0 = "CandidateEpoch:int32 CandidateId:int32 LastOffsetEpoch:int32 LastOffset:int64"
VOTE_1 = (
    "CandidateEpoch:int32 CandidateUuid:uuid VoterUuid:uuid LastOffsetEpoch:int32 LastOffset:int64"
)
PRE_VOTE = "ReplicaEpoch:int32 ReplicaId:int32 LastOffsetEpoch:int32 LastOffset:int64"
CHANGED = (
    "ErrorCode:int16 Topics:[]TopicData(TopicName:string Partitions:[]PartitionData(Index:int32 "
    "ErrorCode:int16 CurrentLeader:LeaderIdAndEpoch#0=(LeaderId:int32 LeaderEpoch:int32)))"
)


def topics(partition: str, before: str = "ClusterId:string?") -> str:
    inner = f"TopicName:string Partitions:[]PartitionData({partition})"
    return f"{before} Topics:[]TopicData({inner})".strip()


# As the texts of the drafts and of the 2020 prototype list them, not as our files do.
LAYOUTS = {
    ("kip-595", "QuorumStateMessage", 0): VOTERS.format(
        "LeaderId:int32 LeaderEpoch:int32 VotedId:int32 AppliedOffset:int64"
    ),
    ("kip-595", "VoterAssignmentMessage", 0): VOTERS.format("").replace("  ", " "),
    ("kip-595", "LeaderChangeMessage", 0): "LeaderId:int32 VotedIds:[]int32",
    ("kip-595", "VoteRequest", 0): (
        "ClusterId:string CandidateEpoch:int32 CandidateId:int32 LastEpoch:int32 "
        "LastEpochEndOffset:int64"
    ),
    ("kip-595", "VoteResponse", 0): f"{ANSWER} VoteGranted:bool",
    ("kip-595", "BeginQuorumEpochRequest", 0): "ClusterId:string LeaderId:int32 LeaderEpoch:int32",
    ("kip-595", "BeginQuorumEpochResponse", 0): ANSWER,
    ("kip-595", "EndQuorumEpochRequest", 0): (
        "ClusterId:string ReplicaId:int32 LeaderId:int32 LeaderEpoch:int32 "
        "PreferredSuccessors:[]int32"
    ),
    ("kip-595", "EndQuorumEpochResponse", 0): ANSWER,
    ("kip-595", "FetchQuorumRecordsRequest", 0): (
        "ClusterId:string ReplicaId:int32 LeaderEpoch:int32 FetchOffset:int64 "
        "LastFetchedEpoch:int32 MaxWaitTimeMs:int32"
    ),
    ("kip-595", "FetchQuorumRecordsResponse", 0): (
        f"{ANSWER} NextFetchOffset:int64 NextFetchOffsetEpoch:int32 Records:bytes "
        "HighWatermark:int64 FirstDirtyOffset:int64 LastCaughtUpTimeMs:int64"
    ),
    ("kip-595", "FindQuorumRequest", 0): f"ReplicaId:int32 {ADDRESS}",
    ("kip-595", "FindQuorumResponse", 0): (
        "ErrorCode:int16 ClusterId:string LeaderId:int32 LeaderEpoch:int32 "
        f"Voters:[]Voter(VoterId:int32 {ADDRESS}) TargetVoters:[]Voter?(VoterId:int32 {ADDRESS})"
    ),
    ("kip-853", "AddVoterRecord", 0): (
        f"Version:int16 VoterId:int32 VoterUuid:uuid {ENDPOINTS}"
    ),
    ("kip-853", "RemoveVoterRecord", 0): "Version:int16 VoterId:int32 VoterUuid:uuid",
    ("kip-853", "AddVoterRequest", 0): topics(
        f"Index:int32 VoterId:int32 VoterUuid:uuid {ENDPOINTS}", "ClusterId:string"
    ),
    ("kip-853", "AddVoterResponse", 0): CHANGED,
    ("kip-853", "RemoveVoterRequest", 0): topics("Index:int32 VoterId:int32 VoterUuid:uuid", ""),
    ("kip-853", "RemoveVoterResponse", 0): CHANGED,
    ("kip-853", "VoteRequest", 0): topics(f"PartitionIndex:int32 {VOTE_0}"),
    ("kip-853", "VoteRequest", 1): topics(
        f"PartitionIndex:int32 {VOTE_1}", "ClusterId:string? CandidateId:int32 VoterId:int32"
    ),
    ("kip-996", "VoteRequest", 0): topics(f"PartitionIndex:int32 {PRE_VOTE}"),
    ("kip-996", "VoteRequest", 1): topics(f"PartitionIndex:int32 {PRE_VOTE} PreVote:bool"),
    ("kip-996", "VoteResponse", 1): topics(
        f"PartitionIndex:int32 {ANSWER} VoteGranted:bool PreVote:bool", "ErrorCode:int16"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("folder", "message", "version"), LAYOUTS)
def test_fields_are_the_drafts(folder: str, message: str, version: int) -> None:
    # The drafts give no default inside a tag but -1, which the seeds' own text is checked for.
    actual = brief(load(folder, message), version)
    assert actual.replace("=-1", "=") == LAYOUTS[folder, message, version]
    key = (specs_root() / folder / f"{message}.json").read_text("utf-8")
    assert '"flexibleVersions": "0+"' in key


# ---- against Kafka ---------------------------------------------------------------------------

# What a draft has more, in fields, than Kafka of its time at the versions that both have, or at
# its new version than Kafka at its last: (set, message, version) to (gained, lost).
DIFFERENCES: dict[tuple[str, str, int], tuple[set[str], set[str]]] = {
    ("kip-853", "FetchRequest", 14): (
        {"ReplicaUuid", "ReplicaEndPoints", "Name", "Host", "Port", "SecurityProtocol"},
        set(),
    ),
    ("kip-853", "DescribeQuorumResponse", 2): (
        {
            "ReplicaUuid", "ShouldBecomeVoter", "EndPoints", "Name", "Host", "Port",
            "SecurityProtocol",
        },
        set(),
    ),
    ("kip-853", "LeaderChangeMessage", 1): ({"VoterUuid"}, set()),
    ("kip-853", "QuorumStateData", 1): ({"VoterUuid", "VotedUuid"}, set()),
    ("kip-853", "VoteRequest", 1): (
        {"CandidateId", "VoterId", "CandidateUuid", "VoterUuid"}, {"CandidateId"},
    ),
    ("kip-996", "VoteRequest", 0): (
        {"ReplicaEpoch", "ReplicaId"}, {"CandidateEpoch", "CandidateId"},
    ),
    ("kip-996", "VoteRequest", 1): (
        {"ReplicaEpoch", "ReplicaId", "PreVote"}, {"CandidateEpoch", "CandidateId"},
    ),
    ("kip-996", "VoteResponse", 1): ({"PreVote"}, set()),
}  # fmt: skip


@pytest.fixture(scope="module")
def era(kafka_jar: KafkaJar) -> dict[str, Spec]:
    """Return the schemas of the drafts' time, by message name, versions 0 to 3 of Fetch too."""
    result = {}
    for artifact in ("kafka-clients", "kafka-raft"):
        with zipfile.ZipFile(kafka_jar(artifact, ERA)) as archive:
            for name in archive.namelist():
                if re.fullmatch(r"common/message/\w+\.json", name):
                    spec = read_schema(archive.read(name).decode(), name)
                    result[spec["name"]] = spec
    return result


@pytest.mark.kafka
@pytest.mark.parametrize("folder", ["kip-853", "kip-996"])
def test_the_rest_is_kafka_of_its_time(folder: str, era: dict[str, Spec]) -> None:
    compared = 0
    for message in sorted(era.keys() & set(messages(folder)) - set(COPIES)):
        spec = load(folder, message)
        theirs = era[message]
        for version in Versions.parse(spec["validVersions"]):
            ours_at = set(wire(spec, version))
            theirs_at = set(wire(theirs, version))  # Of a version to come: all open ranges.
            gained = {path.split(".")[-1] for path, _ in ours_at - theirs_at}
            lost = {path.split(".")[-1] for path, _ in theirs_at - ours_at}
            where = (folder, message, version)
            assert (gained, lost) == DIFFERENCES.get(where, (set(), set())), where
            compared += 1
        shared = Versions.parse(spec["validVersions"]) & Versions.parse(theirs["validVersions"])
        flexible = [
            {version for version in shared if version in Versions.parse(one["flexibleVersions"])}
            for one in (spec, theirs)
        ]
        assert flexible[0] == flexible[1], message
        orders = [[path for path, _ in wire(one, shared.highest)] for one in (spec, theirs)]
        common = set(orders[0]) & set(orders[1])
        kept = [[path for path in order if path in common] for order in orders]
        assert kept[0] == kept[1], message
    assert compared >= 40


@pytest.fixture(scope="module")
def adapter() -> Iterator[KafkaAdapter]:
    with kafka_adapter() as adapter:
        yield adapter


@pytest.mark.kafka
@pytest.mark.parametrize("folder", SETS)
def test_kafkas_generator_takes_every_spec(folder: str, adapter: KafkaAdapter) -> None:
    served = adapter.load(folder, directory=specs_root() / folder)
    assert {message: Versions.parse(versions) for message, versions in served.items()} == {
        message: Versions.parse(load(folder, message)["validVersions"])
        for message in messages(folder)
    }


def sample(spec: Spec, version: int) -> Spec:
    """Return a value in the shape of Kafka's JSON, each field set and no two alike."""
    common = {struct["name"]: struct["fields"] for struct in spec.get("commonStructs", ())}
    count = iter(range(1, 10_000))

    def scalar(type_: str) -> Any:
        number = next(count)
        match type_:
            case "bool":
                return True
            case "string":
                return f"text {number}"
            case "bytes" | "records":
                return b64encode(bytes([number])).decode()
            case "uuid":
                return urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")
        return number

    def value(field: Spec) -> Any:
        element = field["type"].removeprefix("[]")
        fields = field.get("fields") or common.get(element)
        one = struct(fields) if fields else scalar(element)
        return [one] if field["type"].startswith("[]") else one

    def struct(fields: list[Spec]) -> Spec:
        return {
            field["name"][0].lower() + field["name"][1:]: value(field)
            for field in fields
            if version in Versions.parse(field["versions"])
        }

    return struct(spec["fields"])


@pytest.mark.kafka
@pytest.mark.parametrize("folder", ["kip-853", "kip-996"])
def test_shared_versions_have_kafkas_bytes(folder: str, adapter: KafkaAdapter) -> None:
    adapter.load(folder, directory=specs_root() / folder)
    compared = set()
    for message in messages(folder):
        source = kafka(message)
        if source is None:
            continue
        ours, theirs = load(folder, message), json.loads(source.read_text("utf-8"))
        shared = Versions.parse(ours["validVersions"]) & Versions.parse(theirs["validVersions"])
        for version in shared:
            if list(wire(ours, version)) != list(wire(theirs, version)):
                continue
            request = {"cmd": "encode", "message": message, "version": version}
            request["value"] = sample(ours, version)
            kafkas = adapter.request({**request, "id": "kafka"})
            drafts = adapter.request({**request, "id": "draft", "spec": folder})
            assert "hex" in kafkas, (message, version, kafkas)
            assert drafts["hex"] == kafkas["hex"], (message, version)
            compared.add((message, version))
    assert {("FetchRequest", version) for version in range(4, 14)} <= compared
    assert {("FetchResponse", version) for version in range(4, 15)} <= compared
    assert ("BeginQuorumEpochRequest", 0) in compared
