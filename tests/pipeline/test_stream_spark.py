"""Streams of ``kafkalog`` through a real Spark: checkpoints, restarts, a driver killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from .campaigns import WAIT_S
from .segment_files import batch, write_segment

DRIVER = """
import sys
from kraftspec.pipeline.session import session

log, out, checkpoint = sys.argv[1:]
spark = session(master="local[1]", settings={
    "spark.ui.enabled": "false", "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
})
stream = spark.readStream.format("kafkalog").option("startingOffsets", "earliest")
stream = stream.option("maxOffsetsPerTrigger", "3").load(log)
query = stream.writeStream.format("parquet").option("checkpointLocation", checkpoint)
query.option("path", out).start().awaitTermination()
"""


def drain(spark: SparkSession, log: Path, out: Path, checkpoint: Path) -> None:
    """Run the query until it has read what is there."""
    stream = spark.readStream.format("kafkalog").option("startingOffsets", "earliest")
    writer = stream.option("maxOffsetsPerTrigger", "40").load(str(log)).writeStream
    query = (
        writer.format("parquet")
        .option("checkpointLocation", str(checkpoint))
        .option("path", str(out))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def offsets(spark: SparkSession, out: Path) -> list[int]:
    return sorted(row.offset for row in spark.read.parquet(str(out)).collect())


def test_a_restarted_query_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    log, out, checkpoint = (tmp_path / name for name in ("log", "out", "checkpoint"))
    path = write_segment(log / "t-0", [batch(at) for at in range(0, 30, 3)] + [batch(30)[:50]])
    drain(spark, log, out, checkpoint)
    assert offsets(spark, out) == list(range(30))
    with path.open("ab") as file:
        file.write(batch(30)[50:] + batch(33)[:-1])
    write_segment(log / "t-1", [batch(0, 2)])
    drain(spark, log, out, checkpoint)
    assert offsets(spark, out) == sorted([*range(33), 0, 1])


@pytest.mark.kafka
def test_a_driver_that_is_killed_loses_and_doubles_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    log, out, checkpoint = (tmp_path / name for name in ("log", "out", "checkpoint"))
    path = write_segment(log / "t-0", [batch(at) for at in range(0, 60, 3)])
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(log), str(out), str(checkpoint)],
        start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as driver:  # fmt: skip
        try:
            # In the middle: a batch of the query is committed, and many are not.
            _wait_for(checkpoint / "commits/1", driver)
            with path.open("ab") as file:
                file.write(batch(60)[:70])
        finally:
            os.killpg(driver.pid, signal.SIGKILL)  # The JVM and the workers with it.
    assert len([one for one in (checkpoint / "commits").iterdir() if one.name.isdigit()]) < 20
    with path.open("ab") as file:
        file.write(batch(60)[70:])
    drain(spark, log, out, checkpoint)
    assert offsets(spark, out) == list(range(63))


def _wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not path.exists():
        assert process.poll() is None, "the driver ended by itself"
        assert time.monotonic() < deadline, f"{path} did not come"
        time.sleep(0.02)
