"""Where Apache Kafka's node and ours may differ, each with the reason.

``rules.toml`` has the rules and their reasons; here is which differences of a step each explains,
and no more. Where rules separate the two, they go on from different states: the pair is not
compared then, until it is joined again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from typing import Any, Final, NamedTuple

import msgspec

from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    DescribeQuorumResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotResponse,
    RemoveRaftVoterResponse,
    UpdateRaftVoterRequest,
    VoteResponse,
)
from kraftspec.reference.raft.messages import (
    ApiVersions,
    DescribeQuorum,
    Fetch,
    FetchSnapshot,
    Request,
    Vote,
)
from kraftspec.simulation.initial_quorum import PORT_BASE
from kraftspec.simulation.lockstep.step import Step
from kraftspec.simulation.network import Message

Differences = Mapping[str, tuple[Any, Any]]
Partition = Any  # Of a FetchResponse.
Kind = Any  # A class of requests.
Explains = Callable[[Step, Differences], set[str]]
NOTHING: Final[set[str]] = set()
ALL: Final = "*"
RESIGNED, FOLLOWER, LEADER, CANDIDATE, PROSPECTIVE, UNATTACHED = 5, 4, 3, 2, 1, 0
VOTED = ("voted_id", "voted_directory")
RETRY_BACKOFF_MS = 20
LONG_AGO_MS = 1 << 40
NOT_ALONE = 2  # Voters, where there was one.
SIZE_AT, SIZE_END = 8, 12  # Where a batch says how many bytes follow.
WITH_TEXT: Final[Mapping[int, Any]] = {
    kind.API_KEY: kind
    for kind in (AddRaftVoterResponse, RemoveRaftVoterResponse, DescribeQuorumResponse)
}


class Rule(NamedTuple):
    """A difference that is explained, as rules.toml has it.

    ``separates``: the two are in different states after it. ``page`` says more of it.
    """

    name: str
    separates: bool
    page: str
    reason: str
    explains: Explains

    @property
    def is_embargoed(self) -> bool:
        """Whether its page has no name outside of the repository but a number."""
        return self.page.startswith("KS-")


def _names(differences: Differences, *names: str) -> set[str]:
    return {name for name in names if name in differences}


def _first_leader(step: Step, differences: Differences) -> set[str]:
    ours, kafkas = differences.get("leader", (None, None))
    is_first = step.command == "start" and kafkas is None
    return {"leader"} if is_first and ours == [(step.ours.state["epoch"], -1)] else NOTHING


def _leader_once(step: Step, differences: Differences) -> set[str]:
    ours, kafkas = differences.get("leader", (None, None))
    if ours and kafkas and ours[-1] == kafkas[-1] and len(kafkas) < len(ours):
        return {"leader"} if all(told[1] == -1 for told in ours[:-1]) else NOTHING
    return NOTHING


def _snapshot_handed(step: Step, differences: Differences) -> set[str]:
    if "loaded" not in differences:
        return NOTHING
    ours, kafkas = differences["loaded"]
    if kafkas is None:  # Ours at the start.
        return {"loaded"} if step.command == "start" else NOTHING
    # Kafka's once there is a high watermark, and the checkpoint 0-0, too.
    return {"loaded"} if ours is None and len(kafkas) == 1 else NOTHING


def _torn_batch(step: Step, differences: Differences) -> set[str]:
    return _all_fetches(step, differences, _is_longer_by_a_part)


def _is_longer_by_a_part(a: Partition, b: Partition) -> bool:
    ours, kafkas = bytes(a.records or b""), bytes(b.records or b"")
    part = kafkas[len(ours) :]
    is_part = len(part) < SIZE_END or int.from_bytes(part[SIZE_AT:SIZE_END]) > len(part) - SIZE_END
    b.records = a.records
    return bool(ours) and kafkas.startswith(ours) and is_part


def _all_fetches(
    step: Step, differences: Differences, is_so: Callable[[Partition, Partition], bool]
) -> set[str]:
    """Explain answers that are all to a Fetch. ``is_so`` makes equal what it explains."""

    def is_explained(request: Request, message: Message, mine: bytes, theirs: bytes) -> bool:
        if request.__class__ is not Fetch:
            return False
        answers = [FetchResponse.decode(body, message.version) for body in (mine, theirs)]
        if not all(answer.responses and answer.responses[0].partitions for answer in answers):
            return False
        ours, kafkas = (answer.responses[0].partitions[0] for answer in answers)
        return is_so(ours, kafkas) and bool(answers[0] == answers[1])

    return _all_answers(step, differences, is_explained)


def _answers(
    step: Step, differences: Differences
) -> Iterator[tuple[Request, Message, bytes, bytes]]:
    """Yield the answers that differ: the request, and ours and Kafka's; nothing if one is none."""
    ours, kafkas = differences.get("answered", (None, None))
    if ours and kafkas and [one[0] for one in ours] == [one[0] for one in kafkas]:
        for (token, mine), (_, theirs) in zip(ours, kafkas, strict=True):
            if mine != theirs:
                yield *step.unanswered[token], mine, theirs


def _all_answers(step: Step, differences: Differences, is_so: Callable[..., bool]) -> set[str]:
    verdicts = [is_so(*one) for one in _answers(step, differences)]
    return {"answered"} if verdicts and all(verdicts) else NOTHING


def _api_versions(step: Step, differences: Differences) -> set[str]:
    return _all_answers(step, differences, lambda request, *_: request.__class__ is ApiVersions)


def _error_text(step: Step, differences: Differences) -> set[str]:
    return _all_answers(step, differences, _is_other_text)


def _is_other_text(request: Request, message: Message, mine: bytes, theirs: bytes) -> bool:
    kind = WITH_TEXT.get(message.api_key)
    if kind is None:
        return False
    ours, kafkas = kind.decode(mine, message.version), kind.decode(theirs, message.version)
    for answer in (ours, kafkas):
        answer.error_message = None
        if isinstance(answer, DescribeQuorumResponse):
            for topic in answer.topics:
                for partition in topic.partitions:
                    partition.error_message = None
    return bool(ours == kafkas)


def _order_of_observers(step: Step, differences: Differences) -> set[str]:
    return _all_answers(step, differences, _has_other_order)


def _has_other_order(request: Request, message: Message, mine: bytes, theirs: bytes) -> bool:
    if request.__class__ is not DescribeQuorum:
        return False
    answers = [DescribeQuorumResponse.decode(body, message.version) for body in (mine, theirs)]
    for answer in answers:
        answer.nodes.sort(key=lambda node: node.node_id)
        for topic in answer.topics:
            for partition in topic.partitions:
                for replicas in (partition.current_voters, partition.observers):
                    replicas.sort(key=_described)  # Versions 0 and 1 have no directory id.
    return bool(answers[0] == answers[1])


def _described(replica: DescribeQuorumResponse.ReplicaState) -> tuple[Any, ...]:
    return (
        replica.replica_id, replica.replica_directory_id, replica.log_end_offset,
        replica.last_fetch_timestamp,
    )  # fmt: skip


def _unheard_observer(step: Step, differences: Differences) -> set[str]:
    return _all_answers(step, differences, _is_without_unheard)


def _is_without_unheard(request: Request, message: Message, mine: bytes, theirs: bytes) -> bool:
    if request.__class__ is not DescribeQuorum:
        return False
    kafkas = DescribeQuorumResponse.decode(theirs, message.version)
    for topic in kafkas.topics:
        for partition in topic.partitions:
            partition.observers = [one for one in partition.observers if one.log_end_offset != -1]
    return _has_other_order(request, message, mine, kafkas.encode(message.version))


def _rejected_snapshot(step: Step, differences: Differences) -> set[str]:
    return _all_answers(step, differences, _is_rejected_snapshot)


def _is_rejected_snapshot(request: Request, message: Message, mine: bytes, theirs: bytes) -> bool:
    if request.__class__ is not FetchSnapshot:
        return False
    answer = FetchSnapshotResponse.decode(mine, message.version)
    kafkas = FetchSnapshotResponse.decode(theirs, message.version)
    is_rejected = all(part.error_code for topic in answer.topics for part in topic.partitions)
    return is_rejected and kafkas.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def _asks_at_once(step: Step, differences: Differences) -> set[str]:
    """Kafka's asks who was of no use, ours nobody or another server the same."""
    ours, kafkas = differences.get("sent", (None, None))
    others = differences.keys() - {"sent"} - _vote_without_directory(step, differences)
    if others or len(kafkas or ()) != 1 or len(ours or ()) > 1:
        return NOTHING
    since_ms = step.rejected_ms
    if step.command == "tick" and since_ms >= step.timeout_ms:
        # Both had asked the leader's address: Kafka's the leader, ours a server that has it, too.
        # Nobody answered; so ours asks the leader now, and Kafka's a server.
        leads = ours and ours[0].port - PORT_BASE == step.ours.state["leader_id"]
        since_ms = since_ms - step.timeout_ms if leads else LONG_AGO_MS
    is_rejected = 0 <= since_ms <= RETRY_BACKOFF_MS
    is_elsewhere = not ours or (
        ours[0].port != kafkas[0].port
        and ours[0].api_key == kafkas[0].api_key
        and (ours[0].body == kafkas[0].body or ours[0].version != kafkas[0].version)
    )
    return {"sent"} if is_rejected and is_elsewhere else NOTHING


def _delayed_fetches(step: Step, differences: Differences) -> set[str]:
    """Ours answers fetches that waited as it stops leading; Kafka's later, or not at all."""
    if step.before.get("role") != LEADER or step.ours.state["role"] == LEADER:
        return NOTHING
    ours, kafkas = (dict(one or ()) for one in differences.get("answered", (None, None)))
    more = ours.keys() - kafkas.keys()
    is_all = bool(more) and kafkas.keys() <= ours.keys()
    same = all(
        ours[token] == body or _is_other_text(*step.unanswered[token], ours[token], body)
        for token, body in kafkas.items()
    )
    waited = all(step.unanswered[token][0].__class__ is Fetch for token in more)
    return {"answered"} if is_all and same and waited else NOTHING


def _observer_grants(step: Step, differences: Differences) -> set[str]:
    mine, theirs = step.ours.state, step.kafkas.state
    follows = mine["role"] == theirs["role"] == FOLLOWER and not mine["is_voter"]
    is_so = step.command == "request" and follows and step.is_silent
    return _all_answers(step, differences, _is_granted_pre_vote) if is_so else NOTHING


def _is_granted_pre_vote(request: Request, message: Message, mine: bytes, theirs: bytes) -> bool:
    if not isinstance(request, Vote) or not request.pre_vote:
        return False
    ours, kafkas = (VoteResponse.decode(body, message.version) for body in (mine, theirs))
    partition = kafkas.topics[0].partitions[0]
    is_refused = not partition.vote_granted
    partition.vote_granted = True
    return is_refused and bool(ours == kafkas)


def _late_answer(step: Step, differences: Differences) -> set[str]:
    is_so = step.command == "reply" and step.is_overdue and not step.ours.told
    return {ALL} if is_so and "fatal" not in differences else NOTHING


def _timers_at_once(step: Step, differences: Differences) -> set[str]:
    resigned = step.ours.state["role"] == step.kafkas.state["role"] == RESIGNED
    is_so = step.command == "tick" and resigned and step.before.get("role") == LEADER
    return _all_fetches(step, differences, _is_from_no_leader) if is_so else NOTHING


def _is_from_no_leader(a: Partition, b: Partition) -> bool:
    is_so = a.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and not b.error_code
    b.error_code, b.high_watermark = a.error_code, a.high_watermark
    return is_so


def _resigned(step: Step, differences: Differences) -> set[str]:
    is_resigned = step.ours.state["role"] == step.kafkas.state["role"] == RESIGNED
    if is_resigned and differences.get("state.high_watermark", (0, 0))[1] == -1:
        return _names(differences, "high_watermark", "state.high_watermark")
    return NOTHING


def _leads_on(step: Step, differences: Differences) -> set[str]:
    is_so = differences.get("state.role") == (RESIGNED, LEADER) and not step.ours.state["is_voter"]
    return _names(differences, "sent", "state.role") if is_so else NOTHING


def _checks_later(step: Step, differences: Differences) -> set[str]:
    _, voters = step.ours.told.get("voters", (0, ()))
    is_so = differences.get("state.role") == (RESIGNED, LEADER) and len(voters) == NOT_ALONE
    return _names(differences, "sent", "state.role") if is_so else NOTHING


def _finds_address(step: Step, differences: Differences) -> set[str]:
    ours, leader_id = step.ours.state, step.before.get("leader_id", -1)
    is_same = ours["leader_id"] == leader_id != -1 and ours["epoch"] == step.before["epoch"]
    follows = ours["role"] == FOLLOWER not in (step.before.get("role"), step.kafkas.state["role"])
    if step.command != "reply" or not is_same or not follows:
        return NOTHING
    names = ["persisted", "leader", "sent", "state.role"]
    theirs = step.kafkas.state
    was_prospective = step.before["role"] == PROSPECTIVE
    votes = theirs["voted_id"] == step.node and theirs["epoch"] == ours["epoch"] + 1
    if was_prospective and theirs["role"] == CANDIDATE and votes:
        # The answer is a vote, and the last that it needs: Kafka's begins its epoch.
        names += [f"state.{name}" for name in ("epoch", "leader_id", *VOTED)]
    return _names(differences, *names)


def _won_while_leaving(step: Step, differences: Differences) -> set[str]:
    resigned = step.ours.state["role"] == step.kafkas.state["role"] == RESIGNED
    is_so = resigned and step.is_leaving and step.before.get("role") == CANDIDATE
    if is_so and differences.get("appended", (None, True))[1] is None:
        return _names(differences, "appended", "flushed", "state.log_end")
    return NOTHING


def _sends(differences: Differences, ours: Kind, kafkas: Kind) -> bool:
    """Whether ours sends requests of one kind, and Kafka's of another."""
    sent = differences.get("sent", (None, None))
    kinds = [{one.api_key for one in requests or ()} for requests in sent]
    return kinds == [{ours.API_KEY}, {kafkas.API_KEY}]


def _updates_again(step: Step, differences: Differences) -> set[str]:
    is_so = _sends(differences, FetchRequest, UpdateRaftVoterRequest)
    return {"sent"} if is_so and step.ours.state["kraft_version"] == 0 else NOTHING


def _ends(step: Step, differences: Differences, *expected: str) -> bool:
    """Whether Kafka's node ends in the step, and says one of these; ours goes on."""
    texts = " ".join(step.kafkas.texts())
    return differences.get("fatal") == (None, True) and any(one in texts for one in expected)


def _ks_2026_04(step: Step, differences: Differences) -> set[str]:
    texts = ("inconsistent with current leader", "Unknown leader endpoints")
    is_so = step.command in ("request", "reply") and _ends(step, differences, *texts)
    return {ALL} if is_so else NOTHING


def _ks_2026_12(step: Step, differences: Differences) -> set[str]:
    is_so = step.command == "reply" and _ends(step, differences, "acknowledgement from non-voter")
    return {ALL} if is_so else NOTHING


def _ks_2026_10(step: Step, differences: Differences) -> set[str]:
    is_so = step.command == "reply" and _ends(step, differences, "Expected to be Follower")
    return {ALL} if is_so else NOTHING


def _ks_2026_06(step: Step, differences: Differences) -> set[str]:
    roles = differences.get("state.role", (None, None))
    mine = step.ours.state
    is_so = step.command == "start" and mine["leader_id"] != -1 and mine["voted_id"] == step.node
    # Ours is unattached where it does not know the leader's address.
    leads = roles[0] in (FOLLOWER, UNATTACHED) and roles[1] in (CANDIDATE, LEADER)
    names = ["leader", "persisted", "sent", "state.leader_id", "state.role"]
    return _names(differences, *names) if is_so and leads else NOTHING


def _ks_2026_22(step: Step, differences: Differences) -> set[str]:
    is_so = step.command == "start" and _ends(step, differences, "must be in the set of voters")
    return {ALL} if is_so else NOTHING


def _ks_2026_07(step: Step, differences: Differences) -> set[str]:
    is_leader = step.ours.state["role"] == step.kafkas.state["role"] == LEADER
    is_so = is_leader and step.voters == 1
    return _all_fetches(step, differences, _has_earlier_watermark) if is_so else NOTHING


def _has_earlier_watermark(a: Partition, b: Partition) -> bool:
    is_earlier = bool(a.high_watermark < b.high_watermark)
    b.high_watermark = a.high_watermark
    return is_earlier


def _ks_2026_05(step: Step, differences: Differences) -> set[str]:
    ours, kafkas = differences.get("voters", (None, None))
    if ours is not None and kafkas is None and {"appended", "reset"} & step.kafkas.told.keys():
        told = {"voters"} | _names(differences, "state.is_voter", "state.kraft_version")
        # A request may follow from it.
        joins = _sends(differences, AddRaftVoterRequest, FetchRequest)
        return told | {"sent"} if joins and "state.kraft_version" in told else told
    return NOTHING


def _vote_without_directory(step: Step, differences: Differences) -> set[str]:
    state = step.kafkas.state
    if state["voted_id"] == step.node:
        ours, kafkas = differences.get("state.voted_directory", (None, None))
        return {"state.voted_directory"} if ours == bytes(16) != kafkas else NOTHING
    return NOTHING


def _cleans_unheard(step: Step, differences: Differences) -> set[str]:
    is_refused = any("above the high watermark" in text for text in step.kafkas.texts())
    if step.command == "clean" and is_refused:
        return _names(differences, "start_moved", "state.log_start")
    return NOTHING


def _cleans_itself(step: Step, differences: Differences) -> set[str]:
    if step.command == "tick" and differences.get("start_moved", (True, None))[0] is None:
        return _names(differences, "start_moved", "state.log_start")
    return NOTHING


_EXPLAINS: Final[Mapping[str, Explains]] = {
    "first-leader": _first_leader,
    "leader-once": _leader_once,
    "snapshot-handed": _snapshot_handed,
    "torn-batch": _torn_batch,
    "api-versions": _api_versions,
    "error-text": _error_text,
    "order-of-observers": _order_of_observers,
    "unheard-observer": _unheard_observer,
    "rejected-snapshot": _rejected_snapshot,
    "asks-at-once": _asks_at_once,
    "delayed-fetches": _delayed_fetches,
    "observer-grants": _observer_grants,
    "late-answer": _late_answer,
    "timers-at-once": _timers_at_once,
    "resigned": _resigned,
    "leads-on": _leads_on,
    "checks-later": _checks_later,
    "finds-address": _finds_address,
    "won-while-leaving": _won_while_leaving,
    "updates-again": _updates_again,
    "KS-2026-04": _ks_2026_04,
    "KS-2026-10": _ks_2026_10,
    "KS-2026-12": _ks_2026_12,
    "KS-2026-06": _ks_2026_06,
    "KS-2026-22": _ks_2026_22,
    "KS-2026-07": _ks_2026_07,
    "KS-2026-05": _ks_2026_05,
    "vote-without-directory": _vote_without_directory,
    "cleans-unheard": _cleans_unheard,
    "cleans-itself": _cleans_itself,
}


def _rules() -> tuple[Rule, ...]:
    data = (files("kraftspec.simulation.lockstep") / "rules.toml").read_bytes()
    return tuple(
        Rule(**one, explains=_EXPLAINS[one["name"]]) for one in msgspec.toml.decode(data)["rule"]
    )


RULES: Final = _rules()


def explain(step: Step, differences: Differences) -> tuple[list[Rule], dict[str, tuple[Any, Any]]]:
    """Return the rules that explain differences of a step, and the differences that are left."""
    left = dict(differences)
    used = []
    for rule in RULES:
        names = rule.explains(step, left) if left else NOTHING
        if names:
            used.append(rule)
            for name in list(left) if ALL in names else names:
                del left[name]
    return used, left
