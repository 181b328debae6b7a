"""All columns and compressions, windows of any size, filters that save work."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kraftspec.fastpath import iterate_records
from kraftspec.fastpath.columns import COLUMNS, decode_columns
from kraftspec.fastpath.records import Compression
from kraftspec.pipeline import Report, discover, plan_splits, read_split, scan, schema_of
from kraftspec.pipeline.rows import ALL_COLUMNS, ERROR_TYPE

from .segment_files import TIME_MS, batch, golden_batches, marker, transactional, write_segment


def write_all(directory: Path) -> Path:
    """Write batches of every kind: compressions, headers, nulls, control, transactions."""
    actual, offset = [], 0
    for codec in Compression:
        for count in (1, 50, 400):
            headers = [[("trace", b"%d" % at), ("null", None)][: at % 3] for at in range(count)]
            actual.append(batch(offset, count, 90, compression=codec, headers=headers))
            offset += count
    actual += [transactional(offset, 9, 5), marker(offset + 5, 9, 1)]
    return write_segment(directory / "all-3", actual)


@pytest.mark.parametrize("window", [0, 61, 500, 10_000])
@pytest.mark.parametrize("values", ["binary", "view", "large_binary"])
def test_rows_are_those_of_the_object_reader(tmp_path: Path, window: int, values: Any) -> None:
    paths = [write_all(tmp_path), write_segment(tmp_path / "golden-0", golden_batches())]
    actual = [row for path in paths for row in iterate_records(path.read_bytes())]
    expected = [
        (row.offset, row.timestamp, row.key, row.value, [(h.key, h.value) for h in row.headers])
        for row in actual
    ]
    report = Report()
    reader = scan(paths, values=values, window_bytes=window, report=report)
    assert reader.schema == schema_of(values=values)
    rows = [row for batch in reader for row in batch.to_pylist()]
    assert [
        (row["offset"], row["timestamp"], row["key"], row["value"],
         [(each["key"], each["value"]) for each in row["headers"]]) for row in rows
    ] == expected  # fmt: skip
    assert {row["compression"] for row in rows} == {*Compression}
    assert {(row["topic"], row["partition"], row["file"]) for row in rows} == {
        ("all", 3, str(paths[0])), ("golden", 0, str(paths[1])),
    }  # fmt: skip
    assert [row["is_control"] for row in rows if row["topic"] == "all"].count(True) == 1
    assert report.rows == len(expected)
    assert not report.damaged_regions


def test_positions_are_bytes_of_the_file(tmp_path: Path) -> None:
    path = write_all(tmp_path)
    data = path.read_bytes()
    for window in (61, 5_000, 0):
        for record_batch in scan(path, ["position", "offset"], window_bytes=window):
            for row in record_batch.to_pylist():
                first = int.from_bytes(data[row["position"] : row["position"] + 8])
                delta = int.from_bytes(data[row["position"] + 23 : row["position"] + 27])
                assert first <= row["offset"] <= first + delta


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED", "FAILFAST"])
@pytest.mark.parametrize(
    "columns",
    [None, [], ["topic"], ["value", "offset"], ["_error", "file"], list(reversed(ALL_COLUMNS))],
)
def test_any_columns_in_any_order(tmp_path: Path, columns: Any, mode: str) -> None:
    path = write_all(tmp_path)
    for timestamps in ("int64", "timestamp[us, tz=UTC]"):
        options: dict[str, Any] = {"mode": mode, "timestamps": timestamps}
        table = scan(path, columns, **options).read_all()
        assert table.schema == schema_of(columns, **options)
        assert all(field.nullable for field in table.schema)
        everything = columns is None
        expected = (
            [name for name in ALL_COLUMNS if mode == "PERMISSIVE" or not name.startswith("_")]
            if everything
            else columns
        )
        assert table.schema.names == expected
        batches = list(scan(path, columns, **options))
        assert sum(record_batch.num_rows for record_batch in batches) == 2_261
    filtered = scan(path, columns, [("offset", "<", 7)], mode)
    assert sum(record_batch.num_rows for record_batch in filtered) == 7


def test_the_types_spark_declares() -> None:
    schema = schema_of(values="binary", timestamps="timestamp[us, tz=UTC]")
    kinds = dict(zip(schema.names, schema.types, strict=True))
    assert kinds["value"] == kinds["_corrupt_record"] == pa.binary()
    assert kinds["timestamp"] == pa.timestamp("us", "UTC")
    assert kinds["_error"] == ERROR_TYPE
    assert kinds["topic"] == kinds["file"] == pa.string()
    assert (kinds["partition"], kinds["sequence"]) == (pa.int32(), pa.int32())
    assert kinds["headers"].value_type.names == ["key", "value"]


def test_batches_are_of_about_the_rows_asked_for(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "t-0", [batch(30 * at, 30) for at in range(40)])
    sizes = [record_batch.num_rows for record_batch in scan(path, rows_max=100)]
    assert sizes == [90] * 13 + [30]
    path = write_segment(tmp_path / "t-0", [batch(0, 1_000)])
    assert [record_batch.num_rows for record_batch in scan(path, rows_max=300)] == [
        300,
        300,
        300,
        100,
    ]


FILTERS: list[tuple[Any, Any]] = [
    ([("offset", ">=", 20)], lambda row: row["offset"] >= 20),
    ([("offset", "in", [1, 7, 500])], lambda row: row["offset"] in (1, 7, 500)),
    ([("offset", "not in", [1, 7])], lambda row: row["offset"] not in (1, 7)),
    ([("offset", "!=", 3), ("offset", "<", 9)], lambda row: row["offset"] in {*range(9)} - {3}),
    ([("compression", "=", 4)], lambda row: row["compression"] == 4),
    ([("is_control", "=", True)], lambda row: row["is_control"]),
    ([("producer_id", ">", -1)], lambda row: row["producer_id"] > -1),
    ([("sequence", "=", 3)], lambda row: row["sequence"] == 3),
    ([("topic", "=", "other")], lambda row: False),
    ([("partition", ">=", 3), ("file", "!=", "x")], lambda row: True),
    ([("offset", "<=", 2**70), ("timestamp", ">", -(2**61))], lambda row: True),
    ([("offset", "!=", 2**63), ("partition", "<", 2**40)], lambda row: True),
    ([("timestamp", ">=", 2**61)], lambda row: False),
    ([[("offset", "=", -(2**70))], [("sequence", ">", 2**63)]], lambda row: False),
    ([("offset", "in", [2**70, 4])], lambda row: row["offset"] == 4),
    ([("position", "<", 100)], lambda row: row["position"] < 100),
    ([("timestamp", ">", TIME_MS + 900)], lambda row: row["timestamp"] > TIME_MS + 900),
    (
        [("timestamp", "<=", datetime(2023, 11, 14, 22, 13, 21, tzinfo=UTC))],
        lambda row: row["timestamp"] <= TIME_MS + 1_000,
    ),
    (
        [[("offset", "<", 3)], [("compression", "=", 2), ("offset", ">=", 905)]],
        lambda row: row["offset"] < 3 or (row["compression"] == 2 and row["offset"] >= 905),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("filters", "holds"), FILTERS, ids=[str(filters)[:40] for filters, _ in FILTERS]
)
def test_filters_are_exact(tmp_path: Path, filters: Any, holds: Any) -> None:
    path = write_all(tmp_path)
    everything = scan(path).read_all().to_pylist()
    expected = [row for row in everything if holds(row)]
    for options in (
        {}, {"values": "view"}, {"timestamps": "timestamp[us, tz=UTC]"},
        {"timestamps": "timestamp[ms]", "window_bytes": 3_000},
    ):  # fmt: skip
        report = Report()
        actual = scan(path, ["offset", "value", "headers"], filters, report=report, **options)
        rows = [row for batch in actual for row in batch.to_pylist()]
        assert [row["offset"] for row in rows] == [row["offset"] for row in expected]
        assert [row["headers"] for row in rows] == [row["headers"] for row in expected]
        assert (report.rows, report.filtered_rows) in (
            (len(expected), len(everything) - len(expected)), (0, 0),
        )  # fmt: skip


def test_times_beyond_microseconds_are_the_last_one_and_no_filter_fails(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "t-0", [batch(0, 1), batch(1, 1, timestamps=2**62)])
    micros: Any = {"timestamps": "timestamp[us, tz=UTC]"}
    actual = scan(path, ["timestamp"], **micros).read_all()["timestamp"].cast(pa.int64())
    assert actual.to_pylist() == [TIME_MS * 1_000, 2**63 - 1]
    for limit, kept in ((TIME_MS + 1, [1]), (2**61, [])):
        expected = [("timestamp", ">=", limit)]
        assert scan(path, ["offset"], expected, **micros).read_all()["offset"].to_pylist() == kept
        assert scan(path, ["offset"], expected).read_all()["offset"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("filters", "reason"),
    [
        ([("value", "=", b"x")], "no filter on 'value'"),
        ([("offset", "~", 1)], "no operator '~'"),
        ([("offset", ">=", "1")], "an integer, not '1'"),
        ([("offset", ">=", True)], "an integer, not True"),
        ([("is_control", "=", 1)], "a bool, not 1"),
        ([("topic", "=", 1)], "text, not 1"),
        ([("timestamp", "<", datetime(2023, 1, 1))], "no time zone"),
        ([("offset", 1)], "is a tuple"),
        ([[]], "empty"),
        ("offset>1", "list of tuples"),
    ],
)
def test_wrong_filters_are_refused(tmp_path: Path, filters: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        scan(write_all(tmp_path), filters=filters)


def test_batches_that_cannot_match_are_not_decompressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_segment(
        tmp_path / "t-0", [batch(10 * at, 10, compression=Compression.ZSTD) for at in range(100)]
    )
    requested = []

    def counted(*arguments: Any, **options: Any) -> Any:
        actual = decode_columns(*arguments, **options)
        requested.append(actual.batches)
        return actual

    monkeypatch.setattr("kraftspec.pipeline.reader.decode_columns", counted)
    for filters, decoded in (
        ([("offset", ">=", 955)], 5),
        ([("timestamp", ">=", TIME_MS + 900)], 10),
        ([("compression", "!=", 4)], 0),
        ([("leader_epoch", "=", -1), ("offset", "in", [5, 500])], 2),
    ):
        requested.clear()
        report = Report()
        scan(path, ["offset"], filters, report=report).read_all()
        assert sum(requested) == report.batches == decoded
        assert report.skipped_batches == 100 - decoded
        assert report.rows + report.filtered_rows == 1_000


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    path = write_all(tmp_path)
    for options, reason in (
        ({"columns": ["key", "nothing"]}, "no column 'nothing'"),
        ({"columns": ["key", "key"]}, "twice"),
        ({"mode": "IGNORE"}, "mode is one of PERMISSIVE"),
        ({"isolation": "serializable"}, "isolation is one of"),
        ({"window_bytes": -1}, "negative"),
    ):
        with pytest.raises(ValueError, match=reason):
            scan(path, **options)
    with pytest.raises(TypeError, match="windows"):
        scan(path, windows=1)


def test_a_split_reads_only_its_part(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "t-0", [batch(3 * at, 3, 300) for at in range(60)])
    splits = plan_splits(discover(path), 10_000)
    report = Report()
    for split in splits:
        list(read_split(split, ["offset"], report=report))
    assert report.bytes_read == path.stat().st_size
    assert set(COLUMNS) < set(ALL_COLUMNS)
