"""``kraftspec adapter``: our own codec behind the harness protocol (docs: conformance).

Reads requests from standard input, a JSON object a line, and writes a reply line for each.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import msgspec

from kraftspec import __version__
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.record_batch import RecordBatch

PROTOCOL = 1
LINE_BYTES_MAX = 16 << 20  # the contract's limit
CHUNK_BYTES = 1 << 16
SPEC = "kafka/4.3.1"
BATCH = "RecordBatch"  # Has no schema, and is served as one of the set.
SETS = ("kip-595", "kip-853", "kip-996")

_encode_line = msgspec.json.Encoder().encode


@cache
def _package(spec: str) -> ModuleType:
    if spec != "kafka" and spec not in SETS:
        raise CodecError(ErrorClass.UNKNOWN_MESSAGE, f"there is no set {spec!r}")
    return import_module(f"kraftspec.generated.{spec.replace('-', '_')}")


@cache
def message_class(spec: str, name: str) -> type[Message]:
    """Return the class of a message of a set; ``CodecError`` where there is none."""
    if (spec, name) == ("kafka", BATCH):
        return RecordBatch
    package = _package(spec)
    if name not in package.CATALOGUE:
        raise CodecError(ErrorClass.UNKNOWN_MESSAGE, f"{spec} has no message {name!r}")
    message: type[Message] = getattr(package, name)
    return message


def _versions(spec: str) -> dict[str, str]:
    out = {}
    for name, (_, _, _, first, stop, _) in _package(spec).CATALOGUE.items():
        out[name] = f"{first}-{stop - 1}" if stop > first else "none"
    if spec == "kafka":
        versions = RecordBatch.VALID_VERSIONS
        out[BATCH] = f"{versions[0]}-{versions[-1]}"
    return out


def _hello(name: str, notes: str) -> dict[str, Any]:
    return {
        "protocol": PROTOCOL,
        "name": name,
        "language": "python",
        "version": __version__,
        "spec": SPEC,
        "messages": _versions("kafka"),
        "sets": {spec: _versions(spec) for spec in SETS},
        "notes": notes,
    }


def _encode(request: dict[str, Any]) -> dict[str, Any]:
    message, version = _target(request)
    value = message.from_json(request.get("value"), version)
    return {"hex": value.encode(version).hex()}


def _decode(request: dict[str, Any]) -> dict[str, Any]:
    message, version = _target(request)
    try:
        data = bytes.fromhex(request["hex"])
    except (KeyError, TypeError, ValueError):
        raise CodecError(ErrorClass.WRONG_TYPE, '"hex" must be a string of hex digits') from None
    return {"value": message.decode(data, version).to_json(version)}


def _target(request: dict[str, Any]) -> tuple[type[Message], Any]:
    spec, name = request.get("spec", "kafka"), request.get("message")
    if not isinstance(spec, str) or not isinstance(name, str):
        raise CodecError(ErrorClass.UNKNOWN_MESSAGE, '"message" and "spec" must be strings')
    return message_class(spec, name), request.get("version")


_COMMANDS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "encode": _encode,
    "decode": _decode,
}


def _request(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        # The slower parser lets half surrogates and 1e400 pass: fields of a request whose id is
        # wanted, so that the refusal can carry it.
        return json.loads(line)


def reply(line: bytes, name: str, notes: str = "") -> dict[str, Any] | None:
    """Answer one request line; None is the end."""
    try:
        request = _request(line)
        command = request.get("cmd")
    except (ValueError, RecursionError, AttributeError) as error:
        return _refusal(None, CodecError(ErrorClass.WRONG_TYPE, f"not a JSON object: {error}"))
    if command == "stop":
        return None
    if command == "hello":
        if request.get("protocol") == PROTOCOL:
            return _hello(name, notes)
        detail = f"this adapter speaks protocol {PROTOCOL}"
        return _refusal(request.get("id"), CodecError(ErrorClass.UNSUPPORTED_VERSION, detail))
    try:
        if not isinstance(command, str) or command not in _COMMANDS:
            raise CodecError(ErrorClass.WRONG_TYPE, f"there is no command {command!r}")
        return {"id": request.get("id"), **_COMMANDS[command](request)}
    except CodecError as error:
        return _refusal(request.get("id"), error)


def _refusal(request_id: Any, error: CodecError) -> dict[str, Any]:
    fields: dict[str, Any] = {"class": str(error.error_class), "path": error.path}
    if error.offset is not None:
        fields["offset"] = error.offset
    return {"id": request_id, "error": {**fields, "detail": error.detail}}


def serve(name: str, notes: str = "") -> int:
    """Answer requests until ``stop`` or the end of input; return the exit code.

    ``name`` and ``notes`` are what ``hello`` is answered with: who this is, and which codec runs.
    """
    pending = b""
    while chunk := os.read(sys.stdin.fileno(), CHUNK_BYTES):
        *lines, pending = (pending + chunk).split(b"\n") if b"\n" in chunk else (pending + chunk,)
        replies = []
        stopped = False
        for line in lines:
            if not line.strip():
                continue
            answer = reply(line, name, notes)
            if answer is None:
                stopped = True
                break
            replies.append(_encode_line(answer))
        if replies:
            sys.stdout.buffer.write(b"\n".join([*replies, b""]))
            sys.stdout.buffer.flush()
        if stopped:
            return 0
        if len(pending) > LINE_BYTES_MAX:
            sys.stderr.write(f"a request line is longer than {LINE_BYTES_MAX} bytes\n")
            return 2
    return 0
