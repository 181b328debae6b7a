"""Requests of FetchSnapshot that a controller of Apache Kafka does not answer as it should.

The page is docs/findings/kraft-controllers.md.
"""

from __future__ import annotations

from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import FetchSnapshotRequest, FetchSnapshotResponse
from kraftspec.interop.reproduce.requests import effect_of, try_senders
from kraftspec.interop.reproduce.stage import Stage
from kraftspec.reference.admin.client import METADATA_TOPIC

VERSION = 1


def fetch_snapshot_without_topic(stage: Stage) -> bool:
    """Ask for no topic at all, with and without an authorizer."""
    return try_senders(
        stage,
        "FetchSnapshot without a topic",
        lambda node: FetchSnapshotRequest(),
        VERSION,
        FetchSnapshotResponse,
    )


def fetch_snapshot_rejected(stage: Stage) -> bool:
    """Ask for a snapshot that is not there: SNAPSHOT_NOT_FOUND is due, of the partition."""
    cluster = stage.cluster(1)
    (node,) = cluster.controllers
    epoch = cluster.wait_quorum().leader_epoch
    kind = FetchSnapshotRequest
    partition = kind.PartitionSnapshot(
        current_leader_epoch=epoch, snapshot_id=kind.SnapshotId(end_offset=10_000, epoch=epoch)
    )
    request = kind(topics=[kind.TopicSnapshot(name=METADATA_TOPIC, partitions=[partition])])
    effect = effect_of(node, request, VERSION, FetchSnapshotResponse)
    stage.step(f"FetchSnapshot of 10000-{epoch}, which is not there: {effect}")
    return ErrorCode.SNAPSHOT_NOT_FOUND.name not in effect
