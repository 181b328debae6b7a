"""Scenarios made of node vectors: what a real controller was asked, put to a running node.

A vector begins with files; a live node has to be brought there by its peers. One of them leads the
last epoch of the recorded log and sends its batches, and others make the node vote, follow or
campaign in the epoch of the vector. Then the recorded requests follow, and the recorded answers,
which are Kafka's, are what must come. Left out is what depends on the files themselves, on a clock,
or on what a state machine writes: the names of those vectors are in ``LEFT_OUT``.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from kraftspec.conformance.live.scenario_files import (
    NEVER_MS,
    Arrival,
    Given,
    Outcome,
    Reply,
    Restart,
    Scenario,
    Send,
    Step,
    Then,
    When,
    own_files,
    read_scenarios,
)
from kraftspec.conformance.making.exchanges import requests as rq
from kraftspec.conformance.raw.node import NodeExpectation, NodeStep, NodeVector
from kraftspec.conformance.runner.node import answered_fields, read_node_vectors
from kraftspec.fastpath.batch_reader import read_header

EPOCH = 7  # Of every vector that is taken.
FETCH_TIMEOUT = "controller.quorum.fetch.timeout.ms"
REQUEST_TIMEOUT = "controller.quorum.request.timeout.ms"
# Short enough to campaign soon. The node has them from when its log is there until it has asked for
# votes: on a busy machine it would campaign too early, or again.
CAMPAIGN: dict[str, str | int] = {
    FETCH_TIMEOUT: 4_000,
    REQUEST_TIMEOUT: 2_000,
}
CITES = {
    "AddRaftVoter": "KIP-853, AddVoter",
    "ApiVersions": "KIP-511, ApiVersions",
    "BeginQuorumEpoch": "KIP-595, BeginQuorumEpoch",
    "DescribeQuorum": "KIP-836, DescribeQuorum",
    "EndQuorumEpoch": "KIP-595, EndQuorumEpoch",
    "Fetch": "KIP-595, Fetch",
    "FetchSnapshot": "KIP-630, FetchSnapshot",
    "RemoveRaftVoter": "KIP-853, RemoveVoter",
    "UpdateRaftVoter": "KIP-853, UpdateVoter",
    "Vote": "KIP-595, Vote; KIP-996, Vote",
}
# Vectors, and which role the node has to be brought into.
ROLES = {
    "unattached": ("unattached-", "wire-other-logs", "wire-no-requests", "wire-api-versions"),
    "voted": ("voted-",),
    "follower": ("follower-",),
    "candidate": ("candidate-", "leader-", "voters-"),
}
_HAVE_NO_ANSWER = "Kafka cannot write the answer; docs/findings/kraft-controllers.md"
_WRITES = "what a state machine writes once records are committed"
LEFT_OUT = {
    "snapshot-errors": _HAVE_NO_ANSWER,
    "two-snapshots": _HAVE_NO_ANSWER,
    "no-snapshots": _HAVE_NO_ANSWER,
    "candidate-overtaken": "it begins with an election that ends by a clock",
    "leader-unknown": "a leader that is known by a file alone",
    "leader-first": _WRITES,
    "voters-removals": _WRITES,
    "voters-updates": _WRITES,
    "cut-batches": _HAVE_NO_ANSWER,
}
# So many steps are taken: then a state machine may write.
_FIRST = {"leader-commits": 8, "leader-commits-static": 8}
# Their records commit as soon as the leader has synced what it wrote first.
_COMMIT = ("voters-", "leader-commits")
# Nothing in them changes the node, so each API can have a scenario of its own.
_STATELESS = ("refusals", "not-leading", "other-logs")
_INDEX = re.compile(r"\[\d+\]")
_NO_PORT = rq.port_of(0)
NODES = (1, 2, 3, 4)  # That have a port in a run.


def own_scenarios() -> list[Scenario]:
    """Return the project's scenarios: those of the files, then those of node vectors."""
    return [*read_scenarios(own_files()), *recorded_scenarios()]


def recorded_scenarios() -> list[Scenario]:
    """Return the scenarios, in the order of the vectors. Raises ValueError for a bad vector."""
    return [
        scenario
        for vector in read_node_vectors()
        if (role := _role(vector)) is not None
        for scenario in _scenarios(vector, role)
    ]


def _role(vector: NodeVector) -> str | None:
    if any(text in vector.id for text in LEFT_OUT) or not vector.state.log:
        return None
    has_others = any(step.append is not UNSET or _is_other(step) for step in vector.steps)
    epoch = (vector.state.quorum_state or {}).get("leaderEpoch")
    if has_others or epoch != EPOCH or len(vector.state.voters) == 1:
        return None
    return next((role for role, names in ROLES.items() if vector.id.startswith(names)), None)


def _is_other(step: NodeStep) -> bool:
    """Whether a step is about an API that no quorum needs, and that is answered."""
    if step.request is UNSET or step.expect is UNSET:
        return False
    return step.request.api not in CITES and step.expect.closed is UNSET


def is_static(vector: NodeVector) -> bool:
    """Whether the voters of a vector are those of a property (kraft.version 0)."""
    return "controller.quorum.voters" in (vector.state.properties or {})


def _scenarios(vector: NodeVector, role: str) -> Iterator[Scenario]:
    apis: list[str | None] = [None]
    if vector.id.removesuffix("-static").endswith(_STATELESS):
        apis = list(dict.fromkeys(api for step in vector.steps if (api := _api(step))))
    static = is_static(vector)
    for api in apis:
        steps = [
            step
            for step in vector.steps[: _FIRST.get(vector.id)]
            if api is None or _api(step) in (None, api)
        ]
        if vector.id.startswith("voters-refused"):
            steps = [step for step in steps if _api(step) != "DescribeQuorum"]
        suffix = "" if api is None else "-" + re.sub("(?<!^)([A-Z])", r"-\1", api).lower()
        yield Scenario(
            name=f"recorded-{vector.id}{suffix}",
            about=f"What Kafka {vector.source.kafka} was asked and answered in the node vector "
            f"{vector.id}{f', {api}' if api else ''}.",
            given=Given(
                quorum="static" if static else "dynamic",
                properties=_properties(static=static),
            ),
            steps=[*_into(role, vector), *_steps(steps, commits=vector.id.startswith(_COMMIT))],
        )


def _properties(*, static: bool) -> dict[str, str | int]:
    # A static voter asks a peer for the leader when it starts, and Kafka's waits for the answer.
    return {REQUEST_TIMEOUT: CAMPAIGN[REQUEST_TIMEOUT]} if static else {}


def _api(step: NodeStep) -> str | None:
    return None if step.request is UNSET else step.request.api


# ---- into the state of the vector --------------------------------------------------------------


def _answered(fields: dict[str, Any], cites: str) -> list[Then]:
    return [Then(must=Outcome(answer=fields), cites=cites)]


def _asked(
    api: str, at: Any, where: dict[str, Any], within: str = "", *, is_open: bool = False
) -> list[Then]:
    arrival = Arrival(api=api, at=at, where=where, within=within, open=is_open)
    return [Then(must=Outcome(request=arrival), cites=CITES[api])]


def _begin(epoch: int) -> Step:
    return Step(
        when=When(send=Send(api="BeginQuorumEpoch", fields={"leaderEpoch": epoch})),
        then=_answered({"partitions.errorCode": "NONE", "leaderId": 2}, CITES["BeginQuorumEpoch"]),
    )


def _vote(epoch: int, *, end: int, last_epoch: int, granted: bool, static: bool) -> Step:
    fields = {"replicaEpoch": epoch, "lastOffset": end, "lastOffsetEpoch": last_epoch}
    if static:  # Its file has no directory of whom the vote went to.
        fields["replicaDirectoryId"] = 0
    return Step(
        when=When(send=Send(api="Vote", fields=fields)),
        then=_answered({"leaderEpoch": epoch, "voteGranted": granted}, CITES["Vote"]),
    )


def _into(role: str, vector: NodeVector) -> Iterator[Step]:
    """Yield how peers bring a new node to the log and the role of a vector."""
    log, static = vector.state.log, is_static(vector)
    last = read_header(bytes.fromhex(log[-1]))
    end, last_epoch = last.last_offset + 1, last.partition_leader_epoch
    yield _begin(last_epoch)
    yield Step(
        when=When(reply=Reply(api="Fetch", where={"currentLeaderEpoch": last_epoch}, records=log)),
        then=_asked("Fetch", 2, {"fetchOffset": end, "lastFetchedEpoch": last_epoch}),
    )
    if role in ("unattached", "voted"):
        yield _vote(EPOCH, end=0, last_epoch=0, granted=False, static=static)
    if role == "voted":
        yield _vote(EPOCH, end=end, last_epoch=last_epoch, granted=True, static=static)
    elif role == "follower":
        yield _begin(EPOCH)
        # Kafka sends a peer nothing more before that has answered; others fetch at once, maybe
        # before the answer.
        stale = {"currentLeaderEpoch": last_epoch, "fetchOffset": end}
        yield Step(
            when=When(reply=Reply(api="Fetch", where=stale)),
            then=_asked("Fetch", 2, {"currentLeaderEpoch": EPOCH}, is_open=True),
        )
    elif role == "candidate":
        yield Step(when=When(restart=Restart(by="kill", properties=dict(CAMPAIGN))))
        yield _begin(EPOCH - 1)
        pre = {"preVote": True, "replicaEpoch": EPOCH - 1}
        real = {"preVote": False, "replicaEpoch": EPOCH}
        yield Step(then=_asked("Vote", 3, pre, within="fetch"))
        yield Step(
            when=When(reply=Reply(api="Vote", at=3, where=pre)),
            then=_asked("Vote", 3, real),
        )
        never = dict.fromkeys(CAMPAIGN, NEVER_MS)
        yield Step(
            when=When(restart=Restart(by="kill", properties=dict(never))),
            then=_asked("Vote", 2, real),
        )


# ---- what was recorded -------------------------------------------------------------------------


def _steps(steps: list[NodeStep], *, commits: bool) -> Iterator[Step]:
    late: dict[int, tuple[str, NodeStep]] = {}
    for number, step in enumerate(steps):
        if step.request is not UNSET:
            assert step.expect is not UNSET
            hold = None
            if step.expect.after is not UNSET:
                hold = f"late-{number}"
                late[number + step.expect.after] = (hold, step)
            request = step.request
            # What nobody answers may be of any API.
            api = request.api if request.api in CITES else "DescribeQuorum"
            send = Send(api=api, version=request.version, frame=request.hex, hold=hold)
            if commits and request.api == "Fetch":
                yield Step(when=When(send=replace(send, until=_outcome(step, step.expect).answer)))
                continue
            yield Step(when=When(send=send), then=[] if hold else _expected(step))
        elif step.answer is not UNSET:
            yield from _replied(step)
        if number in late:
            name, earlier = late[number]
            yield Step(when=When(collect=name), then=_expected(earlier))


def _replied(step: NodeStep) -> Iterator[Step]:
    assert step.answer is not UNSET
    api, at = step.answer.api, _peer_at(step.answer.port)
    if api == "ApiVersions":  # Peers answer it by themselves.
        return
    where = {"currentLeaderEpoch": EPOCH} if api == "Fetch" else {}
    reply = Reply(api=api, at=at, where=where, body=step.answer.hex, version=step.answer.version)
    then = []
    if api == "Fetch":
        then = _asked("Fetch", at, {})
    elif step.role == "leader":
        then = _asked("BeginQuorumEpoch", at, {})
    yield Step(when=When(reply=reply), then=then)


def _peer_at(port: int) -> Any:
    return port - _NO_PORT


def _expected(step: NodeStep) -> list[Then]:
    """Return Kafka's answers, those of all releases that were recorded."""
    assert step.expect is not UNSET
    assert step.request is not UNSET
    expectations = [step.expect, *(other.expect for other in step.others or ())]
    outcomes = [_outcome(step, one) for one in expectations]
    cites = CITES.get(step.request.api, "Kafka protocol, Preliminaries")
    must = outcomes[0] if len(outcomes) == 1 else outcomes
    return [Then(must=must, cites=cites)]


def _outcome(step: NodeStep, expect: NodeExpectation) -> Outcome:
    if expect.closed is not UNSET:
        return Outcome(closed=True)
    fields = answered_fields(replace(step, expect=expect))
    masked = expect.undetermined or []
    return Outcome(answer=dict(_leaves(fields, "", masked)))


def _leaves(value: Any, path: str, masked: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a recorded answer that are determined, each with its condition."""
    spread = {path, _INDEX.sub("[*]", path)}
    if spread & set(masked) or any(f"{one}[{mark}]" in masked for one in spread for mark in "+~*"):
        if path.endswith(".records"):  # Its order alone is free, and a condition is on its size.
            yield path, len(base64.b64decode(value or ""))
        return
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, f"{path}.{name}" if path else name, masked)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]", masked)
    elif path.endswith(".records"):
        yield path, len(base64.b64decode(value or ""))
    elif path.rpartition(".")[2] == "port" and value - _NO_PORT in NODES:
        yield path, f"port_{value - _NO_PORT}"
    else:
        yield path, value
