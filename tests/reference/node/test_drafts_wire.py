"""Sentences of KIP-996's and KIP-853's drafts, as bytes between a node and peers of the tests.

What a request or an answer has to be is made by hand here, from the schemas that the drafts print.
"""

from __future__ import annotations

import json
import socket
import struct
from pathlib import Path
from typing import Any

import pytest
from tests.reference.node.processes import WAIT_S
from tests.reference.node.scripted import (
    CLUSTER_ID,
    LONG_MS,
    NOT_LEADER,
    TOPIC,
    Sent,
    Stage,
    about_log,
    controller,
    follows,
    start_static,
)
from tests.waiting import until

from kraftspec.conformance.cluster.node import HOST
from kraftspec.fastpath.types import Uuid
from kraftspec.reference.tools.storage import FormatRequest

VOTE, ADD_VOTER, REMOVE_VOTER = 52, 10_057, 10_058
INVALID_REQUEST, INCONSISTENT_CLUSTER_ID = 42, 104
pytestmark = pytest.mark.soak

NULL_TAGS = b"\0\0\0"  # Of a partition, of the topic and of the whole.


def compact(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


ABOUT_LOG = b"\2" + compact(TOPIC) + b"\2" + struct.pack(">i", 0)


def vote_request(
    epoch: int, pre_vote: bool | None, replica_id: int = 1, end: tuple[int, int] = (0, 0)
) -> bytes:
    """003 VoteRequest; ``pre_vote`` is None at version 0, which has no such field."""
    body = compact(CLUSTER_ID) + ABOUT_LOG + struct.pack(">iiiq", epoch, replica_id, *end)
    return body + (b"" if pre_vote is None else bytes([pre_vote])) + NULL_TAGS


def vote_response(leader_id: int, epoch: int, granted: bool, pre_vote: bool) -> bytes:
    """003 VoteResponse, version 1, without an error."""
    fields = struct.pack(">hii??", 0, leader_id, epoch, granted, pre_vote)
    return bytes(2) + ABOUT_LOG + fields + NULL_TAGS


def exchange(stage: Stage, key: int, version: int, body: bytes) -> bytes:
    """Send the node a request with a flexible header; return the body of its response."""
    head = struct.pack(">hhi", key, version, 7) + b"\0\4hand\0"
    with socket.create_connection((HOST, stage.port), WAIT_S) as connection:
        connection.sendall(struct.pack(">i", len(head + body)) + head + body)
        stream = connection.makefile("rb")
        (size,) = struct.unpack(">i", stream.read(4))
        response = stream.read(size)
    assert response[:5] == b"\0\0\0\7\0"
    return response[5:]


def quorum_state(stage: Stage) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(state_file(stage).read_text())
    return state


def state_file(stage: Stage) -> Path:
    return stage.directory / "log" / "__cluster_metadata-0" / "quorum-state"


def votes(stage: Stage, to: int) -> list[Sent]:
    return [one for one in list(stage.sent) if one[:2] == (to, "Vote")]


def rounds(stage: Stage, count: int) -> None:
    """Wait for so many more vote requests to each of the two peers."""
    counts = [len(votes(stage, peer)) + count for peer in (2, 3)]
    until(lambda: len(votes(stage, 2)) >= counts[0] and len(votes(stage, 3)) >= counts[1])


def answer(stage: Stage, body: Any, granted: bool) -> Any:
    request = about_log(body)
    return stage.message(
        "VoteResponse",
        leader_id=-1,
        leader_epoch=request.replica_epoch,
        vote_granted=granted,
        pre_vote=request.pre_vote,
    )


def test_a_prospective_asks_in_its_own_epoch_until_a_majority_grants(tmp_path: Path) -> None:
    with Stage(tmp_path, "kip-996") as stage:
        # "true (another Pre-Vote) if the server receives [majority] … set to false"
        stage.rules["Vote"] = lambda peer, body: answer(stage, body, granted=False)
        start_static(stage, fetch_ms=400)
        rounds(stage, 3)
        # "true if the server does not receive enough votes (granted or rejected)"
        stage.rules["Vote"] = lambda peer, body: []
        rounds(stage, 3)
        for peer in (2, 3):
            assert {one.data for one in votes(stage, peer)} == {vote_request(0, True)}
            assert {one.version for one in votes(stage, peer)} == {1}
        state = quorum_state(stage)
        assert (state["leaderEpoch"], state["votedId"]) == (0, -1)
        # "If [majority - 1] of VoteResponse grant the vote, the server will transition to
        # Candidate": of three that is one. Nobody answers the candidate, which "will transition
        # back to Prospective".
        stage.rules["Vote"] = lambda peer, body: (
            answer(stage, body, granted=True) if peer == 2 and about_log(body).pre_vote else []
        )
        stage.wait("Vote", replica_epoch=2, pre_vote=False)
        state = quorum_state(stage)
        assert state["leaderEpoch"] >= 2
        assert state["votedId"] == 1
        requests = [(about_log(one.body), one.data) for one in votes(stage, 2)]
        for vote, data in requests:
            assert data == vote_request(vote.replica_epoch, vote.pre_vote)
        kinds = [(vote.replica_epoch, vote.pre_vote) for vote, _ in requests]
        order = list(dict.fromkeys(kinds))  # Each once; the rest are repetitions of it.
        assert order[:5] == [(0, True), (1, False), (1, True), (2, False), (2, True)][: len(order)]
        assert len(order) >= 4
        # Elected, it leads; and "steps down if it is unable to receive" fetches of a majority.
        follows(stage)
        epoch = stage.wait("BeginQuorumEpoch")[0].leader_epoch
        assert stage.wait("EndQuorumEpoch", leader_epoch=epoch)[0].leader_id == 1


def test_of_two_answers_the_first_counts(tmp_path: Path) -> None:
    """3 is silent: with the grant of 2 there would be a majority of pre-votes."""
    with Stage(tmp_path, "kip-996") as stage:
        stage.rules["Vote"] = lambda peer, body: (
            [answer(stage, body, False), answer(stage, body, True)] if peer == 2 else []
        )
        start_static(stage)
        rounds(stage, 3)
        assert {one.data for one in votes(stage, 2)} == {vote_request(0, True)}
        stage.rules["Vote"] = lambda peer, body: (
            [answer(stage, body, True), answer(stage, body, False)] if peer == 2 else []
        )
        stage.wait("Vote", to=3, replica_epoch=1, pre_vote=False)


def test_pre_votes_are_granted_by_all_but_followers(tmp_path: Path) -> None:
    with Stage(tmp_path, "kip-996") as stage:
        stage.rules["Vote"] = lambda peer, body: []
        start_static(stage)
        stage.wait("Vote")
        before = state_file(stage).read_bytes()
        for candidate_id in (2, 3, 9):  # Nobody asks whether the sender is a voter: 9 is none.
            granted = exchange(stage, VOTE, 1, vote_request(0, True, candidate_id, (0, 0)))
            assert granted == vote_response(-1, 0, True, True)
        assert state_file(stage).read_bytes() == before
        begin = stage.message("BeginQuorumEpochRequest", leader_id=2, leader_epoch=1)
        assert stage.ask("BeginQuorumEpoch", begin).leader_id == 2
        before = state_file(stage).read_bytes()
        refused = exchange(stage, VOTE, 1, vote_request(1, True, 3, (1, 1)))
        assert refused == vote_response(2, 1, False, True)
        assert state_file(stage).read_bytes() == before


def test_a_follower_whose_fetch_time_out_expires_asks_for_pre_votes(tmp_path: Path) -> None:
    with Stage(tmp_path, "kip-996") as stage:
        stage.rules["Vote"] = lambda peer, body: []
        start_static(stage, fetch_ms=400)
        begin = stage.message("BeginQuorumEpochRequest", leader_id=2, leader_epoch=1)
        assert stage.ask("BeginQuorumEpoch", begin).leader_id == 2
        before = state_file(stage).read_bytes()
        stage.wait("Vote", to=3, replica_epoch=1)
        requests = [one.data for one in votes(stage, 3)]
        assert {*requests} <= {vote_request(0, True), vote_request(1, True)}
        assert requests[-1] == vote_request(1, True)
        assert state_file(stage).read_bytes() == before


def test_one_voter_without_pre_votes_is_enough_to_do_without_them(tmp_path: Path) -> None:
    with Stage(tmp_path, "kip-996") as stage:
        stage.served[3, "Vote"] = 0
        stage.rules["Vote"] = lambda peer, body: []
        start_static(stage)
        stage.wait("Vote", to=3)
        stage.wait("Vote", to=2, pre_vote=False)
        first = votes(stage, 3)[0]
        assert (first.version, first.data) == (0, vote_request(1, None))
        standard = next(one for one in votes(stage, 2) if not about_log(one.body).pre_vote)
        assert (standard.version, standard.data) == (1, vote_request(1, False))
        assert {one.version for one in votes(stage, 3)} == {0}


def fetch_head(uuid: bytes, node_id: int = 1) -> bytes:
    """001 FetchRequest, version 14: its first two fields on the wire."""
    return struct.pack(">i", node_id) + uuid


def test_an_observer_fetches_from_all_servers_with_the_uuid_that_it_made(tmp_path: Path) -> None:
    """2 rejects, 9 is silent, and 3 leads; quorum-state of version 0 has no uuid yet."""
    with Stage(tmp_path, "kip-853") as stage:
        stage.rules["Fetch"] = lambda peer, body: (
            stage.fetch_reply(error_code=NOT_LEADER, high_watermark=-1) if peer == 2 else []
        )
        stage.start(
            FormatRequest(cluster_id=CLUSTER_ID, no_initial_controllers=True),
            controller__quorum__bootstrap__servers=",".join(
                f"{HOST}:{port}" for port in stage.ports.values()
            ),
            **controller(stage, LONG_MS),
        )
        stage.wait("Fetch")
        stage.kill()
        first_uuid = Uuid.parse(quorum_state(stage)["voterUuid"])
        old = {
            "clusterId": "",
            "leaderId": -1,
            "leaderEpoch": 0,
            "votedId": -1,
            "appliedOffset": 0,
            "currentVoters": None,
            "data_version": 0,
        }
        state_file(stage).write_text(json.dumps(old))
        stage.sent.clear()
        stage.start_again()
        # "to all of the nodes in this configuration until they discover the quorum leader"
        for peer, count in ((2, 3), (3, 2), (9, 2)):
            stage.wait("Fetch", count, to=peer)
        state = quorum_state(stage)
        uuid = Uuid.parse(state["voterUuid"])
        assert state["data_version"] == 1
        assert uuid not in (first_uuid, Uuid(bytes(16)))
        fetches = [one for one in list(stage.sent) if one.api == "Fetch"]
        assert {one.version for one in fetches} == {14}
        assert {one.data[:20] for one in fetches} == {fetch_head(uuid)}
        stage.rules["Fetch"] = lambda peer, body: (
            stage.fetch_reply(high_watermark=0, leader_id=3, leader_epoch=1)
            if peer == 3
            else stage.fetch_reply(error_code=NOT_LEADER, high_watermark=-1)
        )
        until(lambda: quorum_state(stage)["leaderId"] == 3)
        stage.wait("Fetch", 20, to=3, current_leader_epoch=1)
        epochs = {
            peer: {
                about_log(one.body).current_leader_epoch
                for one in list(stage.sent)
                if one[:2] == (peer, "Fetch")
            }
            for peer in stage.ports
        }
        assert epochs == {2: {0}, 3: {0, 1}, 9: {0}}  # Who leads is known, and asked alone.


def change_response(error: int, epoch: int) -> bytes:
    """001 AddVoter response, RemoveVoter response: an error, and node 1 as the CurrentLeader."""
    leader = b"\1\0\x09" + struct.pack(">iix", 1, epoch)  # One tagged field, 0, of nine bytes.
    return bytes(2) + ABOUT_LOG + struct.pack(">h", error) + leader + b"\0\0"


def add_voter(
    cluster_id: str, topic: bytes, voter_id: int, endpoints: tuple[str, ...], protocol: int = 0
) -> bytes:
    """001 AddVoter request, of a replica whose uuid is made of its id."""
    places = b"".join(
        compact(name) + compact(HOST) + struct.pack(">Hhx", 9092, protocol) for name in endpoints
    )
    who = struct.pack(">i", voter_id) + bytes([voter_id]) * 16
    return compact(cluster_id) + topic + who + bytes([len(endpoints) + 1]) + places + NULL_TAGS


def test_what_add_voter_and_remove_voter_are_rejected_for(tmp_path: Path) -> None:
    """An error about the whole request names no leader; one about the log does."""
    with Stage(tmp_path, "kip-853") as stage:
        stage.start(
            FormatRequest(cluster_id=CLUSTER_ID, standalone=True),
            controller__quorum__bootstrap__servers=f"{HOST}:{stage.port}",
            **controller(stage, LONG_MS),
        )
        described: list[Any] = []

        def leads() -> bool:
            described[:] = [stage.ask("DescribeQuorum", stage.message("DescribeQuorumRequest"))]
            return bool(described[0].high_watermark > 0)

        until(leads)
        epoch = described[0].leader_epoch
        other_topic = b"\2" + compact("another") + b"\2" + bytes(4)
        for body, error in (
            (add_voter("another", ABOUT_LOG, 2, ("CONTROLLER",)), INCONSISTENT_CLUSTER_ID),
            (add_voter(CLUSTER_ID, other_topic, 2, ("CONTROLLER",)), INVALID_REQUEST),
        ):
            assert exchange(stage, ADD_VOTER, 0, body) == struct.pack(">hbx", error, 1)
        refused = change_response(INVALID_REQUEST, epoch)
        for endpoints in ((), ("ANOTHER",)):
            body = add_voter(CLUSTER_ID, ABOUT_LOG, 2, endpoints)
            assert exchange(stage, ADD_VOTER, 0, body) == refused
        # The last voter: a majority "of new configuration" is none.
        uuid = bytes(described[0].current_voters[0].replica_uuid)
        for voter_uuid in (bytes(16), uuid):
            body = ABOUT_LOG + struct.pack(">i", 1) + voter_uuid + NULL_TAGS
            assert exchange(stage, REMOVE_VOTER, 0, body) == refused
