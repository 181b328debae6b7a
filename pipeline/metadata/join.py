"""A checkpoint and the log after it, read from files and joined into an image."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Final

import msgspec

from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import Message
from kraftspec.generated import kafka
from kraftspec.pipeline.files import Filesystem
from kraftspec.pipeline.layout import LogFile, Paths
from kraftspec.pipeline.metadata.log import directory_of, metadata_files
from kraftspec.pipeline.report import DamagedLogError, Report
from kraftspec.pipeline.stream import scan
from kraftspec.reference.metadata.frames import FrameError, explain, read_control, read_frame
from kraftspec.reference.metadata.image import ImageError, MetadataImage

_COLUMNS: Final = ("offset", "leader_epoch", "timestamp", "is_control", "key", "value", "_error")


class _Row(msgspec.Struct, frozen=True):
    """A record of the log, decoded."""

    offset: int
    epoch: int
    timestamp: int
    message: Message


def read_image(
    path: Paths,
    as_of: int | None = None,
    *,
    filesystem: Filesystem = None,
    advance: Callable[[str, int, int], None] = lambda what, number, count: None,
) -> MetadataImage:
    """Return the image that the offsets below ``as_of`` give; all that there are without it.

    Of the paths' checkpoints the last that ends at ``as_of`` or before is read, then the log from
    there on: what was deleted before a checkpoint is not missed. Paths are ``scan``'s; topics other
    than the metadata log are passed over. The log may end with records that the quorum has not
    committed, and may yet cut off: which, no file says.

    ``advance`` is told of each segment: its name, how many were before it, and of how many.

    Raises:
        ValueError: there is no metadata log, or there are several; offsets are missing, or
            ``as_of`` is not reached; a checkpoint is cut; a record does not fit those before it.
        DamagedLogError: a file is damaged where it is read (a ValueError as well).
    """
    if as_of is not None and as_of < 0:
        raise ValueError(f"as_of is an offset, not {as_of}")
    files = _one_log(metadata_files(path, filesystem))
    image = MetadataImage()
    checkpoint = _checkpoint(files, as_of)
    if checkpoint is not None:
        _load(image, checkpoint)
    segments = [file for file in files if file.kind == "segment"]
    for number, (file, following) in enumerate(zip_longest(segments, segments[1:])):
        advance(posixpath.basename(file.path), number, len(segments))
        if following is not None and following.base_offset <= image.end_offset:
            continue  # All of it is in the checkpoint.
        if as_of is not None and file.base_offset >= as_of:
            break
        _add(image, file, as_of)
    if as_of is not None and image.end_offset < as_of:
        raise ValueError(f"the log ends at offset {image.end_offset}, before {as_of}")
    return image


def _one_log(files: list[LogFile]) -> list[LogFile]:
    directories = sorted({directory_of(file) for file in files})
    if len(directories) > 1:
        raise ValueError(
            f"there are {len(directories)} metadata logs, and an image is of one: name one of "
            + ", ".join(directories)
        )
    return files


def _checkpoint(files: list[LogFile], as_of: int | None) -> LogFile | None:
    found = [
        file
        for file in files
        if file.kind == "checkpoint" and (as_of is None or file.base_offset <= as_of)
    ]
    return max(found, key=lambda file: (file.base_offset, file.epoch), default=None)


def _load(image: MetadataImage, file: LogFile) -> None:
    """Replay a checkpoint, whose own offsets only count its records; its last one is its footer."""
    last: Message | None = None
    for row in _rows(file, None, image):
        with _Named(file, row):
            image.replay(row.message, row.offset, row.epoch, row.timestamp)
        if isinstance(row.message, kafka.SnapshotHeaderRecord):
            image.timestamp = row.message.last_contained_log_timestamp
        last = row.message
    if not isinstance(last, kafka.SnapshotFooterRecord):
        raise ValueError(f"{file.path}: the checkpoint is cut: it has no footer")
    image.end_offset, image.epoch = max(file.base_offset, 0), file.epoch


def _add(image: MetadataImage, file: LogFile, as_of: int | None) -> None:
    """Replay what a segment has from the image's end on and below ``as_of``."""
    for row in _rows(file, as_of, image):
        if row.offset < image.end_offset:
            continue
        if row.offset > image.end_offset:
            raise ValueError(
                f"{file.path}: the log goes on at offset {row.offset}; "
                f"{image.end_offset} is missing, and no checkpoint has it"
            )
        with _Named(file, row):
            image.replay(row.message, row.offset, row.epoch, row.timestamp)


class _Named:
    """Says of an ImageError which record of which file it is about."""

    def __init__(self, file: LogFile, row: _Row) -> None:
        self.file = file
        self.row = row

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, ImageError):
            raise ImageError(
                f"{self.file.path}, offset {self.row.offset} "
                f"({type(self.row.message).__name__}): {error}"
            ) from error


def _rows(file: LogFile, below: int | None, image: MetadataImage) -> Iterator[_Row]:
    """Yield the records of a file up to the offset before ``below``; what follows may be anything.

    ``image`` is what they go into: where one cannot be read, it says what can be had all the same.
    """
    report = Report()
    found = scan(file.path, _COLUMNS, filesystem=file.filesystem, values="binary", report=report)
    for batch in found:
        for offset, epoch, timestamp, control, key, value, error in zip(
            *(column.to_pylist() for column in batch.columns), strict=True
        ):
            if error is not None:
                raise DamagedLogError(report.damaged[0], _advice(file, image))
            try:
                frame = read_control(key, value) if control else read_frame(value)
                message = frame.decode(value)
            except (FrameError, CodecError) as refused:
                why = refused.error if isinstance(refused, FrameError) else refused
                said = f"{file.path}: {explain(offset, why)}; {_advice(file, image)}"
                raise ValueError(said) from refused
            yield _Row(offset, epoch, timestamp, message)
            if below is not None and offset + 1 >= below:
                return


def _advice(file: LogFile, image: MetadataImage) -> str:
    """Say what image can be had in spite of something in this file that cannot be read."""
    if file.kind == "checkpoint":
        return f"as_of (--as-of) below {file.base_offset} does without this checkpoint"
    return f"as_of (--as-of) {image.end_offset} gives the image before it"
