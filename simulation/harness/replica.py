"""A node in a harness process, as a `Replica` of the simulated quorum.

Its disk and its random numbers are the harness's. The simulator has a mirror of the log, made of
the events, and compares it with what a start reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.walk import iterate_headers
from kraftspec.reference.raft import SnapshotId
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.messages import Fetch, Reply, Request, Vote
from kraftspec.reference.raft.types import NEVER_US
from kraftspec.simulation.harness.node import SHUT_DOWN, UP, HarnessNode
from kraftspec.simulation.harness.protocol import PROTOCOL, Event
from kraftspec.simulation.harness.shown import ROLES, election_of
from kraftspec.simulation.log_model import SNAPSHOT_STATE
from kraftspec.simulation.network import Message

UNREAD = Reply()  # In place of a Fetch's: of those nobody looks at what they say.


def _age(reply: Message) -> tuple[int, int]:
    """Say how late it was asked for."""
    return reply.incarnation, reply.correlation


class HarnessReplica(HarnessNode):
    """A node of a harness."""

    # ---- steps ---------------------------------------------------------------------------------

    def _expire(self) -> None:
        """Let timers that are due strike before what comes now, as a step of their own.

        An implementation may look at them first or last: with the input they would be one step,
        in which a node of another role than before takes it, and nobody sees that.
        """
        if self.core.deadline_us <= self.clock_us():
            self.step(ev.Tick())

    def step(self, event: ev.Event) -> None:
        """Give the harness an event that is no message."""
        if not isinstance(event, ev.Tick | ev.Start):
            self._expire()
        now_us = self.clock_us()
        match event:
            case ev.Tick():
                events = self._do("tick", now_us)
            case ev.Start():
                events, self._begun = self._begun, []
            case ev.RequestFailed(request_id, unsupported):
                events = self._do("fail", now_us, request_id, unsupported)
            case ev.AppendRequested(append_id, epoch, records):
                events = self._do("append", now_us, append_id, epoch, records)
            case ev.SnapshotRequested(snapshot):
                chain = self.log_model.chain_at(snapshot.end_offset)
                values = [SNAPSHOT_STATE.pack(snapshot.end_offset, chain)]
                events = self._do("snapshot", now_us, *snapshot, values)
            case ev.CleanRequested():
                events = self._do("clean", now_us)
            case ev.ResignRequested(epoch):
                events = self._do("resign", now_us, epoch)
            case ev.ShutdownRequested(timeout_us):
                self.core.shutdown_deadline_us = now_us + timeout_us
                events = self._do("shutdown", now_us, timeout_us)
            case ev.UpgradeRequested(_, epoch, level):
                events = self._do("upgrade", now_us, level, epoch)
            case _:
                raise AssertionError(event)
        self._take(events)

    def take_request(self, token: int, request: Request, message: Message) -> None:
        """Give the harness the bytes of a request."""
        self._expire()
        events = self._do(
            "request", self.clock_us(), token, message.api_key, message.version, message.body
        )
        self._take(events, request)

    def take_reply(self, request: Request, message: Message) -> None:
        """Give the harness the bytes of a reply."""
        self._expire()
        kind = request.__class__, message.source
        last = self.last_replies.get(kind)
        if last is None or _age(last[1]) < _age(message):  # Another one may have come late.
            self.last_replies[kind] = request, message
        self._take(
            self._do(
                "reply", self.clock_us(), message.correlation, message.api_key, message.version,
                message.body,
            )
        )  # fmt: skip

    def flush(self) -> None:
        """Its flushes are over within a step."""
        raise AssertionError("nothing flushes beside a step")

    def finish_fetched(self, snapshot: SnapshotId) -> None:
        """Its snapshots are stored within a step."""
        raise AssertionError("nothing is stored beside a step")

    def _take(self, events: list[Event], request: Request | None = None) -> None:
        """Make the core look as it does after the step, and report each event."""
        core = self.core
        state = events[-1][1]
        status = state[0]
        core.now_us = self.clock_us()
        if status == UP:
            core.role.name = ROLES[state[1]]
            core.epoch, core.leader_id = state[2], state[3]
            core.voted = election_of(*state[2:6]).voted
            core.deadline_us = state[10]
            core.is_voter = state[11]
            if state[12] != core.log.kraft_versions.last:
                core.log.kraft_versions.replace([(state[8], state[12])])
        else:  # It ended in the step: of its memory is known what it had stored by then.
            core.deadline_us = NEVER_US
            for name, values in events:
                if name == "persisted":
                    core.epoch, core.leader_id = values[:2]
        if request is not None:
            is_vote = request.__class__ is Vote
            self.note_handled(request, list(_as_effects(events)) if is_vote else ())
        for name, values in events:
            if name == "voters":
                self._on_voters(*values)
        for name, values in events:
            HANDLERS[name](self, *values)
        if status != UP:  # After what was stored before it in the step.
            self.storing = election_of(*state[2:6])  # It may be there, untold.
        if status == UP:
            core.high_watermark = state[6]
        elif status != SHUT_DOWN:
            self._end(status, events, "no_fatal_error")
        self.stepped()

    # ---- events --------------------------------------------------------------------------------

    def _on_persisted(self, *election: Any) -> None:
        self.note_persisted(election_of(*election))

    def _on_appended(self, as_leader: bool, data: bytes) -> None:
        for header in iterate_headers(data):
            batch = data[header.position : header.end]
            if not as_leader:
                self.hooks.appending(self, header.base_offset)
            self._batches.append(batch)
            self.note_appended(batch)
            if header.is_control:
                for offset, record in self._controls_at(data, header):
                    self.note_control(offset, record)
            elif as_leader:  # Several appends may be in one batch: the last ends with it.
                last = decode_batch(batch, 0, check_crc=False)[-1].value or b""
                log_model = self.log_model
                end, chain = log_model.end_offset, log_model.end_chain
                self.world.appends.written(self.id, end, bytes(last), chain)

    def _on_truncated(self, end_offset: int) -> None:
        self.note_truncating(end_offset)
        self.note_truncated(end_offset)
        del self._batches[len(self.log_model.ends) :]

    def _on_flushed(self, end_offset: int) -> None:
        self.note_flushed(end_offset)

    def _on_reset(self, end_offset: int, epoch: int) -> None:
        snapshot = SnapshotId(end_offset, epoch)
        self.core.log.voters.truncate_before(end_offset)
        self._batches.clear()
        self._forget_before(end_offset)
        self.note_reset(snapshot, self.snapshot_chain(snapshot))

    def _on_start_moved(self, end_offset: int, epoch: int) -> None:
        del self._batches[: self.log_model.index_of(end_offset) + 1]
        self._forget_before(end_offset)
        self.note_log_start(SnapshotId(end_offset, epoch))

    def _on_snapshot_stored(
        self, end_offset: int, epoch: int, is_own: bool, content: bytes
    ) -> None:
        snapshot = SnapshotId(end_offset, epoch)
        self._snapshots[snapshot] = content
        self.note_snapshot(snapshot, self.snapshot_chain(snapshot), is_own=is_own)

    def _on_snapshot_deleted(self, end_offset: int, epoch: int) -> None:
        self._snapshots.pop(SnapshotId(end_offset, epoch), None)

    def _on_high_watermark(self, offset: int) -> None:
        self.core.high_watermark = offset
        if offset != self.high_watermark:
            self.note_high_watermark()

    def _on_committed(self, end_offset: int) -> None:
        self.note_committed(end_offset)

    def _on_loaded(self, end_offset: int, epoch: int) -> None:
        if end_offset:  # The bootstrap checkpoint is no state of a state machine.
            self.hooks.snapshot_loaded(self, SnapshotId(end_offset, epoch))

    def _on_leader(self, epoch: int, leader_id: int) -> None:
        self.note_leader(epoch, leader_id)

    def _on_sent(self, correlation: int, port: int, key: int, version: int, body: bytes) -> None:
        if version < 0:
            self.world.scheduler.will_fail(self, correlation, True)
            return
        request = self.profile.decode_request(key, version, body)
        self.note_ask(request)
        target = self.world.ports.get(port, -1)
        if target < 0:
            self.world.scheduler.will_fail(self, correlation, False)
            return
        self.ask(correlation, target, request, key, version, body)

    def _on_answered(self, token: int, body: bytes) -> None:
        request, message = self.answering[token]
        if request.__class__ is Fetch:
            self.answer(token, UNREAD, body)
        else:
            self.answer(token, self.profile.decode_reply(request, message.version, body), body)

    def _on_dropped(self, token: int, reason: str) -> None:
        """The connection is closed: the peer learns that at once."""
        _, message = self.answering.pop(token)
        source = self.world.replicas.get(message.source)
        if source is not None and source.incarnation == message.incarnation:
            self.world.scheduler.will_fail(source, message.correlation, False)

    def _on_took(self, append_id: int, base_offset: int, last_offset: int) -> None:
        self.world.appends.took(append_id, base_offset, last_offset + 1)

    def _on_refused(self, append_id: int, reason: str) -> None:
        self.world.appends.refuse(append_id)

    def _on_nothing(self, *values: Any) -> None:
        """Of no concern to the simulator, or read elsewhere."""


def _as_effects(events: list[Event]) -> Iterator[fx.Effect]:
    """Yield what the invariants of a vote look at: what was stored, and the answers."""
    for name, values in events:
        if name == "persisted":
            yield fx.PersistElection(election_of(*values), 0, ())
        elif name == "answered":
            yield fx.Answer(values[0], Reply())


HANDLERS: dict[str, Any] = {
    layout.name: getattr(HarnessReplica, f"_on_{layout.name}", HarnessReplica._on_nothing)
    for layout in PROTOCOL.events
} | {"voters": HarnessReplica._on_nothing}
