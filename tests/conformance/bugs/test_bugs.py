"""The named bugs: their vectors, and what releases with and without them did."""

from __future__ import annotations

import json
import shutil
import sys
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from kraftspec.conformance import vectors
from kraftspec.conformance.adapters.registry import kafka_adapter
from kraftspec.conformance.bugs import bugs
from kraftspec.conformance.bugs import trials as bug_trials
from kraftspec.conformance.bugs.page import MARK, write_page
from kraftspec.conformance.bugs.trials import as_expected, recorded, vector_of, verify
from kraftspec.conformance.making import bug_tests as named
from kraftspec.conformance.making.bug_tests import bug_notes, with_bugs
from kraftspec.conformance.raw.bug_evidence import Verdict
from kraftspec.conformance.raw.bugs import Bug

PACKAGE = files("kraftspec.conformance")
PAGE = Path(__file__).resolve().parents[3] / "docs/bugs.md"
SHOWN_MIN = 10  # Bugs that a release has, and a later one has no more.


def load(name: str) -> Any:
    return json.loads((PACKAGE / name).read_bytes())


@cache
def flagged() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Return each flag of a bug that a vector carries, with the notes of its file."""
    flags = {bug.flag for bug in bugs()}
    rows = []
    for path in sorted(vectors.vectors_root().glob("kafka/*.json")):
        file = json.loads(path.read_bytes())
        for test in file["tests"]:
            for flag in flags.intersection(test.get("flags", ())):
                rows.append((flag, file["notes"], test))
    return rows


# ------------------------------------------------------------------------------------ the lists


@pytest.mark.parametrize(
    ("data", "schema"),
    [
        ("bugs/bugs.json", "schemas/bugs.schema.json"),
        ("bugs/evidence.json", "schemas/bug-evidence.schema.json"),
    ],
)
def test_the_lists_are_of_their_schemas(data: str, schema: str) -> None:
    Draft202012Validator.check_schema(load(schema))
    assert not list(Draft202012Validator(load(schema)).iter_errors(load(data)))


def test_each_bug_has_its_flag_and_its_tests() -> None:
    assert len({bug.flag for bug in bugs()}) == len(bugs()) == 30
    for bug in bugs():
        assert bug.links
        for trial in bug.evidence:
            assert max(trial.tests) < len(bug.tests)
            assert bug_trials.spec_of(f"{trial.adapter}@{trial.buggy}").version == trial.buggy
    by_codec = [bug for bug in bugs() if bug.bug_type != "behaviour"]
    assert len(by_codec) == 23
    # What a codec cannot show says why, and is no bug in disguise.
    for bug in bugs():
        assert (bug.bug_type == "behaviour") <= (bug.behaviour is not msgspec.UNSET)


def test_each_test_of_a_bug_is_a_vector_with_its_flag() -> None:
    expected = {(bug.flag, vector_of(bug, case).id) for bug in bugs() for case in bug.tests}
    assert {(flag, test["id"]) for flag, _, test in flagged()} == expected


def test_each_flag_is_explained_where_it_is_used() -> None:
    by_flag = {bug.flag: bug for bug in bugs()}
    seen = set()
    for flag, notes, _ in flagged():
        note = notes[flag]
        assert note["bugType"] == by_flag[flag].bug_type
        assert note["links"] == by_flag[flag].links
        assert by_flag[flag].description in note["description"]
        seen.add(flag)
    assert seen == by_flag.keys()


# ------------------------------------------------------------------------------------ evidence


def key(verdict: Verdict) -> tuple[object, ...]:
    return verdict.flag, verdict.adapter, verdict.release, verdict.is_buggy, verdict.test


def test_every_trial_is_recorded_and_came_out_as_it_should() -> None:
    expected = [
        (case.bug.flag, *case.release.split("@"), case.is_buggy, case.test.id)
        for case in bug_trials.cases()
    ]
    assert [key(verdict) for verdict in recorded()] == expected
    assert [verdict for verdict in recorded() if not as_expected(verdict)] == []


def test_releases_show_enough_of_them() -> None:
    with_bug = {verdict.flag for verdict in recorded() if verdict.is_buggy}
    without = {verdict.flag for verdict in recorded() if not verdict.is_buggy}
    assert len(with_bug & without) >= SHOWN_MIN
    assert all(verdict.detail for verdict in recorded() if verdict.is_buggy)


@pytest.mark.kafka
@pytest.mark.peers
@pytest.mark.parametrize(
    "name", ["franz-go-961", "kafka-python-2725", "KAFKA-13277"], ids=["go", "python", "java"]
)
def test_some_releases_are_tried_again(name: str) -> None:
    """The rest is ``kraftspec conform bugs --verify``, which takes minutes the first time."""
    again = verify(name)
    assert len({verdict.release for verdict in again}) == 2
    assert again == [verdict for verdict in recorded() if name in verdict.flag]


def test_the_page_says_what_is_recorded(tmp_path: Path) -> None:
    page = Path(shutil.copy(PAGE, tmp_path))
    assert not write_page(page, recorded())
    page.write_text(page.read_text().replace("all that follows -->", "all that follows -->\nx"))
    assert write_page(page, recorded())
    assert page.read_text() == PAGE.read_text()


def test_a_page_without_a_mark_is_not_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{MARK}\n{MARK}\n")
    with pytest.raises(ValueError, match="nowhere to write to"):
        write_page(page, ())


def test_verdicts_are_kept_one_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "evidence.json"
    monkeypatch.setattr(bug_trials, "evidence_path", lambda: path)
    verdicts = [*recorded_of_the_package()]
    assert bug_trials.record(verdicts)
    assert not bug_trials.record(verdicts)
    assert recorded() == verdicts
    assert path.read_bytes() == (PACKAGE / "bugs/evidence.json").read_bytes()


def recorded_of_the_package() -> list[Verdict]:
    return [msgspec.convert(entry, Verdict) for entry in load("bugs/evidence.json")["verdicts"]]


# ---------------------------------------------------------------------- releases that misbehave


ANSWERS = {
    "dies": "sys.exit(3)",
    "skips": "print(json.dumps({'id': '1', 'skipped': {'reason': 'not yet'}}), flush=True)",
    "lies": "print(json.dumps({'id': '1', 'hex': '00'}), flush=True)",
    "reads": "print(json.dumps({'id': '1', 'value': {}}), flush=True)",
    "refuses": "print(json.dumps({'id': '1', 'error': {'class': 'refused'}}), flush=True)",
}


def release(package: Path, does: str) -> None:
    """Put the program ``fake`` into a room, which does one thing with every request."""
    folder = package / "bugs/evidence/fake"
    folder.mkdir(parents=True)
    program = f"import json, sys\nfor line in sys.stdin:\n    {ANSWERS[does]}\n"
    (folder / "main.py").write_text(program)
    (folder / "adapter.toml").write_text(
        'name = "fake"\nlanguage = "python"\nimplements = "nothing"\nversion = "1"\n'
        f'pin = [["true"]]\nrun = ["{sys.executable}", "{folder}/main.py"]\n'
    )


def fake_bug(direction: str, judge: str, at: str = "961-default") -> Bug:
    [bug] = [bug for bug in bugs() if at in bug.flag]
    trial = bug.evidence[0]
    changed = {"adapter": "fake", "buggy": "1", "direction": direction, "judge": judge}
    trials = [msgspec.structs.replace(trial, fixed=msgspec.UNSET, tests=[0], **changed)]
    return msgspec.structs.replace(bug, evidence=trials)


@pytest.mark.parametrize(
    ("does", "direction", "judge", "verdict", "detail"),
    [
        ("dies", "encode", "value", "failed", "refused: died: "),
        ("skips", "encode", "value", "skipped", "not yet"),
        ("lies", "encode", "value", "failed", "bytes differ from byte 1 on"),
        ("lies", "decode", "value", "failed", ": "),
        ("reads", "decode", "value", "failed", "maxWaitMs: missing"),
        ("reads", "decode", "accepted", "passed", ""),
        ("refuses", "decode", "accepted", "failed", "refused: refused"),
    ],
)
def test_what_a_release_does_is_its_verdict(
    does: str,
    direction: str,
    judge: str,
    verdict: str,
    detail: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release(tmp_path, does)
    monkeypatch.setattr(bug_trials, "_PACKAGE", tmp_path)
    monkeypatch.setattr(bug_trials, "bugs", lambda: (fake_bug(direction, judge),))
    reports: list[tuple[str, int, int]] = []
    [result] = verify("961", progress=lambda *report: reports.append(report))
    assert reports == [("fake@1", 1, 1)]
    assert (result.verdict, result.release) == (verdict, "1")
    assert detail in result.detail
    assert len(result.detail) <= bug_trials.DETAIL_CHARS_MAX
    assert as_expected(result) == (verdict == "failed")


def test_a_death_is_charged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that dies of its second request only is asked the third by a new process."""
    monkeypatch.setitem(
        ANSWERS, "tires", "print(json.dumps({'id': '1', 'hex': '00'}), flush=True); break"
    )
    release(tmp_path, "tires")
    bug = fake_bug("encode", "value")
    bug.evidence[0].tests[:] = [0, 1, 0]
    monkeypatch.setattr(bug_trials, "_PACKAGE", tmp_path)
    monkeypatch.setattr(bug_trials, "bugs", lambda: (bug,))
    details = [verdict.detail.split(" ")[0] for verdict in verify()]
    assert details == ["bytes", "refused:", "bytes"]


def test_bytes_that_must_be_refused_and_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release(tmp_path, "reads")
    monkeypatch.setattr(bug_trials, "_PACKAGE", tmp_path)
    monkeypatch.setattr(bug_trials, "bugs", lambda: (fake_bug("decode", "value", "da41bd3a"),))
    [verdict] = verify()
    assert (verdict.verdict, verdict.detail) == ("failed", "accepted")


def test_a_bug_whose_vector_is_not_made_yet(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="kraftspec conform make --filter FetchRequest"):
        list(bug_trials.cases("961", tmp_path))


# ------------------------------------------------------------------------------- making vectors


VOTE = {
    "message": "VoteResponse", "version": 0, "comment": "a vote",
    "value": {"errorCode": 0, "topics": []},
}  # fmt: skip


def made_up(**changes: Any) -> Bug:
    return msgspec.convert(
        {
            "flag": "mine-1", "project": "mine", "bugType": "crash", "description": "It broke.",
            "links": ["https://example.org/1"], "tests": [{**VOTE, **changes}], "evidence": [],
        },
        Bug,
    )  # fmt: skip


@pytest.mark.kafka
def test_bugs_are_put_into_the_tests_of_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = {
        key: value for key, value in VOTE.items() if key != "value"
    } | {"comment": "cut", "hex": "00", "error": {"class": "truncated", "offset": 1}}  # fmt: skip
    two = msgspec.structs.replace(made_up(), flag="mine-2")
    two.tests.append(msgspec.convert(refused, type(two.tests[0])))
    monkeypatch.setattr(named, "bugs", lambda: (made_up(), two))
    with kafka_adapter() as kafka:
        tests = with_bugs(kafka, "kafka", "VoteResponse", [])
        again = with_bugs(kafka, "kafka", "VoteResponse", [{**tests[0], "flags": ["theirs"]}])
        assert with_bugs(kafka, "kafka", "VoteRequest", []) == []
        assert with_bugs(kafka, "kip-595", "VoteResponse", [VOTE]) == [VOTE]
    vote, cut = tests
    assert (vote["hex"], vote["op"], vote["flags"]) == (
        "00000100",
        "roundtrip",
        ["mine-1", "mine-2"],
    )
    assert vote["family"] == "bugs"
    assert (cut["result"], cut["kafka"]["verdict"], cut["flags"]) == (
        "invalid",
        "refused",
        ["mine-2"],
    )
    assert again[0]["flags"] == ["theirs", "mine-1", "mine-2"]
    assert list(vote)[-1] == list(cut)[-1] == "comment"
    assert bug_notes(tests)["mine-2"] == {
        "bugType": "crash", "description": "mine: It broke.", "links": ["https://example.org/1"],
    }  # fmt: skip


@pytest.mark.kafka
@pytest.mark.parametrize(
    "changes",
    [{"value": {}}, {"value": {"errorCode": 0, "topics": [], "nodeEndpoints": []}}],
    ids=["refused", "read otherwise"],
)
def test_a_bug_that_kafka_takes_otherwise(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named, "bugs", lambda: (made_up(**changes),))
    with kafka_adapter() as kafka, pytest.raises(ValueError, match="VoteResponse v0 a vote"):
        with_bugs(kafka, "kafka", "VoteResponse", [])
