"""What the adapters of Python clients share: the harness loop, and JSON values of scalars.

Needs nothing but the standard library: it runs in the virtual environment of the client.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import struct
import sys
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Any

INTEGERS = {"int8", "int16", "uint16", "int32", "uint32", "int64", "uint64"}
TAGS = "_unknownTaggedFields"
ZERO_UUID = uuid.UUID(int=0)

Json = dict[str, Any]
Codec = Callable[[str, int, Any], Json]


class Refused(Exception):  # noqa: N818 - an answer of the protocol, not a failure of the program
    """The client does not take this; ``error_class`` is one of the harness protocol's."""

    def __init__(self, error_class: str, detail: str, path: str = "") -> None:
        super().__init__(detail)
        self.error_class = error_class
        self.path = path


class Skipped(Exception):  # noqa: N818 - an answer of the protocol, not a failure of the program
    """The client does not have this; the text says what is missing."""


def scalar_from_json(kind: str, value: Any, path: str) -> Any:
    """Turn a JSON value into what Python clients hold: int, bool, str, float, bytes, UUID.

    Raises ``Refused`` for another JSON type. How wide an integer may be is the client's business.
    """
    if kind in INTEGERS and type(value) is int:
        return value
    if kind == "bool" and type(value) is bool:
        return value
    if kind == "float64" and type(value) is float:
        return value
    if isinstance(value, str):
        try:
            if kind == "string":
                return value
            if kind in ("bytes", "records"):
                return base64.b64decode(value, validate=True)
            if kind == "uuid":
                return uuid.UUID(bytes=base64.urlsafe_b64decode(value + "=="))
            if kind == "float64":
                return struct.unpack(">d", bytes.fromhex(value.removeprefix("0x")))[0]
        except (ValueError, binascii.Error, struct.error) as error:
            raise Refused("wrong_type", f"not a {kind}: {error}", path) from None
    if value is None:
        raise Refused("null_for_non_nullable", f"null for {kind}", path)
    raise Refused("wrong_type", f"{type(value).__name__} for {kind}", path)


def scalar_to_json(kind: str, value: Any) -> Any:
    """Turn what a client holds into its JSON value; None stays null, or is the zero uuid."""
    if kind == "uuid":
        return base64.urlsafe_b64encode((value or ZERO_UUID).bytes).decode().rstrip("=")
    if value is None:
        return None
    if kind in ("bytes", "records"):
        return base64.b64encode(value).decode()
    if kind == "float64" and not math.isfinite(value):
        return "0x" + struct.pack(">d", value).hex()
    if kind in INTEGERS:
        return int(value)  # Some clients hold integers in classes of their own.
    return str(value) if kind == "string" else value


def check_fields(
    value: Any, untagged: Collection[str], tagged: Collection[str], path: str
) -> Mapping[str, Any]:
    """Return a struct's JSON value when its fields are the version's, as Kafka's converters do.

    Raises ``Refused``: a class with attributes would take a default for what is missing.
    """
    if value is None:
        raise Refused("null_for_non_nullable", "null for a struct", path)
    if not isinstance(value, dict):
        raise Refused("wrong_type", f"{type(value).__name__} for a struct", path)
    for name in untagged:
        if name not in value:
            raise Refused("missing_field", f"{name} is missing", inside(path, name))
    for name in value:
        if name not in untagged and name not in tagged and name != TAGS:
            raise Refused("field_not_in_version", f"there is no {name}", inside(path, name))
    return value


def inside(path: str, name: str) -> str:
    """Return the path of a field of the struct at ``path``."""
    return f"{path}.{name}" if path else name


def serve(hello: Json, encode: Codec, decode: Codec) -> int:
    """Answer harness requests from standard input until ``stop``; return the exit code.

    Args:
        hello: what is answered to hello, without ``protocol`` and ``language``.
        encode: (message, version, value) to ``{"hex": …}``.
        decode: (message, version, bytes) to ``{"value": …}``, ``trailing`` with it.
    """
    for line in sys.stdin.buffer:
        request = json.loads(line)
        command = request["cmd"]
        if command == "stop":
            break
        if command == "hello":
            reply = {"protocol": 1, "language": "python", **hello}
        else:
            reply = {"id": request["id"], **_answer(command, request, encode, decode)}
        sys.stdout.write(json.dumps(reply, separators=(",", ":")) + "\n")
        sys.stdout.flush()
    return 0


def _answer(command: str, request: Json, encode: Codec, decode: Codec) -> Json:
    try:
        if "spec" in request:
            raise Skipped("only the messages of Apache Kafka are served")
        message, version = request["message"], request["version"]
        if command == "encode":
            return encode(message, version, request["value"])
        if command == "decode":
            return decode(message, version, bytes.fromhex(request["hex"]))
        raise Refused("refused", f"there is no command {command!r}")
    except Skipped as lacking:
        return {"skipped": {"reason": str(lacking)}}
    except Refused as refused:
        error = {"class": refused.error_class, "detail": str(refused), "path": refused.path}
        return {"error": error}
    except Exception as error:  # Whatever a client raises is its way to refuse.
        return {"error": {"class": "refused", "detail": f"{type(error).__name__}: {error}"}}


# A record batch has no schema: its fields are listed here, for those that serve it.
BATCH_HEADER = {
    "baseOffset": "int64",
    "partitionLeaderEpoch": "int32",
    "attributes": "int16",
    "lastOffsetDelta": "int32",
    "baseTimestamp": "int64",
    "maxTimestamp": "int64",
    "producerId": "int64",
    "producerEpoch": "int16",
    "baseSequence": "int32",
}
_RECORD = ("attributes", "timestampDelta", "offsetDelta", "key", "value", "headers")


def check_batch(value: Any) -> None:
    """Refuse what is no record batch by its fields; what they hold together is the codec's."""
    check_fields(value, [*BATCH_HEADER, "records"], (), "")
    for name, kind in BATCH_HEADER.items():
        scalar_from_json(kind, value[name], name)
    if not isinstance(value["records"], list):
        raise Refused("wrong_type", "not an array", "records")
    for at, record in enumerate(value["records"]):
        check_fields(record, _RECORD, (), f"records[{at}]")
