"""A node out of a properties file and the name of a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraftspec.reference.node.runtime import Node
from kraftspec.reference.profiles import profile_named

if TYPE_CHECKING:
    from kraftspec.reference.node.settings import NodeConfig


def make_node(config: NodeConfig, profile: str, **options: Any) -> Node:
    """Return a node that has not started; ``options`` are those of ``Node``.

    Raises LookupError for a profile that there is none of.
    """
    made = profile_named(profile, listener=config.core.listener_name)
    return Node(config, profile=made, **options)
