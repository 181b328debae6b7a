"""Metadata and Fetch, as clients in JavaScript have them: requests written, responses read.

The TypeScript codecs and the clients are programs of their own (``peers/node``), which measure each
group after our Python codec has. Fetch responses have no records: the clients would read those,
too. @platformatic/kafka has flexible versions only, kafkajs only those before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from kraftspec.fastpath.message import Message
from kraftspec.fastpath.types import Uuid
from kraftspec.generated.kafka import (
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
)

TOPICS = [f"topic-{number:04d}" for number in range(100)]
PARTITIONS = range(10)
UUID_SINCE = 10  # The version of Metadata that brought topic ids.
LEADER_EPOCH_SINCE = 7


def metadata(version: int) -> Message:
    topics = [
        MetadataResponse.MetadataResponseTopic(
            name=name,
            topic_id=Uuid(name.encode().rjust(16)) if version >= UUID_SINCE else Uuid(),
            partitions=[
                MetadataResponse.MetadataResponsePartition(
                    partition_index=index,
                    leader_id=index % 3,
                    leader_epoch=7 if version >= LEADER_EPOCH_SINCE else -1,
                    replica_nodes=(0, 1, 2),
                    isr_nodes=(0, 1, 2),
                )
                for index in PARTITIONS
            ],
        )
        for name in TOPICS
    ]
    brokers = [
        MetadataResponse.MetadataResponseBroker(node_id=node, host=f"broker-{node}", port=9092)
        for node in range(3)
    ]
    return MetadataResponse(brokers=brokers, cluster_id="kraftspec", controller_id=1, topics=topics)


def metadata_request(_: int) -> Message:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in TOPICS]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def fetch(_: int) -> Message:
    partitions = [
        FetchResponse.PartitionData(
            partition_index=index,
            high_watermark=1_000_000_007 + index,
            last_stable_offset=1_000_000_007 + index,
            log_start_offset=1000,
            aborted_transactions=[],
            records=b"",
        )
        for index in PARTITIONS
    ]
    topics = [
        FetchResponse.FetchableTopicResponse(topic=name, partitions=partitions) for name in TOPICS
    ]
    return FetchResponse(session_id=7, responses=topics)


def fetch_request(_: int) -> Message:
    partitions = [
        FetchRequest.FetchPartition(
            partition=index,
            current_leader_epoch=5,
            fetch_offset=1_000_000_007 + index,
            partition_max_bytes=1 << 20,
        )
        for index in PARTITIONS
    ]
    topics = [FetchRequest.FetchTopic(topic=name, partitions=partitions) for name in TOPICS]
    return FetchRequest(
        replica_id=-1, max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, session_id=7,
        session_epoch=1, topics=topics,
    )  # fmt: skip


CASES: dict[str, tuple[str, Callable[[int], Message], int]] = {
    "metadata-v12-100x10": ("decode", metadata, 12),
    "metadata-v6-100x10": ("decode", metadata, 6),
    "fetch-v12-100x10": ("decode", fetch, 12),
    "fetch-v11-100x10": ("decode", fetch, 11),
    "metadatarequest-v12-100": ("encode", metadata_request, 12),
    "metadatarequest-v6-100": ("encode", metadata_request, 6),
    "fetchrequest-v12-100x10": ("encode", fetch_request, 12),
    "fetchrequest-v11-100x10": ("encode", fetch_request, 11),
}


@cache
def wire(name: str) -> bytes:
    """The bytes that every contestant handles."""
    _, make, version = CASES[name]
    return make(version).encode(version)


@pytest.mark.parametrize("case", CASES)
def test_javascript(benchmark: Any, case: str) -> None:
    verb, make, version = CASES[case]
    message = make(version)
    benchmark.group = f"javascript {verb} {case}"
    benchmark.extra_info.update(who="kraftspec", bytes=len(wire(case)))
    if verb == "encode":
        assert benchmark(lambda: message.encode(version)) == wire(case)
    else:
        assert benchmark(lambda: type(message).decode(wire(case), version)) == message
