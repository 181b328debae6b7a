"""UnregisterController and ApiVersions of a node of ours, at a metadata.version of 4.3 and of 4.4.

What is expected is what controllers of Apache Kafka 4.4.0 and 4.3.1 answered.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.reference.node.quorum import LISTENER, Quorum, run

from kraftspec.fastpath.message import Message
from kraftspec.generated import kafka
from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.metadata.frames import write_frame
from kraftspec.reference.node.runtime import Node
from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.reference.wire.blocking import ask
from kraftspec.reference.wire.client import api_versions_request
from kraftspec.reference.wire.frames import WireError

UNREGISTER = 94
METADATA_VERSIONS = {"4.3": 30, "4.4": 33}
REGISTERED = (7, 8)
ME = 1
NOBODY = 77
SUPPORTED = {
    "4.3.1": {
        "metadata.version": (7, 30),
        "kraft.version": (0, 1),
        "group.version": (0, 1),
        "transaction.version": (0, 2),
        "eligible.leader.replicas.version": (0, 1),
        "streams.version": (0, 1),
        "share.version": (0, 1),
    },
    "4.4.0": {
        "metadata.version": (7, 33),
        "kraft.version": (0, 1),
        "group.version": (0, 1),
        "transaction.version": (0, 2),
        "eligible.leader.replicas.version": (0, 1),
        "streams.version": (0, 1),
        "share.version": (0, 2),
    },
}


def frames(*records: Message) -> list[bytes]:
    return [write_frame(record, 0) for record in records]


def beginning(metadata_version: int) -> list[bytes]:
    """The records that a Kafka controller begins a log with, and two registrations."""
    level = kafka.FeatureLevelRecord
    return frames(
        kafka.BeginTransactionRecord(name="Bootstrap records"),
        level(name="metadata.version", feature_level=metadata_version),
        level(name="group.version", feature_level=1),
        kafka.EndTransactionRecord(),
        *(kafka.RegisterControllerRecord(controller_id=node_id) for node_id in REGISTERED),
    )


async def unregister(node: Node, node_id: int) -> int:
    request = kafka.UnregisterControllerRequest(controller_id=node_id)
    port = node.listeners[LISTENER][1]
    answer = await asyncio.to_thread(ask, port, request, 0, kafka.UnregisterControllerResponse)
    if not answer.error_code:
        assert answer.error_message == ""
    return answer.error_code


async def api_versions(node: Node, version: int = 4) -> kafka.ApiVersionsResponse:
    port = node.listeners[LISTENER][1]
    return await asyncio.to_thread(
        ask, port, api_versions_request(version), version, kafka.ApiVersionsResponse
    )


def finalized(answer: kafka.ApiVersionsResponse) -> dict[str, int]:
    assert all(one.min_version_level == one.max_version_level for one in answer.finalized_features)
    return {one.name: one.max_version_level for one in answer.finalized_features}


def supported(answer: kafka.ApiVersionsResponse) -> dict[str, tuple[int, int]]:
    return {one.name: (one.min_version, one.max_version) for one in answer.supported_features}


def unregistrations(node: Node) -> list[bytes]:
    """The values of such records in a node's log, by the bytes of one of Kafka's."""
    batches = node.storage.log.batches(0)
    log = b"".join(data[header.position : header.end] for header, data in batches)
    at = [place for place in range(len(log)) if log.startswith(b"\x01\x1d\x00\0\0\0", place)]
    return [log[place : place + 8] for place in at]


def test_what_is_registered_is_unregistered_at_4_4(tmp_path: Path) -> None:
    async def main() -> None:
        async with Quorum(tmp_path, 2) as quorum:
            leader = await quorum.leader()
            (other,) = (node for node in quorum.nodes.values() if node is not leader)
            # Before there is a metadata.version in the log.
            assert await unregister(leader, 7) == ErrorCode.UNSUPPORTED_VERSION
            await leader.append(beginning(METADATA_VERSIONS["4.4"]))
            me = leader.config.node_id
            assert await unregister(other, 7) == ErrorCode.NOT_CONTROLLER
            assert await unregister(leader, me) == ErrorCode.INVALID_REQUEST
            assert await unregister(leader, NOBODY) == ErrorCode.CONTROLLER_ID_NOT_REGISTERED
            assert await unregister(leader, -1) == ErrorCode.CONTROLLER_ID_NOT_REGISTERED
            # A second record would be one that nobody could replay.
            at_once = await asyncio.gather(*(unregister(leader, 7) for _ in range(3)))
            gone = ErrorCode.CONTROLLER_ID_NOT_REGISTERED
            assert sorted(at_once) == [ErrorCode.NONE, gone, gone]
            await leader.append(frames(kafka.RegisterControllerRecord(controller_id=7)))
            assert await unregister(leader, 7) == ErrorCode.NONE
            assert unregistrations(leader) == [bytes.fromhex("011d000000000700")] * 2

            await quorum.stop(me)  # What was committed counts for the next leader, too.
            await quorum.start(me)
            leader = await quorum.leader()
            assert await unregister(leader, 7) == gone
            assert await unregister(leader, 8) == ErrorCode.NONE

    run(main())


def test_at_4_3_nothing_is_unregistered(tmp_path: Path) -> None:
    async def main() -> None:
        async with Quorum(tmp_path, 1) as quorum:
            leader = await quorum.leader()
            await leader.append(beginning(METADATA_VERSIONS["4.3"]))
            for node_id in (7, NOBODY, -1):
                assert await unregister(leader, node_id) == ErrorCode.UNSUPPORTED_VERSION
            assert await unregister(leader, ME) == ErrorCode.INVALID_REQUEST
            assert unregistrations(leader) == []

    run(main())


def test_nothing_is_unregistered_within_a_transaction_of_another(tmp_path: Path) -> None:
    """Its record would go with that, when the next Kafka controller ends it."""

    async def main() -> None:
        async with Quorum(tmp_path, 1) as quorum:
            leader = await quorum.leader()
            await leader.append(beginning(METADATA_VERSIONS["4.4"]))
            await leader.append(frames(kafka.BeginTransactionRecord(name="of a dead controller")))
            assert await unregister(leader, 7) == ErrorCode.NOT_CONTROLLER
            await leader.append(frames(kafka.AbortTransactionRecord()))
            assert await unregister(leader, 7) == ErrorCode.NONE

    run(main())


@pytest.mark.parametrize("release", METADATA_VERSIONS)
def test_api_versions_has_the_levels_of_the_log(release: str, tmp_path: Path) -> None:
    """The same APIs and ranges at each metadata.version, and what is finalized in the log."""
    levels = {"kraft.version": 1, "group.version": 1}

    async def main() -> None:
        async with Quorum(tmp_path, 1) as quorum:
            leader = await quorum.leader()
            before = await api_versions(leader)
            assert finalized(before) == {"kraft.version": 1}
            end_offset = leader.core.log.end_offset
            await leader.append(beginning(METADATA_VERSIONS[release]))
            answer = await api_versions(leader, 5)
            assert answer.api_keys == before.api_keys
            assert {one.api_key: one.max_version for one in answer.api_keys}[UNREGISTER] == 0
            assert supported(answer) == supported(before) == SUPPORTED["4.4.0"]
            levels["metadata.version"] = METADATA_VERSIONS[release]
            assert finalized(answer) == levels
            # Since the transaction with them ended.
            assert answer.finalized_features_epoch == end_offset + 3
            # What begins with 0 is left out (KIP-1022).
            assert supported(await api_versions(leader, 3)) == {"metadata.version": (7, 33)}

            off = kafka.FeatureLevelRecord(name="group.version", feature_level=0)
            appended = await leader.append(frames(off))
            del levels["group.version"]
            answer = await api_versions(leader)
            assert finalized(answer) == levels
            assert answer.finalized_features_epoch == appended.last_offset

    run(main())


def test_a_log_that_is_no_metadata_has_no_features(tmp_path: Path) -> None:
    async def main() -> None:
        async with Quorum(tmp_path, 1) as quorum:
            leader = await quorum.leader()
            end = kafka.EndTransactionRecord()
            await leader.append([b"\x01\x0c\x00", b"\x01\x0c\x00\xff", b"", *frames(end)])
            assert finalized(await api_versions(leader)) == {"kraft.version": 1}

    run(main())


def test_a_node_speaks_as_4_3_1(tmp_path: Path) -> None:
    """Its versions and features are those of 4.3.1, in a quorum with one of the newest release."""

    async def main() -> None:
        quorum = Quorum(tmp_path, 2)
        old = Node(quorum.configs[1], profile=KafkaProfile(LISTENER, release="4.3.1"))
        async with quorum.running():
            quorum.nodes[1] = old
            await old.start()
            new = await quorum.start(2)
            leader = await quorum.leader()
            await leader.append(beginning(METADATA_VERSIONS["4.3"]))
            ranges: list[dict[int, tuple[int, int]]] = []
            for node in (old, new):
                keys = (await api_versions(node)).api_keys
                ranges.append({one.api_key: (one.min_version, one.max_version) for one in keys})
            of_old, of_new = ranges
            assert of_new.pop(UNREGISTER) == (0, 0)
            assert (of_old.pop(18), of_new.pop(18)) == ((0, 4), (0, 5))
            assert of_old == of_new
            assert supported(await api_versions(old)) == SUPPORTED["4.3.1"]
            refused: Any = await api_versions(old, 5)
            assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert [(one.api_key, one.max_version) for one in refused.api_keys] == [(18, 4)]
            with pytest.raises(WireError, match="hung up"):
                await unregister(old, 7)

    run(main())
