"""A quorum of nodes on loopback, all in one process: for trying things, for tests, for measuring.

Each node has a directory of its own, as an operator would make it::

    DIRECTORY/1/node.properties    Kafka's own properties, which Kafka's tools read, too
    DIRECTORY/1/log                its log directory, formatted by `reference.tools.storage`

Nothing about a node is special: it is made of its file by ``load_config``, and can as well be
started from it on its own. What comes first in a quorum is done here by hand. In one of Kafka's an
active controller would do it: the first leader appends the records that formatting left, so
that Apache Kafka's own controllers and brokers find a metadata.version in the log. In one of a
draft an operator may have something to do: ``begin`` of the profile's module ``node``.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kraftspec.reference.log.directory import META_NAME, MetaProperties
from kraftspec.reference.node.config import load_config
from kraftspec.reference.node.startup import make_node
from kraftspec.reference.profiles import KAFKA, parts_of
from kraftspec.reference.profiles.common.node import PROPERTIES_NAME, Place
from kraftspec.reference.raft import RoleName

if TYPE_CHECKING:
    from kraftspec.reference.log import MetadataLog
    from kraftspec.reference.node.runtime import Node

HOST: Final = "127.0.0.1"
FIRST_PORT: Final = 9093  # Where Kafka's own examples have their controller.
PORT_MAX: Final = 65_535
POLL_S: Final = 0.005


class LocalQuorum:
    """``async with LocalQuorum(directory, voters=3) as quorum``: made if need be, and started.

    A directory that has nodes in it is taken as it is; ``voters`` and what follows are then not
    looked at. ``nodes`` are those that run, by id; ``properties`` are the files of all.
    """

    def __init__(
        self,
        directory: Path,
        *,
        voters: int = 3,
        observers: int = 0,
        first_id: int = 1,
        first_port: int = FIRST_PORT,
        settings: Mapping[str, str] | None = None,
        profile: str = KAFKA,
        without: Sequence[str] = (),
    ) -> None:
        """Lay the nodes out and format them.

        Args:
            directory: where they are; it is made if need be.
            voters: how many are voters from the start; their ids are ``first_id`` and on.
            observers: how many more only observe, until ``add-controller`` makes them voters.
            first_id: the first node id.
            first_port: where free ports are looked for, upwards.
            settings: properties beside those that make a node one of this quorum.
            profile: which protocol they speak.
            without: fixes of the profile that are switched off, in every node.

        Raises:
            ConfigError: a setting is refused. StorageError, ValueError, OSError: likewise a
                directory.
        """
        self.directory = directory
        self.profile = profile
        self._without = without
        self._kind = parts_of(profile).node
        self.nodes: dict[int, Node] = {}
        paths = sorted(directory.glob(f"*/{PROPERTIES_NAME}"), key=lambda path: path.parent.name)
        if not paths:
            ids = list(range(first_id, first_id + voters + observers))
            paths = self._lay_out(ids, voters, first_port, settings or {})
        self.properties = {load_config(path, profile).node_id: path for path in paths}

    def _lay_out(
        self, ids: list[int], voters: int, first_port: int, settings: Mapping[str, str]
    ) -> list[Path]:
        ports = free_ports(first_port, len(ids))
        places = [
            Place(node_id, f"{HOST}:{port}", self.directory / str(node_id), node_id in ids[:voters])
            for node_id, port in zip(ids, ports, strict=True)
        ]
        return self._kind.lay_out(places, settings)

    @property
    def cluster_id(self) -> str:
        """The cluster's id, as the first node's directory has it; empty before it has one."""
        path = next(iter(self.properties.values()))
        meta = Path(load_config(path, self.profile).log_dir) / META_NAME
        return MetaProperties.parse(meta.read_bytes(), str(meta)).cluster_id

    @property
    def bootstrap(self) -> str:
        """The addresses of the first voters, for ``--bootstrap-controller``."""
        return self._kind.bootstrap_of(next(iter(self.properties.values())))

    @property
    def leader(self) -> Node | None:
        """The node that leads and has committed a record of its own epoch; None if there is none.

        A leader of the past may not know yet that it is one: of two, the one of the higher epoch.
        """
        leading = [node for node in self.nodes.values() if is_leading(node)]
        return max(leading, key=lambda node: node.core.epoch, default=None)

    async def __aenter__(self) -> LocalQuorum:
        try:
            await asyncio.gather(*map(self.start, self.properties))
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            await self.stop()
        except BaseException:
            if error is None:  # Else that is what happened first.
                raise

    async def start(self, node_id: int) -> Node:
        """Start a node that does not run; raises what ``Node.start`` does."""
        config = load_config(self.properties[node_id], self.profile)
        node = make_node(config, self.profile, without=self._without)
        await node.start()
        self.nodes[node_id] = node
        return node

    async def kill(self, node_id: int) -> None:
        """End a node without a word to the others: its connections are simply gone."""
        await self.nodes.pop(node_id).end_now()

    async def stop(self) -> None:
        """Close all that run; raises what ended a node that had failed before.

        Nobody resigns: there is nobody left who could follow.
        """
        running, self.nodes = list(self.nodes.values()), {}
        await asyncio.gather(*(node.end_now() for node in running))
        for node in running:
            if node.failure is not None:
                raise node.failure

    async def wait_leader(self, timeout_s: float, *, apart_from: int | None = None) -> Node:
        """Return who leads, once somebody does; TimeoutError where nobody does in time."""
        async with asyncio.timeout(timeout_s):
            while (node := self.leader) is None or node.config.node_id == apart_from:
                await asyncio.sleep(POLL_S)
            return node

    async def bootstrap_log(self, leader: Node) -> None:
        """Append what formatting decided, if there is no record in the log yet.

        Raises NotAppendedError where the node leads no more.
        """
        if not has_records(leader.storage.log):
            await leader.append(leader.storage.directory.bootstrap_values())

    async def begin(self, leader: Node) -> None:
        """Do what comes first in a new quorum; nothing where there are records already.

        Raises NotAppendedError where the node leads no more, AdminError where a voter is not added.
        """
        if not has_records(leader.storage.log):
            await self._kind.begin(self, leader)


def is_leading(node: Node) -> bool:
    """Whether a node leads, and has committed a record of its own epoch; one that failed does not.

    Its core is as it was when it failed.
    """
    core = node.core
    leads = core.role.name is RoleName.LEADER and core.high_watermark >= 0
    return leads and node.failure is None


def has_records(log: MetadataLog) -> bool:
    """Whether a log has a data record, or has had one."""
    return log.start_offset > 0 or any(not header.is_control for header, _ in log.batches(0))


def free_ports(first: int, count: int) -> list[int]:
    """Return so many ports of loopback that nobody listens on, the lowest from ``first`` on.

    They are not the system's choice: it chooses from those of outgoing connections, one of which
    may be there when a node is started again. Raises OSError where there are not as many.
    """
    ports: list[int] = []
    for port in range(first, PORT_MAX + 1):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise OSError(f"{count} ports are wanted, and from {first} on {len(ports)} are free")
