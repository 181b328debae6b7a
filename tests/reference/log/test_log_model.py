"""The log against a model of it (a list of batches), which crashes at any operation of the disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kraftspec.fastpath import encode_batch
from kraftspec.generated.kafka import SnapshotHeaderRecord
from kraftspec.reference.log import LogConfig, MetadataLog
from kraftspec.reference.log.control import control_value
from kraftspec.reference.log.memory_files import MemoryFiles
from kraftspec.reference.log.recovery import recover
from kraftspec.reference.log.segment import BatchIndex
from kraftspec.reference.raft.types import SnapshotId

DIR = "/log"
HEADER = [control_value(SnapshotHeaderRecord(last_contained_log_timestamp=5))]


class PowerLost(BaseException):
    """The machine has no power any more; no handler of the log's may take it for an error."""


class Written(msgspec.Struct, frozen=True):
    """A batch that was appended."""

    base_offset: int
    end_offset: int
    epoch: int
    data: bytes


class Model(msgspec.Struct):
    """What the log should be. ``batches`` may begin before ``start_offset``, as segments may."""

    batches: list[Written] = []
    start_offset: int = 0
    end_offset: int = 0
    flushed_offset: int = 0
    snapshots: list[SnapshotId] = []

    def copy(self) -> Model:
        return msgspec.structs.replace(
            self, batches=list(self.batches), snapshots=list(self.snapshots)
        )

    @property
    def last_epoch(self) -> int:
        return self.batches[-1].epoch if self.batches else -1

    def epochs(self) -> list[tuple[int, int]]:
        """The epoch that covers the start begins there, as in Kafka, if it has a record or not."""
        epochs: dict[int, int] = {}
        for batch in self.batches:
            if batch.base_offset <= self.start_offset:
                epochs = {batch.epoch: self.start_offset}
            else:
                epochs.setdefault(batch.epoch, batch.base_offset)
        return list(epochs.items())

    def read(self, offset: int, max_bytes: int) -> bytes:
        data = b""
        for batch in self.batches:
            if batch.end_offset > offset and (not data or len(data) + len(batch.data) <= max_bytes):
                data += batch.data
            elif data:
                break
        return data

    def truncate_to(self, offset: int) -> None:
        while self.batches and self.batches[-1].end_offset > offset:
            self.end_offset = self.batches.pop().base_offset
        self.flushed_offset = min(self.flushed_offset, self.end_offset)


def order(id_: SnapshotId) -> tuple[int, int]:
    return id_.epoch, id_.end_offset


class LogMachine(RuleBasedStateMachine):
    """Does the same to the log and to the model, and compares."""

    @initialize(
        segment_bytes=st.sampled_from([400, 1000, 100_000]),
        zeros=st.sampled_from([0, 700, 8192]),
        interval=st.sampled_from([0, 200, 4096]),
    )
    def begin(self, segment_bytes: int, zeros: int, interval: int) -> None:
        self.files = MemoryFiles()
        self.config = LogConfig(
            segment_bytes=segment_bytes, zero_ahead_bytes=zeros, index_interval_bytes=interval
        )
        self.model = Model()
        self.epoch = 0
        self.number = 0
        self.unsynced: set[SnapshotId] = set()  # A power loss may take them.
        self.log = MetadataLog.open(DIR, self.files, self.config)

    # What is done, to the log and to the model.

    def values(self, count: int, size: int) -> list[bytes]:
        self.number += 1
        return [f"{self.number:06d}-{at}-".encode() * size for at in range(count)]

    def stamp(self) -> int:
        """Return a timestamp; clocks go back, too."""
        return 1000 + self.number * 7919 % 50

    def append(self, log: MetadataLog, model: Model, values: list[bytes], epoch: int) -> None:
        data = encode_batch(
            values,
            timestamps=self.stamp(),
            base_offset=model.end_offset,
            partition_leader_epoch=epoch,
        )
        self.took(model, epoch, len(values), data)
        assert log.append_records(epoch, values, self.stamp()).data == data

    def took(self, model: Model, epoch: int, count: int, data: bytes) -> None:
        end = model.end_offset + count
        model.batches.append(Written(model.end_offset, end, epoch, data))
        model.end_offset = end

    def follow(self, log: MetadataLog, model: Model, batches: list[bytes], bad: int) -> None:
        """Append what a leader sent, of which the last may be damaged."""
        data = bytearray(b"".join(batches))
        if bad:
            data[-bad] ^= 0x40
        end = model.end_offset
        for values in batches[: len(batches) - (bad > 0)]:
            self.took(model, self.epoch, 2, values)
        appended = log.append_batches(bytes(data))
        assert (appended.base_offset, appended.end_offset) == (end, model.end_offset)
        assert (appended.rejected is not None) == (bad > 0)

    def flush(self, log: MetadataLog, model: Model) -> None:
        model.flushed_offset = model.end_offset
        assert log.flush() == model.end_offset

    def truncate(self, log: MetadataLog, model: Model, offset: int) -> None:
        model.truncate_to(offset)
        assert log.truncate_to(offset) == model.end_offset

    def snapshot(self, log: MetadataLog, model: Model, id_: SnapshotId) -> None:
        writer = log.create_snapshot(id_, HEADER, timestamp_ms=1)
        assert (writer is None) == (id_ in model.snapshots)
        if writer is not None:
            model.snapshots = sorted([*model.snapshots, id_], key=order)
            writer.append([b"state"])
            writer.freeze()

    def delete_before(self, log: MetadataLog, model: Model, id_: SnapshotId) -> None:
        moves = model.start_offset < id_.end_offset <= model.end_offset
        if moves:
            model.start_offset = id_.end_offset
            model.snapshots = [one for one in model.snapshots if order(one) >= order(id_)]
        assert log.delete_before(id_) == moves

    def fetch(self, log: MetadataLog, model: Model, id_: SnapshotId) -> None:
        """A snapshot of the leader's replaces the log."""
        offset = id_.end_offset
        model.batches = []
        model.start_offset = model.end_offset = model.flushed_offset = offset
        model.snapshots = [id_]
        part = log.begin_snapshot(id_)
        part.append(b"some")
        part.append(b"bytes")
        part.complete()
        log.truncate_fully_to(id_)

    def close(self, log: MetadataLog, model: Model) -> None:
        model.flushed_offset = model.end_offset
        log.close()

    # When it is done: at once, or until the power goes amid it.

    def do(self, what: Callable[..., None], *arguments: Any) -> None:
        what(self.log, self.model, *arguments)

    def reopen(self) -> None:
        """Open again, and take over where a log begins that was closed or killed: a segment's."""
        self.log = MetadataLog.open(DIR, self.files, self.config)
        start = self.start_after_opening()
        assert start <= self.model.start_offset
        self.model.start_offset = start
        self.model.flushed_offset = self.model.end_offset
        self.model.snapshots = [one for one in self.model.snapshots if one.end_offset >= start]
        assert self.log.recovery.segments_dropped == []
        remembered = self.found()
        self.files.hook = lambda *_: None  # So nothing is taken from memory.
        assert self.found() == remembered
        self.files.hook = None

    def found(self) -> tuple[Any, ...]:
        """Recover what is open already, and return all that is found."""
        found = recover(self.files, DIR, self.files.names(DIR), self.config.index_interval_bytes)
        indexes = [
            {name: getattr(one.index, name) for name in BatchIndex.__slots__}
            for one in found.segments
        ]
        return indexes, found.epochs.entries, found.snapshots, found.start_offset, found.report

    def start_after_opening(self) -> int:
        """Return where a log starts whose segments may have more: at the earliest snapshot."""
        log = self.log
        ends = [one.end_offset for one in log.snapshots]
        start = min([log.end_offset, *ends]) if log.segment_offsets[0] else 0
        assert log.start_offset == start
        return start

    @rule(count=st.integers(1, 4), size=st.integers(1, 60), is_new=st.booleans())
    def appends(self, count: int, size: int, is_new: bool) -> None:
        self.epoch += is_new
        self.do(self.append, self.values(count, size), self.epoch)

    def batches_of_two(self, count: int) -> list[bytes]:
        first = self.model.end_offset
        return [
            encode_batch(
                self.values(2, 3),
                timestamps=self.stamp(),
                base_offset=first + 2 * at,
                partition_leader_epoch=self.epoch,
            )
            for at in range(count)
        ]

    @rule(count=st.integers(1, 5), bad=st.integers(0, 40))
    def follows(self, count: int, bad: int) -> None:
        self.do(self.follow, self.batches_of_two(count), bad)

    @rule()
    def flushes(self) -> None:
        self.do(self.flush)

    @rule(back=st.integers(0, 30))
    def truncates(self, back: int) -> None:
        self.do(self.truncate, max(self.least_end(), self.model.end_offset - back))

    def least_end(self) -> int:
        """Return what is committed at least: nobody cuts before a snapshot's end."""
        ends = [one.end_offset for one in self.model.snapshots]
        return max([self.model.start_offset, *ends])

    def ends(self) -> list[SnapshotId]:
        model = self.model
        return [
            SnapshotId(batch.end_offset, batch.epoch)
            for batch in model.batches
            if batch.end_offset > model.start_offset
        ]

    @precondition(lambda self: self.ends())
    @rule(data=st.data())
    def snapshots(self, data: st.DataObject) -> None:
        self.do(self.flush)
        self.do(self.snapshot, data.draw(st.sampled_from(self.ends())))

    @precondition(lambda self: self.model.snapshots)
    @rule(data=st.data())
    def deletes(self, data: st.DataObject) -> None:
        self.do(self.delete_before, data.draw(st.sampled_from(self.model.snapshots)))

    def beyond(self, ahead: int) -> SnapshotId:
        self.epoch += 1
        return SnapshotId(self.model.end_offset + ahead, self.epoch)

    @rule(ahead=st.integers(0, 9))
    def fetches(self, ahead: int) -> None:
        self.do(self.fetch, self.beyond(ahead))

    @rule()
    def closes(self) -> None:
        self.do(self.close)
        start = self.model.start_offset
        self.reopen()
        recovery = self.log.recovery
        assert recovery.stale_indexes == []
        # Of a log that has its first segment still, nothing says that it had begun later; of one
        # without a batch, nothing but that file says which epoch its start had.
        is_untold = self.log.segment_offsets[0] == 0 or start == self.model.end_offset
        assert recovery.epochs_were_stale <= (start > 0 and is_untold)
        assert (recovery.torn_bytes, recovery.zero_bytes) == (0, 0)

    @rule()
    def is_killed(self) -> None:
        self.files.kill()
        self.reopen()

    @rule(seed=st.integers(0, 1 << 32))
    def loses_power(self, seed: int) -> None:
        self.lost(self.model.copy(), seed)

    @rule(
        data=st.data(),
        at=st.integers(1, 60),
        seed=st.integers(0, 1 << 32),
        is_power=st.booleans(),
    )
    def ends_amid(self, data: st.DataObject, at: int, seed: int, is_power: bool) -> None:
        """The machine ends at the ``at``-th operation of something."""
        before = self.model.copy()
        what, *arguments = data.draw(st.sampled_from(self.things_to_do()))
        left = [at]

        def hook(_: str, __: str, ___: int) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise PowerLost

        self.files.hook = hook
        try:
            self.do(what, *arguments)
        except PowerLost:
            pass
        else:
            before = self.model.copy()  # It was done.
        self.files.hook = None
        self.lost(before, seed if is_power else None)

    def things_to_do(self) -> list[tuple[Any, ...]]:
        model = self.model
        middle = (self.least_end() + model.end_offset) // 2
        things: list[tuple[Any, ...]] = [
            (self.append, self.values(3, 20), self.epoch),
            (self.append, self.values(1, 200), self.epoch + 1),
            (self.follow, self.batches_of_two(4), 0),
            (self.flush,),
            (self.close,),
            (self.truncate, middle),
            (self.fetch, SnapshotId(model.end_offset + 3, self.epoch + 1)),
        ]
        things += [(self.delete_before, one) for one in model.snapshots[-2:]]
        flushed = [one for one in self.ends() if one.end_offset <= model.flushed_offset]
        things += [(self.snapshot, one) for one in flushed[-2:]]
        return things

    def lost(self, before: Model, seed: int | None) -> None:
        """Open after a crash, where the log may be what it was, or what it was to be, or less.

        ``before`` is how it was when the crash came, and ``self.model`` how it was to be.
        """
        after = self.model
        if seed is None:
            self.files.kill()
        else:
            self.files.power_loss(Random(seed))
        self.log = log = MetadataLog.open(DIR, self.files, self.config)
        assert log.recovery.segments_dropped == []
        self.start_after_opening()
        is_reset = after.start_offset == after.end_offset > before.end_offset
        if is_reset and log.start_offset == after.end_offset:
            assert log.end_offset == log.start_offset
            assert log.snapshots == after.snapshots
        else:
            least = before.flushed_offset
            longest = before
            if not is_reset:
                least = min(least, after.end_offset)
                longest = max(before, after, key=lambda model: model.end_offset)
            assert least <= log.end_offset <= longest.end_offset
            after = longest.copy()
            after.truncate_to(log.end_offset)
            assert after.end_offset == log.end_offset
            assert log.start_offset <= max(before.start_offset, self.model.start_offset)
            # A snapshot is kept whole or is not there; what was there and was to stay, is.
            # That of a process that was killed after the rename has no durable name yet: neither
            # Kafka's next process nor ours syncs the directory.
            kept = [one for one in before.snapshots if one in self.model.snapshots or is_reset]
            kept = [one for one in kept if one not in self.unsynced]
            assert {*kept} <= {*log.snapshots} | {
                one for one in kept if one.end_offset < log.start_offset
            }
            assert {*log.snapshots} <= {*before.snapshots, *self.model.snapshots}
        if seed is None:
            self.unsynced |= {*log.snapshots} - {*before.snapshots}
        else:
            self.unsynced.clear()
        after.start_offset = log.start_offset
        after.flushed_offset = after.end_offset
        after.snapshots = list(log.snapshots)
        self.model = after
        self.epoch = max(self.epoch + 1, after.last_epoch)

    @invariant()
    def is_the_model(self) -> None:
        if not hasattr(self, "log"):
            return
        log, model = self.log, self.model
        assert log.start_offset == model.start_offset
        assert log.end_offset == model.end_offset
        assert log.flushed_offset >= model.flushed_offset
        model.flushed_offset = log.flushed_offset  # A segment that is sealed is flushed, too.
        assert log.snapshots == model.snapshots
        # Of an empty log the epoch before may be known, or not: its snapshot has it.
        assert log.epochs == model.epochs() or (
            log.epochs == [] and log.start_offset == log.end_offset
        )
        parts, offset = [], log.start_offset
        while offset < log.end_offset:
            parts.append(log.read(offset, 300))
            expected = model.read(offset, 300)
            assert expected.startswith(parts[-1])  # A read ends with its segment.
            ends = [one.end_offset for one in model.batches if parts[-1].endswith(one.data)]
            assert ends
            offset = ends[-1]


TestLog = LogMachine.TestCase
TestLog.settings = settings(
    max_examples=60 if os.environ.get("HYPOTHESIS_PROFILE", "fast") == "fast" else 3_000,
    stateful_step_count=30,
    report_multiple_bugs=False,
)
