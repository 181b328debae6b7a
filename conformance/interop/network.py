"""The network between nodes on loopback, where it can be cut: a proxy before each listener.

Who connects is told by the client id of its first request, in which Kafka's nodes and ours have
their node id (``raft-client-3001``). What is cut is held back, as packets that are sent again and
again would be, and goes on when the cut is healed.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

HOST = "127.0.0.1"
CHUNK_BYTES = 1 << 16
DO_TIMEOUT_S = 10.0
HEADER_BYTES = 14  # Of a request, up to the length of its client id.
UNKNOWN = -1

_NODE_ID = re.compile(rb"raft-client-(\d+)$")
_Result = TypeVar("_Result")


class Network:
    """Any number of proxies in a thread of their own: ``with Network() as network``."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._cut: frozenset[frozenset[int]] = frozenset()
        self._healed = asyncio.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DO_TIMEOUT_S)
        self._loop.close()

    def open(self, node_id: int, port: int) -> int:
        """Listen for those who want ``port`` of a node; return the port to give them."""
        return self._do(self._open(node_id, port))

    def cut(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Cut these pairs of nodes, and no others, in both directions."""
        self._do(self._set_cut(frozenset(frozenset(pair) for pair in pairs)))

    def heal(self) -> None:
        """Cut nothing."""
        self.cut(())

    def _do(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DO_TIMEOUT_S)

    async def _set_cut(self, pairs: frozenset[frozenset[int]]) -> None:
        self._cut = pairs
        self._healed.set()
        self._healed = asyncio.Event()

    async def _open(self, node_id: int, port: int) -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                await self._serve(node_id, port, reader, writer)
            finally:
                self._tasks.discard(task)

        server = await asyncio.start_server(serve, HOST, 0)
        self._servers.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _passable(self, pair: frozenset[int]) -> None:
        while pair in self._cut:
            await self._healed.wait()

    async def _serve(
        self, node_id: int, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Carry one connection, until either side ends it."""
        upstream: asyncio.StreamWriter | None = None
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            first = await reader.readexactly(HEADER_BYTES)
            name_bytes = max(int.from_bytes(first[12:14], "big", signed=True), 0)
            name = await reader.readexactly(name_bytes)
            found = _NODE_ID.search(name)
            pair = frozenset((node_id, int(found[1]) if found else UNKNOWN))
            await self._passable(pair)
            answers, upstream = await asyncio.open_connection(HOST, port)
            upstream.write(first + name)
            ways = [
                asyncio.create_task(self._carry(pair, reader, upstream)),
                asyncio.create_task(self._carry(pair, answers, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        for end in (writer, upstream):
            if end is not None:
                end.close()

    async def _carry(
        self, pair: frozenset[int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(CHUNK_BYTES):
            await self._passable(pair)
            writer.write(data)
            await writer.drain()
