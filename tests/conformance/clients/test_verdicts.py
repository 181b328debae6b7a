"""Verdicts that are not the client's, failures that are known, and the page of results."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from kraftspec.conformance.clients.clients import command_of, known_file, specs
from kraftspec.conformance.clients.driver import Driver
from kraftspec.conformance.clients.exchange_files import own_files, parse_exchanges, read_exchanges
from kraftspec.conformance.clients.junit import junit
from kraftspec.conformance.clients.run import Player, Result, Timing, Verdict, excuse
from kraftspec.conformance.clients.table import Saved, read, render
from kraftspec.conformance.runner.known import KnownFailures, known_failures


@pytest.fixture(scope="module")
def player() -> Iterator[Player]:
    with Driver(command_of("kraftspec")) as driver, Player(driver, Timing(30, 60)) as player:
        yield player


def played(player: Player, fields: str) -> Result:
    [exchange] = parse_exchanges(
        "exchanges:\n  - {name: one, about: It is for a test., cites: none, broken: abort, "
        f"{fields}}}",
        "one.yaml",
    )
    return player.play(exchange)


@pytest.mark.soak
def test_an_answer_that_cannot_be_made_is_not_the_clients(player: Player) -> None:
    player.timing = Timing(5, 60, connect_s=30)  # The client gives up once the broker has failed.
    result = played(player, "given: {leader: 5000000000}, steps: [{produce: {values: [a]}}]")
    assert (result.verdict, result.passed) == ("no verdict", False)
    assert "Metadata" in result.detail
    assert "<error " in junit("one", [result])


def test_what_was_produced_is_what_must_be_consumed(player: Player) -> None:
    player.timing = Timing(30, 60)
    steps = "steps: [{produce: {values: [b]}}, {consume: {count: 2}}]"
    result = played(player, f"given: {{records: [a]}}, {steps}")
    assert result.verdict == "correct", result


def test_what_was_not_met_is_not_judged(player: Player) -> None:
    player.timing = Timing(30, 60)
    scripted = played(
        player, "answers: [{api: Fetch, error: NONE}], steps: [{produce: {values: [a]}}]"
    )
    ruled = played(player, "rules: [{api: Fetch, drop: true}], steps: [{produce: {values: [a]}}]")
    assert {(one.verdict, one.passed) for one in (scripted, ruled)} == {("not reached", True)}
    assert "Fetch" in scripted.detail


def test_what_the_broker_did_not_keep_is_lost(player: Player) -> None:
    player.timing = Timing(30, 60)
    result = played(
        player, "answers: [{api: Produce, unserved: true}], steps: [{produce: {values: [a]}}]"
    )
    assert (result.verdict, result.passed) == ("loses", False)


@pytest.mark.parametrize(
    ("requests", "verdict"),
    [("1", "correct"), ("2", "wrong"), ("{min: 1}", "correct"), ("{max: 0}", "wrong")],
)
def test_how_many_requests_may_come(player: Player, requests: str, verdict: Verdict) -> None:
    player.timing = Timing(30, 60)
    result = played(
        player, f"requests: {{Produce: {requests}}}, steps: [{{produce: {{values: [a]}}}}]"
    )
    assert result.verdict == verdict, result


DYING = """
import json, sys
print(json.dumps(dict(protocol=1, client="dying", version="0", language="python")), flush=True)
for line in sys.stdin:
    if json.loads(line)["verb"] == "produce":
        for number in range(12):
            print("thread main panicked at it.rs:1:" if number == 5 else number, file=sys.stderr)
        sys.exit(3)
    print(json.dumps(dict(ok=True)), flush=True)
"""


def test_the_end_of_what_a_driver_wrote_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "dying.py"
    path.write_text(DYING)
    with Driver([sys.executable, str(path)]) as driver, Player(driver, Timing(30, 60)) as player:
        results = [played(player, "steps: [{produce: {values: [a]}}]") for _ in range(2)]
    for result in results:  # The second process has its own.
        assert result.verdict == "crashes"
        assert result.detail.endswith("ended with exit code 3: thread main panicked at it.rs:1: 6")
        assert result.output == [
            "2",
            "3",
            "4",
            "thread main panicked at it.rs:1:",
            *"6789",
            "10",
            "11",
        ]


def failed(exchange: str, verdict: Verdict) -> Result:
    return Result(exchange=exchange, verdict=verdict, passed=False)


def known(tmp_path: Path, **reasons: str) -> KnownFailures:
    """Return entries, EXCHANGE__VERDICT to reason."""
    path = tmp_path / "known.toml"
    path.write_text(
        "".join(
            f'[[failure]]\ntest = "{test.replace("__", "/").replace("_", "-")}"\n'
            f'reason = "{reason}"\nissue = "https://example.org"\nexpires = "2999-01-01"\n'
            for test, reason in reasons.items()
        )
    )
    return KnownFailures.read(path)


def test_a_known_failure_is_one_of_that_verdict(tmp_path: Path) -> None:
    results = [
        failed("batch-cut", "wrong"),
        failed("batch-long", "crashes"),
        Result(exchange="mended", verdict="correct", passed=True),
        Result(exchange="lacking", verdict="not supported", passed=True),
    ]
    tests = ("batch_cut", "batch_long", "mended", "lacking", "absent")
    entries = known(tmp_path, **{f"{test}__wrong": "r" for test in tests})
    assert excuse(results, entries) == ["batch-long/wrong", "mended/wrong"]
    assert [one.known for one in results] == ["r", None, None, None]


def test_the_page_does_not_name_what_is_embargoed() -> None:
    names = [one.name for one in read_exchanges(own_files())]
    results = [Result(exchange=name, verdict="correct", passed=True) for name in names[3:]]
    results += [failed(names[0], "wrong"), failed(names[1], "crashes"), failed(names[2], "hangs")]
    results[-3].known = "it is wrong"
    results[-2].known = "KS-2026-99: embargoed, see SECURITY.md"
    page = render([Saved(client="one", named="one 1.0", exchanges=results)])
    assert names[0] in page
    assert "it is wrong" in page
    assert names[1] not in page
    assert "| crashes | 1 exchange | KS-2026-99 |" in page
    assert names[2] not in page  # Nobody has looked at it yet.


def test_what_was_played_is_judged_by_what_is_known_now(tmp_path: Path) -> None:
    result = failed("batch-magic-unknown", "wrong")
    result.known = "what was known then"
    kept = Saved(client="sarama", named="sarama 1.0", exchanges=[result])
    (tmp_path / "sarama.json").write_bytes(msgspec.json.encode(kept))
    saved = read(tmp_path / "sarama.json")
    assert [one.known for one in saved.exchanges] == [
        entry.reason
        for entry in known_failures("sarama", known_file("sarama")).entries
        if entry.test == "batch-magic-unknown/wrong"
    ]
    assert saved.new() == []


@pytest.mark.soak
@pytest.mark.parametrize("client", [spec.name for spec in specs()])
def test_known_failures_are_of_exchanges_that_there_are(client: str) -> None:
    excuses = known_failures(client, known_file(client))
    results = [
        Result(exchange=one.name, verdict="correct", passed=True)
        for one in read_exchanges(own_files())
    ]
    assert excuse(results, excuses) == [entry.test for entry in excuses.entries]
