"""KIP-595's quorum-state on disks of ``kraftspec node``, and what a leader knows from its files."""

from __future__ import annotations

import json
import re
import socket
import struct
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_node_drafts import WAIT_S, node, run
from tests.reference.node.processes import quick
from tests.waiting import until

from kraftspec.conformance.cluster.node import free_port
from kraftspec.reference.local.quorum import HOST, LocalQuorum
from kraftspec.reference.log import LogDirectory
from kraftspec.reference.log.properties import parse_properties

PROFILE = "kip-595"
FETCH_QUORUM_RECORDS = 10053
NOT_FOLLOWER = 20003


class Live:
    """Nodes as processes, without a load: nothing is appended but what the quorum needs itself."""

    def __init__(self, directory: Path, *, voters: int, observers: int = 0) -> None:
        self.local = LocalQuorum(
            directory,
            voters=voters,
            observers=observers,
            first_port=free_port(set()),
            profile=PROFILE,
            # Nobody is to be elected because this machine was busy.
            settings=quick(PROFILE) | {"quorum.fetch.timeout.ms": "30000"},
        )
        self.running: dict[int, ExitStack] = {}

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        for stack in self.running.values():
            stack.close()

    def start(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self.running[node_id] = ExitStack()
            self.running[node_id].enter_context(node(PROFILE, self.local.properties[node_id]))

    def kill(self, *node_ids: int) -> None:
        """End them by SIGKILL."""
        for node_id in node_ids:
            self.running.pop(node_id).close()

    def quorum(self, *arguments: str) -> Any:
        servers = ",".join(f"{HOST}:{self.port(node_id)}" for node_id in self.running)
        where = ("--profile", PROFILE, "--bootstrap-server", servers, "--json")
        return json.loads(run("quorum", *arguments, *where))

    def leader(self) -> int:
        """Wait until one has committed a record of its own epoch."""
        until(lambda: self.quorum("describe")["highWatermark"] > 0)
        leader: int = self.quorum("describe")["leaderId"]
        return leader

    def port(self, node_id: int) -> int:
        properties = parse_properties(self.local.properties[node_id].read_text("latin-1"))
        return int(properties["listeners"].rpartition(":")[2])

    def log(self, node_id: int) -> Path:
        return self.local.properties[node_id].parent / "log"

    def state(self, node_id: int) -> dict[str, Any]:
        """What quorum-state has, with the voters as ids."""
        path = self.log(node_id) / "__cluster_metadata-0" / "quorum-state"
        until(path.exists)
        state: dict[str, Any] = json.loads(path.read_text())
        for name in ("currentVoters", "targetVoters"):
            if state[name] is not None:
                state[name] = [voter["voterId"] for voter in state[name]]
        return state

    def have_stored(self, voters: list[int]) -> bool:
        """Whether the files of all that run have these voters, no targets, and the cluster id."""
        states = [self.state(node_id) for node_id in self.running]
        return (
            all(one["currentVoters"] == voters and one["targetVoters"] is None for one in states)
            and len({one["clusterId"] for one in states} - {""}) == 1
        )


@pytest.mark.soak
def test_every_node_stores_the_latest_voters_and_its_vote(tmp_path: Path) -> None:
    """ "CurrentVoters: the latest known set of voters"; a leader has voted in its epoch, too."""
    with Live(tmp_path, voters=3, observers=1) as live:
        live.start(1, 2, 3)
        leader = live.leader()
        live.start(4)
        until(lambda: live.have_stored([1, 2, 3]))
        assert (live.state(leader)["leaderId"], live.state(leader)["votedId"]) == (leader, leader)
        gone = next(node_id for node_id in (1, 2, 3) if node_id != leader)
        voters = sorted({1, 2, 3, 4} - {gone})
        live.quorum("alter", "--wait", "--voters", ",".join(map(str, voters)))
        until(lambda: live.have_stored(voters))


def fetch(port: int, cluster_id: str, replica_id: int, *position: int) -> tuple[int, int]:
    """Send FetchQuorumRecords; return the error and the size of the records.

    ``position`` is the leader's epoch, the fetch offset, and the epoch before it.
    """
    name = cluster_id.encode()
    header = struct.pack(">hhihB", FETCH_QUORUM_RECORDS, 0, 7, -1, 0)
    body = bytes([len(name) + 1]) + name
    body += struct.pack(">iiqiiB", replica_id, *position, 0, 0)
    with socket.create_connection((HOST, port), WAIT_S) as connection:
        connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        stream = connection.makefile("rb")
        (size,) = struct.unpack(">i", stream.read(4))
        answer = stream.read(size)
    correlation_id, tags, error = struct.unpack(">iBh", answer[:7])
    assert (correlation_id, tags) == (7, 0)
    return error, size


@pytest.mark.soak
def test_a_leader_that_restarted_tells_a_removed_voter(tmp_path: Path) -> None:
    """Node 3 was removed while it was down: NOT_FOLLOWER, whoever leads since when.

    What the others begin with is what they have on their disks: quorum.voters is gone by then.
    """
    with Live(tmp_path, voters=3) as live:
        live.start(1, 2, 3)
        leader = live.leader()
        gone, other = (node_id for node_id in (1, 2, 3) if node_id != leader)
        until(lambda: live.have_stored([1, 2, 3]))
        live.kill(gone)
        with LogDirectory.open(str(live.log(gone)), profile=PROFILE) as directory:
            log = directory.open_log()
            end_offset, last_epoch = log.end_offset, log.epochs[-1].epoch
            log.close()
        left = sorted((leader, other))
        live.quorum("alter", "--wait", "--voters", ",".join(map(str, left)))
        until(lambda: live.have_stored(left))
        live.kill(*left)
        for node_id in left:
            path = live.local.properties[node_id]
            path.write_text(re.sub(r"(?m)^quorum\.voters=.*\n", "", path.read_text()))
        live.start(*left)
        leader = live.leader()
        epoch = live.quorum("describe")["leaderEpoch"]
        arguments = (live.port(leader), live.local.cluster_id, gone, epoch, end_offset, last_epoch)
        error, size = fetch(*arguments)
        assert error == NOT_FOLLOWER
        error, more = fetch(*arguments)  # It fetches on as an observer.
        assert (error, more > size) == (0, True)
        live.start(gone)
        until(lambda: live.have_stored(left))
        assert live.quorum("describe")["leaderEpoch"] == epoch
