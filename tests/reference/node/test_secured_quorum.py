"""A quorum of ours alone over SASL_SSL with SCRAM, and what its log says of users and rights."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

from kraftspec.conformance.cluster.node import HOST, free_port
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.types import Uuid
from kraftspec.fastpath.wire import uvarint
from kraftspec.generated import kafka
from kraftspec.reference.node.config import load_config
from kraftspec.reference.node.runtime import Node, NotAppendedError
from kraftspec.reference.node.security.authorizer import Operation
from kraftspec.reference.node.security.scram import credential_of
from kraftspec.reference.node.settings import Mechanism
from kraftspec.reference.raft import RoleName

from .certificates import Authority
from .quorum import run
from .secured import NOBODY, NODE, format_ours, server_properties, write_properties

WAIT_S = 60.0
DESCRIBE_QUORUM = 55
VOTE = 52


def format_quorum(directory: Path, count: int = 3) -> list[Path]:
    """Format the nodes of a quorum over SASL_SSL; they know each other's passwords from there."""
    taken: set[int] = set()
    authority = Authority()
    draw = random.Random(5)
    ports = {node_id: free_port(taken) for node_id in range(1, count + 1)}
    voters = ",".join(
        f"{node_id}@{HOST}:{port}:{Uuid(draw.randbytes(16))}" for node_id, port in ports.items()
    )
    paths = []
    for node_id, port in ports.items():
        home = directory / str(node_id)
        properties = {
            "process.roles": "controller",
            "node.id": str(node_id),
            "log.dirs": str(home / "data"),
            "controller.quorum.bootstrap.servers": ",".join(
                f"{HOST}:{other}" for other in ports.values()
            ),
            "controller.quorum.election.timeout.ms": "500",
            "controller.quorum.append.linger.ms": "0",
            **server_properties(home, authority, {"CONTROLLER": port}, node_id, "SCRAM-SHA-512"),
        }
        paths.append(write_properties(home / "node.properties", properties))
        format_ours(paths[-1], initial_controllers=voters)
    return paths


async def started(path: Path) -> Node:
    node = Node(load_config(path))
    await node.start()
    return node


async def leader_of(nodes: list[Node]) -> Node:
    async with asyncio.timeout(WAIT_S):
        while True:
            for node in nodes:
                if node.core.role.name is RoleName.LEADER and node.core.high_watermark > 0:
                    return node
            await asyncio.sleep(0.02)


def framed(record: Message) -> bytes:
    """Return a record as the metadata log has it."""
    assert record.API_KEY is not None
    return bytes([1]) + uvarint(record.API_KEY) + bytes([0]) + record.encode(0)


async def append(nodes: list[Node], *records: Message) -> None:
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                leader = await leader_of(nodes)
                found = await leader.append([framed(record) for record in records])
                break
            except NotAppendedError:
                await asyncio.sleep(0.02)
    for node in nodes:
        await node.until(lambda it: it.core.committed_offset > found.last_offset, WAIT_S)


def test_three_nodes_that_trust_nobody_else(tmp_path: Path) -> None:
    async def main() -> None:
        paths = format_quorum(tmp_path)
        nodes = [await started(path) for path in paths]
        try:
            await append(nodes, kafka.NoOpRecord())
            # Away and back again, when the credentials are in the log, and nobody leads it yet.
            for number in (0, 1):
                await nodes[number].end_now()
            nodes[:2] = [await started(path) for path in paths[:2]]
            await append(nodes, kafka.NoOpRecord())
        finally:
            await asyncio.gather(*(node.stop(0.2) for node in nodes))

    run(main())


def credential(name: str, password: str) -> kafka.UserScramCredentialRecord:
    made = credential_of(Mechanism.SCRAM_SHA_256, password, b"grains of salt", 4096)
    return kafka.UserScramCredentialRecord(
        name=name, mechanism=1, salt=made.salt, stored_key=made.stored_key,
        server_key=made.server_key, iterations=made.iterations,
    )  # fmt: skip


def acl(principal: str, operation: Operation, permission: int = 3, **more: Any) -> Any:
    return kafka.AccessControlEntryRecord(
        id=Uuid.random(), resource_type=4, resource_name="kafka-cluster", pattern_type=3,
        principal=principal, host="*", operation=operation, permission_type=permission, **more,
    )  # fmt: skip


def test_what_the_log_says_of_users_and_rights_holds_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        (path,) = format_quorum(tmp_path, 1)
        node = await started(path)
        nodes = [node]

        def known(name: str) -> bool:
            assert node.gate.records is not None
            return node.gate.records.credential(Mechanism.SCRAM_SHA_256, name) is not None

        def may(name: str, key: int = DESCRIBE_QUORUM) -> bool:
            return node.gate.allowed(f"User:{name}", key, HOST)

        try:
            await append(nodes, kafka.NoOpRecord())
            assert known(NODE)  # From the checkpoint that formatting made.
            assert not known("carol")
            await append(nodes, credential("carol", "secret"))
            assert known("carol")
            assert may(NODE, VOTE)
            assert not may("carol")
            describe = acl("User:carol", Operation.DESCRIBE)
            await append(nodes, describe)
            assert may("carol")
            assert not may("carol", VOTE)
            assert not may(NOBODY)
            denied = acl("User:carol", Operation.DESCRIBE, 2)
            await append(nodes, denied)
            assert not may("carol")
            await append(nodes, kafka.RemoveAccessControlEntryRecord(id=denied.id))
            assert may("carol")
            # What a transaction holds counts when it ends, and not at all when it is aborted.
            begin = kafka.BeginTransactionRecord(name="two")
            await append(nodes, begin, credential("dave", "x"))
            assert not known("dave")
            await append(nodes, kafka.AbortTransactionRecord())
            assert not known("dave")
            await append(nodes, begin, credential("dave", "x"), kafka.EndTransactionRecord())
            assert known("dave")
            await append(nodes, kafka.RemoveUserScramCredentialRecord(name="carol", mechanism=1))
            assert not known("carol")
            await node.stop(0.2)
            node = nodes[0] = await started(path)  # All of it again, from the log.
            assert (known("dave"), known("carol"), may("carol")) == (True, False, True)
            # A controller of Kafka's has written its own checkpoint: ours is none of the cluster's.
            await append(nodes, kafka.FeatureLevelRecord(name="metadata.version", feature_level=25))
            assert (known("dave"), known(NODE)) == (True, False)
        finally:
            await node.stop(0.2)

    run(main())
