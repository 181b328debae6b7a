"""Runs of a Java file: of the whole, or of a part of its calls."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kraftspec.conformance.adapters.registry import find
from kraftspec.simulation.harness.cores import FOLDER
from kraftspec.simulation.harness.protocol import HarnessError
from kraftspec.simulation.java_example.java_file import PACKAGE, Origin, java_text, trial_text
from kraftspec.simulation.java_example.steps import Call

HELD, BROKEN, NOT_FOLLOWED = 0, 1, 3
TIMEOUT_S: Final = 300.0


class Outcome(NamedTuple):
    """What became of a run: its exit code, and what it said."""

    code: int
    text: str

    @property
    def told(self) -> list[str]:
        """What each step let happen."""
        steps: list[list[str]] = []
        for line in self.text.splitlines():
            if re.match(r"\d+\. ", line):
                steps.append([])
            elif line.startswith("      ") and steps:
                steps[-1].append(line.strip())
        return ["; ".join(lines) for lines in steps]


def run(text: str, release: str) -> Outcome:
    """Compile a file, and run it over the jars of a release.

    Raises:
        HarnessError: it does not compile.
    """
    named = re.search(r"^public final class (\w+)", text, re.MULTILINE)
    assert named is not None
    with tempfile.TemporaryDirectory() as folder:
        path = _compile(text, named[1], folder, _jars(release))
        ran = _run(["java", "-cp", path, f"{PACKAGE}.{named[1]}"])
    return Outcome(ran.returncode, ran.stdout)


class Trials:
    """A process that makes some of the calls of a sequence, as often as it is asked."""

    def __init__(self, origin: Origin, calls: Sequence[Call]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        whole = "Whole"
        path = _compile(
            java_text(origin, whole, []), whole, self._folder.name, _jars(origin.release)
        )
        path = _compile(trial_text(origin, whole, calls), "Trial", self._folder.name, path)
        self._process = subprocess.Popen(
            ["java", "-cp", path, f"{PACKAGE}.Trial"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def breaks(self, calls: Sequence[int]) -> bool:
        """Return whether the fault is there when these calls are made, given by their places."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, calls)) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline()) == BROKEN

    def close(self) -> None:
        """End the process."""
        with self._process:
            self._process.kill()
        self._folder.cleanup()


def _jars(release: str) -> str:
    command = find(f"kafka@{release}", FOLDER).command()
    return command[command.index("-cp") + 1].partition(":")[2]


def _compile(text: str, name: str, folder: str, path: str) -> str:
    """Compile a class into a folder; return the path that has it."""
    source = Path(folder) / f"{name}.java"
    source.write_text(text, "utf-8")
    done = _run(["javac", "-nowarn", "-proc:none", "-d", folder, "-cp", path, str(source)])
    if done.returncode:
        raise HarnessError(f"{source.name} does not compile:\n{done.stdout}")
    return path if path.startswith(f"{folder}:") else f"{folder}:{path}"


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
        timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
