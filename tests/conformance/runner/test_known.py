"""Known failures: what they excuse, what they do not, and what is said of them."""

from __future__ import annotations

import json
import tomllib
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.conformance.report.result_samples import write_known

from kraftspec.conformance.adapters.registry import adapters
from kraftspec.conformance.making.exchanges.nodes import NODES
from kraftspec.conformance.raw.results import Results
from kraftspec.conformance.runner.known import KnownFailures, known_failures, known_file
from kraftspec.conformance.runner.run import run

from .test_run import Fake, key, vector, vectors

SCHEMA = json.loads((files("kraftspec.conformance") / "schemas/known.schema.json").read_text())
TODAY = date(2030, 6, 15)
WRONG = {"hex": "00"}
SHORT: dict[str, Any] = {"value": {}}


def known(tmp_path: Path, *entries: dict[str, Any]) -> KnownFailures:
    path = write_known(tmp_path / "known.toml", *({"expires": "2030-06-15", **e} for e in entries))
    Draft202012Validator(SCHEMA).validate(tomllib.loads(path.read_text()))
    return KnownFailures.read(path, TODAY)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return vectors(tmp_path, *(vector(number) for number in range(4)))


def counted(results: Results) -> tuple[int, int, int, int]:
    counts = results.counts
    return counts.passed, counts.failed, counts.known_failures, counts.unexpected_passes


def test_an_id_excuses_a_failure_and_not_a_pass(root: Path, tmp_path: Path) -> None:
    fake = Fake({key(1, "e"): WRONG, key(2, "e"): WRONG})
    excuses = known(tmp_path, {"test": f"{1:016x}"}, {"test": f"{3:016x}", "reason": "slow"})
    results = run(fake, root=root, known=excuses)
    assert counted(results) == (3, 1, 1, 3)
    assert [(f.id, f.known or None) for f in results.failures] == [
        (f"{1:016x}", "because"), (f"{2:016x}", None),
    ]  # fmt: skip
    passes = [(one.id, one.direction, one.known) for one in results.unexpected_passes]
    assert passes == [
        (f"{1:016x}", "decode", "because"), (f"{3:016x}", "encode", "slow"),
        (f"{3:016x}", "decode", "slow"),
    ]  # fmt: skip
    assert [(one.test, one.failed, one.passed) for one in results.known] == [
        (f"{1:016x}", 1, 1), (f"{3:016x}", 0, 2),
    ]  # fmt: skip
    assert not results.warnings


@pytest.mark.parametrize(
    ("pattern", "failed", "passed"),
    [
        ("kafka/VoteRequest/2/alone/encode/*", 1, 2),
        ("*/encode/*", 1, 2),
        (f"kafka/*/encode/{1:016x}", 1, 0),
        ("kafka/*/*/*/decode/*", 0, 3),
        ("kip-*", 0, 0),
        ("VoteRequest", 0, 0),  # No pattern, and no id of any test.
    ],
)
def test_patterns(root: Path, tmp_path: Path, pattern: str, failed: int, passed: int) -> None:
    """One of the two failures has an entry of its own, which comes first."""
    fake = Fake({key(1, "e"): WRONG, key(2, "e"): WRONG})
    excuses = known(tmp_path, {"test": pattern}, {"test": f"{2:016x}"})
    results = run(fake, root=root, known=excuses)
    assert [(one.failed, one.passed) for one in results.known] == [(failed, passed), (1, 1)]
    rest = 6 - failed - passed
    assert counted(results) == (rest - (not failed), int(not failed), 1 + failed, 1 + passed)


def test_an_expired_one_warns(root: Path, tmp_path: Path) -> None:
    fake = Fake({key(1, "e"): WRONG})
    old = {"test": f"*/encode/{1:016x}", "expires": "2030-06-14"}
    results = run(fake, root=root, known=known(tmp_path, old))
    assert counted(results) == (7, 0, 1, 0)
    assert results.warnings == [f"known failure */encode/{1:016x} expired on 2030-06-14: because"]
    assert results.known[0].expired
    today = run(fake, root=root, known=known(tmp_path, {**old, "expires": "2030-06-15"}))
    assert not today.warnings


def test_one_of_a_release_excuses_that_release_only(root: Path, tmp_path: Path) -> None:
    path = write_known(
        tmp_path / "known.toml",
        {"test": f"*/encode/{1:016x}", "releases": ["3.*", "4.0.1"], "expires": "2030-06-15"},
        {"test": f"*/encode/{2:016x}", "expires": "2030-06-15"},
    )
    Draft202012Validator(SCHEMA).validate(tomllib.loads(path.read_text()))
    expected = {"": 1, "3.9.1": 2, "4.0.1": 2, "4.0.10": 1}
    for release, count in expected.items():
        fake = Fake({key(1, "e"): WRONG, key(2, "e"): WRONG})
        results = run(fake, root=root, known=KnownFailures.read(path, TODAY, release))
        assert counted(results) == (6, 2 - count, count, 0)
        assert not results.warnings
        assert known_failures(f"fake@{release}", path).entries[-1].test == f"*/encode/{2:016x}"


def test_one_that_matches_nothing_is_told_of_in_a_whole_run(root: Path, tmp_path: Path) -> None:
    excuses = {"test": "kip-1/*"}
    results = run(Fake({}), root=root, known=known(tmp_path, excuses))
    assert results.warnings == ["known failure kip-1/* matches no case that ran: take it out"]
    part = run(Fake({}), root=root, known=known(tmp_path, excuses), filters=["Vote"])
    assert not part.warnings


def test_a_detail_excuses_the_failures_that_it_matches_and_fails_no_pass(
    root: Path, tmp_path: Path
) -> None:
    fake = Fake({key(1, "e"): WRONG, key(2, "d"): SHORT, key(3, "e"): WRONG})
    bytes_differ = {"detail": r"bytes differ from byte \d+", "message": "Vote.*"}
    excuses = known(tmp_path, bytes_differ, {"test": f"*/encode/{3:016x}", "reason": "slow"})
    results = run(fake, root=root, known=excuses)
    assert counted(results) == (5, 1, 2, 0)
    reasons = {(f.id, f.direction): f.known or None for f in results.failures}
    assert reasons == {
        (f"{1:016x}", "encode"): "because", (f"{2:016x}", "decode"): None,
        (f"{3:016x}", "encode"): "slow",
    }  # fmt: skip
    assert [(one.failed, one.passed) for one in results.known] == [(1, 0), (1, 0)]
    assert not results.warnings


@pytest.mark.parametrize("other", [{"message": "Vote"}, {"family": "alone|null"}])
def test_a_detail_is_of_whole_names_of_messages_and_families(
    root: Path, tmp_path: Path, other: dict[str, str]
) -> None:
    excuses = known(tmp_path, {"detail": ".", "family": "alone", **other})
    results = run(Fake({key(1, "e"): WRONG}), root=root, known=excuses)
    assert counted(results)[1:3] == ((1, 0) if "message" in other else (0, 1))


@pytest.mark.parametrize(
    ("entry", "warning"),
    [
        ({"detail": "differ", "cases": 2}, None),
        ({"detail": "differ", "cases": 3},
         "detail 'differ' matches 2 cases, and its file says 3: because"),
        ({"detail": "differ", "family": "a.*", "expires": "2030-06-14"},
         "detail 'differ', family 'a.*' expired on 2030-06-14: because"),
        ({"detail": "no place"}, "detail 'no place' matches no case that ran: take it out"),
    ],
)  # fmt: skip
def test_a_detail_that_does_not_fit_is_told_of_in_a_whole_run(
    root: Path, tmp_path: Path, entry: dict[str, Any], warning: str | None
) -> None:
    fake = Fake({key(1, "e"): WRONG, key(2, "e"): WRONG})
    results = run(fake, root=root, known=known(tmp_path, entry))
    assert (results.warnings or []) == ([f"known failure {warning}"] if warning else [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "known.toml: "),
        ("", "known.toml: Object missing required field `failure`"),
        ('[[failure]]\ntest = "a"', "missing required field `reason`"),
        ({"test": "a", "expires": "soon"},
         "known.toml: the entry a expires on 'soon', which is not a date, YYYY-MM-DD"),
        ({}, "needs either test or detail"),
        ({"test": "a", "detail": "b"}, "the entry a needs either test or detail"),
        ({"test": "a", "cases": 2}, "message, family and cases go with detail, not with test"),
        ({"detail": "a", "family": "b("},
         r"the entry detail 'a', family 'b\(': 'b\(' is no regular expression: missing \)"),
    ],
)  # fmt: skip
def test_a_file_that_is_none(tmp_path: Path, text: str | dict[str, Any], message: str) -> None:
    path = tmp_path / "known.toml"
    if isinstance(text, str):
        path.write_text(text)
    else:
        write_known(path, text)
    with pytest.raises(ValueError, match=message):
        KnownFailures.read(path)


def test_the_committed_files_are_of_the_schema_and_of_an_adapter_or_a_node() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    names = {*(spec.name for spec in adapters()), *NODES}
    for path in known_file("x").parent.iterdir():
        Draft202012Validator(SCHEMA).validate(tomllib.loads(path.read_text()))
        assert path.stem in names
        entries = tomllib.loads(path.read_text())["failure"]
        releases = {"", *(one for entry in entries for one in entry.get("releases", ()))}
        assert any(KnownFailures.read(path, release=one).entries for one in releases)
    assert known_file("kio@0.6.4") == known_file("kio")
