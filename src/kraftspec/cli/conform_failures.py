"""A failed test as a person reads it: its name, the field, the bytes that differ, how to repeat."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from kraftspec.cli.output import counted, printable
from kraftspec.conformance.vectors import KAFKA

if TYPE_CHECKING:
    from rich.console import Console

    from kraftspec.conformance.raw.results import Failure

FAILURES_SHOWN_MAX = 20  # A codec that is wrong once is often wrong ten thousand times.
GROUPS_SHOWN_MAX = 20
EXAMPLES_SHOWN_MAX = 5
# What a typed codec cannot be given: whoever turns JSON into its values must refuse it.
_OF_THE_ADAPTER = ("missing_field", "wrong_type", "field_not_in_version")
# What hurts most comes first; the rest is ordered by how often it occurs.
_WORST = ("crash", "hang", "oversize", "rubbish", "order", "twice", "malformed")
_BY_FAMILY = ("accepted", "class", "offset")  # An error check that lacks, lacks in all messages.
ROW_BYTES = 16
ROWS_AFTER_MAX = 2  # After the first that differs: what is inserted shifts all that follows.
PRINTABLE = range(0x20, 0x7F)
DETAIL_FIRST_LINES = 7  # The adapter's first words with what stands around them,
DETAIL_LAST_LINES = 8  # and what it said at last.
WANTED, GIVEN = "green", "red"


def show_all(failures: Sequence[Failure], console: Console) -> None:
    """Print failures, the worst first; of many an example of each group, and the groups' table."""
    _show_each_or_groups(failures, console)
    lax = [one for one in failures if one.kind == "accepted" and one.family in _OF_THE_ADAPTER]
    if lax:
        told = ", ".join(sorted({failure.family for failure in lax}))
        console.print(
            f"{len(lax):,} of {counted(len(failures), 'failure')} may be of the adapter, not of "
            f"the codec: it took JSON that it must refuse ({told})\n",
            soft_wrap=True,
        )


def _show_each_or_groups(failures: Sequence[Failure], console: Console) -> None:
    groups = _groups(failures)
    if len(failures) <= FAILURES_SHOWN_MAX:
        for group in groups:
            for failure in group:
                show(failure, console)
        return
    for group in groups[:EXAMPLES_SHOWN_MAX]:
        show(group[0], console)
    kinds = Counter(failure.kind for failure in failures).most_common()
    told = ", ".join(f"{count:,} {kind}" for kind, count in kinds)
    console.print(f"{counted(len(failures), 'failure')}: {told}", soft_wrap=True)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("count", justify="right")
    for column in ("kind", "message", "versions", "direction", "field or family", "example"):
        table.add_column(column, overflow="fold")
    for group in groups[:GROUPS_SHOWN_MAX]:
        table.add_row(*_row_of(group))
    console.print(table)
    if hidden := groups[GROUPS_SHOWN_MAX:]:
        rest = counted(sum(map(len, hidden)), "failure")
        console.print(f"and {rest} in {counted(len(hidden), 'more group')}; --json has all")
    console.print()


def _groups(failures: Sequence[Failure]) -> list[list[Failure]]:
    """Put failures together that have one cause, as far as names tell: the worst groups first."""
    groups: dict[tuple[str, ...], list[Failure]] = {}
    for failure in failures:
        if failure.kind in _BY_FAMILY:
            key: tuple[str, ...] = (failure.kind, failure.direction, failure.family)
        else:
            key = (failure.kind, failure.direction, _message(failure), _field(failure))
        groups.setdefault(key, []).append(failure)

    def order(group: list[Failure]) -> tuple[int, int]:
        kind = group[0].kind
        return _WORST.index(kind) if kind in _WORST else len(_WORST), -len(group)

    return sorted(groups.values(), key=order)


def _message(failure: Failure) -> str:
    return failure.message if failure.spec == KAFKA else f"{failure.spec}/{failure.message}"


def _field(failure: Failure) -> str:
    return re.sub(r"\[\d+\]", "[]", failure.path or "")


def _row_of(group: Sequence[Failure]) -> tuple[str, ...]:
    first = group[0]
    messages = {_message(failure) for failure in group}
    versions = sorted({failure.version for failure in group})
    several = len(messages) > 1
    runs = str(versions[0]) if len(versions) == 1 else f"{versions[0]}-{versions[-1]}"
    return (
        f"{len(group):,}",
        first.kind,
        counted(len(messages), "message") if several else messages.pop(),
        "" if several else runs,
        first.direction,
        printable(first.family if first.kind in _BY_FAMILY else _field(first)),
        first.id,
    )


def show(failure: Failure, console: Console) -> None:
    """Print a failure in some ten lines of at most 80 columns, as far as its texts allow it."""
    name = f"{failure.spec}/{failure.message} v{failure.version} {failure.direction}"
    title = Text(f"{failure.kind}: {name} {failure.id}", style="bold")
    title.append(f"  {failure.family}", style="dim")
    lines = [title]
    if failure.flags:
        lines.append(_fact("about", ", ".join(failure.flags)))
    if failure.path:
        lines.append(_fact("field", failure.path))
    first, *more = printable(failure.detail).splitlines() or [""]
    is_hex = failure.direction == "encode" and failure.kind == "wrong"
    if is_hex:  # The bytes are drawn below, whole.
        first = re.sub(": ….*… given", "", first)
    lines.append(_fact("what", first))
    if len(more) > DETAIL_FIRST_LINES + DETAIL_LAST_LINES:
        more[DETAIL_FIRST_LINES:-DETAIL_LAST_LINES] = ["…"]
    lines += [Text(f"         {line}") for line in more]
    wanted = failure.wanted if isinstance(failure.wanted, str) else None
    given = failure.given if isinstance(failure.given, str) else None
    if is_hex and wanted is not None and given is not None:
        shown_from = failure.shown_from if isinstance(failure.shown_from, int) else 0
        lines += hex_rows(bytes.fromhex(wanted), bytes.fromhex(given), shown_from)
    elif failure.kind == "wrong" and (wanted, given) != (None, None):
        lines.append(_fact("wanted", "(nothing)" if wanted is None else wanted, WANTED))
        lines.append(_fact("given", "(nothing)" if given is None else given, GIVEN))
    lines.append(_fact("repeat", failure.reproduce, "cyan"))
    for line in lines:
        console.print(line, soft_wrap=True)
    console.print()


def _fact(name: str, text: str, style: str = "") -> Text:
    return Text.assemble(f"  {name:<6} ", (printable(text), style))


def hex_rows(wanted: bytes, given: bytes, shown_from: int = 0) -> list[Text]:
    """Draw two byte strings where they part, wanted above given, what differs marked by ^^.

    The row before is there as context. ``shown_from`` is the offset of the first byte of both.
    """
    at = next(
        (at for at, pair in enumerate(zip(wanted, given, strict=False)) if pair[0] != pair[1]),
        min(len(wanted), len(given)),
    )
    row = at // ROW_BYTES * ROW_BYTES
    end = max(len(wanted), len(given))
    lines = []
    if row:
        before = slice(row - ROW_BYTES, row)
        lines.append(_row("", shown_from + row - ROW_BYTES, wanted[before], set(), ""))
    stop = min(end, row + ROW_BYTES * (1 + ROWS_AFTER_MAX))
    for start in range(row, stop, ROW_BYTES):
        ours, theirs = (one[start : start + ROW_BYTES] for one in (wanted, given))
        differ = {
            byte for byte in range(ROW_BYTES) if ours[byte : byte + 1] != theirs[byte : byte + 1]
        }
        if not differ:
            lines.append(_row("", shown_from + start, ours, differ, ""))
            continue
        lines.append(_row("wanted", shown_from + start, ours, differ, WANTED))
        lines.append(_row("given", shown_from + start, theirs, differ, GIVEN))
        marks = "".join("^^ " if byte in differ else "   " for byte in range(ROW_BYTES))
        lines.append(Text(f"{'':15}{marks}".rstrip()))
    if stop < end:
        lines.append(Text(f"{'':15}… and {end - stop:,} bytes more"))
    return lines


def _row(name: str, offset: int, data: bytes, differ: set[int], style: str) -> Text:
    row = Text(f"  {name:<6} {offset:04x}  ")
    for at in range(ROW_BYTES):
        digits = f"{data[at]:02x}" if at < len(data) else "  "
        row.append(digits, style=f"bold {style}" if at in differ else "")
        row.append(" ")
    row.append(" ")
    for at, byte in enumerate(data):
        letter = chr(byte) if byte in PRINTABLE else "."
        row.append(letter, style=f"bold {style}" if at in differ else "dim")
    row.rstrip()
    return row
