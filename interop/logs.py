"""Read metadata logs from their files, and compare them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.walk import iterate_headers
from kraftspec.generated.kafka import LeaderChangeMessage
from kraftspec.reference.log.control import control_type_of

LEADER_CHANGE = 2


class LogBatch(NamedTuple):
    """A whole batch: its offsets, who wrote it when, and its bytes."""

    base_offset: int
    last_offset: int
    epoch: int
    is_control: bool
    data: bytes


class LogsDifferError(AssertionError):
    """Two logs differ where both are committed."""


def batches_of(directory: Path) -> Iterator[LogBatch]:
    """Yield the whole batches of a metadata log's directory, which may be in use."""
    for path in sorted(directory.glob("*.log")):
        try:
            data = path.read_bytes()
        except FileNotFoundError:  # The segment was deleted meanwhile.
            continue
        with suppress(CodecError):  # Preallocated, or an incomplete batch.
            for header in iterate_headers(data):
                yield LogBatch(
                    header.base_offset,
                    header.last_offset,
                    header.partition_leader_epoch,
                    header.is_control,
                    data[header.position : header.end],
                )


def compare_logs(one: Path, other: Path, end_offset: int) -> int:
    """Compare two logs batch by batch, as far as both have them, up to ``end_offset``.

    Returns the number of compared batches. Raises LogsDifferError, which names the offset.
    """
    ones = {batch.base_offset: batch for batch in batches_of(one)}
    others = {batch.base_offset: batch for batch in batches_of(other)}
    start = max(min(ones, default=0), min(others, default=0))
    compared = 0
    offset = start
    while offset < end_offset:
        for where, batches in ((one, ones), (other, others)):
            if offset not in batches:
                raise LogsDifferError(
                    f"{where} has no batch at {offset}, of those from {start} to {end_offset}"
                )
        if ones[offset].data != others[offset].data:
            raise LogsDifferError(f"the batches at {offset} of {one} and {other} differ")
        offset = ones[offset].last_offset + 1
        compared += 1
    return compared


def leaders_of(directory: Path) -> dict[int, int]:
    """Return the leader of each epoch, from the LeaderChange records of a log."""
    leaders = {}
    for batch in batches_of(directory):
        if batch.is_control:
            for record in decode_batch(batch.data, 0):
                if control_type_of(record) == LEADER_CHANGE and record.value is not None:
                    change = LeaderChangeMessage.decode(bytes(record.value), 0)
                    leaders[batch.epoch] = change.leader_id
    return leaders


def judge_logs(
    logs: Mapping[int, Path], end_offset: int, acknowledged: Sequence[bytes]
) -> tuple[int, dict[int, int]]:
    """Compare the logs of a quorum, by node id, with each other and with a client's changes.

    All have the same bytes up to ``end_offset``, every log has all acknowledged changes, and no
    epoch has two leaders. Returns the number of compared batches, and the leader of each epoch.
    Raises LogsDifferError for the first violation.
    """
    compared = sum(
        compare_logs(one, other, end_offset) for one, other in combinations(logs.values(), 2)
    )
    led: dict[int, int] = {}
    for node_id, path in logs.items():
        contents = b"".join(batch.data for batch in batches_of(path))
        lost = [value for value in acknowledged if value not in contents]
        if lost:
            raise LogsDifferError(
                f"{len(lost)} acknowledged changes are not in the log of node {node_id}: {lost[:5]}"
            )
        for epoch, leader_id in leaders_of(path).items():
            if led.setdefault(epoch, leader_id) != leader_id:
                raise LogsDifferError(f"epoch {epoch} was led by {led[epoch]} and by {leader_id}")
    return compared, led
