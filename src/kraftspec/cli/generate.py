"""``kraftspec generate``: specs to codecs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kraftspec.cli.output import (
    EXIT_FINDINGS,
    counted,
    emit_json,
    json_option,
    refusals,
    sets_option,
    specs_named,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftspec.codegen.generate import GenerateReport, MessageSet
    from kraftspec.codegen.targets import Target

_DIRECTORY = click.Path(file_okay=False, path_type=Path)


@click.command()
@sets_option
@click.option("--check", is_flag=True, help="Write nothing; exit 1 when something would change.")
@click.option("--watch", "watching", is_flag=True, help="Generate again whenever a spec changes.")
@click.option(
    "--specs",
    type=_DIRECTORY,
    help="Your own specs: one directory, one package. Or a release of Kafka: kafka-3.9.1.",
)
@click.option(
    "--out",
    type=_DIRECTORY,
    help="Where the package of your own specs goes: this directory if it is called NAME, "
    "else DIR/NAME.",
)
@click.option("--package", help="The import name of that package.  [default: the name of --out]")
@click.option(
    "--target",
    "language",
    type=click.Choice(("python", "typescript")),
    default="python",
    show_default=True,
    help="The language. typescript: a directory a set in --out, by default of all our sets.",
)
@json_option
def generate(
    set_names: tuple[str, ...],
    check: bool,
    watching: bool,
    specs: Path | None,
    out: Path | None,
    package: str | None,
    language: str,
    as_json: bool,
) -> None:
    """Render the codecs of ./specs into ./generated, or of --specs into --out."""
    from kraftspec.codegen import generate as room
    from kraftspec.codegen.targets import TARGETS

    target = TARGETS[language]
    if check and watching:
        raise click.UsageError("--check writes nothing, so there is nothing to --watch")
    with refusals():
        if language == "typescript":
            sets, numbers = _typescript_sets(set_names, specs, out, package)
        elif specs is None and out is None and package is None:
            sets = _checkout_sets(set_names)
            numbers = None if set_names else (Path("specs"), Path("generated"))
        else:
            sets, numbers = [_own_set(set_names, specs, out, package)], None
        if watching:
            _watch(sets, numbers, target, as_json)
            return
        report = room.generate(sets, numbers=numbers, check=check, target=target)
    _print(report, as_json, check)
    if check and report.stale:
        raise click.exceptions.Exit(EXIT_FINDINGS)


def _checkout_sets(set_names: tuple[str, ...]) -> list[MessageSet]:
    from kraftspec.codegen.generate import SetError, specs_sets

    if not Path("specs/message.schema.json").exists():
        raise click.UsageError(
            "there is no specs/message.schema.json here: run this at the top of a checkout, or "
            "give --specs DIR --out DIR --package NAME"
        )
    try:
        return specs_sets(Path("specs"), Path("generated"), "kraftspec.generated", set_names)
    except SetError as error:
        raise click.BadParameter(str(error), param_hint="--set") from error


def _own_set(
    set_names: tuple[str, ...], specs: Path | None, out: Path | None, package: str | None
) -> MessageSet:
    from kraftspec.codegen.generate import MessageSet

    if specs is None or out is None:
        raise click.UsageError("--specs DIR and --out DIR go together")
    specs = _own_specs(set_names, specs)
    name = package or out.resolve().name
    if not all(part.isidentifier() for part in name.split(".")):
        raise click.BadParameter(f"{name!r} is not a name to import", param_hint="--package")
    return MessageSet(specs.resolve().name, specs, _package_directory(out, name), name)


def _typescript_sets(
    set_names: tuple[str, ...], specs: Path | None, out: Path | None, package: str | None
) -> tuple[list[MessageSet], tuple[Path, Path] | None]:
    """Return what goes into DIR: one's own specs, or ours with the numbers of the protocol."""
    from kraftspec.codegen.generate import MessageSet, SetError, specs_sets
    from kraftspec.specs import specs_root

    if out is None:
        raise click.UsageError("--target typescript needs --out DIR")
    if specs is None:
        if package is not None:
            raise click.UsageError("--package names the directory of your own --specs DIR")
        try:
            return specs_sets(specs_root(), out, "", set_names), (specs_root(), out)
        except SetError as error:
            raise click.BadParameter(str(error), param_hint="--set") from error
    specs = _own_specs(set_names, specs)
    name = specs.resolve().name
    directory = out / (package or name.replace("-", "_"))
    return [MessageSet(name, specs, directory, directory.name)], None


def _own_specs(set_names: tuple[str, ...], specs: Path) -> Path:
    if set_names:
        raise click.UsageError("--set chooses among the sets of a checkout, not with --specs")
    specs = specs_named(specs, "--specs")
    if not specs.is_dir():
        raise click.BadParameter(f"there is no directory {specs}", param_hint="--specs")
    return specs


def _package_directory(out: Path, name: str) -> Path:
    """Return where the package NAME goes: DIR itself if it is called so, else below DIR."""
    parts = name.split(".")
    return out if out.resolve().name == parts[-1] else out.joinpath(*parts)


def _print(report: GenerateReport, as_json: bool, check: bool = False) -> None:
    if as_json:
        emit_json(report.to_json())
        return
    for name in report.written:
        click.echo(f"{'stale' if check else 'wrote'} {name}")
    for name in report.removed:
        click.echo(f"{'left over' if check else 'removed'} {name}")
    click.echo(
        f"{counted(report.messages, 'message')}, {counted(report.pairs, 'pair')}: "
        f"{len(report.rendered)} rendered, {counted(len(report.written), 'file')} "
        f"{'stale' if check else 'written'}, {len(report.removed)} "
        f"{'left over' if check else 'removed'}, {report.unchanged} unchanged, "
        f"{report.seconds:.2f} s"
    )
    if check and report.stale:
        click.echo("Run the same without --check, and commit what it writes.", err=True)


def _watch(
    sets: Sequence[MessageSet], numbers: tuple[Path, Path] | None, target: Target, as_json: bool
) -> None:
    from kraftspec.codegen.generate import watch

    for result in watch(sets, numbers=numbers, target=target):
        if isinstance(result, Exception):
            click.echo(str(result), err=True)
        else:
            _print(result, as_json)
