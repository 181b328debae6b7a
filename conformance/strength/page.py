"""The tables of docs/strength.md, made from a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kraftspec.conformance.strength import Strength, Survivor
from kraftspec.words import between_marks

BEGIN = "<!-- kraftspec conform strength --write: from here -->"
END = "<!-- to here -->"
SHOWN_MAX = 40  # Survivors that are listed; further ones are counted by operator.


def write_page(page: Path, strength: Strength) -> bool:
    """Write the tables between the marks of a page; return whether the page changed.

    Raises ``ValueError`` if the page has no marks.
    """
    text = page.read_text(encoding="utf-8")
    written = between_marks(text, BEGIN, END, "\n".join(_lines(strength)))
    if written != text:
        page.write_text(written, encoding="utf-8")
    return written != text


def _lines(strength: Strength) -> Iterator[str]:
    total = strength.total
    yield f"{strength.pairs:,} pairs of message and version, {total.mutants:,} mutants:"
    yield f"**{total.killed:,} killed, {strength.percent:.2f} %**."
    yield ""
    yield "| operator | mutants | killed | % | by encode | by decode |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for operator, tally in sorted(strength.operators.items()):
        percent = 100 * tally.killed / tally.mutants
        yield (
            f"| {operator} | {tally.mutants:,} | {tally.killed:,} | {percent:.1f} "
            f"| {tally.by_encode:,} | {tally.by_decode:,} |"
        )
    yield ""
    yield "| run by | mutants | survivors |"
    yield "| --- | ---: | ---: |"
    survivors = Counter(survivor.codec for survivor in strength.survivors)
    for codec, count in strength.runs.items():
        yield f"| {codec} | {count:,} | {survivors[codec]:,} |"
    yield ""
    yield from _survivors([entry for entry in strength.survivors if entry.codec == "interpreter"])


def _survivors(survivors: list[Survivor]) -> Iterator[str]:
    if not survivors:
        yield "No mutant survives."
        return
    yield "The survivors:"
    yield ""
    if len(survivors) <= SHOWN_MAX:
        yield from (f"* {survivor}" for survivor in sorted(survivors))
        return
    kinds = Counter((entry.operator, _kind(entry)) for entry in survivors)
    for (operator, detail), count in sorted(kinds.items()):
        first = min(entry for entry in survivors if (entry.operator, _kind(entry)) ==
                    (operator, detail))  # fmt: skip
        yield f"* {count:,} of {f'{operator} {detail}'.strip()}, such as {first}"


def _kind(survivor: Survivor) -> str:
    """Return the key by which survivors are counted: the detail without names and numbers."""
    named = survivor.operator in ("order", "tag number", "tag of another version", "default")
    return "" if named else survivor.detail
