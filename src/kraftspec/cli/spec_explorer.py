"""``kraftspec spec explorer``: the newest release as a static site that decodes bytes."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from kraftspec.cli.exits import force_option, refuse_existing
from kraftspec.cli.output import counted, refusals, spec_paths

CODECS = ("kafka", "runtime")
# What reads batches in zstd: an npm package without dependencies, and the terms of its copies.
ZSTD = {"esm/index.mjs": "fzstd.js", "LICENSE": "fzstd.LICENSE.txt"}


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The directory for the site.",
)
@force_option
def explorer(out: Path, force: bool) -> None:
    """Write the protocol explorer: a static site, for any web server.

    It searches messages, fields, errors and releases, shows the bytes and the history of each
    message, and decodes and encodes bytes with the TypeScript codecs. Node.js 20 and npm compile
    these, once.
    """
    from kraftspec.codegen.explorer import render_explorer
    from kraftspec.codegen.reader import read_message
    from kraftspec.conformance.adapters.registry import find
    from kraftspec.specs import kafka_release, specs_root

    with refusals():
        refuse_existing(out, force=force)
        messages = [read_message(path) for path in spec_paths("kafka")]
        pages = render_explorer(messages, specs_root(), f"Apache Kafka {kafka_release()}")
        compiled = Path(find("kraftspec-typescript").command()[2])
        for name, text in pages.items():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_text(text, encoding="utf-8")
        files = [file for name in CODECS for file in (compiled / name).glob("*.js")]
        codecs = {file.relative_to(compiled): file for file in files}
        package = compiled.parent / "node_modules" / "fzstd"
        codecs |= {Path(copy): package / file for file, copy in ZSTD.items()}
        for place, file in codecs.items():
            target = out / "codecs" / place
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
    click.echo(f"wrote {counted(len(pages) + len(codecs), 'file')}: {out / 'index.html'}")
