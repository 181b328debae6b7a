"""The table of translations that every profile works by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kraftspec.reference.raft.messages import Bytes, Reply, Request
from kraftspec.reference.raft.policy import Policy
from kraftspec.reference.raft.profile import Profile
from kraftspec.reference.raft.types import NONE

if TYPE_CHECKING:
    from kraftspec.reference.profiles.common.translation import Translation
    from kraftspec.reference.raft.effects import PersistElection
    from kraftspec.reference.wire.apis import Api


class ProfileBase(Profile):
    """Base of all profiles. ``listener`` is the controllers' own, which answers do not name."""

    translations: tuple[Translation, ...]  # Of the APIs that it serves.
    fixes: Mapping[str, str] = {}
    releases: Sequence[str] = ()  # Those that a node can speak as, before the newest.
    release: str | None = None

    # Makes the policy; it takes the names of the ``fixes`` that it does without.
    policy_without: Callable[[Sequence[str]], Policy] = Policy

    def __init__(self, listener: str = "CONTROLLER", *, without: Sequence[str] = ()) -> None:
        self.without = frozenset(without)
        self.policy = self.policy_without(without)
        self.listener = listener
        self.apis = self.served({t.api.key: t.api for t in self.translations})
        self._by_key = {t.api.key: t for t in self.translations}
        self._by_request: dict[type[Request], Translation] = {t.asks: t for t in self.translations}

    def api_of(self, request: Request) -> Api:
        """Return the API that carries this kind of request."""
        return self.apis[self._by_request[request.__class__].api.key]

    def served(self, apis: Mapping[int, Api]) -> Mapping[int, Api]:
        """Return what is served of APIs: all."""
        return apis

    def min_version(self, request: Request) -> int:
        """Return the lowest version that can carry this very request."""
        return self._by_request[request.__class__].min_version(request)

    def encode_request(self, request: Request, version: int) -> bytes:
        """Return the body of a request; CodecError if this version cannot say it."""
        encoded: bytes = (
            self._by_request[request.__class__].put_request(request, version).encode(version)
        )
        return encoded

    def decode_request(self, api_key: int, version: int, body: Bytes) -> Request:
        """Return what a request asks; CodecError for bytes that are no such request."""
        translation = self._by_key[api_key]
        return translation.get_request(translation.api.request.decode(body, version), version)

    def reply_parts(
        self, request: Request, reply: Reply, version: int, listener: str
    ) -> Sequence[Bytes]:
        """Return the body of the answer to ``request``, which came in on ``listener``."""
        translation = self._by_request[request.__class__]
        message: Any = translation.put_reply(request, reply, version, listener)
        parts: list[Bytes] = message.encode_parts(version)
        return parts

    def decode_reply(self, request: Request, version: int, body: Bytes) -> Reply:
        """Return what the answer to ``request`` says; CodecError for bytes that are none."""
        translation = self._by_request[request.__class__]
        message: Any = translation.api.response.decode(body, version)
        return translation.get_reply(message, self.listener)


def put_static_state(kind: Any, effect: PersistElection) -> Any:
    """Return quorum-state of version 0: the vote, and the ids of static voters."""
    state = effect.state
    return kind(
        leader_id=state.leader_id,
        leader_epoch=state.epoch,
        voted_id=NONE if state.voted is None else state.voted.id,
        current_voters=[kind.Voter(voter_id=id) for id in effect.voter_ids],
    )
