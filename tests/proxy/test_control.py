"""The control port, as curl and Prometheus use it."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from tests.proxy.peers import Stage, stage
from tests.proxy.test_rules import HEARTBEAT, beat

from kraftspec.proxy.control import BODY_BYTES_MAX, ControlPort
from kraftspec.proxy.rules import Rule

Ask = Callable[..., tuple[int, Any]]


@asynccontextmanager
async def controlled(*rules: Rule) -> AsyncIterator[tuple[Stage, Any]]:
    async with stage(rules) as scene:
        port = ControlPort(scene.proxy)
        await port.open("127.0.0.1", 0)

        def ask(method: str, path: str, body: Any = None) -> tuple[int, Any]:
            connection = http.client.HTTPConnection(*port.address, timeout=60)
            data = body if body is None or isinstance(body, bytes) else json.dumps(body)
            connection.request(method, path, data)
            response = connection.getresponse()
            text = response.read().decode()
            connection.close()
            is_json = response.getheader("Content-Type") == "application/json"
            return response.status, json.loads(text) if is_json else text

        async def asked(*arguments: Any) -> tuple[int, Any]:
            return await asyncio.to_thread(ask, *arguments)

        try:
            yield scene, asked
        finally:
            await port.close()


def test_rules_are_added_read_and_removed() -> None:
    async def run() -> None:
        async with controlled(Rule(name="first", api="Fetch", delay_ms=1)) as (scene, ask):
            client = await scene.client()
            usual = (await beat(client)).error_code
            rule = {"name": "second one", "api": "Heartbeat", "error": 16, "times": 2}
            status, added = await ask("POST", "/rules", rule)
            assert (status, added) == (201, {**rule, "matched": 0, "acted": 0, "held": 0})
            codes = [(await beat(client)).error_code for _ in range(3)]
            assert codes == [16, 16, usual]
            status, shown = await ask("GET", "/rules/second%20one")
            assert (status, shown["acted"]) == (200, 2)
            status, both = await ask("GET", "/rules")
            assert [one["name"] for one in both] == ["first", "second one"]
            assert await ask("DELETE", "/rules/first") == (200, {"removed": "first"})
            assert [one.name for one in scene.proxy.engine.rules] == ["second one"]
            assert await ask("DELETE", "/rules") == (200, [])
            assert scene.proxy.engine.rules == []

    asyncio.run(run())


def test_what_is_held_is_released() -> None:
    async def run() -> None:
        async with controlled(Rule(name="h", api="Heartbeat", hold=True)) as (scene, ask):
            client = await scene.client()
            client.send(HEARTBEAT, 4)
            async with asyncio.timeout(60):
                while (await ask("GET", "/rules/h"))[1]["held"] == 0:
                    pass
            assert scene.node.frames == []
            assert await ask("POST", "/rules/h/release") == (200, {"released": 1})
            await client.frame()
            client.send(HEARTBEAT, 4)
            async with asyncio.timeout(60):
                while (await ask("GET", "/rules/h"))[1]["held"] == 0:
                    pass
            await ask("DELETE", "/rules/h")  # What a rule holds goes on without it.
            await client.frame()

    asyncio.run(run())


def test_mistakes() -> None:
    async def run() -> None:
        async with controlled(Rule(name="x", drop=True, api="Vote")) as (scene, ask):
            status, answer = await ask("POST", "/rules", {"api": "Fetsch", "drop": True})
            assert status == 400
            assert answer == {"error": "there is no API 'Fetsch'; did you mean Fetch?"}
            status, answer = await ask("POST", "/rules", {"dorp": True})
            assert status == 400
            assert "unknown field `dorp`" in answer["error"]
            assert (await ask("POST", "/rules", b"no JSON"))[0] == 400
            assert (await ask("POST", "/rules", {"name": "x", "drop": True}))[0] == 400
            assert (await ask("GET", "/rules/none"))[0] == 404
            assert (await ask("DELETE", "/rules/none"))[0] == 404
            assert (await ask("POST", "/rules/none/release"))[0] == 404
            assert (await ask("GET", "/other"))[0] == 404
            assert (await ask("PUT", "/rules", b""))[0] == 405
            assert len(scene.proxy.engine.rules) == 1

    asyncio.run(run())


def test_what_is_not_http_is_let_go() -> None:
    async def run() -> None:
        async with stage() as scene:
            port = ControlPort(scene.proxy)
            await port.open("127.0.0.1", 0)
            for sent in (
                b"rubbish\r\n\r\n",
                b"POST /rules HTTP/1.1\r\nContent-Length: x\r\n\r\n",
                b"GET /" + b"x" * (1 << 18),
            ):
                reader, writer = await asyncio.open_connection(*port.address)
                writer.write(sent)
                async with asyncio.timeout(60):
                    with suppress(ConnectionError):
                        assert await reader.read() == b""
                writer.transport.abort()
            reader, writer = await asyncio.open_connection(*port.address)
            head = f"POST /rules HTTP/1.1\r\nContent-Length: {BODY_BYTES_MAX + 1}\r\n\r\n"
            writer.write(head.encode())
            assert (await reader.read()).startswith(b"HTTP/1.1 413 ")
            writer.transport.abort()
            await port.close()

    asyncio.run(run())


def test_stats_nodes_and_metrics() -> None:
    async def run() -> None:
        rule = Rule(name='a "rule"', api="Heartbeat", error=16, nth=2)
        async with controlled(rule) as (scene, ask):
            client = await scene.client()
            for _ in range(3):
                await beat(client)
            _, stats = await ask("GET", "/stats")
            assert stats["connections"] == {"open": 1, "all": 1}
            requests, responses = stats["messages"]
            assert (requests["direction"], requests["api"]) == ("request", "Heartbeat")
            assert requests["count"] == 3
            assert requests["bytes"] > 60
            assert (responses["direction"], responses["count"]) == ("response", 2)
            assert stats["reports"] == {}
            _, nodes = await ask("GET", "/nodes")
            (link,) = scene.proxy.links
            assert nodes == [
                {
                    "listen": f"127.0.0.1:{link.address[1]}",
                    "to": link.target.name,
                    "names": sorted([link.target.name, "1"]),
                }
            ]
            status, text = await ask("GET", "/metrics")
            assert status == 200
            samples = {
                (
                    sample.name.removeprefix("kraftspec_proxy_"),
                    *sample.labels.values(),
                ): sample.value
                for family in text_string_to_metric_families(text)
                for sample in family.samples
            }
            assert samples["connections",] == 1
            assert samples["messages_total", "request", "Heartbeat"] == 3
            assert samples["rule_matches_total", 'a "rule"'] == 2
            assert samples["rule_actions_total", 'a "rule"'] == 1
            assert samples["held_messages", 'a "rule"'] == 0
            assert samples["reports_total",] == 0

    asyncio.run(run())
