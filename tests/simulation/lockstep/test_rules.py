"""A rule explains what it is about, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import FetchRequest, FetchResponse, VoteRequest, VoteResponse
from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft.messages import Fetch, Request, Vote
from kraftspec.simulation.harness.node import UP
from kraftspec.simulation.harness.protocol import Event
from kraftspec.simulation.harness.shown import ROLES
from kraftspec.simulation.lockstep.rules import explain
from kraftspec.simulation.lockstep.step import STATE_FIELDS, Side, Step
from kraftspec.simulation.network import Message

FETCH_VERSION, VOTE_VERSION, TOKEN = 17, 2, 7
FETCH = Fetch(replica_id=2, leader_epoch=4, fetch_offset=9, last_fetched_epoch=4)
PRE_VOTE = Vote(epoch=4, replica_id=3, last_epoch=4, end_offset=10, pre_vote=True)
# What both have after the step.
AFTER = {
    "status": UP, "epoch": 4, "leader_id": 1, "voted_id": -1, "voted_directory": bytes(16),
    "high_watermark": 9, "log_start": 0, "log_end": 10, "durable_end": 10, "deadline_us": 0,
    "is_voter": True, "kraft_version": 1,
}  # fmt: skip
PERSISTED: Event = ("persisted", (5, 1, -1, bytes(16)))
FATAL: Event = ("fatal", ("java.lang.IllegalStateException: something else",))


def state(role: RoleName, **changed: Any) -> Event:
    values = {**AFTER, **changed, "role": ROLES.index(role)}
    return "state", tuple(values[name] for name in STATE_FIELDS)


def step(
    command: str,
    before: RoleName,
    ours: list[Event],
    kafkas: list[Event],
    *,
    after: RoleName | None = None,
    kafkas_after: RoleName | None = None,
    asked: tuple[Request, int, int] | None = None,
    changed: dict[str, Any] | None = None,
    kafkas_changed: dict[str, Any] | None = None,
    **more: Any,
) -> Step:
    """A step of node 2; ``asked`` is the request that both answer, ``changed`` of the states."""
    after = after or before
    changed = changed or {}
    sides = (
        Side([*ours, state(after, **changed)]),
        Side([*kafkas, state(kafkas_after or after, **changed, **(kafkas_changed or {}))]),
    )
    was = dict(zip(STATE_FIELDS, state(before, **changed)[1], strict=True))
    unanswered = {}
    if asked:
        request, api_key, version = asked
        message = Message(3, 2, False, TOKEN, 1, api_key, version, b"")
        unanswered[TOKEN] = request, message
    fields = {"rejected_ms": 1 << 40, "voters": 3, **more}
    return Step(2, 0, command, (), was, *sides, unanswered=unanswered, **fields)


def explained(one: Step) -> set[str]:
    """The rules that explain the step wholly; nothing if something is left."""
    rules, left = explain(one, one.differences())
    return set() if left else {rule.name for rule in rules}


def sent(port: int, body: bytes = b"fetch", api_key: int = FetchRequest.API_KEY) -> list[Event]:
    return [("sent", (1, port, api_key, FETCH_VERSION, body))]


def fetched(**fields: Any) -> list[Event]:
    partition = FetchResponse.PartitionData(**{"high_watermark": 9, "records": b"", **fields})
    topic = FetchResponse.FetchableTopicResponse(partitions=[partition])
    return [("answered", (TOKEN, FetchResponse(responses=[topic]).encode(FETCH_VERSION)))]


def vote(*, is_granted: bool, epoch: int = 4) -> list[Event]:
    partition = VoteResponse.PartitionData(leader_id=1, leader_epoch=epoch, vote_granted=is_granted)
    topic = VoteResponse.TopicData(partitions=[partition])
    return [("answered", (TOKEN, VoteResponse(topics=[topic]).encode(VOTE_VERSION)))]


FOLLOWER, LEADER, CANDIDATE = RoleName.FOLLOWER, RoleName.LEADER, RoleName.CANDIDATE
UNATTACHED, RESIGNED = RoleName.UNATTACHED, RoleName.RESIGNED
OF_FETCH = (FETCH, FetchRequest.API_KEY, FETCH_VERSION)
OF_VOTE = (PRE_VOTE, VoteRequest.API_KEY, VOTE_VERSION)
OBSERVER: dict[str, Any] = {"asked": OF_VOTE, "changed": {"is_voter": False}}
NO_LEADER = fetched(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, high_watermark=-1)
WON: list[Event] = [("appended", (True, b"batch"))]

EXPLAINED = {
    "asks another server": (
        "asks-at-once",
        step("reply", UNATTACHED, sent(9_001), sent(9_003), rejected_ms=0),
    ),
    "asks nobody": ("asks-at-once", step("reply", UNATTACHED, [], sent(9_003), rejected_ms=0)),
    "asked the leader as another server": (
        "asks-at-once",
        step("tick", FOLLOWER, sent(9_001), sent(9_003), rejected_ms=600, timeout_ms=600),
    ),
    "observer grants": (
        "observer-grants",
        step(
            "request", FOLLOWER, vote(is_granted=True), vote(is_granted=False), is_silent=True,
            **OBSERVER,
        ),
    ),
    "late answer": ("late-answer", step("reply", FOLLOWER, [], [PERSISTED], is_overdue=True)),
    "timers at once": (
        "timers-at-once",
        step("tick", LEADER, NO_LEADER, fetched(), after=RESIGNED, asked=OF_FETCH),
    ),
    "high watermark of one voter": (
        "KS-2026-07",
        step("append", LEADER, fetched(), fetched(high_watermark=10), asked=OF_FETCH, voters=1),
    ),
    "won while leaving": (
        "won-while-leaving",
        step("reply", CANDIDATE, WON, [], after=RESIGNED, is_leaving=True),
    ),
    "finds the address": (
        "finds-address",
        step("reply", UNATTACHED, [PERSISTED], [], after=FOLLOWER, kafkas_after=UNATTACHED),
    ),
}  # fmt: skip
BEGINS: dict[str, Any] = {
    "after": FOLLOWER,
    "kafkas_after": CANDIDATE,
    "kafkas_changed": {
        "epoch": 5,
        "leader_id": -1,
        "voted_id": 2,
        "voted_directory": bytes(15) + b"2",
    },
}
EXPLAINED["finds the address in the last vote"] = (
    "finds-address",
    step("reply", RoleName.PROSPECTIVE, [PERSISTED], [], **BEGINS),
)

NOT_EXPLAINED = {
    "begins an epoch without a vote": step("reply", UNATTACHED, [PERSISTED], [], **BEGINS),
    "asks the same server something else": step(
        "reply", UNATTACHED, sent(9_003), sent(9_003, b"other"), rejected_ms=0
    ),
    "asks another server something else": step(
        "reply", UNATTACHED, sent(9_001), sent(9_003, b"other"), rejected_ms=0
    ),
    "asks later": step("tick", UNATTACHED, sent(9_001), sent(9_003), rejected_ms=21),
    "asks later than after the time-out": step(
        "tick", FOLLOWER, sent(9_001), sent(9_003), rejected_ms=621, timeout_ms=600
    ),
    "asks another than the leader after the time-out": step(
        "tick", FOLLOWER, sent(9_000), sent(9_003), rejected_ms=600, timeout_ms=600
    ),
    "ours asks, Kafka's does not": step("reply", UNATTACHED, sent(9_001), [], rejected_ms=0),
    "grants though the leader is heard": step(
        "request", FOLLOWER, vote(is_granted=True), vote(is_granted=False), **OBSERVER
    ),
    "voter grants": step(
        "request", FOLLOWER, vote(is_granted=True), vote(is_granted=False), is_silent=True,
        asked=OF_VOTE,
    ),
    "Kafka's grants": step(
        "request", FOLLOWER, vote(is_granted=False), vote(is_granted=True), is_silent=True,
        **OBSERVER,
    ),
    "grants in another epoch": step(
        "request", FOLLOWER, vote(is_granted=True), vote(is_granted=False, epoch=5),
        is_silent=True, **OBSERVER,
    ),
    "answer in time": step("reply", FOLLOWER, [], [PERSISTED]),
    "ends at a late answer": step("reply", FOLLOWER, [], [FATAL], is_overdue=True),
    "ours takes a late answer": step("reply", FOLLOWER, [PERSISTED], [], is_overdue=True),
    "a leader that stays": step("tick", LEADER, NO_LEADER, fetched(), asked=OF_FETCH),
    "timers at once, another error": step(
        "tick", LEADER, fetched(error_code=ErrorCode.FENCED_LEADER_EPOCH), fetched(),
        after=RESIGNED, asked=OF_FETCH,
    ),
    "timers at once, other records": step(
        "tick", LEADER, NO_LEADER, fetched(records=b"more"), after=RESIGNED, asked=OF_FETCH,
        
    ),
    "high watermark of one of three voters": step(
        "append", LEADER, fetched(), fetched(high_watermark=10), asked=OF_FETCH
    ),
    "later high watermark of one voter": step(
        "append", LEADER, fetched(high_watermark=10), fetched(), asked=OF_FETCH, voters=1
    ),
    "other records of one voter": step(
        "append", LEADER, fetched(), fetched(high_watermark=10, records=b"more"), asked=OF_FETCH,
        voters=1,
    ),
    "won, and resigned without a shutdown": step(
        "reply", CANDIDATE, WON, [], after=RESIGNED
    ),
    "ends where it finds the address": step(
        "reply", UNATTACHED, [PERSISTED], [FATAL], after=FOLLOWER, kafkas_after=UNATTACHED
    ),
    "appends where it finds the address": step(
        "reply", UNATTACHED, [PERSISTED, ("appended", (False, b"batch"))], [], after=FOLLOWER,
        kafkas_after=UNATTACHED,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("rule", "one"), EXPLAINED.values(), ids=EXPLAINED)
def test_a_rule_explains_its_difference(rule: str, one: Step) -> None:
    assert explained(one) == {rule}


@pytest.mark.parametrize("one", NOT_EXPLAINED.values(), ids=NOT_EXPLAINED)
def test_what_resembles_it_is_not_explained(one: Step) -> None:
    assert one.differences()
    assert not explained(one)
