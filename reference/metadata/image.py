"""The metadata image: what the records of a cluster's metadata log add up to.

The state is kept in the records themselves, each as Kafka would write it into a snapshot now.
Source of the rules: ``org.apache.kafka.image.MetadataDelta`` and what it hands records on to,
``org.apache.kafka.metadata.PartitionRegistration.merge``, and for transactions (KIP-868)
``org.apache.kafka.image.loader.MetadataBatchLoader``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from kraftspec.fastpath.message import Message
from kraftspec.fastpath.types import Uuid
from kraftspec.generated import kafka

NO_LEADER_CHANGE: Final = -2
NO_RECOVERY_CHANGE: Final = -1
FENCE: Final = 1
UNFENCE: Final = -1
IN_CONTROLLED_SHUTDOWN: Final = 1
TOPIC_RESOURCE: Final = 2  # org.apache.kafka.common.config.ConfigResource.Type
_ALL_TOPICS: Final = ""

QuotaEntity = tuple[tuple[str, str | None], ...]


class ImageError(ValueError):
    """A record that does not fit what was before it."""


class MetadataImage:
    """The state of a cluster; ``replay`` adds a record. ``tables`` of ``metadata.tables`` shows it.

    ``end_offset`` is the offset after the last record replayed, ``epoch`` and ``timestamp``
    (milliseconds) are that record's. ``transaction`` is the name of one that has begun and not
    ended: its records are not in the image. The leader is None as long as no record names it: those
    of a checkpoint do not.
    """

    def __init__(self) -> None:
        self.end_offset = 0
        self.epoch = -1
        self.timestamp = -1
        self.leader_id: int | None = None
        self.leader_epoch: int | None = None
        self.kraft_version = 0
        self.transaction: str | None = None
        self._before_transaction = (0, -1, -1)
        self.topics: dict[Uuid, kafka.TopicRecord] = {}
        self.topic_ids: dict[str, Uuid] = {}
        self.partitions: dict[Uuid, dict[int, kafka.PartitionRecord]] = {}
        self.brokers: dict[int, kafka.RegisterBrokerRecord] = {}
        self.controllers: dict[int, kafka.RegisterControllerRecord] = {}
        self.configs: dict[tuple[int, str], dict[str, kafka.ConfigRecord]] = {}
        self.features: dict[str, kafka.FeatureLevelRecord] = {}
        self.client_quotas: dict[tuple[QuotaEntity, str], kafka.ClientQuotaRecord] = {}
        self.acls: dict[Uuid, kafka.AccessControlEntryRecord] = {}
        self.scram_credentials: dict[tuple[str, int], kafka.UserScramCredentialRecord] = {}
        self.producer_ids: kafka.ProducerIdsRecord | None = None
        self.delegation_tokens: dict[str, kafka.DelegationTokenRecord] = {}
        self.voters: list[kafka.VotersRecord.Voter] = []
        self._pending: list[Message] = []

    def replay(self, record: Message, offset: int, epoch: int, timestamp: int) -> None:
        """Add a record of the log; ImageError when it does not fit what was before it.

        Control records count at once. Data records of a metadata transaction count when it ends.
        """
        before = self.end_offset, self.epoch, self.timestamp
        self.end_offset, self.epoch, self.timestamp = offset + 1, epoch, timestamp
        match record:
            case kafka.LeaderChangeMessage():
                self.leader_id, self.leader_epoch = record.leader_id, epoch
            case kafka.KRaftVersionRecord():
                self.kraft_version = record.k_raft_version
            case kafka.VotersRecord():
                self.voters = record.voters
            case kafka.BeginTransactionRecord():
                if self.transaction is not None:
                    raise ImageError(f"a transaction begins within {self.transaction!r}")
                self.transaction = record.name or ""
                self._before_transaction = before
            case kafka.EndTransactionRecord() | kafka.AbortTransactionRecord():
                if self.transaction is None:
                    raise ImageError("a transaction ends that did not begin")
                pending, self._pending, self.transaction = self._pending, [], None
                if isinstance(record, kafka.EndTransactionRecord):
                    for one in pending:
                        self.apply(one)
            case _ if self.transaction is not None:
                self._pending.append(record)
            case _:
                self.apply(record)

    @property
    def settled(self) -> tuple[int, int, int]:
        """Up to where all counts: ``end_offset``, ``epoch`` and ``timestamp`` of that moment.

        They are those before a transaction that has not ended, if there is one.
        """
        if self.transaction is not None:
            return self._before_transaction
        return self.end_offset, self.epoch, self.timestamp

    def apply(self, record: Message) -> None:
        """Add a data record, of whatever transaction; ImageError as ``replay`` has it."""
        how = _RULES.get(type(record))
        if how is not None:
            how(self, record)

    def topic(self, topic_id: Uuid) -> str:
        """Return the name of a topic."""
        try:
            return self.topics[topic_id].name
        except KeyError:
            raise ImageError(f"there is no topic with id {topic_id}") from None

    def partition(self, topic_id: Uuid, number: int) -> kafka.PartitionRecord:
        """Return a partition."""
        name = self.topic(topic_id)
        try:
            return self.partitions[topic_id][number]
        except KeyError:
            raise ImageError(f"topic {name} has no partition {number}") from None

    def broker(self, broker_id: int, epoch: int) -> kafka.RegisterBrokerRecord:
        """Return a broker that is registered at an epoch."""
        broker = self.brokers.get(broker_id)
        if broker is None or broker.broker_epoch != epoch:
            known = "is not registered" if broker is None else f"has epoch {broker.broker_epoch}"
            raise ImageError(f"broker {broker_id} of epoch {epoch} is meant, and {known}")
        return broker


def _topic(image: MetadataImage, record: kafka.TopicRecord) -> None:
    image.topics[Uuid(record.topic_id)] = record
    image.topic_ids[record.name] = Uuid(record.topic_id)
    image.partitions[Uuid(record.topic_id)] = {}


def _remove_topic(image: MetadataImage, record: kafka.RemoveTopicRecord) -> None:
    name = image.topic(record.topic_id)
    del image.topics[record.topic_id], image.partitions[record.topic_id]
    # A topic of the same name may have been made before this one was removed.
    if image.topic_ids[name] == record.topic_id:
        del image.topic_ids[name]
    image.configs.pop((TOPIC_RESOURCE, name), None)


def _partition(image: MetadataImage, record: kafka.PartitionRecord) -> None:
    image.topic(record.topic_id)
    # Null in a change says that there is none; a partition's own lists are empty instead.
    record.eligible_leader_replicas = record.eligible_leader_replicas or ()
    record.last_known_elr = record.last_known_elr or ()
    image.partitions[record.topic_id][record.partition_id] = record


def _partition_change(image: MetadataImage, record: kafka.PartitionChangeRecord) -> None:
    """What the change leaves out stays. Each change is an epoch, and each election a leader's."""
    partition = image.partition(record.topic_id, record.partition_id)
    for name in (
        "isr", "replicas", "removing_replicas", "adding_replicas", "directories",
        "eligible_leader_replicas", "last_known_elr",
    ):  # fmt: skip
        if (value := getattr(record, name)) is not None:
            setattr(partition, name, value)
    if record.leader != NO_LEADER_CHANGE:
        partition.leader = record.leader
        partition.leader_epoch += 1
    if record.leader_recovery_state != NO_RECOVERY_CHANGE:
        partition.leader_recovery_state = record.leader_recovery_state
    partition.partition_epoch += 1


def _clear_elr(image: MetadataImage, record: kafka.ClearElrRecord) -> None:
    """A topic without name is all topics; a partition that has no ELR is not touched."""
    if record.topic_name == _ALL_TOPICS:
        topics = list(image.topics)
    elif record.topic_name in image.topic_ids:
        topics = [image.topic_ids[record.topic_name]]
    else:
        raise ImageError(f"there is no topic {record.topic_name}")
    for topic_id in topics:
        for partition in image.partitions[topic_id].values():
            if partition.eligible_leader_replicas or partition.last_known_elr:
                partition.eligible_leader_replicas = partition.last_known_elr = ()
                partition.partition_epoch += 1


def _register_broker(image: MetadataImage, record: kafka.RegisterBrokerRecord) -> None:
    image.brokers[record.broker_id] = record


def _unregister_broker(image: MetadataImage, record: kafka.UnregisterBrokerRecord) -> None:
    image.broker(record.broker_id, record.broker_epoch)
    del image.brokers[record.broker_id]


def _fence(image: MetadataImage, record: kafka.FenceBrokerRecord) -> None:
    image.broker(record.id, record.epoch).fenced = True


def _unfence(image: MetadataImage, record: kafka.UnfenceBrokerRecord) -> None:
    image.broker(record.id, record.epoch).fenced = False


def _broker_change(image: MetadataImage, record: kafka.BrokerRegistrationChangeRecord) -> None:
    broker = image.broker(record.broker_id, record.broker_epoch)
    if record.fenced in (FENCE, UNFENCE):
        broker.fenced = record.fenced == FENCE
    if record.in_controlled_shutdown == IN_CONTROLLED_SHUTDOWN:
        broker.in_controlled_shutdown = True
    if record.log_dirs:
        broker.log_dirs = record.log_dirs
    if record.cordoned_log_dirs is not None:
        broker.cordoned_log_dirs = record.cordoned_log_dirs


def _register_controller(image: MetadataImage, record: kafka.RegisterControllerRecord) -> None:
    image.controllers[record.controller_id] = record


def _unregister_controller(image: MetadataImage, record: kafka.UnregisterControllerRecord) -> None:
    image.controllers.pop(record.controller_id, None)


def _config(image: MetadataImage, record: kafka.ConfigRecord) -> None:
    resource = record.resource_type, record.resource_name
    values = image.configs.setdefault(resource, {})
    if record.value is None:
        values.pop(record.name, None)
    else:
        values[record.name] = record
    if not values:
        del image.configs[resource]


def _feature(image: MetadataImage, record: kafka.FeatureLevelRecord) -> None:
    if record.feature_level:
        image.features[record.name] = record
    else:
        image.features.pop(record.name, None)


def _client_quota(image: MetadataImage, record: kafka.ClientQuotaRecord) -> None:
    entity = tuple(sorted((part.entity_type, part.entity_name) for part in record.entity))
    if record.remove:
        image.client_quotas.pop((entity, record.key), None)
    else:
        image.client_quotas[entity, record.key] = record


def _acl(image: MetadataImage, record: kafka.AccessControlEntryRecord) -> None:
    image.acls[Uuid(record.id)] = record


def _remove_acl(image: MetadataImage, record: kafka.RemoveAccessControlEntryRecord) -> None:
    if image.acls.pop(Uuid(record.id), None) is None:
        raise ImageError(f"there is no ACL with id {record.id}")


def _scram(image: MetadataImage, record: kafka.UserScramCredentialRecord) -> None:
    image.scram_credentials[record.name, record.mechanism] = record


def _remove_scram(image: MetadataImage, record: kafka.RemoveUserScramCredentialRecord) -> None:
    image.scram_credentials.pop((record.name, record.mechanism), None)


def _producer_ids(image: MetadataImage, record: kafka.ProducerIdsRecord) -> None:
    image.producer_ids = record


def _token(image: MetadataImage, record: kafka.DelegationTokenRecord) -> None:
    image.delegation_tokens[record.token_id] = record


def _remove_token(image: MetadataImage, record: kafka.RemoveDelegationTokenRecord) -> None:
    image.delegation_tokens.pop(record.token_id, None)


# Records that are not here change nothing: NoOpRecord, and ZkMigrationStateRecord since Kafka 4.
_RULES: Final[dict[type[msgspec.Struct], Callable[[MetadataImage, Any], None]]] = {
    kafka.TopicRecord: _topic,
    kafka.RemoveTopicRecord: _remove_topic,
    kafka.PartitionRecord: _partition,
    kafka.PartitionChangeRecord: _partition_change,
    kafka.ClearElrRecord: _clear_elr,
    kafka.RegisterBrokerRecord: _register_broker,
    kafka.UnregisterBrokerRecord: _unregister_broker,
    kafka.FenceBrokerRecord: _fence,
    kafka.UnfenceBrokerRecord: _unfence,
    kafka.BrokerRegistrationChangeRecord: _broker_change,
    kafka.RegisterControllerRecord: _register_controller,
    kafka.UnregisterControllerRecord: _unregister_controller,
    kafka.ConfigRecord: _config,
    kafka.FeatureLevelRecord: _feature,
    kafka.ClientQuotaRecord: _client_quota,
    kafka.AccessControlEntryRecord: _acl,
    kafka.RemoveAccessControlEntryRecord: _remove_acl,
    kafka.UserScramCredentialRecord: _scram,
    kafka.RemoveUserScramCredentialRecord: _remove_scram,
    kafka.ProducerIdsRecord: _producer_ids,
    kafka.DelegationTokenRecord: _token,
    kafka.RemoveDelegationTokenRecord: _remove_token,
}
