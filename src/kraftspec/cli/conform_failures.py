"""A failed test as a person reads it: its name, the field, the bytes that differ, how to repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from kraftspec.cli.output import printable

if TYPE_CHECKING:
    from rich.console import Console

    from kraftspec.conformance.raw.results import Failure

FAILURES_SHOWN_MAX = 20  # A codec that is wrong once is often wrong ten thousand times.
ROW_BYTES = 16
ROWS_AFTER_MAX = 2  # After the first that differs: what is inserted shifts all that follows.
PRINTABLE = range(0x20, 0x7F)
DETAIL_LINES_MAX = 12
WANTED, GIVEN = "green", "red"


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
    # The bytes are drawn below, whole.
    lines.append(_fact("what", first.partition(": …")[0] if is_hex else first))
    # Of what a process said before it died, the end says most.
    told = more if len(more) <= DETAIL_LINES_MAX else [more[0], *more[1 - DETAIL_LINES_MAX :]]
    lines += [Text(f"         {line}") for line in told]
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
