"""Both our codecs beside kio and kafka-python, in one process and over the same bytes.

Every contestant decodes bytes that ours encoded, and must give them back unchanged before it is
timed. Read the ratios within a group, on a quiet machine: absolute figures do not last.
"""

from __future__ import annotations

import gc
import importlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from kraftspec.fastpath import native
from kraftspec.fastpath.message import Message, use_codec
from kraftspec.fastpath.types import Uuid
from kraftspec.generated.kafka import FetchResponse, MetadataResponse, ProduceRequest, VoteRequest

kio_serial = pytest.importorskip("kio.serial", reason="peers: pip install kio kafka-python")

# kafka-python reads its schemas through a deprecated function of importlib.resources.
pytestmark = pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")

MIB = 1 << 20


def metadata() -> Message:
    """100 topics of 10 partitions with 3 replicas: 45 KB."""
    partition = MetadataResponse.MetadataResponsePartition
    topics = [
        MetadataResponse.MetadataResponseTopic(
            name=f"topic-{number:04d}",
            topic_id=Uuid(number.to_bytes(16, "big")),
            partitions=[
                partition(
                    partition_index=index,
                    leader_id=index % 3,
                    leader_epoch=7,
                    replica_nodes=(0, 1, 2),
                    isr_nodes=(0, 1, 2),
                )
                for index in range(10)
            ],
        )
        for number in range(1, 101)
    ]
    brokers = [
        MetadataResponse.MetadataResponseBroker(node_id=node, host=f"broker-{node}", port=9092)
        for node in range(3)
    ]
    return MetadataResponse(
        brokers=brokers, cluster_id="kraftspec-benchmark", controller_id=1, topics=topics
    )


def vote() -> Message:
    """One standard vote request, as KRaft sends it."""
    partition = VoteRequest.PartitionData(
        replica_epoch=12, replica_id=2, last_offset_epoch=11, last_offset=123456
    )
    topic = VoteRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    return VoteRequest(cluster_id="4L6g3nShT-eMCtK--X86sw", voter_id=1, topics=[topic])


def fetch() -> Message:
    """One partition with a megabyte of records."""
    partition = FetchResponse.PartitionData(
        high_watermark=10, last_stable_offset=10, log_start_offset=0, records=bytes(MIB)
    )
    return FetchResponse(
        responses=[FetchResponse.FetchableTopicResponse(topic="topic", partitions=[partition])]
    )


def produce() -> Message:
    """One partition with 16 KiB of records."""
    partition = ProduceRequest.PartitionProduceData(records=bytes(range(256)) * (MIB >> 14))
    topic = ProduceRequest.TopicProduceData(name="topic", partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


@dataclass(frozen=True)
class Case:
    """What is encoded, and where each peer keeps its class of it."""

    make: Callable[[], Message]
    version: int
    kio: str
    kafka_python: str | None


CASES = {
    "metadata-v12-100x10": Case(
        metadata, 12, "metadata.v12.response", "kafka.protocol.metadata:MetadataResponse"
    ),
    "vote-v1": Case(vote, 1, "vote.v1.request", None),
    "fetch-v12-1MiB": Case(
        fetch, 12, "fetch.v12.response", "kafka.protocol.consumer:FetchResponse"
    ),
    "produce-v9-16KiB": Case(
        produce, 9, "produce.v9.request", "kafka.protocol.producer:ProduceRequest"
    ),
}
Pair = tuple[Callable[[], bytes], Callable[[], Any]]


@cache
def wire(name: str) -> bytes:
    """The bytes that every contestant handles."""
    return CASES[name].make().encode(CASES[name].version)


def ours(name: str) -> Pair | None:
    """The codec of ours whose turn it is: (encode, decode)."""
    data, version = wire(name), CASES[name].version
    message = CASES[name].make()
    decode = type(message).decode  # bound beforehand, as a reader of kio's is
    return lambda: message.encode(version), lambda: decode(data, version)


def kio_entity(name: str) -> Any:
    """kio's class of a case."""
    case = CASES[name]
    return getattr(importlib.import_module(f"kio.schema.{case.kio}"), type(case.make()).__name__)


def kio(name: str) -> Pair | None:
    """kio: dataclasses, decoded by its native reader."""
    data, entity = wire(name), kio_entity(name)
    read, write = kio_serial.entity_reader(entity), kio_serial.entity_writer(entity)
    value, _ = read(data, 0)

    def encode() -> bytes:
        out = io.BytesIO()
        write(out, value)
        return out.getvalue()

    return encode, lambda: read(data, 0)


def kafka_python(name: str) -> Pair | None:
    """kafka-python: codecs compiled at run time."""
    case, data = CASES[name], wire(name)
    if case.kafka_python is None:
        return None
    module, entity = case.kafka_python.split(":")
    cls = getattr(importlib.import_module(module), entity)
    value = cls.decode(data, version=case.version)
    value._header = None  # a decoded message lacks it, and encode reads it
    return (
        lambda: bytes(value.encode(version=case.version)),
        lambda: cls.decode(data, version=case.version),
    )


class Pieces(list[Any]):
    """A sink that only collects what it is given, as a writer of ``sendmsg`` would."""

    write = list.append


def our_parts(name: str) -> Callable[[], Any]:
    """Ours, in pieces."""
    message, version = CASES[name].make(), CASES[name].version
    return lambda: message.encode_parts(version)


def kio_parts(name: str) -> Callable[[], Any]:
    """kio, which hands a megabyte to its stream as it is."""
    entity = kio_entity(name)
    write = kio_serial.entity_writer(entity)
    value, _ = kio_serial.entity_reader(entity)(wire(name), 0)

    def encode() -> Any:
        pieces = Pieces()
        write(pieces, value)
        return pieces

    return encode


CONTESTANTS = {
    "kraftspec": ours,
    "kraftspec-python": ours,
    "kio": kio,
    "kafka-python": kafka_python,
}
if native.load("_engine") is None:
    del CONTESTANTS["kraftspec"]
RUNS = [
    (case, who)
    for case in CASES
    for who in CONTESTANTS
    if who != "kafka-python" or CASES[case].kafka_python
]
MANY_OBJECTS = "metadata-v12-100x10"


@pytest.fixture
def who(request: pytest.FixtureRequest) -> Iterator[str]:
    """The contestant; the pure codec has the messages while it is its turn."""
    chosen: str = request.param
    if chosen == "kraftspec-python":
        use_codec("python")
    yield chosen
    if "kraftspec" in CONTESTANTS:
        use_codec("native")


def contestant(case: str, who: str) -> Pair:
    """The pair of a contestant, after it has shown that it gives the same bytes."""
    pair = CONTESTANTS[who](case)
    assert pair is not None
    assert pair[0]() == wire(case)
    return pair


def named(benchmark: Any, group: str, case: str, who: str) -> None:
    """Say what is measured."""
    benchmark.group = f"{group} {case}"
    benchmark.extra_info.update(who=who, bytes=len(wire(case)))


@pytest.mark.parametrize(("case", "who"), RUNS, indirect=["who"])
def test_encode(benchmark: Any, case: str, who: str) -> None:
    """Value to bytes."""
    named(benchmark, "encode", case, who)
    assert benchmark(contestant(case, who)[0]) == wire(case)


@pytest.mark.parametrize(("case", "who"), RUNS, indirect=["who"])
def test_decode(benchmark: Any, case: str, who: str) -> None:
    """Bytes to value, the cyclic collector on as in any program."""
    named(benchmark, "decode", case, who)
    assert gc.isenabled()
    assert benchmark(contestant(case, who)[1]) is not None


@pytest.mark.parametrize("who", CONTESTANTS, indirect=True)
def test_decode_without_the_collector(benchmark: Any, who: str) -> None:
    """The same with the collector off, for those whose objects it would walk."""
    named(benchmark, "decode", MANY_OBJECTS, who)
    benchmark.group += " gc off"
    decode = contestant(MANY_OBJECTS, who)[1]
    gc.disable()
    try:
        assert benchmark(decode) is not None
    finally:
        gc.enable()


PARTS = {"kraftspec": our_parts, "kraftspec-python": our_parts, "kio": kio_parts}


@pytest.mark.parametrize("who", [who for who in PARTS if who in CONTESTANTS], indirect=True)
def test_encode_parts(benchmark: Any, who: str) -> None:
    """Value to pieces, the megabyte of records uncopied on both sides."""
    case = "fetch-v12-1MiB"
    named(benchmark, "encode parts", case, who)
    encode = PARTS[who](case)
    assert max(map(len, encode())) == MIB
    assert b"".join(benchmark(encode)) == wire(case)
