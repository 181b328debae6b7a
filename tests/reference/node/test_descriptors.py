"""A crowd of idle connections, and a node that has few descriptors."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_node import CLUSTER_ID, WAIT_S, Home, end, wait
from tests.reference.node.test_server import request_bytes

from kraftspec.conformance.cluster.node import HOST
from kraftspec.fastpath.types import Uuid
from kraftspec.generated import kafka
from kraftspec.generated.kafka import (
    DescribeQuorumResponse,
    VoteRequest,
    VoteResponse,
)
from kraftspec.reference.admin.client import quorum_request
from kraftspec.reference.wire.frames import read_response, sized

HARD_LIMIT = 256
SOFT_LIMIT = 100  # Too few for what follows: it must be raised.
CROWD = 600
EPOCH = 1000


class Running:
    """A node in a process of few descriptors, and a connection to it from before the crowd."""

    def __init__(self, home: Home, log: Path) -> None:
        self.home = home
        self.log = log
        node = [sys.executable, "-m", "kraftspec", "node", "-c", str(home.properties)]
        limits = f"ulimit -Sn {SOFT_LIMIT} && ulimit -Hn {HARD_LIMIT}"
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                ["sh", "-c", f"{limits} && exec {shlex.join([*node, '--log-format', 'json'])}"],
                stdout=subprocess.DEVNULL,
                stderr=output,
                text=True,
            )

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    node = Running(Home(tmp_path / "node"), tmp_path / "node.log")
    try:
        wait(node.home.leads)
        yield node
    finally:
        end(node.process)


def asked(connection: socket.socket, message: Any, version: int, kind: Any) -> Any:
    connection.sendall(sized(request_bytes(message, version)))
    with connection.makefile("rb") as reader:
        data = reader.read(int.from_bytes(reader.read(4), "big"))
    return read_response(data, kind, version)


def quorum_of(connection: socket.socket) -> DescribeQuorumResponse.PartitionData:
    response = asked(connection, quorum_request(kafka), 2, DescribeQuorumResponse)
    partition: DescribeQuorumResponse.PartitionData = response.topics[0].partitions[0]
    return partition


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


@pytest.mark.soak
def test_a_crowd_leaves_a_node_the_descriptors_that_its_log_needs(running: Running) -> None:
    where = (HOST, running.home.port)
    with ExitStack() as opened:
        early = opened.enter_context(socket.create_connection(where, WAIT_S))
        before = quorum_of(early)
        assert before.leader_epoch < EPOCH
        crowd = []
        for _ in range(CROWD):
            one = opened.enter_context(socket.create_connection(where, WAIT_S))
            one.setblocking(False)
            crowd.append(one)
        # Those that stay are more than the soft limit that it was started with, and not too many.
        wait(lambda: 0 < CROWD - sum(map(is_closed, crowd)) < HARD_LIMIT - 64)
        assert CROWD - sum(map(is_closed, crowd)) > SOFT_LIMIT

        # It has to write down the epoch, and, as its only voter, to elect itself and append.
        vote = VoteRequest.PartitionData(
            replica_epoch=EPOCH, replica_id=2, replica_directory_id=Uuid.random(),
            voter_directory_id=Uuid(), last_offset_epoch=EPOCH - 1, last_offset=1 << 40,
        )  # fmt: skip
        topic = VoteRequest.TopicData(topic_name="__cluster_metadata", partitions=[vote])
        request = VoteRequest(cluster_id=CLUSTER_ID, voter_id=1, topics=[topic])
        response = asked(early, request, 2, VoteResponse)
        assert response.topics[0].partitions[0].leader_epoch == EPOCH

        def leads_again() -> bool:
            now = quorum_of(early)
            return (
                now.error_code == 0
                and now.leader_epoch > EPOCH
                and now.high_watermark > before.high_watermark
            )

        wait(leads_again)
    wait(running.home.leads)  # Whose connections are new.
    running.process.terminate()
    assert running.process.wait(WAIT_S) == 0
    events = running.events()
    refused = [it for it in events if "connections already" in it.get("reason", "")]
    assert len(refused) > CROWD // 2
    assert [it for it in events if it["level"] not in ("info", "warning")] == []
    assert [it for it in events if it["event"] == "no connection can be accepted"] == []
    stopping, stopped = (it for it in events if it["event"] in ("stopping", "stopped"))
    for left in (stopping, stopped):
        assert left["epoch"] > EPOCH
        assert left["end_offset"] > before.high_watermark
    assert (stopping["event"], stopped["event"]) == ("stopping", "stopped")
