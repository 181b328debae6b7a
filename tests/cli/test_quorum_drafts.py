"""``kraftspec quorum`` on quorums of the drafts, as ``quorum up --profile`` starts them."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.waiting import until

from kraftspec.cli import main
from kraftspec.cli.quorum_drafts import describe_text
from kraftspec.conformance.cluster.node import free_port
from kraftspec.fastpath.types import Uuid
from kraftspec.generated import kip_595, kip_853
from kraftspec.reference.admin import Endpoint
from kraftspec.reference.log.control import encode_control_values
from kraftspec.reference.log.properties import parse_properties
from kraftspec.reference.profiles import parts_of
from kraftspec.reference.profiles.common.admin import DraftAdminPart, DraftQuorum, DraftReplica

WAIT_S = 180.0  # What takes seconds where nothing else runs.
COLUMNS = 80


class Up:
    """``kraftspec quorum up`` that runs: what it says of itself, and who is asked."""

    def __init__(self, profile: str, told: dict[str, Any]) -> None:
        self.profile = profile
        self.told = told
        self.properties = {int(key): Path(path) for key, path in told["properties"].items()}
        listeners = [parse_properties(path.read_text()) for path in self.properties.values()]
        self.bootstrap = ",".join(it["listeners"].partition("://")[2] for it in listeners)

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run ``kraftspec quorum`` and return what it prints."""
        more = ("--profile", self.profile, "--bootstrap-server", self.bootstrap)
        done = CliRunner().invoke(main, ["quorum", *arguments, *more])
        assert done.exit_code == code, done.output
        return done.output if code else done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))

    def log(self, node_id: int) -> Path:
        return self.properties[node_id].parent / "log"


@contextmanager
def quorum_up(directory: Path, profile: str, *more: str) -> Iterator[Up]:
    command = [sys.executable, "-m", "kraftspec", "quorum", "up", "--profile", profile]
    options = ["--directory", str(directory), "--port", str(free_port(set()))]
    with subprocess.Popen(
        [*command, *options, "--json", "--rate", "20", *more], stdout=subprocess.PIPE, text=True
    ) as process:
        watchdog = threading.Timer(3 * WAIT_S, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            assert (told["event"], told["profile"]) == ("up", profile)
            drain = threading.Thread(target=process.stdout.read)
            drain.start()
            yield Up(profile, told)
            process.send_signal(signal.SIGINT)
            assert process.wait(WAIT_S) == 0
            drain.join(WAIT_S)
        finally:
            watchdog.cancel()
            process.kill()


@pytest.fixture(scope="module")
def of_595(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with quorum_up(tmp_path_factory.mktemp("595"), "kip-595", "--observers", "1") as up:
        until(lambda: len(rows(up)) == 4 and up.json("describe")["highWatermark"] > 0)
        yield up


@pytest.fixture(scope="module")
def of_853(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with quorum_up(tmp_path_factory.mktemp("853"), "kip-853", "--observers", "1") as up:
        until(lambda: [row["status"] for row in rows(up)].count("Follower") == 2)
        until(lambda: len(rows(up)) == 4)
        yield up


def rows(up: Up) -> list[dict[str, Any]]:
    replicas: list[dict[str, Any]] = up.json("describe", "--replication")["replicas"]
    return replicas


def is_narrow(text: str) -> bool:
    return all(len(line) <= COLUMNS for line in text.splitlines())


# ---- KIP-595 -----------------------------------------------------------------------------------


def test_describe_prints_the_fields_of_kip_595(of_595: Up) -> None:
    text = of_595.run("describe")
    labels = [line.partition(":")[0] for line in text.splitlines()]
    assert labels == [
        "LeaderId",
        "LeaderEpoch",
        "HighWatermark",
        "MaxFollowerLag",
        "MaxFollowerLagTimeMs",
        "CurrentVoters",
        "TargetVoters",
    ]
    values = {line.partition(":")[0]: line.partition(":")[2].strip() for line in text.splitlines()}
    assert values["LeaderId"] in ("1", "2", "3")
    assert (values["CurrentVoters"], values["TargetVoters"]) == ("[1,2,3]", "[]")
    assert int(values["HighWatermark"]) > 0
    assert is_narrow(text)


def test_describe_replication_prints_the_fields_of_kip_595(of_595: Up) -> None:
    text = of_595.run("describe", "--replication")
    head, *lines = text.splitlines()
    fields = ["ReplicaId", "LogEndOffset", "Lag", "LagTimeMs", "Status", "IsReassignTarget"]
    assert head.split() == fields
    cells = {line.split()[0]: line.split()[1:] for line in lines}
    assert sorted(cells) == ["1", "2", "3", "4"]
    assert sorted(values[3] for values in cells.values()) == [
        "Follower",
        "Follower",
        "Leader",
        "Observer",
    ]
    assert {values[4] for values in cells.values()} == {"false"}
    assert is_narrow(text)


def test_alter_moves_a_quorum_there_and_back(of_595: Up) -> None:
    assert of_595.run("alter", "--voters", "1,2,3,4", "--wait") == "The voters are 1, 2, 3, 4\n"
    assert of_595.json("describe")["currentVoters"] == [1, 2, 3, 4]
    told = of_595.json("alter", "--voters", "3, 1,2", "--wait")
    assert told == {"action": "alter", "targetVoters": [1, 2, 3], "isReached": True}
    described = of_595.json("describe")
    assert (described["currentVoters"], described["targetVoters"]) == ([1, 2, 3], None)


def test_alter_refuses_in_a_line(of_595: Up) -> None:
    error = of_595.run("alter", "--voters", "1,2,77", code=1)
    assert error.startswith("Error: UNKNOWN_VOTER_ID (20002)")
    assert len(error.splitlines()) == 1
    assert "is no list of ids" in of_595.run("alter", "--voters", "1,x", code=2)
    done = CliRunner().invoke(main, ["quorum", "alter", "--voters", "1"])
    assert (done.exit_code, "give --bootstrap-server" in done.output) == (2, True)


def test_dump_log_and_the_shell_read_what_kip_595_wrote(of_595: Up) -> None:
    segment = of_595.log(1) / "__cluster_metadata-0" / "00000000000000000000.log"
    done = CliRunner().invoke(main, ["dump-log", "--deep-iteration", str(segment)])
    assert done.exit_code == 0, done.output
    controls = [line for line in done.output.splitlines() if " keySize: 4 " in line]
    first, second = controls[:2]
    assignment = json.loads(first.partition(" VoterAssignment ")[2])
    assert assignment["currentVoters"] == [{"voterId": 1}, {"voterId": 2}, {"voterId": 3}]
    assert assignment["targetVoters"] is None
    change = json.loads(second.partition(" LeaderChange: ")[2])
    assert change["leaderId"] in (1, 2, 3)
    assert len(change["votedIds"]) >= 2
    # A copy of the segment alone says nothing of whose it is.
    bare = of_595.log(1).parent / segment.name
    bare.write_bytes(segment.read_bytes())
    command = ["dump-log", "--deep-iteration", "--json", "--profile", "kip-595", str(bare)]
    lines = [json.loads(line) for line in CliRunner().invoke(main, command).stdout.splitlines()]
    kinds = [line["controlType"] for line in lines if "controlType" in line]
    assert kinds[:2] == ["VOTER_ASSIGNMENT", "LEADER_CHANGE"]
    walked = CliRunner().invoke(
        main, ["shell", "--json", "-d", str(of_595.log(1)), "tree", "/quorum"]
    )
    assert walked.exit_code == 0, walked.output
    quorum = json.loads(walked.stdout)["/quorum"]
    assert sorted(quorum["voters"]) == ["1", "2", "3"]
    assert (quorum["profile"], quorum["clusterId"]) == ("kip-595", assignment["clusterId"])
    assert quorum["leader"]["id"] == change["leaderId"] or quorum["leader"]["epoch"] > 1
    assert set(quorum["state"]) >= {"appliedOffset", "currentVoters", "targetVoters"}


# ---- KIP-853 -----------------------------------------------------------------------------------


def test_describe_has_what_one_needs_to_change_voters(of_853: Up) -> None:
    text = of_853.run("describe")
    assert is_narrow(text)
    head, *lines = text.partition("\n\n")[2].splitlines()
    assert head.split() == ["Id", "Uuid", "Status", "CanBeAdded", "Endpoints"]
    cells = {int(line.split()[0]): line.split()[1:] for line in lines}
    assert sorted(cells) == [1, 2, 3, 4]
    for node_id in (1, 2, 3):
        uuid, _, can_be_added, endpoint = cells[node_id]
        assert re.fullmatch(r"[\w-]{22}", uuid)
        listeners = parse_properties(of_853.properties[node_id].read_text())["listeners"]
        assert (can_be_added, endpoint) == ("-", listeners)
    listeners = parse_properties(of_853.properties[4].read_text())["listeners"]
    assert cells[4][1:] == ["Observer", "true", listeners]
    replication = of_853.run("describe", "--replication")
    assert is_narrow(replication)
    assert replication.split("\n", 1)[0].split() == [
        "ReplicaId",
        "ReplicaUuid",
        "LogEndOffset",
        "Lag",
        "LagTimeMs",
        "Status",
    ]


def test_long_names_of_hosts_stand_below() -> None:
    uuid = Uuid(bytes(16 * [7]))
    endpoint = Endpoint("CONTROLLER", "controller-3.a-quorum.example.org", 9093)
    voter = DraftReplica(id=3, uuid=uuid, log_end_offset=9, endpoints=(endpoint,))
    quorum = DraftQuorum(leader_id=3, leader_epoch=1, high_watermark=9, voters=(voter,))
    kind = parts_of("kip-853").admin
    assert isinstance(kind, DraftAdminPart)
    text = describe_text(kind, quorum)
    assert is_narrow(text)
    row, below = text.splitlines()[-2:]
    assert row.split() == ["3", str(uuid), "Leader", "-"]
    assert below == "    CONTROLLER://controller-3.a-quorum.example.org:9093"


def test_a_voter_is_added_by_what_describe_says_and_removed_again(of_853: Up) -> None:
    (observer,) = [row for row in of_853.json("describe")["replicas"] if row["replicaId"] == 4]
    assert (observer["status"], observer["shouldBecomeVoter"]) == ("Observer", True)
    listener = parse_properties(of_853.properties[4].read_text())["listeners"]
    assert observer["endpoints"] == [listener]
    report = of_853.run("add-voter", "--voter-id", "4")
    assert report == f"Added voter 4 with uuid {observer['replicaUuid']}\n"
    voters = {
        row["replicaId"]: row
        for row in of_853.json("describe")["replicas"]
        if row["status"] != "Observer"
    }
    assert sorted(voters) == [1, 2, 3, 4]
    assert voters[4]["endpoints"] == [listener]
    report = of_853.json("remove-voter", "--voter-id", "4")
    assert report == {
        "action": "remove",
        "voterId": 4,
        "voterUuid": observer["replicaUuid"],
    }
    # An endpoint may be given, and its properties say all that, too.
    of_853.run("add-voter", "-i", "4", "-u", observer["replicaUuid"], "--endpoint", listener)
    of_853.run("remove-voter", "--voter-id", "4")
    told = of_853.json("add-voter", "--config", str(of_853.properties[4]))
    assert told["voterUuid"] == observer["replicaUuid"]
    of_853.run("remove-voter", "-i", "4", "-u", observer["replicaUuid"])


def test_changes_that_are_wrong_are_told_in_a_line(of_853: Up) -> None:
    for arguments, code, told in (
        (("remove-voter", "--voter-id", "9"), 1, "the leader knows no uuid of id 9"),
        (("add-voter",), 2, "give --voter-id ID, or --config FILE"),
        (("add-voter", "-i", "4", "--endpoint", "nowhere"), 2, "NAME://host:port"),
        (("add-voter", "-i", "4", "-u", "short"), 2, "--voter-uuid"),
        (
            ("add-voter", "-i", "4", "--endpoint", "OTHER://localhost:9"),
            1,
            "INVALID_REQUEST (42). A voter needs an endpoint",
        ),
    ):
        assert told in of_853.run(*arguments, code=code)


def test_dump_log_and_the_shell_read_what_kip_853_wrote(of_853: Up) -> None:
    segment = of_853.log(2) / "__cluster_metadata-0" / "00000000000000000000.log"
    done = CliRunner().invoke(main, ["dump-log", "--deep-iteration", "--json", str(segment)])
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    controls = [line for line in printed if "controlType" in line]
    assert [one["controlType"] for one in controls[:4]] == [
        "ADD_VOTER",
        "LEADER_CHANGE",
        "ADD_VOTER",
        "ADD_VOTER",
    ]
    first = controls[0]["payload"]
    assert (first["voterId"], first["endPoints"][0]["name"]) == (1, "CONTROLLER")
    walked = CliRunner().invoke(
        main, ["shell", "--json", "-d", str(of_853.log(2)), "tree", "/quorum"]
    )
    quorum = json.loads(walked.stdout)["/quorum"]
    described = {row["replicaId"]: row for row in of_853.json("describe")["replicas"]}
    for node_id, voter in quorum["voters"].items():
        assert voter["voterUuid"] == described[int(node_id)]["replicaUuid"]
    assert quorum["state"]["voterUuid"] == described[2]["replicaUuid"]


def test_records_that_take_a_voter_away_are_read(tmp_path: Path) -> None:
    """By bytes that only the generated classes wrote, not a node."""
    uuids = {node_id: Uuid(bytes([node_id] * 16)) for node_id in (1, 2)}
    values = [
        (100, kip_853.AddVoterRecord(voter_id=1, voter_uuid=uuids[1]).encode(0)),
        (100, kip_853.AddVoterRecord(voter_id=2, voter_uuid=uuids[2]).encode(0)),
        (101, kip_853.RemoveVoterRecord(voter_id=1, voter_uuid=uuids[1]).encode(0)),
        (101, kip_853.RemoveVoterRecord(voter_id=2, voter_uuid=uuids[1]).encode(0)),
    ]
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(encode_control_values(values, base_offset=0, epoch=1, timestamp_ms=0))
    command = ["shell", "--profile", "kip-853", "-s", str(path), "ls", "/quorum/voters"]
    done = CliRunner().invoke(main, command)
    assert (done.exit_code, done.output) == (0, "2\n")  # That of another uuid takes nobody away.
    dumped = CliRunner().invoke(
        main, ["dump-log", "--deep-iteration", "--profile", "kip-853", str(path)]
    )
    assert dumped.output.count(" RemoveVoter {") == 2
    # By Kafka's words these are of types that it has not.
    kafkas = CliRunner().invoke(main, ["dump-log", "--deep-iteration", str(path)])
    assert kafkas.output.count("controlType: UNKNOWN(100)") == 2


def test_a_target_is_read(tmp_path: Path) -> None:
    kind = kip_595.VoterAssignmentMessage
    message = kind(
        cluster_id="one",
        current_voters=[kind.Voter(voter_id=1)],
        target_voters=[kind.Voter(voter_id=1), kind.Voter(voter_id=2)],
    )
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(
        encode_control_values([(2, message.encode(0))], base_offset=0, epoch=1, timestamp_ms=0)
    )
    command = ["shell", "--profile", "kip-595", "-s", str(path), "cat", "/quorum/targetVoters"]
    done = CliRunner().invoke(main, command)
    assert (done.exit_code, done.output) == (0, "[1, 2]\n")


@pytest.mark.soak
def test_kip_996_is_described_and_has_no_other_command(tmp_path: Path) -> None:
    with quorum_up(tmp_path, "kip-996") as up:
        until(lambda: len(rows(up)) == 3)
        text = up.run("describe")
        assert is_narrow(text)
        assert sorted(line.split()[0] for line in text.splitlines()[-3:]) == ["1", "2", "3"]
        for command in (("alter", "--voters", "1"), ("add-voter", "-i", "1")):
            assert "'kip-996' is not" in up.run(*command, code=2)
