"""Extend the history by new releases, ``python -m kraftspec.codegen.history [--scratch]``.

It writes ``specs/history.json`` and the table of ``docs/releases.md``. ``--scratch`` reads the jars
of all releases again, which takes a quarter of an hour; without it, those that the history has are
taken from it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kraftspec.codegen.history.changes import MODULE, HistoryError
from kraftspec.codegen.history.states import State, history_of, history_text, read_history
from kraftspec.codegen.history.view import table
from kraftspec.codegen.importer import SpecImportError
from kraftspec.codegen.releases import HISTORY, ReleaseError, published_releases, read_release
from kraftspec.words import between_marks

PAGE = HISTORY.resolve().parents[1] / "docs" / "releases.md"
MARKS = ("<!-- releases -->", "<!-- end of releases -->")


def state_of(release: str) -> State:
    """Return the messages of a release, from its jars. Raises ``ReleaseError``."""
    return {
        name: {MODULE: module, **spec} for name, (module, spec) in read_release(release).items()
    }


def with_table(page: str, rows: str) -> str:
    """Return the page with the table between its marks. Raises ``HistoryError`` without marks."""
    try:
        return between_marks(page, *MARKS, rows)
    except ValueError as error:
        raise HistoryError(str(error)) from error


def update(*, scratch: bool, history: Path = HISTORY, page: Path = PAGE) -> list[str]:
    """Write the history and the page; return the releases that were read from jars."""
    states = {} if scratch or not history.exists() else dict(read_history(history).states())
    new = [release for release in published_releases() if release not in states]
    for release in new:
        print(f"{release}: reading its jars", flush=True)
        states[release] = state_of(release)
    new_history = history_of(states)
    history.write_text(history_text(new_history), "utf-8")
    page.write_text(with_table(page.read_text("utf-8"), table(new_history)), "utf-8")
    return new


def main(arguments: list[str]) -> int:
    """Update, and say what was new."""
    if arguments not in ([], ["--scratch"]):
        print("usage: python -m kraftspec.codegen.history [--scratch]", file=sys.stderr)
        return 2
    try:
        new = update(scratch=bool(arguments))
    except (ReleaseError, SpecImportError, HistoryError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{HISTORY}: {', '.join(new) or 'nothing'} new")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
