"""Log directories that a real Apache Kafka wrote, each with what Kafka's own tool says is in it.

``python -m tests.reference.log.kafka_directories`` makes the corpus of ``tests/reference/data``
anew: a tar file a shape, in it a directory a controller, and beside each log and checkpoint a
``.dump``: what ``DumpLogSegments`` printed of it. It takes some three minutes, most of them for
Kafka's snapshot cleaner, which looks once a minute.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kraftspec.conformance.cluster import QUORUM_COMMAND, Cluster, Node
from kraftspec.conformance.cluster.cluster import CONTROLLER
from kraftspec.generated.kafka import AlterClientQuotasRequest, AlterClientQuotasResponse
from kraftspec.reference.wire.blocking import ask

DATA = Path(__file__).resolve().parents[1] / "data"
DUMP_TOOL = "org.apache.kafka.tools.DumpLogSegments"
SMALL_SEGMENTS = {
    "internal.metadata.log.segment.bytes": "8192",
    "metadata.log.segment.ms": "600000",
}
SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "6000"}
CLEANER_PERIOD_S = 60
WRITTEN_TIMEOUT_S = 600.0


def write_records(cluster: Cluster, first: int, batches: int, count: int = 10) -> None:
    """Have the active controller write batches of ``count`` records, numbered from ``first`` on."""
    for batch in range(batches):
        entries = [
            AlterClientQuotasRequest.EntryData(
                entity=[
                    AlterClientQuotasRequest.EntityData(
                        entity_type="user", entity_name=f"user-{first + batch * count + number:06d}"
                    )
                ],
                ops=[AlterClientQuotasRequest.OpData(key="producer_byte_rate", value=1e6 + batch)],
            )
            for number in range(count)
        ]
        _alter(cluster, AlterClientQuotasRequest(entries=entries))


def _alter(cluster: Cluster, request: AlterClientQuotasRequest) -> None:
    """Ask until a leader took it: one that was just elected may refuse for a moment."""
    deadline = time.monotonic() + WRITTEN_TIMEOUT_S
    while True:
        try:
            port = cluster.leader().listener(CONTROLLER).port
            answer = ask(port, request, 1, AlterClientQuotasResponse)
            if all(entry.error_code == 0 for entry in answer.entries):
                return
        except OSError:
            pass
        if time.monotonic() > deadline:
            raise TimeoutError("no controller took the quotas")
        time.sleep(0.1)


def dump(cluster: Cluster | None, files: Sequence[Path], *options: str) -> str:
    """Return all that DumpLogSegments prints of metadata logs, checkpoints and indexes."""
    arguments = ["--cluster-metadata-decoder", *options, "--files", ",".join(map(str, files))]
    cluster = cluster or Cluster(Path("unused"), controllers=0, brokers=0)
    done = cluster.tool(DUMP_TOOL, *arguments)
    return done.stdout + done.stderr


def keep(cluster: Cluster, nodes: Sequence[Node], out: Path) -> None:
    """Copy the log directories of stopped nodes, and dump what is in them."""
    for node in nodes:
        copy = out / str(node.id)
        shutil.copytree(node.directory / "data-0", copy)
        metadata = copy / "__cluster_metadata-0"
        logs = [one for one in sorted(metadata.iterdir()) if one.suffix in (".log", ".checkpoint")]
        for log in logs:
            text = dump(cluster, [log]) if log.stat().st_size else ""
            (out / f"{node.id}-{log.name}.dump").write_text(text.replace(str(copy), ""))


def static(work: Path, out: Path) -> None:
    """Three voters of kraft.version 0, stopped in order; no snapshot."""
    with Cluster(
        work, controllers=3, brokers=0, quorum="static", controller_properties=SMALL_SEGMENTS
    ) as cluster:
        write_records(cluster, 0, 40)
        cluster.leader().stop()  # The two others elect one of them.
        write_records(cluster, 400, 5)
    keep(cluster, cluster.controllers, out)


def failovers(work: Path, out: Path) -> None:
    """Three voters of kraft.version 1, snapshots; leaders killed, and at the end all of them."""
    properties = SMALL_SEGMENTS | SNAPSHOTS
    with Cluster(work, controllers=3, brokers=0, controller_properties=properties) as cluster:
        for round_ in range(3):
            write_records(cluster, 1000 * round_, 12)
            leader = cluster.leader()
            leader.kill()
            write_records(cluster, 1000 * round_ + 500, 2)
            leader.start()
            leader.wait_healthy()
        for node in cluster.controllers:
            node.kill()
    keep(cluster, cluster.controllers, out)


def grown(work: Path, out: Path) -> None:
    """One voter alone, a second added by Kafka's tool, and removed again."""
    with Cluster(work, controllers=1, brokers=0, quorum="standalone") as cluster:
        write_records(cluster, 0, 3)
        second = cluster.add_node("controller")
        bootstrap = ("--bootstrap-controller", cluster.controller_bootstrap().split(",")[0])

        def is_voter() -> bool:
            return second.id in {it.replica_id for it in cluster.wait_quorum().current_voters}

        cluster.add_voter(second.properties_path, is_voter)
        write_records(cluster, 100, 3)
        second.kill()
        second.start()
        second.wait_healthy()
        metadata = (second.directory / "data-0" / "meta.properties").read_text()
        directory_id = metadata.split("directory.id=")[1].split()[0]
        cluster.tool(
            QUORUM_COMMAND, *bootstrap, "remove-controller", "--controller-id", str(second.id),
            "--controller-directory-id", directory_id,
        )  # fmt: skip
        write_records(cluster, 200, 1)
    keep(cluster, cluster.controllers, out)


def retained(work: Path, out: Path) -> None:
    """One voter whose log starts at a snapshot, since Kafka has deleted what was before."""
    properties = SMALL_SEGMENTS | SNAPSHOTS | {"metadata.max.retention.bytes": "30000"}
    with Cluster(
        work, controllers=1, brokers=0, quorum="standalone", controller_properties=properties
    ) as cluster:
        metadata_log = cluster.controllers[0].metadata_log
        deadline = time.monotonic() + 3 * CLEANER_PERIOD_S
        for first in range(0, 100_000, 100):
            write_records(cluster, first, 2)
            time.sleep(1)
            if first > 1000 and not (metadata_log / f"{0:020d}.log").exists():
                break
            if time.monotonic() > deadline:
                raise TimeoutError("Kafka deleted no segment")
    keep(cluster, cluster.controllers, out)


SHAPES: dict[str, Callable[[Path, Path], None]] = {
    "static": static,
    "failovers": failovers,
    "grown": grown,
    "retained": retained,
}


def _as_anyone(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def main(names: Sequence[str]) -> None:
    """Make the shapes of these names, all where none is given."""
    for name in names or SHAPES:
        with tempfile.TemporaryDirectory() as work:
            out = Path(work) / name
            out.mkdir()
            SHAPES[name](Path(work) / "cluster", out)
            DATA.mkdir(exist_ok=True)
            with tarfile.open(DATA / f"{name}.tar.xz", "w:xz") as archive:
                archive.add(out, name, filter=_as_anyone)
        print(f"{name}: {(DATA / f'{name}.tar.xz').stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
