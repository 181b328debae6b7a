"""``python -m kraftspec.interop.reproduce.appending_node PROPERTIES``: our node, with a load.

As a leader it appends a NoOpRecord every half second, as Kafka's active controller does, so that
its log grows without a client.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

from kraftspec.reference.local.live_view import NO_OP
from kraftspec.reference.node.appending import NotAppendedError
from kraftspec.reference.node.config import load_config
from kraftspec.reference.node.runtime import Node
from kraftspec.reference.node.startup import make_node
from kraftspec.reference.profiles import KAFKA
from kraftspec.reference.raft import RoleName

PERIOD_S = 0.5  # metadata.max.idle.interval.ms


async def run(path: Path) -> None:
    """Run until a failure or a signal ends the process."""
    node = make_node(load_config(path, KAFKA), KAFKA, transfer_leadership=False)
    await node.start()
    waiting: set[asyncio.Task[None]] = set()
    while not node.ended.is_set():
        if node.core.role.name is RoleName.LEADER:
            # Not awaited: the log grows also while nothing is committed.
            task = asyncio.create_task(_append(node))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
        await asyncio.sleep(PERIOD_S)
    if node.failure is not None:
        raise node.failure


async def _append(node: Node) -> None:
    with suppress(NotAppendedError):
        await node.append([NO_OP])


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1])))
