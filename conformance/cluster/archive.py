"""The classes that a server loads, kept ready: a node starts in half the time (JEP 350)."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from pathlib import Path

from kraftspec.cache import locked
from kraftspec.conformance.cluster.artifacts import (
    RELEASE,
    ClusterError,
    class_archive,
    class_path,
    cluster_cache,
    java_command,
)
from kraftspec.conformance.cluster.guard import Guard
from kraftspec.conformance.cluster.node import HOST, Listener, Node, free_port

_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"  # The cluster is only started and stopped once.
_HEAP_MIB = 256
_WRITTEN_TIMEOUT_S = 180.0  # Java writes it as it ends: 5 s, and longer on a busy machine.


def make_class_archive(release: str = RELEASE) -> None:
    """Start and stop a node to archive the classes that it loads, if there is no archive yet.

    Each release has its own.

    Raises:
        ClusterError: Java or Maven is missing, or the node did not start.
    """
    class_path(release)
    archive = class_archive(release)
    if archive.exists():
        return
    with locked(cluster_cache() / f"archive-{release}.lock"):
        if not archive.exists():
            _make(archive, release)


def _make(archive: Path, release: str) -> None:
    """Write to a temporary file first: other processes must not see an incomplete archive."""
    half = archive.with_suffix(".half")
    half.unlink(missing_ok=True)  # A killed process may have left it.
    with Guard() as guard, tempfile.TemporaryDirectory() as directory:
        node = _node(Path(directory), guard.process_group, half, release)
        node.start()
        node.wait_healthy()
        is_killed = node.stop(_WRITTEN_TIMEOUT_S) == -signal.SIGKILL
    # Without an archive nodes start, too. The next cluster tries again.
    if half.exists() and not is_killed:
        half.rename(archive)


def _node(directory: Path, process_group: int, archive: Path, release: str) -> Node:
    """Format a node that is controller and broker: it loads most classes."""
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
        release=release,
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
    completed = subprocess.run(
        java_command("kafka.tools.StorageTool", *arguments, release=release),
        capture_output=True,
        text=True,
        check=False,
    )
    if completed.returncode != 0:
        raise ClusterError(f"kafka-storage failed:\n{completed.stdout}{completed.stderr}")
    return node
