"""`spec diff`: verdicts on small changes, beside those of Apache Kafka's own evolution checker.

``diff_cases/*.json`` hold the cases. ``old`` and ``new`` are what differs from ``BASE``; ``rules``
are all findings in order; ``path`` is where the first finding with a path is; ``upstream`` is what
Kafka's checker says, and ``why`` explains where that is not our verdict.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from kraftspec.codegen import evolution
from kraftspec.codegen.diff import (
    DiffReport,
    SideError,
    diff_messages,
    diff_sets,
    load_side,
    render,
    run_diff,
)
from kraftspec.codegen.evolution import BREAKING, NOTES, released_versions, wire_form
from kraftspec.codegen.model import Message
from kraftspec.codegen.plan import plan_message
from kraftspec.codegen.reader import check_text
from kraftspec.codegen.releases import release_specs
from kraftspec.conformance.adapters.registry import find

HERE = Path(__file__).parent
KAFKA = HERE.parents[1] / "specs" / "kafka"
BASE: dict[str, Any] = {
    "apiKey": 90,
    "type": "request",
    "name": "PingRequest",
    "validVersions": "0-1",
    "flexibleVersions": "0+",
    "fields": [
        {"name": "Epoch", "type": "int32", "versions": "0+"},
        {"name": "Host", "type": "string", "versions": "0+"},
    ],
}
CASES: dict[str, dict[str, Any]] = {
    case["name"]: case
    for file in sorted((HERE / "diff_cases").glob("*.json"))
    for case in json.loads(file.read_text("utf-8"))
}
JAVA_TIMEOUT_S = 900  # The first run fetches a few MB.
JGIT = "7.5.0.202512021534-r"  # The version that the generator of Kafka 4.3.1 needs.


def text(case: dict[str, Any], side: str) -> str:
    return json.dumps(BASE | case[side], indent=2)


def parsed(spec: str) -> Message:
    message, diagnostics = check_text(spec, "PingRequest.json")
    assert message is not None, diagnostics
    return message


def message(**changes: Any) -> Message:
    return parsed(json.dumps(BASE | changes))


def one(*messages: Message) -> dict[str, Message]:
    return {message.name: message for message in messages}


# Verdicts.


@pytest.mark.parametrize("name", CASES)
def test_verdict(name: str) -> None:
    case = CASES[name]
    diff = diff_messages(parsed(text(case, "old")), parsed(text(case, "new")))
    assert [finding.rule for finding in diff.changes] == case["rules"]
    assert diff.verdict == case["verdict"]
    assert diff.breaking is (case["verdict"] == "breaking")
    if "path" in case:
        assert next(finding.path for finding in diff.changes if finding.path) == case["path"]
    assert all(finding.what and finding.mend for finding in diff.changes)


def test_every_rule_has_a_case() -> None:
    seen = {rule for case in CASES.values() for rule in case["rules"]}
    of_sets = {"message-removed", "api-key-reused"}  # Below: they need more than one message.
    nameless = {"released-layout-changed"}  # Below: the net under the other rules.
    assert (BREAKING.keys() | NOTES.keys()) - seen == of_sets | nameless


def test_cases_are_many_and_each_difference_from_upstream_is_explained() -> None:
    assert len(CASES) >= 40
    for name, case in CASES.items():
        agree = (case["upstream"] == "refused") == (case["verdict"] == "breaking")
        assert agree is ("why" not in case), name


@pytest.mark.parametrize("name", CASES)
def test_bytes_of_shared_versions_stay_unless_breaking(name: str) -> None:
    case = CASES[name]
    old, new = parsed(text(case, "old")), parsed(text(case, "new"))
    if case["verdict"] == "breaking":
        return
    released = range(old.valid_versions.lowest, old.valid_versions.highest + 1)
    for version in list(released)[: -1 if old.latest_version_unstable else None]:
        if version in new.valid_versions:
            before, after = plan_message(old, version), plan_message(new, version)
            assert wire_form(before.struct) == wire_form(after.struct), version


@pytest.fixture(scope="module")
def verifier(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of ``EvolutionOracle``; its class path has what Kafka's checker needs besides."""
    jgit = published("org.eclipse.jgit:org.eclipse.jgit:" + JGIT, tmp_path_factory.mktemp("jgit"))
    command = find("kafka").command()
    class_path = os.pathsep.join([command[command.index("-cp") + 1], str(jgit)])
    # Java compiles a single source file itself.
    source = str(HERE / "EvolutionOracle.java")
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", class_path, source]


def published(artifact: str, directory: Path) -> Path:
    """Fetch one jar with Maven (which keeps it) and return a copy of it."""
    out = f"-DoutputDirectory={directory}"
    done = subprocess.run(
        ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", out],
        capture_output=True,
        text=True,
        timeout=JAVA_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    _, name, version = artifact.split(":")
    return directory / f"{name}-{version}.jar"


def upstream(verifier: list[str], directory: Path) -> dict[str, tuple[str, str]]:
    """Run Kafka's checker on each NAME.old.json and NAME.new.json: verdict and output."""
    done = subprocess.run(
        [*verifier, str(directory)],
        capture_output=True,
        text=True,
        timeout=JAVA_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return {name: (verdict, output) for name, verdict, output in rows}


@pytest.mark.kafka
def test_upstream_verdicts(verifier: list[str], tmp_path: Path) -> None:
    for name, case in CASES.items():
        for side in ("old", "new"):
            (tmp_path / f"{name}.{side}.json").write_text(text(case, side), "utf-8")
    output = upstream(verifier, tmp_path)
    assert {name: output[name][0] for name in CASES} == {
        name: case["upstream"] for name, case in CASES.items()
    }, output


# Real specs.


def test_all_of_kafka_is_unchanged_against_itself() -> None:
    kafka = load_side(str(KAFKA))
    report = diff_sets(kafka, load_side(str(KAFKA)))
    assert report.counts["unchanged"] == len(kafka) == 286
    assert report.exit_code == 0


def test_the_last_field_of_any_message_of_kafka_may_not_go() -> None:
    """The most common slip that upstream's checker does not see, over all of Kafka."""
    tried = 0
    for old in load_side(str(KAFKA)).values():
        last = old.top.fields[-1] if old.top.fields else None
        # With its last field a message may lose structs, or a tag in the middle: another mistake.
        if last is None or last.type.struct or last.tag is not None:
            continue
        if (last.versions & released_versions(old)).empty:
            continue
        top = replace(old.top, fields=old.top.fields[:-1])
        diff = diff_messages(old, replace(old, top=top))
        assert [(change.rule, change.path) for change in diff.changes if change.breaking] == [
            ("live-field-removed", last.name[0].lower() + last.name[1:])
        ], old.name
        tried += 1
    assert tried > 100


# Sets.


def test_a_new_message() -> None:
    report = diff_sets({}, one(message()))
    assert [(diff.name, diff.verdict) for diff in report.messages] == [("PingRequest", "new")]
    assert report.exit_code == 0


def test_a_removed_message() -> None:
    report = diff_sets(one(message()), {})
    (diff,) = report.messages
    assert diff.verdict == "removed"
    assert [finding.rule for finding in diff.changes] == ["message-removed"]
    assert report.exit_code == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"validVersions": "none", "fields": []},
        {"validVersions": "0", "latestVersionUnstable": True},
    ],
)
def test_a_message_without_released_versions_may_go(changes: dict[str, Any]) -> None:
    report = diff_sets(one(message(**changes)), {})
    assert [diff.verdict for diff in report.messages] == ["removed"]
    assert report.exit_code == 0


def test_an_api_key_is_not_given_again() -> None:
    report = diff_sets(one(message()), one(message(name="PongRequest")))
    assert {diff.name: [change.rule for change in diff.changes] for diff in report.messages} == {
        "PingRequest": ["message-removed"],
        "PongRequest": ["api-key-reused"],
    }


def test_a_request_and_its_response_share_a_key() -> None:
    report = diff_sets(one(message()), one(message(), message(name="Ping", type="response")))
    assert report.counts["new"] == 1
    assert report.exit_code == 0


def test_each_coordinator_counts_its_keys_for_itself() -> None:
    group = message(name="GroupValue", type="coordinator-value", apiKey=0)
    share = message(name="ShareValue", type="coordinator-value", apiKey=0)
    assert diff_sets(one(group), one(group, share)).exit_code == 0


def test_the_net_under_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of bytes that no rule names is rejected too."""
    monkeypatch.setattr(evolution._Comparison, "structs", lambda *_: None)
    case = CASES["type-changed-in-width"]
    diff = diff_messages(parsed(text(case, "old")), parsed(text(case, "new")))
    assert [finding.rule for finding in diff.changes] == ["released-layout-changed"]
    assert diff.changes[0].what == "other bytes in versions 0-1"


# The report.


def a_report() -> DiffReport:
    cases = ("field-added-in-a-released-struct", "version-added", "about-changed")
    old = {name: parsed(text(CASES[name], "old")) for name in cases}
    new = {name: parsed(text(CASES[name], "new")) for name in cases}
    diffs = [
        replace(diff_messages(old[name], new[name]), name=f"{name.title().replace('-', '')}Request")
        for name in cases
    ]
    return DiffReport("v1:specs/kafka", "specs/kafka", tuple(diffs))


def test_json() -> None:
    value = json.loads(json.dumps(a_report().to_json()))
    assert value["breaking"] is True
    assert value["counts"] == {
        "breaking": 1,
        "removed": 0,
        "compatible": 1,
        "new": 0,
        "unchanged": 1,
    }
    assert [entry["verdict"] for entry in value["messages"]] == [
        "breaking",
        "compatible",
        "unchanged",
    ]
    first = value["messages"][0]
    assert (first["oldVersions"], first["newVersions"]) == ("0-1", "0-1")
    assert first["findings"] == [
        {
            "rule": "field-added-to-released",
            "breaking": True,
            "path": "topics.partitions.replicaEpoch",
            "what": "int32 in versions 0+ is new",
            "mend": "let the field start at a version that is not released yet",
        }
    ]
    removed = diff_sets(one(message(validVersions="none", fields=[])), {}).to_json()["messages"][0]
    assert (removed["oldVersions"], removed["newVersions"]) == ("none", None)


def test_plain_text_is_never_wrapped() -> None:
    out = io.StringIO()
    render(a_report(), Console(file=out))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert not any("\x1b" in line for line in lines)
    name = "FieldAddedInAReleasedStructRequest"
    assert [line.split() for line in lines if line.lstrip().startswith("breaking")] == [
        ["breaking", name, "0-1", "0-1", "1"]
    ]
    assert (
        f"field-added-to-released  {name}.topics.partitions.replicaEpoch: "
        "int32 in versions 0+ is new"
    ) in lines
    assert "    let the field start at a version that is not released yet" in lines
    assert lines[-1] == (
        "v1:specs/kafka → specs/kafka: 1 breaking, 0 removed, 1 compatible, 0 new, 1 unchanged"
    )
    assert not any("AboutChanged" in line for line in lines)


def test_text_of_a_terminal_has_colour() -> None:
    out = io.StringIO()
    render(a_report(), Console(file=out, force_terminal=True, width=120))
    assert "\x1b[1;31m" in out.getvalue()


def test_nothing_changed_is_one_line() -> None:
    out = io.StringIO()
    render(
        diff_sets(one(message()), one(message()), old_label="a", new_label="b"), Console(file=out)
    )
    assert out.getvalue() == ("a → b: 0 breaking, 0 removed, 0 compatible, 0 new, 1 unchanged\n")


# Sides.


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repository with a tag v1, in which version 1 of PingRequest was then added."""
    monkeypatch.chdir(tmp_path)
    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(variable, raising=False)
    specs = tmp_path / "specs" / "kafka" / "clients"
    specs.mkdir(parents=True)
    spec = specs / "PingRequest.json"
    spec.write_text("// A comment.\n" + json.dumps(BASE | {"validVersions": "0"}), "utf-8")
    (tmp_path / "specs" / "errors.json").write_text("{}", "utf-8")
    git("init", "-q")
    git("add", ".")
    git("-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "-m", "one")
    git("tag", "v1")
    spec.write_text(json.dumps(BASE), "utf-8")
    return tmp_path


def git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True)


@pytest.mark.parametrize(
    "old",
    ["v1", "v1:specs/kafka", "v1:specs", "HEAD:specs/kafka/clients/PingRequest.json", "v1:specs/"],
)
def test_a_git_revision(repository: Path, old: str) -> None:
    report = run_diff(old, "specs/kafka")
    assert (report.old, report.new) == (old, "specs/kafka")
    assert [finding.rule for finding in report.messages[0].changes] == ["versions-added"]
    assert report.exit_code == 0
    assert run_diff("specs", old).exit_code == 1  # The other way round version 1 goes away.


def test_a_git_revision_from_a_subdirectory(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository / "specs" / "kafka")
    assert list(load_side("v1")) == ["PingRequest"]


def test_a_jar(tmp_path: Path) -> None:
    jar = tmp_path / "kafka-clients-1.0.0.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("common/message/PingRequest.json", "// Hi.\n" + json.dumps(BASE))
        archive.writestr("META-INF/other.json", "{}")
    assert load_side(str(jar)) == one(message())


@pytest.mark.parametrize(
    ("side", "reason"),
    [
        ("", "a side of a diff is empty"),
        ("nowhere", "git finds no specs under that name"),
        ("v2:specs", "git finds no specs under that name"),
        ("v1:elsewhere", "elsewhere"),
        ("--help", "git finds no specs under that name"),
        ("note.txt", "neither a directory, nor a jar"),
        ("empty", "no spec"),
        ("bad", "bad/BadRequest.json:1:"),
        ("twice", "is both in"),
        ("other.jar", "no schema under"),
        ("latin", "UTF-8"),
    ],
)
def test_a_side_that_cannot_be_loaded(repository: Path, side: str, reason: str) -> None:
    (repository / "note.txt").write_text("x", "utf-8")
    for name in ("empty", "bad", "twice/a", "twice/b", "latin"):
        (repository / name).mkdir(parents=True)
    (repository / "bad" / "BadRequest.json").write_text('{"name": "Bad"', "utf-8")
    (repository / "twice" / "a" / "PingRequest.json").write_text(json.dumps(BASE), "utf-8")
    (repository / "twice" / "b" / "PingRequest.json").write_text(json.dumps(BASE), "utf-8")
    (repository / "latin" / "PingRequest.json").write_bytes(b'{"name": "\xe9"}')
    with zipfile.ZipFile(repository / "other.jar", "w") as archive:
        archive.writestr("README", "x")
    with pytest.raises(SideError, match=r".") as caught:
        load_side(side)
    assert reason in str(caught.value)


def test_no_git_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SideError, match="there is no git here"):
        load_side("v1")


# A schema changed: an edit of a copy.


def vote_request(versions: str, rack_versions: str) -> Message:
    """Return Kafka's VoteRequest with a tagged field ``Rack`` in its partitions."""
    spec = json.loads((KAFKA / "clients" / "VoteRequest.json").read_text("utf-8"))
    topics = next(entry for entry in spec["fields"] if entry["name"] == "Topics")
    partitions = next(entry for entry in topics["fields"] if entry["name"] == "Partitions")
    rack = dict.fromkeys(("versions", "nullableVersions", "taggedVersions"), rack_versions)
    partitions["fields"].append(
        {"name": "Rack", "type": "string", "tag": 0, "default": "null"} | rack
    )
    return parsed(json.dumps(spec | {"validVersions": versions}))


@pytest.mark.parametrize(
    ("versions", "rack_versions", "verdict", "rules"),
    [
        ("0-3", "3+", "compatible", ["versions-added", "field-added"]),
        ("0-2", "2+", "breaking", ["field-added-to-released"]),
        ("0-3", "2+", "breaking", ["field-added-to-released", "versions-added"]),
    ],
)
def test_a_tagged_field_in_a_copy_of_a_spec(
    versions: str, rack_versions: str, verdict: str, rules: list[str]
) -> None:
    old = load_side(str(KAFKA / "clients" / "VoteRequest.json"))["VoteRequest"]
    diff = diff_messages(old, vote_request(versions, rack_versions))
    assert (diff.verdict, [change.rule for change in diff.changes]) == (verdict, rules)
    rack = next(change for change in diff.changes if change.path)
    assert rack.path == "topics.partitions.rack"


# A schema changed: the kafka-clients of two releases.


@pytest.mark.kafka
def test_the_next_release_of_kafka(verifier: list[str], tmp_path: Path) -> None:
    newer = published("org.apache.kafka:kafka-clients:4.4.0", tmp_path)
    report = run_diff(str(release_specs("4.3.1") / "clients"), str(newer))
    verdicts: dict[str, list[str]] = {}
    for diff in report.messages:
        verdicts.setdefault(diff.verdict, []).append(diff.name)
    assert Counter({key: len(names) for key, names in verdicts.items()}) == {
        "unchanged": 187,
        "compatible": 11,
        "new": 5,
    }
    assert verdicts["new"] == [
        "AbortedTxn",
        "StreamsGroupTopologyDescriptionUpdateRequest",
        "StreamsGroupTopologyDescriptionUpdateResponse",
        "UnregisterControllerRequest",
        "UnregisterControllerResponse",
    ]
    assert report.exit_code == 0
    actual = {(d.name, f.rule, f.path) for d in report.messages for f in d.changes}
    assert {
        ("ApiVersionsRequest", "field-added", "clusterId"),
        ("TxnOffsetCommitRequest", "field-ended", "topics.name"),
        ("TxnOffsetCommitRequest", "field-renamed", "generationIdOrMemberEpoch"),
        ("StreamsGroupHeartbeatResponse", "field-renamed", "acceptableRecoveryLagLegacy"),
        ("StreamsGroupHeartbeatResponse", "field-added", "acceptableRecoveryLag"),
        ("DescribeProducersRequest", "api-changed", "topics.name"),
    } <= actual
    # Kafka's own checker on the same pairs.
    old_jar = published("org.apache.kafka:kafka-clients:4.3.1", tmp_path)
    with zipfile.ZipFile(old_jar) as old, zipfile.ZipFile(newer) as new:
        for diff in report.messages:
            if diff.verdict == "compatible":
                for side, archive in (("old", old), ("new", new)):
                    schema = archive.read(f"common/message/{diff.name}.json")
                    (tmp_path / f"{diff.name}.{side}.json").write_bytes(schema)
    output = upstream(verifier, tmp_path)
    assert len(output) == 11
    # It cannot follow a field that is one common struct, unless it is called after the struct.
    lost = "Unable to locate a specification for the structure UserEndpoint"
    assert {name: lost in text for name, (verdict, text) in output.items() if verdict != "ok"} == {
        "StreamsGroupDescribeResponse": True,
        "StreamsGroupHeartbeatRequest": True,
        "StreamsGroupHeartbeatResponse": True,
    }
