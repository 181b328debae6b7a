"""``kraftspec conform live``: known failures, JUnit, several scenarios at a time, exit codes."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

import pytest
import xmlschema
from click.testing import CliRunner, Result
from tests.conformance.live.test_live import WRONG

from kraftspec.cli import main

# The target that grants every vote passes the first of these, and fails the second.
PASSED, FAILED = "api-versions", "vote-survives-kill"
SCENARIOS = f"""
scenarios:
  - name: {PASSED}
    about: The node says which versions it has.
    steps:
      - when: {{send: {{api: ApiVersions, sender: 2}}}}
        then: [{{must: {{answer: {{errorCode: NONE}}}}, cites: KIP-511}}]
  - name: {FAILED}
    about: No vote is given where the log is behind.
    steps:
      - when: {{send: {{api: Vote, sender: 2, fields: {{replicaEpoch: epoch + 1, lastOffset: 0}}}}}}
        then: [{{must: {{answer: {{voteGranted: false}}}}, cites: KIP-595}}]
"""
WAITS = f"""{SCENARIOS}
  - name: waits
    about: The node asks nobody for ten minutes.
    given: {{properties: {{metadata.max.idle.interval.ms: 777}}}}
    steps:
      - when: {{send: {{api: ApiVersions, sender: 2}}}}
        then: [{{must: {{no_request: {{api: Vote, during: "600000"}}}}, cites: KIP-595}}]
"""
KNOWN = """
[[failure]]
test = "live/{name}"
reason = "every vote is granted"
issue = "https://example.org/1"
expires = "{expires}"
"""


@pytest.fixture
def scenarios(tmp_path: Path) -> Path:
    path = tmp_path / "scenarios.yaml"
    path.write_text(SCENARIOS)
    return path


def run(scenarios: Path, *options: str | Path) -> Result:
    words = ["conform", "live", "--target", f"exec:{shlex.join(WRONG)}", "--scenarios", scenarios]
    return CliRunner().invoke(main, [str(word) for word in (*words, *options)])


def known(scenarios: Path, name: str, expires: str = "2099-12-31") -> Path:
    path = scenarios.with_name("known.toml")
    path.write_text(KNOWN.format(name=name, expires=expires))
    return path


def test_results_as_junit(scenarios: Path, tmp_path: Path) -> None:
    junit, page, captures = tmp_path / "junit.xml", tmp_path / "page.html", tmp_path / "pcap"
    files = ("--junit", junit, "--html", page, "--pcap", captures)
    result = run(scenarios, *files, "--jobs", "2")
    assert result.exit_code == 1
    assert "2 scenarios: 1 passed, 1 failed, 0 `should` not met" in result.output
    schema = xmlschema.XMLSchema(Path(__file__).parents[1] / "report" / "junit.xsd")
    schema.validate(junit)
    suite = ElementTree.parse(junit).getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    cases = {case.get("name"): case for case in suite}
    assert list(cases) == [PASSED, FAILED]
    assert cases[PASSED].find("failure") is None
    failure = cases[FAILED].find("failure")
    assert failure is not None
    (line,) = (at for at, text in enumerate(SCENARIOS.splitlines(), 1) if "api: Vote" in text)
    problem = f"step 1, {scenarios}:{line}: voteGranted is True, not False [KIP-595]"
    assert failure.get("message") == problem
    assert f"FAILED {FAILED}, {problem}" in result.output
    assert '"voteGranted": true' in (failure.text or "")
    assert "voteGranted is True, not False" in page.read_text()
    assert f"--filter {FAILED}" in page.read_text()
    assert [path.name for path in captures.iterdir()] == [f"{FAILED}.pcap"]


@pytest.mark.soak
def test_a_known_failure_is_0_and_its_pass_is_2(scenarios: Path, tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    result = run(scenarios, "--known", known(scenarios, FAILED), "--junit", junit, "--json")
    assert result.exit_code == 0
    rows = json.loads(result.stdout)["scenarios"]
    assert [row["verdict"] for row in rows] == ["passed", "known failure"]
    assert rows[1]["known"] == "every vote is granted"
    suite = ElementTree.parse(junit).getroot()[0]
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "1")
    result = run(scenarios, "--known", known(scenarios, "*"), "--filter", PASSED, "--junit", junit)
    assert result.exit_code == 2
    assert f"passes, though it is known to fail: {PASSED}: every vote is granted" in result.output
    assert ElementTree.parse(junit).getroot()[0].get("failures") == "1"


@pytest.mark.soak
def test_an_expired_one_fails_where_it_is_strict(scenarios: Path) -> None:
    expired = known(scenarios, FAILED, "2020-01-01")
    result = run(scenarios, "--filter", FAILED, "--known", expired)
    assert result.exit_code == 0
    assert "0 passed, 0 failed, 1 known to fail, 0 `should` not met" in result.stdout
    assert "Vote v2 request" not in result.stdout
    assert f"known failure live/{FAILED} expired on 2020-01-01" in result.stderr
    assert run(scenarios, "--filter", FAILED, "--known", expired, "--strict").exit_code == 1


def test_a_file_that_cannot_be_used(scenarios: Path) -> None:
    bad = known(scenarios, FAILED, "soon")
    result = run(scenarios, "--known", bad)
    assert result.exit_code == 2
    assert f"the entry live/{FAILED} expires on 'soon'" in " ".join(result.stderr.split())


BAD = """
  - name: waits-for-ever
    about: Nobody has shortened the time-out in which a vote is due.
    steps:
      - when: {send: {api: ApiVersions, sender: 2}}
        then: [{must: {request: {api: Vote, within: fetch}}, cites: KIP-595}]
"""


@pytest.mark.soak
def test_a_scenario_that_cannot_be_played_leaves_the_others(
    scenarios: Path, tmp_path: Path
) -> None:
    scenarios.write_text(SCENARIOS + BAD)
    junit = tmp_path / "junit.xml"
    options = ("--filter", PASSED, "--filter", "waits-for-ever", "--jobs", "2")
    result = run(scenarios, "--junit", junit, *options)
    assert result.exit_code == 3
    assert "NO VERDICT waits-for-ever, step 1: it waits for 'fetch', a time-out" in result.stdout
    assert "2 scenarios: 1 passed, 0 failed, 1 without a verdict" in result.stdout
    suite = ElementTree.parse(junit).getroot()[0]
    assert (suite.get("failures"), suite.get("errors")) == ("0", "1")
    scenarios.write_text(f"scenarios:{BAD}")
    result = run(scenarios)
    assert result.exit_code == 3
    assert "Error: step 1: it waits for 'fetch'" in result.stderr


def test_a_target_that_is_not_there(scenarios: Path) -> None:
    words = ["conform", "live", "--target", "exec:./no-such-target", "--scenarios", str(scenarios)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert "there is no program './no-such-target'" in result.stderr


def _begun(properties: Path) -> bool:
    with suppress(FileNotFoundError):  # Of a scenario that has just ended.
        return "interval.ms=777" in properties.read_text()
    return False


@pytest.mark.soak
def test_what_is_known_when_it_is_interrupted(scenarios: Path, tmp_path: Path) -> None:
    scenarios.write_text(WAITS)
    junit, home = tmp_path / "junit.xml", tmp_path / "home"
    home.mkdir()
    command = [sys.executable, "-m", "kraftspec", "conform", "live", "--target"]
    command += [f"exec:{shlex.join(WRONG)}", "--scenarios", str(scenarios), "--junit", str(junit)]
    with subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(home)}, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            while not any(_begun(path) for path in home.glob("*/node.properties")):
                assert process.poll() is None
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            printed, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "2 scenarios: 1 passed, 1 failed, 0 `should` not met" in printed
    assert [case.get("name") for case in ElementTree.parse(junit).getroot()[0]] == [PASSED, FAILED]
    assert list(home.iterdir()) == []
