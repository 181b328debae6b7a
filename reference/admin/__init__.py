"""A small admin client for Kafka's controllers and brokers, ours or Apache Kafka's own.

Blocking, on one socket at a time, with nothing but the generated messages: a command that asks one
question starts fast::

    from kraftspec.reference.admin import AdminClient

    with AdminClient("localhost:9093", to_controllers=True) as admin:
        quorum = admin.describe_quorum()
        print(quorum.leader_id, quorum.high_watermark)

`client` has the calls and who is asked, `connection` is one connection, `config` are Kafka's own
client properties.

Called by the command line, by `local` and by tests; it may import the node, of which it has TLS,
SASL and the reading of properties. The node imports nothing from here.
"""

from kraftspec.reference.admin.client import (
    AdminClient,
    Cluster,
    Endpoint,
    Node,
    QuorumInfo,
    Replica,
)
from kraftspec.reference.admin.config import ClientConfig, load_client_config
from kraftspec.reference.admin.errors import AdminError, AnswerError, TimedOutError

__all__ = [
    "AdminClient",
    "AdminError",
    "AnswerError",
    "ClientConfig",
    "Cluster",
    "Endpoint",
    "Node",
    "QuorumInfo",
    "Replica",
    "TimedOutError",
    "load_client_config",
]
