"""Apache Kafka's tools, kept in one process: each run costs what it does, and no start."""

from __future__ import annotations

import json
import select
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from kraftspec.conformance.cluster import java_command

SOURCE = Path(__file__).with_name("KafkaTools.java")
TIMEOUT_S = 90.0


class Done(NamedTuple):
    """What a run left."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Its first line on stderr, without the name of Java's exception."""
        return self.err.partition("\n")[0].rpartition("Exception: ")[2]


class KafkaTools:
    """``with KafkaTools() as kafka: kafka.quorum("--bootstrap-server", …, "describe", …)``."""

    def __enter__(self) -> KafkaTools:
        options = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
        self.process = subprocess.Popen(
            java_command(str(SOURCE), options=options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            bufsize=1,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(TIMEOUT_S)
        finally:
            self.process.kill()
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()

    def quorum(self, *arguments: str) -> Done:
        """Run ``kafka-metadata-quorum``."""
        return self._run("quorum", *arguments)

    def dump(self, *arguments: str) -> str:
        """Run ``kafka-dump-log``; return what it prints."""
        done = self._run("dump", *arguments)
        assert not done.err, done.err
        return done.out

    def admin(self, controllers: str) -> dict[str, Any]:
        """Return what the AdminClient finds by itself at these controllers."""
        done = self._run("admin", controllers)
        found: dict[str, Any] = json.loads(done.out)
        return found

    def _run(self, *arguments: str) -> Done:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(arguments) + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], TIMEOUT_S)
        assert ready, f"{arguments}: no answer within {TIMEOUT_S:.0f} s"
        line = self.process.stdout.readline()
        assert line, f"{arguments}: the tool ended with {self.process.wait(TIMEOUT_S)}"
        return Done(**json.loads(line))
