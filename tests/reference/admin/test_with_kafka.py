"""The admin client and ``kraftspec quorum`` beside Apache Kafka's own tool, on a real cluster."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.reference.kafka_tools import KafkaTools, Said
from tests.reference.node.secured import login, write_properties

from kraftspec.cli import main
from kraftspec.conformance.cluster import QUORUM_COMMAND, Cluster, Node
from kraftspec.fastpath.types import Uuid
from kraftspec.interop.ours import wait_until
from kraftspec.reference.admin import (
    AdminClient,
    AdminError,
    AnswerError,
    ClientConfig,
    TimedOutError,
    load_client_config,
)
from kraftspec.reference.tools.shell.load import Source

pytestmark = pytest.mark.kafka

QUICK = ClientConfig(api_timeout_ms=1_500, request_timeout_ms=1_000)
PATIENCE_S = 60.0
PASSWORD = "its = own secret"
NOBODY = Uuid("QQQQQQQQQQQQQQQQQQQQQQ")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(
        tmp_path_factory.mktemp("cluster"),
        controllers=3,
        brokers=1,
        sasl=True,
        format_arguments=["--add-scram", f'SCRAM-SHA-256=[name="me",password="{PASSWORD}"]'],
    ) as running:
        yield running


def ours(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["quorum", *arguments])


def asked(cluster: Cluster, who: str) -> list[str]:
    if who == "server":
        return ["--bootstrap-server", cluster.bootstrap()]
    return ["--bootstrap-controller", cluster.controller_bootstrap()]


def high_watermark(status: str) -> int:
    match = re.search(r"HighWatermark: *(\d+)", status)
    assert match is not None
    return int(match[1])


def steady(text: str) -> str:
    """What does not change from one moment to the next: all but offsets, lags and times."""
    text = re.sub(
        r"(HighWatermark|MaxFollowerLag|MaxFollowerLagTimeMs): ( *)-?\d+", r"\1: \2N", text
    )
    lines = [re.split("\t", line) for line in text.split("\n")]
    for cells in lines[1:]:
        for at in range(2, len(cells) - 2):
            assert re.fullmatch(r"\d+( ms ago)? *", cells[at]), cells[at]
            cells[at] = re.sub(r"\d+", "N", cells[at].rstrip()) + f"({len(cells[at])} wide)"
    return "\n".join("\t".join(cells) for cells in lines)


def undisturbed(kafka: KafkaTools, arguments: list[str]) -> tuple[Said, Result, Said]:
    """Ask by Kafka's tool, by ours, and by Kafka's; once more if a leader was elected meanwhile."""
    for _ in range(10):
        before, mine, after = kafka.quorum(*arguments), ours(*arguments), kafka.quorum(*arguments)
        assert (before.code, mine.exit_code, after.code) == (0, 0, 0)
        if steady(before.out) == steady(after.out):
            break
    return before, mine, after


@pytest.mark.parametrize("who", ["server", "controller"])
def test_status(cluster: Cluster, kafka: KafkaTools, who: str) -> None:
    arguments = [*asked(cluster, who), "describe", "--status"]
    before, mine, after = undisturbed(kafka, arguments)
    assert steady(mine.stdout) == steady(before.out)
    watermarks = [high_watermark(text) for text in (before.out, mine.stdout, after.out)]
    assert watermarks == sorted(watermarks)


@pytest.mark.parametrize("who", ["server", "controller"])
@pytest.mark.parametrize("form", [["--replication"], ["--replication", "--human-readable"]])
def test_replication(cluster: Cluster, kafka: KafkaTools, who: str, form: list[str]) -> None:
    arguments = [*asked(cluster, who), "describe", *form]
    theirs, mine, _ = undisturbed(kafka, arguments)
    assert steady(mine.stdout) == steady(theirs.out)
    assert ("ms ago" in mine.stdout) == ("--human-readable" in form)


def test_json_says_what_the_text_says(cluster: Cluster) -> None:
    where = asked(cluster, "controller")
    state = json.loads(ours("describe", "--status", "--json", *where).stdout)
    text = ours("describe", "--status", *where).stdout
    assert f"ClusterId:              {state['clusterId']}\n" in text
    assert f"CurrentVoters:          {json.dumps(state['currentVoters'])}\n" in text
    assert state["clusterId"] == cluster.cluster_id
    assert state["leaderId"] == cluster.leader().id
    assert [voter["id"] for voter in state["currentVoters"]] == [3001, 3002, 3003]
    rows = json.loads(ours("describe", "--replication", "--json", *where).stdout)["replicas"]
    assert [row["status"] for row in rows] == ["Leader", "Follower", "Follower", "Observer"]
    assert rows[0]["nodeId"] == state["leaderId"]


MISTAKES = {
    "neither": ["describe"],
    "both": ["describe", "--status", "--replication"],
    "human status": ["describe", "--status", "--human-readable"],
    "nobody's file": ["add-controller"],
    "negative": ["remove-controller", "-i", "-4", "-d", "QQQQQQQQQQQQQQQQQQQQQQ"],
    "no voter": ["remove-controller", "-i", "77", "-d", "QQQQQQQQQQQQQQQQQQQQQQ"],
}


@pytest.mark.parametrize("arguments", MISTAKES.values(), ids=MISTAKES)
def test_mistakes(cluster: Cluster, kafka: KafkaTools, arguments: list[str]) -> None:
    where = asked(cluster, "controller")
    theirs, mine = kafka.quorum(*where, *arguments), ours(*where, *arguments)
    assert theirs.code == 1
    assert mine.exit_code in (1, 2)
    assert theirs.said
    assert theirs.said in mine.stderr
    assert mine.stdout == theirs.out == ""


def test_a_directory_id_that_is_none(cluster: Cluster, kafka: KafkaTools) -> None:
    arguments = [*asked(cluster, "server"), "remove-controller", "-i", "3001", "-d", "xyz"]
    refusal = "Failed to parse --controller-directory-id: "
    assert kafka.quorum(*arguments).said.startswith(refusal)
    mine = ours(*arguments)
    assert mine.exit_code == 2
    assert f"Error: {refusal}'xyz' is 2 bytes in base64; a uuid is 16" in mine.stderr


def test_arguments_that_the_parser_refuses(cluster: Cluster) -> None:
    """Kafka's own words for what its parser refuses, which ends the process of its tool."""
    for arguments in (
        ["describe", "--status"],
        ["--bootstrap-controller", "h:1", "--bootstrap-server", "h:1", "describe", "--status"],
    ):
        tool = cluster.tool(QUORUM_COMMAND, *arguments, check=False)
        words = tool.stderr.rpartition("kafka-metadata-quorum:")[2].replace("-\n", "-")
        refusal = " ".join(words.split()).removeprefix("error: ")
        mine = ours(*arguments)
        assert (tool.returncode, mine.exit_code) == (1, 2)
        assert refusal in mine.stderr


def test_brokers_and_controllers_are_not_mixed_up(cluster: Cluster, kafka: KafkaTools) -> None:
    swapped = ["--bootstrap-controller", cluster.bootstrap(), "describe", "--status"]
    theirs, mine = kafka.quorum(*swapped), ours(*swapped)
    assert (theirs.code, mine.exit_code) == (1, 1)
    assert f"MISMATCHED_ENDPOINT_TYPE (114): {theirs.said}. Give" in mine.stderr
    swapped = ["--bootstrap-server", cluster.controller_bootstrap(), "describe", "--replication"]
    theirs, mine = kafka.quorum(*swapped), ours(*swapped)
    assert (theirs.code, mine.exit_code) == (1, 1)
    assert "does not answer Metadata, as brokers do" in mine.stderr


def test_a_controller_leaves_and_comes_back(
    cluster: Cluster, kafka: KafkaTools, tmp_path: Path
) -> None:
    follower = next(node for node in cluster.controllers if node is not cluster.leader())
    assert follower.directory_id is not None
    leaving = ["remove-controller", "-i", str(follower.id), "-d", follower.directory_id]
    coming = ["--command-config", str(follower.properties_path), "add-controller"]
    where = asked(cluster, "controller")
    voters = {3001, 3002, 3003}

    def both_ways(first: list[str], then: list[str], left: set[int]) -> None:
        """Let Kafka do ``first`` and ours ``then``, then the other way about."""
        for words in (first, then):
            dry = [*words, "--dry-run"]
            assert ours(*where, *dry).stdout == kafka.quorum(*where, *dry).out
        removed = kafka.quorum(*where, *first)
        assert (removed.code, voters_of(cluster)) == (0, left)
        undone = ours(*where, *then)
        assert (undone.exit_code, voters_of(cluster)) == (0, voters)
        mine = ours(*where, *first)
        assert (mine.exit_code, mine.stdout, voters_of(cluster)) == (0, removed.out, left)
        theirs = kafka.quorum(*where, *then)
        assert (theirs.code, theirs.out) == (0, undone.stdout)
        assert voters_of(cluster) == voters

    both_ways(leaving, coming, voters - {follower.id})
    theirs, mine = kafka.quorum(*where, *coming), ours(*where, *coming)
    assert (theirs.code, mine.exit_code) == (1, 1)
    assert f"DUPLICATE_VOTER (126): {theirs.said}" in mine.stderr


@pytest.mark.parametrize("who", ["server", "controller"])
def test_a_controller_that_is_gone_for_good(cluster: Cluster, who: str) -> None:
    leader = cluster.leader()
    gone = next(node for node in cluster.controllers if node is not leader)
    assert gone.directory_id is not None
    where = asked(cluster, who)
    leaving = ["remove-controller", "-i", str(gone.id), "-d", gone.directory_id, "--unregister"]
    dry = ours(*where, *leaving, "--dry-run", "--json")
    assert json.loads(dry.stdout) | {"directoryId": ""} == {
        "action": "remove",
        "dryRun": True,
        "controllerId": gone.id,
        "directoryId": "",
        "unregister": True,
    }
    wait_until("it is registered", lambda: gone.id in registered(leader))
    gone.kill()
    removed = ours(*where, *leaving)
    assert removed.exit_code == 0
    assert removed.stdout.splitlines()[1:] == [f"Unregistered controller {gone.id}"]
    assert voters_of(cluster) == {3001, 3002, 3003} - {gone.id}
    wait_until("its registration is gone", lambda: gone.id not in registered(leader))
    with (
        AdminClient(cluster.bootstrap()) as admin,
        pytest.raises(AnswerError, match=r"CONTROLLER_ID_NOT_REGISTERED \(136\)"),
    ):
        admin.unregister_controller(gone.id)
    restart(gone)
    coming = ours(*where, "--command-config", str(gone.properties_path), "add-controller")
    assert coming.exit_code == 0
    assert voters_of(cluster) == {3001, 3002, 3003}
    wait_until("it is registered again", lambda: gone.id in registered(leader))


def registered(node: Node) -> set[int]:
    """The controllers that are registered, as a node has them on its disk."""
    return set(Source(directory=str(node.metadata_log)).load().image.controllers)


def voters_of(cluster: Cluster) -> set[int]:
    with AdminClient(cluster.bootstrap()) as admin:
        return {voter.id for voter in admin.describe_quorum().voters}


# What a line of the controller's file becomes.
FILES = {
    "no id": (r"node\.id=.*\n", ""),
    "negative id": (r"node\.id=.*", "node.id=-5"),
    "no role": (r"process\.roles=.*\n", ""),
    "another role": (r"process\.roles=.*", "process.roles=broker"),
    "no directory": (r"log\.dirs=.*\n", ""),
    "directory not there": (r"log\.dirs=.*", "log.dirs=/nowhere"),
    "no names": (r"controller\.listener\.names=.*\n", ""),
    "another name": (r"controller\.listener\.names=.*", "controller.listener.names=OTHER"),
    "no address": (r"\nlisteners=.*", "\nlisteners=CONTROLLER:9093"),
    # These are taken.
    "not advertised": (r"advertised\.listeners=.*\n", ""),
    "advertised alone": (r"\nlisteners=.*", ""),
    "lower case": (r"listeners=.*", "listeners=controller://somewhere.else:9093"),
    "version 6": (r"listeners=.*", "listeners=CONTROLLER://[fe80::1]:9093"),
    "no host": (r"listeners=.*", "listeners=CONTROLLER://:9093"),
    "two": (
        r"(?s)controller\.listener\.names=[^\n]*(.*)listeners=[^\n]*",
        r"controller.listener.names=B,CONTROLLER\1listeners=CONTROLLER://h:1,B://g:2",
    ),
}


@pytest.mark.parametrize(("pattern", "text"), FILES.values(), ids=FILES)
def test_controller_files(
    cluster: Cluster, kafka: KafkaTools, tmp_path: Path, pattern: str, text: str
) -> None:
    path = tmp_path / "controller.properties"
    whole = cluster.controllers[1].properties_path.read_text("utf-8")
    changed, count = re.subn(pattern, text, whole)
    assert count
    path.write_text(changed, "utf-8")
    arguments = [*asked(cluster, "controller"), "--command-config", str(path)]
    arguments += ["add-controller", "--dry-run"]
    theirs, mine = kafka.quorum(*arguments), ours(*arguments)
    assert mine.exit_code == theirs.code
    assert mine.stdout == theirs.out
    if theirs.code:
        assert f"{path}: {theirs.said}" in mine.stderr
    else:
        assert mine.stdout.startswith("DRY RUN of adding controller 3002 with directory id ")


def test_a_file_that_is_not_there(cluster: Cluster, kafka: KafkaTools, tmp_path: Path) -> None:
    arguments = [*asked(cluster, "server"), "--command-config", str(tmp_path / "no")]
    arguments += ["describe", "--status"]
    theirs, mine = kafka.quorum(*arguments), ours(*arguments)
    assert (theirs.code, mine.exit_code) == (1, 1)
    assert mine.stderr == f"Error: {theirs.said}\n"


@pytest.mark.parametrize("password", [PASSWORD, PASSWORD + "x"])
def test_a_broker_that_wants_a_login(cluster: Cluster, tmp_path: Path, password: str) -> None:
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": login("SCRAM-SHA-256", "me", password),
    }
    config = load_client_config(str(write_properties(tmp_path / "me.properties", properties)))
    with AdminClient(cluster.bootstrap("SASL"), config=config) as admin:
        if password == PASSWORD:
            assert admin.describe_cluster().cluster_id == cluster.cluster_id
            assert admin.describe_quorum().leader_id == cluster.leader().id
        else:
            with pytest.raises(AdminError, match="the login failed: it does not take 'me'"):
                admin.describe_cluster()


def test_a_joiner_that_does_not_run(cluster: Cluster) -> None:
    """The leader cannot ask it for its versions; that is final, as in Kafka's AdminClient."""
    joiner = cluster.controllers[0]
    with AdminClient(cluster.controller_bootstrap(), to_controllers=True) as admin:
        endpoint = admin.describe_quorum().endpoints[joiner.id][0]
        nobody = type(endpoint)(endpoint.name, endpoint.host, 1)
        with pytest.raises(AnswerError, match=r"REQUEST_TIMED_OUT \(7\): .*API_VERSIONS"):
            admin.add_voter(99, NOBODY, [nobody])
        with pytest.raises(AnswerError, match=r"INCONSISTENT_CLUSTER_ID \(104\)"):
            admin.add_voter(99, NOBODY, [nobody], cluster_id="another")


def test_the_leader_is_found_and_followed(cluster: Cluster) -> None:
    """From a follower alone; and again, on the same client, when the leader was killed."""
    leader = cluster.leader()
    followers = [node for node in cluster.controllers if node is not leader]
    address = ",".join(f"127.0.0.1:{node.listener().port}" for node in followers)
    with AdminClient(address, to_controllers=True) as admin:
        before = admin.describe_quorum()
        assert before.leader_id == leader.id == before.leader.id
        leader.kill()
        after = admin.describe_quorum()
        deadline = time.monotonic() + PATIENCE_S
        while after.high_watermark < 0:  # Elected, and not yet sure of anything.
            assert time.monotonic() < deadline
            after = admin.describe_quorum()
        assert after.leader_id != leader.id
        assert after.leader_epoch > before.leader_epoch
        assert after.high_watermark >= before.high_watermark
        slowest = next(voter for voter in after.voters if voter.id == leader.id)
        assert after.max_follower_lag == after.leader.log_end_offset - slowest.log_end_offset
    restart(leader)


def test_no_leader_is_a_time_out(cluster: Cluster) -> None:
    """Two of three are paused: the third is asked until the time is up, and says so."""
    told: list[str] = []
    leader = cluster.leader()
    left = next(node for node in cluster.controllers if node is not leader)
    paused = [node for node in cluster.controllers if node is not left]
    for node in paused:
        node.pause()
    try:
        with (
            AdminClient(
                f"127.0.0.1:{left.listener().port}",
                to_controllers=True,
                config=QUICK,
                on_retry=told.append,
            ) as admin,
            pytest.raises(TimedOutError, match=r"within 1,500 ms .* the last time: "),
        ):
            admin.describe_quorum()
    finally:
        for node in paused:
            node.resume()
    assert len(told) == 1
    cluster.leader()


def restart(node: Node) -> None:
    node.start()
    node.wait_healthy()


def test_said_is_the_message_alone() -> None:
    done = Said(
        code=1,
        out="",
        err="org.apache.kafka.common.errors.VoterNotFoundException: Cannot\n\tat x\n",
    )
    assert done.said == "Cannot"
