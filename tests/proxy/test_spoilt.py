"""Rules that truncate and corrupt frames, and that end connections."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.proxy.peers import answer_filled, request_frame, stage
from tests.proxy.test_rules import HEARTBEAT, generations

from kraftspec.proxy.rules import Corruption, Rule


@pytest.mark.parametrize("keep", [20, -5])
def test_truncate(keep: int) -> None:
    rule = Rule(api="Heartbeat", truncate_bytes=keep)

    async def run() -> None:
        async with stage([rule], answer=lambda _: None) as scene:
            client = await scene.client()
            client.send(HEARTBEAT, 4)
            await scene.node.until(lambda: scene.node.frames)
            sent = request_frame(HEARTBEAT, 4, 1)[4:]
            assert scene.node.frames == [sent[:keep]]

    asyncio.run(run())


def test_corrupt_at_an_offset() -> None:
    rules = [
        Rule(api="Heartbeat", corrupt=Corruption(at=8, xor="0180")),
        Rule(api="Heartbeat", corrupt=Corruption(at=-1)),
    ]

    async def run() -> None:
        async with stage(rules, answer=lambda _: None) as scene:
            client = await scene.client()
            client.send(HEARTBEAT, 4)
            await scene.node.until(lambda: scene.node.frames)
            sent = bytearray(request_frame(HEARTBEAT, 4, 1)[4:])
            sent[8] ^= 0x01
            sent[9] ^= 0x80
            sent[-1] ^= 0xFF
            assert scene.node.frames == [bytes(sent)]

    asyncio.run(run())


def test_corrupt_at_random() -> None:
    rule = Rule(api="Heartbeat", corrupt=Corruption(bytes=3), seed=5)

    async def run() -> bytes:
        async with stage([rule], answer=lambda _: None) as scene:
            client = await scene.client()
            client.send(HEARTBEAT, 4)
            await scene.node.until(lambda: scene.node.frames)
            return scene.node.frames[0]

    first = asyncio.run(run())
    sent = request_frame(HEARTBEAT, 4, 1)[4:]
    bits = sum((a ^ b).bit_count() for a, b in zip(first, sent, strict=True))
    assert 1 <= bits <= 3
    assert first == asyncio.run(run())


def test_cut() -> None:
    async def run() -> None:
        async with stage([Rule(direction="response", api="Heartbeat", cut_bytes=6)]) as scene:
            client = await scene.client()
            client.send(HEARTBEAT, 4)
            assert await client.rest() == answer_filled(scene.node.frames[0])[:6]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("direction", "close", "reached_node", "reached_client", "end"),
    [
        ("request", "before", False, False, "eof"),
        ("request", "reset", False, False, "reset"),
        ("response", "before", True, False, "eof"),
        ("response", "after", True, True, "eof"),
        ("response", "reset", True, False, "reset"),
    ],
)
def test_close(
    direction: Any, close: Any, reached_node: bool, reached_client: bool, end: str
) -> None:
    async def run() -> None:
        async with stage([Rule(api="Heartbeat", direction=direction, close=close)]) as scene:
            client = await scene.client()
            client.send(HEARTBEAT, 4)
            if reached_client:
                await client.frame()
            assert await client.end() == end
            await scene.node.until(lambda: scene.node.ends)
            assert bool(scene.node.frames) is reached_node

    asyncio.run(run())


def test_close_after_a_request() -> None:
    async def run() -> None:
        async with stage([Rule(api="Heartbeat", close="after")], answer=lambda _: None) as scene:
            client = await scene.client()
            client.send(HEARTBEAT, 4)
            assert await client.end() == "eof"
            await scene.node.until(lambda: scene.node.ends)
            assert generations(scene) == [7]

    asyncio.run(run())
