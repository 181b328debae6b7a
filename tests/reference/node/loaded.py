"""A node in a process of its own that appends while it leads: what the tests of profiles kill.

``python -m tests.reference.node.loaded PROFILE PROPERTIES ACKNOWLEDGED``: every record whose commit
was acknowledged is a line of the file ACKNOWLEDGED, written at once, so that a kill loses none.
SIGUSR1 ends the load, which is said when nothing is left of it, and SIGTERM the node.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import TextIO

from kraftspec.reference.local.quorum import is_leading
from kraftspec.reference.node.appending import NotAppendedError
from kraftspec.reference.node.config import load_config
from kraftspec.reference.node.logs import written
from kraftspec.reference.node.runtime import Node
from kraftspec.reference.node.startup import make_node

RATE = 100  # Records a second.
OVER = "the load is over"
LEAVE_S = 0.5  # The last nodes that leave have nobody to wait for.


async def _append(node: Node, told: TextIO, ending: asyncio.Event) -> None:
    number = 0

    async def one(value: str) -> None:
        with contextlib.suppress(NotAppendedError):
            await node.append([value.encode()])
            told.write(f"{value}\n")
            told.flush()

    tasks: set[asyncio.Task[None]] = set()
    while not ending.is_set():
        if is_leading(node) and len(tasks) < RATE:
            number += 1
            task = asyncio.create_task(one(f"{node.config.node_id}-{os.getpid()}-{number}"))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.sleep(1 / RATE)
    await asyncio.gather(*tasks)
    print(OVER, flush=True)


async def _run(profile: str, properties: str, acknowledged: str) -> None:
    with open(acknowledged, "a", encoding="ascii") as told:
        node = make_node(load_config(properties, profile), profile)
        await node.start()
        stop, unburdened = asyncio.Event(), asyncio.Event()
        appending = asyncio.create_task(_append(node, told, unburdened))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, stop.set)
        loop.add_signal_handler(signal.SIGUSR1, unburdened.set)
        ended = asyncio.create_task(node.wait())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in (appending, ended, stopping):
            task.cancel()
        await node.stop(LEAVE_S)


if __name__ == "__main__":
    with written("text", "INFO"):
        asyncio.run(_run(*sys.argv[1:]))
