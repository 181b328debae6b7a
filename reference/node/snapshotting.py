"""The snapshots that a node writes: when they are due, and the process that writes them.

A snapshot is due when the batches committed since the last one have
``metadata.log.max.record.bytes.between.snapshots``, or when ``metadata.log.max.snapshot.interval
.ms`` have passed since and anything was committed (``org.apache.kafka.image.publisher
.SnapshotGenerator``). It is checked at each commit. Another process
(`reference.metadata.checkpoint`) reads the log and makes the image; then the core decides whether a
snapshot may be there, and what it begins with; then that process writes it.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from kraftspec.reference.metadata.checkpoint import PROGRAM, Order, Settled, Written
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.types import SnapshotId

if TYPE_CHECKING:
    from asyncio.subprocess import Process

    from kraftspec.reference.node.asyncio_host import AsyncioHost
    from kraftspec.reference.node.settings import NodeConfig

log = logging.getLogger("kraftspec.node")


class Snapshotting:
    """Writes the snapshots of a node, one at a time.

    One that fails is logged as a warning, and the log stays as it is; the next is due after as many
    bytes again, or as much time.
    """

    def __init__(self, node: AsyncioHost, config: NodeConfig) -> None:
        self._node = node
        self._config = config
        self._from_offset = -1  # What is committed since then counts; -1: since the last snapshot.
        self._from_s = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._permission: asyncio.Future[fx.WriteSnapshot | None] | None = None

    def committed(self, offset: int) -> None:
        """Begin a snapshot of everything before ``offset``, which is committed, if one is due."""
        if self._task is None and self._is_due(offset):
            self._begin_anew(offset)
            self._task = asyncio.get_running_loop().create_task(self._write(offset))
            self._task.add_done_callback(self._done)

    def _is_due(self, offset: int) -> bool:
        config, metadata = self._config, self._node.storage.log
        if self._from_offset < 0:
            self._from_offset = max((one.end_offset for one in metadata.snapshots), default=0)
        if offset <= self._from_offset:
            return False
        # What is not committed comes last, and is little: it is only looked at where it matters.
        grown = metadata.size_from(self._from_offset)
        if grown >= config.snapshot_bytes:
            return grown - metadata.size_from(offset) >= config.snapshot_bytes
        waited_s = time.monotonic() - self._from_s
        return 0 < config.snapshot_ms <= waited_s * 1000

    def _begin_anew(self, offset: int) -> None:
        self._from_offset = offset
        self._from_s = time.monotonic()

    def replaced(self, effect: fx.LoadSnapshot) -> None:
        """The log begins with a snapshot now: count from there, and give up what is under way."""
        self._begin_anew(effect.snapshot_id.end_offset)
        self.give_up()

    def give_up(self) -> None:
        """Write no further at what is under way."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """End what is under way: no process writes into the directory on return."""
        self.give_up()
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await self._task

    def permitted(self, effect: fx.WriteSnapshot) -> None:
        """The core lets it be written."""
        if self._permission is not None and not self._permission.done():
            self._permission.set_result(effect)

    def refused(self, effect: fx.SnapshotRefused) -> None:
        """The core does not permit it: one exists already, or a transaction is still open."""
        log.info(
            "no snapshot is due",
            extra={"node": self._config.node_id, "reason": effect.reason},
        )
        if self._permission is not None and not self._permission.done():
            self._permission.set_result(None)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._warn(str(error) or type(error).__name__)
        self.committed(self._node.core.committed_offset)  # As much may have come meanwhile.

    def _warn(self, reason: str) -> None:
        log.warning(
            "no snapshot was written: the log stays whole",
            extra={"node": self._config.node_id, "reason": reason},
        )

    async def _write(self, offset: int) -> None:
        """Let the program write a snapshot; take note of it in the order of events."""
        directory = self._node.storage.log.directory
        pipe = asyncio.subprocess.PIPE
        command = [sys.executable, "-P", "-m", PROGRAM, directory, str(offset)]
        program = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=pipe
        )
        try:
            effect = await self._order(program)
            assert program.stdin is not None
            program.stdin.close()  # Without an order it ends.
            output, error = await program.communicate()
        finally:
            if program.returncode is None:
                with suppress(ProcessLookupError):
                    program.kill()
                await program.communicate()
        if program.returncode:
            self._warn(error.decode(errors="replace").strip() or f"it ended: {program.returncode}")
        elif effect is not None:
            count = msgspec.json.decode(output, type=Written).records
            self._node.take_turn(lambda: self._adopt(effect, count))

    async def _order(self, program: Process) -> fx.WriteSnapshot | None:
        """Wait until there is an image, ask the core, and order what is to be written, if anything.

        Returns None where nothing is.
        """
        assert program.stdin is not None
        assert program.stdout is not None
        line = await program.stdout.readline()
        if not line:
            return None  # The reason is on stderr.
        settled = msgspec.json.decode(line, type=Settled)
        node = self._node
        id_ = SnapshotId(settled.end_offset, settled.epoch)
        node.storage.log.check_snapshot(id_)
        self._permission = asyncio.get_running_loop().create_future()
        node.post(ev.SnapshotRequested(id_, settled.timestamp_ms))
        effect = await self._permission
        if effect is not None:
            header = node.storage.snapshot_header(effect)
            order = Order(header, node.clock_us() // 1000)
            program.stdin.write(msgspec.json.encode(order) + b"\n")
        return effect

    def _adopt(self, effect: fx.WriteSnapshot, records_count: int) -> None:
        node = self._node
        if effect.id.end_offset < node.storage.log.start_offset:
            return  # The leader's took the place of the log meanwhile; the next start removes it.
        stored = node.storage.adopt_snapshot(effect)
        log.info(
            "a snapshot is written",
            extra={
                "node": self._config.node_id,
                "end_offset": effect.id.end_offset,
                "epoch": effect.id.epoch,
                "records": records_count,
                "bytes": stored.size,
            },
        )
        node.post(stored)
