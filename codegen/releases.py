"""Releases of Apache Kafka by name: their jars from Maven, their schemas imported once.

``release_specs("4.3.1")`` is a directory as ``specs/kafka`` is: one directory a module, one file a
message. Maven keeps the jars; what was imported is in ``releases`` of the cache directory.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

from kraftspec.cache import cache_directory, locked
from kraftspec.codegen import importer
from kraftspec.codegen.importer import SpecImportError, import_jars

RELEASES: Final = (
    "2.8.0", "2.8.1", "2.8.2", "3.0.0", "3.0.1", "3.0.2", "3.1.0", "3.1.1", "3.1.2",
    "3.2.0", "3.2.1", "3.2.2", "3.2.3", "3.3.0", "3.3.1", "3.3.2", "3.4.0", "3.4.1",
    "3.5.0", "3.5.1", "3.5.2", "3.6.0", "3.6.1", "3.6.2", "3.7.0", "3.7.1", "3.7.2",
    "3.8.0", "3.8.1", "3.9.0", "3.9.1", "3.9.2", "4.0.0", "4.0.1", "4.0.2",
    "4.1.0", "4.1.1", "4.1.2", "4.2.0", "4.2.1", "4.2.2", "4.3.0", "4.3.1", "4.4.0",
)  # fmt: skip
MAVEN_TIMEOUT_S: Final = 600.0
OUTPUT_LINE_COUNT_MAX: Final = 30

_NAME = re.compile(r"kafka-(\d[\d.]*)|(\d+\.\d+\.\d+)")
_RELEASE = re.compile(r"\d+\.\d+\.\d+")
_NOT_THERE = re.compile(r"(org\.apache\.kafka:\S+)(?: was not found)? in ")

Release = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Artifact:
    """A jar that holds schemas, in the releases from ``first`` on and before ``end``."""

    name: str
    first: Release
    end: Release | None = None

    def in_release(self, release: Release) -> bool:
        """Whether the release's jar of this name holds schemas."""
        return self.first <= release and (self.end is None or release < self.end)


# What the jars have. The coordinators' records moved out of the broker's jar, kafka_2.13: those of
# groups in 3.5, those of transactions in 3.9.
ARTIFACTS: Final = (
    Artifact("kafka-clients", (2, 8)),
    Artifact("kafka-raft", (2, 8)),
    Artifact("kafka-metadata", (2, 8)),
    Artifact("kafka_2.13", (2, 8), (3, 9)),
    Artifact("kafka-storage", (3, 0)),
    Artifact("kafka-group-coordinator", (3, 5)),
    Artifact("kafka-transaction-coordinator", (3, 9)),
    Artifact("kafka-share-coordinator", (4, 0)),
)
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kraftspec</groupId><artifactId>release</artifactId><version>1</version>
  <packaging>pom</packaging>
  <build><plugins><plugin>
    <groupId>org.apache.maven.plugins</groupId><artifactId>maven-dependency-plugin</artifactId>
    <version>3.8.1</version>
    <configuration><artifactItems>
{items}
    </artifactItems></configuration>
  </plugin></plugins></build>
</project>
"""
_ITEM = (
    "<artifactItem><groupId>org.apache.kafka</groupId>"
    "<artifactId>{artifact}</artifactId><version>{release}</version></artifactItem>"
)


class ReleaseError(ValueError):
    """A release is not known, or Maven could not fetch it; the text says what to do."""


def specs_path(text: str | Path) -> Path:
    """Return the path of specs that a person named: what exists, else a release of Kafka by name.

    A name is ``kafka-4.3.1`` or ``4.3.1``. Other names are returned as they are. Raises
    ``ReleaseError``.
    """
    path = Path(text)
    match = _NAME.fullmatch(str(text))
    return path if match is None or path.exists() else release_specs(match[1] or match[2])


def release_specs(release: str) -> Path:
    """Return the directory of a release's schemas, fetched and imported if that was never done.

    Any number of processes may call this at once: one fetches, the others wait for it. Raises
    ``ReleaseError``.
    """
    name = f"kafka-{release}"
    # What another importer wrote may be written otherwise.
    importers = hashlib.sha256(Path(importer.__file__).read_bytes()).hexdigest()[:16]
    cache = cache_directory() / "releases" / importers
    directory = cache / name
    if not directory.exists():
        if not _RELEASE.fullmatch(release) or numbers(release) < numbers(RELEASES[0]):
            raise _unknown(release)
        with locked(cache / f"{name}.lock"):
            if not directory.exists():
                _import(release, directory)
    return directory


def numbers(release: str) -> Release:
    """Return ``(4, 3, 1)`` for ``4.3.1``: releases in their order."""
    return tuple(map(int, release.split(".")))


def jar_names(release: str) -> list[str]:
    """Return the artifacts of a release whose jars hold schemas."""
    return [artifact.name for artifact in ARTIFACTS if artifact.in_release(numbers(release))]


def _import(release: str, directory: Path) -> None:
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        jars, specs = Path(scratch, "jars"), Path(scratch, "specs")
        _fetch(release, jars)
        try:
            import_jars(sorted(jars.glob("*.jar")), specs)
        except SpecImportError as error:
            raise ReleaseError(f"Apache Kafka {release} cannot be imported: {error}") from error
        specs.rename(directory)  # At once: a directory that is there is complete.


def _fetch(release: str, jars: Path) -> None:
    if shutil.which("mvn") is None:
        raise ReleaseError(
            f"Apache Kafka {release} is fetched by Maven, and there is no mvn here: "
            "apt-get install maven, dnf install maven or brew install maven"
        )
    items = "\n".join(
        _ITEM.format(artifact=artifact, release=release) for artifact in jar_names(release)
    )
    pom = jars.with_name("pom.xml")
    pom.write_text(_POM.format(items=items), "utf-8")
    # A release may have come since Maven was asked for it in vain.
    again = () if release in RELEASES else ("-U",)
    failed, output = _maven(pom, "dependency:copy", f"-DoutputDirectory={jars}", *again)
    if failed and release not in RELEASES and (missing := _NOT_THERE.search(output)):
        raise _unknown(release, f"Maven has no {missing[1]}")
    if failed:
        raise ReleaseError(f"Maven did not fetch the jars of Apache Kafka {release}\n{output}")


def _maven(pom: Path, *arguments: str) -> tuple[bool, str]:
    """Run Maven; return whether it failed, and the end of its output."""
    command = ["mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(pom), *arguments]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=MAVEN_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return True, str(error)
    return done.returncode != 0, "\n".join(done.stdout.splitlines()[-OUTPUT_LINE_COUNT_MAX:])


def _unknown(release: str, reason: str = "") -> ReleaseError:
    lines = [list(group) for _, group in groupby(RELEASES, lambda name: numbers(name)[:2])]
    known = ", ".join(
        names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}" for names in lines
    )
    why = f" ({reason})" if reason else ""
    return ReleaseError(f"there is no release {release} of Apache Kafka{why}; known: {known}")
