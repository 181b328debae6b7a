"""``kraftspec conform run``: compare an adapter's answers with the golden vectors."""

from __future__ import annotations

import resource
import shlex
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from kraftspec.conformance.adapters.harness import (
    LINE_BYTES_MAX,
    Adapter,
    AdapterError,
    version_range,
)
from kraftspec.conformance.adapters.kafka import KafkaAdapter
from kraftspec.conformance.adapters.registry import find
from kraftspec.conformance.raw.harness import HelloReply
from kraftspec.conformance.raw.results import (
    Counts,
    Failure,
    HarnessFailure,
    ResultAdapter,
    Results,
    Selection,
    Skip,
    Stats,
    UnexpectedPass,
)
from kraftspec.conformance.runner.cases import Case, Filters, Shard, dealt, read_cases, shuffled
from kraftspec.conformance.runner.judge import Outcome, Skipped, Wrong
from kraftspec.conformance.runner.known import KnownFailures
from kraftspec.conformance.runner.pool import Pool, Progress, begin
from kraftspec.conformance.vectors import KAFKA, vectors_release, vectors_root

SCHEMA_VERSION: Literal[1] = 1
OURS = (
    "kraftspec",
    "kraftspec-python",
    "kraftspec-typescript",
)  # Their errors must have the right class and offset, too.
# From this number of cases on, a second process is worth its start.
CASES_PER_JOB_MIN = 2000
# Cases in a chunk for a job: neighbours share a message, whose code is loaded only once.
CHUNK_COUNT = 256
SKIP_REASONS_MAX = 50  # With more reasons, the adapter makes a text for each case.
HELLO_CHARS_MAX = 500  # Of each text in hello.
LINE_BYTES_SPARE = 1000  # The rest of a request's line, without the value or the bytes.

_NO_MESSAGE = Skipped("the adapter does not have this message")
_NO_VERSION = Skipped("the adapter does not have this version")
_TOO_LONG = Skipped(f"its line would be longer than {LINE_BYTES_MAX} bytes")


def describe(failure: Failure) -> str:
    """Return a line with the test, the direction and the failure."""
    return (
        f"{failure.spec}/{failure.message} v{failure.version} {failure.direction} {failure.id}: "
        f"{failure.detail.partition(chr(10))[0]}"
    )


def adapter_named(name: str) -> Adapter:
    """Return one of the project's adapters, such as ``kio@0.6.5``; build it if needed.

    Raises ``ValueError`` for an unknown name, ``AdapterError`` if it does not build.
    """
    return find(name).adapter()


def adapter_exec(command: str) -> Adapter:
    """Return an adapter for a command line; ``ValueError`` for an invalid one."""
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"--exec {command!r}: {error}") from error
    if not arguments:
        raise ValueError(f"--exec {command!r}: there is no command in it")
    return Adapter(arguments)


def run(
    adapters: Adapter | Sequence[Adapter],
    *,
    filters: Filters | Sequence[str] = (),
    shard: Shard | None = None,
    seed: int | None = None,
    known: KnownFailures | None = None,
    name: str = "",
    source: str = "",
    exact: bool | None = None,
    root: Path | None = None,
    release: str = "",
    cases: Sequence[Case] | None = None,
    keep: bool = False,
    progress: Progress | None = None,
) -> Results:
    """Run the vectors' tests against an adapter, and judge its answers.

    Args:
        adapters: the adapter, or several of it that work in parallel; not started yet.
        filters: which tests, as ``cases.FILTER_HELP`` has it.
        shard: only this part of them.
        seed: shuffles the order in which the tests run; the results keep their order.
        known: the failures that are known.
        name: the adapter's name in the results; its own name if empty.
        source: the options of the command that repeats a test, such as ``--adapter franz-go``.
        exact: whether class and offset of each error must be right; None: only for ours.
        root: the directory of the vectors, this package's if None.
        release: the release of Kafka that the codec is of: vectors that do not concern it are
            skipped. The adapter's own if it is over Kafka's classes.
        cases: the cases of ``filters`` and ``shard``, if they have been read already.
        keep: keep an adapter without an error running for the next run.
        progress: called with (counts as text, finished cases, all cases).

    Raises ``AdapterError`` when the adapter does not start; when the harness fails later, the
    results contain ``harness_failure`` and the outcomes so far.
    """
    started = time.perf_counter()
    adapters = [adapters] if isinstance(adapters, Adapter) else list(adapters)
    filters = filters if isinstance(filters, Filters) else Filters(filters)
    known = known or KnownFailures()
    root = root or vectors_root()
    cases = read_cases(root, filters, shard) if cases is None else cases
    with ExitStack() as stack:
        if not keep:
            stack.enter_context(adapters[0])
        foreign = _foreign(adapters[0], release, root, cases)
        sets = {case.spec for case, skip in zip(cases, foreign, strict=True) if skip is None}
        hello = begin(adapters[0], sets)
        skips = _skips(hello, cases, foreign)
        order = [number for number in shuffled(len(cases), seed) if skips[number] is None]
        jobs = max(1, min(len(adapters), len(order) // CASES_PER_JOB_MIN))
        exact = hello.name in OURS if exact is None else exact
        pool = Pool(cases, exact=exact, progress=progress, keep=keep)
        clock = _Clock(jobs, len(order))
        pool.run(adapters[:jobs], list(dealt(order, jobs, CHUNK_COUNT)))
        stats = clock.read()
    outcomes = [skip or outcome for skip, outcome in zip(skips, pool.outcomes, strict=True)]
    results = _results(cases, outcomes, known, source)
    results.adapter = _adapter(hello, name)
    results.selection = _selection(filters, shard, seed)
    results.restarts, results.stats = pool.restarts, stats
    whole = not filters.texts and shard is None and pool.failure is None
    warnings = known.warnings(whole=whole)
    warnings += dict.fromkeys(complaint for one in adapters for complaint in one.complaints)
    results.warnings = warnings or UNSET
    if pool.failure is not None:
        results.harness_failure = HarnessFailure(kind=pool.failure.kind, detail=str(pool.failure))
    results.seconds = round(time.perf_counter() - started, 3)
    return results


class _Clock:
    """Measures elapsed time and processor time."""

    def __init__(self, jobs: int, answered: int) -> None:
        self.jobs = jobs
        self.answered = answered
        self.started = self._now()

    def read(self) -> Stats:
        """Return the times since it was made. The adapters must have ended."""
        seconds, own, children = (
            round(now - then, 3) for now, then in zip(self._now(), self.started, strict=True)
        )
        return Stats(
            jobs=self.jobs,
            answered=self.answered,
            seconds=seconds,
            runner_cpu_seconds=own,
            adapter_cpu_seconds=children,
        )

    def _now(self) -> tuple[float, float, float]:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.perf_counter(), time.process_time(), children.ru_utime + children.ru_stime


def _adapter(hello: HelloReply, name: str) -> ResultAdapter:
    return ResultAdapter(
        name=name or hello.name[:HELLO_CHARS_MAX],
        language=hello.language[:HELLO_CHARS_MAX],
        version=hello.version[:HELLO_CHARS_MAX],
        spec=hello.spec[:HELLO_CHARS_MAX],
        notes=UNSET if hello.notes is UNSET else hello.notes[:HELLO_CHARS_MAX],
    )


def _selection(filters: Filters, shard: Shard | None, seed: int | None) -> Selection:
    return Selection(
        filters=list(filters.texts) or UNSET,
        shard=UNSET if shard is None else str(shard),
        seed=UNSET if seed is None else seed,
    )


def _foreign(
    adapter: Adapter, release: str, root: Path, cases: Sequence[Case]
) -> list[Skipped | None]:
    """Return for each case why it does not concern the release of Kafka that the adapter is of."""
    made_by = vectors_release(root)
    if isinstance(adapter, KafkaAdapter):
        release = adapter.release
    if release == "" or made_by in ("", release):
        return [None] * len(cases)
    # Most runs need no other release, nor what reads its schemas.
    from kraftspec.codegen.releases import ReleaseError  # noqa: PLC0415 - rarely needed
    from kraftspec.conformance.runner.releases import OtherRelease  # noqa: PLC0415 - rarely needed

    try:
        other = OtherRelease.read(release, made_by)
    except ReleaseError as error:
        raise AdapterError("start", str(error)) from error
    return [other.skip(case) for case in cases]


def _skips(
    hello: HelloReply, cases: Sequence[Case], foreign: Sequence[Skipped | None]
) -> list[Skipped | None]:
    """Return for each case why it is skipped: it is foreign, or hello says so."""
    sets = {**({} if hello.sets is UNSET else hello.sets), KAFKA: hello.messages}
    served = {
        (spec, message): version_range(text)
        for spec, messages in sets.items()
        for message, text in messages.items()
    }
    skips: list[Skipped | None] = []
    for case, skip in zip(cases, foreign, strict=True):
        test = case.test
        wrong = None if test.error is UNSET else test.error.class_
        versions = served.get((case.spec, case.message))
        size = len(test.hex or "") if case.direction == "decode" else len(bytes(test.value or b""))
        if skip is not None:
            skips.append(skip)
        elif wrong == "unknown_message":
            skips.append(None)
        elif versions is None:
            skips.append(_NO_MESSAGE)
        elif test.version not in versions and wrong != "unsupported_version":
            skips.append(_NO_VERSION)
        else:
            skips.append(_TOO_LONG if size > LINE_BYTES_MAX - LINE_BYTES_SPARE else None)
    return skips


def _no_counts() -> Counts:
    return Counts(passed=0, failed=0, skipped=0, known_failures=0, unexpected_passes=0)


def _results(
    cases: Sequence[Case], outcomes: Sequence[Outcome], known: KnownFailures, source: str
) -> Results:
    """Make the results from the outcomes, in the order of the vectors."""
    results = Results(
        schema_version=SCHEMA_VERSION,
        adapter=ResultAdapter(name="", language="", version=""),
        selection=Selection(),
        seconds=0.0,
        pairs=len(
            {(case.spec, case.message, case.test.version) for case in cases if _is_pair(case)}
        ),
        tests=len({(case.spec, case.message, case.test.id) for case in cases}),
        counts=_no_counts(),
        messages={},
        failures=[],
        unexpected_passes=[],
        known=known.entries,
        skips=[],
        restarts=0,
    )
    skips: Counter[Skipped] = Counter()
    tallies: dict[tuple[str, int], Counts] = {}
    for case, outcome in zip(cases, outcomes, strict=True):
        where = case.key, case.test.version
        tally = tallies.get(where)
        if tally is None:
            tally = tallies[where] = _no_counts()
        if isinstance(outcome, Skipped):
            tally.skipped += 1
            skips[outcome] += 1
            continue
        entry = known.find(case, outcome)
        if outcome is None and entry is None:
            tally.passed += 1
        elif entry is None:
            tally.failed += 1
        elif outcome is None:
            tally.unexpected_passes += 1
            entry.passed += 1
            results.unexpected_passes.append(
                UnexpectedPass(**_named(case), family=case.test.family, known=entry.reason)
            )
        else:
            tally.known_failures += 1
            entry.failed += 1
        if outcome is not None:
            reason = None if entry is None else entry.reason
            results.failures.append(_failure(case, outcome, source, reason))
    for (key, version), tally in tallies.items():
        results.messages.setdefault(key, {})[str(version)] = tally
        for name in Counts.__struct_fields__:
            setattr(results.counts, name, getattr(results.counts, name) + getattr(tally, name))
    results.skips = _reasons(skips)
    return results


def _reasons(skips: Counter[Skipped]) -> list[Skip]:
    """Return why cases were skipped, the most frequent reasons first, the rest as one."""
    ranked = skips.most_common()
    rest = ranked[SKIP_REASONS_MAX:]
    if rest:
        others = Skipped(f"one of {len(rest):,} other reasons")
        ranked[SKIP_REASONS_MAX:] = [(others, sum(count for _, count in rest))]
    return [
        Skip(reason=skip.reason, count=count, issue=skip.issue or UNSET) for skip, count in ranked
    ]


def _is_pair(case: Case) -> bool:
    """Whether the message has this version. A test may be about a missing version."""
    error = case.test.error
    return error is UNSET or error.class_ not in ("unsupported_version", "unknown_message")


def _named(case: Case) -> dict[str, Any]:
    return {
        "spec": case.spec,
        "message": case.message,
        "version": case.test.version,
        "id": case.test.id,
        "direction": case.direction,
    }


def _failure(case: Case, wrong: Wrong, source: str, known: str | None) -> Failure:
    options = f"{source} " if source else ""
    return msgspec.convert(
        {
            **_named(case),
            "family": case.test.family,
            "flags": case.flags,
            "kind": wrong.kind,
            "detail": wrong.detail,
            "reproduce": f"kraftspec conform run {options}"
            f"--filter {case.spec}/{case.message} --filter id:{case.test.id}",
            **({"path": wrong.path} if wrong.path else {}),
            **({"shownFrom": wrong.shown_from} if wrong.shown_from else {}),
            **{
                name: value
                for name, value in (
                    ("offset", wrong.offset), ("wanted", wrong.wanted), ("given", wrong.given),
                    ("known", known),
                )
                if value is not None
            },
        },
        Failure,
    )  # fmt: skip


__all__ = ["OURS", "adapter_exec", "adapter_named", "describe", "run"]
