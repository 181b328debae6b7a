"""A request arrives as it was sent, but for the fields that its version of the API lacks.

What a core asks becomes a message, bytes, a message, and what another core is asked. A field that
one of these ways leaves out is one that the receiver takes for absent.
"""

from __future__ import annotations

from typing import Any, Final

from kraftspec.fastpath.message import Codec
from kraftspec.reference.raft.messages import Request
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.network import Message
from kraftspec.simulation.replica import Replica

NAME: Final = "requests_arrive_whole"
# Fields of requests that came with a later version, or with a KIP: in the schema they are named
# so. One that is not here is in every version.
LATER: Final = {
    "high_watermark": "high_watermark",
    "leader_endpoints": "leader_endpoints",
    "pre_vote": "pre_vote",
    "preferred_successors": "preferred_candidates",
    "replica_directory_id": "replica_directory_id",
    "voter_directory_id": "voter_directory_id",
    "voter_id": "voter_id",
}


class RequestsArriveWhole(Invariant):
    """Compares what a node takes with what the other one asked."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, int], frozenset[str]] = {}

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
        for field in request.__struct_fields__:
            wanted, given = getattr(sent[0], field), getattr(request, field)
            if wanted != given and self._is_carried(replica, message, field):
                self.fail(
                    f"{type(request).__name__} of node {message.source}, version "
                    f"{message.version}, arrives at node {replica.id} with {field} {given!r}, and "
                    f"was sent with {wanted!r}"
                )

    def _is_carried(self, replica: Replica, message: Message, field: str) -> bool:
        if field not in LATER:
            return True
        key = message.api_key, message.version
        names = self._names.get(key)
        if names is None:
            codec: Codec = replica.profile.apis[message.api_key].request.CODEC
            names = self._names[key] = frozenset(_names(codec, codec.layout(message.version)))
        return LATER[field] in names


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
