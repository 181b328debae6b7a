"""What is sent and what is expected: messages by field name, values by the state of the node.

A field is named by its path, of which the beginning may be left out: ``partitions.errorCode``. A
number may be a sum of what is known of the node: ``epoch + 1``. A uuid may be a number: the
directory id of that node; 0 is none. Of bytes and records a condition is about their size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from kraftspec.conformance.making.exchanges import requests as rq
from kraftspec.fastpath.crc import crc32c
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.generated import kafka
from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import (
    BeginQuorumEpochResponse,
    EndQuorumEpochResponse,
    RequestHeader,
)
from kraftspec.proxy.paths import PathError, misfit, parse, places
from kraftspec.reference.profiles.common.translation import TOPIC
from kraftspec.reference.wire.frames import peek_request, read_request_head
from kraftspec.words import alike

NODE = rq.ME
NAMES = ("epoch", "end", "last_epoch")
SUMMANDS = dict.fromkeys((*NAMES, *(f"port_{node}" for node in (NODE, 2, 3, 4))), 0)
TIMEOUTS = ("election", "fetch", "request")
CRC_FROM = 21  # Of a batch: the CRC is of all from here on, and stands before it.
CRC_BYTES = 4
_TERM = re.compile(
    r"\s*(?P<sign>[+-]?)\s*(?:(?P<times>\d+(?:\.\d+)?)\s*\*\s*)?(?P<name>[a-z][a-z_]*\d*|\d+)\s*"
)

Known = Mapping[str, int]  # epoch, end and last_epoch of the node.
Ports = Mapping[int, int]

REQUESTS = {
    name: getattr(kafka, f"{name}Request")
    for name in (
        "AddRaftVoter", "ApiVersions", "BeginQuorumEpoch", "DescribeQuorum", "EndQuorumEpoch",
        "Fetch", "FetchSnapshot", "RemoveRaftVoter", "UpdateRaftVoter", "Vote",
    )
}  # fmt: skip
RESPONSES = {name: getattr(kafka, f"{name}Response") for name in REQUESTS}
# Requests that name the directory of their receiver.
KEYED = (kafka.VoteRequest.API_KEY, kafka.BeginQuorumEpochRequest.API_KEY)
API_NAMES = {message.API_KEY: name for name, message in REQUESTS.items()}


class MessageError(ValueError):
    """A path, a value or a condition that cannot be."""


# ---- messages that are valid -------------------------------------------------------------------


def request_of(api: str, version: int, sender: int, known: Known, ports: Ports) -> Message:
    """Return a valid request of a peer: what it sends next, as far as the runner knows the node."""
    epoch, end, last = (known[name] for name in NAMES)
    make: dict[str, Callable[[], Message]] = {
        "AddRaftVoter": lambda: rq.add_voter(version),
        "ApiVersions": lambda: rq.api_versions(version),
        "BeginQuorumEpoch": lambda: rq.begin_epoch(version, epoch + 1, leader=sender),
        "DescribeQuorum": rq.describe_quorum,
        "EndQuorumEpoch": lambda: rq.end_epoch(version, epoch, leader=sender),
        "Fetch": lambda: rq.fetch(version, epoch, end, last_epoch=last, sender=sender),
        "FetchSnapshot": lambda: rq.fetch_snapshot(version, epoch, (end, last), sender=sender),
        "RemoveRaftVoter": rq.remove_voter,
        "UpdateRaftVoter": lambda: rq.update_voter(epoch, sender),
        "Vote": lambda: rq.vote(version, epoch + 1, last=(last, end), sender=sender),
    }
    return _with_ports(make[api](), ports)


def response_of(api: str, request: Any, peer: int, known: Known, ports: Ports) -> Any:
    """Return a plain answer of a peer to a request of the node."""
    epoch = known["epoch"]
    if api == "Vote":
        partition = request.topics[0].partitions[0]
        return rq.vote_answer(partition.replica_epoch, granted=True)
    if api == "Fetch":
        return _with_ports(rq.fetch_answer(epoch, peer, known["end"]), ports)
    kind: Any = {
        "BeginQuorumEpoch": BeginQuorumEpochResponse, "EndQuorumEpoch": EndQuorumEpochResponse,
    }.get(api)  # fmt: skip
    if kind is None:
        raise MessageError(f"the runner answers no {api}")
    data = kind.PartitionData(partition_index=0, leader_id=NODE, leader_epoch=epoch)
    return kind(topics=[kind.TopicData(topic_name=TOPIC, partitions=[data])])


def learn(message: Message, known: dict[str, int]) -> None:
    """Take what a message of the node tells of its epoch and of its log."""
    topics: Any = getattr(message, "topics", None) or getattr(message, "responses", ())
    for topic in topics:
        for part in getattr(topic, "partitions", ()):
            for name in ("replica_epoch", "current_leader_epoch", "leader_epoch"):
                if hasattr(part, name):  # Threads take messages: an older one may come later.
                    known["epoch"] = max(known["epoch"], getattr(part, name))
            leader = getattr(part, "current_leader", None)
            if leader is not None:
                known["epoch"] = max(known["epoch"], leader.leader_epoch)
            if hasattr(part, "last_offset_epoch"):
                known["last_epoch"] = part.last_offset_epoch
                known["end"] = part.last_offset
            elif hasattr(part, "last_fetched_epoch") and hasattr(part, "fetch_offset"):
                known["last_epoch"] = part.last_fetched_epoch
                known["end"] = part.fetch_offset


def recorded_request(frame: bytes, ports: Ports, *, static: bool) -> bytes:
    """Return a recorded request with the ports of this run; what cannot be read stays.

    A static voter is formatted with a directory id that nobody chose: it is left out.
    """
    try:
        key, version, _ = peek_request(frame)
        message = REQUESTS[API_NAMES[key]]
        body_at = read_request_head(frame, message).body_at
        read = message.decode(frame[body_at:], version, copy=True)
    except (CodecError, KeyError, ValueError):
        return frame
    if static and key in KEYED:
        forget_directory(read, rq.directory_id(NODE))
    return frame[:body_at] + _with_ports(read, ports).encode(version)


def forget_directory(request: Any, directory: Uuid | None = None) -> None:
    """Leave out to which directory of a voter a request goes; only if it is this one."""
    for topic in request.topics:
        for part in topic.partitions:
            if directory in (None, part.voter_directory_id):
                part.voter_directory_id = ZERO_UUID


def recorded_response(api: str, version: int, body: bytes, ports: Ports) -> Message:
    """Return a recorded answer of a peer with the ports of this run."""
    return _with_ports(RESPONSES[api].decode(body, version, copy=True), ports)


def recorded_batch(batch: bytes, ports: Ports) -> bytes:
    """Return a recorded batch, in which voters listen at the ports of this run."""
    host = bytes([len(rq.HOST) + 1]) + rq.HOST.encode()
    for node, port in ports.items():
        recorded = host + rq.port_of(node).to_bytes(2, "big")
        batch = batch.replace(recorded, host + port.to_bytes(2, "big"))
    crc = crc32c(batch[CRC_FROM:]).to_bytes(CRC_BYTES, "big")
    return batch[: CRC_FROM - CRC_BYTES] + crc + batch[CRC_FROM:]


def _with_ports(message: Message, ports: Ports) -> Message:
    """Put the ports of this run in the place of those of recorded vectors."""
    fixed = {rq.port_of(node): port for node, port in ports.items()}
    for name in ("leader_endpoints", "listeners", "node_endpoints"):
        for endpoint in getattr(message, name, ()):
            endpoint.port = fixed.get(endpoint.port, endpoint.port)
    return message


def header_of(api: str, version: int, correlation_id: int, changes: Mapping[str, Any]) -> bytes:
    """Return a request's header with changes."""
    message = REQUESTS[api]
    header = RequestHeader(
        request_api_key=message.API_KEY,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=rq.CLIENT_ID,
    )
    head_version = message.header_version(version if version in message.VALID_VERSIONS else 0)
    for name, value in changes.items():
        setattr(header, _HEADER[name], value)
    return header.encode(head_version)


_HEADER = {
    "requestApiKey": "request_api_key",
    "requestApiVersion": "request_api_version",
    "correlationId": "correlation_id",
    "clientId": "client_id",
}


def check_header(name: str, value: Any) -> str:
    """Return what is wrong with a field of the header; empty where nothing is."""
    if name not in _HEADER:
        return f"the header has no field {name!r}{alike(name, _HEADER)}"
    if name == "clientId":
        return "" if value is None or isinstance(value, str) else "a text or null"
    return "" if isinstance(value, int) and not isinstance(value, bool) else "a number"


# ---- paths -------------------------------------------------------------------------------------


def resolve(api: str, direction: str, path: str) -> str:
    """Return the whole path that ends with these steps; the shortest, if there are several."""
    try:
        wanted = [step.name for step in parse(path)]
    except PathError as error:
        raise MessageError(str(error)) from error
    message = (REQUESTS if direction == "request" else RESPONSES)[api]
    matches = sorted(
        (one for one in _paths(message) if one[-len(wanted) :] == tuple(wanted)), key=len
    )
    if not matches:
        names = {one[-1] for one in _paths(message)}
        raise MessageError(f"{message.__name__} has no field {path!r}{alike(wanted[-1], names)}")
    if len(matches) > 1 and len(matches[0]) == len(matches[1]):
        raise MessageError(f"{path!r} is {' or '.join('.'.join(one) for one in matches)}")
    return ".".join([*matches[0][: -len(wanted)], path])


@cache
def _paths(message: type[Message]) -> tuple[tuple[str, ...], ...]:
    codec = message.CODEC
    paths: dict[tuple[str, ...], None] = {}
    for version in message.VALID_VERSIONS:
        paths |= dict.fromkeys(_below(codec, codec.layout(version), ()))
    return tuple(paths)


def _below(codec: Any, layout: Any, before: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    fields = [(field[0], field[4]) for field in layout[2]]
    fields += [(field[1], field[5]) for field in layout[3]]
    for name, element in fields:
        yield (*before, name)
        if isinstance(element, int):
            yield from _below(codec, codec.layouts[element], (*before, name))


# ---- values and conditions ---------------------------------------------------------------------


def evaluate(text: str, names: Mapping[str, int]) -> float:
    """Return the value of a sum: ``epoch + 1``, ``2*election + fetch``."""
    total, at = 0.0, 0
    while at < len(text) or not text:
        match = _TERM.match(text, at)
        if match is None or (at and not match["sign"]):
            raise MessageError(f"{text!r} is not a sum such as {next(iter(names))} + 1")
        name = match["name"]
        if not name.isdecimal() and name not in names:
            raise MessageError(f"there is no {name!r}: {', '.join(names)}")
        value = int(name) if name.isdecimal() else names[name]
        total += float(match["times"] or 1) * value * (-1 if match["sign"] == "-" else 1)
        at = match.end()
    return total


def set_fields(
    message: Message,
    version: int,
    api: str,
    direction: str,
    fields: Mapping[str, Any],
    known: Known,
) -> None:
    """Set fields of a message. Raises MessageError where the version lacks one."""
    for path, value in fields.items():
        whole = resolve(api, direction, path)
        matches = list(places(message, version, parse(whole)))
        if not matches:
            raise MessageError(f"{type(message).__name__} v{version} has no {whole} here")
        for place in matches:
            place.put(_value(whole, place.wire, value, known))


def _value(path: str, wire: str, value: Any, known: Known) -> Any:
    if wire == "uuid" and isinstance(value, int):
        return str(rq.directory_id(value))
    if path.endswith("errorCode") and isinstance(value, str):
        return int(ErrorCode[value])
    if wire.startswith(("int", "uint")) and isinstance(value, str):
        return int(evaluate(value, known))
    return value


def check_value(api: str, direction: str, path: str, value: Any) -> None:
    """Raise MessageError for a value that no field of that name has."""
    if path.endswith("errorCode") and isinstance(value, str):
        if value not in ErrorCode.__members__:
            raise MessageError(f"there is no error {value!r}{alike(value, ErrorCode.__members__)}")
        return
    message = (REQUESTS if direction == "request" else RESPONSES)[api]
    wanted = misfit(message, parse(path), value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if wanted is None or (is_number and wanted in ("a uuid", "base64")):  # Of a node; a size.
        return
    if not (isinstance(value, str) and wanted.startswith("of type")):
        raise MessageError(f"{value!r} is not {wanted}")
    evaluate(value, SUMMANDS)


def check_condition(api: str, direction: str, path: str, condition: Any) -> None:
    """Raise MessageError for a condition that no field of that name can meet."""
    if isinstance(condition, list):
        for one in condition:
            check_condition(api, direction, path, one)
    elif not isinstance(condition, dict):
        check_value(api, direction, path, condition)
    elif not condition or not set(condition) <= {"min", "max", "not", "none"}:
        raise MessageError("min, max, not and none are what a condition may have")
    else:
        for name, value in condition.items():
            if name in ("min", "max"):
                evaluate(str(value), SUMMANDS)
            else:
                check_condition(api, direction, path, value)


def check_duration(text: str) -> None:
    """Raise MessageError for what is neither a sum of time-outs nor a number of milliseconds."""
    evaluate(text, dict.fromkeys(TIMEOUTS, 1))
    numbers = [match["name"] for match in _TERM.finditer(text) if match["name"].isdecimal()]
    if numbers and text.strip() != numbers[0]:
        raise MessageError(
            f"{text!r} has {numbers[0]} milliseconds in a sum: its terms are time-outs, such as "
            "0.5*election"
        )


def mismatch(
    message: Message,
    version: int,
    api: str,
    direction: str,
    conditions: Mapping[str, Any],
    known: Known,
) -> str:
    """Return how a message differs from conditions; empty where it agrees with all."""
    for path, condition in conditions.items():
        whole = resolve(api, direction, path)
        matches = list(places(message, version, parse(whole)))
        values = [place.value for place in matches]
        wanted, is_due = condition, True
        if isinstance(condition, dict) and "none" in condition:
            wanted, is_due = condition["none"], False
        agrees = any(_agrees(whole, place.wire, place.value, wanted, known) for place in matches)
        if agrees != is_due:
            shown = ", ".join(_shown(whole, value) for value in values) or "not there"
            return f"{path} is {shown}, not {_condition_text(condition, known)}"
    return ""


def _agrees(path: str, wire: str, value: Any, condition: Any, known: Known) -> bool:
    if wire.endswith(("bytes", "records")) or _is_bytes(value):
        value = len(value or b"")
    if isinstance(condition, list):
        return any(_agrees(path, wire, value, one, known) for one in condition)
    if isinstance(condition, dict):
        least, most = condition.get("min"), condition.get("max")
        if "not" in condition and _agrees(path, wire, value, condition["not"], known):
            return False
        if least is not None and value < evaluate(str(least), known):
            return False
        return most is None or value <= evaluate(str(most), known)
    expected = _value(path, wire, condition, known)
    return bool((str(value) if isinstance(value, Uuid) else value) == expected)


def _is_bytes(value: Any) -> bool:
    return isinstance(value, bytes | bytearray | memoryview) and not isinstance(value, Uuid)


def _shown(path: str, value: Any) -> str:
    if path.endswith("errorCode"):
        return f"{ErrorCode(value).name} ({value})" if value in list(ErrorCode) else str(value)
    return repr(str(value)) if isinstance(value, Uuid | str) else repr(value)[:200]


def _condition_text(condition: Any, known: Known) -> str:
    values = ", ".join(f"{name} {known[name]}" for name in NAMES if name in str(condition))
    return f"{condition!r} ({values})" if values else repr(condition)
