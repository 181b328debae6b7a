"""``--initial-controllers``: the voters of a new quorum (``DynamicVoters.parse``, KIP-853)."""

from __future__ import annotations

import ipaddress
import struct
from typing import Final

from kraftspec.fastpath.types import UUID_BYTES, Uuid
from kraftspec.reference.raft.types import Endpoint, ReplicaKey, VersionRange, Voter

KRAFT_VERSIONS: Final = VersionRange(0, 1)
PORT_MAX: Final = 65_535
ID_MAX: Final = (1 << 31) - 1
_DIGITS_MAX: Final = 10


def parse_voters(text: str, listener: str) -> list[Voter]:
    """Return the voters of ``id@host:port:directory,…``, by id.

    ``listener`` is the name of the controllers' listener, which the text does not have. Raises
    ValueError, in Kafka's words and with the entry that is meant.
    """
    voters: dict[int, Voter] = {}
    for word in text.split(","):
        entry = word.strip()
        if not entry:
            continue
        try:
            voter = _parse_voter(entry, listener)
        except ValueError as error:
            raise ValueError(f"{error} ({entry!r}; write id@host:port:directory)") from None
        if voter.key.id in voters:
            raise ValueError(f"Node id {voter.key.id} was specified more than once.")
        voters[voter.key.id] = voter
    if not voters:
        raise ValueError("No voters given.")
    return [voters[id_] for id_ in sorted(voters)]


def _parse_voter(text: str, listener: str) -> Voter:
    before, at, rest = text.partition("@")
    if not at:
        raise ValueError("No @ found in dynamic voter string.")
    node_id = _number(before, "node id")
    if not 0 <= node_id <= ID_MAX:
        raise ValueError(f"Invalid negative node id {node_id} in dynamic voter string.")
    if rest.startswith("["):
        host, bracket, rest = rest[1:].partition("]")
        if not bracket:
            raise ValueError("Hostname began with left bracket, but no right bracket was found.")
        if not rest.startswith(":"):
            raise ValueError("Port section must start with a colon.")
        rest = rest[1:]
    else:
        host, colon, rest = rest.partition(":")
        if not colon:
            raise ValueError("No colon following hostname could be found.")
    digits, colon, directory = rest.partition(":")
    if not colon:
        raise ValueError("No colon following port could be found.")
    port = _number(digits, "port")
    if not 0 <= port <= PORT_MAX:
        raise ValueError(f"Invalid port {port} in dynamic voter string.")
    try:
        directory_id = Uuid.parse(directory)
    except ValueError as error:
        raise ValueError(
            f"Failed to parse directory ID in dynamic voter string. {_why(directory, error)}"
        ) from None
    key = ReplicaKey(node_id, directory_id)
    return Voter(key, (Endpoint(listener, _java_host(host), port),), KRAFT_VERSIONS)


def _java_host(host: str) -> str:
    """Return an IPv6 address as Java writes it, eight groups; anything else as it is."""
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    groups = struct.unpack(">8H", address.packed)
    return ":".join(f"{group:x}" for group in groups)


def _number(text: str, what: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _DIGITS_MAX:
        raise ValueError(f"Failed to parse {what} in dynamic voter string.")
    return int(text)


def _why(text: str, error: ValueError) -> str:
    return f"A directory id is {UUID_BYTES} bytes in base64, as random-uuid prints them: {error}"
