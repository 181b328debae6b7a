"""``kraftspec node`` as an operator runs it: started, told to leave, and refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.reference.node.quorum import format_directory

from kraftspec.cli import main
from kraftspec.conformance.cluster.node import HOST, free_port
from kraftspec.fastpath.types import Uuid
from kraftspec.generated.kafka import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kraftspec.reference.log import LogDirectory, MetaProperties
from kraftspec.reference.raft import ReplicaKey, Voter, VoterSet
from kraftspec.reference.raft.types import Endpoint, VersionRange
from kraftspec.reference.wire.blocking import ask

WAIT_S = 180.0  # What takes seconds where nothing else runs.
CLUSTER_ID = "bm9kZXMtb2YtdGVzdHMtMQ"


class Home:
    """A formatted node that is the only voter of its quorum, or one beside ``others``."""

    def __init__(
        self, path: Path, node_id: int = 1, port: int | None = None, others: tuple[int, ...] = ()
    ) -> None:
        self.path = path
        self.port = port or free_port(set())
        self.log_dir = path / "log"
        self.properties = path / "node.properties"
        path.mkdir(exist_ok=True)
        key = ReplicaKey(node_id, Uuid.random())
        endpoint = Endpoint("CONTROLLER", HOST, self.port)
        keys = [key, *(ReplicaKey(other, Uuid.random()) for other in others)]
        voters = VoterSet([Voter(one, (endpoint,), VersionRange(0, 1)) for one in keys])
        format_directory(self.log_dir, node_id, key.directory_id, voters)
        self.write(node_id)

    def write(self, node_id: int = 1, more: Mapping[str, str] | None = None) -> None:
        properties = {
            "process.roles": "controller",
            "node.id": str(node_id),
            "log.dirs": str(self.log_dir),
            "listeners": f"CONTROLLER://{HOST}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"{HOST}:{self.port}",
            **(more or {}),
        }
        self.properties.write_text("".join(f"{k}={v}\n" for k, v in properties.items()))

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "kraftspec", "node", "--config", str(self.properties)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def leads(self) -> bool:
        return self._leader() == 1

    def answers(self) -> bool:
        return self._leader() is not None

    def _leader(self) -> int | None:
        request = DescribeClusterRequest(endpoint_type=2)
        try:
            return ask(self.port, request, 1, DescribeClusterResponse).controller_id
        except OSError:
            return None


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "node")


@pytest.fixture
def running(home: Home) -> Iterator[subprocess.Popen[str]]:
    process = home.start()
    try:
        wait(home.leads)
        yield process
    finally:
        end(process)


def wait(condition: object) -> None:
    deadline = time.monotonic() + WAIT_S
    assert callable(condition)
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(WAIT_S)
    if process.stdout is not None:
        process.stdout.close()


def refused(home: Home) -> str:
    """Run a node that does not start, and return what it says; it exits with 1."""
    result: Result = CliRunner().invoke(main, ["node", "-c", str(home.properties)])
    assert result.exit_code == 1, result.output
    assert result.output.startswith("Error: ")
    assert "Traceback" not in result.output
    return result.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_it_serves_and_leaves_cleanly(
    home: Home, running: subprocess.Popen[str], number: signal.Signals
) -> None:
    who = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    assert ask(home.port, who, 4, ApiVersionsResponse, timeout_s=WAIT_S).error_code == 0
    running.send_signal(number)
    output, _ = running.communicate(timeout=WAIT_S)
    assert running.returncode == 0, output
    assert f"node 1 of cluster {CLUSTER_ID}: CONTROLLER://{HOST}:{home.port}" in output
    # As after a clean stop: no zeros that were written ahead, an index, and no lock.
    segment = home.log_dir / "__cluster_metadata-0" / "00000000000000000000.log"
    assert 0 < segment.stat().st_size < 4096
    assert segment.with_suffix(".index").exists()
    LogDirectory.open(str(home.log_dir)).close()


@pytest.mark.soak
def test_it_starts_again_after_sigkill(home: Home, running: subprocess.Popen[str]) -> None:
    running.kill()
    running.wait(WAIT_S)
    again = home.start()
    try:
        wait(home.leads)
        again.terminate()
        assert again.wait(WAIT_S) == 0
    finally:
        end(again)


@pytest.mark.soak
@pytest.mark.usefixtures("running")
def test_a_directory_that_is_open_is_told(home: Home) -> None:
    error = refused(home)
    assert str(home.log_dir) in error
    assert "has this log directory open; stop it first" in error


@pytest.mark.usefixtures("running")
def test_a_port_in_use_is_told(home: Home, tmp_path: Path) -> None:
    error = refused(Home(tmp_path / "other", port=home.port))
    assert f"no listener at CONTROLLER://{HOST}:{home.port}: another process listens there" in error


def test_a_directory_of_another_node_is_told(home: Home) -> None:
    home.write(node_id=7)
    error = refused(home)
    assert "is that of node 1, and this is node 7" in error


def test_a_directory_of_another_profile_is_told(home: Home, tmp_path: Path) -> None:
    home.log_dir = tmp_path / "draft"
    meta = MetaProperties(profile="kip-595", cluster_id=CLUSTER_ID, node_id=1)
    LogDirectory.format(str(home.log_dir), meta)
    home.write()
    assert "belongs to the profile kip-595, and was opened as kafka" in refused(home)


def test_a_directory_that_is_not_formatted_is_told(home: Home, tmp_path: Path) -> None:
    home.log_dir = tmp_path / "nothing"
    home.write()
    error = refused(home)
    assert f"{home.log_dir} is not formatted" in error
    assert "kraftspec storage format" in error


def test_a_damaged_log_is_told_and_not_touched(home: Home) -> None:
    segment = home.log_dir / "__cluster_metadata-0" / "00000000000000000000.log"
    process = home.start()
    try:
        wait(home.leads)
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_S)
    data = bytearray(segment.read_bytes())
    data[60] ^= 0xFF  # Within the first of several batches: no crash leaves that.
    segment.write_bytes(data)
    error = refused(home)
    assert "00000000000000000000.log" in error
    assert segment.read_bytes() == bytes(data)


def test_mistakes_in_the_properties_are_told_with_their_lines(home: Home) -> None:
    home.write(more={"controller.quorum.election.timeout.ms": "soon"})
    error = refused(home)
    assert f"{home.properties}:7" in error
    assert "controller.quorum.election.timeout.ms" in error


def test_a_disk_that_fails_ends_the_node_with_its_own_code(home: Home) -> None:
    """The log's directory is gone: what comes next cannot be written."""
    process = home.start()
    try:
        wait(home.leads)
        # An epoch's checkpoint is a new file: without the directory there is no place for it.
        os.rename(home.log_dir / "__cluster_metadata-0", home.log_dir / "elsewhere")
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=WAIT_S)
    finally:
        end(process)
    assert process.returncode == 3, output
    assert "failed" in output


@pytest.mark.soak
def test_a_second_signal_does_not_wait_for_another_leader(tmp_path: Path) -> None:
    """Of three voters one runs: whom it could leave the quorum to, it waits in vain."""
    home = Home(tmp_path / "node", others=(2, 3))
    process = home.start()
    try:
        wait(home.answers)
        process.terminate()
        assert process.stdout is not None
        assert any("stopping" in line for line in process.stdout)  # So it has seen the first.
        process.terminate()
        output, _ = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0
        assert "node 1 stops at once" in output
    finally:
        end(process)
