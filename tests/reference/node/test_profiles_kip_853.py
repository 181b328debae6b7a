"""KIP-853's first draft, spoken to ``kraftspec node`` over TCP: bytes are made and read by hand."""

from __future__ import annotations

import base64
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from tests.reference.node import test_kip_853_uuids as uuids
from tests.reference.node.processes import ROOT, WAIT_S, Processes
from tests.reference.node.test_profiles_live import form
from tests.reference.node.test_profiles_quorum import change
from tests.waiting import until

from kraftspec.generated import kip_853

VOTE, REMOVE_VOTER = 52, 10058
NOT_LEADER_OR_FOLLOWER, INVALID_VOTER_KEY = 6, 125
TOPIC = b"\x13__cluster_metadata"  # A compact string: its length and one.
NULL = bytes(16)
BYTES = "metadata.log.max.record.bytes.between.snapshots"
INTERVAL = "metadata.log.max.snapshot.interval.ms"


class Nodes(Processes):
    """Processes of ``kraftspec node``: nothing is in their logs but what the protocol writes."""

    def start(self, node_id: int) -> None:
        command = [sys.executable, "-m", "kraftspec", "node", "--profile", self.profile]
        with (self.directory / str(node_id) / "output.txt").open("ab") as output:
            self.running[node_id] = subprocess.Popen(
                [*command, "--config", str(self.properties[node_id])],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def start_patient(self) -> None:
        """Start all: no leader is given up on a machine that is busy, and no change either."""
        long_ms = str(int(WAIT_S * 1000))
        for node_id, path in self.properties.items():
            change(
                path,
                controller__quorum__fetch__timeout__ms=long_ms,
                controller__quorum__request__timeout__ms=long_ms,
            )
            self.start(node_id)

    def log(self, node_id: int) -> Path:
        return self.directory / str(node_id) / "log" / "__cluster_metadata-0"

    def uuid(self, node_id: int) -> bytes:
        """The uuid that a replica has on the wire, by the leader's word."""
        return base64.urlsafe_b64decode(self.rows()[node_id]["replicaUuid"] + "==")

    def ask(self, node_id: int, key: int, version: int, body: bytes) -> bytes:
        """Send a request with a flexible header; return the body of the response."""
        host, _, port = self.bootstrap([node_id]).rpartition(":")
        head = struct.pack(">hhi", key, version, 7) + b"\0\4hand\0"
        with socket.create_connection((host, int(port)), WAIT_S) as connection:
            connection.sendall(struct.pack(">i", len(head + body)) + head + body)
            stream = connection.makefile("rb")
            (size,) = struct.unpack(">i", stream.read(4))
            response = stream.read(size)
        assert response[:5] == b"\0\0\0\7\0"
        return response[5:]

    def vote(self, voter_id: int, voter_uuid: bytes, *, to: int, epoch: int) -> tuple[int, ...]:
        """Ask for a vote; return its error, the leader and its epoch, and whether it is granted.

        Of an answer that fails as a whole there is the error alone.
        """
        candidate = b"u" * 16
        body = struct.pack(">xii", 9, voter_id) + b"\2" + TOPIC + b"\2"
        body += struct.pack(">ii16s16siq", 0, epoch, candidate, voter_uuid, epoch - 1, 1 << 40)
        answer = self.ask(to, VOTE, 1, body + bytes(3))
        (top_error,) = struct.unpack_from(">h", answer)
        if top_error:
            assert answer[2:] == b"\1\0"  # No topic, no tags.
            return (top_error,)
        head = b"\0\0\2" + TOPIC + b"\2" + bytes(4)
        assert answer.startswith(head)
        *fields, granted = struct.unpack_from(">hii?", answer, len(head))
        return *fields, int(granted)

    def remove(self, voter_id: int, uuid: bytes, *, by: int) -> tuple[int, int, int]:
        """Ask a node to remove a voter; return its error, and the leader and epoch that it names.

        These are a tagged field of the partition, -1 where it is left out.
        """
        body = b"\2" + TOPIC + b"\2" + struct.pack(">ii16s", 0, voter_id, uuid) + bytes(3)
        answer = self.ask(by, REMOVE_VOTER, 0, body)
        head = b"\0\0\2" + TOPIC + b"\2" + bytes(4)
        assert answer.startswith(head)
        (error,) = struct.unpack_from(">h", answer, len(head))
        rest = answer[len(head) + 2 :]
        if rest == bytes(3):
            return error, -1, -1
        assert rest.startswith(b"\1\0\x09")  # One tagged field, number 0, of 9 bytes.
        return error, *struct.unpack_from(">ii", rest, 3)


def checkpoints(log: Path) -> dict[int, Path]:
    """The snapshots of a log, by the offset where each ends."""
    return {int(path.name[:20]): path for path in sorted(log.glob("*.checkpoint"))}


@pytest.mark.soak
@pytest.mark.parametrize("due", [BYTES, INTERVAL])
def test_snapshots_have_the_voters(tmp_path: Path, due: str) -> None:
    """Source: 001, AddVoterRecord: "can exist in both the log and the snapshot".

    And "The quorum voters and their configuration will be learned by fetching and reading the log
    and snapshot": of two voters each loses its log, and of the third nothing was there before.
    """
    with Nodes(tmp_path, "kip-853", voters=3, first=0) as quorum:
        for path in quorum.properties.values():
            change(path, **{due.replace(".", "__"): "1"})
        for node_id in (1, 2):
            quorum.start(node_id)
        form(quorum, [1, 2])
        uuids = {node_id: quorum.uuid(node_id) for node_id in (1, 2)}

        def is_covered() -> bool:
            ends = {row["logEndOffset"] for row in quorum.rows().values()}
            return ends == {max(checkpoints(quorum.log(id)), default=0) for id in (1, 2)}

        until(is_covered)
        quorum.kill(1, 2)
        for node_id in (1, 2):
            latest = max(checkpoints(quorum.log(node_id)).items())[1].read_bytes()
            assert all(uuid in latest for uuid in uuids.values())
            for path in quorum.log(node_id).glob("0*.*"):
                if path.suffix != ".checkpoint":
                    path.unlink()
            quorum.start(node_id)
        until(lambda: quorum.describe()["highWatermark"] > 0)
        assert quorum.voters() == [1, 2]
        assert {node_id: quorum.uuid(node_id) for node_id in (1, 2)} == uuids
        quorum.start(3)
        quorum.caught_up(3)
        end, fetched = min(checkpoints(quorum.log(3)).items())
        sent = [checkpoints(quorum.log(node_id)).get(end) for node_id in (1, 2)]
        assert fetched.read_bytes() in [path.read_bytes() for path in sent if path is not None]
        assert min(int(path.stem) for path in quorum.log(3).glob("*.log")) == end
        form(quorum, [3])
        assert quorum.voters() == [1, 2, 3]


def test_the_leader_removes_itself(tmp_path: Path) -> None:
    """Source: 001, RemoveVoter 4 to 6: "Append to log", "Wait for commit using majority of new
    configuration", "Send response"; CurrentLeader: "-1 if the leader is unknown", "The latest known
    leader epoch".
    """
    with Nodes(tmp_path, "kip-853", voters=3, first=0) as quorum:
        quorum.start_patient()
        form(quorum, [1, 2, 3])
        old, epoch = quorum.leader(), quorum.describe()["leaderEpoch"]
        uuid = quorum.uuid(old)
        others = [node_id for node_id in (1, 2, 3) if node_id != old]
        assert quorum.remove(old, uuid, by=old) == (0, -1, epoch)
        error, leader, _ = quorum.remove(old, uuid, by=old)
        assert error == NOT_LEADER_OR_FOLLOWER
        assert leader != old
        until(lambda: quorum.leader() in others)
        assert quorum.describe()["leaderEpoch"] > epoch
        assert quorum.voters() == others
        quorum.caught_up(old)
        assert quorum.rows()[old]["status"] == "Observer"
        error, leader, _ = quorum.remove(old, uuid, by=old)
        assert (error, leader) == (NOT_LEADER_OR_FOLLOWER, quorum.leader())


@pytest.mark.soak
def test_a_vote_for_another_replica_fails_and_changes_nothing(tmp_path: Path) -> None:
    """Source: 001, Vote handling 1: "Fail the request of the voter ID and UUID doesn't match the
    local ID and UUID"; VoterUuid: "null otherwise", which a voter of dynamic voters never is.
    """
    with Nodes(tmp_path, "kip-853", voters=3, first=0) as quorum:
        quorum.start_patient()
        form(quorum, [1, 2, 3])
        leader, epoch = quorum.leader(), quorum.describe()["leaderEpoch"]
        voter = next(node_id for node_id in (1, 2, 3) if node_id != leader)
        uuid = quorum.uuid(voter)
        state = quorum.log(voter) / "quorum-state"
        before = state.read_bytes()
        above = epoch + 5
        assert quorum.vote(-1, NULL, to=voter, epoch=above) == (INVALID_VOTER_KEY,)
        assert quorum.vote(-1, uuid, to=voter, epoch=above) == (INVALID_VOTER_KEY,)
        refused = (INVALID_VOTER_KEY, leader, epoch, False)
        assert quorum.vote(voter, NULL, to=voter, epoch=above) == refused
        assert quorum.vote(voter, b"w" * 16, to=voter, epoch=above) == refused
        assert quorum.vote(leader, uuid, to=voter, epoch=above) == refused
        assert state.read_bytes() == before
        described = quorum.describe()
        assert (described["leaderId"], described["leaderEpoch"]) == (leader, epoch)
        # The right one is answered, and its epoch taken.
        assert quorum.vote(voter, uuid, to=voter, epoch=above) == (0, -1, above, True)


def test_a_static_voter_votes_by_its_id_alone_until_its_uuid_is_committed(tmp_path: Path) -> None:
    """Source: 001, Vote handling 1: "Fail the request of the voter ID and UUID doesn't match the
    local ID and UUID"; VoterUuid: "null otherwise", where nobody was told the uuid.
    """
    with uuids.Nodes(tmp_path, uuids.PATIENT) as nodes:
        nodes.static([1, 2, 3])
        quorum = nodes.of_leader()
        leader, epoch = quorum.leader_id, quorum.leader_epoch
        other, candidate = (node_id for node_id in (1, 2, 3) if node_id != leader)
        nodes.add_by_id(leader)
        state = tmp_path / str(leader) / "log" / "__cluster_metadata-0" / "quorum-state"
        before = state.read_bytes()

        def asked(voter_id: int) -> tuple[int, int, int, bool]:
            request = uuids.vote(candidate, voter_id, epoch + 5)
            answer = nodes.ask(voter_id, request, 1, kip_853.VoteResponse).topics[0].partitions[0]
            return answer.error_code, answer.leader_id, answer.leader_epoch, answer.vote_granted

        assert asked(leader) == (INVALID_VOTER_KEY, leader, epoch, False)
        assert state.read_bytes() == before
        assert nodes.of_leader().leader_epoch == epoch
        # Of the other no record has a uuid.
        assert asked(other) == (0, -1, epoch + 5, True)
