"""Who a controller is, by its own properties file: what ``add-controller`` says to the leader.

Source: ``MetadataQuorumCommand``, whose words for each mistake these are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.reference.admin.client import Endpoint
from kraftspec.reference.log.directory import META_NAME, MetaProperties

if TYPE_CHECKING:
    from collections.abc import Mapping

_LISTENER = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_IS_IT: Final = "Is this a valid controller configuration file?"
_PORT_MAX: Final = 65_535


class AddedController(NamedTuple):
    """A controller, its log directory's id, and where it is reached (its controller listeners)."""

    node_id: int
    directory_id: Uuid
    endpoints: tuple[Endpoint, ...]


def added_controller_of(properties: Mapping[str, str]) -> AddedController:
    """Read whose properties these are, and the ``meta.properties`` that they lead to.

    Raises ValueError, or OSError where a file cannot be read.
    """
    return AddedController(
        _node_id(properties),
        _directory_id(_metadata_directory(properties)),
        _endpoints(properties),
    )


def _node_id(properties: Mapping[str, str]) -> int:
    if "node.id" not in properties:
        raise ValueError(f"node.id not found in configuration file. {_IS_IT}")
    text = properties["node.id"].strip()
    try:
        node_id = int(text)
    except ValueError:
        raise ValueError(f"node.id={text} is no number. {_IS_IT}") from None
    if node_id < 0:
        raise ValueError(f"node.id was negative in configuration file. {_IS_IT}")
    if "controller" not in _listed(properties.get("process.roles", "")):
        raise ValueError(
            f"process.roles did not contain 'controller' in configuration file. {_IS_IT}"
        )
    return node_id


def _metadata_directory(properties: Mapping[str, str]) -> str:
    if "metadata.log.dir" in properties:
        return properties["metadata.log.dir"]
    directories = _listed(properties.get("log.dirs", ""))
    if not directories:
        raise ValueError(f"Neither metadata.log.dir nor log.dirs were found. {_IS_IT}")
    return directories[0]


def _directory_id(directory: str) -> Uuid:
    path = f"{directory}/{META_NAME}"
    try:
        with open(path, "rb") as file:
            meta = MetaProperties.parse(file.read(), path)
    except OSError as error:
        raise ValueError(
            f"Unable to read meta.properties from {directory}: {error.strerror}"
        ) from error
    if meta.directory_id == ZERO_UUID:
        raise ValueError(f"No directory id found in {directory}")
    return meta.directory_id


def _endpoints(properties: Mapping[str, str]) -> tuple[Endpoint, ...]:
    listeners: dict[str, Endpoint] = {}
    for key in ("listeners", "advertised.listeners"):  # The latter take the place of the former.
        for text in _listed(properties.get(key, "")):
            endpoint = parse_endpoint(key, text)
            listeners[endpoint.name] = endpoint
    if "controller.listener.names" not in properties:
        raise ValueError(f"controller.listener.names was not found. {_IS_IT}")
    names = [name.upper() for name in _listed(properties["controller.listener.names"])]
    for name in names:
        if name not in listeners:
            raise ValueError(f"Cannot find information about controller listener name: {name}")
    return tuple(listeners[name] for name in dict.fromkeys(names))


def parse_endpoint(key: str, text: str) -> Endpoint:
    """Read ``NAME://host:port``; ValueError names ``key``, where it stands."""
    match = _LISTENER.fullmatch(text)
    if match is None:
        raise ValueError(f"Unable to parse {text} to a broker endpoint: {key} has NAME://host:port")
    name, host, port = match[1].upper(), match[2] or "localhost", int(match[3])
    if not 0 <= port <= _PORT_MAX:
        raise ValueError(f"{key}: the port of {text} is not from 0 to {_PORT_MAX}")
    return Endpoint(name, host, port)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
