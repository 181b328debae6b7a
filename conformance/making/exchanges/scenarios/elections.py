"""Votes, pre-votes, and what tells who leads, in every role."""

from __future__ import annotations

from collections.abc import Callable

from kraftspec.conformance.making.exchanges import requests as rq
from kraftspec.conformance.making.exchanges.record import Recording
from kraftspec.conformance.making.exchanges.scenarios.bases import (
    candidate,
    end_of,
    quorum_state,
    replaced,
    with_changes,
)
from kraftspec.conformance.making.exchanges.scenarios.case import Case
from kraftspec.conformance.making.exchanges.scenarios.wire import EPOCH, WRONG, unattached
from kraftspec.conformance.raw.node import NodeState
from kraftspec.fastpath.batch_reader import read_header
from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.generated.kafka import (
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    VoteRequest,
)

PRE_VOTE_FROM = 2
WRONG_SNAPSHOTS = tuple(fields for fields in WRONG if "copies" not in fields)
ELECTION_MS = "2500"  # Long enough to be asked much in one election.


def _last(r: Recording) -> tuple[int, int]:
    """Return the epoch and the end of the log that the state has."""
    log = r.state.log
    epoch = read_header(bytes.fromhex(log[-1])).partition_leader_epoch if log else 0
    return epoch, end_of(r.state)


def refusals(r: Recording) -> None:
    """What is refused before anybody looks at roles: nothing of it changes the node."""
    epoch, end = _last(r)
    for version in VoteRequest.VALID_VERSIONS:
        pre = version >= PRE_VOTE_FROM
        r.ask(rq.vote(version, EPOCH - 1, last=(epoch, end)), version, note="an older epoch")
        r.ask(rq.vote(version, EPOCH, last=(epoch, -1)), version, note="a negative offset")
        r.ask(rq.vote(version, EPOCH, last=(-1, end)), version, note="a negative last epoch")
        r.ask(rq.vote(version, EPOCH, last=(EPOCH, end)), version, note="last epoch not below")
        r.ask(rq.vote(version, EPOCH, last=(epoch, end), sender=-1), version, note="no sender")
        r.ask(rq.vote(version, EPOCH - 1, last=(epoch, end), sender=-1), version)
        if pre:
            r.ask(rq.vote(version, EPOCH, last=(EPOCH + 1, end), pre=True), version)
            r.ask(rq.vote(version, EPOCH - 1, last=(epoch, end), pre=True), version)
        if version:
            r.ask(rq.vote(version, EPOCH, last=(epoch, end), to=rq.NOBODY), version)
            wrong = rq.directory_id(rq.NOBODY)
            r.ask(rq.vote(version, EPOCH, last=(epoch, end), to_directory=wrong), version)
    for version in BeginQuorumEpochRequest.VALID_VERSIONS:
        r.ask(rq.begin_epoch(version, EPOCH - 1), version, note="an older epoch")
        r.ask(rq.begin_epoch(version, EPOCH, leader=-1), version, note="no leader")
        r.ask(rq.begin_epoch(version, EPOCH - 1, leader=-1), version)
    for version in EndQuorumEpochRequest.VALID_VERSIONS:
        r.ask(rq.end_epoch(version, EPOCH - 1), version, note="an older epoch")
        r.ask(rq.end_epoch(version, EPOCH, leader=-1), version, note="no leader")


def not_leading(r: Recording) -> None:
    """What only a leader serves, put to another."""
    epoch, end = _last(r)
    for version in range(13, 19):
        r.ask(rq.fetch(version, EPOCH, end, last_epoch=epoch), version, note="not the leader")
        r.ask(rq.fetch(version, EPOCH - 1, end, last_epoch=epoch), version, note="older epoch")
        r.ask(rq.fetch(version, EPOCH + 1, end, last_epoch=epoch), version, note="newer epoch")
    for version in DescribeQuorumRequest.VALID_VERSIONS:
        r.ask(rq.describe_quorum(), version)
    for version in (0, 1):
        r.ask(rq.add_voter(version), version)
        r.ask(rq.add_voter(version, -1), version)
    r.ask(rq.remove_voter(), 0)
    for at in (EPOCH, EPOCH - 1, EPOCH + 1):
        r.ask(rq.update_voter(at), 0, note=f"epoch {at}")


def snapshot_errors(r: Recording) -> None:
    """FetchSnapshot put to one that does not lead.

    A controller cannot write such an answer: its partition has no records, not even none
    (NullPointerException), so it answers that it met an error that it did not expect.
    """
    for version in FetchSnapshotRequest.VALID_VERSIONS:
        for at in (EPOCH, EPOCH - 1, EPOCH + 1):
            r.ask(rq.fetch_snapshot(version, at, (3, 1)), version, note=f"epoch {at}")
        for fields in WRONG_SNAPSHOTS:
            r.ask(rq.fetch_snapshot(version, EPOCH, (3, 1), **fields), version, note=str(fields))


def two_snapshots(r: Recording) -> None:
    """FetchSnapshot of two partitions."""
    for version in FetchSnapshotRequest.VALID_VERSIONS:
        r.ask(rq.fetch_snapshot(version, EPOCH, (3, 1), copies=2), version)


def no_snapshots(r: Recording) -> None:
    """FetchSnapshot of no topic: it ends a controller of 4.0, 4.1 and 4.3."""
    for version in FetchSnapshotRequest.VALID_VERSIONS:
        r.ask(rq.fetch_snapshot(version, EPOCH, (3, 1), copies=0), version)
    r.ask(rq.describe_quorum(), 2, note="and it still answers")


def pre_votes(r: Recording) -> None:
    """By logs that are behind, the same, ahead; of whoever asks. They change nothing."""
    epoch, end = _last(r)
    for last in ((epoch, end), (epoch, end - 1), (epoch, end + 5), (epoch - 1, end + 5),
                 (epoch + 1, 0), (epoch, 0), (0, 0)):  # fmt: skip
        r.ask(rq.vote(2, EPOCH, last=last, pre=True), 2, note=f"a log that ends with {last}")
    for sender in (3, 4, rq.ME, rq.NOBODY):
        r.ask(rq.vote(2, EPOCH, last=(epoch, end), pre=True, sender=sender), 2)
    r.ask(rq.vote(2, EPOCH, last=(epoch, end), pre=True, to=-1, to_directory=ZERO_UUID), 2)
    r.ask(rq.vote(2, EPOCH, last=(epoch, end), pre=True, to_directory=ZERO_UUID), 2)
    r.ask(rq.vote(2, EPOCH, last=(EPOCH, end), pre=True), 2, note="last epoch is the epoch")
    r.ask(rq.vote(2, EPOCH, last=(epoch, end), pre=True, cluster_id=None), 2)


def votes(r: Recording) -> None:
    """Standard votes: one an epoch, to a log that is up to date."""
    epoch, end = _last(r)
    r.ask(rq.vote(2, EPOCH, last=(epoch, end - 1)), 2, note="a log that is behind")
    r.ask(rq.vote(2, EPOCH, last=(epoch - 1, end + 9)), 2, note="a log of an older epoch")
    r.ask(rq.vote(1, EPOCH, last=(epoch, end)), 1, note="granted, where none was yet")
    for version in VoteRequest.VALID_VERSIONS:
        r.ask(rq.vote(version, EPOCH, last=(epoch, end)), version, note="the same again")
        r.ask(rq.vote(version, EPOCH, last=(epoch, end + 1), sender=3), version, note="another")
    other = rq.directory_id(rq.NOBODY)
    r.ask(rq.vote(2, EPOCH, last=(epoch, end), sender_directory=other), 2, note="another disk")
    r.ask(rq.vote(2, EPOCH, last=(epoch, end), pre=True, sender=3), 2, note="a pre-vote")
    r.ask(rq.vote(2, EPOCH + 1, last=(epoch, end), sender=3), 2, note="a newer epoch")
    r.ask(rq.vote(2, EPOCH + 1, last=(epoch, end)), 2)
    r.ask(rq.vote(2, EPOCH, last=(epoch, end)), 2, note="the old epoch")
    r.ask(rq.vote(0, EPOCH + 2, last=(epoch, end), sender=4), 0, note="who is no voter")
    r.ask(rq.vote(2, EPOCH + 2, last=(epoch, end), sender=4), 2, note="the same, by its key")
    wrong = rq.vote(2, EPOCH + 3, last=(epoch, end), to=rq.NOBODY)
    r.ask(wrong, 2, note="a newer epoch, but meant for another: the epoch is taken")
    r.ask(rq.vote(2, EPOCH + 4, last=(epoch, end - 1)), 2, note="newer, behind")
    r.ask(rq.vote(2, EPOCH + 5, last=(epoch, end), pre=True), 2, note="a pre-vote, newer epoch")
    r.ask(rq.vote(2, EPOCH + 5, last=(epoch, end), sender=3), 2)
    r.ask(rq.vote(2, EPOCH + 5, last=(epoch, end), pre=True, sender=4), 2)


def greetings(r: Recording) -> None:
    """BeginQuorumEpoch makes it follow; EndQuorumEpoch is taken note of."""
    epoch, end = _last(r)
    r.ask(rq.begin_epoch(1, EPOCH), 1, note="now it follows", role="follower")
    for version in BeginQuorumEpochRequest.VALID_VERSIONS:
        r.ask(rq.begin_epoch(version, EPOCH), version, note="again")
    r.ask(rq.begin_epoch(1, EPOCH, to=rq.NOBODY), 1, note="meant for another")
    r.ask(rq.begin_epoch(1, EPOCH, to_directory=rq.directory_id(rq.NOBODY)), 1)
    r.ask(rq.begin_epoch(1, EPOCH, cluster_id=None), 1)
    r.ask(rq.vote(2, EPOCH, last=(epoch, end)), 2, note="it has a leader")
    r.ask(rq.vote(2, EPOCH, last=(epoch, end), pre=True), 2, note="that it has not fetched from")
    r.ask(rq.begin_epoch(0, EPOCH - 1), 0)
    for version in EndQuorumEpochRequest.VALID_VERSIONS:
        r.ask(rq.end_epoch(version, EPOCH, preferred=(3, rq.ME)), version)
    r.ask(rq.begin_epoch(1, EPOCH + 1, leader=3), 1, note="another, newer", role="follower")
    r.ask(rq.begin_epoch(1, EPOCH), 1, note="the former one")
    r.ask(rq.begin_epoch(1, EPOCH + 2, to=rq.NOBODY), 1, note="newer, meant for another")
    r.ask(rq.end_epoch(1, EPOCH + 3, leader=3), 1, note="the end of an epoch that is new to it")
    r.ask(rq.vote(2, EPOCH + 4, last=(epoch, end)), 2, role="unattached")
    r.ask(rq.vote(2, EPOCH + 4, last=(epoch, end), sender=3), 2)


def following(state: NodeState) -> NodeState:
    """It had a leader when it was stopped."""
    static = "controller.quorum.voters" in (state.properties or {})
    return replaced(
        state, quorum_state=quorum_state(EPOCH, leader=2, static=static), role="follower"
    )


def fetching(r: Recording) -> None:
    """A follower that has fetched from its leader grants no pre-vote."""
    epoch, end = _last(r)
    pre_votes(r)
    r.answer(2, rq.fetch_answer(EPOCH, 2, end), 18, note="a fetch that found nothing new")
    pre_votes(r)
    r.ask(rq.vote(2, EPOCH, last=(epoch, end)), 2)
    r.ask(rq.vote(2, EPOCH + 1, last=(epoch, end), pre=True), 2, note="newer", role="unattached")
    r.ask(rq.vote(2, EPOCH + 1, last=(epoch, end), sender=3), 2)


def cut(r: Recording) -> None:
    """A follower whose log is not its leader's cuts it, and votes by what is left."""
    _, end = _last(r)
    r.answer(2, rq.fetch_answer(EPOCH, 2, 0, diverging=(4, 9)), 18, note="after epoch 4, from 9")
    r.answer(2, rq.fetch_answer(EPOCH, 2, 0, diverging=(3, 7)), 18, note="after epoch 3, from 7")
    r.ask(rq.vote(2, EPOCH + 1, last=(3, 6)), 2, role="unattached")
    r.ask(rq.vote(2, EPOCH + 1, last=(1, end)), 2)
    r.ask(rq.vote(2, EPOCH + 1, last=(3, 7)), 2, note="all that is left")
    r.ask(rq.vote(2, EPOCH + 1, last=(5, end), sender=3), 2)


def grown(r: Recording) -> None:
    """A follower votes by what its leader sent."""
    _, end = _last(r)
    batch = rq.opening(EPOCH, 2, end)
    r.answer(2, rq.fetch_answer(EPOCH, 2, end, records=batch), 18, note="the epoch's opening")
    r.answer(2, rq.fetch_answer(EPOCH, 2, end + 1), 18, note="which is committed")
    r.ask(rq.vote(2, EPOCH, last=(EPOCH - 1, end + 1), pre=True), 2)
    r.ask(rq.vote(2, EPOCH + 1, last=(EPOCH, end)), 2, role="unattached")
    r.ask(rq.vote(2, EPOCH + 1, last=(EPOCH - 1, end + 9)), 2)
    r.ask(rq.vote(2, EPOCH + 1, last=(EPOCH, end + 1), sender=3), 2, note="as far as this one")


def voted(state: NodeState) -> NodeState:
    """It had voted when it was stopped."""
    static = "controller.quorum.voters" in (state.properties or {})
    return replaced(
        state, quorum_state=quorum_state(EPOCH, voted=2, static=static), role="unattached"
    )


def led_by_nobody_known(state: NodeState) -> NodeState:
    """Its epoch has a leader, of whom it does not know where it is."""
    stored = quorum_state(EPOCH, leader=rq.NOBODY)
    return replaced(state, quorum_state=stored, role="unattached")


def resigned(state: NodeState) -> NodeState:
    """It led when it was stopped."""
    static = "controller.quorum.voters" in (state.properties or {})
    stored = quorum_state(EPOCH, leader=rq.ME, static=static)
    return replaced(state, quorum_state=stored, role="resigned")


def campaigning(state: NodeState) -> NodeState:
    """It had voted for itself when it was stopped."""
    return candidate(state, EPOCH)


def soon(state: NodeState) -> NodeState:
    """It will campaign before long."""
    return with_changes(unattached(state), {"controller.quorum.election.timeout.ms": ELECTION_MS})


def prospective(r: Recording) -> None:
    """It asks for pre-votes, and is asked meanwhile."""
    epoch, end = _last(r)
    r.answer(2, rq.vote_answer(EPOCH, granted=False), 2, role="prospective")
    pre_votes(r)
    r.ask(rq.vote(2, EPOCH, last=(epoch, end - 1)), 2, note="a log that is behind")
    r.ask(rq.fetch(17, EPOCH, end, last_epoch=epoch), 17)
    r.ask(rq.vote(2, EPOCH, last=(epoch, end)), 2, note="its vote is still to be had")
    r.ask(rq.vote(2, EPOCH, last=(epoch, end), sender=3), 2)


def elected(r: Recording) -> None:
    """Pre-vote, vote, and what it says in each role on the way."""
    epoch, end = _last(r)
    pre = rq.vote(2, EPOCH, last=(epoch, end), pre=True, sender=3)
    r.answer(2, rq.vote_answer(EPOCH, granted=True), 2, role="candidate")
    r.ask(pre, 2, note="of the epoch before")
    r.ask(rq.vote(2, EPOCH + 1, last=(epoch, end)), 2, note="it votes for itself")
    r.answer(2, rq.vote_answer(EPOCH + 1, granted=True), 2, role="leader", writes=True)
    r.ask(rq.vote(2, EPOCH + 1, last=(epoch, end)), 2)
    r.ask(rq.vote(2, EPOCH + 1, last=(epoch, end + 9), pre=True), 2)
    r.ask(rq.begin_epoch(1, EPOCH), 1)
    r.ask(rq.end_epoch(1, EPOCH), 1)
    r.ask(rq.describe_quorum(), 2)


def overtaken(r: Recording) -> None:
    """A campaign that others end."""
    epoch, end = _last(r)
    r.answer(2, rq.vote_answer(EPOCH, granted=False), 2, role="candidate")
    r.ask(rq.vote(2, EPOCH, last=(epoch, end)), 2)
    r.ask(rq.fetch(17, EPOCH, end, last_epoch=epoch), 17)
    r.ask(rq.begin_epoch(1, EPOCH, leader=3), 1, note="another was elected", role="follower")
    r.ask(rq.vote(2, EPOCH, last=(epoch, end)), 2)
    r.ask(rq.fetch(17, EPOCH, end, last_epoch=epoch), 17)


def leads(script: Callable[[Recording], None]) -> Callable[[Recording], None]:
    """Let voter 2 elect the node, then go on."""

    def run(r: Recording) -> None:
        r.answer(2, rq.vote_answer(EPOCH, granted=True), 2, role="leader", writes=True)
        script(r)

    return run


def single(state: NodeState) -> NodeState:
    """It leads as soon as it starts."""
    return replaced(candidate(state, EPOCH), role="leader")


def deposed(r: Recording) -> None:
    """A leader that learns of a newer epoch."""
    epoch, end = _last(r)
    r.ask(rq.vote(2, EPOCH + 1, last=(epoch, end)), 2, note="behind", role="unattached")
    r.ask(rq.vote(2, EPOCH + 1, last=(EPOCH, end + 1)), 2)
    r.ask(rq.describe_quorum(), 2)
    r.ask(rq.begin_epoch(1, EPOCH + 1), 1, role="follower")
    r.ask(rq.fetch(18, EPOCH + 1, end, last_epoch=epoch), 18)


ELECTIONS = (
    Case("unattached-refusals", "lives", unattached, refusals),
    Case("unattached-not-leading", "lives", unattached, not_leading),
    Case("unattached-snapshot-errors", "lives", unattached, snapshot_errors),
    Case("unattached-two-snapshots", "lives", unattached, two_snapshots),
    Case("unattached-no-snapshots", "lives", unattached, no_snapshots, ("4.2.2", "4.4.0")),
    Case("unattached-pre-votes", "lives", unattached, pre_votes),
    Case("unattached-votes", "lives", unattached, votes),
    Case("unattached-greetings", "lives", unattached, greetings),
    Case("unattached-votes-static", "static", unattached, votes),
    Case("unattached-greetings-static", "static", unattached, greetings),
    Case("unattached-not-leading-static", "static", unattached, not_leading),
    Case("voted-votes", "lives", voted, votes),
    Case("voted-votes-static", "static", voted, votes),
    Case("leader-unknown-pre-votes", "lives", led_by_nobody_known, pre_votes),
    Case("leader-unknown-votes", "lives", led_by_nobody_known, votes),
    Case("leader-unknown-not-leading", "lives", led_by_nobody_known, not_leading),
    Case("follower-refusals", "lives", following, refusals),
    Case("follower-not-leading", "lives", following, not_leading),
    Case("follower-snapshot-errors", "lives", following, snapshot_errors),
    Case("follower-fetching", "lives", following, fetching),
    Case("follower-cut", "lives", following, cut),
    Case("follower-grown", "lives", following, grown),
    Case("follower-grown-static", "static", following, grown),
    Case("follower-greetings", "lives", following, greetings),
    Case("follower-greetings-static", "static", following, greetings),
    Case("resigned-refusals", "lives", resigned, refusals),
    Case("resigned-pre-votes", "lives", resigned, pre_votes),
    Case("resigned-votes", "lives", resigned, votes),
    Case("resigned-not-leading", "lives", resigned, not_leading),
    Case("candidate-refusals", "lives", campaigning, refusals),
    Case("candidate-pre-votes", "lives", campaigning, pre_votes),
    Case("candidate-votes", "lives", campaigning, votes),
    Case("candidate-greetings", "lives", campaigning, greetings),
    Case("candidate-overtaken", "lives", campaigning, overtaken),
    Case("prospective-asked", "lives", soon, prospective),
    Case("prospective-elected", "lives", soon, elected),
    Case("leader-refusals", "lives", campaigning, leads(refusals)),
    Case("leader-pre-votes", "lives", campaigning, leads(pre_votes)),
    Case("leader-deposed", "lives", campaigning, leads(deposed)),
    Case("observer-pre-votes", "observer", unattached, pre_votes),
    Case("observer-votes", "observer", unattached, votes),
    Case("observer-greetings", "observer", unattached, greetings),
)
