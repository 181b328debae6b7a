"""What concerns the wire: versions, requests that are none, requests about other logs."""

from __future__ import annotations

import struct
from typing import Any

from kraftspec.conformance.making.exchanges import requests as rq
from kraftspec.conformance.making.exchanges.record import Recording
from kraftspec.conformance.making.exchanges.scenarios.bases import end_of, quorum_state, replaced
from kraftspec.conformance.making.exchanges.scenarios.case import Case
from kraftspec.conformance.raw.node import NodeState
from kraftspec.generated.kafka import (
    AddRaftVoterRequest,
    ApiVersionsRequest,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    VoteRequest,
)

EPOCH = 7
UNKNOWN_API = 999


def unattached(state: NodeState) -> NodeState:
    """In an epoch that has no leader yet, after the last that it led."""
    return replaced(
        state,
        quorum_state=quorum_state(EPOCH, static=_is_static(state)),
        role="unattached",
    )


def _is_static(state: NodeState) -> bool:
    return "controller.quorum.voters" in (state.properties or {})


def api_versions(r: Recording) -> None:
    """All versions, and those that are none."""
    for version in ApiVersionsRequest.VALID_VERSIONS:
        r.ask(rq.api_versions(version), version)
    for version in (6, 99):
        head = struct.pack(">hhih", 18, version, len(r.steps) + 1, -1)
        r.put("ApiVersions", version, head + b"\0\1\1\0", note="answered in version 0 (KIP-511)")
    for cluster_id, node_id, note in (
        (rq.CLUSTER_ID, rq.ME, "meant for this node"),
        (rq.CLUSTER_ID, rq.NOBODY, "meant for another node"),
        (rq.OTHER_CLUSTER_ID, rq.ME, "meant for another cluster"),
        (rq.OTHER_CLUSTER_ID, rq.NOBODY, "meant for another cluster, another node"),
        (rq.CLUSTER_ID, rq.NONE, "a cluster, and no node"),
        (None, rq.ME, "a node, and no cluster"),
        ("", rq.ME, "an empty cluster id"),
        (rq.CLUSTER_ID, -2, "a node that there cannot be"),
    ):
        r.ask(rq.api_versions(5, cluster_id, node_id), 5, note=note)
    named = ApiVersionsRequest(client_software_name="-", client_software_version="1")
    r.ask(named, 3, note="a name that is none")


def unregistrations(r: Recording) -> None:
    """What only the active controller does; before 4.4 nobody knows it."""
    for node_id in (rq.ME, 2, rq.NOBODY, rq.NONE):
        r.ask(rq.unregister_controller(node_id), 0)


def _of_version(r: Recording, api: str, key: int, version: int, note: str) -> None:
    head = struct.pack(">hhih", key, version, len(r.steps) + 1, -1)
    r.put(api, version, head + b"\0", note=note)


def no_requests(r: Recording) -> None:
    """What is hung up on: each on a connection of its own."""
    for api, key, past in (
        ("Vote", 52, 3),
        ("BeginQuorumEpoch", 53, 2),
        ("EndQuorumEpoch", 54, 2),
        ("DescribeQuorum", 55, 3),
        ("Fetch", 1, 3),
        ("Fetch", 1, 19),
        ("FetchSnapshot", 59, 2),
        ("AddRaftVoter", 80, 2),
        ("RemoveRaftVoter", 81, 1),
        ("UpdateRaftVoter", 82, 1),
    ):
        _of_version(r, api, key, past, "a version that is not served")
    _of_version(r, "Unknown", UNKNOWN_API, 0, "an API that nobody knows")
    _of_version(r, "Produce", 0, 9, "an API of brokers")
    whole = rq.frame_of(rq.vote(2, EPOCH, last=(5, 11), pre=True), 2, 1)
    for cut in (1, 20, 40):
        r.put("Vote", 2, whole[:-cut], note=f"without its last {cut} bytes")
    whole = rq.frame_of(rq.fetch(17, EPOCH, 0, last_epoch=0), 17, 1)
    r.put("Fetch", 17, whole[:-9], note="without its last 9 bytes")
    null_topics = rq.frame_of(rq.describe_quorum(copies=0), 2, 1)
    r.put("DescribeQuorum", 2, null_topics[:-2] + b"\0\0", note="null topics")
    r.ask(rq.describe_quorum(), 2, note="and it still answers")


WRONG: tuple[dict[str, Any], ...] = (
    {"topic": "topic"},
    {"partition": 1},
    {"copies": 0},
    {"copies": 2},
)


def other_logs(r: Recording) -> None:
    """Another cluster, topic or partition; none, or more than one."""
    end = end_of(r.state)
    for version in VoteRequest.VALID_VERSIONS:
        r.ask(rq.vote(version, EPOCH, last=(5, end), cluster_id=rq.OTHER_CLUSTER_ID), version)
    for version in BeginQuorumEpochRequest.VALID_VERSIONS:
        r.ask(rq.begin_epoch(version, EPOCH, cluster_id=rq.OTHER_CLUSTER_ID), version)
    for version in EndQuorumEpochRequest.VALID_VERSIONS:
        r.ask(rq.end_epoch(version, EPOCH, cluster_id=rq.OTHER_CLUSTER_ID), version)
    for version in (13, 15, 17, 18):
        message = rq.fetch(version, EPOCH, end, last_epoch=5, cluster_id=rq.OTHER_CLUSTER_ID)
        r.ask(message, version)
    for version in FetchSnapshotRequest.VALID_VERSIONS:
        r.ask(rq.fetch_snapshot(version, EPOCH, (3, 1), cluster_id=rq.OTHER_CLUSTER_ID), version)
    for version in AddRaftVoterRequest.VALID_VERSIONS:
        r.ask(rq.add_voter(version, cluster_id=rq.OTHER_CLUSTER_ID), version)
    r.ask(rq.remove_voter(cluster_id=rq.OTHER_CLUSTER_ID), 0)
    r.ask(rq.update_voter(EPOCH, cluster_id=rq.OTHER_CLUSTER_ID), 0)
    r.ask(rq.vote(2, EPOCH, last=(5, end), cluster_id=""), 2, note="an empty cluster id")
    for fields in WRONG:
        note = ", ".join(f"{name} {value}" for name, value in fields.items())
        for version in VoteRequest.VALID_VERSIONS:
            r.ask(rq.vote(version, EPOCH, last=(5, end), **fields), version, note=note)
        for version in BeginQuorumEpochRequest.VALID_VERSIONS:
            r.ask(rq.begin_epoch(version, EPOCH, **fields), version, note=note)
        for version in EndQuorumEpochRequest.VALID_VERSIONS:
            r.ask(rq.end_epoch(version, EPOCH, **fields), version, note=note)
        for version in DescribeQuorumRequest.VALID_VERSIONS:
            r.ask(rq.describe_quorum(**fields), version, note=note)
    for version in FetchRequest.VALID_VERSIONS:
        message = rq.fetch(
            version, EPOCH, end, last_epoch=5, topic_id=rq.directory_id(7), topic="topic"
        )
        r.ask(message, version, note="another topic")
    for version in (4, 12):
        message = rq.fetch(version, EPOCH, end, last_epoch=5)
        r.ask(message, version, note="a quorum is known by its topic id alone")
    for fields in WRONG[1:]:
        note = ", ".join(f"{name} {value}" for name, value in fields.items())
        r.ask(rq.fetch(17, EPOCH, end, last_epoch=5, **fields), 17, note=note)


WIRE = (
    Case("wire-api-versions", "lives", unattached, api_versions),
    Case("wire-api-versions-static", "static", unattached, api_versions),
    Case("wire-unregistrations", "lives", unattached, unregistrations),
    Case("wire-no-requests", "lives", unattached, no_requests),
    Case("wire-other-logs", "lives", unattached, other_logs),
)
