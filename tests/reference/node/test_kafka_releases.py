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

from kraftspec.conformance.cluster import RELEASE, RELEASES, Cluster, Node
from kraftspec.conformance.cluster.cluster import FIRST_CONTROLLER_ID
from kraftspec.fastpath.errors import CodecError
from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import (
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
                    said = ask(port, kind(resources=[resource]), 1, IncrementalAlterConfigsResponse)
                    if said.responses[0].error_code == 0:
                        self.acknowledged.append(f"<{number}>")
                        break

    def wait_more(self, what: str) -> None:
        """Wait until it was answered some more times."""
        before = len(self.acknowledged)
        wait_until(what, lambda: len(self.acknowledged) > before + 5)


def unregister(port: int, node_id: int) -> int:
    request = UnregisterControllerRequest(controller_id=node_id)
    return ask(port, request, 0, UnregisterControllerResponse).error_code


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
    """From 4.3.1 to 4.4.0, ours a voter of three all along; nothing acknowledged is lost."""
    with Cluster(tmp_path / "kafka", controllers=2, brokers=1, release=OLD) as cluster:
        ours = Ours(cluster, tmp_path / "ours", 101)
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
            ours.start()
            ours.wait_caught_up()
            upgrade(second)
            upgrade(cluster.brokers[0])
            lead_both(cluster, ours)
            port = cluster.leader().listener().port
            # That takes its metadata.version, which is still that of 4.3.
            assert unregister(port, 9) == ErrorCode.UNSUPPORTED_VERSION
            update = UpdateFeaturesRequest.FeatureUpdateKey(
                feature=METADATA_VERSION, max_version_level=LEVELS["4.4-IV2"], upgrade_type=1
            )
            said = ask(
                port, UpdateFeaturesRequest(feature_updates=[update]), 2, UpdateFeaturesResponse
            )
            assert said.error_code == 0, said.error_message
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


def registrations(ours: Ours) -> int:
    """How often our node has registered, by its log."""
    done = run_ours("dump-log", "--cluster-metadata-decoder", str(ours.log_dir))
    assert done.code == 0, done.err
    found = re.findall(r'"type":"(\w+)_CONTROLLER_RECORD",.*?"controllerId":(\d+)', done.out)
    of_ours = [kind for kind, node_id in found if int(node_id) == ours.id]
    assert of_ours in (
        ["REGISTER"],
        ["REGISTER", "UNREGISTER"],
        ["REGISTER", "UNREGISTER", "REGISTER"],
    )
    return of_ours.count("REGISTER")
