"""One host of the core: it gives the core events, and carries out the core's effects.

Everything that runs the core does so through `Host`: the node, the simulator, the node vectors, the
tests, a benchmark. The order of durability stands here, once:

* Effects are carried out one by one, in the order in which the core returns them. What one does to
  the disk is done when the next begins, so a vote is on disk before the answer leaves.
* A sync of the log goes on beside what follows. The flushes that are wanted while one is due or
  under way share the next one.
* Events of the disk itself (a snapshot is complete) reach the core before any that came meanwhile.
* An effect that raises is the last one: the caller stops the node, and nothing more is sent.

What differs is what a subclass overrides: the clock (``clock_us``), who does the disk's work
(``on_disk``, ``begin_sync``), where messages go (``on_ask``, ``send_answer``), what the state
machine does (``on_commit`` and its like), and, for tests, what is noted of an effect. ``Host`` by
itself has a disk that is done at once and a state machine that does nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kraftspec.reference.raft import effects as fx

if TYPE_CHECKING:
    from kraftspec.reference.raft import Core, SnapshotId
    from kraftspec.reference.raft import events as ev
    from kraftspec.reference.raft.messages import Batch, Reply
    from kraftspec.reference.storage import Storage

Wait = Coroutine[Any, Any, None]  # Work of the disk that is not done yet.
NO_LIMIT: Final = -1


class PowerLostError(Exception):
    """The node has no power any more: nothing after this happens."""


class Host:
    """A core, the storage that it stands on, and the way of effects to both.

    ``effects_left`` is how many effects are carried out before the power goes. ``flush_wanted`` is
    the last flush for which no sync has begun; ``upcoming`` are the events of the disk's own.
    """

    core: Core
    storage: Storage

    HANDLERS: ClassVar[dict[type[fx.Effect], str]] = {
        fx.PersistElection: "on_persist_election",
        fx.ClusterIdLearned: "on_cluster_id_learned",
        fx.TruncateLog: "on_truncate_log",
        fx.ResetLog: "on_reset_log",
        fx.AppendRecords: "on_append_records",
        fx.AppendControl: "on_append_control",
        fx.AppendBatches: "on_append_batches",
        fx.FlushLog: "on_flush_log",
        fx.WriteSnapshot: "on_write_snapshot",
        fx.SnapshotRefused: "on_snapshot_refused",
        fx.BeginSnapshot: "on_begin_snapshot",
        fx.ExtendSnapshot: "on_extend_snapshot",
        fx.FinishSnapshot: "on_finish_snapshot",
        fx.AbandonSnapshot: "on_abandon_snapshot",
        fx.DeleteBefore: "on_delete_before",
        fx.Ask: "on_ask",
        fx.Answer: "on_answer",
        fx.DropConnection: "on_drop_connection",
        fx.LoadSnapshot: "on_load_snapshot",
        fx.Commit: "on_commit",
        fx.LeaderChanged: "on_leader_changed",
        fx.Appended: "on_appended",
        fx.AppendRefused: "on_append_refused",
        fx.UpgradeAnswered: "on_upgrade_answered",
        fx.ShutdownCompleted: "on_shutdown_completed",
    }

    def __init__(self) -> None:
        self.upcoming: deque[ev.Event] = deque()
        self._handlers: dict[type[fx.Effect], Callable[[Any], Wait | None]] = {
            kind: getattr(self, name) for kind, name in self.HANDLERS.items()
        }
        self.begin_incarnation()

    def begin_incarnation(self) -> None:
        """Forget what an earlier incarnation of the node left undone."""
        self.effects_left = NO_LIMIT
        self.flush_wanted: fx.FlushLog | None = None
        self.is_syncing = False
        self.upcoming.clear()

    # ---- events and effects --------------------------------------------------------------------

    def step(self, event: ev.Event) -> None:
        """Let the core take an event, carry out what it says, and what the disk says to that.

        For hosts whose disk is done at once.
        """
        wait = self.carry_out(self.core.step(event, self.clock_us()))
        assert wait is None
        while self.upcoming:
            self.step(self.upcoming.popleft())

    def carry_out(self, effects: Iterable[fx.Effect]) -> Wait | None:
        """Carry effects out in their order; return what is left where the disk takes its time."""
        handlers = self._handlers
        rest = iter(effects)
        for effect in rest:
            if self.effects_left >= 0:
                self._use_power()
            wait = handlers[effect.__class__](effect)
            if wait is not None:
                return self._go_on(wait, rest)
        return None

    async def _go_on(self, wait: Wait, rest: Iterator[fx.Effect]) -> None:
        await wait
        more = self.carry_out(rest)
        if more is not None:
            await more

    def _use_power(self) -> None:
        self.effects_left -= 1
        if self.effects_left < 0:
            raise PowerLostError

    # ---- what differs --------------------------------------------------------------------------

    def clock_us(self) -> int:
        """Return what the node's clock says."""
        raise NotImplementedError

    def on_disk(self, work: Callable[[Any], Any], argument: Any) -> Wait | None:
        """Do something that the next effect must wait for: here and now."""
        work(argument)
        return None

    def begin_sync(self) -> None:
        """Let the disk sync the log: here and now."""
        self.upcoming.append(self.sync())

    def on_ask(self, effect: fx.Ask) -> None:
        """Send a request."""
        raise NotImplementedError

    def send_answer(self, token: int, reply: Reply) -> None:
        """Send an answer, which has all its bytes."""
        raise NotImplementedError

    def snapshot_values(self, effect: fx.WriteSnapshot) -> Sequence[bytes]:
        """Return the records of the snapshot that the state machine may write."""
        return ()

    # ---- the disk ------------------------------------------------------------------------------

    def on_persist_election(self, effect: fx.PersistElection) -> Wait | None:
        """Write quorum-state."""
        return self.on_disk(self.storage.persist_election, effect)

    def on_cluster_id_learned(self, effect: fx.ClusterIdLearned) -> Wait | None:
        """Write meta.properties."""
        return self.on_disk(self.storage.name_cluster, effect.cluster_id)

    def on_truncate_log(self, effect: fx.TruncateLog) -> Wait | None:
        """Cut the log."""
        return self.on_disk(self.storage.truncate, effect.end_offset)

    def on_reset_log(self, effect: fx.ResetLog) -> Wait | None:
        """Throw the log away for a snapshot."""
        return self.on_disk(self.storage.reset, effect.snapshot_id)

    def on_append_records(self, effect: fx.AppendRecords) -> Wait | None:
        """Append data records, as leader."""
        return self.on_disk(self.storage.append_records, effect)

    def on_append_control(self, effect: fx.AppendControl) -> Wait | None:
        """Append control records, as leader."""
        return self.on_disk(self.storage.append_control, effect)

    def on_append_batches(self, effect: fx.AppendBatches) -> Wait | None:
        """Append what the leader sent."""
        return self.on_disk(self.append_batches, effect.batches)

    def append_batches(self, batches: Sequence[Batch]) -> None:
        """Append batches; the disk does this."""
        self.storage.append_batches(batches)

    def on_flush_log(self, effect: fx.FlushLog) -> None:
        """Begin a sync, unless one that is due or under way comes first."""
        is_due = self.flush_wanted is not None or self.is_syncing
        self.flush_wanted = effect
        if not is_due:
            self.begin_sync()

    def take_flush(self) -> fx.FlushLog:
        """Return the flush for which a sync begins now."""
        wanted, self.flush_wanted = self.flush_wanted, None
        assert wanted is not None
        return wanted

    def sync(self) -> ev.LogFlushed:
        """Sync the log, and return what to tell the core."""
        return self.storage.flush(self.take_flush())

    def synced(self, event: ev.LogFlushed) -> None:
        """A sync that went on beside other things is done: begin the next where it is needed.

        A sync that a cut overtook says nothing about what was wanted after the cut.
        """
        self.is_syncing = False
        wanted = self.flush_wanted
        if wanted is not None:
            if (wanted.generation, wanted.end_offset) > (event.generation, event.end_offset):
                self.begin_sync()
            else:
                self.flush_wanted = None

    def on_write_snapshot(self, effect: fx.WriteSnapshot) -> None:
        """Write what the state machine is as a snapshot, where there is none of that id yet."""
        stored = self.storage.write_snapshot(
            effect, self.snapshot_values(effect), self.clock_us() // 1000
        )
        if stored is not None:
            self.upcoming.append(stored)

    def on_begin_snapshot(self, effect: fx.BeginSnapshot) -> Wait | None:
        """Begin a partial file."""
        return self.on_disk(self.storage.begin_snapshot, effect.id)

    def on_extend_snapshot(self, effect: fx.ExtendSnapshot) -> Wait | None:
        """Write the next bytes of the partial file."""
        return self.on_disk(self.storage.extend_snapshot, effect)

    def on_finish_snapshot(self, effect: fx.FinishSnapshot) -> Wait | None:
        """Complete the partial file."""
        return self.on_disk(self.finish_snapshot, effect.id)

    def finish_snapshot(self, snapshot_id: SnapshotId) -> None:
        """Complete a fetched snapshot, and tell the core what it is; the disk does this."""
        stored = self.storage.finish_snapshot(snapshot_id)
        if stored is not None:
            self.upcoming.append(stored)

    def on_abandon_snapshot(self, effect: fx.AbandonSnapshot) -> Wait | None:
        """Delete the partial file."""
        return self.on_disk(self.storage.abandon_snapshot, effect.id)

    def on_delete_before(self, effect: fx.DeleteBefore) -> Wait | None:
        """Let the log start later."""
        return self.on_disk(self.storage.delete_before, effect.snapshot_id)

    # ---- the network ---------------------------------------------------------------------------

    def on_answer(self, effect: fx.Answer) -> None:
        """Put the bytes into an answer that only says which, and send it."""
        self.storage.fill(effect.reply)
        self.send_answer(effect.token, effect.reply)

    def on_drop_connection(self, effect: fx.DropConnection) -> None:
        """Connect anew for the next request."""

    # ---- the state machine ---------------------------------------------------------------------

    def on_snapshot_refused(self, effect: fx.SnapshotRefused) -> None:
        """The snapshot that was asked for cannot be."""

    def on_load_snapshot(self, effect: fx.LoadSnapshot) -> None:
        """The state is that of a snapshot now."""

    def on_commit(self, effect: fx.Commit) -> None:
        """More is committed."""

    def on_leader_changed(self, effect: fx.LeaderChanged) -> None:
        """Another leads, or nobody does."""

    def on_appended(self, effect: fx.Appended) -> None:
        """An append has its offsets."""

    def on_append_refused(self, effect: fx.AppendRefused) -> None:
        """An append came to nothing."""

    def on_upgrade_answered(self, effect: fx.UpgradeAnswered) -> None:
        """What became of an upgrade of kraft.version."""

    def on_shutdown_completed(self, effect: fx.ShutdownCompleted) -> None:
        """The node may stop."""
