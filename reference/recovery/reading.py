"""What one node's directory says: read without a lock, without a write, beside a live node or not.

Nothing here is judged. A node may append, truncate, roll, delete segments and checkpoints and
replace quorum-state meanwhile. The log is read before quorum-state, so the stored epoch is never
older than the log that it is held against.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from typing import Any, Final, NamedTuple

import msgspec

from kraftspec.fastpath.types import Uuid
from kraftspec.reference.log.directory import MetaProperties
from kraftspec.reference.log.segment import LOG_SUFFIX, segment_name
from kraftspec.reference.raft.control import ControlRecord, KRaftVersion, LeaderChange, Voters
from kraftspec.reference.raft.types import NONE, ReplicaKey, SnapshotId, Voter
from kraftspec.reference.raft.voters import VoterSet
from kraftspec.reference.recovery.fingerprints import Fingerprints

FORCED_EPOCHS: Final = 1000  # What a forced recovery adds to the highest epoch, at the least.
SEGMENT: Final = re.compile(r"(\d{20})\.log")


class Origin(NamedTuple):
    """Where a voter set comes from: ``kind`` is checkpoint, log, static or none."""

    kind: str
    offset: int = NONE  # Of the VotersRecord; the end of the checkpoint.
    epoch: int = NONE

    def __str__(self) -> str:
        if self.kind == "log":
            return f"the VotersRecord at offset {self.offset} of epoch {self.epoch}"
        if self.kind == "checkpoint":
            return f"the checkpoint {self.offset}-{self.epoch}"
        return "quorum-state, of static voters" if self.kind == "static" else "nowhere"


class VotersInForce(NamedTuple):
    """A voter set, and the offset from which on it holds."""

    offset: int
    voters: VoterSet
    origin: Origin


class ControlBatch(NamedTuple):
    """A control batch of the log with the records that the core knows, by offset."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp_ms: int
    previous_epoch: int  # Of the batch before it; -1: there is none.
    records: tuple[tuple[int, ControlRecord], ...]

    def find(self, kind: type[Any]) -> Any:
        """Return its record of a kind, or None."""
        return next((record for _, record in self.records if isinstance(record, kind)), None)

    @property
    def is_forced(self) -> bool:
        """Whether no election wrote it: it is how a lost quorum is recovered by force."""
        return (
            self.epoch - max(self.previous_epoch, 0) >= FORCED_EPOCHS
            and self.find(LeaderChange) is not None
            and self.find(Voters) is not None
        )


class EpochSpan(msgspec.Struct):
    """A leader epoch of the log: its first offset, and that of its first batch of data or -1."""

    epoch: int
    start_offset: int
    data_offset: int = NONE


class Tail(NamedTuple):
    """What is behind the last good batch. ``is_corrupt``: it is more than a crash leaves."""

    path: str
    position: int
    torn_bytes: int
    zero_bytes: int
    reason: str
    is_corrupt: bool


class Checkpoint(msgspec.Struct, kw_only=True):
    """A complete checkpoint. ``problem`` says why it is none, if it is damaged."""

    id: SnapshotId
    name: str
    size_bytes: int = 0
    kraft_version: int | None = None
    voters: VoterSet | None = None
    last_timestamp_ms: int = NONE
    problem: str = ""

    @property
    def proves(self) -> bool:
        """Whether what it ends with was committed: the first one is written by formatting."""
        return self.id.end_offset > 0 and not self.problem


class Log(msgspec.Struct, kw_only=True):
    """The log of a directory as recovery would find it, and where its batches are.

    ``first`` is the first offset that the segments have, ``start_offset`` what the node serves
    from: the end of a checkpoint, or 0.
    """

    first: int = 0
    start_offset: int = 0
    end_offset: int = 0
    last_epoch: int = 0
    epochs: list[EpochSpan] = []
    controls: list[ControlBatch] = []
    fingerprints: Fingerprints = msgspec.field(default_factory=Fingerprints)
    segments: list[int] = []  # Base offsets.
    end_position: int = 0  # The byte of the last segment where its batches end.
    batches: int = 0
    size_bytes: int = 0
    last_timestamp_ms: int = NONE
    tail: Tail | None = None
    problem: str = ""  # Why a node that has it does not start.

    def epoch_of(self, offset: int) -> int:
        """Return the epoch of the record at ``offset``; -1 where the segments lack it."""
        if not self.first <= offset < self.end_offset:
            return NONE
        at = bisect_right(self.epochs, offset, key=lambda span: span.start_offset) - 1
        return self.epochs[at].epoch if at >= 0 else NONE

    def control_before(self, offset: int) -> int:
        """Return how many control batches begin before ``offset``."""
        return bisect_left(self.controls, offset, key=lambda batch: batch.base_offset)

    @property
    def position(self) -> tuple[int, int]:
        """What votes compare: the last epoch, and the end."""
        return self.last_epoch, self.end_offset


class StoredVote(NamedTuple):
    """What quorum-state says. ``voters`` are ids of static voters, of its version 0."""

    version: int
    epoch: int
    leader_id: int
    voted: ReplicaKey | None
    voters: tuple[int, ...]


class Directory(msgspec.Struct, kw_only=True):
    """The reading of one directory. ``problems`` are reasons why a part of it could not be read."""

    path: str
    meta: MetaProperties | None = None
    log: Log = msgspec.field(default_factory=Log)
    vote: StoredVote | None = None
    checkpoints: list[Checkpoint] = []  # In order.
    history: list[VotersInForce] = []  # Ascending.
    kraft_version: int = 0
    stamp: tuple[Any, ...] = ()  # Changes when the node writes.
    formatting_problem: str = ""
    vote_problem: str = ""

    @property
    def node_id(self) -> int:
        """The node's id; -1 if meta.properties cannot be read."""
        return NONE if self.meta is None else self.meta.node_id

    @property
    def key(self) -> ReplicaKey:
        """The node's replica key."""
        if self.meta is None:
            return ReplicaKey(NONE)
        return ReplicaKey(self.meta.node_id, self.meta.directory_id)

    @property
    def directory_id(self) -> Uuid:
        """The id of this log directory."""
        return self.key.directory_id

    @property
    def is_readable(self) -> bool:
        """Whether a node could start on it, as far as can be seen."""
        return not (self.formatting_problem or self.vote_problem or self.log.problem)

    @property
    def epoch(self) -> int:
        """The epoch that the node starts in."""
        return max(self.log.last_epoch, 0 if self.vote is None else self.vote.epoch)

    @property
    def in_force(self) -> VotersInForce:
        """The voters by this node's own log, or else by its quorum-state."""
        if self.history:
            return self.history[-1]
        static = VotersInForce(NONE, static_set(self.static_ids), Origin("static"))
        return static if self.static_ids else VotersInForce(NONE, VoterSet(), Origin("none"))

    @property
    def static_ids(self) -> tuple[int, ...]:
        """The static voters that the node was last told, as far as it has written them down.

        A node that is told none writes down none, though its log may begin under static voters:
        a new controller that has not fetched the change to kraft.version 1 yet.
        """
        if self.kraft_version or self.history:
            return ()
        if self.vote is not None:
            return self.vote.voters
        for batch in reversed(self.log.controls):
            change = batch.find(LeaderChange)
            if change is not None:
                return tuple(change.voters)
        return ()

    @property
    def is_voter(self) -> bool:
        """Whether the node is a voter by its own log."""
        return self.in_force.voters.is_voter(self.key)

    def voters_at(self, offset: int) -> VotersInForce | None:
        """Return the voters that a leader at ``offset`` of this log counted; None: nobody knows."""
        at = bisect_left(self.history, offset, key=lambda entry: entry.offset) - 1
        return self.history[at] if at >= 0 else None


def static_set(ids: tuple[int, ...]) -> VoterSet:
    """Return static voters: of their directories nothing is known."""
    return VoterSet(Voter(ReplicaKey(one)) for one in ids)


def voters_history(checkpoints: list[Checkpoint], log: Log) -> tuple[list[VotersInForce], int]:
    """Return the voter sets by the offset from which each holds, and the last kraft.version.

    The last one is what a node finds when it starts: its latest checkpoint, then the log.
    """
    entries: list[VotersInForce] = []
    levels = [(NONE - 1, 0)]
    for batch in log.controls:
        for offset, record in batch.records:
            if isinstance(record, KRaftVersion):
                levels.append((offset, record.level))
            elif isinstance(record, Voters):
                origin = Origin("log", offset, batch.epoch)
                entries.append(VotersInForce(offset, record.voters, origin))
    for checkpoint in checkpoints:
        end_offset, epoch = checkpoint.id
        if checkpoint.problem:
            continue
        levels.append((end_offset - 1, checkpoint.kraft_version or 0))
        if checkpoint.voters is not None:
            origin = Origin("checkpoint", end_offset, epoch)
            entries.append(VotersInForce(end_offset - 1, checkpoint.voters, origin))
    entries.sort(key=lambda entry: entry.offset)  # Of one offset, the checkpoint comes last.
    history: list[VotersInForce] = []
    for entry in entries:
        if not history or entry.voters != history[-1].voters or entry.origin.kind == "log":
            history.append(entry)
    return history, max(levels, key=lambda level: level[0])[1]


def segment_path(directory: str, base_offset: int) -> str:
    """Return the path of a segment."""
    return f"{directory}/{segment_name(base_offset)}{LOG_SUFFIX}"
