"""The performance page: it is what the committed run says, and a run is read as it was written."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from benchmarks import report, results

from kraftspec.reference.node.keys import kafka_keys

from .test_check import forged


def lap(times_ns: list[float], **info: object) -> dict[str, object]:
    """What pytest-benchmark writes of one benchmark, as far as it is read."""
    return {
        "group": "crc 1 MiB",
        "name": "test",
        "param": "x",
        "params": {"x": 1},
        "extra_info": info,
        "stats": {"data": [time / 1e9 for time in times_ns]},
    }


def test_the_page_is_what_the_committed_run_says() -> None:
    assert report.main(["--check"]) == 0


def test_the_committed_run_has_every_target() -> None:
    """So a target names a group and contestants that the benchmarks have."""
    run = results.load(results.COMMITTED)
    actual = [results.ratio(run, target) for target in results.targets()]
    unknown = [ratio for ratio in actual if ratio.value is None and not ratio.target.pending]
    assert [ratio.lacks for ratio in unknown] == []
    assert run["missing"] == {}


def test_ratios_of_the_page() -> None:
    run = forged()
    target = results.targets()[0]
    for row in run["rows"]:
        if (row["group"], row["who"]) == (target.group, target.ours):
            row["median_ns"] = [3 * time_ns for time_ns in row["median_ns"]]
    text = report.page(run)
    rows = [line for line in text.splitlines() if line.startswith(f"| {target.what} |")]
    fitting = [row for row in rows if f"| {target.group} | {target.ours} |" in row]
    assert len(fitting) == sum(other.group == target.group for other in results.targets())
    assert all("| **no** |" in row for row in fitting)
    missed = len(fitting)
    count = len(results.targets())
    assert f"{count - missed} of {count} targets met" in text
    assert "not measured" not in text
    assert "warning" not in text


def test_what_was_not_measured_and_noise_stand_on_the_page() -> None:
    run = forged()
    run["missing"] = {"Rust": "not found: cargo; install Rust"}
    run["rows"] = [row for row in run["rows"] if not row["who"].startswith("Rust")]
    text = report.page(run)
    assert "Rust was not measured: not found: cargo" in text
    assert "not measured (peer: no Rust kafka-protocol)" in text
    assert "not made on a quiet machine" not in text
    run["quiet"] = {"load_before": 3.5, "others_cpus": 1.25}
    text = report.page(run)
    assert "not made on a quiet machine" in text
    assert "The load average was 3.5 when it began" in text
    assert "Others used 1.25 processors on average" in text


def test_what_others_publish_stands_beside_a_quorum_alone() -> None:
    run = forged()
    for group in ("crc 1 MiB", "quorum 100", "TCP quorum 100"):
        run["rows"] = [{**forged()["rows"][0], "group": group}]
        has_context = "What others publish" in report.page(run)
        assert has_context == ("quorum" in group)


def test_the_defaults_that_are_told_are_kafkas() -> None:
    """As recorded from Kafka's own classes."""
    for key, value, reported in (
        ("metadata.log.max.record.bytes.between.snapshots", 20 << 20, "20 MiB of records"),
        ("metadata.log.max.snapshot.interval.ms", 3_600_000, "an hour"),
        ("metadata.max.retention.bytes", 100 << 20, "100 MiB of log"),
        ("metadata.max.idle.interval.ms", 500, "each 500 ms"),
    ):
        assert kafka_keys()[key].default == str(value)
        assert reported in report.CONTEXT
        assert f"`{key}`" in report.CONTEXT


def test_the_chart_is_sound_and_in_proportion() -> None:
    run = forged()
    group = "batch encode A/100"
    times = {row["who"]: row["median_ns"][0] for row in run["rows"] if row["group"] == group}
    root = ET.fromstring(report.picture(run))
    space = "{http://www.w3.org/2000/svg}"
    widths = [
        float(bar.get("width", 0))
        for bar in root.iter(f"{space}rect")
        if bar.get("class") in ("ours", "peer")
    ]
    assert widths
    assert max(widths) == pytest.approx(190)
    names = [text.text for text in root.iter(f"{space}text")]
    assert set(times) <= set(names)
    assert "prefers-color-scheme: dark" in report.picture(run)


def test_a_lap_is_read() -> None:
    rows = results.lap_rows(
        {
            "benchmarks": [lap([100, 200, 300, 400, 1000], who="ours", bytes=1 << 20)],
            "peers": {
                "rows": [
                    {"group": "crc 1 MiB", "who": "Java", "records": 0, "bytes": 9, "rounds": [7]}
                ]
            },
        }
    )
    assert [(row["who"], row["median_ns"], row["bytes"]) for row in rows] == [
        ("ours", [300.0], 1 << 20),
        ("Java", [7.0], 9),
    ]
    assert [row["low_ns"] for row in rows] == [[100.0], [7.0]]
    assert rows[0]["spread"][0] == pytest.approx((700 - 150) / 300, abs=1e-3)
    with pytest.raises(results.ResultsError, match="measured twice: crc 1 MiB, ours"):
        results.lap_rows({"benchmarks": [lap([1], who="ours"), lap([2], who="ours")]})


def test_laps_are_joined() -> None:
    def row(who: str, time_ns: float) -> dict[str, object]:
        row = {"median_ns": [time_ns], "low_ns": [time_ns / 2], "spread": [0.5]}
        return {"group": "g", "who": who, **row}

    joined = results.join([[row("a", 1)], [row("a", 2), row("b", 3)], [row("b", 4)]])
    assert [(kept["who"], kept["median_ns"]) for kept in joined] == [
        ("a", [1, 2, None]),
        ("b", [None, 3, 4]),
    ]
    assert [kept["low_ns"] for kept in joined] == [[0.5, 1, None], [None, 1.5, 2]]
    again = results.join([joined, [row("a", 5)]])
    assert [kept["median_ns"] for kept in again] == [[1, 2, None, 5], [None, 3, 4, None]]


def test_a_run_survives_its_file() -> None:
    run = forged()
    text = results.dump(run)
    assert results.parse(text, "run") == run
    assert len(re.findall(r"^    \{", text, re.MULTILINE)) == len(run["rows"])


@pytest.mark.parametrize(
    ("value", "text"), [(0.9449, "0.94"), (9.99, "9.99"), (12.34, "12.3"), (1234.5, "1,234")]
)
def test_figures_have_three_digits(value: float, text: str) -> None:
    assert report.figure(value) == text
