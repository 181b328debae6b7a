"""``specs/history.json``: the specs of any release out of it, and new releases into it.

Releases stand in the order of their numbers, each with the changes since the one before it: 4.0.0
is compared with the last bug-fix release of 3.9. A bug-fix release that comes later goes to its
place; the specs of those around it are had from the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kraftspec.codegen.history.changes import MODULE, Change, applied, changes_between
from kraftspec.codegen.importer import Spec, render_value
from kraftspec.codegen.releases import HISTORY, numbers

State = dict[str, Spec]  # The messages of a release by name; each has its module as a fact.


@dataclass(frozen=True, slots=True)
class History:
    """The releases in their order, and the changes of each message in the order of releases."""

    releases: tuple[str, ...]
    messages: Mapping[str, tuple[Change, ...]]

    def states(self) -> Iterator[tuple[str, State]]:
        """Yield each release with all of its messages."""
        changes: dict[str, dict[str, list[Change]]] = {release: {} for release in self.releases}
        for name, history in self.messages.items():
            for change in history:
                changes[change["release"]].setdefault(name, []).append(change)
        state: State = {}
        for release in self.releases:
            state = dict(state)
            for name, lines in changes[release].items():
                if "at" in lines[0] or "key" in lines[0]:
                    state[name] = applied(state[name], lines)
                elif "added" in lines[0]:
                    state[name] = {"name": name, **lines[0]["added"]}
                else:
                    del state[name]
            yield release, dict(sorted(state.items()))

    def state(self, release: str) -> State:
        """Return the messages of a release. Raises ``KeyError`` for one that is not known."""
        return dict(self.states())[release]


def history_of(states: Mapping[str, State]) -> History:
    """Return the history of releases, given in any order. Raises ``HistoryError``."""
    releases = sorted(states, key=numbers)
    messages: dict[str, list[Change]] = {}
    before: State = {}
    for release in releases:
        for name in sorted(before.keys() | states[release].keys()):
            old, new = before.get(name), states[release].get(name)
            if old != new:
                changes = _changes(old, new)
                messages.setdefault(name, []).extend({"release": release, **c} for c in changes)
        before = states[release]
    return History(tuple(releases), {name: tuple(messages[name]) for name in sorted(messages)})


def _changes(old: Spec | None, new: Spec | None) -> list[Change]:
    if new is None:
        return [{"removed": True}]
    if old is None:
        return [{"added": {key: value for key, value in new.items() if key != "name"}}]
    return changes_between(old, new)


def read_history(path: Path = HISTORY) -> History:
    """Read a history. Raises ``OSError`` and ``ValueError``."""
    raw: dict[str, Any] = json.loads(path.read_text("utf-8"))
    messages = {name: tuple(changes) for name, changes in raw["messages"].items()}
    return History(tuple(raw["releases"]), messages)


@cache
def packaged_history() -> History:
    """Return the history that came with this package."""
    return read_history()


def history_text(history: History) -> str:
    """Return the text of the file: a line for each change; a new message is opened up."""
    messages = []
    for name, changes in history.messages.items():
        lines = ",\n".join(f"      {_line(change)}" for change in changes)
        messages.append(f"    {json.dumps(name)}: [\n{lines}\n    ]")
    releases = render_value(list(history.releases), 2, len('"releases": '))
    body = ",\n".join(messages)
    return f'{{\n  "releases": {releases},\n  "messages": {{\n{body}\n  }}\n}}\n'


def _line(change: Change) -> str:
    if "added" in change and "at" not in change:
        release = json.dumps(change["release"])
        return f'{{"release": {release}, "added": {render_value(change["added"], 6, 0)}}}'
    return json.dumps(change, ensure_ascii=False)


def spec_of(fact: Spec) -> tuple[str, Spec]:
    """Return the module of a message of a state, and its spec as the jar has it."""
    return str(fact[MODULE]), {key: value for key, value in fact.items() if key != MODULE}
