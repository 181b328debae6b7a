"""How batches follow one another: offsets, leader epochs, producers' sequences, transactions.

``Trail`` is the state of a range of a partition: what its first batches need of those before,
and where it stands at its end. Ranges are audited alone, on any machine, and then joined from
the left: joining makes the very checks that stood open, so that any division into files gives the
findings of one walk.

The rules are those of ``ProducerAppendInfo.checkSequence`` and ``ProducerStateManager``: in one
producer epoch each batch starts after the last sequence number (0 follows the largest int32), in a
new epoch at 0; of a producer that is not known, any start is good.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from kraftspec.fastpath.records import (
    CONTROL,
    LOG_APPEND_TIME,
    NO_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
)

# (kind, position, offset, detail)
Reporter = Callable[[str, int, int, str], None]

UNKNOWN: Final = -2
SEQUENCE_MAX: Final = (1 << 31) - 1
# transaction.max.timeout.ms by default: the coordinator ends what is open for longer.
TRANSACTION_TIMEOUT_MS: Final = 900_000


class Step(NamedTuple):
    """A batch of a producer, as the checks see it."""

    epoch: int
    first_sequence: int
    last_sequence: int
    position: int
    offset: int


class Producer(msgspec.Struct, array_like=True):
    """One producer in a range. ``unchecked`` is its first batch, if what was before decides.

    ``sequence`` is that of its last record: None if what was before decides, -1 none in this epoch
    yet, -2 not to be known. ``first_*`` says where the range has its first batch, to hold its
    epoch against that of the range before.
    """

    first_epoch: int
    first_position: int
    first_offset: int
    epoch: int
    sequence: int | None
    offset: int
    damage: int  # How many damages of the range were before its last batch.
    unchecked: Step | None = None
    unchecked_damage: int = 0


class Transaction(msgspec.Struct, array_like=True):
    """A transaction that is open: where its first record of the range is, and since when.

    Its own timestamps are the client's, and may be any; those of markers and of LogAppendTime are
    the broker's.
    """

    position: int
    offset: int
    epoch: int
    file: str
    since: int = -1  # The first time that a broker wrote down after it began; -1 none yet.


class Marker(msgspec.Struct, array_like=True):
    """An end marker, the first that the range has of its producer, with no record before it.

    ``is_unindexed``: it aborts, and the index of its segment has no entry for it.
    """

    position: int
    offset: int
    file: str
    is_unindexed: bool = False


class Trail(msgspec.Struct):
    """The state of a range of a partition; the class without batches joins with all."""

    file: str = ""
    first_position: int = -1
    first_offset: int = -1
    first_last_offset: int = -1
    first_epoch: int = -1
    end_offset: int = -1  # The last offset seen, -1 without any.
    last_base: int = -1
    last_end: int = -1
    epoch: int = -1
    damages: int = 0
    first_damages: int = 0  # Those before the first batch.
    damages_at_last: int = 0
    missing: int = 0
    time_first: int = -1  # By the broker's clock, milliseconds.
    time_last: int = -1
    fresh: set[int] = set()  # Producers of open transactions after which no time came yet.
    producers: dict[int, Producer] = {}
    open: dict[int, Transaction] = {}
    ended: dict[int, Marker] = {}
    marked: set[int] = set()  # Producers of which an end marker was seen.
    has_sequences: bool = True


def in_sequence(last: int, first: int) -> bool:
    """Whether a batch that starts at ``first`` follows one that ended at ``last``."""
    return first == last + 1 or (first == 0 and last == SEQUENCE_MAX)


def step(
    trail: Trail, header: BatchHeader, report: Reporter, *, is_unindexed: bool = False
) -> None:
    """Add the next batch of a range, and report what does not follow.

    ``is_unindexed``: the index of the segment has no entry for this abort marker. Only
    transactions that have records are indexed (``ProducerAppendInfo.appendEndTxnMarker``).

    Sequences are not checked where ``trail.has_sequences`` is false: a coordinator writes
    transactional offsets at sequence 0 each time (``AppendOrigin.COORDINATOR``).
    """
    base, last = header.base_offset, header.base_offset + header.last_offset_delta
    epoch = header.partition_leader_epoch
    if trail.first_offset < 0:
        trail.first_position, trail.first_offset = header.position, base
        trail.first_last_offset, trail.first_epoch = last, epoch
        trail.first_damages = trail.damages
    else:
        if base != trail.end_offset + 1:
            _offsets(trail, base, last, header.position, trail.damages, report)
        if epoch < trail.epoch:
            report("epoch_regression", header.position, base, f"epoch {epoch} after {trail.epoch}")
    trail.missing += max(0, header.last_offset_delta + 1 - header.record_count)
    trail.last_base, trail.last_end = base, last
    trail.end_offset = max(trail.end_offset, last)
    trail.damages_at_last = trail.damages
    trail.epoch = epoch
    if header.producer_id >= 0:
        _produced(trail, header, last, report, is_unindexed=is_unindexed)
    if header.attributes & (CONTROL | LOG_APPEND_TIME):
        _tick(trail, header.max_timestamp)


def _tick(trail: Trail, time_ms: int) -> None:
    """Take note of the broker's time."""
    if trail.time_first < 0:
        trail.time_first = time_ms
    trail.time_last = max(trail.time_last, time_ms)
    for number in trail.fresh:
        if number in trail.open:
            trail.open[number].since = time_ms
    trail.fresh.clear()


def _offsets(
    trail: Trail, base: int, last: int, position: int, damages: int, report: Reporter
) -> None:
    """Report a batch that does not start at the next offset."""
    if base > trail.end_offset + 1:
        missing = base - trail.end_offset - 1
        trail.missing += missing
        if damages > trail.damages_at_last:
            return  # Lost with the damaged bytes, which are a finding already.
        detail = f"offsets {trail.end_offset + 1} to {base - 1} are missing ({missing:,})"
        report("offset_gap", position, base, detail)
    elif base == trail.last_base and last == trail.last_end:
        report("offset_duplicate", position, base, f"offsets {base} to {last} come twice")
    else:
        detail = f"offsets {base} to {last} after offset {trail.end_offset}"
        report("offset_out_of_order", position, base, detail)


def _produced(
    trail: Trail, header: BatchHeader, last: int, report: Reporter, *, is_unindexed: bool
) -> None:
    """Add a batch of a producer that has an id."""
    attributes, number = header.attributes, header.producer_id
    if attributes & CONTROL:
        _marker(trail, header, report, is_unindexed=is_unindexed)
    elif attributes & TRANSACTIONAL and number not in trail.open:
        trail.open[number] = Transaction(
            header.position, header.base_offset, header.producer_epoch, trail.file
        )
        trail.fresh.add(number)
    epoch, first = header.producer_epoch, header.base_sequence
    producer = trail.producers.get(number)
    if producer is None:
        producer = trail.producers[number] = Producer(
            epoch, header.position, header.base_offset, epoch, None, last, trail.damages
        )
    if epoch < producer.epoch:
        _fenced(number, epoch, producer.epoch, header.position, header.base_offset, report)
        producer.epoch, producer.sequence = epoch, UNKNOWN
    elif epoch > producer.epoch:
        producer.epoch, producer.sequence = epoch, NO_SEQUENCE
    if first >= 0 and trail.has_sequences and not attributes & CONTROL:
        # A batch without records keeps the sequence of records that the cleaner removed.
        end = first + header.last_offset_delta
        if end > SEQUENCE_MAX:
            end -= SEQUENCE_MAX + 1
        one = Step(epoch, first, end, header.position, header.base_offset)
        if producer.sequence is None:
            producer.unchecked, producer.unchecked_damage = one, trail.damages
        elif producer.sequence != UNKNOWN:
            lost = trail.damages > producer.damage
            _sequence(number, producer.sequence, producer.offset, one, lost, report)
        producer.sequence = end
    producer.offset, producer.damage = last, trail.damages


def _fenced(
    number: int, epoch: int, before: int, position: int, offset: int, report: Reporter
) -> None:
    detail = f"producer {number}: epoch {epoch} after {before}"
    report("producer_epoch_regression", position, offset, detail)


def _sequence(number: int, last: int, offset: int, one: Step, lost: bool, report: Reporter) -> None:
    """Check that a batch starts after the sequence number ``last`` of the batch before."""
    first = one.first_sequence
    if in_sequence(last, first):
        return
    after = f"after {last}" if last >= 0 else "at the start of its epoch"
    detail = f"producer {number} epoch {one.epoch}: sequence {first} {after}"
    # Numbers wrap around: a number less than half of the range ahead is ahead.
    ahead = (first - last - 1) % (SEQUENCE_MAX + 1)
    if ahead <= SEQUENCE_MAX // 2:
        if not lost:
            report("sequence_gap", one.position, one.offset, detail + f", {ahead:,} missing")
    else:
        report("sequence_duplicate", one.position, one.offset, detail)


def _marker(trail: Trail, header: BatchHeader, report: Reporter, *, is_unindexed: bool) -> None:
    """Add the end marker of a transaction."""
    number = header.producer_id
    marker = Marker(header.position, header.base_offset, trail.file, is_unindexed)
    if trail.open.pop(number, None) is not None:
        _indexed(number, marker, report)
    elif number in trail.marked:
        _alone(number, marker.position, marker.offset, report)
    else:
        trail.ended[number] = marker
    trail.marked.add(number)


def _indexed(number: int, marker: Marker, report: Reporter) -> None:
    """Report the marker of a transaction with records that the index lacks."""
    if marker.is_unindexed:
        detail = f"the .txnindex has no entry of producer {number} that ends at {marker.offset}"
        report("abort_not_indexed", marker.position, marker.offset, detail)


def _alone(number: int, position: int, offset: int, report: Reporter) -> None:
    report("marker_without_transaction", position, offset, _alone_detail(number))


def _alone_detail(number: int) -> str:
    return f"producer {number} has no record in the transaction that ends here"


def join(left: Trail, right: Trail, report: Reporter) -> Trail:
    """Return the state of two ranges, one after the other. All findings are of the right one."""
    if right.first_offset < 0:
        left.damages += right.damages
        return left
    if left.first_offset < 0:
        right.damages += left.damages
        right.first_damages += left.damages
        right.damages_at_last += left.damages
        for producer in right.producers.values():
            producer.damage += left.damages
            producer.unchecked_damage += left.damages
        return right
    if right.first_offset != left.end_offset + 1:
        _offsets(
            left, right.first_offset, right.first_last_offset, right.first_position,
            left.damages + right.first_damages, report,
        )  # fmt: skip
    if right.first_epoch < left.epoch:
        detail = f"epoch {right.first_epoch} after {left.epoch}"
        report("epoch_regression", right.first_position, right.first_offset, detail)
    for number, producer in right.producers.items():
        _join_producer(left, right, number, producer, report)
    for number, marker in right.ended.items():
        if number in left.open:
            _indexed(number, marker, report)
        elif number in left.marked:
            _alone(number, marker.position, marker.offset, report)
        else:
            left.ended[number] = marker
    for number in right.marked:
        left.open.pop(number, None)
    for transaction in left.open.values():
        if transaction.since < 0:
            transaction.since = right.time_first
    for number, transaction in right.open.items():
        left.open.setdefault(number, transaction)
    left.marked |= right.marked
    left.last_base, left.last_end = right.last_base, right.last_end
    left.end_offset = max(left.end_offset, right.end_offset)
    left.epoch = right.epoch
    left.damages_at_last = left.damages + right.damages_at_last
    left.damages += right.damages
    left.missing += right.missing
    if left.time_first < 0:
        left.time_first = right.time_first
    left.time_last = max(left.time_last, right.time_last)
    left.file = right.file
    return left


def _join_producer(
    left: Trail, right: Trail, number: int, after: Producer, report: Reporter
) -> None:
    """Merge the state of a producer into the state of the range before."""
    before = left.producers.get(number)
    after.damage += left.damages
    after.unchecked_damage += left.damages
    if before is None:
        left.producers[number] = after
        return
    if after.first_epoch < before.epoch:
        _fenced(
            number,
            after.first_epoch,
            before.epoch,
            after.first_position,
            after.first_offset,
            report,
        )
    known = before.sequence
    if after.first_epoch != before.epoch:
        known = NO_SEQUENCE if after.first_epoch > before.epoch else UNKNOWN
    if after.unchecked is not None and known not in (None, UNKNOWN):
        lost = after.unchecked_damage > before.damage
        _sequence(number, known, before.offset, after.unchecked, lost, report)
    before.epoch = after.epoch
    before.sequence = known if after.sequence is None else after.sequence
    before.offset, before.damage = after.offset, after.damage


def finish(trail: Trail, report_in: Callable[[str, str, int, int, str], None]) -> None:
    """Report what the end of the log, or its start, leaves open.

    ``report_in`` takes the file first: a transaction may have begun in any.
    """
    if trail.first_offset == 0:  # Else its records went with the start of the log.
        for number, marker in trail.ended.items():
            detail = _alone_detail(number)
            report_in(
                "marker_without_transaction", marker.file, marker.position, marker.offset, detail
            )
    for number, transaction in trail.open.items():
        age_ms = trail.time_last - transaction.since if transaction.since >= 0 else 0
        kind = "transaction_hanging" if age_ms > TRANSACTION_TIMEOUT_MS else "transaction_open"
        detail = f"producer {number} epoch {transaction.epoch}: open for {age_ms:,} ms at least"
        report_in(kind, transaction.file, transaction.position, transaction.offset, detail)
