"""A trace as text: each event, its node, and what it changed.

A witness listens to the same hooks as the invariants do, while the decisions are carried out again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kraftspec.fastpath.errors import CodecError
from kraftspec.reference.raft import ElectionState, RoleName, SnapshotId
from kraftspec.reference.raft.messages import Request
from kraftspec.reference.raft.types import NEVER_US
from kraftspec.simulation.clients import OPERATOR
from kraftspec.simulation.committed_log import Violation
from kraftspec.simulation.decisions import WORDS
from kraftspec.simulation.harness.cores import Core, RunCores
from kraftspec.simulation.invariants import Invariant
from kraftspec.simulation.replay import Replay
from kraftspec.simulation.swarm import Swarm
from kraftspec.simulation.world import (
    APPEND,
    ASK,
    BOUNDARY,
    CRASH,
    CUT,
    JUMP,
    STOP,
    Decision,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kraftspec.reference.raft.profile import Profile
    from kraftspec.simulation.log_model import LogModel
    from kraftspec.simulation.network import Message
    from kraftspec.simulation.replica import Replica

# What a reader wants to know of a message; the rest says who it is from, or repeats itself.
_FIELDS = (
    "epoch", "leader_epoch", "leader_id", "pre_vote", "vote_granted", "last_epoch", "end_offset",
    "fetch_offset", "last_fetched_epoch", "high_watermark", "diverging_epoch",
    "diverging_end_offset", "snapshot_end_offset", "snapshot_epoch", "position", "voter_id",
    "error", "top_error",
)  # fmt: skip


class Event(msgspec.Struct, kw_only=True):
    """An event of a trace. ``sent_by`` is the index of the event whose message it is, or -1."""

    index: int
    at_us: int
    node: int
    what: str
    changes: list[str]
    role: str
    epoch: int
    sent_by: int = -1


class Witness(Invariant):
    """Notes what changes; it never fails."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def role_changed(self, replica: Replica, old: RoleName | None, new: RoleName) -> None:
        """A role."""
        self.notes.append(f"is {new} of epoch {replica.core.epoch}")

    def persisted(self, replica: Replica, state: ElectionState) -> None:
        """A vote, a leader, an epoch."""
        voted = f", voted for {state.voted.id}" if state.voted is not None else ""
        led = f", leader {state.leader_id}" if state.leader_id >= 0 else ""
        self.notes.append(f"stores epoch {state.epoch}{led}{voted}")

    def appended(self, replica: Replica, first: int) -> None:
        """Batches."""
        log_model = replica.log_model
        self.notes.append(f"log to {log_model.end_offset}, epoch {log_model.last_epoch}")

    def truncating(self, replica: Replica, end_offset: int) -> None:
        """A cut."""
        self.notes.append(f"cuts its log at {end_offset}")

    def flushed(self, replica: Replica) -> None:
        """A sync."""
        self.notes.append(f"durable to {replica.durable_end}")

    def disk_failed(self, replica: Replica, what: str) -> None:
        """A fault of a disk."""
        self.notes.append(what)

    def high_watermark_changed(self, replica: Replica, old: int, new: int) -> None:
        """What is committed."""
        self.notes.append(f"high watermark {new}")

    def snapshot_stored(self, replica: Replica, snapshot: SnapshotId, chain: int) -> None:
        """A snapshot."""
        self.notes.append(f"has snapshot {snapshot.end_offset}-{snapshot.epoch}")

    def log_reset(self, replica: Replica, snapshot: SnapshotId) -> None:
        """A log replaced."""
        self.notes.append(f"log starts anew at {snapshot.end_offset}")

    def log_start_changed(self, replica: Replica) -> None:
        """A log shortened."""
        self.notes.append(f"log starts at {replica.log_model.start_offset}")

    def started(self, replica: Replica, before: LogModel | None) -> None:
        """A recovery."""
        self.notes.append(f"recovers a log of {replica.log_model.end_offset}")


class _TextReplay(Replay):
    """A replay that describes each event."""

    def __init__(
        self,
        seed: int,
        swarm: Swarm,
        profile: Profile,
        cores: Sequence[Core] | RunCores = (),
        is_judged: bool = True,
    ) -> None:
        self.witness = Witness()
        self.sent_requests: dict[tuple[int, int, int], Request] = {}
        super().__init__(
            seed, swarm, profile, extra=[self.witness], cores=cores, is_judged=is_judged
        )

    def sent(self, message: Message) -> None:
        """Remember the request, so that the response can be decoded."""
        if not message.is_reply and message.source != OPERATOR:
            replica = self.world.replicas[message.source]
            key = (message.source, message.incarnation, message.correlation)
            self.sent_requests[key] = replica.sent_requests[message.correlation][0]
        super().sent(message)

    def message_text(self, message: Message) -> str:
        """Return a message as text."""
        try:
            return f"{self._read(message)} from {_node_text(message.source)}"
        except CodecError as error:  # Only the receiver reads a Fetch's answer.
            return f"bytes of {_node_text(message.source)} that are no message: {error}"

    def _read(self, message: Message) -> str:
        profile = self.world.profile
        if not message.is_reply:
            value: Any = profile.decode_request(message.api_key, message.version, message.body)
            return f"{type(value).__name__}({_fields(value)})"
        request = self.sent_requests.get((message.target, message.incarnation, message.correlation))
        if request is None:
            return "an answer"
        value = profile.decode_reply(request, message.version, message.body)
        batches = getattr(value, "batches", ())
        records = (
            f", offsets {batches[0].base_offset} to {batches[-1].last_offset}" if batches else ""
        )
        return f"{type(value).__name__}({_fields(value)}{records})"


def _node_text(node: int) -> str:
    return "the operator" if node == OPERATOR else f"node {node}"


def _fields(value: Any) -> str:
    parts = []
    for name in _FIELDS:
        field = getattr(value, name, None)
        is_error = name.endswith("error")
        unsaid = (0,) if is_error else (-1, NEVER_US)  # NEVER_US: the default of Fetch 18's.
        if field is None or field is False or field in unsaid:
            continue
        parts.append(f"{name}={int(field) if is_error else field}")
    return ", ".join(parts)


def trace_events(
    seed: int,
    swarm: Swarm,
    profile: Profile,
    decisions: Sequence[Decision],
    cores: Sequence[Core] | RunCores = (),
    told: Callable[[Event], None] | None = None,
    *,
    is_judged: bool = True,
) -> tuple[list[Event], Violation | None]:
    """Carry decisions out again and return them as events, with the violation that ends them.

    ``told`` is told of each event when it has happened.
    """
    replay = _TextReplay(seed, swarm, profile, cores, is_judged)
    events: list[Event] = []
    violation = None
    for decision in decisions:
        before = len(replay.applied)
        arrived = len(replay.arrivals)
        replay.witness.notes = []
        violation = replay.run([decision])
        if len(replay.applied) > before:
            message = replay.arrivals[-1][1] if len(replay.arrivals) > arrived else None
            events.append(_event(replay, decision, before, message))
            if told is not None:
                told(events[-1])
        if violation is not None:
            break
    return events, violation


def _event(replay: _TextReplay, decision: Decision, index: int, message: Message | None) -> Event:
    replica = replay.world.replicas[decision.node]
    sent_by = -1
    if message is None:
        what = f"{WORDS[decision.kind]}{_detail(replay, decision)}"
    else:
        what = f"receives {replay.message_text(message)}"
        sent_by = next(at for at, one in replay.departures if one is message)
    return Event(
        index=index, at_us=replay.world.now_us, node=decision.node, what=what,
        changes=replay.witness.notes, role=str(replica.role) if replica.is_up else "down",
        epoch=replica.epoch, sent_by=sent_by,
    )  # fmt: skip


def _detail(replay: _TextReplay, decision: Decision) -> str:
    detail = decision.detail
    if decision.kind == APPEND:
        return f" {detail[0]} records"
    if decision.kind == CRASH:
        return "" if detail[0] is None else ", without power"
    if decision.kind == ASK:
        api_key, version, body = detail
        profile = replay.world.profile
        request = profile.decode_request(api_key, version, bytes.fromhex(body))
        return f": {type(request).__name__}({_fields(request)})"
    if decision.kind == JUMP:
        return f" by {detail[0] // 1000} ms"
    if decision.kind == BOUNDARY:
        return f" after {detail[0]} effects"
    if decision.kind == CUT:
        return f", number {detail[0]} from now on"
    if decision.kind == STOP and detail[0] < 0:
        return " no more: it resigns"
    return ""


def event_text(event: Event) -> str:
    """Return an event as a line: number, simulated time, node, what happened → what changed."""
    changes = f" → {'; '.join(event.changes)}" if event.changes else ""
    return f"{event.index:4}  {event.at_us / 1e6:10.3f} s  node {event.node} {event.what}{changes}"
