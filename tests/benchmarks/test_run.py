"""`make bench` itself, on one small group."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import results, run

from kraftspec.fastpath import native

ROOT = Path(__file__).resolve().parents[2]
QUICK = [sys.executable, "-m", "benchmarks.run", "--quick", "--no-peers"]


def bench(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*QUICK, *options], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.soak
def test_a_run_of_one_group(tmp_path: Path) -> None:
    before = results.COMMITTED.read_bytes()
    path = tmp_path / "run.json"
    done = bench("-k", "test_decode and vote-v1", "--laps", "2", "--out", str(path))
    assert done.returncode == 0, done.stdout
    loaded = results.load(path)
    rows = {row["who"]: row for row in loaded["rows"]}
    assert {row["group"] for row in loaded["rows"]} == {"decode vote-v1"}
    assert "kio" in rows
    assert any("kraftspec" in who for who in rows)
    for row in rows.values():
        assert len(row["median_ns"]) == len(row["spread"]) == 2
        assert all(100 < time_ns < 10_000_000 for time_ns in row["median_ns"])
    assert loaded["laps"] == 2
    assert loaded["machine"]["cpu"]
    assert loaded["packages"]["kio"]
    assert results.COMMITTED.read_bytes() == before


@pytest.mark.soak
def test_a_run_of_nothing_fails(tmp_path: Path) -> None:
    done = bench("-k", "no_benchmark_has_this_name")
    assert done.returncode == 1
    assert "deselected" in done.stdout


@pytest.mark.parametrize("line", ["collected 26 items", "collected 26 items / 3 deselected"])
def test_pytest_is_understood(line: str) -> None:
    """The progress display reads what pytest prints."""
    match = run._COLLECTED.search(line)
    assert match
    assert int(match[1]) - int(match[2] or 0) == (23 if "deselected" in line else 26)
    assert run._ENDED.match("benchmarks/test_crc.py::test_crc[kraftspec-64 B] PASSED [ 4%]")
    assert not run._ENDED.match("benchmarks/test_crc.py::test_crc[kraftspec-64 B]")


@pytest.mark.soak
def test_a_real_regression_is_found(tmp_path: Path) -> None:
    """Without the compiled modules ours is slower beside the same peers: the check must see it."""
    if native.load("_crc") is None:
        pytest.skip("no compiled modules: turning them off makes nothing slower")
    chosen = ["-k", "test_crc and 16 and KiB"]
    path = tmp_path / "native.json"
    assert bench(*chosen, "--out", str(path)).returncode == 0
    command = [sys.executable, "-m", "benchmarks.check", "--no-peers", "--json", "--laps", "1"]
    done = subprocess.run(
        [*command, *chosen, "--against", str(path)],
        cwd=ROOT,
        env={**os.environ, native.PURE_VARIABLE: "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    rows = {row["row"]: row for row in json.loads(done.stdout)}
    fell = rows["crc 16 KiB: kraftspec / fastcrc"]
    assert fell["verdict"] == "fell"
    assert fell["measured"] < fell["committed"] / 10
    assert "fell: crc 16 KiB: kraftspec / fastcrc" in done.stderr
