"""``kraftspec quorum up``: a quorum of the reference node on loopback, with a live view."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kraftspec.cli.output import SECONDS, RefusedError, console, counted, json_option
from kraftspec.cli.profiles import KAFKA, profile_option

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kraftspec.reference.node.local import LocalQuorum
    from kraftspec.reference.node.watched import Watched

NODES_MAX = 9
PORT_MAX = 65_535
RATE_MAX = 20_000.0
EVENTS_SHOWN = 5
FRAMES_A_SECOND = 4
_HEADS = ("node", "role", "epoch", "leader", "log end", "high watermark", "lag")


@click.command()
@profile_option()
@click.option(
    "--nodes",
    default=3,
    show_default=True,
    type=click.IntRange(1, NODES_MAX),
    help="How many voters.",
)
@click.option(
    "--observers",
    default=0,
    show_default=True,
    type=click.IntRange(0, NODES_MAX),
    help="How many nodes more that only observe, until they are added (add-controller; by the "
    "drafts alter, add-voter).",
)
@click.option("--for", "for_s", type=SECONDS, help="Stop after so long.  [default: at Ctrl-C]")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the nodes are kept; nodes that are there are started as they are.  [default: a "
    "temporary one, removed at the end]",
)
@click.option(
    "--port",
    "first_port",
    default=9093,
    show_default=True,
    type=click.IntRange(1024, PORT_MAX),
    help="Free ports are looked for from here on.",
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
    help="End the leader that often, see who follows, and start it again.",
)
@click.option(
    "--interval",
    "interval_s",
    default=1.0,
    show_default=True,
    type=SECONDS,
    help="Seconds between two states, where there is no terminal.",
)
@json_option
def up(
    profile: str,
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
    """Run a quorum of nodes on loopback, to try things on.

    Apache Kafka's tools operate it, and its controllers can observe it. With --json, each line is
    an object: what is up, states, what happens, and in the end a summary.
    """
    import asyncio

    from kraftspec.reference.node.local import LocalQuorum
    from kraftspec.reference.node.watched import NodeFailedError, Wishes

    view: _View
    if as_json:
        view = _JsonView()
    elif console().is_terminal:
        view, interval_s = _LiveView(), 1 / FRAMES_A_SECOND
    else:
        view = _PlainView()
    wishes = Wishes(
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
            )
            asyncio.run(_run(quorum, wishes, view))
    except BrokenPipeError:
        raise  # Who reads has had enough: click ends quietly.
    except (OSError, ValueError, NodeFailedError) as error:
        raise RefusedError(error) from error


@contextlib.contextmanager
def _home(directory: Path | None) -> Iterator[Path]:
    """The directory, or one for this run alone."""
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        yield directory
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="kraftspec-quorum-") as made:
        yield Path(made)


async def _run(quorum: LocalQuorum, wishes: Any, view: _View) -> None:
    import asyncio
    import signal

    from kraftspec.reference.node.watched import LogTeller, Watched

    watched = Watched(quorum, wishes, view.tell)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, watched.stop.set)
    with view.showing(watched), LogTeller(watched):
        async with quorum:
            nodes = {str(node_id): str(path) for node_id, path in quorum.properties.items()}
            view.tell(
                "up",
                {
                    "profile": quorum.profile,
                    "clusterId": quorum.cluster_id,
                    "bootstrapController": quorum.bootstrap,
                    "properties": nodes,
                },
            )
            await watched.run()
            summary = watched.summary()
    view.tell("summary", summary)


class _View:
    """Is told what happens; the subclasses show it."""

    def tell(self, event: str, told: dict[str, Any]) -> None:
        """Take an event."""
        raise NotImplementedError

    @contextlib.contextmanager
    def showing(self, watched: Watched) -> Iterator[None]:
        """Be there while the quorum runs."""
        yield


class _JsonView(_View):
    """A line of JSON an event."""

    def tell(self, event: str, told: dict[str, Any]) -> None:
        import json

        click.echo(json.dumps({"event": event, **told}))


class _PlainView(_View):
    """A line an event."""

    def tell(self, event: str, told: dict[str, Any]) -> None:
        for line in _lines(event, told):
            click.echo(line)


class _LiveView(_View):
    """A table that is drawn again and again, and the last events below it."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self.events: deque[str] = deque(maxlen=EVENTS_SHOWN)
        self.is_shown = False

    def tell(self, event: str, told: dict[str, Any]) -> None:
        if event == "state":
            self.state = told
        elif event == "up":
            # Above what is drawn, as it is: a command that the table's width broke is no command.
            self.drawn.console.print("\n".join(_lines(event, told)), soft_wrap=True)
        elif self.is_shown:
            self.events += _lines(event, told)
        else:
            for line in _lines(event, told):
                click.echo(line)

    @contextlib.contextmanager
    def showing(self, watched: Watched) -> Iterator[None]:
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
        found = "a leader is elected, and has committed nothing yet" if elected else "no leader"
        return f"{state['seconds']:8.1f} s  {found}"
    return (
        f"{state['seconds']:8.1f} s  leader {state['leaderId']}, epoch {state['leaderEpoch']}, "
        f"high watermark {state['highWatermark']}, {state['acknowledged']:,} acknowledged"
    )


def _lines(event: str, told: dict[str, Any]) -> list[str]:
    """Say an event in words."""
    at = f"{told['seconds']:8.1f} s  " if "seconds" in told else ""
    match event:
        case "up":
            first = next(iter(told["properties"].values()))
            cluster = f"Cluster {told['clusterId']}" if told["clusterId"] else "A new cluster"
            profile = told["profile"]
            return [
                f"{cluster}, its nodes in {Path(first).parents[1]}",
                f"kraftspec quorum --bootstrap-controller {told['bootstrapController']} "
                f"describe {'--status' if profile == KAFKA else f'--profile {profile}'}",
            ]
        case "state":
            nodes = "; ".join(
                f"{cells[0]} {cells[1]}" + (f" to {cells[4]}" if cells[4] else "")
                for cells in map(_cells, told["nodes"])
            )
            return [f"{_summary_line(told)}: {nodes}"]
        case "leader":
            return [f"{at}node {told['id']} leads in epoch {told['epoch']}"]
        case "killed":
            return [f"{at}node {told['id']}, which led, was ended"]
        case "failover":
            return [f"{at}node {told['id']} leads {told['ms']:,.0f} ms after that"]
        case "started":
            return [f"{at}node {told['id']} was started again"]
        case "log":
            return [f"{at}node {told.get('node', '?')}: {told['message']} {told.get('reason', '')}"]
    return _summary_lines(told)


def _summary_lines(told: dict[str, Any]) -> list[str]:
    lines = [
        f"{told['seconds']:.1f} s, {counted(len(told['leaders']), 'leader')}; "
        f"{told['acknowledged']:,} of {told['appended']:,} records acknowledged"
    ]
    if told["appendMsP50"] is not None:
        lines[0] += f", after {told['appendMsP50']:g} ms (p99 {told['appendMsP99']:g} ms)"
    if told["failoverMs"]:
        shown = ", ".join(f"{found:,.0f}" for found in told["failoverMs"])
        lines.append(f"Without a leader for {shown} ms")
    return lines
