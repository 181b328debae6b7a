"""Listeners, voters and bootstrap servers, as Kafka's properties spell them.

``NAME://host:port`` lists (``listeners``, ``advertised.listeners``), what protocol each name has,
``id@host:port`` (``controller.quorum.voters``) and ``host:port``.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import TYPE_CHECKING, Final, NamedTuple

from kraftspec.reference.node.keys import shown
from kraftspec.reference.node.reader import did_you_mean
from kraftspec.reference.node.settings import Protocol
from kraftspec.reference.raft.types import Endpoint, Node, ReplicaKey, Voter
from kraftspec.reference.raft.voters import VoterSet

if TYPE_CHECKING:
    from kraftspec.reference.node.reader import Reader

LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
NAMES: Final = "controller.listener.names"
PROTOCOLS: Final = "listener.security.protocol.map"
VOTERS: Final = "controller.quorum.voters"
SERVERS: Final = "controller.quorum.bootstrap.servers"

PORT_MAX: Final = 65_535
NODE_ID_MAX: Final = (1 << 31) - 1
BOOTSTRAP_ID_MAX: Final = -2  # A bootstrap server's node id is not known: they count down from it.
_ANY: Final = ("", "0.0.0.0", "::")
_LISTENER: Final = re.compile(r"(.+)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)", re.ASCII)
_ADDRESS: Final = re.compile(
    r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)", re.ASCII
)
_VOTER: Final = re.compile(r"([+-]?[0-9]+)@(.*)", re.ASCII | re.DOTALL)


class Address(NamedTuple):
    """One entry of a list of listeners; the name is upper-cased, as Kafka compares it."""

    name: str
    host: str
    port: int


def read_addresses(reader: Reader, key: str) -> list[Address]:
    """Return the entries of a list of listeners, what is wrong with them noted."""
    addresses: list[Address] = []
    for word in reader.words(key):
        match = _LISTENER.fullmatch(word)
        if match is None:
            reader.mistake(key, f"{shown(word)} is no listener: write NAME://host:port")
            continue
        port = int(match[3]) if len(match[3]) <= len("-65535") else PORT_MAX + 1
        if not 0 <= port <= PORT_MAX:
            reader.mistake(key, f"{shown(word)}: a port is 0 to {PORT_MAX}")
            continue
        address = Address(match[1].upper(), match[2], port)
        if any(other.name == address.name for other in addresses):
            reader.mistake(key, f"two listeners have the name {address.name}")
            continue
        addresses.append(address)
    return addresses


def check_ports(reader: Reader, addresses: list[Address]) -> None:
    """Note listeners on one port, unless one is IPv4 and the other IPv6."""
    by_port: dict[int, list[Address]] = {}
    for address in addresses:
        if address.port:
            by_port.setdefault(address.port, []).append(address)
    for port, several in by_port.items():
        families = {_family(address.host) for address in several}
        one_each = len(several) == len(families) and families == {4, 6}
        if len(several) > 1 and not one_each:
            names = " and ".join(address.name for address in several)
            reader.mistake(LISTENERS, f"{names} have the same port, {port}")


def _family(host: str) -> int:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).version
    except ValueError:
        return 0


def read_protocols(reader: Reader, addresses: list[Address]) -> dict[str, Protocol]:
    """Return which protocol each listener name has.

    Where the map is not set, a name that is a protocol has that one, and the controllers' names
    are PLAINTEXT unless any listener's is SSL or SASL (``effectiveListenerSecurityProtocolMap``).
    """
    protocols: dict[str, Protocol] = {}
    for word in filter(None, re.split(r"\s*,\s*", reader.text(PROTOCOLS))):
        name, colon, value = (part.strip() for part in word.rpartition(":"))
        name, value = name.upper(), value.upper()
        if not colon or not name:
            reader.mistake(PROTOCOLS, f"{shown(word)} is no entry: write NAME:PROTOCOL")
        elif value not in list(Protocol):
            close = did_you_mean(value, Protocol)
            reader.mistake(PROTOCOLS, f"{shown(value)} of {name} is no protocol{close}")
        elif name in protocols:
            reader.mistake(PROTOCOLS, f"{name} stands in it twice")
        else:
            protocols[name] = Protocol(value)
    if not reader.has(PROTOCOLS):
        names = list(reader.words(NAMES))
        if not any(_is_secure(name) for name in [*names, *(one.name for one in addresses)]):
            protocols |= dict.fromkeys(names, Protocol.PLAINTEXT)
    return protocols


def _is_secure(name: str) -> bool:
    return name in list(Protocol) and name != Protocol.PLAINTEXT


def check_names(
    reader: Reader,
    addresses: list[Address],
    protocols: dict[str, Protocol],
    *,
    is_broker: bool = False,
) -> None:
    """Note where the names of the several properties do not fit each other.

    A controller listens on those of ``controller.listener.names``, a broker on others.
    """
    controllers = reader.words(NAMES)
    names = [address.name for address in addresses]
    for name in controllers:
        if is_broker and name in names:
            reader.mistake(
                LISTENERS, f"{name} is the controllers', and this is a broker: remove it"
            )
        elif not is_broker and name not in names:
            reader.mistake(NAMES, f"{shown(name)} is not in listeners{did_you_mean(name, names)}")
    for name in [*names, *controllers] if is_broker else names:
        if name not in controllers and not is_broker:
            reader.mistake(
                LISTENERS,
                f"{name} is not in {NAMES}, and a node that is only a controller has no "
                f"others{did_you_mean(name, controllers)}",
            )
        elif name not in protocols:
            reader.mistake(
                PROTOCOLS, f"it has no protocol for the listener {name}: add {name}:PLAINTEXT, "
                "or another one"
            )  # fmt: skip


def advertised(
    reader: Reader, addresses: list[Address], protocols: dict[str, Protocol]
) -> dict[str, Address]:
    """Return where others find each listener; an empty or any host is this machine's name."""
    by_name = {address.name: address for address in addresses}
    if reader.has(ADVERTISED):
        for address in read_addresses(reader, ADVERTISED):
            if address.host in _ANY[1:]:
                reader.mistake(ADVERTISED, f"nobody can connect to {address.host}: name a host")
            elif address.name not in protocols:
                known = did_you_mean(address.name, protocols)
                reader.mistake(ADVERTISED, f"{address.name} is in no protocol map{known}")
            elif address.name not in by_name:
                known = did_you_mean(address.name, by_name)
                reader.mistake(ADVERTISED, f"{address.name} is not in listeners{known}")
            else:
                by_name[address.name] = address
    return {name: _reachable(address) for name, address in by_name.items()}


def _reachable(address: Address) -> Address:
    return address._replace(host=socket.getfqdn()) if address.host in _ANY else address


def read_host_port(reader: Reader, key: str, word: str, form: str) -> tuple[str, int] | None:
    """Return host and port of an entry, None where it is wrong, which is noted."""
    match = _ADDRESS.fullmatch(word)
    if match is None or not match[1]:
        reader.mistake(key, f"{shown(word)} has no host and port: write {form}")
        return None
    if len(match[2]) > len(str(PORT_MAX)) or not 0 < int(match[2]) <= PORT_MAX:
        reader.mistake(key, f"{shown(word)}: a port is 1 to {PORT_MAX}")
        return None
    if match[1] in _ANY:
        reader.mistake(key, f"nobody can connect to {match[1]}: name a host")
        return None
    return match[1], int(match[2])


def read_voters(reader: Reader, listener: str) -> VoterSet:
    """Return the static voters; empty where the quorum is not a static one."""
    voters: dict[int, Voter] = {}
    form = "id@host:port"
    for word in reader.words(VOTERS):
        match = _VOTER.fullmatch(word)
        if match is None:
            reader.mistake(VOTERS, f"{shown(word)} is no voter: write {form}")
            continue
        at = read_host_port(reader, VOTERS, match[2], form)
        voter_id = int(match[1]) if len(match[1]) <= len(str(NODE_ID_MAX)) + 1 else -1
        if not 0 <= voter_id <= NODE_ID_MAX:
            reader.mistake(VOTERS, f"{shown(word)}: an id is 0 to {NODE_ID_MAX}")
        elif voter_id in voters:
            reader.mistake(VOTERS, f"the id {voter_id} stands in it twice")
        elif at is not None:
            voters[voter_id] = Voter(ReplicaKey(voter_id), (Endpoint(listener, *at),))
    return VoterSet(voters.values())


def read_servers(reader: Reader) -> tuple[Node, ...]:
    """Return whom to ask when no leader is known."""
    servers: list[Node] = []
    for word in reader.words(SERVERS):
        at = read_host_port(reader, SERVERS, word, "host:port")
        if at is not None:
            servers.append(Node(BOOTSTRAP_ID_MAX - len(servers), *at))
    return tuple(servers)
