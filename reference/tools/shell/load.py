"""From a checkpoint, a segment or a directory to an image, and what of it could not be read."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from kraftspec.generated import kafka
from kraftspec.reference.log.directory import METADATA_NAME
from kraftspec.reference.log.quorum_state import NAME, QuorumStateFile
from kraftspec.reference.metadata.image import MetadataImage
from kraftspec.reference.metadata.load import Row, checkpoints_below, load_image
from kraftspec.reference.metadata.reader import (
    MetadataFile,
    file_of,
    files_of,
    profile_near,
    read_rows,
)
from kraftspec.reference.profiles import KAFKA, parts_of, profile_named
from kraftspec.reference.profiles.common.admin import LogVoters

LEADER_CHANGES_MAX: Final = 1000  # A log may have any number; the last ones are kept.
_LISTINGS_COUNT: Final = 5  # Of a directory whose owner deletes what was listed.

_STATE_BYTES_MAX: Final = 1 << 20  # It has a line.

LeaderChange = tuple[int, int, kafka.LeaderChangeMessage]  # Offset, epoch, message.


class Control:
    """What control records say beside what the image keeps of them."""

    def __init__(self) -> None:
        self.header: kafka.SnapshotHeaderRecord | None = None
        self.footer: kafka.SnapshotFooterRecord | None = None
        self.snapshot_records = 0
        self._changes: deque[LeaderChange] = deque(maxlen=LEADER_CHANGES_MAX)

    def note(self, file: MetadataFile, row: Row) -> None:
        """Note a record."""
        if file.kind == "checkpoint":
            self.snapshot_records += 1
        match row.message:
            case kafka.LeaderChangeMessage():
                self._changes.append((row.offset, row.epoch, row.message))
            case kafka.SnapshotHeaderRecord():
                self.header = row.message
            case kafka.SnapshotFooterRecord():
                self.footer = row.message
            case _:
                pass

    @property
    def leader_changes(self) -> dict[int, LeaderChange]:
        """The last changes by epoch."""
        return {change[1]: change for change in self._changes}

    @property
    def leader(self) -> LeaderChange | None:
        """The last change."""
        return self._changes[-1] if self._changes else None


class Loaded(msgspec.Struct):
    """An image, the files that it was read from, and what was wrong with some.

    ``problems`` are sentences: each names a file, the byte, and what the image has all the same.
    ``state`` is the node's own file quorum-state, in the shape of its JSON. ``draft`` is what only
    the control records of a draft say; None in Kafka's own logs.
    """

    image: MetadataImage
    control: Control
    checkpoint: MetadataFile | None
    files: list[str]
    problems: list[str] = []
    state: dict[str, Any] | None = None
    draft: LogVoters | None = None


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """What a shell shows: a file, or a directory; as of an offset, or all.

    ``profile`` is whose log it is; None for what the meta.properties beside it says.
    """

    snapshot: str | None = None
    directory: str | None = None
    offset: int | None = None
    profile: str | None = None

    def load(
        self, advance: Callable[[str, int, int], None] = lambda what, number, count: None
    ) -> Loaded:
        """Read it; what is damaged becomes a problem, and the image what could be read.

        Raises ValueError where there is no log, or nothing below the offset asked for, and OSError.
        """
        for listing in range(_LISTINGS_COUNT):
            try:
                loaded = _load(self._files(), self.offset, self._whose(), advance)
            except FileNotFoundError:
                # Retention took a file between the listing and the reading.
                if self.snapshot is not None or listing == _LISTINGS_COUNT - 1:
                    raise
            else:
                if self.directory is not None:
                    path = os.path.join(self._inner(self.directory), NAME)
                    _add_state(loaded, path, self._whose())
                return loaded
        raise AssertionError

    def _whose(self) -> str:
        return self.profile or profile_near(self.directory or self.snapshot or "")

    def _files(self) -> list[MetadataFile]:
        if self.snapshot is not None:
            if os.path.isdir(self.snapshot):
                raise IsADirectoryError(
                    f"{self.snapshot} is a directory: name a file of it, or give it as --directory"
                )
            return [file_of(self.snapshot)]
        assert self.directory is not None
        files = files_of(self._inner(self.directory))
        if not files:
            parent = Path(self.directory)
            inside = sorted(str(one.parent) for one in parent.glob(f"*/{METADATA_NAME}"))
            raise ValueError(
                f"{self.directory} holds no metadata log: no {METADATA_NAME}, "
                "and no segment or checkpoint"
                + (f"; name one of its log directories: {', '.join(inside)}" if inside else "")
            )
        return files

    @staticmethod
    def _inner(directory: str) -> str:
        inner = os.path.join(directory, METADATA_NAME)
        return inner if os.path.isdir(inner) else directory


def _add_state(loaded: Loaded, path: str, profile: str) -> None:
    """Read whom the node follows or voted for; it is not of the log, so of now at any offset."""
    try:
        with open(path, "rb") as file:
            data = file.read(_STATE_BYTES_MAX)
        state, version = QuorumStateFile.parse(data, path, profile_named(profile).state_message)
    except FileNotFoundError:
        return
    except (ValueError, OSError) as error:
        loaded.problems.append(str(error))
    else:
        loaded.state = state.to_json(version)


def _load(
    files: list[MetadataFile],
    offset: int | None,
    profile: str,
    advance: Callable[[str, int, int], None],
) -> Loaded:
    """Join the newest checkpoint that is good with the log after it."""
    segments = [file for file in files if file.kind == "segment"]
    checkpoints: list[MetadataFile | None] = [*checkpoints_below(files, offset)]
    if (segments and segments[0].base_offset == 0) or not checkpoints:
        checkpoints.append(None)
    _check_offset(files, segments, offset)
    problems: list[str] = []
    partial: Loaded | None = None
    kind = parts_of(profile).admin.voters
    for checkpoint in checkpoints:
        draft = None if kind is None else kind(profile)
        loaded = Loaded(MetadataImage(), Control(), checkpoint, [], draft=draft)
        try:
            _join(loaded, segments, offset, advance)
        except FileNotFoundError:
            raise
        except (ValueError, OSError) as error:
            read_count = loaded.image.end_offset + loaded.control.snapshot_records
            if isinstance(error, OSError) and not read_count:
                raise
            is_checkpoint = checkpoint is not None and loaded.files[-1:] == [checkpoint.path]
            problems.append(f"{error}; {_rest(loaded, is_checkpoint=is_checkpoint)}")
            loaded.problems = problems
            if not is_checkpoint:
                return loaded
            partial = partial or loaded
        else:
            loaded.problems = problems
            return loaded
    assert partial is not None
    return partial


def _check_offset(
    files: list[MetadataFile], segments: list[MetadataFile], offset: int | None
) -> None:
    """Raise ValueError where nothing says what was before an offset."""
    if offset is None or (segments and segments[0].base_offset == 0):
        return
    ends = sorted(file.base_offset for file in files if file.kind == "checkpoint")
    if ends and ends[0] > offset:
        raise ValueError(
            f"{files[0].path}: what was before offset {offset} is not here, for the log does not "
            f"begin at 0: give an offset from {ends[0]} on"
        )


def _rest(loaded: Loaded, *, is_checkpoint: bool) -> str:
    """Say what there is in spite of an error."""
    if is_checkpoint:
        return f"{loaded.control.snapshot_records:,} records of the checkpoint could be read"
    return f"the image is that of the offsets below {loaded.image.end_offset:,}"


def _join(
    loaded: Loaded,
    segments: list[MetadataFile],
    offset: int | None,
    advance: Callable[[str, int, int], None],
) -> None:
    def rows(file: MetadataFile, below: int | None, image: MetadataImage) -> Iterator[Row]:
        loaded.files.append(file.path)
        profile = KAFKA if loaded.draft is None else loaded.draft.profile
        for read in read_rows(file, below, image, profile):
            row = read
            counts = file.kind == "checkpoint" or row.offset >= image.end_offset
            if loaded.draft is not None:
                if counts:
                    loaded.draft.note(read.message)
                row = msgspec.structs.replace(read, message=loaded.draft.as_kafka(read.message))
            if counts:
                loaded.control.note(file, row)
            yield row

    load_image(loaded.image, loaded.checkpoint, segments, rows, offset, advance=advance)
