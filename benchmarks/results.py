"""The figures of a run: reading what pytest-benchmark wrote, and the ratios to reach.

A run has laps. Each lap is a whole pass over all groups in a process of its own, so a ratio is
taken within a lap, where both sides met the same machine; the median of the laps is reported.

Of each row a lap keeps two figures: the median of its rounds, which is reported, and the pace of
its fastest tenth, which `make bench-check` uses: it hardly changes when others use the machine.
(With seven processes on two processors, medians of one ratio differed by 3 times, these by 3 %.)
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

HERE = Path(__file__).resolve().parent
COMMITTED = HERE / "results.json"
TARGETS = HERE / "targets.toml"
FORMAT = 1
PER_LAP = ("median_ns", "low_ns", "spread")


@dataclass(frozen=True)
class Target:
    """A ratio to reach: how many times faster ours is than the fastest of some peers."""

    what: str
    group: str
    ours: str
    against: str
    peers: tuple[str, ...]  # The contestants that ``against`` stands for.
    at_least: float
    tolerance: float | None = None  # How much `make bench-check` lets it fall; None: the default.
    pending: bool = False  # The committed run is older than this target, and may lack its group.

    @property
    def name(self) -> str:
        """One line that names the row and no other."""
        return f"{self.group}: {self.ours} / {self.against}"


@dataclass(frozen=True)
class Ratio:
    """What a run says about a target. All None: it was not measured, and ``lacks`` says why."""

    target: Target
    value: float | None
    low: float | None = None
    high: float | None = None
    lacks: str | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None where it was not measured."""
        return None if self.value is None else self.value >= self.target.at_least


class ResultsError(Exception):
    """A file is not what was expected; says which and why."""


def targets(path: Path = TARGETS) -> list[Target]:
    """The ratios to reach, one for each group and peer that a row of the file names."""
    table = tomllib.loads(path.read_text("utf-8"))
    several = table["best_of"]
    return [
        Target(
            row["what"],
            group,
            row["ours"],
            peer,
            tuple(several.get(peer, (peer,))),
            at_least,
            row.get("tolerance"),
            row.get("pending", False),
        )
        for row in table["ratio"]
        for group in row["groups"]
        for peer, at_least in row["at_least"].items()
    ]


def load(path: Path) -> dict[str, Any]:
    """Read a run.

    Raises:
        ResultsError: the file is not there, or is not a run of this format.
    """
    try:
        return parse(path.read_text("utf-8"), str(path))
    except OSError as error:
        raise ResultsError(f"{path}: {error.strerror}; make one with: make bench") from error


def parse(text: str, name: str) -> dict[str, Any]:
    """Read a run from text; raises ``ResultsError``, which names the source."""
    try:
        run: dict[str, Any] = json.loads(text)
        known = run["format"] == FORMAT
    except (ValueError, TypeError, KeyError) as error:
        raise ResultsError(f"{name}: not a run of the benchmarks ({error!r})") from error
    if not known:
        raise ResultsError(f"{name}: format {run['format']}, and {FORMAT} is known")
    return run


def dump(run: dict[str, Any]) -> str:
    """The text of a run: one line a row, so that a diff shows what moved."""
    rows = ",\n".join("    " + json.dumps(row) for row in run["rows"])
    head = json.dumps({key: value for key, value in run.items() if key != "rows"}, indent=2)
    return f'{head[:-2]},\n  "rows": [\n{rows}\n  ]\n}}\n'


def lap_rows(lap: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of one lap (the JSON of pytest-benchmark, with ``peers``): median and spread.

    Raises:
        ResultsError: two rows have the same group and contestant.
    """
    rows = []
    for entry in lap["benchmarks"]:
        info = entry["extra_info"]
        times = [second * 1e9 for second in entry["stats"]["data"]]
        named = entry["params"] or {}
        who = info.get("who") or named.get("who") or entry["param"] or entry["name"]
        rows.append(_row(entry["group"] or entry["name"], who, info, times))
    for entry in lap.get("peers", {}).get("rows", ()):
        rows.append(_row(entry["group"], entry["who"], entry, entry["rounds"]))
    seen = set()
    for row in rows:
        if (row["group"], row["who"]) in seen:
            raise ResultsError(f"measured twice: {row['group']}, {row['who']}")
        seen.add((row["group"], row["who"]))
    return rows


def _row(group: str, who: str, info: dict[str, Any], times_ns: list[float]) -> dict[str, Any]:
    middle = median(times_ns)
    spread = 0.0
    if len(times_ns) > 1:
        first, _, third = quantiles(times_ns, n=4)
        spread = (third - first) / middle
    low = sorted(times_ns)[len(times_ns) // 10]
    return {
        "group": group,
        "who": who,
        "records": info.get("records", 0),
        "bytes": info.get("bytes", 0),
        "median_ns": [float(f"{middle:.5g}")],
        "low_ns": [float(f"{low:.5g}")],
        "spread": [round(spread, 3)],
    }


def join(laps: Iterable[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Merge laps: a list of medians for each (group, contestant).

    A contestant that a lap lacks has null there. What was joined can be joined again.
    """
    joined: dict[tuple[str, str], dict[str, Any]] = {}
    before = 0
    for rows in laps:
        width = max((len(row["median_ns"]) for row in rows), default=1)
        for row in rows:
            key = row["group"], row["who"]
            kept = joined.setdefault(key, {**row, **{name: [None] * before for name in PER_LAP}})
            for name in PER_LAP:
                kept[name] += row[name]
        before += width
        for kept in joined.values():
            for name in PER_LAP:
                kept[name] += [None] * (before - len(kept[name]))
    order = {group: at for at, group in enumerate(dict.fromkeys(group for group, _ in joined))}
    return sorted(joined.values(), key=lambda row: order[row["group"]])


def ratio(run: dict[str, Any], target: Target) -> Ratio:
    """What a run says about a target: the median, lowest and highest ratio of its laps."""
    ours, peers, lacks = _sides(run, target, "median_ns")
    values = []
    for lap, time_ns in enumerate(ours):
        theirs = [known for peer in peers if (known := peer[lap]) is not None]
        if time_ns is not None and theirs:
            values.append(min(theirs) / time_ns)
    if not values:
        return Ratio(target, None, lacks=lacks or "no lap has both")
    return Ratio(target, median(values), min(values), max(values))


def steady_ratio(run: dict[str, Any], target: Target) -> Ratio:
    """The ratio of the fastest rounds of all laps: what a busy machine moves least."""
    ours, peers, lacks = _sides(run, target, "low_ns")
    if lacks:
        return Ratio(target, None, lacks=lacks)
    value = min(map(_least, peers)) / _least(ours)
    return Ratio(target, value, value, value)


Laps = list[float | None]


def _least(laps: Laps) -> float:
    return min(time_ns for time_ns in laps if time_ns is not None)


def _sides(run: dict[str, Any], target: Target, figure: str) -> tuple[Laps, list[Laps], str | None]:
    """Ours, each peer that is there, and what a ratio lacks."""
    times = {row["who"]: row[figure] for row in run["rows"] if row["group"] == target.group}
    if not times:
        return [], [], f"no group {target.group}"
    if target.ours not in times:
        return [], [], f"ours: no {target.ours}"
    peers = [times[who] for who in target.peers if who in times]
    return times[target.ours], peers, None if peers else f"peer: no {target.against}"


NOISY_CPUS = 0.15
NOISY_LOAD = 0.7  # The load average of a machine that did nothing much for a minute.
NOISY_SPREAD = 0.15


def disturbances(run: Mapping[str, Any]) -> list[str]:
    """What else the machine did during a run; empty for a quiet machine."""
    reasons = []
    quiet = run["quiet"]
    if quiet["load_before"] > NOISY_LOAD:
        reasons.append(f"the load average was {quiet['load_before']} when it began")
    others = quiet["others_cpus"]
    if others is not None and others > NOISY_CPUS:
        reasons.append(f"others used {others:.2f} processors on average")
    return reasons


def noise(run: dict[str, Any]) -> list[str]:
    """Why the figures of a run deserve less trust; empty where they deserve all."""
    reasons = disturbances(run)
    spreads = [value for row in run["rows"] for value in row["spread"] if value is not None]
    wide = sum(value > NOISY_SPREAD for value in spreads)
    if spreads and wide > len(spreads) / 4:
        reasons.append(
            f"in {wide} of {len(spreads)} measurements the middle half of the rounds "
            f"lies more than {NOISY_SPREAD:.0%} apart"
        )
    return reasons


def middle(row: dict[str, Any]) -> float:
    """Nanoseconds a call: the median of the laps that have the row."""
    return float(median(value for value in row["median_ns"] if value is not None))
