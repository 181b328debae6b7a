"""A node of KIP-853 as drafted: a controller, or a broker that observes ("Configuration").

Each has static voters in its properties, or servers to begin with.

What its first draft asks under "Monitoring", "What new metrics do we need?", is answered by what
its leader knows.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import msgspec

from kraftspec.fastpath.types import Uuid
from kraftspec.reference.admin.client import DraftEndpoint
from kraftspec.reference.node import endpoints
from kraftspec.reference.node.config import load_controller
from kraftspec.reference.profiles.common.node import DraftNode, refuse_auto_join, with_protocols
from kraftspec.reference.profiles.kip_853.admin import Kip853Admin
from kraftspec.reference.profiles.kip_853.bootstrap import bootstrap_files
from kraftspec.reference.profiles.kip_853.policy import should_become_voter
from kraftspec.reference.raft.types import ReplicaKey, Voter
from kraftspec.reference.tools.storage import FormatRequest, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from kraftspec.reference.local.quorum import LocalQuorum
    from kraftspec.reference.node.reader import Reader
    from kraftspec.reference.node.runtime import Node
    from kraftspec.reference.node.settings import NodeConfig
    from kraftspec.reference.profiles.common.node import Gauge, Place
    from kraftspec.reference.raft import Core


class Kip853Node(DraftNode):
    """A controller of the draft, with a uuid that it makes for itself; or a broker."""

    writes_snapshots = True

    def load_config(self, path: Path) -> NodeConfig:
        """Return the configuration of a controller or of a broker: static voters, or servers."""

        def judge(reader: Reader) -> None:
            refuse_auto_join(reader, self.profile.name)
            if reader.words(endpoints.VOTERS) and reader.words(endpoints.SERVERS):
                reader.mistake(
                    endpoints.SERVERS,
                    f"{self.profile.name} has it instead of {endpoints.VOTERS}: remove one of the "
                    f"two",
                )

        config = load_controller(path, judge, may_be_broker=True)
        return msgspec.structs.replace(config, core=with_protocols(config.core, config.listeners))

    def gauges(self, core: Core) -> Iterator[Gauge]:
        """Yield how far a change of voters is; the leader alone knows."""
        role: Any = core.role
        if not hasattr(role, "observers"):
            return
        eligible = sum(should_become_voter(core.config, key) for key in list(role.observers))
        yield "number-of-eligible-observers", eligible, "observers that can be made voters"
        queue = getattr(role.membership, "queue", ())
        yield "number-of-pending-voter-changes", len(queue), "AddVoter and RemoveVoter under way"

    def check_voters(self, config: NodeConfig, *, is_chosen: bool) -> None:
        """Raise StorageError unless the first voters are given, either in properties or here."""
        if not config.core.can_become_voter:
            if is_chosen:
                raise StorageError(
                    "a broker is never a voter: leave --standalone and --no-initial-controllers out"
                )
            return
        if len(config.core.voters) and is_chosen:
            raise StorageError(
                "the voters are those of controller.quorum.voters: leave --standalone and "
                "--no-initial-controllers out, or write controller.quorum.bootstrap.servers instead"
            )
        if not len(config.core.voters) and not is_chosen:
            raise StorageError(
                "without controller.quorum.voters give --standalone for the first voter, or "
                "--no-initial-controllers for a node that add-voter will add"
            )

    def first_files(self, config: NodeConfig, uuid: Uuid) -> Mapping[str, bytes]:
        """Return the files by which a node is the first voter: its uuid, and the record of it.

        Source: KIP-853, "bootstrap the first quorum node by writing an AddVoter record to the
        cluster metadata log".
        """
        voter = Voter(ReplicaKey(config.node_id, uuid), config.core.endpoints)
        return bootstrap_files(uuid, [voter], time.time_ns() // 1_000_000)

    def requests(self, places: Sequence[Place]) -> list[FormatRequest]:
        """Let the first node be the first voter."""
        cluster_id = str(Uuid.random())
        return [
            FormatRequest(
                cluster_id=cluster_id,
                standalone=place is places[0],
                no_initial_controllers=place is not places[0],
            )
            for place in places
        ]

    async def begin(self, quorum: LocalQuorum, leader: Node) -> None:
        """Make the others voters that the layout has as such: all begin with their addresses."""
        with Kip853Admin(quorum.bootstrap) as admin:
            for node in list(quorum.nodes.values()):
                config = node.config.core
                at = {f"{one.host}:{one.port}" for one in config.endpoints}
                is_meant = not at.isdisjoint(quorum.bootstrap.split(","))
                if is_meant and config.node_id not in leader.core.log.voters.last:
                    key = node.core.config.key
                    endpoints = [
                        DraftEndpoint(
                            one.name, one.host, one.port, getattr(one, "security_protocol", 0)
                        )
                        for one in config.endpoints
                    ]
                    await asyncio.to_thread(admin.add_voter, key.id, key.directory_id, endpoints)


NODE = Kip853Node
