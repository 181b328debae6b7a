"""Event loops for callers that block, such as tests: a thread of its own, and how servers end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from typing import Any, Final, TypeVar

# A connection that was accepted last is served after so many turns of the loop.
_ACCEPTED_TURNS: Final = 5

_Result = TypeVar("_Result")


async def end_listening(servers: Iterable[asyncio.Server]) -> None:
    """Close servers. What serves the connections that they have accepted runs when this returns.

    A server that is closed alone loses a connection that it has just accepted: its socket stays
    open, and nothing serves it.
    """
    loop = asyncio.get_running_loop()
    ended = list(servers)
    for server in ended:
        for listening in server.sockets:
            loop.remove_reader(listening)
    for _turn in range(_ACCEPTED_TURNS):
        await asyncio.sleep(0)
    for server in ended:
        server.close()


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
