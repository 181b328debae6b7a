"""What differs between the protocols that this core can speak: a translator and a policy.

A profile's name is that of its set of specs: ``kafka`` is what Apache Kafka 4.4.0 speaks. The core
never asks which profile it runs under. Where behaviour differs it asks the `Policy`, and the bytes
are all the translator's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from kraftspec.reference.raft.control import ControlRecord
from kraftspec.reference.raft.effects import PersistElection
from kraftspec.reference.raft.messages import Bytes, Reply, Request
from kraftspec.reference.raft.policy import Policy
from kraftspec.reference.raft.types import ElectionState
from kraftspec.reference.raft.voters import VoterSet
from kraftspec.reference.wire.apis import Api


class StoredState(NamedTuple):
    """What quorum-state says.

    ``voters`` are those in force at ``applied_offset``, where a protocol keeps them there: those of
    the log are looked for from that offset on. ``rest`` is what only the profile's policy knows.
    """

    election: ElectionState
    voters: VoterSet | None = None
    applied_offset: int = 0
    rest: Any = None


class Profile(Protocol):
    """Between the core's messages and bytes, at a version that both sides know.

    Bytes here are the body of a request or a response: header, correlation id and frame are the
    host's. Every method that decodes raises `kraftspec.fastpath.errors.CodecError` for bytes
    that are not a message of that version. Nothing here keeps state.
    """

    name: str
    policy: Policy
    apis: Mapping[int, Api]
    fixes: Mapping[str, str]  # Rules beside what a draft says, and the flaw that each is for.
    without: frozenset[str]  # The fixes that are switched off.
    state_message: Any  # The generated class of quorum-state.
    release: str | None  # The release of Kafka that it speaks as, where that is not the newest.

    def served(self, apis: Mapping[int, Api]) -> Mapping[int, Api]:
        """Return what is served of APIs, which need not be the core's."""
        ...

    def api_of(self, request: Request) -> Api:
        """Return the API that carries this kind of request."""
        ...

    def min_version(self, request: Request) -> int:
        """Return the lowest version that can carry this very request.

        Where the other node's highest is below, the host does not send, and says
        ``RequestFailed(unsupported=True)``.
        """
        ...

    def encode_request(self, request: Request, version: int) -> bytes:
        """Return the body of a request."""
        ...

    def decode_request(self, api_key: int, version: int, body: Bytes) -> Request:
        """Return what a request's body asks."""
        ...

    def encode_reply(self, request: Request, reply: Reply, version: int, listener: str) -> bytes:
        """Return the body of the answer to ``request``, which came in on ``listener``."""
        return b"".join(self.reply_parts(request, reply, version, listener))

    def reply_parts(
        self, request: Request, reply: Reply, version: int, listener: str
    ) -> Sequence[Bytes]:
        """Return the same in pieces: many records are a piece of their own, and no copy."""
        ...

    def decode_reply(self, request: Request, version: int, body: Bytes) -> Reply:
        """Return what the answer to ``request`` says; record batches are checked here.

        A batch that is damaged, and what follows it, is left out: the rest will be fetched again.
        """
        ...

    def encode_control(self, record: ControlRecord) -> tuple[int, bytes]:
        """Return the control type and the value of a control record."""
        ...

    def decode_control(self, control_type: int, value: Bytes) -> ControlRecord | None:
        """Return a control record that the core knows, or None for one it has no use for."""
        ...

    def snapshot_controls(
        self, kraft_version: int, voters: VoterSet | None
    ) -> tuple[ControlRecord, ...]:
        """Return what a snapshot begins with, after its header."""
        ...

    def put_state(self, effect: PersistElection) -> tuple[Any, int]:
        """Return what quorum-state is to say, a ``state_message``, and at which version."""
        ...

    def get_state(self, state: Any, version: int) -> StoredState:
        """Return what quorum-state says; ValueError where it cannot be."""
        ...
