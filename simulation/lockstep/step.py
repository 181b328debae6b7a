"""One step of both: what each told, made comparable, and where they differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kraftspec.generated.kafka import ApiVersionsRequest, VotersRecord
from kraftspec.reference.raft.messages import Request
from kraftspec.simulation.harness.node import UP
from kraftspec.simulation.harness.protocol import PROTOCOL, Event
from kraftspec.simulation.harness.shown import ROLES
from kraftspec.simulation.network import Message

STATE_FIELDS: Final = tuple(
    name for layout in PROTOCOL.events if layout.name == "state" for name, _, _ in layout.fields
)
# How far the disk is synced is told by `flushed`. A deadline is when to be called again: one that
# means something shows in what the tick does, and both get the tick of either.
NOT_COMPARED: Final = ("deadline_us", "durable_end")
# Of these the last of a step says all.
_LAST: Final = frozenset({"flushed", "committed", "truncated", "high_watermark", "start_moved"})
# Texts for people; `recovered` and `state` are looked at elsewhere; our log deletes the snapshots
# before its start without telling.
_IGNORED: Final = frozenset({"note", "recovered", "state", "snapshot_deleted"})
# What opening a disk may do, which ours does before it says what it read.
_OF_OPENING: Final = frozenset({"reset", "start_moved", "snapshot_stored"})
# Events with a text for people behind what is compared.
_WITH_TEXT: Final = frozenset({"refused", "dropped"})


class Sent(NamedTuple):
    """A request that left, without its number."""

    port: int
    api_key: int
    version: int
    body: bytes


class Side:
    """What one of the two did in a step.

    ``told`` is what happened, by the name of the event, in order where the order says something;
    ``sent`` has the requests with their numbers.
    """

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.state: dict[str, Any] = dict(zip(STATE_FIELDS, events[-1][1], strict=True))
        self.sent: list[tuple[Sent, int]] = []
        told: dict[str, Any] = {}
        self.told = told
        for name, values in events:
            if name in _IGNORED:
                continue
            if name == "sent":
                number, port, api_key, version, body = values
                if api_key == ApiVersionsRequest.API_KEY:  # It says which program asks.
                    body = b""
                self.sent.append((Sent(port, api_key, version, body), number))
            elif name == "appended":
                as_leader, data = values
                told[name] = (as_leader, told[name][1] + data if name in told else data)
            elif name in _LAST:
                told[name] = values
            elif name == "voters":
                voters = VotersRecord.decode(values[1], 0).voters
                told[name] = (values[0], sorted(voters, key=lambda voter: voter.voter_id))
            elif name == "fatal":
                told[name] = True
            elif name == "upgraded":
                told[name] = (values[0], not values[1])
            elif name in _WITH_TEXT:
                told.setdefault(name, []).append(values[:1])
            else:
                told.setdefault(name, []).append(values)
        if self.sent:
            self.sent.sort()
            told["sent"] = [sent for sent, _ in self.sent]
        if "answered" in told:
            told["answered"].sort()

    @property
    def is_up(self) -> bool:
        """Whether it is up after the step."""
        return bool(self.state["status"] == UP)

    @property
    def role(self) -> str:
        """Its role after the step."""
        return str(ROLES[self.state["role"]])

    def texts(self) -> list[str]:
        """Return what it says for people."""
        return [
            str(values[-1])
            for name, values in self.events
            if name in ("note", "fatal", "dropped", "refused")
        ]


class Step(NamedTuple):
    """A command, and what both made of it.

    ``before`` is the state of the driver before it, empty at a start. ``rejected_ms`` is how long
    ago an answer told this node nothing that it could use, ``voters`` how many voters it knows of,
    and ``unanswered`` has the requests that it has not answered, by token. ``is_overdue``: the
    request of a reply had timed out; ``is_silent``: the leader has not answered for the fetch
    time-out; ``is_leaving``: the node was told to shut down. ``timeout_ms`` is its request
    time-out.
    """

    node: int
    now_us: int
    command: str
    values: tuple[Any, ...]
    before: dict[str, Any]
    ours: Side
    kafkas: Side
    rejected_ms: int
    voters: int
    unanswered: Mapping[int, tuple[Request, Message]]
    is_overdue: bool = False
    is_silent: bool = False
    is_leaving: bool = False
    timeout_ms: int = 2_000

    @property
    def role_before(self) -> str:
        """The role in which the node got it; empty at a start."""
        return str(ROLES[self.before["role"]]) if self.before else ""

    @property
    def is_empty(self) -> bool:
        """Whether it is a tick that neither did anything in."""
        return self.command == "tick" and not self.ours.told and not self.kafkas.told

    def differences(self) -> dict[str, tuple[Any, Any]]:
        """Return what differs: the name of an event, or state.FIELD → ours, Kafka's."""
        ours, kafkas = self.ours, self.kafkas
        differences: dict[str, tuple[Any, Any]] = {}
        if ours.told != kafkas.told:
            for name in sorted(ours.told.keys() | kafkas.told.keys()):
                if self.command != "start" or name not in _OF_OPENING:
                    _note(differences, name, ours.told.get(name), kafkas.told.get(name))
        if ours.state != kafkas.state:
            # Of a node that is down only that it is down; what its disk has shows when it starts.
            names = STATE_FIELDS if ours.is_up or kafkas.is_up else ("status",)
            for name in names:
                if name not in NOT_COMPARED:
                    _note(differences, f"state.{name}", ours.state[name], kafkas.state[name])
        return differences


def _note(differences: dict[str, tuple[Any, Any]], name: str, ours: Any, kafkas: Any) -> None:
    if ours != kafkas:
        differences[name] = (ours, kafkas)


Judge = Callable[[Step, bool], bool]
