"""The session that the pipeline starts."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def test_workers_run_this_python(spark: SparkSession) -> None:
    rows = spark.sparkContext.parallelize([0], 1)
    assert rows.map(lambda _: sys.executable).collect() == [sys.executable]


def test_filters_are_pushed_to_python_sources(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
