"""A node's configuration out of Kafka's own controller properties.

``load_config`` reads the file that Kafka's ``kafka-server-start`` would read. Whatever is wrong in
it is told at once, each mistake with its line. Properties of brokers are taken and have no effect,
which is a warning; so have names that nobody knows, unless they nearly are ones that Kafka defines.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from kraftspec.reference.log.metadata_log import LogConfig
from kraftspec.reference.node import endpoints
from kraftspec.reference.node.config_security import Security
from kraftspec.reference.node.keys import shown
from kraftspec.reference.node.reader import Reader, did_you_mean
from kraftspec.reference.node.settings import Limits, Listener, NodeConfig, Protocol
from kraftspec.reference.profiles import KAFKA, parts_of
from kraftspec.reference.raft.config import MS, Config
from kraftspec.reference.raft.types import Endpoint, Node
from kraftspec.reference.raft.voters import VoterSet

ROLES: Final = "process.roles"
NODE_ID: Final = "node.id"
BROKER_ID: Final = "broker.id"
SEGMENT_BYTES: Final = "metadata.log.segment.bytes"
SMALL_SEGMENT_BYTES: Final = "internal.metadata.log.segment.bytes"
PER_IP: Final = "max.connections.per.ip"
PER_IP_OVERRIDES: Final = "max.connections.per.ip.overrides"
IDLE_MS: Final = "connections.max.idle.ms"
DELAY_MS: Final = "connection.failed.authentication.delay.ms"
QUEUED_BYTES: Final = "queued.max.request.bytes"
REQUEST_BYTES: Final = "socket.request.max.bytes"
INTER_BROKER: Final = "inter.broker.listener.name"
EARLY_START: Final = "early.start.listeners"
PROVIDERS: Final = "config.providers"
IGNORED: Final = "it has no effect on this node, which is a controller without a broker"
IGNORED_OF_BROKER: Final = "it has no effect on this node, which only observes the quorum"


def load_config(path: str | Path, profile: str = KAFKA) -> NodeConfig:
    """Return the configuration in a properties file, with warnings about what has no effect.

    ``profile`` says whose properties they are. Opens nothing but the file. Raises ConfigError, with
    all that is wrong.
    """
    return parts_of(profile).node.load_config(Path(path))


def load_controller(
    path: Path,
    judge: Callable[[Reader], None] = lambda reader: None,
    *,
    may_be_broker: bool = False,
) -> NodeConfig:
    """Return the configuration of a controller; ``judge`` notes what else is wrong in its file.

    Where it may be a broker, too, that one observes: it has a broker's listeners, and the first of
    ``controller.listener.names`` is that of the controllers which it fetches from.
    """
    reader = Reader.open(path)
    is_broker = may_be_broker and reader.words(ROLES) == ("broker",)
    if not is_broker:
        _check_roles(reader)
    judge(reader)
    node_id = _node_id(reader)
    listeners, reached = read_listeners(reader, is_broker=is_broker)
    config = NodeConfig(
        path=str(path),
        core=_core(reader, node_id, listeners, reached, is_broker=is_broker),
        log=read_log(reader),
        log_dir=read_log_dir(reader),
        listeners=listeners,
        limits=read_limits(reader),
        security=Security(reader).client_side(
            listeners, _controllers_listener(reader) if is_broker else None
        ),
        snapshot_bytes=reader.integer("metadata.log.max.record.bytes.between.snapshots"),
        snapshot_ms=reader.integer("metadata.log.max.snapshot.interval.ms"),
        idle_ms=reader.integer("metadata.max.idle.interval.ms"),
        properties={key: entry.value for key, entry in reader.entries.items()},
    )
    reader.judge_rest(IGNORED_OF_BROKER if is_broker else IGNORED)
    reader.refuse()
    return msgspec.structs.replace(config, warnings=reader.said_warnings())


def _check_roles(reader: Reader) -> None:
    roles = reader.words(ROLES)
    if "broker" in roles:
        reader.mistake(ROLES, "this node is a controller and never a broker: write controller")
    if reader.words(PROVIDERS):
        reader.mistake(PROVIDERS, "values are not fetched from elsewhere: write them in this file")


def _node_id(reader: Reader) -> int:
    """``broker.id`` is another name of ``node.id``; both must say the same."""
    if reader.has(BROKER_ID) and not reader.has(NODE_ID):
        node_id = reader.integer(BROKER_ID)
        if node_id < 0:
            reader.mistake(BROKER_ID, f"{node_id} is out of range: it must be at least 0")
        return node_id
    node_id = reader.integer(NODE_ID)
    if reader.has(BROKER_ID) and reader.integer(BROKER_ID) != node_id:
        reader.mistake(BROKER_ID, f"it is not node.id, which is {node_id}: remove it")
    return node_id


# ---- listeners and the quorum ------------------------------------------------------------------


def read_listeners(
    reader: Reader, *, is_broker: bool = False
) -> tuple[tuple[Listener, ...], dict[str, endpoints.Address]]:
    """Return the listeners in the order of controller.listener.names, and where they are found.

    Those of a broker are others, in the order of ``listeners``.
    """
    addresses = endpoints.read_addresses(reader, endpoints.LISTENERS)
    if not reader.has(endpoints.LISTENERS):
        reader.mistake(
            endpoints.LISTENERS,
            "it is missing, and Kafka's default is a broker's listener: add "
            "listeners=CONTROLLER://host:port",
        )
    endpoints.check_ports(reader, addresses)
    protocols = endpoints.read_protocols(reader, addresses)
    if not reader.is_wrong(endpoints.LISTENERS, endpoints.NAMES):  # Else names are missing anyway.
        endpoints.check_names(reader, addresses, protocols, is_broker=is_broker)
    reached = endpoints.advertised(reader, addresses, protocols)
    if endpoints.NAMES not in reader.assumed:
        _check_other_names(reader, [address.name for address in addresses], set(protocols))
    security = Security(reader)
    by_name = {address.name: address for address in addresses}
    listeners = []
    for name in by_name if is_broker else reader.words(endpoints.NAMES):
        address = by_name.get(name)
        if address is None or name not in protocols:
            continue
        listener = Listener(
            name=name,
            host="" if address.host == "0.0.0.0" else address.host,
            port=address.port,
            advertised_host=reached[name].host,
            advertised_port=reached[name].port,
            protocol=protocols[name],
        )
        listeners.append(security.server_side(listener))
    return tuple(listeners), reached


def _controllers_listener(reader: Reader) -> Listener | None:
    """Return the listener of the controllers that a broker connects to."""
    protocols = endpoints.read_protocols(
        reader, endpoints.read_addresses(reader, endpoints.LISTENERS)
    )
    for name in reader.words(endpoints.NAMES)[:1]:
        protocol = protocols.get(name, Protocol.PLAINTEXT)
        return Listener(
            name=name, host="", port=0, advertised_host="", advertised_port=0, protocol=protocol
        )
    return None


def _check_other_names(reader: Reader, names: list[str], protocols: set[str]) -> None:
    for name in reader.words(EARLY_START):
        if name not in names and name not in reader.words(endpoints.NAMES):
            close = did_you_mean(name, names)
            reader.mistake(EARLY_START, f"{shown(name)} is not in listeners{close}")
    if not reader.has(INTER_BROKER):
        return
    name = reader.text(INTER_BROKER).upper()
    if name in reader.words(endpoints.NAMES):
        reader.mistake(INTER_BROKER, f"{name} is a controller's listener: remove this property")
    elif name not in protocols:
        known = did_you_mean(name, protocols)
        reader.mistake(INTER_BROKER, f"{shown(name)} is in no protocol map{known}")


def _core(
    reader: Reader,
    node_id: int,
    listeners: tuple[Listener, ...],
    reached: dict[str, endpoints.Address],
    *,
    is_broker: bool,
) -> Config:
    listener = next(iter(reader.words(endpoints.NAMES)), "CONTROLLER")
    voters, servers = _quorum(reader, node_id, listener, is_broker=is_broker)

    def us(name: str) -> int:
        return reader.integer(f"controller.quorum.{name}.ms") * MS

    return Config(
        cluster_id="",
        node_id=node_id,
        listener_name=listener,
        endpoints=tuple(Endpoint(one.name, *reached[one.name][1:]) for one in listeners),
        voters=voters,
        bootstrap_servers=servers,
        can_become_voter=not is_broker,
        auto_join=reader.flag("controller.quorum.auto.join.enable"),
        election_timeout_us=us("election.timeout"),
        fetch_timeout_us=us("fetch.timeout"),
        election_backoff_max_us=us("election.backoff.max"),
        request_timeout_us=us("request.timeout"),
        retry_backoff_us=us("retry.backoff"),
        append_linger_us=us("append.linger"),
        fetch_max_bytes=reader.integer("controller.quorum.fetch.max.bytes"),
        fetch_snapshot_max_bytes=reader.integer("controller.quorum.fetch.snapshot.max.bytes"),
        retention_bytes=reader.integer("metadata.max.retention.bytes"),
        retention_us=reader.integer("metadata.max.retention.ms") * MS,
    )


def _quorum(
    reader: Reader, node_id: int, listener: str, *, is_broker: bool
) -> tuple[VoterSet, tuple[Node, ...]]:
    voters = endpoints.read_voters(reader, listener)
    servers = endpoints.read_servers(reader)
    if not reader.words(endpoints.VOTERS) and not reader.words(endpoints.SERVERS):
        reader.mistake(
            endpoints.SERVERS,
            "nothing says where the quorum is: add "
            f"{endpoints.SERVERS}=host:port of its controllers (or, for a static quorum, "
            f"{endpoints.VOTERS}=id@host:port,…)",
        )
    if is_broker and node_id in voters:
        reader.mistake(endpoints.VOTERS, f"{node_id} is in it, and a broker: correct node.id")
    elif len(voters) and node_id not in voters and not is_broker:
        reader.mistake(
            endpoints.VOTERS,
            f"this node, {node_id}, is not in it: correct node.id, or add {node_id}@host:port",
        )
    for key in ("election.timeout", "fetch.timeout", "request.timeout"):
        name = f"controller.quorum.{key}.ms"
        if reader.integer(name) == 0:
            reader.mistake(name, "0 leaves no time at all: write at least 1")
    return voters, servers


# ---- the log, and limits -----------------------------------------------------------------------


def read_log_dir(reader: Reader) -> str:
    """``metadata.log.dir``, else the first of ``log.dirs``, else of ``log.dir``."""
    dirs = reader.words("log.dir")
    if reader.has("log.dirs"):
        dirs = reader.words("log.dirs")
        if reader.has("log.dir"):
            reader.warn("log.dir", "log.dirs is set, and counts instead")
    key = "metadata.log.dir"
    if not reader.has(key):
        if len(dirs) > 1:
            reader.warn("log.dirs", f"only the first, {shown(dirs[0])}, is used: it has no broker")
        return dirs[0] if dirs else ""
    directory = reader.text(key)
    if not directory:
        reader.mistake(key, "it is empty: name a directory, or remove it")
    for other in ("log.dirs", "log.dir"):
        if reader.has(other):
            reader.warn(other, f"{key} is set, and counts instead")
    return directory


def read_log(reader: Reader) -> LogConfig:
    """Return when the log begins a new segment."""
    segment_bytes = reader.integer(SEGMENT_BYTES)
    if reader.has(SMALL_SEGMENT_BYTES):
        segment_bytes = reader.integer(SMALL_SEGMENT_BYTES)
        if segment_bytes <= 0:
            reader.mistake(SMALL_SEGMENT_BYTES, f"{segment_bytes} is out of range: at least 1")
    segment_ms = reader.integer("metadata.log.segment.ms")
    if segment_ms <= 0:
        reader.mistake("metadata.log.segment.ms", f"{segment_ms} is out of range: at least 1")
    return LogConfig(segment_bytes=segment_bytes, segment_ms=segment_ms)


def read_limits(reader: Reader) -> Limits:
    """Return what a peer may cost this node."""
    limits = Limits(
        request_bytes_max=reader.integer(REQUEST_BYTES),
        connections_max=reader.integer("max.connections"),
        connections_per_ip_max=reader.integer(PER_IP),
        connections_per_ip_overrides=_overrides(reader),
        connections_per_second_max=reader.integer("max.connection.creation.rate"),
        idle_ms_max=reader.integer(IDLE_MS),
        queued_requests_max=reader.integer("queued.max.requests"),
        queued_bytes_max=reader.integer(QUEUED_BYTES),
        backlog=reader.integer("socket.listen.backlog.size"),
        send_buffer_bytes=reader.integer("socket.send.buffer.bytes"),
        receive_buffer_bytes=reader.integer("socket.receive.buffer.bytes"),
        failed_authentication_delay_ms=reader.integer(DELAY_MS),
        connect_ms=reader.integer("socket.connection.setup.timeout.ms"),
        connect_ms_max=reader.integer("socket.connection.setup.timeout.max.ms"),
    )
    if 0 < limits.queued_bytes_max < limits.request_bytes_max:
        reader.mistake(
            QUEUED_BYTES, f"it is less than {REQUEST_BYTES}, which is {limits.request_bytes_max}"
        )
    if limits.connections_per_ip_max == 0 and not limits.connections_per_ip_overrides:
        reader.mistake(PER_IP, f"0 lets nobody in: add {PER_IP_OVERRIDES}, or raise it")
    if 0 <= limits.idle_ms_max <= limits.failed_authentication_delay_ms:
        reader.mistake(
            IDLE_MS, f"it must be more than {DELAY_MS}, {limits.failed_authentication_delay_ms}"
        )
    return limits


def _overrides(reader: Reader) -> dict[str, int]:
    overrides: dict[str, int] = {}
    for word in filter(None, re.split(r"\s*,\s*", reader.text(PER_IP_OVERRIDES))):
        host, colon, count = (part.strip() for part in word.rpartition(":"))
        if not colon or not host or not re.fullmatch("[0-9]{1,9}", count):
            reader.mistake(PER_IP_OVERRIDES, f"{shown(word)} is no entry: write host:count")
        else:
            overrides[host] = int(count)
    return overrides
