"""Known failures: what they excuse, what they do not, and what is said of them."""

from __future__ import annotations

import json
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kraftspec.conformance.exchanges.nodes import NODES
from kraftspec.conformance.known import KnownFailures, known_file
from kraftspec.conformance.raw.results import Results
from kraftspec.conformance.registry import adapters
from kraftspec.conformance.run import run

from .test_run import Fake, key, vector, vectors

SCHEMA = json.loads((files("kraftspec.conformance") / "schemas/known.schema.json").read_text())
TODAY = date(2030, 6, 15)
WRONG = {"hex": "00"}


def known(tmp_path: Path, *entries: dict[str, Any]) -> KnownFailures:
    whole = [
        {"reason": "because", "issue": "https://x/1", "expires": "2030-06-15", **entry}
        for entry in entries
    ]
    Draft202012Validator(SCHEMA).validate(whole)
    path = tmp_path / "known.json"
    path.write_text(json.dumps(whole))
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


def test_one_that_matches_nothing_is_told_of_in_a_whole_run(root: Path, tmp_path: Path) -> None:
    excuses = {"test": "kip-1/*"}
    results = run(Fake({}), root=root, known=known(tmp_path, excuses))
    assert results.warnings == ["known failure kip-1/* matches no case that ran: take it out"]
    part = run(Fake({}), root=root, known=known(tmp_path, excuses), filters=["Vote"])
    assert not part.warnings


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "known.json: "),
        ("{}", "known.json: Expected `array`"),
        ('[{"test":"a"}]', "missing required field `reason`"),
        (
            '[{"test":"a","reason":"b","issue":"c","expires":"soon"}]',
            "known.json: the entry 'a' expires on 'soon', which is not a date, YYYY-MM-DD",
        ),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "known.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=says):
        KnownFailures.read(path)


def test_the_committed_files_are_of_the_schema_and_of_an_adapter_or_a_node() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    names = {*(spec.name for spec in adapters()), *NODES}
    found = sorted(known_file("x").parent.glob("*.json"))
    for path in found:
        Draft202012Validator(SCHEMA).validate(json.loads(path.read_bytes()))
        assert path.stem in names
        assert KnownFailures.read(path).entries
    assert known_file("kio@0.6.4") == known_file("kio")
