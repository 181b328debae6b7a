"""The host of a node on a real machine: events from asyncio, disk work in threads.

One coroutine takes events in the order in which they come, and lets the `Host` carry out the core's
effects. What may wait for the disk (quorum-state, a truncation, the first append of an epoch) runs
in a thread, and the next effect only after it: the order of effects stays that of the core, while
other connections are served. A sync of the log runs in parallel, and its end is an event like any
other. Where syncs are shorter than the way to a thread and back, the next one is made here, at the
end of a turn.

Events are taken in turns. Answers are sent at the end of a turn, or before an event has to wait
for the disk. An answer with records is filled then, so it has what was appended since, too. Nothing
else can have happened to the log: what cuts it, and what begins another epoch, waits for the disk.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

from kraftspec.reference.host import Host, Wait
from kraftspec.reference.node.sensors import Sensors
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.transitions import FatalError
from kraftspec.reference.raft.types import NEVER_US

if TYPE_CHECKING:
    from kraftspec.reference.raft import effects as fx

EVENTS_A_TURN: Final = 32  # Followers get what was appended while the next turn appends more.
SHORT_SYNC_S: Final = 0.001  # One that takes longer, and those after it, go to a thread.
SYNCS_REMEMBERED: Final = 32

log = logging.getLogger("kraftspec.node")


class AsyncioHost(Host):
    """A host that is driven by asyncio. A subclass has where messages go, and how it ends.

    ``left`` is set when the core has nothing more to do, ``ended`` when the node is ending: nothing
    begins any more. ``failure`` is what ended it, or the error of its disk as it ended.
    """

    def __init__(self, node_id: int) -> None:
        super().__init__()
        self.failure: BaseException | None = None
        self.ended = asyncio.Event()
        self.left = asyncio.Event()
        self.sensors = Sensors()
        self.disk = ThreadPoolExecutor(2, thread_name_prefix=f"node-{node_id}-disk")
        self.inbox: deque[ev.Event] = deque()
        self._node_id = node_id
        self._turns: deque[Callable[[], Coroutine[Any, Any, None] | None]] = deque()
        self._answers: list[fx.Answer] = []  # Sent when the turn ends.
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us = NEVER_US
        self._watchers: list[tuple[Callable[[Any], bool], asyncio.Future[None]]] = []
        self._driver: asyncio.Task[None] | None = None
        self._ending: asyncio.Future[None] | None = None
        self._written: Future[Any] | None = None  # What the driver had the disk do last.
        self._sync_is_due = False
        self._sync_times_s: deque[float] = deque(maxlen=SYNCS_REMEMBERED)
        self._clock_base_ns = time.time_ns() - time.monotonic_ns()

    # ---- for subclasses ------------------------------------------------------------------------

    async def end(self, failure: BaseException | None) -> None:
        """Let everything go. After a failure nothing more is written or sent."""
        raise NotImplementedError

    def answer(self, effect: fx.Answer) -> None:
        """Send an answer, with the bytes that the log has now."""
        raise NotImplementedError

    def stepped(self) -> None:
        """An event was taken, with all that follows from it."""

    def ticked(self) -> None:
        """A deadline of the core has come; it will take a `Tick` in its turn."""

    # ---- for others ----------------------------------------------------------------------------

    def post(self, event: ev.Event) -> None:
        """Let the core take an event, after those that came before it."""
        self.inbox.append(event)
        self._wake.set()

    def take_turn(self, work: Callable[[], Coroutine[Any, Any, None] | None]) -> None:
        """Do something between two events, when nothing else is done to the log but syncing it."""
        self._turns.append(work)
        self._wake.set()

    def clock_us(self) -> int:
        """Microseconds since 1970 by a clock that never jumps: set once, at the node's start."""
        return (self._clock_base_ns + time.monotonic_ns()) // 1000

    async def until(self, condition: Callable[[Self], bool], timeout_s: float | None) -> None:
        """Wait until something is so, looked at after each event; TimeoutError where it is not."""
        if condition(self):
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (condition, future)
        self._watchers.append(entry)
        try:
            await asyncio.wait_for(future, timeout_s)
        finally:
            if entry in self._watchers:
                self._watchers.remove(entry)

    # ---- driving -------------------------------------------------------------------------------

    @property
    def is_driving(self) -> bool:
        """Whether it was started."""
        return self._driver is not None

    def begin_driving(self) -> None:
        """Take events from now on."""
        self._driver = asyncio.get_running_loop().create_task(self._drive())

    async def stop_driving(self) -> None:
        """Take no event any more. Each waiter gets the failure."""
        if self._timer is not None:
            self._timer.cancel()
        if self._driver is not None and self._driver is not asyncio.current_task():
            self._driver.cancel()
            with suppress(asyncio.CancelledError):
                await self._driver
        for _, future in self._watchers:
            if not future.done():
                future.set_exception(self.failure or ConnectionError("the node stopped"))

    def close_disk(self) -> None:
        """Close the log once what was being written has come to its end; raise if that failed."""
        self.disk.shutdown()
        self.storage.close()
        if self._written is not None and not self._written.cancelled():
            self._written.result()  # Nobody else learns of its failure: the driver is gone.

    # ---- events --------------------------------------------------------------------------------

    async def _drive(self) -> None:
        """Take events and carry out effects until the core is done, or something fails."""
        try:
            while not self.left.is_set():
                if not self.inbox and not self._turns:
                    self._wake.clear()
                    began_s = time.monotonic()
                    await self._wake.wait()
                    self.sensors.waited(began_s)
                await self._take_turn()
                is_busy = bool(self.inbox or self._turns)
                if self._sync_is_due:
                    self._sync_here()
                if is_busy:
                    await asyncio.sleep(0)  # Other tasks get their turn.
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            log.critical(
                "the node stops: it failed",
                extra={"node": self._node_id, "reason": f"{type(error).__name__}: {error}"},
                exc_info=not isinstance(error, OSError | FatalError),
            )
            log.debug("where it failed", exc_info=True)
            await self.end(error)

    async def _take_turn(self) -> None:
        """Take some events, send the answers, measure, and set the timer."""
        for _ in range(EVENTS_A_TURN):
            if self._turns:
                waits = self._turns.popleft()()
            elif self.inbox:
                waits = self._step(self.inbox.popleft())
            else:
                break
            if waits is not None:
                self._send_answers()
                await waits
            self.stepped()
        self._send_answers()
        self.sensors.stepped(self.core)
        deadline_us = self.core.next_deadline_us()
        if deadline_us < self._timer_us:  # A timer that fires too early is set again then.
            if self._timer is not None:
                self._timer.cancel()
            self._set_timer(deadline_us)

    def _step(self, event: ev.Event) -> Wait | None:
        """Let the core take an event; return what is left to be done where the disk is slow."""
        wait = self.carry_out(self.core.step(event, self.clock_us()))
        if wait is not None:
            return self._finish_step(wait)
        self._tell_watchers()
        return None

    async def _finish_step(self, wait: Wait) -> None:
        await wait
        while self.upcoming:
            # Before what came meanwhile: the leader was not silent, as a timer would have it.
            self.inbox.appendleft(self.upcoming.pop())
        self._tell_watchers()

    def _tell_watchers(self) -> None:
        for condition, future in self._watchers[:] if self._watchers else ():
            if not future.done() and condition(self):
                future.set_result(None)

    def on_answer(self, effect: fx.Answer) -> None:
        """Send it when the turn ends."""
        self._answers.append(effect)

    def _send_answers(self) -> None:
        if self._answers:
            answers, self._answers = self._answers, []
            for effect in answers:
                self.answer(effect)

    def _set_timer(self, deadline_us: int) -> None:
        self._timer_us = deadline_us
        delay_s = max(deadline_us - self.clock_us(), 0) / 1e6
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._timer_us = NEVER_US
        deadline_us = self.core.next_deadline_us()
        if deadline_us <= self.clock_us():
            self.ticked()
            self.post(ev.Tick())
        elif deadline_us < NEVER_US:
            self._set_timer(deadline_us)

    # ---- the disk ------------------------------------------------------------------------------

    async def on_disk(self, work: Callable[[Any], Any], argument: Any) -> None:
        """Do it in a thread."""
        self._written = self.disk.submit(work, argument)
        await asyncio.wrap_future(self._written)

    def on_append_records(self, effect: fx.AppendRecords) -> Wait | None:
        """Append in a thread only where the disk may sync something first."""
        if self.storage.append_syncs(effect):
            return super().on_append_records(effect)
        self.storage.append_records(effect)
        return None

    def on_append_batches(self, effect: fx.AppendBatches) -> Wait | None:
        """Append in a thread only where the disk may sync something first."""
        if self.storage.append_syncs(effect):
            return super().on_append_batches(effect)
        self.append_batches(effect.batches)
        return None

    def begin_sync(self) -> None:
        """Sync in a thread, beside what comes next; or soon, where that takes no time."""
        self.is_syncing = True
        times_s = self._sync_times_s
        if len(times_s) == SYNCS_REMEMBERED and max(times_s, default=0.0) < SHORT_SYNC_S:
            self._sync_is_due = True
            return
        running = asyncio.get_running_loop().run_in_executor(
            self.disk, self._timed_flush, self.take_flush()
        )
        running.add_done_callback(self._sync_ended)

    def _timed_flush(self, effect: fx.FlushLog) -> ev.LogFlushed:
        began_s = time.monotonic()
        flushed = self.storage.flush(effect)
        self._sync_times_s.append(time.monotonic() - began_s)
        return flushed

    def _sync_here(self) -> None:
        self._sync_is_due = False
        flushed = self._timed_flush(self.take_flush())
        self.synced(flushed)
        self.post(flushed)

    def _sync_ended(self, done: asyncio.Future[ev.LogFlushed]) -> None:
        self.is_syncing = False
        if done.cancelled():
            return
        error = done.exception()
        if self.ended.is_set():
            self.failure = self.failure or error
        elif error is not None:
            self._fail_soon(error)
        else:
            self.synced(done.result())
            self.post(done.result())

    def _fail_soon(self, error: BaseException) -> None:
        """End the node before it takes another event."""
        log.critical(
            "the node stops: its disk failed",
            extra={"node": self._node_id, "reason": str(error)},
        )
        if self._driver is not None:
            self._driver.cancel()
        self._ending = asyncio.ensure_future(self.end(error))
