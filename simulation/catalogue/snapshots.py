"""Mistakes in snapshots, and in what is deleted once there is one (KIP-630)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.log import metadata_log
from kraftspec.reference.log.recovery import remove_segment
from kraftspec.reference.log.snapshots import snapshot_name
from kraftspec.reference.profiles.common.profile import ProfileBase
from kraftspec.reference.raft import (
    SnapshotId,
    core,
    follower,
    log_state,
    snapshots,
    voters,
)
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.messages import FetchSnapshot, Request
from kraftspec.simulation.catalogue.bug import Planter


def snapshot_of_what_is_not_committed(plant: Planter) -> None:
    """A snapshot is written of whatever the log has."""
    plant(snapshots, "_refusal", lambda node, id: "there" if id in node.log.snapshots else None)


def snapshot_has_the_newest_voters(plant: Planter) -> None:
    """A snapshot has the voters of today, not those of its last record."""
    plant(voters.History, "at", lambda self, offset: self.last)


def forgets_voters_of_a_snapshot(plant: Planter) -> None:
    """Who loads a snapshot does not take over the voters in it."""
    reset_to = log_state.LogState.reset_to
    plant(
        log_state.LogState,
        "reset_to",
        lambda self, snapshot, sets, level: reset_to(self, snapshot, None, level),
    )


def names_snapshots_by_todays_epoch(plant: Planter) -> None:
    """A snapshot is named by the epoch of today, not by that of its last record."""
    requested = snapshots.on_snapshot_requested

    def today(node: Any, event: ev.SnapshotRequested) -> None:
        id = SnapshotId(event.id.end_offset, node.epoch)
        requested(node, ev.SnapshotRequested(id, event.last_timestamp_ms))

    plant(core._STEPS, ev.SnapshotRequested, today)
    plant(log_state.LogState, "is_valid", lambda self, offset, epoch: True)
    plant(metadata_log.MetadataLog, "check_snapshot", lambda self, id: None)


def loads_its_own_snapshot(plant: Planter) -> None:
    """A node loads the snapshots that it wrote itself, too, also while it leads."""
    stored = snapshots.on_snapshot_stored

    def load(node: Any, event: Any) -> None:
        is_own = event.id in node.writing_snapshots
        stored(node, event)
        if is_own:
            node.emit(fx.LoadSnapshot(event.id))

    plant(core._STEPS, ev.SnapshotStored, load)


def fetches_bytes_twice(plant: Planter) -> None:
    """The part of a snapshot that is asked for next overlaps the last one by a byte."""
    on_reply = follower.Follower.on_snapshot_reply

    def overlap(self: Any, reply: Any) -> bool:
        is_first = self.fetching_position == 0
        done = on_reply(self, reply)
        if is_first and self.fetching is not None and 1 < self.fetching_position < reply.size:
            self.fetching_position -= 1
        return done

    plant(follower.Follower, "on_snapshot_reply", overlap)


def asks_for_a_deleted_snapshot_again(plant: Planter) -> None:
    """A follower whose leader has deleted the snapshot that it fetches goes on asking for it."""
    on_reply = follower.Follower.on_snapshot_reply

    def stubborn(self: Any, reply: Any) -> bool:
        return reply.error != ErrorCode.SNAPSHOT_NOT_FOUND and on_reply(self, reply)

    plant(follower.Follower, "on_snapshot_reply", stubborn)


def begins_anew_where_it_was(plant: Planter) -> None:
    """A follower that begins another snapshot asks for it from where it was in the last one."""
    begin = follower.Follower._begin_snapshot

    def forgetful(self: Any, snapshot: SnapshotId) -> None:
        position = self.fetching_position
        begin(self, snapshot)
        self.fetching_position = position

    plant(follower.Follower, "_begin_snapshot", forgetful)


def a_part_of_a_snapshot_is_silence(plant: Planter) -> None:
    """A follower's fetch time-out goes on while it gets parts of a snapshot."""
    on_reply = follower.Follower.on_snapshot_reply

    def impatient(self: Any, reply: Any) -> bool:
        deadline_us = self.fetch_deadline_us
        done = on_reply(self, reply)
        if self.fetching is not None:
            self.fetch_deadline_us = deadline_us
        return done

    plant(follower.Follower, "on_snapshot_reply", impatient)


def serves_what_it_deleted(plant: Planter) -> None:
    """A leader sends records to who needs a snapshot."""
    plant(log_state.LogState, "is_before_snapshots", lambda self, offset, epoch: False)


def deletes_a_segment_too_many(plant: Planter) -> None:
    """Cleaning deletes the segment in which the log is to start."""

    def start_at(self: Any, snapshot_id: Any) -> None:
        self._start_offset = snapshot_id.end_offset
        self._epochs.start_at(self._start_offset)
        while len(self._segments) > 1 and self._segments[0].base_offset <= self._start_offset:
            segment = self._segments.pop(0)
            segment.file.close()
            remove_segment(self._files, segment.path)
        self._keep_epochs()
        self._forget_snapshots_before(snapshot_id)

    plant(metadata_log.MetadataLog, "_start_at", start_at)


def deletes_the_last_snapshot(plant: Planter) -> None:
    """Cleaning lets the log start at a snapshot, and deletes that one too."""

    def forget(self: Any, snapshot_id: Any) -> None:
        for one in [one for one in self.snapshots if one.end_offset <= snapshot_id.end_offset]:
            self._files.remove(f"{self.directory}/{snapshot_name(one)}")
            self.snapshots.remove(one)
        self._files.sync_directory(self.directory)

    plant(metadata_log.MetadataLog, "_forget_snapshots_before", forget)


def takes_a_longer_log_for_a_later_one(plant: Planter) -> None:
    """A node that starts keeps a log longer than its snapshot, though that is of a later epoch."""
    open_log = metadata_log.MetadataLog.__dict__["open"].__func__
    replace = metadata_log.MetadataLog.truncate_fully_to

    def unless_longer(self: Any, snapshot_id: SnapshotId) -> None:
        if self.end_offset < snapshot_id.end_offset:
            replace(self, snapshot_id)

    def opened(cls: Any, *arguments: Any, **options: Any) -> Any:
        cls.truncate_fully_to = unless_longer
        try:
            return open_log(cls, *arguments, **options)
        finally:
            cls.truncate_fully_to = replace

    plant(metadata_log.MetadataLog, "open", classmethod(opened))


def fetches_snapshots_without_a_directory(plant: Planter) -> None:
    """A FetchSnapshot request leaves out the directory id of who asks."""
    encode_request = ProfileBase.encode_request

    def encode(self: Any, request: Request, version: int) -> bytes:
        if isinstance(request, FetchSnapshot):
            request = replace(request, replica_directory_id=ZERO_UUID)
        return encode_request(self, request, version)

    plant(ProfileBase, "encode_request", encode)


def takes_no_snapshot_that_is_shorter(plant: Planter) -> None:
    """A follower passes over a snapshot that ends before its log, though it is of a later epoch."""
    stored = follower.Follower.on_snapshot_stored

    def unless_shorter(self: Any, event: Any) -> None:
        if event.id.end_offset < self.core.log.end_offset:
            self.fetching, self.storing = None, False
            self.heard_from_leader()
        else:
            stored(self, event)

    plant(follower.Follower, "on_snapshot_stored", unless_shorter)


def keeps_the_log_behind_a_snapshot(plant: Planter) -> None:
    """Who loads a snapshot goes on appending to the log that it should have replaced."""

    def stored(self: Any, event: Any) -> None:
        node = self.core
        self.fetching, self.storing = None, False
        node.emit(fx.LoadSnapshot(event.id))
        node.log.end_offset = event.id.end_offset
        self.heard_from_leader()

    plant(follower.Follower, "on_snapshot_stored", stored)
