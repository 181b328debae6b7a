"""Minimised runs of Kafka's nodes as Java files: what they say, and what they end with."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from click.testing import CliRunner

from kraftspec.cli.simulate import simulate
from kraftspec.conformance.adapters.registry import find
from kraftspec.conformance.cluster import RELEASE
from kraftspec.generated.kafka import BeginQuorumEpochRequest, FetchResponse, VoteResponse
from kraftspec.reference.profiles import profile_named
from kraftspec.simulation.harness.cores import FOLDER, parse_cores
from kraftspec.simulation.harness.protocol import HarnessError
from kraftspec.simulation.invariants import OTHERS
from kraftspec.simulation.java_example.java_file import (
    Origin,
    bare,
    java_text,
    properties,
    refitted,
    sentence_of,
)
from kraftspec.simulation.java_example.literals import batch_literals, message_literal
from kraftspec.simulation.java_example.smallest import STEPS_MAX, write_example
from kraftspec.simulation.java_example.steps import Call, Step
from kraftspec.simulation.java_example.trial import run
from kraftspec.simulation.minimise import minimise
from kraftspec.simulation.protocols import protocol_of

ROOT = Path(__file__).parents[2]
FINDINGS = sorted(
    path
    for folder in ("findings", "docs/findings")
    for path in (ROOT / folder).rglob("*.java")
    if "KafkaRaftClient" in path.read_text("utf-8")
)
SOLE_VOTER = "--core kafka:4.4.0 --seed 6 --events 3000"


# ---- messages as Java --------------------------------------------------------------------------


def flat(java: str) -> str:
    return re.sub(r"\s+", "", java)


def test_a_message_is_written_with_the_setters_of_kafkas_class() -> None:
    partition = VoteResponse.PartitionData(error_code=74, leader_id=-1, leader_epoch=2)
    topic = VoteResponse.TopicData(topic_name="t", partitions=[partition])
    assert flat(message_literal(VoteResponse(topics=[topic]))) == flat("""
        new VoteResponseData().setTopics(List.of(
            new VoteResponseData.TopicData().setTopicName("t").setPartitions(List.of(
                new VoteResponseData.PartitionData()
                    .setErrorCode(Errors.FENCED_LEADER_EPOCH.code())
                    .setLeaderId(-1).setLeaderEpoch(2)))))""")


def test_what_kafka_keeps_by_key_is_a_collection() -> None:
    endpoint = BeginQuorumEpochRequest.LeaderEndpoint(name="C", host="h", port=9)
    message = BeginQuorumEpochRequest(cluster_id="x", leader_endpoints=[endpoint])
    assert flat(message_literal(message)) == flat("""
        new BeginQuorumEpochRequestData().setClusterId("x").setLeaderEndpoints(
            new BeginQuorumEpochRequestData.LeaderEndpointCollection(List.of(
                new BeginQuorumEpochRequestData.LeaderEndpoint()
                    .setName("C").setHost("h").setPort(9)).iterator()))""")


def test_structs_as_they_are_by_default_are_left_out() -> None:
    partition = FetchResponse.PartitionData(high_watermark=7)
    assert "Diverging" not in message_literal(
        FetchResponse(responses=[FetchResponse.FetchableTopicResponse(partitions=[partition])])
    )


def test_what_is_no_whole_batch_is_written_as_bytes() -> None:
    assert batch_literals(bytes.fromhex("0001")) == ['Batches.hex("0001")']


# ---- the file ----------------------------------------------------------------------------------


def origin(judged: str, release: str = RELEASE) -> Origin:
    return Origin(release, judged, "a command")


# The simulator sees only that nobody is elected; the file is written by hand.
BY_HAND = "removed_when_committed"


def test_each_class_judges_a_property_of_the_simulator() -> None:
    protocol = protocol_of(profile_named("kafka"))
    known = {*protocol.invariants, *protocol.liveness, *OTHERS, BY_HAND}
    assert properties()
    assert set(properties()) <= known
    assert all(sentence_of(name).endswith(".") for name in properties())


def test_a_file_is_fitted_to_other_releases() -> None:
    text = java_text(origin("no_fatal_error"), "Small", [])
    assert refitted(text, RELEASE) == text
    older = refitted(text, "4.0.2")
    assert "common.record.internal" in text
    assert "common.record.internal" not in older
    assert refitted(older, RELEASE) == text


def test_no_class_of_the_protocol_of_frames_is_in_a_file() -> None:
    text = java_text(origin("no_fatal_error"), "Small", [])
    for name in ("Commands", "Fields", "Harness", "FixedOrder"):
        assert f"class {name}" not in text
    assert text.count(" extends Property {") == 1


def test_a_run_without_kafka_has_no_java_file(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        simulate,
        f"--seed 0 --events 500 --java {tmp_path}".split(),
    )
    assert done.exit_code == 2
    assert "--core kafka" in done.output


# ---- with Kafka's classes ----------------------------------------------------------------------

kafka = pytest.mark.kafka
soak = pytest.mark.soak


@pytest.fixture(scope="module")
def sole_voter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("java")
    svg = folder / "trace.svg"
    done = CliRunner().invoke(
        simulate, [*SOLE_VOTER.split(), "--java", str(folder), "--svg", str(svg)]
    )
    assert done.exit_code == 0, done.output  # It is known.
    assert "breaks majority_holds_high_watermark" in done.output
    return folder


@kafka
@soak
def test_a_run_is_written_as_a_file_that_shows_the_fault(sole_voter: Path) -> None:
    assert {path.name for path in sole_voter.iterdir()} == {
        "MajorityHoldsHighWatermarkSeed6.java", "pom.xml", "trace.svg"
    }  # fmt: skip
    text = (sole_voter / "MajorityHoldsHighWatermarkSeed6.java").read_text()
    assert "4.4.0" in text
    assert f"kraftspec simulate {SOLE_VOTER}" in re.sub(r"\s+\* ", " ", text)
    (outcome,) = run([text], RELEASE)
    assert outcome.code == 1
    assert "The fault is there: the only voter, node 0, counts all before offset 1" in outcome.text
    told = outcome.told[0]
    assert told.index("high watermark 1") < told.index("durable to 1")
    assert flat(told.replace("; ", ";")) in flat(text.replace("//", ""))  # As its comments say.


@kafka
@soak
def test_maven_compiles_and_runs_the_file(sole_voter: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(sole_voter, tmp_path / "copy")
    done = subprocess.run(
        ["mvn", "-q", "-B", "compile", "exec:java"], cwd=folder, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout
    assert "The fault is there" in done.stdout


@kafka
@soak
def test_a_file_ends_with_0_without_the_fault_and_with_3_where_it_cannot_be_followed(
    sole_voter: Path,
) -> None:
    text = (sole_voter / "MajorityHoldsHighWatermarkSeed6.java").read_text()
    match = re.search(r"Node node0 = (new Node.*?\)\);[^\n]*)", text, re.DOTALL)
    assert match is not None
    first = Call(0, f"node0 = {match[1]}", makes=True)
    start = Call(0, "node0.start(225, 1);")
    lost = Call(0, "node0.failRequest(300, 5, ApiKeys.VOTE, false);")
    again = Call(0, "node0.start(300, 1);")

    def code(*calls: Call) -> int:
        steps = [Step("Something.", (call,)) for call in calls]
        return run([java_text(origin("voters_follow_log"), "Small", steps)], RELEASE)[0].code

    assert code(first, start) == 0
    assert code(first, start, lost) == 3
    assert code(first, start, again) == 3


@kafka
@soak
def test_calls_that_do_not_matter_are_left_out(tmp_path: Path) -> None:
    """Of a run of several nodes only what one of them was told is left, and little of that."""
    cores = parse_cores("kafka:4.4.0")
    profile = profile_named("kafka")
    minimal = minimise(576, profile, events=3000, cores=cores)
    assert minimal is not None
    path, steps = write_example(minimal, profile, cores, tmp_path)
    text = path.read_text()
    assert bare(text).count("    step(") == steps
    assert len(set(re.findall(r"\bnode\d+(?=\.)", text))) == 1
    assert steps < len(minimal.decisions)
    assert run([text], RELEASE)[0].code == 1


@kafka
def test_a_property_that_java_does_not_judge_is_named(tmp_path: Path) -> None:
    cores = parse_cores("kafka:4.4.0")
    profile = profile_named("kafka")
    minimal = minimise(6, profile, events=3000, cores=cores)
    assert minimal is not None
    for name in ("log_matching", "single_leader"):
        minimal.violation = (name, "")
        with pytest.raises(HarnessError, match=f"--java does not judge {name}, but "):
            write_example(minimal, profile, cores, tmp_path)


# ---- the files beside the pages ----------------------------------------------------------------


# What a file ends with where it is not 1, by release: 0 without the fault, 3 where it cannot be
# followed (3.9 has no pre-votes). A release with a fix is entered here.
OTHERWISE = {
    "FetchSnapshotWithoutTopic": {"4.2.2": 0, "4.4.0": 0},
    "RemovedAndNotStartedAgain": {"3.9.*": 0},
    "SecondLeaderOfAnEpoch": {"3.9.*": 0},
    "SyncedBeforeFetchSeed109": {"3.9.*": 3},
}
# Their messages have not the fields that the sequence sets, or call them by another name.
UNFIT = {
    "RemovedLeaderNeverCampaigns": ("3.9.*",),
    "VotersFollowLogSeed107": ("3.9.*", "4.0.*"),
    "VotersFollowLogSeed1225": ("3.9.*", "4.0.*"),
    "VotersFollowLogSeed2334": ("3.9.*", "4.0.*"),
    "VoteRequestOfItself": ("3.9.*",),
}


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: path.stem)
def test_a_file_beside_a_page_is_a_short_sequence_and_told_of_there(path: Path) -> None:
    text = path.read_text("utf-8")
    assert 1 <= text.count("    step(") <= STEPS_MAX
    assert bare(text) == text  # If not: python -m kraftspec.simulation.java_example FILE
    assert path.stem in path.parent.with_suffix(".md").read_text("utf-8")


def test_a_sequence_becomes_a_whole_file_and_its_pom(tmp_path: Path) -> None:
    path = FINDINGS[0]
    command = [sys.executable, "-m", "kraftspec.simulation.java_example", str(path), str(tmp_path)]
    subprocess.run(command, check=True)
    whole = (tmp_path / path.name).read_text("utf-8")
    assert whole == refitted(path.read_text("utf-8"), RELEASE)
    assert "static final class Life" in whole
    assert bare(whole) == path.read_text("utf-8")
    assert f"<example>{path.stem}</example>" in (tmp_path / "pom.xml").read_text("utf-8")
    subprocess.run([*command, "--release", "4.3.1"], check=True)
    assert (tmp_path / path.name).read_text("utf-8") == refitted(path.read_text("utf-8"), "4.3.1")


@kafka
@soak
@pytest.mark.parametrize("release", find("kafka", FOLDER).releases)
def test_the_files_beside_the_pages_show_the_fault_where_it_is(release: str) -> None:
    def is_of(patterns: Iterable[str]) -> bool:
        return any(fnmatchcase(release, pattern) for pattern in patterns)

    paths = [path for path in FINDINGS if not is_of(UNFIT.get(path.stem, ()))]
    outcomes = run([refitted(path.read_text("utf-8"), release) for path in paths], release)
    expected = {
        path.stem: next(
            (code for like, code in OTHERWISE.get(path.stem, {}).items() if is_of([like])), 1
        )
        for path in paths
    }
    told = "\n".join(outcome.text for outcome in outcomes)
    codes = [outcome.code for outcome in outcomes]
    assert dict(zip(expected, codes, strict=True)) == expected, told


def without_step(name: str, words: str) -> str:
    """Return the sequence of a file without the one step that has these words."""
    path = next(path for path in FINDINGS if path.stem == name)
    steps = re.split(r"(?=^        step\()", path.read_text("utf-8"), flags=re.MULTILINE)
    kept = [step for step in steps if words not in step]
    assert len(kept) == len(steps) - 1
    return "".join(kept)


@kafka
@soak
def test_a_leader_that_is_removed_in_time_resigns() -> None:
    """It ends with 0 where the others fetch before the request times out."""
    sequence = without_step("RemovedLeaderLeadsOn", "has waited too long")
    in_time = sequence.replace("7_012_000", "5_012_000").replace("7_013_000", "5_013_000")
    assert run([refitted(in_time, RELEASE)], RELEASE)[0].code == 0


@kafka
@soak
def test_a_node_that_nobody_removed_campaigns() -> None:
    sequence = without_step("RemovedLeaderNeverCampaigns", "is asked to remove itself")
    assert run([refitted(sequence, RELEASE)], RELEASE)[0].code == 0
