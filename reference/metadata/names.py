"""The names of what metadata records number, as Apache Kafka 4.4.0's tools print them."""

from __future__ import annotations

from typing import Final

# org.apache.kafka.common.config.ConfigResource.Type
CONFIG_RESOURCES: Final = {
    2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP",
}  # fmt: skip
# org.apache.kafka.common.resource.ResourceType and PatternType
ACL_RESOURCES: Final = dict(
    enumerate(
        ("UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN",
         "USER")
    )
)  # fmt: skip
PATTERNS: Final = dict(enumerate(("UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED")))
# org.apache.kafka.common.acl.AclOperation and AclPermissionType
OPERATIONS: Final = dict(
    enumerate(
        ("UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE",
         "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE",
         "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT")
    )
)  # fmt: skip
PERMISSIONS: Final = dict(enumerate(("UNKNOWN", "ANY", "DENY", "ALLOW")))
# org.apache.kafka.clients.admin.ScramMechanism
MECHANISMS: Final = {0: "UNKNOWN", 1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
