"""``kraftspec node`` with its metrics and its logs, as an operator has them."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.test_node import WAIT_S, Home, end, wait

from kraftspec.cli import main


def test_metrics_and_logs_of_a_node_that_runs(tmp_path: Path) -> None:
    home = Home(tmp_path / "node")
    log = tmp_path / "node.log"
    command = [sys.executable, "-m", "kraftspec", "node", "-c", str(home.properties)]
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [*command, "--metrics", "0", "--log-format", "json"],
            stdout=subprocess.PIPE, stderr=stderr, text=True,
        )  # fmt: skip
    try:
        wait(home.leads)
        assert process.stdout is not None
        url = re.fullmatch(
            r"metrics: (http://127\.0\.0\.1:\d+/metrics)", process.stdout.readline()[:-1]
        )
        assert url is not None
        with urllib.request.urlopen(url[1], timeout=WAIT_S) as answer:
            text = answer.read().decode()
        assert "kafka_server_raft_metrics_current_state{kafka_server_raft_metrics" in text
        assert "kafka_server_raft_metrics_current_leader 1.0" in text
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
    finally:
        end(process)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert "started" in {one["event"] for one in events}
    assert {"at", "level", "logger", "event"} <= events[0].keys()


def test_a_port_of_metrics_that_is_in_use(tmp_path: Path) -> None:
    home = Home(tmp_path / "node")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = "{}:{}".format(*taken.getsockname())
        result = CliRunner().invoke(main, ["node", "-c", str(home.properties), "--metrics", where])
    assert result.exit_code == 1
    assert f"no metrics at {where}: another process listens there" in result.output


@pytest.mark.parametrize("where", ["x", "70000", "127.0.0.1", ":", "127.0.0.1:-1"])
def test_a_port_of_metrics_that_is_none(tmp_path: Path, where: str) -> None:
    home = Home(tmp_path / "node")
    result = CliRunner().invoke(main, ["node", "-c", str(home.properties), f"--metrics={where}"])
    assert result.exit_code == 2
    assert "is no port" in result.output


@pytest.mark.parametrize(
    ("profile", "release", "known"), [("kip-853", "4.3.1", "none"), ("kafka", "3.9.2", "4.3.1")]
)
def test_a_release_that_it_does_not_speak_as(
    tmp_path: Path, profile: str, release: str, known: str
) -> None:
    home = Home(tmp_path / "node")
    command = ["node", "-c", str(home.properties), "--as", release, "--profile", profile]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    told = " ".join(result.output.replace("│", "").split())
    assert f"{profile} speaks as no release '{release}' of Kafka; it knows {known}" in told


def test_a_key_store_that_is_not_there(tmp_path: Path) -> None:
    home = Home(tmp_path / "node")
    home.write(
        more={
            "listener.security.protocol.map": "CONTROLLER:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(tmp_path / "none.pem"),
            "super.users": "User:CN=x",
        }
    )
    result = CliRunner().invoke(main, ["node", "-c", str(home.properties)])
    assert result.exit_code == 1
    assert "ssl.keystore.location" in result.output
    assert "No such file or directory" in result.output


def test_listeners_that_do_not_fit(tmp_path: Path) -> None:
    home = Home(tmp_path / "node")
    home.write(more={"controller.listener.names": "CONTROLER"})
    result = CliRunner().invoke(main, ["node", "-c", str(home.properties)])
    assert result.exit_code == 1
    where = f"{home.properties}:5: controller.listener.names: 'CONTROLER' is not in listeners"
    assert f"Error: {home.properties}:4: listeners: CONTROLLER is not in" in result.output
    assert f"{where}; did you mean CONTROLLER?" in result.output
