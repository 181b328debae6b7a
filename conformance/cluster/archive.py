"""The classes that a server loads, kept ready: a node starts in half the time (JEP 350)."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from kraftspec.conformance.cluster.artifacts import (
    ClusterError,
    class_archive,
    class_path,
    cluster_cache,
    java_command,
)
from kraftspec.conformance.cluster.guard import Guard
from kraftspec.conformance.cluster.node import HOST, Listener, Node, free_port
from kraftspec.conformance.registry import locked

_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"  # Of a cluster that lives for one start and one stop.
_HEAP_MIB = 256


def make_class_archive() -> None:
    """Let a node start and stop once to keep the classes it loads, where that was not done yet.

    Raises:
        ClusterError: Java or Maven is missing, or that node did not come up.
    """
    class_path()
    archive = class_archive()
    if archive.exists():
        return
    with locked(cluster_cache() / "archive.lock"):
        if not archive.exists():
            _make(archive)


def _make(archive: Path) -> None:
    """Dump beside the archive's place first: others must not see a half of it."""
    half = archive.with_suffix(".half")
    half.unlink(missing_ok=True)  # Of a process that was killed at this.
    with Guard() as guard, tempfile.TemporaryDirectory() as directory:
        node = _node(Path(directory), guard.process_group, half)
        node.start()
        node.wait_healthy()
        node.stop()
        if not half.exists():
            raise ClusterError(f"Java wrote no class archive:\n{node.log_tail()}")
    half.rename(archive)


def _node(directory: Path, process_group: int, archive: Path) -> Node:
    """Lay out and format a node that is controller and broker at once: it loads most classes."""
    ports: set[int] = set()
    names = ("PLAINTEXT", "CONTROLLER")
    listeners = tuple(Listener(name, port, port) for name in names for port in [free_port(ports)])
    node = Node(
        id=1,
        roles="broker,controller",
        directory=directory,
        listeners=listeners,
        heap_mib=_HEAP_MIB,
        process_group=process_group,
        java_options=(f"-XX:ArchiveClassesAtExit={archive}",),
        properties={
            "process.roles": "broker,controller",
            "node.id": "1",
            "log.dirs": str(directory / "data"),
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(f"{one.name}://{HOST}:{one.port}" for one in listeners),
            "controller.quorum.bootstrap.servers": f"{HOST}:{listeners[1].port}",
        },
    )
    node.write_properties()
    arguments = ["format", "-t", _CLUSTER_ID, "--standalone", "-c", str(node.properties_path)]
    done = subprocess.run(
        java_command("kafka.tools.StorageTool", *arguments),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ClusterError(f"kafka-storage failed:\n{done.stdout}{done.stderr}")
    return node
