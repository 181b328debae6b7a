"""The network between nodes on loopback, where it can be cut: a proxy before each listener.

Who connects is told by the client id of its first request, in which Kafka's nodes and ours have
their node id (``raft-client-3001``). What is cut is held back, as packets that are sent again and
again would be, and goes on when the cut is healed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from functools import partial

from kraftspec.conformance.capture.relay import CHUNK_BYTES, Relay

HEADER_BYTES = 14  # Of a request, up to the length of its client id.
UNKNOWN = -1

_NODE_ID = re.compile(rb"raft-client-(\d+)$")


class Network(Relay[int]):
    """Any number of proxies: ``with Network() as network``; who is connected to is a node's id."""

    def __init__(self) -> None:
        super().__init__()
        self._cut: frozenset[frozenset[int]] = frozenset()
        self._healed = asyncio.Event()

    def cut(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Cut these pairs of nodes, and no others, in both directions."""
        self._do(self._set_cut(frozenset(frozenset(pair) for pair in pairs)))

    def heal(self) -> None:
        """Cut nothing."""
        self.cut(())

    async def _set_cut(self, pairs: frozenset[frozenset[int]]) -> None:
        self._cut = pairs
        self._healed.set()
        self._healed = asyncio.Event()

    async def _passable(self, pair: frozenset[int]) -> None:
        while pair in self._cut:
            await self._healed.wait()

    async def serve(
        self, who: int, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Carry one connection, until either side ends it."""
        first = await reader.readexactly(HEADER_BYTES)
        name_bytes = max(int.from_bytes(first[12:14], "big", signed=True), 0)
        name = await reader.readexactly(name_bytes)
        found = _NODE_ID.search(name)
        pair = frozenset((who, int(found[1]) if found else UNKNOWN))
        await self._passable(pair)
        carry = partial(self._carry, pair)
        await self.relay(port, reader, writer, carry, carry, first + name)

    async def _carry(
        self, pair: frozenset[int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(CHUNK_BYTES):
            await self._passable(pair)
            writer.write(data)
            await writer.drain()
