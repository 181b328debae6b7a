"""Trees of fields: the layout of a plan, and bytes held against it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from kraftspec.cli.output import counted

if TYPE_CHECKING:
    from kraftspec.codegen.plan import MessagePlan
    from kraftspec.codegen.show import Dump
    from kraftspec.fastpath.interpret import Span

HEX_BYTES_MAX = 16  # A line of a hex dump; longer values say how long they are.
TAGGED = "(tagged fields)"

_SEGMENT = re.compile(r"\[\d+\]|[^.\[]+")


def layout_tree(plan: MessagePlan) -> Iterator[str]:
    """Yield the lines of a plan: its fields in wire order, and how each is written."""
    from kraftspec.codegen.show import headline, layout_lines

    lines = layout_lines(plan)
    names = [
        guide + line.name
        for guide, line in zip(guides([line.depth for line in lines]), lines, strict=True)
    ]
    name_width = max(map(len, names), default=0)
    wire_width = max((len(line.wire) for line in lines), default=0)
    yield click.style(headline(plan), bold=True)
    for name, line in zip(names, lines, strict=True):
        wire = click.style(f"{line.wire:{wire_width}}", fg="cyan")
        yield f"{name:{name_width}}  {wire}  {line.detail}".rstrip()


def dump_tree(dump: Dump) -> Iterator[str]:
    """Yield the lines of a dump: offset, bytes, field, value; last the error, if there is one."""
    from kraftspec.codegen.show import headline, show_value

    rows = list(_rows(dump.spans))
    names = [
        guide + name
        for guide, (_, name, _) in zip(guides([row[0] for row in rows]), rows, strict=True)
    ]
    name_width = max(map(len, names), default=0)
    hexes = ["" if span is None else _hex(dump.data, span) for _, _, span in rows]
    hex_width = max(map(len, hexes), default=0)
    yield click.style(f"{headline(dump.plan)}, {counted(len(dump.data), 'byte')}", bold=True)
    for name, digits, (_, _, span) in zip(names, hexes, rows, strict=True):
        offset = "" if span is None else str(span.start)
        value = "" if span is None else f"{show_value(span.value)}  "
        wire = "" if span is None else click.style(span.wire, dim=True)
        shown = click.style(f"{digits:{hex_width}}", fg="cyan")
        yield f"{offset:>8}  {shown}  {name:{name_width}}  {value}{wire}".rstrip()
    if dump.error is not None:
        yield click.style(f"{dump.error.offset or 0:>8}  {dump.error}", fg="red")


def _rows(spans: Sequence[Span]) -> Iterator[tuple[int, str, Span | None]]:
    """Yield (depth, name, span) with a row of its own for each element of an array of structs."""
    seen: set[tuple[str, ...]] = set()
    for span in spans:
        segments = tuple(_SEGMENT.findall(span.path))
        if span.wire == "tag count":
            segments = (*segments, TAGGED)
        for length in range(1, len(segments)):
            if segments[:length] not in seen:
                seen.add(segments[:length])
                yield length - 1, segments[length - 1], None
        seen.add(segments)
        yield max(len(segments) - 1, 0), segments[-1] if segments else span.path, span


def _hex(data: bytes, span: Span) -> str:
    if span.end - span.start > HEX_BYTES_MAX:
        return data[span.start : span.start + HEX_BYTES_MAX - 1].hex() + "…"
    return data[span.start : span.end].hex()


def guides(depths: Sequence[int]) -> list[str]:
    """Return what stands before each line of a tree whose lines have these depths."""
    stems: list[str] = []
    open_levels: set[int] = set()  # Levels that have a later line under the same parent.
    for depth in reversed(depths):
        open_levels = {level for level in open_levels if level <= depth}
        stem = "".join("│  " if level in open_levels else "   " for level in range(depth))
        stems.append(stem + ("├─ " if depth in open_levels else "└─ "))
        open_levels.add(depth)
    return stems[::-1]
