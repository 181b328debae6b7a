"""The scripted brokers themselves."""

from __future__ import annotations

import asyncio
import gc
import socket

import pytest

from kraftspec.conformance.clients.broker import ScriptedCluster
from kraftspec.conformance.clients.exchange_files import own_files, read_exchanges


@pytest.mark.parametrize("turns", range(6))
@pytest.mark.filterwarnings("error")
def test_a_connection_that_comes_at_the_end_is_closed(turns: int) -> None:
    exchange = read_exchanges(own_files())[0]

    async def connect_and_close() -> None:
        cluster = ScriptedCluster(exchange)
        async with cluster:
            client = socket.create_connection(("127.0.0.1", cluster.ports[1]))
            for _ in range(turns):  # Of the loop: the connection is accepted within these.
                await asyncio.sleep(0)
        client.close()

    asyncio.run(connect_and_close())
    gc.collect()
