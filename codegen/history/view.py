"""What people see of the history: a line of text for each field that a release changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from kraftspec.codegen.history.changes import Change, added_fields
from kraftspec.codegen.history.states import History, State
from kraftspec.codegen.versions import NONE, Versions

# What a key that is absent stands for.
_ABSENT = {
    "nullableVersions": "none", "taggedVersions": "none", "deprecatedVersions": "none",
    "ignorable": "no", "mapKey": "no", "zeroCopy": "no",
}  # fmt: skip
_FACT_NAMES = {"nullableVersions": "nullable", "taggedVersions": "tagged"}


@dataclass(frozen=True, slots=True)
class Row:
    """What a release changed in a message."""

    release: str
    message: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """A release as a whole: how much it has, and what came and went since the one before it.

    An API is a request with at least one version; ``new`` and ``gone`` name messages too that are
    no requests, and ``changed`` counts messages that the release before has, too.
    """

    release: str
    messages: int
    apis: int
    pairs: int
    new: tuple[str, ...]
    gone: tuple[str, ...]
    changed: int


def selected(
    history: History, names: Iterable[str], field: str = "", release: str = ""
) -> dict[str, list[Change]]:
    """Return the changes of messages, of one field and in one release if these are named."""
    by_message = {}
    for name in names:
        fields = field_aliases(history.messages[name], field)
        changes = [
            change
            for change in history.messages[name]
            if release in ("", change["release"]) and _about(change, fields)
        ]
        if changes:
            by_message[name] = changes
    return by_message


def rows(changes: dict[str, list[Change]], fields: Set[str] = frozenset()) -> list[Row]:
    """Return changes as text, in the order of messages, then of releases.

    Of a message or a struct that is new only the fields with these names are shown.
    """
    shown = []
    for name, own in changes.items():
        for release, group in groupby(own, lambda change: str(change["release"])):
            if lines := tuple(_lines(list(group), fields)):
                shown.append(Row(release, name, lines))
    return shown


def field_names(changes: Sequence[Change]) -> set[str]:
    """Return the path of every field that a message ever had, and its name alone."""
    paths = set()
    for change in changes:
        paths |= {_json_path(path) for path in _paths(change)}
    return paths | {path.rpartition(".")[2] for path in paths}


def overviews(history: History) -> Iterator[Overview]:
    """Yield each release as a whole."""
    before: State = {}
    for release, state in history.states():
        alive, alive_before = _alive(state), _alive(before)
        pairs = sum(len(_versions(spec["validVersions"])) for spec in state.values())
        requests = [name for name in alive if state[name]["type"] == "request"]
        changed = [name for name in state if name in before and state[name] != before[name]]
        yield Overview(
            release,
            len(state),
            len(requests),
            pairs,
            tuple(sorted(alive - alive_before)),
            tuple(sorted(alive_before - alive)),
            len(changed),
        )
        before = state


def _alive(state: State) -> set[str]:
    return {name for name, spec in state.items() if spec["validVersions"] != "none"}


# Which changes are about a field.


def _json_path(path: str) -> str:
    """Return ``topics.partitionIndex`` for ``Topics.PartitionIndex``; ``<Voter>`` stays."""
    return ".".join(part[:1].lower() + part[1:] for part in path.split("."))


def _paths(change: Change) -> list[str]:
    """Return the paths of the fields that a change is about; none for the message itself."""
    if "added" in change:
        return [path for path, _ in added_fields(change)]
    at = change.get("at", "")
    if "was" in change:
        parent, dot, _ = at.rpartition(".")
        return [at, f"{parent}{dot}{change['was']}"]
    return [at] if at else []


def _about(change: Change, fields: Set[str]) -> bool:
    return not fields or any(_matches(path, fields) for path in _paths(change))


def _matches(path: str, fields: Set[str]) -> bool:
    """Whether a path is one of the fields, ends with it, or leads into it."""
    whole = f".{_json_path(path)}.".lower()
    return any(f".{field}.".lower() in whole for field in fields)


def field_aliases(changes: Sequence[Change], field: str) -> Set[str]:
    """Return a field and the paths that it had before and after it was renamed."""
    names = {field} if field else set[str]()
    for change in [*changes, *reversed(changes)]:
        if field and "was" in change and _about(change, names):
            names |= set(map(_json_path, _paths(change)))
    return names


# Changes as text.


def _lines(changes: Sequence[Change], fields: Set[str]) -> Iterator[str]:
    """Yield a line for each change of the message, then one for each field."""
    for change in changes:
        if "at" not in change:
            if not fields and (text := _message_line(change)):
                yield text
            if fields and "added" in change:
                yield from _added_lines(change, fields)
    by_path: dict[str, list[Change]] = {}
    for change in changes:
        if "at" in change:
            by_path.setdefault(change["at"], []).append(change)
    for path, own in by_path.items():
        if "added" in own[0]:
            yield from _added_lines(own[0], fields)
        elif "removed" in own[0]:
            yield f"- {_json_path(path)}: {_field_text(own[0]['removed'])}"
        else:
            yield f"~ {_json_path(path)}: {'; '.join(map(_change_text, own))}"


def _added_lines(change: Change, fields: Set[str]) -> Iterator[str]:
    if change.get("at", "").endswith(">") and not fields:
        yield f"+ {change['at']}: struct, {_field_text(change['added'])}"
    for path, entry in added_fields(change):
        if not fields or _matches(path, fields):
            yield f"+ {_json_path(path)}: {_field_text(entry)}"


def _message_line(change: Change) -> str:
    if "removed" in change:
        return "removed"
    if "added" in change:
        spec = change["added"]
        key = f", API key {spec['apiKey']}" if "apiKey" in spec else ""
        unstable = ", the latest not final" if spec.get("latestVersionUnstable") else ""
        return (
            f"new: {spec['type']}{key}, versions {spec['validVersions']} "
            f"(flexible {spec['flexibleVersions']}){unstable}"
        )
    key, old, new = change["key"], change["from"], change["to"]
    if key == "validVersions":
        return _versions_line(old, new)
    if key == "latestVersionUnstable":
        return "the latest version is not final" if new else "the latest version is final"
    return "" if key == "fields" else f"{key} {_value(key, old)} → {_value(key, new)}"


def _versions_line(old: str, new: str) -> str:
    before, after = _versions(old), _versions(new)
    if after.empty:
        return f"versions {old} → none: removed"
    came = Versions(before.highest + 1, after.highest)
    back = Versions(after.lowest, before.lowest - 1)
    parts = [
        f"{word} {versions}"
        for word, versions in (
            ("new", came),
            ("dropped", before & Versions(0, after.lowest - 1)),
            ("back", back if not before.empty else NONE),
            ("withdrawn", before & Versions(after.highest + 1, before.highest)),
        )
        if not versions.empty
    ]
    return f"versions {old} → {new}: {', '.join(parts)}"


def _change_text(change: Change) -> str:
    if "was" in change:
        return f"was {change['was'] if change['at'].endswith('>') else _json_path(change['was'])}"
    if "fields from" in change:
        return f"has the fields of {_json_path(change['fields from'])}"
    if "key" not in change:
        return f"now after {change['after'] or 'nothing'}"
    key = change["key"]
    if key == "fields":
        return "its struct is written elsewhere"
    name = _FACT_NAMES.get(key, key)
    return f"{name} {_value(key, change['from'])} → {_value(key, change['to'])}"


def _value(key: str, value: Any) -> str:
    if value is None:
        return _ABSENT.get(key, "none")
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return "yes" if value is True else str(value)


def _field_text(entry: Change) -> str:
    """Return the facts of a field: ``[]int32, versions 0+, nullable 3+``."""
    parts = [entry["type"]] if "type" in entry else []
    for key, form in (
        ("versions", "versions {}"), ("nullableVersions", "nullable {}"), ("tag", "tag {}"),
        ("default", "default {}"), ("flexibleVersions", "flexible {}"),
    ):  # fmt: skip
        if key in entry:
            parts.append(form.format(entry[key]))
        if key == "tag" and entry.get("taggedVersions", entry["versions"]) != entry["versions"]:
            parts[-1] += f" in {entry['taggedVersions']}"
    parts += [flag for flag in ("ignorable", "mapKey", "zeroCopy") if entry.get(flag)]
    return ", ".join(parts)


def _versions(text: str) -> Versions:
    return Versions.parse(text)


# The page.


def table(history: History) -> str:
    """Return the table of releases for ``docs/releases.md``.

    Bug-fix releases that changed nothing share the row of the release before them.
    """
    lines = [
        "| release | messages | APIs | pairs | changed | new | removed |",
        "| --- | ---: | ---: | ---: | ---: | --- | --- |",
    ]
    releases = list(overviews(history))
    while releases:
        first = last = releases.pop(0)
        while releases and not (releases[0].new or releases[0].gone or releases[0].changed):
            last = releases.pop(0)
        name = first.release if first is last else f"{first.release} to {last.release}"
        new = "" if first.release == history.releases[0] else _names(first.new)
        lines.append(
            f"| {name} | {first.messages} | {first.apis} | {first.pairs} | {first.changed or ''} "
            f"| {new} | {_names(first.gone)} |"
        )
    return "\n".join(lines)


def _names(messages: Sequence[str]) -> str:
    """Return names in one line: a request and its response, a key and its value are one."""
    names = []
    for name in messages:
        api, record = name.removesuffix("Request"), name.removesuffix("Key")
        if name != api and f"{api}Response" in messages:
            names.append(f"**{api}**")
        elif name != record and f"{record}Value" in messages:
            names.append(f"{record} (key, value)")
        elif not {
            f"{name.removesuffix('Response')}Request", f"{name.removesuffix('Value')}Key"
        } & set(messages):  # fmt: skip
            names.append(name)
    return ", ".join(names)
