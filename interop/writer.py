"""A client that changes metadata through a broker during faults, and records the results.

Each change sets one configuration to a unique value, by IncrementalAlterConfigs; the broker
forwards it to the active controller. At the end every log must have all acknowledged changes.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from kraftspec.fastpath.errors import CodecError
from kraftspec.generated.kafka import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kraftspec.reference.wire.blocking import ask

BROKER_RESOURCE = 4
NAMES = 20  # The number of configurations.
TIMEOUT_S = 8.0  # Longer than an election.
PAUSE_S = 0.02


class Writer:
    """``with Writer(port) as writer``: writes until the block ends.

    ``acknowledged`` are the acknowledged values, ``doubtful`` those without an answer.
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
                acknowledged = set_config(self.port, f"kraftspec.{number % NAMES}", value)
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


def set_config(port: int, name: str, value: str) -> bool:
    """Set a configuration of all brokers, through a broker or the active controller.

    Returns False if it was rejected; OSError is no answer.
    """
    kind = IncrementalAlterConfigsRequest
    config = kind.AlterableConfig(name=name, config_operation=0, value=value)
    resource = kind.AlterConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name="", configs=[config]
    )
    request = kind(resources=[resource])
    response = ask(port, request, 1, IncrementalAlterConfigsResponse, timeout_s=TIMEOUT_S)
    return bool(response.responses) and response.responses[0].error_code == 0
