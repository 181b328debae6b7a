"""The scenes of findings, played on real controllers of Kafka and on our own nodes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from kraftspec.conformance.cluster import Node
from kraftspec.interop.ours import CheckFailedError
from kraftspec.interop.reproduce.busy_observer import busy_observer
from kraftspec.interop.reproduce.fetch_snapshot import (
    fetch_snapshot_rejected,
    fetch_snapshot_without_topic,
)
from kraftspec.interop.reproduce.gridlock import copy_tail, gridlock
from kraftspec.interop.reproduce.new_disk import new_disk
from kraftspec.interop.reproduce.stage import (
    FAULT,
    NO_FAULT,
    NOT_FOLLOWED,
    OURS,
    Scene,
    Stage,
    command,
    log_end,
    play,
    voters_in,
)
from kraftspec.reference.log import LogConfig
from kraftspec.reference.log.files import LocalFiles
from kraftspec.reference.log.metadata_log import MetadataLog
from kraftspec.reference.profiles.kafka.records import encode_control
from kraftspec.reference.raft.control import LeaderChange, Voters
from kraftspec.reference.raft.types import ReplicaKey, Voter
from kraftspec.reference.raft.voters import VoterSet

EMBARGOED = Path(__file__).resolve().parents[2] / "findings/embargoed"
OBSERVE_S = 10.0  # To see that nothing happens.
WAIT_S = 180.0  # For what must happen.


def embargoed(number: str) -> ModuleType:
    """Load the script beside an embargoed page."""
    (path,) = (EMBARGOED / number).glob("*.py")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outcome(scene: Scene, release: str, observe_s: float = OBSERVE_S) -> tuple[int, list[str]]:
    steps: list[str] = []
    code = play(scene, release, observe_s, steps.append)
    return code, steps


# ---- on real processes ---------------------------------------------------------------------------


@pytest.mark.kafka
def test_gridlock_and_its_mending() -> None:
    code, steps = outcome(gridlock, "4.4.0")
    assert code == FAULT, steps
    assert f"no leader in {OBSERVE_S:g} s" in steps[-4]
    assert "is elected" in steps[-2]


@pytest.mark.kafka
def test_two_of_our_nodes_elect_a_leader_that_was_removed() -> None:
    code, steps = outcome(gridlock, OURS, WAIT_S)
    assert code == NO_FAULT, steps
    assert "is elected" in steps[-2]


@pytest.mark.kafka
@pytest.mark.parametrize(("release", "code"), [("4.3.1", FAULT), ("4.4.0", NO_FAULT)])
def test_a_fetch_snapshot_without_topic(release: str, code: int) -> None:
    exit_code, steps = outcome(fetch_snapshot_without_topic, release)
    assert exit_code == code, steps
    assert "the process ends" not in steps[-3]  # The sender has no right to ask.


@pytest.mark.kafka
@pytest.mark.parametrize(("release", "code"), [("4.4.0", FAULT), (OURS, NO_FAULT)])
def test_a_rejected_fetch_snapshot(release: str, code: int) -> None:
    exit_code, steps = outcome(fetch_snapshot_rejected, release)
    assert exit_code == code, steps


@pytest.mark.kafka
@pytest.mark.parametrize(("release", "code"), [("4.4.0", FAULT), (OURS, NO_FAULT)])
def test_a_busy_observer(release: str, code: int) -> None:
    exit_code, steps = outcome(busy_observer, release)
    assert exit_code == code, steps


@pytest.mark.kafka
@pytest.mark.parametrize(("release", "code"), [("4.4.0", FAULT), (OURS, NO_FAULT)])
def test_a_voter_with_a_new_disk_is_asked_again_at_once(release: str, code: int) -> None:
    exit_code, steps = outcome(new_disk, release)
    assert exit_code == code, steps


@pytest.mark.kafka
@pytest.mark.parametrize("number", ["KS-2026-03", "KS-2026-05"])
@pytest.mark.parametrize(("release", "code"), [("4.4.0", FAULT), (OURS, NO_FAULT)])
def test_embargoed(number: str, release: str, code: int) -> None:
    observe_s = WAIT_S if code == FAULT else OBSERVE_S  # Of KS-2026-05 the fault is a leader.
    exit_code, steps = outcome(embargoed(number).SCENE, release, observe_s)
    assert exit_code == code, steps


# ---- the equipment -------------------------------------------------------------------------------


def node_with_log(home: Path, voters: list[list[int]]) -> Node:
    home.mkdir(exist_ok=True)
    node = Node(1, "controller", home, (), {"log.dirs": str(home)}, 1, 0)
    log = MetadataLog.open(str(node.metadata_log), LocalFiles(), LogConfig())
    log.append_control(1, [encode_control(LeaderChange(1, (1,), (1,)))], 0)
    for ids in voters:
        voter_set = VoterSet(Voter(ReplicaKey(id)) for id in ids)
        log.append_control(1, [encode_control(Voters(voter_set))], 0)
    log.close()
    return node


def test_the_voters_of_a_log(tmp_path: Path) -> None:
    node = node_with_log(tmp_path, [[1, 2], [2]])
    assert [str(voters) for voters in voters_in(node)] == [
        "Voters{1, 2} at offset 1",
        "Voters{2} at offset 2",
    ]
    assert log_end(node) == 3


def test_a_missing_tail_is_copied_as_it_is(tmp_path: Path) -> None:
    source = node_with_log(tmp_path / "1", [[1, 2], [2]])
    to = node_with_log(tmp_path / "2", [])
    assert copy_tail(source, to) == 2
    logs = [next(node.metadata_log.glob("*.log")).read_bytes() for node in (source, to)]
    assert logs[0].startswith(logs[1])
    assert log_end(to) == 3
    assert copy_tail(source, to) == 0


def test_a_sequence_that_cannot_be_followed_is_no_verdict() -> None:
    def other(stage: Stage) -> bool:
        raise CheckFailedError("3001 leads")

    code, steps = outcome(other, OURS)
    assert code == NOT_FOLLOWED
    assert steps == [
        f"The sequence could not be followed (try {number} of 3): 3001 leads"
        for number in (1, 2, 3)
    ]


def test_a_sequence_that_could_not_be_followed_is_played_again() -> None:
    tries = iter([False, True])

    def other(stage: Stage) -> bool:
        if not next(tries):
            raise CheckFailedError("3001 leads")
        return True

    code, steps = outcome(other, OURS)
    assert code == FAULT
    assert steps[-1] == "kraftspec: the fault is there"


def test_the_command_plays_a_scene() -> None:
    def scene(stage: Stage) -> bool:
        stage.step(f"{stage.release}, {stage.observe_s:g} s")
        return stage.is_ours

    run = CliRunner().invoke(command({"scene": scene}), ["scene", "--release", "4.3.1"])
    assert (run.exit_code, run.output) == (
        NO_FAULT, " 1. 4.3.1, 60 s\n4.3.1: the fault is not there\n"
    )  # fmt: skip
    run = CliRunner().invoke(command({"scene": scene}), ["scene", "--release", OURS])
    assert run.exit_code == FAULT
    assert CliRunner().invoke(command({"scene": scene}), ["other"]).exit_code == 2
