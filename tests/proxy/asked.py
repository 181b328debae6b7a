"""A request of each of some APIs that a healthy node of Kafka answers, and which Kafka it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from kraftspec.conformance.cluster import RELEASE
from kraftspec.fastpath.batch_writer import encode_batch
from kraftspec.generated import kafka as k

TOPIC = "ruled"
BROKERS = os.environ.get("KRAFTSPEC_BROKERS", RELEASE)  # Campaigns have another release.

# Of each API a version, and a request that a healthy node answers without an error, but for Vote.
ASKED: dict[str, tuple[int, Callable[[], Any]]] = {
    "ApiVersions": (
        3,
        lambda: k.ApiVersionsRequest(client_software_name="tests", client_software_version="1"),
    ),
    "CreateTopics": (
        7,
        lambda: k.CreateTopicsRequest(
            topics=[
                k.CreateTopicsRequest.CreatableTopic(
                    name=TOPIC, num_partitions=1, replication_factor=1
                )
            ],
            timeout_ms=30_000,
        ),
    ),
    "DescribeCluster": (0, k.DescribeClusterRequest),
    "DescribeQuorum": (
        1,
        lambda: k.DescribeQuorumRequest(
            topics=[
                k.DescribeQuorumRequest.TopicData(
                    topic_name="__cluster_metadata",
                    partitions=[k.DescribeQuorumRequest.PartitionData(partition_index=0)],
                )
            ]
        ),
    ),
    "Fetch": (
        12,
        lambda: k.FetchRequest(
            max_wait_ms=100,
            topics=[
                k.FetchRequest.FetchTopic(
                    topic=TOPIC,
                    partitions=[
                        k.FetchRequest.FetchPartition(partition=0, partition_max_bytes=1 << 20)
                    ],
                )
            ],
        ),
    ),
    "InitProducerId": (4, lambda: k.InitProducerIdRequest(transaction_timeout_ms=60_000)),
    "ListGroups": (4, k.ListGroupsRequest),
    "ListOffsets": (
        7,
        lambda: k.ListOffsetsRequest(
            replica_id=-1,
            topics=[
                k.ListOffsetsRequest.ListOffsetsTopic(
                    name=TOPIC,
                    partitions=[
                        k.ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
                    ],
                )
            ],
        ),
    ),
    "Metadata": (
        12,
        lambda: k.MetadataRequest(topics=[k.MetadataRequest.MetadataRequestTopic(name=TOPIC)]),
    ),
    "Produce": (
        9,
        lambda: k.ProduceRequest(
            acks=-1,
            timeout_ms=30_000,
            topic_data=[
                k.ProduceRequest.TopicProduceData(
                    name=TOPIC,
                    partition_data=[
                        k.ProduceRequest.PartitionProduceData(
                            index=0, records=encode_batch([b"1"], timestamps=0)
                        )
                    ],
                )
            ],
        ),
    ),
    "Vote": (0, lambda: k.VoteRequest(cluster_id="another")),
}
