"""`kraftspec conform clients`: our own client, and what the command lists, writes and refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

from click.testing import CliRunner, Result

from kraftspec.cli import main


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["conform", "clients", *arguments])


def test_our_client_is_judged(tmp_path: Path) -> None:
    junit = tmp_path / "clients.xml"
    chosen = ("--filter", "not-leader-twice", "--junit", str(junit))
    result = run("--client", "kraftspec", *chosen, "--json")
    assert result.exit_code == 0, result.output
    [exchange] = json.loads(result.stdout)["exchanges"]
    assert (exchange["exchange"], exchange["verdict"]) == ("not-leader-twice", "correct")
    assert [api for api, _ in exchange["requests"]].count("Produce") == 3
    assert [case.get("name") for case in ElementTree.parse(junit).iter("testcase")] == [
        "not-leader-twice"
    ]


def test_a_client_with_a_fault_fails() -> None:
    faulty = f"exec:{sys.executable} -m kraftspec.conformance.clients.reference --break no-retry"
    result = run("--client", faulty, "--filter", "not-leader-twice")
    assert result.exit_code == 1, result.output
    assert "not-leader-twice" in result.stdout
    assert "gives up" in result.stdout


def test_what_there_is() -> None:
    listed = run("--list")
    assert listed.exit_code == 0
    clients, *exchanges = listed.stdout.splitlines()
    assert {"franz-go", "kafkajs", "kraftspec"} <= {*clients.removeprefix("clients: ").split(", ")}
    assert len(exchanges) >= 60
    assert json.loads(run("--schema").stdout)["$schema"]
    assert json.loads(run("--protocol-schema").stdout)["$schema"]
    assert run("--check").exit_code == 0


def test_what_there_is_not() -> None:
    assert run("--client", "absent").exit_code == 2
    nothing = run("--client", "kraftspec", "--filter", "absent")
    assert nothing.exit_code == 3  # Nothing was judged.
    assert "absent" in nothing.stderr
