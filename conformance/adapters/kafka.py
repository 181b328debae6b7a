"""What only the adapter over Apache Kafka's own classes can do, beside the harness protocol.

Its Java sources are in ``adapters/java``; ``registry`` builds them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from kraftspec.conformance.adapters.harness import Adapter
from kraftspec.conformance.raw.harness import (
    ApiKey,
    ApiKeysReply,
    ErrorCode,
    ErrorsReply,
    HeaderVersionsReply,
    HeaderVersionsRow,
    LoadReply,
    VerdictReply,
)


class RefusedError(Exception):
    """Kafka's generator refused a set of specs; the text is its own."""


class KafkaAdapter(Adapter):
    """The Java adapter with what only it can do, run as
    ``with kafka_adapter() as kafka:`` (`registry`).

    Attributes:
        release: the release of Kafka that its classes are of.
    """

    def __init__(self, command: Sequence[str], *, release: str, timeout_s: float) -> None:
        """Set up ``command`` (not yet started); see ``Adapter``."""
        super().__init__(command, timeout_s=timeout_s)
        self.release = release

    def load(
        self,
        set_name: str,
        *,
        directory: str | os.PathLike[str] | None = None,
        specs: Mapping[str, str] | None = None,
    ) -> dict[str, str]:
        """Have Kafka's published generator compile specs, and serve them as the set ``set_name``.

        Give either ``directory`` (all ``*.json`` below it that are messages) or ``specs`` (file
        name to text). A set of that name is replaced. One call costs a run of the Java compiler:
        load many specs together.

        Returns name to version range, as in hello.

        Raises:
            RefusedError: the generator, or the Java compiler, did not take a spec.
        """
        if (directory is None) == (specs is None):
            raise ValueError("give load() either a directory or specs")
        request: dict[str, object] = {"cmd": "load", "id": set_name, "set": set_name}
        if directory is not None:
            request["dir"] = str(Path(directory).resolve())
        else:
            request["specs"] = dict(specs or {})
        reply = self.request(request)
        if "error" in reply:
            raise RefusedError(reply["error"]["detail"])
        return msgspec.convert(reply, LoadReply).messages

    def verdict(self, text: str) -> str | None:
        """Why Kafka's published generator refuses the text of one spec; None: it accepts it."""
        reply = self.request({"cmd": "verdict", "id": "verdict", "text": text})
        verdict = msgspec.convert(reply, VerdictReply)
        return None if verdict.accepted else str(verdict.detail)

    def errors(self) -> list[ErrorCode]:
        """All error codes of this Kafka (``org.apache.kafka.common.protocol.Errors``), by code."""
        return msgspec.convert(self.request({"cmd": "errors", "id": "errors"}), ErrorsReply).errors

    def api_keys(self) -> list[ApiKey]:
        """All API keys of this Kafka, by id, those without valid versions too.

        Source: ``org.apache.kafka.common.protocol.ApiKeys``; messages begin with ``message``.
        """
        reply = self.request({"cmd": "api-keys", "id": "api-keys"})
        return msgspec.convert(reply, ApiKeysReply).api_keys

    def header_versions(
        self, directory: str | os.PathLike[str] | None = None
    ) -> list[HeaderVersionsRow]:
        """Which headers go before the messages of each API, a row for each of its versions.

        With ``directory``, of the specs below it: Kafka's published generator makes their
        ``ApiMessageType``. Source: ``org.apache.kafka.common.message.ApiMessageType``.
        """
        request = {"cmd": "header-versions", "id": "header-versions"}
        if directory is not None:
            request["dir"] = str(Path(directory).resolve())
        reply = self.request(request)
        if "error" in reply:
            raise RefusedError(reply["error"]["detail"])
        return msgspec.convert(reply, HeaderVersionsReply).header_versions
