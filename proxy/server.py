"""The proxy: its listeners, the nodes behind them, and what is counted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Final

from kraftspec.generated import kafka
from kraftspec.proxy.connection import Address, Connection, Shared, Target
from kraftspec.proxy.engine import Engine
from kraftspec.proxy.stats import Stats
from kraftspec.reference.node.settings import host_port

if TYPE_CHECKING:
    from kraftspec.proxy.rules import Rule

BACKLOG: Final = 1_024
CLOSE_S: Final = 5.0  # How long what was sent may take to leave, when the proxy stops.


class Link:
    """A listener, and the node that it stands for."""

    def __init__(self, shared: Shared, target: Target) -> None:
        self.target = target
        self.address: Address
        self._shared = shared
        self._server: asyncio.Server

    async def open(self, host: str, port: int) -> None:
        """Listen. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self._shared, self.target).client, host, port, backlog=BACKLOG
        )
        bound = self._server.sockets[0].getsockname()
        self.address = (str(bound[0]), int(bound[1]))

    def close(self) -> None:
        """Listen no more."""
        self._server.close()


class FaultProxy:
    """``async with FaultProxy(rules) as proxy``, then ``await proxy.listen(target)``.

    Rules may be added and removed by ``engine`` at any time; they concern frames that come later.
    """

    def __init__(self, rules: Iterable[Rule] = (), *, package: ModuleType = kafka) -> None:
        """Check the rules. Raises RuleError.

        ``package`` has the messages of the protocol that is spoken.
        """
        self._shared = Shared(Engine(rules, package), Stats())
        self.engine = self._shared.engine
        self.stats = self._shared.stats
        self.connections = self._shared.connections
        self.links: list[Link] = []

    async def __aenter__(self) -> FaultProxy:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def listen(
        self,
        target: Address,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        node_id: int | None = None,
    ) -> Link:
        """Listen for connections to a node; port 0 takes a free one. Raises OSError."""
        name = host_port(*target)
        names = frozenset({name} if node_id is None else {name, str(node_id)})
        link = Link(self._shared, Target(target, name, names))
        await link.open(host, port)
        self.links.append(link)
        return link

    async def close(self) -> None:
        """Listen no more, and close all connections, after what was sent."""
        for link in self.links:
            link.close()
        loop = asyncio.get_running_loop()
        for connection in list(self.connections):
            connection.close("after")
        until = loop.time() + CLOSE_S
        while self._shared.sides and loop.time() < until:
            await asyncio.sleep(0.005)
        for side in list(self._shared.sides):  # Nobody reads there.
            side.transport.abort()
        await asyncio.sleep(0)
