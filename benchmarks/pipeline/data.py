"""The data: topics of a real broker, filled by Apache Kafka's own producer."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kraftspec.conformance.cluster import TOOLS_RELEASE, Cluster, ClusterError, java_command
from kraftspec.conformance.cluster.artifacts import run_build

HERE = Path(__file__).resolve().parent
KEY_BYTES = 8
VALUE_BYTES = 100
PARTITION_COUNT = 4
TIME_MS = 1_700_000_000_000
RECORDS_PER_MS = 1000
BROKER_HEAP_MIB = 1024
# The optimising compiler, as an operator has it: a cluster of the tests starts without.
JAVA_OPTIONS = ("-XX:TieredStopAtLevel=4",)


@dataclass(frozen=True)
class Shape:
    """What the records of a topic are like; the topic has the shape's name."""

    name: str
    title: str
    codec: str
    header_count: int = 0


SHAPES = (
    Shape("plain", "uncompressed", "none"),
    Shape("zstd", "zstd", "zstd"),
    Shape("headers", "uncompressed, two headers", "none", 2),
)


@dataclass(frozen=True)
class Topic:
    """A filled topic, and what its readers must read."""

    shape: Shape
    record_count: int
    log_dir: Path

    @property
    def directories(self) -> list[Path]:
        """The directories of its partitions."""
        return [self.log_dir / f"{self.shape.name}-{number}" for number in range(PARTITION_COUNT)]

    @property
    def segments(self) -> list[Path]:
        """Its segments, by partition and base offset."""
        return [path for directory in self.directories for path in sorted(directory.glob("*.log"))]

    @property
    def log_bytes(self) -> int:
        """The size of its segments."""
        return sum(path.stat().st_size for path in self.segments)

    def expected(self) -> list[tuple[int, int, int, int]]:
        """Partition, number of records, bytes of their values, last timestamp: of each."""
        rows = []
        for partition in range(PARTITION_COUNT):
            count = len(range(partition, self.record_count, PARTITION_COUNT))
            last = partition + (count - 1) * PARTITION_COUNT
            rows.append((partition, count, count * VALUE_BYTES, TIME_MS + last // RECORDS_PER_MS))
        return rows


class Broker:
    """A broker on loopback with a log directory in ``directory``; stopped when left."""

    def __init__(self, directory: Path) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        self.cluster = Cluster(directory)
        for node in self.cluster.nodes.values():
            node.java_options = JAVA_OPTIONS
        self._node = self.cluster.brokers[0]
        self._node.heap_mib = BROKER_HEAP_MIB

    def __enter__(self) -> Self:
        self.cluster.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cluster.stop()

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return self.cluster.bootstrap()

    def fill(self, shape: Shape, record_count: int) -> Topic:
        """Make a topic; ``ClusterError`` where the producer failed."""
        command = java_command(
            str(HERE / "BenchWriter.java"), self.bootstrap, shape.name, str(PARTITION_COUNT),
            str(record_count), shape.codec, str(shape.header_count),
            heap_mib=512,
            options=[*JAVA_OPTIONS, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"],
        )  # fmt: skip
        try:
            run_build(command, "the producer failed")
        except ClusterError as error:
            raise ClusterError(f"{error}\nThe broker:\n{self._node.log_tail()}") from error
        return Topic(shape, record_count, Path(self._node.properties["log.dirs"]))

    def stop(self) -> None:
        """Stop the broker cleanly; its controller stays."""
        self._node.stop()

    def resume(self) -> None:
        """Start it again on the same directory."""
        self._node.start()
        self._node.wait_healthy()


def linked(topic: Topic, directory: Path, copies: int) -> Path:
    """Return a log directory of ``copies`` times a topic's bytes, made of hard links.

    Bytes that are linked lie in memory once, so that eight gigabytes need no eight of it.
    """
    shutil.rmtree(directory, ignore_errors=True)
    for copy in range(copies):
        for partition in topic.directories:
            name, _, number = partition.name.rpartition("-")
            target = directory / f"{name}-{int(number) + copy * PARTITION_COUNT}"
            target.mkdir(parents=True)
            for path in partition.iterdir():
                os.link(path, target / path.name)
    return directory


def dump_command(paths: list[Path]) -> list[str]:
    """Return the command of Kafka's DumpLogSegments, with the options of Kafka's own script."""
    tool = java_command("org.apache.kafka.tools.DumpLogSegments", release=TOOLS_RELEASE)
    class_path = tool[tool.index("-cp") + 1]
    options = ["-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
    options += ["-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"]
    options += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    arguments = ["--print-data-log", "--files", ",".join(map(str, paths))]
    return ["java", *options, "-cp", class_path, tool[-1], *arguments]


def java_version() -> str:
    """The first line that ``java -version`` prints."""
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    return done.stderr.splitlines()[0]


def described(topic: Topic) -> dict[str, Any]:
    """What a topic came to, for the results."""
    return {
        "shape": topic.shape.name,
        "title": topic.shape.title,
        "records": topic.record_count,
        "bytes": topic.log_bytes,
        "segments": len(topic.segments),
    }
