"""``kafkalog`` through a real Spark: what only the JVM's side can show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession

from kraftspec.conformance.making.logs import kafka_logs, partitions, records

from .segment_files import batch, write_segment

TRUTH = "clean_read"


def read(spark: SparkSession, path: Path, **options: Any) -> DataFrame:
    return spark.read.format("kafkalog").options(**options).load(str(path))


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    write_segment(tmp_path / "t-0", [batch(0), batch(3)[:-1]])
    return tmp_path


class TestQueries:
    def test_sums_are_those_of_kafkas_consumer(self, spark: SparkSession) -> None:
        root = kafka_logs()
        starts = {
            one.topic: one.start_offset
            for one in partitions(root / TRUTH / "partitions.jsonl")
            if one.topic == "trimmed"
        }
        expected: dict[tuple[str, int], list[int]] = {}
        for one in records(root / TRUTH / "read_committed.jsonl"):
            sums = expected.setdefault((one.topic, one.partition), [0, 0, 0, 0])
            sums[0] += 1
            sums[1] += one.offset
            sums[2] += len(one.value or b"")
            sums[3] += len(one.headers)
        committed = {"kafka.isolation.level": "read_committed"}
        table = read(spark, root / "clean", includeHeaders=True, **committed)
        table.createOrReplaceTempView("records")
        rows = spark.sql(f"""
            select topic, partition, count(*), sum(offset), coalesce(sum(length(value)), 0),
                   sum(size(headers))
            from records where topic != 'trimmed' or offset >= {starts["trimmed"]}
            group by topic, partition
        """).collect()
        actual = {(row[0], row[1]): list(row[2:]) for row in rows}
        assert {key: actual.get(key) for key in expected} == expected

    def test_filters_leave_sparks_plan(self, spark: SparkSession, tmp_path: Path) -> None:
        write_segment(tmp_path / "t-0", [batch(at) for at in range(0, 30, 3)])
        table = read(spark, tmp_path).where(
            "offset >= 7 and partition = 0 and topic in ('t', 'u') and timestamp > '2023-01-01'"
            " and length(value) > 3"
        )
        plan = table._jdf.queryExecution().executedPlan().toString()
        condition = re.search(r"Filter (.*)", plan)
        assert condition is not None
        assert "length(value" in condition[1]
        assert not re.search(r">=|<| = | IN |timestamp#\d+ >", condition[1])
        assert table.count() == 23

    def test_without_pushing_the_rows_are_the_same(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        write_segment(tmp_path / "t-0", [batch(at) for at in range(0, 30, 3)])
        assert read(spark, tmp_path, pushFilters=False).where("offset >= 7").count() == 23

    def test_a_session_that_pushes_none_says_which_setting(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        write_segment(tmp_path / "t-0", [batch(0)])
        name = "spark.sql.python.filterPushdown.enabled"
        spark.conf.set(name, "false")
        try:
            with pytest.raises(AnalysisException, match=re.escape(name)):
                read(spark, tmp_path).count()
            assert read(spark, tmp_path, pushFilters=False).count() == 3
        finally:
            spark.conf.set(name, "true")

    @pytest.mark.smoke
    def test_a_schema_is_a_projection(self, spark: SparkSession, tmp_path: Path) -> None:
        write_segment(tmp_path / "t-0", [batch(0)])
        table = spark.read.format("kafkalog").schema("offset bigint, value binary")
        assert table.load(str(tmp_path)).columns == ["offset", "value"]
        assert [row.offset for row in table.load(str(tmp_path)).collect()] == [0, 1, 2]

    def test_several_paths_and_names_of_any_case(self, spark: SparkSession, tmp_path: Path) -> None:
        for number in range(3):
            write_segment(tmp_path / f"t-{number}", [batch(0)])
        reader = spark.read.format("kafkalog").schema("OFFSET bigint, Partition int")
        table = reader.load([str(tmp_path / "t-0"), str(tmp_path / "t-2")])
        actual = table.where("offset > 1").select("partition", "oFFset").collect()
        assert sorted(tuple(row) for row in actual) == [(0, 2), (2, 2)]

    def test_sql_and_nothing_to_read(self, spark: SparkSession, tmp_path: Path) -> None:
        write_segment(tmp_path / "t-0", [])
        spark.sql(f"create or replace temp view log using kafkalog options (path '{tmp_path}')")
        assert spark.sql("select count(*) from log").collect()[0][0] == 0


class TestMistakes:
    def test_an_option_is_named(self, spark: SparkSession, tmp_path: Path) -> None:
        with pytest.raises(AnalysisException, match="OptionError: option mode: one of PERMISS"):
            read(spark, tmp_path, mode="LOOSE")

    def test_a_column_is_named(self, spark: SparkSession, damaged: Path) -> None:
        table = spark.read.format("kafkalog").schema("offset int").load(str(damaged))
        with pytest.raises(AnalysisException, match="column offset is bigint, not int"):
            table.count()

    def test_failfast_names_file_and_byte(self, spark: SparkSession, damaged: Path) -> None:
        with pytest.raises(PythonException, match=rf"t-0/0+\.log, byte {len(batch(0))}: "):
            read(spark, damaged, mode="FAILFAST").count()

    def test_permissive_shows_it(self, spark: SparkSession, damaged: Path) -> None:
        (row,) = read(spark, damaged).where("_error is not null").collect()
        assert (row["_error"]["class"], row["_error"]["position"]) == ("truncated", len(batch(0)))
        assert bytes(row["_corrupt_record"]) == batch(3)[:-1]
