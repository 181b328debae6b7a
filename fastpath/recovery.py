"""The end of the valid log in a file, and whether a crash can have left the rest.

Opening a log keeps its good batches and truncates zeros and torn bytes. Damage that no crash leaves
is not truncated: ``Recovery.is_corrupt`` distinguishes the two.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from kraftspec.fastpath.batch_reader import BATCH_LENGTH_MIN
from kraftspec.fastpath.records import (
    LENGTH_AT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    RECORDS_AT,
    BatchHeader,
)
from kraftspec.fastpath.scan import TORN_ZEROS_MIN
from kraftspec.fastpath.walk import ReadAt, Resync, Walk, framed_size, iterate_headers, written_end

# With so many bytes not synced, an append syncs by itself. So what lies further than that before
# the last byte of a log was durable once, and damage of it is no crash's. (One append of more is
# not divided: should a power loss take its middle, the log has to be opened by force.)
UNSYNCED_BYTES_MAX: Final = 16 << 20
SECTOR_BYTES: Final = 512  # The least that a disk writes whole or not at all.

_INT32 = struct.Struct(">i")
_OFFSET_BYTES: Final = 8


class Recovery(NamedTuple):
    """What was found in a log, and cut off it when it was opened."""

    end: int  # Bytes of whole, valid batches: the log.
    next_offset: int  # The offset after the last record.
    batches: int
    torn_bytes: int  # From ``end`` to the last byte that is not zero.
    zero_bytes: int  # The tail.
    reason: str  # The error in the torn bytes; empty without any.
    base_offset: int = 0  # That of the first batch; where there is none, of the first to come.
    good_bytes: int = 0  # How many of the torn bytes are good batches, after or between damage.
    is_corrupt: bool = False  # Whether the torn bytes are more than a crash of the appender leaves.


def find_end(
    read: ReadAt,
    size: int,
    base_offset: int = 0,
    visit: Callable[[BatchHeader, int], str] | None = None,
    *,
    is_log: bool = False,
) -> Recovery:
    """Walk the batches of a file of ``size`` bytes, and judge what is behind them.

    CRCs are checked, and that offsets rise. ``base_offset`` is that of a log without batches. Whole
    batches behind a bad one are torn bytes too: a log has no holes. The file is read and not
    mapped: what the disk cannot read is an OSError, and under a map the end of the process. Raises
    nothing else.

    ``visit`` is called with each good batch and its position; it may say why the batch cannot be
    the next of this log, which is then damage like other damage, or "". With ``is_log`` something
    else says that the file is a log: a crash may have left no good byte of it.
    """
    end = batches = due = 0
    reason = ""
    misplaced = 0  # The bytes of a batch that is good, but for its offsets.
    walk = Walk(read, 0, size)
    for header in walk:
        last_offset = header.last_offset
        if header.base_offset < due or last_offset < header.base_offset:
            wrong = _disorder(header, due)
        else:
            wrong = visit(header, end) if visit is not None else ""
        if wrong:
            reason, misplaced = f"byte {end}: {wrong}", header.size
            break
        if batches == 0:
            base_offset = header.base_offset
        end, batches, due = walk.position, batches + 1, last_offset + 1
    if walk.error is not None:
        reason = str(walk.error)
    size = walk.end
    next_offset = due if batches else base_offset
    torn_end = written_end(read, end, size)
    recovery = Recovery(end, next_offset, batches, torn_end - end, size - torn_end, "", base_offset)
    if torn_end == end:
        return recovery
    good_at, good_bytes = _find_good(read, end + max(misplaced, 1), torn_end, size)
    is_corrupt = not _is_left_by_crash(read, recovery, end if misplaced else good_at, is_log)
    good_bytes += misplaced
    return recovery._replace(reason=reason, good_bytes=good_bytes, is_corrupt=is_corrupt)


def _find_good(read: ReadAt, position: int, torn_end: int, size: int) -> tuple[int, int]:
    """Return where the next good batch starts, -1 for nowhere, and the bytes of all there are."""
    first, total = -1, 0
    # Any whole batch is a sign of damage, also one with fields that Kafka would not write.
    resync = Resync(read, size, covers=torn_end - position, size_of=framed_size)
    while (good := resync.next_good(position, torn_end)) is not None:
        start, position = good
        first = start if first < 0 else first
        total += position - start
    # Too many possible batches count as one: then nothing is truncated.
    return (resync.gave_up_at if first < 0 else first), total


def _is_left_by_crash(read: ReadAt, recovery: Recovery, good_at: int, is_log: bool) -> bool:
    """Whether the bytes behind ``recovery.end`` can be left by a killed process or a power loss.

    They are what was not synced, less any of its sectors: where one was lost the file has zeros, or
    has ended. So the first batch is cut short, or misses a sector before the next good one.
    """
    start, torn_end = recovery.end, recovery.end + recovery.torn_bytes
    size = torn_end + recovery.zero_bytes
    head = read(start, RECORDS_AT).ljust(RECORDS_AT, b"\0")
    # This excludes text and the head of another file. (No log has 2^56 records.)
    if head[0] != 0 or head[MAGIC_AT] not in (0, MAGIC):
        return False
    (length,) = _INT32.unpack_from(head, LENGTH_AT)
    is_framed = head[MAGIC_AT] == MAGIC and length >= BATCH_LENGTH_MIN
    batch_end = start + (LOG_OVERHEAD_BYTES + length if is_framed else RECORDS_AT)
    if good_at < 0:
        if torn_end > max(batch_end, start + UNSYNCED_BYTES_MAX):
            return False
        if batch_end > size or torn_end <= batch_end - TORN_ZEROS_MIN:
            return True
        if start == 0 and not (is_framed or is_log):
            return False  # Zeros and then other bytes: nothing shows that it is a log.
        good_at = batch_end
    elif torn_end > start + UNSYNCED_BYTES_MAX:
        return False
    return _has_lost_sector(read, start, min(batch_end, good_at), recovery.next_offset)


def _has_lost_sector(read: ReadAt, start: int, stop: int, due: int) -> bool:
    """Whether a sector, or what of it is behind ``start``, is zeros and should not be."""
    for sector in range(start - start % SECTOR_BYTES, stop, SECTOR_BYTES):
        at = max(sector, start)
        count = sector + SECTOR_BYTES - at
        # The first bytes of a base offset are zeros in any case, as long as offsets are small.
        is_telling = count >= _OFFSET_BYTES or due >> 8 * (_OFFSET_BYTES - count) > 0
        if is_telling and not any(read(at, count)):
            return True
    return False


def check_batches(view: memoryview, next_offset: int) -> tuple[int, int]:
    """Check whole batches as recovery does; return the offsets of their first and next record.

    Raises CodecError for an invalid batch, and ValueError for offsets below ``next_offset``.
    """
    base_offset = -1
    for header in iterate_headers(view):
        last_offset = header.last_offset
        if header.base_offset < next_offset or last_offset < header.base_offset:
            raise ValueError(_disorder(header, next_offset))
        if base_offset < 0:
            base_offset = header.base_offset
        next_offset = last_offset + 1
    return (next_offset if base_offset < 0 else base_offset), next_offset


def _disorder(header: BatchHeader, due: int) -> str:
    return f"a batch of offsets {header.base_offset} to {header.last_offset}, where {due} is due"
