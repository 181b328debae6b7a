"""kip-853 simulated: how its quorums begin and change."""

from __future__ import annotations

from collections import Counter

import pytest

from kraftspec.reference.profiles import profile_named
from kraftspec.simulation.run import simulate, swarm_of

PROFILE = profile_named("kip-853")
EVENTS = 1_500


@pytest.mark.soak
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
