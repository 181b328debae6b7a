"""An image as a tree of named nodes: those of Apache Kafka's shell, and ``/quorum`` beside them.

::

    /image/topics/byName/NAME/0     a partition; beside the partitions are id and name
    /image/topics/byId/ID/...       the same by topic id
    /image/cluster/brokers/1        /image/cluster/controllers/3001
    /image/configs/TOPIC:NAME/KEY   /image/features/metadataVersion
    /image/acls/byId/ID             /image/clientQuotas/user(ann)/KEY
    /image/scram/MECHANISM/USER     /image/delegationToken/ID
    /image/producerIds              /image/provenance
    /quorum/...                     what control records say
    /local/version, /local/commitId

A node is made when it is asked for: the tree of a large image costs nothing.

Sources: ``org.apache.kafka.image.node``, ``org.apache.kafka.shell.node``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kraftspec.fastpath.message import Message
from kraftspec.fastpath.types import Uuid
from kraftspec.generated import kafka
from kraftspec.reference.metadata.features import METADATA_VERSION, NAMES
from kraftspec.reference.metadata.image import MetadataImage, QuotaEntity
from kraftspec.reference.metadata.names import (
    CONFIG_RESOURCES,
    MECHANISMS,
)
from kraftspec.reference.profiles.common.admin import LogVoters
from kraftspec.reference.tools.shell import text
from kraftspec.reference.tools.shell.load import Loaded

DEFAULT_ENTITY: Final = "<default>"
# In the order in which an entity's parts are named.
_ENTITY_TYPES: Final = {"client-id": "clientId", "ip": "ip", "user": "user"}
_FINALIZED: Final = "finalized_"
_UNKNOWN_MECHANISM: Final = 0
_NO_PRODUCER_IDS: Final = -1
_UNKNOWN_COMMIT: Final = "unknown"
_NUMBER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")


class Leaf:
    """A node with contents: ``text`` for people, ``value`` for JSON."""

    def __init__(self, text: str, value: Any = None) -> None:
        self.text = text
        self.value = text if value is None else value


class Directory:
    """A node with children, which are made when they are asked for."""

    def __init__(
        self, names: Callable[[], Iterable[str]], find: Callable[[str], Node | None]
    ) -> None:
        self._names = names
        self.child = find

    def names(self) -> list[str]:
        """Return the children's names, sorted as Java sorts them."""
        return sorted(self._names(), key=text.java_order)


Node = Leaf | Directory


def _fixed(children: Mapping[str, Callable[[], Node]]) -> Directory:
    def find(name: str) -> Node | None:
        make = children.get(name)
        return None if make is None else make()

    return Directory(lambda: children, find)


def _mapped(things: Mapping[str, Any], make: Callable[[Any], Node]) -> Directory:
    def find(name: str) -> Node | None:
        return make(things[name]) if name in things else None

    return Directory(lambda: things, find)


def _json(record: Message) -> Any:
    return record.to_json(record.VALID_VERSIONS[-1])


def _number(name: str) -> int | None:
    """Return the number that a name is the usual form of."""
    return int(name) if _NUMBER.fullmatch(name) else None


def _numbered(things: Mapping[int, Any], make: Callable[[Any], Node]) -> Directory:
    def find(name: str) -> Node | None:
        number = _number(name)
        return None if number is None or number not in things else make(things[number])

    return Directory(lambda: map(str, things), find)


def _by_uuid(things: Mapping[Uuid, Any], make: Callable[[Any], Node]) -> Directory:
    def find(name: str) -> Node | None:
        try:
            uuid = Uuid.parse(name)
        except ValueError:
            return None
        return make(things[uuid]) if uuid in things else None

    return Directory(lambda: map(str, things), find)


def root_of(loaded: Loaded, version: str) -> Directory:
    """Return the root of what was loaded; ``version`` is that of the program."""
    return _fixed(
        {
            "image": lambda: _image(loaded.image),
            "local": lambda: _fixed(
                {"version": lambda: Leaf(version), "commitId": lambda: Leaf(_UNKNOWN_COMMIT)}
            ),
            "quorum": lambda: _quorum(loaded),
        }
    )


def _image(image: MetadataImage) -> Directory:
    def provenance() -> Leaf:
        offset = image.end_offset - 1
        value = {"offset": offset, "epoch": image.epoch, "timestampMs": image.timestamp}
        return Leaf(text.provenance(offset, image.epoch, image.timestamp), value)

    return _fixed(
        {
            "acls": lambda: _fixed({"byId": lambda: _by_uuid(image.acls, _acl)}),
            "clientQuotas": lambda: _quotas(image),
            "cluster": lambda: _fixed(
                {
                    "brokers": lambda: _numbered(image.brokers, _broker),
                    "controllers": lambda: _numbered(image.controllers, _controller),
                }
            ),
            "configs": lambda: _configs(image),
            "delegationToken": lambda: _mapped(image.delegation_tokens, _token),
            "features": lambda: _features(image),
            "producerIds": lambda: _fixed({"nextProducerId": lambda: _next_producer_id(image)}),
            "provenance": provenance,
            "scram": lambda: _scram(image),
            "topics": lambda: _topics(image),
        }
    )


def _acl(record: kafka.AccessControlEntryRecord) -> Leaf:
    return Leaf(text.acl(record), _json(record))


def _broker(record: kafka.RegisterBrokerRecord) -> Leaf:
    return Leaf(text.broker(record), _json(record))


def _controller(record: kafka.RegisterControllerRecord) -> Leaf:
    return Leaf(text.controller(record), _json(record))


def _token(record: kafka.DelegationTokenRecord) -> Leaf:
    return Leaf(text.token(record), _json(record))


def _next_producer_id(image: MetadataImage) -> Leaf:
    ids = image.producer_ids
    number = _NO_PRODUCER_IDS if ids is None else ids.next_producer_id
    return Leaf(str(number), number)


def _topics(image: MetadataImage) -> Directory:
    def topic(topic_id: Uuid) -> Directory:
        partitions = image.partitions[topic_id]
        fixed = {"id": lambda: Leaf(str(topic_id)), "name": lambda: Leaf(image.topic(topic_id))}
        numbered = _numbered(partitions, _partition)

        def find(name: str) -> Node | None:
            return fixed[name]() if name in fixed else numbered.child(name)

        return Directory(lambda: [*fixed, *map(str, partitions)], find)

    by_id = {topic_id: topic_id for topic_id in image.topics}
    return _fixed(
        {
            "byId": lambda: _by_uuid(by_id, topic),
            "byName": lambda: _mapped(image.topic_ids, topic),
        }
    )


def _partition(record: kafka.PartitionRecord) -> Leaf:
    return Leaf(text.partition(record), _json(record))


def _configs(image: MetadataImage) -> Directory:
    """Resources by type and name; the name of a cluster's default is empty, and not shown."""
    resources: dict[str, dict[str, kafka.ConfigRecord]] = {}
    for (kind, name), values in image.configs.items():
        type_name = CONFIG_RESOURCES.get(kind, f"UNKNOWN({kind})")
        resources[f"{type_name}:{name}" if name else type_name] = values
    return _mapped(
        resources, lambda values: _mapped(values, lambda record: Leaf(record.value or ""))
    )


def _features(image: MetadataImage) -> Directory:
    levels = {name: record.feature_level for name, record in image.features.items()}
    metadata_version = levels.pop(METADATA_VERSION, None)
    children: dict[str, Callable[[], Node]] = {
        f"{_FINALIZED}{name}": _leaf_of(level) for name, level in levels.items()
    }
    shown = text.metadata_version(metadata_version)
    value = {"featureLevel": metadata_version, "version": NAMES.get(metadata_version or 0)}
    children["metadataVersion"] = lambda: Leaf(shown, value)
    return _fixed(children)


def _scram(image: MetadataImage) -> Directory:
    def users(mechanism: int) -> Directory:
        records = {
            name: record
            for (name, number), record in image.scram_credentials.items()
            if number == mechanism
        }
        return _mapped(records, lambda record: Leaf(text.scram(record), _json(record)))

    known = {
        name: mechanism for mechanism, name in MECHANISMS.items() if mechanism != _UNKNOWN_MECHANISM
    }
    return _mapped(known, users)


def entity_name(entity: QuotaEntity) -> str:
    r"""Return how an entity of quotas is named: ``clientId(app)_user(<default>)``.

    A backslash stands before backslashes and parentheses of a name, and before a real name that
    is ``<default>``. (Kafka's shell leaves a default out: there, ``user(ann)`` with every client id
    has the name of ``user(ann)`` alone, and what it holds cannot be reached.)
    """
    values = dict(entity)
    parts = [
        f"{shown}({_escaped(values[kind])})"
        for kind, shown in _ENTITY_TYPES.items()
        if kind in values
    ]
    others = [f"{kind}({_escaped(value)})" for kind, value in entity if kind not in _ENTITY_TYPES]
    return "_".join(parts + others)


def _escaped(value: str | None) -> str:
    if value is None:
        return DEFAULT_ENTITY
    if value == DEFAULT_ENTITY:
        return f"\\{DEFAULT_ENTITY}"
    return value.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def _quotas(image: MetadataImage) -> Directory:
    entities: dict[str, dict[str, float]] = {}
    for (entity, key), record in image.client_quotas.items():
        entities.setdefault(entity_name(entity), {})[key] = record.value
    return _mapped(
        entities,
        lambda values: _mapped(values, lambda value: Leaf(text.double(value), value)),
    )


def _quorum(loaded: Loaded) -> Directory:
    """What control records say, which Kafka's shell passes over, and where it was read."""
    image, control = loaded.image, loaded.control
    children: dict[str, Callable[[], Node]] = {
        "leaderChanges": lambda: _numbered(control.leader_changes, _leader_change),
        "log": lambda: _log(loaded),
    }
    if loaded.draft is None:
        children["kraftVersion"] = lambda: Leaf(str(image.kraft_version), image.kraft_version)
        children["voters"] = lambda: _numbered({it.voter_id: it for it in image.voters}, _voter)
    else:
        children |= _draft(loaded.draft)
    if control.leader is not None:
        leader = control.leader
        children["leader"] = lambda: _leader_change(leader)
    if loaded.state is not None:
        state = loaded.state
        children["state"] = lambda: _leaves(state)
    if loaded.checkpoint is not None:
        children["snapshot"] = lambda: _snapshot(loaded)
    return _fixed(children)


def _draft(draft: LogVoters) -> dict[str, Callable[[], Node]]:
    """What the control records of a draft say beside leader changes."""
    children: dict[str, Callable[[], Node]] = {
        "profile": lambda: Leaf(draft.profile, draft.profile),
        "voters": lambda: _numbered(draft.voters, _leaves),
    }
    if draft.cluster_id:
        children["clusterId"] = lambda: Leaf(draft.cluster_id, draft.cluster_id)
    if draft.target_voters is not None:
        children["targetVoters"] = _leaf_of(draft.target_voters)
    return children


def _leader_change(change: tuple[int, int, kafka.LeaderChangeMessage]) -> Directory:
    offset, epoch, message = change
    leaves = {
        "id": message.leader_id,
        "epoch": epoch,
        "offset": offset,
        "voters": [one.voter_id for one in message.voters],
        "grantingVoters": [one.voter_id for one in message.granting_voters],
    }
    return _leaves(leaves)


def _voter(voter: kafka.VotersRecord.Voter) -> Leaf:
    return Leaf(text.voter(voter), _json(kafka.VotersRecord(voters=[voter]))["voters"][0])


def _snapshot(loaded: Loaded) -> Directory:
    assert loaded.checkpoint is not None
    header, footer = loaded.control.header, loaded.control.footer
    leaves: dict[str, Any] = {
        "endOffset": loaded.checkpoint.base_offset,
        "epoch": loaded.checkpoint.epoch,
        "file": loaded.checkpoint.path,
        "records": loaded.control.snapshot_records,
    }
    children = {name: _leaf_of(value) for name, value in leaves.items()}
    if header is not None:
        shown = text.instant(header.last_contained_log_timestamp)
        value = _json(header)
        children["header"] = lambda: Leaf(
            f"SnapshotHeader(version={header.version}, lastContainedLogTime={shown})", value
        )
    if footer is not None:
        children["footer"] = lambda: Leaf(
            f"SnapshotFooter(version={footer.version})", _json(footer)
        )
    return _fixed(children)


def _log(loaded: Loaded) -> Directory:
    leaves: dict[str, Any] = {
        "endOffset": loaded.image.end_offset,
        "epoch": loaded.image.epoch,
        "files": loaded.files,
    }
    if loaded.image.transaction is not None:
        leaves["openTransaction"] = loaded.image.transaction
    return _leaves(leaves)


def _leaves(values: Mapping[str, Any]) -> Directory:
    return _fixed({name: _leaf_of(value) for name, value in values.items()})


def _leaf_of(value: Any) -> Callable[[], Node]:
    if isinstance(value, list):
        shown = (
            "{" + ", ".join(f"{name}={part}" for name, part in each.items()) + "}"
            if isinstance(each, dict)
            else each
            for each in value
        )
        listed = text.list_of(shown)
        return lambda: Leaf(listed, value)
    return lambda: Leaf("null" if value is None else str(value), value)
