"""A set of specs as a Wireshark dissector: tables from plans, and the engine that reads by them.

The dissector is one file of Lua. The tables number the layouts; equal layouts are one, whichever
messages have them. The engine (``wireshark/*.lua``) is written by hand and knows no message.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from kraftspec.codegen.model import Message
from kraftspec.codegen.plan import FieldPlan, StructPlan, plan_message
from kraftspec.codegen.rendering import render
from kraftspec.codegen.versions import Versions

ENGINE = ("fields", "reading", "records", "dissect")  # The parts of the engine, in their order.
# Records of another log, __remote_log_metadata, that are numbered from 0 again.
_REMOTE_STORAGE = "Remote"


def render_dissector(messages: Iterable[Message], numbers: Path, source: str) -> str:
    """Render the dissector of a set.

    Args:
        messages: those of the set; others than APIs, headers and records of the metadata log are
            left out.
        numbers: the directory of ``errors.json`` and ``control-records.json``.
        source: what line 1 says that it was generated from.
    """
    named = {message.name: message for message in messages}
    table = _Layouts()
    errors = json.loads((numbers / "errors.json").read_text("utf-8"))["errors"]
    controls = json.loads((numbers / "control-records.json").read_text("utf-8"))["controlRecords"]
    context: Mapping[str, Any] = {
        "source": source,
        "errors": [(entry["code"], entry["name"]) for entry in errors],
        "headers": [
            (name, table.versions(named[name])) for name in ("RequestHeader", "ResponseHeader")
        ],
        "apis": [
            (
                message.api_key,
                name.removesuffix("Request"),
                table.versions(message),
                table.versions(named[f"{name.removesuffix('Request')}Response"]),
            )
            for name, message in _by_key(named, "request")
        ],
        "metadata_records": [
            (message.api_key, name, table.versions(message))
            for name, message in _by_key(named, "metadata")
            if not name.startswith(_REMOTE_STORAGE)
        ],
        "control_records": [
            (entry["type"], entry["message"], table.versions(named[entry["message"]]))
            for entry in controls
            if entry["message"] in named
        ],
        "layouts": table.texts,
        "engine": [
            (files("kraftspec.codegen") / "wireshark" / f"{part}.lua").read_text("utf-8")
            for part in ENGINE
        ],
    }
    return render("wireshark.lua.jinja", context)


def _by_key(named: Mapping[str, Message], kind: str) -> list[tuple[str, Message]]:
    """Return the messages of a type that have versions, by key."""
    chosen = [
        (name, message)
        for name, message in named.items()
        if message.type == kind and not message.valid_versions.empty
    ]
    return sorted(chosen, key=lambda entry: entry[1].api_key or 0)


class _Layouts:
    """The distinct layouts as the engine reads them; a layout's number is its place, from 1 on."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def versions(self, message: Message) -> str:
        """Return the layout of each version, and the version of the header before it."""
        valid: Versions = message.valid_versions
        plans = [plan_message(message, version) for version in valid]
        entries = (
            f"{self.number(plan.struct)}/"
            + ("" if plan.header_version is None else str(plan.header_version))
            for plan in plans
        )
        return f"{valid.lowest}: {' '.join(entries)}"

    def number(self, struct: StructPlan) -> int:
        """Return the number of a struct's layout."""
        words = ["+"] if struct.flexible else []
        words += [self._field(entry) for entry in (*struct.fields, *struct.tagged)]
        words += [f"!{tag}" for tag in struct.later_tags]
        text = " ".join(words)
        if text not in self._numbers:
            self.texts.append(text)
            self._numbers[text] = len(self.texts)
        return self._numbers[text]

    def _field(self, entry: FieldPlan) -> str:
        tag = "" if entry.tag is None else f"@{entry.tag}:"
        element = (
            str(self.number(entry.element))
            if isinstance(entry.element, StructPlan)
            else entry.element
        )
        return (
            f"{tag}{entry.name}:{entry.wire}"
            + (f"<{element}>" if element is not None else "")
            + ("?" if entry.nullable else "")
        )
