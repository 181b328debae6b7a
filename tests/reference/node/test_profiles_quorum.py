"""How nodes of the drafts find their quorum, meet another cluster, and get a new disk."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.reference.node.processes import patient, quick
from tests.reference.node.quorum import WAIT_S, run, seen

from kraftspec.conformance.cluster.node import free_port
from kraftspec.fastpath.types import Uuid
from kraftspec.reference.admin import AnswerError, Endpoint
from kraftspec.reference.local.quorum import HOST, LocalQuorum, free_ports, is_leading
from kraftspec.reference.log.properties import parse_properties, render_properties
from kraftspec.reference.node.config import load_config
from kraftspec.reference.node.runtime import Node
from kraftspec.reference.node.startup import make_node
from kraftspec.reference.profiles import parts_of
from kraftspec.reference.profiles.kip_853.admin import Kip853Admin
from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft.transitions import FatalError
from kraftspec.reference.tools.storage import FormatRequest


def change(path: Path, **properties: str | None) -> None:
    """Set properties of a file, or take them out; ``__`` stands for a dot."""
    settings = parse_properties(path.read_text("latin-1"))
    for key, value in properties.items():
        settings.pop(key.replace("__", "."), None)
        if value is not None:
            settings[key.replace("__", ".")] = value
    path.write_text(render_properties(settings), "latin-1")


@asynccontextmanager
async def proxy(to_port: int) -> AsyncIterator[int]:
    """Forward connections to a port, as a load balancer with one address does."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(HOST, to_port)
        await asyncio.gather(pump(reader, back), pump(there, writer))

    server = await asyncio.start_server(serve, HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def follows(node: Node) -> None:
    await node.until(
        lambda it: it.core.role.name is RoleName.FOLLOWER and it.core.committed_offset > 0, WAIT_S
    )


def test_kip_595_finds_its_quorum_by_a_proxy_and_by_an_observer(tmp_path: Path) -> None:
    async def main() -> None:
        quorum = LocalQuorum(
            tmp_path,
            voters=1,
            observers=2,
            first_port=free_port(set()),
            profile="kip-595",
            settings=quick("kip-595"),
        )
        ports = {
            node_id: load_config(path, "kip-595").listeners[0].port
            for node_id, path in quorum.properties.items()
        }
        try:
            await quorum.start(1)
            await quorum.wait_leader(WAIT_S)
            async with proxy(ports[1]) as by_proxy:
                change(quorum.properties[2], bootstrap__servers=f"{HOST}:{by_proxy}")
                await follows(await quorum.start(2))
                # The third knows of nobody but the second, which is no voter.
                change(quorum.properties[3], bootstrap__servers=f"{HOST}:{ports[2]}")
                await follows(await quorum.start(3))
            assert quorum.nodes[3].core.leader_id == 1
            leader = quorum.nodes[1]
            await leader.append([b"after the proxy is gone"])
            end_offset = leader.core.log.end_offset
            await quorum.nodes[2].until(lambda it: it.core.committed_offset >= end_offset, WAIT_S)
        finally:
            await quorum.stop()

    run(main())


def test_a_node_that_reaches_another_cluster_shuts_down(tmp_path: Path) -> None:
    """And who is asked answers an error, and lives."""

    async def main() -> None:
        cluster = LocalQuorum(
            tmp_path / "a",
            voters=1,
            first_port=free_port(set()),
            profile="kip-595",
            settings=quick("kip-595"),
        )
        other = LocalQuorum(
            tmp_path / "b",
            voters=1,
            first_id=7,
            first_port=free_port(set()),
            profile="kip-595",
            settings=quick("kip-595"),
        )
        async with cluster:
            leader = await cluster.wait_leader(WAIT_S)
            async with other:
                await other.wait_leader(WAIT_S)
                await seen(lambda: other.cluster_id != "")
            # It has a cluster of its own by now, and is told of another.
            change(other.properties[7], bootstrap__servers=cluster.bootstrap, quorum__voters="1,7")
            shutil.rmtree(tmp_path / "b" / "7" / "log" / "__cluster_metadata-0")
            node = make_node(load_config(other.properties[7], "kip-595"), "kip-595")
            await node.start()
            named = f"is of the cluster {other.cluster_id}, and has found {cluster.cluster_id}"
            with pytest.raises(FatalError, match=named):  # Error 104: see test_drafts_wire_595.
                await asyncio.wait_for(node.wait(), WAIT_S)
            assert leader.failure is None
            await leader.append([b"it goes on"])

    run(main())


def test_first_voters_that_differ_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is elected, and both nodes say why; with the same property they elect."""

    async def main() -> None:
        quorum = LocalQuorum(
            tmp_path,
            voters=2,
            first_port=free_port(set()),
            profile="kip-595",
            settings=quick("kip-595"),
        )
        change(quorum.properties[2], quorum__voters="2")
        try:
            for node_id in (1, 2):
                await quorum.start(node_id)
            first, second = quorum.bootstrap.split(",")
            told = (
                f"have to expect the first voters 1,2; not answered: none; expecting others: "
                f"{second} 2",
                f"have to expect the first voters 2; not answered: none; expecting others: "
                f"{first} 1,2",
            )
            await seen(lambda: all(text in caplog.text for text in told))
            assert {node.core.epoch for node in quorum.nodes.values()} == {0}
            await quorum.kill(2)
            change(quorum.properties[2], quorum__voters="1,2")
            await quorum.start(2)
            await quorum.wait_leader(WAIT_S)
        finally:
            await quorum.stop()

    run(main())


def static_853(directory: Path, node_id: int, ports: dict[int, int], cluster_id: str) -> Path:
    """A node of a static quorum, formatted, with a disk that is new."""
    home = directory / str(node_id)
    home.mkdir(exist_ok=True)
    path = home / "node.properties"
    at = f"CONTROLLER://{HOST}:{ports[node_id]}"
    voters = ",".join(f"{other}@{HOST}:{port}" for other, port in ports.items())
    properties = {
        "process.roles": "controller",
        "node.id": str(node_id),
        "controller.listener.names": "CONTROLLER",
        "listeners": at,
        "advertised.listeners": at,
        "controller.quorum.voters": voters,
        "log.dirs": str(home / "log"),
        **patient("kip-853"),
    }
    path.write_text(render_properties(properties), "latin-1")
    parts_of("kip-853").node.format(path, FormatRequest(cluster_id=cluster_id))
    return path


def test_a_static_voter_of_kip_853_gets_a_new_disk(tmp_path: Path) -> None:
    """A known id may change its uuid, by its id and uuid alone; a new id and endpoints may not."""
    ports = dict(zip((1, 2, 3), free_ports(free_port(set()), 3), strict=True))
    cluster_id = str(Uuid.random())
    nodes: dict[int, Node] = {}

    async def start(node_id: int) -> None:
        path = tmp_path / str(node_id) / "node.properties"
        nodes[node_id] = make_node(load_config(path, "kip-853"), "kip-853")
        await nodes[node_id].start()

    def leader() -> Node | None:
        return next((node for node in nodes.values() if is_leading(node)), None)

    async def main() -> None:
        for node_id in ports:
            static_853(tmp_path, node_id, ports, cluster_id)
            await start(node_id)
        try:
            await seen(lambda: leader() is not None)
            led_by = leader()
            assert led_by is not None
            await led_by.append([b"something"])
            lost = next(node_id for node_id in nodes if node_id != led_by.config.node_id)
            old = nodes[lost].core.config.directory_id
            await nodes.pop(lost).end_now()
            shutil.rmtree(tmp_path / str(lost) / "log")
            static_853(tmp_path, lost, ports, cluster_id)
            await start(lost)
            node = nodes[lost]
            await node.until(lambda it: it.core.committed_offset > 0, WAIT_S)
            new = node.core.config.directory_id
            assert new != old
            addresses = ",".join(f"{HOST}:{port}" for port in ports.values())
            with Kip853Admin(addresses) as admin:
                at = [Endpoint("CONTROLLER", HOST, ports[lost])]
                with pytest.raises(AnswerError):  # "Reject if endpoints is specified and …"
                    await asyncio.to_thread(admin.add_voter, lost, new, at)
                with pytest.raises(AnswerError):
                    await asyncio.to_thread(admin.add_voter, 9, Uuid.random(), [])
                await asyncio.to_thread(admin.add_voter, lost, new, [])
                described = await asyncio.to_thread(admin.describe_quorum)
            assert {voter.id: voter.uuid for voter in described.voters}[lost] == new
            await node.until(lambda it: bool(it.core.is_voter), WAIT_S)
        finally:
            for node in nodes.values():
                await node.end_now()

    run(main())
