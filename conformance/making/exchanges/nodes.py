"""The nodes that node vectors can be put to, by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from kraftspec.conformance.runner.node import Node

# Each in a module of its own, which is not loaded before it is wanted.
NODES = {
    "reference": ("kraftspec.conformance.making.exchanges.reference", "ReferenceNode"),
    "kafka": ("kraftspec.conformance.making.exchanges.kafka", "KafkaNode"),
}


def node_maker(name: str) -> Callable[[str], Node]:
    """Return what makes a node of that name, a key of ``NODES``, from a release of Kafka."""
    module, attribute = NODES[name]
    maker: Callable[[str], Node] = getattr(import_module(module), attribute)
    return maker
