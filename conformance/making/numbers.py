"""Error codes and API keys, as Apache Kafka's own classes number them, into ``specs/``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from kraftspec.codegen.importer import LINE_LENGTH_MAX
from kraftspec.conformance.adapters.kafka import KafkaAdapter


def write_numbers(kafka: KafkaAdapter, specs: Path) -> list[str]:
    """Write Kafka's part of ``errors.json`` and ``api-keys.json``; return what changed.

    Numbers of the drafts, under ``private``, are left as they are. Sources:
    ``org.apache.kafka.common.protocol.Errors`` and ``ApiKeys``.
    """
    tables = numbers_of(kafka)
    return [name for name, rows in tables.items() if _write(specs / f"{name}.json", rows)]


def numbers_of(kafka: KafkaAdapter) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each table, by its name."""
    keys = [{"key": row.id, "name": row.name, "message": row.message} for row in kafka.api_keys()]
    return {"errors": [to_builtins(row) for row in kafka.errors()], "api-keys": keys}


def _write(path: Path, rows: list[dict[str, Any]]) -> bool:
    before = path.read_text("utf-8")
    tables = json.loads(before)
    tables[next(iter(tables))] = rows
    text = "{\n" + ",\n".join(_table(name, of) for name, of in tables.items()) + "\n}\n"
    path.write_text(text, "utf-8")
    return text != before


def _table(name: str, rows: list[dict[str, Any]]) -> str:
    return f'  "{name}": [\n' + ",\n".join(map(_row, rows)) + "\n  ]"


def _row(row: dict[str, Any]) -> str:
    line = " " * 4 + json.dumps(row)
    if len(line) < LINE_LENGTH_MAX:
        return line
    return "\n".join(" " * 4 + part for part in json.dumps(row, indent=2).split("\n"))
