"""Scenes of kip-595: each returns whether a fix was seen to hold in a live node."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

from tests.reference.node.scripted import (
    CHECKED_MS,
    CLUSTER_ID,
    LONG_MS,
    REQUEST_TIMED_OUT,
    Stage,
    answers_votes,
    control_types,
    follows,
    resigns,
    times,
)
from tests.waiting import until

from kraftspec.conformance.cluster.node import HOST
from kraftspec.reference.log.control import encode_control_values
from kraftspec.reference.tools.storage import FormatRequest

ROUNDS = 12  # Of FindQuorum: in that time the node would have done what it does not.
LEADERSHIPS = 3  # However busy the machine, in one of these a node would not stay.
NOT_FOLLOWER = 20_003


def start_broker(
    stage: Stage,
    voters: str = "1,2,3",
    servers: tuple[int, ...] = (2, 3),
    fetch_ms: int = LONG_MS,
    cluster_id: str = "",
    **more: object,
) -> None:
    ports = {1: stage.port, **stage.ports}
    properties = {
        "broker__id": 1,
        "listeners": f"PLAINTEXT://{HOST}:{stage.port}",
        "quorum__voters": voters,
        "bootstrap__servers": ",".join(f"{HOST}:{ports[server]}" for server in servers),
        "quorum__retry__backoff__max__ms": 100,
        **times("quorum", fetch_ms),
    }
    stage.start(FormatRequest(cluster_id=cluster_id), **(properties | more))


def tells_quorum(stage: Stage, leader_id: int = -1, epoch: int = 0, voters: Any = None) -> None:
    """Let all peers answer FindQuorum like that; ``voters`` returns the ids that a peer expects."""
    kind = stage.messages.FindQuorumResponse

    def rule(peer: int, body: Any) -> Any:
        ids = (1, 2, 3) if voters is None else voters(peer)
        places = [
            kind.Voter(voter_id=id, boot_timestamp=1, host=HOST, port=stage.ports[id])
            if id in stage.ports
            else kind.Voter(voter_id=id)
            for id in ids
        ]
        return kind(leader_id=leader_id, leader_epoch=epoch, voters=places, target_voters=None)

    stage.rules["FindQuorum"] = rule


def assignment(stage: Stage, ids: tuple[int, ...]) -> bytes:
    """Return what a first leader writes: a VoterAssignmentMessage and a LeaderChangeMessage."""
    kind = stage.messages.VoterAssignmentMessage
    voters = kind(cluster_id=CLUSTER_ID, current_voters=[kind.Voter(voter_id=id) for id in ids])
    change = stage.messages.LeaderChangeMessage(leader_id=2, voted_ids=[2, 3])
    return encode_control_values(
        [(2, voters.encode(0)), (3, change.encode(0))], base_offset=0, epoch=1, timestamp_ms=1
    )


def leads_595(stage: Stage, epoch: int, high_watermark: int) -> None:
    """Let 2 lead with a log of two records; whoever has them waits."""
    records = assignment(stage, (1, 2, 3))

    def rule(peer: int, body: Any) -> Any:
        has_all = body.fetch_offset == 2
        time.sleep(0.05 if has_all else 0)
        return stage.message(
            "FetchQuorumRecordsResponse",
            leader_id=2,
            leader_epoch=epoch,
            records=b"" if has_all else records,
            high_watermark=high_watermark,
        )

    stage.rules["FetchQuorumRecords"] = rule
    tells_quorum(stage, 2, epoch)


def voters_wait_for_a_record_of_the_epoch(stage: Stage) -> bool:
    """Node 1 leads after 2 has, and none of its own records is committed."""
    leads_595(stage, 1, 2)
    follows(stage)
    start_broker(stage, quorum__election__timeout__ms=LONG_MS)
    stage.wait("FetchQuorumRecords", 2, fetch_offset=2)
    stage.falls_silent("FetchQuorumRecords")
    m = stage.messages
    end = m.EndQuorumEpochRequest(
        cluster_id=CLUSTER_ID, replica_id=2, leader_id=2, leader_epoch=1, preferred_successors=[1]
    )
    assert stage.ask("EndQuorumEpoch", end).error_code == 0
    stage.wait("BeginQuorumEpoch", leader_epoch=2)
    kind = m.AlterQuorumRequest
    targets = [kind.Voter(voter_id=1), kind.Voter(voter_id=2)]
    alter = kind(cluster_id=CLUSTER_ID, target_voters=targets, timeout_ms=300)
    assert stage.ask("AlterQuorum", alter).error_code == REQUEST_TIMED_OUT
    fetch = m.FetchQuorumRecordsRequest(
        cluster_id=CLUSTER_ID, replica_id=3, leader_epoch=2, fetch_offset=2, last_fetched_epoch=1
    )
    types = control_types(bytes(stage.ask("FetchQuorumRecords", fetch).records))
    assert types in ([3], [3, 2])
    return types == [3]


def other_first_voters_stop_the_first_election(stage: Stage) -> bool:
    answers_votes(stage, granted=False)
    tells_quorum(stage, voters=lambda peer: (peer,))
    start_broker(stage)
    until(lambda: stage.count("Vote") > 0 or stage.count("FindQuorum", (2,)) >= ROUNDS)
    return stage.count("Vote") == 0


def a_non_voter_does_not_depose_a_leader_that_is_heard(stage: Stage) -> bool:
    """Its first vote request is heeded, as once in five fetch time-outs; the second is not."""
    answers_votes(stage, granted=False)
    leads_595(stage, 1, 2)
    start_broker(stage)
    stage.wait("FetchQuorumRecords", 2, fetch_offset=2)

    def vote(epoch: int) -> Any:
        log = {"last_epoch": 1, "last_epoch_end_offset": 2}
        kind = stage.messages.VoteRequest
        request = kind(cluster_id=CLUSTER_ID, candidate_id=9, candidate_epoch=epoch, **log)
        return stage.ask("Vote", request)

    assert vote(1000).leader_epoch >= 1000
    leads_595(stage, 2000, 2)
    kind = stage.messages.BeginQuorumEpochRequest
    begin = kind(cluster_id=CLUSTER_ID, leader_id=2, leader_epoch=2000)
    assert stage.ask("BeginQuorumEpoch", begin).error_code == 0
    stage.wait("FetchQuorumRecords", 2, leader_epoch=2000)
    answer = vote(3000)
    assert (answer.error_code, answer.leader_epoch) in ((NOT_FOLLOWER, 2000), (0, 3000))
    return bool(answer.error_code == NOT_FOLLOWER)


def a_voter_that_lost_an_election_votes_for_a_non_voter(stage: Stage) -> bool:
    answers_votes(stage, granted=False)
    tells_quorum(stage)
    start_broker(stage)
    epoch = stage.wait("Vote", 2)[-1].candidate_epoch
    vote = stage.messages.VoteRequest(
        candidate_id=9, candidate_epoch=epoch + 100, last_epoch=1, last_epoch_end_offset=1000
    )
    return bool(stage.ask("Vote", vote).vote_granted)


def a_voter_is_added_once_it_has_caught_up(stage: Stage) -> bool:
    """9 fetches from offset 0 and no further; it is a target as soon as that is committed."""
    start_broker(stage, voters="1", servers=(1,))
    m = stage.messages

    def cluster_id() -> str:
        answered_id: str = stage.ask("FindQuorum", m.FindQuorumRequest(replica_id=-1)).cluster_id
        return answered_id

    until(lambda: cluster_id() != "")
    fetch = m.FetchQuorumRecordsRequest(cluster_id=cluster_id(), replica_id=9, leader_epoch=1)
    assert stage.ask("FetchQuorumRecords", fetch).error_code == 0
    kind = m.AlterQuorumRequest
    targets = [kind.Voter(voter_id=1), kind.Voter(voter_id=9)]
    alter = kind(cluster_id=cluster_id(), target_voters=targets, timeout_ms=LONG_MS)
    assert stage.ask("AlterQuorum", alter).error_code == 0
    for _ in range(ROUNDS):
        quorum = stage.ask("DescribeQuorum", stage.message("DescribeQuorumRequest"))
        assert [voter.replica_id for voter in quorum.target_voters] == [1, 9]
        if [voter.replica_id for voter in quorum.current_voters] == [1, 9]:
            return False
        time.sleep(0.05)
    return True


def a_cluster_id_counts_once_it_is_committed(stage: Stage) -> bool:
    leads_595(stage, 1, -1)
    start_broker(stage)
    stage.wait("FetchQuorumRecords", 2, fetch_offset=2)
    response = stage.ask("FindQuorum", stage.messages.FindQuorumRequest(replica_id=-1))
    assert response.cluster_id in ("", CLUSTER_ID)
    return bool(response.cluster_id == "")


def a_leader_without_followers_resigns(stage: Stage) -> bool:
    follows(stage)
    tells_quorum(stage)
    start_broker(stage, fetch_ms=CHECKED_MS)
    return resigns(stage)


def who_looks_for_the_quorum_is_asked_for_it(stage: Stage) -> bool:
    answers_votes(stage, granted=False)
    tells_quorum(stage)
    start_broker(stage)
    find = {"replica_id": 9, "boot_timestamp": 1, "host": HOST, "port": stage.ports[9]}
    stage.ask("FindQuorum", stage.messages.FindQuorumRequest(**find))
    enough = stage.count("FindQuorum", (2,)) + ROUNDS
    until(lambda: stage.count("FindQuorum", (9,)) > 0 or stage.count("FindQuorum", (2,)) >= enough)
    return stage.count("FindQuorum", (9,)) > 0


def a_loser_bumps_its_epoch_before_it_backs_off(stage: Stage) -> bool:
    """So between two of its candidacies there is an epoch in which it asked for no vote."""
    answers_votes(stage, granted=False)
    tells_quorum(stage)
    start_broker(stage)
    epochs = [vote.candidate_epoch for vote in stage.wait("Vote", 3)]
    return all(later - earlier > 1 for earlier, later in pairwise(epochs))


def a_leader_stays_though_others_have_not_heard_of_it(stage: Stage) -> bool:
    """Check quorum alone ends it, which it tells the voters, each time that it is elected."""
    follows(stage)
    tells_quorum(stage)
    known = stage.rules["FindQuorum"]

    def epochs(api: str) -> list[int]:
        return [one.body.leader_epoch for one in list(stage.sent) if one[:2] == (2, api)]

    def rule(peer: int, body: Any) -> Any:
        answer = known(peer, body)
        votes = [one.body.candidate_epoch for one in list(stage.sent) if one.api == "Vote"]
        answer.leader_epoch = max(votes, default=0)
        return answer

    def deposed() -> set[int]:
        begun = epochs("BeginQuorumEpoch")
        return {epoch for epoch in begun if epoch < begun[-1]} - {*epochs("EndQuorumEpoch")}

    stage.rules["FindQuorum"] = rule
    start_broker(stage, fetch_ms=CHECKED_MS, quorum__request__timeout__ms=LONG_MS)
    until(lambda: bool(deposed()) or len({*epochs("EndQuorumEpoch")}) >= LEADERSHIPS)
    return not deposed()


SCENES = {
    "own-epoch-commit": voters_wait_for_a_record_of_the_epoch,
    "one-first-quorum": other_first_voters_stop_the_first_election,
    "deaf-to-strangers": a_non_voter_does_not_depose_a_leader_that_is_heard,
    "strangers-in-need": a_voter_that_lost_an_election_votes_for_a_non_voter,
    "caught-up-first": a_voter_is_added_once_it_has_caught_up,
    "settled-cluster-id": a_cluster_id_counts_once_it_is_committed,
    "check-quorum": a_leader_without_followers_resigns,
    "ask-back": who_looks_for_the_quorum_is_asked_for_it,
    "bump-when-lost": a_loser_bumps_its_epoch_before_it_backs_off,
    "leader-stays": a_leader_stays_though_others_have_not_heard_of_it,
}
