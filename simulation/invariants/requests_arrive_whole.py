"""A request arrives as it was sent, but for the fields that its version of the API lacks.

What a core asks becomes a message, bytes, a message, and what another core is asked. A field that
one of these ways leaves out is one that the receiver takes for absent.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

from kraftspec.fastpath.message import Codec
from kraftspec.reference.raft.messages import Request
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.network import Message
from kraftspec.simulation.replica import Replica

NAME: Final = "requests_arrive_whole"
# Fields of requests that a schema may lack: they came with a later version, or with a KIP. All
# others are in every version.
LATER: Final = frozenset({
    "high_watermark", "leader_endpoints", "pre_vote", "preferred_successors",
    "replica_directory_id", "voter_directory_id", "voter_id",
})  # fmt: skip
IN_SCHEMA: Final = {"preferred_successors": "preferred_candidates"}  # Where the names differ.

Fields = Callable[[Request], Any]


class RequestsArriveWhole(Invariant):
    """Compares what a node takes with what the other one asked."""

    def __init__(self) -> None:
        self._carried: dict[tuple[int, int], Fields] = {}  # API and version → what it carries.

    def request_arrived(self, replica: Replica, message: Message, request: Request) -> None:
        """Compare; a sender that has given up or restarted does not know any more."""
        sender = replica.world.replicas.get(message.source)
        if NAME in replica.unseen or sender is None or NAME in sender.unseen:
            return
        if sender.incarnation != message.incarnation:
            return
        sent = sender.sent_requests.get(message.correlation)
        if sent is None or sent[0] == request:
            return
        key = message.api_key, message.version
        fields = self._carried.get(key)
        if fields is None:
            codec: Codec = replica.profile.apis[message.api_key].request.CODEC
            fields = self._carried[key] = _carried(request, codec, message.version)
        wanted, given = fields(sent[0]), fields(request)
        if wanted != given:
            self.fail(
                f"{type(request).__name__} of node {message.source}, version {message.version}, "
                f"arrives at node {replica.id} as {request}, and was sent as {sent[0]}"
            )


def _carried(request: Request, codec: Codec, version: int) -> Fields:
    """Return what takes the fields of such requests that a version carries."""
    names = _names(codec, codec.layout(version))
    return attrgetter(*(
        field
        for field in request.__struct_fields__
        if field not in LATER or IN_SCHEMA.get(field, field) in names
    ))  # fmt: skip


def _names(codec: Codec, layout: Any) -> set[str]:
    """Return the names of all fields of a struct at a version, those of structs in it too."""
    _, _, fields, tagged, *_ = layout
    names: set[str] = set()
    for _, name, _, _, element in (*fields, *(entry[1:6] for entry in tagged)):
        names.add(name)
        if isinstance(element, int):
            names |= _names(codec, codec.layouts[element])
    return names


INVARIANT = RequestsArriveWhole
