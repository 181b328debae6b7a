"""Apache Kafka's own tools, run by one Java process a release, and ours beside them."""

from __future__ import annotations

import json
import select
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from click.testing import CliRunner

from kraftspec.cli import main
from kraftspec.conformance.cluster.artifacts import (
    QUORUM_COMMAND,
    RELEASE,
    TOOLS_RELEASE,
    java_command,
)

STORAGE = "kafka.tools.StorageTool"
DUMP = "org.apache.kafka.tools.DumpLogSegments"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
ADMIN = "AdminClient"  # No tool: see KafkaTools.java.
ANSWER_TIMEOUT_S = 120.0


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """How a tool ended, and what it printed; ``thrown`` is an exception's message."""

    code: int
    out: str
    err: str
    thrown: str | None = None

    @property
    def refusal(self) -> str:
        """What it says is wrong, in one line."""
        return (self.thrown if self.thrown is not None else self.err).strip()

    @property
    def said(self) -> str:
        """The first line on stderr, without the name of Java's exception."""
        return self.err.partition("\n")[0].rpartition("Exception: ")[2]


class KafkaTools:
    """``with KafkaTools() as kafka: kafka.run(STORAGE, "info", "-c", …)``.

    The server's own tool, STORAGE, is that of RELEASE, all others are those of TOOLS_RELEASE.
    """

    def __init__(self) -> None:
        self._processes: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait(ANSWER_TIMEOUT_S)
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()

    def _process(self, release: str) -> subprocess.Popen[str]:
        if release not in self._processes:
            source = str(Path(__file__).with_name("KafkaTools.java"))
            options = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
            command = java_command(source, release=release, options=options)
            self._processes[release] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
            )
        return self._processes[release]

    def run(self, tool: str, *arguments: str) -> Said:
        """Run a tool, and return how it ended."""
        process = self._process(RELEASE if tool == STORAGE else TOOLS_RELEASE)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"tool": tool, "arguments": arguments}) + "\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], ANSWER_TIMEOUT_S)
        assert ready, f"{tool} {arguments}: no answer within {ANSWER_TIMEOUT_S:g} s"
        line = process.stdout.readline()
        assert line, f"{tool} {arguments}: Java ended"
        return msgspec.json.decode(line, type=Said)

    def quorum(self, *arguments: str) -> Said:
        """Run ``kafka-metadata-quorum``."""
        return self.run(QUORUM_COMMAND, *arguments)

    def dump(self, *arguments: str) -> str:
        """Run ``kafka-dump-log``; return what it prints."""
        done = self.run(DUMP, *arguments)
        assert (done.code, done.err) == (0, ""), done
        return done.out

    def admin(self, controllers: str) -> dict[str, Any]:
        """Return what the AdminClient finds by itself at these controllers."""
        done = self.run(ADMIN, controllers)
        assert done.code == 0, done
        report: dict[str, Any] = json.loads(done.out)
        return report


def ours(*arguments: str) -> Said:
    """Run a command of ours, as a person would."""
    done = CliRunner().invoke(main, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Said(code=done.exit_code, out=done.stdout, err=done.stderr)
