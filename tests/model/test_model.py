"""TLC on the model: each fault breaks its property; what is small holds in all of its states."""

from __future__ import annotations

import shutil

import pytest
from click.testing import CliRunner

from kraftspec.model import TlcError, groups, run, story
from kraftspec.model.__main__ import main

FAULTS = [name for name, group in groups().items() if group.breaks]
SMALL = ("snapshots", "reconfiguration", "two-voters")


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_breaks_its_property(name: str) -> None:
    group = groups()[name]
    result = run(group, heap_mib=512)
    assert result.broken == group.breaks
    assert len(story(result.trace)) > len(result.trace)  # The nodes at first, then each step.


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.parametrize("name", SMALL)
def test_a_group_holds(name: str) -> None:
    result = run(groups()[name], heap_mib=1024)
    assert (result.broken, result.is_complete) == ("", True)


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


def test_where_java_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    done = CliRunner().invoke(main, ["gridlock"])
    assert done.exit_code == 1
    assert "apt-get install openjdk-17-jdk-headless maven" in done.output


def test_the_groups_are_listed() -> None:
    done = CliRunner().invoke(main, ["--list"])
    assert done.exit_code == 0
    assert [line.partition(":")[0] for line in done.output.splitlines()] == [*groups()]


def test_a_group_that_is_not_there() -> None:
    done = CliRunner().invoke(main, ["absent"])
    assert done.exit_code == 2
    assert "there is no group absent; there are: elections" in done.output


def test_a_group_in_another_scope() -> None:
    text = groups()["elections"].with_constants({"MaxEpoch": "5"})
    assert text.constants["MaxEpoch"] == "5"
    assert text.constants["Begins"] == '"empty"'
