"""What reached each node in a minimised run, as calls of the class ``Node`` in Java."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from kraftspec.generated.api_keys import ApiKey
from kraftspec.reference.raft.profile import Profile
from kraftspec.simulation.harness.cores import Core, process_of
from kraftspec.simulation.harness.process import Exchange
from kraftspec.simulation.harness.protocol import PROTOCOL
from kraftspec.simulation.java_example.literals import (
    batch_literals,
    decoded,
    listed,
    message_literal,
    uuid_literal,
)
from kraftspec.simulation.minimise import Minimal
from kraftspec.simulation.trace_text import Event as TraceEvent
from kraftspec.simulation.trace_text import trace_events

# Commands of the simulator that change nothing.
_SILENT: Final = ("read", "forget")
_ANSWERS: Final = ("reply", "fail")  # Of a request that waits no more they change nothing.
INT32_MAX: Final = (1 << 31) - 1
_FAULTS: Final = ("NONE", "ONE_FAILS", "FULL", "POWER_GOES")
_FIELDS: Final = {
    layout.name: tuple(name for name, *_ in layout.fields) for layout in PROTOCOL.commands
}


class Call(NamedTuple):
    """A call in the sequence, which may be one that ``makes`` a node."""

    node: int
    java: str
    makes: bool = False


class Step(NamedTuple):
    """An event of the trace in words, and the calls that it is."""

    words: str
    calls: tuple[Call, ...]


def steps_of(minimal: Minimal, profile: Profile, cores: Sequence[Core], kafka: Core) -> list[Step]:
    """Carry a minimised run out again, and return what reached the nodes of one core."""
    process = process_of(kafka)
    record: list[Exchange] = []
    steps = []
    writer = _Writer()

    def told(event: TraceEvent) -> None:
        calls = [call for exchange in record for call in writer.calls(exchange)]
        steps.append(Step(f"Node {event.node}: {event.what}.", tuple(calls)))
        record.clear()

    process.record = record
    try:
        trace_events(minimal.seed, minimal.swarm, profile, minimal.decisions, cores, told=told)
    finally:
        process.record = None
    return steps


class _Writer:
    """Writes commands as Java, and knows which requests of each node wait for a reply."""

    def __init__(self) -> None:
        self._waiting: dict[int, dict[int, tuple[int, int]]] = {}  # Correlation → peer, API.
        self._port_base = 0

    def calls(self, exchange: Exchange) -> Iterator[Call]:
        """Yield what a command is in Java."""
        _, node, (name, values) = exchange.command
        if name == "start":
            self._waiting[node] = {}
        if name not in _SILENT and not (name in _ANSWERS and values[1] not in self._waiting[node]):
            fields = dict(zip(_FIELDS[name], values, strict=True))
            java = getattr(self, f"_{name}", self._by_name)(name, node, fields)
            yield Call(node, java, makes=name == "define")
        for event, values in exchange.events:
            if event == "sent":
                correlation, port, api_key, *_ = values
                self._waiting[node][correlation] = (port - self._port_base, api_key)

    def _by_name(self, name: str, node: int, fields: dict[str, Any]) -> str:
        """Most commands have a method whose parameters are their fields."""
        values = [_scalar(value) for value in fields.values()]
        return _call(node, _METHODS[name], values)

    def _define(self, _: str, node: int, fields: dict[str, Any]) -> str:
        self._port_base = fields["port_base"]
        *most, last = [(_camel(name), _setting(value)) for name, value in fields.items()]
        lines = [f"    {text}, // {name}" for name, text in most]
        lines.append(f"    {last[1]})); // {last[0]}")
        return "\n".join([f"node{node} = new Node({node}, PROPERTY, new NodeSettings(", *lines])

    def _install(self, _: str, node: int, fields: dict[str, Any]) -> str:
        content = listed("Batches.joined", batch_literals(bytes(fields["content"])))
        return _call(node, "install", [str(fields["end_offset"]), str(fields["epoch"]), content])

    def _cap(self, _: str, node: int, fields: dict[str, Any]) -> str:
        api = f"ApiKeys.{ApiKey(fields['api_key']).name}"
        return _call(node, "cap", [str(fields["peer"]), api, str(fields["max_version"])])

    def _request(self, _: str, node: int, fields: dict[str, Any]) -> str:
        message = decoded(
            fields["api_key"], fields["version"], bytes(fields["body"]), is_reply=False
        )
        values = [_scalar(fields["now_us"]), str(fields["version"]), message_literal(message)]
        return _call(node, "receive", values)

    def _reply(self, _: str, node: int, fields: dict[str, Any]) -> str:
        peer, _api = self._waiting[node].pop(fields["correlation"])
        message = decoded(
            fields["api_key"], fields["version"], bytes(fields["body"]), is_reply=True
        )
        values = [_scalar(fields["now_us"]), str(peer), message_literal(message)]
        return _call(node, "receiveReply", values)

    def _fail(self, _: str, node: int, fields: dict[str, Any]) -> str:
        peer, api = self._waiting[node].pop(fields["correlation"])
        values = [
            _scalar(fields["now_us"]), str(peer), f"ApiKeys.{ApiKey(api).name}",
            _scalar(fields["is_unsupported"]),
        ]  # fmt: skip
        return _call(node, "failRequest", values)

    def _append(self, _: str, node: int, fields: dict[str, Any]) -> str:
        values = [f'"record {at}"' for at, _value in enumerate(fields["records"])]
        return _call(node, "append", [_scalar(fields["now_us"]), str(fields["epoch"]), *values])

    def _snapshot(self, _: str, node: int, fields: dict[str, Any]) -> str:
        names = ("now_us", "end_offset", "epoch")
        return _call(node, "snapshot", [_scalar(fields[name]) for name in names])

    def _disk_fault(self, _: str, node: int, fields: dict[str, Any]) -> str:
        fault = f"Faults.{_FAULTS[fields['fault']]}"
        return _call(node, "failDisk", [fault, str(fields["operations"])])

    def _shutdown(self, _: str, node: int, fields: dict[str, Any]) -> str:
        timeout_ms = -(-fields["timeout_us"] // 1000)
        return _call(node, "shutDown", [_scalar(fields["now_us"]), str(timeout_ms)])


_METHODS: Final = {
    "start": "start", "tick": "tick", "clean": "clean", "resign": "resign", "upgrade": "upgrade",
    "power_after": "losePowerAfter", "kill": "kill",
    "power_loss": "losePower",
}  # fmt: skip


def _call(node: int, method: str, values: Sequence[str]) -> str:
    return listed(f"node{node}.{method}", values) + ";"


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = f"{value:_}"
    return f"{text}L" if abs(value) > INT32_MAX else text


def _setting(value: Any) -> str:
    if isinstance(value, (bool, int)):
        return _scalar(value)
    if isinstance(value, bytes):
        return uuid_literal(value)
    if isinstance(value, str):
        return f'"{value}"'
    return listed("List.of", [str(one) for one in value])
