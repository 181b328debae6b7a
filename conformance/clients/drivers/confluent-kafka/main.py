"""Drives librdkafka by confluent-kafka."""

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from driving import drive


class Driven:
    """A producer, and consumers as they are needed."""

    def __init__(self, ask: dict[str, Any]) -> None:
        timeout = ask["timeout_ms"]
        security = ask.get("security", {})
        self.common: dict[str, Any] = {
            "bootstrap.servers": ask["bootstrap"],
            "client.id": "suite",
            "socket.timeout.ms": timeout,
            "socket.connection.setup.timeout.ms": max(timeout, 1_000),  # The least it takes.
            "topic.metadata.propagation.max.ms": timeout,
            "topic.metadata.refresh.fast.interval.ms": 20,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 100,
            "log_level": 0,
        }
        protocol = "SSL" if "ca" in security else "PLAINTEXT"
        if "user" in security:
            protocol = f"SASL_{protocol}"
            self.common |= {
                "sasl.mechanism": "PLAIN",
                "sasl.username": security["user"],
                "sasl.password": security["password"],
            }
        if "ca" in security:
            self.common |= {"ssl.ca.location": security["ca"]}
        self.common["security.protocol"] = protocol
        self.producer = Producer(
            {
                **self.common,
                "acks": ask.get("acks", -1),
                "enable.idempotence": ask.get("idempotent", False),
                "message.timeout.ms": timeout,
                "request.timeout.ms": timeout,
                "linger.ms": 0,
            }
        )

    def produce(self, ask: dict[str, Any]) -> None:
        """Send values, and wait for what is said of each."""
        errors: list[Any] = []
        for value in ask["values"]:
            self.producer.produce(
                ask["topic"],
                value.encode(),
                partition=ask.get("partition", 0),
                on_delivery=lambda error, _: errors.append(error),
            )
        while len(errors) < len(ask["values"]):
            self.producer.poll(0.1)
        for error in errors:
            if error is not None:
                raise KafkaException(error)

    def consume(self, ask: dict[str, Any]) -> list[str]:
        """Read a partition from an offset."""
        values: list[str] = []
        settings = {
            "group.id": "suite",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 20,
        }
        consumer = Consumer({**self.common, **settings})
        try:
            where = TopicPartition(ask["topic"], ask.get("partition", 0), ask.get("offset", 0))
            consumer.assign([where])
            until = time.monotonic() + ask["timeout_ms"] / 1000
            while len(values) < ask["count"]:
                if time.monotonic() > until:
                    raise TimeoutError(f"{len(values)} records came in time")
                record = consumer.poll(0.1)
                if record is None:
                    continue
                if record.error() is not None:
                    raise KafkaException(record.error())
                values.append(record.value().decode())
        finally:
            consumer.close()
        return values

    def admin(self, ask: dict[str, Any]) -> None:
        """Create a topic."""
        admin = AdminClient(self.common)
        futures = admin.create_topics(
            [NewTopic(ask["create_topic"], num_partitions=1, replication_factor=1)],
            request_timeout=ask["timeout_ms"] / 1000,
        )
        futures[ask["create_topic"]].result()

    def close(self, ask: dict[str, Any]) -> None:
        """Wait for what is under way; the producer goes with this object."""
        self.producer.flush(ask["timeout_ms"] / 1000)


drive("confluent-kafka", confluent_kafka.__version__, Driven)
