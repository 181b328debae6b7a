"""``kraftspec proxy``: a proxy between Kafka peers that acts by rules."""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from kraftspec.cli.output import RefusedError, set_option

if TYPE_CHECKING:
    from kraftspec.proxy.server import FaultProxy

PORT_MAX = 65_535
_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^:\s]+)):(?P<port>\d{1,5})")


class _Address(click.ParamType[tuple[str, int]]):
    name = "HOST:PORT"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        """Return host and port."""
        match = _ADDRESS.fullmatch(value)
        if match is None or int(match["port"]) > PORT_MAX:
            self.fail(f"{value!r} is not HOST:PORT.", param, ctx)
        return match["six"] or match["host"], int(match["port"])


class _Ports(click.ParamType[range]):
    name = "FIRST-LAST"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> range:
        """Return the ports."""
        first, _, last = value.partition("-")
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last) <= PORT_MAX):
            self.fail(f"{value!r} is not ports: 19100-19199", param, ctx)
        return range(int(first), int(last) + 1)


ADDRESS = _Address()
PORTS = _Ports()


@click.command()
@click.option(
    "--listen",
    type=ADDRESS,
    multiple=True,
    help="Where peers connect; port 0 takes a free one. Repeatable, one for each --to.",
)
@click.option("--to", type=ADDRESS, multiple=True, help="The node that --listen stands for.")
@click.option(
    "--rules",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML: what happens to which frames.",
)
@click.option(
    "--rewrite/--no-rewrite",
    "must_rewrite",
    default=True,
    show_default=True,
    help="Put addresses of the proxy in the place of the nodes' in messages.",
)
@click.option(
    "--advertise",
    metavar="HOST",
    help="The host in these addresses.  [default: that of the first --listen]",
)
@click.option(
    "--ports",
    type=PORTS,
    help="For nodes that the proxy learns of: FIRST-LAST.  [default: any free port]",
)
@click.option(
    "--control",
    type=ADDRESS,
    help="Serve rules, counts and Prometheus metrics over HTTP; port 0 takes a free one.",
)
@click.option(
    "--record",
    type=click.File("w", lazy=False),
    help="Write each message that comes as a line of JSON; - is stdout.",
)
@click.option("--tui", is_flag=True, help="Show who says what to whom, live, on a terminal.")
@click.option(
    "--pcap",
    type=click.Path(dir_okay=False, allow_dash=False, path_type=Path),
    metavar="FILE",
    help="Write the packets of all connections, for Wireshark.",
)
@click.option(
    "--listen-config",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="TLS and logins of peers end at the proxy: properties as of a listener.",
)
@click.option(
    "--to-config",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="The proxy's own TLS and login at nodes: properties as of a client.",
)
@click.option("--check", is_flag=True, help="Check the rules and end.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of files of rules and end.")
@set_option
def proxy(
    listen: tuple[tuple[str, int], ...],
    to: tuple[tuple[str, int], ...],
    path: Path | None,
    must_rewrite: bool,
    advertise: str | None,
    ports: range | None,
    control: tuple[str, int] | None,
    record: TextIO | None,
    tui: bool,
    pcap: Path | None,
    listen_config: str | None,
    to_config: str | None,
    check: bool,
    schema: bool,
    set_name: str,
) -> None:
    """Stand between Kafka peers, and delay, drop, change or answer what they send.

    Without rules everything passes. SIGTERM or Ctrl-C ends the proxy.
    """
    import asyncio
    import logging

    from kraftspec.proxy.frame import apis_of
    from kraftspec.proxy.recorder import Recorder
    from kraftspec.proxy.rule_files import RuleFile, read_rules, schema_text
    from kraftspec.proxy.rules import notes
    from kraftspec.proxy.server import FaultProxy

    package = _package(set_name)
    if schema:
        click.echo(schema_text(apis_of(package)), nl=False)
        return
    try:
        rules = RuleFile() if path is None else read_rules(path, apis_of(package))
    except (ValueError, OSError) as error:
        raise RefusedError(error) from error
    if check:
        for rule in rules.rules:
            for line in notes(rule, apis_of(package)):
                click.echo(f"Note: {line}", err=True)
        return
    if len(listen) != len(to):
        raise click.UsageError("give one --listen for each --to")
    nodes: list[Any] = [(address, target, None) for address, target in zip(listen, to, strict=True)]
    nodes += [(_of(node.listen), _of(node.to), node.id) for node in rules.nodes]
    if not nodes:
        raise click.UsageError("give --listen and --to, or nodes in the file of rules")
    if tui and (not sys.stdout.isatty() or (record is not None and record is sys.stdout)):
        raise click.UsageError("--tui needs the terminal for itself")
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    securities = _securities(listen_config, to_config)
    try:
        running = FaultProxy(
            rules.rules,
            package=package,
            must_rewrite=must_rewrite,
            advertised_host=advertise,
            ports=ports or range(1),
            **securities,
        )
        if record is not None:
            running.engine.record_to(Recorder(record))
        with nullcontext() if pcap is None else pcap.open("wb", buffering=0) as packets:
            if packets is not None:
                running.capture_to(packets)
            asyncio.run(_run(running, nodes, control, tui))
    except OSError as error:
        raise RefusedError(error) from error


def _of(text: str) -> tuple[str, int]:
    address: tuple[str, int] = ADDRESS.convert(text, None, None)
    return address


def _securities(listen_config: str | None, to_config: str | None) -> dict[str, Any]:
    from kraftspec.proxy.security import node_security, peer_security

    try:
        return {
            "peer_security": None if listen_config is None else peer_security(listen_config),
            "node_security": None if to_config is None else node_security(to_config),
        }
    except (ValueError, OSError) as error:
        raise RefusedError(error) from error


def _package(set_name: str) -> Any:
    from importlib import import_module

    from kraftspec.cli.output import check_set

    check_set(set_name)
    return import_module(f"kraftspec.generated.{set_name.replace('-', '_')}")


async def _run(
    running: FaultProxy, nodes: list[Any], control: tuple[str, int] | None, tui: bool
) -> None:
    import asyncio
    import signal

    from kraftspec.cli.proxy_view import ProxyView
    from kraftspec.proxy.control import ControlPort
    from kraftspec.reference.node.settings import host_port

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running:
        for (host, port), target, node_id in nodes:
            link = await running.listen(target, host=host, port=port, node_id=node_id)
            click.echo(f"{host_port(*link.address)} -> {link.target.name}")
        if control is not None:
            port = ControlPort(running)
            await port.open(*control)
            click.echo(f"control: http://{host_port(*port.address)}")
        with ProxyView(running).showing() if tui else nullcontext():
            await stop.wait()
        if control is not None:
            await port.close()
