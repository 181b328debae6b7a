"""Drives aiokafka. Its tasks run while a verb does."""

import asyncio
import ssl
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import for_code
from driving import drive

LOOP = asyncio.new_event_loop()
asyncio.set_event_loop(LOOP)
T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run what a verb does. The client's own tasks may be cancelled, and show it."""
    try:
        return LOOP.run_until_complete(work)
    except asyncio.CancelledError as error:
        raise RuntimeError("asyncio.CancelledError") from error


class Driven:
    """A producer, and consumers as they are needed."""

    def __init__(self, ask: dict[str, Any]) -> None:
        security = ask.get("security", {})
        self.common: dict[str, Any] = {
            "bootstrap_servers": ask["bootstrap"],
            "client_id": "suite",
            "request_timeout_ms": ask["timeout_ms"],
            "retry_backoff_ms": 20,
        }
        protocol = "SSL" if "ca" in security else "PLAINTEXT"
        if "user" in security:
            protocol = f"SASL_{protocol}"
            self.common |= {
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": security["user"],
                "sasl_plain_password": security["password"],
            }
        if "ca" in security:
            self.common["ssl_context"] = ssl.create_default_context(cafile=security["ca"])
        self.common["security_protocol"] = protocol
        run(self._start(ask))

    async def _start(self, ask: dict[str, Any]) -> None:
        self.producer = AIOKafkaProducer(
            **self.common,
            acks={-1: "all"}.get(ask.get("acks", -1), ask.get("acks", -1)),
            enable_idempotence=ask.get("idempotent", False),
        )
        await self.producer.start()

    def produce(self, ask: dict[str, Any]) -> None:
        """Send values, and wait for each."""
        run(self._produce(ask))

    async def _produce(self, ask: dict[str, Any]) -> None:
        where = {"topic": ask["topic"], "partition": ask.get("partition", 0)}
        futures = [await self.producer.send(value=one.encode(), **where) for one in ask["values"]]
        for future in futures:
            await future

    def consume(self, ask: dict[str, Any]) -> list[str]:
        """Read a partition from an offset."""
        return run(self._consume(ask))

    async def _consume(self, ask: dict[str, Any]) -> list[str]:
        values: list[str] = []
        consumer = AIOKafkaConsumer(
            **self.common, fetch_max_wait_ms=100, auto_offset_reset="none", enable_auto_commit=False
        )
        until = LOOP.time() + ask["timeout_ms"] / 1000
        try:
            await consumer.start()
            partition = TopicPartition(ask["topic"], ask.get("partition", 0))
            consumer.assign([partition])
            consumer.seek(partition, ask.get("offset", 0))
            while len(values) < ask["count"]:
                if LOOP.time() > until:
                    raise TimeoutError(f"{len(values)} records came in time")
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    values += [record.value.decode() for record in records]
        finally:
            await consumer.stop()
        return values[: ask["count"]]

    def admin(self, ask: dict[str, Any]) -> None:
        """Create a topic."""
        run(self._admin(ask))

    async def _admin(self, ask: dict[str, Any]) -> None:
        admin = AIOKafkaAdminClient(**self.common)
        try:
            await admin.start()
            topic = NewTopic(ask["create_topic"], 1, 1)
            answer = await admin.create_topics([topic], timeout_ms=ask["timeout_ms"])
            # It leaves the codes in the answer, for its caller to look at.
            for _, code, *_ in answer.topic_errors:
                if code:
                    raise for_code(code)
        finally:
            await admin.close()

    def close(self, ask: dict[str, Any]) -> None:
        """Close the producer."""
        run(self.producer.stop())


drive("aiokafka", aiokafka.__version__, Driven)
