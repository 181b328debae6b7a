"""Mistakes with the disk: what is not synced, not checked, or synced in the wrong order."""

from __future__ import annotations

from typing import Any

from kraftspec.fastpath import append, crc32c
from kraftspec.fastpath.records import ATTRIBUTES_AT, CRC_AT
from kraftspec.fastpath.recovery import find_end
from kraftspec.fastpath.walk import walk_headers
from kraftspec.reference import storage
from kraftspec.reference.log import memory_files, metadata_log, quorum_state, recovery
from kraftspec.reference.log import snapshots as snapshot_files
from kraftspec.reference.raft import core
from kraftspec.reference.raft import events as ev
from kraftspec.simulation.catalogue.bug import Planter


def skips_the_sync(plant: Planter) -> None:
    """A flush says that it is done, and has synced nothing."""

    def flush(self: Any) -> int:
        self._flushed_offset = self._end_offset
        return int(self._end_offset)

    plant(metadata_log.MetadataLog, "flush", flush)


def counts_what_came_during_the_sync(plant: Planter) -> None:
    """A flush counts what was appended while the disk was syncing: its end is read afterwards."""

    def flush(self: Any) -> int:
        with self.flushing:
            self._active.sync()
            self._flushed_offset = self._end_offset
        return int(self._end_offset)

    plant(metadata_log.MetadataLog, "flush", flush)


def counts_bytes_that_came_during_the_sync(plant: Planter) -> None:
    """The bytes that a sync has brought to the disk are counted when it is done, not before."""

    def sync(self: Any, end: int | None = None) -> int:
        if self.durable_end < (self.end if end is None else end) or self._is_cut:
            self._is_cut = False
            self.file.sync()
            self.durable_end = self.end
        return int(self.durable_end)

    plant(append.Appender, "sync", sync)


def takes_a_flush_for_all_it_has(plant: Planter) -> None:
    """A core takes a flush that is done for one of all that it has appended by now."""

    def log_flushed(self: Any, event: ev.LogFlushed) -> None:
        if event.generation == self.log_generation:
            self.log.flushed_offset = self.log.end_offset
            self.role.on_flushed()
            self.policy.flushed(self)

    plant(core._STEPS, ev.LogFlushed, log_flushed)


def skips_the_sync_when_it_rolls(plant: Planter) -> None:
    """A segment is sealed without a sync: the next flush syncs only the new one."""

    def roll(self: Any, base_offset: int) -> Any:
        self._active = self._add_segment(base_offset)
        return self._active

    plant(metadata_log.MetadataLog, "_roll", roll)


def seals_with_zeros(plant: Planter) -> None:
    """A segment is sealed with the zeros that were written ahead of its batches."""
    plant(append.Appender, "trim", append.Appender.sync)


def _replace(sync_file: bool, sync_names: bool, in_place: bool = False) -> Any:
    def replace(disk: Any, directory: str, name: str, data: bytes) -> None:
        temporary = f"{directory}/{name}" if in_place else f"{directory}/{name}.tmp"
        if not in_place:
            disk.remove(temporary)
        file = disk.open(temporary, create=True)
        if in_place:
            file.truncate(0)
        file.write_at(0, data)
        if sync_file:
            file.sync()
        file.close()
        if not in_place:
            disk.rename(temporary, f"{directory}/{name}")
        if sync_names:
            disk.sync_directory(directory)

    return replace


def vote_is_not_synced(plant: Planter) -> None:
    """quorum-state is written and renamed, and its bytes are not synced."""
    plant(quorum_state, "replace_whole", _replace(sync_file=False, sync_names=True))


def name_of_the_vote_is_not_synced(plant: Planter) -> None:
    """quorum-state gets its name, and the directory is not synced."""
    plant(quorum_state, "replace_whole", _replace(sync_file=True, sync_names=False))


def vote_is_written_in_place(plant: Planter) -> None:
    """quorum-state is overwritten where it is: power loss in the middle leaves half of it."""
    plant(quorum_state, "replace_whole", _replace(True, True, in_place=True))


def ignores_a_failed_sync(plant: Planter) -> None:
    """A sync that fails is tried no more, and taken for done (fsyncgate)."""
    sync = append.Appender.sync

    def careless(self: Any) -> int:
        try:
            return sync(self)
        except OSError:
            self.durable_end, self.failure = self.end, None
            return int(self.end)

    plant(append.Appender, "sync", careless)


def syncs_again_after_a_failure(plant: Planter) -> None:
    """A sync that failed is tried once more, and what was lost is not written again."""
    sync = append.Appender.sync

    def hopeful(self: Any) -> int:
        try:
            return sync(self)
        except OSError:
            self.failure = None
            return sync(self)

    plant(append.Appender, "sync", hopeful)


def does_not_check_batches(plant: Planter) -> None:
    """Recovery walks over the batches of a log without their CRCs."""
    find = find_end

    def trusting(read_at: Any, size: int, base_offset: int, visit: Any, **options: Any) -> Any:
        return find(_mended(read_at, size), size, base_offset, visit, **options)

    plant(recovery, "find_end", trusting)


def _mended(read_at: Any, size: int) -> Any:
    """Return a reader of the same bytes with CRCs that are right."""
    data = bytearray(read_at(0, size))
    for batch in walk_headers(read_at, 0, size):
        crc_at, covered_at = batch.position + CRC_AT, batch.position + ATTRIBUTES_AT
        data[crc_at:covered_at] = crc32c(data[covered_at : batch.end]).to_bytes(4, "big")
    return lambda position, count: bytes(data[position : position + count])


def forgets_voters_at_restart(plant: Planter) -> None:
    """A node that starts looks for the voters in its snapshot, and not in its log."""
    plant(storage.Storage, "_log_controls", lambda self, offset: [])


def reads_no_vote(plant: Planter) -> None:
    """A node that starts does not look into quorum-state."""
    plant(storage.Storage, "state", property(lambda self: None))


def starts_with_half_a_vote(plant: Planter) -> None:
    """quorum-state is stored without the directory of whom the vote went to, at version 0."""
    write = quorum_state.QuorumStateFile.write

    def old(self: Any, state: Any, version: int) -> None:
        state.voted_id = -1 if state.leader_id < 0 else state.voted_id
        write(self, state, version)

    plant(quorum_state.QuorumStateFile, "write", old)


def snapshot_is_not_synced(plant: Planter) -> None:
    """A snapshot gets its name before its bytes are synced."""
    sync = memory_files.MemoryFile.sync

    def lazy(self: Any) -> None:
        if snapshot_files.PART_SUFFIX not in self._path:
            sync(self)

    plant(memory_files.MemoryFile, "sync", lazy)


def truncation_forgets_the_disk(plant: Planter) -> None:
    """A log that is cut is cut in memory: the file keeps what was there."""

    def truncate_to(self: Any, offset: int) -> int:
        before = self._end_offset
        if offset < before:
            self._end_offset = offset
            self._flushed_offset = min(self._flushed_offset, offset)
            self._active.next_offset = offset
            self._epochs.truncate_to(offset)
            self._last_epoch = self._epochs.last_epoch
        return int(self._end_offset)

    plant(metadata_log.MetadataLog, "truncate_to", truncate_to)
