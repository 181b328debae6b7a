"""``kraftspec quorum up``: what it shows, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kraftspec.cli.quorum_up import _lines
from kraftspec.conformance.cluster.node import free_port

FIRST_PORT = free_port(set())
COMMAND = [sys.executable, "-m", "kraftspec", "quorum", "up", "--port", str(FIRST_PORT)]
PATIENCE_S = 180.0  # What takes seconds where nothing else runs.


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def run_until(seen: Callable[[str], bool], *arguments: str) -> list[str]:
    """Press Ctrl-C once a line is seen; return all lines."""
    with subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        watchdog = threading.Timer(PATIENCE_S, process.kill)
        watchdog.start()
        lines = []
        is_stopped = False
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if not is_stopped and seen(line):
                process.send_signal(signal.SIGINT)
                is_stopped = True
        errors = process.stderr.read()
        code = process.wait(PATIENCE_S)
        watchdog.cancel()
    assert (is_stopped, code, errors) == (True, 0, "")
    return lines


@pytest.mark.soak
def test_a_fix_that_is_off_is_logged_by_each_node() -> None:
    speaking = ("--profile", "kip-996", "--without", "own-word", "--nodes", "1", "--json")
    lines = run_until(lambda line: '"state"' in line, *speaking)
    warning = next(event for line in lines if (event := json.loads(line))["event"] == "log")
    assert (warning["node"], warning["message"]) == (1, "the fix own-word is switched off")


@pytest.mark.parametrize("profile", ["kafka", "kip-595"])
def test_json_tells_states_and_a_summary(profile: str) -> None:
    speaking = ("--profile", profile)
    arguments = ("--json", "--rate", "50", "--interval", "0.2", "--nodes", "1", *speaking)
    lines = run_until(lambda line: json.loads(line).get("acknowledged", 0) > 20, *arguments)
    events = [json.loads(line) for line in lines]
    assert events[0]["event"] == "up"
    host, _, port = events[0]["bootstrapController"].partition(":")
    assert (host, int(port) >= FIRST_PORT) == ("127.0.0.1", True)
    states = [event for event in events if event["event"] == "state"]
    assert len(states) > 1
    last = states[-1]
    (node,) = last["nodes"]
    assert (node["role"], node["leaderId"], last["leaderId"]) == ("leader", 1, 1)
    assert node["epoch"] == last["leaderEpoch"] > 0
    assert 0 <= node["highWatermark"] <= node["logEndOffset"]
    watermarks = [state["highWatermark"] for state in states if state["highWatermark"] is not None]
    assert watermarks == sorted(watermarks)
    summary = events[-1]
    assert summary["event"] == "summary"
    # With KIP-595 the first leader makes the id.
    assert events[0]["clusterId"] == (summary["clusterId"] if profile == "kafka" else "")
    assert re.fullmatch(r"[\w-]{22}", summary["clusterId"])
    assert summary["leaders"] == [{"epoch": last["leaderEpoch"], "nodeId": 1}]
    assert summary["appended"] >= summary["acknowledged"] >= last["acknowledged"] > 0
    assert 0 < summary["appendMsP50"] <= summary["appendMsP99"]
    assert not list(Path(events[0]["properties"]["1"]).parents[1].glob("*"))


@pytest.mark.soak
def test_the_leader_is_ended_and_another_leads() -> None:
    lines = run_until(
        lambda line: json.loads(line)["event"] == "failover",
        *("--json", "--kill-leader-every", "0.5", "--interval", "5"),
    )
    events = [json.loads(line) for line in lines]
    killed = next(event for event in events if event["event"] == "killed")
    follows = next(event for event in events if event["event"] == "failover")
    # On a slow machine another may have led before.
    *_, first = (one for one in events[: events.index(killed)] if one["event"] == "leader")
    *_, second = (one for one in events[: events.index(follows)] if one["event"] == "leader")
    assert first["id"] == killed["id"] != follows["id"] == second["id"]
    assert first["epoch"] < second["epoch"]
    led = [(one["epoch"], one["nodeId"]) for one in events[-1]["leaders"]]
    assert {(one["epoch"], one["id"]) for one in (first, second)} <= set(led)
    assert events[-1]["failoverMs"][0] == follows["ms"] > 0


@pytest.mark.soak
def test_plain_lines_where_there_is_no_terminal() -> None:
    lines = run_until(
        lambda line: re.search(r" 2 observer to [1-9]", line) is not None,
        *("--nodes", "1", "--observers", "1", "--interval", "0.2"),
    )
    assert re.fullmatch(r"Cluster [\w-]{22}, its nodes in /.*kraftspec-quorum-\w+", lines[0])
    assert "describe --status" in lines[1]
    assert any("node 1 leads in epoch" in line for line in lines)
    state = next(line for line in lines if re.search(r" 2 observer to [1-9]", line))
    assert re.search(r"leader 1, epoch \d+.*: 1 leader to \d+; 2 observer to \d+$", state)
    assert re.match(r"[\d.]+ s, 1 leader; \d+ of \d+ records acknowledged, after", lines[-1])
    assert not any("\x1b" in line for line in lines)


def test_a_state_does_not_contradict_itself() -> None:
    """Elected, and not yet sure of it: no leader that answers, and nodes that know who it is."""
    node = {"id": 1, "epoch": 1, "logEndOffset": 4, "highWatermark": 0, "lag": None}
    for role, expected in (
        ("leader", "a leader is elected, and has"),
        ("candidate", "no leader: 1 c"),
    ):
        state = {"seconds": 0.5, "leaderId": None, "nodes": [{**node, "role": role, "leaderId": 1}]}
        (line,) = _lines("state", state)
        assert expected in line
        assert ("no leader" in line) == (role == "candidate")


@pytest.mark.soak
def test_a_reader_that_goes_away() -> None:
    with subprocess.Popen(
        [*COMMAND, "--json", "--nodes", "1", "--interval", "0.1", "--for", "600"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            assert json.loads(process.stdout.readline())["event"] == "up"
            process.stdout.close()
            process.wait(PATIENCE_S)
        finally:
            process.kill()  # Else it would be waited for, ten minutes.
        assert process.stderr.read() == ""


@pytest.mark.soak
def test_it_stops_when_it_is_time() -> None:
    begun_s = time.monotonic()
    done = run("--for", "0.5", "--nodes", "1", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - begun_s < PATIENCE_S / 2
    assert 0.5 <= json.loads(done.stdout.splitlines()[-1])["seconds"] < PATIENCE_S / 2


@pytest.mark.soak
def test_a_live_table_on_a_terminal() -> None:
    """Drawn anew until Ctrl-C; then the cursor is there again, and the summary below."""
    reads, writes = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "--nodes", "1"],
        stdout=writes,
        stderr=writes,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "72"},
    ) as process:
        os.close(writes)
        shown = ""
        is_stopped = False
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            ready, _, _ = select.select([reads], [], [], 1.0)
            if ready:
                try:
                    data = os.read(reads, 1 << 16)
                except OSError:  # The other end is closed.
                    break
                shown += data.decode()
            if not is_stopped and "high watermark 1" in shown:
                process.send_signal(signal.SIGINT)
                is_stopped = True
        assert process.wait(PATIENCE_S) == 0
    os.close(reads)
    assert is_stopped
    shown = re.sub(r"\x1b\[[\d;]*m", "", shown)  # Colours.
    assert re.search(r"node +role +epoch +leader +log end +high watermark +lag", shown)
    assert re.search(r"1 +leader +1 +1 +\d+ +\d+ +0", shown)
    assert shown.count("high watermark 1") > 1
    # The command to copy is in one piece, though it is wider than the terminal.
    wanted = r"kraftspec quorum --bootstrap-controller 127\.0\.0\.1:\d+ describe --status\r?\n"
    assert len(re.findall(wanted, shown)) == 1
    assert "\x1b[?25h" in shown
    assert "records acknowledged" in shown.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--nodes", "0"), "0 is not in the range"),
        (("--for", "0"), "is not in the range"),
        (("--rate", "-1"), "is not in the range"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], expected: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert expected in done.stderr


@pytest.mark.soak
def test_a_directory_of_something_else(tmp_path: Path) -> None:
    home = tmp_path / "1"
    home.mkdir()
    (home / "node.properties").write_text("process.roles=broker\nnode.id=1\n", "utf-8")
    done = run("--directory", str(tmp_path), "--for", "1")
    assert done.returncode == 1
    assert f"{home / 'node.properties'}:1: process.roles" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.soak
def test_a_directory_with_other_nodes(tmp_path: Path) -> None:
    done = run("--nodes", "1", "--directory", str(tmp_path), "--for", "0.1")
    assert done.returncode == 0, done.stderr
    other = run("--nodes", "2", "--directory", str(tmp_path), "--for", "0.1")
    assert other.returncode == 1
    assert f"{tmp_path} has the nodes 1, which are started as they are" in other.stderr
    assert run("--directory", str(tmp_path), "--for", "0.1").returncode == 0


def test_a_directory_that_is_in_use(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "--json", "--nodes", "1", "--directory", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    ) as first:
        assert first.stdout is not None
        assert json.loads(first.stdout.readline())["event"] == "up"
        second = run("--directory", str(tmp_path), "--for", "1")
        assert second.returncode == 1
        assert str(tmp_path / "1" / "log") in second.stderr
        assert "Traceback" not in second.stderr
        first.send_signal(signal.SIGTERM)
        first.stdout.read()
        assert first.wait(PATIENCE_S) == 0
