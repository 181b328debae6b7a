"""Drives kafka-python."""

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

import kafka
from driving import drive
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic


class Driven:
    """A producer, and consumers as they are needed."""

    def __init__(self, ask: dict[str, Any]) -> None:
        timeout = ask["timeout_ms"]
        security = ask.get("security", {})
        self.common: dict[str, Any] = {
            "bootstrap_servers": ask["bootstrap"],
            "client_id": "suite",
            "request_timeout_ms": timeout,
            "bootstrap_timeout_ms": timeout,
            "reconnect_backoff_ms": 20,
            "reconnect_backoff_max_ms": 100,
            "retry_backoff_ms": 20,
        }
        protocol = "SSL" if "ca" in security else "PLAINTEXT"
        if "user" in security:
            protocol = "SASL_SSL" if "ca" in security else "SASL_PLAINTEXT"
            self.common |= {
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": security["user"],
                "sasl_plain_password": security["password"],
            }
        if "ca" in security:
            self.common |= {"ssl_cafile": security["ca"]}
        self.common["security_protocol"] = protocol
        self.producer = KafkaProducer(
            **self.common,
            acks={-1: "all"}.get(ask.get("acks", -1), ask.get("acks", -1)),
            enable_idempotence=ask.get("idempotent", False),
            delivery_timeout_ms=timeout,
            max_block_ms=timeout,
            linger_ms=0,
        )

    def produce(self, ask: dict[str, Any]) -> None:
        """Send values, and wait for each."""
        futures = [
            self.producer.send(ask["topic"], value.encode(), partition=ask.get("partition", 0))
            for value in ask["values"]
        ]
        for future in futures:
            future.get(ask["timeout_ms"] / 1000)

    def consume(self, ask: dict[str, Any]) -> list[str]:
        """Read a partition from an offset."""
        values: list[str] = []
        consumer = KafkaConsumer(**self.common, fetch_max_wait_ms=100, auto_offset_reset="none")
        try:
            partition = TopicPartition(ask["topic"], ask.get("partition", 0))
            consumer.assign([partition])
            consumer.seek(partition, ask.get("offset", 0))
            until = time.monotonic() + ask["timeout_ms"] / 1000
            while len(values) < ask["count"]:
                if time.monotonic() > until:
                    raise TimeoutError(f"{len(values)} records came in time")
                for records in consumer.poll(timeout_ms=100).values():
                    values += [record.value.decode() for record in records]
        finally:
            consumer.close()
        return values[: ask["count"]]

    def admin(self, ask: dict[str, Any]) -> None:
        """Create a topic."""
        admin = KafkaAdminClient(**self.common)
        try:
            admin.create_topics([NewTopic(ask["create_topic"], 1, 1)], timeout_ms=ask["timeout_ms"])
        finally:
            admin.close()

    def close(self, ask: dict[str, Any]) -> None:
        """Close the producer."""
        self.producer.close(timeout=ask["timeout_ms"] / 1000)


drive("kafka-python", kafka.__version__, Driven)
