"""A quorum of ours alone over SASL_SSL with SCRAM, and what its log says of users and rights."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import Any

import pytest

from kraftspec.conformance.cluster.node import HOST, free_port
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.types import Uuid
from kraftspec.fastpath.wire import uvarint
from kraftspec.generated import kafka
from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.node.appending import NotAppendedError
from kraftspec.reference.node.config import load_config
from kraftspec.reference.node.runtime import Node
from kraftspec.reference.node.security.authorizer import Operation
from kraftspec.reference.node.security.scram import credential_of
from kraftspec.reference.node.settings import Mechanism
from kraftspec.reference.raft import RoleName
from kraftspec.reference.wire.frames import request_header, sized

from .certificates import Authority
from .quorum import leads, run
from .secured import NOBODY, NODE, format_ours, server_properties, write_properties

WAIT_S = 60.0
DESCRIBE_QUORUM = 55
VOTE = 52


def format_quorum(
    directory: Path, count: int = 3, listener: str = "CONTROLLER", **changes: str
) -> list[Path]:
    """Format the nodes of a quorum over SASL; they know each other's passwords from there."""
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
            **server_properties(home, authority, {listener: port}, node_id, "SCRAM-SHA-512"),
            **{key.replace("__", "."): value for key, value in changes.items()},
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
                appended = await leader.append([framed(record) for record in records])
                break
            except NotAppendedError:
                await asyncio.sleep(0.02)
    for node in nodes:
        await node.until(lambda it: it.core.committed_offset > appended.last_offset, WAIT_S)


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
    derived = credential_of(Mechanism.SCRAM_SHA_256, password, b"grains of salt", 4096)
    return kafka.UserScramCredentialRecord(
        name=name, mechanism=1, salt=derived.salt, stored_key=derived.stored_key,
        server_key=derived.server_key, iterations=derived.iterations,
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
            await (await leader_of(nodes)).append([b"\1\x7f\0", b"rubbish", b""])
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


# ---- a listener with SASL, by the byte ---------------------------------------------------------


def framed_request(message: Any, version: int) -> bytes:
    header = request_header(type(message), version, 1, "test")
    return sized(header + message.encode(version))


async def say(port: int, *frames: bytes) -> tuple[list[bytes], float]:
    """Send frames one after the other; return the answers, and how long it was until the end."""
    reader, writer = await asyncio.open_connection(HOST, port)
    began = time.monotonic()
    answers = []
    try:
        for frame in frames:
            writer.write(frame)
            await writer.drain()
            size = int.from_bytes(await reader.readexactly(4), "big")
            answers.append(await reader.readexactly(size))
        assert await asyncio.wait_for(reader.read(1), WAIT_S) == b""
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()
    return answers, time.monotonic() - began


def test_who_has_not_authenticated_gets_nowhere(tmp_path: Path) -> None:
    plain = framed_request(kafka.SaslHandshakeRequest(mechanism="PLAIN"), 1)
    wrong = framed_request(kafka.SaslAuthenticateRequest(auth_bytes=b"\0node\0x"), 2)
    versions = framed_request(
        kafka.ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3
    )
    asks = framed_request(kafka.DescribeQuorumRequest(), 2)

    async def main() -> None:
        (path,) = format_quorum(tmp_path, 1, listener="CLEAR")
        node = await started(path)
        try:
            await append([node], kafka.NoOpRecord())
            (_, port) = node.listeners["CLEAR"]
            assert (await say(port, asks))[0] == []
            assert (await say(port, (600 << 10).to_bytes(4, "big")))[0] == []
            assert (await say(port, plain, asks))[0][1:] == []
            answers, took_s = await say(port, versions, plain, wrong, plain)
            assert len(answers) == 3
            refused = kafka.SaslAuthenticateResponse.decode(answers[2][5:], 2)
            assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert took_s >= node.config.limits.failed_authentication_delay_ms / 1000
            old = framed_request(kafka.SaslHandshakeRequest(mechanism="PLAIN"), 0)
            assert (await say(port, old))[0] == []
            assert leads(node)
        finally:
            await node.stop(0.2)

    run(main())


@pytest.mark.soak
def test_logins_that_end_are_renewed(tmp_path: Path) -> None:
    """Connections of a second each: what is appended is committed throughout."""

    async def main() -> None:
        paths = format_quorum(tmp_path, 2, connections__max__reauth__ms="1000")
        nodes = [await started(path) for path in paths]
        try:
            ends = time.monotonic() + 3
            while time.monotonic() < ends:
                await append(nodes, kafka.NoOpRecord())
                await asyncio.sleep(0.05)
        finally:
            await asyncio.gather(*(node.stop(0.2) for node in nodes))

    run(main())
