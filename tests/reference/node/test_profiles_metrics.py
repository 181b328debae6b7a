"""What the drafts add to a node's metrics, at quorums that run; and what each node serves."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from tests.reference.node.processes import quick
from tests.reference.node.quorum import WAIT_S, run, seen

from kraftspec.conformance.cluster.node import free_port
from kraftspec.generated import kafka, kip_595, kip_853, kip_996
from kraftspec.reference.local.quorum import LocalQuorum
from kraftspec.reference.node.metrics import PREFIX, RaftCollector
from kraftspec.reference.node.runtime import Node
from kraftspec.reference.profiles.kip_595.admin import Kip595Admin
from kraftspec.reference.wire.blocking import ask as ask_once

KAFKAS_OWN = {"number_of_voters", "current_epoch", "high_watermark", "uncommitted_voter_change"}


ask = partial(ask_once, timeout_s=WAIT_S)


def local(
    directory: Path, profile: str, voters: int, observers: int, **settings: str
) -> LocalQuorum:
    return LocalQuorum(
        directory,
        voters=voters,
        observers=observers,
        first_port=free_port(set()),
        profile=profile,
        settings=quick(profile) | settings,
    )


def gauges(node: Node) -> dict[str, float]:
    """The metrics of a node that have no labels, as Prometheus would have them."""
    registry = CollectorRegistry()
    registry.register(RaftCollector(node))
    return {
        sample.name.removeprefix(PREFIX): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if not sample.labels and sample.name.startswith(PREFIX)
    }


def test_a_reassignment_of_kip_595_is_measured(tmp_path: Path) -> None:
    async def main() -> None:
        patient = {"quorum.fetch.timeout.ms": str(int(WAIT_S * 1000))}
        async with local(tmp_path, "kip-595", 2, 1, **patient) as quorum:
            # It leads on without its follower: nobody is given up in all this time.
            leader = await quorum.wait_leader(WAIT_S)
            observer = quorum.nodes[3]
            await observer.until(lambda it: it.core.committed_offset > 0, WAIT_S)
            values = gauges(leader)
            assert values.keys() >= KAFKAS_OWN
            assert values["number_of_voters"] == 2
            assert values["number_of_target_voters"] == values["number_of_pending_moves"] == 0
            assert values["number_unknown_voter_connections"] == 0
            follower = 3 - leader.config.node_id
            await quorum.kill(follower)  # So the target is appended, and not yet committed.
            with Kip595Admin(quorum.bootstrap) as admin:
                altering = asyncio.create_task(asyncio.to_thread(admin.alter_quorum, [1, 2, 3]))
                await seen(lambda: gauges(leader)["number_of_target_voters"] == 3)
                assert gauges(leader)["number_of_pending_moves"] == 1
                assert gauges(leader)["number_of_voters"] == 2
                await quorum.start(follower)
                await altering
            leader = await quorum.wait_leader(WAIT_S)
            await seen(lambda: gauges(leader)["number_of_voters"] == 3)
            await seen(lambda: gauges(leader)["number_of_target_voters"] == 0)
            assert gauges(leader)["number_of_pending_moves"] == 0

    run(main())


def test_voters_whose_connections_are_unknown_are_counted(tmp_path: Path) -> None:
    """One of three voters starts: where the others are, nobody has told it."""

    async def main() -> None:
        quorum = local(tmp_path, "kip-595", 3, 0)
        try:
            node = await quorum.start(1)
            assert gauges(node)["number_unknown_voter_connections"] == 2
            await quorum.start(2)
            await seen(lambda: gauges(node)["number_unknown_voter_connections"] == 1)
        finally:
            await quorum.stop()

    run(main())


def test_observers_of_kip_853_that_can_be_added_are_counted(tmp_path: Path) -> None:
    async def main() -> None:
        async with local(tmp_path, "kip-853", 1, 2) as quorum:
            leader = await quorum.wait_leader(WAIT_S)
            await seen(lambda: gauges(leader)["number_of_eligible_observers"] == 2)
            values = gauges(leader)
            assert values.keys() >= KAFKAS_OWN
            assert values["number_of_pending_voter_changes"] == 0
            assert values["number_unknown_voter_connections"] == 0
            assert "number_of_eligible_observers" not in gauges(quorum.nodes[2])

    run(main())


@pytest.mark.parametrize("profile", ["kip-595", "kip-853", "kip-996"])
def test_a_draft_serves_its_own_requests_and_none_of_kafkas_shell(
    tmp_path: Path, profile: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with local(tmp_path, profile, 1, 0) as quorum:
            leader = await quorum.wait_leader(WAIT_S)
            ((_, port),) = leader.listeners.values()
            who = kafka.ApiVersionsRequest(client_software_name="t", client_software_version="1")
            for version in (0, 3, 4):
                request = who if version >= 3 else kafka.ApiVersionsRequest()
                response = await asyncio.to_thread(
                    ask, port, request, version, kafka.ApiVersionsResponse
                )
                assert response.error_code == 0
                served = {
                    one.api_key: (one.min_version, one.max_version) for one in response.api_keys
                }
                for key, api in leader.profile.apis.items():
                    assert served[key] == (api.min_version, api.max_version)
                # A SASL login is the listener's; registration and the like are a controller's.
                logins = {
                    kafka.SaslHandshakeRequest.API_KEY,
                    kafka.SaslAuthenticateRequest.API_KEY,
                }
                assert set(served) == set(leader.profile.apis) | logins
                assert {one.name for one in response.supported_features} == set()
            # Nobody registers at a leader of a draft, which would be asked for what it has not.
            assert leader._registration is None

    with caplog.at_level(logging.WARNING):
        run(main())
    assert [record.message for record in caplog.records] == []


def begin(messages: Any) -> Any:
    """BeginQuorumEpoch, at version 0: flexible in the first draft, and not in the later ones."""
    kind = messages.BeginQuorumEpochRequest
    if messages is kip_595:
        return kind(cluster_id="", leader_id=9, leader_epoch=0)
    partition = kind.PartitionData(partition_index=0, leader_id=9, leader_epoch=0)
    topic = kind.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    return kind(topics=[topic])


@pytest.mark.parametrize("profile", ["kip-595", "kip-853", "kip-996"])
def test_requests_have_the_keys_and_headers_of_their_own_draft(
    tmp_path: Path, profile: str
) -> None:
    sets = {"kip-595": kip_595, "kip-853": kip_853, "kip-996": kip_996}
    own = sets[profile]
    request_class = own.BeginQuorumEpochRequest
    assert (request_class.API_KEY, request_class.header_version(0)) == (
        (10_051, 2) if own is kip_595 else (53, 1)
    )

    async def main() -> None:
        async with local(tmp_path, profile, 1, 0) as quorum:
            leader = await quorum.wait_leader(WAIT_S)
            ((_, port),) = leader.listeners.values()
            response = await asyncio.to_thread(
                ask, port, begin(own), 0, own.BeginQuorumEpochResponse
            )
            answer = response if own is kip_595 else response.topics[0].partitions[0]
            assert answer.error_code != 0  # Epoch 0 is over.
            assert (answer.leader_id, answer.leader_epoch) == (1, leader.core.epoch)
            # What another draft calls by another key is hung up on, and costs nothing else.
            other = kip_853 if own is kip_595 else kip_595
            with pytest.raises(ConnectionError, match="hung up"):
                await asyncio.to_thread(ask, port, begin(other), 0, other.BeginQuorumEpochResponse)
            await leader.append([b"more"])

    run(main())
