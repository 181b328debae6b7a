"""The proxy: its listeners, the nodes behind them, and what is counted."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO, Final

from kraftspec.generated import kafka
from kraftspec.loop_thread import end_listening
from kraftspec.proxy.capture import Capture
from kraftspec.proxy.connection import Address, Connection, Shared, Target
from kraftspec.proxy.engine import Engine
from kraftspec.proxy.stats import Stats
from kraftspec.proxy.watch import Watch
from kraftspec.reference.node.settings import host_port

if TYPE_CHECKING:
    from kraftspec.proxy.rules import Rule
    from kraftspec.proxy.security import Security

BACKLOG: Final = 1_024
CLOSE_S: Final = 5.0  # How long what was sent may take to leave, when the proxy stops.


class Link:
    """A listener, and the node that it stands for."""

    def __init__(self, shared: Shared, target: Target) -> None:
        self.target = target
        self.address: Address
        self._shared = shared
        self._server: asyncio.Server | None = None

    async def open(self, listening: socket.socket) -> None:
        """Accept connections."""
        self.address = listening.getsockname()[:2]
        loop = asyncio.get_running_loop()
        security = self._shared.peer_security
        self._server = await loop.create_server(
            lambda: Connection(self._shared, self.target).client,
            sock=listening,
            backlog=BACKLOG,
            ssl=None if security is None else security.tls,
        )

    async def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            await end_listening([self._server])


class FaultProxy:
    """``async with FaultProxy(rules) as proxy``, then ``await proxy.listen(target)``.

    Rules may be added and removed by ``engine`` at any time; they concern frames that come later.
    """

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        *,
        package: ModuleType = kafka,
        must_rewrite: bool = False,
        advertised_host: str | None = None,
        ports: range = range(1),
        peer_security: Security | None = None,
        node_security: Security | None = None,
    ) -> None:
        """Check the rules. Raises RuleError.

        Args:
            rules: in the order in which they act.
            package: the messages of the protocol that is spoken.
            must_rewrite: put listeners of the proxy in the place of the nodes' addresses in
                messages, so that a whole cluster lies behind it. New ones open as they are needed.
            advertised_host: the host in these addresses; by default that of the first listener.
            ports: for the new listeners; by default any that are free.
            peer_security: TLS and logins of peers, which end at the proxy.
            node_security: TLS and the login by which the proxy shows itself to nodes.
        """
        self._shared = Shared(Engine(rules, package), Stats())
        self._shared.peer_security = peer_security
        self._shared.node_security = node_security
        self.engine = self._shared.engine
        self.stats = self._shared.stats
        self.connections = self._shared.connections
        self.links: list[Link] = []
        self._advertised_host = advertised_host
        self._ports = ports
        self._opening: set[asyncio.Task[None]] = set()
        if must_rewrite:
            self.engine.stand_in = self.stand_in

    async def __aenter__(self) -> FaultProxy:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def capture_to(self, file: BinaryIO) -> None:
        """Write the packets of connections that come from now on, as pcap. Raises OSError.

        The file should be unbuffered; it may be closed after the proxy is.
        """
        self.capture_by(Capture(file, self.engine.report))

    def capture_by(self, capture: Capture) -> None:
        """Let it see the bytes of connections that come from now on."""
        self._shared.capture = capture

    def watch(self) -> Watch:
        """Count from now on who says what to whom; return the counts."""
        self._shared.watch = self._shared.watch or Watch()
        return self._shared.watch

    async def listen(
        self,
        target: Address,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        node_id: int | None = None,
    ) -> Link:
        """Listen for connections to a node; port 0 takes a free one. Raises OSError."""
        link = Link(self._shared, Target(target, node_id))
        await link.open(await listening_socket(host, port))
        self.links.append(link)
        return link

    def stand_in(self, host: str, port: int, node_id: int | None = None) -> Address | None:
        """Return where the proxy listens for a node, which it does from now on at the latest.

        None for an address of the proxy itself, and where no port is left, which is reported.
        """
        for link in self.links:
            if link.target.address == (host, port):
                if node_id is not None and node_id >= 0:
                    link.target.learn(node_id)
                return self._advertised(link)
            if self._advertised(link) == (host, port):
                return None
        try:
            return self._advertised(self._add(host, port, node_id))
        except OSError as error:
            reason = error.strerror or str(error)
            self.engine.report(f"nobody stands for {host_port(host, port)}: {reason}")
            return None

    def _advertised(self, link: Link) -> Address:
        return self._advertised_host or link.address[0], link.address[1]

    def _add(self, host: str, port: int, node_id: int | None) -> Link:
        ours = self.links[0].address[0]
        error: OSError | None = None
        for number in self._ports:
            try:
                listening = socket.create_server(
                    (ours, number), family=socket.AF_INET6 if ":" in ours else socket.AF_INET
                )
                break
            except OSError as refused:
                error = refused
        else:
            raise error or OSError("there are no ports for it")
        is_known = node_id is not None and node_id >= 0
        link = Link(self._shared, Target((host, port), node_id if is_known else None))
        link.address = listening.getsockname()[:2]
        self.links.append(link)
        # Peers may connect at once: the system keeps them until the loop accepts.
        task = asyncio.get_running_loop().create_task(link.open(listening))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        return link

    async def close(self) -> None:
        """Listen no more, and close all connections, after what was sent."""
        await asyncio.gather(*self._opening)
        await asyncio.gather(*(link.close() for link in self.links))
        loop = asyncio.get_running_loop()
        for connection in list(self.connections):
            connection.close("after")
        until = loop.time() + CLOSE_S
        while self._shared.sides and loop.time() < until:
            await asyncio.sleep(0.005)
        for side in list(self._shared.sides):  # Nobody reads there.
            side.transport.abort()
        await asyncio.sleep(0)


async def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises OSError."""
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, *_, address = infos[0]
    try:
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OSError(error.errno, f"{host_port(host, port)}: {reason}") from error
