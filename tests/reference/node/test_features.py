"""UpdateFeatures at a leader of ours: what Kafka's own tool asks, and what Kafka answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.reference.kafka_tools import FEATURES, KafkaTools
from tests.reference.node.quorum import WAIT_S, run, seen

from kraftspec.conformance.cluster import Cluster
from kraftspec.conformance.cluster.node import free_port
from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import UpdateFeaturesRequest, UpdateFeaturesResponse
from kraftspec.reference.admin import AdminClient, AnswerError
from kraftspec.reference.local.quorum import HOST, LocalQuorum, free_ports
from kraftspec.reference.log.properties import render_properties
from kraftspec.reference.node.runtime import Node
from kraftspec.reference.profiles.common.node import PROPERTIES_NAME
from kraftspec.reference.raft.leader import Leader
from kraftspec.reference.tools.storage import FormatRequest, format_storage
from kraftspec.reference.tools.storage_config import load_storage_config
from kraftspec.reference.wire.blocking import ask

KRAFT = "kraft.version"
# What is asked, at which version: (feature, level, upgrade type), …; then whether only to validate.
Asked = tuple[int, tuple[tuple[str, int, int], ...], bool]
ASKED: tuple[Asked, ...] = (
    (2, ((KRAFT, 1, 1),), True),
    (2, (), False),
    (2, (("foo", 1, 1),), False),
    (2, (("foo", 0, 1),), False),
    (2, (("foo", -1, 1),), False),
    (2, (("foo", 1, 0),), False),
    (2, ((KRAFT, 1, 0),), False),
    (2, ((KRAFT, 1, 9),), False),
    (2, ((KRAFT, 2, 1),), False),
    (2, ((KRAFT, 2, 2),), False),
    (2, ((KRAFT, -1, 1),), False),
    (2, ((KRAFT, -1, 3),), False),
    (2, ((KRAFT, 0, 1),), False),
    (1, ((KRAFT, 0, 2),), False),
    (2, ((KRAFT, 1, 2),), False),
    (2, ((KRAFT, 1, 1), ("foo", 1, 1)), True),
    (1, (("foo", 1, 1), (KRAFT, 1, 1)), True),
    # Not "in earnest": Kafka raises kraft.version then, and says that the update failed for all.
    (0, ((KRAFT, 0, 1),), False),
    (1, ((KRAFT, 1, 1),), True),
    (1, ((KRAFT, 1, 1),), False),
    (2, ((KRAFT, 1, 1),), False),
    (0, ((KRAFT, 1, 1),), False),
    (2, ((KRAFT, 0, 1),), False),
    (2, ((KRAFT, 0, 2),), False),
    (2, ((KRAFT, 0, 3),), True),
    (0, ((KRAFT, 0, 1),), False),
)


def answers(port: int, case: Asked) -> UpdateFeaturesResponse:
    version, updates, validate = case
    key = UpdateFeaturesRequest.FeatureUpdateKey
    request = UpdateFeaturesRequest(
        timeout_ms=30_000,
        feature_updates=[
            key(feature=name, max_version_level=level, upgrade_type=kind if version else 1)
            for name, level, kind in updates
        ],
        validate_only=validate,
    )
    return ask(port, request, version, UpdateFeaturesResponse, timeout_s=30)


def static_quorum(directory: Path, count: int) -> LocalQuorum:
    """Voters of ``controller.quorum.voters``, at kraft.version 0."""
    ports = free_ports(free_port(set()), count)
    ids = range(401, 401 + count)
    voters = ",".join(f"{node_id}@{HOST}:{port}" for node_id, port in zip(ids, ports, strict=True))
    for node_id, port in zip(ids, ports, strict=True):
        path = directory / str(node_id) / PROPERTIES_NAME
        path.parent.mkdir(parents=True)
        properties = {
            "process.roles": "controller",
            "node.id": str(node_id),
            "log.dirs": str(path.parent / "log"),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CONTROLLER://{HOST}:{port}",
            "controller.quorum.voters": voters,
        }
        path.write_text(render_properties(properties), "latin-1")
        format_storage(
            load_storage_config(path), FormatRequest(cluster_id="c3RhdGljLXF1b3J1bS0xMg")
        )
    return LocalQuorum(directory)


@pytest.fixture(scope="module")
def kafkas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[UpdateFeaturesResponse]]:
    """What a real controller answers, a static voter that is alone."""
    directory = tmp_path_factory.mktemp("kafka")
    with Cluster(directory, controllers=1, brokers=0, quorum="static") as cluster:
        port = cluster.leader().listener().port
        yield [answers(port, case) for case in ASKED]


@pytest.mark.kafka
def test_the_answers_are_kafkas(kafkas: list[UpdateFeaturesResponse], tmp_path: Path) -> None:
    """The same error, result and text, but for the id of the node."""

    async def main() -> None:
        async with static_quorum(tmp_path, 1) as quorum:
            leader = await quorum.wait_leader(WAIT_S)
            port = leader.config.listeners[0].port
            for case, wanted in zip(ASKED, kafkas, strict=True):
                response = await asyncio.to_thread(answers, port, case)
                if response.error_message is not None:
                    response.error_message = response.error_message.replace("401", "3001")
                assert response == wanted, case

    run(main())


@pytest.mark.kafka
def test_kafkas_tool_raises_kraft_version(kafka: KafkaTools, tmp_path: Path) -> None:
    """Three static voters of ours become those of a log, and a fourth can be added."""

    async def main() -> None:
        async with static_quorum(tmp_path, 3) as quorum:
            leader = await quorum.wait_leader(WAIT_S)
            await quorum.bootstrap_log(leader)
            # Each has told the leader who it is.
            await seen(lambda: knows_all(leader))
            where = ["--bootstrap-controller", addresses(quorum)]
            upgrade = [*where, "upgrade", "--feature", "kraft.version=1"]
            done = await asyncio.to_thread(kafka.run, FEATURES, *upgrade)
            assert (done.code, done.out) == (0, "kraft.version was upgraded to 1.\n"), done
            for node in quorum.nodes.values():
                await node.until(lambda it: it.core.log.kraft_versions.last == 1, WAIT_S)
                offset = node.core.log.voters.last_offset
                assert offset is not None
                await committed(node, offset)
            ids = {voter.key.id: voter.key.directory_id for voter in leader.core.log.voters.last}
            assert ids == {
                node_id: node.config.core.directory_id for node_id, node in quorum.nodes.items()
            }
            told = await asyncio.to_thread(kafka.run, FEATURES, *where, "describe")
            line = next(line for line in told.out.splitlines() if "kraft.version" in line)
            assert re.search(r"FinalizedVersionLevel: 1\b", line)
            again = await asyncio.to_thread(kafka.run, FEATURES, *upgrade)
            assert again.code == 0
            other = [*where, "upgrade", "--feature", "group.version=1"]
            refused = await asyncio.to_thread(kafka.run, FEATURES, *other)
            assert refused.code == 1
            assert "does not support this feature" in refused.out + refused.err

    run(main())


def test_who_does_not_lead_is_no_controller(tmp_path: Path) -> None:
    async def main() -> None:
        async with static_quorum(tmp_path, 2) as quorum:
            leader = await quorum.wait_leader(WAIT_S)
            other = next(node for node in quorum.nodes.values() if node is not leader)
            port = other.config.listeners[0].port
            for validate in (True, False):
                response = await asyncio.to_thread(answers, port, (2, ((KRAFT, 1, 1),), validate))
                assert response.error_code == ErrorCode.NOT_CONTROLLER
            assert leader.core.log.kraft_versions.last == 0

    run(main())


@pytest.mark.soak
def test_a_voter_that_nobody_has_heard_of_keeps_the_version_back(tmp_path: Path) -> None:
    """Its directory is unknown, so it cannot be written down (KIP-853)."""

    async def main() -> None:
        quorum = static_quorum(tmp_path, 3)
        missing = max(quorum.properties)
        for node_id in quorum.properties.keys() - {missing}:
            await quorum.start(node_id)
        try:
            leader = await quorum.wait_leader(WAIT_S)
            port = leader.config.listeners[0].port
            response = await asyncio.to_thread(answers, port, (2, ((KRAFT, 1, 1),), False))
            assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
            assert leader.core.log.kraft_versions.last == 0
            await quorum.start(missing)
            await seen(lambda: knows_all(leader))
            response = await asyncio.to_thread(answers, port, (2, ((KRAFT, 1, 1),), False))
            assert response.error_code == 0
            await leader.until(lambda it: it.core.log.kraft_versions.last == 1, WAIT_S)
        finally:
            await quorum.stop()

    run(main())


@pytest.mark.soak
def test_the_admin_client_raises_it_through_whoever_is_asked(tmp_path: Path) -> None:
    async def main() -> None:
        async with static_quorum(tmp_path, 2) as quorum:
            leader = await quorum.wait_leader(WAIT_S)
            await seen(lambda: knows_all(leader))

            def upgrade() -> None:
                with AdminClient(addresses(quorum), to_controllers=True) as admin:
                    admin.upgrade_feature(KRAFT, 1, validate_only=True)
                    assert leader.core.log.kraft_versions.last == 0
                    admin.upgrade_feature(KRAFT, 1)
                    admin.upgrade_feature(KRAFT, 1)
                    with pytest.raises(
                        AnswerError, match="does not support this feature"
                    ) as caught:
                        admin.upgrade_feature("group.version", 1)
                    assert caught.value.code == ErrorCode.INVALID_UPDATE_VERSION

            await asyncio.to_thread(upgrade)
            assert leader.core.log.kraft_versions.last == 1

    run(main())


def addresses(quorum: LocalQuorum) -> str:
    listeners = [node.config.listeners[0] for node in quorum.nodes.values()]
    return ",".join(f"{it.host}:{it.port}" for it in listeners)


def committed(node: Node, offset: int) -> Coroutine[Any, Any, None]:
    return node.until(lambda it: it.core.committed_offset > offset, WAIT_S)


def knows_all(leader: Node) -> bool:
    role = leader.core.role
    assert isinstance(role, Leader)
    voters = role.membership.volatile_voters
    return voters is not None and all(any(voter.key.directory_id) for voter in voters)
