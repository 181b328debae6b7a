"""``kraftspec quorum up``: a quorum of the reference node on loopback, with a live view."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kraftspec.cli.output import SECONDS, RefusedError, console, counted, json_option
from kraftspec.cli.profiles import profile_option, without_option

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kraftspec.reference.local.live_view import LiveView
    from kraftspec.reference.local.quorum import LocalQuorum

NODES_MAX = 9
PORT_MAX = 65_535
RATE_MAX = 20_000.0
EVENTS_SHOWN = 5
FRAMES_A_SECOND = 4
_HEADS = ("node", "role", "epoch", "leader", "log end", "high watermark", "lag")


@click.command()
@profile_option()
@without_option()
@click.option(
    "--nodes",
    default=3,
    show_default=True,
    type=click.IntRange(1, NODES_MAX),
    help="Number of voters.",
)
@click.option(
    "--observers",
    default=0,
    show_default=True,
    type=click.IntRange(0, NODES_MAX),
    help="Number of observers. add-controller makes them voters; in the drafts "
    "alter and add-voter.",
)
@click.option("--for", "for_s", type=SECONDS, help="Stop after this time.  [default: at Ctrl-C]")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="The directory of the nodes; existing nodes are started as they are.  "
    "[default: a temporary one, removed at the end]",
)
@click.option(
    "--port",
    "first_port",
    default=9093,
    show_default=True,
    type=click.IntRange(1024, PORT_MAX),
    help="The first port to try.",
)
@click.option(
    "--first-id",
    default=1,
    show_default=True,
    type=click.IntRange(0, (1 << 31) - 1 - 2 * NODES_MAX),
    help="The first node id.",
)
@click.option(
    "--rate",
    default=2.0,
    show_default=True,
    type=click.FloatRange(0, RATE_MAX),
    help="NoOpRecords a second that the leader appends; a Kafka controller appends 2.",
)
@click.option(
    "--kill-leader-every",
    "kill_leader_every_s",
    type=SECONDS,
    help="Kill the leader at this interval, wait for the next one, and restart it.",
)
@click.option(
    "--interval",
    "interval_s",
    default=1.0,
    show_default=True,
    type=SECONDS,
    help="Seconds between two states, without a terminal.",
)
@json_option
def up(
    profile: str,
    without: tuple[str, ...],
    nodes: int,
    observers: int,
    for_s: float | None,
    directory: Path | None,
    first_port: int,
    first_id: int,
    rate: float,
    kill_leader_every_s: float | None,
    interval_s: float,
    as_json: bool,
) -> None:
    """Run a quorum of nodes on loopback, for trying things.

    Apache Kafka's tools can operate it, and its controllers can observe it. With --json each line
    is an object: addresses, states, events, and a summary at the end.
    """
    import asyncio

    from kraftspec.reference.local.live_view import LiveViewOptions, NodeFailedError
    from kraftspec.reference.local.quorum import LocalQuorum

    view: _View
    if as_json:
        view = _JsonView()
    elif console().is_terminal:
        view, interval_s = _LiveView(), 1 / FRAMES_A_SECOND
    else:
        view = _PlainView()
    options = LiveViewOptions(
        rate=rate, interval_s=interval_s, kill_leader_every_s=kill_leader_every_s, for_s=for_s
    )
    try:
        with _home(directory) as home:
            quorum = LocalQuorum(
                home,
                voters=nodes,
                observers=observers,
                first_id=first_id,
                first_port=first_port,
                profile=profile,
                without=without,
            )
            _check_nodes(quorum, range(first_id, first_id + nodes + observers))
            asyncio.run(_run(quorum, options, view))
    except BrokenPipeError:
        raise  # Who reads has had enough: click ends quietly.
    except (OSError, ValueError, NodeFailedError) as error:
        raise RefusedError(error) from error


def _check_nodes(quorum: LocalQuorum, ids: range) -> None:
    """Refuse a directory that has other nodes than the command line asks for."""
    from click.core import ParameterSource

    context = click.get_current_context()
    is_asked = any(
        context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        for name in ("nodes", "observers", "first_id")
    )
    if is_asked and set(quorum.properties) != set(ids):
        there = ", ".join(map(str, sorted(quorum.properties)))
        raise ValueError(
            f"{quorum.directory} has the nodes {there}, which are started as they are. Leave out "
            "--nodes, --observers and --first-id, or name another directory"
        )


@contextlib.contextmanager
def _home(directory: Path | None) -> Iterator[Path]:
    """The directory, or one for this run alone."""
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        yield directory
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="kraftspec-quorum-") as name:
        yield Path(name)


async def _run(quorum: LocalQuorum, options: Any, view: _View) -> None:
    import asyncio
    import signal

    from kraftspec.reference.local.live_view import LiveView, LogEvents

    live = LiveView(quorum, options, view.emit)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, live.stop.set)
    with view.showing(live), LogEvents(live):
        async with quorum:
            nodes = {str(node_id): str(path) for node_id, path in quorum.properties.items()}
            view.emit(
                "up",
                {
                    "profile": quorum.profile,
                    "clusterId": quorum.cluster_id,
                    "bootstrapController": quorum.bootstrap,
                    "properties": nodes,
                },
            )
            await live.run()
            summary = live.summary()
    view.emit("summary", summary)


class _View:
    """Receives the events; the subclasses show them."""

    def emit(self, event: str, fields: dict[str, Any]) -> None:
        """Take an event."""
        raise NotImplementedError

    @contextlib.contextmanager
    def showing(self, live: LiveView) -> Iterator[None]:
        """Be there while the quorum runs."""
        yield


class _JsonView(_View):
    """A line of JSON an event."""

    def emit(self, event: str, fields: dict[str, Any]) -> None:
        import json

        click.echo(json.dumps({"event": event, **fields}))


class _PlainView(_View):
    """A line an event."""

    def emit(self, event: str, fields: dict[str, Any]) -> None:
        for line in _lines(event, fields):
            click.echo(line)


class _LiveView(_View):
    """A table that is drawn again and again, and the last events below it."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self.events: deque[str] = deque(maxlen=EVENTS_SHOWN)
        self.is_shown = False

    def emit(self, event: str, fields: dict[str, Any]) -> None:
        if event == "state":
            self.state = fields
        elif event == "up":
            # Above what is drawn, as it is: a command that the table's width broke is no command.
            self.drawn.console.print("\n".join(_lines(event, fields)), soft_wrap=True)
        elif self.is_shown:
            self.events += _lines(event, fields)
        else:
            for line in _lines(event, fields):
                click.echo(line)

    @contextlib.contextmanager
    def showing(self, live: LiveView) -> Iterator[None]:
        from rich.live import Live

        self.is_shown = True
        self.drawn = Live(
            get_renderable=self._draw, console=console(), refresh_per_second=FRAMES_A_SECOND
        )
        try:
            with self.drawn:
                yield
        finally:
            self.is_shown = False

    def _draw(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        state = self.state
        table = Table(*_HEADS, box=None)
        for node in state.get("nodes", ()):
            style = "bold green" if node["role"] == "leader" else None if node["role"] else "red"
            table.add_row(*_cells(node), style=style)
        head = Text(f"{_summary_line(state) if state else 'Starting ...'}\n")
        return Group(head, table, *(Text(line, style="dim") for line in self.events))


def _cells(node: dict[str, Any]) -> list[str]:
    if node["role"] is None:
        return [str(node["id"]), "ended", *[""] * (len(_HEADS) - 2)]
    keys = ("id", "role", "epoch", "leaderId", "logEndOffset", "highWatermark", "lag")
    return ["-" if node[key] in (None, -1) else str(node[key]) for key in keys]


def _summary_line(state: dict[str, Any]) -> str:
    if state["leaderId"] is None:
        elected = any(node["role"] == "leader" for node in state["nodes"])
        state_text = (
            "a leader is elected, and has committed nothing yet" if elected else "no leader"
        )
        return f"{state['seconds']:8.1f} s  {state_text}"
    return (
        f"{state['seconds']:8.1f} s  leader {state['leaderId']}, epoch {state['leaderEpoch']}, "
        f"high watermark {state['highWatermark']}, {state['acknowledged']:,} acknowledged"
    )


def _lines(event: str, fields: dict[str, Any]) -> list[str]:
    """Say an event in words."""
    at = f"{fields['seconds']:8.1f} s  " if "seconds" in fields else ""
    match event:
        case "up":
            from kraftspec.reference.profiles import parts_of

            first = next(iter(fields["properties"].values()))
            cluster = f"Cluster {fields['clusterId']}" if fields["clusterId"] else "A new cluster"
            option = parts_of(fields["profile"]).admin.option
            return [
                f"{cluster}, its nodes in {Path(first).parents[1]}",
                f"kraftspec quorum --bootstrap-controller {fields['bootstrapController']} "
                f"describe {option or '--status'}",
            ]
        case "state":
            nodes = "; ".join(
                f"{cells[0]} {cells[1]}" + (f" to {cells[4]}" if cells[4] else "")
                for cells in map(_cells, fields["nodes"])
            )
            return [f"{_summary_line(fields)}: {nodes}"]
        case "leader":
            return [f"{at}node {fields['id']} leads in epoch {fields['epoch']}"]
        case "killed":
            return [f"{at}the leader, node {fields['id']}, was killed"]
        case "failover":
            return [f"{at}node {fields['id']} leads {fields['ms']:,.0f} ms after that"]
        case "started":
            return [f"{at}node {fields['id']} was started again"]
        case "log":
            node, reason = fields.get("node", "?"), fields.get("reason", "")
            return [f"{at}node {node}: {fields['message']} {reason}"]
    return _summary_lines(fields)


def _summary_lines(fields: dict[str, Any]) -> list[str]:
    lines = [
        f"{fields['seconds']:.1f} s, {counted(len(fields['leaders']), 'leader')}; "
        f"{fields['acknowledged']:,} of {fields['appended']:,} records acknowledged"
    ]
    if fields["appendMsP50"] is not None:
        lines[0] += f", after {fields['appendMsP50']:g} ms (p99 {fields['appendMsP99']:g} ms)"
    if fields["failoverMs"]:
        shown = ", ".join(f"{ms:,.0f}" for ms in fields["failoverMs"])
        lines.append(f"Without a leader for {shown} ms")
    return lines
