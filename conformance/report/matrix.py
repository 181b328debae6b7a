"""The page of results: implementation by message by version, in one file that fetches nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from msgspec import UNSET

from kraftspec import __version__
from kraftspec.conformance.raw.results import Counts, Failure, Results, UnexpectedPass
from kraftspec.conformance.raw.vectors import Note
from kraftspec.conformance.report import set_and_message
from kraftspec.conformance.vectors import KAFKA, vector_paths
from kraftspec.fastpath.record_batch import RecordBatch
from kraftspec.words import counted

TITLE = "Kafka protocol conformance"
# Of the failures of one cell, tried from the left until the page is small enough to send around.
CELL_FAILURES = (25, 10, 5, 2, 1)
FAILURE_BYTES_MAX = 2_000_000
HEX_BYTES_MAX = 96  # Around the first byte that differs; the command repeats the whole.
HEX_BYTES_BEFORE = 16
TEXT_CHARS_MAX = 400
REMARKS_MAX = 5  # Of a run.
_HEX = re.compile(r"(?:[0-9a-f]{2})*")

Flags = dict[str, Note]
_Case = Failure | UnexpectedPass


@dataclass(frozen=True)
class LeftOut:
    """An implementation that is not on the page, and why."""

    name: str
    language: str
    reason: str


def page(runs: Sequence[Results], *, left_out: Sequence[LeftOut] = (), flags: Flags) -> str:
    """Return the HTML of the page.

    ``flags`` explains the flags of the failures (``flags_of``). Of many failures in one cell the
    page holds a few, and says so; ``ValueError`` where there are no runs.
    """
    if not runs:
        raise ValueError("a report needs the results of at least one run")
    keys = sorted({key for run in runs for key in run.messages}, key=_row_order)
    data, cap = _fitting(runs, keys, flags)
    css, js = (asset(f"matrix.{kind}") for kind in ("css", "js"))
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    pairs = {
        (row, one[0])
        for run in data["runs"]
        for row, cell in enumerate(run["cells"])
        for one in cell or ()
        if one[0] is not None
    }
    rendered = environment.from_string(asset("matrix.html.jinja")).render(
        title=TITLE,
        summary=f"{counted(len(runs), 'implementation')}, {counted(len(keys), 'message')}, "
        f"{counted(len(pairs), 'pair')} of message and version, "
        f"{counted(max(run.tests for run in runs), 'golden vector')}",
        runs=data["runs"],
        sets=list(dict.fromkeys(set_and_message(key)[0] for key in keys)),
        left_out=left_out,
        remarks=[(entry["label"], text) for entry, run in zip(data["runs"], runs, strict=True)
                 for text in _remarks(run)],
        cap_text=f"A cell shows at most {counted(cap, 'failure')}, some of every version.",
        kraftspec_version=__version__,
        css=Markup(css), css_hash=csp_hash(css),
        js=Markup(js), js_hash=csp_hash(js),
        data=Markup(_script_safe(data)),
    )  # fmt: skip
    return rendered + "\n"


def flags_of(runs: Iterable[Results], root: Path) -> Flags:
    """Return what the vectors below ``root`` say of each flag that a failure bears."""
    wanted = {(one.message, flag) for run in runs for one in run.failures for flag in one.flags}
    messages = {message for message, _ in wanted}
    found: Flags = {}
    decoder = msgspec.json.Decoder(_Head)
    for path in vector_paths(root):
        if path.stem in messages:
            notes = decoder.decode(path.read_bytes()).notes
            found |= {name: note for name, note in notes.items() if (path.stem, name) in wanted}
    return found


class _Head(msgspec.Struct):
    """Of a vector file, what the page needs."""

    notes: Flags = {}


def asset(name: str) -> str:
    """Return what a page of results is made with: ``matrix.css`` is the look of all of them."""
    return (files("kraftspec.conformance") / "report" / name).read_text("utf-8")


def _row_order(key: str) -> tuple[bool, str, str]:
    spec, message = set_and_message(key)
    return spec != KAFKA, spec, message


def csp_hash(text: str) -> str:
    """Return what a Content-Security-Policy calls this text: nothing else on the page may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _script_safe(data: Any) -> str:
    """Write JSON that cannot end the script element it stands in, nor open a comment."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _fitting(runs: Sequence[Results], keys: list[str], flags: Flags) -> tuple[dict[str, Any], int]:
    """Return the page's data, and how many failures a cell of it may show."""
    for cap in CELL_FAILURES:
        shown = [_failures(run, keys, cap) for run in runs]
        if len(json.dumps(shown)) <= FAILURE_BYTES_MAX:
            break
    labels = _labels(runs)
    return {
        "rows": [set_and_message(key) for key in keys],
        "runs": [
            _run(run, label, keys, failures)
            for run, label, failures in zip(runs, labels, shown, strict=True)
        ],
        "flags": {
            name: {"type": note.bug_type, "text": note.description, "links": note.links}
            for name, note in sorted(flags.items())
        },
    }, cap


def _labels(runs: Sequence[Results]) -> list[str]:
    """Name the columns: by name, with the release where two have the same, then by number."""
    names = Counter(run.adapter.name for run in runs)
    labels = [
        run.adapter.name
        if names[run.adapter.name] == 1
        else f"{run.adapter.name}@{run.adapter.version}"
        for run in runs
    ]
    again = Counter(labels)
    return [
        label if again[label] == 1 else f"{label}#{labels[:at].count(label) + 1}"
        for at, label in enumerate(labels)
    ]


def _run(
    run: Results, label: str, keys: list[str], failures: dict[int, dict[str, Any]]
) -> dict[str, Any]:
    cells = [_cell(run, key) for key in keys]
    return {
        "label": label,
        "version": run.adapter.version,
        "language": run.adapter.language,
        "counts": _counts(run.counts),
        "brokeOff": bool(run.harness_failure),
        "skips": [[one.reason, one.count] for one in run.skips],
        "cells": cells,
        "failures": failures,
    }


def _cell(run: Results, key: str) -> list[list[int | None]] | None:
    """Return version and counts of each version of a message; None where it was not in the run.

    Tests of versions that the message does not have are one line, of version None, at the end.
    """
    if key not in run.messages:
        return None
    had: list[list[int | None]] = []
    others = [0] * len(_counts(run.counts))
    valid = _valid_versions(*set_and_message(key))
    for version, counts in sorted((int(name), one) for name, one in run.messages[key].items()):
        if valid is None or version in valid:
            had.append([version, *_counts(counts)])
        else:
            others = [one + more for one, more in zip(others, _counts(counts), strict=True)]
    return [*had, *([[None, *others]] if any(others) else [])]


@cache
def _valid_versions(spec: str, message: str) -> range | None:
    """Return the versions of a message of ours; None where nothing is known of it."""
    if (spec, message) == (KAFKA, "RecordBatch"):
        return RecordBatch.VALID_VERSIONS
    try:
        catalogue = import_module(f"kraftspec.generated.{spec.replace('-', '_')}").CATALOGUE
    except ModuleNotFoundError:
        return None
    return range(*catalogue[message][3:5]) if message in catalogue else None


def _counts(counts: Counts) -> list[int]:
    return [
        counts.passed,
        counts.failed,
        counts.skipped,
        counts.known_failures,
        counts.unexpected_passes,
    ]


def _remarks(run: Results) -> list[str]:
    """Say what a reader of the figures must know: a part of the tests, a run that broke off."""
    said = []
    chosen = run.selection
    if chosen.filters:
        said.append(f"only the tests of {', '.join(chosen.filters)}")
    if chosen.shard:
        said.append(f"only shard {chosen.shard}")
    if run.harness_failure:
        broke = run.harness_failure
        said.append(f"the run broke off ({broke.kind}): {_cut(broke.detail.partition(chr(10))[0])}")
    if run.restarts:
        said.append(f"started again {counted(run.restarts, 'time')} after a crash or a hang")
    said += [f"the known failure {one.test} has expired" for one in run.known if one.expired]
    said += run.warnings or []
    if len(said) > REMARKS_MAX:
        said[REMARKS_MAX:] = [f"and {len(said) - REMARKS_MAX:,} more, which its JSON has"]
    return said


def _failures(run: Results, keys: list[str], cap: int) -> dict[int, dict[str, Any]]:
    """Return of each row with failures how many they are, and ``cap`` of them."""
    row = {set_and_message(key): at for at, key in enumerate(keys)}
    cells: defaultdict[int, list[_Case]] = defaultdict(list)
    found: list[_Case] = [*run.failures, *run.unexpected_passes]
    for one in found:
        cells[row[one.spec, one.message]].append(one)
    return {
        at: {"count": len(in_cell), "shown": [_shown(one) for one in _spread(in_cell, cap)]}
        for at, in_cell in sorted(cells.items())
    }


def _spread(found: list[_Case], cap: int) -> list[_Case]:
    """Choose so that every version has its share, and what is not known comes first."""
    turn: Counter[int] = Counter()
    ranked = []
    by_news = sorted(found, key=lambda one: one.known is not UNSET and isinstance(one, Failure))
    for at, one in enumerate(by_news):
        ranked.append((turn[one.version], one.version, at))
        turn[one.version] += 1
    chosen = sorted(ranked)[:cap]
    return [by_news[at] for _, _, at in sorted(chosen, key=lambda rank: (rank[1], rank[2]))]


def _shown(one: _Case) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "version": one.version,
        "direction": one.direction,
        "family": one.family,
        "id": one.id,
    }
    if isinstance(one, UnexpectedPass):
        return {**shown, "kind": "unexpected pass", "detail": f"Known to fail: {one.known}"}
    shown |= {"kind": one.kind, "detail": _cut(one.detail), "reproduce": one.reproduce}
    shown |= {"flags": one.flags} if one.flags else {}
    for name in ("path", "offset", "known"):
        if (value := getattr(one, name)) is not UNSET:
            shown[name] = value
    sides = {side: getattr(one, side) for side in ("wanted", "given")}
    texts = {side: text for side, text in sides.items() if text is not UNSET}
    if one.direction == "encode" and texts and all(map(_HEX.fullmatch, texts.values())):
        return {**shown, "hex": _hex(one, texts)}
    return {**shown, **{side: _cut(text) for side, text in texts.items()}}


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]}…"


def _hex(one: Failure, texts: dict[str, str]) -> dict[str, Any]:
    """Cut both sides to the bytes around the first that differs; ``at`` is where they begin."""
    start = one.shown_from or 0
    wanted, given = texts.get("wanted", ""), texts.get("given", "")
    sizes = [len(wanted) // 2, len(given) // 2]
    same = (
        at for at in range(max(sizes)) if wanted[2 * at : 2 * at + 2] != given[2 * at : 2 * at + 2]
    )
    differs = next(same, 0)
    first = 0 if max(sizes) <= HEX_BYTES_MAX else max(0, differs - HEX_BYTES_BEFORE)
    part = slice(2 * first, 2 * (first + HEX_BYTES_MAX))
    return {
        "at": start + first,
        "differs": start + differs,
        "cut": bool(start) or max(sizes) > HEX_BYTES_MAX,
        "wanted": wanted[part],
        "given": given[part],
    }
