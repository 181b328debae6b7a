"""A real Apache Kafka cluster on loopback: formatted, started, killed and cleaned up by this.

``with Cluster(directory, controllers=3, brokers=2) as cluster:`` gives a healthy cluster of the
release that the specs are of. Its jars come from Maven once and are kept in the cache; nothing
else has to be installed but a JDK and Maven. Controllers form a quorum of kraft.version 1 (by
``--initial-controllers`` or ``--standalone``) or a static one. No process outlives its parent,
however that ends.
"""

from kraftspec.conformance.cluster.artifacts import ClusterError, class_path, java_command
from kraftspec.conformance.cluster.ask import ask
from kraftspec.conformance.cluster.cluster import Cluster, Quorum
from kraftspec.conformance.cluster.node import Node

__all__ = ["Cluster", "ClusterError", "Node", "Quorum", "ask", "class_path", "java_command"]
