"""A program that writes a checkpoint of a metadata log beside the node that has the log open.

A node runs it for each of its snapshots: what a large image takes of time and memory is that of
another process, and gone afterwards. It reads the files as anybody may (``reader``)::

    python -m kraftspec.reference.metadata.checkpoint DIRECTORY OFFSET

and says on stdout, as a line of JSON, up to where it has an image (`Settled`): at OFFSET or, where
a transaction is open there, before that began. The node answers by a line on stdin (`Order`) with
the control records that the checkpoint begins with, or by closing it; then the checkpoint is
written, synced and given its name, and a line on stdout (`Written`) says so. What is wrong is said
on stderr, and the exit code is 1.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import BinaryIO, Final

import msgspec

from kraftspec.reference.log.files import LocalFiles
from kraftspec.reference.log.snapshots import PartialSnapshot, SnapshotWriter
from kraftspec.reference.metadata.image import MetadataImage
from kraftspec.reference.metadata.load import checkpoints_below, load_image
from kraftspec.reference.metadata.reader import files_of, profile_near, read_rows
from kraftspec.reference.metadata.snapshot import snapshot_values
from kraftspec.reference.raft.types import SnapshotId

PROGRAM: Final = "kraftspec.reference.metadata.checkpoint"
BATCH_RECORDS: Final = 1024  # As Kafka's (RaftSnapshotWriter).
_POLITENESS: Final = 10  # Of ``nice``: the node comes first.


class Settled(msgspec.Struct, frozen=True):
    """Up to where there is an image: the offset after its last record, and that record's."""

    end_offset: int
    epoch: int
    timestamp_ms: int


class Order(msgspec.Struct, frozen=True):
    """What the checkpoint begins with: types and values of control records; and when it is made."""

    header: list[tuple[int, bytes]]
    timestamp_ms: int


class Written(msgspec.Struct, frozen=True):
    """How many data records the checkpoint has."""

    records: int


def read_image(directory: str, as_of: int) -> MetadataImage:
    """Return the image of a log's files up to an offset. Raises ValueError, OSError.

    A record that is none of Kafka's metadata is an error: the image would lose it.
    """
    image = MetadataImage()
    files = files_of(directory)
    segments = [file for file in files if file.kind == "segment"]
    checkpoint = next(iter(checkpoints_below(files, as_of)), None)
    rows = partial(read_rows, profile=profile_near(directory), is_lossless=True)
    load_image(image, checkpoint, segments, rows, as_of)
    return image


def write_checkpoint(directory: str, image: MetadataImage, order: Order) -> int:
    """Write an image as the checkpoint of where it is settled; return its number of data records.

    It is whole, durable and under its name on return, and else nothing is left of it. Raises
    ValueError where records cannot be written, OSError as the disk does.
    """
    end_offset, epoch, _ = image.settled
    id_ = SnapshotId(end_offset, epoch)
    # A node that was killed may have left such a program behind, which ends soon.
    mark = str(os.getpid())
    part = PartialSnapshot(id_, LocalFiles(), directory, lambda: None, mark)
    try:
        writer = SnapshotWriter(part, order.header, timestamp_ms=order.timestamp_ms)
        values = snapshot_values(image)
        count = 0
        while batch := list(islice(values, BATCH_RECORDS)):
            writer.append(batch)
            count += len(batch)
        writer.freeze()
    finally:
        part.abandon()
    return count


def work(directory: str, as_of: int, orders: BinaryIO, answers: BinaryIO) -> None:
    """Do all of it; raises what reading and writing do."""
    image = read_image(directory, as_of)
    answers.write(msgspec.json.encode(Settled(*image.settled)) + b"\n")
    answers.flush()
    line = orders.readline()
    if not line:
        return  # It is not wanted, or the node has gone.
    count = write_checkpoint(directory, image, msgspec.json.decode(line, type=Order))
    answers.write(msgspec.json.encode(Written(count)) + b"\n")
    answers.flush()


def main(directory: str, as_of: str) -> None:
    """Run the program."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the node's; it lets this one go.
    with suppress(OSError):
        os.nice(_POLITENESS)
    try:
        work(directory, int(as_of), sys.stdin.buffer, sys.stdout.buffer)
    except (ValueError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
