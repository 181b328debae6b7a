"""``kraftspec node --profile``, and KIP-595's bootstrapping example as the page has it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.waiting import until

from kraftspec.cli import main
from kraftspec.conformance.cluster.node import free_port
from kraftspec.reference.local.quorum import HOST, LocalQuorum, free_ports

WAIT_S = 180.0  # What takes seconds where nothing else runs.
PAGE = Path(__file__).resolve().parents[2] / "docs" / "kip-595.md"


@contextmanager
def node(profile: str, properties: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "kraftspec", "node", "--profile", profile, *more]
    with subprocess.Popen(
        [*command, "--config", str(properties)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, list(arguments))
    assert done.exit_code == code, done.output
    return done.stdout


@pytest.mark.soak
@pytest.mark.parametrize("profile", ["kip-595", "kip-853", "kip-996"])
def test_a_node_of_a_draft_serves_and_leaves_cleanly(tmp_path: Path, profile: str) -> None:
    quorum = LocalQuorum(tmp_path, voters=1, first_port=free_port(set()), profile=profile)
    ((node_id, properties),) = quorum.properties.items()
    options = ("--profile", profile, "--bootstrap-server", quorum.bootstrap, "--json")
    with node(profile, properties) as process:
        until(lambda: json.loads(run("quorum", "describe", *options))["highWatermark"] > 0)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0, output
    cluster = "no cluster yet" if profile == "kip-595" else f"cluster {quorum.cluster_id}"
    assert f"node {node_id} of {cluster}: " in output
    assert "WARNING" not in output


COMMANDS = (
    ("node", "-c", str(PAGE)),
    ("quorum", "up"),
    ("simulate", "--seed", "1"),
    ("pipeline", "campaign", "simulate", "--seeds", "1"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_rejects_a_fix_that_there_is_not_in_the_same_words(
    command: tuple[str, ...],
) -> None:
    for profile, fixes in (
        ("kip-996", "pre-vote, pre-votes-alone"),
        ("kafka", "removed-when-committed"),
    ):
        done = CliRunner().invoke(main, [*command, "--without", "aspirin", "--profile", profile])
        told = " ".join(done.stderr.replace("│", "").split())
        assert done.exit_code == 2
        assert f"Invalid value for '--without': {profile} has no fix 'aspirin'; it has" in told
        assert f"it has {fixes}" in told


def test_a_node_logs_which_fixes_are_off(tmp_path: Path) -> None:
    quorum = LocalQuorum(tmp_path, voters=1, first_port=free_port(set()), profile="kip-996")
    (properties,) = quorum.properties.values()
    with node("kip-996", properties, "--without", "own-word", "--without", "pre-vote") as process:
        assert process.stdout is not None
        lines = iter(process.stdout)
        warnings = [next(line for line in lines if "WARNING" in line) for _ in range(2)]
    assert "WARNING the fix own-word is switched off node=1" in warnings[0]
    assert "WARNING the fix pre-vote is switched off node=1" in warnings[1]


@pytest.mark.soak
def test_the_bootstrapping_example_of_the_page(tmp_path: Path) -> None:
    """The commands and the file that stand there, but for ports and directories."""
    _, _, page = PAGE.read_text("utf-8").partition("## The bootstrapping example")
    page, _, _ = page.partition("\n## ")
    (block,) = re.findall(r"^```properties\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    commands = re.findall(r"^ +(kraftspec .*)$", page, re.MULTILINE)
    ports = free_ports(free_port(set()), 3)
    files = {}
    for node_id, port in zip((1, 2, 3), ports, strict=True):
        text = block.replace("127.0.0.1:9092", f"{HOST}:{ports[0]}")
        text = text.replace(f"//{HOST}:{ports[0]}", f"//{HOST}:{port}")
        text = text.replace("data/1", str(tmp_path / str(node_id)))
        text = text.replace("broker.id=1", f"broker.id={node_id}")
        if node_id != 1:
            text = text.replace("quorum.voters=1\n", "")
        files[node_id] = tmp_path / f"{node_id}.properties"
        files[node_id].write_text(text)

    def typed(line: str) -> list[str]:
        line = line.replace("127.0.0.1:9092", f"{HOST}:{ports[0]}")
        return line.replace("1.properties", str(files[1])).split()[1:]

    format_, start, verify, observe, grow = map(typed, commands)
    assert start == ["node", "--profile", "kip-595", "-c", str(files[1])]
    run(*format_)
    with ExitStack() as running:
        running.enter_context(node("kip-595", files[1]))
        until(lambda: json.loads(run(*verify, "--json"))["highWatermark"] > 0)
        assert json.loads(run(*verify, "--json"))["currentVoters"] == [1]
        for node_id in (2, 3):
            run(*format_[:-1], str(files[node_id]))
            running.enter_context(node("kip-595", files[node_id]))
        until(lambda: len(json.loads(run(*observe, "--json"))["replicas"]) == 3)
        assert run(*grow) == "The voters are 1, 2, 3\n"
        assert json.loads(run(*verify, "--json"))["currentVoters"] == [1, 2, 3]


@pytest.mark.soak
def test_a_node_that_reaches_another_cluster_says_so_in_a_line(tmp_path: Path) -> None:
    ports = free_ports(free_port(set()), 2)
    files = []
    for node_id, port, more, cluster_id in (
        (1, ports[0], "quorum.voters=1", "one-cluster"),
        (2, ports[1], f"bootstrap.servers={HOST}:{ports[0]}", "another-cluster"),
    ):
        path = tmp_path / f"{node_id}.properties"
        path.write_text(
            f"broker.id={node_id}\nlisteners=PLAINTEXT://{HOST}:{port}\n"
            f"log.dirs={tmp_path / str(node_id)}\n{more}\n"
        )
        run("storage", "format", "--profile", "kip-595", "-c", str(path), "-t", cluster_id)
        files.append(path)
    options = ("--profile", "kip-595", "--bootstrap-server", f"{HOST}:{ports[0]}", "--json")
    with node("kip-595", files[0]) as first:
        until(lambda: json.loads(run("quorum", "describe", *options))["highWatermark"] > 0)
        with node("kip-595", files[1]) as second:
            output, _ = second.communicate(timeout=WAIT_S)
        assert second.returncode == 3, output
        assert "Traceback" not in output
        assert "one-cluster" in output.splitlines()[-1]
        assert "another-cluster" in output.splitlines()[-1]
        assert first.poll() is None
