"""Snapshots of a mixed quorum, held against the image that another node's files give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kraftspec.fastpath.batch_reader import decode_batch, read_header
from kraftspec.reference.log.snapshots import parse_name
from kraftspec.reference.metadata.checkpoint import read_image
from kraftspec.reference.metadata.frames import read_frame, write_frame
from kraftspec.reference.metadata.snapshot import snapshot_values

# Lists that are sets in Kafka, whose order is that of a hash.
SETS = ("end_points", "features", "log_dirs", "cordoned_log_dirs", "entity")


class SnapshotsDifferError(AssertionError):
    """A snapshot does not hold what the log before its end adds up to."""


def snapshots_of(directory: Path) -> list[Path]:
    """Return the snapshots in a metadata log's directory, that of formatting left out."""
    found = [(parse_name(path.name), path) for path in directory.glob("*.checkpoint")]
    return sorted(path for name, path in found if name is not None and name.id.end_offset)


def end_of(snapshot: Path) -> int:
    """Return the offset at which a snapshot ends."""
    return int(snapshot.name.partition("-")[0])


def start_of(directory: Path) -> int:
    """Return the offset from which on a node's files tell what its log adds up to."""
    first = min(int(path.stem) for path in directory.glob("*.log"))
    return first and min(map(end_of, snapshots_of(directory)), default=first)


def values_in(checkpoint: Path) -> list[bytes]:
    """Return the values of the data records of a checkpoint. CodecError where it is damaged."""
    data, at, found = checkpoint.read_bytes(), 0, []
    while at < len(data):
        header = read_header(data, at)
        if not header.is_control:
            found += [bytes(record.value or b"") for record in decode_batch(data, at)]
        at = header.end
    return found


def in_order(values: Iterable[bytes]) -> list[bytes]:
    """Return values of records sorted, and lists that are sets likewise; byte for byte else."""
    found = []
    for value in values:
        read = read_frame(value)
        record = read.decode(value)
        sets: dict[str, Any] = {
            name: sorted(getattr(record, name), key=repr)
            for name in SETS
            if getattr(record, name, None)
        }
        found.append(write_frame(msgspec.structs.replace(record, **sets), read.version))
    return sorted(found)


def judge_snapshots(directories: Sequence[Path], end_offset: int) -> int:
    """Hold each snapshot of each node against the image that the next node's files give there.

    Those count that end at ``end_offset`` or before, up to which every log goes, and not before
    the other's log begins: with a snapshot that it fetched.

    ``directories`` are those of metadata logs, Kafka's and ours in turn, so that a snapshot of
    Kafka's is held against an image of ours. Returns how many were compared. Raises
    SnapshotsDifferError for the first that does not hold, and as reading does.
    """
    compared = 0
    for directory, other in zip(directories, [*directories[1:], directories[0]], strict=True):
        for path in snapshots_of(directory):
            at = end_of(path)
            if not start_of(other) <= at <= end_offset:
                continue
            wanted = in_order(values_in(path))
            if in_order(snapshot_values(read_image(str(other), at))) != wanted:
                raise SnapshotsDifferError(f"{path} is not what {other} adds up to there")
            compared += 1
    return compared
