"""A lane: what goes to one peer of a connection, in order, some of it later."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from kraftspec.proxy.frame import Fate, Part

QUEUED_BYTES_MAX: Final = 1 << 20  # Then no more is read from who sends.


class _Item:
    """Parts to send. ``ready_at`` is in the loop's time; None: when somebody releases them."""

    __slots__ = ("close", "parts", "ready_at", "size")

    def __init__(self, parts: list[Part], ready_at: float | None, close: str | None) -> None:
        self.parts = parts
        self.size = sum(map(len, parts))
        self.ready_at = ready_at
        self.close = close


class Lane:
    """Sends in order. ``regulate`` is called when the sender should be read from, or no more."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        close: Callable[[str], None],
        regulate: Callable[[], None],
    ) -> None:
        self.transport: Any = None  # Of the receiver, once there is one.
        self.is_paused = False  # The receiver does not read.
        self.queued_bytes = 0
        self.sent_bytes = 0
        self._loop = loop
        self._close = close
        self._regulate = regulate
        self._queue: deque[_Item] = deque()
        self._late: _Item | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._late_timer: asyncio.TimerHandle | None = None
        self._free_at = 0.0
        self._has_end = False

    @property
    def is_full(self) -> bool:
        """Whether no more should be read from the sender."""
        return self.is_paused or self.queued_bytes > QUEUED_BYTES_MAX

    @property
    def is_ended(self) -> bool:
        """Whether the sender has nothing more, and the receiver has all."""
        return self._has_end and not self._queue and self._late is None

    @property
    def waits_for_next(self) -> bool:
        """Whether a frame waits for the one after it, which then has to come as a whole."""
        return self._late is not None

    def send(self, part: Part) -> None:
        """Send bytes as they are, after all that waits."""
        if self._queue or self.transport is None:
            self._append(_Item([part], 0.0, None))
        else:
            self.sent_bytes += len(part)
            self.transport.write(part)

    def put(self, fate: Fate) -> None:
        """Send a frame as its fate says."""
        if not fate.is_delivered:
            if fate.close is not None:
                self._append(_Item([], self._ready_at(fate, 0), fate.close))
                self._advance()
            return
        parts, close = fate.parts, fate.close
        if fate.cut_bytes is not None:
            parts, close = [b"".join(parts)[: fate.cut_bytes]], "after"
        for number in range(1 + fate.copies):
            is_last = number == fate.copies
            size = sum(map(len, parts))
            item = _Item(parts, self._ready_at(fate, size), close if is_last else None)
            if fate.hold is not None:
                item.ready_at = None
                fate.hold(partial(self._release, item))
            if fate.reorder_s is not None and self._late is None:
                self._put_off(item, fate.reorder_s)
                continue
            self._append(item)
            self._append_late()
        self._advance()

    def end(self) -> None:
        """The sender has nothing more: tell the receiver, after all that waits."""
        self._append_late()
        self._has_end = True
        self._advance()

    def stop(self) -> None:
        """Forget what waits."""
        for timer in (self._timer, self._late_timer):
            if timer is not None:
                timer.cancel()
        self._queue.clear()
        self._late = None
        self.queued_bytes = 0

    def attach(self, transport: Any) -> None:
        """Have a receiver, and send what has waited for it."""
        self.transport = transport
        self._advance()

    # ---- inside --------------------------------------------------------------------------------

    def _ready_at(self, fate: Fate, size: int) -> float:
        if not fate.delay_s and not fate.bytes_per_second:
            return 0.0
        ready_at = self._loop.time() + fate.delay_s
        if fate.bytes_per_second:
            ready_at = max(ready_at, self._free_at) + size / fate.bytes_per_second
            self._free_at = ready_at
        return ready_at

    def _append(self, item: _Item) -> None:
        self._queue.append(item)
        self.queued_bytes += item.size
        self._regulate()

    def _put_off(self, item: _Item, after_s: float) -> None:
        self._late = item
        self.queued_bytes += item.size
        self._late_timer = self._loop.call_later(after_s, self._late_is_due)

    def _late_is_due(self) -> None:
        self._append_late()
        self._advance()

    def _append_late(self) -> None:
        late, self._late = self._late, None
        if late is not None:
            assert self._late_timer is not None
            self._late_timer.cancel()
            self.queued_bytes -= late.size
            self._append(late)

    def _release(self, item: _Item) -> None:
        item.ready_at = 0.0
        self._advance()

    def _advance(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.transport is None:
            return
        while self._queue:
            item = self._queue[0]
            if item.ready_at is None:
                return
            if item.ready_at and item.ready_at > self._loop.time():
                self._timer = self._loop.call_at(item.ready_at, self._advance)
                return
            self._queue.popleft()
            self.queued_bytes -= item.size
            self.sent_bytes += item.size
            for part in item.parts:
                self.transport.write(part)
            if item.close is not None:
                self._close(item.close)
                return
        self._regulate()
        if not self.is_ended:
            return
        if not self.transport.can_write_eof():  # TLS ends in both directions at once.
            self._close("untold")
            return
        try:
            self.transport.write_eof()
        except OSError:  # The receiver has reset the connection, and nobody reads from it any more.
            self._close("after")
        else:
            self._close("ended")
