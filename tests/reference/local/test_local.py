"""A local quorum: what it formats, who leads, what is told of it, and a disk that fails."""

from __future__ import annotations

import asyncio
import errno
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.reference.node.quorum import WAIT_S, committed_bytes, run

from kraftspec.conformance.cluster.node import free_port
from kraftspec.generated.kafka import FeatureLevelRecord, NoOpRecord
from kraftspec.reference.local.live_view import NO_OP, LiveView, LiveViewOptions, NodeFailedError
from kraftspec.reference.local.quorum import HOST, LocalQuorum, free_ports
from kraftspec.reference.log.properties import parse_properties
from kraftspec.reference.log.snapshots import data_values
from kraftspec.reference.metadata.frames import read_frame
from kraftspec.reference.node.appending import NotAppendedError
from kraftspec.reference.raft.events import LogFlushed

SETTINGS = {
    "controller.quorum.election.timeout.ms": "200",
    "controller.quorum.fetch.timeout.ms": "3000",
}


def quorum_of(directory: Path, voters: int) -> LocalQuorum:
    return LocalQuorum(directory, voters=voters, first_port=free_port(set()), settings=SETTINGS)


def records_of(log: bytes) -> list[bytes]:
    """The values of the data records in a log's bytes."""
    return list(data_values(log))


def test_the_first_leader_appends_what_formatting_decided_and_no_later_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with quorum_of(tmp_path, 3) as quorum:
            leader = await quorum.wait_leader(WAIT_S)
            await quorum.bootstrap_log(leader)
            await quorum.bootstrap_log(leader)
            await leader.append([NO_OP])
            leader_id = leader.config.node_id
            await quorum.kill(leader_id)
            leader = await quorum.wait_leader(WAIT_S, apart_from=leader_id)
            await quorum.bootstrap_log(leader)
            values = records_of(committed_bytes(leader))
        assert values.count(NO_OP) == 1
        assert {read_frame(value).cls for value in values} == {FeatureLevelRecord, NoOpRecord}
        features = [
            FeatureLevelRecord.decode(value[3:], 0).name for value in values if value != NO_OP
        ]
        assert "metadata.version" in features
        assert len(features) == len(set(features))

    run(main())


def test_properties_are_those_of_an_operator(tmp_path: Path) -> None:
    first_port = free_port(set())
    quorum = LocalQuorum(tmp_path, voters=2, observers=1, first_id=7, first_port=first_port)
    assert sorted(quorum.properties) == [7, 8, 9]
    configs = [parse_properties(path.read_text("latin-1")) for path in quorum.properties.values()]
    assert {it["process.roles"] for it in configs} == {"controller"}
    assert len({it["listeners"] for it in configs}) == 3
    assert {it["controller.quorum.bootstrap.servers"] for it in configs} == {quorum.bootstrap}
    assert quorum.bootstrap.count(",") == 1
    again = LocalQuorum(tmp_path, voters=5, first_port=free_port({first_port}))
    assert again.properties == quorum.properties
    assert (again.bootstrap, again.cluster_id) == (quorum.bootstrap, quorum.cluster_id)


def test_ports_in_use_are_passed_over() -> None:
    (first,) = free_ports(free_port(set()), 1)
    with socket.create_server((HOST, first)):
        ports = free_ports(first, 2)
    assert first not in ports
    assert ports == sorted(set(ports))
    with pytest.raises(OSError, match="ports are wanted"):
        free_ports(65_535, 2)


def test_a_disk_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, dict[str, Any]]] = []

    def full(*_: object) -> LogFlushed:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def main() -> None:
        quorum = quorum_of(tmp_path, 1)

        def tell(event: str, values: dict[str, Any]) -> None:
            told.append((event, values))
            if event == "leader":
                monkeypatch.setattr(quorum.nodes[1].storage, "flush", full)

        async with quorum:
            await quorum.wait_leader(WAIT_S)
            view = LiveView(quorum, LiveViewOptions(rate=50), tell)
            await asyncio.wait_for(view.run(), WAIT_S)

    with pytest.raises(NodeFailedError, match=r"node 1 failed: .*No space left") as caught:
        run(main())
    assert isinstance(caught.value.__cause__, OSError)
    assert told[0][0] == "leader"


def test_who_failed_leads_no_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its core stands still as a leader's, and its log is closed: nothing is asked of it."""

    def full(*_: object) -> LogFlushed:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def main() -> None:
        quorum = quorum_of(tmp_path, 1)
        async with quorum:
            node = await quorum.wait_leader(WAIT_S)
            monkeypatch.setattr(node.storage, "flush", full)
            with pytest.raises(NotAppendedError):
                await node.append([NO_OP])
            with pytest.raises(OSError, match="No space left"):
                await node.wait()
            assert quorum.leader is None
            view = LiveView(quorum, LiveViewOptions(rate=50), lambda *event: None)
            with pytest.raises(NodeFailedError, match="No space left"):
                await asyncio.wait_for(view.run(), WAIT_S)

    with pytest.raises(OSError, match="No space left"):
        run(main())
