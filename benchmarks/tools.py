"""A metadata log as a busy cluster writes it, and the commands that dump it: ours, and Kafka's."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

from kraftspec.conformance.cluster.artifacts import TOOLS_RELEASE, class_path
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.types import Uuid
from kraftspec.generated.kafka import (
    ConfigRecord,
    LeaderChangeMessage,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from kraftspec.reference.log import LocalFiles, MetadataLog
from kraftspec.reference.log.control import control_value

OURS = "kraftspec"
KAFKA = "Kafka, as its script starts it"
TIMEOUT_S = 1_800.0
TIME_MS = 1_700_000_000_000
TOPICS_A_BATCH = 20
PARTITIONS = 12
CHANGES = 4
BROKERS = range(1, 10)
# As kafka-dump-log.sh starts Java.
_JAVA = (
    "java", "-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
)  # fmt: skip


def _framed(record: Message, version: int) -> bytes:
    assert record.API_KEY is not None
    return bytes([1, record.API_KEY, version]) + record.encode(version)


def write_log(directory: Path, size: int) -> Path:
    """Write topics, configs, partitions and their changes until there are ``size`` bytes.

    Returns the one segment that there is; the same bytes each time.
    """
    rng = random.Random(7)
    log = MetadataLog.open(str(directory), LocalFiles())
    log.append_control(1, [control_value(LeaderChangeMessage(leader_id=1))], TIME_MS)
    directories = [Uuid(rng.randbytes(16)) for _ in BROKERS]
    written = topics = batches = 0
    while written < size:
        values = []
        for topics in range(topics + 1, topics + 1 + TOPICS_A_BATCH):  # noqa: B020 - goes on
            values += _topic(rng, f"orders-{topics:06d}", directories)
        batches += 1
        written += len(log.append_records(1, values, TIME_MS + 500 * batches).data)
    log.flush()
    log.close()
    return directory / f"{0:020d}.log"


def _topic(rng: random.Random, name: str, directories: list[Uuid]) -> list[bytes]:
    topic_id = Uuid(rng.randbytes(16))
    values = [_framed(TopicRecord(name=name, topic_id=topic_id), 0)]
    for key, value in (("retention.ms", "604800000"), ("cleanup.policy", "delete")):
        record = ConfigRecord(resource_type=2, resource_name=name, name=key, value=value)
        values.append(_framed(record, 0))
    for partition in range(PARTITIONS):
        replicas = tuple(rng.sample(BROKERS, 3))
        partition_record = PartitionRecord(
            partition_id=partition,
            topic_id=topic_id,
            replicas=replicas,
            isr=replicas,
            leader=replicas[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=tuple(directories[each - 1] for each in replicas),
        )
        values.append(_framed(partition_record, 1))
    for partition in range(CHANGES):
        change = PartitionChangeRecord(
            partition_id=partition, topic_id=topic_id, isr=(1, 2), leader=2
        )
        values.append(_framed(change, 1))
    values.append(_framed(NoOpRecord(), 0))
    return values


def dump_command(who: str, segment: Path) -> list[str]:
    """Return the whole command that dumps a segment of the metadata log."""
    arguments = ["--cluster-metadata-decoder", "--files", str(segment)]
    if who == OURS:
        return [sys.executable, "-m", "kraftspec", "dump-log", *arguments]
    jars = os.pathsep.join(map(str, class_path(TOOLS_RELEASE)))
    return [*_JAVA, "-cp", jars, "org.apache.kafka.tools.DumpLogSegments", *arguments]


def dump_s(who: str, segment: Path) -> float:
    """Return how long the command takes (s); what it says goes nowhere."""
    start = time.perf_counter()
    subprocess.run(
        dump_command(who, segment), stdout=subprocess.DEVNULL, timeout=TIMEOUT_S, check=True
    )
    return time.perf_counter() - start


def dump_text(who: str, segment: Path) -> str:
    """Return what the command says."""
    command = dump_command(who, segment)
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    assert not done.stderr
    return done.stdout
