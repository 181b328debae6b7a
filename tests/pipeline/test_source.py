"""Tables of ``kafkalog``: columns, splits, filters, bounds, damage; without a JVM."""

from __future__ import annotations

import json
import logging
import operator
import shutil
import struct
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from kraftspec.conformance.making.logs import Record, kafka_logs, partitions, records
from kraftspec.fastpath.records import Compression, TimestampType
from kraftspec.pipeline import DamagedLogError
from kraftspec.pipeline.metadata import metadata_schema
from kraftspec.pipeline.metadata import records as metadata_records
from kraftspec.pipeline.source.data_source import KafkaLog
from kraftspec.pipeline.source.options import OptionError, Options
from kraftspec.pipeline.source.ranges import DataLossError
from kraftspec.pipeline.source.reports import read_report
from kraftspec.pipeline.source.schema import COLUMNS, converter_of
from kraftspec.reference.metadata.frames import record_names

from .segment_files import TIME_MS, batch, marker, transactional, write_index, write_segment
from .source_reading import Query, Row, batches, fields, plan, rows, source

# Committed: a real controller's log and checkpoints.
METADATA = Path(__file__).parent / "data/metadata"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(milliseconds: int) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


def offsets(rows_: list[Row]) -> list[int]:
    return [row["offset"] for row in rows_]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two topics: one of three segments in partition 0, and one in partition 1; one of a few."""
    for base in (0, 30, 60):
        path = write_segment(
            tmp_path / "orders-0", [batch(base + at, 3) for at in range(0, 30, 3)], base
        )
        write_index(path)
    write_segment(tmp_path / "orders-1", [batch(at, 5) for at in range(0, 50, 5)])
    write_segment(tmp_path / "audit-0", [batch(0, 4)])
    return tmp_path


class TestColumns:
    def test_are_those_of_sparks_kafka_source(self, tmp_path: Path) -> None:
        # What its guide says; none of them is required.
        schema = source(tmp_path, {"includeHeaders": True, "mode": "FAILFAST"}).schema()
        assert [(field.name, field.dataType.simpleString()) for field in schema.fields] == [
            ("key", "binary"),
            ("value", "binary"),
            ("topic", "string"),
            ("partition", "int"),
            ("offset", "bigint"),
            ("timestamp", "timestamp"),
            ("timestampType", "int"),
            ("headers", "array<struct<key:string,value:binary>>"),
        ]
        assert all(field.nullable for field in schema.fields)

    def test_arrow_types_are_what_spark_makes_of_them(self, tmp_path: Path) -> None:
        schema = source(tmp_path, {"includeHeaders": True, "includeMetadata": True}).schema()
        assert len(schema.fields) == 7 + 1 + 9 + 2
        mine = pa.schema([pa.field(name, COLUMNS[name].arrow) for name in schema.fieldNames()])
        assert mine.equals(to_arrow_schema(schema, timezone="UTC"))

    def test_metadata(self, tmp_path: Path) -> None:
        path = write_segment(
            tmp_path / "t-0",
            [
                batch(7, 1, partition_leader_epoch=3, compression=Compression.GZIP),
                batch(
                    8, 2, producer_id=5, producer_epoch=2, base_sequence=40, transactional=True,
                    timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=TIME_MS,
                ),
            ],
        )  # fmt: skip
        first, *_, last = rows(tmp_path, includeMetadata=True, mode="FAILFAST")
        assert {name: first[name] for name in list(first)[5:]} == {
            "timestamp": instant(TIME_MS + 7),
            "timestampType": 0,
            "leaderEpoch": 3,
            "producerId": -1,
            "producerEpoch": -1,
            "sequence": -1,
            "isControl": False,
            "isTransactional": False,
            "compression": "gzip",
            "file": str(path),
            "batchPosition": 0,
        }
        assert (last["producerId"], last["producerEpoch"], last["sequence"]) == (5, 2, 41)
        assert (last["isTransactional"], last["compression"]) == (True, "none")
        assert last["batchPosition"] > 0
        assert (last["timestampType"], last["timestamp"]) == (1, instant(TIME_MS))

    def test_a_schema_chooses_and_orders(self, logs: Path) -> None:
        actual = rows(logs, fields("offset", "topic", "value"), subscribe="audit")
        assert list(actual[0]) == ["offset", "topic", "value"]
        assert offsets(actual) == [0, 1, 2, 3]

    def test_no_columns_still_have_a_number(self, logs: Path) -> None:
        reader, tasks, _ = plan(logs, StructType([]))
        assert (
            sum(record_batch.num_rows for record_batch in batches(reader, tasks, StructType([])))
            == 144
        )

    @pytest.mark.parametrize(
        ("path", "names", "options"),
        [
            (None, ("OFFSET", "batchposition", "Topic"), {"includeMetadata": True}),
            (METADATA, ("OFFSET", "Record", "tYPE"), {"decode": "metadata"}),
        ],
    )
    def test_names_are_of_any_case(
        self, logs: Path, path: Path | None, names: tuple[str, ...], options: Row
    ) -> None:
        every = source(path or logs, options).schema()
        known = {name.lower(): name for name in every.fieldNames()}
        schema = StructType(
            [StructField(name, every[known[name.lower()]].dataType) for name in names]
        )
        actual = rows(path or logs, schema, [LessThan(("OFFSET",), 31)], **options)
        assert actual
        plain = rows(path or logs, None, [LessThan(("offset",), 31)], **options)
        assert actual == [{name: row[known[name.lower()]] for name in names} for row in plain]

    def test_a_column_that_is_there_twice(self, logs: Path) -> None:
        twice = StructType([StructField(name, StringType()) for name in ("topic", "TOPIC")])
        with pytest.raises(OptionError, match="schema: column TOPIC is there twice"):
            plan(logs, twice)

    @pytest.mark.parametrize(
        ("field", "message"),
        [
            (StructField("ofset", IntegerType()), "has no column ofset; it has key, value, topic"),
            (StructField("offset", IntegerType()), "column offset is bigint, not int; cast it"),
        ],
    )
    def test_another_schema_is_refused(self, logs: Path, field: StructField, message: str) -> None:
        with pytest.raises(OptionError, match=r"^schema: ") as raised:
            plan(logs, StructType([field]))
        assert message in str(raised.value)


class TestRealLogs:
    """What Apache Kafka's own consumer read from the same directory."""

    @staticmethod
    def read(directory: str, isolation: str) -> tuple[Counter[Any], Counter[Any]]:
        root = kafka_logs()
        truth = root / f"{directory}_read"
        starts = {(one.topic, one.partition): one.start_offset for one in
                  partitions(truth / "partitions.jsonl")}  # fmt: skip
        options: Row = {"kafka.isolation.level": isolation, "mode": "DROPMALFORMED"}
        actual = rows(root / directory, includeHeaders=True, **options)
        # The log start offset, below which records may remain, is no part of the files.
        mine = Counter(
            as_tuple(row)
            for row in actual
            if row["offset"] >= starts.get((row["topic"], row["partition"]), 1 << 62)
        )
        return mine, Counter(map(as_read, records(truth / f"{isolation}.jsonl")))

    @pytest.mark.kafka
    @pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
    def test_rows_are_those_of_kafkas_consumer(self, isolation: str) -> None:
        mine, consumed = self.read("clean", isolation)
        assert mine == consumed
        assert consumed.total() > 4_000


def as_tuple(row: Row) -> tuple[Any, ...]:
    return (
        row["topic"], row["partition"], row["offset"], row["timestamp"], row["timestampType"],
        row["key"], row["value"], tuple((one["key"], one["value"]) for one in row["headers"]),
    )  # fmt: skip


def as_read(record: Record) -> tuple[Any, ...]:
    kind = {"createtime": 0, "logappendtime": 1}[record.timestamp_type or ""]
    return (
        record.topic, record.partition, record.offset, instant(record.timestamp), kind,
        record.key, record.value, tuple((key, value) for key, value in record.headers),
    )  # fmt: skip


class TestSplits:
    def test_each_row_comes_once_however_small_they_are(self, logs: Path) -> None:
        whole = rows(logs)
        reader, tasks, _ = plan(logs, splitBytes=200)
        assert len(tasks) > 20
        schema = source(logs, {}).schema()
        assert [row for one in batches(reader, tasks, schema) for row in one.to_pylist()] == whole
        assert len(whole) == 144

    def test_small_files_share_a_task(self, logs: Path) -> None:
        assert len(plan(logs)[1]) == 1

    def test_min_partitions(self, logs: Path) -> None:
        assert len(plan(logs, minPartitions=8)[1]) >= 8

    def test_a_task_without_work_has_no_rows(self, logs: Path) -> None:
        reader, tasks, _ = plan(logs, None, [EqualTo(("topic",), "none")])
        assert tasks == []
        assert list(reader.read(InputPartition(None))) == []


NAMED: list[tuple[Filter, Callable[[Row], bool]]] = [
    (EqualTo(("offset",), 31), lambda row: row["offset"] == 31),
    (GreaterThan(("offset",), 31), lambda row: row["offset"] > 31),
    (Not(GreaterThan(("offset",), 31)), lambda row: row["offset"] <= 31),
    (Not(EqualTo(("offset",), 31)), lambda row: row["offset"] != 31),
    (In(("offset",), (1, 40, None)), lambda row: row["offset"] in (1, 40)),
    (Not(In(("offset",), (1, 40))), lambda row: row["offset"] not in (1, 40)),
    (LessThanOrEqual(("partition",), 0), lambda row: row["partition"] <= 0),
    (EqualTo(("topic",), "orders"), lambda row: row["topic"] == "orders"),
    (In(("topic",), ("audit", "x")), lambda row: row["topic"] == "audit"),
    (Not(EqualTo(("topic",), "audit")), lambda row: row["topic"] != "audit"),
    *(
        (kind(("timestamp",), instant(TIME_MS + 30) + timedelta(microseconds=rest)), test)
        for rest in (0, 1, 999)
        for kind, test in (
            (EqualTo, lambda row, r=rest: row["us"] == 30_000 + r),
            (LessThan, lambda row, r=rest: row["us"] < 30_000 + r),
            (LessThanOrEqual, lambda row, r=rest: row["us"] <= 30_000 + r),
            (GreaterThan, lambda row, r=rest: row["us"] > 30_000 + r),
            (GreaterThanOrEqual, lambda row, r=rest: row["us"] >= 30_000 + r),
        )
    ),
]


class TestFilters:
    @pytest.mark.parametrize(("filter_", "test"), NAMED, ids=[str(one)[:60] for one, _ in NAMED])
    def test_that_are_taken_keep_the_same_rows(
        self, logs: Path, filter_: Filter, test: Callable[[Row], bool]
    ) -> None:
        every = rows(logs)
        start, unit = instant(TIME_MS), timedelta(microseconds=1)
        expected = [row for row in every if test({**row, "us": (row["timestamp"] - start) // unit})]
        assert rows(logs, None, [filter_]) == expected

    @pytest.mark.parametrize(
        "filter_",
        [
            IsNotNull(("offset",)),
            EqualNullSafe(("offset",), 3),
            EqualTo(("offset",), None),
            EqualTo(("value",), b"x"),
            EqualTo(("compression",), "gzip"),
            EqualTo(("headers", "key"), "x"),
            StringStartsWith(("topic",), "o"),
            GreaterThan(("topic",), "o"),
            Not(In(("offset",), (1, None))),
            Not(IsNotNull(("offset",))),
            In(("timestamp",), (instant(1),)),
        ],
        ids=str,
    )
    def test_others_are_given_back(self, logs: Path, filter_: Filter) -> None:
        assert plan(logs, None, [filter_])[2] == [filter_]

    def test_files_and_batches_without_rows_are_not_read(self, logs: Path, tmp_path: Path) -> None:
        report = tmp_path / "report"
        actual = rows(
            logs,
            None,
            [GreaterThan(("offset",), 70), EqualTo(("topic",), "orders")],
            report=report,
        )
        assert offsets(actual) == list(range(71, 90))
        report_ = read_report(str(report))
        assert report_.rows == 19
        assert (
            report_.reads == 2
        )  # Of four files: one partition has its last segment, one no others.
        sizes = [path.stat().st_size for path in sorted(logs.glob("orders-*/*.log"))]
        assert report_.bytes_read < sizes[2] + sizes[3]

    def test_a_reader_that_takes_none(self, logs: Path) -> None:
        actual = GreaterThan(("offset",), 3)
        assert plan(logs, None, [actual], pushFilters=False)[2] == [actual]


class TestPaths:
    def test_several(self, logs: Path) -> None:
        names = ["audit-0", "orders-1"]
        reader = KafkaLog({"paths": json.dumps([str(logs / name) for name in names])}).reader(
            fields("topic", "partition")
        )
        tasks = list(reader.partitions())
        read = batches(reader, tasks, fields("topic", "partition"))
        actual = {f"{row['topic']}-{row['partition']}" for each in read for row in each.to_pylist()}
        assert actual == {*names}


class TestTopics:
    def test_by_name(self, logs: Path) -> None:
        assert {row["topic"] for row in rows(logs, subscribe=" audit,")} == {"audit"}

    def test_by_pattern_of_the_whole_name(self, logs: Path) -> None:
        assert {row["topic"] for row in rows(logs, subscribePattern="ord.*")} == {"orders"}

    def test_by_partition(self, logs: Path) -> None:
        actual = rows(logs, assign='{"orders":[1]}')
        assert {(row["topic"], row["partition"]) for row in actual} == {("orders", 1)}
        assert len(actual) == 50

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                {"subscribe": "orders,nope"},
                "subscribe: there is no nope below the path; it has audit-0, orders-0, orders-1",
            ),
            ({"assign": '{"orders":[0,9]}'}, "assign: there is no orders-9 below"),
            ({"subscribePattern": "ord"}, "subscribePattern: there is no ord below"),
            ({"decode": "metadata"}, "decode: there is no __cluster_metadata below"),
            ({"subscribe": "nope", "startingOffsets": "earliest"}, "subscribe: there is no nope"),
        ],
    )
    def test_that_are_not_there_are_named(self, logs: Path, options: Row, message: str) -> None:
        with pytest.raises(OptionError, match=f"option {message}"):
            rows(logs, **options)

    def test_that_are_not_there_yet_are_waited_for(self, logs: Path) -> None:
        query = Query(logs, fields("offset"), subscribe="later", startingOffsets="earliest")
        assert query.step() == []
        write_segment(logs / "later-0", [batch(0)])
        assert offsets(query.step()) == [0, 1, 2]


class TestBounds:
    @pytest.mark.parametrize(
        ("start", "end"), [(0, 90), (31, 62), (29, 31), (30, 60), (89, 90), (1, 2), (45, 45)]
    )
    def test_offsets(self, logs: Path, start: int, end: int) -> None:
        actual = rows(
            logs,
            assign='{"orders":[0]}',
            startingOffsets=f'{{"orders":{{"0":{start}}}}}',
            endingOffsets=f'{{"orders":{{"0":{end}}}}}',
        )
        assert offsets(actual) == list(range(start, end))

    def test_words_are_all(self, logs: Path) -> None:
        assert rows(logs, startingOffsets="earliest", endingOffsets="latest") == rows(logs)

    def test_earliest_and_latest_by_partition(self, logs: Path) -> None:
        actual = rows(
            logs,
            subscribe="orders",
            startingOffsets='{"orders":{"0":-2,"1":48}}',
            endingOffsets='{"orders":{"0":2,"1":-1}}',
        )
        assert [(row["partition"], row["offset"]) for row in actual] == [
            (0, 0), (0, 1), (1, 48), (1, 49),
        ]  # fmt: skip

    def test_times_are_of_the_first_record_from_then_on(self, tmp_path: Path) -> None:
        times = [10, 30, 20, 40, 15, 50]
        for base in (0, 3):
            stamps = [TIME_MS + time for time in times[base : base + 3]]
            write_segment(tmp_path / "t-0", [batch(base, 3, timestamps=stamps)], base)
        # As Kafka's offsetsForTimes: the record of 20, which comes later, is read as well.
        actual = rows(tmp_path, startingTimestamp=TIME_MS + 25, endingTimestamp=TIME_MS + 41)
        assert offsets(actual) == [1, 2, 3, 4]
        actual = rows(
            tmp_path,
            startingOffsetsByTimestamp=f'{{"t":{{"0":{TIME_MS + 40}}}}}',
            endingOffsetsByTimestamp=f'{{"t":{{"0":{TIME_MS + 99}}}}}',
        )
        assert offsets(actual) == [3, 4, 5]

    def test_a_start_after_all_records(self, logs: Path) -> None:
        late: Row = {"startingTimestamp": TIME_MS + 1_000, "subscribe": "audit"}
        with pytest.raises(OptionError, match="startingTimestamp: audit-0 has no record of 17000"):
            rows(logs, **late)
        assert rows(logs, **late, startingOffsetsByTimestampStrategy="latest") == []

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"startingOffsets": '{"orders":{"0":0}}'}, "must name all partitions: orders-1 lacks"),
            (
                {"endingOffsets": '{"orders":{"0":1,"1":1,"7":1}}'},
                "endingOffsets: there is no partition orders-7",
            ),
            ({"startingOffsets": "latest"}, "a table that starts at the latest is empty"),
        ],
    )
    def test_what_is_wrong_is_named(self, logs: Path, options: Row, message: str) -> None:
        with pytest.raises(OptionError, match=message):
            rows(logs, subscribe="orders", **options)

    def test_offsets_that_are_not_there(self, logs: Path, caplog: pytest.LogCaptureFixture) -> None:
        (logs / f"orders-0/{0:020}.log").unlink()
        options: Row = {"assign": '{"orders":[0]}', "startingOffsets": '{"orders":{"0":5}}'}
        with pytest.raises(DataLossError, match="orders-0: offsets 5 to 29 are deleted; with fail"):
            rows(logs, **options)
        with caplog.at_level(logging.WARNING):
            assert offsets(rows(logs, **options, failOnDataLoss=False)) == list(range(30, 90))
        assert "orders-0: offsets 5 to 29 are deleted" in caplog.text
        with pytest.raises(DataLossError, match="orders-0 ends at offset 90, not 91"):
            rows(logs, assign='{"orders":[0]}', endingOffsets='{"orders":{"0":91}}')

    def test_a_partition_in_two_directories_has_no_offsets(self, tmp_path: Path) -> None:
        for broker in ("one", "two"):
            write_segment(tmp_path / broker / "t-0", [batch(0)])
        assert len(rows(tmp_path)) == 6
        with pytest.raises(OptionError, match=r"t-0 is in .*one/t-0 and in .*two/t-0"):
            rows(tmp_path, startingOffsets="earliest")


class TestControlRecords:
    @pytest.fixture
    def log(self, tmp_path: Path) -> Path:
        write_segment(
            tmp_path / "t-0",
            [transactional(0, 7), marker(2, 7, 0), transactional(3, 7), marker(5, 7, 1), batch(6)],
        )
        return tmp_path

    def test_are_no_rows_as_for_a_consumer(self, log: Path, tmp_path: Path) -> None:
        actual = rows(log, report=tmp_path / "report")
        assert offsets(actual) == [0, 1, 3, 4, 6, 7, 8]
        report_ = read_report(str(tmp_path / "report"))
        assert (report_.rows, report_.control_rows) == (7, 2)

    def test_may_be_asked_for(self, log: Path) -> None:
        actual = rows(log, includeControl=True, includeMetadata=True)
        assert [row["offset"] for row in actual if row["isControl"]] == [2, 5]
        assert len(actual) == 9

    def test_committed_data(self, log: Path) -> None:
        options: Row = {"kafka.isolation.level": "read_committed"}
        actual = rows(log, **options)
        assert offsets(actual) == [3, 4, 6, 7, 8]

    def test_a_damaged_marker_may_be_known_from_its_index(self, tmp_path: Path) -> None:
        bad = bytearray(marker(2, 7, 0))
        bad[70] ^= 1
        log = write_segment(tmp_path / "t-0", [transactional(0, 7), bytes(bad), batch(3)])
        index = log.with_suffix(".txnindex")
        index.write_bytes(struct.pack(">hqqqq", 0, 7, 0, 2, 3))
        options: Row = {"kafka.isolation.level": "read_committed", "mode": "DROPMALFORMED"}
        assert offsets(rows(tmp_path, **options)) == []
        options |= {"useTxnIndexes": True, "report": tmp_path / "told"}
        bounded = {**options, "endingOffsets": "latest"}
        for value in (options, bounded):
            assert offsets(rows(tmp_path, **value)) == [3, 4, 5]
            report_ = read_report(str(tmp_path / "told"))
            assert [one.producer_id for one in report_.indexed] == [7]
        index.write_bytes(struct.pack(">hqqqq", 0, 8, 0, 1, 2))
        assert offsets(rows(tmp_path, **options)) == []
        (fault,) = read_report(str(tmp_path / "told")).txn_index_faults
        assert fault.file == str(index)
        with pytest.raises(DamagedLogError, match="offset 1 has no marker"):
            rows(tmp_path, **{**options, "mode": "FAILFAST"})


_FILTERS: list[tuple[Callable[[str, Any], Filter], Callable[[Any, Any], bool]]] = [
    (lambda name, value: EqualTo((name,), value), operator.eq),
    (lambda name, value: Not(EqualTo((name,), value)), operator.ne),
    (lambda name, value: GreaterThan((name,), value), operator.gt),
    (lambda name, value: LessThanOrEqual((name,), value), operator.le),
    (lambda name, value: In((name,), (value, None)), operator.eq),
]


class TestDamage:
    @pytest.fixture
    def log(self, tmp_path: Path) -> Path:
        bad = bytearray(batch(3))
        bad[-1] ^= 1
        write_segment(tmp_path / "t-0", [batch(0), bytes(bad), batch(6)])
        return tmp_path

    def test_is_a_row_by_default(self, log: Path) -> None:
        *_, damaged = actual = sorted(rows(log), key=lambda row: row["_error"] is not None)
        assert offsets(actual) == [0, 1, 2, 6, 7, 8, None]
        assert damaged["_error"]["class"] == "crc_mismatch"
        assert damaged["_error"]["file"].endswith("/t-0/00000000000000000000.log")
        assert damaged["_error"]["position"] == len(batch(0))
        assert damaged["_corrupt_record"][:-1] == batch(3)[:-1]
        assert (damaged["topic"], damaged["partition"]) == ("t", 0)

    def test_is_counted_where_no_column_shows_it(
        self, log: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.WARNING):
            actual = rows(log, fields("offset"), report=tmp_path / "report")
        assert offsets(actual) == [0, 1, 2, 6, 7, 8]
        assert "1 damaged region (" in caplog.text
        report_ = read_report(str(tmp_path / "report"))
        assert (report_.rows, report_.dropped_regions, report_.damaged[0].records) == (6, 1, 3)

    @pytest.mark.parametrize(
        ("filter_", "rows_of_damage"),
        [
            (GreaterThan(("offset",), -1), 0),
            (Not(In(("offset",), (77,))), 0),
            (EqualTo(("topic",), "t"), 1),
            (GreaterThan(("batchPosition",), 1), 1),
        ],
    )
    def test_passes_no_filter_on_what_it_has_not(
        self, log: Path, tmp_path: Path, filter_: Filter, rows_of_damage: int
    ) -> None:
        left = rows(log, None, [filter_], report=tmp_path / "report")
        assert len([row for row in left if row["_error"]]) == rows_of_damage
        report_ = read_report(str(tmp_path / "report"))
        assert (report_.damaged_regions, report_.dropped_regions) == (1, 1 - rows_of_damage)

    @pytest.mark.parametrize("decode", [None, "metadata"])
    def test_passes_just_the_filters_that_spark_would_let_it_pass(
        self, tmp_path: Path, decode: str | None
    ) -> None:
        records = METADATA / f"{0:020}.log"
        real = b"" if decode is None else records.read_bytes()
        bad = bytearray(batch(3))
        bad[-1] ^= 1
        options: Row = {"includeMetadata": True} if decode is None else {"decode": decode}
        topic = "__cluster_metadata" if decode else "t"
        for number in range(2):
            written = [bytes(bad), real, batch(6_000), b"\xff" * 99, batch(6_003)]
            write_segment(tmp_path / f"{topic}-{number}", written)
        every = rows(tmp_path, None, (), **options)
        assert sum(row["_error"] is not None for row in every) >= 4
        schema = source(tmp_path, options).schema()
        converter = converter_of(
            Options.parse(
                {"path": str(tmp_path), **{name: str(each) for name, each in options.items()}}
            ),
            schema,
        )
        for name in converter.filterable:
            values = sorted({row[name] for row in every if row[name] is not None})
            for value in {values[0], values[len(values) // 2], values[-1]}:
                for actual, passes in _FILTERS:
                    if plan(tmp_path, None, [actual(name, value)], **options)[2]:
                        assert isinstance(value, (str, datetime))
                        continue  # Spark applies it.
                    expected = [row for row in every if row[name] is not None]
                    expected = [row for row in expected if passes(row[name], value)]
                    assert rows(tmp_path, None, [actual(name, value)], **options) == expected, name

    def test_may_be_dropped_and_counted(self, log: Path, tmp_path: Path) -> None:
        actual = rows(log, mode="DROPMALFORMED", report=tmp_path / "report")
        assert offsets(actual) == [0, 1, 2, 6, 7, 8]
        assert "_error" not in actual[0]
        assert read_report(str(tmp_path / "report")).damaged_bytes == len(batch(3))

    def test_may_fail(self, log: Path) -> None:
        with pytest.raises(DamagedLogError, match=r"t-0/0+\.log, byte \d+: crc at byte"):
            rows(log, mode="FAILFAST")

    def test_two_tasks_report_as_one_and_twice_as_once(self, log: Path, tmp_path: Path) -> None:
        for _ in range(2):
            rows(log, splitBytes=1, report=tmp_path / "report")
        assert read_report(str(tmp_path / "report")).rows == 6

    def test_a_file_that_is_gone_is_lost_data(self, log: Path) -> None:
        schema = source(log, {}).schema()
        for fails, expected in ((True, None), (False, "gone")):
            write_segment(log / "t-0", [batch(0)])
            reader, tasks, _ = plan(log, failOnDataLoss=fails)
            (log / f"t-0/{0:020}.log").unlink()
            if fails:
                with pytest.raises(DataLossError, match="the file is gone"):
                    list(batches(reader, tasks, schema))
            else:
                (one,) = batches(reader, tasks, schema)
                assert one["_error"][0]["class"].as_py() == expected


class TestMetadata:
    """The metadata log, decoded: what ``kraftspec.pipeline.metadata`` says, in Spark's types."""

    @pytest.mark.parametrize("record_type", [None, *record_names()])
    def test_types_survive_spark(self, tmp_path: Path, record_type: str | None) -> None:
        options = {"decode": "metadata", **({"recordType": record_type} if record_type else {})}
        schema = source(tmp_path, options).schema()
        expected = metadata_schema(record_type=record_type)
        assert to_arrow_schema(schema, timezone="UTC").equals(expected)

    @pytest.mark.parametrize("record_type", [None, "TopicRecord", "FeatureLevelRecord"])
    def test_rows_are_those_of_the_core(self, record_type: str | None) -> None:
        options: Row = {} if record_type is None else {"recordType": record_type}
        actual = rows(METADATA, decode="metadata", **options)
        assert actual == metadata_records(METADATA, record_type=record_type).read_all().to_pylist()
        assert actual

    def test_filters_and_columns(self) -> None:
        names = ("offset", "type", "record")
        schema = fields(*names, source_=source(METADATA, {"decode": "metadata"}))
        actual = rows(METADATA, schema, [LessThan(("offset",), 5)], decode="metadata")
        every = metadata_records(METADATA, columns=names, mode="FAILFAST").read_all().to_pylist()
        assert actual == [row for row in every if row["offset"] < 5]

    def test_damage_without_a_column_to_show_it(self, tmp_path: Path) -> None:
        write_segment(tmp_path / "__cluster_metadata-0", [batch(0), b"\xff" * 99])
        log_source = source(tmp_path, {"decode": "metadata"})
        shown = rows(tmp_path, fields("offset", "_error", source_=log_source), decode="metadata")
        assert [row["offset"] for row in shown] == [0, 1, 2, None]
        assert all(row["_error"] for row in shown)
        report = tmp_path / "report"
        assert (
            rows(tmp_path, fields("offset", source_=log_source), decode="metadata", report=report)
            == []
        )
        assert read_report(str(report)).damaged_regions == 4

    def test_other_topics_are_passed_over(self, tmp_path: Path) -> None:
        shutil.copytree(METADATA, tmp_path / "__cluster_metadata-0")
        write_segment(tmp_path / "orders-0", [batch(0)])
        actual = rows(tmp_path, decode="metadata", mode="FAILFAST")
        assert {Path(row["file"]).parent.name for row in actual} == {"__cluster_metadata-0"}

    def test_a_stream_of_it(self, tmp_path: Path) -> None:
        copied = shutil.copytree(METADATA, tmp_path / "__cluster_metadata-0")
        schema = fields("offset", source_=source(copied, {"decode": "metadata"}))
        query = Query(copied, schema, decode="metadata", startingOffsets="earliest")
        every = metadata_records(copied, ["offset", "checkpoint"], mode="FAILFAST").read_all()
        expected = [row["offset"] for row in every.to_pylist() if not row["checkpoint"]]
        assert offsets(query.step()) == expected

    def test_what_is_wrong_is_named(self, tmp_path: Path) -> None:
        wrong = {"decode": "metadata", "recordType": "TopicsRecord"}
        with pytest.raises(OptionError, match=r"option recordType: there is no .*TopicRecord"):
            source(tmp_path, wrong).schema()
        with pytest.raises(OptionError, match="option recordType goes with decode=metadata"):
            source(tmp_path, {"recordType": "TopicRecord"}).schema()
