"""Quorums of several releases of Kafka, one of ours among their voters."""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from tests.reference.kafka_tools import ours as run_ours
from tests.reference.node.mixed import BROKER_RESOURCE, assert_agrees

from kraftspec.conformance.cluster import QUORUM_COMMAND, RELEASE, RELEASES, Cluster, Node
from kraftspec.conformance.cluster.cluster import FIRST_CONTROLLER_ID, quorum_at
from kraftspec.conformance.cluster.node import HOST
from kraftspec.fastpath.errors import CodecError
from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import (
    ApiVersionsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    UnregisterControllerRequest,
    UnregisterControllerResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kraftspec.interop.ours import Ours, wait_until
from kraftspec.reference.metadata.features import LEVELS, METADATA_VERSION
from kraftspec.reference.tools.shell.load import Source
from kraftspec.reference.wire.blocking import ask
from kraftspec.reference.wire.client import api_versions_request
from kraftspec.reference.wire.frames import WireError

pytestmark = pytest.mark.kafka

OLD = "4.3.1"


class Writes(threading.Thread):
    """A client that sets one config after the other; ``acknowledged`` are the values set."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[str] = []
        self._ports = [node.listener().port for node in cluster.controllers]
        self._done = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self.join()

    def run(self) -> None:
        kind = IncrementalAlterConfigsRequest
        for number in count():
            config = kind.AlterableConfig(name="kraftspec", config_operation=0, value=f"<{number}>")
            resource = kind.AlterConfigsResource(
                resource_type=BROKER_RESOURCE, resource_name="", configs=[config]
            )
            for port in self._ports:  # Who does not lead refuses.
                if self._done.is_set():
                    return
                with suppress(OSError, CodecError):
                    response = ask(
                        port, kind(resources=[resource]), 1, IncrementalAlterConfigsResponse
                    )
                    if response.responses[0].error_code == 0:
                        self.acknowledged.append(f"<{number}>")
                        break

    def wait_more(self, what: str) -> None:
        """Wait until it was answered some more times."""
        before = len(self.acknowledged)
        wait_until(what, lambda: len(self.acknowledged) > before + 5)


def unregister(port: int, node_id: int) -> int:
    request = UnregisterControllerRequest(controller_id=node_id)
    return ask(port, request, 0, UnregisterControllerResponse).error_code


def raise_metadata_version(port: int) -> int:
    """Ask for that of 4.4."""
    update = UpdateFeaturesRequest.FeatureUpdateKey(
        feature=METADATA_VERSION, max_version_level=LEVELS["4.4-IV2"], upgrade_type=1
    )
    request = UpdateFeaturesRequest(feature_updates=[update])
    return ask(port, request, 2, UpdateFeaturesResponse).error_code


def features(port: int) -> tuple[dict[str, tuple[int, int]], dict[str, int]]:
    """What a node supports and what it takes as finalized."""
    response = ask(port, api_versions_request(4), 4, ApiVersionsResponse)
    return (
        {one.name: (one.min_version, one.max_version) for one in response.supported_features},
        {one.name: one.max_version_level for one in response.finalized_features},
    )


def is_active(port: int) -> bool:
    return unregister(port, 9) != ErrorCode.NOT_CONTROLLER


def registered(ours: Ours) -> set[int]:
    """The controllers that are registered, as the log of our node has it."""
    return set(Source(directory=str(ours.log_dir)).load().image.controllers)


def upgrade(node: Node) -> None:
    node.stop()
    node.release = RELEASE
    node.start()
    node.wait_healthy()


def leads(cluster: Cluster, node: Node) -> bool:
    return cluster.quorum_of(node) is not None


def lead_both(cluster: Cluster, ours: Ours) -> None:
    """Let each of two controllers lead, by the vote of ours."""
    for _ in range(2):
        old = cluster.leader()
        old.kill()
        (other,) = (node for node in cluster.controllers if node is not old)
        wait_until(f"{other.release} leads", partial(leads, cluster, other))
        old.start()
        old.wait_healthy()
        assert_agrees(cluster, ours)


@pytest.mark.soak
def test_a_quorum_is_upgraded_node_by_node_under_load(tmp_path: Path) -> None:
    """From 4.3.1 to 4.4.0, one voter of three ours; nothing acknowledged is lost."""
    with Cluster(tmp_path / "kafka", controllers=2, brokers=1, release=OLD) as cluster:
        ours = Ours(cluster, tmp_path / "ours", 101, options=("--as", OLD))
        ours.format()
        ours.start()
        ours.wait_caught_up()
        ours.add()
        ours.wait_voter()
        with Writes(cluster) as writes:
            writes.wait_more("4.3.1 writes")
            first, second = cluster.controllers
            upgrade(first)
            lead_both(cluster, ours)  # 4.3.1 and 4.4.0.
            writes.wait_more("two releases write")
            ours.stop()
            writes.wait_more("without ours")
            ours.options = ()
            ours.start()
            ours.wait_caught_up()
            upgrade(second)
            upgrade(cluster.brokers[0])
            lead_both(cluster, ours)
            port = cluster.leader().listener().port
            # That takes its metadata.version, which is still that of 4.3.
            assert unregister(port, 9) == ErrorCode.UNSUPPORTED_VERSION
            assert raise_metadata_version(port) == ErrorCode.NONE
            assert unregister(port, 9) == ErrorCode.CONTROLLER_ID_NOT_REGISTERED
            writes.wait_more("4.4.0 writes")
        assert_agrees(cluster, ours)
        ours.stop()
        log = b"".join(path.read_bytes() for path in ours.metadata_log.glob("*.log"))
        missing = [value for value in writes.acknowledged if value.encode() not in log]
        assert missing == []


@pytest.mark.soak
@pytest.mark.parametrize("release", RELEASES[: RELEASES.index(OLD)])
def test_each_release_leads_the_newest_and_follows_it(release: str, tmp_path: Path) -> None:
    """By the vote of ours, which speaks with each in the versions that both serve."""
    with Cluster(
        tmp_path / "kafka",
        controllers=2,
        brokers=0,
        releases={FIRST_CONTROLLER_ID: release},
        format_arguments=["--release-version", "4.0"],
    ) as cluster:
        ours = Ours(cluster, tmp_path / "ours", 101)
        ours.format()
        ours.start()
        ours.wait_caught_up()
        ours.add()
        ours.wait_voter()
        lead_both(cluster, ours)
        ours.stop()


def test_a_controller_is_unregistered(tmp_path: Path) -> None:
    """Whose process has ended; one that lives registers again."""
    with Cluster(tmp_path / "kafka", controllers=3, brokers=0) as cluster:
        ours = Ours(cluster, tmp_path / "ours", 101)
        ours.format()
        ours.start()
        ours.wait_caught_up()
        everyone = {node.id for node in cluster.controllers}
        wait_until("all are registered", lambda: registered(ours) == {*everyone, ours.id})
        leader = cluster.leader()
        live, ended = (node for node in cluster.controllers if node is not leader)
        ended.stop()

        port = leader.listener().port
        assert unregister(live.listener().port, ended.id) == ErrorCode.NOT_CONTROLLER
        assert unregister(ours.port, ended.id) == ErrorCode.NOT_CONTROLLER
        assert unregister(port, leader.id) == ErrorCode.INVALID_REQUEST
        assert unregister(port, 9) == ErrorCode.CONTROLLER_ID_NOT_REGISTERED
        assert unregister(port, ended.id) == ErrorCode.NONE  # Although it is a voter.
        assert unregister(port, ended.id) == ErrorCode.CONTROLLER_ID_NOT_REGISTERED
        assert unregister(port, live.id) == ErrorCode.NONE
        wait_until("one is gone, and one back", lambda: everyone - registered(ours) == {ended.id})
        assert unregister(port, ours.id) == ErrorCode.NONE
        wait_until("ours is back, too", lambda: registrations(ours) == 2)
        assert_agrees(cluster, ours)
        ours.stop()


def test_ours_unregisters_a_controller(tmp_path: Path) -> None:
    """As the leader, at a metadata.version that was raised to 4.4; a Kafka controller replays it.

    As long as ours speaks as 4.3.1, Kafka raises none.
    """
    with Cluster(
        tmp_path / "kafka",
        controllers=2,
        brokers=0,
        quorum="standalone",
        format_arguments=["--release-version", "4.3"],
    ) as cluster:
        first, second = cluster.controllers
        ours = Ours(cluster, tmp_path / "ours", 101, options=("--as", OLD))
        ours.format()
        ours.start()
        ours.wait_caught_up()
        everyone = {first.id, second.id, ours.id}
        wait_until("all are registered", lambda: registered(ours) == everyone)
        of_kafka, port = first.listener().port, ours.port
        assert unregister(of_kafka, second.id) == ErrorCode.UNSUPPORTED_VERSION
        assert unregister(of_kafka, first.id) == ErrorCode.INVALID_REQUEST
        with pytest.raises(WireError, match="hung up"):
            unregister(port, second.id)
        wait_until("ours knows it", lambda: features(port)[1] == features(of_kafka)[1])
        assert raise_metadata_version(of_kafka) == ErrorCode.INVALID_UPDATE_VERSION

        ours.stop()
        ours.options = ("--transfer-leadership", "never")
        ours.start()
        ours.wait_caught_up()
        wait_until("4.4 is finalized", lambda: raise_metadata_version(of_kafka) == ErrorCode.NONE)
        wait_until("ours knows it", lambda: features(port) == features(of_kafka))
        assert unregister(port, second.id) == ErrorCode.NOT_CONTROLLER
        ours.add()
        ours.wait_voter()
        quorum = cluster.wait_quorum()
        (directory,) = (
            it.replica_directory_id for it in quorum.current_voters if it.replica_id == first.id
        )
        quorum_tool(cluster, port, "remove-controller", "-i", first.id, "-d", directory)
        wait_until("ours leads alone", lambda: quorum_at(port) is not None)
        first.stop()
        second.stop()
        second.write_properties({"controller.quorum.bootstrap.servers": f"{HOST}:{port}"})
        second.start()
        wait_until("a Kafka controller follows ours", lambda: second.id in caught_up(port))

        assert unregister(port, ours.id) == ErrorCode.INVALID_REQUEST
        assert unregister(port, first.id) == ErrorCode.NONE
        assert unregister(port, first.id) == ErrorCode.CONTROLLER_ID_NOT_REGISTERED
        config = ["--command-config", second.properties_path]
        quorum_tool(cluster, port, *config, "add-controller")
        ours.stop()
        ours.options = ()  # Then it lets Kafka's lead.
        ours.start()
        of_kafka = second.listener().port
        wait_until("Kafka's leads", partial(is_active, of_kafka))
        assert unregister(of_kafka, first.id) == ErrorCode.CONTROLLER_ID_NOT_REGISTERED
        assert registered(ours) == everyone - {first.id}
        assert_agrees(cluster, ours)
        ours.stop()


def caught_up(port: int) -> set[int]:
    """The observers that have all that is committed, by the node at a port, which leads."""
    quorum = quorum_at(port)
    assert quorum is not None
    end_offset = quorum.high_watermark
    return {it.replica_id for it in quorum.observers if it.log_end_offset >= end_offset}


def quorum_tool(cluster: Cluster, port: int, *arguments: object) -> None:
    cluster.tool(
        QUORUM_COMMAND,
        "--bootstrap-controller",
        f"{HOST}:{port}",
        *map(str, arguments),
    )


def registrations(ours: Ours) -> int:
    """How often our node has registered, by its log."""
    done = run_ours("dump-log", "--cluster-metadata-decoder", str(ours.log_dir))
    assert done.code == 0, done.err
    events = re.findall(r'"type":"(\w+)_CONTROLLER_RECORD",.*?"controllerId":(\d+)', done.out)
    of_ours = [kind for kind, node_id in events if int(node_id) == ours.id]
    assert of_ours in (
        ["REGISTER"],
        ["REGISTER", "UNREGISTER"],
        ["REGISTER", "UNREGISTER", "REGISTER"],
    )
    return of_ours.count("REGISTER")
