"""When a node of ours lets another lead, and whom it names first."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest
from tests.reference.node.quorum import Quorum, run

from kraftspec.conformance.cluster.node import HOST
from kraftspec.reference.node.client import Peers
from kraftspec.reference.node.leadership_transfer import LeadershipTransfer
from kraftspec.reference.raft import ReplicaKey
from kraftspec.reference.wire.apis import Versions

OURS: Versions = {1: range(4, 19), 52: range(3)}
KAFKA: Versions = {**OURS, 19: range(2, 8)}  # It creates topics.


class Spoken:
    """Peers of which it is known what they speak."""

    def __init__(self, versions: dict[int, Versions]) -> None:
        self.versions = versions

    def versions_of(self, node_id: int) -> Versions | None:
        return self.versions.get(node_id)


def peers(versions: dict[int, Versions]) -> Peers:
    return cast("Peers", Spoken(versions))


@pytest.mark.parametrize(
    ("policy", "speaks", "is_due"),
    [
        (None, {}, False),  # Nobody has said what it is.
        (None, {2: OURS, 3: OURS}, False),
        (None, {2: OURS, 3: KAFKA}, True),
        (True, {}, True),
        (False, {2: KAFKA, 3: KAFKA}, False),
    ],
)
def test_it_resigns_where_a_controller_could_lead(
    tmp_path: Path, policy: bool | None, speaks: dict[int, Versions], is_due: bool
) -> None:
    async def main() -> None:
        async with Quorum(tmp_path) as quorum:
            leader = await quorum.leader()
            await leader.append([b"record"])
            own_id = leader.config.node_id
            others = [node_id for node_id in quorum.ids if node_id != own_id]
            spoken = {others[at - 2]: versions for at, versions in speaks.items()}
            transfer = LeadershipTransfer(policy)
            await leader.until(lambda it: transfer.is_due(it.core, peers(spoken)) or not is_due, 60)
            assert transfer.is_due(leader.core, peers(spoken)) is is_due
            follower = quorum.nodes[others[0]]
            assert not transfer.is_due(follower.core, peers(spoken))

    run(main())


def test_it_does_not_resign_for_a_controller_that_lags(tmp_path: Path) -> None:
    async def main() -> None:
        async with Quorum(tmp_path) as quorum:
            leader = await quorum.leader()
            gone = next(id for id in quorum.ids if id != leader.config.node_id)
            transfer = LeadershipTransfer(None)
            await leader.until(lambda it: transfer.is_due(it.core, peers({gone: KAFKA})), 60)
            await quorum.stop(gone)
            await leader.append([b"without it"])
            assert not transfer.is_due(leader.core, peers({gone: KAFKA}))

    run(main())


def test_it_waits_longer_each_time_that_it_resigned_without_effect(tmp_path: Path) -> None:
    """Else a quorum of three of ours and one Kafka controller has an election every 0.4 s."""

    async def main() -> None:
        async with Quorum(tmp_path) as quorum:
            leader = await quorum.leader()
            controller, other = (id for id in quorum.ids if id != leader.config.node_id)
            core, spoken = leader.core, peers({controller: KAFKA})
            transfer = LeadershipTransfer(None)
            await leader.until(lambda it: transfer.is_due(it.core, spoken), 60)
            started_us = core.now_us

            def waits(at_least_us: int) -> bool:
                core.now_us = started_us
                transfer.resigned(core)
                core.now_us += at_least_us - 1
                early = transfer.is_due(core, spoken)
                core.now_us += 1
                return not early and transfer.is_due(core, spoken)

            pauses_s = (8, 16, 32, 64, 128, 256, 300, 300)
            assert all(waits(pause_s * 1_000_000) for pause_s in pauses_s)
            transfer.leader_changed(other)
            assert waits(300_000_000)
            transfer.leader_changed(controller)
            assert waits(8_000_000)
            core.now_us = started_us

    run(main())


def test_one_voter_alone_leads_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with Quorum(tmp_path, count=1) as quorum:
            leader = await quorum.leader()
            assert not LeadershipTransfer(True).is_due(leader.core, peers({}))

    run(main())


def test_controllers_come_first_among_the_successors(tmp_path: Path) -> None:
    async def main() -> None:
        async with Quorum(tmp_path) as quorum:
            core = (await quorum.leader()).core
            keys = (ReplicaKey(1), ReplicaKey(2), ReplicaKey(3))
            spoken = peers({1: OURS, 2: KAFKA, 3: KAFKA})
            in_order = LeadershipTransfer(None).in_order(core, spoken, keys)
            assert [key.id for key in in_order] == [2, 3, 1]
            assert LeadershipTransfer(False).in_order(core, spoken, keys) == keys

    run(main())


def test_a_leader_asks_voters_of_which_it_knows_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with Quorum(tmp_path) as quorum:
            leader = await quorum.leader()
            transfer = LeadershipTransfer(None)
            gone, there = (id for id in quorum.ids if id != leader.config.node_id)
            await quorum.stop(gone)
            await transfer.query_voters(leader.core, leader.peers.asker)
            assert transfer.kinds == {there: False}

    run(main())


def test_a_voter_that_hangs_up_is_asked_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with Quorum(tmp_path) as quorum:
            leader = await quorum.leader()
            gone, there = (id for id in quorum.ids if id != leader.config.node_id)
            await quorum.stop(gone)
            server = await asyncio.start_server(
                lambda _, writer: writer.transport.abort(), HOST, quorum.ports[gone]
            )
            transfer = LeadershipTransfer(None)
            await transfer.query_voters(leader.core, leader.peers.asker)
            assert transfer.kinds == {there: False}
            server.close()
            await quorum.start(gone)
            await transfer.query_voters(leader.core, leader.peers.asker)
            assert transfer.kinds == {there: False, gone: False}

    run(main())
