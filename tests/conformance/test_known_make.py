"""From reasons to known failures: what a reason explains, and what an entry is for."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from kraftspec.conformance import known_make
from kraftspec.conformance.known import KnownFailures, known_file
from kraftspec.conformance.known_make import Reason, entries, narrowed, write
from kraftspec.conformance.raw.results import Failure, UnexpectedPass

DATE = "2099-12-31"
LINK = "https://example.org"
TAGS = Reason(test="kafka/*/tags/*", reason="no tags", issue=LINK, expires=DATE)
CODES = Reason(detail=r"\d+ is no code", reason="no codes", issue=LINK, expires=DATE)


def failure(test_id: str, detail: str, message: str = "VoteResponse") -> Failure:
    return Failure(
        spec="kafka", message=message, version=0, id=test_id, direction="decode",
        family="populated", flags=[], kind="refused", detail=detail, reproduce="",
    )  # fmt: skip


def test_a_reason_explains_by_detail_message_and_family() -> None:
    assert CODES.explains(failure("a", "refused: 77 is no code"))
    assert not CODES.explains(failure("a", "refused: is no code"))
    of_votes = msgspec.structs.replace(CODES, message="Vote.*")
    assert of_votes.explains(failure("a", "7 is no code"))
    assert not of_votes.explains(failure("a", "7 is no code", "FetchResponse"))
    of_nulls = msgspec.structs.replace(CODES, family="null")
    assert not of_nulls.explains(failure("a", "7 is no code"))
    assert not TAGS.explains(failure("a", "7 is no code"))


def test_an_entry_for_each_pattern_and_each_test() -> None:
    failures = [
        failure("b", "7 is no code"), failure("a", "8 is no code"), failure("a", "9 is no code"),
        failure("c", "Out of bounds"),
    ]  # fmt: skip
    known, unexplained = entries([TAGS, CODES], failures)
    assert [(entry.test, entry.reason) for entry in known] == [
        ("kafka/*/tags/*", "no tags"), ("a", "no codes"), ("b", "no codes"),
    ]  # fmt: skip
    assert unexplained == failures[3:]


def test_a_test_that_passes_in_one_direction_is_known_in_the_other() -> None:
    known, _ = entries([CODES], [failure("a", "7 is no code"), failure("b", "7 is no code")])
    passed = UnexpectedPass(
        spec="kafka", message="VoteResponse", version=0, id="a", direction="encode",
        family="populated", known="no codes",
    )  # fmt: skip
    assert [entry.test for entry in narrowed(known, [passed])] == ["*/decode/a", "b"]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    write(path, entries([TAGS, CODES], [failure("a", "7 is no code")])[0])
    assert [entry.test for entry in KnownFailures.read(path).entries] == ["kafka/*/tags/*", "a"]
    assert len(path.read_text().splitlines()) == 4  # An entry a line, to be read in a diff.


def test_an_adapter_is_run_and_its_file_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ours fails nothing, so a pattern over what passes is an error of the reasons' writer."""
    source = tmp_path / "kraftspec-python.json"
    vectors = tmp_path / "vectors" / "kafka" / "VoteRequest.json"
    vectors.parent.mkdir(parents=True)
    monkeypatch.setattr(known_make, "known_file", lambda _: source)
    monkeypatch.setattr("kraftspec.conformance.run.vectors_root", lambda: tmp_path / "vectors")
    right = {"id": "a", "version": 0, "op": "decode", "family": "defaults", "result": "valid"}
    right |= {"value": {"clusterId": None, "topics": []}, "hex": "000100"}
    wrong = {**right, "id": "b", "hex": "000200"}
    head = {"schemaVersion": 1, "message": "VoteRequest", "source": {"kafka": "4.3.1"}, "notes": {}}
    vectors.write_text(json.dumps({**head, "tests": [right, wrong]}))

    reason = f'reason = "r"\nissue = "{LINK}"\nexpires = "{DATE}"\n'
    source.with_suffix(".toml").write_text(f'[[reason]]\ndetail = "not nullable"\n{reason}')
    assert known_make.main(["kraftspec-python"]) == 0
    assert [entry.test for entry in KnownFailures.read(source).entries] == ["b"]

    source.with_suffix(".toml").write_text(f'[[reason]]\ndetail = "no such"\n{reason}')
    assert known_make.main(["kraftspec-python"]) == 1
    assert "kafka/VoteRequest v0 decode b" in capsys.readouterr().out

    source.with_suffix(".toml").write_text(f'[[reason]]\ntest = "kafka/*"\n{reason}')
    with pytest.raises(ValueError, match=r"tests pass that a pattern calls failures: \['r'\]"):
        known_make.main(["kraftspec-python"])


@pytest.mark.parametrize("source", sorted(known_file("x").parent.glob("*.toml")), ids=str)
def test_each_entry_has_one_of_the_reasons(source: Path) -> None:
    reasons = msgspec.toml.decode(source.read_bytes(), type=known_make.Reasons).reason
    known = KnownFailures.read(source.with_suffix(".json")).entries
    assert {entry.reason for entry in known} <= {reason.reason for reason in reasons}
    assert {reason.test for reason in reasons if reason.test} <= {entry.test for entry in known}
