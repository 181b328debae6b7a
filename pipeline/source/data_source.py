"""The data source itself."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource


class KafkaLog(DataSource):
    """Kafka's log directories as tables."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kafkalog"
