"""The sockets of a listener, bound to each address that its host has."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import TYPE_CHECKING

from kraftspec.reference.node.settings import host_port

if TYPE_CHECKING:
    from kraftspec.reference.node.settings import Limits, Listener


async def listening_sockets(listener: Listener, limits: Limits) -> list[socket.socket]:
    """Return sockets that listen and do not block.

    Port 0 is one that the system chooses, the same for every address. Raises OSError with
    the listener, what is wrong and what to do; nothing is left open then.
    """
    loop = asyncio.get_running_loop()
    sockets: list[socket.socket] = []
    try:
        addresses = await loop.getaddrinfo(
            listener.host or None,
            listener.port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )
        port = listener.port
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            try:
                one = socket.socket(family, kind, protocol)
            except OSError:  # The system knows IPv6 by name only.
                if len(addresses) == 1:
                    raise
                continue
            sockets.append(one)
            _set_up(one, limits)
            one.bind((address[0], port, *address[2:]))
            one.listen(limits.backlog)
            port = one.getsockname()[1]
    except OSError as error:
        for one in sockets:
            one.close()
        where = f"{listener.name}://{host_port(listener.host, listener.port)}"
        if error.errno == errno.EADDRINUSE:
            reason = "another process listens there; stop it, or choose another port"
        else:
            reason = f"{error.strerror or error}; correct it in listeners"
        raise OSError(error.errno, f"no listener at {where}: {reason}") from error
    return sockets


def _set_up(one: socket.socket, limits: Limits) -> None:
    one.setblocking(False)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if one.family == socket.AF_INET6:
        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    for option, size in (
        (socket.SO_SNDBUF, limits.send_buffer_bytes),
        (socket.SO_RCVBUF, limits.receive_buffer_bytes),
    ):
        if size >= 0:
            one.setsockopt(socket.SOL_SOCKET, option, size)
