"""Releases of Apache Kafka by name: their jars from Maven, their schemas imported once.

``release_specs("4.3.1")`` is a directory as ``specs/kafka`` is: one directory a module, one file a
message. Maven keeps the jars; what was imported is in ``releases`` of the cache directory.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Final

from kraftspec.cache import cache_directory, locked
from kraftspec.codegen import importer
from kraftspec.codegen.importer import Spec, SpecImportError, import_jars, module_of, read_jar
from kraftspec.specs import specs_root

HISTORY: Final = specs_root() / "history.json"  # What each release changed; it names them all.
FIRST: Final = "2.8.0"  # The first with the records of KRaft.
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
  <dependencies>{dependencies}</dependencies>
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
_RANGE = (
    "<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId>"
    "<version>[{first},)</version><exclusions><exclusion><groupId>*</groupId>"
    "<artifactId>*</artifactId></exclusion></exclusions></dependency>"
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
        if not _RELEASE.fullmatch(release) or numbers(release) < numbers(FIRST):
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


@cache
def known_releases() -> tuple[str, ...]:
    """Return the releases that are known here, in the order of their numbers."""
    return tuple(json.loads(HISTORY.read_text("utf-8"))["releases"]) if HISTORY.exists() else ()


def read_release(release: str) -> dict[str, tuple[str, Spec]]:
    """Return the module and the spec of every message of a release, as its jars have them.

    Nothing is left out, and nothing is kept. Raises ``ReleaseError``.
    """
    with _jars(release) as jars:
        return {str(spec["name"]): (module_of(jar), spec) for jar in jars for spec in read_jar(jar)}


def published_releases() -> list[str]:
    """Return the releases from ``FIRST`` on that Maven has. Raises ``ReleaseError``."""
    newest = (known_releases() or (FIRST,))[-1]
    with tempfile.TemporaryDirectory() as scratch:
        pom, told = Path(scratch, "pom.xml"), Path(scratch, "repository.txt")
        pom.write_text(_POM.format(items="", dependencies=_RANGE.format(first=newest)), "utf-8")
        # To resolve a range, Maven fetches the list of all releases into its repository.
        failed, output = _maven(
            pom, "-U", "dependency:resolve", "help:evaluate",
            "-Dexpression=settings.localRepository", f"-Doutput={told}",
        )  # fmt: skip
        repository = Path("" if failed else told.read_text("utf-8").strip())
    lists = (repository / "org/apache/kafka/kafka-clients").glob("maven-metadata-*.xml")
    releases = {
        release
        for path in lists
        for release in re.findall(r"<version>(\d+\.\d+\.\d+)</version>", path.read_text("utf-8"))
        if numbers(release) >= numbers(FIRST)
    }
    if failed or not releases:
        raise ReleaseError(f"Maven did not list the releases of Apache Kafka\n{output}")
    return sorted(releases, key=numbers)


def _import(release: str, directory: Path) -> None:
    with _jars(release) as jars:
        specs = jars[0].with_name("specs")
        try:
            import_jars(jars, specs)
        except SpecImportError as error:
            raise ReleaseError(f"Apache Kafka {release} cannot be imported: {error}") from error
        specs.rename(directory)  # At once: a directory that is there is complete.


@contextmanager
def _jars(release: str) -> Iterator[list[Path]]:
    """Fetch the jars of a release that have schemas, into a directory of the cache for a while."""
    if shutil.which("mvn") is None:
        raise ReleaseError(
            f"Apache Kafka {release} is fetched by Maven, and there is no mvn here: "
            "apt-get install maven, dnf install maven or brew install maven"
        )
    items = "\n".join(
        _ITEM.format(artifact=artifact, release=release) for artifact in jar_names(release)
    )
    # A release may have come since Maven was asked for it in vain.
    again = () if release in known_releases() else ("-U",)
    cache_directory().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_directory()) as scratch:
        pom = Path(scratch, "pom.xml")
        pom.write_text(_POM.format(items=items, dependencies=""), "utf-8")
        failed, output = _maven(pom, "dependency:copy", f"-DoutputDirectory={scratch}", *again)
        if failed and again and (missing := _NOT_THERE.search(output)):
            raise _unknown(release, f"Maven has no {missing[1]}")
        if failed:
            raise ReleaseError(f"Maven did not fetch the jars of Apache Kafka {release}\n{output}")
        yield sorted(Path(scratch).glob("*.jar"))


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
    lines = [list(group) for _, group in groupby(known_releases(), lambda name: numbers(name)[:2])]
    known = ", ".join(
        names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}" for names in lines
    )
    why = f" ({reason})" if reason else ""
    return ReleaseError(f"there is no release {release} of Apache Kafka{why}; known: {known}")
