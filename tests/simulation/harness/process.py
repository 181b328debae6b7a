"""A harness as a process: any bytes there, and all that it says. Events are dicts, for tests."""

from __future__ import annotations

import os
import subprocess
from types import TracebackType
from typing import Any, Self

from kraftspec.simulation.harness.protocol import PROTOCOL, SIZE, decode_events, encode

COMMANDS = {layout.name: layout for layout in PROTOCOL.commands}
EVENTS = {layout.name: layout for layout in PROTOCOL.events}

Event = dict[str, Any]


def command(name: str, run: int = 0, node: int = 0, **fields: Any) -> bytes:
    """One command, all of whose fields are given by name."""
    names = [field for field, _, _ in COMMANDS[name].fields]
    assert set(names) == set(fields), (name, sorted(fields))
    return encode(name, run, node, *(fields[field] for field in names))


def events(data: bytes) -> list[Event]:
    """What a frame says; each event with its ``name``, ``run``, ``node`` and fields."""
    decoded = []
    for run, node, (name, values) in decode_events(data):
        names = [field for field, _, _ in EVENTS[name].fields]
        decoded.append(
            {"name": name, "run": run, "node": node, **dict(zip(names, values, strict=True))}
        )
    return decoded


class RawHarness:
    """Speaks to one process, which may be told nonsense; ``answered`` is all that it has said."""

    def __init__(self, command: list[str], environment: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | (environment or {}),
        )
        self.answered = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> int:
        """Ends its input and waits for its end."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait()

    def exchange(self, frame: bytes) -> bytes:
        """Sends the bytes as they are, returns what the frame of events holds."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(frame)
        self.process.stdin.flush()
        head = self.process.stdout.read(SIZE.size)
        assert len(head) == SIZE.size, "the harness ended"
        body = self.process.stdout.read(*SIZE.unpack(head))
        self.answered += head + body
        return body

    def ask(self, commands: bytes) -> list[Event]:
        """Sends a frame of these commands, returns the events."""
        return events(self.exchange(SIZE.pack(len(commands)) + commands))
