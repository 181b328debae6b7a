"""Nodes of ours over loopback: they elect, replicate, survive, and stop where the disk fails."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from tests.reference.node.quorum import (
    Quorum,
    committed_bytes,
    format_directory,
    leads,
    node_config,
    run,
    seen,
)

from kraftspec.conformance.cluster.node import HOST, free_port
from kraftspec.fastpath.files import LocalFile
from kraftspec.fastpath.types import Uuid
from kraftspec.reference.log import LogDirectory, LogFailedError, NotFormattedError
from kraftspec.reference.log.files import LocalFiles
from kraftspec.reference.node import asyncio_host, runtime
from kraftspec.reference.node.appending import NotAppendedError
from kraftspec.reference.node.runtime import Node
from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.leader import Leader
from kraftspec.reference.raft.messages import BeginEpoch, FetchReply

WAIT_S = 30.0


@pytest.fixture(params=["in a thread", "between events"])
def syncs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nodes sync their logs, however long that takes."""
    if request.param == "in a thread":
        monkeypatch.setattr(asyncio_host, "SHORT_SYNC_S", 0)
    else:
        monkeypatch.setattr(asyncio_host, "SYNCS_REMEMBERED", 0)
        monkeypatch.setattr(asyncio_host, "SHORT_SYNC_S", WAIT_S)


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


@pytest.mark.usefixtures("syncs")
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


@pytest.mark.usefixtures("syncs")
def test_one_node_alone_leads_itself(tmp_path: Path) -> None:
    async def main() -> None:
        async with Quorum(tmp_path, count=1) as quorum:
            leader = await quorum.leader()
            assert leads(leader)
            await leader.append([b"alone"])
            assert b"alone" in committed_bytes(leader)

    run(main())


@pytest.mark.parametrize("waits", [False, True], ids=["to its end", "before a wait"])
def test_an_answer_to_fetch_has_what_its_turn_appended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """Twenty appends of one turn leave in one answer; a new epoch is written after it is sent."""
    count = 20
    expected = [count, count, "written"] if waits else [count, count]
    happened: list[int | str] = []
    patient_us = int(WAIT_S * 1e6)
    times = {"fetch_max_wait_us": patient_us, "request_timeout_us": 2 * patient_us}

    def parked(leader: Node) -> bool:
        """Whether both followers wait at the end of a log that is committed."""
        end, role = leader.core.log.end_offset, leader.core.role
        fetches = role.delayed_fetches if isinstance(role, Leader) else ()
        return [fetch.request.high_watermark for fetch in fetches] == [end, end]

    async def main() -> None:
        async with Quorum(tmp_path, fetch_timeout_us=2 * patient_us, **times) as quorum:
            leader = await quorum.leader()
            epoch = leader.core.epoch
            await leader.until(parked, WAIT_S)

            def answer(effect: fx.Answer) -> None:
                if isinstance(effect.reply, FetchReply) and effect.reply.read_offset >= 0:
                    Node.answer(leader, effect)
                    happened.append(bytes(effect.reply.records or b"").count(b"record"))

            monkeypatch.setattr(leader, "answer", answer)
            monkeypatch.setattr(
                leader.storage, "persist_election", lambda _: happened.append("written")
            )
            for number in range(count):
                records = (b"record %d" % number,)
                leader.post(ev.AppendRequested(-1 - number, epoch, records))
            if waits:
                begin = BeginEpoch(leader_id=leader.config.node_id % 3 + 1, leader_epoch=epoch + 1)
                leader.post(ev.RequestReceived(-1, begin))
            await leader.until(lambda _: len(happened) >= len(expected), WAIT_S)
            await leader.end_now()

    run(main())
    assert happened[: len(expected)] == expected


class _FailingFile(LocalFile):
    def __init__(self, descriptor: int, disk: _FailingFiles) -> None:
        super().__init__(descriptor)
        self._disk = disk

    def sync(self) -> None:
        if self._disk.is_broken:
            self._disk.is_asked.set()
            assert self._disk.may_go.wait(WAIT_S)
            raise OSError(errno.EIO, "the disk is broken")
        super().sync()


class _FailingFiles(LocalFiles):
    """A disk whose syncs can be made to fail, as soon as ``may_go``."""

    def __init__(self) -> None:
        self.is_broken = False
        self.is_asked = threading.Event()
        self.may_go = threading.Event()
        self.may_go.set()

    def open(self, path: str, *, create: bool = False) -> _FailingFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return _FailingFile(os.open(path, flags, 0o644), self)


@pytest.mark.soak
@pytest.mark.usefixtures("syncs")
def test_a_leader_whose_disk_fails_stops_and_the_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        quorum = Quorum(tmp_path)
        disks = {node_id: _FailingFiles() for node_id in quorum.ids}
        for node_id in quorum.ids:
            node = quorum.nodes[node_id] = Node(quorum.configs[node_id], files=disks[node_id])
            await node.start()
        leader = await quorum.leader()
        await leader.append([b"durable"])
        disks[leader.config.node_id].is_broken = True
        # Two others may commit it before the leader's own sync fails.
        with suppress(NotAppendedError):
            await leader.append([b"in doubt"])
        with pytest.raises(LogFailedError, match="free the disk or replace it"):
            await leader.wait()
        assert not leader.server.connections
        LogDirectory.open(leader.config.log_dir).close()  # All of it is over, and not only told.
        with pytest.raises(NotAppendedError):
            await leader.append([b"refused"])
        with pytest.raises(LogFailedError):
            await quorum.nodes.pop(leader.config.node_id).stop()
        async with quorum.running():
            await quorum.append([b"by another"])
            log = committed_bytes(await quorum.leader())
            assert log.count(b"durable") == log.count(b"by another") == 1
            assert b"refused" not in log

    with caplog.at_level(logging.CRITICAL):
        run(main())
    assert [record.message for record in caplog.records if "failed" in record.message]


def test_a_disk_that_fails_while_the_node_ends_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        quorum = Quorum(tmp_path, count=1)
        disk = _FailingFiles()
        node = Node(quorum.configs[1], files=disk)
        await node.start()
        quorum.nodes[1] = node
        await quorum.leader()
        disk.may_go.clear()
        disk.is_broken = True
        appending = asyncio.ensure_future(node.append([b"in doubt"]))
        assert await asyncio.to_thread(disk.is_asked.wait, WAIT_S)
        ending = asyncio.ensure_future(node.end_now())
        await asyncio.sleep(0)
        disk.may_go.set()
        await ending
        with pytest.raises(LogFailedError):
            await node.wait()
        with pytest.raises(NotAppendedError):
            await appending

    run(main())


class _HeldFiles(LocalFiles):
    """A disk on which quorum-state gets its name only once it may."""

    def __init__(self) -> None:
        self.is_asked = threading.Event()
        self.may_go = threading.Event()
        self.is_done = False
        self.is_broken = False

    def rename(self, source: str, target: str) -> None:
        is_held = target.endswith("/quorum-state")
        if is_held:
            self.is_asked.set()
            assert self.may_go.wait(WAIT_S)
            if self.is_broken:
                raise OSError(errno.EIO, "no longer", target)
        super().rename(source, target)
        self.is_done = is_held


def test_a_node_that_ends_leaves_nothing_that_still_writes(tmp_path: Path) -> None:
    """Its directory may be removed, or opened again, as soon as it has ended."""

    async def main() -> None:
        quorum = Quorum(tmp_path, count=1)
        disk = _HeldFiles()
        node = Node(quorum.configs[1], files=disk)
        await node.start()
        assert await asyncio.to_thread(disk.is_asked.wait, WAIT_S)  # It stores its first vote.
        ending = asyncio.ensure_future(node.end_now())
        with pytest.raises(BlockingIOError):
            await Node(quorum.configs[1]).start()
        disk.may_go.set()
        await ending
        assert disk.is_done
        LogDirectory.open(quorum.configs[1].log_dir).close()

    run(main())


def test_a_vote_that_is_not_stored_while_the_node_ends_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        disk = _HeldFiles()
        disk.is_broken = True
        node = Node(Quorum(tmp_path, count=1).configs[1], files=disk)
        await node.start()
        assert await asyncio.to_thread(disk.is_asked.wait, WAIT_S)
        ending = asyncio.ensure_future(node.end_now())
        await asyncio.sleep(0)
        disk.may_go.set()
        await ending
        with pytest.raises(OSError, match="quorum-state"):
            await node.wait()

    run(main())


def test_a_node_whose_disk_hangs_ends_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "SHUTDOWN_TIMEOUT_S", 0.2)

    async def main() -> None:
        quorum = Quorum(tmp_path, count=1)
        disk = _HeldFiles()
        node = Node(quorum.configs[1], files=disk)
        await node.start()
        assert await asyncio.to_thread(disk.is_asked.wait, WAIT_S)
        monkeypatch.setattr(node.storage, "close", disk.may_go.wait)  # Behind a sync that hangs.
        try:
            await asyncio.wait_for(node.end_now(), WAIT_S)
            await asyncio.wait_for(node.wait(), WAIT_S)
            assert not disk.is_done
        finally:
            disk.may_go.set()

    run(main())


def test_a_port_in_use_is_told_and_nothing_is_left_open(tmp_path: Path) -> None:
    async def main() -> None:
        async with Quorum(tmp_path, count=1) as quorum:
            other = Quorum(tmp_path / "other", count=1)
            listener = msgspec.structs.replace(other.configs[1].listeners[0], port=quorum.ports[1])
            config = msgspec.structs.replace(other.configs[1], listeners=(listener,))
            with pytest.raises(OSError, match=f"{quorum.ports[1]}: another process listens there"):
                await Node(config).start()
            LogDirectory.open(config.log_dir).close()  # It is not locked any more.

    run(main())


def test_a_directory_that_is_in_use_or_another_nodes_is_not_taken(tmp_path: Path) -> None:
    async def main() -> None:
        async with Quorum(tmp_path, count=1) as quorum:
            with pytest.raises(BlockingIOError, match="has this log directory open"):
                await Node(quorum.configs[1]).start()
        config = node_config(tmp_path / "1", 5, quorum.ports[1])
        with pytest.raises(NotFormattedError, match="is that of node 1, and this is node 5"):
            await Node(config).start()
        config = node_config(tmp_path / "none", 5, quorum.ports[1])
        with pytest.raises(NotFormattedError, match="is not formatted"):
            await Node(config).start()

    run(main())


def test_a_node_of_another_cluster_is_told_and_disturbs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with Quorum(tmp_path) as quorum:
            leader = await quorum.leader()
            epoch = leader.core.epoch
            port = free_port(set(quorum.ports.values()))
            directory = tmp_path / "stranger"
            format_directory(directory, 9, Uuid.random(), cluster_id="YW5vdGhlci1jbHVzdGVyLQ")
            config = node_config(
                directory, 9, port, bootstrap_servers=quorum.configs[1].core.bootstrap_servers
            )
            async with Node(config) as stranger:
                texts = {
                    f"the node at {HOST}:{peer_port} belongs to another cluster"
                    for peer_port in quorum.ports.values()
                }
                await seen(lambda: any(text in caplog.text for text in texts))
                assert stranger.core.leader_id == -1
            assert (await quorum.leader()) is leader
            assert leader.core.epoch == epoch

    with caplog.at_level(logging.WARNING):
        run(main())


def test_a_second_node_of_the_same_id_is_told_by_both(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with Quorum(tmp_path) as quorum:
            leader = await quorum.leader()
            taken = await leader.append([b"before"])
            node_id = leader.config.node_id
            port = free_port(set(quorum.ports.values()))
            directory = tmp_path / "twin"
            format_directory(directory, node_id, Uuid.random())
            config = node_config(
                directory, node_id, port, bootstrap_servers=leader.config.core.bootstrap_servers
            )
            twin = Node(config)
            await twin.start()
            await seen(lambda: f"says that it is node {node_id}, too" in caplog.text)
            await twin.stop()
            after = await leader.append([b"after"])
            assert after == (taken.epoch, taken.last_offset + 1, taken.last_offset + 1)

            # With another leader it learns the log, and whose place it has in it.
            await quorum.stop(node_id)
            await quorum.leader()
            async with Node(config):
                await seen(lambda: "two nodes have the same node.id" in caplog.text)

    with caplog.at_level(logging.WARNING):
        run(main())


def test_voters_without_this_nodes_listener_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with Quorum(tmp_path) as quorum:
            await quorum.leader()
            port = free_port(set(quorum.ports.values()))
            format_directory(tmp_path / "other", 9, Uuid.random())
            config = node_config(
                tmp_path / "other",
                9,
                port,
                bootstrap_servers=quorum.configs[1].core.bootstrap_servers,
                listener_name="INTERNAL",
            )
            listener = msgspec.structs.replace(config.listeners[0], name="INTERNAL")
            async with Node(msgspec.structs.replace(config, listeners=(listener,))) as node:
                await node.until(lambda it: it.core.committed_offset > 0, 60)
                told = "no listener INTERNAL is known of the voters 1, 2, 3"
                await seen(lambda: told in caplog.text)

    with caplog.at_level(logging.WARNING):
        run(main())


def test_the_clock_of_the_machine_may_jump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time_ns

    async def main() -> None:
        async with Quorum(tmp_path) as quorum:
            leader = await quorum.leader()
            epoch = leader.core.epoch
            for jump_s in (86_400, -86_400):
                monkeypatch.setattr(time, "time_ns", lambda by=jump_s: real() + by * 10**9)
                monkeypatch.setattr(time, "time", lambda by=jump_s: real() / 1e9 + by)
                before = leader.clock_us()
                await leader.append([b"record"])
                assert before <= leader.clock_us() < before + 60_000_000
            assert leader.core.epoch == epoch

    run(main())
