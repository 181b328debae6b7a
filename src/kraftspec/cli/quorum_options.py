"""What the commands of ``kraftspec quorum`` share: whom they ask, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kraftspec.cli.output import SECONDS, printable

if TYPE_CHECKING:
    from kraftspec.reference.admin import ClientConfig, Endpoint

_Command = TypeVar("_Command", bound=Callable[..., Any])


def connection_options(command: _Command) -> _Command:
    """Give a command, or the group of them, who is asked and how; before or after its name."""
    for option in (
        click.option(
            "--timeout",
            "timeout_s",
            type=SECONDS,
            help="Time-out.  [default: 60, or default.api.timeout.ms]",
        ),
        click.option(
            "--command-config",
            metavar="FILE",
            help="Properties of Kafka's Admin Client; for add-controller, those of the controller.",
        ),
        click.option(
            "--bootstrap-controller",
            metavar="HOST:PORT,…",
            help="Some of the controllers.",
        ),
        click.option(
            "--bootstrap-server",
            metavar="HOST:PORT,…",
            help="Some of the brokers.",
        ),
    ):
        command = option(command)
    return command


def given_options(context: click.Context, own: dict[str, Any]) -> dict[str, Any]:
    """Return the connection's options: the command's own, or else those before its name."""
    before = context.obj or {}
    return {key: before.get(key) if value is None else value for key, value in own.items()}


def client_config(path: str | None, timeout_s: float | None) -> ClientConfig:
    """Return what a client goes by; what is wrong with its file is a line and exit code 1."""
    import msgspec

    from kraftspec.reference.admin import ClientConfig, load_client_config

    config = ClientConfig()
    if path is not None:
        try:
            config = load_client_config(path)
        except FileNotFoundError as error:
            raise click.ClickException(f"Properties file {path} does not exist.") from error
        except (OSError, ValueError) as error:
            raise click.ClickException(printable(str(error))) from error
    if timeout_s is not None:
        config = msgspec.structs.replace(
            config,
            api_timeout_ms=max(1, round(timeout_s * 1000)),
            api_timeout_name="--timeout",
        )
    return config


def endpoint_text(endpoint: Endpoint) -> str:
    """Return ``NAME://host:port``."""
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.name}://{host}:{endpoint.port}"


@contextmanager
def opened_client(
    make: Callable[..., Any], servers: str, hint: str, **options: Any
) -> Iterator[Any]:
    """Make a client; what it refuses is a line on stderr and exit code 1."""
    from kraftspec.reference.admin import AdminError

    try:
        client = make(
            servers,
            on_retry=lambda why: click.echo(f"{printable(why)}; trying on ...", err=True),
            **options,
        )
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=hint) from error
    try:
        with client:
            yield client
    except AdminError as error:
        raise click.ClickException(printable(str(error))) from error
