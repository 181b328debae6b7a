"""The rule of the tiers: a test that starts a program has the marker of that program."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import NEEDS, PROGRAMS, markers_missing, unwrapped


@pytest.mark.parametrize("program", sorted(PROGRAMS))
def test_a_program_needs_its_marker(program: str) -> None:
    needed = PROGRAMS[program]
    assert markers_missing(program, ["run"], set()) == needed
    assert markers_missing(f"/usr/bin/{program}", ["run"], {"soak"}) == needed
    for marker in NEEDS:
        assert markers_missing(program, ["run"], {marker, "soak"}) == set()


def test_what_is_there_may_be_asked() -> None:
    assert markers_missing("java", ["-version"], set()) == set()
    assert markers_missing(sys.executable, ["-c", "pass"], set()) == set()


def test_a_test_without_the_marker_fails(tmp_path: Path) -> None:
    java, cargo = tmp_path / "java", tmp_path / "cargo"
    for program in (java, cargo):
        program.write_text("#!/bin/sh\nexit 7\n")
        program.chmod(0o755)
    with pytest.raises(pytest.fail.Exception, match="java: mark it kafka or spark"):
        subprocess.run([java, "-jar", "absent.jar"], check=False)
    with pytest.raises(pytest.fail.Exception, match="cargo: mark it peers"):
        asyncio.run(asyncio.create_subprocess_exec(cargo, "build"))
    assert subprocess.run([java, "-version"], check=False).returncode == 7


def test_a_wrapper_is_not_the_program() -> None:
    assert unwrapped(["nice", "-n", "10", "env", "A=b", "go", "-C", "x"]) == ["go", "-C", "x"]
    assert unwrapped(["/usr/bin/env"]) == ["/usr/bin/env"]
    assert unwrapped(["java", "nice"]) == ["java", "nice"]


def test_what_is_not_there_cannot_be_started() -> None:
    with pytest.raises(FileNotFoundError):
        subprocess.run(["/absent/java", "-jar", "absent.jar"], check=False)


@pytest.mark.kafka
def test_a_test_with_the_marker_may_start_it() -> None:
    done = subprocess.run(["java", "-jar", "absent.jar"], capture_output=True, check=False)
    assert done.returncode == 1
