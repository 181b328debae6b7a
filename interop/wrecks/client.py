"""Topics and their records, by one request each through brokers on loopback."""

from __future__ import annotations

import time
from collections.abc import Sequence

from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.batch_writer import encode_batch
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.walk import iterate_headers
from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from kraftspec.interop.ours import wait_until
from kraftspec.reference.wire.blocking import ask

Records = dict[str, list[list[str]]]  # Topic to partitions to values.

ALL_REPLICAS = -1
TIMEOUT_MS = 30_000
TIMEOUT_S = 40.0
FETCH_BYTES = 1 << 20


class NotDoneError(Exception):
    """A broker refused; it may be too early."""


def create_topic(port: int, name: str, partitions: int, replicas: int) -> None:
    """Create a topic through a broker; NotDoneError if that refuses.

    A topic that exists is no error: the broker asks the controller again when it is slow.
    """
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replicas
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
    answer = ask(port, request, 7, CreateTopicsResponse, timeout_s=TIMEOUT_S).topics[0]
    if answer.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        raise NotDoneError(f"{name}: {answer.error_code} {answer.error_message}")


def leaders(port: int, names: Sequence[str] | None = None) -> dict[str, list[int]]:
    """Return the ports of the leaders of topics' partitions; NotDoneError if one has none.

    Without ``names`` of all topics but internal ones.
    """
    topics = None
    if names is not None:
        topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    answer = ask(port, request, 12, MetadataResponse)
    ports = {broker.node_id: broker.port for broker in answer.brokers}
    by_topic = {}
    for topic in answer.topics:
        by_index = sorted(topic.partitions, key=lambda partition: partition.partition_index)
        if topic.error_code or any(one.leader_id not in ports for one in by_index):
            raise NotDoneError(f"{topic.name} has no leader")
        if not topic.is_internal:
            by_topic[topic.name or ""] = [ports[one.leader_id] for one in by_index]
    return by_topic


def append(port: int, name: str, partition: int, values: Sequence[str]) -> None:
    """Append records to a partition through any broker, as soon as the partition has a leader.

    A broker that does not answer is asked again: the records may then be there twice.
    """

    def is_appended() -> bool:
        try:
            produce(leaders(port, [name])[name][partition], name, partition, values)
        except (NotDoneError, OSError, CodecError):
            return False
        return True

    wait_until(f"{name}-{partition} takes records", is_appended)


def produce(port: int, name: str, partition: int, values: Sequence[str]) -> None:
    """Append records to a partition whose leader is at ``port``; all replicas have them then."""
    batch = encode_batch([value.encode() for value in values], timestamps=int(time.time() * 1000))
    data = ProduceRequest.PartitionProduceData(index=partition, records=batch)
    topic = ProduceRequest.TopicProduceData(name=name, partition_data=[data])
    request = ProduceRequest(acks=ALL_REPLICAS, timeout_ms=TIMEOUT_MS, topic_data=[topic])
    answer = ask(port, request, 9, ProduceResponse, timeout_s=TIMEOUT_S)
    code = answer.responses[0].partition_responses[0].error_code
    if code:
        raise NotDoneError(f"{name}-{partition}: {code}")


def fetch(port: int, name: str, partition: int) -> list[str]:
    """Return the values of all records of a partition whose leader is at ``port``."""
    wanted = FetchRequest.FetchPartition(partition=partition, partition_max_bytes=FETCH_BYTES)
    topic = FetchRequest.FetchTopic(topic=name, partitions=[wanted])
    request = FetchRequest(topics=[topic], max_bytes=FETCH_BYTES)
    answer = ask(port, request, 12, FetchResponse)
    part = answer.responses[0].partitions[0]
    if answer.error_code or part.error_code:
        raise NotDoneError(f"{name}-{partition}: {answer.error_code} {part.error_code}")
    data = bytes(part.records or b"")
    return [
        bytes(record.value or b"").decode()
        for header in iterate_headers(data)
        for record in decode_batch(data[header.position : header.end], 0)
    ]


def read_topics(port: int, names: Sequence[str]) -> Records:
    """Return the records of topics as their leaders have them; NotDoneError if one has none."""
    return {
        name: [fetch(at, name, partition) for partition, at in enumerate(ports)]
        for name, ports in leaders(port, names).items()
    }


def missing(wanted: Records, present: Records) -> list[str]:
    """Return what of ``wanted`` is not in ``found``, in words."""
    lines = []
    for name, partitions in wanted.items():
        if name not in present:
            lines.append(f"topic {name} is gone")
            continue
        for number, values in enumerate(partitions):
            have = present[name][number] if number < len(present[name]) else []
            if len(have) < len(values):
                lines.append(f"{name}-{number} has {len(have)} of {len(values)} records")
            elif have[: len(values)] != values:
                lines.append(f"{name}-{number} begins with other records")
    return lines
