"""``kraftspec conform init``: the skeleton of an adapter, to put a codec into."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from kraftspec.cli.exits import force_option
from kraftspec.cli.output import emit_json, json_option

_LANGUAGES = ("python", "go", "node", "rust", "java")


@click.command()
@click.option("--lang", type=click.Choice(_LANGUAGES), required=True, help="Of your codec.")
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@force_option
@json_option
def init(lang: str, directory: Path, force: bool, as_json: bool) -> None:
    """Write the skeleton of an adapter for your codec into DIR.

    It passes as it is: it walks the plans beside it. Put your codec in the place of the walk.
    """
    from kraftspec.conformance.adapters.skeleton import LANGUAGES, write_skeleton

    language = LANGUAGES[lang]
    try:
        files = write_skeleton(lang, directory, replace=force)
    except FileExistsError as error:
        raise click.ClickException(
            f"{error} is there already, and nothing was written: name another DIR, or give --force"
        ) from error
    run = f"kraftspec conform run --exec {shlex.quote(language.run)} --filter VoteRequest"
    commands = [f"cd {shlex.quote(str(directory))}", *filter(None, [language.build]), run]
    if as_json:
        emit_json({"files": [str(path) for path in files], "commands": commands})
        return
    for path in files:
        click.echo(f"wrote {path}")
    click.echo("your codec goes into encode and decode of the adapter; to run it:")
    for command in commands:
        click.echo(f"  {command}")
