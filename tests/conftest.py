"""What every test shares: hypothesis profiles, and the rule for tests that need Java."""

from __future__ import annotations

import os
import signal
from functools import cache

import pytest
from hypothesis import settings

from kraftspec.conformance.cluster import node as cluster_node
from kraftspec.conformance.java import java_missing

os.environ.pop("COLUMNS", None)  # Commands are as wide as in a pipe, whoever starts the tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # So shells start jobs in the background,
    signal.signal(signal.SIGINT, signal.default_int_handler)  # and what tests start would inherit.

# Derandomised: `make test` gives the same verdict twice. The deep profile looks for news.
settings.register_profile(
    "fast", max_examples=50, deadline=None, derandomize=True, print_blob=True, database=None
)
settings.register_profile("deep", max_examples=5_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let golden transcripts be written anew."""
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write the outputs of tests/transcripts/ and the hashes of simulated runs anew",
    )


def pytest_configure() -> None:
    """Let each worker take ports that are its own: one may be free while its node is restarted."""
    name = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    share = len(cluster_node.PORTS) // count
    number = int(name.removeprefix("gw")) % count  # One that replaces a worker has a higher number.
    first = cluster_node.PORTS.start + number * share
    cluster_node.PORTS = range(first, first + share)


@cache
def _java_missing() -> str | None:
    return java_missing()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a ``java`` test where Java is missing, and fail it on a build machine.

    A skipped test proves nothing, so a machine that calls itself CI may not skip.
    """
    if item.get_closest_marker("java") is None:
        return
    missing = _java_missing()
    if missing is None:
        return
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(missing, pytrace=False)
    pytest.skip(missing)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse names that differ from process to process: workers could not share such tests."""
    named = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if named:
        raise pytest.UsageError(f"name the parameters of these tests by ids: {named[:3]}")
