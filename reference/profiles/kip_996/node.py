"""A node of KIP-996 as drafted: a controller with static voters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftspec.reference.node import endpoints
from kraftspec.reference.node.config import load_controller
from kraftspec.reference.profiles.common.node import DraftNode, refuse_auto_join

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kraftspec.reference.node.reader import Reader
    from kraftspec.reference.node.settings import NodeConfig
    from kraftspec.reference.profiles.common.node import Place


class Kip996Node(DraftNode):
    """A controller of the draft, whose voters never change."""

    servers = endpoints.VOTERS

    def load_config(self, path: Path) -> NodeConfig:
        """Return the configuration of a controller with static voters."""

        def judge(reader: Reader) -> None:
            refuse_auto_join(reader, self.profile.name)
            if reader.has(endpoints.SERVERS):
                reader.mistake(
                    endpoints.SERVERS,
                    f"{self.profile.name} has no such property: write "
                    f"{endpoints.VOTERS}=id@host:port,…",
                )

        return load_controller(path, judge)

    def lay_out(self, places: Sequence[Place], settings: Mapping[str, str]) -> list[Path]:
        """Lay out voters; ValueError for an observer."""
        if not all(place.is_voter for place in places):
            raise ValueError(
                f"{self.profile.name} has no observers: its voters are static, and a node is one"
            )
        return super().lay_out(places, settings)

    def properties(self, place: Place, places: Sequence[Place]) -> dict[str, str]:
        """Return what makes a node one of a quorum."""
        voters = ",".join(f"{one.node_id}@{one.address}" for one in places)
        return super().properties(place, places) | {self.servers: voters}


NODE = Kip996Node
