"""``kraftspec spec dissector``: a set of specs as a dissector of Wireshark."""

from __future__ import annotations

from pathlib import Path

import click

from kraftspec.cli.exits import force_option, refuse_existing
from kraftspec.cli.output import refusals, set_option, spec_paths


@click.command()
@click.option(
    "--out",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    default=Path("kraftspec.lua"),
    show_default=True,
    help="The file to write; - prints it.",
)
@set_option
@force_option
def dissector(out: Path, set_name: str, force: bool) -> None:
    """Write a Wireshark dissector of Kafka's protocol, one file of Lua.

    It decodes the requests, responses and records of one set of specs or one release of Kafka, at
    all of their versions. `tshark -X lua_script:kraftspec.lua` loads it.
    """
    from kraftspec.codegen.reader import read_message
    from kraftspec.codegen.wireshark_target import render_dissector
    from kraftspec.specs import specs_root

    is_printed = str(out) == "-"
    with refusals():
        if not is_printed:
            refuse_existing(out, force=force)
        messages = [read_message(path) for path in spec_paths(set_name)]
        text = render_dissector(messages, specs_root(), f"specs/{set_name}")
        if is_printed:
            click.echo(text, nl=False)
            return
        out.write_text(text, encoding="utf-8")
    click.echo(f"wrote {out}")
