"""The figures of a run of `make bench-pipeline`, and the ratios to reach."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression, median
from typing import Any, Literal

from benchmarks.results import ResultsError

HERE = Path(__file__).resolve().parent
COMMITTED = HERE.parent / "pipeline-results.json"
TARGETS = HERE / "targets.toml"
FORMAT = 1

By = Literal["wall", "cpu"]
Run = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """A ratio to reach, in one shape of data."""

    what: str
    shape: str
    ours: str
    against: str
    by: By
    at_least: float


@dataclass(frozen=True)
class Ratio:
    """What a run says about a target: the median, least and most of its readings."""

    target: Target
    value: float
    low: float
    high: float

    @property
    def met(self) -> bool:
        """Whether the target is reached."""
        return self.value >= self.target.at_least


@dataclass(frozen=True)
class Line:
    """A line through (bytes, seconds): ``fixed_s`` where it begins, and its slope."""

    fixed_s: float
    s_per_byte: float
    residuals: tuple[float, ...]  # Of each point, as a fraction of the value of the line.
    r_squared: float


def targets(shapes: Sequence[str], path: Path = TARGETS) -> list[Target]:
    """The ratios to reach in these shapes of data."""
    rows = tomllib.loads(path.read_text("utf-8"))["ratio"]
    return [
        Target(row["what"], shape, row["ours"], row["against"], row["by"], row["at_least"])
        for row in rows
        for shape in shapes
        if shape in row.get("shapes", (shape,))
    ]


def load(path: Path) -> Run:
    """Read a run.

    Raises:
        ResultsError: the file is not there, or is no run of this format.
    """
    try:
        run: Run = json.loads(path.read_text("utf-8"))
        known = run["format"] == FORMAT
    except OSError as error:
        raise ResultsError(f"{path}: {error.strerror}; make one: make bench-pipeline") from error
    except (ValueError, TypeError, KeyError) as error:
        raise ResultsError(f"{path}: not a run of the pipeline ({error!r})") from error
    if not known:
        raise ResultsError(f"{path}: format {run['format']}, and {FORMAT} is known")
    return run


def dump(run: Run) -> str:
    """The text of a run: one line a row, so that a diff shows what moved."""
    lists = {key: value for key, value in run.items() if isinstance(value, list)}
    head = {key: value for key, value in run.items() if key not in lists}
    parts = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for key, rows in lists.items():
        lines = ",\n".join("    " + json.dumps(row) for row in rows)
        parts.append(f"  {json.dumps(key)}: [\n{lines}\n  ]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def row(run: Run, shape: str, who: str) -> dict[str, Any]:
    """The figures of a contestant; ``ResultsError`` where the run has none."""
    for row_ in run["rows"]:
        if (row_["shape"], row_["who"]) == (shape, who):
            return dict(row_)
    raise ResultsError(f"the run has no row of {who} in {shape}")


def topic(run: Run, shape: str) -> dict[str, Any]:
    """What a shape of data came to."""
    return next(topic_ for topic_ in run["topics"] if topic_["shape"] == shape)


def ratio(run: Run, target: Target) -> Ratio:
    """What a run says about a target, reading by reading, each beside the peer's of that time.

    A peer that was read once in a lap, or once in all, stands beside every reading of ours in it.
    """
    ours, theirs = (
        row(run, target.shape, who)[f"{target.by}_s"] for who in (target.ours, target.against)
    )
    values = [theirs[at * len(theirs) // len(ours)] / our_s for at, our_s in enumerate(ours)]
    return Ratio(target, median(values), min(values), max(values))


def rate(run: Run, shape: str, who: str, by: By = "wall") -> float:
    """Megabytes (10^6) of log a second, or a CPU second: the median of its readings."""
    return float(topic(run, shape)["bytes"] / 1e6 / median(row(run, shape, who)[f"{by}_s"]))


def line(points: Iterable[dict[str, Any]]) -> Line:
    """The line of least squares through the medians of points."""
    rows = list(points)
    sizes = [float(point["bytes"]) for point in rows]
    times = [float(median(point["wall_s"])) for point in rows]
    slope, fixed = linear_regression(sizes, times)
    line_ = [fixed + slope * size for size in sizes]
    mean = sum(times) / len(times)
    off = sum((time - fit) ** 2 for time, fit in zip(times, line_, strict=True))
    spread = sum((time - mean) ** 2 for time in times)
    return Line(
        fixed,
        slope,
        tuple(time / fit - 1 for time, fit in zip(times, line_, strict=True)),
        1 - off / spread if spread else 1.0,
    )
