"""A small virtual network and clock for the nodes of one run: its seed decides every delay."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from tests.simulation.harness.process import Event, RawHarness, command

NEVER_US = (1 << 63) - 1
UP = 1
LEADER = 3
PORT_BASE = 9000


def directory_id(node: int) -> bytes:
    return bytes([0xD0 + node]) * 16


class VirtualNetwork:
    """Nodes of one run in a harness, their messages and their time, µs.

    ``states`` has the last state of each node, ``seen`` every event, ``counts`` how many of each.
    """

    def __init__(self, harness: RawHarness, *, run: int = 1, seed: int = 1) -> None:
        self.harness = harness
        self.run = run
        self.random = Random(seed)
        self.now_us = 1_000_000
        self.states: dict[int, Event] = {}
        self.seen: list[Event] = []
        self.counts: Counter[str] = Counter()
        self._queue: list[tuple[int, int, Callable[[], bytes]]] = []
        self._number = 0
        self._asked: dict[int, tuple[int, int, int, int]] = {}
        self._due: dict[int, int] = {}

    def define(self, node: int, **changed: Any) -> None:
        fields: dict[str, Any] = {
            "directory_id": directory_id(node),
            "cluster_id": "c2ltdWxhdGVkLWNsdXN0ZQ",
            "port_base": PORT_BASE,
            "can_become_voter": True,
            "auto_join": False,
            "static_voters": [],
            "bootstrap_servers": [],
            "election_timeout_us": 1_000_000,
            "fetch_timeout_us": 2_000_000,
            "election_backoff_max_us": 1_000_000,
            "request_timeout_us": 2_000_000,
            "retry_backoff_us": 20_000,
            "append_linger_us": 5_000,
            "fetch_max_bytes": 1 << 20,
            "fetch_snapshot_max_bytes": 1 << 16,
            "retention_bytes": 1 << 30,
        }
        self.do("define", node, **(fields | changed))

    def start(self, node: int) -> list[Event]:
        return self.do("start", node, now_us=self.now_us, seed=self.random.randrange(1 << 47))

    def do(self, name: str, node: int, **fields: Any) -> list[Event]:
        """One command, and what follows from its events."""
        return self._send(command(name, self.run, node, **fields))

    def act(self, name: str, node: int, **fields: Any) -> list[Event]:
        """A command whose first field is the time."""
        return self.do(name, node, now_us=self.now_us, **fields)

    def power_loss(self, node: int, batches: int = 0, torn: int = 0, files: bool = False) -> Event:
        return self.do("power_loss", node, batches=batches, torn_bytes=torn, files=files)[-1]

    def leader(self) -> int | None:
        leading = [
            (state["epoch"], node)
            for node, state in self.states.items()
            if state["status"] == UP and state["role"] == LEADER
        ]
        return max(leading)[1] if leading else None

    def up(self) -> list[int]:
        return [node for node, state in self.states.items() if state["status"] == UP]

    def agree(self) -> bool:
        """Whether all that are up have the same high watermark, and it is the end of their logs."""
        offsets = {
            offset
            for node in self.up()
            for offset in (self.states[node]["high_watermark"], self.states[node]["log_end"])
        }
        return len(offsets) == 1 and -1 not in offsets

    def until(self, condition: Callable[[], bool], limit_us: int = 60_000_000) -> None:
        """Lets time pass until something holds."""
        end_us = self.now_us + limit_us
        while not condition():
            at_us, _, make = heapq.heappop(self._queue)
            if at_us > end_us:
                raise AssertionError(f"not within {limit_us / 1e6} s: {self.states}")
            self.now_us = max(self.now_us, at_us)
            if data := make():
                self._send(data)

    def sleep(self, us: int) -> None:
        """Lets so much time pass."""
        end_us = self.now_us + us
        self._at(end_us, lambda: b"")  # So that there is something to wait for.
        self.until(lambda: self.now_us >= end_us, us)

    def _at(self, at_us: int, make: Callable[[], bytes]) -> None:
        # Of what is due at one time, the seed decides the order.
        self._number += 1
        order = self.random.randrange(1 << 20) << 40 | self._number
        heapq.heappush(self._queue, (at_us, order, make))

    def _send(self, data: bytes) -> list[Event]:
        answer = self.harness.ask(data)
        for event in answer:
            assert event["run"] == self.run
            self.counts[event["name"]] += 1
            self.seen.append(event)
            react = getattr(self, f"_on_{event['name']}", None)
            if react is not None:
                react(event)
        return answer

    def _delay_us(self) -> int:
        return self.random.randrange(200, 5_000)

    def _command(self, name: str, node: int, **fields: Any) -> bytes:
        return command(name, self.run, node, now_us=self.now_us, **fields)

    def _on_wrong(self, event: Event) -> None:
        raise AssertionError(event)

    def _on_state(self, event: Event) -> None:
        node, due_us = event["node"], event["deadline_us"]
        self.states[node] = event
        self._due[node] = due_us
        if due_us == NEVER_US or event["status"] != UP:
            return

        def tick() -> bytes:
            return self._command("tick", node) if self._due.get(node) == due_us else b""

        self._at(due_us, tick)

    def _on_sent(self, event: Event) -> None:
        source, target = event["node"], event["port"] - PORT_BASE
        self._number += 1
        token = self._number
        self._asked[token] = (source, event["correlation"], event["api_key"], event["version"])
        body = event["body"]

        def arrive() -> bytes:
            cannot = event["version"] < 0
            if cannot or target not in self.up():
                return self._command(
                    "fail", source, correlation=event["correlation"], is_unsupported=cannot
                )
            return self._command(
                "request", target, token=token, api_key=event["api_key"],
                version=event["version"], body=body,
            )  # fmt: skip

        self._at(self.now_us + self._delay_us(), arrive)

    def _on_answered(self, event: Event) -> None:
        if event["token"] not in self._asked:
            return  # An operator asked, and reads what was seen.
        source, correlation, api_key, version = self._asked.pop(event["token"])

        def arrive() -> bytes:
            return self._command(
                "reply", source, correlation=correlation, api_key=api_key, version=version,
                body=event["body"],
            )  # fmt: skip

        self._at(self.now_us + self._delay_us(), arrive)
