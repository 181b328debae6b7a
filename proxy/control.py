"""The control port: rules, held frames and counts of a running proxy, over HTTP.

======  ==========================  ===============================================================
GET     /rules                      the rules, in their order, with their counts
POST    /rules                      a rule in JSON: 201 and the rule; 400 and what is wrong
GET     /rules/NAME                 one rule
DELETE  /rules/NAME                 remove it; what it holds goes on
DELETE  /rules                      remove all
POST    /rules/NAME/release         let go what it holds
GET     /nodes                      where the proxy listens, and for which nodes
GET     /stats                      frames, bytes, connections and reports
GET     /metrics                    the same for Prometheus
======  ==========================  ===============================================================

HTTP/1.1 without anything that a test does not need: a request, its answer, and the end.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import msgspec

from kraftspec.loop_thread import end_listening
from kraftspec.proxy.rules import Rule, RuleError

if TYPE_CHECKING:
    from kraftspec.proxy.connection import Address
    from kraftspec.proxy.engine import ActiveRule
    from kraftspec.proxy.server import FaultProxy

HEAD_BYTES_MAX: Final = 1 << 16
BODY_BYTES_MAX: Final = 1 << 20
SILENCE_S: Final = 10.0
_REASONS: Final = {
    200: "OK", 201: "Created", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed",
    413: "Content Too Large",
}  # fmt: skip
_JSON: Final = "application/json"
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


class HttpError(Exception):
    """Answered with a status and a text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class ControlPort:
    """Serves a proxy's control port. ``address`` is the one that is bound."""

    def __init__(self, proxy: FaultProxy) -> None:
        self.proxy = proxy
        self.address: Address
        self._server: asyncio.Server

    async def open(self, host: str, port: int) -> None:
        """Listen. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=HEAD_BYTES_MAX)
        self.address = self._server.sockets[0].getsockname()[:2]

    async def close(self) -> None:
        """Listen no more. What was accepted is served while the loop runs."""
        await end_listening([self._server])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(SILENCE_S):
                method, path, body = await _request(reader)
            status, kind, answer = self._answer(method, path, body)
        except HttpError as error:
            status, kind, answer = error.status, _JSON, _json({"error": str(error)})
        except (OSError, TimeoutError, EOFError, ValueError):
            writer.close()  # It speaks something else, or no more.
            return
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(answer)}\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + answer)
        writer.close()

    def _answer(self, method: str, path: str, body: bytes) -> tuple[int, str, bytes]:
        parts = [unquote(part) for part in path.partition("?")[0].strip("/").split("/")]
        match method, parts:
            case "GET", ["rules"]:
                return 200, _JSON, _json([_shown(rule) for rule in self.proxy.engine.rules])
            case "POST", ["rules"]:
                return 201, _JSON, _json(_shown(self._add(body)))
            case "DELETE", ["rules"]:
                for rule in list(self.proxy.engine.rules):
                    self.proxy.engine.remove(rule.name)
                return 200, _JSON, _json([])
            case "GET", ["rules", name]:
                return 200, _JSON, _json(_shown(self._rule(name)))
            case "DELETE", ["rules", name]:
                self.proxy.engine.remove(self._rule(name).name)
                return 200, _JSON, _json({"removed": name})
            case "POST", ["rules", name, "release"]:
                released = self.proxy.engine.release(self._rule(name))
                return 200, _JSON, _json({"released": released})
            case "GET", ["nodes"]:
                return 200, _JSON, _json(self._nodes())
            case "GET", ["stats"]:
                return 200, _JSON, _json(self._stats())
            case "GET", ["metrics"]:
                return 200, _TEXT, self._metrics().encode()
            case _, ["rules", *_] | ["nodes"] | ["stats"] | ["metrics"]:
                raise HttpError(405, f"{method} is not possible here")
        raise HttpError(404, "there are /rules, /nodes, /stats and /metrics")

    def _add(self, body: bytes) -> ActiveRule:
        try:
            return self.proxy.engine.add(msgspec.json.decode(body, type=Rule))
        except (msgspec.MsgspecError, RuleError) as error:
            raise HttpError(400, str(error)) from error

    def _rule(self, name: str) -> ActiveRule:
        try:
            return self.proxy.engine.rule(name)
        except KeyError:
            raise HttpError(404, f"there is no rule {name!r}") from None

    def _nodes(self) -> list[dict[str, Any]]:
        return [
            {
                "listen": "{}:{}".format(*link.address),
                "to": link.target.name,
                "names": sorted(link.target.names),
            }
            for link in self.proxy.links
        ]

    def _stats(self) -> dict[str, Any]:
        stats = self.proxy.stats
        return {
            "connections": {"open": len(self.proxy.connections), "all": stats.connections},
            "messages": [
                {"direction": key[0], "api": key[1], "count": count, "bytes": stats.bytes[key]}
                for key, count in sorted(stats.frames.items())
            ],
            "reports": dict(self.proxy.engine.reports),
        }

    def _metrics(self) -> str:
        """Return the counts in the text format of Prometheus."""
        proxy, stats = self.proxy, self.proxy.stats
        rows: list[tuple[str, str, str, list[tuple[dict[str, str], int]]]] = [
            ("connections", "gauge", "Open connections of peers.", [({}, len(proxy.connections))]),
            ("connections_total", "counter", "Connections of peers.", [({}, stats.connections)]),
        ]
        for name, text, counts in (
            ("messages_total", "Messages that came.", stats.frames),
            ("message_bytes_total", "Bytes of messages that came.", stats.bytes),
        ):
            values = [({"direction": key[0], "api": key[1]}, n) for key, n in counts.items()]
            rows.append((name, "counter", text, values))
        rules = proxy.engine.rules
        for name, kind, text, read in (
            ("rule_matches_total", "counter", "Messages that a rule matched.", "matched"),
            ("rule_actions_total", "counter", "Messages that a rule acted on.", "acted"),
        ):
            values = [({"rule": rule.name}, getattr(rule, read)) for rule in rules]
            rows.append((name, kind, text, values))
        held = [({"rule": rule.name}, rule.held) for rule in rules]
        rows.append(("held_messages", "gauge", "Messages that a rule holds.", held))
        reports = sum(proxy.engine.reports.values())
        rows.append(("reports_total", "counter", "What could not be decoded.", [({}, reports)]))
        return "".join(_metric(*row) for row in rows)


def _metric(name: str, kind: str, text: str, values: list[tuple[dict[str, str], int]]) -> str:
    full = f"kraftspec_proxy_{name}"
    lines = [f"# HELP {full} {text}", f"# TYPE {full} {kind}"]
    for labels, value in values:
        pairs = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
        lines.append(f"{full}{{{pairs}}} {value}" if pairs else f"{full} {value}")
    return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


async def _request(reader: asyncio.StreamReader) -> tuple[str, str, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    method, path, _ = first.split(" ")
    length = 0
    for line in lines:
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            length = int(value)
    if length > BODY_BYTES_MAX:
        raise HttpError(413, f"a rule has {BODY_BYTES_MAX} bytes at the most")
    return method, path, await reader.readexactly(length)


def _shown(rule: ActiveRule) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(rule.rule)
    return {
        **fields,
        "name": rule.name,
        "matched": rule.matched,
        "acted": rule.acted,
        "held": rule.held,
    }


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value) + b"\n"
