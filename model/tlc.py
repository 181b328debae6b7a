"""TLC: fetched by Maven once, run on a group, and what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from math import ceil
from pathlib import Path

import msgspec

from kraftspec.conformance.cluster.artifacts import ClusterError, jars_of
from kraftspec.conformance.cluster.guard import Guard
from kraftspec.model.groups import Group, defaults, model_root
from kraftspec.model.values import Value, parse_state

OUTPUT_LINE_COUNT_MAX = 30
OUTPUT_CHARACTERS_MAX = 3000

_COUNTS = re.compile(r"^([\d,]+) states generated, ([\d,]+) distinct states found", re.MULTILINE)
_SIMULATED = re.compile(r"^Progress: ([\d,]+) states checked", re.MULTILINE)
_DEPTH = re.compile(r"^The depth of the complete state graph search is (\d+)", re.MULTILINE)
_BROKEN = re.compile(
    r"^Error: (?:Invariant|Action property|Temporal property) (\w+) is violated"
    r"|^Error: (Temporal properties) were violated", re.MULTILINE,
)  # fmt: skip
_FINISHED = re.compile(r"^Model checking completed. No error has been found.", re.MULTILINE)
_STATE = re.compile(r"^(?:State \d+: (?:<(.*?)>|(Stuttering))|(Back) to state .*)$")

_SOME_PROPERTY = "Temporal properties"  # TLC does not say which.
_AFTER_TRACE = "Finished checking temporal properties"  # No empty line is before it.


class TlcError(Exception):
    """TLC could not be fetched or started, or did not understand the model."""


class Step(msgspec.Struct, frozen=True):
    """A state of a counterexample, and the action that led to it."""

    action: str
    state: dict[str, Value]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What TLC found. ``broken`` is a property, or "" where all held."""

    generated: int
    distinct: int
    depth: int
    seconds: float
    broken: str
    trace: list[Step]
    is_complete: bool  # Whether there is no other state within the scope.
    output: str  # All that TLC printed.


def run(
    group: Group,
    *,
    workers: int = 1,
    heap_mib: int = 2048,
    simulate_s: float = 0.0,
    depth: int = 60,
    seed: int = 0,
    is_short: bool = False,
    progress: Callable[[str], object] | None = None,
) -> Result:
    """Check a group: all of its states, or random behaviours for ``simulate_s`` seconds.

    ``is_short``: it takes some seconds, so code is to be compiled fast, and not to be fast. Raises
    ``TlcError``.
    """
    jars = _jars()
    with tempfile.TemporaryDirectory(prefix="kraftspec-model-") as scratch:
        _write(group, Path(scratch))
        command = [
            "java", f"-Xmx{heap_mib}m", f"-XX:+Use{'Parallel' if workers > 1 else 'Serial'}GC",
            *(["-XX:TieredStopAtLevel=1"] if is_short else ()),
            f"-Djava.io.tmpdir={scratch}", "-cp", os.pathsep.join(map(str, jars)), "tlc2.TLC",
            "-workers", str(workers), "-nowarning",
            "-metadir", str(Path(scratch, "states")), "-config", "Group.cfg",
        ]  # fmt: skip
        if simulate_s:
            command.insert(1, f"-Dtlc2.TLC.stopAfter={ceil(simulate_s)}")
            command += ["-simulate", "-depth", str(depth), "-seed", str(seed)]
        command.append(f"{group.module}.tla")
        began = time.monotonic()
        output = _output(command, Path(scratch), progress)
        result = read_output(output, time.monotonic() - began)
    if result.broken == _SOME_PROPERTY and group.properties and len(group.properties) == 1:
        result = msgspec.structs.replace(result, broken=group.properties[0])
    if not (result.broken or result.is_complete or simulate_s):
        lines = output.splitlines()
        first = next((at for at, line in enumerate(lines) if line.startswith("Error:")), 0)
        told = "\n".join(lines[first:] if first else lines[-OUTPUT_LINE_COUNT_MAX:])
        raise TlcError(f"TLC came to no end:\n{told[:OUTPUT_CHARACTERS_MAX]}")
    return result


def _jars() -> Sequence[Path]:
    if shutil.which("java") is None or shutil.which("mvn") is None:
        raise TlcError(
            "TLC needs a Java and Maven: apt-get install openjdk-17-jdk-headless maven, "
            "dnf install java-17-openjdk-headless maven or brew install openjdk@17 maven"
        )
    try:
        return jars_of(model_root() / "pom.xml", "tlc")
    except ClusterError as error:
        raise TlcError(str(error)) from error


def _write(group: Group, directory: Path) -> None:
    """Put modules and configuration together: TLC looks for modules beside the first one."""
    for source in (model_root(), *([Path(group.directory)] if group.directory else [])):
        for path in source.glob("*.tla"):
            shutil.copy(path, directory)
    (directory / "Group.cfg").write_text(group.configuration(defaults()), "utf-8")


def _output(
    command: Sequence[str], directory: Path, progress: Callable[[str], object] | None
) -> str:
    """Run TLC to its end, or to ours."""
    lines = []
    with Guard() as guard, subprocess.Popen(
        command, cwd=directory, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=guard.process_group,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            for line in process.stdout:
                lines.append(line)
                if line.startswith("Progress") and progress is not None:
                    progress(line.strip())
        finally:
            process.kill()
    return "".join(lines)


def read_output(output: str, seconds: float) -> Result:
    """Return what an output of TLC says; ``seconds`` is how long it took."""
    broken = _BROKEN.search(output)
    counts = [*_COUNTS.finditer(output)]
    generated, distinct = map(_number, counts[-1].groups()) if counts else (0, 0)
    if simulated := [*_SIMULATED.finditer(output)]:
        generated = _number(simulated[-1][1])
    depth = _DEPTH.search(output)
    return Result(
        generated=generated,
        distinct=distinct,
        depth=int(depth[1]) if depth else 0,
        seconds=seconds,
        broken=(broken[1] or broken[2]) if broken else "",
        trace=_trace(output) if broken else [],
        is_complete=_FINISHED.search(output) is not None,
        output=output,
    )


def _trace(output: str) -> list[Step]:
    steps: list[Step] = []
    action, text = "", list[str]()
    for line in [*output.splitlines(), ""]:
        if match := _STATE.match(line):
            action, text = match[1] or match[2] or match[3], []
        elif action and line.strip() and not line.startswith(_AFTER_TRACE):
            text.append(line)
        elif action:
            # Where a behaviour goes on for ever, the last line names no state.
            state = parse_state("\n".join(text)) if text else steps[-1].state
            steps.append(Step(action.split()[0], state))
            action = ""
    return steps


def _number(text: str) -> int:
    return int(text.replace(",", ""))
