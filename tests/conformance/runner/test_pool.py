"""Adapters that misbehave in the midst of a run: each misdeed is charged to its test alone."""

from __future__ import annotations

import json
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from msgspec import to_builtins

from kraftspec.conformance.adapters import harness
from kraftspec.conformance.adapters.harness import Adapter, AdapterError
from kraftspec.conformance.raw.results import Failure, Results
from kraftspec.conformance.runner import pool
from kraftspec.conformance.runner import run as run_module
from kraftspec.conformance.runner.judge import HEX_BYTES_MAX, JSON_CHARS_MAX
from kraftspec.conformance.runner.run import run

from .test_run import HEX, key, vector, vectors

FAKE = Path(__file__).parents[1] / "adapters/misbehaving_adapter.py"
SCHEMA = json.loads((files("kraftspec.conformance") / "schemas/results.schema.json").read_text())
COUNT = 40  # Tests, each in both directions; all of them are in flight at once.


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return vectors(tmp_path, *(vector(number) for number in range(COUNT)))


def adapter(mode: str, root: Path, *bad: str, timeout_s: float = 20.0) -> Adapter:
    path = str(root / "kafka/VoteRequest.json")
    return Adapter([sys.executable, "-S", "-E", str(FAKE), mode, path, *bad], timeout_s=timeout_s)


def put(mode: str, root: Path, *bad: str, timeout_s: float = 20.0, jobs: int = 1) -> Results:
    """Run all tests, the adapter misbehaving over these ids; the results are of their schema."""
    results = run([adapter(mode, root, *bad, timeout_s=timeout_s) for _ in range(jobs)], root=root)
    Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(to_builtins(results))))
    counts = results.counts
    assert counts.passed + counts.failed + counts.skipped == 2 * COUNT
    return results


def charged(results: Results) -> list[tuple[str, str]]:
    return [(f"{failure.id}-{failure.direction[0]}", failure.kind) for failure in results.failures]


def only(results: Results) -> Failure:
    [failure] = results.failures
    assert results.counts.passed == 2 * COUNT - 1
    return failure


@pytest.mark.parametrize(
    ("mode", "kind", "message"),
    [
        ("die", "crash", "ended with exit code 7"),
        ("signal", "crash", "ended with exit code -9"),
        ("no-newline", "crash", "without an end of line"),
        ("text", "rubbish", "wrote a line that is not JSON"),
        ("array", "rubbish", "not a JSON object"),
        ("utf8", "rubbish", "not JSON"),
        ("order", "order", "answered id 'other' where"),
        ("no-id", "order", "has no id; '"),
        ("twice", "twice", "answered id"),
        pytest.param("flood", "twice", "answered id", marks=pytest.mark.soak),
        ("empty", "malformed", "no value in the reply"),
    ],
)
@pytest.mark.parametrize("number", [0, COUNT - 1])
def test_a_misdeed_is_charged_to_its_test(
    root: Path, mode: str, kind: str, message: str, number: int
) -> None:
    results = put(mode, root, key(number, "d"))
    failure = only(results)
    assert charged(results) == [(key(number, "d"), kind)]
    assert message in failure.detail or "more lines than requests" in failure.detail
    assert failure.reproduce.endswith(f" --filter kafka/VoteRequest --filter id:{number:016x}")
    assert not results.harness_failure
    of_process = kind not in ("malformed",) and "more lines" not in failure.detail
    assert bool(results.restarts) is of_process


def test_what_a_process_said_before_it_died_is_in_the_failure(root: Path) -> None:
    detail = only(put("die", root, key(3, "e"))).detail
    assert detail.endswith("line 98\nline 99")
    assert f'"id": "{key(3, "e")}"' in detail


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["hang", "no-newline-wait", "noisy-hang"])
def test_a_hang_is_charged_to_its_test(root: Path, mode: str) -> None:
    results = put(mode, root, key(7, "e"), timeout_s=2.0)
    assert charged(results) == [(key(7, "e"), "hang")]
    assert "no reply within 2 s" in only(results).detail
    assert ("without an end of line" in only(results).detail) is (mode == "no-newline-wait")


@pytest.mark.soak
def test_the_second_hang_costs_less_and_the_wait_is_shown(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "PROGRESS_EVERY_S", 0.2)
    hanging = adapter("hang", root, key(7, "e"), timeout_s=6.0)
    hanging.timeout_again_s = 2.0
    told: list[str] = []
    results = run([hanging], root=root, progress=lambda what, done, count: told.append(what))
    assert charged(results) == [(key(7, "e"), "hang")]
    assert "no reply within 2 s" in only(results).detail  # Alone in a new process, after 6 s.
    name = f"kafka/VoteRequest v2 encode {7:016x}"
    assert any(what.endswith(f" s without a reply to {name}") for what in told)


def test_an_output_that_is_closed_is_a_crash(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "STOP_TIMEOUT_S", 0.2)
    results = put("close", root, key(7, "e"))
    assert charged(results) == [(key(7, "e"), "crash")]
    assert "closed its output and lived on" in only(results).detail


def test_a_line_without_end_is_charged(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "LINE_BYTES_MAX", 1 << 20)
    results = put("endless", root, key(7, "e"))
    assert charged(results) == [(key(7, "e"), "oversize")]


def test_several_misdeeds(root: Path) -> None:
    bad = [key(3, "e"), key(3, "d"), key(20, "e"), key(COUNT - 1, "d")]
    results = put("die", root, *bad)
    assert charged(results) == [(id, "crash") for id in bad]
    assert results.counts.passed == 2 * COUNT - len(bad)
    # Once to find whom to charge, once to go on; the very last has no other in flight with it.
    assert results.restarts == 2 * len(bad) - 1


def test_a_death_that_comes_of_what_went_before(root: Path) -> None:
    """The suspects are asked one after the other in one process, so that it comes again."""
    results = put("die-together", root, key(7, "e"))
    assert charged(results) == [(key(7, "e"), "crash")]


def test_a_death_that_does_not_come_again(root: Path, tmp_path: Path) -> None:
    """Somebody must be charged: a codec that dies is not a right one."""
    mark = tmp_path / "died"
    script = tmp_path / "once.py"
    source = FAKE.read_text().replace(
        'case "die":', f'case "once" if not __import__("os").path.exists("{mark}"):\n'
        f'            open("{mark}", "w").close()\n            sys.exit(7)\n        case "die":',
    )  # fmt: skip
    script.write_text(source)
    path = str(root / "kafka/VoteRequest.json")
    results = run(Adapter([sys.executable, str(script), "once", path, key(7, "e")]), root=root)
    failure = only(results)
    assert failure.kind == "crash"
    assert "alone it passes" in failure.detail
    assert results.restarts == 1


# ---------------------------------------------------------------------------- no end of misdeeds


@pytest.mark.parametrize(
    ("mode", "kind"), [("die", "died"), ("text", "rubbish"), ("twice", "twice")]
)
def test_one_that_always_misbehaves_is_given_up(
    root: Path, mode: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "RESTARTS_MAX", 6)
    results = put(mode, root, *(key(number, way) for number in range(1, COUNT) for way in "ed"))
    assert results.harness_failure
    assert results.harness_failure.kind == kind
    assert "given up after 7 restarts, 0 of them after timeouts" in results.harness_failure.detail
    assert results.counts.failed >= 3
    assert results.skips[0].reason == "not run: the harness failed before its turn"
    assert results.skips[0].count == results.counts.skipped


@pytest.mark.soak
def test_one_that_always_hangs_is_given_up(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "TIMEOUTS_MAX", 2)
    results = put("hang", root, "every", timeout_s=2.5)
    assert results.harness_failure
    assert results.harness_failure.kind == "timeout"
    assert "3 of them after timeouts" in results.harness_failure.detail


@pytest.mark.soak
@pytest.mark.parametrize(
    ("mode", "kind", "verdict", "restarts", "failed", "message"),
    [
        ("no-id", "order", "order", 3, 3, f"has no id; '{key(1, 'e')}' was due"),
        ("text", "rubbish", "rubbish", 3, 3, "wrote a line that is not JSON"),
        ("die", "died", "crash", 20, 10, "ended with exit code 7"),  # Two for each.
    ],
)
def test_one_that_never_answered_a_case_is_given_up_early(
    root: Path, mode: str, kind: str, verdict: str, restarts: int, failed: int, message: str
) -> None:
    """Each case is another's fault when one was answered; before that, the program's own."""
    results = put(mode, root, "every")
    assert results.harness_failure
    assert results.harness_failure.kind == kind
    detail = results.harness_failure.detail
    assert f"given up after {restarts} restarts, 0 of them after timeouts, and no case " in detail
    assert message in detail
    both = [key(number // 2, "ed"[number % 2]) for number in range(failed)]
    assert charged(results) == [(id, verdict) for id in both]
    # Of one that has answered, each is a verdict of its own.
    bad = [key(number, "d") for number in range(COUNT)]
    results = put(mode, root, *bad)
    assert not results.harness_failure
    assert results.counts.failed == COUNT


def test_a_second_hello_is_no_test_s_fault(root: Path) -> None:
    results = put("hello-twice", root)
    assert results.harness_failure
    assert results.harness_failure.kind == "start"
    assert "answered hello twice" in results.harness_failure.detail
    assert (results.failures, results.restarts, results.counts.skipped) == ([], 0, 2 * COUNT)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("stillborn", "ended with exit code 3"),
        ("mute", "gave no reply within 0.5 s"),
        ("new", "speaks protocol 2, not 1"),
        ("old", "speaks protocol 0, not 1"),
        ("quoted", "speaks protocol '1', not 1"),
        ("range=a-b", "says in hello messages.VoteRequest: 'a-b' is not 0-2 or none"),
        ("range=3-1", "messages.VoteRequest: '3-1' is not 0-2 or none"),
        ("range=0-99999999999", "messages.VoteRequest: '0-99999999999' is not 0-2 or none"),
        ("range=0-32768", "messages.VoteRequest: '0-32768' is not 0-2 or none"),
        ("range=2", "messages.VoteRequest: '2' is not 0-2 or none"),
        ("range=\u0661-\u0662", "is not 0-2 or none"),
        ("draft=0-", "sets.kip-853.VoteRequest: '0-' is not 0-2 or none"),
        ("banner", "wrote a line that is not JSON"),
        ("nameless", "did not answer hello as it should"),
    ],
)
def test_one_that_does_not_begin(
    root: Path, mode: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "mute":
        monkeypatch.setattr(harness, "START_TIMEOUT_S", 0.5)
    with pytest.raises(AdapterError) as caught:
        run(adapter(mode, root, timeout_s=0.5), root=root)
    assert message in str(caught.value)


# ------------------------------------------------------------------------------------- warnings


def test_noise_is_complained_of_and_no_failure(root: Path) -> None:
    results = put("noisy", root, key(7, "e"))
    assert results.failures == []
    [warning] = results.warnings or []
    assert "wrote 3,145,728 bytes to its standard error" in warning


@pytest.mark.parametrize(
    ("mode", "message", "stop_timeout_s"),
    [("deaf", "was killed", 0.3), ("sore", "ended with exit code 9", 60.0)],
)
def test_one_that_does_not_end_well(
    root: Path, mode: str, message: str, stop_timeout_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "STOP_TIMEOUT_S", stop_timeout_s)
    results = put(mode, root)
    assert results.counts.passed == 2 * COUNT
    [warning] = results.warnings or []
    assert message in warning


def test_a_last_word_is_charged_to_the_last_test(root: Path) -> None:
    results = put("last-word", root)
    assert charged(results) == [(key(COUNT - 1, "d"), "twice")]
    assert '{"id":"bye"}' in only(results).detail


# ------------------------------------------------------------------------------------- parallel


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_the_results_are_the_same_whatever_the_jobs(
    root: Path, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "CASES_PER_JOB_MIN", 1)
    monkeypatch.setattr(run_module, "CHUNK_COUNT", 8)
    bad = [key(3, "e"), key(20, "e"), key(30, "d")]
    results = put("die", root, *bad, jobs=jobs)
    assert results.stats
    assert results.stats.jobs == jobs
    assert charged(results) == [(id, "crash") for id in bad]
    assert results.restarts == 2 * len(bad)


def test_few_tests_are_for_one_process(root: Path) -> None:
    results = put("well", root, jobs=4)
    assert results.stats
    assert (results.stats.jobs, results.stats.answered) == (1, 2 * COUNT)
    assert HEX in (root / "kafka/VoteRequest.json").read_text()


def test_an_interruption_ends_the_adapters(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "CASES_PER_JOB_MIN", 1)
    adapters = [adapter("well", root) for _ in range(2)]

    def interrupt(what: str, done: int, count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(adapters, root=root, progress=interrupt)
    assert [one.running for one in adapters] == [False, False]


def test_the_limits_are_those_of_the_page() -> None:
    page = " ".join((FAKE.parents[3] / "docs/conformance.md").read_text("utf-8").split())
    assert (
        f"more than {pool.RESTARTS_MAX} times and once for every "
        f"{pool.CASES_PER_RESTART_MIN} cases, or after more than {pool.TIMEOUTS_MAX} timeouts"
    ) in page
    assert f"given up after {pool.ENDINGS_UNANSWERED_MAX}, and after " in page
    assert f"and after {pool.PROTOCOL_ERRORS_UNANSWERED_MAX} if its replies were invalid" in page
    assert f"bytes to {HEX_BYTES_MAX:,}." in page
    assert f"some {JSON_CHARS_MAX:,} characters" in page
    assert f"of more than {run_module.SKIP_REASONS_MAX} reasons" in page
