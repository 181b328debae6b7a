"""What every test shares: hypothesis profiles, markers, and the rule that holds them."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from hypothesis import settings

from kraftspec.conformance.adapters.registry import java_missing
from kraftspec.conformance.cluster import node as cluster_node

if TYPE_CHECKING:
    from playwright.sync_api import Browser

os.environ.pop("COLUMNS", None)  # Commands are as wide as in a pipe, whoever starts the tests.
# What was compiled from sources of before says nothing about these.
os.environ["KRAFTSPEC_READABLE"] = "1"
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # So shells start jobs in the background,
    signal.signal(signal.SIGINT, signal.default_int_handler)  # and what tests start would inherit.

# Derandomised: `make test` gives the same verdict twice. The deep profile looks for news.
settings.register_profile(
    "fast", max_examples=50, deadline=None, derandomize=True, print_blob=True, database=None
)
settings.register_profile("deep", max_examples=5_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


def cannot_run(problem: str) -> NoReturn:
    """Skip a test for which this machine lacks something, and fail it on a build machine.

    A skipped test proves nothing, so a machine that calls itself CI may not skip.
    """
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(problem, pytrace=False)
    pytest.skip(problem)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium; a build machine without one fails."""
    # Most runs need no browser.
    from playwright import sync_api  # noqa: PLC0415

    from kraftspec.conformance.report.browser import (  # noqa: PLC0415
        FLAGS,
        BrowserError,
        chromium,
    )

    try:
        path = chromium()
    except BrowserError as error:
        cannot_run(str(error))
    with sync_api.sync_playwright() as playwright:
        launch = partial(playwright.chromium.launch, executable_path=path, args=list(FLAGS))
        try:
            launched = launch()
        except sync_api.TimeoutError:  # Chromium sometimes hangs at its start.
            launched = launch(timeout=300_000)
        sync_api.expect.set_options(timeout=60_000)
        yield launched
        launched.close()


# Environments that tox runs side by side.
SIDE_BY_SIDE = ("py311", "py312", "py313", "py314", "sdist", "sanitize", "leaks", "wheel")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let golden transcripts be written anew."""
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write the outputs of tests/transcripts/ and the hashes of simulated runs anew",
    )


def pytest_configure() -> None:
    """Let each run of tox, and each worker of a run, take ports that are its own.

    A port may be free while the node that has it is restarted. Children inherit the choice.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is not None:
        count = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        number = int(worker.removeprefix("gw")) % count  # One that replaces another has a higher.
    elif os.environ.get("TOX_ENV_NAME") in SIDE_BY_SIDE:
        count, number = len(SIDE_BY_SIDE), SIDE_BY_SIDE.index(os.environ["TOX_ENV_NAME"])
    else:
        count, number = 1, 0
    share = len(cluster_node.PORTS) // count
    first = cluster_node.PORTS.start + number * share
    cluster_node.PORTS = range(first, first + share)
    os.environ["KRAFTSPEC_PORTS"] = f"{first}-{first + share - 1}"


# What a test starts, by the marker that says so. A test that starts one of these programs and has
# none of the markers fails: so the tiers of tests (docs/testing.md) are what they say.
PROGRAMS = {
    "java": {"kafka", "spark"},
    "javac": {"kafka", "spark"},
    "mvn": {"kafka"},
    "spark-submit": {"spark"},
    "cargo": {"peers"},
    "go": {"peers"},
    "npm": {"peers"},
    "node": {"browser", "peers"},
    "chromium": {"browser"},
    "tshark": {"wireshark"},
}
NEEDS: set[str] = set().union(*PROGRAMS.values())
WRAPPERS = {"env", "nice", "setsid", "timeout"}  # They start the program that they are given.
VERSION_FLAGS = {"-version", "--version", "version"}  # Anybody may ask what a machine has.
SMOKES_MAX = 12
SLOW_S = 3.0

_running: list[pytest.Item] = []


def markers_missing(program: str, arguments: Sequence[str], markers: set[str]) -> set[str]:
    """Return the markers of which a test needs one to start this program; empty where it may."""
    if NEEDS & markers or VERSION_FLAGS & set(arguments):
        return set()
    return PROGRAMS.get(Path(program).name, set())


def unwrapped(words: Sequence[str]) -> list[str]:
    """Return a command without the wrappers before it, their options and variables."""
    rest = list(words)
    while len(rest) > 1 and Path(rest[0]).name in WRAPPERS:
        rest.pop(0)
        while len(rest) > 1 and (rest[0].startswith("-") or rest[0].isdigit() or "=" in rest[0]):
            rest.pop(0)
    return rest


def _watch_programs(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "subprocess.Popen" or not _running:
        return
    command = arguments[1]
    if isinstance(command, str | bytes | os.PathLike):
        command = [command]
    words = unwrapped([os.fsdecode(word) for word in command])
    markers = {marker.name for marker in _running[-1].iter_markers()}
    missing = markers_missing(words[0], words[1:], markers)
    if missing and shutil.which(words[0]):  # One that is not there cannot be started.
        pytest.fail(f"this test starts {words[0]}: mark it {' or '.join(sorted(missing))}")


sys.addaudithook(_watch_programs)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Remember which test runs."""
    _running.append(item)
    try:
        return (yield)
    finally:
        _running.pop()


@pytest.fixture
def dead_port() -> Iterator[int]:
    """A port where nobody listens, and that nobody else gets meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@cache
def _java_missing() -> str | None:
    return java_missing()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that needs Java cannot run where Java is missing."""
    if not any(item.iter_markers("kafka")) and not any(item.iter_markers("spark")):
        return
    missing = _java_missing()
    if missing is not None:
        cannot_run(missing)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the tests that are too slow for `make test`. A hint: a busy machine may be the cause."""
    if "smoke" not in terminalreporter.config.getoption("-m"):
        return
    slow = [
        (report.duration, report.nodeid)
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        if report.duration > SLOW_S and "smoke" not in report.keywords
    ]
    for duration_s, name in sorted(slow, reverse=True):
        terminalreporter.write_line(f"over {SLOW_S:g} s, soak? {duration_s:5.1f} s {name}")


def pytest_itemcollected(item: pytest.Item) -> None:
    """A test that takes the fixture ``spark`` or ``browser`` needs what the fixture starts."""
    for name in {"spark", "browser"} & set(getattr(item, "fixturenames", ())):
        item.add_marker(name)


def pytest_collection_finish() -> None:
    """Leave thousands of tests and what they import out of each collection of garbage to come."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse names that differ from process to process: workers could not share such tests."""
    named = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if named:
        raise pytest.UsageError(f"name the parameters of these tests by ids: {named[:3]}")
    smokes = [item.nodeid for item in items if item.get_closest_marker("smoke")]
    if len(smokes) > SMOKES_MAX:
        raise pytest.UsageError(f"{len(smokes)} smokes; make test has room for {SMOKES_MAX}")
