"""``kraftspec storage``: Apache Kafka's ``kafka-storage``, word for word (``StorageTool`` 4.4.0).

What differs: ``--json``, one line for an error where Kafka prints Java's trace, an empty cluster id
is refused, and options are not abbreviated. ``--profile`` has directories of the drafts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kraftspec.cli.kafka_words import KafkaGroup, refusals
from kraftspec.cli.output import EXIT_FINDINGS, emit_json, json_option, printable
from kraftspec.cli.profiles import profile_option

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _config_option(command: _Command) -> _Command:
    return click.option(
        "-c",
        "--config",
        required=True,
        metavar="CONFIG",
        type=click.Path(path_type=Path),
        help="The Kafka configuration file to use.",
    )(command)


@click.group(cls=KafkaGroup)
def storage() -> None:
    """Format and describe log directories, as kafka-storage does."""


@storage.command("random-uuid")
@json_option
def random_uuid(as_json: bool) -> None:
    """Print a random UUID."""
    from kraftspec.fastpath.types import Uuid

    drawn = str(Uuid.random())
    if as_json:
        emit_json({"uuid": drawn})
    else:
        click.echo(drawn)


@storage.command()
@_config_option
@profile_option()
@json_option
def info(config: Path, profile: str, as_json: bool) -> None:
    """Get information about the Kafka log directories on this node.

    Exit code 1 when there is a problem.
    """
    from kraftspec.reference.profiles import parts_of

    with refusals():
        formatted = parts_of(profile).node.info(config)
    if as_json:
        emit_json(
            {
                "directories": list(formatted.directories),
                "metadata": formatted.metadata,
                "problems": list(formatted.problems),
            }
        )
    else:
        _list("Found log directory:", "Found log directories:", formatted.directories)
        if formatted.metadata is not None:
            pairs = ", ".join(f"{key}={value}" for key, value in formatted.metadata.items())
            click.echo(f"Found metadata: {{{printable(pairs)}}}\n")
        _list("Found problem:", "Found problems:", formatted.problems)
    if formatted.problems:
        raise click.exceptions.Exit(EXIT_FINDINGS)


def _list(one: str, several: str, lines: tuple[str, ...]) -> None:
    if lines:
        click.echo("\n".join([one if len(lines) == 1 else several, *(f"  {at}" for at in lines)]))
        click.echo()


def _cluster_id(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    """Return the option; a draft says itself whether it needs one."""
    from kraftspec.reference.profiles import parts_of

    if value is None and parts_of(context.params["profile"]).is_metadata_log:
        raise click.MissingParameter(ctx=context, param=parameter)
    return value


@storage.command("format")
@_config_option
@profile_option()
@click.option(
    "-t",
    "--cluster-id",
    callback=_cluster_id,
    metavar="CLUSTER_ID",
    help="The cluster ID to use.  [required, but for kip-595, whose first leader makes one]",
)
@click.option(
    "-S",
    "--add-scram",
    multiple=True,
    metavar="ADD_SCRAM",
    help="A SCRAM credential to begin with: 'SCRAM-SHA-256=[name=alice,password=alice-secret]'; "
    "also iterations, salt and saltedpassword. Repeatable.",
)
@click.option("-g", "--ignore-formatted", is_flag=True, help="Skip directories that are formatted.")
@click.option(
    "-r",
    "--release-version",
    metavar="RELEASE_VERSION",
    help="The release whose features the cluster begins with.  [3.3-IV3 to 4.4-IV2, the default]",
)
@click.option(
    "-f",
    "--feature",
    multiple=True,
    metavar="FEATURE",
    help="The level of a feature, feature=level, such as kraft.version=1. Repeatable.",
)
@click.option(
    "-s",
    "--standalone",
    is_flag=True,
    help="This controller is the only voter of a dynamic quorum.",
)
@click.option(
    "-N",
    "--no-initial-controllers",
    is_flag=True,
    help="A dynamic quorum that this node will join: no initial voters here.",
)
@click.option(
    "-I",
    "--initial-controllers",
    metavar="INITIAL_CONTROLLERS",
    help="The initial voters of a dynamic quorum, id@hostname:port:directory "
    "separated by commas; the same for every node.",
)
@json_option
def format_(
    config: Path,
    profile: str,
    cluster_id: str | None,
    add_scram: tuple[str, ...],
    ignore_formatted: bool,
    release_version: str | None,
    feature: tuple[str, ...],
    standalone: bool,
    no_initial_controllers: bool,
    initial_controllers: str | None,
    as_json: bool,
) -> None:
    """Format the Kafka log directories on this node.

    A controller without controller.quorum.voters needs one of -s, -I and -N.
    """
    chosen = {
        "--standalone/-s": standalone,
        "--no-initial-controllers/-N": no_initial_controllers,
        "--initial-controllers/-I": initial_controllers is not None,
    }
    given = [name for name, is_given in chosen.items() if is_given]
    if len(given) > 1:
        raise click.UsageError(f"argument {given[1]}: not allowed with argument {given[0]}")
    from kraftspec.reference.profiles import parts_of
    from kraftspec.reference.tools.storage import FormatRequest

    of_metadata = {
        "--add-scram/-S": add_scram,
        "--release-version/-r": release_version,
        "--feature/-f": feature,
        "--initial-controllers/-I": initial_controllers,
    }
    parts = parts_of(profile)
    for name, value in of_metadata.items():
        if value and not parts.is_metadata_log:
            raise click.UsageError(f"argument {name}: not allowed with --profile {profile}")
    request = FormatRequest(
        cluster_id=cluster_id or "",
        standalone=standalone,
        no_initial_controllers=no_initial_controllers,
        initial_controllers=initial_controllers,
        ignore_formatted=ignore_formatted,
        release_version=release_version,
        features=feature,
        scram=add_scram,
    )
    lines: list[str] = []
    with refusals():
        done = parts.node.format(config, request, lines.append if as_json else _say)
    for warning in done.warnings:
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        emit_json(done.report)


def _say(line: str) -> None:
    click.echo(printable(line))


@storage.command("version-mapping")
@click.option(
    "-r", "--release-version", metavar="RELEASE_VERSION", help="The release; by default the newest."
)
@json_option
def version_mapping(release_version: str | None, as_json: bool) -> None:
    """Look up the features of a metadata version."""
    from kraftspec.reference.metadata import features

    with refusals():
        mapping = features.version_mapping(release_version)
    if as_json:
        emit_json(dict(mapping))
        return
    for name, level in mapping:
        release = release_version or features.NAMES[level] if name == mapping[0][0] else None
        click.echo(f"{name}={level}" + (f" ({release})" if release else ""))


@storage.command("feature-dependencies")
@click.option(
    "-f",
    "--feature",
    "given",
    multiple=True,
    required=True,
    metavar="FEATURE",
    help="A feature and its level: feature=version. Repeatable.",
)
@json_option
def feature_dependencies(given: tuple[str, ...], as_json: bool) -> None:
    """Look up what a feature's level depends on."""
    from kraftspec.reference.metadata import features

    report = []
    for text in given:
        with refusals():
            name, level, needs = features.dependencies(text)
        report.append({"feature": name, "level": level, "requires": dict(needs)})
        if as_json:
            continue
        shown = f"{name}={level}"
        if name == features.METADATA_VERSION:
            shown += f" ({features.NAMES[level]})"
        if not needs:
            click.echo(f"{shown} has no dependencies.")
            continue
        click.echo(f"{shown} requires:")
        for other, least in needs:
            click.echo(f"    {other}={least} ({features.NAMES[least]})")
    if as_json:
        emit_json(report)
