"""Compare the snapshots of a mixed quorum with the image from another node's files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kraftspec.reference.log.snapshots import data_values, parse_name
from kraftspec.reference.metadata.checkpoint import read_image
from kraftspec.reference.metadata.frames import read_frame, write_frame
from kraftspec.reference.metadata.snapshot import snapshot_values

# Lists that are hash sets in Kafka: their order is arbitrary.
SETS = ("end_points", "features", "log_dirs", "cordoned_log_dirs", "entity")


class SnapshotsDifferError(AssertionError):
    """A snapshot differs from the metadata image at its offset."""


def snapshots_of(directory: Path) -> list[Path]:
    """Return the snapshots in a metadata log's directory, except the one from formatting."""
    checkpoints = [(parse_name(path.name), path) for path in directory.glob("*.checkpoint")]
    return sorted(path for name, path in checkpoints if name is not None and name.id.end_offset)


def end_of(snapshot: Path) -> int:
    """Return the offset at which a snapshot ends."""
    return int(snapshot.name.partition("-")[0])


def start_of(directory: Path) -> int:
    """Return the first offset at which a node's files determine the metadata image."""
    first = min(int(path.stem) for path in directory.glob("*.log"))
    return first and min(map(end_of, snapshots_of(directory)), default=first)


def values_in(checkpoint: Path) -> list[bytes]:
    """Return the values of the data records of a checkpoint. Raises CodecError for damage."""
    return list(data_values(checkpoint.read_bytes()))


def in_order(values: Iterable[bytes]) -> list[bytes]:
    """Return the values of records sorted, with lists that are sets sorted, too."""
    frames = []
    for value in values:
        read = read_frame(value)
        record = read.decode(value)
        sets: dict[str, Any] = {
            name: sorted(getattr(record, name), key=repr)
            for name in SETS
            if getattr(record, name, None)
        }
        frames.append(write_frame(msgspec.structs.replace(record, **sets), read.version))
    return sorted(frames)


def judge_snapshots(directories: Sequence[Path], end_offset: int) -> int:
    """Compare each snapshot of each node with the image from the next node's files.

    Snapshots that end after ``end_offset``, or before the other node's log begins, do not count.

    ``directories`` are those of metadata logs, Kafka's and ours in turn, so that a snapshot of
    Kafka's is compared with an image of ours. Returns the number of compared snapshots. Raises
    SnapshotsDifferError for the first difference, and the errors of reading.
    """
    compared = 0
    for directory, other in zip(directories, [*directories[1:], directories[0]], strict=True):
        for path in snapshots_of(directory):
            at = end_of(path)
            if not start_of(other) <= at <= end_offset:
                continue
            expected = in_order(values_in(path))
            if in_order(snapshot_values(read_image(str(other), at))) != expected:
                raise SnapshotsDifferError(f"{path} is not what {other} adds up to there")
            compared += 1
    return compared
