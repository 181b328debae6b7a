"""Between the core and its log directory: effects become writes, what is there a ``LogState``.

A node under asyncio and a node in a simulator use the same ``Storage``, each on its own ``Files``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.generated.kafka import SnapshotHeaderRecord
from kraftspec.reference.log import LogDirectory
from kraftspec.reference.log.control import control_type_of, control_value
from kraftspec.reference.log.known_segments import marks_of, unchanged
from kraftspec.reference.raft import Core, ElectionState, LogState, SnapshotId, VoterSet
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.control import ControlRecord, KRaftVersion
from kraftspec.reference.raft.messages import Batch, FetchReply, FetchSnapshotReply, Reply
from kraftspec.reference.raft.types import Snapshot
from kraftspec.reference.raft.voters import History

if TYPE_CHECKING:
    from kraftspec.fastpath.records import BatchHeader, Record
    from kraftspec.reference.log import Files, LogConfig, MetadataLog
    from kraftspec.reference.log.control import ControlValue
    from kraftspec.reference.log.snapshots import PartialSnapshot, SnapshotReader
    from kraftspec.reference.raft import Config
    from kraftspec.reference.raft.profile import Profile, StoredState
    from kraftspec.reference.raft.state import Random

RECORD_BYTES_MAX = 64  # Of a record or a batch beside its value.


class Storage:
    """An open log directory, and the way from effects to it.

    Effects raise ``LogFailedError`` or another OSError as the disk does; the node must stop then.
    """

    def __init__(self, directory: LogDirectory, log: MetadataLog, profile: Profile) -> None:
        self.directory = directory
        self.log = log
        self.profile = profile
        self._partial: PartialSnapshot | None = None

    @classmethod
    def open(
        cls,
        path: str,
        profile: Profile,
        config: Config,
        *,
        files: Files | None = None,
        log_config: LogConfig | None = None,
    ) -> Storage:
        """Lock and recover the directory of a node; raises what ``LogDirectory.open`` does."""
        directory = LogDirectory.open(
            path,
            files,
            profile=profile.name,
            node_id=config.node_id,
            cluster_id=config.cluster_id or None,  # Properties do not say: the directory does.
        )
        try:
            log = directory.open_log(log_config)
        except BaseException:
            directory.close()
            raise
        return cls(directory, log, profile)

    def close(self) -> None:
        """Leave the directory as after a clean stop."""
        self.abandon_snapshot()
        self.log.close()
        self.directory.close()

    # ---- what is there -------------------------------------------------------------------------

    @property
    def state(self) -> StoredState | None:
        """What quorum-state holds; None if there is no such file."""
        read = self.directory.quorum_state.read(self.profile.state_message)
        return None if read is None else self.profile.get_state(*read)

    @property
    def election(self) -> ElectionState | None:
        """What quorum-state says of elections; None if there is no such file."""
        state = self.state
        return None if state is None else state.election

    def make_core(self, config: Config, random: Random, kind: type[Core] = Core) -> Core:
        """Return a core that has not started, with what the disk has. Raises as reading does.

        Where the configuration does not say which cluster it is, meta.properties does.
        """
        if not config.cluster_id:
            config = msgspec.structs.replace(config, cluster_id=self.directory.meta.cluster_id)
        state = self.state
        election, rest = (None, None) if state is None else (state.election, state.rest)
        log = self.log_state(config.voters, state)
        return kind(config, self.profile.policy, log, election, random, rest)

    def log_state(self, static_voters: VoterSet, state: StoredState | None = None) -> LogState:
        """Return the core's picture of the log, voter sets and versions included.

        ``state`` is what quorum-state holds. Where it has voters, they are in force at its
        AppliedOffset; the log up to there says who voted earlier.
        """
        log = self.log
        snapshots = []
        for snapshot_id in log.snapshots:
            reader = log.open_snapshot(snapshot_id)
            try:
                timestamp_ms = reader.header().last_contained_log_timestamp
                snapshots.append(Snapshot(snapshot_id, reader.size, timestamp_ms))
            finally:
                reader.close()
        start = log.start_offset
        voters: History[VoterSet] = History(static_voters)
        levels: list[tuple[int, int]] = []
        if log.snapshots:
            latest = log.snapshots[-1]
            known: VoterSet | None = None
            for record in self.snapshot_controls(latest):
                if isinstance(record, KRaftVersion):
                    levels.append((latest.end_offset - 1, record.level))
                else:
                    known = self._folded_in_snapshot(record, known)
            if known is not None:
                voters.put(latest.end_offset - 1, known)
            start = max(start, latest.end_offset)
        controls = self._log_controls(start)
        if state is not None and state.voters is not None:
            applied = [one for one in controls if one[0] <= state.applied_offset]
            for offset, record in applied:
                self._note(record, offset, voters, levels)
            if voters.last != state.voters:  # The log was lost: what was committed is not.
                static_voters = state.voters
                voters = History(static_voters)
            del controls[: len(applied)]
        for offset, record in controls:
            self._note(record, offset, voters, levels)
        return LogState(
            start_offset=log.start_offset,
            end_offset=log.end_offset,
            epochs=[(entry.epoch, entry.start_offset) for entry in log.epochs],
            snapshots=snapshots,
            voters=voters.entries(),
            kraft_versions=levels,
            static_voters=static_voters,
        )

    def _note(
        self,
        record: ControlRecord,
        offset: int,
        voters: History[VoterSet],
        levels: list[tuple[int, int]],
    ) -> None:
        if isinstance(record, KRaftVersion):
            levels.append((offset, record.level))
            return
        changed = self.profile.policy.folded(record, voters.last)
        if changed is not None:
            voters.put(offset, changed)

    def _log_controls(self, offset: int) -> list[tuple[int, ControlRecord]]:
        """Return the control records at ``offset`` and after it, with their offsets."""
        segments = self.log.segments_from(offset)
        notes, key = self.log.notes, f"control records of {self.profile.name}"
        before, known = notes.get(key, ((), ()))
        count = unchanged(before, segments)
        end = segments[count - 1].next_offset if count else 0
        controls = [one for one in known if one[0] < end]
        for segment in segments[count:]:
            for header, data in segment.control_batches():
                controls += self._controls(decode_batch(data, header.position))
        notes[key] = marks_of(segments), controls
        return [one for one in controls if one[0] >= offset]

    def snapshot_controls(self, snapshot_id: SnapshotId) -> Iterator[ControlRecord]:
        """Yield the control records of a snapshot that the core knows."""
        for header, records in self._snapshot_batches(snapshot_id):
            if header.is_control:
                for _, record in self._controls(records):
                    yield record

    def _controls(self, records: Sequence[Record]) -> Iterator[tuple[int, ControlRecord]]:
        for record in records:
            if record.value is not None:
                control = self.profile.decode_control(control_type_of(record), record.value)
                if control is not None:
                    yield record.offset, control

    def _snapshot_batches(
        self, snapshot_id: SnapshotId
    ) -> Iterator[tuple[BatchHeader, list[Record]]]:
        reader = self.log.open_snapshot(snapshot_id)
        try:
            yield from reader.batches()
        finally:
            reader.close()

    def snapshot_values(self, snapshot_id: SnapshotId) -> list[bytes]:
        """Return the values of a snapshot's data records, for the state machine that loads it."""
        return [
            bytes(record.value or b"")
            for header, records in self._snapshot_batches(snapshot_id)
            if not header.is_control
            for record in records
        ]

    # ---- effects -------------------------------------------------------------------------------

    def persist_election(self, effect: fx.PersistElection) -> None:
        """Write quorum-state; durable on return."""
        self.directory.quorum_state.write(*self.profile.put_state(effect))

    def name_cluster(self, cluster_id: str) -> None:
        """Let meta.properties say of which cluster this is; durable on return."""
        meta = self.directory.meta
        if meta.cluster_id != cluster_id:
            self.directory.set_meta(msgspec.structs.replace(meta, cluster_id=cluster_id))

    def append_syncs(self, effect: fx.AppendRecords | fx.AppendControl | fx.AppendBatches) -> bool:
        """Whether an append may sync something first, and so take as long as the disk does."""
        if isinstance(effect, fx.AppendControl):
            return True  # Rare, and most often the first of an epoch.
        if isinstance(effect, fx.AppendRecords):
            size = sum(map(len, effect.records)) + RECORD_BYTES_MAX * (1 + len(effect.records))
            return self.log.append_syncs(effect.epoch, size, effect.timestamp_ms)
        batches = effect.batches
        size = sum(len(batch.data) for batch in batches)
        # No timestamp: a segment that is too old may sync beside others for once.
        return self.log.append_syncs(batches[0].epoch, size, 0) or self.log.append_syncs(
            batches[-1].epoch, size, 0
        )

    def append_records(self, effect: fx.AppendRecords) -> None:
        """Append a leader's data records as one batch."""
        self.log.append_records(effect.epoch, effect.records, effect.timestamp_ms)

    def append_control(self, effect: fx.AppendControl) -> None:
        """Append a leader's control records as one batch."""
        values = [self.profile.encode_control(record) for record in effect.records]
        self.log.append_control(effect.epoch, values, effect.timestamp_ms)

    def append_batches(self, batches: Sequence[Batch]) -> None:
        """Append batches that a leader sent, which the translator has checked."""
        data = [batch.data for batch in batches]
        whole = data[0] if len(data) == 1 else b"".join(data)
        appended = self.log.append_batches(whole, check_crc=False)
        if appended.rejected is not None:
            raise appended.rejected

    def flush(self, effect: fx.FlushLog) -> ev.LogFlushed:
        """Sync the log; return what to tell the core."""
        return ev.LogFlushed(self.log.flush(), effect.generation)

    def truncate(self, end_offset: int) -> None:
        """Cut the log, durably."""
        self.log.truncate_to(end_offset)

    def reset(self, snapshot_id: SnapshotId) -> None:
        """Throw the log away for a snapshot, durably."""
        self.log.truncate_fully_to(snapshot_id)

    def delete_before(self, snapshot_id: SnapshotId) -> None:
        """Let the log start at a snapshot's end."""
        self.log.delete_before(snapshot_id)

    def fill(self, reply: Reply) -> None:
        """Put the bytes into a reply that only says which."""
        if isinstance(reply, FetchReply):
            if reply.read_offset >= 0:
                reply.records = self.log.read(reply.read_offset, reply.read_max_bytes)
        elif isinstance(reply, FetchSnapshotReply) and reply.read_max_bytes > 0:
            snapshot_id = SnapshotId(reply.snapshot_end_offset, reply.snapshot_epoch)
            reader = self.log.open_snapshot(snapshot_id)
            try:
                reply.data = reader.read(reply.position, reply.read_max_bytes)
            finally:
                reader.close()

    # ---- snapshots -----------------------------------------------------------------------------

    def write_snapshot(
        self, effect: fx.WriteSnapshot, values: Sequence[bytes], timestamp_ms: int
    ) -> ev.SnapshotStored | None:
        """Write a state machine's records as a snapshot; None where it is there already."""
        header = self.snapshot_header(effect)
        writer = self.log.create_snapshot(effect.id, header, timestamp_ms=timestamp_ms)
        if writer is None:
            return None
        try:
            writer.append(values)
            writer.freeze()
        finally:
            writer.close()
        return self._stored(effect.id)

    def snapshot_header(self, effect: fx.WriteSnapshot) -> list[ControlValue]:
        """Return the control records that a snapshot begins with."""
        first = SnapshotHeaderRecord(last_contained_log_timestamp=effect.last_timestamp_ms)
        controls = self.profile.snapshot_controls(effect.kraft_version, effect.voters)
        return [control_value(first), *map(self.profile.encode_control, controls)]

    def adopt_snapshot(self, effect: fx.WriteSnapshot) -> ev.SnapshotStored:
        """Take note of a snapshot that another process has written here: it is durable."""
        self.log.adopt_snapshot(effect.id)
        reader = self.log.open_snapshot(effect.id)
        try:
            return ev.SnapshotStored(effect.id, reader.size, effect.last_timestamp_ms)
        finally:
            reader.close()

    def finish_snapshot(
        self, snapshot_id: SnapshotId
    ) -> ev.SnapshotStored | ev.SnapshotDamaged | None:
        """Complete the snapshot that was fetched; None where it was abandoned meanwhile.

        Of one that is damaged nothing is left: under its own name it would take the place of the
        log at the next start.
        """
        if self._partial is None or self._partial.id != snapshot_id:
            return None
        partial, self._partial = self._partial, None
        try:
            stored = self._described(partial.reader())
        except ValueError as error:
            partial.abandon()
            return ev.SnapshotDamaged(snapshot_id, str(error))
        partial.complete()
        return stored

    def _stored(self, snapshot_id: SnapshotId) -> ev.SnapshotStored:
        reader = self.log.open_snapshot(snapshot_id)
        try:
            return self._described(reader)
        finally:
            reader.close()

    def _described(self, reader: SnapshotReader) -> ev.SnapshotStored:
        """Read a snapshot to its end; every batch is checked."""
        timestamp_ms = reader.header().last_contained_log_timestamp
        stored = ev.SnapshotStored(reader.id, reader.size, timestamp_ms)
        for header, records in reader.batches():
            for _, record in self._controls(records) if header.is_control else ():
                if isinstance(record, KRaftVersion):
                    stored.kraft_version = record.level
                else:
                    stored.voters = self._folded_in_snapshot(record, stored.voters)
        return stored

    def _folded_in_snapshot(
        self, record: ControlRecord, voters: VoterSet | None
    ) -> VoterSet | None:
        """Return the voters of a snapshot, read up to ``record``: it builds on none before it."""
        folded = self.profile.policy.folded_in_snapshot(record, voters or VoterSet())
        return voters if folded is None else folded

    def begin_snapshot(self, snapshot_id: SnapshotId) -> None:
        """Begin an empty partial file, in place of any other."""
        self.abandon_snapshot()
        self._partial = self.log.begin_snapshot(snapshot_id)

    def extend_snapshot(self, effect: fx.ExtendSnapshot) -> None:
        """Append to the partial file, if it is of that snapshot."""
        if self._partial is not None and self._partial.id == effect.id:
            self._partial.append(effect.data)

    def abandon_snapshot(self, _: SnapshotId | None = None) -> None:
        """Delete the partial file, whichever snapshot it is of."""
        if self._partial is not None:
            self._partial.abandon()
            self._partial = None
