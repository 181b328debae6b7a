"""``kraftspec spec history``: what each release of Apache Kafka changed in the schemas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from kraftspec.cli.output import alike, console, emit_json, json_option

if TYPE_CHECKING:
    from kraftspec.codegen.history.states import History


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from kraftspec.codegen.history.states import packaged_history

    return [name for name in packaged_history().messages if name.startswith(incomplete)]


@click.command()
@click.argument("message", required=False, shell_complete=_complete)
@click.option("--field", default="", metavar="NAME", help="Only this field, by its name or path.")
@click.option("--release", default="", metavar="RELEASE", help="Only what this release changed.")
@json_option
def history(message: str | None, field: str, release: str, as_json: bool) -> None:
    """Tell which release of Kafka brought, changed or removed what.

    With MESSAGE, its history; with --release, all that this release changed; with neither, a line
    for each release from 2.8.0 on.
    """
    from kraftspec.codegen.history.states import packaged_history

    known = packaged_history()
    release = release.removeprefix("kafka-")
    if release and release not in known.releases:
        reach = f"{known.releases[0]} to {known.releases[-1]}"
        raise click.BadParameter(
            f"there is no release {release!r} from {reach}", param_hint="--release"
        )
    if message is not None:
        _message(known, message, field, release, as_json)
    elif field:
        raise click.UsageError("--field is a field of a MESSAGE; name that, too")
    elif release:
        _release(known, release, as_json)
    else:
        _overview(known, as_json)


def _message(known: History, message: str, field: str, release: str, as_json: bool) -> None:
    from kraftspec.codegen.history.view import field_aliases, field_names, rows, selected

    if message not in known.messages:
        near = alike(message, known.messages)
        raise click.BadParameter(f"no release has a message {message!r}{near}")
    fields = field_names(known.messages[message])
    if field and field.lower() not in {name.lower() for name in fields}:
        raise click.BadParameter(
            f"{message} never had a field {field!r}{alike(field, fields)}", param_hint="--field"
        )
    changes = selected(known, [message], field, release)
    if as_json:
        emit_json({"message": message, "changes": changes.get(message, [])})
        return
    shown = rows(changes, field_aliases(known.messages[message], field))
    if shown:
        _table(("release", "change"), ((row.release, "\n".join(row.lines)) for row in shown))
    else:
        click.echo(f"{release} changed nothing here.")


def _release(known: History, release: str, as_json: bool) -> None:
    from kraftspec.codegen.history.view import rows, selected

    changes = selected(known, known.messages, release=release)
    if as_json:
        emit_json({"release": release, "messages": changes})
    elif changes:
        shown = rows(changes)
        _table(("message", "change"), ((row.message, "\n".join(row.lines)) for row in shown))
    else:
        click.echo(f"{release} changed nothing.")


def _overview(known: History, as_json: bool) -> None:
    from kraftspec.codegen.history.view import overviews

    releases = list(overviews(known))
    if as_json:
        emit_json({"releases": [asdict(entry) for entry in releases]})
        return
    head = ("release", "messages", "APIs", "pairs", "new", "changed", "removed")
    counts = (
        (entry.messages, entry.apis, entry.pairs, len(entry.new), entry.changed, len(entry.gone))
        for entry in releases
    )
    # Of the first release that there is everything is new.
    lines = [
        (entry.release, *(str(count or "") for count in numbers))
        for entry, numbers in zip(releases, counts, strict=True)
    ]
    _table(head, lines)


def _table(head: Iterable[str], lines: Iterable[Iterable[Any]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, safe_box=True)
    for title in head:
        number = title not in ("release", "message", "change")
        table.add_column(
            title,
            justify="right" if number else "left",
            no_wrap=title != "change",
            overflow="fold",
        )
    for line in lines:
        table.add_row(*map(Text, line))
    console().print(table)
