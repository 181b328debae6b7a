"""``kraftspec conform run``, ``adapters`` and ``doctor``: exit codes, files, and what is read."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import termios
import time
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema_rs
import pytest
from click.testing import CliRunner, Result
from tests.conformance.report.result_samples import write_known

from kraftspec.cli import conform_run, main
from kraftspec.conformance.adapters import harness, registry
from kraftspec.conformance.adapters.registry import adapters
from kraftspec.conformance.runner import known as known_room
from kraftspec.conformance.runner import pool
from kraftspec.conformance.runner import run as run_module
from kraftspec.conformance.vectors import vectors_root

SCHEMA = json.loads((files("kraftspec.conformance") / "schemas/results.schema.json").read_text())
FAKE = Path(__file__).parents[1] / "conformance/adapters/misbehaving_adapter.py"
VECTORS = vectors_root() / "kafka/VoteRequest.json"
FAMILIES = ("defaults", "populated", "empty", "alone")
FILTERS = ["--filter", "kafka/VoteRequest", "--filter", "version:0"]
FILTERS += [word for family in FAMILIES for word in ("--filter", f"family:{family}")]


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["conform", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def vote_tests() -> list[dict[str, Any]]:
    tests = json.loads(VECTORS.read_text("utf-8"))["tests"]
    return [test for test in tests if test["family"] in FAMILIES and test["version"] == 0]


def fake(how: str, *bad: str) -> str:
    return shlex.join([sys.executable, "-S", "-E", str(FAKE), how, str(VECTORS), *bad])


def first(direction: str = "d") -> str:
    return f"{vote_tests()[0]['id']}-{direction}"


# ------------------------------------------------------------------------------------- exit codes


def test_all_as_expected_is_0() -> None:
    result = run("run", "--exec", fake("well"), *FILTERS)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"fake 1: 1 message, 1 pair, {len(vote_tests())} vectors:" in result.stdout


def test_a_regression_is_1_and_a_crash_is_one_of_one_test() -> None:
    result = run("run", "--exec", fake("die", first()), *FILTERS)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == f"crash: kafka/VoteRequest v0 decode {vote_tests()[0]['id']}  defaults"
    assert lines[1].startswith("  what   the adapter ")
    assert "         line 99" in lines
    assert " 1 failed, 0 skipped, started again 2 times, " in lines[-1]


def known_first(tmp_path: Path, **entry: str) -> str:
    test = f"*/decode/{vote_tests()[0]['id']}"
    return str(write_known(tmp_path / "known.toml", {"test": test, **entry}))


def test_a_known_failure_is_0_and_its_pass_is_2(tmp_path: Path) -> None:
    known = ["--known", known_first(tmp_path)]
    result = run("run", "--exec", fake("empty", first()), *FILTERS, *known)
    assert result.exit_code == 0
    assert " 0 failed, 1 known to fail, 0 skipped" in result.stdout
    assert "malformed" not in result.stdout
    result = run("run", "--exec", fake("well"), *FILTERS, *known)
    assert result.exit_code == 2
    assert (
        f"passes, though it is known to fail: kafka/VoteRequest v0 decode {vote_tests()[0]['id']}: "
        "because" in result.stdout
    )
    # A regression is the worse of the two.
    result = run("run", "--exec", fake("empty", first("e")), *FILTERS, *known)
    assert result.exit_code == 1


def test_an_expired_one_fails_where_it_is_strict(tmp_path: Path) -> None:
    known = ["--known", known_first(tmp_path, expires="2020-01-01")]
    command = ["run", "--exec", fake("empty", first()), *FILTERS, *known]
    result = run(*command)
    assert result.exit_code == 0
    assert "Warning: known failure" in result.stderr
    assert "expired on 2020-01-01: because" in result.stderr
    assert run(*command, "--strict").exit_code == 1


def test_the_adapters_own_file_is_taken_where_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(known_first(tmp_path))
    monkeypatch.setattr(known_room, "known_file", lambda name: path)
    result = run("run", "--adapter", "kraftspec", *FILTERS)
    assert result.exit_code == 2
    assert "1 passed unexpectedly" in result.stdout


@pytest.mark.parametrize(
    ("how", "bad", "expected"),
    [
        ("stillborn", "none", "ended with exit code 3"),
        ("new", "none", "speaks protocol 2, not 1"),
        ("mute", "none", "gave no reply within 0.5 s"),
        ("die", "every", "given up after 5 restarts"),
    ],
)
def test_a_harness_that_fails_is_3(
    how: str, bad: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "RESTARTS_MAX", 4)
    monkeypatch.setattr(harness, "START_TIMEOUT_S", 0.5 if how == "mute" else 60.0)
    timeout = ["--timeout", "0.5"] if how == "mute" else []
    result = run("run", "--exec", fake(how, bad), *FILTERS, *timeout)
    assert result.exit_code == 3
    assert result.stderr.startswith("Error: ")
    assert expected in result.stderr


def test_if_all_is_skipped_nothing_was_proven() -> None:
    result = run("run", "--exec", fake("well"), "--filter", "kafka/VoteResponse")
    assert result.exit_code == 3
    assert "every case was skipped: nothing was tested" in result.stderr
    assert "the adapter does not have this message" in result.stdout


def test_reasons_that_are_not_printed_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conform_run, "SKIPS_SHOWN_MAX", 0)
    result = run("run", "--exec", fake("well"), "--filter", "kafka/VoteResponse")
    assert re.search(
        r"^skipped [\d,]+: 1 other reason; --json has them all$", result.stdout, re.MULTILINE
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--filter", "colour:red"], "there is no key 'colour'"),
        (["--shard", "5/4"], "'5/4' is not 1/4"),
        (["--timeout", "0"], "0.0 is not in the range"),
        (["--timeout", "nan"], "nan is not a number of seconds"),
        (["--timeout", "inf"], "inf is not in the range"),
        (["--timeout", "1e9"], "is not in the range 0<x<=86400"),
        (["--filter", "version:5-1"], "version:5-1 is not version:3 or version:0-2"),
        (["--filter", "result:vali"], "'result:vali': result is one of valid, invalid, accept"),
        (["--filter", "direction:both"], "direction is one of encode, decode"),
        (["--jobs", "0"], "0 is not in the range"),
        (["--known", "/no/such/file"], "does not exist"),
    ],
)
def test_wrong_usage_is_2(arguments: list[str], says: str) -> None:
    result = run("run", "--exec", "true", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("command", "says"),
    [("'", '--exec "\'": No closing quotation'), ("", "--exec '': there is no command in it")],
)
def test_a_command_that_is_none(command: str, says: str) -> None:
    result = run("run", "--exec", command)
    assert result.exit_code == 2
    assert says in result.stderr


@pytest.mark.parametrize(("mode", "text"), [(0o644, "#!/bin/sh\n"), (0o755, "print(1)\n")])
def test_a_program_that_cannot_be_started(tmp_path: Path, mode: int, text: str) -> None:
    path = tmp_path / "adapter.py"
    path.write_text(text)
    path.chmod(mode)
    result = run("run", "--exec", str(path), *FILTERS)
    assert result.exit_code == 3
    assert f"; chmod +x {path}, or name its interpreter before it" in result.stderr


def test_what_an_adapter_says_does_not_reach_the_terminal_raw() -> None:
    result = run("run", "--exec", fake("escapes", first()), *FILTERS)
    assert result.exit_code == 1
    assert "\x1b" not in result.output
    assert "fake\\x1b[31m 1\\r: " in result.stdout
    assert "why\\x1b]0;pwned\\x07" in result.stdout
    result = run("run", "--exec", fake("escapes-die", "every"), *FILTERS)
    assert result.exit_code == 3
    assert "\x1b" not in result.output
    assert "dying\\x1b[2J" in result.stderr
    assert "dying\\x1b[2J" in result.stdout
    result = run("run", "--exec", fake("escapes", first()), *FILTERS, "--json")
    detail = json.loads(result.stdout)["failures"][0]["detail"]
    assert "why\x1b]0;pwned\x07\ud800" in detail


def test_a_crash_is_shown_with_the_first_and_the_last_lines_of_standard_error() -> None:
    """The fake writes a hundred lines."""
    said = [
        line.strip()
        for line in run("run", "--exec", fake("die", first()), *FILTERS).stdout.splitlines()
    ]
    begin, end = said.index("Its standard error begins:"), said.index("and ends:")
    assert said[begin + 1 : end] == [f"line {at}" for at in range(5)]
    assert said[end + 1] == "…"
    assert said[end + 2 : end + 10] == [f"line {at}" for at in range(92, 100)]
    assert said[end + 10].startswith("repeat ")


def test_the_table_of_adapters_fits_its_terminal() -> None:
    """Drawn by the command itself on a terminal of 40 columns."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 40))
    kept = {name: text for name, text in os.environ.items() if name != "COLUMNS"}
    command = [sys.executable, "-m", "kraftspec", "conform", "adapters"]
    process = subprocess.Popen(command, stdout=theirs, stdin=theirs, env={**kept, "TERM": "xterm"})
    os.close(theirs)
    drawn = b""
    with suppress(OSError):  # The end, as a terminal tells of it.
        while chunk := os.read(ours, 1 << 16):
            drawn += chunk
    assert process.wait(60) == 0
    os.close(ours)
    lines = re.sub(r"\x1b\[[0-9;]*m|\r", "", drawn.decode()).splitlines()
    assert lines[0].strip()
    assert max(map(len, lines)) <= 40
    assert any(line.startswith("kafka") for line in lines)


def test_an_adapter_that_there_is_not() -> None:
    result = run("run", "--adapter", "nobody")
    assert result.exit_code == 2
    assert "there is no adapter 'nobody'" in result.stderr
    assert "kraftspec-python" in result.stderr


def test_the_help_says_how_filters_are_written() -> None:
    help_text = " ".join(run("run", "--help").stdout.split())
    assert "set, message, version, family, direction, flag, id, result" in help_text
    assert "2: a known failure passed" in help_text


# ------------------------------------------------------------------------------------- selection


def test_parallel_shards_make_up_the_whole(tmp_path: Path) -> None:
    whole = run("run", "--adapter", "kraftspec", "--filter", "VoteRe", "--json")
    parts = [
        run("run", "--adapter", "kraftspec", "--filter", "VoteRe", "--json", "--jobs", "2",
            "--seed", "5", "--shard", f"{number}/2")
        for number in (1, 2)
    ]  # fmt: skip
    told = [json.loads(result.stdout) for result in (whole, *parts)]
    for results in told:
        jsonschema_rs.validator_for(SCHEMA).validate(results)
    passed = [results["counts"]["passed"] for results in told]
    assert passed[0] == passed[1] + passed[2] > 2000
    assert told[0]["selection"] == {"filters": ["VoteRe"]}
    assert told[1]["selection"] == {"filters": ["VoteRe"], "shard": "1/2", "seed": 5}
    assert told[0]["adapter"]["name"] == "kraftspec"


def test_the_seed_is_printed_and_the_speed_where_it_is_asked_for() -> None:
    result = run("run", "--exec", fake("well"), *FILTERS, "--seed", "77", "--stats")
    assert ", seed 77, " in result.stdout
    assert "cases in " in result.stdout.splitlines()[-1]
    assert "a second of one core" in result.stdout.splitlines()[-1]


def test_junit_is_written_too(tmp_path: Path) -> None:
    path = tmp_path / "results.xml"
    result = run("run", "--exec", fake("empty", first()), *FILTERS, "--junit", str(path))
    assert result.exit_code == 1
    root = ElementTree.parse(path).getroot()
    assert root.get("failures") == "1"
    result = run("run", "--exec", fake("well"), *FILTERS, "--junit", str(tmp_path))
    assert result.exit_code == 2
    deep = tmp_path / "not/yet/x.xml"
    result = run("run", "--exec", fake("well"), *FILTERS, "--junit", str(deep))
    assert (result.exit_code, deep.exists()) == (0, True)


def test_a_junit_that_cannot_be_written_costs_no_verdict(tmp_path: Path) -> None:
    wrong = fake("empty", first())
    # What can be known before the run is told of before it.
    (tmp_path / "file").write_text("")
    result = run("run", "--exec", wrong, *FILTERS, "--junit", str(tmp_path / "file/x.xml"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--junit" in result.stderr
    result = run("run", "--exec", wrong, *FILTERS, "--junit", "/dev/full")
    assert result.exit_code == 3
    assert "1 failed" in result.stdout
    assert "--junit /dev/full was not written: No space left" in result.stderr
    result = run("run", "--exec", wrong, *FILTERS, "--json", "--junit", "/dev/full")
    assert json.loads(result.stdout)["counts"]["failed"] == 1


def test_no_end_but_a_verdict_has_the_exit_code_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(run_module, "run", broken)
    result = run("run", "--exec", fake("well"), *FILTERS)
    assert result.exit_code == 3
    assert "RuntimeError: unforeseen" in result.stderr
    assert "there is no verdict" in result.stderr


def test_an_interrupted_run_is_130(tmp_path: Path) -> None:
    log = tmp_path / "started"
    script = f"import pathlib, time; pathlib.Path({str(log)!r}).touch(); time.sleep(600)"
    command = [sys.executable, "-m", "kraftspec", "conform", "run", "--exec"]
    command += [shlex.join([sys.executable, "-c", script]), *FILTERS]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while not log.exists():
            time.sleep(0.02)
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, output = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert output == "Interrupted: no verdict.\n"


# -------------------------------------------------------------------------------------- adapters


def test_adapters() -> None:
    rows = json.loads(run("adapters", "--json").stdout)
    assert [row["name"] for row in rows] == [spec.name for spec in adapters()]
    ours = next(row for row in rows if row["name"] == "kraftspec")
    assert ours == {
        "name": "kraftspec", "language": "python", "implements": ours["implements"],
        "version": ours["version"], "installed": True, "missing": [],
    }  # fmt: skip
    table = run("adapters").stdout
    assert all(row["name"] in table for row in rows)


@pytest.mark.soak
def test_the_table_of_adapters_fits_a_terminal() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kraftspec", "conform", "adapters"], capture_output=True, text=True,
        check=True, env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": "80", "NO_COLOR": "1"},
    )  # fmt: skip
    assert max(map(len, re.sub("\x1b.*?m", "", done.stdout).splitlines())) <= 80


def test_doctor_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = [spec for spec in adapters() if spec.name.startswith("kraftspec")]
    monkeypatch.setattr(registry, "adapters", lambda: tuple(ours))
    assert (run("doctor").exit_code, run("doctor").stdout) == (0, "Nothing is missing.\n")
    assert json.loads(run("doctor", "--json").stdout) == []
    monkeypatch.undo()
    monkeypatch.setenv("PATH", "")
    result = run("doctor")
    assert result.exit_code == 1
    assert "kafka (java, Apache Kafka's own classes):\n" in result.stdout
    assert "install it with: " in result.stdout
    lacking = json.loads(run("doctor", "--json").stdout)
    assert {"kafka", "franz-go"} <= {row["name"] for row in lacking}
    assert all(row["missing"] for row in lacking)
    assert "no; see conform doctor" in run("adapters").stdout
