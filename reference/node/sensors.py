"""Measurements of a running node, for its metrics.

Averages, maxima and rates are of the last half minute to a minute, as Kafka's are by default (two
samples of 30 s, ``org.apache.kafka.common.metrics.stats.SampledStat``).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft.types import NONE

if TYPE_CHECKING:
    from kraftspec.reference.raft import Core

SAMPLE_S: Final = 30.0  # metrics.sample.window.ms
SAMPLES_COUNT: Final = 2  # metrics.num.samples
IDLE_NOTED_S: Final = 1.0
_WAITING_MAX: Final = 10_000  # Appends whose commit is waited for; beyond, some are not measured.
_ELECTING: Final = (RoleName.PROSPECTIVE, RoleName.CANDIDATE)


class Window:
    """What was recorded in the last samples: how many, their sum, their maximum."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._samples: deque[list[float]] = deque()  # [began, count, sum, maximum]

    def record(self, value: float) -> None:
        """Take a value."""
        self.record_at(self._now_s(), value)

    def record_at(self, now_s: float, value: float) -> None:
        """Take a value of a moment that is known already."""
        if not self._samples or now_s - self._samples[-1][0] >= SAMPLE_S:
            self._samples.append([now_s, 0, 0.0, value])
            while len(self._samples) > SAMPLES_COUNT:
                self._samples.popleft()
        sample = self._samples[-1]
        sample[1] += 1
        sample[2] += value
        sample[3] = max(sample[3], value)

    def _recent(self) -> list[list[float]]:
        oldest_s = self._now_s() - SAMPLE_S * SAMPLES_COUNT
        return [sample for sample in list(self._samples) if sample[0] >= oldest_s]

    @property
    def total(self) -> float:
        """The sum."""
        return sum(sample[2] for sample in self._recent())

    @property
    def average(self) -> float:
        """The mean; NaN of nothing, as Kafka has it."""
        count = sum(sample[1] for sample in self._recent())
        return self.total / count if count else float("nan")

    @property
    def maximum(self) -> float:
        """The largest; NaN of nothing."""
        return max((sample[3] for sample in self._recent()), default=float("nan"))

    @property
    def rate(self) -> float:
        """The sum by the second; of a window that has just begun, as if it were a sample long."""
        samples = self._recent()
        if not samples:
            return 0.0
        elapsed_s = self._now_s() - samples[0][0]
        if elapsed_s < SAMPLE_S * (SAMPLES_COUNT - 1):
            elapsed_s += SAMPLE_S
        return self.total / elapsed_s


class Sensors:
    """Measurements of events. ``stepped`` is called at the end of each turn of events."""

    def __init__(self) -> None:
        self.commit_ms = Window()
        self.election_ms = Window()
        self.fetched = Window()
        self.appended = Window()
        self._idle_s = Window()
        self._whole_s = Window()
        self._end_offset: int | None = None
        self._waiting: deque[tuple[int, float]] = deque()  # (offset to be committed, since when)
        self._electing_since_s: float | None = None
        self._noted_at_s = time.monotonic()
        self._unnoted_s = 0.0

    def stepped(self, core: Core) -> None:
        """Look at what has changed since the last call."""
        end_offset = core.log.end_offset
        is_leader = core.role.name is RoleName.LEADER
        if end_offset != self._end_offset:
            grown = end_offset - (end_offset if self._end_offset is None else self._end_offset)
            if grown > 0 and end_offset > core.log.start_offset:  # Else a snapshot took its place.
                now_s = time.monotonic()
                (self.appended if is_leader else self.fetched).record_at(now_s, grown)
                if is_leader and len(self._waiting) < _WAITING_MAX:
                    self._waiting.append((end_offset, now_s))
            self._end_offset = end_offset
        if self._waiting:
            self._look_at_commits(core, is_leader)
        if core.role.name in _ELECTING:
            if self._electing_since_s is None:
                self._electing_since_s = time.monotonic()
        elif self._electing_since_s is not None and core.leader_id != NONE:
            self.election_ms.record((time.monotonic() - self._electing_since_s) * 1e3)
            self._electing_since_s = None

    def _look_at_commits(self, core: Core, is_leader: bool) -> None:
        if not is_leader:
            self._waiting.clear()
        while self._waiting and self._waiting[0][0] <= core.high_watermark:
            _, since_s = self._waiting.popleft()
            now_s = time.monotonic()
            self.commit_ms.record_at(now_s, (now_s - since_s) * 1e3)

    def waited(self, began_s: float) -> None:
        """Take note that the node waited for an event, from ``began_s`` until now."""
        now_s = time.monotonic()
        self._unnoted_s += now_s - began_s
        if now_s - self._noted_at_s >= IDLE_NOTED_S:
            self._idle_s.record_at(now_s, self._unnoted_s)
            self._whole_s.record_at(now_s, now_s - self._noted_at_s)
            self._noted_at_s, self._unnoted_s = now_s, 0.0

    @property
    def idle_ratio(self) -> float:
        """How much of the time the node waited."""
        whole_s = self._whole_s.total + time.monotonic() - self._noted_at_s
        return (self._idle_s.total + self._unnoted_s) / whole_s if whole_s else float("nan")
