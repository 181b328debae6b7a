"""Record batches of a metadata log: told apart, and bared of what is a node's own in them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from kraftspec.conformance.raw.node import NodeState
from kraftspec.fastpath.batch_reader import decode_batch, read_header
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.records import Record
from kraftspec.fastpath.walk import iterate_headers
from kraftspec.generated.control_records import ControlRecordType
from kraftspec.generated.kafka import LeaderChangeMessage, VotersRecord
from kraftspec.reference.log.control import control_type_of


def split_batches(data: bytes) -> Iterator[bytes]:
    """Yield the whole batches at the start of ``data``, checked; zeros or a torn one end them."""
    with suppress(CodecError):
        for header in iterate_headers(data):
            yield data[header.position : header.end]


def written_from(state: NodeState) -> int:
    """Return the offset after the log of a state: what is there later, the node has written."""
    if state.log:
        return read_header(bytes.fromhex(state.log[-1])).last_offset + 1
    return max((snapshot.end_offset for snapshot in state.snapshots), default=0)


def own_batches_bared(value: Any, written: int) -> Any:
    """Return an answer in which batches from offset ``written`` on lack what their writer chose.

    That is the time of control batches, and of others all but offsets and epoch.
    """
    if isinstance(value, list):
        return [own_batches_bared(item, written) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _bared(base64.b64decode(item), written)
        if name == "records" and isinstance(item, str)
        else own_batches_bared(item, written)
        for name, item in value.items()
    }


def _bared(data: bytes, written: int) -> list[Any]:
    batches: list[Any] = []
    at = 0
    for batch in split_batches(data):
        header = read_header(batch)
        if header.base_offset < written:
            batches.append(batch.hex())
        elif header.is_control:
            records = [_control(record) for record in decode_batch(batch)]
            batches.append([header.base_offset, header.partition_leader_epoch, *records])
        else:
            batches.append([header.base_offset, header.partition_leader_epoch, header.record_count])
        at += len(batch)
    return [*batches, data[at:].hex()]


def sets_in_order(data: bytes) -> list[Any]:
    """Return batches in which the sets of control records are in order, and so without CRC."""
    batches: list[Any] = []
    at = 0
    for batch in split_batches(data):
        header = read_header(batch)
        batches.append(batch.hex())
        if header.is_control:
            records = [_control(record) for record in decode_batch(batch)]
            batches[-1] = [str(msgspec.structs.replace(header, crc=0)), *records]
        at += len(batch)
    return [*batches, data[at:].hex()]


def has_sets(data: bytes, written: int) -> bool:
    """Whether a control record at offset ``written`` or later lists more than one voter."""
    for batch in split_batches(data):
        header = read_header(batch)
        if header.is_control and header.base_offset >= written:
            for record in decode_batch(batch):
                kind, value = control_type_of(record), bytes(record.value or b"")
                if kind == ControlRecordType.LEADER_CHANGE:
                    return len(LeaderChangeMessage.decode(value, 0).voters) > 1
                if kind == ControlRecordType.KRAFT_VOTERS:
                    return len(VotersRecord.decode(value, 0).voters) > 1
    return False


def _control(record: Record) -> str:
    """Return a control record, its sets in order."""
    return f"{bytes(record.key or b'').hex()} {_in_order(record).hex()}"


def _in_order(record: Record) -> bytes:
    """Return the value of a control record with its voters in the order of their ids.

    Kafka keeps them in sets. The order of some is another one in each process, as Java means it.
    """
    value = bytes(record.value or b"")
    kind = control_type_of(record)
    if kind == ControlRecordType.LEADER_CHANGE:
        change = LeaderChangeMessage.decode(value, 0)
        change.voters.sort(key=lambda voter: voter.voter_id)
        change.granting_voters.sort(key=lambda voter: voter.voter_id)
        return change.encode(0)
    if kind == ControlRecordType.KRAFT_VOTERS:
        voters = VotersRecord.decode(value, 0)
        voters.voters.sort(key=lambda voter: voter.voter_id)
        return voters.encode(0)
    return value
