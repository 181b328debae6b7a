"""tshark opens what ``kraftspec proxy --pcap`` writes, and has nothing to complain about."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.proxy.peers import stage
from tests.proxy.test_rules import HEARTBEAT

from kraftspec.proxy.rules import Rule

from .tshark import frames, run

pytestmark = pytest.mark.wireshark


def test_a_capture_of_the_proxy(dissector: Path, tmp_path: Path) -> None:
    path = tmp_path / "proxy.pcap"

    async def talk() -> int:
        with path.open("wb", buffering=0) as file:
            async with stage([Rule(api="Heartbeat", set={"generationId": 99})]) as scene:
                scene.proxy.capture_to(file)
                client = await scene.client()
                await client.answer(HEARTBEAT, 4)
                await scene.proxy.close()
                return scene.link.address[1]

    port = asyncio.run(talk())
    shown = []
    for top in frames(path, dissector):
        numbers = [line.value for line in top.walk() if line.text.startswith("generationId")]
        shown.append((top.text.partition(", ")[2], numbers))
    request, response = (
        f"Heartbeat v4 {what}, correlation id 1" for what in ("request", "response")
    )
    sent = str(HEARTBEAT.generation_id)
    assert shown == [(request, [sent]), (request, ["99"]), (response, []), (response, [])]
    fields = ("tcp.stream", "tcp.flags.str", "tcp.analysis.flags", "tcp.port")
    table = run(path, dissector, "-T", "fields", *(word for one in fields for word in ("-e", one)))
    rows = [line.split("\t") for line in table.decode().splitlines()]
    assert {row[0] for row in rows} == {"0", "1"}
    assert not [row for row in rows if row[2]]  # Lost or repeated segments.
    assert next(row[1] for row in rows if row[0] == "0").strip("·") == "S"
    assert any(str(port) in row[3].split(",") for row in rows if row[0] == "0")
