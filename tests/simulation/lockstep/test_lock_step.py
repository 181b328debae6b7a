"""Two cores on the same inputs: that equal ones are equal, and that differences are noticed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kraftspec.simulation.catalogue import planted
from kraftspec.simulation.harness.cores import Core, parse_cores
from kraftspec.simulation.lockstep.rules import RULES
from kraftspec.simulation.lockstep.run import Counts, run_seed
from kraftspec.simulation.lockstep.same_batches import pairs
from kraftspec.simulation.lockstep.table import PAGE, with_table

ROOT = Path(__file__).resolve().parents[3]
(KAFKA,) = parse_cores("kafka:4.3.1")


@pytest.fixture
def ours_again(tmp_path: Path) -> Core:
    """Our core in a process of its own: what is planted here is not planted there."""
    program = tmp_path / "ours"
    program.write_text(
        f'#!/bin/sh\ncd "{ROOT}" && exec "{sys.executable}" -m kraftspec.simulation.harness.hosted'
    )
    program.chmod(0o755)
    return Core(str(program))


def run(core: Core, *seeds: int, events: int = 600) -> Counts:
    counts = Counts()
    for seed in seeds:
        run_seed(seed, core, counts, events=events)
    return counts


def test_our_core_and_our_core_are_equal(ours_again: Core) -> None:
    counts = run(ours_again, 3, 4, 5, 6)
    assert counts.steps > 500
    assert counts.equal == counts.steps
    assert not counts.has_failed
    assert not counts.rules
    assert not counts.apart
    roles = {role for _, role, _ in counts.by_input}
    assert {"", "unattached", "follower", "leader", "prospective", "candidate"} <= roles
    assert {driver for driver, _, _ in counts.by_input} == {"kraftspec", ours_again.name}
    assert set(counts.unused) == {rule.name for rule in RULES}


def test_the_same_seed_is_the_same_run(ours_again: Core) -> None:
    first, second = (run(ours_again, 5) for _ in range(2))
    assert first.by_input == second.by_input


def notices(core: Core, bug: str, where: str) -> bool:
    """Whether one of some seeds shows the planted bug in an input that begins so."""
    for seed in range(3, 43):
        with planted(bug):
            counts = run(core, seed, events=1_000)
        if any(name.startswith(where) for name in counts.differing):
            return any("gets" in line for line in counts.unexplained[0].words)
    return False


@pytest.mark.parametrize(
    ("bug", "where"),
    [
        ("applies_voters_on_commit", "reply as follower"),
        ("never_tells_the_high_watermark", "request as leader"),
        ("stands_still_without_answers", "tick as"),
    ],
)
def test_a_planted_difference_is_noticed(ours_again: Core, bug: str, where: str) -> None:
    assert notices(ours_again, bug, where)


def test_control_batches_of_other_things_are_no_pair() -> None:
    assert pairs(b"", b"") == []


def test_the_page_has_the_rules() -> None:
    path = ROOT / "docs" / PAGE
    assert with_table(path.read_text()) == path.read_text()


def test_each_rule_has_a_reason_and_a_name_of_its_own() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.reason.endswith(".") for rule in RULES)


@pytest.mark.kafka
def test_no_step_of_kafka_is_unexplained() -> None:
    counts = run(KAFKA, *range(40, 46), events=1_000)
    assert counts.steps > 500
    assert not counts.has_failed, counts.to_json()
    assert counts.equal > counts.explained


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("seed", "events"),
    [
        (1143, 700),  # One of the two left a server alone, and the pair was joined already.
        (1474, 10_000),  # A pair was joined whose voters were not the same.
        (1299, 3_000),  # The power went in the step in which a voter was removed.
        (2401, 10_000),  # One asked the leader, one a server at its address; both failed.
        (4170, 10_000),  # One asked at once, and had voted for itself.
        (3687, 10_000),  # A request that follows from KS-2026-05.
    ],
)
def test_what_looked_like_a_difference_is_none(seed: int, events: int) -> None:
    counts = run(KAFKA, seed, events=events)
    assert counts.steps > 200
    assert not counts.has_failed, counts.to_json()


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("bug", "where"),
    [
        ("accepts_old_leaders", "request as follower: answered"),
        ("follower_grants_pre_votes", "request as follower: answered"),
        ("truncates_too_much", "reply as follower: sent, truncated, state.log_end"),
    ],
)
def test_a_difference_from_kafka_is_noticed(bug: str, where: str) -> None:
    assert notices(KAFKA, bug, where)


@pytest.mark.kafka
def test_a_removed_voter_is_none_for_either() -> None:
    """Our core has a rule here that Kafka lacks: in lock-step it does without."""
    counts = run(Core("kafka:4.3.1"), 3, 4, 16, events=2_000)
    assert counts.steps > 2_000
    assert not counts.has_failed
