"""The directories that a real Kafka wrote, unpacked, and what Kafka's dump tool said of them."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from kraftspec.fastpath import decode_batch
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.walk import iterate_headers
from kraftspec.generated import kafka
from kraftspec.generated.control_records import ControlRecordType
from kraftspec.reference.log.control import control_type_of, decode_control_record

DATA = Path(__file__).resolve().parents[1] / "data"
SHAPES = ("static", "failovers", "grown", "retained")
METADATA = "__cluster_metadata-0"

_FIELD = re.compile(r"(\w+): (\S+)")
_CONTROL_NAMES = {
    ControlRecordType.LEADER_CHANGE: "LeaderChange",
    ControlRecordType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlRecordType.SNAPSHOT_FOOTER: "SnapshotFooter",
    ControlRecordType.KRAFT_VERSION: "KRaftVersion",
    ControlRecordType.KRAFT_VOTERS: "KRaftVoters",
}


class Batch(msgspec.Struct):
    """A batch and its records, as a dump has them or as we read them: equal when both agree."""

    base_offset: int
    last_offset: int
    count: int
    epoch: int
    is_control: bool
    position: int
    max_timestamp: int
    size: int
    crc: int
    records: list[tuple[int, int, int, int, str, Any]] = []


def unpack(shape: str, directory: Path) -> list[Path]:
    """Unpack a shape; return the log directories in it, one a node."""
    with tarfile.open(DATA / f"{shape}.tar.xz") as archive:
        archive.extractall(directory, filter="data")
    return sorted(path for path in (directory / shape).iterdir() if path.is_dir())


def dump_of(log_directory: Path, name: str) -> str:
    """Return what DumpLogSegments printed of a log or checkpoint."""
    return (log_directory.parent / f"{log_directory.name}-{name}.dump").read_text()


def parse_dump(text: str) -> list[Batch]:
    """Read what DumpLogSegments prints of the batches of one file."""
    batches: list[Batch] = []
    for line in text.splitlines():
        if line.startswith("baseOffset:"):
            fields = dict(_FIELD.findall(line))
            assert fields["isvalid"] == "true"
            assert fields["compresscodec"] == "none"
            batches.append(
                Batch(
                    base_offset=int(fields["baseOffset"]),
                    last_offset=int(fields["lastOffset"]),
                    count=int(fields["count"]),
                    epoch=int(fields["partitionLeaderEpoch"]),
                    is_control=fields["isControl"] == "true",
                    position=int(fields["position"]),
                    max_timestamp=int(fields["CreateTime"]),
                    size=int(fields["size"]),
                    crc=int(fields["crc"]),
                )
            )
        elif line.startswith("|"):
            head, _, content = line.partition(" headerKeys: [] ")
            fields = dict(_FIELD.findall(head))
            sizes = [int(fields[key]) for key in ("offset", "CreateTime", "keySize", "valueSize")]
            name, _, value = content.partition(" ")
            record = (*sizes, name.rstrip(":"), json.loads(value))
            batches[-1].records.append(record)
    return batches


def read_batches(data: bytes) -> Iterator[Batch]:
    """Read batches with our own codecs, records and all."""
    for header in iterate_headers(data):
        records = []
        for record in decode_batch(data, header.position):
            key_size = -1 if record.key is None else len(record.key)
            value_size = -1 if record.value is None else len(record.value)
            if header.is_control:
                message = decode_control_record(record)
                assert message is not None
                name = _CONTROL_NAMES[ControlRecordType(control_type_of(record))]
                content = message.to_json(0)
            else:
                name, content = "payload", _metadata(record.value or b"")
            records.append((record.offset, record.timestamp, key_size, value_size, name, content))
        yield Batch(
            header.base_offset, header.last_offset, header.record_count,
            header.partition_leader_epoch, header.is_control, header.position,
            header.max_timestamp, header.size, header.crc, records,
        )  # fmt: skip


def _metadata(value: bytes) -> dict[str, Any]:
    """Read a metadata record as the dump tool shows it: type, version and data."""
    frame, api_key, version = value[0], value[1], value[2]  # Small numbers: a byte each.
    assert frame == 1
    message = METADATA_MESSAGES[api_key]
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", message.__name__).upper()
    return {
        "type": name,
        "version": version,
        "data": message.decode(value[3:], version).to_json(version),
    }


METADATA_MESSAGES: dict[int, type[Message]] = {
    message_class.API_KEY: message_class
    for name in dir(kafka)
    if isinstance(message_class := getattr(kafka, name), type)
    and issubclass(message_class, Message)
    and message_class.TYPE == "metadata"
    and message_class.API_KEY is not None
}
