"""Adapters at work: cases put to processes, each answer judged, crashes and hangs charged.

Each worker has one adapter process and its own hand of cases. When an adapter dies or hangs with
several requests in flight, the suspects are repeated one at a time in a new process until one of
them does it again: that one is charged, and the run goes on behind it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from msgspec import UNSET

from kraftspec.conformance.cases import Case
from kraftspec.conformance.harness import Adapter, AdapterError, Failure
from kraftspec.conformance.judge import Kind, Outcome, Skipped, Wrong, judge
from kraftspec.conformance.raw.harness import HelloReply
from kraftspec.conformance.vectors import KAFKA
from kraftspec.specs import specs_root

# One that dies over each test of some family is judged, as kafka-protocol does of 500; one that
# always dies is given up. A crash takes two restarts: to find whom to charge, and to go on.
RESTARTS_MAX = 700
CASES_PER_RESTART_MIN = 100  # Of a run of many cases, which may have that many more.
# Of one that has never answered a case: it is not a codec yet.
ENDINGS_UNANSWERED_MAX = 20
BREACHES_UNANSWERED_MAX = 3  # Endings for what it said, which is no test's fault then.
TIMEOUTS_MAX = 20  # A hang takes two of them.
LOAD_TIMEOUT_S = 120.0  # A set is compiled by the Java compiler.
TOLD_EVERY_COUNT = 512  # Cases between two words on the progress.
DETAIL_CHARS_MAX = 2000  # Of what an adapter said on its standard error, with what it died of.

NOT_RUN: Final = Skipped("not run: the harness failed before its turn")
# Proven by the reply itself; only of a death or a hang it is not known which request did it.
_KINDS: dict[Failure, Kind] = {
    "died": "crash", "timeout": "hang", "rubbish": "rubbish", "order": "order", "twice": "twice",
    "oversize": "oversize",
}  # fmt: skip

Progress = Callable[[str, int, int], None]


class Pool:
    """What the workers of one run share: the cases, their outcomes, and when to give up.

    Attributes:
        outcomes: of each case; those that never ran are ``NOT_RUN``.
        restarts: how often an adapter was started again.
        answered: whether any case was answered, rightly or not.
        failure: why the run ended before its time.
    """

    def __init__(
        self, cases: Sequence[Case], *, exact: bool, progress: Progress | None, keep: bool = False
    ) -> None:
        """Set up for these cases; ``progress`` is told of (counts, cases done, of how many).

        ``keep``: adapters that are well run on when their cases are done.
        """
        self.cases = cases
        self.exact = exact
        self.keep = keep
        self.outcomes: list[Outcome] = [NOT_RUN] * len(cases)
        self.restarts = 0
        self.answered = False
        self.failure: AdapterError | None = None
        self._timeouts = 0
        self._total = self._done = self._failed = self._skipped = 0
        self._progress = progress
        self._lock = threading.Lock()

    def run(self, adapters: Sequence[Adapter], hands: Sequence[Sequence[int]]) -> None:
        """Put each hand of cases to its adapter, started here if it is not; see ``keep``."""
        self._total = sum(map(len, hands))
        workers = [Worker(self, *pair) for pair in zip(adapters, hands, strict=True)]
        if len(workers) == 1:
            workers[0].run()
            return
        with ThreadPoolExecutor(len(workers)) as threads:
            futures = [threads.submit(worker.run) for worker in workers]
            try:
                for future in futures:
                    future.result()
            except BaseException as error:  # An interruption too: nobody waits for a hang then.
                self.failure = self.failure or AdapterError("died", f"interrupted: {error}")
                for adapter in adapters:
                    adapter.kill()
                raise

    def tell(self, numbers: Sequence[int]) -> None:
        """Count the cases that are done, and say so."""
        outcomes = [self.outcomes[number] for number in numbers]
        with self._lock:
            self._done += len(outcomes)
            self._failed += sum(isinstance(outcome, Wrong) for outcome in outcomes)
            self._skipped += sum(isinstance(outcome, Skipped) for outcome in outcomes)
            if self._progress is not None:
                passed = self._done - self._failed - self._skipped
                what = f"{passed:,} passed, {self._failed:,} failed, {self._skipped:,} skipped"
                self._progress(what, self._done, self._total)

    def restarted(self, error: AdapterError) -> bool:
        """Count a restart; return whether there may be one more."""
        with self._lock:
            self.restarts += 1
            self._timeouts += error.kind == "timeout"
            restarts_max = RESTARTS_MAX + self._total // CASES_PER_RESTART_MIN
            breach = error.kind not in ("died", "timeout")
            unanswered_max = BREACHES_UNANSWERED_MAX if breach else ENDINGS_UNANSWERED_MAX
            never = not self.answered and self.restarts >= unanswered_max
            if self.failure is None and (
                never or self.restarts > restarts_max or self._timeouts > TIMEOUTS_MAX
            ):
                why = f"{self.restarts} restarts, {self._timeouts} of them after timeouts"
                if never:
                    why += ", and no case was ever answered"
                self.failure = AdapterError(error.kind, f"given up after {why}; the last: {error}")
            return self.failure is None


class Worker:
    """One adapter process and its hand of cases."""

    def __init__(self, pool: Pool, adapter: Adapter, hand: Sequence[int]) -> None:
        """Take the cases of these numbers; the adapter may have begun already."""
        self.pool = pool
        self.adapter = adapter
        self.hand = hand
        self.at = 0  # In the hand: the oldest case without an outcome.
        self.told = 0

    def run(self) -> None:
        """Work the hand off. What the harness fails at is in ``Pool.failure`` afterwards."""
        pool, well = self.pool, False
        try:
            if not self.adapter.running:  # The first has begun already.
                self._begin()
            while self.at < len(self.hand) and pool.failure is None:
                try:
                    self._put(self.hand[self.at :])
                except AdapterError as error:
                    self._recover(error)
            self._end()
            well = pool.keep and pool.failure is None
        except AdapterError as error:  # It does not start any more.
            pool.failure = pool.failure or error
        finally:
            if not well:
                self.adapter.kill()
                self.adapter.stop()
            self._tell()

    def _begin(self) -> None:
        begin(self.adapter, {self.pool.cases[number].spec for number in self.hand})

    def _put(self, numbers: Sequence[int]) -> None:
        """Put cases to the adapter, pipelined, from ``at`` on."""
        pool, exact = self.pool, self.pool.exact
        cases, outcomes = pool.cases, pool.outcomes
        first = self.at
        try:
            for answer in self.adapter.exchange(self._lines(numbers)):
                number = self.hand[self.at]
                outcomes[number] = judge(cases[number], answer, exact=exact)
                self.at += 1
                if self.at - self.told >= TOLD_EVERY_COUNT:
                    self._tell()
                    if pool.failure is not None:
                        return
        finally:
            pool.answered = pool.answered or self.at > first

    def _lines(self, numbers: Sequence[int]) -> Iterator[tuple[str, bytes]]:
        for number in numbers:
            yield self.pool.cases[number].line()

    def _tell(self) -> None:
        self.pool.tell(self.hand[self.told : self.at])
        self.told = self.at

    def _charge(self, at: int, error: AdapterError, more: str = "") -> None:
        detail = f"{str(error)[:DETAIL_CHARS_MAX]}{more}"
        self.pool.outcomes[self.hand[at]] = Wrong(kind=_KINDS[error.kind], detail=detail)

    def _again(self, error: AdapterError) -> bool:
        """Start the adapter again after an error; False: there have been too many."""
        if not self.pool.restarted(error):
            return False
        self._begin()
        return True

    def _recover(self, error: AdapterError) -> None:
        """Find whom to charge, and leave ``at`` behind that case."""
        if error.kind == "start":
            raise error
        if error.kind == "twice" and self.at:  # It is of the one before.
            self._charge(self.at - 1, error)
        elif error.kind not in ("died", "timeout"):
            self._charge(self.at, error)
            self.at += 1
        else:
            self._find(error)
            return
        self._again(error)

    def _find(self, error: AdapterError) -> None:
        """Repeat the suspects one at a time until it happens again."""
        first, latest = self.at, error
        suspects = self.hand[first : first + self.adapter.unanswered_count]
        if not self._again(error):
            return
        if len(suspects) > 1:
            try:
                for number in suspects:
                    self._put([number])
            except AdapterError as repeated:
                if repeated.kind not in ("died", "timeout"):
                    self._recover(repeated)
                    return
                latest = repeated
        if self.at == first + len(suspects):
            more = "; alone it passes, so that what came before it may have had a part in it"
            self._charge(first, error, more if len(suspects) > 1 else "")
            return
        self._charge(self.at, latest)
        self.at += 1
        if latest is not error:
            self._again(latest)

    def _end(self) -> None:
        """Stop the adapter; lines that nobody asked for are charged to the last case.

        One that runs on is asked hello instead: such lines would be read before its reply.
        """
        if self.pool.failure is not None:
            return
        if self.pool.keep:
            if self.adapter.running and self.hand:
                try:
                    self.adapter.hello()
                except AdapterError as error:
                    self._charge(len(self.hand) - 1, error)
            return
        self.adapter.stop()
        if self.adapter.unasked and self.hand:
            said = self.adapter.unasked[0][:200]
            self.pool.outcomes[self.hand[-1]] = Wrong(
                kind="twice",
                detail=f"{len(self.adapter.unasked)} more lines than requests; the first: {said!r}",
            )


def begin(adapter: Adapter, sets: set[str]) -> HelloReply:
    """Say hello to an adapter, started where it is not; return its hello. ``AdapterError``.

    One that compiles sets of specs is given those that it lacks, and they stand in its hello.
    """
    if not adapter.running:
        adapter.start()
    hello = adapter.hello()
    load = getattr(adapter, "load", None)
    others = {} if hello.sets is UNSET else hello.sets
    if load is not None:
        timeout_s, adapter.timeout_s = adapter.timeout_s, max(adapter.timeout_s, LOAD_TIMEOUT_S)
        for name in sorted(sets - set(others) - {KAFKA}):
            others = {**others, name: load(name, directory=specs_root() / name)}
        adapter.timeout_s = timeout_s
        hello.sets = others
    return hello
