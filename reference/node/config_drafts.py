"""A node's configuration by the properties that the drafts have.

KIP-853 and KIP-996 were written for Kafka's controllers, whose file theirs is. KIP-595 is older:
brokers with a ``broker.id``, one list of addresses to begin with (which may be a proxy or any
broker), and the ids of the first voters. It gives no defaults; those here are the ones of the code
that was published with it, and of KIP-580 for the longest delay between requests.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from kraftspec.reference.node import endpoints
from kraftspec.reference.node.config import (
    BROKER_ID,
    INTER_BROKER,
    NODE_ID,
    ROLES,
    load_controller,
    read_limits,
    read_listeners,
    read_log,
    read_log_dir,
)
from kraftspec.reference.node.config_security import Security
from kraftspec.reference.node.keys import Key, shown
from kraftspec.reference.node.reader import Reader, known_keys
from kraftspec.reference.node.settings import Listener, NodeConfig
from kraftspec.reference.raft.config import MS, Config
from kraftspec.reference.raft.types import DraftEndpoint, Endpoint, Node, ReplicaKey, Voter
from kraftspec.reference.raft.voters import VoterSet

KIP_595: Final = "kip-595"
KIP_853: Final = "kip-853"
KIP_996: Final = "kip-996"
SERVERS: Final = "bootstrap.servers"
VOTERS: Final = "quorum.voters"
IGNORED_595: Final = "it has no effect on this node, which keeps the quorum's log and no other"
AUTO_JOIN: Final = "controller.quorum.auto.join.enable"


def _ms(default_ms: int, least: int = 1) -> Key:
    return Key(type="INT", default=str(default_ms), min=least)


KEYS_595: Final = {
    SERVERS: Key(type="LIST", default="", unique=True),
    VOTERS: Key(type="LIST", default="", unique=True),
    "quorum.fetch.timeout.ms": _ms(15_000),
    "quorum.election.timeout.ms": _ms(5_000),
    "quorum.election.backoff.max.ms": _ms(5_000, 0),
    "quorum.request.timeout.ms": _ms(20_000),
    "quorum.retry.backoff.ms": _ms(100, 0),
    "quorum.retry.backoff.max.ms": _ms(1_000, 0),
    BROKER_ID: Key(type="INT", required=True, min=0),
}
_LATER: Final = {
    NODE_ID: BROKER_ID,
    ROLES: "",
    endpoints.VOTERS: VOTERS,
    endpoints.SERVERS: SERVERS,
}


def _with_protocols(core: Config, listeners: Sequence[Listener]) -> Config:
    """Let endpoints that are not PLAINTEXT say so: the messages of KIP-595 and KIP-853 do."""
    numbers = {one.name: one.protocol.number for one in listeners}
    said = tuple(
        DraftEndpoint(one.name, one.host, one.port, number)
        if (number := numbers.get(one.name, 0))
        else one
        for one in core.endpoints
    )
    return msgspec.structs.replace(core, endpoints=said)


# ---- KIP-595 -----------------------------------------------------------------------------------


def load_kip_595(path: Path) -> NodeConfig:
    """Return the configuration of a broker of KIP-595 as drafted; ConfigError as ``load_config``.

    ``quorum.voters`` are ids, of voters whose addresses nobody has said yet.
    """
    reader = Reader.open(path, known_keys() | KEYS_595)
    reader.owner = KIP_595
    for key in reader.entries:
        if key in _LATER or key.startswith("controller."):
            reader.used.add(key)
            instead = f"write {_LATER[key]}" if _LATER.get(key) else "remove it"
            reader.mistake(key, f"{KIP_595} has no such property: {instead}")
    node_id = reader.integer(BROKER_ID)
    # All of a broker's listeners serve the quorum, and what nodes say to each other is said on one.
    reader.assumed[endpoints.NAMES] = ",".join(_names(reader))
    listeners, reached = read_listeners(reader)
    config = NodeConfig(
        path=str(path),
        core=_with_protocols(_core_595(reader, node_id, listeners, reached), listeners),
        log=read_log(reader),
        log_dir=read_log_dir(reader),
        listeners=listeners,
        limits=read_limits(reader),
        security=Security(reader).client_side(listeners),
        properties={key: entry.value for key, entry in reader.entries.items()},
    )
    reader.judge_rest(IGNORED_595)
    reader.refuse()
    return msgspec.structs.replace(config, warnings=reader.said_warnings())


def _names(reader: Reader) -> list[str]:
    """Return the listeners' names, that of the quorum first; the rest of them is read later."""
    words = reader.words(endpoints.LISTENERS) if reader.has(endpoints.LISTENERS) else ()
    names = [word.partition("://")[0].upper() for word in words]
    if reader.has(INTER_BROKER):
        chosen = reader.text(INTER_BROKER).upper()
        if chosen not in names:
            reader.mistake(INTER_BROKER, f"{shown(chosen)} is not in listeners")
        return [chosen, *(name for name in names if name != chosen)]
    return names or ["PLAINTEXT"]


def _core_595(
    reader: Reader,
    node_id: int,
    listeners: tuple[Listener, ...],
    reached: dict[str, endpoints.Address],
) -> Config:
    voters = _voters_595(reader)
    servers = _servers_595(reader)
    if not len(voters) and not servers and not reader.is_wrong(VOTERS, SERVERS):
        reader.mistake(
            SERVERS,
            "nothing says where the quorum is: add bootstrap.servers=host:port of its brokers, or "
            "quorum.voters=id,… where this is one of the first voters",
        )

    def us(name: str) -> int:
        return reader.integer(f"quorum.{name}.ms") * MS

    return Config(
        cluster_id="",
        node_id=node_id,
        listener_name=listeners[0].name if listeners else "PLAINTEXT",
        endpoints=tuple(Endpoint(one.name, *reached[one.name][1:]) for one in listeners),
        voters=voters,
        bootstrap_servers=servers,
        election_timeout_us=us("election.timeout"),
        fetch_timeout_us=us("fetch.timeout"),
        election_backoff_max_us=us("election.backoff.max"),
        request_timeout_us=us("request.timeout"),
        retry_backoff_us=us("retry.backoff"),
        retry_backoff_max_us=us("retry.backoff.max"),
        retention_bytes=reader.integer("metadata.max.retention.bytes"),
        retention_us=reader.integer("metadata.max.retention.ms") * MS,
    )


def _voters_595(reader: Reader) -> VoterSet:
    ids = set()
    for word in reader.words(VOTERS):
        if not re.fullmatch("[0-9]{1,10}", word) or int(word) > endpoints.NODE_ID_MAX:
            reader.mistake(
                VOTERS, f"{shown(word)} is no id of 0 to {endpoints.NODE_ID_MAX}: write 1,2,3"
            )
        else:
            ids.add(int(word))
    return VoterSet(Voter(ReplicaKey(voter_id)) for voter_id in ids)


def _servers_595(reader: Reader) -> tuple[Node, ...]:
    found: list[Node] = []
    for word in reader.words(SERVERS):
        at = endpoints.read_host_port(reader, SERVERS, word, "host:port")
        if at is not None:
            found.append(Node(endpoints.BOOTSTRAP_ID_MAX - len(found), *at))
    return tuple(found)


# ---- KIP-853 and KIP-996 -----------------------------------------------------------------------


def load_kip_853(path: Path) -> NodeConfig:
    """Return the configuration of a controller of KIP-853 as drafted: static voters, or servers."""

    def judge(reader: Reader) -> None:
        _no_auto_join(reader, KIP_853)
        if reader.words(endpoints.VOTERS) and reader.words(endpoints.SERVERS):
            reader.mistake(
                endpoints.SERVERS,
                f"{KIP_853} has it instead of {endpoints.VOTERS}: remove one of the two",
            )

    config = load_controller(path, judge)
    return msgspec.structs.replace(config, core=_with_protocols(config.core, config.listeners))


def load_kip_996(path: Path) -> NodeConfig:
    """Return the configuration of a controller of KIP-996 as drafted: static voters."""

    def judge(reader: Reader) -> None:
        _no_auto_join(reader, KIP_996)
        if reader.has(endpoints.SERVERS):
            reader.mistake(
                endpoints.SERVERS,
                f"{KIP_996} has no such property: write {endpoints.VOTERS}=id@host:port,…",
            )

    return load_controller(path, judge)


def _no_auto_join(reader: Reader, profile: str) -> None:
    if reader.flag(AUTO_JOIN):
        reader.mistake(AUTO_JOIN, f"{profile} has no such property: remove it")


LOADERS: Final = {KIP_595: load_kip_595, KIP_853: load_kip_853, KIP_996: load_kip_996}
