"""One Spark session for all tests of the pipeline, started when the first of them needs it.

Each of pytest-xdist's workers starts its own: 3.8's groups do nothing under pytest 9.2.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from kraftspec.pipeline.session import session

# A class-data archive was tried and is not used: Spark's jars are signed, or too old for it.
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    # Short jobs: the optimising compiler and parallel collectors would cost more than they give.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local Spark of two threads."""
    started = session("tests", master="local[2]", settings=_SETTINGS)
    yield started
    started.stop()
