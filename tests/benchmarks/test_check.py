"""`make bench-check` on forged runs: what it must call a regression, and what it must not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from benchmarks import check, results

ROOT = Path(__file__).resolve().parents[2]
OURS_NS = 1000.0
Run = dict[str, Any]


def forged() -> Run:
    """A run of two laps in which every target is just met, the first lap twice as slow."""
    times: dict[tuple[str, str], float] = {}
    for target in results.targets():
        times[target.group, target.ours] = OURS_NS
        for peer in target.peers:
            peer_ns = target.at_least * 1.1 * OURS_NS
            times[target.group, peer] = max(times.get((target.group, peer), 0.0), peer_ns)
    return {
        "format": results.FORMAT,
        "date": "2026-01-01",
        "commit": {"id": "0" * 40, "changed": False},
        "machine": {
            "cpu": "forged",
            "cpu_flags": [],
            "cpu_count": 2,
            "memory_gib": 8,
            "system": "forged",
            "python": "forged",
        },
        "quiet": {"load_before": 0.1, "others_cpus": 0.0},
        "laps": 2,
        "codec": "native",
        "packages": {},
        "programs": {},
        "missing": {},
        "rows": [
            {
                "group": group,
                "who": who,
                "records": 100,
                "bytes": 10_000,
                "median_ns": [2 * time_ns, time_ns],
                "low_ns": [1.8 * time_ns, 0.9 * time_ns],
                "spread": [0.01, 0.01],
            }
            for (group, who), time_ns in times.items()
        ],
    }


def slower(run: Run, factor: float, hit: Callable[[Run], bool] = lambda row: True) -> Run:
    """The same run, with the rows that ``hit`` chooses slower."""
    changed = deepcopy(run)
    for row in filter(hit, changed["rows"]):
        for figure in ("median_ns", "low_ns"):
            row[figure] = [factor * time_ns for time_ns in row[figure]]
    return changed


def without(run: Run, group: str, who: str) -> Run:
    changed = deepcopy(run)
    changed["rows"] = [row for row in run["rows"] if (row["group"], row["who"]) != (group, who)]
    assert len(changed["rows"]) < len(run["rows"])
    return changed


@pytest.fixture
def judge(tmp_path: Path) -> Callable[..., tuple[int, list[dict[str, Any]], str]]:
    """Run the command on two runs: exit code, rows and output."""

    def run(then: Run, now: Run, *options: str) -> tuple[int, list[dict[str, Any]], str]:
        paths = []
        for name, value in (("then", then), ("now", now)):
            path = tmp_path / f"{name}.json"
            path.write_text(results.dump(value), "utf-8")
            paths.append(str(path))
        command = [sys.executable, "-m", "benchmarks.check", "--json", "--against", paths[0]]
        command += ["--measured", paths[1], *options]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr
        return done.returncode, json.loads(done.stdout or "[]"), done.stderr

    return run


def verdicts(rows: list[dict[str, Any]], kind: str) -> list[str]:
    return [row["row"] for row in rows if row["verdict"] == kind]


def test_the_same_run_passes(judge: Any) -> None:
    code, rows, output = judge(forged(), forged())
    assert code == 0
    assert len(verdicts(rows, "fine")) == len(rows) == len(results.targets())
    assert f"{len(rows)} ratios compared, 0 worse, 0 not measured" in output


def test_ours_twice_as_slow_fails_and_is_named(judge: Any) -> None:
    target = results.targets()[0]

    def hit(row: Run) -> bool:
        return (row["group"], row["who"]) == (target.group, target.ours)

    code, rows, output = judge(forged(), slower(forged(), 2, hit))
    assert code == 1
    fell = verdicts(rows, "fell")
    assert target.name in fell
    assert all(name.startswith(f"{target.group}: {target.ours} /") for name in fell)
    assert f"fell: {target.name}: 1.10 to 0.55" in output


def test_all_of_ours_twice_as_slow_fails_in_every_row(judge: Any) -> None:
    ours = {(target.group, target.ours) for target in results.targets()}
    now = slower(forged(), 2, lambda row: (row["group"], row["who"]) in ours)
    code, rows, _ = judge(forged(), now)
    assert code == 1
    assert len(verdicts(rows, "fell")) == len(rows)


@pytest.mark.parametrize("factor", [0.5, 2, 7])
def test_a_machine_of_another_speed_passes(judge: Any, factor: float) -> None:
    code, rows, _ = judge(forged(), slower(forged(), factor))
    assert code == 0
    assert len(verdicts(rows, "fine")) == len(rows)


def test_a_faster_peer_is_a_lower_ratio_too(judge: Any) -> None:
    now = slower(forged(), 0.5, lambda row: row["who"] == "aiokafka")
    code, rows, _ = judge(forged(), now)
    assert code == 1
    assert all("aiokafka" in name or "PyPI" in name for name in verdicts(rows, "fell"))


def test_a_row_of_ours_that_is_gone_fails(judge: Any) -> None:
    target = results.targets()[0]
    code, rows, output = judge(forged(), without(forged(), target.group, target.ours))
    assert code == 1
    assert target.name in verdicts(rows, "lost")
    assert f"lost: {target.name}: was 1.10; ours: no {target.ours}" in output


def test_a_language_that_is_missing_is_told_and_passes(judge: Any) -> None:
    now = forged()
    now["rows"] = [row for row in now["rows"] if not row["who"].startswith("Java")]
    assert judge(forged(), now)[0] == 1  # It went without a word.
    now["missing"] = {"Java": "not found: java"}
    code, rows, output = judge(forged(), now)
    assert code == 0
    unknown = verdicts(rows, "not measured")
    assert unknown
    assert all("Java" in name for name in unknown)
    assert "Java was not measured: not found: java" in output
    assert f"{len(unknown)} not measured" in output


@pytest.mark.parametrize(("factor", "code"), [(1.1, 0), (1.3, 0), (1.4, 1)])
def test_the_tolerance_is_a_quarter(judge: Any, factor: float, code: int) -> None:
    target = next(target for target in results.targets() if target.tolerance is None)

    def hit(row: Run) -> bool:
        return (row["group"], row["who"]) == (target.group, target.ours)

    assert judge(forged(), slower(forged(), factor, hit))[0] == code
    assert judge(forged(), slower(forged(), factor, hit), "--tolerance", "0.05")[0] == 1


def test_a_row_may_have_a_tolerance_of_its_own(judge: Any) -> None:
    target = next(target for target in results.targets() if target.tolerance is not None)
    assert target.tolerance is not None
    assert target.tolerance > check.TOLERANCE

    def hit(row: Run) -> bool:
        return (row["group"], row["who"]) == (target.group, target.ours)

    within = 1 / (1 - (check.TOLERANCE + target.tolerance) / 2)
    assert judge(forged(), slower(forged(), within, hit))[0] == 0
    assert judge(forged(), slower(forged(), 1 / (1 - target.tolerance) + 0.1, hit))[0] == 1


def test_the_median_lap_counts() -> None:
    """A lap that was disturbed on one side only is outvoted by two that were not."""
    target = results.targets()[0]
    run = forged()
    for row in run["rows"]:
        disturbed = (row["group"], row["who"]) == (target.group, target.ours)
        row["median_ns"] = [(9 if disturbed else 1) * row["median_ns"][1], *row["median_ns"]]
    actual = results.ratio(run, target)
    assert actual.value == pytest.approx(target.at_least * 1.1)
    assert actual.low is not None
    assert actual.low < target.at_least / 5


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 99, "rows": []}'])
def test_a_file_that_is_no_run_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text, "utf-8")
    command = [sys.executable, "-m", "benchmarks.check", "--against", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "run.json" in done.stdout.replace("\n", "")
    assert "Traceback" not in done.stderr


def test_rounds_that_were_disturbed_do_not_count(judge: Any) -> None:
    """Someone else used the machine: medians went up, the fastest rounds stayed."""
    ours = {(target.group, target.ours) for target in results.targets()}
    now = forged()
    for row in now["rows"]:
        if (row["group"], row["who"]) in ours:
            row["median_ns"] = [3 * time_ns for time_ns in row["median_ns"]]
            row["low_ns"][0] *= 3
    code, rows, _ = judge(forged(), now)
    assert code == 0
    assert len(verdicts(rows, "fine")) == len(rows)


def test_nothing_to_compare_is_no_pass(judge: Any) -> None:
    empty = {**forged(), "rows": []}
    code, _, output = judge(empty, empty)
    assert code == 2
    assert "0 ratios compared" in output
