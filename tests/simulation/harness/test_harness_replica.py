"""Nodes in other processes: our own core behind the protocol, and Apache Kafka's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.simulation.harness.conversations import RELEASES

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.reference.host import PowerLostError
from kraftspec.reference.profiles import profile_named
from kraftspec.reference.raft.types import NEVER_US
from kraftspec.reference.raft.voters import VoterSet
from kraftspec.simulation.harness.cores import Core, close_processes, parse_cores
from kraftspec.simulation.harness.node import NO_POWER
from kraftspec.simulation.harness.replica import HarnessReplica
from kraftspec.simulation.harness.shown import CoreShown, election_of
from kraftspec.simulation.run import Result, simulate

KAFKA = profile_named("kafka")
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def own(tmp_path: Path) -> Core:
    """Our core, behind the protocol."""
    program = tmp_path / "own"
    program.write_text(
        f'#!/bin/sh\ncd "{ROOT}" && exec "{sys.executable}" -m kraftspec.simulation.harness.hosted'
    )
    program.chmod(0o755)
    return Core(str(program))


def broken(result: Result) -> tuple[str, str] | None:
    """What a run breaks, but that Kafka's nodes do not wait: that is judged when all else held.

    See docs/findings/kraft-busy-observer.md and kraft-no-backoff.md.
    """
    violation = result.violation
    return None if violation and violation[0] in ("idle_node_waits", "no_spin") else violation


def run(seed: int, *cores: Core, events: int = 400) -> Result:
    return simulate(seed, KAFKA, events=events, cores=cores)


@pytest.mark.soak
def test_a_core_behind_the_protocol_keeps_every_property(own: Core) -> None:
    """Its runs are others than in process: there a sync takes time of its own."""
    results = [run(seed, own) for seed in range(12)]
    assert [result.violation for result in results] == [None] * 12
    assert sum(result.acknowledged for result in results) > 0
    assert sum(result.faults.get("power loss", 0) for result in results) > 0
    assert "not shown" in results[0].to_json()["invariants"].values()


@pytest.mark.soak
def test_the_same_seed_is_the_same_run_in_another_process(own: Core) -> None:
    first = [run(seed, own).trace_hash for seed in (1, 2)]
    close_processes()
    assert [run(seed, own).trace_hash for seed in (1, 2)] == first


def test_nodes_in_process_and_behind_the_protocol_are_one_quorum(own: Core) -> None:
    for seed in range(6):
        result = run(seed, own, Core("kraftspec"))
        assert result.violation is None


@pytest.mark.kafka
def test_kafka_elects_appends_and_recovers() -> None:
    """The smoke: the release that the specs are of, alone and among ours."""
    for seed in (2, 4):
        alone = run(seed, *parse_cores("kafka"), events=1_000)
        assert alone.violation is None
        assert alone.acknowledged > 0
        mixed = run(seed, *parse_cores("kafka,kraftspec"), events=1_000)
        assert mixed.violation is None
        assert mixed.trace_hash != alone.trace_hash


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.parametrize("release", RELEASES)
def test_a_run_of_kafka_is_determined_by_its_seed(release: str) -> None:
    """The hash is over every byte that a node sends and every state that it is in.

    The second time both the simulator and Kafka's client are in new processes.
    """
    core = Core(f"kafka:{release}")
    first = [run(seed, core, events=800) for seed in (1, 4)]
    close_processes()
    command = ["-m", "kraftspec", "simulate", "--json", "--events", "800", "--core"]
    again = []
    for seed, hash_seed in ((1, "1"), (4, "2")):
        done = subprocess.run(
            [sys.executable, *command, core.name, "--seed", str(seed)],
            capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )  # fmt: skip
        again.append(json.loads(done.stdout))
    assert [one["traceHash"] for one in again] == [one.trace_hash for one in first]
    assert [one["violation"] for one in again] == [one.to_json()["violation"] for one in first]
    assert sum(one.acknowledged for one in first) > 0


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.parametrize("seed", [51, 226])
def test_a_timer_that_is_due_is_a_step_of_its_own(seed: int) -> None:
    """Kafka's client looks at its timers first: who was a follower takes the request as none.

    In one step with the request it looked as if a follower had granted a pre-vote (51), and as if
    one had stored another epoch over a pre-vote (226).
    """
    result = run(seed, Core("kafka:4.4.0"), events=3_000)
    assert broken(result) is None


@pytest.mark.kafka
@pytest.mark.soak
def test_kafka_notices_that_bits_of_its_log_have_flipped() -> None:
    """It cuts the log there, and its disk is replaced."""
    for seed in (176, 368, 485):
        result = run(seed, Core("kafka:4.4.0"), events=1_500)
        assert broken(result) is None
        assert result.faults["bit corruption"] > 0
        assert result.to_json()["invariants"]["corruption_is_detected"] == "held"


def test_what_was_being_stored_when_the_power_went_may_be_there() -> None:
    """Though quorum-state was stored before it in the same step."""
    replica = object.__new__(HarnessReplica)
    told: Any = SimpleNamespace(persisted=lambda *_: None)
    replica.core, replica.hooks = CoreShown(VoterSet()), told
    replica.has_own_clock, replica.world = False, cast("Any", SimpleNamespace(now_us=0))
    zero = ZERO_UUID
    state = (NO_POWER, 0, 5, -1, 1, zero, -1, 0, 0, 0, NEVER_US, False, 0)
    with pytest.raises(PowerLostError):
        replica._take([("persisted", (5, -1, -1, zero)), ("state", state)])
    assert replica.stored == election_of(5, -1, -1, zero)
    assert replica.storing == election_of(5, -1, 1, zero)
