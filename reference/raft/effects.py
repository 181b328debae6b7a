"""Effects: what a node must do next. `Core.step` returns them in the order they must happen.

The order of one step is always the same: persist the election state, truncate, append, flush,
send. A host carries them out one by one:

* What concerns the disk is done, and `PersistElection` is durable, when the host goes on to the
  next effect; so a vote is on disk before its reply leaves.
* `FlushLog` and `FinishSnapshot` may take their time. The host goes on, and says
  `events.LogFlushed` or `events.SnapshotStored` when they are done; it may let one sync serve many
  flushes. Until then a follower does not fetch on and a leader does not count itself, but a
  leader's records are served to others already.
* `Ask` and `Answer` may be lost; nothing else may. A host that cannot carry out an effect on its
  disk stops the node then and there, before it sends anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kraftspec.reference.raft.control import ControlRecord
from kraftspec.reference.raft.messages import Batch, Bytes, Reply, Request
from kraftspec.reference.raft.types import ElectionState, Node, SnapshotId
from kraftspec.reference.raft.voters import VoterSet


class Effect(msgspec.Struct, gc=False):
    """Base of all effects."""


# ---- to the disk -----------------------------------------------------------------------------


class PersistElection(Effect, gc=False):
    """Write quorum-state and sync it, by a temporary file and a rename.

    ``kraft_version`` chooses the file's version, and version 0 lists ``voter_ids`` too. ``rest`` is
    what a profile's policy keeps beside them.
    """

    state: ElectionState
    kraft_version: int
    voter_ids: tuple[int, ...]
    rest: Any = None


class ClusterIdLearned(Effect, gc=False):
    """Let meta.properties say of which cluster this node is; durable when the host goes on."""

    cluster_id: str


class TruncateLog(Effect, gc=False):
    """Cut the log, which is longer, so that it ends at ``end_offset``."""

    end_offset: int


class ResetLog(Effect, gc=False):
    """Throw all batches away: the log starts and ends at this snapshot's end offset now.

    Snapshots before it go as well.
    """

    snapshot_id: SnapshotId


class AppendRecords(Effect, gc=False):
    """As leader: append these values as one batch, whose first record has ``base_offset``."""

    epoch: int
    base_offset: int
    records: Sequence[Bytes]
    timestamp_ms: int


class AppendControl(Effect, gc=False):
    """As leader: append one control batch, whose first record has ``base_offset``."""

    epoch: int
    base_offset: int
    records: tuple[ControlRecord, ...]
    timestamp_ms: int


class AppendBatches(Effect, gc=False):
    """As follower: append these batches as the leader sent them, one after another."""

    batches: tuple[Batch, ...]


class FlushLog(Effect, gc=False):
    """Make everything before ``end_offset`` durable, then say `events.LogFlushed`.

    ``generation`` counts truncations, and goes into the event as it is: a flush that began before a
    truncation says nothing about what was written over the part that was cut.
    """

    end_offset: int
    generation: int = 0


class WriteSnapshot(Effect, gc=False):
    """The state machine may write this snapshot, headed by these control records.

    ``voters`` None, or ``kraft_version`` 0, means that there are none to write. When it is complete
    the host says `events.SnapshotStored`.
    """

    id: SnapshotId
    last_timestamp_ms: int
    kraft_version: int
    voters: VoterSet | None


class SnapshotRefused(Effect, gc=False):
    """No snapshot of that id can be written; ``reason`` is for a person."""

    id: SnapshotId
    reason: str


class BeginSnapshot(Effect, gc=False):
    """Start an empty partial file for a snapshot that will be fetched."""

    id: SnapshotId


class ExtendSnapshot(Effect, gc=False):
    """Append these bytes to the partial file."""

    id: SnapshotId
    position: int
    data: Bytes


class FinishSnapshot(Effect, gc=False):
    """The partial file is whole: sync, rename, read its control records, `events.SnapshotStored`.

    May take its time, like `FlushLog`.
    """

    id: SnapshotId


class AbandonSnapshot(Effect, gc=False):
    """Delete the partial file, whatever was being done with it."""

    id: SnapshotId


class DeleteBefore(Effect, gc=False):
    """The log starts at this snapshot's end offset now: older snapshots and segments may go."""

    snapshot_id: SnapshotId


# ---- to the network --------------------------------------------------------------------------


class Ask(Effect, gc=False):
    """Send a request to a node."""

    request_id: int
    node: Node
    request: Request


class Answer(Effect, gc=False):
    """Answer the request that came with this token. Some replies are filled in by the host.

    A `messages.FetchReply` with a ``read_offset`` and a `messages.FetchSnapshotReply` with
    ``read_max_bytes`` get their bytes from the host's log, which has them by then.
    """

    token: int
    reply: Reply


class DropConnection(Effect, gc=False):
    """The node did not answer for the whole request time-out; connect to it anew next time."""

    node: Node


# ---- to the state machine --------------------------------------------------------------------


class LoadSnapshot(Effect, gc=False):
    """Forget everything, and take the state from this snapshot."""

    snapshot_id: SnapshotId


class Commit(Effect, gc=False):
    """Everything before ``high_watermark`` is committed: apply what was not yet, in order."""

    high_watermark: int


class LeaderChanged(Effect, gc=False):
    """The leader is another one, or there is none (-1).

    A node learns that it leads itself only once everything of earlier epochs is committed, and
    after the `Commit` that says so; it may append from then on.
    """

    epoch: int
    leader_id: int


class Appended(Effect, gc=False):
    """The records have these offsets; they are committed when `Commit` passes ``last_offset``.

    If the node stops leading before that, nobody can say whether they will be.
    """

    append_id: int
    epoch: int
    base_offset: int
    last_offset: int


class AppendRefused(Effect, gc=False):
    """Nothing was appended. ``error`` is one of Kafka's error codes."""

    append_id: int
    error: int


class UpgradeAnswered(Effect, gc=False):
    """``kraft.version`` is, or will be once committed, at that level; or not, with a reason."""

    upgrade_id: int
    error: int
    message: str | None = None


class ShutdownCompleted(Effect, gc=False):
    """The node may stop; ``timed_out`` if it gave up waiting for another leader."""

    timed_out: bool
