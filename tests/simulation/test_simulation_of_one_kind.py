"""Runs in which one thing fails and little else: that it is met, and what only it shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft.connections import Connection, Connections
from kraftspec.reference.raft.follower import Follower
from kraftspec.reference.raft.messages import FetchSnapshotReply
from kraftspec.reference.raft.prospective import Prospective
from kraftspec.reference.raft.transitions import Cause
from kraftspec.reference.raft.types import Node
from kraftspec.reference.storage import Storage
from kraftspec.simulation.catalogue import planted
from kraftspec.simulation.harness.cores import parse_cores
from kraftspec.simulation.run import settle, simulate, swarm_of
from kraftspec.simulation.schedule import Schedule

PROFILE = KafkaProfile()
SHORT = 1_500


def test_our_nodes_have_no_careless_operator() -> None:
    assert not any(swarm_of(seed, PROFILE).is_careless for seed in range(1000))


@pytest.mark.kafka
def test_a_careless_operator_is_drawn_where_a_node_of_kafka_is_there() -> None:
    kafkas = parse_cores("kafka:4.4.0,kraftspec")
    careless = {seed for seed in range(1000) if swarm_of(seed, PROFILE, cores=kafkas).is_careless}
    assert 5 <= len(careless) <= 40
    assert {86, 348} <= careless


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("seed", "broken"), [(348, "leader_elected"), (86, "reconfiguration_finishes")]
)
def test_a_careless_operator_brings_about_gaps_of_kraft(seed: int, broken: str) -> None:
    result = simulate(seed, PROFILE, events=SHORT, cores=parse_cores("kafka:4.4.0"))
    assert result.violation is not None
    assert result.violation[0] == broken
    assert result.known is not None
    assert result.known.finding == "kraft-gridlock"


@pytest.mark.soak
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
        result = simulate(277, PROFILE, events=2_000)
    assert result.violation is not None
    assert result.violation[0] == broken


@pytest.mark.soak
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


@pytest.mark.soak
def test_a_voter_that_finds_no_other_asks_its_bootstrap_servers() -> None:
    """It was down while the others moved one by one, has moved itself, and begins as Candidate."""
    assert simulate(6444, PROFILE, events=10_000).violation is None
    profile = KafkaProfile()
    profile.policy.seeks_when_unanswered = False
    violation = simulate(6444, profile, events=10_000).violation
    assert violation is not None
    assert violation[0] == "replicas_catch_up"


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


def _seeds_with(condition: str) -> Iterator[int]:
    return (seed for seed in range(2_000) if getattr(swarm_of(seed, PROFILE), condition))


@pytest.mark.soak
def test_snapshots_end_at_control_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a start that passes over the record behind its snapshot is found."""
    seeds = list(islice(_seeds_with("edge_snapshot_period_us"), 12))
    results = [simulate(seed, PROFILE, events=SHORT) for seed in seeds]
    assert {result.violation for result in results} == {None}
    assert sum(result.faults.get("snapshot at a control record", 0) for result in results) >= 30
    controls = Storage._log_controls
    monkeypatch.setattr(Storage, "_log_controls", lambda self, offset: controls(self, offset + 1))
    violations = (simulate(seed, PROFILE, events=SHORT).violation for seed in seeds)
    assert next(filter(None, violations))[0] == "voters_follow_log"


@pytest.mark.soak
def test_replies_come_after_their_requests_timed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a node that takes them is found."""
    seeds = list(islice(_seeds_with("late_reply"), 8))
    results = [simulate(seed, PROFILE, events=SHORT) for seed in seeds]
    assert {result.violation for result in results} == {None}
    met = sum(result.faults.get("reply after its request timed out", 0) for result in results)
    assert met >= 100
    given_up: dict[tuple[Connections, int], Connection] = {}
    timed_out, take, reset = Connections.timed_out, Connections.take, Connections.reset

    def remember(self: Connections, now_us: int) -> Any:
        for number, connection in self._pending.items():
            if connection.until_us <= now_us:
                given_up[self, number] = connection
        return timed_out(self, now_us)

    def take_late(self: Connections, request_id: int) -> Connection | None:
        return take(self, request_id) or given_up.pop((self, request_id), None)

    def forget(self: Connections) -> None:
        for key in [key for key in given_up if key[0] is self]:
            del given_up[key]
        reset(self)

    monkeypatch.setattr(Connections, "timed_out", remember)
    monkeypatch.setattr(Connections, "take", take_late)
    monkeypatch.setattr(Connections, "reset", forget)
    assert any(simulate(seed, PROFILE, events=SHORT).violation for seed in seeds)


def test_an_election_without_pre_votes_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node whose pre-votes were not answered in time stands for election all the same."""

    def expired(self: Prospective) -> int:
        self.core.move(Cause.PRE_VOTE_UNSUPPORTED)
        return 0

    monkeypatch.setattr(Prospective, "expired", expired)
    results = (simulate(seed, PROFILE, events=SHORT).violation for seed in range(20))
    broken = next(violation for violation in results if violation is not None)
    assert broken[0] == "pre_votes_come_first"


def test_leaders_fall_silent_and_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """And an observer that goes on asking the one of before is found."""
    seeds = list(islice(_seeds_with("silence_period_us"), 4))
    results = [simulate(seed, PROFILE, events=SHORT // 2) for seed in seeds]
    assert {result.violation for result in results} == {None}
    assert sum(result.faults.get("silent leader", 0) for result in results) >= 4
    assert sum(result.faults.get("leader silent for good", 0) for result in results) >= 2
    silent = Follower.on_timed_out

    def on_timed_out(self: Follower, node: Node) -> None:
        if self.core.is_voter:
            silent(self, node)

    monkeypatch.setattr(Follower, "on_timed_out", on_timed_out)
    violations = (simulate(seed, PROFILE, events=SHORT // 2).violation for seed in seeds)
    assert next(filter(None, violations))[0] == "silent_leader_is_left"


def test_asking_again_for_what_is_gone_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that takes the answer for any other error goes on with the same snapshot."""
    take = Follower.on_snapshot_reply

    def on_snapshot_reply(self: Follower, reply: FetchSnapshotReply) -> bool:
        return not reply.error and take(self, reply)

    monkeypatch.setattr(Follower, "on_snapshot_reply", on_snapshot_reply)
    for seed in (33, 60):
        violation = simulate(seed, PROFILE, events=SHORT).violation
        assert violation is not None
        assert violation[0] == "takes_no_for_an_answer"


@pytest.mark.parametrize(
    ("bug", "seed", "broken"),
    [
        ("commits_while_it_truncates", 7, "no_commit_while_truncating"),
        ("resigned_waits_for_all", 1, "resigned_goes_on"),
    ],
)
def test_what_an_answer_or_a_silence_must_not_do(bug: str, seed: int, broken: str) -> None:
    assert simulate(seed, PROFILE, events=SHORT).violation is None
    with planted(bug):
        violation = simulate(seed, PROFILE, events=2_000).violation
    assert violation is not None
    assert violation[0] == broken


@pytest.mark.soak
def test_power_is_lost_as_who_resigned_goes_on() -> None:
    """Its clock stood still for 59 s, and it goes on in the step that is cut short."""
    result = simulate(337, PROFILE, events=10_000)
    assert result.violation is None
    assert result.faults["power loss between effects"] > 0


@pytest.mark.kafka
@pytest.mark.soak
def test_a_disk_is_full_as_who_resigned_goes_on() -> None:
    """Kafka's node ends in that step, and shows no other role."""
    cores = parse_cores("kafka:4.3.1,kafka:4.4.0")
    result = simulate(1786, PROFILE, events=10_000, cores=cores)
    assert result.violation is None or result.violation[0] != "resigned_goes_on"
    assert result.events > 6_400  # It ended at event 6,367 before.


def test_an_answer_that_comes_too_late_tells_nothing() -> None:
    """That a snapshot is gone: the node has given up that request, and goes on asking."""
    result = simulate(6208, PROFILE, events=10_000)
    assert result.violation is None
    assert result.faults["reply after its request timed out"] > 0


@pytest.mark.parametrize("seed", [446, 4015])
def test_an_observer_draws_its_silent_leader_again_and_again(seed: int) -> None:
    """It is one of two bootstrap servers, and is drawn seven times in a row."""
    result = simulate(seed, PROFILE, events=10_000)
    assert result.violation is None
    assert result.faults["leader silent for good"] == 1


def test_the_end_of_an_epoch_overtakes_answers_of_its_leader() -> None:
    """Successors take these for signs of life, and wait a whole fetch time-out."""
    result = simulate(4940, PROFILE, events=10_000)
    assert result.violation is None
    assert result.faults["handover overtakes an answer"] == 1
    assert "handover" not in result.faults


@pytest.mark.soak
@pytest.mark.parametrize("seed", [17_874, 62_343])
def test_once_the_faults_are_over_no_more_is_appended_than_can_be_fetched(seed: int) -> None:
    """With segments of a batch and a slow network nobody caught up, and no voter was added."""
    schedule = Schedule(seed, swarm_of(seed, PROFILE), PROFILE)
    schedule.run(10_000)
    settle(schedule)
