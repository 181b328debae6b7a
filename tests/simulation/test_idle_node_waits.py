"""The property `idle_node_waits`: what counts as a wake in vain, and what ends the count."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftspec.reference.profiles import KAFKA, profile_named
from kraftspec.reference.raft import RoleName
from kraftspec.simulation.committed_log import Violation
from kraftspec.simulation.harness.cores import Core
from kraftspec.simulation.invariants.idle_node_waits import WAKES_MAX, IdleNodeWaits
from kraftspec.simulation.minimise import minimise


def woken(
    invariant: IdleNodeWaits, times: int, wait_us: int = 0, *, is_voter: bool = False
) -> None:
    core = SimpleNamespace(
        deadline_us=7_000_000 + wait_us, role=SimpleNamespace(name=RoleName.FOLLOWER),
        is_voter=is_voter,
    )  # fmt: skip
    replica: Any = SimpleNamespace(
        id=3, core=core, clock_us=lambda: 7_000_000, world=SimpleNamespace(now_us=5_000_000)
    )
    for _ in range(times):
        invariant.ticked(replica)


def test_a_node_that_is_woken_in_vain_is_told_at_the_end() -> None:
    invariant = IdleNodeWaits()
    woken(invariant, WAKES_MAX)
    invariant.finished([])
    woken(invariant, 1)
    with pytest.raises(
        Violation, match=r"node 3, follower and an observer, was woken 21 times .*5,000 ms"
    ):
        invariant.finished([])


def test_who_waits_or_has_something_to_do_begins_anew() -> None:
    replica: Any = SimpleNamespace(id=3)
    something: Any = None
    invariant = IdleNodeWaits()
    woken(invariant, WAKES_MAX)
    woken(invariant, 1, wait_us=1_001)
    woken(invariant, WAKES_MAX)
    invariant.asked(replica, 1, something)
    woken(invariant, WAKES_MAX)
    invariant.request_arrived(replica, something, something)
    woken(invariant, WAKES_MAX)
    invariant.finished([])


@pytest.mark.kafka
@pytest.mark.soak
def test_an_observer_of_kafka_has_a_small_trace() -> None:
    """Though the run breaks it at its end only."""
    small = minimise(1, profile_named(KAFKA), events=2_000, cores=[Core("kafka:4.4.0")])
    assert small is not None
    assert small.violation[0] == "idle_node_waits"
    assert len(small.decisions) <= 40
