"""Load a metadata image from files: from a checkpoint and the log after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kraftspec.fastpath.errors import CodecError
from kraftspec.pipeline.files import Filesystem
from kraftspec.pipeline.layout import LogFile, Paths
from kraftspec.pipeline.metadata.log import directory_of, metadata_files
from kraftspec.pipeline.report import DamagedLogError, Report
from kraftspec.pipeline.stream import scan
from kraftspec.reference.metadata.frames import FrameError, explain, read_control, read_frame
from kraftspec.reference.metadata.image import MetadataImage
from kraftspec.reference.metadata.load import Row, checkpoints_below, load_image

_COLUMNS: Final = (
    "offset",
    "leader_epoch",
    "timestamp",
    "is_control",
    "key",
    "value",
    "position",
    "_error",
)


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

    ``advance`` is called for each segment with its name, its index and the number of segments.

    Raises:
        ValueError: there is no metadata log, or there are several; offsets are missing, or
            ``as_of`` is not reached; a checkpoint is cut; a record does not fit those before it.
        DamagedLogError: a file is damaged where it is read (a ValueError as well).
    """
    if as_of is not None and as_of < 0:
        raise ValueError(f"as_of is an offset, not {as_of}")
    files = _one_log(metadata_files(path, filesystem))
    image = MetadataImage()
    checkpoint = next(iter(checkpoints_below(files, as_of)), None)
    segments = [file for file in files if file.kind == "segment"]
    load_image(image, checkpoint, segments, _rows, as_of, advance=advance)
    return image


def _one_log(files: list[LogFile]) -> list[LogFile]:
    directories = sorted({directory_of(file) for file in files})
    if len(directories) > 1:
        raise ValueError(
            f"there are {len(directories)} metadata logs, and an image is of one: name one of "
            + ", ".join(directories)
        )
    return files


def _rows(file: LogFile, below: int | None, image: MetadataImage) -> Iterator[Row]:
    """Yield the records of a file up to the offset before ``below``; the rest is not decoded.

    ``image`` gets the records. The error of a bad record names the last good image.
    """
    report = Report()
    batches = scan(file.path, _COLUMNS, filesystem=file.filesystem, values="binary", report=report)
    for batch in batches:
        for offset, epoch, timestamp, control, key, value, position, damage in zip(
            *(column.to_pylist() for column in batch.columns), strict=True
        ):
            if damage is not None:
                raise DamagedLogError(report.damaged[0], _advice(file, image))
            try:
                frame = read_control(key, value) if control else read_frame(value)
                message = frame.decode(value)
            except (FrameError, CodecError) as error:
                why = error.error if isinstance(error, FrameError) else error
                text = f"{file.path}: {explain(offset, why)}; {_advice(file, image)}"
                raise ValueError(text) from error
            yield Row(offset, epoch, timestamp, message, position)
            if below is not None and offset + 1 >= below:
                return


def _advice(file: LogFile, image: MetadataImage) -> str:
    """Return which ``as_of`` gives an image without the damaged part of this file."""
    if file.kind == "checkpoint":
        return f"as_of (--as-of) below {file.base_offset} does without this checkpoint"
    return f"as_of (--as-of) {image.end_offset} gives the image before it"
