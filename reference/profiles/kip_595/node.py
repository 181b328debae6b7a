"""A node of KIP-595 as drafted: a broker, with one list of addresses to begin with.

It has a ``broker.id``, servers to ask first (which may be a proxy or any broker), and the ids of
the first voters. The draft gives no defaults; those here are the ones of the code that was
published with it, and of KIP-580 for the longest delay between requests. Its documents have one
metric more that is worth a number, voters whose connections are not known; in Kafka that is always
0, for its voter sets say where voters are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from kraftspec.reference.node import endpoints
from kraftspec.reference.node.config import (
    BROKER_ID,
    INTER_BROKER,
    NODE_ID,
    ROLES,
    read_limits,
    read_listeners,
    read_log,
    read_log_dir,
)
from kraftspec.reference.node.config_security import Security
from kraftspec.reference.node.keys import Key, shown
from kraftspec.reference.node.reader import Reader, known_keys
from kraftspec.reference.node.settings import Listener, NodeConfig
from kraftspec.reference.profiles.common.node import DraftNode, with_protocols
from kraftspec.reference.profiles.kip_595.assignment import Assignment
from kraftspec.reference.profiles.kip_595.discovery import (
    expectations,
    knows_majority,
    unknown_voters,
)
from kraftspec.reference.raft.config import MS, Config
from kraftspec.reference.raft.types import Endpoint, Node, ReplicaKey, RoleName, Voter
from kraftspec.reference.raft.voters import VoterSet
from kraftspec.reference.tools.storage import FormatRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from kraftspec.reference.profiles.common.node import Gauge, Place
    from kraftspec.reference.raft import Core

SERVERS: Final = "bootstrap.servers"
VOTERS: Final = "quorum.voters"
LISTENER: Final = "PLAINTEXT"
# The draft's own times, which are for a network, have a quorum without a leader for 15 s or more.
QUICK: Final = {
    "quorum.election.timeout.ms": "1000",
    "quorum.election.backoff.max.ms": "1000",
    "quorum.fetch.timeout.ms": "2000",
    "quorum.request.timeout.ms": "2000",
    "quorum.retry.backoff.ms": "20",
    "quorum.retry.backoff.max.ms": "500",
}
_IGNORED: Final = "it has no effect on this node, which keeps the quorum's log and no other"


def _ms(default_ms: int, least: int = 1) -> Key:
    return Key(type="INT", default=str(default_ms), min=least)


_KEYS: Final = {
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


class Kip595Node(DraftNode):
    """A broker of the draft, whose voter sets are ids."""

    addresses_in_log = False
    servers = SERVERS
    needs_cluster_id = False

    def load_config(self, path: Path) -> NodeConfig:
        """Return the configuration of a broker.

        ``quorum.voters`` are ids, of voters whose addresses nobody has said yet.
        """
        reader = Reader.open(path, known_keys() | _KEYS)
        reader.owner = self.profile.name
        for key in reader.entries:
            if key in _LATER or key.startswith("controller."):
                reader.used.add(key)
                instead = f"write {_LATER[key]}" if _LATER.get(key) else "remove it"
                reader.mistake(key, f"{reader.owner} has no such property: {instead}")
        node_id = reader.integer(BROKER_ID)
        # All of a broker's listeners serve the quorum; nodes talk to each other on one.
        reader.assumed[endpoints.NAMES] = ",".join(_names(reader))
        listeners, reached = read_listeners(reader)
        config = NodeConfig(
            path=str(path),
            core=with_protocols(_core(reader, node_id, listeners, reached), listeners),
            log=read_log(reader),
            log_dir=read_log_dir(reader),
            listeners=listeners,
            limits=read_limits(reader),
            security=Security(reader).client_side(listeners),
            properties={key: entry.value for key, entry in reader.entries.items()},
        )
        reader.judge_rest(_IGNORED)
        reader.refuse()
        return msgspec.structs.replace(config, warnings=reader.said_warnings())

    def gauges(self, core: Core) -> Iterator[Gauge]:
        """Yield how far a change of voters is."""
        voters = core.log.voters.last
        targets = voters.targets if isinstance(voters, Assignment) else None
        moves = set() if targets is None else set(targets) ^ set(voters.ids)
        away = [
            voter_id
            for voter_id in {*voters.ids, *(targets or ())} - {core.config.node_id}
            if core.node(voter_id) is None
        ]
        yield "number-of-target-voters", len(targets or ()), "0: there is no reassignment"
        yield "number-of-pending-moves", len(moves), "voters that the target adds or removes"
        yield (
            "number-unknown-voter-connections",
            len(away),
            "voters, where they are not being known",
        )

    def awaits(self, core: Core) -> str:
        """Return whom a voter waits for that may not begin a vote, once it has waited for long."""
        policy = core.policy
        patience_us = core.config.election_timeout_us
        if (
            core.role.name is not RoleName.UNATTACHED
            or not core.is_voter
            or core.now_us < core.started_us + patience_us
            or policy.may_campaign(core)
        ):
            return ""
        voters = core.log.voters.last
        names = _listed(voters.ids)
        if not knows_majority(core):
            away = _listed(unknown_voters(core))
            return (
                f"no vote yet: of the voters {names} this node needs {voters.majority}, itself "
                f"included, and has not found {away}: start them, and let {SERVERS} lead to them"
            )
        expected = expectations(core).items()
        silent = _listed(at for at, ids in expected if ids is None)
        others = [
            f"{at} {_listed(ids) or 'nobody'}"
            for at, ids in expected
            if ids is not None and ids != voters.ids
        ]
        return (
            f"no vote yet: more than half of {SERVERS} have to expect the first voters {names}; "
            f"not answered: {silent or 'none'}; expecting others: {'; '.join(others) or 'none'}"
        )

    def requests(self, places: Sequence[Place]) -> list[FormatRequest]:
        """Name no cluster id."""
        return [FormatRequest(cluster_id="")] * len(places)

    def properties(self, place: Place, places: Sequence[Place]) -> dict[str, str]:
        """Return what makes a broker one of a quorum."""
        voters = [one for one in places if one.is_voter]
        return {
            "broker.id": str(place.node_id),
            "listeners": f"{LISTENER}://{place.address}",
            "advertised.listeners": f"{LISTENER}://{place.address}",
            VOTERS: ",".join(str(one.node_id) for one in voters),
            SERVERS: ",".join(one.address for one in voters),
            **QUICK,
        }


NODE = Kip595Node


def _listed(values: Iterable[object]) -> str:
    return ",".join(map(str, values))


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


def _core(
    reader: Reader,
    node_id: int,
    listeners: tuple[Listener, ...],
    reached: dict[str, endpoints.Address],
) -> Config:
    voters = _voters(reader)
    servers = _servers(reader)
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


def _voters(reader: Reader) -> VoterSet:
    ids = set()
    for word in reader.words(VOTERS):
        if not re.fullmatch("[0-9]{1,10}", word) or int(word) > endpoints.NODE_ID_MAX:
            reader.mistake(
                VOTERS, f"{shown(word)} is no id of 0 to {endpoints.NODE_ID_MAX}: write 1,2,3"
            )
        else:
            ids.add(int(word))
    return VoterSet(Voter(ReplicaKey(voter_id)) for voter_id in ids)


def _servers(reader: Reader) -> tuple[Node, ...]:
    servers: list[Node] = []
    for word in reader.words(SERVERS):
        at = endpoints.read_host_port(reader, SERVERS, word, "host:port")
        if at is not None:
            servers.append(Node(endpoints.BOOTSTRAP_ID_MAX - len(servers), *at))
    return tuple(servers)
