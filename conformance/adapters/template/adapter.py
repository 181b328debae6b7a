"""An adapter to start from: copy it, and let encode and decode call your codec.

It serves one message, ResponseHeader version 0, so that the first run is green.
"""

from __future__ import annotations

import json
import struct
import sys
from typing import Any

MESSAGES = {"ResponseHeader": "0-0"}  # What you serve: "first-last" version.
HELLO = {
    "protocol": 1,
    "name": "my-codec",
    "language": "python",
    "version": "0.1.0",
    "spec": "kafka/4.4.0",
    "messages": MESSAGES,
}


def encode(message: str, version: int, value: dict[str, Any]) -> bytes:
    """Return the bytes of a message; raise whatever you like to refuse it."""
    return struct.pack(">i", value["correlationId"])


def decode(message: str, version: int, data: bytes) -> dict[str, Any]:
    """Return what the bytes hold; raise whatever you like to refuse them."""
    (correlation_id,) = struct.unpack(">i", data)
    return {"correlationId": correlation_id}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Answer one encode or decode request."""
    message, version = request["message"], request["version"]
    try:
        if message not in MESSAGES or version != 0:
            return {"error": {"class": "unsupported_version"}}
        if request["cmd"] == "encode":
            return {"hex": encode(message, version, request["value"]).hex()}
        return {"value": decode(message, version, bytes.fromhex(request["hex"]))}
    except Exception as error:
        return {"error": {"class": "refused", "detail": repr(error)}}


for line in sys.stdin:
    request = json.loads(line)
    if request["cmd"] == "stop":
        break
    reply = HELLO if request["cmd"] == "hello" else {"id": request["id"], **answer(request)}
    print(json.dumps(reply), flush=True)
