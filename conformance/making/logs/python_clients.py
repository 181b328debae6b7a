"""The two Python clients as producers: each compression, headers and nulls, transactions."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from kraftspec.conformance.cluster import ClusterError
from kraftspec.conformance.cluster.artifacts import run_build

TIME_MS = 1_700_000_000_000
CODECS = (None, "gzip", "snappy", "lz4", "zstd")
OF_KAFKA_PYTHON = (None, "gzip", "lz4")  # For the others it wants packages of its own.
ROUND = 12
_MODULE = "kraftspec.conformance.making.logs.python_clients"
_CLIENTS = ("kafka", "aiokafka", "cramjam", "lz4")

Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def check() -> None:
    """Raise ``ClusterError`` where a client is not installed, with what installs it."""
    lacking = [name for name in _CLIENTS if find_spec(name) is None]
    if lacking:
        raise ClusterError(f"not installed: {', '.join(lacking)}: pip install 'kraftspec[capture]'")


def write(bootstrap: str, manifest: Path) -> None:
    """Let both write to the topics of their names; what they sent goes to the manifest's end.

    Raises ``ClusterError`` with the words of the client that failed.
    """
    # In a process of its own, whose warnings are nobody else's.
    command = [sys.executable, "-W", "ignore", "-m", _MODULE, bootstrap, str(manifest)]
    run_build(command, "the Python clients did not write")


def _write(bootstrap: str, manifest: Path) -> None:
    lines = [*asyncio.run(_aiokafka(bootstrap)), *_kafka_python(bootstrap)]
    with manifest.open("ab") as file:
        file.writelines(msgspec.json.encode(line) + b"\n" for line in lines)


def _rows(codec: str | None) -> Iterator[Row]:
    """Timestamp, key, value and headers of what is sent under a codec."""
    name = str(codec).encode()
    for at in range(ROUND):
        key = None if at % 4 == 1 else b"key-%d" % at
        value = name * (at * 9 % 31) if at % 6 else None
        headers: list[tuple[str, bytes | None]] = [("codec", name), ("at", b"%d" % at)]
        yield TIME_MS + at, key, value, headers[: at % 3]


def _line(row: Row, metadata: Any, transaction: str | None) -> dict[str, Any]:
    timestamp, key, value, headers = row
    return {
        "topic": metadata.topic,
        "partition": metadata.partition,
        "offset": metadata.offset,
        "timestamp": timestamp,
        "key": _base64(key),
        "value": _base64(value),
        "headers": [(name, _base64(content)) for name, content in headers],
        "transaction": transaction,
    }


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


async def _aiokafka(bootstrap: str) -> list[dict[str, Any]]:
    client: Any = import_module("aiokafka")
    lines = []
    for codec in CODECS:
        for transactional_id in (None, f"aiokafka-{codec}"):
            producer = client.AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=codec,
                enable_idempotence=transactional_id is not None,
                transactional_id=transactional_id,
                linger_ms=20,
            )
            await producer.start()
            if transactional_id:
                await producer.begin_transaction()
            sent = []
            for row in _rows(codec):
                timestamp, key, value, headers = row
                future = await producer.send(
                    "aiokafka", value, key, 0, timestamp_ms=timestamp, headers=headers
                )
                sent.append((row, future))
            await producer.flush()
            outcome = None
            if transactional_id:
                outcome = "aborted" if codec in ("gzip", "lz4") else "committed"
                if outcome == "aborted":
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
            lines += [_line(row, await future, outcome) for row, future in sent]
            await producer.stop()
    return lines


def _kafka_python(bootstrap: str) -> list[dict[str, Any]]:
    client: Any = import_module("kafka")
    lines = []
    for codec in OF_KAFKA_PYTHON:
        for idempotent in (False, True):
            producer = client.KafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=codec,
                enable_idempotence=idempotent,
                linger_ms=20,
            )
            sent = []
            for row in _rows(codec):
                timestamp, key, value, headers = row
                future = producer.send(
                    "kafka-python", value, key, headers, partition=0, timestamp_ms=timestamp
                )
                sent.append((row, future))
            producer.flush()
            lines += [_line(row, future.get(), None) for row, future in sent]
            producer.close()
    return lines


if __name__ == "__main__":
    _write(sys.argv[1], Path(sys.argv[2]))
