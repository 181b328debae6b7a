"""The page of results: implementation by message by version, in one file that fetches nothing."""

from __future__ import annotations

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
from markupsafe import Markup
from msgspec import UNSET

from kraftspec.conformance.raw.results import Counts, Failure, Results, UnexpectedPass
from kraftspec.conformance.raw.vectors import Note
from kraftspec.conformance.report import set_and_message
from kraftspec.conformance.report.page import render
from kraftspec.conformance.vectors import KAFKA, NO_MESSAGE, vector_paths
from kraftspec.fastpath.record_batch import RecordBatch
from kraftspec.words import counted

TITLE = "Kafka protocol conformance"
# Maximum failures of one cell. They are tried from the left until the page is small enough.
CELL_FAILURES = (25, 10, 5, 2, 1)
FAILURE_BYTES_MAX = 2_000_000
HEX_BYTES_MAX = 96  # Around the first difference; the command repeats the whole test.
HEX_BYTES_BEFORE = 16
TEXT_CHARS_MAX = 400
REMARKS_MAX = 5  # Of a run.
_HEX = re.compile(r"(?:[0-9a-f]{2})*")

Flags = dict[str, Note]
_Case = Failure | UnexpectedPass


@dataclass(frozen=True)
class LeftOut:
    """An implementation that is not on the page, and the reason."""

    name: str
    language: str
    reason: str


def page(runs: Sequence[Results], *, left_out: Sequence[LeftOut] = (), flags: Flags) -> str:
    """Return the HTML of the page.

    ``flags`` explains the flags of the failures (``flags_of``). The page
    has only some of many failures in one cell, and says so. ``ValueError`` without runs.
    """
    if not runs:
        raise ValueError("a report needs the results of at least one run")
    keys = sorted({key for run in runs for key in run.messages}, key=_row_order)
    data, cap = _fitting(runs, keys, flags)
    here = files("kraftspec.conformance") / "report"
    pairs = {
        (row, one[0])
        for run in data["runs"]
        for row, cell in enumerate(run["cells"])
        for one in cell or ()
        if one[0] is not None
    }
    return render(
        here / "matrix.html.jinja",
        js=(here / "matrix.js").read_text("utf-8"),
        title=TITLE,
        subtitle=f"{counted(len(runs), 'implementation')}, {counted(len(keys), 'message')}, "
        f"{counted(len(pairs), 'pair')} of message and version, "
        f"{counted(max(run.tests for run in runs), 'golden vector')}",
        runs=data["runs"],
        sets=list(dict.fromkeys(set_and_message(key)[0] for key in keys)),
        left_out=left_out,
        remarks=[(entry["label"], text) for entry, run in zip(data["runs"], runs, strict=True)
                 for text in _remarks(run)],
        cap_text=f"A cell shows at most {counted(cap, 'failure')}, some of every version.",
        data=Markup(_script_safe(data)),
    )  # fmt: skip


def flags_of(runs: Iterable[Results], root: Path) -> Flags:
    """Return the notes in the vectors below ``root`` on the flags of failures."""
    used = {(one.message, flag) for run in runs for one in run.failures for flag in one.flags}
    messages = {message for message, _ in used}
    flags: Flags = {}
    decoder = msgspec.json.Decoder(_Head)
    for path in vector_paths(root):
        if path.stem in messages:
            notes = decoder.decode(path.read_bytes()).notes
            flags |= {name: note for name, note in notes.items() if (path.stem, name) in used}
    return flags


class _Head(msgspec.Struct):
    """The part of a vector file that the page needs."""

    notes: Flags = {}


def _row_order(key: str) -> tuple[bool, str, str]:
    spec, message = set_and_message(key)
    return spec != KAFKA, spec, message


def _script_safe(data: Any) -> str:
    """Write JSON that cannot end its script element, nor open a comment."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _fitting(runs: Sequence[Results], keys: list[str], flags: Flags) -> tuple[dict[str, Any], int]:
    """Return the page's data, and the maximum number of failures in a cell."""
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
    """Return unique names of the columns: add the release, then a number, if needed."""
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
    """Return the counts of each version of a message; None if it was not in the run.

    Tests of versions that the message does not have are one line at the end, with version None.
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
    """Return the versions of a message in our specs; None if it is unknown."""
    if (spec, message) == (KAFKA, "RecordBatch"):
        return RecordBatch.VALID_VERSIONS
    if (spec, message) == (KAFKA, NO_MESSAGE):
        return range(0)
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
    """Return remarks on the figures, such as a partial or an aborted run."""
    remarks = []
    chosen = run.selection
    if chosen.filters:
        remarks.append(f"only the tests of {', '.join(chosen.filters)}")
    if chosen.shard:
        remarks.append(f"only shard {chosen.shard}")
    if run.harness_failure:
        broke = run.harness_failure
        remarks.append(
            f"the run broke off ({broke.kind}): {_cut(broke.detail.partition(chr(10))[0])}"
        )
    if run.restarts:
        remarks.append(f"started again {counted(run.restarts, 'time')} after a crash or a hang")
    remarks += [f"a known failure has expired: {one.reason}" for one in run.known if one.expired]
    remarks += run.warnings or []
    if len(remarks) > REMARKS_MAX:
        remarks[REMARKS_MAX:] = [f"and {len(remarks) - REMARKS_MAX:,} more, which its JSON has"]
    return remarks


def _failures(run: Results, keys: list[str], cap: int) -> dict[int, dict[str, Any]]:
    """Return for each row with failures their number, and at most ``cap`` of them."""
    row = {set_and_message(key): at for at, key in enumerate(keys)}
    cells: defaultdict[int, list[_Case]] = defaultdict(list)
    failures: list[_Case] = [*run.failures, *run.unexpected_passes]
    for one in failures:
        cells[row[one.spec, one.message]].append(one)
    return {
        at: {"count": len(in_cell), "shown": [_shown(one) for one in _spread(in_cell, cap)]}
        for at, in_cell in sorted(cells.items())
    }


def _spread(failures: list[_Case], cap: int) -> list[_Case]:
    """Choose failures of every version; those that are not known come first."""
    turn: Counter[int] = Counter()
    ranked = []
    by_news = sorted(failures, key=lambda one: one.known is not UNSET and isinstance(one, Failure))
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
    """Shorten both sides to the bytes around the first difference; ``at`` is their offset."""
    start = one.shown_from or 0
    expected, actual = texts.get("wanted", ""), texts.get("given", "")
    sizes = [len(expected) // 2, len(actual) // 2]
    same = (
        at
        for at in range(max(sizes))
        if expected[2 * at : 2 * at + 2] != actual[2 * at : 2 * at + 2]
    )
    differs = next(same, 0)
    first = 0 if max(sizes) <= HEX_BYTES_MAX else max(0, differs - HEX_BYTES_BEFORE)
    part = slice(2 * first, 2 * (first + HEX_BYTES_MAX))
    return {
        "at": start + first,
        "differs": start + differs,
        "cut": bool(start) or max(sizes) > HEX_BYTES_MAX,
        "wanted": expected[part],
        "given": actual[part],
    }
