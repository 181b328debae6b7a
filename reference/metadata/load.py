"""Load an image from a checkpoint and the log after it.

``load_image`` takes the files of one metadata log and a function that reads one: local files
(``reader``), or those of an object store as Arrow.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Protocol, TypeVar

import msgspec

from kraftspec.fastpath.message import Message
from kraftspec.generated import kafka
from kraftspec.reference.metadata.image import ImageError, MetadataImage


class LogPart(Protocol):
    """A file of a metadata log.

    ``kind`` is "segment" or "checkpoint"; ``base_offset`` is that of a segment's name, or the
    offset at which a checkpoint ends, ``epoch`` then that of the record before it.
    """

    @property
    def path(self) -> str:
        """Where it is, for errors."""

    @property
    def kind(self) -> str:
        """Whether it is a segment or a checkpoint."""

    @property
    def base_offset(self) -> int:
        """The offset in its name."""

    @property
    def epoch(self) -> int:
        """The epoch in a checkpoint's name."""


class Row(msgspec.Struct, frozen=True):
    """A record of a file, decoded; ``position`` is the byte where its batch begins."""

    offset: int
    epoch: int
    timestamp: int
    message: Message
    position: int


PartT = TypeVar("PartT", bound=LogPart)
# Yields the records of a file up to the offset before the second argument; all where it is None.
# The image is what they go into: for what an error advises.
ReadRows = Callable[[PartT, int | None, MetadataImage], Iterator[Row]]


def checkpoints_below(files: Sequence[PartT], as_of: int | None) -> list[PartT]:
    """Return the checkpoints that end at ``as_of`` or before, the last first."""
    checkpoints = [
        file
        for file in files
        if file.kind == "checkpoint" and (as_of is None or file.base_offset <= as_of)
    ]
    return sorted(checkpoints, key=lambda file: (file.base_offset, file.epoch), reverse=True)


def load_image(
    image: MetadataImage,
    checkpoint: PartT | None,
    segments: Sequence[PartT],
    rows: ReadRows[PartT],
    as_of: int | None = None,
    *,
    advance: Callable[[str, int, int], None] = lambda what, number, count: None,
) -> None:
    """Read a checkpoint, if there is one, and the segments after it into an empty image.

    ``segments`` come by offset, those that the checkpoint covers among them. With ``as_of`` only
    what is below that offset counts. Where this raises, ``image`` is that of what was before it.
    ``advance`` is called for each segment: its name, how many were before it, and of how many.

    Raises ValueError where a checkpoint is truncated, offsets are missing, a record does not
    fit those before it (``ImageError``) or ``as_of`` is not reached; and what ``rows`` raises.
    """
    if checkpoint is not None:
        _load(image, checkpoint, rows)
    for number, (file, following) in enumerate(zip_longest(segments, segments[1:])):
        advance(posixpath.basename(file.path), number, len(segments))
        if following is not None and following.base_offset <= image.end_offset:
            continue  # All of it is in the checkpoint.
        if as_of is not None and file.base_offset >= as_of:
            break
        _add(image, file, as_of, rows)
    if as_of is not None and image.end_offset < as_of:
        raise ValueError(f"the log ends at offset {image.end_offset}, before {as_of}")


def _load(image: MetadataImage, file: PartT, rows: ReadRows[PartT]) -> None:
    """Replay a checkpoint. Its own offsets only count its records; the last one is its footer."""
    last: Message | None = None
    timestamp = image.timestamp
    for row in rows(file, None, image):
        with _Named(file, row):
            image.replay(row.message, row.offset, row.epoch, row.timestamp)
        if isinstance(row.message, kafka.SnapshotHeaderRecord):
            timestamp = row.message.last_contained_log_timestamp
        last = row.message
    if not isinstance(last, kafka.SnapshotFooterRecord):
        raise ValueError(f"{file.path}: the checkpoint is cut: it has no footer")
    # What its records are stamped with is when they were written here, and not when logged.
    image.end_offset, image.epoch, image.timestamp = max(file.base_offset, 0), file.epoch, timestamp


def _add(image: MetadataImage, file: PartT, as_of: int | None, rows: ReadRows[PartT]) -> None:
    """Replay what a segment has from the image's end on and below ``as_of``."""
    for row in rows(file, as_of, image):
        if row.offset < image.end_offset:
            continue
        if row.offset > image.end_offset:
            raise ValueError(
                f"{file.path}, byte {row.position}: the log goes on at offset {row.offset}; "
                f"{image.end_offset} is missing, and no checkpoint has it"
            )
        with _Named(file, row):
            image.replay(row.message, row.offset, row.epoch, row.timestamp)


class _Named:
    """Adds the file and the record to an ImageError."""

    def __init__(self, file: LogPart, row: Row) -> None:
        self.file = file
        self.row = row

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, ImageError):
            raise ImageError(
                f"{self.file.path}, offset {self.row.offset} "
                f"({type(self.row.message).__name__}): {error}; "
                f"its batch begins at byte {self.row.position}"
            ) from error
