"""Plays exchanges with a client, and judges what it did."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import msgspec

from kraftspec.conformance.clients.driver import (
    Ask,
    Driver,
    DriverAteError,
    DriverEndedError,
    DriverHungError,
    Reply,
)
from kraftspec.conformance.clients.exchange_files import Connect, Exchange, Step
from kraftspec.conformance.clients.stage import Stage
from kraftspec.conformance.runner.known import KnownFailures
from kraftspec.loop_thread import LoopThread

Verdict = Literal[
    "correct", "survives", "gives up", "wrong", "loses", "doubles", "hangs", "exhausts", "crashes",
    "not supported", "not reached", "no verdict",
]  # fmt: skip
NOT_JUDGED: tuple[Verdict, ...] = ("not supported", "not reached", "no verdict")
DISCLOSED_LATER: tuple[Verdict, ...] = ("hangs", "exhausts", "crashes")
START_S = 120.0
OUTPUT_LINES_MAX = 10
_WAIT_S = 600.0  # For what runs in the thread of the brokers.


class Result(msgspec.Struct, kw_only=True):
    """How a client did in an exchange."""

    exchange: str
    verdict: Verdict
    passed: bool
    detail: str = ""
    known: str | None = None  # Why it is expected to fail so.
    seconds: float = 0.0
    requests: list[tuple[str, int]] = []
    # Of a failure: every frame, in hex and by its fields; the same for people; the driver's stderr.
    exchanged: list[dict[str, Any]] = []
    diagram: list[str] = []
    output: list[str] = []


class Timing(msgspec.Struct, frozen=True):
    """The client's own time-out, and how long it may be late before it hangs."""

    client_s: float = 5.0
    patience_s: float = 30.0
    connect_s: float = 0.0  # Of a connect that must succeed, where it has longer.

    def deadline_s(self) -> float:
        """How long an answer may take."""
        return max(self.client_s, self.connect_s) + self.patience_s


class Player:
    """``with Player(driver, …) as player``: plays exchanges, one after another."""

    def __init__(
        self,
        driver: Driver,
        timing: Timing | None = None,
        *,
        kafka_port: int | None = None,
        certificates: Path | None = None,
    ) -> None:
        self.driver = driver
        self.timing = timing or Timing()
        self._kafka_port = kafka_port
        self._certificates = certificates
        self._thread = LoopThread("kraftspec brokers", _WAIT_S)

    def __enter__(self) -> Player:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.stop()

    def play(self, exchange: Exchange) -> Result:
        """Play an exchange. Raises DriverError, OSError, ValueError (of a script)."""
        began = time.monotonic()
        if not self.driver.is_running:
            self.driver.start(START_S)
        lacks = sorted(_needs(exchange) & set(self.driver.greeting.cannot))
        if lacks:
            detail = f"it has no {', '.join(lacks)}"
            return Result(
                exchange=exchange.name, verdict="not supported", passed=True, detail=detail
            )
        port = self._kafka_port if exchange.given.broker == "either" else None
        mark = self.driver.mark()
        with Stage(
            self._thread, exchange, kafka_port=port, certificates=self._certificates,
            client_s=self.timing.client_s,
        ) as stage:  # fmt: skip
            judge = _Judge(exchange, stage, self.timing)
            judge.play(self.driver)
            result = judge.result()
            try:
                stage.check()
            except Exception as error:  # It is not the client's.
                result.verdict, result.passed = "no verdict", False
                result.detail = f"the scripted broker failed: {type(error).__name__}: {error}"
        if not result.passed:
            result.exchanged = [entry.to_json() for entry in stage.transcript.entries]
            result.diagram = stage.transcript.lines()
            result.output = self.driver.output(mark)[-OUTPUT_LINES_MAX:]
        result.seconds = time.monotonic() - began
        return result


def play_all(
    player: Player, exchanges: Sequence[Exchange], advance: Callable[..., None]
) -> list[Result]:
    """Play exchanges in order."""
    results = []
    for done, exchange in enumerate(exchanges):
        advance(exchange.name, done, len(exchanges))
        results.append(player.play(exchange))
    return results


def excuse(results: Sequence[Result], known: KnownFailures) -> list[str]:
    """Note what is known to fail: entries for ``EXCHANGE/VERDICT``, either of them a pattern.

    Return the entries whose exchanges were played, and none of which failed so.
    """
    for result in results:
        entry = None if result.passed else known.named(f"{result.exchange}/{result.verdict}")
        if entry is not None:
            result.known = entry.reason
            entry.failed += 1
    played = [result.exchange for result in results if result.verdict not in NOT_JUDGED]
    tests = [str(entry.test) for entry in known.entries if not entry.failed]
    return [
        test
        for test in tests
        if any(fnmatchcase(exchange, test.partition("/")[0]) for exchange in played)
    ]


class _Judge:
    """What a client did in one exchange."""

    def __init__(self, exchange: Exchange, stage: Stage, timing: Timing) -> None:
        self.exchange, self.stage, self.timing = exchange, stage, timing
        self.problems: list[tuple[Verdict, str]] = []  # The worst comes last.
        self.survived: list[str] = []
        self.acknowledged: list[str] = []

    def play(self, driver: Driver) -> None:
        steps = list(self.exchange.steps)
        if steps[0].connect is None:
            steps.insert(0, Step(connect=Connect()))
        at = "connect"
        try:
            for number, step in enumerate(steps):
                at = f"{step.verb}, step {number}"
                self._judge(step, driver.ask(self._ask(step), self.timing.deadline_s()), at)
            at = "close"
            driver.ask(self._plain("close"), self.timing.deadline_s())
        except DriverHungError as error:
            driver.kill()
            self.problems.append(("hangs", f"{at}: {error}"))
        except DriverAteError as error:
            self.problems.append(("exhausts", f"{at}: {error}"))
        except DriverEndedError as error:
            driver.kill()
            text = str(error)
            is_memory = "OutOfMemory" in text or "out of memory" in text or "MemoryError" in text
            self.problems.append(("exhausts" if is_memory else "crashes", f"{at}: {text}"))

    def result(self) -> Result:
        if not any(verdict in DISCLOSED_LATER for verdict, _ in self.problems):
            self._judge_log()
            self._judge_requests()
        verdict: Verdict = "survives" if self.survived else "correct"
        detail = "; ".join(self.survived)
        if self.problems:
            verdict, detail = self.problems[-1]
        elif unmet := self.stage.unmet():
            verdict, detail = "not reached", f"it did not meet what is wrong with {unmet[0]}"
        return Result(
            exchange=self.exchange.name, verdict=verdict, passed=not self.problems, detail=detail,
            requests=list(self.stage.requests()),
        )  # fmt: skip

    def _plain(self, verb: Any, **fields: Any) -> Ask:
        return Ask(verb=verb, timeout_ms=int(self.timing.client_s * 1000), **fields)

    def _ask(self, step: Step) -> Ask:
        exchange = self.exchange
        if step.produce is not None:
            return self._plain("produce", topic=self.stage.topic, values=step.produce.values)
        if step.consume is not None:
            one = step.consume
            return self._plain(
                "consume", topic=self.stage.topic, offset=one.offset, count=one.count
            )
        if step.admin is not None:
            return self._plain("admin", create_topic=step.admin.create_topic)
        security: dict[str, str] = {}
        if exchange.given.sasl is not None:
            security |= {"user": "suite", "password": "secret"}
        if exchange.given.tls is not None:
            security |= {"ca": str(self.stage.authority())}
        assert step.connect is not None
        timing = self.timing
        seconds = timing.client_s
        if step.connect.ends == "ok":
            seconds = max(seconds, timing.connect_s)
        return Ask(
            verb="connect", timeout_ms=int(seconds * 1000), bootstrap=self.stage.bootstrap,
            idempotent=exchange.idempotent, acks=exchange.acks, security=security,
        )  # fmt: skip

    def _judge(self, step: Step, reply: Reply, at: str) -> None:
        one = step.connect or step.produce or step.consume or step.admin
        assert one is not None
        if not reply.ok:
            if not reply.error:
                self.problems.append(("wrong", f"{at}: an error that says nothing"))
            elif one.ends == "ok":
                self.problems.append(("gives up", f"{at}: {reply.error}"))
            else:
                self.survived.append(f"{at}: {reply.error}")
            return
        if one.ends == "error":
            self.problems.append(("wrong", f"{at}: it sees no error"))
        if step.produce is not None:
            self.acknowledged += step.produce.values
        if step.consume is not None:
            expected = step.consume.values
            if expected is None:
                given = [*self.exchange.given.records, *self.acknowledged]
                expected = given[step.consume.offset :][: step.consume.count]
            if reply.values != expected:
                text = f"{at}: it got {reply.values}, and {expected} is right"
                self.problems.append((_difference(reply.values, expected), text[:500]))

    def _judge_log(self) -> None:
        if self.exchange.acks == 0:
            return
        number = Counter(self.stage.values())
        lost = [value for value in self.acknowledged if not number[value]]
        if lost:
            self.problems.append(("loses", f"acknowledged, and not in the log: {lost}"))
        doubled = [value for value, count in number.items() if count > 1]
        if doubled and self.exchange.idempotent:
            self.problems.append(("doubles", f"more than once in the log: {doubled}"))

    def _judge_requests(self) -> None:
        number = Counter(api for api, _ in self.stage.requests())
        for api, bound in self.exchange.requests.items():
            least, most = (bound, bound) if isinstance(bound, int) else (bound.min, bound.max)
            if not least <= number[api] <= (number[api] if most is None else most):
                at_most = "" if most is None else f" and at most {most}"
                text = f"{number[api]} {api} requests; at least {least}{at_most} are right"
                self.problems.append(("wrong", text))


def _difference(values: Sequence[str], expected: Sequence[str]) -> Verdict:
    if set(values) - set(expected):
        return "wrong"
    return "loses" if len(values) < len(expected) else "doubles"


def _needs(exchange: Exchange) -> set[str]:
    needs = {step.verb for step in exchange.steps} & {"admin", "consume"}
    needs |= {"idempotent"} if exchange.idempotent else set()
    needs |= {"acks"} if exchange.acks != -1 else set()
    needs |= {name for name in ("sasl", "tls") if getattr(exchange.given, name) is not None}
    codec = exchange.given.batch.removeprefix("bomb-")
    return needs | ({codec} & {"zstd", "lz4", "snappy"})
