"""The queries of Spark: the same for our source, Spark's own source and the ceiling."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from benchmarks.pipeline.ceiling import Ceiling
from benchmarks.pipeline.data import HERE, Topic
from benchmarks.pipeline.measure import MeasureError, Meter, Time
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own pages have it

from kraftspec.conformance.cluster.artifacts import jars_of
from kraftspec.fastpath.records import RECORDS_AT
from kraftspec.fastpath.scan import scan
from kraftspec.pipeline import discover, plan_splits, read_split
from kraftspec.pipeline.session import session
from kraftspec.pipeline.splits import Split

ROOT = HERE.parents[1]
BATCH_ROWS = 10_000  # What our source yields at once.
SEVEN = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "timestampType int"
)
HEADERS = "headers array<struct<key: string, value: binary>>"
DRIVER_MEMORY = "2g"

Totals = list[tuple[int, int, int, int]]


class Queries:
    """A session of Spark with all three sources, and the queries."""

    def __init__(self, cores: int, log_level: str = "ERROR") -> None:
        # Spark's workers import the source of the ceiling from here.
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        jars = jars_of(HERE / "pom.xml", "spark-sql-kafka")
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.memory": DRIVER_MEMORY,
            "spark.sql.shuffle.partitions": str(cores),
            "spark.jars": ",".join(map(str, jars)),
        }
        self.spark = session("bench-pipeline", master=f"local[{cores}]", settings=settings)
        self.spark.sparkContext.setLogLevel(log_level)
        self.spark.dataSource.register(Ceiling)
        gateway: Any = self.spark.sparkContext._gateway
        self._meter = Meter(gateway.proc.pid)

    def close(self) -> None:
        """End Spark."""
        self.spark.stop()

    def ours(self, topic: Topic, path: Path) -> DataFrame:
        """Our source over a directory that holds a topic alone."""
        schema = f"{SEVEN}, {HEADERS}" if topic.shape.header_count else SEVEN
        reader = self.spark.read.format("kafkalog").schema(schema)
        return reader.option("mode", "FAILFAST").load(str(path))

    def peer(self, topic: Topic, bootstrap: str) -> DataFrame:
        """Spark's own source, from the broker."""
        reader = self.spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        reader = reader.option("subscribe", topic.shape.name)
        reader = reader.option("includeHeaders", str(bool(topic.shape.header_count)).lower())
        return reader.load()

    def ceiling(self, topic: Topic, path: Path, *, decompressing: bool = False) -> DataFrame:
        """One batch of a topic's own first rows, in as many tasks and rows as our source has.

        ``decompressing``: and the zstd frames of as many rows, decompressed and dropped.
        """
        frame = self.ours(topic, path)
        file = path.with_suffix(".arrow")
        if not file.exists():
            _save(file, frame.limit(BATCH_ROWS).toArrow().combine_chunks().to_batches()[0])
        tasks = len(plan_splits(discover(path)))
        share, rest = divmod(topic.record_count, tasks)
        rows = ",".join(str(share + (at < rest)) for at in range(tasks))
        reader = self.spark.read.format("ceiling").schema(frame.schema)
        if decompressing:
            frames = path.with_suffix(".frames.arrow")
            _save(frames, pa.record_batch({"frame": _frames(topic.segments[0], BATCH_ROWS)}))
            reader = reader.option("frames", str(frames))
        return reader.option("batch", str(file)).option("rows", rows).load()

    def seven(self, frame: DataFrame) -> Time:
        """Read all columns and do nothing with them."""
        work = frame.write.format("noop").mode("overwrite").save
        return self._meter.timed(work)[0]

    def grouped(self, frame: DataFrame, expected: Totals) -> Time:
        """Count records and bytes by partition, in Spark."""
        totals = frame.groupBy("partition").agg(
            F.count("*"), F.sum(F.length("value")), F.max(F.unix_millis("timestamp"))
        )
        return self._checked(totals.collect, expected)

    def grouped_in_arrow(self, path: Path, expected: Totals) -> Time:
        """The same, on Arrow in the workers: only totals come to Spark. Planning is timed too."""

        def work() -> Totals:
            splits = plan_splits(discover(path))
            parts = self.spark.sparkContext.parallelize(splits, len(splits)).flatMap(_totals)
            by_partition: dict[int, Sums] = {}
            for partition, sums in parts.collect():
                by_partition[partition] = (
                    _added(by_partition[partition], sums) if partition in by_partition else sums
                )
            return [(partition, *sums) for partition, sums in by_partition.items()]

        return self._checked(work, expected)

    def _checked(self, work: Callable[[], Iterable[Any]], expected: Totals) -> Time:
        took, rows = self._meter.timed(work)
        actual = sorted(tuple(row) for row in rows)
        if actual != expected:
            raise MeasureError(f"read: {actual}\nwritten: {expected}")
        return took


def _frames(segment: Path, row_count: int) -> list[bytes]:
    """The compressed records of a segment's first batches: at least so many rows."""
    data = segment.read_bytes()
    frames, rows = [], 0
    for header in scan(data):
        frames.append(data[header.position + RECORDS_AT : header.end])
        rows += header.record_count
        if rows >= row_count:
            break
    return frames


def _save(path: Path, batch: pa.RecordBatch) -> None:
    with pa.ipc.new_file(str(path), batch.schema) as out:
        out.write_batch(batch)


Sums = tuple[int, int, int]  # Records, bytes of their values, the last timestamp.


def _totals(split: Split) -> Iterable[tuple[int, Sums]]:
    """Count, in a worker, the records of a split; return a row a partition."""
    totals: dict[int, Sums] = {}
    # No batch has rows of two files.
    for rows in read_split(split, columns=("partition", "value", "timestamp"), mode="FAILFAST"):
        partition = rows.column(0)[0].as_py()
        value_bytes = pc.sum(pc.binary_length(rows.column(1))).as_py()
        sums = rows.num_rows, value_bytes, pc.max(rows.column(2)).as_py()
        totals[partition] = _added(totals[partition], sums) if partition in totals else sums
    return totals.items()


def _added(one: Sums, other: Sums) -> Sums:
    return one[0] + other[0], one[1] + other[1], max(one[2], other[2])
