"""``kraftspec spec history``: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.consoles import typed_again

from kraftspec.cli import main
from kraftspec.codegen.history.states import packaged_history

PAGE = Path(__file__).resolve().parents[2] / "docs" / "releases.md"


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["spec", "history", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def report(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json").stdout)


def test_the_page_shows_what_the_command_prints(tmp_path: Path) -> None:
    page = PAGE.read_text("utf-8")
    assert typed_again(page, tmp_path) == page


def test_a_message_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("StreamsGroupDescribeResponse").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("<TopologyDescription>.subtopologies" in line for line in lines)


def test_one_field() -> None:
    shown = run("FetchRequest", "--field", "forgottenTopicsData").stdout
    assert "forgottenTopicsData.topicId: uuid, versions 13+" in shown
    assert "replicaState" not in shown
    assert "versions 0-12" not in shown
    changes = report("FetchRequest", "--field", "topics.topicId")["changes"]
    assert [change["release"] for change in changes] == ["3.1.0"]


def test_one_release() -> None:
    shown = run("FetchRequest", "--release", "kafka-4.1.0").stdout
    assert "highWatermark" in shown
    assert "3.1.0" not in shown
    assert run("FetchRequest", "--release", "3.2.0").stdout == "3.2.0 changed nothing here.\n"
    assert run("--release", "3.2.1").stdout == "3.2.1 changed nothing.\n"
    assert set(report("--release", "4.0.1")["messages"]) == {
        "JoinGroupRequest", "JoinGroupResponse",
    }  # fmt: skip
    assert "JoinGroupRequest    versions 2-9 → 0-9: back 0-1" in run("--release", "4.0.1").stdout


def test_all_releases() -> None:
    releases = packaged_history().releases
    shown = [line.split()[0] for line in run().stdout.splitlines() if line[2:3].isdigit()]
    assert tuple(shown) == releases
    assert [entry["release"] for entry in report()["releases"]] == list(releases)


def test_the_json_of_a_message_is_what_the_file_has() -> None:
    changes = packaged_history().messages["VoteRequest"]
    assert report("VoteRequest") == {"message": "VoteRequest", "changes": list(changes)}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("FetchReqest",), "no release has a message 'FetchReqest'; did you mean FetchRequest"),
        (("FetchRequest", "--field", "forgotenTopicsData"), "did you mean forgottenTopicsData"),
        (("FetchRequest", "--release", "1.0.0"), "no release '1.0.0' from 2.8.0 to "),
        (("--field", "topicId"), "--field is a field of a MESSAGE"),
    ],
)
def test_what_is_refused(arguments: tuple[str, ...], reason: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert reason in result.stderr
