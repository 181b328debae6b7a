"""A pool of adapter processes: it judges each answer, and charges crashes and hangs to cases.

Each worker has one adapter process and its own cases. When an adapter dies or hangs with several
requests in flight, these are repeated one at a time in a new process, until one of them does it
again. That one is charged, and the run continues after it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Final, NamedTuple, TypeVar

from msgspec import UNSET

from kraftspec.conformance.adapters.harness import Adapter, AdapterError, Answer, Failure
from kraftspec.conformance.raw.harness import HelloReply
from kraftspec.conformance.runner.cases import Case
from kraftspec.conformance.runner.judge import Kind, Outcome, Skipped, Wrong, judge
from kraftspec.conformance.vectors import KAFKA
from kraftspec.specs import specs_root

# One that dies over each test of some family is judged, as kafka-protocol does of 500; one that
# always dies is given up. A crash takes two restarts: to find whom to charge, and to go on.
RESTARTS_MAX = 700
CASES_PER_RESTART_MIN = 100  # Of a run of many cases, which may have that many more.
# For an adapter that has never answered a case.
ENDINGS_UNANSWERED_MAX = 20
PROTOCOL_ERRORS_UNANSWERED_MAX = 3  # Protocol errors of such an adapter are not due to a test.
TIMEOUTS_MAX = 20  # A hang takes two timeouts.
LOAD_TIMEOUT_S = 120.0  # The Java compiler compiles a set.
PROGRESS_EVERY_COUNT = 512  # Cases between two reports of progress.
PROGRESS_EVERY_S = 2.0  # Of waiting, between two reports of what is waited for.
DETAIL_CHARS_MAX = 2000  # Of what an adapter wrote to standard error.

NOT_RUN: Final = Skipped("not run: the harness failed before its turn")
# The reply itself names the request. After a death or a hang the request is unknown.
_KINDS: dict[Failure, Kind] = {
    "died": "crash", "timeout": "hang", "rubbish": "rubbish", "order": "order", "twice": "twice",
    "oversize": "oversize",
}  # fmt: skip

Progress = Callable[[str, int, int], None]
T = TypeVar("T")


class Pool:
    """The shared state of the workers of a run: cases, outcomes, limits.

    Attributes:
        outcomes: one for each case; ``NOT_RUN`` if it did not run.
        restarts: the number of restarts of adapters.
        answered: whether any case has an answer, right or wrong.
        failure: why the run ended early.
    """

    def __init__(
        self, cases: Sequence[Case], *, exact: bool, progress: Progress | None, keep: bool = False
    ) -> None:
        """Take the cases; ``progress`` is called with (counts, finished cases, all cases).

        ``keep``: adapters without an error keep running after their cases.
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
        """Give each adapter its cases; start it if it is not running; see ``keep``."""
        self._total = sum(map(len, hands))
        workers = [Worker(self, *pair) for pair in zip(adapters, hands, strict=True)]
        with ThreadPoolExecutor(len(workers)) as threads:
            futures = [threads.submit(worker.run) for worker in workers]
            try:
                while wait(futures, PROGRESS_EVERY_S, FIRST_EXCEPTION).not_done:
                    if any(future.done() and future.exception() for future in futures):
                        break
                    self._report_wait(workers)
                for future in futures:
                    future.result()
            except BaseException as error:  # Also on an interrupt: do not wait for a hang.
                self.failure = self.failure or AdapterError("died", f"interrupted: {error}")
                for adapter in adapters:
                    adapter.kill()
                raise

    def _report_wait(self, workers: Sequence[Worker]) -> None:
        """Tell which case an adapter has not answered for a while."""
        if self._progress is None:
            return
        for worker in workers:
            waited_s = worker.waited_s()
            if waited_s >= PROGRESS_EVERY_S and worker.at < len(worker.hand):
                case = self.cases[worker.hand[worker.at]]
                name = f"{case.spec}/{case.message} v{case.test.version} {case.direction}"
                with self._lock:
                    self._progress(
                        f"{waited_s:.0f} s without a reply to {name} {case.test.id}",
                        self._done,
                        self._total,
                    )

    def report(self, numbers: Sequence[int]) -> None:
        """Count the finished cases, and report the progress."""
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
            unanswered_max = PROTOCOL_ERRORS_UNANSWERED_MAX if breach else ENDINGS_UNANSWERED_MAX
            never = not self.answered and self.restarts >= unanswered_max
            if self.failure is None and (
                never or self.restarts > restarts_max or self._timeouts > TIMEOUTS_MAX
            ):
                why = f"{self.restarts} restarts, {self._timeouts} of them after timeouts"
                if never:
                    why += ", and no case was ever answered"
                self.failure = AdapterError(error.kind, f"given up after {why}; the last: {error}")
            return self.failure is None


class Charge(NamedTuple):
    """Why a request has no answer.

    Attributes:
        error: how the adapter ended.
        passes_alone: whether the adapter did not end when the requests in flight were repeated one
            at a time. The first of them is then charged, and also has an answer.
    """

    error: AdapterError
    passes_alone: bool = False


def exchange(
    adapter: Adapter,
    count: int,
    put: Callable[[int, int], Iterator[T]],
    again: Callable[[AdapterError], bool],
) -> Iterator[tuple[int, T | Charge]]:
    """Send requests, pipelined; yield the number of each one with its answer or charge.

    Args:
        adapter: the adapter, running.
        count: how many requests there are.
        put: sends those from the first number up to the second, and yields the answers.
        again: restarts the adapter after an error; False: it gives up.

    A charge may follow the answer to the same request, and replaces it. A protocol error is charged
    at once. When the adapter dies or hangs with several requests in flight, these are repeated one
    at a time, and the one that ends it again is charged.

    Raises ``AdapterError`` when the adapter does not start any more.
    """
    at = first = end = 0
    ended: AdapterError | None = (
        None  # Set while the requests from first to end are repeated one at a time.
    )
    while at < count:
        try:
            for answer in put(at, count if ended is None else at + 1):
                yield at, answer
                at += 1
        except AdapterError as error:
            if error.kind == "start":
                raise
            in_flight_count = adapter.unanswered_count
            alone, ended = ended is not None, None
            if error.kind == "twice" and at:  # The error is about the previous request.
                yield at - 1, Charge(error)
            elif error.kind in ("died", "timeout") and not alone and in_flight_count > 1:
                ended, first, end = error, at, at + in_flight_count
            else:
                yield at, Charge(error)
                at += 1
            if not again(error):
                return
        if ended is not None and at == end:
            yield first, Charge(ended, passes_alone=True)
            ended = None


class Worker:
    """One adapter process and its cases."""

    def __init__(self, pool: Pool, adapter: Adapter, hand: Sequence[int]) -> None:
        """Take the cases of these numbers; the adapter may be running already."""
        self.pool = pool
        self.adapter = adapter
        self.hand = hand
        self.at = 0  # In ``hand``: the oldest case without an outcome.
        self.reported = 0
        self._seen = (0, time.monotonic())

    def waited_s(self) -> float:
        """Return for how long no case has been answered, as far as calls of this tell."""
        now = time.monotonic()
        if self._seen[0] != self.at:
            self._seen = (self.at, now)
        return now - self._seen[1]

    def run(self) -> None:
        """Run the cases. A failure of the harness is in ``Pool.failure`` afterwards."""
        pool, well = self.pool, False
        try:
            if not self.adapter.running:  # The first adapter is running already.
                self._begin()
            self._work()
            self._end()
            well = pool.keep and pool.failure is None
        except AdapterError as error:  # It does not start again.
            pool.failure = pool.failure or error
        finally:
            if not well:
                self.adapter.kill()
                self.adapter.stop()
            self._report()

    def _begin(self) -> None:
        begin(self.adapter, {self.pool.cases[number].spec for number in self.hand})

    def _work(self) -> None:
        """Judge the answer to each case, until the end or until the pool gives up."""
        pool, exact, hand = self.pool, self.pool.exact, self.hand
        cases, outcomes = pool.cases, pool.outcomes
        for at, answer in exchange(self.adapter, len(hand), self._put, self._again):
            number = hand[at]
            if isinstance(answer, Charge):
                outcomes[number] = _charged(answer)
                self.at = max(self.at, at + 1)
                continue
            outcomes[number] = judge(cases[number], answer, exact=exact)
            pool.answered = True
            self.at = at + 1
            if self.at - self.reported >= PROGRESS_EVERY_COUNT:
                self._report()
                if pool.failure is not None:
                    return

    def _put(self, first: int, end: int) -> Iterator[Answer]:
        cases = self.pool.cases
        return self.adapter.exchange(cases[number].line() for number in self.hand[first:end])

    def _report(self) -> None:
        self.pool.report(self.hand[self.reported : self.at])
        self.reported = self.at

    def _again(self, error: AdapterError) -> bool:
        """Restart the adapter after an error; False: there were too many errors."""
        if not self.pool.restarted(error):
            return False
        self._begin()
        return True

    def _end(self) -> None:
        """Stop the adapter; unrequested lines are charged to the last case.

        An adapter that keeps running gets hello instead: such lines precede its reply.
        """
        if self.pool.failure is not None:
            return
        if self.pool.keep:
            if self.adapter.running and self.hand:
                try:
                    self.adapter.hello()
                except AdapterError as error:
                    self.pool.outcomes[self.hand[-1]] = _charged(Charge(error))
            return
        self.adapter.stop()
        if self.adapter.unasked and self.hand:
            line = self.adapter.unasked[0][:200]
            self.pool.outcomes[self.hand[-1]] = Wrong(
                kind="twice",
                detail=f"{len(self.adapter.unasked)} more lines than requests; the first: {line!r}",
            )


def _charged(charge: Charge) -> Wrong:
    detail = str(charge.error)[:DETAIL_CHARS_MAX]
    if charge.passes_alone:
        detail += "; alone it passes, so that what came before it may have had a part in it"
    return Wrong(kind=_KINDS[charge.error.kind], detail=detail)


def begin(adapter: Adapter, sets: set[str]) -> HelloReply:
    """Start an adapter if it is not running, and return its hello. Raises ``AdapterError``.

    An adapter that compiles sets of specs gets the missing ones, which are then in its hello.
    """
    if not adapter.running:
        adapter.start()
    hello = adapter.hello()
    load = getattr(adapter, "load", None)
    others = {} if hello.sets is UNSET else hello.sets
    if load is not None:
        with adapter.patient(LOAD_TIMEOUT_S):
            for name in sorted(sets - set(others) - {KAFKA}):
                others = {**others, name: load(name, directory=specs_root() / name)}
        hello.sets = others
    return hello
