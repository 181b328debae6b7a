"""Nodes of ours over loopback: they elect, replicate, survive, and stop where the disk fails."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.reference.node.quorum import Quorum, committed_bytes, leads, run

from kraftspec.reference.raft import RoleName


def test_three_nodes_elect_append_and_survive_a_stop_of_the_leader(tmp_path: Path) -> None:
    async def main() -> None:
        async with Quorum(tmp_path) as quorum:
            leader = await quorum.leader()
            first = await leader.append([b"one", b"two"])
            assert first.last_offset == first.base_offset + 1
            old_id, old_epoch = leader.config.node_id, leader.core.epoch
            await quorum.stop(old_id)
            leader = await quorum.leader()
            assert leader.core.epoch > old_epoch
            second = await leader.append([b"three"])
            assert second.base_offset > first.last_offset
            back = await quorum.start(old_id)
            await quorum.all_have(second.last_offset + 1)
            assert back.core.role.name is RoleName.FOLLOWER
            everywhere = {committed_bytes(node) for node in quorum.nodes.values()}
            assert len(everywhere) == 1
            log = everywhere.pop()
            assert log.count(b"one") == log.count(b"two") == log.count(b"three") == 1

    run(main())


def test_what_was_acknowledged_is_there_after_a_restart_of_all(tmp_path: Path) -> None:
    async def main() -> None:
        quorum = Quorum(tmp_path)
        async with quorum:
            leader = await quorum.leader()
            taken = await asyncio.gather(
                *(leader.append([b"record %d" % number]) for number in range(8))
            )
            end = max(entry.last_offset for entry in taken) + 1
        async with quorum:
            leader = await quorum.leader()
            await quorum.all_have(end)
            log = committed_bytes(leader)
            assert all(log.count(b"record %d" % number) == 1 for number in range(8))

    run(main())


def test_one_node_alone_leads_itself(tmp_path: Path) -> None:
    async def main() -> None:
        async with Quorum(tmp_path, count=1) as quorum:
            leader = await quorum.leader()
            assert leads(leader)
            await leader.append([b"alone"])
            assert b"alone" in committed_bytes(leader)

    run(main())
