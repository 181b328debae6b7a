"""Apache Kafka's own classes behind the harness protocol: building the adapter, and its extras.

The adapter's Java sources are in ``adapters/java``. Maven builds them when they have changed,
into ``.cache/java`` of a checkout, or into the user's cache directory where installed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import msgspec

from kraftspec.conformance.harness import Adapter
from kraftspec.conformance.raw.harness import (
    ApiKey,
    ApiKeysReply,
    ErrorCode,
    ErrorsReply,
    LoadReply,
    VerdictReply,
)

JAVA_VERSION_MIN = 17  # What Kafka 4's server-side jars are compiled for.
BUILD_TIMEOUT_S = 600.0  # The first build downloads some 20 MB.
MAIN_CLASS = "kraftspec.adapter.Main"
_OUTPUT_LINE_COUNT_MAX = 30


class JavaError(Exception):
    """Java or Maven is missing, or the adapter did not build; says what to do."""


class RefusedError(Exception):
    """Kafka's generator refused a set of specs; the text is its own."""


def java_missing() -> str | None:
    """What the adapter needs and this machine lacks, with the command that installs it; or None."""
    tools = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
    if tools:
        return f"not found: {', '.join(tools)}; install a JDK and Maven with: {_install_command()}"
    # javac is the one that matters: a machine may have a newer runtime than compiler.
    said = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=False)
    version = re.search(r"javac (\d+)", said.stdout + said.stderr)
    if version is None or int(version[1]) < JAVA_VERSION_MIN:
        found = version[0] if version else "a javac that does not tell its version"
        return f"found {found}, but {JAVA_VERSION_MIN} or newer is needed: {_install_command()}"
    return None


def _install_command() -> str:
    if sys.platform == "darwin":
        return f"brew install openjdk@{JAVA_VERSION_MIN} maven"
    if shutil.which("dnf"):
        return f"dnf install java-{JAVA_VERSION_MIN}-openjdk-devel maven"
    return f"apt-get install openjdk-{JAVA_VERSION_MIN}-jdk-headless maven"


def adapter_command() -> list[str]:
    """The command that runs the adapter, built first where its sources have changed.

    Any number of processes may call this at once: one builds, the others wait for it.

    Raises:
        JavaError: a tool is missing, or the build failed (with the end of Maven's output).
    """
    sources = Path(str(files("kraftspec.conformance"))).resolve() / "adapters" / "java"
    cache = _cache_directory()
    pom = sources / "pom.xml"
    jars = cache / f"dependency-{_digest([pom])}"
    build = cache / f"build-{_digest([pom, *sorted(sources.rglob('*.java'))])}"
    done = build / "done"
    if not done.exists():
        with _locked(cache):
            if not done.exists():
                _build(pom, build, jars)
                done.touch()
    # The directory before the jars: an adapter class is never taken from an older jar.
    class_path = [str(build / "classes"), *sorted(str(jar) for jar in jars.glob("*.jar"))]
    # The serial collector starts fastest, and nothing here lives long enough to need another.
    options = ["-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return ["java", *options, "-cp", os.pathsep.join(class_path), MAIN_CLASS]


def _cache_directory() -> Path:
    root = Path(str(files("kraftspec.conformance"))).resolve().parent
    if (root / "pyproject.toml").is_file():
        return root / ".cache" / "java"
    if "XDG_CACHE_HOME" in os.environ:
        return Path(os.environ["XDG_CACHE_HOME"]) / "kraftspec" / "java"
    user = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return user / "kraftspec" / "java"


def _digest(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Closing the file lets it go.
        yield


def _build(pom: Path, build: Path, jars: Path) -> None:
    missing = java_missing()
    if missing is not None:
        raise JavaError(missing)
    command = ["mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(pom)]
    command += [f"-Dadapter.build={build}", f"-Dadapter.dependencies={jars}"]
    command += ["compile", "dependency:copy-dependencies"]
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise JavaError(
            f"Maven did not finish within {BUILD_TIMEOUT_S:g} s; is its repository reachable? "
            f"Try: {' '.join(command)}"
        ) from error
    if done.returncode != 0:
        output = "\n".join(done.stdout.splitlines()[-_OUTPUT_LINE_COUNT_MAX:])
        raise JavaError(f"the Java adapter did not build: {' '.join(command)}\n{output}")


class KafkaAdapter(Adapter):
    """The Java adapter with what only it can do, run as ``with KafkaAdapter() as kafka:``."""

    def __init__(self, *, timeout_s: float = 120.0) -> None:
        """Build where needed; ``timeout_s`` is for one reply (compiling a big set takes seconds).

        Raises ``JavaError``.
        """
        super().__init__(adapter_command(), timeout_s=timeout_s)

    def load(
        self,
        set_name: str,
        *,
        directory: str | os.PathLike[str] | None = None,
        specs: Mapping[str, str] | None = None,
    ) -> dict[str, str]:
        """Have Kafka's published generator compile specs, and serve them as the set ``set_name``.

        Give either ``directory`` (all ``*.json`` below it that are messages) or ``specs`` (file
        name to text). A set of that name is replaced. One call costs a run of the Java compiler:
        load many specs together.

        Returns name to version range, as in hello.

        Raises:
            RefusedError: the generator, or the Java compiler, did not take a spec.
        """
        if (directory is None) == (specs is None):
            raise ValueError("give load() either a directory or specs")
        request: dict[str, object] = {"cmd": "load", "id": set_name, "set": set_name}
        if directory is not None:
            request["dir"] = str(Path(directory).resolve())
        else:
            request["specs"] = dict(specs or {})
        reply = self.request(request)
        if "error" in reply:
            raise RefusedError(reply["error"]["detail"])
        return msgspec.convert(reply, LoadReply).messages

    def verdict(self, text: str) -> str | None:
        """Why Kafka's published generator refuses the text of one spec; None: it accepts it."""
        reply = self.request({"cmd": "verdict", "id": "verdict", "text": text})
        verdict = msgspec.convert(reply, VerdictReply)
        return None if verdict.accepted else str(verdict.detail)

    def errors(self) -> list[ErrorCode]:
        """All error codes of this Kafka (``org.apache.kafka.common.protocol.Errors``), by code."""
        return msgspec.convert(self.request({"cmd": "errors", "id": "errors"}), ErrorsReply).errors

    def api_keys(self) -> list[ApiKey]:
        """All API keys of this Kafka, by id, those without valid versions too.

        Source: ``org.apache.kafka.common.protocol.ApiKeys``; messages begin with ``message``.
        """
        reply = self.request({"cmd": "api-keys", "id": "api-keys"})
        return msgspec.convert(reply, ApiKeysReply).api_keys
