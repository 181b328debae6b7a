"""Sentences of KIP-853's draft on a node that the tests ask and fetch from: AddVoter, Fetch, Vote.

Requests, answers and records are made by hand here, from the schemas that the draft prints.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from tests.reference.node.processes import WAIT_S
from tests.reference.node.scenes_853 import UUIDS, voters_853
from tests.reference.node.scripted import (
    CLUSTER_ID,
    LONG_MS,
    NOT_LEADER,
    REQUEST_TIMED_OUT,
    Stage,
    about_log,
    answers_votes,
    control_types,
    controller,
    start_static,
)
from tests.reference.node.test_drafts_wire import (
    ABOUT_LOG,
    ADD_VOTER,
    INCONSISTENT_CLUSTER_ID,
    INVALID_REQUEST,
    NULL_TAGS,
    REMOVE_VOTER,
    VOTE,
    add_voter,
    change_response,
    compact,
    exchange,
    quorum_state,
    votes,
)
from tests.reference.node.test_kip_853_uuids import fetch_bytes
from tests.waiting import until

from kraftspec.conformance.cluster.node import HOST
from kraftspec.fastpath.types import Uuid
from kraftspec.generated import kip_853
from kraftspec.reference.tools.storage import FormatRequest

FETCH = 1
ADD_VOTER_RECORD, REMOVE_VOTER_RECORD = 100, 101
SSL = 1
pytestmark = pytest.mark.soak


def uuid_of(node_id: int) -> bytes:
    return bytes([node_id]) * 16


class Waiting:
    """A request that is answered later, on a connection of its own."""

    def __init__(self, stage: Stage, key: int, body: bytes) -> None:
        self._connection = socket.create_connection((HOST, stage.port), WAIT_S)
        head = struct.pack(">hhi", key, 0, 7) + b"\0\4hand\0"
        self._connection.sendall(struct.pack(">i", len(head + body)) + head + body)

    def is_answered(self) -> bool:
        return bool(select.select([self._connection], [], [], 0)[0])

    def answer(self) -> bytes:
        with self._connection, self._connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            response = stream.read(size)
        assert response[:5] == b"\0\0\0\7\0"
        return response[5:]


class First:
    """Node 1 as the only voter, which leads; the test fetches in the place of others."""

    def __init__(self, stage: Stage, **properties: object) -> None:
        self.stage = stage
        stage.start(
            FormatRequest(cluster_id=CLUSTER_ID, standalone=True),
            controller__quorum__bootstrap__servers=f"{HOST}:{stage.port}",
            **{**controller(stage, LONG_MS), **properties},
        )
        until(lambda: self.described().high_watermark > 0)
        self.epoch: int = self.described().leader_epoch
        self.end = self.log_end()

    def described(self) -> Any:
        return self.stage.ask("DescribeQuorum", self.stage.message("DescribeQuorumRequest"))

    def log_end(self) -> int:
        """How far the leader's log goes: it is a voter."""
        voters = self.described().current_voters
        end: int = next(one.log_end_offset for one in voters if one.replica_id == 1)
        return end

    def voters(self) -> list[int]:
        return [one.replica_id for one in self.described().current_voters]

    def fetch(self, node_id: int, offset: int, tags: bytes = b"\0") -> Any:
        """Fetch as a replica, or with -1 as a consumer; return the whole response."""
        uuid = uuid_of(node_id) if node_id >= 0 else bytes(16)
        last_epoch = self.epoch if offset else 0
        body = fetch_bytes(node_id, uuid, self.epoch, offset, last_epoch, tags)
        return kip_853.FetchResponse.decode(exchange(self.stage, FETCH, 14, body), 14)

    def fetched(self, node_id: int, offset: int) -> Any:
        (topic,) = self.fetch(node_id, offset).responses
        assert topic.partitions[0].error_code == 0
        return topic.partitions[0]

    def add(self, node_id: int, protocol: int = 0) -> Waiting:
        body = add_voter(CLUSTER_ID, ABOUT_LOG, node_id, ("CONTROLLER",), protocol)
        return Waiting(self.stage, ADD_VOTER, body)


def added_record(node_id: int, protocol: int = 0) -> bytes:
    """001 AddVoterRecord, of a voter that is added by ``First.add``."""
    place = compact("CONTROLLER") + compact(HOST) + struct.pack(">Hhx", 9092, protocol)
    return struct.pack(">hi16sb", 0, node_id, uuid_of(node_id), 2) + place + b"\0"


def test_add_voter_waits_for_the_replica_for_the_change_before_and_for_its_majority(
    tmp_path: Path,
) -> None:
    with Stage(tmp_path, "kip-853") as stage:
        first = First(stage, controller__quorum__request__timeout__ms=LONG_MS)
        end, added = first.end, change_response(0, first.epoch)
        # "Wait for replica (id, guid) to catch up": it is not there, then it has nothing yet.
        two = first.add(2)
        assert first.fetched(2, 0).high_watermark == end
        assert (first.log_end(), first.voters()) == (end, [1])
        assert not two.is_answered()
        # "Append to log", once it has all there is; it votes from here on.
        first.fetched(2, end)
        until(lambda: first.log_end() == end + 1)
        assert first.voters() == [1, 2]
        # "Wait for no pending reassignments": 3 has caught up as well, and waits for 2.
        assert first.fetched(3, end + 1).high_watermark == end
        three = first.add(3, SSL)
        assert first.fetched(3, end + 1).high_watermark == end
        # "Wait for commit using majority of new configuration": of 1 and 2 that is both.
        appended = first.fetched(2, end)
        records = bytes(appended.records)
        assert appended.high_watermark == end
        assert control_types(records) == [ADD_VOTER_RECORD]
        assert added_record(2) in records
        assert (first.log_end(), first.voters()) == (end + 1, [1, 2])
        assert not two.is_answered()
        assert not three.is_answered()
        # "Send response".
        first.fetched(2, end + 1)
        assert two.answer() == added
        until(lambda: first.log_end() == end + 2)
        assert sorted(first.voters()) == [1, 2, 3]
        records = bytes(first.fetched(3, end + 1).records)
        assert added_record(3, SSL) in records
        assert not three.is_answered()  # Of three voters the leader alone has it.
        first.fetched(2, end + 2)
        assert three.answer() == added


def test_the_record_of_a_removal_has_the_voters_id_and_uuid(tmp_path: Path) -> None:
    with Stage(tmp_path, "kip-853") as stage:
        first = First(stage, controller__quorum__request__timeout__ms=LONG_MS)
        first.fetched(2, first.end)
        two = first.add(2)
        until(lambda: first.log_end() == first.end + 1)
        first.fetched(2, first.end + 1)
        assert two.answer() == change_response(0, first.epoch)
        body = ABOUT_LOG + struct.pack(">i16s", 2, uuid_of(2)) + NULL_TAGS
        assert exchange(stage, REMOVE_VOTER, 0, body) == change_response(0, first.epoch)
        assert first.voters() == [1]
        records = bytes(first.fetched(2, first.end + 1).records)
        assert control_types(records) == [REMOVE_VOTER_RECORD]
        assert struct.pack(">hi16sx", 0, 2, uuid_of(2)) in records


def test_add_voter_waits_no_longer_than_the_request_time_out(tmp_path: Path) -> None:
    with Stage(tmp_path, "kip-853") as stage:
        first = First(stage)
        first.fetched(2, 0)
        assert first.add(2).answer() == change_response(REQUEST_TIMED_OUT, first.epoch)
        assert (first.log_end(), first.voters()) == (first.end, [1])


def test_a_fetch_of_another_cluster_is_rejected_and_a_consumer_is_no_replica(
    tmp_path: Path,
) -> None:
    with Stage(tmp_path, "kip-853") as stage:
        first = First(stage)

        def in_cluster(name: str) -> bytes:
            return b"\1\0" + bytes([len(compact(name))]) + compact(name)  # One tag, number 0.

        refused = first.fetch(2, 0, in_cluster("another"))
        assert (refused.error_code, refused.responses) == (INCONSISTENT_CLUSTER_ID, [])
        consumed = first.fetched(-1, 0)
        assert consumed.high_watermark == first.end
        assert consumed.records
        assert first.described().observers == []
        # What formatting wrote is the first there is.
        assert control_types(bytes(consumed.records))[0] == ADD_VOTER_RECORD
        # "the fields remain unchanged": version 13, which has no ReplicaUuid, gets the same.
        request = fetch_bytes(-1, bytes(16), first.epoch, 0, 0)
        at_13 = exchange(stage, FETCH, 13, request[:4] + request[20:])
        assert at_13 == exchange(stage, FETCH, 14, request)
        # "The clusterId if known": without one, and with the right one, it is a replica.
        for node_id, tags in ((2, b"\0"), (3, in_cluster(CLUSTER_ID))):
            (topic,) = first.fetch(node_id, 0, tags).responses
            assert topic.partitions[0].records == consumed.records
        observers = {one.replica_id: one.replica_uuid for one in first.described().observers}
        assert observers == {node_id: Uuid(uuid_of(node_id)) for node_id in (2, 3)}


def vote_request(
    epoch: int,
    candidate: tuple[int, bytes],
    voter: tuple[int, bytes],
    end: tuple[int, int] = (0, 0),
) -> bytes:
    """001 VoteRequest, version 1."""
    body = compact(CLUSTER_ID) + struct.pack(">ii", candidate[0], voter[0]) + ABOUT_LOG
    body += struct.pack(">i16s16siq", epoch, candidate[1], voter[1], *end)
    return body + NULL_TAGS


def vote_response(epoch: int, granted: bool) -> bytes:
    """The response to it, without an error and without a leader."""
    return bytes(2) + ABOUT_LOG + struct.pack(">hii?", 0, -1, epoch, granted) + NULL_TAGS


def test_a_candidate_names_itself_and_the_voter_by_id_and_uuid(tmp_path: Path) -> None:
    with Stage(tmp_path, "kip-853") as stage:
        start_static(stage)
        stage.wait("Vote", to=3)
        stage.wait("Vote", to=2)
        own = bytes(Uuid.parse(quorum_state(stage)["voterUuid"]))
        for peer in (2, 3):
            request = votes(stage, peer)[0]
            epoch = about_log(request.body).candidate_epoch
            assert (request.version, epoch > 0) == (1, True)
            # "null otherwise": of a static voter nobody has told the uuid.
            assert request.data == vote_request(epoch, (1, own), (peer, bytes(16)))


def start_quiet(stage: Stage) -> bytes:
    """Start node 1, a static voter that does not campaign; return its uuid once it listens."""
    start_static(stage, controller__quorum__election__timeout__ms=LONG_MS)
    stage.ask("DescribeQuorum", stage.message("DescribeQuorumRequest"))
    return bytes(Uuid.parse(quorum_state(stage)["voterUuid"]))


def test_a_vote_that_is_granted_is_kept_with_the_candidates_uuid(tmp_path: Path) -> None:
    """ "If granted persist the Candidate GUID and ID": the node is killed, and knows them."""
    with Stage(tmp_path, "kip-853") as stage:
        own = start_quiet(stage)

        def ask(candidate: tuple[int, bytes]) -> bytes:
            return exchange(stage, VOTE, 1, vote_request(9, candidate, (1, own)))

        assert ask((2, uuid_of(2))) == vote_response(9, granted=True)
        kept = quorum_state(stage)
        assert (kept["data_version"], kept["leaderEpoch"], kept["votedId"]) == (1, 9, 2)
        assert bytes(Uuid.parse(kept["votedUuid"])) == uuid_of(2)
        assert kept["leaderId"] == -1
        stage.kill()
        stage.start_again()
        stage.ask("DescribeQuorum", stage.message("DescribeQuorumRequest"))
        for candidate in ((3, uuid_of(3)), (2, uuid_of(4))):  # Another id, another uuid.
            assert ask(candidate) == vote_response(9, granted=False)
        assert ask((2, uuid_of(2))) == vote_response(9, granted=True)
        assert quorum_state(stage)["votedId"] == 2


def test_a_vote_of_version_0_names_the_candidate_by_its_id(tmp_path: Path) -> None:
    with Stage(tmp_path, "kip-853") as stage:
        start_quiet(stage)
        fields = struct.pack(">iiiq", 4, 2, 0, 0) + NULL_TAGS
        answer = exchange(stage, VOTE, 0, compact(CLUSTER_ID) + ABOUT_LOG + fields)
        assert answer == vote_response(4, granted=True)
        kept = quorum_state(stage)
        assert (kept["votedId"], Uuid.parse(kept["votedUuid"])) == (2, Uuid(bytes(16)))


def test_an_observer_votes_and_keeps_its_vote(tmp_path: Path) -> None:
    """Vote 2, "allowed to vote even if they are not voters yet": by its log 2 and 3 are voters."""
    with Stage(tmp_path, "kip-853") as stage:
        records = voters_853(stage, {id: UUIDS[id] for id in (2, 3)})

        def lead(peer: int, body: Any) -> Any:
            has_all = about_log(body).fetch_offset == 3
            time.sleep(0.05 if has_all else 0)
            fields = {"high_watermark": 3, "leader_id": 2, "leader_epoch": 1}
            return stage.fetch_reply(records=b"" if has_all else records, **fields)

        stage.rules["Fetch"] = lead
        stage.start(
            FormatRequest(cluster_id=CLUSTER_ID, no_initial_controllers=True),
            controller__quorum__bootstrap__servers=f"{HOST}:{stage.ports[2]}",
            **controller(stage, LONG_MS),
        )
        stage.wait("Fetch", 2, fetch_offset=3)
        stage.falls_silent("Fetch")
        own = bytes(Uuid.parse(quorum_state(stage)["voterUuid"]))

        def ask(candidate_id: int) -> bytes:
            candidate = (candidate_id, uuid_of(candidate_id))
            return exchange(stage, VOTE, 1, vote_request(9, candidate, (1, own), (1, 3)))

        assert ask(3) == vote_response(9, granted=True)
        kept = quorum_state(stage)
        assert (kept["leaderEpoch"], kept["votedId"]) == (9, 3)
        # The cluster is in meta.properties, and the voters are in the log.
        assert (kept["clusterId"], kept["appliedOffset"], kept["currentVoters"]) == ("", 0, None)
        assert bytes(Uuid.parse(kept["votedUuid"])) == uuid_of(3)
        stage.kill()
        stage.start_again()
        stage.ask("DescribeQuorum", stage.message("DescribeQuorumRequest"))
        assert ask(2) == vote_response(9, granted=False)
        assert ask(3) == vote_response(9, granted=True)
        assert stage.count("Vote") == 0  # It does not campaign.


def test_a_leader_keeps_its_vote(tmp_path: Path) -> None:
    """Vote 3: also its own, by which it was elected, and after a restart."""
    with Stage(tmp_path, "kip-853") as stage:
        answers_votes(stage, granted=True)
        stage.rules["BeginQuorumEpoch"] = lambda peer, body: []
        start_static(stage)
        epoch = stage.wait("BeginQuorumEpoch")[0].leader_epoch
        kept = quorum_state(stage)
        assert (kept["leaderId"], kept["leaderEpoch"], kept["votedId"]) == (1, epoch, 1)
        assert kept["votedUuid"] == kept["voterUuid"]
        stage.restart_quiet()
        again = quorum_state(stage)
        names = ("leaderEpoch", "votedId", "votedUuid")
        assert [again[name] for name in names] == [kept[name] for name in names]


def test_who_knows_no_leader_names_the_latest_epoch(tmp_path: Path) -> None:
    """CurrentLeader: "-1 if the leader is unknown", and "The latest known leader epoch"."""
    with Stage(tmp_path, "kip-853") as stage:
        own = start_quiet(stage)
        request = vote_request(4, (2, uuid_of(2)), (1, own))
        assert exchange(stage, VOTE, 1, request) == vote_response(4, granted=True)
        leader = b"\1\0\x09" + struct.pack(">iix", -1, 4)  # One tagged field, 0, of nine bytes.
        refused = bytes(2) + ABOUT_LOG + struct.pack(">h", NOT_LEADER) + leader + b"\0\0"
        remove_voter = ABOUT_LOG + struct.pack(">i16s", 2, uuid_of(2)) + NULL_TAGS
        for key, body in (
            (ADD_VOTER, add_voter(CLUSTER_ID, ABOUT_LOG, 2, ())),
            (REMOVE_VOTER, remove_voter),
        ):
            assert exchange(stage, key, 0, body) == refused


def test_remove_voter_is_rejected_with_static_voters(tmp_path: Path) -> None:
    with Stage(tmp_path, "kip-853") as stage:
        answers_votes(stage, granted=True)
        stage.rules["BeginQuorumEpoch"] = lambda peer, body: []
        start_static(stage)
        epoch = stage.wait("BeginQuorumEpoch")[0].leader_epoch
        body = ABOUT_LOG + struct.pack(">i16s", 2, uuid_of(2)) + NULL_TAGS
        refused = exchange(stage, REMOVE_VOTER, 0, body)
        assert refused == change_response(INVALID_REQUEST, epoch)
