"""Batch vectors as what the writers are called with, and the writers there are."""

from __future__ import annotations

import json
from base64 import b64decode
from functools import cache
from typing import Any, NamedTuple

import pytest

from kraftspec.conformance.vectors import vectors_root
from kraftspec.fastpath import batch_writer, native
from kraftspec.fastpath.records import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    TimestampType,
)

_native = native.load("_batch_writer")
WRITERS = {"pure": (batch_writer.pure_encode_batch, batch_writer.PureBatchBuilder)}
if _native is not None:
    WRITERS["native"] = (_native.encode_batch, _native.BatchBuilder)

writers = pytest.mark.parametrize(("encode", "builder"), WRITERS.values(), ids=WRITERS)


class BuildCase(NamedTuple):
    """The columns and the fields of a batch, and its expected bytes."""

    id: str
    values: list[bytes | None]
    keys: list[bytes | None]
    timestamps: list[int]
    headers: list[tuple[tuple[str, bytes | None], ...]]
    fields: dict[str, Any]
    expected: bytes


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


@cache
def vectors() -> tuple[dict[str, Any], ...]:
    """Return the committed tests, whose bytes Apache Kafka's own builder made."""
    text = (vectors_root() / "kafka/RecordBatch.json").read_bytes()
    return tuple(test for test in json.loads(text)["tests"] if test["result"] == "valid")


@cache
def build_cases() -> tuple[BuildCase, ...]:
    """Return the vectors that a builder can build: offsets without gaps, no delete horizon."""
    return tuple(
        _build_case(test)
        for test in vectors()
        if test["op"] == "roundtrip"
        and not test["value"]["attributes"] & DELETE_HORIZON
        and _has_no_gaps(test["value"])
    )


def _has_no_gaps(value: dict[str, Any]) -> bool:
    deltas = [record["offsetDelta"] for record in value["records"]]
    is_counted = deltas == list(range(len(deltas)))
    return bool(deltas) and is_counted and value["lastOffsetDelta"] == deltas[-1]


def _build_case(test: dict[str, Any]) -> BuildCase:
    value = test["value"]
    records, attributes = value["records"], value["attributes"]
    fields = {
        "base_offset": value["baseOffset"],
        "partition_leader_epoch": value["partitionLeaderEpoch"],
        "producer_id": value["producerId"],
        "producer_epoch": value["producerEpoch"],
        "base_sequence": value["baseSequence"],
        "transactional": bool(attributes & TRANSACTIONAL),
        "control": bool(attributes & CONTROL),
    }
    if attributes & LOG_APPEND_TIME:
        fields["timestamp_type"] = TimestampType.LOG_APPEND_TIME
        fields["log_append_time"] = value["maxTimestamp"]
    return BuildCase(
        test["id"],
        [_bytes(record["value"]) for record in records],
        [_bytes(record["key"]) for record in records],
        [value["baseTimestamp"] + record["timestampDelta"] for record in records],
        [
            tuple((header["key"], _bytes(header["value"])) for header in record["headers"])
            for record in records
        ],
        fields,
        bytes.fromhex(test["hex"]),
    )
