"""Contestants take turns, and peers in other languages measure each group beside its first.

``pytest benchmarks --benchmark-enable --peers full`` turns that on (`make bench` does); their
figures stand under ``peers`` in the file of ``--benchmark-json``.
"""

from __future__ import annotations

from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--peers``."""
    parser.getgroup("peers").addoption(
        "--peers",
        choices=["off", "quick", "full"],
        default="off",
        help="Measure the peers in Java, Go, Rust and JavaScript too.",
    )


class Peers:
    """The programs, started when the first group needs them."""

    def __init__(self, quick: bool) -> None:
        # `make bench` starts pytest as a module, so that the checkout is importable.
        from benchmarks.peers import inputs, programs  # noqa: PLC0415 - only where peers run

        self._request = inputs.request
        self._times = programs.Times(50, 1000, 60) if quick else programs.Times()
        self._programs: list[programs.Program] = []
        self.missing: dict[str, str] = {}
        self.rows: list[dict[str, Any]] = []
        self._seen: set[str] = set()
        for language in programs.LANGUAGES:
            try:
                self._programs.append(programs.Program(language))
            except programs.MissingError as error:
                self.missing[language.name] = str(error)

    def measure(self, group: str, module: Any) -> None:
        """Measure a group once, if other languages have it."""
        if group in self._seen:
            return
        self._seen.add(group)
        request = self._request(group, module)
        if request is None:
            return
        for program in self._programs:
            if not program.language.has(group):
                continue
            row = program.measure(request, self._times)
            del row["check"]
            self.rows.append({"group": group, "who": program.language.who[request.kind], **row})

    @property
    def versions(self) -> dict[str, dict[str, str]]:
        """What each language's program is made of."""
        return {program.language.name: program.versions for program in self._programs}

    def close(self) -> None:
        """End the programs."""
        for program in self._programs:
            program.close()


KEY = pytest.StashKey[Peers]()


def pytest_configure(config: pytest.Config) -> None:
    """Start the programs before the first benchmark: their builds must not run beside one."""
    if config.getoption("--peers") != "off":
        config.stash[KEY] = Peers(config.getoption("--peers") == "quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let the contestants of a case follow one another, so that they meet the same machine."""
    if not config.getoption("benchmark_enable"):
        return
    order: dict[object, int] = {}

    def case(item: pytest.Item) -> int:
        call = getattr(item, "callspec", None)
        params = {} if call is None else call.params
        rest = tuple(sorted((name, str(at)) for name, at in params.items() if name != "who"))
        return order.setdefault((item.path, rest), len(order))

    items.sort(key=case)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Let the peers measure the group of a benchmark that has just ended."""
    peers = item.config.stash.get(KEY, None)
    benchmark = getattr(item, "funcargs", {}).get("benchmark")
    if peers is not None and benchmark is not None and benchmark.group:
        peers.measure(benchmark.group, getattr(item, "module", None))


def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, Any]) -> None:
    """Put the peers' figures beside ours."""
    peers = config.stash.get(KEY, None)
    if peers is not None:
        output_json["peers"] = {
            "rows": peers.rows,
            "versions": peers.versions,
            "missing": peers.missing,
        }


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the programs."""
    peers = config.stash.get(KEY, None)
    if peers is not None:
        peers.close()
