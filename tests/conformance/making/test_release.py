"""``make release``: the steps, on an older release and few messages."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kraftspec.conformance.making.release import ReleaseWork
from kraftspec.specs import kafka_release, specs_root

pytestmark = [pytest.mark.kafka, pytest.mark.soak]


def test_an_older_release_is_made_and_proven_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = ReleaseWork("4.3.1", "4.3.0", tmp_path, "TxnOffsetCommitRequest")
    work.run()
    steps = json.loads((work.work / "steps.json").read_text("utf-8"))
    assert list(steps) == list(work.steps)
    assert {path.name for path in tmp_path.iterdir()} == {"build"}
    spec = json.loads((work.specs / "kafka/clients/TxnOffsetCommitRequest.json").read_text("utf-8"))
    assert spec["validVersions"] == "0-5"  # KIP-447 and KIP-890; topic ids came in 4.4.
    for name in ("kraftspec", "kraftspec-base", "kafka"):
        result = json.loads((work.results / f"{name}.json").read_text("utf-8"))
        assert result["counts"]["passed"] > 500
        assert result["counts"]["failed"] == 0
    page = (work.work / "page.md").read_text("utf-8")
    assert "decide alike" in page
    capsys.readouterr()

    again = ReleaseWork("4.3.1", "4.3.0", tmp_path, "TxnOffsetCommitRequest")
    again.run()  # Nothing is left to do.
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(again.steps)
    assert all("was done" in line for line in lines)


def test_the_default_release_goes_into_the_checkout() -> None:
    checkout = specs_root().resolve().parent
    work = ReleaseWork(kafka_release(), "4.3.1", checkout)
    assert work.specs.resolve() == specs_root().resolve()
    assert ReleaseWork("4.3.1", "4.3.0", checkout).specs != work.specs


def test_what_a_release_dropped_goes_and_the_drafts_copies_follow(tmp_path: Path) -> None:
    specs = tmp_path / "specs"
    shutil.copytree(specs_root(), specs)
    dropped = specs / "kafka" / "clients" / "HeldRequest.json"
    dropped.write_text("{}")
    copies = [
        specs / "kafka/clients/ApiVersionsRequest.json",
        *specs.glob("kip-*/ApiVersionsR*t.json"),
    ]
    assert len(copies) == 4
    for path in copies:  # As they were in a release before.
        path.write_text(path.read_text("utf-8").replace('"0-5"', '"0-4"'), "utf-8")
    vote = specs / "kip-853" / "VoteRequest.json"
    of_the_draft = vote.read_bytes()
    moved = ReleaseWork(kafka_release(), "4.3.1", tmp_path).import_specs()
    assert moved == "0 added, 1 changed, 285 unchanged, 1 removed"
    assert not dropped.exists()
    original = specs_root() / "kafka/clients/ApiVersionsRequest.json"
    assert {path.read_bytes() for path in copies} == {original.read_bytes()}
    assert vote.read_bytes() == of_the_draft
