"""The peers in other languages: building their programs, and asking them for figures.

A program stays up while the benchmarks run and measures one group at a time, between ours and
the other Python packages. It is built into the cache when its sources have changed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from kraftspec.cache import cache_directory
from kraftspec.conformance.adapters.registry import AdapterBuildError, find, java_missing

SOURCES = Path(__file__).resolve().parent
CACHE = cache_directory() / "peers"
BUILD_TIMEOUT_S = 900.0  # The first build downloads and compiles what the lock files name.
ANSWER_TIMEOUT_S = 600.0  # A measurement takes two seconds.
_OUTPUT_LINE_COUNT_MAX = 15


class MissingError(Exception):
    """A toolchain is not there or its program did not build; says what to do."""


class PeerError(Exception):
    """A program failed, or produced other bytes than ours."""


@dataclass(frozen=True)
class Language:
    """How the peer of a language is found, built and named."""

    name: str
    who: dict[str, str]  # The library, by kind of operation: crc32c, batch, message.
    tools: tuple[str, ...]
    install: str
    build: str  # Words apart by spaces; {source} and {build} are put in.
    command: str  # {codecs}: the compiled TypeScript codecs.
    jit: bool = False
    version: str = ""  # Prints the version of the compiler, where the program cannot.
    folder: str = ""  # Of its sources; empty: the name in lower case.
    groups: str = "(?!javascript )"  # How the names of its groups begin.

    def has(self, group: str) -> bool:
        """Whether the program can do what a group measures."""
        return re.match(self.groups, group) is not None


def _node(name: str, who: str, groups: str) -> Language:
    """One of the libraries that run in Node.js; a program has one of them alone."""
    return Language(
        name,
        {"message": who},
        ("node", "npm"),
        "Node.js 20 or newer, from nodejs.org",
        "npm install --prefix {build} --no-audit --no-fund --no-package-lock --ignore-scripts "
        "--loglevel error @platformatic/kafka@1.35.0 kafkajs@2.2.4",
        f"node {{source}}/main.mjs {name.lower()} {{build}} {{codecs}}",
        jit=True,
        folder="node",
        groups=groups,
    )


LANGUAGES = (
    Language(
        "Java",
        {"crc32c": "Java CRC32C", "batch": "Java kafka-clients", "message": "Java kafka-clients"},
        ("java", "javac", "mvn"),
        "apt-get install openjdk-17-jdk-headless maven",
        "mvn -q -B -f {source}/pom.xml -Dpeer.build={build} compile dependency:copy-dependencies",
        # The serial collector has the cheapest barriers, which favours Java on one thread.
        "java -Xms512m -Xmx512m -XX:+UseSerialGC -cp {build}/classes:{build}/dependency/* "
        "kraftspec.peer.Main",
        jit=True,
    ),
    Language(
        "Go",
        {"crc32c": "Go hash/crc32", "batch": "Go franz-go", "message": "Go franz-go"},
        ("go",),
        "Go 1.26 or newer, from go.dev or your distribution",
        "env GOTOOLCHAIN=local go -C {source} build -mod=readonly -o {build}/peer .",
        "{build}/peer",
    ),
    Language(
        "Rust",
        {"crc32c": "Rust crc32c", "batch": "Rust kafka-protocol", "message": "Rust kafka-protocol"},
        ("cargo", "rustc"),
        "Rust 1.85 or newer, by rustup or your distribution",
        "cargo build --quiet --release --locked --manifest-path {source}/Cargo.toml "
        "--target-dir {build}",
        "{build}/release/kraftspec-peer",
        version="rustc --version",
    ),
    _node("Kraftspec", "kraftspec TypeScript", "javascript "),
    # Which versions they have; they write requests and read responses.
    _node("Platformatic", "@platformatic/kafka", r"javascript .*-v12\b"),
    _node("kafkajs", "kafkajs", r"javascript .*-v(6|11)\b"),
)


@dataclass(frozen=True)
class Request:
    """What a program is to measure, and the proof that it did so on the same bytes."""

    operation: str  # crc32c, encode-batch, decode-batch, encode-message or decode-message.
    data: bytes
    check: int  # CRC-32C of what the program must produce.
    message: str = "-"
    version: int = 0

    @property
    def kind(self) -> str:
        """Which of a language's libraries does the work."""
        return self.operation.rpartition("-")[2]


@dataclass(frozen=True)
class Times:
    """How long a program measures, and how long its work runs before."""

    warm_ms: int = 100
    jit_warm_ms: int = 3000  # The JVM reaches its pace only after that, on a busy machine.
    measure_ms: int = 200
    round_us: int = 1000


def missing(language: Language) -> str | None:
    """What the language's peer needs and this machine lacks; None: nothing."""
    if language.name == "Java":
        return java_missing()
    tools = [tool for tool in language.tools if shutil.which(tool) is None]
    return f"not found: {', '.join(tools)}; install {language.install}" if tools else None


def build(language: Language) -> list[str]:
    """The command that runs a language's program, built first where its sources have changed.

    Raises:
        MissingError: a tool is not there, or the build failed (with the end of its output).
    """
    lacks = missing(language)
    if lacks:
        raise MissingError(lacks)
    folder = language.folder or language.name.lower()
    source = SOURCES / folder
    target = CACHE / f"{folder}-{_digest(source)}"
    places = {"source": str(source), "build": str(target), "codecs": ""}
    if "{codecs}" in language.command:
        try:
            places["codecs"] = find("kraftspec-typescript").command()[2]
        except AdapterBuildError as error:
            raise MissingError(str(error)) from error
    with _locked(target):
        if not (target / "done").exists():
            _compile(language, places)
            (target / "done").touch()
    return _words(language.command, places)


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    """Let one process build while the others wait for it."""
    target.mkdir(parents=True, exist_ok=True)
    with (target / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Closing the file lets it go.
        yield


def _compile(language: Language, places: dict[str, str]) -> None:
    command = ["nice", "-n", "10", *_words(language.build, places)]
    try:
        ended = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise MissingError(f"did not build within {BUILD_TIMEOUT_S:g} s") from error
    if ended.returncode != 0:
        output = "\n".join(ended.stdout.splitlines()[-_OUTPUT_LINE_COUNT_MAX:])
        raise MissingError(f"did not build: {' '.join(command)}\n{output}")


def _words(command: str, places: dict[str, str]) -> list[str]:
    return [word.format(**places) for word in command.split()]


def _digest(source: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(source.rglob("*")):
        if path.is_file() and "target" not in path.parts:
            digest.update(path.relative_to(source).as_posix().encode() + b"\0")
            digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


class Program:
    """A running peer, used as ``with Program(language) as program:``."""

    def __init__(self, language: Language) -> None:
        """Build where needed and start; raises ``MissingError``."""
        self.language = language
        self._process = subprocess.Popen(
            build(language), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            self.versions: dict[str, str] = self._read()["versions"]
        except PeerError:
            self.close()
            raise
        if language.version:
            command = language.version.split()
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            self.versions[command[0]] = result.stdout.split()[1] if result.returncode == 0 else "?"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the program."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def measure(self, request: Request, times: Times) -> dict[str, Any]:
        """Return records, bytes and rounds (nanoseconds a call) of a request.

        Raises:
            PeerError: the program failed, or what it produced is not what ours is.
        """
        CACHE.mkdir(parents=True, exist_ok=True)
        path = CACHE / f"input-{hashlib.sha256(request.data).hexdigest()[:16]}"
        path.write_bytes(request.data)
        fields: list[object] = [request.operation, request.message, request.version, path]
        warm_ms = times.jit_warm_ms if self.language.jit else times.warm_ms
        fields += [warm_ms, times.measure_ms, times.round_us]
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\t".join(map(str, fields)) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise PeerError(f"{self.language.name} ended") from None
        reply = self._read()
        subject = f"{self.language.name}, {request.operation}"
        if "error" in reply:
            raise PeerError(f"{subject}: {reply['error']}")
        if reply["check"] != request.check:
            raise PeerError(f"{subject}: CRC-32C {reply['check']:#x}, expected {request.check:#x}")
        return reply

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        timer = threading.Timer(ANSWER_TIMEOUT_S, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            raise PeerError(f"{self.language.name} ended without an answer")
        reply: dict[str, Any] = json.loads(line)
        return reply
