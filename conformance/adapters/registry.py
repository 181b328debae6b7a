"""The codecs that the suite knows: one folder of ``adapters/`` each, built when it is first used.

A folder holds a small program that speaks harness protocol 1, and an ``adapter.toml`` that says
how to build and run it. ``find("franz-go").adapter()`` is that program, ready to start;
``find("franz-go@1.14.0")`` is the same program over another release of what it adapts, taken from
its own registry, so that a release with a bug can be held beside the one that fixed it.

A build lives in ``adapters/<name>-<version>-<digest>`` of the user's cache directory, and is made
once for each state of the sources. There:

* ``source/<folder>`` is a copy of the adapter's folder, with the folders that it ``shares`` beside
  it, so that an installed, read-only package can be built too.
* the build's own directory, ``{build}``, is the rest; ``{shared}`` is one for all builds of a
  language, kept between them (what others already compiled is not compiled again).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path

import msgspec
from click import unstyle

from kraftspec import __version__
from kraftspec.cache import cache_directory, locked
from kraftspec.codegen.rendered import generator
from kraftspec.conformance.adapters.harness import Adapter, AdapterError
from kraftspec.conformance.adapters.kafka import KafkaAdapter
from kraftspec.specs import kafka_release, specs_root

MANIFEST = "adapter.toml"
BUILD_TIMEOUT_S = 1800.0  # A step: the first one downloads, and compiles a thousand structs.
# The argument for a tool's version, if it is not --version.
_VERSION_ARGUMENT = {"go": "version", "java": "-version", "javac": "-version"}
_NEED = re.compile(r"(?P<tool>[\w.+-]+?)(?:>=(?P<least>\d+(?:\.\d+)*))?")
_NOT_SOURCES = ("__pycache__", "node_modules", "target")
# A project's own locks must not decide what another release of a peer is built from.
_NOT_FOR_BUILDS = ("PIP_CONSTRAINT", "UV_CONSTRAINT", "UV_BUILD_CONSTRAINT", "PYTHONPATH")
_OUTPUT_LINE_COUNT_MAX = 30
_UNUSED_S_MAX = 60 * 86400.0  # A build that no command has started for so long is deleted.

Step = tuple[str, ...]


class AdapterBuildError(AdapterError):
    """An adapter could not be built: a tool is missing, or a step failed; says what to do."""

    def __init__(self, message: str) -> None:
        super().__init__("start", message)


class AdapterSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an ``adapter.toml`` says. Steps are argument lists, run without a shell.

    Steps may hold ``{source}`` (the folder's copy), ``{build}``, ``{shared}``, ``{version}``,
    ``{python}`` (the running interpreter), ``{specs}`` (the specs of this package, which the
    build then depends on) and ``{release}`` (of Kafka, theirs). They run in ``{source}``.

    Attributes:
        name: what ``--adapter`` takes.
        language: of the codec: ``go``, ``java``, ``python``, ``rust``, ``javascript``,
            ``typescript``.
        implements: the codec, as people call it.
        version: the release that is judged by default; ours if absent; ``{specs}`` is the release
            of ``specs/kafka``.
        homepage: where the codec is kept; none for ours.
        needs: programs on PATH, ``"cargo"`` or ``"cargo>=1.85"``.
        install: for each of those, the command that installs it, or by package manager
            (``apt-get``, ``dnf``, ``brew``).
        shares: other folders of ``adapters/`` that the sources refer to, as ``../<folder>``.
        pin: steps before ``build`` for another release than ``version``; a folder without them
            and without ``{version}`` in ``build`` has one release only.
        releases: those that it is tested with, if they are several.
        build: steps that make the program.
        generated: whether the build calls ``kraftspec generate``, and so depends on the generator.
        run: the command that starts it.
        folder: where the manifest was found; not in it.
        pinned: whether another release than the manifest's is used; not in it.
    """

    name: str
    language: str
    implements: str
    homepage: str = ""
    run: Step
    version: str = __version__
    needs: tuple[str, ...] = ()
    install: dict[str, str | dict[str, str]] = {}
    shares: tuple[str, ...] = ()
    pin: tuple[Step, ...] = ()
    releases: tuple[str, ...] = ()
    build: tuple[Step, ...] = ()
    generated: bool = False
    folder: str = ""
    pinned: bool = False

    def missing(self) -> list[str]:
        """What this machine lacks, each with the command that installs it; empty: nothing."""
        return [lack for lack in map(self._lack, self.needs) if lack]

    def command(self) -> list[str]:
        """The command that starts the adapter, built first where its sources have changed.

        Any number of processes may call this at once: one builds, the others wait for it.

        Raises:
            AdapterBuildError: a tool is missing, or what runs it; or a step failed (with the end
                of its output).
        """
        places = self._places()
        build = Path(places["build"])
        if self.build and not (build / "done").exists():
            with locked(build.with_name(f"{build.name}.lock")):
                if not (build / "done").exists():
                    self._make(places)
                    (build / "done").touch()
                    self._delete_unused(build.parent)
        if self.build:
            (build / "done").touch()  # Its time says when the build was last of use.
        command = _filled(self.run, places)
        if shutil.which(command[0]) is None:  # It may have gone since the build.
            missing = self.missing() or [f"{command[0]} was not found"]
            raise AdapterBuildError(f"{self.name} cannot be run: {'; '.join(missing)}")
        return command

    def adapter(self, *, timeout_s: float = 120.0) -> Adapter:
        """The adapter, built where needed and not yet started; ``timeout_s`` is for one reply.

        Raises ``AdapterBuildError``.
        """
        if self.name == "kafka":
            return KafkaAdapter(self.command(), release=self.version, timeout_s=timeout_s)
        return Adapter(self.command(), timeout_s=timeout_s)

    def _lack(self, need: str) -> str | None:
        matched = _NEED.fullmatch(need)
        if matched is None:
            raise ValueError(f"{self.folder}/{MANIFEST}: needs {need!r} is not TOOL or TOOL>=1.2")
        tool, least = matched["tool"], matched["least"]
        hint = f"install it with: {_hint(self.install.get(tool, self.homepage))}"
        if shutil.which(tool) is None:
            return f"{tool} was not found; {hint}"
        if least is None:
            return None
        version = _tool_version(tool)
        if version is None:
            return f"{tool} does not tell its version, and {least} or newer is needed; {hint}"
        if _numbers(version) < _numbers(least):
            return f"{tool} is {version}, and {least} or newer is needed; {hint}"
        return None

    def _places(self) -> dict[str, str]:
        cache = cache_directory() / "adapters"
        build = cache / f"{self.name}-{self.version}-{self._digest()}"
        return {
            "source": str(build / "source" / Path(self.folder).name) if self.build else self.folder,
            "build": str(build),
            "shared": str(cache / f"shared-{self.language}"),
            "version": self.version,
            "python": sys.executable,
            "specs": str(specs_root()),
            "release": kafka_release(),
        }

    def _folders(self) -> list[Path]:
        own = Path(self.folder)
        return [own, *(own.parent / name for name in self.shares)]

    def _digest(self) -> str:
        folders = self._folders()
        words = {word for step in self.build for word in step}
        if self.generated or any("{specs}" in word for word in words):
            folders.append(specs_root())
        digest = hashlib.sha256(generator().encode() if self.generated else b"")
        if "{python}" in words:
            digest.update(sys.base_prefix.encode() + sys.version.encode())
        for folder in folders:
            for path in _sources(folder):
                digest.update(f"{folder.name}/{path.relative_to(folder).as_posix()}\0".encode())
                digest.update(path.read_bytes() + b"\0")
        return digest.hexdigest()[:16]

    def _make(self, places: dict[str, str]) -> None:
        missing = self.missing()
        if missing:
            raise AdapterBuildError(f"{self.name} cannot be built: {'; '.join(missing)}")
        build, source = Path(places["build"]), Path(places["source"])
        shutil.rmtree(build, ignore_errors=True)  # What a step that failed has left.
        for folder in self._folders():
            for path in _sources(folder):
                target = source.parent / folder.name / path.relative_to(folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
        for step in (*(self.pin if self.pinned else ()), *self.build):
            self._run(_filled(step, places), source)

    @staticmethod
    def _delete_unused(cache: Path) -> None:
        for done in cache.glob("*/done"):
            if done.stat().st_mtime < time.time() - _UNUSED_S_MAX:
                shutil.rmtree(done.parent, ignore_errors=True)

    def _run(self, command: list[str], source: Path) -> None:
        environment = {
            name: value for name, value in os.environ.items() if name not in _NOT_FOR_BUILDS
        }
        failed = f"the adapter {self.name} did not build: {' '.join(command)} in {source}"
        try:
            completed = subprocess.run(
                ["nice", "-n", "10", *command],  # A long build gives way to other work.
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=BUILD_TIMEOUT_S,
                check=False,
                cwd=source,
                env=environment,
            )
        except subprocess.TimeoutExpired as error:
            raise AdapterBuildError(
                f"{failed}: not finished after {BUILD_TIMEOUT_S:g} s; is its registry reachable?"
            ) from error
        if completed.returncode != 0:
            output = "\n".join(completed.stdout.splitlines()[-_OUTPUT_LINE_COUNT_MAX:])
            if self.releases and self.version not in self.releases:
                tested = ", ".join(self.releases)
                failed = f"{self.version} is not a release that is tested ({tested}): {failed}"
            raise AdapterBuildError(f"{failed}\n{unstyle(output)}")


def adapters(root: Path | None = None) -> tuple[AdapterSpec, ...]:
    """All adapters that have a folder, by name.

    Args:
        root: where the folders are; this package's ``adapters`` where absent.

    Raises:
        ValueError: a manifest is not as ``AdapterSpec`` has it; names the file.
    """
    root = root or Path(str(files("kraftspec.conformance"))).resolve() / "adapters"
    specs = []
    for path in root.glob(f"*/{MANIFEST}"):
        try:
            spec = msgspec.toml.decode(path.read_text("utf-8"), type=AdapterSpec)
        except msgspec.DecodeError as error:
            raise ValueError(f"{path}: {error}") from error
        version = spec.version.replace("{specs}", kafka_release())
        specs.append(msgspec.structs.replace(spec, version=version, folder=str(path.parent)))
    return tuple(sorted(specs, key=lambda spec: spec.name))


def find(name: str, root: Path | None = None) -> AdapterSpec:
    """The adapter of a name: ``franz-go``, or ``franz-go@1.14.0`` for another of its releases.

    Raises:
        ValueError: there is none of this name, or it has no other releases.
    """
    name, at, version = name.partition("@")
    if at and not version:
        raise ValueError(f"{name}@: name a release after @, or leave it out")
    known = {spec.name: spec for spec in adapters(root)}
    if name not in known:
        raise ValueError(f"there is no adapter {name!r}: {', '.join(known)}")
    spec = known[name]
    if version in ("", spec.version):
        return spec
    if not spec.pin and not any(
        "{version}" in argument for step in spec.build for argument in step
    ):
        raise ValueError(f"{name} is {spec.version} and has no other releases")
    return msgspec.structs.replace(spec, version=version, pinned=True)


def kafka_adapter(release: str = "", *, timeout_s: float = 120.0) -> KafkaAdapter:
    """Return the adapter over Apache Kafka's classes, built where needed and not yet started.

    The classes are those of a ``release``, by default that of ``specs/kafka``. ``timeout_s`` is for
    one reply: compiling a big set of specs takes seconds. Raises ``AdapterBuildError``.
    """
    spec = find(f"kafka@{release}" if release else "kafka")
    return KafkaAdapter(spec.command(), release=spec.version, timeout_s=timeout_s)


def java_missing() -> str | None:
    """What the adapter needs and this machine lacks, with the command that installs it; or None."""
    return "; ".join(find("kafka").missing()) or None


def _hint(install: str | dict[str, str]) -> str:
    if isinstance(install, str):
        return install
    if sys.platform == "darwin":
        return install["brew"]
    return install["dnf" if shutil.which("dnf") else "apt-get"]


def _tool_version(tool: str) -> str | None:
    argument = _VERSION_ARGUMENT.get(tool, "--version")
    completed = subprocess.run([tool, argument], capture_output=True, text=True, check=False)
    match = (
        re.search(r"\d+(\.\d+)*", completed.stdout + completed.stderr)
        if completed.returncode == 0
        else None
    )
    return match[0] if match else None


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def _filled(step: Sequence[str], places: dict[str, str]) -> list[str]:
    # Not str.format: a word may hold braces of its own.
    return [
        re.sub(r"\{(\w+)\}", lambda hit: places.get(hit[1], hit[0]), argument) for argument in step
    ]


def _sources(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        hidden = any(part.startswith(".") or part in _NOT_SOURCES for part in parts)
        if path.is_file() and not hidden:
            yield path
