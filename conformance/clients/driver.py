"""A driver: the process that drives a client. It answers each line of JSON with one.

The process is watched while it works: whether it ends, answers in time, and how much memory it
takes. Memory is that of the process and of its children, so a driver may be a shell script.
"""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kraftspec.conformance.cluster.guard import Guard

PROTOCOL = 1
LINE_CHARS_MAX = 1 << 20
MEMORY_BYTES_MAX = 1 << 30  # More than before the exchange, resident or reserved.
_WATCH_S = 0.01
_OUTPUT_BYTES_MAX = 1 << 20
# The line that says why a process ended, as Go, Rust, Java, JavaScript and Python write it.
_WHY = re.compile(
    r"((panic|fatal error|[\w.]*(Error|Exception)\b.*):|thread .* panicked at|.*OutOfMemory).*"
)
Missing = Literal["idempotent", "acks", "admin", "consume", "sasl", "tls", "zstd", "lz4", "snappy"]


class Greeting(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a driver."""

    protocol: Literal[1]
    client: Annotated[str, Meta(min_length=1, description="As people call it.")]
    version: Annotated[str, Meta(description="Of the client.")]
    language: str
    cannot: Annotated[list[Missing], Meta(description="What the client does not have.")] = []


class Ask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line to the driver. Each verb uses some of the fields; `timeout_ms` is of all.

    connect: bootstrap, idempotent, acks, security; produce: topic, partition, values;
    consume: topic, partition, offset, count; admin: create_topic; close: none.
    """

    verb: Literal["connect", "produce", "consume", "admin", "close"]
    timeout_ms: Annotated[int, Meta(description="The client's own time-out for all it does.")]
    bootstrap: Annotated[str, Meta(description="HOST:PORT")] = ""
    idempotent: bool = False
    acks: Literal[-1, 0, 1] = -1
    security: Annotated[
        dict[str, str],
        Meta(description="user and password: SASL PLAIN. ca: TLS; the path of a PEM file."),
    ] = {}
    topic: str = ""
    partition: int = 0
    values: Annotated[list[str], Meta(description="Each is a record without a key.")] = []
    offset: int = 0
    count: int = 0
    create_topic: str = ""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the driver: what the client has done."""

    ok: Annotated[bool, Meta(description="produce: all values are acknowledged.")]
    error: Annotated[str, Meta(description="What the client said.")] = ""
    values: Annotated[list[str], Meta(description="consume: of the records.")] = []


class DriverError(Exception):
    """The driver does not keep to the protocol: there is no verdict on the client."""


class DriverEndedError(Exception):
    """The process ended; the text says how."""


class DriverHungError(Exception):
    """There was no answer in time."""


class DriverAteError(Exception):
    """The process took more memory than it may; it was killed."""


class Driver:
    """``with Driver(command) as driver``; ``start`` again after it ended."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = list(command)
        self.greeting: Greeting
        self._guard = Guard()
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._base = 0
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - of all processes, until the end
        self._began = 0  # Where in it those of this process begin.

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._errors.close()
        self._guard.close()

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self, timeout_s: float) -> Greeting:
        """Start the process. Raises DriverError where it does not greet in time."""
        self.kill()
        self._began = self.mark()
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,
            )
        except OSError as error:
            raise DriverError(f"{self.command[0]}: {error.strerror}") from error
        self._lines = queue.Queue()
        threading.Thread(target=_read, args=(self._process, self._lines), daemon=True).start()
        try:
            line = self._line(timeout_s)
            self.greeting = msgspec.json.decode(line, type=Greeting)
        except (DriverEndedError, DriverHungError, DriverAteError) as error:
            raise DriverError(f"it did not greet: {error}") from error
        except msgspec.DecodeError as error:
            raise DriverError(f"its first line is no greeting: {error}: {line[:200]!r}") from error
        return self.greeting

    def ask(self, ask: Ask, timeout_s: float) -> Reply:
        """Let it do something, and wait for what it says of it.

        Raises DriverEndedError, DriverHungError, DriverAteError, DriverError.
        """
        return self.send(msgspec.json.encode(ask), timeout_s)

    def send(self, line: bytes, timeout_s: float) -> Reply:
        """Send a line; otherwise as ``ask``."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        self._base = _memory(process.pid)
        try:
            process.stdin.write(line + b"\n")
            process.stdin.flush()
        except OSError as error:
            raise DriverEndedError(self._how_it_ended()) from error
        answered = self._line(timeout_s)
        try:
            return msgspec.json.decode(answered, type=Reply)
        except msgspec.DecodeError as error:
            raise DriverError(f"its answer is none: {error}: {answered[:200]!r}") from error

    def kill(self) -> None:
        """End the process, and all that it has started."""
        process = self._process
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        self._process = None

    def mark(self) -> int:
        """Return how much was written to stderr until now."""
        return os.fstat(self._errors.fileno()).st_size

    def output(self, since: int) -> list[str]:
        """Return the lines that were written to stderr since a mark; of much, the last."""
        size = self.mark()
        at = max(since, size - _OUTPUT_BYTES_MAX)
        # Not read(): a process that still runs would write where we have read to.
        data = os.pread(self._errors.fileno(), size - at, at)
        return data.decode(errors="replace").strip().splitlines()

    def _line(self, timeout_s: float) -> bytes:
        process = self._process
        assert process is not None
        until = time.monotonic() + timeout_s
        while True:
            with suppress(queue.Empty):
                line = self._lines.get(timeout=_WATCH_S)
                if line is not None:
                    return line
                raise DriverEndedError(self._how_it_ended())
            more = _memory(process.pid) - self._base
            if self._base and more > MEMORY_BYTES_MAX:
                self.kill()
                raise DriverAteError(f"it took {more >> 20} MiB more")
            if time.monotonic() > until:
                raise DriverHungError(f"no answer for {timeout_s:g} s")

    def _how_it_ended(self) -> str:
        process = self._process
        assert process is not None
        code = process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        lines = self.output(self._began) or ["it said nothing"]
        why = [at for at, line in enumerate(lines) if _WHY.match(line)] or [len(lines) - 1]
        text = lines[why[-1]].strip()
        if text.endswith(":"):  # What Rust says stands in the next line.
            text = " ".join([text, *lines[why[-1] + 1 : why[-1] + 2]])
        return f"it ended with {how}: {text}"


def _read(process: subprocess.Popen[bytes], lines: queue.Queue[bytes | None]) -> None:
    assert process.stdout is not None
    with suppress(OSError, ValueError):
        while line := process.stdout.readline(LINE_CHARS_MAX):
            lines.put(line)
    lines.put(None)


def _memory(pid: int) -> int:
    """Return the bytes that a process and its children have reserved; 0 where nobody can say."""
    total = 0
    pids = [pid]
    with suppress(OSError, ValueError):
        pids += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    for one in pids:
        with suppress(OSError, ValueError, IndexError):
            total += int(Path(f"/proc/{one}/statm").read_text().split()[0])
    return total * os.sysconf("SC_PAGE_SIZE")


def schema_text() -> str:
    """Return the JSON Schema of the driver protocol, for authors of drivers."""
    (greeting, ask, reply), defs = msgspec.json.schema_components(
        [Greeting, Ask, Reply], ref_template="#/$defs/{name}"
    )
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Driver protocol {PROTOCOL} of kraftspec conform clients: a line each way",
        "oneOf": [greeting, ask, reply],
        "$defs": defs,
    }
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"
