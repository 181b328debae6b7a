"""``kraftspec node``: a controller of a KRaft quorum, by Kafka's own properties or a draft's."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kraftspec.cli.output import RefusedError, explained
from kraftspec.cli.profiles import profile_option, release_option, without_option

if TYPE_CHECKING:
    import asyncio

    from kraftspec.reference.node.logs import Form
    from kraftspec.reference.node.runtime import Node

PORT_MAX = 65_535
EXIT_FAILED = 3  # It ran and then failed; 1 is that it never ran.
# Whether the node resigns when it is elected; None leaves it to the profile.
TRANSFERS = {"auto": None, "always": True, "never": False}


@click.command()
@click.option(
    "-c",
    "--config",
    "path",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Kafka's controller properties, or those of the draft that --profile names.",
)
@profile_option()
@without_option()
@release_option()
@click.option(
    "--transfer-leadership",
    type=click.Choice(tuple(TRANSFERS)),
    default="auto",
    show_default=True,
    help="Resign when elected, so that another voter leads. auto: if another voter is a Kafka "
    "controller, since this node is not one.",
)
@click.option(
    "--metrics",
    metavar="[HOST:]PORT",
    help="Serve Kafka's raft-metrics to Prometheus; on loopback if there is no host.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Write events to stderr as lines or as JSON objects.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="The lowest level that is logged.",
)
def node(
    path: Path,
    profile: str,
    without: tuple[str, ...],
    release: str | None,
    transfer_leadership: str,
    metrics: str | None,
    log_format: Form,
    log_level: str,
) -> None:
    """Run a controller: a voter or an observer of a KRaft quorum.

    Format its log directory first, with kraftspec storage format or Kafka's kafka-storage. On
    SIGTERM or Ctrl-C it resigns and stops; a second signal ends it at once.

    Exit codes: 0 stopped as requested, 1 it did not start, 3 it failed while running.
    """
    import asyncio

    from kraftspec.memory import keep_freed_memory
    from kraftspec.reference.node.config import load_config
    from kraftspec.reference.node.descriptors import raise_soft_limit
    from kraftspec.reference.node.logs import written
    from kraftspec.reference.node.settings import ConfigError
    from kraftspec.reference.node.startup import make_node

    try:
        config = load_config(path, profile)
    except (ConfigError, OSError) as error:
        raise RefusedError(error) from error
    for warning in config.warnings:
        click.echo(f"warning: {warning}", err=True)
    raise_soft_limit()
    keep_freed_memory()
    try:
        with written(log_format, log_level.upper()):
            running = make_node(
                config,
                profile,
                without=without,
                release=release,
                transfer_leadership=TRANSFERS[transfer_leadership],
            )
            failure = asyncio.run(_run(running, _address(metrics)))
    except (OSError, ValueError) as error:
        raise RefusedError(error) from error
    if failure is not None:
        click.echo(f"Error: node {config.node_id} failed: {explained(failure)}", err=True)
        raise click.exceptions.Exit(EXIT_FAILED)


def _address(text: str | None) -> tuple[str, int] | None:
    """Return host and port of an option; None where it was not given."""
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > PORT_MAX:
        raise click.BadParameter(f"{text!r} is no port of 0 to {PORT_MAX}", param_hint="--metrics")
    return host.strip("[]") or "127.0.0.1", int(port)


async def _run(running: Node, metrics: tuple[str, int] | None) -> BaseException | None:
    """Run until a signal or a failure; return the failure."""
    import asyncio
    import signal

    from kraftspec.reference.node.settings import host_port

    told = asyncio.Event()
    hurried = asyncio.Event()
    loop = asyncio.get_running_loop()

    def signalled() -> None:
        (hurried if told.is_set() else told).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled)
    with ExitStack() as ending:
        if metrics is not None:
            from kraftspec.reference.node.metrics import MetricsServer

            served = MetricsServer(running, *metrics)
            ending.callback(served.close)
            click.echo(f"metrics: http://{host_port(metrics[0], served.port)}/metrics")
        await running.start()
        return await _until_told(running, told, hurried)


async def _until_told(
    running: Node, told: asyncio.Event, hurried: asyncio.Event
) -> BaseException | None:
    """Run until ``told``; leave in good order, and at once when ``hurried``."""
    import asyncio

    from kraftspec.reference.node.settings import host_port

    config = running.config
    loop = asyncio.get_running_loop()
    where = ", ".join(f"{name}://{host_port(*at)}" for name, at in running.listeners.items())
    cluster = f"cluster {config.core.cluster_id}" if config.core.cluster_id else "no cluster yet"
    click.echo(f"node {config.node_id} of {cluster}: {where}")
    ended = loop.create_task(running.wait())
    ended.add_done_callback(_taken)
    waiting = loop.create_task(told.wait())
    await asyncio.wait({ended, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        leaving = loop.create_task(running.stop())
        leaving.add_done_callback(_taken)
        hurry = loop.create_task(hurried.wait())
        await asyncio.wait({leaving, hurry}, return_when=asyncio.FIRST_COMPLETED)
        if not leaving.done():
            leaving.cancel()
            click.echo(f"node {config.node_id} stops at once")
            await running.end_now()
    await asyncio.wait({ended})
    waiting.cancel()
    return running.failure


def _taken(task: asyncio.Task[None]) -> None:
    """Take note that a task has ended, maybe by the node's failure, which is told elsewhere."""
    if not task.cancelled():
        task.exception()
