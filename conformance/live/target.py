"""A node under test: an executable with the verbs format, start, stop and wipe.

::

    CMD format DIRECTORY         make the node's directories; return
    CMD start DIRECTORY          run the node until it ends, in the foreground
    CMD stop DIRECTORY HOW       end it: kill (as kill -9) or stop (cleanly); NODE_PID is what
                                 start runs as
    CMD wipe DIRECTORY           delete what the others have made

DIRECTORY has ``node.properties``, in Kafka's properties, and ``format.properties`` with
``cluster.id`` and, of a dynamic quorum, ``initial.controllers``. Any other exit code than 0 of
format, stop or wipe means that there is no verdict.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kraftspec.conformance.cluster.artifacts import ClusterError
from kraftspec.conformance.cluster.guard import Guard

VERB_S = 300.0  # For a machine that is busy; a verb takes a few seconds.
OUTPUT_CHARS_MAX = 2_000
BUILT_IN = {
    name: [sys.executable, "-m", f"kraftspec.conformance.live.target_{name}"]
    for name in ("kafka", "kraftspec")
}


class TargetError(ClusterError):
    """A verb failed, so there is no verdict on the node."""


class Target:
    """The node of one scenario, in a directory of its own."""

    def __init__(self, command: Sequence[str], directory: Path, guard: Guard) -> None:
        self.command = list(command)
        self.directory = directory
        self._guard = guard
        self._process: subprocess.Popen[bytes] | None = None

    def write(self, name: str, properties: Mapping[str, str]) -> None:
        """Write a file of properties."""
        lines = [f"{key}={value}\n" for key, value in properties.items()]
        (self.directory / name).write_text("".join(lines), encoding="utf-8")

    def format(self) -> None:
        """Let it make its directories."""
        self._run("format")

    def start(self) -> None:
        """Start it; it has not begun to serve then."""
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.command, "start", str(self.directory)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                process_group=self._guard.process_group,
            )

    @property
    def exit_code(self) -> int | None:
        """With which it has ended; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def stop(self, mode: str) -> None:
        """End it by ``kill`` or ``stop``, and wait until it has ended."""
        if self._process is None or self._process.poll() is not None:
            return
        self._run("stop", mode)
        try:
            self._process.wait(VERB_S)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            raise TargetError(f"the node runs {VERB_S:g} s after `stop … {mode}`") from error

    def wipe(self) -> None:
        """Let it delete its directories."""
        self._run("wipe")

    @property
    def log_path(self) -> Path:
        """What the node and the verbs printed."""
        return self.directory / "target.log"

    def output(self) -> str:
        """Return the end of what was printed."""
        if not self.log_path.exists():
            return ""
        return self.log_path.read_text("utf-8", "replace")[-OUTPUT_CHARS_MAX:]

    def _run(self, verb: str, *arguments: str) -> None:
        environment = dict(os.environ)
        if self._process is not None:
            environment["NODE_PID"] = str(self._process.pid)
        try:
            with self.log_path.open("ab") as log:
                done = subprocess.run(
                    [*self.command, verb, str(self.directory), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=self.directory,
                    env=environment,
                    timeout=VERB_S,
                    process_group=self._guard.process_group,
                    check=False,
                )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TargetError(f"the target's verb {verb} failed: {error}") from error
        if done.returncode:
            raise TargetError(
                f"the target's verb {verb} left with exit code {done.returncode}:\n{self.output()}"
            )
