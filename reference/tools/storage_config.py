"""What formatting has to know of a node, out of the properties that Kafka's server would read.

A controller's file is held to all that a node of ours asks of it; a broker's, or that of both, to
what formatting needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from kraftspec.reference.node import endpoints
from kraftspec.reference.node.config import load_config
from kraftspec.reference.node.reader import Reader
from kraftspec.reference.raft.types import Endpoint

if TYPE_CHECKING:
    from pathlib import Path

CONTROLLER: Final = "controller"
_ROLES: Final = "process.roles"
_KNOWN_ROLES: Final = ("broker", CONTROLLER)
_NODE_IDS: Final = ("node.id", "broker.id")


class StorageConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A node's storage: ``log_dirs`` are all of them, sorted, ``metadata_dir`` among them.

    ``listener`` is where the quorum reaches this node: its first controller listener, as it is
    advertised; None where it has none. ``listener_name`` is that of the controllers.
    """

    node_id: int
    log_dirs: tuple[str, ...]
    metadata_dir: str
    is_controller: bool
    has_static_voters: bool
    listener_name: str
    listener: Endpoint | None = None
    allows_unstable: bool = False
    warnings: tuple[str, ...] = ()


def load_storage_config(path: Path) -> StorageConfig:
    """Read a properties file; ConfigError has all that is wrong in it, each with its line."""
    reader = Reader.open(path)
    roles = reader.words(_ROLES)
    for role in roles:
        if role not in _KNOWN_ROLES:
            reader.mistake(_ROLES, f"there is no role {role!r}: broker, controller, or both")
    if not roles:
        reader.mistake(_ROLES, "it is missing: broker, controller, or both")
    is_controller = CONTROLLER in roles
    if not reader.mistakes and roles == (CONTROLLER,):
        warnings = tuple(map(str, load_config(path).warnings))
    else:
        warnings = ()
    node_id = _node_id(reader)
    names = reader.words(endpoints.NAMES)
    if not names:
        reader.mistake(endpoints.NAMES, "it is missing: name the listener of the controllers")
    dirs = reader.words("log.dirs") if reader.has("log.dirs") else reader.words("log.dir")
    if not dirs or not all(dirs):
        reader.mistake("log.dirs", "it is empty: name a directory")
    metadata_dir = reader.text("metadata.log.dir") or next(iter(dirs), "")
    listener = _listener(reader, names) if is_controller and names else None
    voters = endpoints.read_voters(reader, "")
    if len(voters) and is_controller and node_id not in voters:
        reader.mistake(endpoints.VOTERS, f"this node, {node_id}, is not in it")
    reader.refuse()
    return StorageConfig(
        node_id=node_id,
        log_dirs=tuple(sorted({*dirs, metadata_dir})),
        metadata_dir=metadata_dir,
        is_controller=is_controller,
        has_static_voters=bool(len(voters)),
        listener_name=names[0].upper(),
        listener=listener,
        allows_unstable=reader.flag("unstable.feature.versions.enable"),
        warnings=warnings,
    )


def _node_id(reader: Reader) -> int:
    for key in _NODE_IDS:
        if reader.has(key):
            node_id = reader.integer(key)
            if node_id < 0:
                reader.mistake(key, f"{node_id} is out of range: at least 0")
            return node_id
    reader.mistake(_NODE_IDS[0], "it is missing: every node of a cluster has a number of its own")
    return -1


def _listener(reader: Reader, names: tuple[str, ...]) -> Endpoint | None:
    addresses = endpoints.read_addresses(reader, endpoints.LISTENERS)
    protocols = endpoints.read_protocols(reader, addresses)
    reached = endpoints.advertised(reader, addresses, protocols)
    address = reached.get(names[0].upper())
    if address is None:
        reader.mistake(endpoints.NAMES, f"the listener {names[0]} is not in listeners")
        return None
    return Endpoint(*address)
