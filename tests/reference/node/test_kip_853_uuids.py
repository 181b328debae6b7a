"""KIP-853's first draft on live nodes: replicas by id and uuid, disks that were replaced, brokers.

The nodes are processes of ``kraftspec node``. What is asked of them, and what one of them sends, is
built and read here byte by byte, or by the generated codecs alone.
"""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.waiting import until

from kraftspec.cli import main
from kraftspec.conformance.cluster.node import free_port
from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.generated import kip_853
from kraftspec.reference.local.quorum import HOST, free_ports
from kraftspec.reference.log.properties import render_properties

WAIT_S = 120.0
REQUEST_TIMED_OUT, INVALID_REQUEST = 7, 42
TOPIC = "__cluster_metadata"
TOPIC_ID = bytes(15) + b"\x01"
QUICK = {
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.election.backoff.max.ms": "300",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.request.timeout.ms": "2000",
}
# A leader stays one while a test takes the part of its followers.
PATIENT = {
    **QUICK,
    "controller.quorum.fetch.timeout.ms": "60000",
    "controller.quorum.request.timeout.ms": "60000",
}


class Nodes:
    """Processes of ``kraftspec node --profile kip-853``, by node id."""

    def __init__(self, directory: Path, times: Mapping[str, str]) -> None:
        self.directory = directory
        self.times = times
        self.ports: dict[int, int] = {}
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.cluster_id = str(Uuid.random())

    def __enter__(self) -> Nodes:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            process.kill()
        for process in self.running.values():
            process.wait(WAIT_S)

    def static(self, node_ids: list[int]) -> None:
        """Make and start a quorum of static voters."""
        ports = free_ports(free_port(set()), len(node_ids))
        voters = ",".join(f"{id}@{HOST}:{port}" for id, port in zip(node_ids, ports, strict=True))
        for node_id, port in zip(node_ids, ports, strict=True):
            self.make(node_id, port, {"controller.quorum.voters": voters})

    def make(
        self,
        node_id: int,
        port: int,
        quorum: Mapping[str, str],
        *how: str,
        role: str = "controller",
    ) -> None:
        """Write a node's properties, format its directory, and start it."""
        self.ports[node_id] = port
        home = self.directory / str(node_id)
        home.mkdir()
        properties = {
            "process.roles": role,
            "node.id": str(node_id),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{'PLAINTEXT' if role == 'broker' else 'CONTROLLER'}://{HOST}:{port}",
            "log.dirs": str(home / "log"),
            **self.times,
            **quorum,
        }
        (home / "node.properties").write_text(render_properties(properties), "latin-1")
        self.start(node_id, *how, is_new=True)

    def start(self, node_id: int, *how: str, is_new: bool = False) -> None:
        home = self.directory / str(node_id)
        config = ["--profile", "kip-853", "-c", str(home / "node.properties")]
        if is_new:
            done = CliRunner().invoke(
                main, ["storage", "format", *config, "-t", self.cluster_id, *how]
            )
            assert done.exit_code == 0, done.output
        with (home / "output.txt").open("ab") as output:
            self.running[node_id] = subprocess.Popen(
                [sys.executable, "-m", "kraftspec", "node", *config], stdout=output, stderr=output
            )

    def kill(self, node_id: int) -> None:
        process = self.running.pop(node_id)
        process.kill()
        process.wait(WAIT_S)

    def replace_disk(self, node_id: int, *how: str) -> None:
        """Start a node again, which was killed, with a new disk."""
        shutil.rmtree(self.directory / str(node_id) / "log")
        self.start(node_id, *how, is_new=True)

    def uuid(self, node_id: int) -> bytes:
        """What a node has written of itself to quorum-state; none before it has."""
        path = self.directory / str(node_id) / "log" / "__cluster_metadata-0" / "quorum-state"
        with suppress(FileNotFoundError):
            return bytes(Uuid.parse(path.read_text().partition('"voterUuid":"')[2][:22]))
        return b""

    # ---- what the nodes say --------------------------------------------------------------------

    def ask(self, node_id: int, request: Any, version: int, response: Any) -> Any:
        """Send a message on a connection of its own, once the node listens; return the answer."""

        def answer() -> Any:
            with suppress(ConnectionRefusedError):
                return exchange(self.ports[node_id], request, version, response)

        return until(answer)

    def described(self, node_id: int) -> Any:
        """What DescribeQuorum answers; None of a node that does not lead, or does not run yet."""
        kind = kip_853.DescribeQuorumRequest
        topic = kind.TopicData(topic_name=TOPIC, partitions=[kind.PartitionData(partition_index=0)])
        with suppress(OSError):
            request, response = kind(topics=[topic]), kip_853.DescribeQuorumResponse
            answer = exchange(self.ports[node_id], request, 2, response)
            partition = answer.topics[0].partitions[0]
            return partition if partition.error_code == 0 and partition.high_watermark > 0 else None
        return None

    def of_leader(self) -> Any:
        """Wait until a node leads and has committed something; return what it says."""
        return until(lambda: next(filter(None, map(self.described, list(self.running))), None))

    def quorum(self, *arguments: str) -> tuple[int, str]:
        """Run ``kraftspec quorum``, and return its exit code and what it prints."""
        servers = ",".join(f"{HOST}:{port}" for port in self.ports.values())
        more = ["--profile", "kip-853", "--bootstrap-server", servers]
        done = CliRunner().invoke(main, ["quorum", *arguments, *more])
        return done.exit_code, done.output

    def add_by_id(self, node_id: int) -> None:
        """Run ``add-voter -i``, again where another leads by now, and has not heard of it yet."""
        told = f"Added voter {node_id} with uuid {Uuid(self.uuid(node_id))}\n"
        until(lambda: self.quorum("add-voter", "-i", str(node_id)) == (0, told))


def exchange(port: int, request: Any, version: int, response: Any) -> Any:
    body = request if isinstance(request, bytes) else request.encode(version)
    header = struct.pack(">hhih4sx", response.API_KEY, version, 77, 4, b"test")
    with socket.create_connection((HOST, port), WAIT_S) as connection:
        connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        with connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            answer = stream.read(size)
    assert struct.unpack_from(">i", answer) == (77,)
    return response.decode(answer[5:], version)  # An empty section of tags ends the header.


def fetch_bytes(
    replica_id: int,
    uuid: bytes,
    epoch: int,
    offset: int,
    last_epoch: int | None = None,
    tags: bytes = b"\x00",
) -> bytes:
    """Return a Fetch of version 14: the tuple stands first."""
    last_epoch = epoch if last_epoch is None else last_epoch
    return (
        struct.pack(">i16s", replica_id, uuid)
        + struct.pack(">iiibii", 0, 0, 1 << 20, 0, 0, -1)  # Wait, bytes, isolation, session.
        + b"\x02"
        + TOPIC_ID
        + b"\x02"
        + struct.pack(">iiqiqix", 0, epoch, offset, last_epoch, -1, 1 << 20)
        + b"\x00\x01\x01"  # Tags of the topic, nothing forgotten, no rack.
        + tags
    )


def add_voter(voter_id: int, uuid: bytes, cluster_id: str, *endpoints: Any) -> Any:
    kind = kip_853.AddVoterRequest
    partition = kind.PartitionData(
        index=0, voter_id=voter_id, voter_uuid=Uuid(uuid), end_points=list(endpoints)
    )
    topic = kind.TopicData(topic_name=TOPIC, partitions=[partition])
    return kind(cluster_id=cluster_id, topics=[topic])


def added(answer: Any) -> int:
    code: int = answer.topics[0].partitions[0].error_code
    return code


def keys(states: Any) -> dict[tuple[int, bytes], int]:
    """How far each replica is, by its id and its uuid."""
    return {(one.replica_id, bytes(one.replica_uuid)): one.log_end_offset for one in states}


# ---- the tuple ---------------------------------------------------------------------------------


def test_two_replicas_with_the_id_of_a_static_voter_are_two(tmp_path: Path) -> None:
    """Of two voters the one that follows is killed, and this test fetches in its place.

    With another uuid that counts for nothing: what the leader appends is not committed, until a
    fetch has the uuid which the leader had seen before.
    """
    with Nodes(tmp_path, PATIENT) as nodes:
        nodes.static([1, 2])
        leader = nodes.of_leader().leader_id
        other = 3 - leader

        def has_caught_up() -> bool:
            ends = keys(nodes.described(leader).current_voters)
            return (other, bytes(ZERO_UUID)) not in ends and len(set(ends.values())) == 1

        until(has_caught_up)
        nodes.kill(other)
        own, its, another = nodes.uuid(leader), nodes.uuid(other), bytes(range(1, 17))
        quorum = nodes.described(leader)
        assert quorum.observers == []
        end = keys(quorum.current_voters)[leader, own]
        assert keys(quorum.current_voters) == {(leader, own): end, (other, its): end}

        def fetch(uuid: bytes, offset: int) -> Any:
            body = fetch_bytes(other, uuid, quorum.leader_epoch, offset)
            answer = nodes.ask(leader, body, 14, kip_853.FetchResponse)
            partition = answer.responses[0].partitions[0]
            assert partition.error_code == 0
            return partition

        # The leader's own uuid goes into the log: a record that needs both voters.
        codes: list[int] = []
        request = add_voter(leader, own, nodes.cluster_id)
        asking = threading.Thread(
            target=lambda: codes.append(
                added(nodes.ask(leader, request, 0, kip_853.AddVoterResponse))
            )
        )
        asking.start()
        until(lambda: keys(nodes.described(leader).current_voters)[leader, own] == end + 1)
        assert fetch(another, end + 1).high_watermark == end
        quorum = nodes.described(leader)
        assert keys(quorum.current_voters) == {(leader, own): end + 1, (other, its): end}
        assert keys(quorum.observers) == {(other, another): end + 1}
        (observer,) = quorum.observers
        assert observer.should_become_voter
        assert at(observer) == [("CONTROLLER", HOST, nodes.ports[other])]
        assert quorum.high_watermark == end
        assert codes == []
        # The leader counts itself once the record is on its disk.
        until(lambda: fetch(its, end + 1).high_watermark == end + 1)
        asking.join(WAIT_S)
        assert codes == [0]


@pytest.mark.soak
def test_a_static_voter_with_a_new_disk_is_added_by_its_id_alone(tmp_path: Path) -> None:
    with Nodes(tmp_path, QUICK) as nodes:
        nodes.static([1, 2, 3])
        lost = nodes.of_leader().leader_id % 3 + 1

        def voter() -> bytes:
            """The uuid of the voter with that id, once it has fetched from the leader."""
            keyed = keys(nodes.of_leader().current_voters)
            return next(uuid for node_id, uuid in keyed if node_id == lost)

        until(lambda: voter() != ZERO_UUID)
        old = nodes.uuid(lost)
        assert voter() == old
        nodes.kill(lost)
        nodes.replace_disk(lost)

        def is_known() -> bool:
            """Whether the new disk has fetched, from the same leader or from another."""
            quorum = nodes.of_leader()
            return (lost, nodes.uuid(lost)) in {
                **keys(quorum.observers),
                **keys(quorum.current_voters),
            }

        until(is_known)
        new = nodes.uuid(lost)
        assert new != old
        nodes.add_by_id(lost)
        assert voter() == new
        code, arguments = nodes.quorum("add-voter", "-i", "9")
        assert (code, "the leader knows no uuid of id 9" in arguments) == (1, True)


@pytest.mark.soak
def test_an_observer_is_added_by_its_id_alone_and_so_is_its_new_disk(tmp_path: Path) -> None:
    """The leader shows where an observer is: it says so itself, in a tag of its fetches."""
    with Nodes(tmp_path, QUICK) as nodes:
        ports = free_ports(free_port(set()), 3)
        servers = ",".join(f"{HOST}:{port}" for port in ports)
        quorum = {"controller.quorum.bootstrap.servers": servers}
        nodes.make(1, ports[0], quorum, "--standalone")
        for node_id, port in zip((2, 3), ports[1:], strict=True):
            nodes.make(node_id, port, quorum, "--no-initial-controllers")

        def add(node_id: int) -> None:
            def seen() -> Any:
                key = node_id, nodes.uuid(node_id)
                observers = nodes.of_leader().observers
                return next(
                    (it for it in observers if (it.replica_id, it.replica_uuid) == key), None
                )

            observer = until(seen)
            assert observer.should_become_voter
            assert at(observer) == [("CONTROLLER", HOST, nodes.ports[node_id])]
            nodes.add_by_id(node_id)
            voters = {it.replica_id: it for it in nodes.of_leader().current_voters}
            assert voters[node_id].replica_uuid == observer.replica_uuid
            assert at(voters[node_id]) == at(observer)

        add(2)
        add(3)
        nodes.kill(3)
        nodes.replace_disk(3, "--no-initial-controllers")
        add(3)
        # A tag by hand: number 1, its size, one endpoint.
        endpoint = b"\x02\x0bCONTROLLER\x05host" + struct.pack(">Hhx", 9093, 1)
        tags = b"\x01\x01" + bytes([len(endpoint)]) + endpoint

        def told() -> Any:
            described = nodes.of_leader()
            body = fetch_bytes(8, bytes(range(16)), described.leader_epoch, 0, 0, tags)
            nodes.ask(described.leader_id, body, 14, kip_853.FetchResponse)
            return next((it for it in nodes.of_leader().observers if it.replica_id == 8), None)

        by_hand = until(told)
        assert at(by_hand) == [("CONTROLLER", "host", 9093)]
        assert by_hand.end_points[0].security_protocol == 1


def at(replica: Any) -> list[tuple[str, str, int]]:
    """Where a replica is, as DescribeQuorum says."""
    return [(one.name, one.host, one.port) for one in replica.end_points]


# ---- brokers -----------------------------------------------------------------------------------


@contextmanager
def recording(to_port: int) -> Iterator[tuple[int, list[bytes]]]:
    """Forward connections to a port; yield a port, and the frames that came to it."""
    frames: list[bytes] = []
    with ExitStack() as ending:
        server = ending.enter_context(socket.create_server((HOST, 0)))

        def start(target: Callable[..., None], *ends: socket.socket) -> None:
            thread = threading.Thread(target=target, args=ends)
            thread.start()
            ending.callback(thread.join, WAIT_S)

        def requests(here: socket.socket, there: socket.socket) -> None:
            with suppress(OSError), here.makefile("rb") as stream:
                while size := stream.read(4):
                    frame = stream.read(int.from_bytes(size, "big"))
                    frames.append(frame)
                    there.sendall(size + frame)

        def answers(here: socket.socket, there: socket.socket) -> None:
            with suppress(OSError):
                while data := there.recv(65_536):
                    here.sendall(data)

        def serve() -> None:
            with suppress(OSError):
                while True:
                    here, _ = server.accept()
                    there = socket.create_connection((HOST, to_port))
                    for pump in (requests, answers):
                        start(pump, here, there)
                    for end in (here, there):
                        ending.callback(end.close)
                        ending.callback(_shut, end)

        start(serve)
        ending.callback(_shut, server)
        yield server.getsockname()[1], frames


def _shut(connection: socket.socket) -> None:
    """End what waits for a connection in another thread."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def vote(candidate_id: int, voter_id: int, epoch: int) -> Any:
    kind = kip_853.VoteRequest
    partition = kind.PartitionData(
        partition_index=0,
        candidate_epoch=epoch,
        candidate_uuid=Uuid(bytes(16 * [7])),
        last_offset_epoch=epoch - 1,
        last_offset=1 << 40,
    )
    topic = kind.TopicData(topic_name=TOPIC, partitions=[partition])
    return kind(candidate_id=candidate_id, voter_id=voter_id, topics=[topic])


@pytest.mark.soak
def test_a_broker_observes_and_is_never_a_voter(tmp_path: Path) -> None:
    """It fetches without a uuid, is not to be added, gives no vote, and never campaigns."""
    with Nodes(tmp_path, QUICK) as nodes:
        ports = free_ports(free_port(set()), 2)
        servers = {"controller.quorum.bootstrap.servers": f"{HOST}:{ports[0]}"}
        nodes.make(1, ports[0], servers, "--standalone")
        nodes.of_leader()
        with recording(ports[0]) as (by, frames):
            through = {"controller.quorum.bootstrap.servers": f"{HOST}:{by}"}
            nodes.make(9, ports[1], through, role="broker")

            def observer() -> Any:
                quorum = nodes.described(1)
                has_all = [
                    one
                    for one in quorum.observers
                    if one.log_end_offset == quorum.current_voters[0].log_end_offset
                ]
                return has_all[0] if has_all else None

            seen = until(observer)
        assert (seen.replica_id, seen.replica_uuid) == (9, ZERO_UUID)
        assert not seen.should_become_voter
        assert nodes.uuid(9) != ZERO_UUID  # It has one, and keeps it for itself.
        fetches = [one for one in frames if struct.unpack_from(">hh", one) == (1, 14)]
        assert fetches
        for frame in fetches:  # Key, version, correlation, client id, tags.
            (client_chars,) = struct.unpack_from(">h", frame, 8)
            assert struct.unpack_from(">i16s", frame, 10 + client_chars + 1) == (9, ZERO_UUID)
        at = kip_853.AddVoterRequest.VoterEndpoint(name="CONTROLLER", host=HOST, port=ports[1])
        for uuid, error in ((ZERO_UUID, INVALID_REQUEST), (nodes.uuid(9), REQUEST_TIMED_OUT)):
            request = add_voter(9, uuid, nodes.cluster_id, at)
            assert added(nodes.ask(1, request, 0, kip_853.AddVoterResponse)) == error
        code, arguments = nodes.quorum("add-voter", "-i", "9")
        assert (code, "a controller fetches with one, a broker without" in arguments) == (1, True)
        assert [one.replica_id for one in nodes.described(1).current_voters] == [1]
        nodes.kill(1)
        # "All replicas that can become voter are allowed to vote": so this one is not.
        answer = nodes.ask(9, vote(2, 9, 50), 1, kip_853.VoteResponse).topics[0].partitions[0]
        assert not answer.vote_granted
        epoch = answer.leader_epoch
        time.sleep(2.0)  # Several times what a voter would wait.
        answer = nodes.ask(9, vote(2, 9, 1), 1, kip_853.VoteResponse).topics[0].partitions[0]
        assert answer.leader_epoch == epoch


@pytest.mark.parametrize("option", ["--standalone", "--no-initial-controllers"])
def test_a_broker_is_not_formatted_as_a_voter(tmp_path: Path, option: str) -> None:
    with Nodes(tmp_path, QUICK) as nodes:
        servers = {"controller.quorum.bootstrap.servers": f"{HOST}:1"}
        with pytest.raises(AssertionError, match="a broker is never a voter"):
            nodes.make(9, 1, servers, option, role="broker")
