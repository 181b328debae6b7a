"""`kraftspec conform clients`: our own client, and what the command lists, writes and refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
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
    lines = result.stdout.splitlines()
    sent = next(number for number, line in enumerate(lines) if "Produce v" in line)
    assert "│────────>│" in lines[sent]
    assert '"topicData": [{"name": "events"' in lines[sent + 1]
    assert '"errorCode": 6' in result.stdout  # What the proxy answered, not the broker.
    repeat = next(line for line in lines if line.startswith("  repeat: "))
    assert repeat.endswith("--timeout-s 5 --patience-s 30 --filter not-leader-twice")
    as_json = run("--client", faulty, "--filter", "not-leader-twice", "--json")
    [exchange] = json.loads(as_json.stdout)["exchanges"]
    produce = [one for one in exchange["exchanged"] if one["what"].startswith("Produce")]
    assert [(one["from"], one["to"]) for one in produce] == [(0, 1), (1, 0)]
    assert bytes.fromhex(produce[0]["hex"]).startswith(b"\0\0\0")  # The key of Produce is 0.
    assert produce[0]["fields"]["acks"] == -1


@pytest.mark.soak
def test_a_known_failure_is_no_failure(tmp_path: Path) -> None:
    known = tmp_path / "known.toml"
    entry = (
        '[[failure]]\ntest = "{}"\nreason = "it tries once"\nissue = "x"\nexpires = "2999-01-01"\n'
    )
    known.write_text(entry.format("not-leader-*/gives up") + entry.format("plain-produce/wrong"))
    faulty = f"exec:{sys.executable} -m kraftspec.conformance.clients.reference --break no-retry"
    chosen = ("--filter", "not-leader-twice", "--filter", "plain-produce")
    result = run("--client", faulty, *chosen, "--known", str(known))
    assert result.exit_code == 0, result.output
    assert "known not-leader-twice: gives up: it tries once" in result.stdout
    assert "plain-produce/wrong does not fail any more" in result.stderr


@pytest.mark.soak
def test_a_mistake_of_ours_is_no_verdict(tmp_path: Path) -> None:
    path = tmp_path / "ours.yaml"
    path.write_text(
        "exchanges:\n  - {name: ours, about: It is for a test., cites: none, broken: abort,\n"
        "     given: {leader: 5000000000}, steps: [{produce: {values: [a]}}]}\n"
    )
    result = run("--client", "kraftspec", "--exchanges", str(path), "--timeout-s", "2")
    assert result.exit_code == 3, result.output
    assert "no verdict: the scripted broker failed" in result.stdout


def test_what_there_is() -> None:
    listed = run("--list")
    assert listed.exit_code == 0
    clients, *exchanges = listed.stdout.splitlines()
    assert {"franz-go", "kafkajs", "kraftspec"} <= {*clients.removeprefix("clients: ").split(", ")}
    assert len(exchanges) >= 60
    assert json.loads(run("--schema").stdout)["$schema"]
    assert json.loads(run("--protocol-schema").stdout)["$schema"]
    assert run("--check").exit_code == 0


@pytest.mark.soak
def test_what_there_is_not() -> None:
    assert run("--client", "absent").exit_code == 2
    nothing = run("--client", "kraftspec", "--filter", "absent")
    assert nothing.exit_code == 3  # Nothing was judged.
    assert "absent" in nothing.stderr
