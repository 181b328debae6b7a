"""The pages for operators: each command of theirs is run on a quorum as the page describes it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.reference.recovery.directories import Change, Data, Lead, Node, quorum

from kraftspec.cli import main

DOCS = Path(__file__).resolve().parents[2] / "docs"
THREE = (1, 2, 3)
FIRST = (Lead(1, 1, THREE, new_voters=THREE, level=1), Data(1, 4))
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)

Make = Callable[[Path], None]


def name(node: Node) -> None:
    kind = "broker" if node.id > 10 else "controller"
    node.path.rename(node.path.with_name(f"{kind}-{node.id}"))


def whole(root: Path) -> None:
    """Three controllers, and a broker that has what they have."""
    for node in [*quorum(root, *FIRST), Node(root, 11).append(*FIRST).vote(1)]:
        name(node)


def whole_with_a_broker_ahead(root: Path) -> None:
    for node in [*quorum(root, *FIRST), Node(root, 11).append(*FIRST, Data(1, 2)).vote(1)]:
        name(node)


def one_left(root: Path) -> None:
    """One controller, and a broker that has more."""
    name(quorum(root, *FIRST)[0])
    name(Node(root, 11).append(*FIRST, Data(1, 2)).vote(1))


def recovered(root: Path) -> None:
    one_left(root)
    line = "kraftspec quorum recover --keep 1 --write --backup backup controller-1 broker-11"
    assert said(line)[0] == 0


def static_left(root: Path) -> None:
    steps = (Lead(1, 1, THREE), Data(1))
    for id in (1, 11):
        name(Node(root, id).append(*steps).vote(1, static=THREE))


def two_of_whom_one_removed_itself(root: Path) -> None:
    nodes = quorum(root, Lead(1, 1, (1, 2), new_voters=(1, 2), level=1), Data(1), ids=(1, 2))
    nodes[0].append(Change(1, (2,)))
    for node in nodes:
        name(node)


def two_of_whom_one_was_removed(root: Path) -> None:
    steps = (Lead(1, 1, (1, 2), new_voters=(1, 2), level=1), Data(1), Change(1, (1,)), Data(1))
    for node in quorum(root, *steps, ids=(1, 2)):
        name(node)


def broker_left(root: Path) -> None:
    name(Node(root, 11).append(*FIRST).vote(1))
    name(Node(root, 7))


# By page and heading: what is there, and by command the exit code and what it says.
Case = tuple[Make, list[tuple[int, str]]]
CASES: dict[tuple[str, str], Case] = {
    ("quorum-down", "What is left?"): (whole, [(0, "could be elected")]),
    ("quorum-down", "Does it say that a node could be elected?"): (
        whole_with_a_broker_ahead,
        [(0, "nothing is made up")],
    ),
    ("quorum-down", "Are all voters there, with other addresses?"): (
        whole,
        [(0, "controller.quorum.bootstrap.servers=new-1:9093,new-2:9093,new-3:9093")],
    ),
    ("quorum-down", "Are all voters there, and nobody could be elected?"): (
        two_of_whom_one_removed_itself,
        [(0, "nothing is made up"), (0, "the voters are nodes 1, 2 again")],
    ),
    ("quorum-down", "Is at least one controller of a dynamic quorum left?"): (
        one_left,
        [(0, "to be the voters by force")],
    ),
    ("quorum-down", "Is at least one controller of a static quorum left?"): (
        static_left,
        [
            (0, "controller.quorum.voters=1@HOST:PORT"),
            (0, "The voters are in the log. Take controller.quorum.voters out"),
        ],
    ),
    ("quorum-down", "Is no controller left, but a broker?"): (
        broker_left,
        [(0, "to be the voters by force")],
    ),
    ("quorum-down", "Do it"): (one_left, [(0, "Done. What was there before is in backup.")]),
    ("quorum-down", "Look again"): (recovered, [(0, "forced-recovery")]),
    ("quorum-changes", "Before each change"): (whole, [(0, "voters: 1, 2, 3")]),
    ("quorum-changes", "From two voters to one"): (
        two_of_whom_one_was_removed,
        [(0, "voters: 1, from")],
    ),
}


def sections(page: str) -> dict[str, str]:
    parts = HEADING.split((DOCS / f"{page}.md").read_text("utf-8"))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def commands(text: str) -> list[str]:
    return [
        line
        for match in BLOCK.finditer(text)
        if match[1] == "sh"
        for line in match[2].splitlines()
        if line.startswith("kraftspec ")
    ]


def said(line: str) -> tuple[int, str]:
    result = CliRunner(env={"COLUMNS": "400"}).invoke(main, shlex.split(line)[1:])
    return result.exit_code, result.output


@pytest.mark.parametrize(("page", "heading"), CASES)
def test_the_commands_of_a_section(
    page: str, heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, wanted = CASES[page, heading]
    monkeypatch.chdir(tmp_path)
    make(tmp_path)
    for line, (code, words) in zip(commands(sections(page)[heading]), wanted, strict=True):
        exit_code, output = said(line)
        assert exit_code == code, output
        assert words in output


@pytest.mark.parametrize("page", ["quorum-down", "quorum-changes"])
def test_each_section_with_commands_is_run(page: str) -> None:
    with_commands = {heading for heading, text in sections(page).items() if commands(text)}
    assert with_commands == {heading for of, heading in CASES if of == page}


@pytest.mark.parametrize(
    ("make", "directories", "code", "words"),
    [
        (one_left, "controller-1 broker-11", 3, "too-few-directories"),
        (
            whole_with_a_broker_ahead,
            "controller-1 controller-2 controller-3 broker-11",
            1,
            "observer-ahead",
        ),
        (two_of_whom_one_removed_itself, "controller-1 controller-2", 1, "nobody-electable"),
        (static_left, "controller-1 broker-11", 3, "from quorum-state, of static voters"),
    ],
)
def test_verify_says_what_the_page_asks_for(
    make: Make,
    directories: str,
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert words in (DOCS / "quorum-down.md").read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    make(tmp_path)
    exit_code, output = said(f"kraftspec quorum verify {directories}")
    assert exit_code == code
    assert words in output


def test_a_healthy_quorum_looks_as_the_page_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = sections("quorum-changes")["Before each change"]
    (shown,) = (match[2] for match in BLOCK.finditer(section) if "Directory id" in match[2])
    monkeypatch.chdir(tmp_path)
    whole(tmp_path)
    _, output = said("kraftspec quorum verify controller-1 controller-2 controller-3")
    lines = [line.rstrip() for line in output.splitlines()]
    assert shown.splitlines() == lines[: len(shown.splitlines())]
