"""Proxies: listeners on loopback that forward connections, in a thread of their own."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, Self, TypeVar

from kraftspec.loop_thread import LoopThread, end_listening

HOST = "127.0.0.1"
CHUNK_BYTES = 1 << 16
DO_TIMEOUT_S = 10.0

_Result = TypeVar("_Result")
TargetT = TypeVar("TargetT")
Carry = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


class Relay(Generic[TargetT]):
    """Any number of listeners: ``with`` starts the thread, and at its end all are closed."""

    def __init__(self) -> None:
        self._thread = LoopThread(type(self).__name__, DO_TIMEOUT_S)
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._thread.stop()

    def open(self, target: TargetT, port: int) -> int:
        """Listen for connections to ``port`` of a target; return the port to connect to."""
        return self._do(self._open(target, port))

    @abstractmethod
    async def serve(
        self, target: TargetT, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Carry one connection to ``port``, by ``relay``; an OSError ends it and no more."""

    async def relay(
        self,
        port: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        forth: Carry,
        back: Carry,
        first: bytes = b"",
    ) -> None:
        """Connect to ``port``, send ``first``, and forward both ways until either side ends."""
        answers, upstream = await asyncio.open_connection(HOST, port)
        try:
            upstream.write(first)
            ways = [
                asyncio.create_task(forth(reader, upstream)),
                asyncio.create_task(back(answers, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            upstream.close()

    def _do(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return self._thread.run(work)

    async def _open(self, target: TargetT, port: int) -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                    await self.serve(target, port, reader, writer)
            finally:
                self._tasks.discard(task)
                writer.close()

        server = await asyncio.start_server(serve, HOST, 0)
        self._servers.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    async def _close(self) -> None:
        await end_listening(self._servers)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
