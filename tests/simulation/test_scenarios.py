"""Runs under conditions that are chosen, not drawn: small quorums in which much happens at once."""

from __future__ import annotations

from collections import Counter

import pytest

from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.simulation.run import settle
from kraftspec.simulation.schedule import Schedule
from kraftspec.simulation.swarm import MS, S, Swarm

PROFILE = KafkaProfile()
INCARNATIONS = 40
EVENTS = 1_000
MET = {
    "partition around a node", "partition around a node, one way", "partition of a link, one way",
    "power loss", "lost write", "restart", "slow disk", "AddRaftVoter", "RemoveRaftVoter",
}  # fmt: skip


def changing_quorum(seed: int) -> Swarm:
    """Three voters and two that may join: power losses, partitions, slow disks, snapshots."""
    return Swarm(
        voters=3,
        observers=0,
        joiners=2,
        auto_join=seed % 2 == 0,
        partition_period_us=1 * S,
        power_period_us=2 * S,
        slow_disk_period_us=2 * S,
        snapshot_period_us=1 * S,
        clean_period_us=2 * S,
        reconfigure_period_us=1 * S,
        append_period_us=100 * MS,
        record_bytes_max=14,
        fetch_snapshot_max_bytes=100,
    )


def live(seed: int) -> Schedule:
    """Let a quorum live amid faults; every property holds."""
    schedule = Schedule(seed, changing_quorum(seed), PROFILE)
    schedule.run(EVENTS)
    return schedule


@pytest.mark.parametrize("seed", range(INCARNATIONS))
def test_a_quorum_that_changes_amid_faults(seed: int) -> None:
    """Once the faults are over, all nodes have the same log."""
    schedule = live(seed)
    settle(schedule)
    replicas = list(schedule.world.running())
    assert (
        len({(one.epoch, one.log_model.end_offset, one.log_model.end_chain) for one in replicas})
        == 1
    )
    assert schedule.world.appends.acknowledged


def test_the_lives_meet_what_they_are_for() -> None:
    met: Counter[str] = Counter()
    cleaned = 0
    for seed in range(0, INCARNATIONS, 2):
        schedule = live(seed)
        met.update(schedule.met.keys())
        cleaned += any(one.log_model.start_offset for one in schedule.world.running())
    assert met.keys() >= MET
    assert cleaned
