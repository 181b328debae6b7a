"""A client that changes metadata through a broker while the quorum suffers, and keeps book.

Each change sets one configuration to a value that nobody else has, by IncrementalAlterConfigs; the
broker forwards it to the active controller. What was acknowledged must be in every log at the end.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from kraftspec.conformance.cluster import ask
from kraftspec.fastpath.errors import CodecError
from kraftspec.generated.kafka import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

BROKER_RESOURCE = 4
NAMES = 20  # How many configurations there are; their values change.
TIMEOUT_S = 8.0  # Longer than an election; an answer later than this is none.
PAUSE_S = 0.02


class Writer:
    """``with Writer(port) as writer``: writes until the block ends.

    ``acknowledged`` are the values that were, ``doubtful`` those that nobody answered for.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.acknowledged: list[bytes] = []
        self.doubtful: list[bytes] = []
        self.longest_silence_s = 0.0
        self._last_at = time.monotonic()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join(2 * TIMEOUT_S)

    def _run(self) -> None:
        number = 0
        while not self._is_over.is_set():
            number += 1
            value = f"value-{number:06d}."
            try:
                acknowledged = self._set(f"kraftspec.{number % NAMES}", value)
            except (OSError, CodecError):
                acknowledged = None
            if acknowledged:
                self.acknowledged.append(value.encode())
                now = time.monotonic()
                self.longest_silence_s = max(self.longest_silence_s, now - self._last_at)
                self._last_at = now
            elif acknowledged is None:
                self.doubtful.append(value.encode())
            self._is_over.wait(PAUSE_S)

    def _set(self, name: str, value: str) -> bool:
        """Set a configuration; False where it was refused, OSError where no answer came."""
        kind = IncrementalAlterConfigsRequest
        config = kind.AlterableConfig(name=name, config_operation=0, value=value)
        resource = kind.AlterConfigsResource(
            resource_type=BROKER_RESOURCE, resource_name="", configs=[config]
        )
        request = kind(resources=[resource])
        said = ask(self.port, request, 1, IncrementalAlterConfigsResponse, timeout_s=TIMEOUT_S)
        return bool(said.responses) and said.responses[0].error_code == 0
