"""A pytest plugin that calls each test again and again and counts what is left behind.

    python -m pytest -p tests.leaks tests/fastpath

Under a debug interpreter it compares the total of all reference counts, which shows a reference too
many or too few; under any other the allocated memory blocks, which shows what was not freed. What
grows (or shrinks) by at least one a call, three times over with ever more calls, is a leak: caches
fill up once. A test that cannot be called twice with the same fixtures is counted, not measured;
so is one that takes more than ``SECONDS_MAX``: those start other processes or wait for a disk.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

SECONDS_MAX = 1.0
WARM_CALLS = 2
CALLS = (3, 10, 100, 100, 300)

debug = hasattr(sys, "gettotalrefcount")
unit = "references" if debug else "blocks"
leaks: list[str] = []
measured: list[str] = []
once_only: list[str] = []
slow: list[str] = []

# Tests whose own means leave something behind, seen with what they test taken out.
NOT_OURS = {
    "test_a_subclass_of_a_struct_is_another_class":
        "pytest.raises keeps a reference when the frames of the exception hold a class",
}  # fmt: skip


def count() -> int:
    """Return the total of reference counts, or of allocated blocks."""
    gc.collect()
    sys._clear_type_cache()  # It holds a name for every class that was ever asked for one.
    if debug:
        return int(sys.gettotalrefcount())
    return sys.getallocatedblocks()


def growth(call: Callable[[], object], calls: int) -> int:
    """Return what that many calls leave behind; negative when they gave away too much."""
    before = count()
    for _ in range(calls):
        call()
    return count() - before


def leak(call: Callable[[], object]) -> int:
    """Return what one call leaves behind, 0 if it does not do so time after time."""
    for _ in range(WARM_CALLS):
        call()
    gc.freeze()  # What is there already need not be walked at each count.
    left = 0
    for calls in CALLS:
        left = growth(call, calls)
        if left < calls and not (debug and left <= -calls):
            return 0
    return round(left / CALLS[-1])


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[Any]:
    """Run the test as always; if it passes, measure it."""
    started = time.perf_counter()
    result = yield
    if pyfuncitem.get_closest_marker("once"):
        once_only.append(pyfuncitem.nodeid)
        return result
    if time.perf_counter() - started > SECONDS_MAX:
        slow.append(pyfuncitem.nodeid)
        return result
    names = pyfuncitem._fixtureinfo.argnames
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in names}

    def call() -> None:
        pyfuncitem.obj(**arguments)
        if "monkeypatch" in arguments:
            arguments["monkeypatch"].undo()  # It remembers every change until then.

    try:
        left = leak(call)
    except Exception:
        once_only.append(pyfuncitem.nodeid)
    else:
        measured.append(pyfuncitem.nodeid)
        if left and pyfuncitem.originalname not in NOT_OURS:
            leaks.append(f"LEAK {pyfuncitem.nodeid}: {left} {unit} a call")
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which tests leak, a line each."""
    for line in leaks:
        terminalreporter.write_line(line, red=True)
    terminalreporter.write_line(
        f"{len(measured)} tests measured by {unit}, {len(leaks)} leak; "
        f"{len(once_only)} cannot be called twice, {len(slow)} take too long"
    )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run when a test leaks, or when nothing was measured."""
    if leaks or not measured:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
