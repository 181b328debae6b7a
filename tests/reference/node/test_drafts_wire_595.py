"""Sentences of KIP-595's drafts, seen on the wire and on the disk of a node in a process.

Its peers are the test's, which are made of no core; docs/drafts/kip-595.md says which sentences.
"""

from __future__ import annotations

import json
import shutil
import socket
import struct
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.reference.node.processes import WAIT_S
from tests.reference.node.scenes_595 import (
    ROUNDS,
    assignment,
    leads_595,
    start_broker,
    tells_quorum,
)
from tests.reference.node.scripted import (
    CLUSTER_ID,
    LONG_MS,
    REQUEST_TIMED_OUT,
    Sent,
    Stage,
    answers_votes,
    follows,
)
from tests.waiting import until

from kraftspec.conformance.cluster.node import HOST
from kraftspec.fastpath.batch_reader import decode_batch

pytestmark = pytest.mark.soak

NONE, NOT_LEADER, OUT_OF_RANGE = 0, 6, 1
FENCED, UNKNOWN_EPOCH, OTHER_CLUSTER = 74, 75, 104
INITIAL_MS, MAXIMUM_MS = 20, 500  # quorum.retry.backoff
LOAD_MS = 300  # The smallest of some waits is longer by less than this, however busy the machine.


def file_of(stage: Stage) -> dict[str, Any]:
    path = stage.directory / "log" / "__cluster_metadata-0" / "quorum-state"
    state: dict[str, Any] = json.loads(path.read_text())
    return state


def find(stage: Stage, replica_id: int = -1, host: str = "", boot: int = 0) -> Any:
    kind = stage.messages.FindQuorumRequest
    return stage.ask(
        "FindQuorum", kind(replica_id=replica_id, host=host, port=9, boot_timestamp=boot)
    )


def place(stage: Stage, voter_id: int, quorum: Any = None) -> tuple[str, int]:
    """Return where a voter is and since when, by an answer of the node."""
    voters = (quorum or find(stage)).voters
    (host_and_boot,) = [
        (one.host, one.boot_timestamp) for one in voters if one.voter_id == voter_id
    ]
    return host_and_boot


def ids(stage: Stage) -> list[int]:
    return [one.voter_id for one in find(stage).voters]


def vote(
    stage: Stage, candidate_id: int, epoch: int, end: int = 1000, cluster_id: str = CLUSTER_ID
) -> Any:
    kind = stage.messages.VoteRequest
    log = {"last_epoch": epoch - 1, "last_epoch_end_offset": end}
    request = kind(cluster_id=cluster_id, candidate_id=candidate_id, candidate_epoch=epoch, **log)
    return stage.ask("Vote", request)


def fetch(stage: Stage, offset: int, epoch: int, cluster_id: str, replica_id: int = 2) -> Any:
    """Fetch as a replica that has the node's log up to an offset."""
    request = stage.messages.FetchQuorumRecordsRequest(
        cluster_id=cluster_id,
        replica_id=replica_id,
        leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=epoch if offset else 0,
    )
    return stage.ask("FetchQuorumRecords", request)


def fetches(stage: Stage) -> list[Sent]:
    return [one for one in list(stage.sent) if one.api == "FetchQuorumRecords"]


def leads_three(stage: Stage) -> str:
    """Let node 1 lead 1, 2 and 3, its first records committed; return the cluster's id."""
    follows(stage)
    tells_quorum(stage)
    start_broker(stage, quorum__election__timeout__ms=LONG_MS)
    cluster_id: str = stage.wait("BeginQuorumEpoch", leader_epoch=1)[0].cluster_id
    assert fetch(stage, 2, 1, cluster_id).error_code == NONE
    return cluster_id


def test_the_address_of_the_newest_boot_counts(tmp_path: Path) -> None:
    """000, FindQuorum Request 1: "larger than the cached value"; Note on AdminClient Usage."""
    with Stage(tmp_path, "kip-595") as stage:
        start_broker(stage)
        assert place(stage, 2) == ("", -1)
        for host, boot in (("first", 500), ("same", 500), ("earlier", 499)):
            assert place(stage, 2, find(stage, 2, host, boot)) == ("first", 500)
        assert place(stage, 2, find(stage, 2, "later", 501)) == ("later", 501)
        answer = find(stage, 9, "stranger", 999)  # No voter, and no target.
        assert [one.voter_id for one in answer.voters] == [1, 2, 3]
        assert place(stage, 2, find(stage, -1, "tool", 999)) == ("later", 501)
        assert (answer.leader_id, answer.leader_epoch, answer.target_voters) == (-1, 0, None)


def test_an_answer_makes_a_follower_unless_its_epoch_is_old(tmp_path: Path) -> None:
    """000, FindQuorum Response 1 to 3."""
    with Stage(tmp_path, "kip-595") as stage:
        start_broker(stage)
        assert vote(stage, 2, 5).vote_granted
        leads_595(stage, 4, -1)
        before = stage.count("FindQuorum", (2,))
        until(lambda: stage.count("FindQuorum", (2,)) > before + ROUNDS)
        assert stage.count("FetchQuorumRecords") == 0
        assert (file_of(stage)["leaderId"], file_of(stage)["leaderEpoch"]) == (-1, 5)
        assert (find(stage).leader_id, find(stage).leader_epoch) == (-1, 5)
        leads_595(stage, 6, -1)
        stage.wait("FetchQuorumRecords", leader_epoch=6)
        assert (file_of(stage)["leaderId"], file_of(stage)["leaderEpoch"]) == (2, 6)
        assert (find(stage).leader_id, find(stage).leader_epoch) == (2, 6)


def test_who_has_voted_becomes_a_candidate_where_no_leader_is_known(tmp_path: Path) -> None:
    """000, FindQuorum Response 4: "the node will become a candidate", though it has voted for 2."""
    with Stage(tmp_path, "kip-595") as stage:
        answers_votes(stage, granted=False)
        start_broker(stage, quorum__election__timeout__ms=LONG_MS)
        assert vote(stage, 2, 5).vote_granted
        assert file_of(stage)["votedId"] == 2
        tells_quorum(stage, -1, 5)
        stage.wait("Vote", candidate_epoch=6)


def test_a_broker_keeps_the_first_voters_that_it_hears_of(tmp_path: Path) -> None:
    """002, quorum-state, CurrentVoters: "the latest known set of voters for this quorum"."""
    with Stage(tmp_path, "kip-595") as stage:
        tells_quorum(stage, voters=lambda peer: (2, 3))
        start_broker(stage, voters="")
        until(lambda: ids(stage) == [2, 3])
        tells_quorum(stage, voters=lambda peer: (9,))
        stage.kill()
        before = stage.count("FindQuorum", (2,))
        stage.start_again()
        until(lambda: stage.count("FindQuorum", (2,)) > before + 2)
        assert ids(stage) == [2, 3]
        assert file_of(stage)["currentVoters"] == [{"voterId": id} for id in (2, 3)]
        assert stage.count("Vote") == 0


def test_a_vote_is_kept_by_a_node_that_is_killed(tmp_path: Path) -> None:
    """004: "does not allow voters to change their votes … preserve this state across restarts"."""
    with Stage(tmp_path, "kip-595") as stage:
        start_broker(stage)
        assert find(stage).leader_epoch == file_of(stage)["leaderEpoch"] == 0
        assert (file_of(stage)["leaderId"], file_of(stage)["votedId"]) == (-1, -1)
        assert vote(stage, 2, 5).vote_granted
        assert file_of(stage)["votedId"] == 2
        stage.kill()
        stage.start_again()
        assert not vote(stage, 3, 5).vote_granted
        assert vote(stage, 2, 5).vote_granted
        assert vote(stage, 3, 6).vote_granted
        assert file_of(stage)["votedId"] == 3


def test_voters_count_from_their_append_and_are_taken_back(tmp_path: Path) -> None:
    """000, Quorum Reassignment 4 ("as soon as the log entry has been appended") and subtlety."""
    with Stage(tmp_path, "kip-595") as stage:
        leads_595(stage, 1, -1)
        with_nine = assignment(stage, (1, 2, 3, 9))
        kind = stage.messages.FetchQuorumRecordsResponse
        fields = {"leader_id": 2, "leader_epoch": 1, "high_watermark": -1}
        leads = stage.rules["FetchQuorumRecords"]
        stage.rules["FetchQuorumRecords"] = lambda peer, body: (
            kind(**fields, records=with_nine) if not body.fetch_offset else leads(peer, body)
        )
        start_broker(stage)
        until(lambda: ids(stage) == [1, 2, 3, 9])
        assert file_of(stage)["currentVoters"] == []
        stage.rules["FetchQuorumRecords"] = lambda peer, body: (
            kind(**fields)
            if not body.fetch_offset
            else kind(
                **fields, error_code=OUT_OF_RANGE, next_fetch_offset=0, next_fetch_offset_epoch=0
            )
        )
        until(lambda: ids(stage) == [1, 2, 3])
        leads_595(stage, 1, -1)
        at_end = stage.count("FetchQuorumRecords")
        until(lambda: any(one.body.fetch_offset == 2 for one in fetches(stage)[at_end:]))
        assert file_of(stage)["currentVoters"] == []
        leads_595(stage, 1, 2)
        until(lambda: file_of(stage)["currentVoters"] == [{"voterId": id} for id in (1, 2, 3)])
        assert file_of(stage)["clusterId"] == CLUSTER_ID


def test_a_candidate_needs_a_majority_of_the_voters_in_its_log(tmp_path: Path) -> None:
    """000, Quorum Reassignment, subtlety: "a majority of the new voters"; "scanning forward".

    The node is killed before they are committed. Of the voters before them, 2 would be enough.
    """
    with Stage(tmp_path, "kip-595") as stage:
        leads_595(stage, 1, -1)
        with_nine = assignment(stage, (1, 2, 3, 9))
        fields: dict[str, Any] = {"leader_id": 2, "leader_epoch": 1, "high_watermark": -1}
        leads = stage.rules["FetchQuorumRecords"]
        stage.rules["FetchQuorumRecords"] = lambda peer, body: (
            leads(peer, body)
            if body.fetch_offset
            else stage.message("FetchQuorumRecordsResponse", **fields, records=with_nine)
        )
        start_broker(stage)
        until(lambda: ids(stage) == [1, 2, 3, 9])
        stage.kill()
        assert file_of(stage)["currentVoters"] == []
        tells_quorum(stage, -1, 1, voters=lambda peer: (1, 2, 3, 9))
        answers_votes(stage, granted=True)
        grants = stage.rules["Vote"]
        stage.rules["Vote"] = lambda peer, body: grants(peer, body) if peer == 2 else None
        stage.rules["BeginQuorumEpoch"] = lambda peer, body: []
        stage.start_again()
        assert ids(stage) == [1, 2, 3, 9]

        def epochs(peer: int) -> set[int]:
            return {one.candidate_epoch for one in stage.wait("Vote", to=peer)}

        until(
            lambda: (
                stage.count("BeginQuorumEpoch") > 0 or (len(epochs(2)) > 2 and len(epochs(3)) > 2)
            )
        )
        assert stage.count("BeginQuorumEpoch") == 0
        stage.rules["Vote"] = lambda peer, body: grants(peer, body) if peer != 3 else None
        stage.wait("BeginQuorumEpoch")


def test_a_non_voter_gets_no_vote_and_makes_a_candidate(tmp_path: Path) -> None:
    """000, Quorum Reassignment: "must reject votes from non-voters", "must then become"."""
    with Stage(tmp_path, "kip-595", "--without", "strangers-in-need") as stage:
        answers_votes(stage, granted=False)
        tells_quorum(stage)
        start_broker(stage)
        stage.wait("Vote", 2)  # It has campaigned in vain, too.
        answer = vote(stage, 9, 100)
        assert (answer.vote_granted, answer.leader_epoch) == (False, 100)
        assert file_of(stage)["votedId"] in (-1, 1)
        stage.wait("Vote", candidate_epoch=101)


def test_a_non_voter_makes_a_candidate_of_the_leader_of_its_own_epoch(tmp_path: Path) -> None:
    """000, Quorum Reassignment: "it must then become a candidate", which takes a later epoch."""
    with Stage(tmp_path, "kip-595") as stage:
        cluster_id = leads_three(stage)
        answers_votes(stage, granted=False)
        answer = vote(stage, 9, 1, end=2, cluster_id=cluster_id)
        assert not answer.vote_granted
        assert (answer.leader_id, answer.leader_epoch) == (-1, 2)
        stage.wait("Vote", candidate_epoch=3)


def test_of_two_voters_one_refusal_ends_an_election(tmp_path: Path) -> None:
    """002, Gridlocked Elections: "no need to wait for the election timeout"."""
    with Stage(tmp_path, "kip-595") as stage:
        answers_votes(stage, granted=False)
        tells_quorum(stage, voters=lambda peer: (1, 2))
        start_broker(stage, voters="1,2", servers=(2,), quorum__election__timeout__ms=LONG_MS)
        # With the time-out between them, four elections would take longer than a test waits.
        until(lambda: len({one.candidate_epoch for one in stage.wait("Vote")}) > 3)


@pytest.mark.parametrize("bumps", [True, False])
def test_an_election_that_times_out_is_lost(tmp_path: Path, bumps: bool) -> None:
    """002, Gridlocked Elections: "before quorum.election.timeout.ms … bump the epoch, step down".

    So between two candidacies there is an epoch in which it asks for no vote.
    """
    options = () if bumps else ("--without", "bump-when-lost")
    with Stage(tmp_path, "kip-595", *options) as stage:
        stage.rules["Vote"] = lambda peer, body: []  # No answer, and the connection stays.
        tells_quorum(stage)
        start_broker(stage, quorum__request__timeout__ms=LONG_MS)
        votes: list[int] = []

        def look() -> bool:
            votes[:] = sorted({one.candidate_epoch for one in stage.wait("Vote")})
            return len(votes) > 3

        until(look)
        # Two epochs for each, or one; a busy machine may not send the votes of some of them.
        assert all((later - earlier) % 2 == 0 for earlier, later in pairwise(votes)) is bumps


def test_a_request_without_an_answer_drops_its_connection(tmp_path: Path) -> None:
    """002, quorum.request.timeout.ms: "considered failed and the connection is dropped"."""
    with Stage(tmp_path, "kip-595") as stage, socket.create_server((HOST, 0)) as silent:
        silent.settimeout(WAIT_S)
        stage.ports[2] = silent.getsockname()[1]
        start_broker(stage, servers=(2,))
        for _ in range(2):
            connection, _ = silent.accept()
            with connection:
                connection.settimeout(WAIT_S)
                request = connection.recv(1)
                while more := connection.recv(1 << 10):
                    request += more
            assert request


def test_the_wait_before_a_retry_grows_up_to_its_maximum(tmp_path: Path) -> None:
    """002, quorum.retry.backoff.ms, "Initial delay"; …max.ms, "Max delay", "exponentially".

    KIP-580: 20 % less or more, and doubled each time. After a good answer it begins anew.
    """
    refusals, runs = 9, 4
    with Stage(tmp_path, "kip-595") as stage:
        tells_quorum(stage, 2, 1)
        fields = {"leader_id": 2, "leader_epoch": 1, "high_watermark": -1}
        kind = stage.messages.FetchQuorumRecordsResponse
        arrivals: list[list[float]] = [[]]

        def rule(peer: int, body: Any) -> Any:
            arrivals[-1].append(time.monotonic() * 1000)
            if len(arrivals[-1]) <= refusals:
                return kind(**fields, error_code=UNKNOWN_EPOCH)
            arrivals.append([])
            return kind(**fields)

        stage.rules["FetchQuorumRecords"] = rule
        start_broker(
            stage,
            quorum__retry__backoff__ms=INITIAL_MS,
            quorum__retry__backoff__max__ms=MAXIMUM_MS,
            quorum__request__timeout__ms=LONG_MS,
        )
        until(lambda: len(arrivals) > runs)
        waits = [[b - a for a, b in pairwise(run)] for run in arrivals[:runs]]
    for run in waits:
        for doublings, wait_ms in enumerate(run):
            assert wait_ms >= min(MAXIMUM_MS, 0.8 * (INITIAL_MS << doublings)) - 2
    assert min(run[0] for run in waits) < 1.2 * INITIAL_MS + LOAD_MS < MAXIMUM_MS
    # Without a maximum these are 1,024 ms and more.
    assert min(min(run[6:]) for run in waits) < MAXIMUM_MS + LOAD_MS


def test_a_node_whose_cached_cluster_is_another_is_refused_and_ends(tmp_path: Path) -> None:
    """000, meta.properties: "the cached clusterId is included"; "a fatal error and shutdown"."""
    with Stage(tmp_path, "kip-595") as stage:
        leads_595(stage, 1, 2)
        start_broker(stage)
        until(lambda: find(stage).cluster_id == CLUSTER_ID)
        stage.kill()
        shutil.rmtree(stage.directory / "log" / "__cluster_metadata-0")  # Not meta.properties.
        kind = stage.messages.FetchQuorumRecordsResponse
        refused = kind(error_code=OTHER_CLUSTER, leader_id=2, leader_epoch=1)
        stage.rules["FetchQuorumRecords"] = lambda peer, body: refused
        before = len(fetches(stage))
        stage.start_again()
        assert f"is of the cluster {CLUSTER_ID}, and has asked a node of another" in stage.ended()
        assert {one.body.cluster_id for one in fetches(stage)[before:]} == {CLUSTER_ID}


def test_only_the_refusal_of_its_own_cluster_id_ends_a_node(tmp_path: Path) -> None:
    """The same, by a candidate that has asked for a vote before it found its cluster's id."""
    with Stage(tmp_path, "kip-595") as stage:
        tells_quorum(stage, voters=lambda peer: (1, 2, 4))  # Nobody knows where 4 is.
        known = stage.rules["FindQuorum"]

        def tells_more(peer: int, body: Any) -> Any:
            answer = known(peer, body)
            if stage.count("Vote"):
                answer.cluster_id = CLUSTER_ID
                answer.leader_epoch = stage.wait("Vote")[-1].candidate_epoch
            return answer

        def refuses(peer: int, body: Any) -> Any:
            if not body.cluster_id:
                until(lambda: find(stage).cluster_id == CLUSTER_ID)
            return stage.message(
                "VoteResponse", error_code=OTHER_CLUSTER, leader_epoch=body.candidate_epoch
            )

        stage.rules |= {"FindQuorum": tells_more, "Vote": refuses}
        start_broker(
            stage,
            voters="1,2,4",
            quorum__election__timeout__ms=LONG_MS,
            quorum__request__timeout__ms=LONG_MS,
        )
        assert f"is of the cluster {CLUSTER_ID}, and has asked a node of another" in stage.ended()
        assert [one.cluster_id for one in stage.wait("Vote")] == ["", CLUSTER_ID]


@pytest.mark.parametrize("migrated", ["", CLUSTER_ID])
def test_the_first_leader_writes_who_votes_and_who_voted_for_it(
    tmp_path: Path, migrated: str
) -> None:
    """000, Bootstrapping; 004: "a control record with Type=3"; "who voted for the … leader".

    000, ClusterId generation: "reuse the existing clusterId", else "a new one".
    """
    with Stage(tmp_path, "kip-595") as stage:
        answers_votes(stage, granted=True)
        grants = stage.rules["Vote"]
        stage.rules["Vote"] = lambda peer, body: grants(peer, body) if peer == 2 else None
        tells_quorum(stage)
        start_broker(stage, cluster_id=migrated)
        begin = stage.wait("BeginQuorumEpoch")[0]
        assert (begin.leader_id, len(begin.cluster_id)) == (1, 22)
        assert (begin.cluster_id == CLUSTER_ID) is bool(migrated)
        epoch = begin.leader_epoch
        records = decode_batch(bytes(fetch(stage, 0, epoch, migrated).records), 0)
        assert [(one.key or b"")[2:] for one in records] == [b"\0\2", b"\0\3"]
        voters = b"".join(struct.pack(">ix", id) for id in (1, 2, 3))
        name = begin.cluster_id.encode()
        assert [bytes(one.value or b"") for one in records] == [
            bytes([len(name) + 1]) + name + b"\4" + voters + b"\0" + b"\0",
            struct.pack(">iBiix", 1, 3, 1, 2),
        ]


def test_a_leader_holds_requests_to_its_cluster_and_its_epoch(tmp_path: Path) -> None:
    """000, ClusterId generation ("strictly validate"); Common attributes 2 and 3."""
    with Stage(tmp_path, "kip-595") as stage:
        cluster_id = leads_three(stage)
        m = stage.messages
        until(lambda: fetch(stage, 2, 1, "").error_code == OTHER_CLUSTER)
        for other in ("other", ""):
            begin = m.BeginQuorumEpochRequest(cluster_id=other, leader_id=2, leader_epoch=9)
            end = m.EndQuorumEpochRequest(cluster_id=other, leader_id=2, leader_epoch=9)
            answers = [
                vote(stage, 2, 9, cluster_id=other),
                stage.ask("BeginQuorumEpoch", begin),
                stage.ask("EndQuorumEpoch", end),
                fetch(stage, 2, 1, other),
            ]
            assert {(one.error_code, one.leader_id, one.leader_epoch) for one in answers} == {
                (OTHER_CLUSTER, 1, 1)
            }
        old = m.BeginQuorumEpochRequest(cluster_id=cluster_id, leader_id=2, leader_epoch=0)
        ended = m.EndQuorumEpochRequest(cluster_id=cluster_id, leader_id=2, leader_epoch=0)
        answers = [
            stage.ask("BeginQuorumEpoch", old),
            stage.ask("EndQuorumEpoch", ended),
            fetch(stage, 0, 0, cluster_id),
            fetch(stage, 0, 2, cluster_id),
        ]
        assert [one.error_code for one in answers] == [FENCED, FENCED, FENCED, UNKNOWN_EPOCH]
        assert {(one.leader_id, one.leader_epoch) for one in answers} == {(1, 1)}


def test_a_leader_that_is_the_last_to_go_tells_the_voters_and_votes_on(tmp_path: Path) -> None:
    """000, Quorum Reassignment 6: "sending EndQuorumEpoch", "continue as a voter"."""
    with Stage(tmp_path, "kip-595") as stage:
        cluster_id = leads_three(stage)
        kind = stage.messages.AlterQuorumRequest
        targets = [kind.Voter(voter_id=2), kind.Voter(voter_id=3)]
        alter = kind(cluster_id=cluster_id, target_voters=targets, timeout_ms=300)
        # "Return successfully only when the desired TargetVoters has been safely committed"
        assert stage.ask("AlterQuorum", alter).error_code == REQUEST_TIMED_OUT
        assert fetch(stage, 3, 1, cluster_id).error_code in (NONE, NOT_LEADER)
        for peer in (2, 3):
            stage.wait("EndQuorumEpoch", to=peer, leader_epoch=1)
        answer = vote(stage, 2, 2, end=3, cluster_id=cluster_id)
        assert (answer.vote_granted, answer.leader_epoch) == (True, 2)
