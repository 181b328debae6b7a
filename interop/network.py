"""The network between nodes on loopback: a proxy before each listener can partition nodes.

The client id of a connection's first request contains the node id, for Kafka's nodes and for ours
(``raft-client-3001``). A partition holds data back, as retransmitted packets would be. It goes on
when the partition heals.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial

from kraftspec.conformance.cluster.relay import CHUNK_BYTES, Relay

HEADER_BYTES = 14  # A request up to and including the length of its client id.
UNKNOWN = -1

_NODE_ID = re.compile(rb"raft-client-(\d+)$")


class Network(Relay[int]):
    """Any number of proxies: ``with Network() as network``. The target of a proxy is a node id.

    ``gaps_s`` has, for a node that sends requests and the node it sends them to, the time from each
    answer to the next request on the same connection, in seconds. Of requests in flight together
    it has the first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gaps_s: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
        self._cut: frozenset[frozenset[int]] = frozenset()
        self._healed = asyncio.Event()

    def cut(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Partition these pairs of nodes, and no others, in both directions."""
        self._do(self._set_cut(frozenset(frozenset(pair) for pair in pairs)))

    def heal(self) -> None:
        """End all partitions."""
        self.cut(())

    async def _set_cut(self, pairs: frozenset[frozenset[int]]) -> None:
        self._cut = pairs
        self._healed.set()
        self._healed = asyncio.Event()

    async def _passable(self, pair: frozenset[int]) -> None:
        while pair in self._cut:
            await self._healed.wait()

    async def serve(
        self, node_id: int, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Forward one connection, until either side ends it."""
        first = await reader.readexactly(HEADER_BYTES)
        name_bytes = max(int.from_bytes(first[12:14], "big", signed=True), 0)
        name = await reader.readexactly(name_bytes)
        match = _NODE_ID.search(name)
        sender = int(match[1]) if match else UNKNOWN
        pair = frozenset((node_id, sender))
        await self._passable(pair)
        answered_s: list[float] = []  # When the last answer came, until the next request.

        def request() -> None:
            if answered_s:
                self.gaps_s[sender, node_id].append(time.monotonic() - answered_s[-1])
                answered_s.clear()

        def answer() -> None:
            answered_s.append(time.monotonic())

        await self.relay(
            port,
            reader,
            writer,
            partial(self._carry, pair, request),
            partial(self._carry, pair, answer),
            first + name,
        )

    async def _carry(
        self,
        pair: frozenset[int],
        note: Callable[[], None],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        while data := await reader.read(CHUNK_BYTES):
            await self._passable(pair)
            note()
            writer.write(data)
            await writer.drain()
