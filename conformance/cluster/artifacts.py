"""The jars of a cluster: fetched by Maven once, and the command that runs a class of them."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from kraftspec.conformance.java import java_missing
from kraftspec.conformance.registry import cache_directory, locked

FETCH_TIMEOUT_S = 600.0  # The first fetch downloads some 60 MB.
OUTPUT_LINE_COUNT_MAX = 30


class ClusterError(Exception):
    """A jar is not to be had, or a node or tool did not do its work; with the end of its output."""


def cluster_cache() -> Path:
    """Return the directory where what a cluster needs is kept between runs."""
    return cache_directory() / "kafka"


def digest(paths: Sequence[Path]) -> str:
    """Return 16 hex digits that stand for the names and the contents of files."""
    made = hashlib.sha256()
    for path in paths:
        made.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return made.hexdigest()[:16]


@cache
def class_path() -> tuple[Path, ...]:
    """Return the jars of Apache Kafka's servers, tools and clients, as ``jars_of`` has them."""
    return jars_of(Path(str(files("kraftspec.conformance"))).resolve() / "cluster" / "pom.xml")


def jars_of(pom: Path, name: str = "jars") -> tuple[Path, ...]:
    """Return the jars that a Maven project needs to run, fetched where they are not.

    Any number of processes may call this at once: one fetches, the others wait for it. Projects of
    different ``name`` do not wait for each other.

    Raises:
        ClusterError: a tool is missing, or Maven failed (with the end of its output).
    """
    jars = cluster_cache() / f"{name}-{digest([pom])}"
    done = jars / "done"
    if not done.exists():
        with locked(cluster_cache() / f"{name}.lock"):
            if not done.exists():
                _fetch(pom, jars)
                done.touch()
    return tuple(sorted(jars.glob("*.jar")))


@cache
def class_archive() -> Path:
    """Return where the classes that a server loads are kept ready for this Java, once they are."""
    version = subprocess.run(["java", "-version"], capture_output=True, check=True).stderr
    name = hashlib.sha256(version).hexdigest()[:16]
    return class_path()[0].parent / f"{name}.jsa"


def _fetch(pom: Path, jars: Path) -> None:
    missing = java_missing()
    if missing is not None:
        raise ClusterError(missing)
    command = ["mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(pom)]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
    run_build(command, f"the jars that {pom} names were not fetched")


def run_build(command: Sequence[str], failed: str, *, cwd: Path | None = None) -> None:
    """Run a build to its end; ``ClusterError`` of ``failed`` and the end of its output."""
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=FETCH_TIMEOUT_S,
            cwd=cwd,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(f"{failed}: {error}") from error
    if done.returncode != 0:
        output = "\n".join(done.stdout.splitlines()[-OUTPUT_LINE_COUNT_MAX:])
        raise ClusterError(f"{failed}: {' '.join(command)}\n{output}")


def java_command(
    main_class: str,
    *arguments: str,
    heap_mib: int = 128,
    options: Sequence[str] = (),
    extra_class_path: Sequence[Path] = (),
) -> list[str]:
    """Return the command that runs a class of Kafka's jars with a heap of ``heap_mib`` MiB."""
    # The archive holds for a class path that begins as its own did.
    paths = [*map(str, class_path()), *map(str, extra_class_path)]
    archive = class_archive()
    return [
        "java",
        f"-Xmx{heap_mib}m",
        # The serial collector starts fastest, and these heaps are small.
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        *([f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []),
        "-Xlog:disable",  # An archive that does not fit is passed over, and nobody needs to know.
        *options,
        "-cp",
        os.pathsep.join(paths),
        main_class,
        *arguments,
    ]
