"""What is recorded: each message that came, in the shape of Kafka's JSON."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.proxy.peers import APIS, answer_filled, request_frame, stage
from tests.proxy.samples import filled
from tests.proxy.test_rules import HEARTBEAT

from kraftspec.generated.kafka import MetadataRequest
from kraftspec.proxy.recorder import Recorder
from kraftspec.proxy.rules import Rule
from kraftspec.reference.wire.frames import sized


def test_every_message_is_recorded_as_it_came(tmp_path: Path) -> None:
    """At once: the file is read while it is open."""
    path = tmp_path / "record.ndjson"

    async def run() -> str:
        async with stage([Rule(api="Heartbeat", set={"generationId": 99})]) as scene:
            scene.proxy.engine.record_to(Recorder(file))
            client = await scene.client()
            await client.answer(HEARTBEAT, 4, client_id="anna")
            for name in ("Fetch", "Vote", "Produce", "Metadata"):
                version = APIS[name].request.VALID_VERSIONS[-1]
                await client.answer(filled(APIS[name].request, version), version)
            spoilt = sized(request_frame(MetadataRequest(topics=[]), 5, 9)[4:], b"\0")
            client.writer.write(spoilt)
            await client.frame()
            return scene.link.target.name

    with path.open("w", encoding="utf-8") as file:
        node = asyncio.run(run())
        text = path.read_text(encoding="utf-8")
    lines: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    names = ["Heartbeat", "Fetch", "Vote", "Produce", "Metadata", "Metadata"]
    assert [line["api"] for line in lines] == [name for name in names for _ in range(2)]
    assert [line["direction"] for line in lines] == ["request", "response"] * 6
    assert {line["node"] for line in lines} == {node}
    first = lines[0]
    assert (first["clientId"], first["version"], first["correlationId"]) == ("anna", 4, 1)
    assert first["message"] == HEARTBEAT.to_json(4)  # Not what a rule has made of it.
    assert first["bytes"] == len(request_frame(HEARTBEAT, 4, 1, "anna"))
    answer = answer_filled(request_frame(HEARTBEAT, 4, 1)[4:])
    assert lines[1]["bytes"] == len(answer)
    for line in lines[:-2]:
        api = APIS[line["api"]]
        cls = api.request if line["direction"] == "request" else api.response
        assert (
            cls.from_json(line["message"], line["version"]) == filled(cls, line["version"])
            or line is first
        )
    assert "1 bytes follow the message" in lines[-2]["error"]
    assert "message" not in lines[-2]
    assert bytes.fromhex(lines[-2]["hex"])[-1:] == b"\0"
