"""kraftspec: the Kafka / KRaft protocol, specification first."""

__version__ = "0.1.0"
