"""What `make bench-pipeline` makes of its figures, on forged ones; and the parts that make data."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from copy import deepcopy
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from benchmarks.pipeline import data, measure, petabyte, report, results, segments
from benchmarks.results import ResultsError

from kraftspec.conformance.making.logs import kafka_logs
from kraftspec.fastpath.batch_reader import iterate_records
from kraftspec.fastpath.scan import scan, valid_prefix

ROOT = Path(__file__).resolve().parents[2]
GB = 10**9
# Seconds by the clock and of processors, as they would be where every target is just met.
SECONDS = {
    "scan": (0.5, 0.5),
    "ceiling": (8.8, 16.0),
    "ceiling with libzstd": (8.8, 16.0),
    "kafkalog": (10.0, 20.0),
    "kafkalog aggregate": (8.0, 16.0),
    "aggregate in Arrow": (4.0, 8.0),
    "spark-sql-kafka": (20.0, 30.0),
    "spark-sql-kafka aggregate": (20.0, 30.0),
    "DumpLogSegments": (50.0, 20.0),
}


def forged() -> dict[str, Any]:
    """A run of three laps; the first took twice as long for all that is measured more than once."""
    return {
        "format": results.FORMAT,
        "date": "2026-01-01",
        "commit": {"id": "0" * 40, "changed": False},
        "machine": {
            "cpu": "forged", "cpu_flags": [], "cpu_count": 2, "memory_gib": 8,
            "system": "forged", "python": "forged",
        },
        "quiet": {"load_before": 0.1, "others_cpus": 0.0},
        "laps": 3,
        "cores": 2,
        "packages": {"pyspark": "0"},
        "java": "forged",
        "planning": {
            "files": 1000, "discover_s": 0.1, "large_files": 10, "splits": 160, "plan_s": 0.01,
            "split_bytes": 500.0,
        },
        "topics": [
            {"shape": shape.name, "title": shape.title, "records": 9 * 10**6, "bytes": GB,
             "segments": 4}
            for shape in data.SHAPES
        ],
        "rows": [
            {
                "shape": shape.name,
                "who": who,
                "wall_s": [wall] if who == "DumpLogSegments" else [2 * wall, wall, wall],
                "cpu_s": [cpu] if who == "DumpLogSegments" else [2 * cpu, cpu, cpu],
            }
            for shape in data.SHAPES
            for who, (wall, cpu) in SECONDS.items()
        ],
        "scale": [
            {"who": who, "copies": copies, "bytes": copies * GB, "wall_s": [2.0 + copies * slope]}
            for who, slope in (("kafkalog", 10.0), ("scan", 0.5))
            for copies in (1, 2, 4, 8)
        ],
        "memory": [
            {"segment_bytes": size, "rows": 1, "value_bytes": 1, "begin_bytes": 60 << 20,
             "peak_bytes": 80 << 20, "limit_bytes": 512 << 20}
            for size in (4096, (1 << 31) - 1)
        ],
    }  # fmt: skip


def all_ratios(run: dict[str, Any]) -> list[results.Ratio]:
    shapes = [topic["shape"] for topic in run["topics"]]
    return [results.ratio(run, target) for target in results.targets(shapes)]


def test_every_target_is_met_and_the_slow_lap_is_outvoted() -> None:
    actual = all_ratios(forged())
    assert [ratio for ratio in actual if not ratio.met] == []
    assert [ratio.value for ratio in actual] == pytest.approx([r.target.at_least for r in actual])
    assert {ratio.target.at_least for ratio in actual} == {40, 0.88, 2, 5}
    # Only the uncompressed topic has decoding, only the zstd topic libzstd; each has the rest.
    assert len(actual) == 1 + 1 + 4 * 3
    once = next(ratio for ratio in actual if ratio.target.against == "DumpLogSegments")
    assert (once.low, once.high) == (20.0, 40.0)


def test_what_is_read_in_turns_stands_beside_the_peer_of_its_turn_or_lap() -> None:
    run = forged()
    for row in run["rows"]:
        if row["who"] == "kafkalog":  # Two turns in each of three laps.
            row["wall_s"] = [20.0, 20.0, 10.0, 10.0, 10.0, 5.0]
        if row["who"] == "ceiling":
            row["wall_s"] = [18.0, 18.0, 9.0, 9.0, 9.0, 9.0]
    actual = {(ratio.target.shape, ratio.target.against): ratio for ratio in all_ratios(run)}
    turns, laps = actual["plain", "ceiling"], actual["plain", "spark-sql-kafka"]
    assert (turns.low, turns.value, turns.high) == pytest.approx((0.9, 0.9, 1.8))
    assert (laps.low, laps.value, laps.high) == pytest.approx((2.0, 2.0, 4.0))  # 40, 20 and 20 s.


@pytest.mark.parametrize("who", ["scan", "kafkalog", "aggregate in Arrow"])
def test_ours_a_little_slower_fails(who: str) -> None:
    run = forged()
    for row in run["rows"]:
        if row["who"] == who:
            for name in ("wall_s", "cpu_s"):
                row[name] = [1.01 * seconds for seconds in row[name]]
    assert {ratio.target.ours for ratio in all_ratios(run) if not ratio.met} == {who}
    assert "**no**" in report.page(run)


def test_a_run_is_told_the_same_each_time_and_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(results.dump(forged()), "utf-8")
    run = results.load(path)
    assert run == forged()
    page = report.page(run)
    assert page == report.page(deepcopy(run))
    assert "14 of 14 targets met" in page
    assert "| kafkalog | 10.0 | 100 | 50.0 | 0.900 |" in page
    assert "| 2,147,483,647 | 1 | 60 | 80 |" in page
    assert "quiet machine" not in page


def test_a_busy_machine_is_told_of() -> None:
    run = forged()
    run["quiet"] = {"load_before": 3.0, "others_cpus": 1.5}
    assert "The load average was 3.0 when it began." in report.page(run)
    assert "Others used 1.50 processors on average." in report.page(run)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 99}'])
def test_a_file_that_is_no_run_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text, "utf-8")
    with pytest.raises(ResultsError, match=r"run\.json"):
        results.load(path)


def test_a_row_that_is_missing_is_named() -> None:
    run = forged()
    run["rows"] = [row for row in run["rows"] if row["who"] != "ceiling"]
    with pytest.raises(ResultsError, match="no row of ceiling in plain"):
        all_ratios(run)


def test_the_line_through_points() -> None:
    run = forged()
    line = results.line([point for point in run["scale"] if point["who"] == "kafkalog"])
    assert line.fixed_s == pytest.approx(2.0)
    assert line.s_per_byte * GB == pytest.approx(10.0)
    assert line.r_squared == pytest.approx(1.0)
    # By hand: through (1, 1), (2, 2), (3, 6) goes -2 + 2.5 x, which says 0.5, 3 and 5.5.
    points = [{"bytes": size, "wall_s": [time]} for size, time in ((1, 1), (2, 2), (3, 6))]
    line = results.line(points)
    assert (line.fixed_s, line.s_per_byte) == pytest.approx((-2, 2.5))
    assert line.residuals == pytest.approx((1.0, -1 / 3, 6 / 5.5 - 1))
    assert line.r_squared == pytest.approx(1 - 1.5 / 14)


def test_the_picture_is_xml_with_every_point() -> None:
    drawn = ElementTree.fromstring(report.drawn(forged()))
    circles = [one for one in drawn.iter() if one.tag.endswith("circle")]
    assert len(circles) == 8
    assert {float(one.attrib["r"]) for one in circles} == {5.0}


def test_a_petabyte_by_hand() -> None:
    run = forged()
    actual = petabyte.paper(run)
    # 250 MB/s on two cores is 125 on each; 10^15 bytes on a thousand of them: 8000 s.
    assert actual.aggregate_s == pytest.approx(8000)
    assert actual.seven_s == pytest.approx(20_000)
    assert actual.scan_s == pytest.approx(500)
    assert actual.segments == pytest.approx(931_322.57, rel=1e-6)
    assert actual.discover_s == pytest.approx(93.13, rel=1e-3)
    assert actual.divide_s == pytest.approx(931.3, rel=1e-3)
    assert actual.plan_bytes == pytest.approx(7.45e9, rel=1e-3)
    assert actual.node_gbit_per_s == pytest.approx(16)
    assert "its processors would be the\n   limit" in petabyte.page(run)
    for row in run["rows"]:
        row["wall_s"] = [seconds / 2 for seconds in row["wall_s"]]
    assert "the network would be the\n   limit" in petabyte.page(run)


def test_what_a_topic_must_hold() -> None:
    topic = data.Topic(data.SHAPES[0], 10, Path("nowhere"))
    # Records 0 to 9 go to four partitions in turn; all of them within the first millisecond.
    assert topic.expected() == [
        (0, 3, 300, data.TIME_MS), (1, 3, 300, data.TIME_MS), (2, 2, 200, data.TIME_MS),
        (3, 2, 200, data.TIME_MS),
    ]  # fmt: skip
    topic = data.Topic(data.SHAPES[0], 4004, Path("nowhere"))
    assert topic.expected()[3] == (3, 1001, 100_100, data.TIME_MS + 4)


def test_processor_time_of_a_tree() -> None:
    burn = "import time\nwhile time.process_time() < 0.4: pass"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}], check=True)"
    took = measure.timed_process([sys.executable, "-c", nested])
    assert 0.4 <= took.cpu_s < 2.0
    # A child without a wait, as of Spark's daemon: its processor time is lost at its end.
    # It ends when its standard input does.
    unseen = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        f"child = subprocess.Popen([sys.executable, '-c', {burn!r} + chr(10) + "
        "'import sys; sys.stdin.read()'])\n"
        "time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", unseen], stdin=subprocess.PIPE) as one:
        meter, deadline = measure.Meter(one.pid), time.monotonic() + 300
        while meter.read() < 0.3:  # The system counts in hundredths, and may miss some.
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert one.stdin is not None
        one.stdin.close()
        while len(measure._tree(one.pid)) > 1:
            time.sleep(0.1)
        assert 0.3 <= meter.read() < 2.0
        took, value = meter.timed(lambda: time.sleep(0.2))
        assert value is None
        assert took.wall_s >= 0.2
        assert took.cpu_s < 0.2
        one.kill()
    fails = "import sys; sys.stderr.write('oh no'); sys.exit(3)"
    with pytest.raises(measure.MeasureError, match="ended with 3:\noh no"):
        measure.timed_process([sys.executable, "-c", fails])


@pytest.mark.kafka
@pytest.mark.parametrize("size", [4096, 100_000, 1_000_001])
def test_a_segment_of_an_exact_size(tmp_path: Path, size: int) -> None:
    source = next((kafka_logs() / "clean" / "plain-0").glob("*.log"))
    segment = segments.grown(source, tmp_path / "grown-0", size, 100)
    assert segment.path.stat().st_size == segment.size == size
    assert valid_prefix(segment.path).size == size
    offsets = [record.offset for record in iterate_records(segment.path.read_bytes())]
    assert offsets == list(range(segment.rows))
    assert sum(header.record_count for header in scan(segment.path)) == segment.rows


@pytest.mark.kafka
def test_kafkas_tool_reads_every_record_of_it(tmp_path: Path) -> None:
    source = next((kafka_logs() / "clean" / "plain-0").glob("*.log"))
    segment = segments.grown(source, tmp_path / "grown-0", 200_000, 100)
    command = data.dump_command([segment.path])
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert sum(line.startswith("| offset:") for line in output.splitlines()) == segment.rows
    assert f"offset: {segment.rows - 1} " in output


@pytest.mark.kafka
def test_a_worker_reads_a_segment_within_its_limit(tmp_path: Path) -> None:
    source = next((kafka_logs() / "clean" / "plain-0").glob("*.log"))
    segment = segments.grown(source, tmp_path / "grown-0", 64 << 20, 0)
    reported = measure.python_json("memory_worker", str(segment.path))
    assert reported["rows"] == segment.rows
    assert reported["limit_bytes"] == 512 << 20
    assert reported["begin_bytes"] < reported["peak_bytes"] < 160 << 20


def test_the_committed_page_is_that_of_the_committed_run() -> None:
    if not results.COMMITTED.is_file():
        assert not report.PAGE.exists()  # No page without its run.
        return
    command = [sys.executable, "-m", "benchmarks.pipeline.report", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(results.COMMITTED.read_text("utf-8"))["laps"] >= 3
