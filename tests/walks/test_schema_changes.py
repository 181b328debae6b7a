"""A schema changed: the whole road, from the spec to bytes that Kafka's classes agree with.

check → diff → generate → vectors by Kafka's generator → round trip through the new codec. Once for
an edit of ours, once for the next release of Kafka. ``docs/schema-evolution.md`` tells both.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

import kraftspec.generated.kafka
from kraftspec.cli import main
from kraftspec.codegen.releases import release_specs
from kraftspec.conformance.making.make import make
from kraftspec.conformance.raw import vectors as raw
from kraftspec.conformance.runner.judge import value_difference
from kraftspec.conformance.vectors import read_vectors, vectors_root
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.message import Message
from kraftspec.specs import specs_root

pytestmark = pytest.mark.kafka

CLIENTS = specs_root() / "kafka" / "clients"
# What 4.4.0 renamed: the bytes of released versions are the same, their JSON is not.
RENAMED = {"TxnOffsetCommitRequest", "StreamsGroupHeartbeatResponse"}


def run(*arguments: str | os.PathLike[str]) -> Result:
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def diff(old: Path, new: Path) -> tuple[int, dict[str, dict[str, Any]], Counter[str]]:
    """Return the exit code, the messages that differ by name, and the count of each verdict."""
    result = run("spec", "diff", old, new, "--json")
    report = json.loads(result.stdout)
    messages = {entry["name"]: entry for entry in report["messages"]}
    verdicts = Counter(entry["verdict"] for entry in messages.values())
    changed = {name: entry for name, entry in messages.items() if entry["verdict"] != "unchanged"}
    return result.exit_code, changed, verdicts


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory whose packages can be imported, and are forgotten after the test."""
    directory = tmp_path / "packages"
    directory.mkdir()
    monkeypatch.syspath_prepend(directory)
    before = set(sys.modules)
    yield directory
    for name in set(sys.modules) - before:
        del sys.modules[name]


def generated(specs: Path, package: Path) -> ModuleType:
    result = run("generate", "--specs", specs, "--out", package)
    assert result.exit_code == 0, result.stderr
    importlib.invalidate_caches()
    return importlib.import_module(package.name)


def valid(file: raw.VectorFile) -> list[raw.Test]:
    """Return the tests of values that are right."""
    return [test for test in file.tests if test.result == "valid"]


def hold(cls: type[Message], test: raw.Test, *, renamed: bool = False) -> None:
    """Hold a codec to one test: its bytes from its value, and its value from its bytes."""
    data = bytes.fromhex(str(test.hex))
    if not renamed:
        assert cls.from_json(test.value, test.version).encode(test.version) == data
    value = cls.decode(data, test.version)
    assert value.encode(test.version) == data
    if not renamed and test.op == "roundtrip":
        assert value_difference(test.value, value.to_json(test.version)) == ""


def edit(directory: Path, name: str, **keys: Any) -> None:
    """Change keys of a spec in a directory."""
    path = directory / f"{name}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}, indent=2))


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    """VoteRequest and VoteResponse as released, and a copy of them to edit."""
    old, new = tmp_path / "old", tmp_path / "specs" / "votes"
    for side in (old, new):
        side.mkdir(parents=True)
        for name in ("VoteRequest", "VoteResponse"):
            shutil.copy(CLIENTS / f"{name}.json", side)
    return old, new


def with_rack(new: Path, versions: str, valid: str) -> None:
    """Give the partitions of VoteRequest a tagged field ``Rack``."""
    spec = json.loads((new / "VoteRequest.json").read_text())
    topics = next(entry for entry in spec["fields"] if entry["name"] == "Topics")
    partitions = next(entry for entry in topics["fields"] if entry["name"] == "Partitions")
    rack = dict.fromkeys(("versions", "nullableVersions", "taggedVersions"), versions)
    partitions["fields"].append(
        {"name": "Rack", "type": "string", "tag": 0, "default": "null"} | rack
    )
    edit(new, "VoteRequest", validVersions=valid, fields=spec["fields"])


def takes_tag_of_rack(value: Any) -> bool:
    """Whether a partition of a VoteRequest holds tag 0 as one that nobody knows."""
    partitions = [
        partition
        for topic in value.get("topics", ())
        for partition in topic["partitions"]
        if "replicaEpoch" in partition
    ]
    return any(
        tagged["tag"] == 0
        for partition in partitions
        for tagged in partition.get("_unknownTaggedFields", ())
    )


def test_an_edit_walks_the_whole_road(
    sides: tuple[Path, Path], packages: Path, tmp_path: Path
) -> None:
    old, new = sides
    with_rack(new, "3+", valid="0-3")
    edit(new, "VoteResponse", validVersions="0-3")

    assert run("spec", "check", new).exit_code == 0
    code, changed, verdicts = diff(old, new)
    assert (code, verdicts) == (0, {"compatible": 2})
    assert changed["VoteRequest"]["newVersions"] == "0-3"

    votes = generated(new, packages / "votes")
    report = make(tmp_path / "specs", tmp_path / "vectors")
    assert (report.messages, report.pairs, report.refused) == (2, 8, [])
    tests = [
        (file.message, test)
        for _, file in read_vectors(tmp_path / "vectors")
        for test in valid(file)
    ]
    for message, test in tests:
        hold(getattr(votes, message), test)
    racks = [test for _, test in tests if '"rack": "' in json.dumps(test.value)]
    assert len(racks) >= 5
    assert {test.version for test in racks} == {3}

    # The vectors of what was released say what moved: nothing but that tag 0 is no longer free.
    held, moved = 0, []
    for _, file in read_vectors(vectors_root(), "kafka/Vote"):
        for test in valid(file) if hasattr(votes, file.message) else ():
            if takes_tag_of_rack(test.value):
                moved.append(test)
            else:
                hold(getattr(votes, file.message), test)
                held += 1
    assert held > 300
    assert {test.family for test in moved} == {"unknown-tags"}
    for test in moved:
        with pytest.raises(CodecError) as refused:
            votes.VoteRequest.decode(bytes.fromhex(str(test.hex)), test.version)
        assert refused.value.error_class is ErrorClass.TAG_BELOW_VERSION

    partition = votes.VoteRequest.PartitionData(rack="b")
    vote = votes.VoteRequest(topics=[votes.VoteRequest.TopicData(partitions=[partition])])
    assert votes.VoteRequest.decode(vote.encode(3), 3) == vote
    with pytest.raises(CodecError) as refused:
        vote.encode(2)
    assert refused.value.path == "topics[0].partitions[0].rack"
    assert refused.value.error_class is ErrorClass.FIELD_NOT_IN_VERSION


def test_an_edit_that_breaks_a_released_version_is_stopped(sides: tuple[Path, Path]) -> None:
    old, new = sides
    with_rack(new, "2+", valid="0-2")
    # As a spec there is nothing wrong with it: only the diff knows what was released.
    assert run("spec", "check", new).exit_code == 0
    code, changed, verdicts = diff(old, new)
    assert (code, verdicts) == (1, {"breaking": 1, "unchanged": 1})
    rules = {finding["rule"]: finding for finding in changed["VoteRequest"]["findings"]}
    assert rules["field-added-to-released"]["path"] == "topics.partitions.rack"
    assert "not released yet" in rules["field-added-to-released"]["mend"]


def test_an_edit_that_is_no_spec_is_stopped(sides: tuple[Path, Path], tmp_path: Path) -> None:
    _, new = sides
    with_rack(new, "3-4", valid="0-3")
    result = run("spec", "check", new)
    assert result.exit_code == 1
    assert "taggedVersions 3-4 ends" in result.stdout
    result = run("generate", "--specs", new, "--out", tmp_path / "votes")
    assert result.exit_code != 0
    assert not (tmp_path / "votes").exists()


def test_the_next_release_walks_the_whole_road(packages: Path, tmp_path: Path) -> None:
    """From 4.3.1 to 4.4.0, with the clients' messages that changed."""
    older = tmp_path / "specs" / "kafka"
    shutil.copytree(release_specs("4.3.1") / "clients", older / "clients")
    code, changed, verdicts = diff(older, CLIENTS)
    assert code == 0
    assert verdicts == {"compatible": 11, "new": 5, "unchanged": 187}
    assert changed["ApiVersionsRequest"]["newVersions"] == "0-5"

    kafka = generated(older, packages / "kafka_before")
    # Of what changed, the classes of 4.3.1 make the vectors.
    for path in (older / "clients").glob("*.json"):
        if path.stem not in changed:
            path.unlink()
    report = make(tmp_path / "specs", tmp_path / "vectors", release="4.3.1")
    assert (report.messages, report.refused) == (11 + 1, [])  # And RecordBatch.
    held = Counter[str]()
    for _, file in read_vectors(tmp_path / "vectors"):
        if file.message not in changed:
            continue
        now = getattr(kraftspec.generated.kafka, file.message)
        for test in valid(file):
            hold(getattr(kafka, file.message), test)
            # What 4.3.1 wrote, the codec of 4.4.0 reads and writes.
            hold(now, test, renamed=file.message in RENAMED)
            held[file.message] += 1
    assert len(held) == 11
    assert min(held.values()) >= 1
