"""``python -m kraftspec.simulation.recall``: look for public bugs of Kafka's raft client."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kraftspec.simulation.recall.search import Found, look, make_small, trace_path
from kraftspec.simulation.recall.searches import Search, all_searches
from kraftspec.simulation.recall.table import read_results, table, with_table, write_results

PAGE: Final = Path("docs/recall.md")


def _progress(what: str, number: int, count: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{what}: {number} of {count}")
        sys.stderr.flush()


def _verdict(search: Search, result: Found) -> str:
    if result.seed is None:
        return f"{search.bug}: not found, {result.runs} seeds with {search.has}"
    return (
        f"{search.bug}: {result.had} of {result.runs} seeds with {search.has}, "
        f"{result.had_without} with {search.without}; seed {result.seed}, "
        f"{result.minimised} events, "
        f"{result.cpu_seconds:.1f} s: {trace_path(result)}"
    )


def main() -> int:
    """Look for all bugs, or some; the exit code is 1 where one is not found, or not gone."""
    parser = argparse.ArgumentParser(
        prog="python -m kraftspec.simulation.recall", description=main.__doc__
    )
    parser.add_argument("bugs", nargs="*", metavar="BUG", help="such as KAFKA-16926; none: all")
    parser.add_argument("--page", type=Path, default=PAGE, help="where the table is written")
    options = parser.parse_args()
    searches = all_searches()
    unknown = set(options.bugs) - {search.bug for search in searches}
    if unknown:
        parser.error(f"nobody looks for {sorted(unknown)[0]}: {', '.join(s.bug for s in searches)}")
    chosen = [search for search in searches if not options.bugs or search.bug in options.bugs]
    results = read_results()
    for search in chosen:
        results[search.key] = look(search, _progress)
        _write(searches, results, options.page)
    for search in chosen:
        result = results[search.key]
        make_small(search, result, _progress)
        print(_verdict(search, result), flush=True)
        _write(searches, results, options.page)
    return 0 if all(results[search.key].is_rediscovered for search in chosen) else 1


def _write(searches: Sequence[Search], results: dict[str, Found], path: Path) -> None:
    """Write what is known so far."""
    write_results([results[search.key] for search in searches if search.key in results])
    page = path.read_text(encoding="utf-8")
    path.write_text(with_table(page, table(searches, results)), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
