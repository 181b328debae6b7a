"""Build the workload programs if they have changed, run them, and read their output."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from kraftspec.cache import locked
from kraftspec.conformance.cluster.artifacts import (
    TOOLS_RELEASE,
    ClusterError,
    class_path,
    cluster_cache,
    digest,
    java_command,
    run_build,
)
from kraftspec.conformance.cluster.guard import Guard

Language = Literal["java", "go", "python"]

WORKLOAD_TIMEOUT_S = 900.0  # Many times what the longest takes on a quiet machine.
_LINE_COUNT_MAX = 40
_PACKAGE = Path(str(files("kraftspec.conformance"))).resolve()
_PYTHON_CLIENTS = ("kafka", "aiokafka", "cramjam")
_PYTHON_MODULE = "kraftspec.conformance.making.capture.clients.python_workload"


def _sources(language: str) -> Path:
    return _PACKAGE / "making" / "capture" / "clients" / language


def _built(language: str, suffixes: tuple[str, ...], name: str) -> tuple[Path, bool]:
    """Return where the program of a language goes, and whether it is there."""
    sources = sorted(path for path in _sources(language).rglob("*") if path.suffix in suffixes)
    sources.append(_PACKAGE / "cluster" / "artifacts.py")  # What Java compiles against.
    directory = cluster_cache() / f"workload-{language}-{digest(sources)}"
    return directory / name, (directory / "done").exists()


def java_workload() -> Path:
    """Return the jar of the Java workload, compiled where its sources have changed.

    Raises ``ClusterError``, with the compiler's words.
    """
    jar, done = _built("java", (".java",), "workload.jar")
    if not done:
        with locked(cluster_cache() / "workload-java.lock"):
            sources = sorted(map(str, _sources("java").rglob("*.java")))
            classes = jar.parent / "classes"
            classes.mkdir(parents=True, exist_ok=True)
            path = ":".join(map(str, class_path(TOOLS_RELEASE)))
            command = ["javac", "--release", "17", "-cp", path, "-d", str(classes), *sources]
            run_build(command, "the Java workload did not build")
            run_build(
                ["jar", "--create", "--file", str(jar), "-C", str(classes), "."],
                "the Java workload was not packed",
            )
            (jar.parent / "done").touch()
    return jar


def go_workload() -> Path:
    """Return the Go workload, built where its sources have changed.

    Raises ``ClusterError``, with the compiler's words.
    """
    program, done = _built("go", (".go", ".mod", ".sum"), "workload")
    if not done:
        if shutil.which("go") is None:
            raise ClusterError("go was not found; install it with: apt-get install golang")
        with locked(cluster_cache() / "workload-go.lock"):
            program.parent.mkdir(parents=True, exist_ok=True)
            run_build(
                ["nice", "-n", "10", "go", "build", "-mod=readonly", "-o", str(program), "."],
                "the Go workload did not build",
                cwd=_sources("go"),
            )
            (program.parent / "done").touch()
    return program


def command_of(language: Language) -> list[str]:
    """Return the command that starts a workload program, built where needed."""
    if language == "java":
        return java_command(
            "kraftspec.capture.Workload",
            release=TOOLS_RELEASE,
            heap_mib=192,
            options=["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"],
            extra_class_path=[java_workload()],
        )
    if language == "go":
        return [str(go_workload())]
    lacking = [name for name in _PYTHON_CLIENTS if find_spec(name) is None]
    if lacking:
        raise ClusterError(f"not installed: {', '.join(lacking)}: pip install 'kraftspec[capture]'")
    return [sys.executable, "-m", _PYTHON_MODULE]


def run_workload(
    language: Language,
    arguments: Sequence[str],
    on_phase: Callable[[str], None],
    *,
    timeout_s: float = WORKLOAD_TIMEOUT_S,
) -> list[str]:
    """Run a workload program and return what of it failed, in its own words.

    Args:
        arguments: where the cluster is, and the parts to run.
        on_phase: called with the name of each part when it begins.

    Raises:
        ClusterError: it could not be built.
    """
    failures: list[str] = []
    command = [*command_of(language), *arguments]
    with Guard() as guard, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            process_group=guard.process_group,
        )
        timer = threading.Timer(timeout_s, process.kill)
        timer.start()
        assert process.stdout is not None
        try:
            for line in process.stdout:
                keyword, _, rest = line.rstrip().partition(" ")
                if keyword == "phase":
                    on_phase(rest)
                elif keyword == "failed":
                    failures.append(f"{language} {rest}")
            code = process.wait()
        finally:
            timer.cancel()
            process.kill()
            process.wait()
            process.stdout.close()
        if code != 0 or failures:
            errors.seek(0)
            output = "".join(errors.readlines()[-_LINE_COUNT_MAX:])
            failures.append(f"{language} ended with {code}:\n{output}")
    return failures
