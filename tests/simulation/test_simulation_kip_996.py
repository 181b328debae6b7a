"""kip-996 simulated: disks that are lost, static voters, and a flaw made small."""

from __future__ import annotations

from kraftspec.reference.profiles import profile_named
from kraftspec.reference.profiles.kip_996.policy import PRE_VOTE
from kraftspec.simulation.minimise import minimise, record
from kraftspec.simulation.protocols import protocol_of
from kraftspec.simulation.replay import Replay
from kraftspec.simulation.run import simulate, swarm_of
from kraftspec.simulation.trace_text import event_text, trace_events

PROFILE = profile_named("kip-996")


def test_a_reply_to_an_earlier_incarnation_answers_nothing() -> None:
    """It has the number of a request that is under way: a fetch, once the faults have ended."""
    result = simulate(3097, PROFILE, events=3_000)
    assert result.violation is None
    assert result.faults["reply to an earlier incarnation"] >= 1


def test_disks_are_lost_in_some_runs_and_nothing_else_fails_in_them() -> None:
    seeds = [seed for seed in range(200) if swarm_of(seed, PROFILE).disk_loss_period_us]
    assert 5 < len(seeds) < 50
    for seed in seeds:
        assert [*swarm_of(seed, PROFILE).faults] == ["disk_loss_period_us"]
    result = simulate(87, PROFILE, events=4_000)
    assert result.faults["lost disk"] >= 1
    assert result.faults["lagging follower"] >= 1
    assert result.epochs == 2  # The first, and that of the end, when the leader goes for good.


def test_voters_are_static() -> None:
    for seed in range(50):
        swarm = swarm_of(seed, PROFILE)
        assert (swarm.kraft_version, swarm.joiners, swarm.reconfigure_period_us) == (0, 0, 0)
        assert (swarm.wipe_period_us, swarm.corruption_period_us) == (0, 0)


def test_without_pre_votes_other_arrows_are_legal() -> None:
    plain = protocol_of(profile_named("kip-996", without=(PRE_VOTE,)))
    assert "candidate" not in protocol_of(PROFILE).legal["follower"]
    assert "candidate" in plain.legal["follower"]
    assert all("prospective" not in targets for targets in plain.legal.values())
    assert "no_election_against_live_leader" not in plain.invariants


def test_a_run_with_a_lost_disk_can_be_run_again() -> None:
    schedule, violation = record(87, PROFILE, events=3_000)
    assert violation is None
    decisions = schedule.world.decisions
    assert decisions is not None
    replay = Replay(87, schedule.swarm, PROFILE)
    assert replay.run(decisions) is None
    assert replay.applied == decisions
    for id, replica in schedule.world.replicas.items():
        assert replay.world.replicas[id].log_model.chains == replica.log_model.chains


def test_a_flaw_is_made_small_and_told() -> None:
    profile = profile_named("kip-996", without=("leader-refuses",))
    minimal = minimise(24, profile, events=3_000, seconds_max=600)
    assert minimal is not None
    assert minimal.violation[0] == "no_vote_against_live_leader"
    assert len(minimal.decisions) <= 40
    events, violation = trace_events(minimal.seed, minimal.swarm, profile, minimal.decisions)
    assert violation is not None
    assert any("pre_vote=True" in event_text(event) for event in events)
