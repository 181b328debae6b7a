"""Wall time, and processor time of whole trees of processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAMPLE_S = 0.5
_TICKS = os.sysconf("SC_CLK_TCK")


class MeasureError(Exception):
    """What was measured failed, or gave something else than was written; says what."""


@dataclass(frozen=True)
class Time:
    """Seconds by the clock, and seconds that processors worked."""

    wall_s: float
    cpu_s: float

    def __add__(self, other: Time) -> Time:
        return Time(self.wall_s + other.wall_s, self.cpu_s + other.cpu_s)

    def __sub__(self, other: Time) -> Time:
        return Time(self.wall_s - other.wall_s, self.cpu_s - other.cpu_s)


class Meter:
    """The processor time of a process and all that it starts, from now on.

    Processes come and go, and what one had used goes with it (Spark's daemon waits for none of its
    workers): so the tree is looked at again and again, and what each has used since is added up.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._used_s = 0.0
        self._last = _tree(pid)
        self._lock = threading.Lock()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while Path(f"/proc/{self._pid}").exists():
            self.read()
            time.sleep(SAMPLE_S)

    def read(self) -> float:
        """Return the seconds used so far."""
        with self._lock:
            now = _tree(self._pid)
            self._used_s += sum(used - self._last.get(pid, 0.0) for pid, used in now.items())
            self._last = now
            return self._used_s

    def timed(self, work: Callable[[], Any]) -> tuple[Time, Any]:
        """Run ``work``, done by these processes; return its time and its result."""
        cpu_s, begin = self.read(), time.perf_counter()
        result = work()
        wall_s = time.perf_counter() - begin
        return Time(wall_s, self.read() - cpu_s), result


def _tree(pid: int) -> dict[int, float]:
    """Return the processor time of a process and each that descends from it, by id."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for path in Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        try:
            # The name of the command is in brackets, and may hold anything.
            fields = (path / "stat").read_text("utf-8").rpartition(")")[2].split()
        except OSError:
            continue  # It has just ended.
        parents[int(path.name)] = int(fields[1])
        used[int(path.name)] = (int(fields[11]) + int(fields[12])) / _TICKS
    tree, grown = {pid}, True
    while grown:
        children = {child for child, parent in parents.items() if parent in tree}
        grown = not children <= tree
        tree |= children
    return {one: used[one] for one in tree if one in used}


def timed_process(command: Sequence[str]) -> Time:
    """Run a command to its end, its output thrown away; ``MeasureError`` with its errors."""
    begin = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.perf_counter() - begin
    if process.returncode != 0:
        shown = errors.decode("utf-8", "replace")[-2000:]
        raise MeasureError(f"{command[0]} … ended with {process.returncode}:\n{shown}")
    return Time(wall_s, usage.ru_utime + usage.ru_stime)


def python_json(module: str, *arguments: str) -> Any:
    """Run a module of the benchmarks in a Python of its own; return the JSON that it printed."""
    command = [sys.executable, "-m", f"benchmarks.pipeline.{module}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MeasureError(f"{module} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)
