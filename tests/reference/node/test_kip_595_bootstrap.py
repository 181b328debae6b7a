"""How nodes of KIP-595's draft find each other: `kraftspec node` over TCP, peers made by hand.

The peers speak the draft's bytes as its schemas have them, without any codec of this project.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest
from tests.reference.node.processes import Processes
from tests.reference.node.test_profiles_quorum import change
from tests.waiting import until

from kraftspec.reference.admin import AdminError
from kraftspec.reference.local.quorum import HOST
from kraftspec.reference.profiles.kip_595.admin import FoundQuorum, Kip595Admin

VOTE, FETCH, FIND_QUORUM, API_VERSIONS = 10_050, 10_053, 10_055, 18
NEVER_MS = "600000"  # No timer of a node that has this ends within a test.


def found_by(quorum: Processes, node_id: int) -> FoundQuorum | None:
    """What one node answers to FindQuorum; None while it answers nothing."""
    try:
        with Kip595Admin(quorum.bootstrap([node_id])) as admin:
            return admin.find_quorum()
    except AdminError:
        return None


def leads(quorum: Processes, node_id: int, leader_ids: tuple[int, ...]) -> bool:
    answer = found_by(quorum, node_id)
    return answer is not None and answer.leader_id in leader_ids


@pytest.mark.soak
def test_two_of_three_elect_and_the_third_is_waited_for_by_nobody(tmp_path: Path) -> None:
    """000, Bootstrapping 5: "after it has learned a majority number of voters …"."""
    with Processes(tmp_path, "kip-595", voters=3, first=1, load=False) as quorum:
        # bootstrap.servers of each names all three. One of three is no majority, and says so.
        until(lambda: "this node needs 2, itself included" in quorum.output(1))
        assert "has not found 2,3: start them" in quorum.output(1)
        waiting = found_by(quorum, 1)
        assert waiting is not None
        assert (waiting.leader_id, waiting.leader_epoch) == (-1, 0)
        quorum.start(2)
        until(lambda: leads(quorum, 1, (1, 2)))
        assert sorted(voter.id for voter in (found_by(quorum, 1) or waiting).voters) == [1, 2, 3]
        quorum.start(3)
        until(lambda: leads(quorum, 3, (1, 2)))


@pytest.mark.soak
def test_a_node_that_was_told_other_first_voters_leads_no_second_quorum(tmp_path: Path) -> None:
    """It is up alone at first, and waits; the other two agree, and it follows them."""
    with Processes(tmp_path, "kip-595", voters=3, first=0, load=False) as quorum:
        change(quorum.properties[1], quorum__voters="1")
        quorum.start(1)
        until(lambda: "have to expect the first voters 1;" in quorum.output(1))
        silent = f"not answered: {quorum.bootstrap([2, 3])}; expecting others: none"
        assert silent in quorum.output(1)
        quorum.start(2)
        others = f"{quorum.bootstrap([2])} 1,2,3"
        until(lambda: f"expecting others: {others}" in quorum.output(1))
        answer = found_by(quorum, 1)
        assert answer is not None
        assert (answer.leader_id, answer.leader_epoch) == (-1, 0)
        quorum.start(3)
        until(lambda: leads(quorum, 1, (2, 3)))


# ---- peers by hand -------------------------------------------------------------------------------


class Received(NamedTuple):
    """A request: its API key, and its body."""

    key: int
    body: bytes


def compact(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


class Peer:
    """A voter that answers FindQuorum and nothing else, at a port. ``received`` is in order."""

    def __init__(self, port: int) -> None:
        self.received: list[Received] = []
        self.answer = find_quorum_answer(-1, 0, {})
        self._listener = socket.create_server((HOST, port))
        self._connections: list[socket.socket] = []
        self._threads = [Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        """End what waits for the sockets, and only then close them: none is accepted meanwhile."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        for connection in self._connections:
            with suppress(OSError):  # The node has closed it.
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()
        for one in (self._listener, *self._connections):
            one.close()

    def has(self, key: int) -> bool:
        return any(request.key == key for request in self.received)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            self._threads.append(Thread(target=self._serve, args=(connection,), daemon=True))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, ValueError), connection.makefile("rb") as stream:
            while size := stream.read(4):
                frame = stream.read(int.from_bytes(size, "big"))
                key, _, correlation, client = struct.unpack_from(">hhih", frame)
                body = frame[10 + client + 1 :]  # After the header's tagged fields: none.
                head = struct.pack(">i", correlation)
                if key == API_VERSIONS:
                    answer = head + api_versions_answer()
                elif key == FIND_QUORUM:
                    answer = head + b"\0" + self.answer
                self.received.append(Received(key, body))
                if key in (API_VERSIONS, FIND_QUORUM):
                    connection.sendall(len(answer).to_bytes(4, "big") + answer)


def api_versions_answer() -> bytes:
    """Version 3 and above, up to the throttle time: all keys of the draft, at version 0."""
    keys = [*range(10_050, 10_057), API_VERSIONS]
    served = b"".join(struct.pack(">hhhB", key, 0, 4 * (key == API_VERSIONS), 0) for key in keys)
    return struct.pack(">hB", 0, len(keys) + 1) + served + struct.pack(">iB", 0, 0)


def find_quorum_answer(leader_id: int, epoch: int, ports: dict[int, int]) -> bytes:
    """FindQuorum's response: three voters, and the addresses of those in ``ports``."""
    body = struct.pack(">h", 0) + compact("") + struct.pack(">iiB", leader_id, epoch, 3 + 1)
    for voter_id in (1, 2, 3):
        port = ports.get(voter_id, 0)
        body += struct.pack(">iq", voter_id, 1 if port else -1)
        body += compact(HOST if port else "") + struct.pack(">ihB", port, 0, 0)
    return body + b"\0\0"  # TargetVoters null, and no tagged fields.


@contextmanager
def peers_of(quorum: Processes) -> Iterator[tuple[Peer, Peer, dict[int, int]]]:
    """Peers where nodes 2 and 3 of a quorum would be, and the ports of all."""
    ports = {one: int(quorum.bootstrap([one]).rpartition(":")[2]) for one in (1, 2, 3)}
    with ExitStack() as ending:
        peers = [Peer(ports[node_id]) for node_id in (2, 3)]
        for peer in peers:
            ending.callback(peer.close)
        yield peers[0], peers[1], ports


def write_state(quorum: Processes, leader_id: int, epoch: int) -> None:
    """The quorum-state of node 1, as a life before has left it."""
    text = (
        f'{{"clusterId":"","leaderId":{leader_id},"leaderEpoch":{epoch},"votedId":-1,'
        '"appliedOffset":0,"currentVoters":[],"targetVoters":null,"data_version":0}'
    )
    log = quorum.directory / "1" / "log" / "__cluster_metadata-0"
    log.mkdir(exist_ok=True)
    (log / "quorum-state").write_text(text)


def test_a_former_leader_looks_for_the_quorum_as_soon_as_it_starts(tmp_path: Path) -> None:
    """000, Bootstrapping 1: "Upon starting up, brokers always try to bootstrap …"."""
    with Processes(tmp_path, "kip-595", voters=3, first=0, load=False) as quorum:
        change(quorum.properties[1], quorum__election__timeout__ms=NEVER_MS)
        write_state(quorum, leader_id=1, epoch=4)
        with peers_of(quorum) as (second, third, ports):
            before_ms = int(time.time() * 1000)
            quorum.start(1)
            until(lambda: second.has(FIND_QUORUM) and third.has(FIND_QUORUM))
            after_ms = int(time.time() * 1000)
            requests = [one.body for one in second.received if one.key == FIND_QUORUM]
            replica_id, boot_ms = struct.unpack_from(">iq", requests[0])
            assert replica_id == 1
            assert before_ms - 1_000 < boot_ms <= after_ms + 1_000
            assert requests[0][12:] == compact(HOST) + struct.pack(">ihB", ports[1], 0, 0)
            # Nobody leads: it asks again, as of the same boot.
            until(lambda: sum(one.key == FIND_QUORUM for one in second.received) >= 3)
            requests = [one.body for one in second.received if one.key == FIND_QUORUM]
            assert set(requests) == {requests[0]}
            assert not second.has(VOTE)
            # Somebody does: it follows.
            third.answer = find_quorum_answer(2, 5, ports)
            until(lambda: second.has(FETCH))


def test_a_candidate_looks_for_the_voter_whose_address_is_missing(tmp_path: Path) -> None:
    """000, FindQuorum response 4: "attempt to find the other nodes … (if they are not known)"."""
    with Processes(tmp_path, "kip-595", voters=3, first=0, load=False) as quorum:
        change(quorum.properties[1], quorum__election__timeout__ms=NEVER_MS)
        with peers_of(quorum) as (second, third, ports):
            second.answer = find_quorum_answer(-1, 0, {2: ports[2]})
            quorum.start(1)
            until(lambda: second.has(VOTE))  # Which is not answered: it stays a candidate.
            before = sum(one.key == FIND_QUORUM for one in third.received)
            until(lambda: sum(one.key == FIND_QUORUM for one in third.received) >= before + 2)
            assert not third.has(VOTE)
            third.answer = find_quorum_answer(-1, 1, {3: ports[3]})  # Older epochs are ignored.
            until(lambda: third.has(VOTE))
            answer = found_by(quorum, 1)
            assert answer is not None
            assert (answer.leader_id, answer.leader_epoch) == (-1, 1)


@pytest.fixture(autouse=True)
def show_output(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Print what the nodes wrote; pytest shows it where a test fails."""
    yield
    for path in sorted(tmp_path.glob("*/output.txt")):
        print(path.parent.name, path.read_text(), sep="\n")
