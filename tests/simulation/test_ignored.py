"""Runs that go on where an invariant breaks, to see what follows."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from kraftspec.cli.simulate import simulate as command
from kraftspec.reference.profiles import profile_named
from kraftspec.simulation.catalogue import planted
from kraftspec.simulation.harness.cores import Core
from kraftspec.simulation.invariants import ignoring, is_ignored
from kraftspec.simulation.run import Result, simulate

PROFILE = profile_named("kafka")
FOLLOW = "voters_follow_log"
KAFKA = (Core("kafka:4.4.0"),)


def run(seed: int, *ignored: str, cores: tuple[Core, ...] = (), events: int = 1500) -> Result:
    with ignoring(*ignored):
        return simulate(seed, PROFILE, events=events, cores=cores)


def test_what_is_ignored_is_not_judged_and_does_not_count_as_held() -> None:
    with planted("applies_voters_on_commit"):
        broken = run(0)
        assert broken.violation is not None
        assert broken.violation[0] == FOLLOW
        goes_on = run(0, FOLLOW)
    assert goes_on.violation is None
    assert goes_on.events > broken.events
    assert set(broken.properties) - set(goes_on.properties) == {FOLLOW}
    assert FOLLOW not in goes_on.to_json()["invariants"]


def test_what_follows_is_found() -> None:
    with planted("applies_voters_on_commit"):
        follows = run(96, FOLLOW)
    assert follows.violation is not None
    assert follows.violation[0] == "leader_elected"


def test_a_run_is_the_same_as_long_as_nothing_breaks() -> None:
    assert run(3, FOLLOW, "single_leader").trace_hash == run(3).trace_hash


def test_what_is_ignored_ends_with_its_block() -> None:
    with ignoring(FOLLOW):
        with ignoring("single_leader"):
            assert is_ignored("single_leader")
        assert not is_ignored("single_leader")
        assert is_ignored(FOLLOW)
    assert not is_ignored(FOLLOW)


def test_the_command_takes_invariants_alone() -> None:
    bug = ("--bug", "applies_voters_on_commit", "--seed", "0", "--events", "1500", "--json")
    done = CliRunner().invoke(command, [*bug, "--ignore", FOLLOW])
    assert done.exit_code == 0, done.output
    assert FOLLOW not in json.loads(done.stdout)["invariants"]
    for name in ("leader_elected", "committed_bytes", "folow"):
        refused = CliRunner().invoke(command, ["--seed", "0", "--ignore", name])
        assert refused.exit_code == 2
        assert f"'{name}' cannot be ignored; these can: " in refused.output
        assert "single_leader" in refused.output


SPLIT = (FOLLOW, "majority_holds_high_watermark")


@pytest.mark.kafka
@pytest.mark.parametrize("seed", [141, 239])
def test_majorities_of_kafka_without_a_common_node_elect_in_one_epoch(seed: int) -> None:
    """With one property after another ignored: two leaders, two logs, and both are committed."""
    first = run(seed, cores=KAFKA, events=6000)
    assert first.violation is not None
    assert first.violation[0] == FOLLOW
    seen = []
    for ignored in ((), ("single_leader",), ("single_leader", "log_matching")):
        result = run(seed, *SPLIT, *ignored, cores=KAFKA, events=6000)
        assert result.faults["divided majorities"] == 1
        assert result.violation is not None
        assert result.known is None
        seen.append(result.violation[0])
    assert seen == ["single_leader", "log_matching", "committed_bytes"]
