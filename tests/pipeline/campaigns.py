"""Campaigns run by the command, in a process that can be killed, and their expected results."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kraftspec.pipeline.campaign.codec import CodecFuzz
from kraftspec.pipeline.campaign.kind import Kind, Unit, release, table
from kraftspec.pipeline.campaign.store import Store, open_store

SPARK = (
    "--master", "local[2]", "--conf", "spark.driver.memory=512m",
    "--conf", "spark.driver.extraJavaOptions=-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
)  # fmt: skip
UNITS, UNIT_CASES = 40, 250
FUZZ = ("fuzz", "--target", "records", "--cases", str(UNITS * UNIT_CASES),
        "--unit-cases", str(UNIT_CASES), "--twins-one-in", "1")  # fmt: skip
WAIT_S = 600.0  # For what takes seconds where nothing else runs.


def command(*arguments: str | Path, spark: tuple[str, ...] = SPARK) -> list[str]:
    run = "from kraftspec.cli import main; main()"
    return [sys.executable, "-c", run, "pipeline", "campaign", *map(str, arguments), *spark]


def processes() -> list[tuple[int, int, str]]:
    """Return (pid, parent, command line) of all that run."""
    output = subprocess.run(
        ["ps", "-ww", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    )
    rows = (line.split(None, 2) for line in output.stdout.splitlines())
    return [(int(pid), int(parent), args) for pid, parent, args in rows]


def below(pid: int, words: str) -> list[int]:
    """Return the descendants of a process whose command line has these words."""
    family, rows = {pid}, processes()
    for _ in range(8):
        family |= {child for child, parent, _ in rows if parent in family}
    return [child for child, _, args in rows if child in family and words in args]


def workers(pid: int) -> list[int]:
    """Return Spark's Python workers: the children of a daemon that has the same command line."""
    daemons = below(pid, "pyspark.daemon")
    return [child for child, parent, _ in processes() if child in daemons and parent in daemons]


def results(directory: Path) -> dict[str, tuple[int, int]]:
    return {
        path.name: (path.stat().st_mtime_ns, path.stat().st_ino)
        for path in directory.glob("units/*.parquet")
    }


def wait(until: Callable[[], Any], driver: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not until():
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextmanager
def started(
    *arguments: str | Path, spark: tuple[str, ...] = SPARK
) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command(*arguments, spark=spark), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as driver:
        try:
            yield driver
        finally:
            driver.kill()


def unit_rows(kind: Kind, store: Store, unit: Unit) -> pa.Table:
    """Return the expected results of a unit: run here, without Spark."""
    return table(kind.schema, store.name(unit), kind.run(unit), 0.0).drop_columns("seconds")


def check_all(out: Path) -> None:
    """Hold the results of ``FUZZ`` in a directory against those of the same units, done here."""
    kind = CodecFuzz(
        cases=UNITS * UNIT_CASES, targets=("records",), one_in=1, unit_cases=UNIT_CASES
    )
    units = kind.plan()
    store = open_store(out, kind, units)
    assert len(units) == len(results(out)) == UNITS
    for unit in units:
        kept = pq.read_table(store.path(unit)).drop_columns("seconds")
        assert kept.equals(unit_rows(kind, store, unit))
    release()
