"""``kraftspec adapter``: our own codec behind the harness protocol (docs: conformance).

Reads requests from standard input, a JSON object a line, and writes a reply line for each.
"""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from kraftspec import __version__
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.record_batch import RecordBatch
from kraftspec.specs import kafka_release

PROTOCOL = 1
LINE_BYTES_MAX = 16 << 20  # the contract's limit
CHUNK_BYTES = 1 << 16
BATCH = "RecordBatch"  # Has no schema, and is served as one of the set.
SETS = ("kip-595", "kip-853", "kip-996")
_GENERATED = "kraftspec.generated"

_encode_line = msgspec.json.Encoder().encode


@cache
def _package(spec: str) -> ModuleType:
    if spec != "kafka" and spec not in SETS:
        raise CodecError(ErrorClass.UNKNOWN_MESSAGE, f"there is no set {spec!r}")
    return import_module(f"{_GENERATED}.{spec.replace('-', '_')}")


def serve_generated(directory: Path) -> None:
    """Serve the set ``kafka`` by the package that ``kraftspec generate`` wrote to a directory."""
    sys.path.insert(0, str(directory.resolve().parent))
    sys.modules[f"{_GENERATED}.kafka"] = import_module(directory.name)


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


def _release() -> str:
    package = _package("kafka").__name__
    return f"kafka/{kafka_release()}" if package.startswith(_GENERATED) else package


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
        "spec": _release(),
        "messages": _versions("kafka"),
        "sets": {spec: _versions(spec) for spec in SETS},
        "notes": notes,
    }


class _Request(msgspec.Struct, gc=False):
    """A request, of whatever types its fields are."""

    cmd: Any = None
    id: Any = None
    message: Any = None
    version: Any = None
    value: Any = None
    hex: Any = None
    spec: Any = "kafka"
    protocol: Any = None


_read = msgspec.json.Decoder(_Request).decode


def _class(request: _Request) -> type[Message]:
    spec, name = request.spec, request.message
    if spec.__class__ is str and name.__class__ is str:
        return message_class(spec, name)
    raise CodecError(ErrorClass.UNKNOWN_MESSAGE, '"message" and "spec" must be strings')


def _encode(request: _Request) -> dict[str, Any]:
    version = request.version
    message = _class(request).from_json(request.value, version)
    return {"id": request.id, "hex": message.encode(version).hex()}


def _decode(request: _Request) -> dict[str, Any]:
    message, version = _class(request), request.version
    try:
        data = bytes.fromhex(request.hex)
    except (TypeError, ValueError):
        raise CodecError(ErrorClass.WRONG_TYPE, '"hex" must be a string of hex digits') from None
    return {"id": request.id, "value": message.decode(data, version).to_json(version)}


def _request(line: bytes) -> _Request:
    try:
        return _read(line)
    except msgspec.DecodeError:
        # The slower parser lets half surrogates and 1e400 pass: fields of a request whose id is
        # wanted, so that the refusal can carry it.
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise ValueError(f"it begins with {line[:1]!r}") from None
        known = _Request.__struct_fields__
        return _Request(**{name: fields[name] for name in known if name in fields})


def reply(line: bytes, name: str, notes: str = "") -> dict[str, Any] | None:
    """Answer one request line; None is the end."""
    try:
        request = _request(line)
    except (ValueError, RecursionError) as error:
        return _refusal(None, CodecError(ErrorClass.WRONG_TYPE, f"not a JSON object: {error}"))
    try:
        match request.cmd:
            case "encode":
                return _encode(request)
            case "decode":
                return _decode(request)
            case "stop":
                return None
            case "hello" if request.protocol == PROTOCOL:
                return _hello(name, notes)
            case "hello":
                detail = f"this adapter speaks protocol {PROTOCOL}"
                raise CodecError(ErrorClass.UNSUPPORTED_VERSION, detail)
        raise CodecError(ErrorClass.WRONG_TYPE, f"there is no command {request.cmd!r}")
    except CodecError as error:
        return _refusal(request.id, error)


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
