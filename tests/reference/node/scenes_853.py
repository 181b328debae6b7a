"""Scenes of kip-853: each returns whether a fix was seen to hold in a live node."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

from tests.reference.node.scripted import (
    CHECKED_MS,
    CLUSTER_ID,
    LONG_MS,
    NOT_LEADER,
    PEERS,
    REQUEST_TIMED_OUT,
    Stage,
    answers_votes,
    control_types,
    controller,
    follows,
    resigns,
    start_static,
)
from tests.waiting import until

from kraftspec.conformance.cluster.node import HOST
from kraftspec.fastpath.types import Uuid
from kraftspec.reference.log.control import encode_control_values
from kraftspec.reference.tools.storage import FormatRequest

INVALID_VOTER_KEY = 125
UUIDS = {peer: Uuid(bytes([peer]) * 16) for peer in PEERS}
ADD_VOTER, REMOVE_VOTER, LEADER_CHANGE = 100, 101, 2


def a_leader_without_followers_resigns(stage: Stage) -> bool:
    follows(stage)
    start_static(stage, fetch_ms=CHECKED_MS)
    return resigns(stage)


def a_vote_for_another_disk_is_rejected(stage: Stage) -> bool:
    start_static(stage)
    request = stage.message(
        "VoteRequest",
        top={"candidate_id": 2, "voter_id": 1},
        candidate_epoch=100,
        candidate_uuid=UUIDS[2],
        voter_uuid=UUIDS[9],
    )
    answer = stage.ask("Vote", request)
    assert answer.error_code in (0, INVALID_VOTER_KEY)
    return bool(answer.error_code)


def who_loses_an_election_looks_for_a_leader(stage: Stage) -> bool:
    answers_votes(stage, granted=False)
    start_static(stage)
    stage.wait("Vote", 3)
    sent = [one for one in list(stage.sent) if one.to == 2]
    second, third = [at for at, one in enumerate(sent) if one.api == "Vote"][1:3]
    return any(one.api == "Fetch" for one in sent[second:third])


def endpoints(stage: Stage, kind: Any, voter_id: int) -> list[Any]:
    port = stage.port if voter_id == 1 else stage.ports[voter_id]
    return [kind.VoterEndpoint(name="CONTROLLER", host=HOST, port=port)]


def voters_853(stage: Stage, uuids: dict[int, Uuid]) -> bytes:
    """Return a log by which these vote, and 2 leads in epoch 1."""
    kind = stage.messages.AddVoterRecord
    values = [
        (
            ADD_VOTER,
            kind(voter_id=id, voter_uuid=uuid, end_points=endpoints(stage, kind, id)).encode(0),
        )
        for id, uuid in uuids.items()
    ]
    change = stage.messages.LeaderChangeMessage(version=1, leader_id=2)
    values.append((LEADER_CHANGE, change.encode(1)))
    return encode_control_values(values, base_offset=0, epoch=1, timestamp_ms=1)


def takes_over(stage: Stage) -> Uuid:
    """Let node 1 lead in epoch 2, after 2 has; return its uuid. Its LeaderChange is at 4."""
    follows(stage)

    def rule(peer: int, body: Any) -> Any:
        has_all = body.topics[0].partitions[0].fetch_offset == 4
        time.sleep(0.05 if has_all else 0)
        uuids = {1: body.replica_uuid, 2: UUIDS[2], 3: UUIDS[3]}
        records = b"" if has_all else voters_853(stage, uuids)
        return stage.fetch_reply(records=records, high_watermark=4, leader_id=2, leader_epoch=1)

    stage.rules["Fetch"] = rule
    stage.start(
        FormatRequest(cluster_id=CLUSTER_ID, no_initial_controllers=True),
        controller__quorum__bootstrap__servers=f"{HOST}:{stage.ports[2]}",
        **controller(stage, LONG_MS),
    )
    stage.wait("Fetch", 2, fetch_offset=4)
    stage.falls_silent("Fetch")
    end = stage.message(
        "EndQuorumEpochRequest", leader_id=2, leader_epoch=1, preferred_successors=[1]
    )
    assert stage.ask("EndQuorumEpoch", end).error_code == 0
    stage.wait("BeginQuorumEpoch", leader_epoch=2)
    own: Uuid = next(one.body.replica_uuid for one in stage.sent if one.api == "Fetch")
    return own


def change(stage: Stage, api: str, voter_id: int, uuid: Uuid) -> None:
    """Send AddVoter or RemoveVoter, and do not wait for its answer."""
    kind = getattr(stage.messages, f"{api}Request")
    fields = {"voter_id": voter_id, "voter_uuid": uuid}
    if api == "AddVoter":
        fields["end_points"] = endpoints(stage, kind, voter_id)
    top = {"cluster_id": CLUSTER_ID} if api == "AddVoter" else {}
    request = stage.message(f"{api}Request", top=top, **fields)

    def ask() -> None:
        with suppress(OSError):
            stage.ask(api, request)

    threading.Thread(target=ask, daemon=True).start()


def fetched(stage: Stage, offset: int, epoch: int = 2) -> list[int]:
    """Return the control records from an offset on, fetched by 2, once there are any."""
    types: list[int] = []

    def look() -> bool:
        data = stage.fetch(offset, epoch, 2, replica_id=2, replica_uuid=UUIDS[2])
        types.extend(control_types(data))
        return bool(types)

    until(look)
    return types


def voters_wait_for_a_record_of_the_epoch(stage: Stage) -> bool:
    takes_over(stage)
    request = stage.message("RemoveVoterRequest", voter_id=3, voter_uuid=UUIDS[3])
    assert stage.ask("RemoveVoter", request).error_code == REQUEST_TIMED_OUT
    types = fetched(stage, 4, epoch=1)
    assert types in ([LEADER_CHANGE], [LEADER_CHANGE, REMOVE_VOTER])
    return types == [LEADER_CHANGE]


def a_replaced_disk_is_removed_first(stage: Stage) -> bool:
    takes_over(stage)
    stage.fetch(5, 2, 2, max_wait_ms=0, replica_id=3, replica_uuid=UUIDS[9])  # It has caught up.
    change(stage, "AddVoter", 3, UUIDS[9])
    first = fetched(stage, 5)[0]  # By this, too, the record of the epoch is committed.
    assert first in (ADD_VOTER, REMOVE_VOTER)
    return first == REMOVE_VOTER


def a_voter_that_alone_has_its_removal_campaigns(stage: Stage) -> bool:
    """The leader appends its removal, and is killed before anybody has fetched that."""
    own = takes_over(stage)
    stage.fetch(5, 2, 2, max_wait_ms=0, replica_id=2, replica_uuid=UUIDS[2])
    change(stage, "RemoveVoter", 1, own)
    assert fetched(stage, 5) == [REMOVE_VOTER]
    stage.kill()
    stage.rules["Fetch"] = lambda peer, body: stage.fetch_reply(
        error_code=NOT_LEADER, high_watermark=-1
    )
    votes, fetches = stage.count("Vote"), stage.count("Fetch")
    stage.start_again()
    # By the time of so many fetches, one a retry back-off, the election time-out is over.
    until(lambda: stage.count("Vote") > votes or stage.count("Fetch") > fetches + 70)
    return stage.count("Vote") > votes


SCENES = {
    "check-quorum": a_leader_without_followers_resigns,
    "voter-uuid": a_vote_for_another_disk_is_rejected,
    "loser-steps-down": who_loses_an_election_looks_for_a_leader,
    "own-epoch-first": voters_wait_for_a_record_of_the_epoch,
    "removed-before-replaced": a_replaced_disk_is_removed_first,
    "removed-when-committed": a_voter_that_alone_has_its_removal_campaigns,
}
