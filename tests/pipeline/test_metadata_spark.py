"""Metadata logs in Spark: VARIANT, images, and what the page of the documentation does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import parse_json, try_variant_get

from kraftspec.pipeline.metadata import image_tables, read_image, records

from .metadata_corpus import DATA

PAGE = Path(__file__).parents[2] / "docs" / "pipeline-metadata.md"


def test_records_as_variant(spark: SparkSession) -> None:
    table = records(DATA, ["offset", "checkpoint", "type", "record"]).read_all()
    frame = spark.createDataFrame(table).where("type = 'PartitionRecord'")
    variants = frame.select("record", parse_json("record").alias("variant"))
    assert variants.schema["variant"].dataType.typeName() == "variant"
    actual = variants.select(
        "record",
        try_variant_get("variant", "$.leader", "int").alias("leader"),
        try_variant_get("variant", "$.isr", "array<int>").alias("isr"),
    ).collect()
    assert len(actual) > 100
    for row in actual:
        record = json.loads(row.record)
        assert (row.leader, row.isr) == (record["leader"], record["isr"])


def test_images_are_frames(spark: SparkSession) -> None:
    names = ("quorum", "partitions", "brokers", "client_quotas")  # Every type that tables have.
    for name, table in image_tables(read_image(DATA), names).items():
        frame = spark.createDataFrame(table)
        assert frame.columns == table.column_names
        assert frame.toArrow().to_pylist() == table.to_pylist(), name


def test_the_examples_of_the_page(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text("utf-8")
    names: dict[str, object] = {"spark": spark}
    examples = re.findall(r"^```(?:python|py)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for example in examples:
        # Spark's workers have the directory that the session was started in.
        here = example.replace('.load("logs")', f'.load("{tmp_path}/logs")')
        exec(compile(here, PAGE.name, "exec"), names)
    printed = capsys.readouterr().out
    assert "|      7|" in printed  # voterId
    assert "|PartitionChangeRecord|1    |" in printed
    assert "|orders|" in printed  # record.name
    assert re.search(r"\|leader\|\n\+-+\+\n(\|.*\|\n)*\|     2\|", printed)
    assert "|orders|     2|" in printed  # The image, joined.
