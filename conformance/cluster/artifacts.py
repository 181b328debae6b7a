"""The jars of each release: fetched by Maven once, and the command that runs a class of them."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from kraftspec.cache import cache_directory, locked
from kraftspec.conformance.adapters.registry import java_missing
from kraftspec.specs import kafka_release

# The newest bug fix of each feature release that speaks KRaft alone, in their order.
RELEASES = ("4.0.2", "4.1.2", "4.2.2", "4.3.1", "4.4.0")
RELEASE = kafka_release()  # A server that is not told otherwise runs that of the specs.
# The newest of which Maven has kafka-tools and Streams, and that of which it has kafka-shell: they
# are published later than the servers, if they are.
TOOLS_RELEASE = "4.4.0"
SHELL_RELEASE = "4.3.1"
QUORUM_COMMAND = "org.apache.kafka.tools.MetadataQuorumCommand"
_EXTRAS = {TOOLS_RELEASE: "tools", SHELL_RELEASE: "shell"}

FETCH_TIMEOUT_S = 600.0  # The first fetch downloads some 60 MB.
OUTPUT_LINE_COUNT_MAX = 30


class ClusterError(Exception):
    """A jar is missing, or a node or tool failed. The message has the end of its output."""


def cluster_cache() -> Path:
    """Return the directory that holds a cluster's files between runs."""
    return cache_directory() / "kafka"


def digest(paths: Sequence[Path]) -> str:
    """Return 16 hex digits, the hash of the names and the contents of files."""
    hasher = hashlib.sha256()
    for path in paths:
        hasher.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return hasher.hexdigest()[:16]


@cache
def class_path(release: str = RELEASE) -> tuple[Path, ...]:
    """Return the jars of a release's servers, and what TOOLS_RELEASE or SHELL_RELEASE has more.

    They are fetched as ``jars_of`` does.
    """
    pom = Path(str(files("kraftspec.conformance"))).resolve() / "cluster" / "pom.xml"
    options = [f"-Dkafka.version={release}"]
    if release in _EXTRAS:
        return jars_of(pom, f"{_EXTRAS[release]}-{release}", [*options, f"-P{_EXTRAS[release]}"])
    return jars_of(pom, f"servers-{release}", options)


def jars_of(pom: Path, name: str = "jars", options: Sequence[str] = ()) -> tuple[Path, ...]:
    """Return the jars that a Maven project needs to run; fetch them if they are missing.

    ``options`` are Maven's, and go with the name.

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
                _fetch(pom, jars, options)
                done.touch()
    return tuple(sorted(jars.glob("*.jar")))


@cache
def class_archive(release: str = RELEASE) -> Path:
    """Return the path of a release's class archive for this Java; it may not exist yet."""
    version = subprocess.run(["java", "-version"], capture_output=True, check=True).stderr
    name = hashlib.sha256(version).hexdigest()[:16]
    return class_path(release)[0].parent / f"{name}.jsa"


def _fetch(pom: Path, jars: Path, options: Sequence[str]) -> None:
    missing = java_missing()
    if missing is not None:
        raise ClusterError(missing)
    command = ["mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(pom), *options]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
    run_build(command, f"the jars that {pom} names were not fetched")


def run_build(command: Sequence[str], failed: str, *, cwd: Path | None = None) -> None:
    """Run a build; ``ClusterError`` with ``failed`` and the end of its output."""
    try:
        completed = subprocess.run(
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
    if completed.returncode != 0:
        output = "\n".join(completed.stdout.splitlines()[-OUTPUT_LINE_COUNT_MAX:])
        raise ClusterError(f"{failed}: {' '.join(command)}\n{output}")


def java_command(
    main_class: str,
    *arguments: str,
    release: str = RELEASE,
    heap_mib: int = 128,
    options: Sequence[str] = (),
    extra_class_path: Sequence[Path] = (),
) -> list[str]:
    """Return the command that runs a class of a release's jars with a heap of ``heap_mib`` MiB."""
    # The archive is valid for class paths that begin with its own class path.
    paths = [*map(str, class_path(release)), *map(str, extra_class_path)]
    archive = class_archive(release)
    return [
        "java",
        f"-Xmx{heap_mib}m",
        # The serial collector starts fastest, and these heaps are small.
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        *([f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []),
        "-Xlog:disable",  # Do not warn about an archive that does not fit: Java ignores it.
        *options,
        "-cp",
        os.pathsep.join(paths),
        main_class,
        *arguments,
    ]
