"""Kafka's client properties (``--command-config``), as far as an admin client has a use for them.

A controller's own properties may stand in the same file, as ``add-controller`` wants it; so a key
that is not a client's is passed over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

_INT32_MAX = (1 << 31) - 1


class ClientConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How a client behaves; the defaults are those of Kafka's AdminClient.

    ``properties`` are all that the file says; ``security.protocol`` and what it needs are read from
    them when the first connection is made. They may hold secrets: not for printing.
    """

    path: str = ""
    client_id: str = "kraftspec-admin"
    api_timeout_ms: int = 60_000  # default.api.timeout.ms: a whole call, with its retries.
    api_timeout_name: str = "default.api.timeout.ms"  # What sets it, for who has to set another.
    request_timeout_ms: int = 30_000  # request.timeout.ms
    connect_timeout_ms: int = 10_000  # socket.connection.setup.timeout.ms
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    properties: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"ClientConfig({self.path or 'defaults'})"


_TIMES = {
    "default.api.timeout.ms": "api_timeout_ms",
    "request.timeout.ms": "request_timeout_ms",
    "socket.connection.setup.timeout.ms": "connect_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
}


def load_client_config(path: str) -> ClientConfig:
    """Read a properties file; raises OSError, or ValueError with the file and the property."""
    from kraftspec.reference.log.properties import (  # noqa: PLC0415 - brings the log with it
        parse_properties,
    )

    with open(path, encoding="latin-1", newline="") as file:  # As java.util.Properties reads one.
        text = file.read()
    try:
        return client_config(parse_properties(text), path)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def client_config(properties: Mapping[str, str], path: str = "") -> ClientConfig:
    """Make a configuration of properties; ValueError names the one that is wrong."""
    fields = {
        field: _milliseconds(key, properties[key])
        for key, field in _TIMES.items()
        if key in properties
    }
    config = msgspec.structs.replace(ClientConfig(path=path, properties=dict(properties)), **fields)
    client_id = properties.get("client.id")
    return msgspec.structs.replace(config, client_id=client_id) if client_id else config


def _milliseconds(key: str, text: str) -> int:
    stripped = text.strip()
    if not stripped.isdecimal() or not stripped.isascii() or int(stripped) > _INT32_MAX:
        raise ValueError(f"{key}={text}: a number of milliseconds from 0 to {_INT32_MAX} is wanted")
    return int(stripped)
