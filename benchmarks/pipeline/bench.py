"""One run: fill a broker, let all contestants read lap by lap, grow the data, bound the memory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from benchmarks import machine
from benchmarks.pipeline import planning, results
from benchmarks.pipeline.data import (
    PARTITION_COUNT,
    SHAPES,
    VALUE_BYTES,
    Broker,
    Topic,
    described,
    dump_command,
    java_version,
    linked,
)
from benchmarks.pipeline.measure import MeasureError, Meter, Time, python_json, timed_process
from benchmarks.pipeline.queries import Queries
from benchmarks.pipeline.segments import grown
from rich.progress import Progress

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestamp_type")
PACKAGES = ("pyspark", "pyarrow", "cramjam", "isal", "lz4", "zstandard", "backports.zstd")
SMALL_SEGMENT_BYTES = 4096
READ_BYTES = 4 << 20

_Given = TypeVar("_Given")


@dataclass(frozen=True)
class Extent:
    """How much is measured; sizes of segments in bytes, ``copies`` of the first topic.

    ``turns``: how often, in a lap, ours and its ceiling are read one after the other.
    """

    records: int
    laps: int
    turns: int
    scale_laps: int
    copies: tuple[int, ...]
    segment_bytes: tuple[int, ...]
    files: int


FULL = Extent(
    9_000_000, 3, 5, 2, (1, 2, 4, 8), (256 << 20, 512 << 20, 1 << 30, (1 << 31) - 1), 5_000
)
QUICK = Extent(500_000, 1, 2, 1, (1, 2, 4), (32 << 20, 64 << 20), 500)


def into_memory(paths: Iterable[Path]) -> None:
    """Read files to their ends: the page cache may have dropped them."""
    buffer = bytearray(READ_BYTES)
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


@dataclass
class Bench:
    """A run in ``directory``, which is emptied; ``times`` has them by shape and contestant.

    ``progress`` is updated at each step.
    """

    extent: Extent
    laps: int
    directory: Path
    progress: Progress
    times: dict[tuple[str, str], list[Time]] = field(default_factory=dict)

    def run(self) -> results.Run:
        """Do all of it; the form of the result is that of ``pipeline-results.json``.

        Raises:
            MeasureError: a contestant failed, or read something else than was written.
            ClusterError: the broker or the producer did not do its work.
        """
        quiet = machine.Quiet(Meter(os.getpid()).read)
        shutil.rmtree(self.directory, ignore_errors=True)
        self._steps = self.progress.add_task("", total=self._step_count())
        queries = None
        try:
            with Broker(self.directory / "cluster") as broker:
                topics = self._fill(broker)
                queries = Queries(os.cpu_count() or 1)
                for lap in range(self.laps + 1):
                    self._lap(lap, broker, topics, queries)
            scale = self._scale(topics[0], queries)
            constants = self._planning(topics[0])
            memory = self._memory(topics[0])
            described_ = [described(topic) for topic in topics]
        finally:
            if queries is not None:
                queries.close()
            shutil.rmtree(self.directory, ignore_errors=True)
        return {
            "format": results.FORMAT,
            "date": machine.now(),
            "commit": machine.commit("fastpath", "pipeline"),
            "machine": machine.facts(),
            "quiet": quiet.read(),
            "laps": self.laps,
            "cores": os.cpu_count() or 1,
            "packages": machine.packages(PACKAGES),
            "java": java_version(),
            "planning": constants,
            "topics": described_,
            "rows": self._rows(),
            "scale": scale,
            "memory": memory,
        }

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "shape": shape,
                "who": who,
                "wall_s": [round(time.wall_s, 3) for time in times],
                "cpu_s": [round(time.cpu_s, 3) for time in times],
            }
            for (shape, who), times in self.times.items()
        ]

    def _step_count(self) -> int:
        in_turns = 2 * len(SHAPES) + 1  # The ceiling of what is compressed.
        of_a_lap = 5 * len(SHAPES) + self.extent.turns * in_turns
        scale = 3 * len(self.extent.copies) * self.extent.scale_laps
        once = 2 * len(SHAPES) + 1 + 1 + len(self.extent.segment_bytes) + 6
        return once + self.laps * of_a_lap + scale

    def _step(self, what: str, work: Callable[[], _Given]) -> _Given:
        self.progress.update(self._steps, description=what)
        result = work()
        self.progress.advance(self._steps)
        return result

    def _view(self, name: str) -> Path:
        return self.directory / "views" / name

    def _fill(self, broker: Broker) -> list[Topic]:
        """Let the producer write; each topic has a directory of its own too, made of links."""
        topics = [
            self._step(f"{shape.name}: produce", partial(broker.fill, shape, self.extent.records))
            for shape in SHAPES
        ]
        broker.stop()
        for topic in topics:
            linked(topic, self._view(topic.shape.name), 1)
        return topics

    def _lap(self, lap: int, broker: Broker, topics: list[Topic], queries: Queries) -> None:
        """Lap 0 warms up the JVM that Spark runs in, with the first topic, and does not count."""
        counted = topics if lap else topics[:1]
        broker.resume()
        for topic in counted:
            peer = queries.peer(topic, broker.bootstrap)
            for who, work in (
                ("spark-sql-kafka", partial(queries.seven, peer)),
                ("spark-sql-kafka aggregate", partial(queries.grouped, peer, topic.expected())),
            ):
                self._take(lap, topic, who, work)
        broker.stop()
        for topic in counted:
            self._files(lap, topic, queries)

    def _files(self, lap: int, topic: Topic, queries: Queries) -> None:
        """What reads files, while the broker is down."""
        view, expected = self._view(topic.shape.name), topic.expected()
        ours, ceiling = queries.ours(topic, view), queries.ceiling(topic, view)
        pair: list[tuple[str, Callable[[], Time]]] = [
            ("ceiling", partial(queries.seven, ceiling)),
            ("kafkalog", partial(queries.seven, ours)),
        ]
        if topic.shape.codec == "zstd":
            lower = queries.ceiling(topic, view, decompressing=True)
            pair.insert(1, ("ceiling with libzstd", partial(queries.seven, lower)))
        for turn in range(self.extent.turns if lap else 1):
            # Neither always comes first; they are close, and no machine is steady.
            for who, work in pair if (lap + turn) % 2 else reversed(pair):
                self._take(lap, topic, who, work)
        works = [
            ("kafkalog aggregate", partial(queries.grouped, ours, expected)),
            ("aggregate in Arrow", partial(queries.grouped_in_arrow, view, expected)),
        ]
        if lap:
            columns = (*COLUMNS, "headers") if topic.shape.header_count else COLUMNS
            works.append(("scan", partial(_decoded, view, columns, topic.record_count)))
        if lap == 1:  # It is slow, and the same each time.
            works.append(("DumpLogSegments", partial(self._dumped, topic)))
        for who, work in works:
            self._take(lap, topic, who, work)

    def _take(self, lap: int, topic: Topic, who: str, work: Callable[[], Time]) -> None:
        into_memory(topic.segments)
        took = self._step(f"lap {lap}, {topic.shape.name}: {who}", work)
        if lap:
            self.times.setdefault((topic.shape.name, who), []).append(took)

    def _dumped(self, topic: Topic) -> Time:
        """Kafka's own tool, less its start-up time, which a nearly empty segment gives."""
        small = grown(topic.segments[0], self._view("small-0"), SMALL_SEGMENT_BYTES, VALUE_BYTES)
        start = timed_process(dump_command([small.path]))
        return timed_process(dump_command(topic.segments)) - start

    def _scale(self, topic: Topic, queries: Queries) -> list[dict[str, Any]]:
        """The same work on one, two, four and eight times the bytes."""
        points: dict[tuple[str, int], list[float]] = {}
        sizes = {}
        for _ in range(self.extent.scale_laps):
            for copies in self.extent.copies:
                view = linked(topic, self._view("scale"), copies)
                sizes[copies] = copies * topic.log_bytes
                expected = [
                    (partition + copy * PARTITION_COUNT, records, size, last)
                    for copy in range(copies)
                    for partition, records, size, last in topic.expected()
                ]
                frame = queries.ours(topic, view)
                for who, work in (
                    ("scan", partial(_decoded, view, COLUMNS, copies * topic.record_count)),
                    ("kafkalog", partial(queries.seven, frame)),
                    ("aggregate in Arrow", partial(queries.grouped_in_arrow, view, expected)),
                ):
                    into_memory(topic.segments)
                    took = self._step(f"{copies} times the bytes: {who}", work)
                    points.setdefault((who, copies), []).append(round(took.wall_s, 3))
        return [
            {"who": who, "copies": copies, "bytes": sizes[copies], "wall_s": times}
            for (who, copies), times in sorted(points.items())
        ]

    def _planning(self, topic: Topic) -> dict[str, Any]:
        small = grown(topic.segments[0], self._view("small-0"), SMALL_SEGMENT_BYTES, VALUE_BYTES)
        many = planning.many_files(small.path, self._view("many"), self.extent.files)
        return self._step("planning", lambda: planning.measured(many, self._view("scale")))

    def _memory(self, topic: Topic) -> list[dict[str, Any]]:
        """The peak memory of a worker for segments of growing size; the first is nearly empty."""
        rows = []
        for size in (SMALL_SEGMENT_BYTES, *self.extent.segment_bytes):
            work = partial(self._read_within_limit, topic, size)
            rows.append(self._step(f"memory: {size} bytes", work))
        return rows

    def _read_within_limit(self, topic: Topic, size: int) -> dict[str, Any]:
        segment = grown(topic.segments[0], self._view("memory-0"), size, VALUE_BYTES)
        measured: dict[str, Any] = python_json("memory_worker", str(segment.path))
        if (measured["rows"], measured["value_bytes"]) != (segment.rows, segment.value_bytes):
            raise MeasureError(f"read of {segment}: {measured}")
        return {"segment_bytes": size, **measured}


def _decoded(view: Path, columns: tuple[str, ...], record_count: int) -> Time:
    """Our reader without Spark, in a process of its own."""
    measured = python_json("decode", str(view), *columns)
    if measured["rows"] != record_count:
        raise MeasureError(f"read of {view}: {measured['rows']} records, and not {record_count}")
    return Time(measured["wall_s"], measured["cpu_s"])
