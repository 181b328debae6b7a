"""kip-595 simulated: its properties hold, and a rule switched off shows the flaw it is for."""

from __future__ import annotations

import pytest

from kraftspec.conformance.simulation.minimise import minimise, record
from kraftspec.conformance.simulation.replay import Replay
from kraftspec.conformance.simulation.run import simulate, swarm_of
from kraftspec.conformance.simulation.swarm import S
from kraftspec.reference.profiles import profile_named

PROFILE = profile_named("kip-595")
EVENTS = 2_000

# Cure → the property that breaks without it, and a seed that shows it.
FLAWS = {
    "own-epoch-commit": ("one_voter_change", 3),
    "one-first-quorum": ("single_leader", 557),
    "deaf-to-strangers": ("strangers_are_rare", 716),
    "strangers-in-need": ("leader_elected", 1288),
    "caught-up-first": ("joiner_is_caught_up", 6),
    "settled-cluster-id": ("no_fatal_error", 137),
    "check-quorum": ("leader_hears_majority", 92),
    "ask-back": ("leadership_stays", 1420),
}


@pytest.mark.parametrize("first", range(0, 20, 5))
def test_every_property_holds(first: int) -> None:
    for seed in range(first, first + 5):
        result = simulate(seed, PROFILE, events=EVENTS)
        assert result.violation is None, f"seed {seed}: {result.violation}"
        assert result.events >= EVENTS
        assert {"reassignment_finishes", "strangers_are_rare"} <= {*result.properties}
        assert result.acknowledged > 0


def test_an_operator_alters_the_quorum_in_some_runs() -> None:
    busy = [seed for seed in range(60) if 0 < swarm_of(seed, PROFILE).reconfigure_period_us < S]
    assert len(busy) >= 3
    for seed in busy[:3]:
        assert simulate(seed, PROFILE, events=EVENTS).faults["AlterQuorum"] > 0


def test_every_cure_has_a_flaw_that_is_shown() -> None:
    assert {*FLAWS} == {*PROFILE.cures}


@pytest.mark.parametrize("cure", FLAWS)
def test_a_flaw_shows_without_its_cure_and_not_with_it(cure: str) -> None:
    name, seed = FLAWS[cure]
    result = simulate(seed, profile_named("kip-595", without=(cure,)), events=EVENTS)
    assert result.violation is not None
    assert result.violation[0] == name
    assert simulate(seed, PROFILE, events=EVENTS).violation is None


def test_nodes_that_were_told_different_voters_elect_nobody_until_that_is_mended() -> None:
    assert swarm_of(557, PROFILE).mixed_voters
    result = simulate(557, PROFILE, events=EVENTS)
    assert result.violation is None
    assert result.acknowledged > 0  # Once the operator had formatted them anew.


def test_a_run_can_be_run_again() -> None:
    schedule, violation = record(3, PROFILE, events=500)
    assert violation is None
    decisions = schedule.world.decisions
    assert decisions is not None
    replay = Replay(3, schedule.swarm, PROFILE)
    assert replay.run(decisions) is None
    assert replay.applied == decisions
    for id, replica in schedule.world.replicas.items():
        assert replay.world.replicas[id].mirror.chains == replica.mirror.chains


def test_two_first_quorums_are_made_small() -> None:
    without = profile_named("kip-595", without=("one-first-quorum",))
    minimal = minimise(557, without, events=EVENTS, seconds_max=5)
    assert minimal is not None
    assert minimal.violation[0] == "single_leader"
    assert len(minimal.decisions) <= 18


def test_no_aimed_power_cut_asks_for_a_snapshot() -> None:
    """The draft has none, and a fault once asked for one where the log was not synced."""
    assert swarm_of(1_000_017, PROFILE).aim_period_us
    assert simulate(1_000_017, PROFILE, events=EVENTS).violation is None
