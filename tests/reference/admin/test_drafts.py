"""The admin clients of the drafts, at quorums of ours: who leads is looked for, and found again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.reference.node.processes import patient
from tests.reference.node.quorum import WAIT_S, run

from kraftspec.conformance.cluster.node import free_port
from kraftspec.fastpath.types import Uuid
from kraftspec.reference.admin import AdminError, AnswerError, ClientConfig, TimedOutError
from kraftspec.reference.admin.client import DraftEndpoint
from kraftspec.reference.local.quorum import LocalQuorum, is_leading
from kraftspec.reference.log.properties import parse_properties, render_properties
from kraftspec.reference.node.runtime import Node
from kraftspec.reference.profiles import parts_of
from kraftspec.reference.profiles.common.admin import DraftQuorum, DraftReplica
from kraftspec.reference.profiles.kip_595.admin import NOT_QUORUM_LEADER, Kip595Admin
from kraftspec.reference.profiles.kip_853.admin import Kip853Admin
from kraftspec.reference.profiles.kip_996.admin import Kip996Admin
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.leader import Leader

T = TypeVar("T")
UNKNOWN_VOTER_ID = 20002
INVALID_REQUEST = 42


@asynccontextmanager
async def local(
    directory: Path, profile: str, *, voters: int = 3, observers: int = 0
) -> AsyncIterator[tuple[LocalQuorum, Any]]:
    """A quorum that has begun, and a client of it that knows all of its nodes."""
    async with LocalQuorum(
        directory,
        voters=voters,
        observers=observers,
        first_port=free_port(set()),
        profile=profile,
        settings=patient(profile),
    ) as quorum:
        await quorum.begin(await quorum.wait_leader(WAIT_S))
        addresses = ",".join(f"{one.host}:{one.port}" for one in where(quorum))
        with parts_of(profile).admin.client(addresses) as admin:
            yield quorum, admin


def where(quorum: LocalQuorum) -> list[Any]:
    return [node.config.core.endpoints[0] for node in quorum.nodes.values()]


async def ask(call: Any, *arguments: Any, **named: Any) -> Any:
    return await asyncio.to_thread(call, *arguments, **named)


async def depose(quorum: LocalQuorum) -> Node:
    """Let the leader resign, and return who leads then; nobody stops running."""
    before = await quorum.wait_leader(WAIT_S)
    async with asyncio.timeout(WAIT_S):
        while (leader := await quorum.wait_leader(WAIT_S)) is before:  # Elected again, perhaps.
            before.post(ev.ResignRequested(before.core.epoch))
            await before.until(lambda it: not is_leading(it), WAIT_S)
    return leader


def hears(node: Node, observer_id: int) -> bool:
    """Whether this node leads, and the observer has fetched from it."""
    role = node.core.role
    return isinstance(role, Leader) and observer_id in {key.id for key in role.observers}


def test_alter_quorum_finds_the_leader_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with local(tmp_path, "kip-595", voters=2, observers=1) as (quorum, admin):
            for node in quorum.nodes.values():  # All of them know which cluster it is.
                await node.until(lambda it: bool(it.core.memory.cluster_id), WAIT_S)
            described = await ask(admin.find_quorum)
            assert sorted(voter.id for voter in described.voters) == [1, 2]
            assert described.target_voters is None
            assert described.cluster_id == quorum.nodes[1].core.memory.cluster_id
            at_first = await ask(admin.describe_quorum)
            leader = await depose(quorum)
            await leader.until(lambda it: hears(it, 3), WAIT_S)
            # The client has a connection to who led before, and is told NOT_QUORUM_LEADER on it.
            connection = admin._leader
            assert connection is not None
            await ask(admin.alter_quorum, [1, 2, 3], wait=True)
            assert (admin._leader.host, admin._leader.port) != (connection.host, connection.port)
            described = await ask(admin.describe_quorum)
            assert described.leader_id == leader.config.node_id != at_first.leader_id
            assert sorted(voter.id for voter in described.voters) == [1, 2, 3]
            assert described.target_voters is None
            # The same again is no other change.
            await ask(admin.alter_quorum, [3, 2, 1])

    run(main())


def test_what_alter_quorum_refuses(tmp_path: Path) -> None:
    async def main() -> None:
        async with local(tmp_path, "kip-595", voters=1) as (_, admin):
            for target, code in (([1, 9], UNKNOWN_VOTER_ID), ([], INVALID_REQUEST)):
                with pytest.raises(AnswerError) as refused:
                    await ask(admin.alter_quorum, target)
                assert refused.value.code == code
            with pytest.raises(AnswerError, match="INCONSISTENT_CLUSTER_ID"):
                await ask(admin.alter_quorum, [1], cluster_id="another")

    run(main())


def test_a_quorum_without_a_leader_is_told(tmp_path: Path) -> None:
    """Of two voters one runs: there is nobody to ask for a change."""

    async def main() -> None:
        async with local(tmp_path, "kip-595", voters=2) as (quorum, _):
            for node in quorum.nodes.values():
                await node.until(lambda it: bool(it.core.memory.cluster_id), WAIT_S)
            leader = await quorum.wait_leader(WAIT_S)
            await quorum.kill(leader.config.node_id)
            (left,) = where(quorum)
            config = ClientConfig(api_timeout_ms=1500)
            with Kip595Admin(f"{left.host}:{left.port}", config=config) as admin:
                with pytest.raises(TimedOutError) as told:
                    await ask(admin.alter_quorum, [1])
                assert "1,500 ms" in str(told.value)
                assert (await ask(admin.find_quorum)).cluster_id

    run(main())


def test_a_leader_whose_address_nobody_knows_is_told(tmp_path: Path) -> None:
    """A voter that starts again has the leader's id in quorum-state, and its address nowhere."""

    async def main() -> None:
        async with local(tmp_path, "kip-595", voters=2) as (quorum, _):
            leader = await quorum.wait_leader(WAIT_S)
            gone = leader.config.node_id
            left = 3 - gone
            await quorum.nodes[left].until(lambda it: it.core.leader_id == gone, WAIT_S)
            await quorum.kill(left)  # First: it must not begin to look for another leader.
            await quorum.kill(gone)
            path = quorum.properties[left]
            properties = parse_properties(path.read_text("latin-1"))
            properties["quorum.fetch.timeout.ms"] = str(int(WAIT_S * 1000))  # Nor now.
            path.write_text(render_properties(properties), "latin-1")
            await quorum.start(left)
            (at,) = where(quorum)
            config = ClientConfig(api_timeout_ms=1500)
            with Kip595Admin(f"{at.host}:{at.port}", config=config) as admin:
                described = await ask(admin.find_quorum)
                assert described.leader_id == gone
                assert {voter.id: voter.host for voter in described.voters}[gone] == ""
                with pytest.raises(TimedOutError, match=f"FindQuorum knows not where {gone} is"):
                    await ask(admin.describe_quorum)

    run(main())


def test_add_and_remove_voter_ask_around_for_the_leader(tmp_path: Path) -> None:
    async def main() -> None:
        async with local(tmp_path, "kip-853", voters=2, observers=1) as (quorum, admin):
            joiner = quorum.nodes[3].core.config
            await quorum.nodes[3].until(lambda it: it.core.committed_offset > 0, WAIT_S)
            leader = await depose(quorum)
            await leader.until(lambda it: hears(it, 3), WAIT_S)
            described = await ask(admin.describe_quorum)
            (observer,) = [one for one in described.observers if one.id == 3]
            assert observer.should_become_voter
            assert observer.uuid == joiner.directory_id
            endpoints = [DraftEndpoint(one.name, one.host, one.port) for one in joiner.endpoints]
            await ask(admin.add_voter, 3, observer.uuid, endpoints)
            described = await ask(admin.describe_quorum)
            (added,) = [one for one in described.voters if one.id == 3]
            assert (added.uuid, added.endpoints) == (joiner.directory_id, tuple(endpoints))
            await depose(quorum)
            await ask(admin.remove_voter, 3, observer.uuid)
            described = await ask(admin.describe_quorum)
            assert sorted(voter.id for voter in described.voters) == [1, 2]
            with pytest.raises(AnswerError):  # It is no voter: there is nothing to remove.
                await ask(admin.remove_voter, 3, observer.uuid)
            with pytest.raises(AnswerError):
                await ask(admin.remove_voter, 1, Uuid.random())

    run(main())


def test_a_leader_that_is_not_among_the_addresses_is_not_found(tmp_path: Path) -> None:
    async def main() -> None:
        async with local(tmp_path, "kip-996") as (quorum, _):
            leader = await quorum.wait_leader(WAIT_S)
            one = next(it for it in where(quorum) if it != leader.config.core.endpoints[0])
            config = ClientConfig(api_timeout_ms=1000)
            with Kip996Admin(f"{one.host}:{one.port}", config=config) as admin:
                with pytest.raises(TimedOutError) as told:
                    await ask(admin.describe_quorum)
                assert "Name the addresses of all voters" in str(told.value)

    run(main())


def test_kip_996_is_described(tmp_path: Path) -> None:
    async def main() -> None:
        async with local(tmp_path, "kip-996") as (quorum, admin):
            leader = await depose(quorum)
            described = await ask(admin.describe_quorum)
            assert described.leader_id == leader.config.node_id
            assert sorted(voter.id for voter in described.voters) == [1, 2, 3]
            assert described.max_follower_lag >= 0

    run(main())


def replica(replica_id: int, end_offset: int, caught_up_ms: int) -> DraftReplica:
    return DraftReplica(id=replica_id, log_end_offset=end_offset, last_caught_up_ms=caught_up_ms)


def test_lags_are_those_behind_the_leader() -> None:
    leader, slow, new = replica(1, 100, 5000), replica(2, 90, 4000), replica(3, -1, -1)
    described = DraftQuorum(leader_id=1, leader_epoch=4, high_watermark=90, voters=(leader, slow))
    assert (described.lag(leader), described.lag_ms(leader)) == (0, 0)
    assert (described.max_follower_lag, described.max_follower_lag_ms) == (10, 1000)
    grown = DraftQuorum(leader_id=1, leader_epoch=4, high_watermark=90, voters=(leader, slow, new))
    assert (grown.max_follower_lag, grown.max_follower_lag_ms) == (101, -1)
    headless = DraftQuorum(leader_id=9, leader_epoch=4, high_watermark=90, voters=(leader, slow))
    with pytest.raises(AdminError, match="ask again"):
        _ = headless.max_follower_lag


def test_each_draft_has_its_own_word_for_who_does_not_lead() -> None:
    assert Kip595Admin.not_leader == {NOT_QUORUM_LEADER}
    assert 6 in Kip853Admin.not_leader
