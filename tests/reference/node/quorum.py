"""Nodes of ours on loopback, in one process, and what their tests ask of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from kraftspec.conformance.cluster.node import HOST, free_port
from kraftspec.fastpath.types import Uuid
from kraftspec.generated.kafka import SnapshotFooterRecord, SnapshotHeaderRecord
from kraftspec.reference.log import LogConfig, LogDirectory, MetaProperties
from kraftspec.reference.log.control import control_value, encode_control_values
from kraftspec.reference.log.directory import METADATA_NAME
from kraftspec.reference.log.snapshots import snapshot_name
from kraftspec.reference.node.appending import NotAppendedError
from kraftspec.reference.node.runtime import Node
from kraftspec.reference.node.settings import Limits, Listener, NodeConfig
from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.reference.raft import Config, ReplicaKey, RoleName, Voter, VoterSet
from kraftspec.reference.raft import types as raft
from kraftspec.reference.raft.config import MS
from kraftspec.reference.raft.control import KRaftVersion, Voters
from kraftspec.reference.raft.types import BOOTSTRAP_SNAPSHOT, VersionRange

CLUSTER_ID = "bm9kZXMtb2YtdGVzdHMtMQ"
LISTENER = "CONTROLLER"
WAIT_S = 120.0  # What takes long on a loaded machine; a wait ends as soon as it may.

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine, and let it not hang."""

    async def bounded() -> T:
        return await asyncio.wait_for(main, 10 * WAIT_S)

    return asyncio.run(bounded())


def endpoint(port: int) -> raft.Endpoint:
    return raft.Endpoint(LISTENER, HOST, port)


def node_config(path: Path, node_id: int, port: int, **changes: Any) -> NodeConfig:
    """Return the configuration of a node; ``changes`` are fields of the core's ``Config``."""
    limits = changes.pop("limits", Limits())
    core = Config(
        cluster_id="",
        node_id=node_id,
        endpoints=(endpoint(port),),
        **{"append_linger_us": 0, **changes},
    )
    listener = Listener(
        name=LISTENER, host=HOST, port=port, advertised_host=HOST, advertised_port=port
    )
    return NodeConfig(
        path="", core=core, log=LogConfig(), log_dir=str(path), listeners=(listener,), limits=limits
    )


def bootstrap_checkpoint(voters: VoterSet) -> bytes:
    """Return the checkpoint 0-0 that makes these the first voters, at kraft.version 1."""
    encode = KafkaProfile().encode_control
    head = [control_value(SnapshotHeaderRecord()), encode(KRaftVersion(1)), encode(Voters(voters))]
    foot = [control_value(SnapshotFooterRecord())]
    return encode_control_values(
        head, base_offset=0, epoch=0, timestamp_ms=0
    ) + encode_control_values(foot, base_offset=len(head), epoch=0, timestamp_ms=0)


def format_directory(
    path: Path,
    node_id: int,
    directory_id: Uuid,
    voters: VoterSet | None = None,
    cluster_id: str = CLUSTER_ID,
) -> None:
    """Format a directory; with the voters of a new quorum, if it is one of them."""
    meta = MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=directory_id)
    name = f"{METADATA_NAME}/{snapshot_name(BOOTSTRAP_SNAPSHOT)}"
    checkpoints = {name: bootstrap_checkpoint(voters)} if voters is not None else None
    LogDirectory.format(str(path), meta, checkpoints)


class Quorum:
    """A quorum of our own nodes, formatted and not started."""

    def __init__(self, directory: Path, count: int = 3, **changes: Any) -> None:
        directory.mkdir(exist_ok=True)
        self.ids = list(range(1, count + 1))
        taken: set[int] = set()
        ports = {node_id: free_port(taken) for node_id in self.ids}
        draw = random.Random(8)
        keys = {id: ReplicaKey(id, Uuid(draw.randbytes(16))) for id in self.ids}
        self.voters = VoterSet(
            Voter(keys[id], (endpoint(ports[id]),), VersionRange(0, 1)) for id in self.ids
        )
        servers = tuple(raft.Node(-1 - id, HOST, ports[id]) for id in self.ids)
        times = {
            "election_timeout_us": 300 * MS,
            "election_backoff_max_us": 300 * MS,
            # A disk that others use as well may take a while to sync, and nobody is deposed for it.
            "fetch_timeout_us": 3_000 * MS,
            "request_timeout_us": 3_000 * MS,
            "fetch_max_wait_us": 150 * MS,
        }
        self.ports = ports
        self.configs = {
            id: node_config(
                directory / str(id),
                id,
                ports[id],
                bootstrap_servers=servers,
                **{**times, **changes},
            )
            for id in self.ids
        }
        for id in self.ids:
            format_directory(directory / str(id), id, keys[id].directory_id, self.voters)
        self.nodes: dict[int, Node] = {}

    async def __aenter__(self) -> Quorum:
        for node_id in self.ids:
            await self.start(node_id)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(node.stop(0.5) for node in self.nodes.values()))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Stop at the end what runs; nothing is started."""
        try:
            yield
        finally:
            await self.__aexit__()

    async def start(self, node_id: int) -> Node:
        node = Node(self.configs[node_id])
        await node.start()
        self.nodes[node_id] = node
        return node

    async def stop(self, node_id: int) -> None:
        await self.nodes.pop(node_id).stop()

    async def leader(self, apart_from: int | None = None) -> Node:
        """Wait for a node that leads and has committed a record of its own epoch."""
        async with asyncio.timeout(WAIT_S):
            while True:
                for node in self.nodes.values():
                    if node.config.node_id != apart_from and leads(node):
                        return node
                await asyncio.sleep(0.01)

    async def all_have(self, offset: int) -> None:
        """Wait until every node knows that everything before ``offset`` is committed."""
        for node in self.nodes.values():
            await node.until(lambda it: it.core.committed_offset >= offset, WAIT_S)

    async def append(self, records: list[bytes]) -> None:
        """Append to whoever leads, again where that is another one meanwhile."""
        async with asyncio.timeout(WAIT_S):
            while True:
                try:
                    await (await self.leader()).append(records)
                    return
                except NotAppendedError:
                    await asyncio.sleep(0.01)


def leads(node: Node) -> bool:
    core = node.core
    return core.role.name is RoleName.LEADER and core.high_watermark > 0


def committed_bytes(node: Node) -> bytes:
    """Return the batches of a node's log, from its start, that end at or before what it committed.

    Whole batches are committed: the high watermark lies between two.
    """
    log = node.storage.log
    end_offset = node.core.committed_offset
    batches = []
    offset = log.start_offset
    while offset < end_offset:
        data = log.read(offset, 1)
        batches.append(data)
        offset += int.from_bytes(data[23:27], "big") + 1
    return b"".join(batches)


def seen(condition: Callable[[], bool]) -> Coroutine[Any, Any, None]:
    """Wait until something is so, by looking again and again."""

    async def look() -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                await asyncio.sleep(0.01)

    return look()
