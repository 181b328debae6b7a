"""A harness as a process: commands and events as its protocol has them, frames there and back."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PROTOCOL = json.loads(
    (Path(__file__).parents[3] / "simulation/harness/protocol.json").read_text("utf-8")
)
COMMANDS: dict[str, dict[str, Any]] = {command["name"]: command for command in PROTOCOL["commands"]}
EVENTS: dict[int, dict[str, Any]] = {event["code"]: event for event in PROTOCOL["events"]}
HEAD = struct.Struct(">biii")  # code, run, node, size
_NUMBERS = {"bool": ">?", "int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q"}

Event = dict[str, Any]


def encode(kind: str, value: Any) -> bytes:
    """One field, as the types of the protocol say."""
    if kind in _NUMBERS:
        return struct.pack(_NUMBERS[kind], value)
    if kind == "uuid":
        assert len(value) == 16
        return bytes(value)
    if kind.startswith("["):
        return struct.pack(">i", len(value)) + b"".join(encode(kind[1:-1], each) for each in value)
    data = value.encode() if kind == "string" else value
    return struct.pack(">i", len(data)) + data


def decode(kind: str, data: bytes, at: int) -> tuple[Any, int]:
    """A field and where the next begins."""
    if kind in _NUMBERS:
        return struct.unpack_from(_NUMBERS[kind], data, at)[0], at + struct.calcsize(_NUMBERS[kind])
    if kind == "uuid":
        return data[at : at + 16], at + 16
    (size,) = struct.unpack_from(">i", data, at)
    at += 4
    if kind.startswith("["):
        values = []
        for _ in range(size):
            value, at = decode(kind[1:-1], data, at)
            values.append(value)
        return values, at
    value = data[at : at + size]
    return value.decode() if kind == "string" else value, at + size


def command(name: str, run: int = 0, node: int = 0, **fields: Any) -> bytes:
    """One command, all of whose fields are given."""
    declared = COMMANDS[name]["fields"]
    assert set(fields) == {field for field, _, _ in declared}, (name, sorted(fields))
    body = b"".join(encode(kind, fields[field]) for field, kind, _ in declared)
    return HEAD.pack(COMMANDS[name]["code"], run, node, len(body)) + body


def events(data: bytes) -> list[Event]:
    """What a frame says; each event with its ``name``, ``run``, ``node`` and fields."""
    found = []
    at = 0
    while at < len(data):
        code, run, node, size = HEAD.unpack_from(data, at)
        at += HEAD.size
        end = at + size
        event: Event = {"name": EVENTS[code]["name"], "run": run, "node": node}
        for field, kind, _ in EVENTS[code]["fields"]:
            event[field], at = decode(kind, data, at)
        assert at == end, event
        found.append(event)
    return found


class HarnessProcess:
    """Speaks to one process; ``answered`` is every byte that it has said."""

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
        head = self.process.stdout.read(4)
        assert len(head) == 4, "the harness ended"
        body = self.process.stdout.read(struct.unpack(">i", head)[0])
        self.answered += head + body
        return body

    def ask(self, commands: bytes) -> list[Event]:
        """Sends a frame of these commands, returns the events."""
        return events(self.exchange(struct.pack(">i", len(commands)) + commands))
