"""The live view of a local quorum, with load and faults: what ``kraftspec quorum up`` shows.

`run` appends NoOpRecords through the leader, kills the leader at intervals if the options say so,
and emits the state at intervals and each event in between.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kraftspec.generated.kafka import NoOpRecord
from kraftspec.reference.node.appending import NotAppendedError
from kraftspec.reference.raft import RoleName

if TYPE_CHECKING:
    from kraftspec.reference.local.quorum import LocalQuorum
    from kraftspec.reference.node.runtime import Node

FRAME_VERSION: Final = 1
NO_OP: Final = bytes([FRAME_VERSION, NoOpRecord.API_KEY or 0, 0]) + NoOpRecord().encode(0)
IN_FLIGHT_MAX: Final = 1_000  # Appends that wait; a quorum that is slower has no use for more.
LATENCIES_MAX: Final = 100_000  # The last so many.
LEADER_TIMEOUT_S: Final = 60.0
DOWN_S: Final = 2.0  # How long a node that was ended stays away.
RETRY_S: Final = 0.02
LOGGER: Final = "kraftspec.node"

Emit = Callable[[str, dict[str, Any]], None]  # The event's name and its fields.


class NodeFailedError(Exception):
    """A node ended by itself, most likely because its disk failed; the text says which and why."""


class LiveViewOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the live view.

    ``rate`` are records a second, ``interval_s`` is between two states; ``kill_leader_every_s`` is
    None for never, ``for_s`` None for until ``stop`` is set.
    """

    rate: float = 2.0
    interval_s: float = 0.5
    kill_leader_every_s: float | None = None
    for_s: float | None = None


class LiveView:
    """A running quorum, and counts of what happened in it."""

    def __init__(self, quorum: LocalQuorum, options: LiveViewOptions, emit: Emit) -> None:
        self.quorum = quorum
        self.options = options
        self.emit = emit
        self.stop = asyncio.Event()
        self.appended = 0
        self.acknowledged = 0
        self.failovers_ms: list[float] = []
        self.leaders: list[tuple[int, int]] = []  # (epoch, node id), as they were seen
        self._latencies_ms: list[float] = []
        self._started_s = time.monotonic()
        self._appending: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Run until it is time or ``stop`` is set; NodeFailedError where a node fails before."""
        tasks = [asyncio.create_task(work()) for work in (self._append, self._look, self._hurt)]
        ending = asyncio.create_task(self.stop.wait())
        try:
            done, _ = await asyncio.wait(
                {*tasks, ending},
                timeout=self.options.for_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in done - {ending}:
                task.result()
        finally:
            for task in (*tasks, ending, *self._appending):
                task.cancel()
            await asyncio.gather(*tasks, ending, *self._appending, return_exceptions=True)

    # ---- state -----------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return round(time.monotonic() - self._started_s, 3)

    def state(self) -> dict[str, Any]:
        """Return the leader, and each node as it sees itself; ``lag`` is behind the leader."""
        leader = self.quorum.leader
        end_offset = None if leader is None else leader.core.log.end_offset
        return {
            "seconds": self.seconds,
            "leaderId": None if leader is None else leader.config.node_id,
            "leaderEpoch": None if leader is None else leader.core.epoch,
            "highWatermark": None if leader is None else leader.core.high_watermark,
            "acknowledged": self.acknowledged,
            "nodes": [
                _node_state(node_id, self.quorum.nodes.get(node_id), end_offset)
                for node_id in sorted(self.quorum.properties)
            ],
        }

    def summary(self) -> dict[str, Any]:
        """Return what was counted."""
        waited = sorted(self._latencies_ms)
        return {
            "seconds": self.seconds,
            "clusterId": self.quorum.cluster_id,  # Of KIP-595, the first leader made it.
            "leaders": [{"epoch": epoch, "nodeId": node_id} for epoch, node_id in self.leaders],
            "appended": self.appended,
            "acknowledged": self.acknowledged,
            "appendMsP50": _quantile(waited, 0.5),
            "appendMsP99": _quantile(waited, 0.99),
            "failoverMs": [round(ms, 1) for ms in self.failovers_ms],
        }

    # ---- tasks -----------------------------------------------------------------------------------

    async def _look(self) -> None:
        """Emit the state at intervals, and new leaders at once; raise where a node failed."""
        shown_s = -self.options.interval_s
        while True:
            leader = self.quorum.leader
            if leader is not None:
                self._note(leader)
            for node_id, node in self.quorum.nodes.items():
                if node.failure is not None:
                    why = str(node.failure) or type(node.failure).__name__
                    raise NodeFailedError(f"node {node_id} failed: {why}") from node.failure
            if self.seconds - shown_s >= self.options.interval_s:
                shown_s = self.seconds
                self.emit("state", self.state())
            await asyncio.sleep(min(self.options.interval_s, RETRY_S))

    def _note(self, leader: Node) -> None:
        """Emit a leader that is new; the first task that sees it does so at once."""
        term = (leader.core.epoch, leader.config.node_id)
        if not self.leaders or term > self.leaders[-1]:
            self.leaders.append(term)
            self.emit("leader", {"seconds": self.seconds, "epoch": term[0], "id": term[1]})

    async def _append(self) -> None:
        """Append through the leader at the rate of the options, without waiting for each."""
        await self._bootstrap()
        if not self.options.rate:
            await asyncio.Event().wait()
        begun_s = time.monotonic()
        number = 0
        while True:
            due = int((time.monotonic() - begun_s) * self.options.rate) + 1
            leader = self.quorum.leader
            if leader is None or len(self._appending) >= IN_FLIGHT_MAX:
                number = due  # What could not be appended is not made up for.
            while number < due and leader is not None:
                number += 1
                task = asyncio.create_task(self._append_one(leader))
                self._appending.add(task)
                task.add_done_callback(self._appending.discard)
            await asyncio.sleep(min(1 / self.options.rate, RETRY_S))

    async def _bootstrap(self) -> None:
        while True:
            try:
                await self.quorum.begin(await self.quorum.wait_leader(LEADER_TIMEOUT_S))
            except NotAppendedError:
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def _append_one(self, leader: Node) -> None:
        self.appended += 1
        begun_s = time.perf_counter()
        try:
            await leader.append([NO_OP])
        except NotAppendedError:
            return
        self.acknowledged += 1
        if len(self._latencies_ms) == LATENCIES_MAX:
            del self._latencies_ms[: LATENCIES_MAX // 2]
        self._latencies_ms.append((time.perf_counter() - begun_s) * 1000)

    async def _hurt(self) -> None:
        """Kill the leader at intervals, measure the failover, and start the node again."""
        every_s = self.options.kill_leader_every_s
        if every_s is None:
            await asyncio.Event().wait()
            return
        while True:
            await asyncio.sleep(every_s)
            leader = await self.quorum.wait_leader(LEADER_TIMEOUT_S)
            self._note(leader)
            node_id = leader.config.node_id
            begun_s = time.perf_counter()
            await self.quorum.kill(node_id)
            self.emit("killed", {"seconds": self.seconds, "id": node_id})
            leader = await self.quorum.wait_leader(LEADER_TIMEOUT_S, apart_from=node_id)
            took_ms = (time.perf_counter() - begun_s) * 1000
            self.failovers_ms.append(took_ms)
            self._note(leader)
            fields = {"seconds": self.seconds, "id": leader.config.node_id, "ms": round(took_ms, 1)}
            self.emit("failover", fields)
            await asyncio.sleep(DOWN_S)
            await self.quorum.start(node_id)
            self.emit("started", {"seconds": self.seconds, "id": node_id})


class LogEvents(logging.Handler):
    """Emits warnings and errors that the nodes log, instead of printing them over the view."""

    def __init__(self, view: LiveView) -> None:
        super().__init__(logging.WARNING)
        self.view = view

    def emit(self, record: logging.LogRecord) -> None:
        """Emit a record of the log."""
        fields: dict[str, Any] = {"seconds": self.view.seconds, "message": record.getMessage()}
        for key in ("node", "peer", "reason"):
            if hasattr(record, key):
                fields[key] = getattr(record, key)
        self.view.emit("log", fields)

    def __enter__(self) -> LogEvents:
        logger = logging.getLogger(LOGGER)
        logger.addHandler(self)
        logger.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        logger = logging.getLogger(LOGGER)
        logger.removeHandler(self)
        logger.propagate = True


def _node_state(node_id: int, node: Node | None, end_offset: int | None) -> dict[str, Any]:
    if node is None:
        return {"id": node_id, "role": None}
    core = node.core
    role = str(core.role.name)
    if core.role.name is RoleName.FOLLOWER and node_id not in core.log.voters.last:
        role = "observer"
    own_end = core.log.end_offset
    return {
        "id": node_id,
        "role": role,
        "epoch": core.epoch,
        "leaderId": core.leader_id,
        "logEndOffset": own_end,
        "highWatermark": core.committed_offset,
        "lag": None if end_offset is None else end_offset - own_end,
    }


def _quantile(ordered: list[float], part: float) -> float | None:
    return round(ordered[int(len(ordered) * part)], 2) if ordered else None
