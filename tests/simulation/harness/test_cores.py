"""What ``--core`` says, and who runs which node."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from kraftspec.cli import main
from kraftspec.reference.profiles import profile_named
from kraftspec.simulation.harness.cores import (
    Core,
    RunCores,
    lacking_capabilities,
    parse_cores,
    process_of,
)
from kraftspec.simulation.harness.known import known_breach
from kraftspec.simulation.harness.process import HarnessProcess
from kraftspec.simulation.harness.protocol import HarnessError
from kraftspec.simulation.run import Result, simulate, swarm_of

ROOT = Path(__file__).parents[3]


def test_cores_are_named_in_turns_or_by_shares() -> None:
    assert parse_cores("kafka:4.3.1") == (Core("kafka:4.3.1"),)
    assert parse_cores("kafka:4.3.1, kraftspec") == (Core("kafka:4.3.1"), Core("kraftspec"))
    shares = "kafka=60%,kraftspec=40%"
    assert parse_cores(shares) == (Core("kafka", 60), Core("kraftspec", 40))
    assert ",".join(map(str, parse_cores(shares))) == shares


@pytest.mark.parametrize("text", ["", "kafka,", "kafka=60%,kraftspec", "kafka=60%,kraftspec=50%"])
def test_what_is_no_list_of_cores_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"core|share"):
        parse_cores(text)


def test_nodes_take_cores_in_turns() -> None:
    cores = RunCores(parse_cores("a,b,c"), seed=1)
    assert [cores.core_of(node).name for node in range(5)] == ["a", "b", "c", "a", "b"]


def test_shares_are_drawn_by_the_seed() -> None:
    def drawn(seed: int) -> list[str]:
        cores = RunCores(parse_cores("a=25%,b=75%"), seed)
        return [cores.core_of(node).name for node in range(400)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert 60 <= drawn(1).count("a") <= 140
    cores = RunCores(parse_cores("a=25%,b=75%"), 1)
    assert [cores.core_of(7).name for _ in range(9)] == [cores.core_of(7).name] * 9


def test_a_core_that_is_not_there_is_named() -> None:
    with pytest.raises(HarnessError, match="there is no adapter 'tofka'"):
        _ = Core("tofka:1.0").command
    with pytest.raises(HarnessError, match="did not start"):
        HarnessProcess(["/no/such/harness"])


def test_a_program_that_ends_or_says_something_else_is_refused() -> None:
    with pytest.raises(HarnessError, match=r"(?s)ended with 3.*what went wrong"):
        HarnessProcess(["sh", "-c", "head -c 17 >/dev/null; echo what went wrong >&2; exit 3"])
    with pytest.raises(HarnessError, match="sends a frame of 1919249761 bytes"):
        HarnessProcess(["sh", "-c", "echo remarkable; cat >/dev/null"])


def test_a_breach_is_of_the_core_of_the_node_that_it_names() -> None:
    cores = RunCores(parse_cores("kafka:4.3.1,kraftspec"), seed=1)
    assert cores.cores_of("node 1 fell from high watermark 5 to 3") == [Core("kraftspec")]
    assert cores.cores_of("leader 2 says 1 is committed") == [Core("kafka:4.3.1")]
    everybody = [Core("kafka:4.3.1"), Core("kraftspec")]
    assert cores.cores_of("node 0: leader of epoch 1; node 1: down") == everybody
    assert cores.cores_of("Operation(id=3) is acknowledged and not committed") == everybody


def test_a_known_breach_is_named_and_is_no_failure() -> None:
    name = "majority_holds_high_watermark"
    violation = (name, "leader 0 says 1 is committed; 0 of 1 voters have it on disk")
    known = known_breach([Core("kafka:4.3.1")], violation)
    assert known is not None
    assert known.finding == "KS-2026-07"
    assert known_breach([Core("kraftspec"), Core("./mine")], violation) is None
    assert known_breach([Core("kafka:5.0.0")], violation) is None
    two = (name, "leader 0 says 1 is committed; 1 of 2 voters have it on disk")
    assert known_breach([Core("kafka:4.3.1")], two) is None
    result = Result(
        seed=1, events=1, seconds=1.0, trace_hash="", simulated_seconds=1.0, faults={},
        acknowledged=0, epochs=0, properties=(), violation=violation,
    )  # fmt: skip
    assert result.is_failure
    assert not msgspec.structs.replace(result, known=known).is_failure


def _program(path: Path, *lines: str) -> Core:
    """Our own core as the program of a user, after these lines of Python."""
    path.write_text(
        "\n".join(
            (
                f"#!{sys.executable}",
                "import sys",
                "from kraftspec.simulation.harness import hosted",
                *lines,
                "hosted.serve(sys.stdin.buffer, sys.stdout.buffer)",
            )
        )
    )
    path.chmod(0o700)
    return Core(str(path))


@pytest.mark.parametrize(
    ("line", "exit_code"),
    [("", 0), ("import random; hosted.Random = lambda _: random.SystemRandom()", 3)],
    ids=["its-seed", "the-system"],
)
def test_a_program_that_takes_its_own_random_numbers_is_told(
    tmp_path: Path, line: str, exit_code: int
) -> None:
    program = _program(tmp_path / "harness", line)
    arguments = ["simulate", "--core", f"{program.name},kraftspec", "--seeds", "0..1"]
    result = CliRunner().invoke(main, [*arguments, "--events", "300", "--nodes", "3"])
    assert result.exit_code == exit_code, result.output
    assert ("seed 0 was run twice, and the runs differ" in result.output) == (exit_code == 3)


@pytest.mark.soak
def test_nothing_is_asked_of_a_harness_that_it_does_not_claim(tmp_path: Path) -> None:
    program = _program(
        tmp_path / "harness",
        "hosted.CAPABILITIES = ('pre_vote',)",
        "hosted.KINDS = ('Vote', 'BeginQuorumEpoch', 'EndQuorumEpoch', 'Fetch')",
    )
    cores = (program, Core("kraftspec"))
    profile = profile_named("kafka")
    lacking = lacking_capabilities(cores)
    assert {"dynamic_voters", "snapshots", "upgrade", "disk_faults"} <= lacking
    commands: set[str] = set()
    of_apis: set[int] = set()
    for seed in range(12):
        swarm = swarm_of(seed, profile, cores=cores)
        assert not any((swarm.kraft_version, swarm.joiners, swarm.snapshot_period_us))
        process = process_of(cores[0])
        process.record = []
        result = simulate(seed, profile, events=300, cores=cores)
        assert result.violation is None
        assert result.epochs
        for exchange in process.record:
            name, values = exchange.command[2]
            commands.add(name)
            of_apis |= {values[2]} if name == "request" else set()
            assert name != "power_loss" or values[1:] == (0, True)
    assert commands.isdisjoint({"install", "snapshot", "clean", "upgrade", "disk_fault", "rot"})
    # 82, UpdateRaftVoter: two of these ask each other, for their core is ours.
    assert of_apis - {82} == {1, 52, 53, 54}


@pytest.mark.kafka
def test_make_simulates_quorums_of_kafka() -> None:
    """As it is typed, but for the environment: the one of this test is there already."""
    command = ["make", "-o", ".venv/.ready", f"BIN={Path(sys.executable).parent}", "simulate-kafka"]
    done = subprocess.run(
        [*command, "ARGS=--seeds 0..1 --events 300"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "2 seeds" in done.stdout
