"""The property `no_spin`: ours breaks it at once, a node of a harness at the end of the run."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.profiles import KAFKA, profile_named
from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft.messages import BeginEpoch, Fetch, Request, Vote
from kraftspec.simulation.committed_log import Violation
from kraftspec.simulation.harness.cores import Core
from kraftspec.simulation.harness.known import known_breach
from kraftspec.simulation.invariants.no_spin import NoSpin
from kraftspec.simulation.run import settle, simulate, swarm_of
from kraftspec.simulation.schedule import Schedule

RETRY_BACKOFF_US = 20_000
TRIES_MAX = 125  # Of a node that is left alone for 20 ms.
FETCH = Fetch(replica_id=3, leader_epoch=2, fetch_offset=9, last_fetched_epoch=2)
VOTE = Vote(epoch=2, replica_id=3, last_epoch=2, end_offset=9)
KAFKAS = [Core("kafka:4.4.0")]


def node(*, is_foreign: bool, error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> Any:
    """A follower that gets on no more, and the answer that it had last."""
    core = SimpleNamespace(
        epoch=2, leader_id=1, high_watermark=7, role=SimpleNamespace(name=RoleName.FOLLOWER),
        is_voter=True,
    )  # fmt: skip
    reply = SimpleNamespace(error=error, top_error=0)
    return SimpleNamespace(
        id=3, incarnation=1, durable_end=9, core=core, is_foreign=is_foreign,
        log_model=SimpleNamespace(start_offset=0, end_offset=9),
        config=SimpleNamespace(retry_backoff_us=RETRY_BACKOFF_US),
        world=SimpleNamespace(now_us=5_000_000),
        last_replies={
            (type(one), 1): (one, SimpleNamespace(version=0, body=b"")) for one in (FETCH, VOTE)
        },
        profile=SimpleNamespace(decode_reply=lambda *_: reply),
    )  # fmt: skip


def ask(invariant: NoSpin, replica: Any, times: int, request: Request = FETCH) -> None:
    for _ in range(times):
        invariant.asked(replica, 1, request)


def told(invariant: NoSpin) -> tuple[str, str]:
    with pytest.raises(Violation) as caught:
        invariant.finished([])
    return caught.value.name, caught.value.text


def test_a_node_of_ours_breaks_it_at_once() -> None:
    invariant = NoSpin()
    replica = node(is_foreign=False)
    ask(invariant, replica, TRIES_MAX)
    with pytest.raises(Violation, match="sent Fetch to node 1 126 times in a second"):
        ask(invariant, replica, 1)


def test_a_node_of_a_harness_breaks_it_at_the_end_of_the_run() -> None:
    invariant = NoSpin()
    ask(invariant, node(is_foreign=True), TRIES_MAX)
    invariant.finished([])
    ask(invariant, node(is_foreign=True), 75)
    _, text = told(invariant)
    assert text == (
        "node 3, follower and a voter, sent Fetch to node 1 200 times in a second, "
        "the last answered NOT_LEADER_OR_FOLLOWER, until 5,000 ms"
    )


def test_who_learns_of_an_epoch_begins_anew() -> None:
    invariant = NoSpin()
    replica = node(is_foreign=True)
    ask(invariant, replica, TRIES_MAX)
    replica.core.epoch += 1
    ask(invariant, replica, TRIES_MAX)
    invariant.finished([])


def test_of_kafka_what_an_error_told_without_news_is_known() -> None:
    invariant = NoSpin()
    ask(invariant, node(is_foreign=True), TRIES_MAX + 1)
    ask(invariant, node(is_foreign=True, error=ErrorCode.UNKNOWN_LEADER_EPOCH), TRIES_MAX + 1)
    refused = node(is_foreign=True, error=ErrorCode.INVALID_VOTER_KEY)
    ask(invariant, refused, TRIES_MAX + 1, VOTE)
    known = known_breach(KAFKAS, told(invariant))
    assert known is not None
    assert known.finding == "kraft-no-backoff"
    assert known_breach([Core("./mine")], told(invariant)) is None


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (FETCH, ErrorCode.INVALID_VOTER_KEY),
        (VOTE, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (BeginEpoch(leader_epoch=2, leader_id=3), ErrorCode.NONE),
    ],
)
def test_of_kafka_nothing_else_is_known(asked: Request, error: ErrorCode) -> None:
    invariant = NoSpin()
    ask(invariant, node(is_foreign=True), TRIES_MAX + 1)
    ask(invariant, node(is_foreign=True, error=error), TRIES_MAX + 1, asked)
    assert known_breach(KAFKAS, told(invariant)) is None


def test_it_tells_the_answer_to_this_request_by_this_node() -> None:
    """An answer that came last may be another node's, or to another request."""
    invariant = NoSpin()
    replica = node(is_foreign=True)
    replica.last_replies = {(Vote, 1): replica.last_replies[Vote, 1]}
    ask(invariant, replica, TRIES_MAX + 1)
    assert ", none answered, until" in told(invariant)[1]


@pytest.mark.kafka
def test_what_a_run_of_kafka_breaks_at_its_end_is_told_whole() -> None:
    """Two known faults: neither is held, and neither hides the other."""
    result = simulate(48, profile_named(KAFKA), events=2_000, cores=KAFKAS)
    assert not result.is_failure
    assert result.known is not None
    findings = [result.known.finding, *(known.finding for _, known in result.others if known)]
    assert findings == ["kraft-busy-observer", "kraft-no-backoff"]
    verdicts = result.to_json()["invariants"]
    assert verdicts["idle_node_waits"] == verdicts["no_spin"] == "broken"


@pytest.mark.kafka
def test_a_candidate_of_kafka_asks_a_voter_with_a_new_disk_again_at_once() -> None:
    kafka = profile_named(KAFKA)
    schedule = Schedule(1715, swarm_of(1715, kafka, cores=KAFKAS), kafka, cores=KAFKAS)
    schedule.run(10_000)
    with pytest.raises(Violation) as caught:
        settle(schedule)
    breaches = {one.name: one.text for one in (caught.value, *caught.value.others)}
    text = breaches["no_spin"]
    assert re.search("candidate .* sent Vote .* answered INVALID_VOTER_KEY", text)
    known = known_breach(KAFKAS, ("no_spin", text))
    assert known is not None
    assert known.finding == "kraft-no-backoff"
