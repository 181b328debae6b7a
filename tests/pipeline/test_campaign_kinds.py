"""Kinds of campaigns without Spark: their units, what a unit does, the store of results."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kraftspec.cli import main, pipeline_campaign
from kraftspec.conformance.fuzz.campaign import Campaign
from kraftspec.conformance.fuzz.campaign import campaign as compared
from kraftspec.conformance.fuzz.serve import kind_of
from kraftspec.conformance.fuzz.subprocess_target import SubprocessTarget
from kraftspec.conformance.runner.cases import Filters, read_cases
from kraftspec.conformance.runner.run import adapter_exec, run
from kraftspec.conformance.vectors import vectors_root
from kraftspec.pipeline.campaign import simulate as simulations
from kraftspec.pipeline.campaign import store as store_room
from kraftspec.pipeline.campaign.codec import CodecFuzz
from kraftspec.pipeline.campaign.conform import Conform
from kraftspec.pipeline.campaign.differential import DifferentialFuzz
from kraftspec.pipeline.campaign.kind import RESULTS, Kind, Result, release
from kraftspec.pipeline.campaign.model_check import ModelChecks
from kraftspec.pipeline.campaign.simulate import Simulations
from kraftspec.pipeline.campaign.store import MixedError, alone, open_store
from kraftspec.pipeline.campaign.summary import Found, Summary, write
from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.simulation.catalogue import planted
from kraftspec.simulation.run import Result as Run
from kraftspec.simulation.run import simulate
from kraftspec.sources import digest

HERE = Path(__file__).parent
PLANTED = f"{sys.executable} {HERE.parent / 'conformance/fuzz/planted_adapter.py'}"
VOTE = "kafka/VoteRequest"


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    yield
    release()


@pytest.fixture
def planted_target(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.syspath_prepend(str(HERE))
    return "planted_target"


def results(kind: Kind) -> list[Result]:
    return [kind.run(unit) for unit in kind.plan()]


def classes(results_: list[Result]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for result in results_:
        for tally in result.tallies:
            counted[tally.class_] += tally.count
    return counted


# ------------------------------------------------------------------------------- codec fuzz


def test_codec_units_are_of_all_cases() -> None:
    kind = CodecFuzz(cases=1001, unit_cases=200)
    units = kind.plan()
    assert sum(unit.cases for unit in units) == 1001
    by_target = Counter[str]()
    for unit in units:
        by_target[unit.work["target"]] += unit.cases
    assert by_target == {"messages": 501, "records": 500}
    assert [unit.number for unit in units] == list(range(len(units)))


@pytest.mark.soak
def test_a_codec_unit_is_the_same_whatever_was_before_it() -> None:
    kind = CodecFuzz(cases=600, unit_cases=150)
    units = kind.plan()
    forward = [kind.run(unit) for unit in units]
    release()
    assert [kind.run(unit) for unit in units[::-1]][::-1] == forward
    assert [result.cases for result in forward] == [150] * 4
    assert forward[0] != forward[1]
    assert set(classes(forward)) == {"taken", "refused"}
    assert CodecFuzz(cases=600, unit_cases=150, seed=1).run(units[0]) != forward[0]


@pytest.mark.soak
def test_what_is_wrong_is_counted_and_made_small(planted_target: str) -> None:
    kind = CodecFuzz(cases=4000, unit_cases=1000, targets=(planted_target,))
    with SubprocessTarget(planted_target, seconds_max=0.3) as process:
        tallies = [process.throw(f"seed {number}", 2000, 16) for number in range(3)]
    outcomes = Counter[str]()
    kinds = set()
    for tally, broken in tallies:
        assert sum(tally.values()) == 2000
        for (_, outcome), count in tally.items():
            outcomes[outcome] += count
        for failure in broken:
            kinds.add(failure.kind)
            assert failure.data[:1] == b"\x00"
            assert len(failure.data) == 3 or "more than" in failure.kind  # A hang is not minimised.
            assert failure.data[-1] in b"\xf0\xf1\xf2"
            assert failure.outcome == "ended" or kind_of(failure.text) == failure.kind
            assert len(failure.signature) == 12
    slow = "takes more than 0.3 s of processor time"
    assert kinds == {"parts over …", "ends the process: SIGSEGV", slow}
    assert set(outcomes) == {"taken", "refused", "broken", "ended"}
    assert kind.plan()[0].work["target"] == planted_target


@pytest.mark.soak
def test_who_ends_the_process_from_outside_is_not_charged(planted_target: str) -> None:
    with SubprocessTarget("records") as process:
        whole = process.throw("x", 10_000, 16)
        killed: list[int] = []

        def kill() -> None:
            while process._number() < 100:
                time.sleep(0.001)
            killed.append(process._process.pid)
            os.kill(process._process.pid, signal.SIGKILL)

        process._mark_number(-1)
        killer = threading.Thread(target=kill)
        killer.start()
        assert process.throw("x", 10_000, 16) == whole
        killer.join()
        assert killed != [process._process.pid]


def test_an_input_by_itself(planted_target: str) -> None:
    with SubprocessTarget(planted_target) as process:
        assert process.check(bytes.fromhex("000102030406")) == ("", "")
        assert process.check(bytes.fromhex("0001020304f0"))[0] == "parts over …"
        assert process.check(bytes.fromhex("0001020304f1"))[0] == "ends the process: SIGSEGV"


def test_there_is_no_such_target() -> None:
    with pytest.raises(ValueError, match=r"no target 'massages': messages, records, or a module"):
        CodecFuzz(cases=1, targets=("massages",)).plan()


# ------------------------------------------------------------------------ differential fuzz


def test_simulations_find_what_is_planted_and_make_it_small() -> None:
    kind = Simulations(seeds=5, events=1_000, bugs=("forgets_the_vote",), unit_seeds=2)
    units = kind.plan()
    assert [unit.work for unit in units] == [
        {"first": 0, "count": 2}, {"first": 2, "count": 2}, {"first": 4, "count": 1},
    ]  # fmt: skip
    result = kind.run(units[0])
    [finding] = result.findings
    assert finding.class_ == "one_vote"
    events = {seed: simulate_with("forgets_the_vote", seed).events for seed in (0, 1)}
    shortest = min(events, key=lambda seed: events[seed])
    assert f"--seed {shortest} --events 1000 --bug forgets_the_vote" in finding.reproduce
    assert len(finding.example.splitlines()) <= 20
    clean = Simulations(seeds=1, events=1_000).run(units[0])
    assert clean.findings == []
    assert {tally.class_ for tally in clean.tallies} == {"clean"}


@pytest.mark.soak
def test_seeds_that_the_compiled_simulator_finds_clean_are_not_run_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command stands for it here: it says the same of each seed, whatever was built."""
    kind = Simulations(seeds=3, events=300, unit_seeds=3)
    [unit] = kind.plan()
    expected = kind.run(unit)
    again: list[int] = []
    monkeypatch.setattr(simulations, "is_built", lambda: True)
    monkeypatch.setattr(simulations, "simulate", lambda seed, *_, **__: again.append(seed))
    assert kind.run(unit) == expected
    assert again == []


def test_what_the_compiled_simulator_does_not_say_is_run_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = Simulations(seeds=2, events=300, unit_seeds=2)
    [unit] = kind.plan()
    expected = kind.run(unit)
    monkeypatch.setattr(simulations, "is_built", lambda: True)
    monkeypatch.setattr(sys, "executable", "false")
    assert kind.run(unit) == expected


def test_runs_are_divided_for_the_model() -> None:
    units = ModelChecks(seeds=5, first_seed=3, events=100, unit_seeds=2).plan()
    assert [unit.work for unit in units] == [
        {"first": 3, "count": 2}, {"first": 5, "count": 2}, {"first": 7, "count": 1},
    ]  # fmt: skip
    with pytest.raises(ValueError, match="absent"):
        ModelChecks(seeds=1, bugs=("absent",)).plan()


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.parametrize(("profile", "option"), [("kafka", ""), ("kip-996", " --profile kip-996")])
def test_the_model_does_not_explain_what_is_planted(profile: str, option: str) -> None:
    kind = ModelChecks(seeds=2, events=500, bugs=("wins_with_half",), profile=profile)
    result = kind.run(kind.plan()[0])
    assert {tally.class_ for tally in result.tallies} == {"explained", "unexplained"}
    [finding] = result.findings
    assert finding.title.startswith("seed 1: nothing explains step ")
    assert "the model's node before: " in finding.example
    assert finding.reproduce == (
        f"kraftspec simulate --model-check --seed 1 --events 500{option} --bug wins_with_half"
    )


@pytest.mark.kafka
@pytest.mark.soak
def test_a_known_fault_of_kafka_is_no_finding_of_the_model() -> None:
    kind = ModelChecks(seeds=1, first_seed=505, events=500, core="kafka:4.4.0")
    result = kind.run(kind.plan()[0])
    assert {tally.class_ for tally in result.tallies} == {"known"}
    assert result.findings == []


def simulate_with(bug: str, seed: int) -> Run:
    with planted(bug):
        return simulate(seed, KafkaProfile(), events=1_000)


def test_a_run_that_the_simulator_does_not_get_through_is_a_finding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other seeds of the unit still run."""

    def fails_at_one(seed: int, *arguments: Any, **more: Any) -> Any:
        if seed == 1:
            raise OSError("the simulated disk failed")
        return simulate(seed, *arguments, **more)

    monkeypatch.setattr(simulations, "simulate", fails_at_one)
    kind = Simulations(seeds=3, events=300, unit_seeds=3)
    [unit] = kind.plan()
    result = kind.run(unit)
    [finding] = result.findings
    assert (finding.class_, finding.count) == ("simulator", 1)
    assert "the simulated disk failed" in finding.example
    assert finding.reproduce == "kraftspec simulate --seed 1 --events 300"
    assert {tally.class_ for tally in result.tallies} == {"clean", "simulator"}
    assert sum(tally.count for tally in result.tallies if tally.class_ == "clean") > 600


@pytest.mark.soak
def test_a_campaign_with_three_bugs_finds_all_three() -> None:
    bugs = {
        "skips_the_sync": "durable_survives",
        "truncates_too_much": "no_truncation_of_committed",
        "leads_again_after_a_restart": "single_leader",
    }
    kind = Simulations(seeds=30, first_seed=30, events=1_500, bugs=tuple(bugs), unit_seeds=30)
    [unit] = kind.plan()
    classes = {finding.class_ for finding in kind.run(unit).findings}
    # A log that was not synced may match no other, or not be opened.
    assert {*bugs.values()} <= classes <= {*bugs.values(), "log_matching", "opens_its_disk"}


@pytest.mark.soak
def test_differential_units_find_what_one_run_finds() -> None:
    command = f"{PLANTED} sign"
    kind = DifferentialFuzz(
        names=("kraftspec-python",), commands=(command,), cases=600, filter=VOTE, unit_pairs=2
    )
    units = kind.plan()
    actual = results(kind)
    once = compared(Campaign(("kraftspec-python",), (command,), VOTE, runs=600))
    assert {one.signature for result in actual for one in result.findings} == {
        signature.id for signature in once.findings
    }
    assert once.findings
    pairs = Counter((unit.work["first"], unit.work["last"]) for unit in units)
    assert set(pairs) == {(0, 2), (2, 3)}  # VoteRequest has three versions.
    assert sum(result.cases for result in actual) == once.inputs
    counted = classes(actual)
    differing = sum(count for class_, count in counted.items() if class_.startswith("parted: "))
    assert counted["agreed"] == once.agreed > 0
    assert counted["refused"] == once.refused > 0
    assert differing == once.differed > 0
    assert sum(one.count for result in actual for one in result.findings) == differing
    release()
    assert results(kind) == actual


@pytest.mark.soak
def test_a_finding_of_two_adapters_is_asked_again_by_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = DifferentialFuzz(
        names=("kraftspec-python",), commands=(f"{PLANTED} sign",), cases=120, filter=VOTE
    )
    [first, *_] = [one for result in results(kind) for one in result.findings]
    fields = msgspec.structs.asdict(first)
    version = fields.pop("version")
    actual = Found(cases=fields.pop("count"), **fields, versions=[version], units=1)
    summary = Summary(
        kind=kind.name, options=kind.options(), units=1, done=1, cases=1, seconds=0.0, by_class=[],
        by_message=[], findings=[actual],
    )  # fmt: skip
    write(summary, tmp_path)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, [*shlex.split(actual.reproduce)[1:], "--json"])
    assert done.exit_code == 1, done.output
    assert [one["id"] for one in json.loads(done.output)["findings"]] == [actual.signature]


def test_adapters_of_which_no_pair_is_served_by_both() -> None:
    kind = DifferentialFuzz(names=("kraftspec", "kraftspec-python"), cases=1, filter="nothing")
    with pytest.raises(ValueError, match="no pair of 'nothing'"):
        kind.plan()


# ----------------------------------------------------------------------------------- conform


@pytest.mark.soak
def test_conform_units_count_what_one_run_counts() -> None:
    filters = ("message:VoteRequest", "message:FetchRequest")
    kind = Conform(
        names=("kraftspec-python",), commands=(f"{PLANTED} width",), filters=filters, unit_cases=150
    )
    results_ = results(kind)
    cases = len(read_cases(vectors_root(), Filters(filters)))
    assert sum(result.cases for result in results_) == 2 * cases
    whole = run(adapter_exec(f"{PLANTED} width"), filters=filters)
    counted = Counter[str]()
    for tally in (tally for result in results_ for tally in result.tallies):
        if tally.adapter == "exec":
            counted[tally.class_] += tally.count
    assert counted["passed"] == whole.counts.passed > 0
    assert counted["failed"] == whole.counts.failed > 0
    findings = [one for result in results_ for one in result.findings]
    assert {one.adapter for one in findings} == {"exec"}
    assert sum(one.count for one in findings) == counted["failed"]
    assert {one.message for one in findings} == {"VoteRequest"}
    assert all(one.reproduce.startswith("kraftspec conform run --exec ") for one in findings)
    assert len({one.signature for one in findings}) < len(findings)  # One of several versions.


@pytest.mark.soak
@pytest.mark.parametrize(("fault", "class_"), [("dies", "crash"), ("hangs", "hang")])
def test_an_adapter_that_ends_or_hangs_is_a_result(fault: str, class_: str) -> None:
    kind = Conform(
        names=(), commands=(f"{PLANTED} {fault}",), filters=("message:VoteRequest", "version:2"),
        timeout_s=2.0, unit_cases=60,
    )  # fmt: skip
    actual = results(kind)
    assert sum(result.cases for result in actual) == sum(unit.cases for unit in kind.plan())
    assert class_ in {one.class_ for result in actual for one in result.findings}
    assert classes(actual)["passed"] > 0


def test_an_adapter_runs_on_from_unit_to_unit(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    script = tmp_path / "adapter.sh"
    script.write_text(f'#!/bin/sh\necho start >> {starts}\nexec {PLANTED} "$@"\n')
    script.chmod(0o755)
    kind = Conform(
        names=(), commands=(f"{script} null",), filters=("message:VoteRequest",), unit_cases=40
    )
    units = kind.plan()
    before = len(starts.read_text().splitlines())
    assert len(units) > 3
    for unit in units:
        kind.run(unit)
    assert len(starts.read_text().splitlines()) == before + 1


# --------------------------------------------------------------------------------- the store


def test_a_result_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    kind = CodecFuzz(cases=600, unit_cases=200)
    units = kind.plan()
    store = open_store(tmp_path / "c", kind, units)
    result = kind.run(units[1])
    store.write(kind.schema, units[1], result, 1.5)
    assert [store.is_done(unit) for unit in units] == [False, True, False, False]
    read = pq.read_table(store.path(units[1]))
    assert read.schema.equals(RESULTS)
    rows = read.to_pylist()
    assert {row["unit"] for row in rows} == {store.name(units[1])}
    assert [row["count"] for row in rows if row["row"] == "unit"] == [100]
    assert sum(row["count"] for row in rows if row["row"] == "tally") == 100
    names = {store.name(unit): unit.cases for unit in units}
    assert store.count_done(names) == (1, 100)
    whole = store.path(units[1]).read_bytes()
    store.path(units[1]).write_bytes(whole[: len(whole) // 2])
    assert not store.is_done(units[1])
    assert store.count_done(names) == (0, 0)


def test_what_was_left_half_written_is_no_result(tmp_path: Path) -> None:
    kind = CodecFuzz(cases=600, unit_cases=200)
    units = kind.plan()
    store = open_store(tmp_path, kind, units)
    left = store.units / f".{store.name(units[0])}.0123"
    left.write_bytes(b"PAR1")
    again = open_store(tmp_path, kind, units)
    assert again == store
    assert not left.exists()
    assert not again.is_done(units[0])


def test_other_options_are_not_mixed_in(tmp_path: Path) -> None:
    kind = CodecFuzz(cases=600)
    store = open_store(tmp_path, kind, kind.plan())
    store.write(kind.schema, kind.plan()[0], Result([], []), 0.0)
    other = CodecFuzz(cases=700, seed=3)
    with pytest.raises(MixedError, match=r"cases was 600, is 700; seed was 0, is 3.*--new"):
        open_store(tmp_path, other, other.plan())
    conform = Conform(names=("kraftspec",), filters=("VoteRequest",))
    with pytest.raises(MixedError, match="it is of fuzz-codec, not conform"):
        open_store(tmp_path, conform, conform.plan())
    fresh = open_store(tmp_path, other, other.plan(), new=True)
    assert list(fresh.units.iterdir()) == []
    assert open_store(tmp_path, other, other.plan()) == fresh


def test_a_campaign_that_never_started_is_in_nobodys_way(tmp_path: Path) -> None:
    kind, other = CodecFuzz(cases=600), Conform(names=("kraftspec",), filters=("VoteRequest",))
    open_store(tmp_path, kind, kind.plan())
    (tmp_path / "units" / ".left").write_bytes(b"PAR1")  # Of a unit that did not end.
    store = open_store(tmp_path, other, other.plan())
    assert json.loads((tmp_path / "campaign.json").read_text())["kind"] == "conform"
    store.write(other.schema, other.plan()[0], Result([], []), 0.0)
    with pytest.raises(MixedError, match="it is of conform, not fuzz-codec"):
        open_store(tmp_path, kind, kind.plan())


def test_what_is_no_master_of_spark(tmp_path: Path) -> None:
    words = ["fuzz", "--cases", "10", "--out", str(tmp_path / "out"), "--master", "nonsense"]
    done = CliRunner().invoke(main, ["pipeline", "campaign", *words])
    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr.startswith("Error: 'nonsense' is no master of Spark: local, ")
    assert list(tmp_path.iterdir()) == []


def test_results_of_other_code_are_not_mixed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = CodecFuzz(cases=600)
    store = open_store(tmp_path, kind, kind.plan())
    store.write(kind.schema, kind.plan()[0], Result([], []), 0.0)
    monkeypatch.setattr(store_room, "digest", lambda paths: "0" * 16)
    with pytest.raises(MixedError, match="the code or the vectors have changed"):
        open_store(tmp_path, kind, kind.plan())
    (tmp_path / "campaign.json").unlink()
    with pytest.raises(MixedError, match=r"results and no campaign\.json"):
        open_store(tmp_path, kind, kind.plan())
    other = open_store(tmp_path, kind, kind.plan(), new=True)
    unit = kind.plan()[0]
    assert other.name(unit) != store.name(unit)


def test_a_manifest_that_is_none(tmp_path: Path) -> None:
    kind = CodecFuzz(cases=600)
    (tmp_path / "campaign.json").write_text(json.dumps({"kind": []}))
    with pytest.raises(MixedError, match="no campaign's manifest"):
        open_store(tmp_path, kind, kind.plan())


def test_a_second_driver_is_refused(tmp_path: Path) -> None:
    refused = pytest.raises(MixedError, match="another process is at work")
    with alone(tmp_path / "c"), refused, alone(tmp_path / "c"):
        pass
    with alone(tmp_path / "c"):
        pass


def test_the_hash_follows_the_code_and_not_the_place(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "code").mkdir(parents=True)
        (tmp_path / name / "code" / "x.py").write_text("1")
        (tmp_path / name / "code" / "notes.txt").write_text(name)
    one, other = (digest([tmp_path / name / "code"]) for name in ("a", "b"))
    assert one == other
    (tmp_path / "b" / "code" / "x.py").write_text("2")
    assert digest([tmp_path / "b" / "code"]) != one


# -------------------------------------------------------------------------------- the command


def documented() -> list[list[str]]:
    """Return the arguments of each ``kraftspec pipeline campaign`` of the page."""
    page = (HERE.parents[1] / "docs" / "campaigns.md").read_text("utf-8")
    return [
        shlex.split(line)[1:]
        for line in page.splitlines()
        if line.startswith("kraftspec pipeline campaign ")
    ]


@pytest.mark.soak
@pytest.mark.parametrize("arguments", documented(), ids=" ".join)
def test_documented_campaigns_run(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is planned as it stands, and a small one of its like does a unit."""
    kinds: list[Kind] = []
    monkeypatch.setattr(pipeline_campaign, "_run", lambda kind, **where: kinds.append(kind))
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    if "--input" in arguments:
        assert done.output == "No error.\n"
        return
    [kind] = kinds
    if isinstance(kind, ModelChecks):  # A unit of it needs a Java, and has a test of its own.
        assert len(kind.plan()) == kind.seeds / kind.unit_seeds
        return
    if isinstance(kind, CodecFuzz):
        small: Kind = CodecFuzz(cases=40, targets=kind.targets[-1:], one_in=kind.one_in)
    elif isinstance(kind, DifferentialFuzz):
        small = DifferentialFuzz(names=("kraftspec", "kraftspec-python"), cases=40, filter=VOTE)
    elif isinstance(kind, Simulations):
        small = Simulations(seeds=1, events=200)
    else:
        assert isinstance(kind, Conform)
        small = Conform(names=kind.names[:1], filters=("message:VoteRequest",), unit_cases=20)
    assert type(small) is type(kind)
    assert small.run(small.plan()[0]).findings == []


@pytest.mark.parametrize(
    ("arguments", "code", "output"),
    [
        (["fuzz"], 2, "give --out DIR"),
        (["conform", "--out", "x"], 2, "at least one of --adapter"),
        (["fuzz", "--adapter", "kafka", "--out", "x"], 2, "give two of"),
        (["fuzz", "--adapter", "a", "--adapter", "b", "--target", "records"], 2, "not for adapt"),
        (["fuzz", "--filter", "Vote"], 2, "are for two adapters"),
        (["fuzz", "--target", "massages", "--out", "x"], 3, "no target 'massages'"),
        (["simulate", "--bug", "forgets", "--out", "x"], 3, "no bug 'forgets' in the catalogue"),
        (["fuzz", "--input", "00"], 2, "needs the --target"),
        (["fuzz", "--input", "0", "--target", "records"], 2, "two hex digits"),
        (["fuzz", "--out", "x", "--conf", "key"], 2, "'key' is not KEY=VALUE"),
        (["conform", "--adapter", "kafca", "--out", "x"], 3, "there is no adapter 'kafca'"),
        (["conform", "--exec", "/nowhere", "--out", "x"], 3, "cannot start the adapter"),
        (["conform", "--adapter", "kraftspec", "--filter", "id:0", "--out", "x"], 3, "no vectors"),
    ],
)
def test_what_cannot_run_says_why(
    arguments: list[str], code: int, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["pipeline", "campaign", *arguments])
    assert (done.exit_code, output in done.output) == (code, True), done.output


def test_an_input_that_is_wrong(planted_target: str) -> None:
    arguments = ["pipeline", "campaign", "fuzz", "--target", planted_target, "--input"]
    done = CliRunner().invoke(main, [*arguments, "0001f0"])
    assert (done.exit_code, "parts over 0001f0" in done.output) == (1, True)
    done = CliRunner().invoke(main, [*arguments, "0001f1", "--json"])
    assert done.exit_code == 1
    assert json.loads(done.output)["kind"] == "ends the process: SIGSEGV"


def test_how_far_it_is() -> None:
    text = pipeline_campaign.progress_text
    assert text(0, 10, 0, 5000, 1.0) == "0 of 5,000 cases, 0 of 10 units"
    assert text(4, 10, 2000, 5000, 10.0) == (
        "2,000 of 5,000 cases, 4 of 10 units, 200 a second, 0:00:15 to go"
    )
    assert text(1, 1, 10, 100_010, 10.0).endswith("1 a second, 27:46:40 to go")
