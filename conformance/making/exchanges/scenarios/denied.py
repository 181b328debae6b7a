"""A controller with an authorizer, asked by somebody who may do nothing."""

from __future__ import annotations

from kraftspec.conformance.making.exchanges import requests as rq
from kraftspec.conformance.making.exchanges.record import Recording
from kraftspec.conformance.making.exchanges.scenarios.bases import end_of, with_changes
from kraftspec.conformance.making.exchanges.scenarios.case import Case
from kraftspec.conformance.making.exchanges.scenarios.elections import single
from kraftspec.conformance.making.exchanges.scenarios.wire import EPOCH
from kraftspec.conformance.raw.node import NodeState
from kraftspec.generated.kafka import (
    AddRaftVoterRequest,
    ApiVersionsRequest,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    UpdateFeaturesRequest,
    VoteRequest,
)

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def guarded(state: NodeState) -> NodeState:
    """It leads alone, and lets nobody but its administrator do anything."""
    changes = {"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"}
    return with_changes(single(state), changes)


def denied(r: Recording) -> None:
    """Whatever is asked, and however wrong, there is one answer; ApiVersions is everybody's."""
    end = end_of(r.state)
    for version in ApiVersionsRequest.VALID_VERSIONS:
        r.ask(rq.api_versions(version), version)
    for version in VoteRequest.VALID_VERSIONS:
        r.ask(rq.vote(version, EPOCH, last=(3, end)), version)
        r.ask(rq.vote(version, EPOCH, last=(3, end), cluster_id=rq.OTHER_CLUSTER_ID), version)
    for version in BeginQuorumEpochRequest.VALID_VERSIONS:
        r.ask(rq.begin_epoch(version, EPOCH), version)
    for version in EndQuorumEpochRequest.VALID_VERSIONS:
        r.ask(rq.end_epoch(version, EPOCH), version)
    for version in range(12, 19):
        r.ask(rq.fetch(version, EPOCH, 0, last_epoch=0), version)
    for version in FetchSnapshotRequest.VALID_VERSIONS:
        r.ask(rq.fetch_snapshot(version, EPOCH, (end, 3)), version)
    for version in DescribeQuorumRequest.VALID_VERSIONS:
        r.ask(rq.describe_quorum(), version)
        r.ask(rq.describe_quorum(topic="topic"), version)
    for version in AddRaftVoterRequest.VALID_VERSIONS:
        r.ask(rq.add_voter(version), version)
    r.ask(rq.remove_voter(), 0)
    r.ask(rq.update_voter(EPOCH), 0)
    for version in UpdateFeaturesRequest.VALID_VERSIONS:
        r.ask(rq.update_features(version, ("kraft.version", 1, 1)), version)


DENIED = (Case("denied", "alone", guarded, denied),)
