"""A harness as a process: frames there, frames back."""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from kraftspec.simulation.harness.protocol import (
    FRAME_BYTES_MAX,
    PROTOCOL,
    SIZE,
    VERSION,
    Event,
    HarnessError,
    decode_commands,
    decode_events,
    encode,
)

ANSWER_TIMEOUT_S = 120.0  # For one frame. A JVM that starts on a busy machine takes seconds.
CHUNK_BYTES = 1 << 16
STDERR_LINES_MAX = 20


class Hosts(Protocol):
    """Whoever hosts nodes: a `HarnessProcess`, or this process itself."""

    api_max: dict[int, int]
    capabilities: frozenset[str]

    def exchange(self, run: int, node: int, commands: Sequence[bytes]) -> list[list[Event]]:
        """Give a node commands; return the events of each, the last of which is ``state``."""

    def forget(self, run: int) -> None:
        """Drop a run."""


class Exchange(NamedTuple):
    """A command, with its run and node, and the events that answered it."""

    command: tuple[int, int, Event]
    events: list[Event]


class HarnessProcess:
    """A process that hosts nodes of any number of runs.

    Attributes:
        implementation: what it says it is.
        release: of that.
        api_max: the highest version of each API that its nodes speak, by key.
        capabilities: what it can; see ``protocol.json``.
        record: what was exchanged about nodes, for whoever puts a list here.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.command = list(command)
        self.is_closed = False
        self.record: list[Exchange] | None = None
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                bufsize=0,
            )
        except BaseException as error:
            self._stderr.close()
            if isinstance(error, OSError):
                raise HarnessError(f"{command[0]} did not start: {error}") from error
            raise
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in = self._process.stdin.fileno()
        self._out = self._process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)
        self._runs = 0
        self._forgotten: list[int] = []
        try:
            self._hello()
        except HarnessError:
            self.close()
            raise

    def _hello(self) -> None:
        events = decode_events(self._exchange(encode("hello", 0, 0, VERSION)))
        if [name for _, _, (name, _) in events] != ["welcome"]:
            raise HarnessError(f"{self.command[0]} answers hello by {events}, not by welcome")
        version, self.implementation, self.release, versions, capabilities = events[0][2][1]
        if version != VERSION:
            raise HarnessError(f"{self.implementation} speaks version {version}, not {VERSION}")
        unknown = set(capabilities) - set(PROTOCOL.capabilities)
        if unknown:
            raise HarnessError(f"{self.implementation} has unknown capabilities: {unknown}")
        self.capabilities = frozenset(capabilities)
        self.api_max: dict[int, int] = dict(zip(versions[::2], versions[1::2], strict=True))

    def new_run(self) -> int:
        """Return the number of a run that nobody has."""
        self._runs += 1
        return self._runs

    def forget(self, run: int) -> None:
        """Let the process drop a run, with the next commands; for whoever collects what is gone."""
        self._forgotten.append(run)

    def exchange(self, run: int, node: int, commands: Sequence[bytes]) -> list[list[Event]]:
        """Send commands of one node; return the events of each, the last of which is ``state``."""
        head = b""
        if self._forgotten:
            head = b"".join(encode("forget", gone, 0) for gone in self._forgotten)
            self._forgotten.clear()
        answers: list[list[Event]] = [[]]
        data = self._exchange(head + b"".join(commands))
        try:
            events = decode_events(data)
        except HarnessError as error:
            told = f"{self.command[0]}, in an answer of node {node}"
            raise HarnessError(f"{told}: {error}") from error
        for of_run, of_node, event in events:
            if event[0] == "wrong":
                raise HarnessError(f"{self.implementation} did not understand: {event[1][0]}")
            if (of_run, of_node) != (run, node):
                raise HarnessError(
                    f"{self.command[0]} answers a command of node {node} of run {run} by "
                    f"{event[0]} of node {of_node} of run {of_run}"
                )
            answers[-1].append(event)
            if event[0] == "state":
                answers.append([])
        if answers.pop() or len(answers) != len(commands):
            raise HarnessError(
                f"{self.command[0]} answers {len(commands)} commands of node {node} by "
                f"{len(answers)} states; each answer ends with one"
            )
        if self.record is not None:
            self.record += map(Exchange, decode_commands(b"".join(commands)), answers)
        return answers

    def cpu_seconds(self) -> float:
        """Return the processor time of all its threads so far; 0 where the system does not say."""
        try:
            text = Path(f"/proc/{self._process.pid}/stat").read_text()
        except OSError:
            return 0.0
        user, system = text.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def finish(self) -> None:
        """Let the process end by itself, as it does at the end of its input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._process.wait(ANSWER_TIMEOUT_S):
            raise self._ended()
        self.close()

    def close(self) -> None:
        """End the process."""
        if self.is_closed:
            return
        self.is_closed = True
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.kill()
        self._process.wait()
        self._stderr.close()

    def _exchange(self, commands: bytes) -> bytes:
        """Send a frame and return the answer; after a failure the process is of no use."""
        try:
            return self._exchanged(commands)
        except HarnessError:
            self.close()
            raise

    def _exchanged(self, commands: bytes) -> bytes:
        frame = SIZE.pack(len(commands)) + commands
        try:
            at = os.write(self._in, frame)
            while at < len(frame):
                at += os.write(self._in, frame[at:])
        except BrokenPipeError:
            raise self._ended() from None
        data = self._read()
        while len(data) < SIZE.size:
            data += self._read()
        (size,) = SIZE.unpack_from(data)
        if not 0 <= size <= FRAME_BYTES_MAX:
            raise HarnessError(f"{self.command[0]} sends a frame of {size} bytes")
        size += SIZE.size
        if len(data) < size:
            parts = [data]
            left = size - len(data)
            while left > 0:
                parts.append(self._read())
                left -= len(parts[-1])
            data = b"".join(parts)
        if len(data) > size:
            raise HarnessError(f"{self.command[0]} sends {len(data) - size} bytes after its frame")
        return data[SIZE.size :]

    def _read(self) -> bytes:
        if not self._poll.poll(ANSWER_TIMEOUT_S * 1000):
            self._process.kill()
            raise HarnessError(f"{self.command[0]} did not answer for {ANSWER_TIMEOUT_S:.0f} s")
        data = os.read(self._out, CHUNK_BYTES)
        if not data:
            raise self._ended()
        return data

    def _ended(self) -> HarnessError:
        code = self._process.wait()
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").splitlines()[-STDERR_LINES_MAX:]
        return HarnessError("\n".join([f"{self.command[0]} ended with {code}", *lines]))
