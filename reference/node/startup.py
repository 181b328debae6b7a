"""A node made of a properties file and the name of a profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kraftspec.reference.node.runtime import Node
from kraftspec.reference.profiles import profile_named

if TYPE_CHECKING:
    from kraftspec.reference.node.settings import NodeConfig


def make_node(
    config: NodeConfig,
    profile: str,
    *,
    without: Sequence[str] = (),
    release: str | None = None,
    **options: Any,
) -> Node:
    """Return a node that has not started; ``options`` are those of ``Node``.

    ``without`` names fixes of the profile that are switched off; ``release`` is one of Kafka's that
    the profile speaks as, in place of the newest. Raises LookupError for an unknown profile,
    ValueError for an unknown fix or release.
    """
    protocol = profile_named(
        profile, without=without, release=release, listener=config.core.listener_name
    )
    return Node(config, profile=protocol, **options)
