"""Metadata logs of random records that fit each other, for what a quiet cluster never writes."""

from __future__ import annotations

import random
from pathlib import Path

from kraftspec.fastpath import encode_batch
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.types import Uuid
from kraftspec.generated import kafka

SEGMENT = "00000000000000000000.log"
VERSIONS = {"PartitionRecord": 2, "PartitionChangeRecord": 2, "RegisterBrokerRecord": 4,
            "BrokerRegistrationChangeRecord": 3}  # fmt: skip


def frame(record: Message) -> bytes:
    """A record as the metadata log holds it."""
    version = VERSIONS.get(type(record).__name__, max(record.VALID_VERSIONS))
    assert record.API_KEY is not None
    return bytes([1, record.API_KEY, version]) + record.encode(version)


def write_log(directory: Path, batches: list[list[Message]]) -> int:
    """Write a segment of batches; return the offset after its last record."""
    offset, written = 0, []
    for records in batches:
        values = [frame(record) for record in records]
        written.append(
            encode_batch(
                values, timestamps=1000 + offset, base_offset=offset, partition_leader_epoch=1
            )
        )
        offset += len(records)
    (directory / SEGMENT).write_bytes(b"".join(written))
    return offset


class Writer:
    """Draws records that a controller could write now."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.topics: dict[Uuid, str] = {}
        self.partitions: list[tuple[Uuid, int]] = []
        self.brokers: dict[int, int] = {}
        self.acls: list[Uuid] = []
        self.tokens: list[str] = []
        self.epoch = 100

    def uuid(self) -> Uuid:
        return Uuid(self.random.randbytes(16))

    def brokers_drawn(self) -> tuple[int, ...]:
        return tuple(self.random.sample(range(1, 6), 3))

    def directories(self) -> tuple[Uuid, ...]:
        return tuple(self.uuid() for _ in range(3))

    def topic(self) -> list[Message]:
        topic_id, name = self.uuid(), f"topic-{self.random.randrange(30)}"
        if name in self.topics.values():
            return []
        self.topics[topic_id] = name
        messages: list[Message] = [kafka.TopicRecord(name=name, topic_id=topic_id)]
        for number in range(self.random.randrange(1, 4)):
            self.partitions.append((topic_id, number))
            replicas = self.brokers_drawn()
            messages.append(
                kafka.PartitionRecord(
                    partition_id=number, topic_id=topic_id, replicas=replicas, isr=replicas[:2],
                    leader=replicas[0], leader_epoch=0, partition_epoch=0,
                    directories=self.directories(),
                    eligible_leader_replicas=self.random.choice([None, (), replicas[2:]]),
                )
            )  # fmt: skip
        if self.random.random() < 0.5:
            messages += self.config(2, name)
        return messages

    def remove_topic(self) -> list[Message]:
        if not self.topics:
            return []
        topic_id = self.random.choice(list(self.topics))
        del self.topics[topic_id]
        self.partitions = [each for each in self.partitions if each[0] != topic_id]
        return [kafka.RemoveTopicRecord(topic_id=topic_id)]

    def change(self) -> list[Message]:
        if not self.partitions:
            return []
        topic_id, number = self.random.choice(self.partitions)
        record = kafka.PartitionChangeRecord(partition_id=number, topic_id=topic_id)
        draw = self.random.random
        record.isr = self.brokers_drawn()[:1] if draw() < 0.5 else None
        record.leader = self.random.choice([-2, -2, -1, 1, 2, 3])
        if draw() < 0.3:
            record.replicas, record.directories = self.brokers_drawn(), self.directories()
        record.removing_replicas = self.random.choice([None, None, (), (1,)])
        record.adding_replicas = self.random.choice([None, None, (), (2,)])
        record.leader_recovery_state = self.random.choice([-1, -1, 0, 1])
        record.eligible_leader_replicas = self.random.choice([None, None, (), (3, 4)])
        record.last_known_elr = self.random.choice([None, None, (), (5,)])
        return [record]

    def clear_elr(self) -> list[Message]:
        names = ["", *self.topics.values()]
        return [kafka.ClearElrRecord(topic_name=self.random.choice(names))]

    def register(self) -> list[Message]:
        broker, self.epoch = self.random.randrange(1, 6), self.epoch + 1
        self.brokers[broker] = self.epoch
        cls = kafka.RegisterBrokerRecord
        listener = cls.BrokerEndpoint(name="A", host="h", port=65535, security_protocol=0)
        feature = cls.BrokerFeature(name="f", min_supported_version=0, max_supported_version=2)
        return [
            cls(
                broker_id=broker, broker_epoch=self.epoch, incarnation_id=self.uuid(),
                end_points=[listener], features=[feature],
                rack=self.random.choice([None, "rack"]), fenced=self.random.random() < 0.5,
                in_controlled_shutdown=self.random.random() < 0.2, log_dirs=self.directories(),
            )
        ]  # fmt: skip

    def broker_news(self) -> list[Message]:
        if not self.brokers:
            return []
        broker = self.random.choice(list(self.brokers))
        epoch = self.brokers[broker]
        kind = self.random.randrange(8)
        if kind == 0:
            return [kafka.FenceBrokerRecord(id=broker, epoch=epoch)]
        if kind == 1:
            return [kafka.UnfenceBrokerRecord(id=broker, epoch=epoch)]
        if kind == 2:
            del self.brokers[broker]
            return [kafka.UnregisterBrokerRecord(broker_id=broker, broker_epoch=epoch)]
        record = kafka.BrokerRegistrationChangeRecord(broker_id=broker, broker_epoch=epoch)
        record.fenced = self.random.choice([-1, 0, 1])
        record.in_controlled_shutdown = self.random.choice([0, 0, 1])
        record.log_dirs = self.random.choice([(), self.directories()])
        record.cordoned_log_dirs = self.random.choice([None, (), self.directories()[:1]])
        return [record]

    def config(self, kind: int | None = None, name: str | None = None) -> list[Message]:
        value = self.random.choice([None, "", "1", "2"])
        kind = self.random.choice([2, 4]) if kind is None else kind
        if name is None:
            names = list(self.topics.values()) if kind == 2 else ["", "1", "2"]
            name = self.random.choice(names or ["none"])
        key = self.random.choice(["retention.ms", "cleanup.policy"])
        return [kafka.ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)]

    def quota(self) -> list[Message]:
        cls = kafka.ClientQuotaRecord
        entity = [cls.EntityData(entity_type="user", entity_name=self.random.choice([None, "a"]))]
        if self.random.random() < 0.5:
            entity.append(cls.EntityData(entity_type="client-id", entity_name="b"))
        key = self.random.choice(["producer_byte_rate", "consumer_byte_rate"])
        remove = self.random.random() < 0.3
        return [cls(entity=entity, key=key, value=self.random.random(), remove=remove)]

    def acl(self) -> list[Message]:
        if self.acls and self.random.random() < 0.4:
            return [kafka.RemoveAccessControlEntryRecord(id=self.acls.pop())]
        self.acls.append(self.uuid())
        return [
            kafka.AccessControlEntryRecord(
                id=self.acls[-1], resource_type=self.random.choice([2, 3]),
                resource_name=f"r{len(self.acls)}", pattern_type=self.random.choice([3, 4]),
                principal="User:a", host="*", operation=self.random.choice([3, 4]),
                permission_type=self.random.choice([2, 3]),
            )
        ]  # fmt: skip

    def secret(self) -> list[Message]:
        user, kind = self.random.choice("abc"), self.random.choice([1, 2])
        if self.random.random() < 0.3:
            return [kafka.RemoveUserScramCredentialRecord(name=user, mechanism=kind)]
        return [
            kafka.UserScramCredentialRecord(
                name=user, mechanism=kind, salt=b"s", stored_key=b"k", server_key=b"v",
                iterations=4096 + self.random.randrange(9),
            )
        ]  # fmt: skip

    def token(self) -> list[Message]:
        if self.tokens and self.random.random() < 0.4:
            return [kafka.RemoveDelegationTokenRecord(token_id=self.tokens.pop())]
        self.tokens.append(f"token-{self.random.random()}")
        return [
            kafka.DelegationTokenRecord(
                owner="User:a", requester="User:b", renewers=("User:c",), issue_timestamp=1,
                max_timestamp=3, expiration_timestamp=self.random.randrange(9),
                token_id=self.tokens[-1],
            )
        ]  # fmt: skip

    def other(self) -> list[Message]:
        self.epoch += 1
        return self.random.choice(
            [
                [kafka.NoOpRecord()],
                [kafka.FeatureLevelRecord(name="group.version", feature_level=self.epoch % 2)],
                [kafka.ProducerIdsRecord(broker_id=1, next_producer_id=self.epoch * 1000)],
                [kafka.RegisterControllerRecord(controller_id=self.epoch % 3)],
            ]
        )

    def draw(self) -> list[Message]:
        kinds = [
            self.topic, self.topic, self.remove_topic, self.change, self.change, self.clear_elr,
            self.register, self.broker_news, self.broker_news, self.config, self.config, self.quota,
            self.acl, self.secret, self.token, self.other,
        ]  # fmt: skip
        return self.random.choice(kinds)()

    def batches(self, count: int) -> list[list[Message]]:
        """Batches of records, some of them in transactions that are committed or aborted."""
        features = {"metadata.version": 30, "eligible.leader.replicas.version": 1}
        batches_: list[list[Message]] = [
            [kafka.FeatureLevelRecord(name=key, feature_level=features[key])] for key in features
        ]
        while len(batches_) < count:
            if self.random.random() < 0.2:
                batches_.append(
                    [*self.draw(), kafka.BeginTransactionRecord(name="work"), *self.draw()]
                )
                batches_.append([*self.draw(), *self.draw(), kafka.EndTransactionRecord()])
            if self.random.random() < 0.1:
                batches_.append([kafka.BeginTransactionRecord(name="vain"), *self.in_vain()])
                # Alone in its batch, because of KS-2026-08.
                batches_.append([kafka.AbortTransactionRecord(reason="why not")])
            if batch := self.draw() + self.draw():
                batches_.append(batch)
        batches_.append([*self.draw(), kafka.BeginTransactionRecord(name="open"), *self.in_vain()])
        return batches_

    def in_vain(self) -> list[Message]:
        """Records of a transaction that will not have been."""
        topic_id = self.uuid()
        partition = kafka.PartitionRecord(
            partition_id=0, topic_id=topic_id, replicas=(1,), isr=(1,), leader=1, leader_epoch=0,
            partition_epoch=0, directories=(self.uuid(),),
        )  # fmt: skip
        gone = [kafka.RemoveTopicRecord(topic_id=each) for each in list(self.topics)[:1]]
        return [kafka.TopicRecord(name="in-vain", topic_id=topic_id), partition, *gone]
