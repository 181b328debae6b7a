"""``kraftspec conform`` and ``kraftspec adapter``: golden vectors, made and held against codecs."""

from __future__ import annotations

from pathlib import Path

import click

from kraftspec.cli import ExtrasGroup
from kraftspec.cli.conform_bugs import bugs
from kraftspec.cli.conform_capture import capture
from kraftspec.cli.conform_clients import clients
from kraftspec.cli.conform_fuzz import fuzz
from kraftspec.cli.conform_init import init
from kraftspec.cli.conform_live import live
from kraftspec.cli.conform_node import record_node
from kraftspec.cli.conform_report import badge, compare, export, report
from kraftspec.cli.conform_run import adapters, doctor, run
from kraftspec.cli.conform_strength import strength
from kraftspec.cli.exits import no_verdict
from kraftspec.cli.output import (
    check_set,
    counted,
    emit_json,
    json_option,
    progress,
    refusals,
    sets_option,
)


@click.command()
@click.option(
    "--codec",
    type=click.Choice(["native", "python"]),
    help="The codec that answers.  [default: native where it is built, else python]",
)
@click.option(
    "--generated",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Serve the package of this directory, which `kraftspec generate` wrote, as the set kafka.",
)
def adapter(codec: str | None, generated: Path | None) -> None:
    """Answer harness requests with our own codec.

    Reads JSON objects from standard input, one a line, and writes one reply line for each.
    """
    from kraftspec.fastpath import native

    if codec == "python":
        native.PURE = True  # Before any module asks for its compiled half.
    elif codec == "native" and native.load("_engine") is None:
        raise click.BadParameter(f"only {native.describe()}", param_hint="--codec")
    from kraftspec.conformance.adapters.ours import serve, serve_generated

    if generated is not None:
        serve_generated(generated)
    name = "kraftspec-python" if codec == "python" else "kraftspec"
    runs = "pure Python (--codec python)" if codec == "python" else native.describe()
    raise click.exceptions.Exit(serve(name, f"codec: {runs}"))


# `conform` has an extra for these together, so that nobody installs them one after another.
_EXTRAS = dict.fromkeys(("jinja2", "jsonschema", "markupsafe", "ruamel"), "conformance")


@click.group(cls=ExtrasGroup, extras=_EXTRAS)
def conform() -> None:
    """Judge codecs by golden vectors, and make vectors."""


@conform.command()
@sets_option
@click.option(
    "--filter", "name", default="", metavar="MESSAGE", help="Only messages with this in their name."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the vectors go.  [default: those of this package]",
)
@json_option
def make(set_names: tuple[str, ...], name: str, out: Path | None, as_json: bool) -> None:
    """Make the golden vectors with Kafka's own classes.

    Needs a JDK and Maven. Making them again changes no file.
    """
    from kraftspec.conformance.adapters.harness import AdapterError
    from kraftspec.conformance.adapters.kafka import RefusedError as KafkaRefused
    from kraftspec.conformance.adapters.registry import java_missing
    from kraftspec.conformance.making.make import make as make_vectors
    from kraftspec.conformance.vectors import vectors_root
    from kraftspec.specs import specs_root

    for set_name in set_names:
        check_set(set_name)
    try:
        with refusals(), progress("Making vectors") as advance:
            report = make_vectors(specs_root(), out or vectors_root(), set_names, name, advance)
    except (AdapterError, KafkaRefused) as error:
        raise no_verdict(java_missing() or error) from error
    if report.messages == 0:
        raise click.BadParameter(f"no message name contains {name!r}", param_hint="--filter")
    if as_json:
        emit_json(report.to_json())
        return
    for changed in report.changed:
        click.echo(f"wrote {changed}")
    for refused in report.refused:
        click.echo(f"Kafka refused {refused}", err=True)
    click.echo(
        f"{counted(report.messages, 'message')}, {counted(report.pairs, 'pair')}, "
        f"{counted(report.tests, 'test')}: {counted(len(report.changed), 'file')} changed, "
        f"{report.seconds:.1f} s"
    )


for command in (
    adapters,
    badge,
    bugs,
    capture,
    compare,
    doctor,
    export,
    fuzz,
    init,
    clients,
    live,
    record_node,
    report,
    run,
    strength,
):
    conform.add_command(command)
