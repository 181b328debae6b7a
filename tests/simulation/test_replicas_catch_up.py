"""How soon a replica that stays behind is found, and what is said of it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import requests
from kraftspec.reference.raft.messages import FetchSnapshot, FetchSnapshotReply
from kraftspec.reference.raft.role import Decisions
from kraftspec.simulation.catalogue import planted
from kraftspec.simulation.committed_log import Violation
from kraftspec.simulation.harness.known import known_of
from kraftspec.simulation.run import settle, simulate, swarm_of
from kraftspec.simulation.schedule import Schedule
from kraftspec.simulation.swarm import S

PROFILE = KafkaProfile()
# A run whose snapshots take longer than the fetch time-out, and are deleted meanwhile.
SLOW_SNAPSHOTS = 271


def test_it_is_found_within_seconds() -> None:
    """Each replica has to get on in the time of its own timers, and not all of them in a minute."""
    with planted("serves_what_it_deleted"):
        schedule = Schedule(13, swarm_of(13, PROFILE), PROFILE)
        schedule.run(2_000)
        quiet_us = schedule.world.now_us
        with pytest.raises(Violation) as caught:
            settle(schedule)
    assert caught.value.name == "replicas_catch_up"
    assert schedule.world.now_us - quiet_us < 30 * S


def answer_as_kafkas_server(core: Any, token: int, request: FetchSnapshot) -> None:
    """Make an error of the whole request of a rejection."""
    requests.on_fetch_snapshot(core, token, request)
    effect = core.effects[-1]
    if isinstance(effect, fx.Answer) and effect.reply.error:
        reply = FetchSnapshotReply(top_error=ErrorCode.UNKNOWN_SERVER_ERROR)
        core.effects[-1] = fx.Answer(token, reply)


def test_a_snapshot_that_is_gone_from_a_leader_as_kafkas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our follower returns to Fetch; one that goes on asking stays behind, and is said to."""
    handlers: dict[Any, Any] = requests.HANDLERS
    monkeypatch.setitem(handlers, FetchSnapshot, answer_as_kafkas_server)
    assert simulate(SLOW_SNAPSHOTS, PROFILE, events=1_500).violation is None
    monkeypatch.setattr(Decisions, "abandons_rejected_snapshots", False)
    violation = simulate(SLOW_SNAPSHOTS, PROFILE, events=1_500).violation
    assert violation is not None
    assert violation[0] == "replicas_catch_up"
    (known,) = (one for one in known_of("kafka") if one.property == "replicas_catch_up")
    assert re.search(known.text, violation[1])


def test_who_can_only_ask_those_who_know_as_little_is_not_awaited() -> None:
    """All bootstrap servers are voters that were removed, and missed who leads; as with Kafka."""
    seed = 12_404
    schedule = Schedule(seed, swarm_of(seed, PROFILE), PROFILE)
    schedule.run(10_000)
    settle(schedule)
    nodes = schedule.world.replicas.values()
    assert sorted(one.id for one in nodes if one.core.leader_id < 0) == [0, 1, 2, 3, 6, 7]
    assert sorted(one.id for one in nodes if one.core.is_voter) == [4, 5]
