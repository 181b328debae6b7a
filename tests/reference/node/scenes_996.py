"""Scenes of kip-996: each returns whether a fix was seen to hold in a live node."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

from tests.reference.node.processes import WAIT_S
from tests.reference.node.scripted import (
    CHECKED_MS,
    Stage,
    about_log,
    answers_votes,
    follows,
    resigns,
    start_static,
)

from kraftspec.conformance.cluster.node import HOST

TOPIC_NAME = b"\x13__cluster_metadata"  # Its length and one, as a compact string has it.


def asks_before_it_campaigns(stage: Stage) -> bool:
    start_static(stage)
    vote = stage.wait("Vote")[0]
    assert vote.replica_epoch == (0 if vote.pre_vote else 1)
    return bool(vote.pre_vote)


def asks_again_when_a_majority_has_rejected(stage: Stage) -> bool:
    answers_votes(stage, granted=False)
    start_static(stage)
    first, second = stage.wait("Vote", 2)[:2]
    assert first.pre_vote
    return bool(second.pre_vote)


def a_leader_without_followers_resigns(stage: Stage) -> bool:
    follows(stage)
    start_static(stage, fetch_ms=CHECKED_MS)
    return resigns(stage)


def a_leader_rejects_pre_votes(stage: Stage) -> bool:
    follows(stage)
    start_static(stage)
    epoch = stage.wait("BeginQuorumEpoch")[0].leader_epoch
    vote = {"replica_epoch": epoch, "replica_id": 2, "last_offset_epoch": epoch}
    request = stage.message("VoteRequest", last_offset=1000, pre_vote=True, **vote)
    answer = stage.ask("Vote", request)
    assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (0, 1, epoch)
    return not answer.vote_granted


def a_leader_that_was_given_up_has_to_speak_for_itself(stage: Stage) -> bool:
    """2 leads and breaks off each fetch; 3, which is asked for a pre-vote, still names it."""
    stage.rules["Vote"] = lambda peer, body: (
        stage.message("VoteResponse", leader_id=2, leader_epoch=1, pre_vote=True)
        if peer == 3
        else None
    )
    stage.rules["Fetch"] = lambda peer, body: None
    start_static(stage, fetch_ms=1000)
    begin = stage.message("BeginQuorumEpochRequest", leader_id=2, leader_epoch=1)
    assert stage.ask("BeginQuorumEpoch", begin).leader_id == 2
    stage.wait("Vote", 2, to=3, replica_epoch=1, pre_vote=True)
    sent = list(stage.sent)
    first, second = [
        at
        for at, one in enumerate(sent)
        if one[:2] == (3, "Vote") and about_log(one.body).replica_epoch == 1
    ][:2]
    # One may have been under way when the fetch time-out passed.
    return sum(one.api == "Fetch" for one in sent[first:second]) <= 1


def pre_vote(stage: Stage, epoch: int, last_epoch: int = 1) -> tuple[int, ...]:
    """Ask node 1 for a pre-vote as 3, with a longer log; return error, leader, epoch, granted."""
    body = b"\0\2" + TOPIC_NAME + b"\2"
    body += struct.pack(">iiiiq?", 0, epoch, 3, last_epoch, 1000, True) + bytes(3)
    request = struct.pack(">hhihx", 52, 1, 7, -1) + body
    with socket.create_connection((HOST, stage.port), WAIT_S) as connection:
        connection.sendall(len(request).to_bytes(4) + request)
        with connection.makefile("rb") as stream:
            answer = stream.read(int.from_bytes(stream.read(4)))
    head = struct.pack(">ixh", 7, 0) + b"\2" + TOPIC_NAME + b"\2"
    assert answer.startswith(head)
    partition = struct.unpack_from(">ihii??", answer, len(head))
    assert (partition[0], partition[5]) == (0, True)
    return partition[1:5]


def a_pre_vote_of_a_higher_epoch_is_adopted_first(stage: Stage) -> bool:
    """Node 1 follows 2 in epoch 1; without the fix it still does when it has answered."""

    def lead(peer: int, body: Any) -> Any:
        time.sleep(0.05)
        fields = {"leader_id": 2, "leader_epoch": 1}
        return stage.fetch_reply(high_watermark=0, **fields) if peer == 2 else None

    stage.rules["Fetch"] = lead
    start_static(stage)
    begin = stage.message("BeginQuorumEpochRequest", leader_id=2, leader_epoch=1)
    assert stage.ask("BeginQuorumEpoch", begin).leader_id == 2
    stage.wait("Fetch", 2, current_leader_epoch=1)
    answer = pre_vote(stage, 5)
    if answer == (0, -1, 5, True):
        return True
    assert answer == (0, 2, 1, False)
    fetches = len(stage.wait("Fetch", current_leader_epoch=1))
    stage.wait("Fetch", fetches + 2, current_leader_epoch=1)
    return False


SCENES = {
    "pre-vote": asks_before_it_campaigns,
    "pre-votes-alone": asks_again_when_a_majority_has_rejected,
    "check-quorum": a_leader_without_followers_resigns,
    "leader-refuses": a_leader_rejects_pre_votes,
    "own-word": a_leader_that_was_given_up_has_to_speak_for_itself,
    "epoch-first": a_pre_vote_of_a_higher_epoch_is_adopted_first,
}
