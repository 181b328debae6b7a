"""TLC on the model: each fault breaks its property; what is small holds in all of its states."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.waiting import until

from kraftspec.model import Result, TlcError, groups, run, story
from kraftspec.model import __main__ as command
from kraftspec.model.__main__ import MARKS, main
from kraftspec.model.groups import SAFETY, defaults, model_root
from kraftspec.model.words import ACTIONS

# The mutants but for two, and no fault that takes long: `make model` has all of them.
SOME_MUTANTS = ("mutant-half", "mutant-tells-nothing")
LONG = ("reassigns-at-once",)
FAULTS = [
    name for name, group in groups().items()
    if group.breaks
    and (not name.startswith("mutant-") or name in SOME_MUTANTS)
    and name not in LONG
]  # fmt: skip
SMALL = ("snapshots", "reconfiguration", "two-voters", "new-voter", "change-finishes")


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_breaks_its_property(name: str) -> None:
    group = groups()[name]
    result = run(group, heap_mib=512)
    assert result.broken == group.breaks
    assert len(story(result.trace)) > len(result.trace)  # The nodes at first, then each step.


def tlc_of(directory: Path) -> list[int]:
    """Return the processes that have this directory in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if f"-Djava.io.tmpdir={directory}/".encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


@pytest.mark.kafka
@pytest.mark.skipif(not Path("/proc/self/cmdline").is_file(), reason="asks Linux who runs")
def test_tlc_ends_with_who_started_it(tmp_path: Path) -> None:
    """Also by SIGKILL; without that it goes on for half an hour."""
    code = "from kraftspec.model import groups, run; run(groups()['reconfiguration-and-crash'])"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment) as parent:
        until(lambda: bool(tlc_of(tmp_path)))
        parent.kill()
    until(lambda: not tlc_of(tmp_path))


def cells(name: str) -> list[str]:
    """Return what the page has of a group: its row, but for the name."""
    page = (Path(__file__).parents[2] / "docs/model.md").read_text("utf-8")
    (row,) = re.findall(rf"^\| `{name}` \| (.*) \|$", page, re.M)
    return str(row).split(" | ")


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.parametrize("name", SMALL)
def test_a_group_holds(name: str) -> None:
    """In all of its states, as many as the page says."""
    result = run(groups()[name], heap_mib=1024)
    assert (result.broken, result.is_complete) == ("", True)
    counts = [f"{count:,}" for count in (result.generated, result.distinct, result.depth)]
    if groups()[name].specification == SAFETY:
        assert cells(name) == [groups()[name].about, *counts]
    else:
        assert cells(name)[-2:] == counts[:2]


def test_the_page_has_each_group_in_its_scope() -> None:
    names = [
        name for name, one in groups().items()
        if one.specification == SAFETY and not one.breaks and not one.simulate_s
    ]  # fmt: skip
    assert names
    assert [cells(name)[0] for name in names] == [groups()[name].about for name in names]


@pytest.mark.kafka
@pytest.mark.soak
def test_random_behaviours_end_in_time_and_are_counted() -> None:
    done = CliRunner().invoke(main, ["larger", "--simulate", "6"])
    assert done.exit_code == 0
    match = re.search(r"^larger: nothing broke at random; ([\d,]+) states, ", done.stdout, re.M)
    assert match is not None
    assert int(match[1].replace(",", "")) > 0


@pytest.mark.kafka
@pytest.mark.soak
def test_a_fault_that_breaks_nothing_is_told() -> None:
    done = CliRunner().invoke(main, ["gridlock", "--set", "MaxChanges=0"])
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1] == "gridlock has to break leader_can_be_elected"


@pytest.mark.parametrize("changed", ["MaxEpochs=3", "MaxEpoch", "MaxEpoch="])
def test_a_constant_that_the_model_lacks(changed: str) -> None:
    done = CliRunner().invoke(main, ["gridlock", "--set", changed])
    assert done.exit_code == 2
    assert "constant of KRaft.tla, such as MaxEpoch=3; there are: Node, None" in done.output


@pytest.mark.kafka
@pytest.mark.soak
def test_gridlock_in_words() -> None:
    """The steps that docs/findings/kraft-gridlock.md describes, and nothing else."""
    lines = story(run(groups()["gridlock"], heap_mib=512).trace)
    assert "acts on voters {b}" in lines[-2]
    assert lines[-1].endswith("node a resigns → is resigned of epoch 1")


@pytest.mark.kafka
@pytest.mark.soak
def test_a_model_that_tlc_does_not_understand() -> None:
    with pytest.raises(TlcError, match="came to no end"):
        run(groups()["gridlock"].with_constants({"MaxEpoch": "Absent"}), heap_mib=512)


def test_each_property_is_seen_to_break() -> None:
    """By a mutant or a fault: a property that nothing can break says nothing."""
    checked = {*defaults().invariants, *defaults().properties}
    assert checked <= {group.breaks for group in groups().values()}


def test_the_page_has_each_property_of_the_simulator() -> None:
    """Checked of the model, or among those that it lacks."""
    docs = Path(__file__).parents[2] / "docs"
    section = (docs / "simulation.md").read_text("utf-8").partition("\n## Properties\n")[2]
    names = re.findall(r"^\| `(\w+)` \|", section.partition("\n## ")[0], re.M)
    checked = {*defaults().invariants, *defaults().properties}
    assert len(checked & {*names}) == len(checked) - 2  # Two are the model's alone.
    page = (docs / "model.md").read_text("utf-8")
    assert [name for name in names if f"`{name}`" not in page] == []


def test_each_action_has_words() -> None:
    text = (model_root() / "KRaft.tla").read_text("utf-8")
    actions = set(re.findall(r"(\w+)\(n\)", text.partition("\nNext ==\n")[2]))
    assert {"TimesOut", "Cleans"} < actions
    assert actions <= {*ACTIONS}


def test_where_java_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    done = CliRunner().invoke(main, ["gridlock"])
    assert done.exit_code == 1
    assert "apt-get install openjdk-17-jdk-headless maven" in done.output


def test_the_groups_are_listed() -> None:
    done = CliRunner().invoke(main, ["--list"])
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert [line.partition(":")[0] for line in lines] == [*groups()]
    assert [line.partition("; breaks ")[2] for line in lines] == [
        one.breaks for one in groups().values()
    ]


def test_a_group_that_is_not_there() -> None:
    done = CliRunner().invoke(main, ["absent"])
    assert done.exit_code == 2
    assert "there is no group absent; there are: elections" in done.output


def test_a_group_in_another_scope() -> None:
    text = groups()["elections"].with_constants({"MaxEpoch": "5"})
    assert text.constants["MaxEpoch"] == "5"
    assert text.constants["Begins"] == '"empty"'


def counted(*_: object, **__: object) -> Result:
    return Result(
        generated=6002, distinct=1794, depth=24, seconds=1.0, broken="", trace=[], is_complete=True,
        output="",
    )  # fmt: skip


def test_the_states_of_a_group_are_put_into_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "run", counted)
    page = tmp_path / "page.md"
    head, other = "| group | scope |\n| --- | --- |", "| `snapshots` | one | 7 | 6 | 5 |"
    page.write_text(f"a\n{MARKS[0]}\n{head}\n| `two-voters` | old |\n{other}\n\n{MARKS[1]}\nb\n")
    done = CliRunner().invoke(main, ["two-voters", "--write", str(page)])
    assert done.exit_code == 0
    row = f"| `two-voters` | {groups()['two-voters'].about} | 6,002 | 1,794 | 24 |"
    assert page.read_text() == f"a\n{MARKS[0]}\n{head}\n{row}\n{other}\n\n{MARKS[1]}\nb\n"


def test_what_must_happen_in_the_end_is_not_put_into_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "run", counted)
    page = tmp_path / "page.md"
    page.write_text(f"{MARKS[0]}\n{MARKS[1]}\n")
    done = CliRunner().invoke(main, ["change-finishes", "--write", str(page)])
    assert done.exit_code == 0
    assert page.read_text() == f"{MARKS[0]}\n{MARKS[1]}\n"


@pytest.mark.parametrize(
    ("options", "why"),
    [([], "has no table between"), (["--set", "MaxEpoch=1"], "of whole groups in their own scope")],
)
def test_a_page_that_gets_no_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], why: str
) -> None:
    monkeypatch.setattr(command, "run", counted)
    page = tmp_path / "page.md"
    page.write_text("a\n")
    done = CliRunner().invoke(main, ["two-voters", "--write", str(page), *options])
    assert done.exit_code == 2
    assert why in " ".join(done.output.replace("│", "").split())
    assert page.read_text() == "a\n"
