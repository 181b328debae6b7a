"""The tables of docs/strength.md, made from a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kraftspec.conformance.strength import Strength, Survivor

BEGIN = "<!-- kraftspec conform strength --write: from here -->"
END = "<!-- to here -->"
SHOWN_MAX = 40  # Survivors named one by one; what is more is counted by operator.


def write_page(page: Path, found: Strength) -> bool:
    """Put the tables between the marks of a page; return whether it changed.

    Raises ``ValueError`` for a page without the marks.
    """
    text = page.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(END) < text.index(BEGIN):
        raise ValueError(f"{page} has no lines {BEGIN!r} and {END!r}: nowhere to write to")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    made = "\n".join(["", "", *_lines(found), "", ""])
    written = f"{before}{BEGIN}{made}{END}{after}"
    if written != text:
        page.write_text(written, encoding="utf-8")
    return written != text


def _lines(found: Strength) -> Iterator[str]:
    total = found.total
    yield f"{found.pairs:,} pairs of message and version, {total.mutants:,} mutants:"
    yield f"**{total.killed:,} killed, {found.percent:.2f} %**."
    yield ""
    yield "| operator | mutants | killed | % | by encode | by decode |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for operator, tally in sorted(found.operators.items()):
        percent = 100 * tally.killed / tally.mutants
        yield (
            f"| {operator} | {tally.mutants:,} | {tally.killed:,} | {percent:.1f} "
            f"| {tally.by_encode:,} | {tally.by_decode:,} |"
        )
    yield ""
    yield "| run by | mutants | survivors |"
    yield "| --- | ---: | ---: |"
    survivors = Counter(survivor.codec for survivor in found.survivors)
    for codec, count in found.runs.items():
        yield f"| {codec} | {count:,} | {survivors[codec]:,} |"
    yield ""
    yield from _survivors([entry for entry in found.survivors if entry.codec == "interpreter"])


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
    """Return what survivors are counted by: the detail, where it names no field and no number."""
    named = survivor.operator in ("order", "tag number", "tag of another version", "default")
    return "" if named else survivor.detail
