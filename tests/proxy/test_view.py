"""``kraftspec proxy --tui``: what is drawn, and the command on a terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from click.testing import CliRunner
from rich.console import Console
from tests.proxy.peers import APIS, TIMEOUT_S, Node, end_nodes, stage
from tests.proxy.test_rules import HEARTBEAT, beat

from kraftspec.cli import main
from kraftspec.cli.proxy_view import ProxyView
from kraftspec.proxy import watch
from kraftspec.proxy.rules import Rule
from kraftspec.reference.wire.blocking import ask

WIDTH = 110


def drawn(view: ProxyView, height: int = 24) -> list[str]:
    console = Console(width=WIDTH, height=height, force_terminal=False)
    with console.capture() as capture:
        console.print(view)
    return capture.get().splitlines()


def test_who_says_what_to_whom() -> None:
    async def run() -> None:
        rules = [Rule(name="later", api="Heartbeat", client_id="held", hold=True)]
        async with stage(rules) as scene:
            view = ProxyView(scene.proxy)
            client = await scene.client()
            for _ in range(3):
                await beat(client, client_id="one")
            await client.answer(APIS["ListGroups"].request(), 4, "two")
            held = await scene.client()
            held.send(HEARTBEAT, 4, "held")
            async with asyncio.timeout(TIMEOUT_S):
                while not scene.proxy.engine.rules[0].release_hooks:
                    await asyncio.sleep(0.001)
            scene.proxy.engine.report("something was odd")
            view.lines.append("12:00:00  something was odd")
            lines = drawn(view)
            assert lines[0].startswith("2 connections, 9 messages, ")
            name = f"1 {scene.link.target.name}"
            rows = [re.split(r"\s{2,}", line.rstrip()) for line in lines[2:]]
            assert rows[0][:5] == ["who", "asks", "API", "v", "requests"]
            assert rows[1][:5] == ["one", name, "Heartbeat", "4", "3"]
            by_client = {row[0]: row for row in rows[2:4]}
            assert by_client["two"][1:5] == [name, "ListGroups", "4", "1"]
            assert by_client["held"][-1] == "1"  # It waits for its answer.
            assert rows[-3:] == [
                ["rule", "matched", "acted", "holds"],
                ["later", "1", "1", "1"],
                ["12:00:00", "something was odd"],
            ]
            assert all(len(line) <= WIDTH for line in lines)
            assert len(drawn(view, height=11)) <= 11

    asyncio.run(run())


def test_what_is_kept_has_a_bound() -> None:
    seen = watch.Watch()
    for number in range(watch.TALKS_MAX + 5):
        seen.note_request(watch.Key(str(number), "n", "Fetch", 4), 10)
    assert len(seen.talks) == watch.TALKS_MAX


@contextmanager
def on_a_terminal(*arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "30"}
    command = [sys.executable, "-m", "kraftspec", "proxy", *arguments]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(terminal: int, pattern: str, seen: str = "") -> str:
    """Read until the terminal has shown something: it is drawn again and again."""
    until_s = time.monotonic() + TIMEOUT_S
    while not re.search(pattern, seen):
        assert time.monotonic() < until_s, seen
        seen += os.read(terminal, 1 << 16).decode()
    return seen


def test_the_command_on_a_terminal(tmp_path: Path) -> None:
    async def run() -> None:
        node = Node()
        server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
        to = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            await asyncio.to_thread(look, to)
        finally:
            await end_nodes([server], [node])

    def look(to: str) -> None:
        with on_a_terminal("--listen", "127.0.0.1:0", "--to", to, "--tui") as (process, terminal):
            listening = r"0 connections, 0 messages.*127\.0\.0\.1:(\d+) -> "
            port = re.search(listening, read_until(terminal, listening))
            assert port is not None
            ask(int(port[1]), HEARTBEAT, 4, APIS["Heartbeat"].response, timeout_s=TIMEOUT_S)
            read_until(terminal, r"Heartbeat")
            process.send_signal(signal.SIGINT)
            assert process.wait(TIMEOUT_S) == 0

    asyncio.run(run())


def test_it_needs_a_terminal() -> None:
    result = CliRunner().invoke(main, ["proxy", "--listen", "a:0", "--to", "b:1", "--tui"])
    assert result.exit_code == 2
    assert "--tui needs the terminal for itself" in result.output
