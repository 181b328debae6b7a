"""The Spark data source ``kafkalog``: Kafka's log directories as tables and as streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Without it Spark never asks a Python data source which filters it takes.
FILTER_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("kafkalog")`` known to a session, filters pushed down included."""
    from kraftspec.pipeline.source.data_source import KafkaLog  # noqa: PLC0415 (needs pyspark)

    spark.conf.set(FILTER_PUSHDOWN, "true")
    spark.dataSource.register(KafkaLog)
