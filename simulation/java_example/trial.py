"""Runs of a Java file: of the whole, or of a part of its calls."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kraftspec.conformance.adapters.registry import find
from kraftspec.simulation.harness.cores import FOLDER
from kraftspec.simulation.harness.protocol import HarnessError
from kraftspec.simulation.java_example.java_file import PACKAGE, Origin, java_text, trial_text
from kraftspec.simulation.java_example.steps import Call

HELD, BROKEN, NOT_FOLLOWED = 0, 1, 3
TIMEOUT_S: Final = 900.0
_NAMED: Final = re.compile(r"^public final class (\w+)", re.MULTILINE)


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


def run(texts: Sequence[str], release: str) -> list[Outcome]:
    """Compile files together, and run each in a process, over the jars of a release.

    Raises:
        HarnessError: one does not compile.
    """
    names = [match[1] for text in texts if (match := _NAMED.search(text))]
    with tempfile.TemporaryDirectory() as folder:
        path = _compile(dict(zip(names, texts, strict=True)), folder, _jars(release))
        runs = [
            _run(["java", "-XX:TieredStopAtLevel=1", "-cp", path, f"{PACKAGE}.{name}"])
            for name in names
        ]
    return [Outcome(ran.returncode, ran.stdout) for ran in runs]


class Trials:
    """A process that makes some of the calls of a sequence, as often as it is asked."""

    def __init__(self, origin: Origin, calls: Sequence[Call]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        whole = "Whole"
        sources = {whole: java_text(origin, whole, []), "Trial": trial_text(origin, whole, calls)}
        path = _compile(sources, self._folder.name, _jars(origin.release))
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


def _compile(sources: Mapping[str, str], folder: str, path: str) -> str:
    """Compile classes into a folder, by their names; return the path that has them."""
    files = [Path(folder) / f"{name}.java" for name in sources]
    for file, text in zip(files, sources.values(), strict=True):
        file.write_text(text, "utf-8")
    options = ["-J-XX:TieredStopAtLevel=1", "-nowarn", "-proc:none", "-d", folder, "-cp", path]
    done = _run(["javac", *options, *map(str, files)])
    if done.returncode:
        raise HarnessError(f"javac refused {', '.join(sources)}:\n{done.stdout}")
    return f"{folder}:{path}"


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
        timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
