"""Mutation testing of the vectors: mutants, the codecs that run them, the measure itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kraftspec.cli import main
from kraftspec.codegen.generate import read_set, specs_sets
from kraftspec.codegen.model import Message as Spec
from kraftspec.codegen.plan import plan_message
from kraftspec.conformance.strength import Strength, Survivor, Tally, Vectors, _cases, strength
from kraftspec.conformance.strength.codecs import Subject, engine
from kraftspec.conformance.strength.mutants import Mutant, mutants
from kraftspec.conformance.strength.page import BEGIN, END, write_page
from kraftspec.conformance.vectors import vectors_root, write_vectors
from kraftspec.fastpath.message import Message
from kraftspec.generated.kafka import FetchRequest, ProduceRequest, VoteRequest
from kraftspec.specs import specs_root

ROOT = Path(__file__).resolve().parents[3]
CLASSES: dict[str, type[Message]] = {"VoteRequest": VoteRequest, "ProduceRequest": ProduceRequest}


@pytest.fixture(scope="module")
def specs() -> dict[str, Spec]:
    [kafka] = specs_sets(specs_root(), Path(), "", ("kafka",))
    return {spec.name: spec for spec in read_set(kafka).values()}


def of(spec: Spec, version: int) -> dict[str, Mutant]:
    """Return the mutants of a message by what they say of themselves."""
    return {f"{m.path}: {m.operator} {m.detail}".strip(): m for m in mutants(spec, version)}


# -------------------------------------------------------------------------------- the mutants


def test_each_field_is_changed_in_each_way(specs: dict[str, Spec]) -> None:
    at = "topics[].partitions[]"
    assert {
        "clusterId: compactness compact_string → string",
        "clusterId: nullability not nullable",
        "topics: nullability nullable",
        "topics[].topicName: type compact_string → compact_bytes",
        f"{at}.lastOffset: width int64 → int32",
        f"{at}.lastOffset: sign int64 → uint64",
        f"{at}.replicaEpoch: width int32 → int16",
        f"{at}.preVote: type bool → int8",
        f"{at}: trailer dropped",
        f"{at}: order replicaEpoch before partitionIndex",
        "PartitionData.preVote: version bound versions a version too late",
    } <= of(specs["VoteRequest"], 2).keys()
    assert {
        "clusterId: default always written",
        ": tag number clusterId: 0 → 2",
        ": tag number clusterId and replicaState swapped",
        "topics[].partitions[]: tag of another version 1 taken for unknown",
        "forgottenTopicsData[].partitions: element width []int32 → []int16",
        "forgottenTopicsData[].partitions: element sign []int32 → []uint32",
        "FetchRequest.clusterId: default None → ''",
        "FetchPartition.highWatermark: version bound versions a version too early",
    } <= of(specs["FetchRequest"], 17).keys()
    early = of(specs["ProduceRequest"], 8)
    assert ": version bound flexibleVersions a version too early" in early
    assert "topicData[].partitionData[]: trailer added" in early


def test_a_mutant_is_another_plan_and_like_no_other(specs: dict[str, Spec]) -> None:
    for name in ("VoteRequest", "FetchRequest", "ProduceRequest", "ApiVersionsResponse"):
        for version in specs[name].valid_versions:
            right = plan_message(specs[name], version).struct
            all_mutants = list(mutants(specs[name], version))
            assert all_mutants == list(mutants(specs[name], version))  # Repeatable.
            assert all(mutant.plan != right for mutant in all_mutants)
            assert len({(m.path, m.operator, m.detail) for m in all_mutants}) == len(all_mutants)


def test_a_mistake_is_in_one_place(specs: dict[str, Spec]) -> None:
    """Two uses of one struct are two places."""
    mutants_ = of(specs["DescribeQuorumResponse"], 1)
    wide = [
        mutants_[f"topics[].partitions[].{name}[].replicaId: width int32 → int64"].plan
        for name in ("currentVoters", "observers")
    ]
    assert wide[0] != wide[1]


# --------------------------------------------------------------------------------- the codecs


def right(spec: Spec, version: int) -> Mutant:
    """Return a mutant that is none."""
    plan = plan_message(spec, version).struct
    return Mutant("none", "", "", plan, plan)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_the_right_plan_survives_every_codec(name: str, specs: dict[str, Spec]) -> None:
    """Were it not so, a mutant would be killed by something else than its mistake."""
    cases = _cases(vectors_root(), "kafka", name)
    for version in specs[name].valid_versions:
        vectors = Vectors(cases[version])
        subject = Subject(specs[name], CLASSES[name], version, right(specs[name], version))
        assert not vectors.kill("encode", subject.encode)
        assert not vectors.kill("decode", subject.decode)
        rendered = subject.rendered()
        assert not vectors.kill("encode", rendered.encode)
        assert not vectors.kill("decode", rendered.decode)
        if engine is not None:
            with subject.compiled() as native:
                assert not vectors.kill("encode", native.encode)
                assert not vectors.kill("decode", native.decode)


WIDE = "topics[].partitions[].replicaEpoch: width int32 → int64"


def test_each_codec_runs_the_mistake(specs: dict[str, Spec]) -> None:
    value = {
        "clusterId": None,
        "topics": [{
            "topicName": "t",
            "partitions": [{
                "partitionIndex": 1, "replicaEpoch": 2, "replicaId": 3, "lastOffsetEpoch": 4,
                "lastOffset": 5,
            }],
        }],
    }  # fmt: skip
    bytes_of = "0002027402" + "00000001" + "0000000000000002" + "0000000300000004" + "00" * 7 + "05"
    bytes_of += "000000"
    original = VoteRequest.CODEC
    subject = Subject(specs["VoteRequest"], VoteRequest, 0, of(specs["VoteRequest"], 0)[WIDE])
    codecs = [subject, subject.rendered()]
    if engine is not None:
        with subject.compiled() as native:
            assert native.encode(value) == {"hex": bytes_of}
            assert native.decode(bytes.fromhex(bytes_of)) == {"value": value}
            assert native.decode(bytes.fromhex(bytes_of)[:-1])["error"]["class"] == "truncated"
    for codec in codecs:
        assert codec.encode(value) == {"hex": bytes_of}
        assert codec.decode(bytes.fromhex(bytes_of)) == {"value": value}
        assert codec.decode(bytes.fromhex(bytes_of + "00"))["error"]["class"] == "trailing"
    assert VoteRequest.CODEC is original


def test_another_default_is_that_of_the_classes_too(specs: dict[str, Spec]) -> None:
    mutant = of(specs["FetchRequest"], 17)["FetchRequest.clusterId: default None → 'x'"]
    subject = Subject(specs["FetchRequest"], FetchRequest, 17, mutant)
    assert subject.cls is not FetchRequest
    assert subject.cls().cluster_id == "x"  # type: ignore[attr-defined]  # made by the test


# --------------------------------------------------------------------------------- the measure


@pytest.mark.soak
def test_a_sample_is_killed() -> None:
    """One in 12 of all mutants of all pairs, by each codec."""
    result = strength(one_in=12)
    assert result.pairs == 917
    assert 2_000 < result.total.mutants < 3_000
    assert len(result.operators) >= 14
    assert result.runs["native"] > 1_000 or engine is None
    assert result.runs["rendered"] > 20
    assert result.survivors == []


def test_vectors_that_say_nothing_kill_nothing(tmp_path: Path) -> None:
    """The measure falls with the vectors: those of defaults alone kill far less."""
    [file] = [json.loads((vectors_root() / "kafka/VoteRequest.json").read_text("utf-8"))]
    tests = [test for test in file.pop("tests") if test["family"] == "defaults"]
    write_vectors(tmp_path / "kafka" / "VoteRequest.json", file, tests)
    weak = strength(name="kafka/VoteRequest", root=tmp_path)
    whole = strength(name="kafka/VoteRequest")
    assert weak.total.mutants == whole.total.mutants
    assert weak.percent < 40
    assert whole.percent == 100
    assert {entry.operator for entry in weak.survivors} >= {"width", "sign", "order"}


def test_without_vectors_nothing_is_killed(tmp_path: Path) -> None:
    result = strength(name="kafka/VoteResponse", root=tmp_path)
    assert result.total.killed == 0 < result.total.mutants


def test_two_processes_find_what_one_does() -> None:
    one, two = (strength(name="kafka/Vote", one_in=3, jobs=jobs) for jobs in (1, 2))
    for result in (one, two):
        result.seconds = 0.0
    assert one.to_json() == two.to_json()
    assert strength(name="kafka/Vote", one_in=3, seed=1).to_json()["mutants"] != 0


# --------------------------------------------------------------------------- command and page


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["conform", "strength", *arguments])
    return result.exit_code, result.output


def test_the_command() -> None:
    code, output = run("--filter", "kip-853/VoteRequest", "--one-in", "2")
    assert code == 0
    assert " killed, 100.00 %" in output
    code, output = run("--filter", "kip-853/VoteRequest", "--one-in", "2", "--json")
    report = json.loads(output)
    assert code == 0
    assert report["mutants"] == sum(entry["mutants"] for entry in report["operators"].values())
    assert (report["killed"], report["survivors"]) == (report["mutants"], [])


def test_the_command_fails_where_one_survives(tmp_path: Path) -> None:
    code, output = run("--filter", "kafka/VoteResponse", "--vectors", str(tmp_path))
    assert code == 1
    assert "0 killed, 0.00 %" in output


def test_the_command_refuses_a_name_of_nothing() -> None:
    code, output = run("--filter", "nothing/of/the/kind")
    assert code == 2
    assert "no message name contains" in output


def test_the_page_is_written_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"above\n{BEGIN}\nold\n{END}\nbelow\n", "utf-8")
    survivor = Survivor("width", "kafka", "VoteRequest", 1, "topics", "int8 → int16", "interpreter")
    result = Strength(pairs=1, operators={"width": Tally(4, 3, 2, 1)}, survivors=[survivor])
    assert write_page(page, result)
    text = page.read_text("utf-8")
    assert text.startswith(f"above\n{BEGIN}\n")
    assert text.endswith(f"{END}\nbelow\n")
    assert "old" not in text
    assert "| width | 4 | 3 | 75.0 | 2 | 1 |" in text
    assert "* kafka/VoteRequest v1 topics: width int8 → int16" in text
    assert not write_page(page, result)
    page.write_text("no marks", "utf-8")
    with pytest.raises(ValueError, match="nowhere to write to"):
        write_page(page, result)


def test_the_committed_page_has_its_marks(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "strength.md").read_text("utf-8")
    (tmp_path / "page.md").write_text(text, "utf-8")
    assert write_page(tmp_path / "page.md", Strength(pairs=1, operators={"width": Tally(1, 1)}))
