"""The Python workload: kafka-python as several releases of Kafka knew it, and aiokafka.

Arguments: the addresses of brokers, of their SASL listener and of controllers, and the parts to
run: ``aiokafka``, or ``kafka-python-2.1`` for a client held to a release.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Callable
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ConfigResourceType,
    MemberToRemove,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.errors import KafkaError, UnsupportedVersionError
from kafka.structs import OffsetAndMetadata

POLL_MS = 300
POLLS_MAX = 400
RECORD_COUNT = 12
COMPRESSIONS = (None, "gzip", "snappy", "lz4", "zstd")
OF_KAFKA_PYTHON = (None, "gzip", "lz4", "gzip", "lz4")  # The others need more packages.
PREFIX = "kafka-python-"


class Work:
    """One release's share; ``failures`` are steps that did not do what they were written to do."""

    def __init__(self, brokers: list[str], release: str) -> None:
        self.brokers = brokers
        self.release = release
        self.failures: list[str] = []
        self.topic = self.name("records")
        self.version = tuple(map(int, release.split(".")))

    def name(self, kind: str) -> str:
        """Return a name of this release's own."""
        return f"py-{self.release}-{kind}"

    def settings(self, **more: Any) -> dict[str, Any]:
        """Return the configuration that all clients share."""
        held = {"api_version": self.version} if self.version < (4, 0) else {}
        return (
            {
                "bootstrap_servers": self.brokers,
                "client_id": self.name("client"),
                "request_timeout_ms": 60_000,
            }
            | held
            | more
        )

    def step(self, what: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Do one thing. What the cluster answers is what this is about, be it an error."""
        try:
            return what(*arguments, **options)
        except (KafkaError, UnsupportedVersionError, NotImplementedError):
            return None
        except Exception as error:  # A program of many steps goes on, and tells in the end.
            self.failures.append(f"{getattr(what, '__name__', what)}: {error!r}")
            return None


def main() -> None:
    """Run the parts that are asked for; exit code 1 where a step failed."""
    brokers, _, _, *parts = sys.argv[1:]
    failed = False
    for part in parts:
        print(f"phase {part}", flush=True)
        try:
            if part == "aiokafka":
                failures = asyncio.run(_aiokafka(brokers.split(",")))
            else:
                failures = _kafka_python(Work(brokers.split(","), part.removeprefix(PREFIX)))
        except Exception as error:  # The other parts are not to blame.
            traceback.print_exc()
            failures = [repr(error)]
        for failure in failures:
            failed = True
            print(f"failed {part}: {failure}", flush=True)
    sys.exit(failed)


def _kafka_python(work: Work) -> list[str]:
    admin = KafkaAdminClient(**work.settings())
    try:
        _topics(work, admin)
        _produce(work)
        _consume(work)
        _group(work, admin)
        _transactions(work, admin)
        _configs(work, admin)
        _security(work, admin)
        _placement(work, admin)
    finally:
        admin.close()
    return work.failures


def _topics(work: Work, admin: Any) -> None:
    step = work.step
    replicas = min(2, len(work.brokers))
    topics = [NewTopic(work.topic, 3, replicas), NewTopic(work.name("small"), 1, 1)]
    admin.create_topics(topics, wait_for_metadata=True)
    compacted = NewTopic(work.name("compact"), 1, 1, topic_configs={"cleanup.policy": "compact"})
    step(admin.create_topics, [compacted])
    step(admin.create_topics, [NewTopic("py bad name", 1, 1)], validate_only=True)
    step(admin.create_topics, [NewTopic(work.name("placed"), replica_assignments={0: [1]})])
    step(admin.create_partitions, {work.name("small"): NewPartitions(2)})
    step(admin.create_partitions, {"py-absent": NewPartitions(2)})
    step(admin.list_topics)
    step(admin.describe_topics, [work.topic, "py-absent"])
    step(admin.describe_topic_partitions, [work.topic], response_partition_limit=2)
    if not (2, 8) <= work.version < (3, 7):
        step(admin.describe_cluster)  # kafka-python 3.0.12 raises KeyError at the first version.
    if work.version < (4, 0):  # Else kafka-python 3.0.12 raises ValueError for keys from 93 on.
        step(admin.api_versions)
    step(admin.describe_features)
    step(admin.describe_metadata_quorum)
    step(admin.delete_topics, [work.name("small")])
    step(admin.delete_topics, ["py-absent"])


def _produce(work: Work) -> None:
    for number, compression in enumerate(OF_KAFKA_PYTHON):
        more: dict[str, Any] = {"acks": ("all", 1, 0)[number % 3], "compression_type": compression}
        more["enable_idempotence"] = number % 3 == 0
        producer = KafkaProducer(**work.settings(**more))
        for at in range(RECORD_COUNT):
            key = None if at % 3 else f"key {at}".encode()
            value = b"value " * at if at else None
            headers = [("header", b"one"), ("empty", b"")] if at % 2 else []
            work.step(producer.send, work.topic, value, key, headers, partition=at % 3)
        work.step(producer.flush, 15)
        work.step(producer.partitions_for, work.topic)
        producer.close()


def _poll(work: Work, consumer: Any, count: int) -> None:
    seen = polls = 0
    while seen < count and polls < POLLS_MAX:
        seen += sum(map(len, consumer.poll(timeout_ms=POLL_MS).values()))
        polls += 1
    if seen < count:
        work.failures.append(f"{seen} of {count} records came")


def _consume(work: Work) -> None:
    settings = work.settings(auto_offset_reset="earliest", enable_auto_commit=False)
    partitions = [TopicPartition(work.topic, number) for number in range(3)]
    for isolation in ("read_uncommitted", "read_committed"):
        consumer = KafkaConsumer(**settings, isolation_level=isolation, fetch_max_wait_ms=100)
        consumer.assign(partitions)
        _poll(work, consumer, RECORD_COUNT)
        work.step(consumer.beginning_offsets, partitions)
        work.step(consumer.end_offsets, partitions)
        work.step(consumer.offsets_for_times, dict.fromkeys(partitions, 1))
        consumer.seek(partitions[0], 1_000_000)
        consumer.poll(timeout_ms=POLL_MS)
        work.step(consumer.topics)
        consumer.close()


def _group(work: Work, admin: Any) -> None:
    group = work.name("group")
    more: dict[str, Any] = {"group_id": group, "heartbeat_interval_ms": 200}
    more |= {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 100}
    if work.version >= (2, 3):
        more["group_instance_id"] = "instance-1"
    consumer = KafkaConsumer(work.topic, **work.settings(**more))
    _poll(work, consumer, RECORD_COUNT)
    first = TopicPartition(work.topic, 0)
    work.step(consumer.commit)
    work.step(consumer.commit, {first: OffsetAndMetadata(2, "two are done", -1)})
    work.step(consumer.committed, first)
    consumer.poll(timeout_ms=POLL_MS)
    _describe_groups(work, admin, group)
    consumer.close()
    step = work.step
    step(admin.alter_group_offsets, group, {first: OffsetAndMetadata(1, "by hand", -1)})
    step(admin.reset_group_offsets, group, {first: OffsetSpec.EARLIEST})
    step(admin.delete_group_offsets, group, [first])
    members = [MemberToRemove(group_instance_id="instance-9", reason="gone")]
    step(admin.remove_group_members, group, members)
    step(admin.delete_groups, [group, "py-absent"])


def _describe_groups(work: Work, admin: Any, group: str) -> None:
    step = work.step
    step(admin.list_groups)
    step(admin.list_groups, states_filter=["Stable"])
    step(admin.list_groups, types_filter=["classic"])
    step(admin.describe_groups, [group, "py-absent"], include_authorized_operations=True)
    step(admin.list_group_offsets, {group: None})
    step(admin.list_group_offsets, {group: [TopicPartition(work.topic, 0)]})
    for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST, OffsetSpec.MAX_TIMESTAMP):
        step(admin.list_partition_offsets, {TopicPartition(work.topic, 0): spec})


def _transactions(work: Work, admin: Any) -> None:
    identity = work.name("transaction")
    producer = KafkaProducer(**work.settings(transactional_id=identity))
    step = work.step
    producer.init_transactions()
    for commit in (True, False):
        producer.begin_transaction()
        work.step(producer.send, work.topic, b"in a transaction", partition=1)
        offsets = {TopicPartition(work.topic, 0): OffsetAndMetadata(1, "", -1)}
        step(producer.send_offsets_to_transaction, offsets, work.name("transacted"))
        if commit:
            step(admin.list_transactions)
            step(admin.describe_transactions, [identity, "py-absent"])
        step(producer.commit_transaction if commit else producer.abort_transaction)
    producer.close()
    step(admin.describe_producers, [TopicPartition(work.topic, 1)])


def _configs(work: Work, admin: Any) -> None:
    step = work.step
    topic = ConfigResource(ConfigResourceType.TOPIC, work.topic)
    step(admin.describe_configs, [topic], include_synonyms=True)
    step(admin.describe_configs, [ConfigResource(ConfigResourceType.BROKER, "1")])
    step(admin.describe_configs, [topic], config_filter="all")
    for incremental in (False, True):
        changed = ConfigResource(ConfigResourceType.TOPIC, work.topic, {"retention.ms": "3600000"})
        step(admin.alter_configs, [changed], incremental=incremental)
        wrong = ConfigResource(ConfigResourceType.TOPIC, work.topic, {"no.such": "1"})
        step(admin.alter_configs, [wrong], raise_on_unknown=False, incremental=incremental)
    step(admin.reset_configs, [ConfigResource(ConfigResourceType.TOPIC, work.topic, {})])
    step(admin.list_config_resources)
    step(admin.update_features, {"metadata.version": (1, 99)}, validate_only=True)


def _security(work: Work, admin: Any) -> None:
    step = work.step
    acl = ACL(
        "User:py", "127.0.0.1", ACLOperation.READ, ACLPermissionType.ALLOW,
        ResourcePattern(ResourceType.TOPIC, work.topic, ACLResourcePatternType.LITERAL),
    )  # fmt: skip
    every = ACLFilter(
        None, None, ACLOperation.ANY, ACLPermissionType.ANY,
        ResourcePatternFilter(ResourceType.TOPIC, work.topic, ACLResourcePatternType.ANY),
    )  # fmt: skip
    step(admin.create_acls, [acl])
    step(admin.describe_acls, every)
    step(admin.delete_acls, [every])
    upsertion = UserScramCredentialUpsertion("py", "SCRAM-SHA-512", "captured-secret", 4096)
    step(admin.alter_user_scram_credentials, [upsertion])
    step(admin.describe_user_scram_credentials, ["py", "nobody"])
    deletion = UserScramCredentialDeletion("py", "SCRAM-SHA-512")
    step(admin.alter_user_scram_credentials, [deletion])


def _placement(work: Work, admin: Any) -> None:
    step = work.step
    first = TopicPartition(work.topic, 0)
    step(admin.describe_log_dirs)
    step(admin.alter_partition_reassignments, {first: [1, 9]})
    step(admin.list_partition_reassignments)
    step(admin.elect_leaders, 0, [first])
    step(admin.delete_records, {first: 1})


async def _aiokafka(brokers: list[str]) -> list[str]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # noqa: PLC0415 - one part's own
    from aiokafka.admin import AIOKafkaAdminClient  # noqa: PLC0415 - as above
    from aiokafka.admin import NewTopic as Topic  # noqa: PLC0415 - as above

    servers = ",".join(brokers)
    topic = "aiokafka-records"
    admin = AIOKafkaAdminClient(bootstrap_servers=servers, client_id="aiokafka-admin")
    await admin.start()
    await admin.create_topics([Topic(topic, 2, 1)])
    await admin.describe_cluster()
    await admin.list_topics()
    failures = []
    for compression in COMPRESSIONS:
        producer = AIOKafkaProducer(
            bootstrap_servers=servers, client_id="aiokafka-producer", compression_type=compression,
            transactional_id="aiokafka-tx" if compression == "zstd" else None,
        )  # fmt: skip
        async with producer:
            if compression == "zstd":
                async with producer.transaction():
                    await producer.send_and_wait(topic, b"in a transaction")
            else:
                await producer.send_and_wait(topic, b"value", b"key", headers=[("h", b"v")])
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=servers, client_id="aiokafka-consumer", group_id="aiokafka-group",
        auto_offset_reset="earliest", heartbeat_interval_ms=200,
    )  # fmt: skip
    async with consumer:
        seen = polls = 0
        while seen < len(COMPRESSIONS) and polls < POLLS_MAX:
            got = await consumer.getmany(timeout_ms=POLL_MS)
            seen += sum(map(len, got.values()))
            polls += 1
        if seen < len(COMPRESSIONS):
            failures.append(f"{seen} of {len(COMPRESSIONS)} records came")
        await consumer.commit()
        await admin.list_consumer_groups()
        await admin.describe_consumer_groups(["aiokafka-group"])
        await admin.list_consumer_group_offsets("aiokafka-group")
    await admin.close()
    return failures


if __name__ == "__main__":
    main()
