"""One Java process that runs Kafka's own tools for all tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.reference.kafka_tools import KafkaTools


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaTools]:
    with KafkaTools() as tools:
        yield tools
