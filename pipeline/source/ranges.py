"""From which offset to which each partition is read, and which bytes of its files that is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kraftspec.pipeline.layout import LogFile
from kraftspec.pipeline.source.logs import Key, PartitionLog, Place, place_of
from kraftspec.pipeline.source.options import EARLIEST, LATEST, Bound, OptionError, Options
from kraftspec.pipeline.splits import Part, plan_splits

LOG: Final = logging.getLogger("kraftspec.pipeline")

Logs = Mapping[Key, PartitionLog]
Places = Callable[[LogFile, int], Place]


class DataLossError(RuntimeError):
    """Offsets that were to be read are not there (any more), and ``failOnDataLoss`` is set."""


def lost(options: Options, what: str) -> None:
    """Raise for lost data, or only log it when ``failOnDataLoss`` is false."""
    if options.fail_on_data_loss:
        raise DataLossError(f"{what}; with failOnDataLoss=false the query goes on without it")
    LOG.warning("%s", what)


@dataclass(frozen=True)
class OffsetRange:
    """A part of a file, and the range of offsets to read from it: None for no bound."""

    part: Part
    offset_min: int | None = None
    offset_end: int | None = None

    @property
    def size(self) -> int:
        """The number of bytes to read."""
        return self.part.size

    @property
    def terms(self) -> list[tuple[str, str, Any]]:
        """The range as filter terms."""
        least = [] if self.offset_min is None else [("offset", ">=", self.offset_min)]
        return least + ([] if self.offset_end is None else [("offset", "<", self.offset_end)])


def starts_of(options: Options, logs: Logs, default: int = EARLIEST) -> dict[Key, int]:
    """Return the offset at which to start each partition, as the starting options say.

    Raises:
        OptionError: they name other partitions than there are, or a time after all records.
        DataLossError: an offset is not in the log.
    """
    bound = options.starting or Bound("", offset=default)
    starts = {}
    for key, log in logs.items():
        offset = _offset_of(bound, logs, key)
        if _is_time(bound):
            by_time = log.offset_of(offset)
            if by_time is None and options.start_unmatched == "error":
                raise OptionError(
                    f"option {bound.option}: {log.name} has no record of {offset} or later; "
                    "startingOffsetsByTimestampStrategy=latest would start at its end"
                )
            offset = LATEST if by_time is None else by_time
        if offset in (EARLIEST, LATEST):
            starts[key] = log.earliest if offset == EARLIEST else log.end().offset
        else:
            starts[key] = within(options, log, offset, log.end().offset)
    return starts


def ends_of(options: Options, logs: Logs) -> dict[Key, int | None]:
    """Return the offset before which to end each partition, None where that is its end."""
    bound = options.ending
    if bound is None:
        return dict.fromkeys(logs)
    ends: dict[Key, int | None] = {}
    for key, log in logs.items():
        offset = _offset_of(bound, logs, key)
        if _is_time(bound):
            ends[key] = log.offset_of(offset)
            continue
        ends[key] = None if offset == LATEST else offset
        latest = log.end().offset
        if offset > latest:
            lost(
                options, f"option {bound.option}: {log.name} ends at offset {latest}, not {offset}"
            )
    return ends


def _is_time(bound: Bound) -> bool:
    return bound.timestamp is not None or bound.timestamps is not None


def _offset_of(bound: Bound, logs: Logs, key: Key) -> int:
    """Return what a bound asks of one partition; it must name all of them, and no other."""
    for one in (bound.offset, bound.timestamp):
        if one is not None:
            return one
    named = bound.offsets if bound.offsets is not None else bound.timestamps or {}
    pairs = {(topic, number) for topic, numbers in named.items() for number in numbers}
    if missing := logs.keys() - pairs:
        raise OptionError(f"option {bound.option} must name all partitions: {_list(missing)} lacks")
    if unknown := pairs - logs.keys():
        raise OptionError(f"option {bound.option}: there is no partition {_list(unknown)}")
    return named[key[0]][key[1]]


def _list(keys: set[Key]) -> str:
    shown = sorted(keys)[:5]
    names = ", ".join(f"{topic}-{partition}" for topic, partition in shown)
    return names + (" …" if len(keys) > len(shown) else "")


def within(options: Options, log: PartitionLog, offset: int, latest: int) -> int:
    """Return ``offset``, or the nearest that the log has; what lies between them is lost."""
    if offset < log.earliest:
        lost(options, f"{log.name}: offsets {offset} to {log.earliest - 1} are deleted")
        return log.earliest
    if offset > latest:
        lost(options, f"{log.name} ends at offset {latest}: there is no {offset} to start at")
        return latest
    return offset


def offset_ranges(
    log: PartitionLog,
    start: int,
    end: int | None,
    options: Options,
    split_bytes: int,
    *,
    places: Places = place_of,
    terms: list[Any] | None = None,
) -> Iterator[OffsetRange]:
    """Yield what of a partition's files holds the offsets from ``start`` to before ``end``.

    Consecutive ranges take each byte of a file once: what is damaged between two batches is read
    with the later one.
    """
    if end is not None and end <= start:
        return
    files = [
        file
        for file in log.files
        if (file.end_offset is None or file.end_offset > start)
        and (end is None or file.base_offset < end)
    ]
    bounds = {file.path: _bounds(file, start, end, places) for file in files}
    planned = plan_splits(
        files, split_bytes, terms or None,
        isolation=options.isolation, use_txn_indexes=options.use_txn_indexes,
    )  # fmt: skip
    for part in (part for split in planned for part in split.parts):
        first, last = bounds[part.file.path]
        begin = max(part.start, first.batch_position if first else 0)
        until = min(part.end, last.position if last else part.file.size)
        if begin < until:
            yield OffsetRange(
                Part(part.file, begin, until, part.transactions),
                start if first and begin < first.position and not first.is_boundary else None,
                end if last and until > last.batch_position and not last.is_boundary else None,
            )


def _bounds(
    file: LogFile, start: int, end: int | None, places: Places
) -> tuple[Place | None, Place | None]:
    """Return where a range starts and ends in a file; None where that is the file's own."""
    is_cut = end is not None and (file.end_offset is None or file.end_offset > end)
    try:
        return (
            places(file, start) if file.base_offset < start else None,
            places(file, end) if is_cut and end is not None else None,
        )
    except FileNotFoundError:  # Deleted just now: its reader will say so.
        return None, None
