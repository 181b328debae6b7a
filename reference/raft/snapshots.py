"""Snapshots that this node writes itself, and what may be deleted once they exist (KIP-630)."""

from __future__ import annotations

import itertools

from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft.events import (
    CleanRequested,
    SnapshotDamaged,
    SnapshotRequested,
    SnapshotStored,
)
from kraftspec.reference.raft.follower import Follower
from kraftspec.reference.raft.role import QuorumState
from kraftspec.reference.raft.types import Snapshot, SnapshotId


def on_snapshot_requested(core: QuorumState, event: SnapshotRequested) -> None:
    """Let the state machine write a snapshot, if it is of a committed prefix of this log.

    It begins with the kraft.version and the voters that were in force at its last record.
    """
    reason = _refusal(core, event.id)
    if reason:
        core.emit(fx.SnapshotRefused(event.id, reason))
        return
    log = core.log
    last_offset = event.id.end_offset - 1
    level = log.kraft_versions.at(last_offset)
    voters = core.policy.snapshot_voters(core, last_offset)
    core.writing_snapshots[event.id] = None
    core.emit(fx.WriteSnapshot(event.id, event.last_timestamp_ms, level, voters))


def _refusal(core: QuorumState, id: SnapshotId) -> str | None:
    log = core.log
    if id in log.snapshots or id in core.writing_snapshots:
        return f"{id} exists already"
    if id.end_offset < log.start_offset:
        return f"{id} ends before the log starts, at {log.start_offset}"
    if id.end_offset > core.committed_offset:
        return f"{id} ends beyond the high watermark, {core.committed_offset}"
    if not log.is_valid(id.end_offset, id.epoch):
        return f"{id} is not a prefix of this log: no record before its end has its epoch"
    return None


def on_snapshot_stored(core: QuorumState, event: SnapshotStored) -> None:
    """Take note of a snapshot that is complete, its own or a fetched one."""
    snapshot = Snapshot(event.id, event.size, event.last_timestamp_ms)
    role = core.role
    if isinstance(role, Follower) and role.storing and role.fetching == event.id:
        core.log.add_snapshot(snapshot)
        role.on_snapshot_stored(event)
    elif event.id in core.writing_snapshots:
        del core.writing_snapshots[event.id]
        core.log.add_snapshot(snapshot)
        core.log.voters.truncate_before(event.id.end_offset)
        core.log.kraft_versions.truncate_before(event.id.end_offset)
    else:
        core.emit(fx.AbandonSnapshot(event.id))  # It was given up before it was complete.


def on_snapshot_damaged(core: QuorumState, event: SnapshotDamaged) -> None:
    """Fetch it anew: the leader is asked for records, and names the snapshot again."""
    role = core.role
    if isinstance(role, Follower) and role.storing and role.fetching == event.id:
        role.on_snapshot_damaged()


def on_clean_requested(core: QuorumState, event: CleanRequested) -> None:
    """Delete the oldest snapshots, and the log before them: by size, then by age; keep one.

    Source: ``KafkaRaftLog.maybeClean``, metadata.max.retention.bytes and .ms.
    """
    config = core.config
    snapshots = list(core.log.snapshots.values())
    total = event.log_bytes + sum(snapshot.size for snapshot in snapshots)
    oldest_ms = (core.now_us - config.retention_us) // 1000
    kept: SnapshotId | None = None
    for old, new in itertools.pairwise(snapshots):
        is_too_much = 0 <= config.retention_bytes < total
        is_too_old = config.retention_us >= 0 and old.last_timestamp_ms < oldest_ms
        if not (is_too_much or is_too_old) or new.id.end_offset > core.committed_offset:
            break
        kept = new.id
        total -= old.size
    if kept is not None and kept.end_offset > core.log.start_offset:
        core.log.delete_before(kept)
        core.emit(fx.DeleteBefore(kept))
