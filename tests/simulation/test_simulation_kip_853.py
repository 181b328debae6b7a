"""kip-853 simulated: its properties hold, and each rule beside the draft fixes a flaw."""

from __future__ import annotations

from collections import Counter

import pytest

from kraftspec.reference.profiles import profile_named
from kraftspec.simulation.run import simulate, swarm_of

PROFILE = profile_named("kip-853")
EVENTS = 1_500

# Fix → the property that breaks without it, a seed that shows it, and its events with faults.
FLAWS = {
    "own-epoch-first": ("one_voter_change", 50, 3_000),
    "removed-before-replaced": ("one_voter_change", 65, 2_000),
    "removed-when-committed": ("leader_elected", 70, 3_000),
    "voter-uuid": ("majority_holds_high_watermark", 65, 2_500),
    "loser-steps-down": ("removed_voter_stops", 23, 8_000),
    "check-quorum": ("leader_hears_majority", 50, 3_000),
}


@pytest.mark.parametrize("first", range(0, 20, 5))
def test_every_property_holds(first: int) -> None:
    for seed in range(first, first + 5):
        result = simulate(seed, PROFILE, events=EVENTS)
        assert result.violation is None, f"seed {seed}: {result.violation}"
        assert result.events >= EVENTS
        assert "removed_voter_stops" in result.properties


def test_every_rule_that_can_be_switched_off_has_a_flaw_that_is_shown() -> None:
    assert {*FLAWS} == {*PROFILE.fixes}


@pytest.mark.parametrize("fix", FLAWS)
def test_a_flaw_shows_without_its_fix_and_not_with_it(fix: str) -> None:
    name, seed, events = FLAWS[fix]
    result = simulate(seed, profile_named("kip-853", without=(fix,)), events=events)
    assert result.violation is not None
    assert result.violation[0] == name
    assert simulate(seed, PROFILE, events=events).violation is None


def test_quorums_begin_in_each_of_three_ways_and_change() -> None:
    """By their properties, by a log with all first voters, and by one voter that others join."""
    swarms = [swarm_of(seed, PROFILE) for seed in range(200)]
    static = [swarm for swarm in swarms if not swarm.kraft_version]
    alone = [s for s in swarms if s.kraft_version and s.voters == 1 and s.joiners]
    partitioned = [swarm for swarm in swarms if swarm.partitioned_removal_period_us]
    assert len(static) > 20
    assert len(alone) > 20
    assert len(partitioned) > 2
    met: Counter[str] = Counter()
    for seed in (3, *range(100, 120)):
        met.update(simulate(seed, PROFILE, events=6_000 if seed == 3 else EVENTS).faults)
    assert met["AddVoter"] > 20
    assert met["RemoveRaftVoter"] > 2
    assert met["removed while partitioned"] == 1
    assert met["wiped disk"]


def test_a_core_hears_of_its_snapshot_when_the_step_that_wrote_it_is_done() -> None:
    """In this run a follower campaigns in the step in which it writes a snapshot."""
    result = simulate(900_126, PROFILE, events=400)
    assert result.violation is None
    assert result.events >= 400
