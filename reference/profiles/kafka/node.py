"""A node that may be one of a quorum of Apache Kafka's own controllers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftspec.fastpath.types import Uuid
from kraftspec.reference.node.apis import SHELL_APIS
from kraftspec.reference.node.config import load_controller
from kraftspec.reference.profiles.common.node import Formatted, NodePart
from kraftspec.reference.tools.storage import FormatRequest, format_storage, storage_info
from kraftspec.reference.tools.storage_config import load_storage_config

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kraftspec.reference.local.quorum import LocalQuorum
    from kraftspec.reference.node.runtime import Node
    from kraftspec.reference.node.settings import NodeConfig
    from kraftspec.reference.profiles.common.node import Place
    from kraftspec.reference.tools.storage import Say, StorageInfo


class KafkaNode(NodePart):
    """A controller of Kafka's, by Kafka's own properties."""

    shell_apis = SHELL_APIS
    registers = True
    hands_back = None
    writes_snapshots = True
    names_directory = True
    id_word = "directory"

    def load_config(self, path: Path) -> NodeConfig:
        """Return the configuration in Kafka's controller properties."""
        return load_controller(path)

    def info(self, path: Path) -> StorageInfo:
        """Look into the log directories of a controller or a broker."""
        return storage_info(load_storage_config(path).log_dirs)

    def format(self, path: Path, request: FormatRequest, say: Say = lambda line: None) -> Formatted:
        """Format the log directories of a controller or a broker."""
        settings = load_storage_config(path)
        done = format_storage(settings, request, say)
        report = {
            "clusterId": done.cluster_id,
            "nodeId": done.node_id,
            "features": done.features,
            "formatted": [
                {"directory": one.path, "kind": one.kind, "directoryId": str(one.directory_id)}
                for one in done.directories
            ],
            "alreadyFormatted": list(done.skipped),
        }
        return Formatted(report, settings.warnings)

    def requests(self, places: Sequence[Place]) -> list[FormatRequest]:
        """Let all voters begin with the same set of voters."""
        members = ",".join(
            f"{place.node_id}@{place.address}:{Uuid.random()}" for place in places if place.is_voter
        )
        cluster_id = str(Uuid.random())
        return [
            FormatRequest(
                cluster_id=cluster_id,
                no_initial_controllers=not place.is_voter,
                initial_controllers=members if place.is_voter else None,
            )
            for place in places
        ]

    async def begin(self, quorum: LocalQuorum, leader: Node) -> None:
        """Let the first leader append the records that formatting left."""
        await quorum.bootstrap_log(leader)


NODE = KafkaNode
