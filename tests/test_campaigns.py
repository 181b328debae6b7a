"""`make campaigns`: a slice that has ended is not run again, and one that was stopped is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests import campaigns
from tests.campaigns import CAMPAIGNS, Campaign, Progress, main


def campaign(code: str, seeds: int = 4, slice: int = 2) -> Campaign:
    return Campaign("one", "a test", (sys.executable, "-c", code, "{seeds}"), seeds, slice)


def test_slices_are_all_seeds_once() -> None:
    assert campaign("", seeds=5).slices() == ["0..1", "2..3", "4..4"]
    for one in CAMPAIGNS:
        ends = [[int(end) for end in seeds.split("..")] for seeds in one.slices()]
        assert sum(last - first + 1 for first, last in ends) == one.seeds
        assert ("{seeds}" in one.command) == (one.seeds > 1)


def test_what_has_ended_is_not_run_again(tmp_path: Path) -> None:
    one = campaign("import sys; print(sys.argv[1]); sys.exit(sys.argv[1] == '2..3')")
    first = Progress(one, tmp_path)
    assert first.run("0..1") == 0
    assert Progress(one, tmp_path).left() == ["2..3"]
    second = Progress(one, tmp_path)
    assert second.run("2..3") == 1
    last = Progress(one, tmp_path)
    assert (last.left(), last.failed) == ([], ["2..3"])
    assert (tmp_path / "one" / "2..3.txt").read_text() == "2..3\n"
    last.forget()
    assert Progress(one, tmp_path).left() == one.slices()


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaigns, "CAMPAIGNS", (campaign("pass"),))
    arguments = ["--build", str(tmp_path)]
    listed = CliRunner().invoke(main, [*arguments, "--list"])
    assert "0 of 2" in listed.output
    done = CliRunner().invoke(main, [*arguments, "one", "--slices", "1"])
    assert done.exit_code == 0, done.output
    assert "1 of 2" in done.output
    assert CliRunner().invoke(main, [*arguments, "--again", "--list"]).output.count("0 of 2") == 1


def test_a_name_that_is_none() -> None:
    done = CliRunner().invoke(main, ["absent"])
    assert done.exit_code == 2
    assert "there are catalogue, model" in done.output
