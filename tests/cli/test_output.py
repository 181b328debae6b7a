"""How wide what commands print is, where no terminal says it."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from rich.table import Table

from kraftspec.cli import main
from kraftspec.cli.output import PLAIN_WIDTH, console

ADAPTERS = ["conform", "adapters"]


def longest(columns: str | None) -> int:
    result = CliRunner().invoke(main, ADAPTERS, env={"COLUMNS": columns})
    assert result.exit_code == 0, result.output
    return max(len(line.rstrip()) for line in result.output.splitlines())


def test_tables_in_a_pipe_fit_the_columns_that_are_asked_for() -> None:
    assert longest("60") <= 60
    assert 60 < longest("80") <= 80 < longest("120")


@pytest.mark.parametrize("columns", [None, "", "wide", "-1", "8e1"])
def test_without_columns_a_pipe_folds_no_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: str | None
) -> None:
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    console().print("word " * 30)
    assert len(capsys.readouterr().out.splitlines()) == 1
    table = Table("what")
    table.add_row("x" * 2 * PLAIN_WIDTH)
    console().print(table)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= PLAIN_WIDTH
