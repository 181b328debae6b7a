"""What docs/bugs.md says below its mark: the recorded verdicts, and every bug."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from msgspec import UNSET

from kraftspec.conformance.bugs import bugs
from kraftspec.conformance.bugs.trials import as_expected, vector_of
from kraftspec.conformance.raw.bug_evidence import Verdict
from kraftspec.conformance.raw.bugs import Bug

MARK: Final = "<!-- kraftspec conform bugs --write: all that follows -->"


def write_page(page: Path, verdicts: Iterable[Verdict]) -> bool:
    """Write what follows the mark of a page; return whether it changed.

    Raises ``ValueError`` for a page without the mark, and where the vectors are older than
    ``bugs.json``.
    """
    text = page.read_text(encoding="utf-8")
    if text.count(MARK) != 1:
        raise ValueError(f"{page} has no line {MARK!r}: nowhere to write to")
    written = "\n".join([text.split(MARK)[0] + MARK, "", *_lines(list(verdicts)), ""])
    if written != text:
        page.write_text(written, encoding="utf-8")
    return written != text


def _lines(verdicts: list[Verdict]) -> Iterator[str]:
    shown = {verdict.flag for verdict in verdicts if verdict.is_buggy and as_expected(verdict)}
    fixed = {verdict.flag for verdict in verdicts if not verdict.is_buggy and as_expected(verdict)}
    yield "## Shown on releases"
    yield ""
    yield (
        f"{len(shown)} of {len(bugs())} bugs fail on a release from its registry; of {len(fixed)} "
        "a release without them passes."
    )
    yield ""
    yield "| bug | vector | asked to | with the bug | without |"
    yield "| --- | --- | --- | --- | --- |"
    for _, alike in groupby(
        sorted(verdicts, key=_case), key=lambda verdict: (_case(verdict), verdict.direction)
    ):
        yield _row(list(alike))
    yield ""
    yield "What the releases with the bug did:"
    yield ""
    for verdict in verdicts:
        if verdict.is_buggy:
            yield f"* `{verdict.test}` {verdict.adapter} {verdict.release}: `{verdict.detail}`"
    yield ""
    yield "## All of them"
    yield ""
    for bug in bugs():
        yield from _bug(bug)


def _case(verdict: Verdict) -> tuple[str, str, str, str]:
    return verdict.flag, verdict.adapter, verdict.test, verdict.direction


def _row(verdicts: list[Verdict]) -> str:
    result = {verdict.is_buggy: f"{verdict.release}: {verdict.verdict}" for verdict in verdicts}
    one = verdicts[0]
    return (
        f"| [{one.flag}](#{one.flag.lower()}) | `{one.test}` {one.message} v{one.version} "
        f"| {one.direction} | {one.adapter} {result[True]} | {result.get(False, 'none known')} |"
    )


def _bug(bug: Bug) -> Iterator[str]:
    yield f"### {bug.flag}"
    yield ""
    yield f"{bug.project}, {bug.bug_type}. {bug.description}"
    yield ""
    for case in bug.tests:
        test = vector_of(bug, case)
        yield f"* `{test.id}` {case.message} v{case.version} ({test.op}): {case.comment}"
    if bug.fixed is not UNSET:
        yield f"* Fixed in {bug.fixed}."
    if bug.unconfirmed is not UNSET:
        yield f"* Not confirmed: {bug.unconfirmed}"
    if bug.behaviour is not UNSET:
        yield f"* Beyond a codec: {bug.behaviour}"
    yield f"* {', '.join(f'<{link}>' for link in bug.links)}"
    yield ""
