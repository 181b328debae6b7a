"""A real Apache Kafka cluster on loopback: it is formatted, started, killed and cleaned up here.

``with Cluster(directory, controllers=3, brokers=2) as cluster:`` gives a healthy cluster of the
release of the specs, or of any other of ``RELEASES``; nodes of several releases may be mixed. Maven
fetches the jars once into the cache; only a JDK and Maven have to be installed. Controllers form a
quorum of kraft.version 1 (by ``--initial-controllers`` or ``--standalone``) or a static one. No
process outlives its parent.
"""

from kraftspec.conformance.cluster.artifacts import (
    QUORUM_COMMAND,
    RELEASE,
    RELEASES,
    TOOLS_RELEASE,
    ClusterError,
    class_path,
    java_command,
)
from kraftspec.conformance.cluster.cluster import Cluster, Quorum
from kraftspec.conformance.cluster.node import Node

__all__ = [
    "QUORUM_COMMAND",
    "RELEASE",
    "RELEASES",
    "TOOLS_RELEASE",
    "Cluster",
    "ClusterError",
    "Node",
    "Quorum",
    "class_path",
    "java_command",
]
