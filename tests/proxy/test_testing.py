"""The plugin of pytest, in runs of its own as users have them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

QUORUM = """
from kraftspec.generated import kafka
from kraftspec.generated.kafka import DescribeQuorumResponse
from kraftspec.reference.admin.client import quorum_request
from kraftspec.reference.wire.blocking import ask


def code_at(address):
    port = int(address.rpartition(":")[2])
    answer = ask(port, quorum_request(kafka), 2, DescribeQuorumResponse, timeout_s=60)
    return answer.topics[0].partitions[0].error_code


def test_an_error(kafka_proxy, kraft_quorum):
    address = kafka_proxy.listen(kraft_quorum.address(kraft_quorum.leader_id()))
    with kafka_proxy.error("DescribeQuorum", "NOT_LEADER_OR_FOLLOWER", times=1) as rule:
        assert code_at(address) == 6
        assert code_at(address) == 0
        assert rule.acted == 1
    assert kafka_proxy.proxy.engine.rules == []


def test_a_leader_that_ends(kraft_quorum):
    first = kraft_quorum.leader_id()
    kraft_quorum.kill(first)
    second = kraft_quorum.leader_id()
    assert second != first
    kraft_quorum.start(first)
    assert len(kraft_quorum.bootstrap.split(",")) == 3
"""
PROCESSES = """
def test_a_leader_that_is_killed(kraft_quorum_processes):
    first = kraft_quorum_processes.leader_id()
    kraft_quorum_processes.kill(first)
    assert kraft_quorum_processes.leader_id() != first
    kraft_quorum_processes.start(first)
    assert len(kraft_quorum_processes.processes) == 3
"""
KAFKA = """
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kafka import KafkaProducer


def test_a_producer_retries(kafka_proxy, kafka_cluster):
    producer = KafkaProducer(bootstrap_servers=kafka_proxy.listen(kafka_cluster.bootstrap()))
    with kafka_proxy.error("Produce", "NOT_LEADER_OR_FOLLOWER", times=2) as rule:
        assert producer.send("orders", b"1").get(60).offset == 0
    assert rule.acted == 2
    producer.close()
"""


def passes(directory: Path, text: str) -> None:
    (directory / "test_of_a_user.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "kraftspec.testing"]
    command += ["-p", "no:xdist", "-p", "no:cacheprovider", "--rootdir", str(directory)]
    done = subprocess.run(
        [*command, str(directory)],
        cwd=directory, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.soak
def test_the_fixtures_before_our_own_nodes(tmp_path: Path) -> None:
    passes(tmp_path, QUORUM)


@pytest.mark.soak
def test_nodes_in_processes(tmp_path: Path) -> None:
    passes(tmp_path, PROCESSES)


@pytest.mark.kafka
def test_the_fixtures_before_kafka(tmp_path: Path) -> None:
    passes(tmp_path, KAFKA)
