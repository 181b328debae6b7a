"""Sentences of KIP-996's draft, as bytes between a node and peers of the tests: who may be elected.

The first part of it, a prospective's own requests, is in ``test_drafts_wire``.
"""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Any

import pytest
from tests.reference.node.scenes_996 import pre_vote
from tests.reference.node.scripted import (
    CHECKED_MS,
    CLUSTER_ID,
    Stage,
    about_log,
    follows,
    start_static,
)
from tests.reference.node.test_drafts_wire import (
    ABOUT_LOG,
    INCONSISTENT_CLUSTER_ID,
    INVALID_REQUEST,
    NULL_TAGS,
    VOTE,
    compact,
    exchange,
    quorum_state,
    rounds,
    state_file,
    vote_request,
    vote_response,
    votes,
)
from tests.waiting import until

pytestmark = pytest.mark.soak


def leads(stage: Stage) -> int:
    """Let the peers elect node 1; return its epoch."""
    follows(stage)
    start_static(stage)
    return int(stage.wait("BeginQuorumEpoch")[0].leader_epoch)


def test_a_leader_adopts_the_higher_epoch_of_a_pre_vote(tmp_path: Path) -> None:
    """And grants it, being no leader any more."""
    with Stage(tmp_path, "kip-996") as stage:
        epoch = leads(stage)
        assert pre_vote(stage, epoch, epoch) == (0, 1, epoch, False)
        stage.rules["Vote"] = lambda peer, body: []
        assert pre_vote(stage, epoch + 4, epoch) == (0, -1, epoch + 4, True)
        state = quorum_state(stage)
        assert (state["leaderId"], state["leaderEpoch"], state["votedId"]) == (-1, epoch + 4, -1)


def test_a_leader_keeps_its_epoch_without_the_fix(tmp_path: Path) -> None:
    with Stage(tmp_path, "kip-996", "--without", "epoch-first") as stage:
        epoch = leads(stage)
        before = state_file(stage).read_bytes()
        assert pre_vote(stage, epoch + 4, epoch) == (0, 1, epoch, False)
        assert state_file(stage).read_bytes() == before
        described = stage.ask("DescribeQuorum", stage.message("DescribeQuorumRequest"))
        assert (described.error_code, described.leader_id) == (0, 1)


def test_a_leader_keeps_its_vote(tmp_path: Path) -> None:
    """It was elected by its own, too, and has voted in that epoch after a restart as well."""
    with Stage(tmp_path, "kip-996") as stage:
        epoch = leads(stage)
        kept = quorum_state(stage)
        assert (kept["leaderId"], kept["leaderEpoch"], kept["votedId"]) == (1, epoch, 1)
        stage.restart_quiet()
        again = quorum_state(stage)
        assert (again["leaderEpoch"], again["votedId"]) == (epoch, 1)


def test_a_follower_that_its_leader_still_answers_is_impeded_until_that_steps_down(
    tmp_path: Path,
) -> None:
    """2 leads and answers node 1 alone; 3, which it does not answer, asks for pre-votes."""

    def lead(peer: int, body: Any) -> Any:
        time.sleep(0.05)
        fields = {"leader_id": 2, "leader_epoch": 1}
        return stage.fetch_reply(high_watermark=0, **fields) if peer == 2 else None

    with Stage(tmp_path, "kip-996") as stage:
        stage.rules["Fetch"] = lead
        stage.rules["Vote"] = lambda peer, body: []
        start_static(stage)
        begin = stage.message("BeginQuorumEpochRequest", leader_id=2, leader_epoch=1)
        assert stage.ask("BeginQuorumEpoch", begin).leader_id == 2
        for count in (2, 4, 6):
            stage.wait("Fetch", count, current_leader_epoch=1)
            assert pre_vote(stage, 1) == (0, 2, 1, False)
        # Check Quorum: "a leader steps down", and tells its followers.
        end = stage.message(
            "EndQuorumEpochRequest", leader_id=2, leader_epoch=1, preferred_successors=[1, 3]
        )
        assert stage.ask("EndQuorumEpoch", end).error_code == 0
        stage.wait("Vote", to=3, replica_epoch=1, pre_vote=True)
        error, _, epoch, granted = pre_vote(stage, 1)
        assert (error, epoch, granted) == (0, 1, True)


def test_a_leader_that_check_quorum_has_ended_grants_pre_votes(tmp_path: Path) -> None:
    with Stage(tmp_path, "kip-996") as stage:
        follows(stage)
        start_static(stage, fetch_ms=CHECKED_MS)
        epoch = stage.wait("BeginQuorumEpoch")[0].leader_epoch
        stage.rules["Vote"] = lambda peer, body: []  # It is not elected again.
        stage.wait("EndQuorumEpoch", leader_epoch=epoch)
        until(lambda: pre_vote(stage, quorum_state(stage)["leaderEpoch"], epoch)[3] == 1)


def test_an_answer_to_the_other_kind_of_vote_grants_nothing(tmp_path: Path) -> None:
    def answer(body: Any, *, is_same: bool) -> Any:
        request = about_log(body)
        return stage.message(
            "VoteResponse",
            leader_id=-1,
            leader_epoch=request.replica_epoch,
            vote_granted=True,
            pre_vote=request.pre_vote is is_same,
        )

    with Stage(tmp_path, "kip-996") as stage:
        stage.rules["Vote"] = lambda peer, body: answer(body, is_same=False)
        start_static(stage)
        rounds(stage, 4)
        assert {one.data for one in votes(stage, 2)} == {vote_request(0, True)}
        stage.rules["Vote"] = lambda peer, body: answer(body, is_same=True)
        stage.wait("Vote", replica_epoch=1, pre_vote=False)


def test_what_a_vote_request_names_is_compared(tmp_path: Path) -> None:
    """A null cluster id is that of any cluster; another one, or another topic, is rejected."""

    def pre_vote_of_2(cluster_id: bytes, about: bytes) -> bytes:
        body = cluster_id + about + struct.pack(">iiiq", 0, 2, 0, 0) + b"\1" + NULL_TAGS
        return exchange(stage, VOTE, 1, body)

    with Stage(tmp_path, "kip-996") as stage:
        stage.rules["Vote"] = lambda peer, body: []
        start_static(stage)
        stage.wait("Vote")
        before = state_file(stage).read_bytes()
        other_topic = b"\2" + compact("another") + b"\2" + bytes(4)
        granted = vote_response(-1, 0, True, True)
        for cluster_id, about, expected in (
            (b"\0", ABOUT_LOG, granted),
            (compact(CLUSTER_ID), ABOUT_LOG, granted),
            (compact("another"), ABOUT_LOG, struct.pack(">hbx", INCONSISTENT_CLUSTER_ID, 1)),
            (compact(CLUSTER_ID), other_topic, struct.pack(">hbx", INVALID_REQUEST, 1)),
        ):
            assert pre_vote_of_2(cluster_id, about) == expected
        assert state_file(stage).read_bytes() == before
        # Version 0 is a standard vote, and its response has no PreVote.
        without_pre_vote = vote_response(-1, 1, True, False)[: -len(NULL_TAGS) - 1] + NULL_TAGS
        assert exchange(stage, VOTE, 0, vote_request(1, None, 2)) == without_pre_vote
        until(lambda: quorum_state(stage)["votedId"] == 2)
