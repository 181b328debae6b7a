"""A name that is taken is refused, and ``--force`` replaces it: alike in all commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kraftspec.cli import main

ROOT = Path(__file__).resolve().parents[2]
METADATA = str(ROOT / "tests" / "pipeline" / "data" / "metadata")
PART = "part-00000.parquet"
# What is typed before the name, how the name ends, and a file that is written below it.
COMMANDS = {
    "pipeline scan": (["pipeline", "scan", METADATA, "--to"], ".jsonl", ""),
    "pipeline metadata": (
        ["pipeline", "metadata", METADATA, "--out"],
        "",
        "part-00000.parquet",
    ),
    "spec reference": (["spec", "reference", "--set", "kip-996", "--out"], "", "index.html"),
    "spec dissector": (["spec", "dissector", "--set", "kip-996", "--out"], ".lua", ""),
    "conform init": (["conform", "init", "--lang", "python"], "", "adapter.py"),
    "conform export": (["conform", "export", "--out"], ".tar.gz", ""),
}


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done.exit_code, done.output


def commands(command: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command)
    for each in command.list_commands(context):
        below = command.get_command(context, each)
        assert below is not None
        yield from commands(below, f"{name} {each}".strip())


@pytest.mark.soak
@pytest.mark.parametrize("name", COMMANDS)
def test_a_name_that_is_taken(name: str, tmp_path: Path) -> None:
    words, suffix, below = COMMANDS[name]
    target = tmp_path / f"made{suffix}"
    file = target / below
    assert run(*words, str(target))[0] == 0
    content = file.read_bytes()
    file.write_bytes(b"mine")
    code, output = run(*words, str(target))
    assert code in (1, 3)
    assert f"Error: {target}" in output
    assert "is there already" in output
    assert "or give --force" in output
    assert file.read_bytes() == b"mine"
    assert run(*words, str(target), "--force")[0] == 0
    assert file.read_bytes() == content


def test_the_explorer_refuses_before_it_compiles(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    code, output = run("spec", "explorer", "--out", str(tmp_path))
    assert (code, output) == (
        1, f"Error: {tmp_path} is there already: name another, or give --force\n",
    )  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_directory_with_more_than_tables_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    words = ["pipeline", "metadata", METADATA, "--out", str(tmp_path), "--force"]
    code, output = run(*words)
    assert (code, output) == (3, f"Error: {tmp_path} is not replaced, for it also has mine.txt\n")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(("part", "option"), [("scan", "--to"), ("metadata", "--out")])
def test_force_without_a_name_is_wrong_usage(part: str, option: str) -> None:
    code, output = run("pipeline", part, METADATA, "--force")
    assert code == 2
    assert f"--force goes with {option}" in output


def test_the_page_names_all_that_have_it() -> None:
    having = {
        name: parameter
        for name, command in commands(main)
        for parameter in command.params
        if "--force" in parameter.opts
    }
    assert having.keys() == COMMANDS.keys() | {"spec explorer"}
    assert len({getattr(parameter, "help", None) for parameter in having.values()}) == 1
    page = (ROOT / "docs" / "tools.md").read_text("utf-8")
    (row,) = re.findall(r"^\| rows, pages and programs.*", page, re.MULTILINE)
    assert all(name.split()[-1] in row for name in having)
