"""``kraftspec conform`` and ``kraftspec adapter``: golden vectors, made and held against codecs."""

from __future__ import annotations

from pathlib import Path

import click

from kraftspec.cli.output import check_set, emit_json, json_option, progress, refusals

HARNESS_FAILED = 3  # Among the exit codes of a run: 0 as expected, 1 regression, 2 unexpected pass.


@click.command()
@click.option(
    "--codec",
    type=click.Choice(["native", "python"]),
    help="Which of our codecs answers.  [default: native where it is built, else python]",
)
def adapter(codec: str | None) -> None:
    """Answer harness requests with our own codec.

    Reads JSON objects from standard input, one a line, and writes one reply line for each.
    """
    from kraftspec.conformance.adapter import serve

    if codec == "native":
        raise click.BadParameter(
            "the native codec is not built in this release; use --codec python",
            param_hint="--codec",
        )
    raise click.exceptions.Exit(serve("kraftspec" if codec is None else "kraftspec-python"))


@click.group()
def conform() -> None:
    """Make golden vectors, and judge codecs by them."""


@conform.command()
@click.option("--set", "set_names", multiple=True, metavar="SET", help="Only this set; repeatable.")
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
    from kraftspec.conformance.harness import AdapterError
    from kraftspec.conformance.java import JavaError
    from kraftspec.conformance.java import RefusedError as KafkaRefused
    from kraftspec.conformance.make import make as make_vectors
    from kraftspec.conformance.vectors import vectors_root
    from kraftspec.specs import specs_root

    for set_name in set_names:
        check_set(set_name)
    try:
        with refusals(), progress("Making vectors") as advance:
            report = make_vectors(specs_root(), out or vectors_root(), set_names, name, advance)
    except (JavaError, AdapterError, KafkaRefused) as error:
        click.echo(f"Error: {error}", err=True)
        raise click.exceptions.Exit(HARNESS_FAILED) from error
    if as_json:
        emit_json(report.to_json())
        return
    for changed in report.changed:
        click.echo(f"wrote {changed}")
    for refused in report.refused:
        click.echo(f"Kafka refused {refused}", err=True)
    click.echo(
        f"{report.messages} messages, {report.pairs} pairs, {report.tests} tests: "
        f"{len(report.changed)} files changed, {report.seconds:.1f} s"
    )
