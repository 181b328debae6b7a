"""A set of specs as a static site that decodes in the page: its files, all but the codecs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from kraftspec.codegen.history.states import packaged_history
from kraftspec.codegen.history.view import overviews, rows, selected
from kraftspec.codegen.model import Message
from kraftspec.codegen.reference_pages import TYPES, Row, Version, facts
from kraftspec.codegen.typescript_target import SIZES


def render_explorer(messages: Iterable[Message], numbers: Path, title: str) -> dict[str, str]:
    """Render the site of the newest release: path of a file → text.

    The pages load the compiled TypeScript codecs from ``codecs/``, which are not among these files.

    Args:
        messages: all of the set that ``specs/history.json`` leads to.
        numbers: the directory of ``errors.json``.
        title: what the set is called, such as ``Apache Kafka 4.4.0``.
    """
    named = {message.name: message for message in sorted(messages, key=lambda one: one.name)}
    told = {name: facts(message, named, history=True) for name, message in named.items()}
    errors = json.loads((numbers / "errors.json").read_text("utf-8"))["errors"]
    history = packaged_history()
    index = {"title": title, "groups": TYPES, "messages": [*map(_entry, named.values())]}
    search = {
        "fields": _fields(told),
        "errors": [[one["code"], one["name"], one["retriable"]] for one in errors],
        "releases": history.releases,
    }
    data: dict[str, Any] = {
        "index": index,
        "search": search,
        "releases": [
            {"release": one.release, "messages": one.messages, "apis": one.apis,
             "new": one.new, "gone": one.gone, "changed": one.changed}
            for one in overviews(history)
        ],
    }  # fmt: skip
    data |= {f"message/{name}": _message(one) for name, one in told.items()}
    for release in history.releases:
        changed = rows(selected(history, history.messages, release=release))
        data[f"release/{release}"] = [[row.message, row.lines] for row in changed]
    site = files("kraftspec.codegen") / "templates" / "explorer"
    return {file.name: file.read_text("utf-8") for file in site.iterdir()} | {
        f"data/{name}.json": json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        for name, value in data.items()
    }


def _entry(message: Message) -> dict[str, Any]:
    return {
        "name": message.name,
        "type": message.type,
        "apiKey": message.api_key,
        "versions": str(message.valid_versions),
    }


def _fields(told: Mapping[str, Mapping[str, Any]]) -> dict[str, list[tuple[int, int]]]:
    """Return where each field is: its name → (number of the message, newest version with it)."""
    by_name: dict[str, dict[int, int]] = {}
    for number, one in enumerate(told.values()):
        for version in reversed(one["versions"]):  # The oldest first: newer ones replace it.
            for row in version.rows:
                by_name.setdefault(row.name, {})[number] = version.plan.version
    return {name: list(places.items()) for name, places in sorted(by_name.items())}


def _message(told: Mapping[str, Any]) -> dict[str, Any]:
    message: Message = told["message"]
    return {
        "name": message.name,
        "type": message.type,
        "apiKey": message.api_key,
        "valid": str(message.valid_versions),
        "flexible": str(told["flexible"]),
        "deprecated": str(told["deprecated"]),
        "unstable": message.latest_version_unstable,
        "listeners": message.listeners,
        "other": told["other"].name if told["other"] else None,
        "codes": told["codes"],
        "versions": [_version(version) for version in reversed(told["versions"])],
        "history": [[row.release, row.lines] for row in told["history"]],
    }


def _version(version: Version) -> dict[str, Any]:
    return {
        "version": version.plan.version,
        "flexible": version.plan.flexible,
        "headerVersion": version.plan.header_version,
        "sameAs": version.same_as,
        "added": version.added,
        "gone": version.gone,
        "rows": [_row(row) for row in version.rows],
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "depth": row.depth,
        "name": row.name,
        "wire": row.wire,
        "form": row.form,
        "size": SIZES.get(row.wire),
        "nullable": row.nullable,
        "tag": row.tag,
        "default": row.default,
        "about": row.about,
    }
