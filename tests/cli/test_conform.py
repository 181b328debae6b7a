"""``kraftspec conform``, ``adapter`` and ``demo``; adapters that are right, wrong and broken."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kraftspec.cli import main
from kraftspec.codegen import check as check_room
from kraftspec.codegen import generate as generate_room
from kraftspec.codegen.check import CheckReport
from kraftspec.codegen.diagnostics import Diagnostic
from kraftspec.codegen.generate import GenerateReport
from kraftspec.conformance.adapters import registry
from kraftspec.conformance.raw.results import Results
from kraftspec.conformance.runner import run as run_module
from kraftspec.conformance.vectors import vectors_root
from kraftspec.fastpath import native

# An adapter that decodes nothing and answers every encode with the bytes it is told to.
FAKE = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["cmd"] == "stop":
        break
    if request["cmd"] == "hello":
        reply = {
            "protocol": 1, "name": "fake", "language": "python", "version": "0",
            "spec": "kafka/4.3.1", "messages": {"VoteRequest": "0-2"},
        }
    elif request["cmd"] == "encode":
        reply = {"id": request["id"], "hex": "00ff"}
    else:
        reply = {"id": request["id"], "skipped": {"reason": "not written yet"}}
    print(json.dumps(reply), flush=True)
"""


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def fake(tmp_path: Path) -> str:
    """The command of an adapter whose every encode is wrong."""
    script = tmp_path / "fake.py"
    script.write_text(FAKE)
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}"


def vote_vectors() -> list[dict[str, Any]]:
    """The tests of Kafka's VoteRequest, those captured of it among them."""
    files = [json.loads(path.read_bytes()) for path in vectors_root().glob("*/VoteRequest.json")]
    return [
        test for file in files if file.get("spec", "kafka") == "kafka" for test in file["tests"]
    ]


def directions(name: str) -> int:
    return sum(test["op"] in ("roundtrip", name) for test in vote_vectors())


@pytest.mark.parametrize("adapter", ["kraftspec", "kraftspec-python"])
def test_our_codec_passes(adapter: str) -> None:
    command = ["conform", "run", "--adapter", adapter, "--filter", "kafka/VoteRequest"]
    result = run(*command)
    assert result.exit_code == 0
    assert f"{len(vote_vectors())} vectors" in result.stdout
    report = json.loads(run(*command, "--json").stdout)
    assert report["adapter"]["name"] == adapter
    checks = directions("encode") + directions("decode")
    assert report["counts"] == {
        "passed": checks, "failed": 0, "skipped": 0, "knownFailures": 0, "unexpectedPasses": 0,
    }  # fmt: skip


@pytest.mark.kafka
def test_kafka_passes() -> None:
    result = run("conform", "run", "--adapter", "kafka", "--filter", "kafka/VoteRequest")
    assert result.exit_code == 0
    assert " 0 failed, 0 skipped" in result.stdout


def test_a_wrong_codec_is_told_how_to_repeat(fake: str) -> None:
    command = ["conform", "run", "--exec", fake, "--filter", "kafka/VoteRequest"]
    result = run(*command, "--filter", "version:0", "--filter", "family:defaults")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    first = next(test for test in vote_vectors() if test["family"] == "defaults")
    assert lines[:8] == [
        f"wrong: kafka/VoteRequest v0 encode {first['id']}  defaults",
        "  field  topics",
        "  what   bytes differ from byte 1 on (3 wanted, 2 given)",
        "  wanted 0000  00 01 00                                         ...",
        "  given  0000  00 ff                                            ..",
        "               " + "   ^^ ^^",
        f"  repeat kraftspec conform run --exec {shlex.quote(fake)} --filter kafka/VoteRequest "
        f"--filter id:{first['id']}",
        "",
    ]
    again = run(*shlex.split(lines[6])[2:])
    assert again.exit_code == 1
    assert again.stdout.splitlines()[:8] == lines[:8]
    assert "1 message, 1 pair, 1 vector: 0 passed, 1 failed, 1 skipped" in again.stdout
    assert lines[-2].endswith(": not written yet")


@pytest.mark.parametrize("command", ["no-such-adapter-anywhere", "false", "echo hello"])
def test_a_harness_that_fails_is_3(command: str) -> None:
    result = run("conform", "run", "--exec", command, "--filter", "kafka/VoteRequest")
    assert result.exit_code == 3
    assert result.stderr.startswith("Error: ")
    assert result.stdout == ""


def test_a_codec_of_a_release_that_there_is_not() -> None:
    """A release that there is not gives no verdict."""
    result = run("conform", "run", "--adapter", "kraftspec", "--release", "2.0.0")
    assert result.exit_code == 3
    assert "there is no release 2.0.0 of Apache Kafka" in result.stderr


def test_no_vectors_prove_nothing() -> None:
    result = run("conform", "run", "--adapter", "kraftspec", "--filter", "Xyzzy")
    assert result.exit_code == 3
    assert "nothing was tested" in result.stderr


@pytest.mark.soak
@pytest.mark.parametrize(
    ("filter_", "hint"),
    [
        ("family:unknown-tag", "family is one of alone, bad_magic, batch_length_mismatch"),
        ("family:unknown-tag", "wrong_type; did you mean unknown-tags"),
        ("message:VoteReqest", "did you mean VoteRequest"),
        ("VoteReqest", "did you mean VoteRequest"),
        ("set:kip-953", "set is one of kafka, kip-595, kip-853, kip-996"),
    ],
)
def test_a_filter_that_is_misspelt_is_told_what_there_is(filter_: str, hint: str) -> None:
    result = run("conform", "run", "--adapter", "kraftspec", "--filter", filter_)
    assert result.exit_code == 3
    assert hint in result.stderr


@pytest.mark.parametrize("arguments", [[], ["--adapter", "kraftspec", "--exec", "true"]])
def test_one_adapter_is_named(arguments: list[str]) -> None:
    result = run("conform", "run", *arguments)
    assert result.exit_code == 2
    assert "give one of --adapter NAME, --exec CMD and --node NAME" in result.stderr


@pytest.mark.parametrize(
    ("command", "says"), [("", "there is no command"), ("a 'b", "No closing quotation")]
)
def test_a_command_that_is_none_is_wrong_usage(command: str, says: str) -> None:
    result = run("conform", "run", "--exec", command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


@pytest.mark.kafka
def test_making_the_vectors_of_nothing_is_wrong_usage(tmp_path: Path) -> None:
    result = run("conform", "make", "--filter", "Xyzzy", "--out", str(tmp_path))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no message name contains 'Xyzzy'" in result.stderr


@pytest.mark.kafka
def test_making_vectors_again_changes_nothing() -> None:
    command = ["conform", "make", "--set", "kafka", "--filter", "VoteRequest"]
    result = run(*command)
    assert result.exit_code == 0
    tests = [test for test in vote_vectors() if test["family"] != "captured"]
    assert f"1 message, 3 pairs, {len(tests)} tests: 0 files changed" in result.stdout
    assert json.loads(run(*command, "--json").stdout)["changed"] == []


@pytest.mark.kafka
def test_vectors_are_made_elsewhere(tmp_path: Path) -> None:
    arguments = ["--set", "kafka", "--filter", "VoteRequest", "--out", str(tmp_path)]
    result = run("conform", "make", *arguments)
    assert "wrote kafka/VoteRequest" in result.stdout
    written = (tmp_path / "kafka/VoteRequest.json").read_bytes()
    assert written == (vectors_root() / "kafka/VoteRequest.json").read_bytes()


def test_make_without_java_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    result = run("conform", "make", "--filter", "VoteRequest")
    assert result.exit_code == 3
    assert "install" in result.stderr


def test_make_of_an_unknown_set() -> None:
    result = run("conform", "make", "--set", "kafak")
    assert result.exit_code == 2
    assert "there is no set 'kafak'" in result.stderr


def test_adapter_speaks_the_protocol() -> None:
    lines = [
        {"cmd": "hello", "protocol": 1},
        {
            "cmd": "decode",
            "id": "d",
            "message": "RequestHeader",
            "version": 1,
            "hex": "001200030000002a0002" + "6d65",
        },
        {"cmd": "stop"},
    ]
    done = subprocess.run(
        [sys.executable, "-m", "kraftspec", "adapter", "--codec", "python"],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        check=True,
    )
    hello, header = (json.loads(line) for line in done.stdout.splitlines())
    assert hello["name"] == "kraftspec-python"
    assert header == {
        "id": "d",
        "value": {
            "requestApiKey": 18,
            "requestApiVersion": 3,
            "correlationId": 42,
            "clientId": "me",
        },
    }


def hello(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kraftspec", "adapter", *options],
        input='{"cmd":"hello","protocol":1}\n',
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.soak
def test_the_adapter_says_which_codec_answers() -> None:
    told = [hello(), hello("--codec", "python"), hello(KRAFTSPEC_PURE="1")]
    facts = [json.loads(done.stdout) for done in told]
    assert [(fact["name"], fact["notes"]) for fact in facts] == [
        ("kraftspec", f"codec: {native.describe()}"),
        ("kraftspec-python", "codec: pure Python (--codec python)"),
        ("kraftspec", "codec: pure Python (KRAFTSPEC_PURE is set)"),
    ]
    if native.load("_engine") is not None:
        assert json.loads(hello("--codec", "native").stdout)["notes"] == "codec: native"


def test_the_native_codec_is_not_pretended() -> None:
    done = hello("--codec", "native", KRAFTSPEC_PURE="1")
    assert done.returncode == 2
    assert "only pure Python (KRAFTSPEC_PURE is set)" in done.stderr


@pytest.fixture
def no_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the demo from mending the checkout that the tests are about."""
    generate = generate_room.generate

    def checked(*arguments: Any, **options: Any) -> GenerateReport:
        return generate(*arguments, **options, check=True)

    monkeypatch.setattr(generate_room, "generate", checked)


@pytest.mark.soak
@pytest.mark.usefixtures("no_writing")
def test_demo_proves_every_pair() -> None:
    result = run("demo", "--no-kafka", "--json")
    assert result.exit_code == 0
    steps = {(row["step"], row["set"]): row for row in json.loads(result.stdout)["steps"]}
    assert steps["generate", "all"]["messages"] == steps["check specs", "all"]["messages"]
    kafka = steps["verify kraftspec", "kafka"]
    assert kafka["pairs"] == 744 + 1  # and record batches
    assert kafka["verdicts"] >= kafka["vectors"] > 30_000
    assert {name for step, name in steps if step == "verify kraftspec"} == {
        "kafka", "kip-595", "kip-853", "kip-996",
    }  # fmt: skip


@pytest.fixture
def vote_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the demo to one message; every set must be shown all the same."""
    whole = run_module.run

    def cut(adapter: Any, *, filters: list[str], **options: Any) -> Results:
        return whole(adapter, filters=[*filters, "VoteRe"], **options)

    monkeypatch.setattr(run_module, "run", cut)


@pytest.mark.soak
@pytest.mark.usefixtures("no_writing", "vote_only")
def test_demo_without_java_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "java_missing", lambda: "not found: mvn; install it with: X")
    result = run("demo")
    assert result.exit_code == 0
    not_run = "Apache Kafka's own classes are not run: not found: mvn; install it with: X"
    assert not_run in result.stderr.splitlines()
    assert "verify kraftspec" in result.stdout
    assert "verify kafka" not in result.stdout
    assert "Nothing failed" in result.stdout
    refused = run("demo", "--kafka")
    assert refused.exit_code == 1
    assert "install it with: X" in refused.stderr


@pytest.mark.kafka
@pytest.mark.usefixtures("no_writing", "vote_only")
def test_demo_asks_kafka_too() -> None:
    result = run("demo", "--kafka")
    assert result.exit_code == 0
    assert result.stdout.count("verify kafka") == 4


@pytest.mark.soak
@pytest.mark.usefixtures("no_writing", "vote_only")
def test_demo_fails_when_a_codec_does(monkeypatch: pytest.MonkeyPatch, fake: str) -> None:
    monkeypatch.setattr(run_module, "adapter_named", lambda _: run_module.adapter_exec(fake))
    result = run("demo", "--no-kafka")
    assert result.exit_code == 1
    assert "bytes differ from byte" in result.stderr
    assert "Nothing failed" not in result.stdout


@pytest.mark.soak
@pytest.mark.usefixtures("no_writing", "vote_only")
def test_demo_fails_when_a_spec_does(monkeypatch: pytest.MonkeyPatch) -> None:
    mistake = Diagnostic("x.json", 2, 3, "json-comma", "a comma is missing", "write one")
    monkeypatch.setattr(check_room, "check_paths", lambda: CheckReport(1, (mistake,)))
    result = run("demo", "--no-kafka")
    assert result.exit_code == 1
    assert "\nx.json:2:3: a comma is missing" in result.stderr
    assert "1 failure in" in result.stdout
