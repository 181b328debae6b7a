"""Runs in which one thing fails and little else: that it is met, and what only it shows."""

from __future__ import annotations

from collections import Counter

import pytest

from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.reference.raft import RoleName
from kraftspec.simulation.catalogue import planted
from kraftspec.simulation.run import simulate, swarm_of
from kraftspec.simulation.schedule import Schedule

PROFILE = KafkaProfile()
SHORT = 1_500


def test_snapshots_are_deleted_while_they_are_fetched() -> None:
    """In runs whose snapshots take longer than the fetch time-out."""
    slow = [seed for seed in range(400) if swarm_of(seed, PROFILE).fetch_snapshot_max_bytes == 15]
    assert len(slow) >= 5
    results = [simulate(seed, PROFILE, events=SHORT) for seed in slow]
    assert {result.violation for result in results} == {None}
    assert sum(result.faults["isolated node"] for result in results) > 20
    gone = "snapshot deleted while it was fetched"
    assert sum(result.faults.get(gone, 0) for result in results) >= 5


def test_logs_that_are_longer_than_a_fetched_snapshot_are_met() -> None:
    """And a power loss after such a snapshot is stored, and before it has replaced the log."""
    stranding = [seed for seed in range(300) if swarm_of(seed, PROFILE).stranding_period_us]
    assert len(stranding) >= 6
    met: Counter[str] = Counter()
    for seed in stranding[:6]:
        result = simulate(seed, PROFILE, events=SHORT)
        assert result.violation is None
        met.update(result.faults)
    assert met["log longer than the snapshot that replaces it"] >= 6
    assert met["down between a snapshot and the reset of a longer log"] >= 3


@pytest.mark.parametrize(
    ("bug", "broken"),
    [
        ("takes_a_longer_log_for_a_later_one", "snapshot_at_log_start"),
        ("takes_no_snapshot_that_is_shorter", "replicas_catch_up"),
    ],
)
def test_what_only_a_log_longer_than_a_snapshot_shows(bug: str, broken: str) -> None:
    with planted(bug):
        result = simulate(44, PROFILE, events=2_000)
    assert result.violation is not None
    assert result.violation[0] == broken


def test_a_voter_that_moved_is_found_again() -> None:
    """Those with two listeners, too, by the one that is for nodes."""
    for seed in (29, 353):
        result = simulate(seed, PROFILE, events=SHORT)
        assert result.violation is None
        assert result.faults["moved"] > 1
    assert {swarm_of(seed, PROFILE).listeners for seed in (29, 353)} == {1, 2}
    for bug, seed, broken in (
        ("does_not_tell_that_it_moved", 29, "voters_are_found"),
        ("asks_at_the_first_listener", 31, "reconfiguration_finishes"),
    ):
        with planted(bug):
            violation = simulate(seed, PROFILE, events=2_000).violation
        assert violation is not None
        assert violation[0] == broken


@pytest.mark.parametrize("bug", ["waits_though_its_leader_resigned", "resigns_in_silence"])
def test_a_successor_that_takes_its_time_is_found(bug: str) -> None:
    """By the time from the resignation on; the others think that the leader died."""
    assert simulate(1, PROFILE, events=SHORT).faults["handover"] == 1
    with planted(bug):
        result = simulate(1, PROFILE, events=SHORT)
    assert result.violation is not None
    assert result.violation[0] == "successor_leads"


def test_leaders_that_are_removed_resign_as_no_voters() -> None:
    """In runs that are about it, cut off or not."""
    seeds = [seed for seed in range(120) if swarm_of(seed, PROFILE).leader_removal_period_us]
    resigned = 0
    for seed in seeds[:4]:
        schedule = Schedule(seed, swarm_of(seed, PROFILE), PROFILE)
        for _ in range(SHORT):
            schedule.run(schedule.world.events + 1)
            leaving = [one for one in schedule.world.running() if one.role is RoleName.RESIGNED]
            resigned += sum(not replica.core.is_voter for replica in leaving)
        assert schedule.met["leader removed"] > 1
    assert resigned
