"""The profile ``kafka``: what Apache Kafka 4.3.1 speaks between controllers.

Requests and replies are the generated classes of ``kraftspec.generated.kafka``. They have a list of
topics, of which a quorum has one, with one partition; whatever else a request asks about is refused
at the place in the order of checks where Kafka refuses it, so the translator only marks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kraftspec.reference.profiles.kafka import elections, membership, replication
from kraftspec.reference.profiles.kafka.records import decode_control, encode_control
from kraftspec.reference.profiles.kafka.translation import Translation
from kraftspec.reference.raft.control import ControlRecord
from kraftspec.reference.raft.messages import Api, Bytes, Reply, Request
from kraftspec.reference.raft.policy import Policy

_TRANSLATIONS = (
    elections.VOTE,
    elections.BEGIN_EPOCH,
    elections.END_EPOCH,
    replication.FETCH,
    replication.FETCH_SNAPSHOT,
    membership.DESCRIBE_QUORUM,
    membership.ADD_VOTER,
    membership.REMOVE_VOTER,
    membership.UPDATE_VOTER,
    membership.API_VERSIONS,
)


class KafkaProfile:
    """See the module. ``listener`` is the controllers' own, which answers do not name."""

    name = "kafka"

    def __init__(self, listener: str = "CONTROLLER") -> None:
        self.policy = Policy()
        self.listener = listener
        self.apis: Mapping[int, Api] = {t.api.key: t.api for t in _TRANSLATIONS}
        self._by_key: dict[int, Translation] = {t.api.key: t for t in _TRANSLATIONS}
        self._by_request: dict[type[Request], Translation] = {t.asks: t for t in _TRANSLATIONS}

    def api_of(self, request: Request) -> Api:
        """Return the API that carries this kind of request."""
        return self._by_request[request.__class__].api

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
        return translation.get_request(translation.request_class.decode(body, version), version)

    def encode_reply(self, request: Request, reply: Reply, version: int, listener: str) -> bytes:
        """Return the body of the answer to ``request``, which came in on ``listener``."""
        translation = self._by_request[request.__class__]
        encoded: bytes = translation.put_reply(request, reply, version, listener).encode(version)
        return encoded

    def decode_reply(self, request: Request, version: int, body: Bytes) -> Reply:
        """Return what the answer to ``request`` says; CodecError for bytes that are none."""
        translation = self._by_request[request.__class__]
        message: Any = translation.response_class.decode(body, version)
        return translation.get_reply(message, self.listener)

    def encode_control(self, record: ControlRecord) -> tuple[int, bytes]:
        """Return the control type and the value of a control record."""
        return encode_control(record)

    def decode_control(self, control_type: int, value: Bytes) -> ControlRecord | None:
        """Return a control record that the core knows, or None for one that it passes over."""
        return decode_control(control_type, value)
