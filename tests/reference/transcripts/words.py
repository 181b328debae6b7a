"""Messages, records and directories in words, and back: ``epoch=5 replica-id=2 pre-vote=true``.

A field is named as the core names it, with dashes, and without the unit: ``max-wait=500ms``. What
has its default is left out. ``d1`` is the directory of node 1, ``e1`` and so on are the ones that
it gets when its disk is replaced.
"""

from __future__ import annotations

import functools
import json
import sys
import typing
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.generated.errors import DraftErrorCode, ErrorCode
from kraftspec.reference.profiles.kip_595.assignment import Assignment
from kraftspec.reference.profiles.kip_595.messages import Connection
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.control import ControlRecord
from kraftspec.reference.raft.types import (
    Endpoint,
    Endpoints,
    ReplicaKey,
    SnapshotId,
    VersionRange,
    Voter,
)
from kraftspec.reference.raft.voters import VoterSet

if TYPE_CHECKING:
    from kraftspec.reference.raft.profile import Profile

CLUSTER_ID = "dHJhbnNjcmlwdHMtcXVvcg"
LISTENER = "CONTROLLER"
PORT_BASE = 9000
MAX_BYTES = 1 << 20  # What every fetch of ours asks for; not said.

_REPLIES_OF_NOBODY = (ms.AddVoterReply, ms.RemoveVoterReply, ms.ApiVersionsReply)  # No leader.
_OF_THE_SHELL = ("read_offset", "read_max_bytes", "apis", "refused", "refused_partitions")
_USUAL = ("max_bytes", MAX_BYTES)
_MS = 1000
_UNITS = {"us": 1, "ms": _MS, "s": 1_000_000}


def directory_of(node_id: int, generation: int = 0) -> Uuid:
    """Return the id of a node's directory, the ``generation``-th one that it has."""
    return Uuid(bytes([0xD0 + 0x10 * generation + node_id]) * 16)


def endpoints_of(node_id: int) -> Endpoints:
    """Return where a node listens."""
    return (Endpoint(LISTENER, "localhost", PORT_BASE + node_id),)


def directory_words(directory_id: bytes) -> str:
    """Return ``d1`` for the first directory of node 1, or the 22 characters of any other."""
    first = directory_id[0]
    if directory_id == bytes([first]) * 16 and first > 0xD0:
        return f"{'de'[(first >> 4) - 0xD]}{first & 0xF}" if first < 0xF0 else f"f{first & 0xF}"
    return "none" if directory_id == ZERO_UUID else str(Uuid(directory_id))


def read_directory(text: str) -> Uuid:
    """Read what ``directory_words`` wrote."""
    if text == "none":
        return ZERO_UUID
    if text[0] in "def" and text[1:].isdigit():
        return Uuid(bytes([(ord(text[0]) - ord("d") + 0xD) << 4 | int(text[1:])]) * 16)
    return Uuid(text)


def duration_us(text: str) -> int:
    """Read ``1500ms``, ``2s`` or ``10us``."""
    digits = text.rstrip("usm")
    return int(float(digits) * _UNITS[text[len(digits) :]])


def duration_words(duration: int) -> str:
    """Return whole milliseconds where that is exact."""
    return f"{duration // _MS}ms" if duration % _MS == 0 else f"{duration}us"


def key_words(key: ReplicaKey) -> str:
    """Return ``2/d2``, or ``2`` where no directory is known."""
    return f"{key.id}/{directory_words(key.directory_id)}" if any(key.directory_id) else f"{key.id}"


def read_key(text: str) -> ReplicaKey:
    """Read what ``key_words`` wrote."""
    node_id, _, directory = text.partition("/")
    return ReplicaKey(int(node_id), read_directory(directory) if directory else ZERO_UUID)


def endpoints_words(endpoints: Endpoints) -> str:
    """Return ``localhost:9001``, and with its name any listener but the controllers' own."""
    return (
        ",".join(
            (f"{e.name}://" if e.name != LISTENER else "") + f"{e.host}:{e.port}" for e in endpoints
        )
        or "none"
    )


def read_endpoints(text: str) -> Endpoints:
    """Read what ``endpoints_words`` wrote; a node's number stands for where it listens."""
    if text == "none":
        return ()
    if text.isdigit():
        return endpoints_of(int(text))
    endpoints = []
    for part in text.split(","):
        name, _, address = part.rpartition("://")
        host, _, port = address.rpartition(":")
        endpoints.append(Endpoint(name or LISTENER, host, int(port)))
    return tuple(endpoints)


def voters_words(voters: VoterSet) -> str:
    """Return ``1/d1,2/d2``; and with target voters ``1,2->2,3``."""
    ids = ",".join(key_words(voter.key) for voter in voters) or "none"
    targets = getattr(voters, "targets", None)
    return ids if targets is None else f"{ids}->{','.join(map(str, targets))}"


def read_assignment(text: str) -> Assignment:
    """Read ``1,2`` or ``1,2->2,3`` as what a VoterAssignmentMessage says."""
    current, arrow, targets = text.partition("->")
    return Assignment(CLUSTER_ID, read_ids(current), read_ids(targets) if arrow else None)


def read_ids(text: str) -> tuple[int, ...]:
    """Read ``1,2,3``; ``none`` are none."""
    return () if text == "none" else tuple(map(int, text.split(",")))


def connection_words(connection: Connection) -> str:
    """Return ``2@localhost:9002/boot=5``, or ``2`` where no address is known."""
    known = f"@{connection.host}:{connection.port}/boot={connection.boot_timestamp_ms}"
    return f"{connection.voter_id}{known if connection.host else ''}"


def read_connection(text: str) -> Connection:
    """Read what ``connection_words`` wrote."""
    voter_id, _, rest = text.partition("@")
    if not rest:
        return Connection(int(voter_id))
    address, _, boot = rest.partition("/boot=")
    host, _, port = address.rpartition(":")
    return Connection(int(voter_id), int(boot), host, int(port))


def error_name(code: int) -> str:
    """Return the name of an error code, a draft's own too."""
    return (ErrorCode if code in ErrorCode.__members__.values() else DraftErrorCode)(code).name


def read_voters(text: str) -> VoterSet:
    """Read voters that listen where their numbers say and speak kraft.version 0 to 1."""
    if text == "none":
        return VoterSet()
    keys = [read_key(part) for part in text.split(",")]
    return VoterSet(Voter(key, endpoints_of(key.id), VersionRange(0, 1)) for key in keys)


def snapshot_words(id: SnapshotId) -> str:
    """Return ``5-2``: end offset 5, epoch 2, as files are named."""
    return f"{id.end_offset}-{id.epoch}"


def read_snapshot(text: str) -> SnapshotId:
    """Read what ``snapshot_words`` wrote."""
    end_offset, _, epoch = text.partition("-")
    return SnapshotId(int(end_offset), int(epoch))


def _description_words(replica: ms.ReplicaDescription) -> str:
    becomes_voter = getattr(replica, "should_become_voter", False)
    at = "".join(f",{one.host}:{one.port}" for one in replica.endpoints) if becomes_voter else ""
    return (
        f"{key_words(replica.key)}:end={replica.end_offset},"
        f"fetched={replica.last_fetch_timestamp_ms},"
        f"caught-up={replica.last_caught_up_timestamp_ms}"
        + (f",should-become-voter{at}" if becomes_voter else "")
    )


def _value_words(name: str, value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case Uuid():
            return directory_words(value)
        case bytes() | memoryview():
            return f"{len(value)}-bytes"
        case VoterSet():
            return voters_words(value)
        case ReplicaKey():
            return key_words(value)
        case Connection():
            return connection_words(value)
        case tuple() if value and isinstance(value[0], Connection):
            return ",".join(map(connection_words, value))
        case Voter():
            return f"{key_words(value.key)} endpoints={endpoints_words(value.endpoints)}"
        case VersionRange():
            return f"{value.min}..{value.max}"
        case tuple() if value and isinstance(value[0], Endpoint):
            return endpoints_words(value)
        case tuple() if value and isinstance(value[0], ReplicaKey):
            return ",".join(map(key_words, value))
        case tuple() if value and isinstance(value[0], ms.ReplicaDescription):
            return " ".join(map(_description_words, value))
        case tuple() if value and isinstance(value[0], ms.Batch):
            return ",".join(f"{b.base_offset}..{b.last_offset}/{b.epoch}" for b in value)
        case tuple():
            return ",".join(map(str, value)) or "none"
        case str():
            return f'"{value}"'
    return duration_words(value) if name.endswith("_us") else str(value)


_fields = functools.cache(msgspec.structs.fields)  # It evaluates the types of all fields.


def kind_words(message: Any) -> str:
    """Return the name of a message of the core, which is its class's."""
    return type(message).__name__


def message_words(message: ms.Request | ms.Reply | ControlRecord) -> str:
    """Return the name and the fields of a message of the core, or of a control record."""
    parts = [kind_words(message)]
    is_reply = isinstance(message, ms.Reply)
    names_leader = is_reply and not isinstance(message, _REPLIES_OF_NOBODY)
    top_error = isinstance(message, ms.Reply) and message.top_error
    for field in _fields(type(message)):
        value = getattr(message, field.name)
        if field.name in _OF_THE_SHELL or (field.name == "cluster_id" and value == CLUSTER_ID):
            continue
        if field.name == "cluster_id" and value is None and isinstance(message, ms.Request):
            has_it = not isinstance(message, ms.DescribeQuorum | ms.ApiVersions)
            parts += ["cluster-id=null"] if has_it else []
            continue
        always = not top_error and (
            (names_leader and field.name in ("leader_id", "leader_epoch"))
            or field.name == "vote_granted"
        )
        if (value == field.default and not always) or (field.name, value) == _USUAL:
            continue
        words = _value_words(field.name, value)
        parts.append(f"{field.name.removesuffix('_us').replace('_', '-')}={words}")
        if field.name in ("error", "top_error"):
            parts.append(error_name(value))
    return " ".join(parts)


def generated_by(profile: Profile) -> Any:
    """Return the generated messages that a profile speaks with."""
    return import_module(f"kraftspec.generated.{profile.name.replace('-', '_')}")


def reply_kind(request: type[ms.Request]) -> Any:
    """Return the class of the answers to a request: it stands beside it."""
    return getattr(sys.modules[request.__module__], f"{request.__name__}Reply")


def json_words(profile: Profile, reply: ms.Reply, api: str, version: int, body: bytes) -> str:
    """Return a reply that the core has no words for, since it is not about its log, as JSON."""
    response: Any = getattr(generated_by(profile), f"{api}Response").decode(body, version)
    fields = json.dumps(response.to_json(version))
    return f"{kind_words(reply)} {fields}"


_READERS: dict[Any, Any] = {
    int: int,
    bool: lambda text: {"true": True, "false": False}[text],
    Uuid: read_directory,
    str: str,
    Endpoints: read_endpoints,
    tuple[ReplicaKey, ...]: lambda text: tuple(read_key(part) for part in text.split(",")),
    VersionRange: lambda text: VersionRange(*map(int, text.split(".."))),
    VersionRange | None: lambda text: (
        None if text == "none" else VersionRange(*map(int, text.split("..")))
    ),
    str | None: lambda text: None if text == "null" else text,
    VoterSet: read_voters,
    tuple[int, ...]: read_ids,
    Connection: read_connection,
    tuple[Connection, ...]: lambda text: tuple(map(read_connection, text.split(","))),
}


def read_fields(kind: Any, words: dict[str, str]) -> dict[str, Any]:
    """Read ``name=value`` words as fields of a struct; ValueError for what it does not have."""
    hints = typing.get_type_hints(kind)
    settings: dict[str, Any] = {}
    for word, text in words.items():
        name = word.replace("-", "_")
        if f"{name}_us" in hints:
            settings[f"{name}_us"] = duration_us(text)
        elif name in hints and hints[name] in _READERS:
            settings[name] = _READERS[hints[name]](text)
        else:
            raise ValueError(f"{kind.__name__} has no {word}; it has {', '.join(hints)}")
    return settings
