"""``kraftspec proxy`` before a node of our own."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kraftspec.cli import main
from kraftspec.conformance.cluster.node import free_port
from kraftspec.generated import kafka
from kraftspec.generated.kafka import ApiVersionsResponse, DescribeQuorumResponse
from kraftspec.reference.admin.client import quorum_request
from kraftspec.reference.local.quorum import LocalQuorum
from kraftspec.reference.wire.blocking import ask
from kraftspec.reference.wire.client import api_versions_request

RULES = """
rules:
  - api: DescribeQuorum
    error: NOT_LEADER_OR_FOLLOWER
    times: 1
"""


def start(*arguments: str) -> tuple[subprocess.Popen[str], int]:
    """Start the command; return it and the port that it listens on."""
    command = [sys.executable, "-m", "kraftspec", "proxy", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    listening = process.stdout.readline().split()[0]
    return process, int(listening.rpartition(":")[2])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_before_a_node(tmp_path: Path, number: signal.Signals) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)

    def talk(address: str) -> None:
        process, port = start(*("--listen", "127.0.0.1:0", "--to", address, "--rules", str(rules)))
        try:
            request = quorum_request(kafka)
            first = ask(port, request, 2, DescribeQuorumResponse, timeout_s=60)
            assert first.topics[0].partitions[0].error_code == 6
            second = ask(port, request, 2, DescribeQuorumResponse, timeout_s=60)
            assert second.topics[0].partitions[0].error_code == 0
            assert second.topics[0].partitions[0].leader_id == 1
            versions = ask(port, api_versions_request(3), 3, ApiVersionsResponse, timeout_s=60)
            assert versions.api_keys
        finally:
            process.send_signal(number)
            _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")

    async def run() -> None:
        port = free_port(set())
        async with LocalQuorum(tmp_path / "quorum", voters=1, first_port=port) as quorum:
            await quorum.wait_leader(60)
            await asyncio.to_thread(talk, quorum.bootstrap)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        ([], 2, "give --listen and --to, or nodes in the file of rules"),
        (["--listen", "127.0.0.1:0"], 2, "give one --listen for each --to"),
        (["--listen", "here", "--to", "localhost:1"], 2, "'here' is not HOST:PORT."),
        (["--listen", "a:70000", "--to", "localhost:1"], 2, "'a:70000' is not HOST:PORT."),
        (["--set", "none"], 2, "there is no set 'none'"),
        (["--rules", "{bad}", "--check"], 1, "Error: {bad}:2:8: there is no API 'X'"),
        (["--rules", "{good}", "--check"], 0, ""),
        (["--rules", "{some}", "--check"], 0, "Note: MetadataRequest has no topics.topicId in"),
        (["--listen", "a:0", "--to", "a:1", "--to-config", "{secure}"], 1, "sasl.mechanism=GSSAPI"),
        (["--listen", "a:0", "--to", "a:1", "--listen-config", "{secure}"], 1, "sasl.jaas.config"),
        (["--schema"], 0, '"title": "Rules of kraftspec proxy"'),
    ],
    ids=str,
)
def test_options(tmp_path: Path, arguments: list[str], code: int, expected: str) -> None:
    bad, good = tmp_path / "bad.yaml", tmp_path / "good.yaml"
    bad.write_text("rules:\n- api: X\n  drop: true\n")
    good.write_text(RULES)
    some = tmp_path / "some.yaml"
    some.write_text("rules:\n- {api: Metadata, where: {topics.topicId: a}, drop: true}\n")
    secure = tmp_path / "secure.properties"
    secure.write_text("security.protocol=SASL_PLAINTEXT\n")
    paths = {"bad": bad, "good": good, "some": some, "secure": secure}
    given = [one.format(**paths) for one in arguments]
    result = CliRunner().invoke(main, ["proxy", *given])
    assert result.exit_code == code, result.output
    assert expected.format(**paths) if "bad" in expected else expected in result.output


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    process, port = start("--listen", "127.0.0.1:0", "--to", "127.0.0.1:1")
    try:
        result = CliRunner().invoke(
            main, ["proxy", "--listen", f"127.0.0.1:{port}", "--to", "127.0.0.1:1"]
        )
        assert result.exit_code == 1
        assert "address already in use" in result.output
    finally:
        process.terminate()
        process.communicate(timeout=60)
