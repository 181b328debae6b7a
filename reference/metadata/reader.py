"""The records of local files of a metadata log, read while others may write there.

Nothing is locked and nothing changed. A node that writes leaves, at any moment, zeros or half a
batch at the end of its last segment: that is where the log ends, as far as a reader can say.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from kraftspec.fastpath.batch_reader import decode_batch, read_header
from kraftspec.fastpath.errors import CodecError, detail_of
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.records import LOG_OVERHEAD_BYTES, BatchHeader, Record
from kraftspec.fastpath.recovery import Recovery, find_end
from kraftspec.fastpath.walk import Walk, claimed_size, read_file
from kraftspec.generated.kafka import NoOpRecord
from kraftspec.reference.log.directory import META_NAME, MetaProperties, NotFormattedError
from kraftspec.reference.log.snapshots import parse_name
from kraftspec.reference.metadata.frames import (
    FrameError,
    explain,
    read_control,
    read_frame,
)
from kraftspec.reference.metadata.image import MetadataImage
from kraftspec.reference.metadata.load import Row
from kraftspec.reference.profiles import KAFKA, PROFILE_NAMES, parts_of

# Kafka's controllers write at most 8 MiB at once (KafkaRaftClient.MAX_BATCH_SIZE_BYTES); a length
# that lies costs no more memory than this.
BATCH_BYTES_MAX: Final = 64 << 20
CHECKPOINT_SUFFIX: Final = ".checkpoint"
# A batch that is being written may look damaged for a moment.
_LOOKS_COUNT: Final = 4
_LOOK_AGAIN_S: Final = 0.05
_SEGMENT = re.compile(r"(\d{20})\.log")


class MetadataFile(msgspec.Struct, frozen=True):
    """A segment or a checkpoint on this machine's disk: a ``load.LogPart``.

    ``is_last`` is for the segment that a node may be writing to; what a crash leaves at its end is
    no damage. A checkpoint without offset in its name (bootstrap.checkpoint) ends at 0.
    """

    path: str
    kind: str
    base_offset: int = 0
    epoch: int = -1
    is_last: bool = False


class DamagedFileError(ValueError):
    """Bytes that are no record of the log: ``path``, ``position`` (a byte of it), ``detail``."""

    def __init__(self, path: str, position: int, detail: str) -> None:
        super().__init__(path, position, detail)
        self.path = path
        self.position = position
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.path}, byte {self.position}: {self.detail}"


def file_of(path: str, *, is_last: bool = True) -> MetadataFile:
    """Return what a file is by its name: a checkpoint where it ends in that, else a segment."""
    name = os.path.basename(path)
    if name.endswith(CHECKPOINT_SUFFIX):
        parsed = parse_name(name)
        if parsed is None:
            return MetadataFile(path, "checkpoint")
        return MetadataFile(path, "checkpoint", parsed.id.end_offset, parsed.id.epoch)
    match = _SEGMENT.fullmatch(name)
    return MetadataFile(path, "segment", int(match[1]) if match else 0, is_last=is_last)


def files_of(directory: str) -> list[MetadataFile]:
    """Return the segments and the whole checkpoints of a log's directory, by offset.

    Raises OSError where the directory cannot be listed.
    """
    files: list[MetadataFile] = []
    segments: list[str] = []
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        parsed = parse_name(name)
        if parsed is not None and parsed.is_whole:
            files.append(file_of(path))
        elif _SEGMENT.fullmatch(name):
            segments.append(path)
    files += [file_of(path, is_last=path == segments[-1]) for path in segments]
    return files


def profile_near(path: str | Path) -> str:
    """Return the profile of a log directory, or of a file or a directory in one.

    It is Kafka's where no meta.properties is beside it or above it, or one that names no profile.
    """
    start = Path(path)
    for directory in (start, *start.absolute().parents[:2]):
        try:
            data = (directory / META_NAME).read_bytes()
            profile = MetaProperties.parse(data, str(directory)).profile
        except NotFormattedError:
            return KAFKA
        except OSError:
            continue
        return profile if profile in PROFILE_NAMES else KAFKA
    return KAFKA


def read_rows(
    file: MetadataFile,
    below: int | None,
    image: MetadataImage,
    profile: str = KAFKA,
    *,
    is_lossless: bool = False,
) -> Iterator[Row]:
    """Yield the records of a file but for batches that ``image`` has: a ``load.ReadRows``.

    The drafts leave open what a data record is: of their profiles one that is no record of Kafka's
    metadata says nothing, as a NoOpRecord. With ``is_lossless`` it is an error there too.

    Raises DamagedFileError, and OSError as the disk does.
    """
    first = image.end_offset if file.kind == "segment" else 0
    for header, window, at in _batches(file):
        if header.last_offset < first:
            continue
        if below is not None and header.base_offset >= below:
            return
        try:
            read_header(window, at)  # Its CRC, too.
        except CodecError as error:
            _end_or_raise(file, header.position, error)
            return
        try:
            records = decode_batch(window, at, check_crc=False)
        except CodecError as error:
            raise DamagedFileError(file.path, header.position, _told(error)) from error
        for record in records:
            if below is not None and record.offset >= below:
                return
            try:
                if header.is_control:
                    frame = read_control(record.key, record.value, profile)
                else:
                    frame = read_frame(record.value)
                message = frame.decode(record.value or b"")
            except (FrameError, CodecError) as refused:
                is_opaque = not (header.is_control or parts_of(profile).is_metadata_log)
                if is_opaque and not is_lossless:
                    yield _row(header, record, NoOpRecord())
                    continue
                why = refused.error if isinstance(refused, FrameError) else refused
                explanation = explain(record.offset, why)
                raise DamagedFileError(file.path, header.position, explanation) from refused
            yield _row(header, record, message)


def _row(header: BatchHeader, record: Record, message: Message) -> Row:
    return Row(
        record.offset, header.partition_leader_epoch, record.timestamp, message, header.position
    )


def _batches(file: MetadataFile) -> Iterator[tuple[BatchHeader, bytes, int]]:
    """Yield each batch's header, whose position is the file's byte, and the bytes that have it.

    CRCs are not looked at. Where the log ends, this ends.
    """
    with open(file.path, "rb", buffering=0) as opened:
        descriptor, end = opened.fileno(), 0
        read = partial(read_file, descriptor)
        while True:
            walk = Walk(
                read, end, os.fstat(descriptor).st_size, check_crc=False,
                batch_bytes_max=BATCH_BYTES_MAX,
            )  # fmt: skip
            for header in walk:
                at, position = header.position, walk.base + header.position
                yield msgspec.structs.replace(header, position=position), walk.window, at
            if walk.position == end:
                break
            end = walk.position  # More may be there by now.
        if walk.error is not None:
            _end_or_raise(file, end, walk.error)


def _end_or_raise(file: MetadataFile, position: int, error: CodecError) -> None:
    """Return where the log ends at a byte that begins no good batch; else DamagedFileError."""
    follow = ""
    for look in range(_LOOKS_COUNT if file.is_last else 0):
        if look:
            time.sleep(_LOOK_AGAIN_S)
        rest = _look(file.path, position)
        if rest is None:
            follow = f"; and no batch has more than {BATCH_BYTES_MAX} bytes"
            break
        if rest.end or not rest.is_corrupt:
            return  # What was being written may be whole by now: the next who reads has it.
        follow = f"; {rest.good_bytes} bytes of good batches follow"
    raise DamagedFileError(file.path, position, _told(error) + follow)


def _look(path: str, position: int) -> Recovery | None:
    """Judge what a file holds from a byte on; None for a length that no batch has.

    To judge that would take as much memory as the file has bytes.
    """
    with open(path, "rb", buffering=0) as opened:
        descriptor = opened.fileno()
        size = max(os.fstat(descriptor).st_size - position, 0)
        if min(size, claimed_size(read_file(descriptor, position, LOG_OVERHEAD_BYTES))) > (
            BATCH_BYTES_MAX
        ):
            return None

        def read(at: int, count: int) -> bytes:
            return read_file(descriptor, position + at, count)

        return find_end(read, size, is_log=True)


def _told(error: CodecError) -> str:
    return f"{detail_of(error)} [{error.error_class}]"
