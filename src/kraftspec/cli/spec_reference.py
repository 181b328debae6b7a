"""``kraftspec spec reference``: a set of specs as pages of a protocol reference."""

from __future__ import annotations

from pathlib import Path

import click

from kraftspec.cli.exits import force_option, refuse_existing
from kraftspec.cli.output import counted, refusals, set_option, spec_paths


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The directory for the pages.",
)
@set_option
@force_option
def reference(out: Path, set_name: str, force: bool) -> None:
    """Write a protocol reference: static HTML, a page a message.

    A page has a table of bytes for each version, what each version added and, of the newest
    release, what each release of Kafka changed. There are pages of error codes and of records, too.
    """
    from kraftspec.codegen.reader import read_message
    from kraftspec.codegen.reference_pages import render_reference
    from kraftspec.specs import kafka_release, specs_root

    title = f"Apache Kafka {kafka_release()}" if set_name == "kafka" else set_name
    with refusals():
        refuse_existing(out, force=force)
        messages = [read_message(path) for path in spec_paths(set_name)]
        pages = render_reference(messages, specs_root(), title, history=set_name == "kafka")
        out.mkdir(parents=True, exist_ok=True)
        for name, text in pages.items():
            (out / name).write_text(text, encoding="utf-8")
    click.echo(f"wrote {counted(len(pages), 'file')}: {out / 'index.html'}")
