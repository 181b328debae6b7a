"""Start a broker, let producers write, read it back, stop it and kill it, and keep its logs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import msgspec

from kraftspec.cache import cache_directory, locked
from kraftspec.conformance.cluster import Cluster
from kraftspec.conformance.cluster.artifacts import digest
from kraftspec.conformance.making.logs import python_clients

OnPhase = Callable[[str], None]

CLEANED_TIMEOUT_S = 600.0
JAVA_TIMEOUT_S = 900.0  # It is compiled first, and writes or reads all that is made.
POLL_S = 0.1
COMPACTED = ("compacted", "compacted-transactions")
TRIMMED = "trimmed"
TORN = ("plain-0", "segments-0", "codec-none-0", "codec-zstd-0")
TORN_BYTES = 100  # Fewer than the last batch has, so that exactly that one is torn.
BROKER = {
    # A running broker fills its index files with zeros ahead; the default is 10 MiB each.
    "log.index.size.max.bytes": "65536",
    "log.retention.ms": "-1",  # The records' timestamps are old.
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "300",
    "log.segment.delete.delay.ms": "100",
    "log.cleaner.backoff.ms": "100",
    "transaction.state.log.segment.bytes": "1048576",
    "auto.create.topics.enable": "false",
}
METADATA = {
    "metadata.log.max.record.bytes.between.snapshots": "4000",
    "internal.metadata.log.segment.bytes": "8192",
}


def kafka_logs(on_phase: OnPhase | None = None) -> Path:
    """Return the directory of logs, made first where that was not done by this program yet.

    Any number of processes may call this at once: one makes, the others wait for it. Nobody may
    write there.

    Args:
        on_phase: called when a part of the work begins.

    Raises:
        ClusterError: a tool is missing, a client is, or the broker did not do its work.
    """
    here = Path(str(files("kraftspec.conformance"))).resolve()
    names = ("make.py", "python_clients.py", "LogWriter.java", "LogReader.java")
    cache = cache_directory() / "logs"
    logs = cache / digest(
        [*(here / "making" / "logs" / name for name in names), here / "cluster" / "artifacts.py"]
    )
    if not logs.exists():
        with locked(cache / "logs.lock"):
            if not logs.exists():
                half = cache / "half"  # What a process left that was killed at this.
                make_logs(half, on_phase)
                half.rename(logs)
    return logs


def make_logs(out: Path, on_phase: OnPhase | None = None) -> None:
    """Make the logs and what tells of them in ``out``, which is emptied first.

    Raises:
        ClusterError: a tool is missing, a client is, or the broker did not do its work.
    """
    python_clients.check()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="kraftspec-logs-") as directory:
        cluster = Cluster(
            Path(directory),
            broker_properties=BROKER | METADATA,
            controller_properties=METADATA,
        )
        with cluster:
            _Work(cluster, out, on_phase or (lambda _: None)).run()


class _Work:
    """What happens on one broker, from its first start to its recovery."""

    def __init__(self, cluster: Cluster, out: Path, on_phase: OnPhase) -> None:
        self.cluster = cluster
        self.broker = cluster.brokers[0]
        self.data = Path(self.broker.properties["log.dirs"])
        self.out = out
        self.on_phase = on_phase

    def run(self) -> None:
        self._write("sent.jsonl", "all")
        self.on_phase("Python clients write")
        python_clients.write(self.cluster.bootstrap(), self.out / "sent.jsonl")
        self.on_phase("the log cleaner works")
        self.broker.wait(self._is_cleaned, "done with cleaning", CLEANED_TIMEOUT_S)
        self._read("clean_read")
        self.on_phase("the broker stops")
        self.broker.stop()
        self._keep("clean")
        self.broker.start()
        self.broker.wait_healthy()
        self._write("sent_more.jsonl", "more")
        self.broker.kill()
        self._keep("killed")
        self._tear()
        self._keep("torn")
        self.on_phase("the broker recovers")
        self.broker.start()
        self.broker.wait_healthy()
        self._read("torn_read")
        self.cluster.stop()
        shutil.copytree(self.cluster.controllers[0].properties["log.dirs"], self.out / "controller")

    def _java(self, program: str, *arguments: str) -> None:
        source = (
            Path(str(files("kraftspec.conformance"))).resolve()
            / "making"
            / "logs"
            / f"{program}.java"
        )
        self.cluster.tool(
            str(source), self.cluster.bootstrap(), *arguments, timeout_s=JAVA_TIMEOUT_S
        )

    def _write(self, name: str, part: str) -> None:
        self.on_phase("the Java producer writes")
        self._java("LogWriter", str(self.out / name), part)

    def _read(self, name: str) -> None:
        self.on_phase("the Java consumer reads")
        (self.out / name).mkdir()
        self._java("LogReader", str(self.out / name))

    def _is_cleaned(self) -> bool:
        """Whether compacted logs are clean up to their active segments, and old ones are gone."""
        checkpoint = self.data / "cleaner-offset-checkpoint"
        lines = checkpoint.read_text("utf-8").splitlines()[2:]
        cleaned = {(topic, number): int(end) for topic, number, end in map(str.split, lines)}
        for topic in COMPACTED:
            active = max(_base_offsets(self.data / f"{topic}-0"))
            if active == 0 or cleaned.get((topic, "0")) != active:
                return False
        return min(_base_offsets(self.data / f"{TRIMMED}-0")) > 0

    def _keep(self, name: str) -> None:
        shutil.copytree(self.data, self.out / name, copy_function=_copy_sparse)

    def _tear(self) -> None:
        """Cut the last batch of some logs in the middle, and write down where."""
        lines = []
        for partition in TORN:
            path = max((self.data / partition).glob("*.log"))
            size = path.stat().st_size
            cut = size - TORN_BYTES
            with path.open("r+b") as file:
                file.truncate(cut)
            name = f"{partition}/{path.name}"
            lines.append(msgspec.json.encode({"file": name, "sizeBefore": size, "size": cut}))
        (self.out / "torn.jsonl").write_bytes(b"\n".join([*lines, b""]))


def _base_offsets(partition: Path) -> list[int]:
    return [int(path.stem) for path in partition.glob("*.log")]


def _copy_sparse(source: str, target: str) -> None:
    """Copy a file; the zeros that it ends with take no space, as in a running broker's indexes."""
    data = Path(source).read_bytes()
    with Path(target).open("wb") as file:
        file.write(data.rstrip(b"\0"))
        file.truncate(len(data))
