"""``kraftspec conform bugs``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kraftspec.cli import main
from kraftspec.conformance.adapters.registry import AdapterBuildError
from kraftspec.conformance.bugs import trials as bug_trials


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["conform", "bugs", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_bugs_are_listed_with_what_releases_did() -> None:
    code, out, err = run("--filter", "franz-go-961")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "franz-go-961-default-uuid-tag"
    assert lines[1].endswith("encode franz-go 1.11.0 (bug): failed")
    assert lines[2].endswith("encode franz-go 1.11.1 (fixed): passed")
    assert lines[-1] == "1 bug, 1 tried on releases: 4 verdicts, 0 unexpected"
    assert max(map(len, lines)) <= 80


def test_bugs_as_json() -> None:
    code, out, _ = run("--json", "--filter", "redpanda")
    told = json.loads(out)
    assert code == 0
    assert {bug["project"] for bug in told} == {"redpanda"}
    assert all(bug["verdicts"] == [] for bug in told)


def test_no_such_bug() -> None:
    code, _, err = run("--filter", "unheard-of")
    assert code == 2
    assert "no bug has 'unheard-of' in its flag" in err


@pytest.mark.parametrize("options", [("--record",), ("--record", "--verify", "--filter", "kio")])
def test_only_a_whole_run_is_recorded(options: tuple[str, ...]) -> None:
    code, _, err = run(*options)
    assert code == 2
    assert "--record goes with --verify" in err


def test_the_page_needs_its_mark(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Nothing\n")
    code, _, err = run("--write", str(page))
    assert code == 1
    assert "nowhere to write to" in err


def test_verdicts_that_are_not_as_they_should_be(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = [verdict for verdict in bug_trials.recorded() if verdict.flag.startswith("kio-216")]
    verdicts[0].verdict, verdicts[0].detail = "passed", "by wonder"
    monkeypatch.setattr(bug_trials, "verify", lambda name, progress: verdicts)
    code, out, err = run("--verify", "--filter", "kio-216")
    assert code == 1
    assert "kio 0.2.0 passed FetchSnapshotResponse" in err
    assert "1 unexpected" in out


def test_a_release_that_cannot_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str, progress: object) -> None:
        raise AdapterBuildError("no go here")

    monkeypatch.setattr(bug_trials, "verify", fail)
    code, _, err = run("--verify")
    assert code == 3
    assert "no go here" in err
