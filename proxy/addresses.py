"""Addresses of nodes in messages, and the listeners that stand for them.

A struct with a ``host`` and a ``port`` is an address: of a broker in Metadata, of a coordinator, of
a leader or a voter in the messages of KRaft. The schemas say where they are. Only the APIs of Kafka
Streams have such structs that are not nodes: they are instances of an application.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kraftspec.fastpath.message import Codec, Message
    from kraftspec.fastpath.plan import Layout

_NOT_NODES: Final = "Streams"  # How the names of these APIs begin.
_ID_NAMES: Final = ("node_id", "broker_id", "leader_id")

# (host, port, node id or None) → the address that stands for it; None where it stays
StandIn = Callable[[str, int, int | None], tuple[str, int] | None]


class Way:
    """How a struct's addresses are reached: whether it is one, and which fields lead to others."""

    __slots__ = ("fields", "id_attr", "is_address")

    def __init__(
        self, is_address: bool, id_attr: str | None, fields: list[tuple[str, Way]]
    ) -> None:
        self.is_address = is_address
        self.id_attr = id_attr
        self.fields = fields


@cache
def way_to_addresses(cls: type[Message], version: int) -> Way | None:
    """Return how the addresses of a message are reached; None where it has none."""
    if cls.__name__.startswith(_NOT_NODES) or version not in cls.VALID_VERSIONS:
        return None
    return _way(cls.CODEC, cls.CODEC.layout(version))


def _way(codec: Codec, layout: Layout) -> Way | None:
    rows = [(name, attr, element) for name, attr, _, _, element in layout[2]]
    rows += [(name, attr, element) for _, name, attr, _, _, element, _ in layout[3]]
    names = {name for name, _, _ in rows}
    is_address = {"host", "port"} <= names
    id_attr = next((attr for _, attr, _ in rows if attr in _ID_NAMES), None)
    fields = []
    for _, attr, element in rows:
        inner = _way(codec, codec.layouts[element]) if isinstance(element, int) else None
        if inner is not None:
            fields.append((attr, inner))
    return Way(is_address, id_attr, fields) if is_address or fields else None


def rewrite(value: Any, way: Way, stand_in: StandIn) -> int:
    """Replace the addresses in a message by those that stand for them; return how many."""
    count = 0
    if way.is_address and value.host and value.port > 0:
        node_id = None if way.id_attr is None else getattr(value, way.id_attr)
        address = stand_in(value.host, value.port, node_id)
        if address is not None:
            value.host, value.port = address
            count += 1
    for attr, inner in way.fields:
        field = getattr(value, attr)
        if isinstance(field, list):
            for item in field:
                count += rewrite(item, inner, stand_in)
        elif field is not None:
            count += rewrite(field, inner, stand_in)
    return count
