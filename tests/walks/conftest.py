"""The walks take Kafka's jars from where the tests of the specs take them."""

from __future__ import annotations

from tests.specs.conftest import KafkaJar, kafka_jar

__all__ = ["KafkaJar", "kafka_jar"]
