"""Contestants that take turns in one loop with a clock of its own, as a disk makes them.

A disk changes its pace from second to second. So the loop measures each round itself, and
pytest-benchmark gets the times afterwards, through its timer ``reported_time_s``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]

_reported_time_s = 0.0


def reported_time_s() -> float:
    """Return the total of the times that were reported so far."""
    return _reported_time_s


by_turns = pytest.mark.benchmark(timer=reported_time_s)


def report_times(benchmark: Any, who: str, times: list[float], **info: Any) -> None:
    """Give pytest-benchmark the times (s) of one contestant."""
    benchmark.extra_info.update(who=who, fileSystem=file_system(ROOT), **info)
    left = iter(times)

    def round_of_it() -> None:
        global _reported_time_s  # noqa: PLW0603 - the timer's clock
        _reported_time_s += next(left)

    benchmark.pedantic(round_of_it, rounds=len(times))


@contextmanager
def directory_on_disk() -> Iterator[Path]:
    """A directory beside the checkout: /tmp may be memory."""
    (ROOT / ".benchmarks").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / ".benchmarks") as path:
        yield Path(path)


def file_system(path: Path) -> str:
    """The kind of file system that ``path`` is on, where Linux has /proc/mounts."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return "unknown"
    rows = [line.split()[1:3] for line in mounts.read_text("utf-8").splitlines()]
    return max((row for row in rows if path.is_relative_to(row[0])), key=lambda row: len(row[0]))[1]
