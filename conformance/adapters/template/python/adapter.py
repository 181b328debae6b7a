"""Your codec behind the harness protocol: put it in the place of the walk in encode and decode."""

from __future__ import annotations

import json
import sys
from typing import Any

import walk

HELLO = {
    "protocol": 1,
    "name": "my-codec",
    "language": "python",
    "version": "0.1.0",
    "spec": "kafka/4.4.0",
    "messages": walk.ranges(),  # What you serve: {"VoteRequest": "0-2"}
}


def encode(message: str, version: int, value: dict[str, Any]) -> bytes:
    """Return the bytes of a message. Raise whatever you like to refuse it."""
    data: bytes = walk.encode(message, version, value)  # Your codec goes here.
    return data


def decode(message: str, version: int, data: bytes) -> dict[str, Any]:
    """Return what the bytes hold. Raise whatever you like to refuse them."""
    value: dict[str, Any] = walk.decode(message, version, data)  # Your codec goes here.
    return value


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request to encode or to decode."""
    try:
        if "spec" in request:
            return {"skipped": {"reason": "only the messages of Apache Kafka are served"}}
        message, version = request["message"], request["version"]
        if request["cmd"] == "encode":
            return {"hex": encode(message, version, request["value"]).hex()}
        return {"value": decode(message, version, bytes.fromhex(request["hex"]))}
    except Exception as error:
        return {"error": {"class": "refused", "detail": f"{type(error).__name__}: {error}"}}


for line in sys.stdin:
    request = json.loads(line)
    if request["cmd"] == "stop":
        break
    reply = HELLO if request["cmd"] == "hello" else {"id": request["id"], **answer(request)}
    print(json.dumps(reply), flush=True)
