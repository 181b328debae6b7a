"""An event loop in a thread of its own, for callers that block, such as tests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class LoopThread:
    """Runs coroutines for other threads, from ``start`` to ``stop``."""

    def __init__(self, name: str, timeout_s: float) -> None:
        """Prepare the thread; ``timeout_s`` is how long a call may take."""
        self._timeout_s = timeout_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine in the thread. Raises what it raises, and TimeoutError."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(self._timeout_s)

    def stop(self) -> None:
        """End the thread; what still runs in it is left."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(self._timeout_s)
        self._loop.close()
