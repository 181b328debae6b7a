"""Who may call what, as ``ControllerApis`` asks and ``StandardAuthorizer`` answers.

Each API of the quorum needs one operation on the cluster. Super users have all of them; ACLs of the
cluster, in the metadata log, give them to others or take them away. Where neither says anything the
answer is no: of listeners that are not PLAINTEXT that holds here without an authorizer, too, where
Kafka would let everybody in who has authenticated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kraftspec.generated import kafka

if TYPE_CHECKING:
    from kraftspec.reference.node.settings import SecurityConfig

CLUSTER_RESOURCE: Final = 4  # org.apache.kafka.common.resource.ResourceType.CLUSTER
CLUSTER_NAME: Final = "kafka-cluster"
ANY_NAME: Final = "*"
ANY_HOST: Final = "*"
ANY_USER: Final = "User:*"


_IP_V4: Final = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})")
_PREFIX_V4: Final = re.compile(r"[0-9]{1,2}")


class Operation(IntEnum):
    """Of ``org.apache.kafka.common.acl.AclOperation`` what can be about a cluster here."""

    ALL = 2
    READ = 3
    WRITE = 4
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9


class Permission(IntEnum):
    """``org.apache.kafka.common.acl.AclPermissionType``."""

    DENY = 2
    ALLOW = 3


class Pattern(IntEnum):
    """``org.apache.kafka.common.resource.PatternType``, as records have it."""

    LITERAL = 3
    PREFIXED = 4


class Acl(NamedTuple):
    """An ACL that is about the cluster."""

    principal: str
    host: str
    operation: int
    permission: int


# Who may do one of these may describe, too (``AclEntry``'s implied operations); never the reverse,
# and never where something is denied.
_DESCRIBES: Final = (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)

_NEEDS: Final = {
    Operation.CLUSTER_ACTION: (
        "Fetch",
        "Vote",
        "BeginQuorumEpoch",
        "EndQuorumEpoch",
        "FetchSnapshot",
        "UpdateRaftVoter",
        "ControllerRegistration",
        # What brokers send to the active controller, which this node never is.
        "AllocateProducerIds",
        "AlterPartition",
        "AssignReplicasToDirs",
        "BrokerHeartbeat",
        "BrokerRegistration",
        "Envelope",
        "FetchQuorumRecords",  # Of KIP-595 as drafted, and so is FindQuorum.
    ),
    # Of a broker, everybody may ask for DescribeCluster; of a controller, who may alter it.
    Operation.ALTER: (
        "AddRaftVoter",
        "RemoveRaftVoter",
        "DescribeCluster",
        "UnregisterController",
        "UpdateFeatures",
        "AlterQuorum",  # Of KIP-595 as drafted.
        "AddVoter",  # Of KIP-853 as drafted.
        "RemoveVoter",
    ),
    Operation.DESCRIBE: ("DescribeQuorum", "FindQuorum"),
}


def needs_of(messages: Any) -> dict[int, Operation]:
    """Return what the requests of a package of generated messages need, by API key."""
    return {
        getattr(messages, f"{name}Request").API_KEY: operation
        for operation, names in _NEEDS.items()
        for name in names
        if f"{name}Request" in messages.CATALOGUE
    }


NEEDS: Final = needs_of(kafka)
# Everybody may ask, before authentication, too.
_OPEN: Final = (
    kafka.ApiVersionsRequest.API_KEY,
    kafka.SaslHandshakeRequest.API_KEY,
    kafka.SaslAuthenticateRequest.API_KEY,
)


class Authorizer:
    """``acls`` are asked for each time, since records change them."""

    def __init__(
        self,
        config: SecurityConfig,
        acls: Callable[[], Iterable[Acl]],
        needs: Mapping[int, Operation] = NEEDS,
    ) -> None:
        self._config = config
        self._needs = needs
        self._acls = acls

    def allowed(self, principal: str, api_key: int, host: str = "") -> bool:
        """Whether a principal may call an API from a host; an API of no known need, nobody may."""
        if not self._config.is_on or api_key in _OPEN or principal in self._config.super_users:
            return True
        needed = self._needs.get(api_key)
        return needed is not None and self._has(principal, needed, host)

    def _has(self, principal: str, needed: Operation, host: str) -> bool:
        acls = list(self._acls())
        if not acls:
            return self._config.allow_if_no_acl
        about = [
            acl
            for acl in acls
            if acl.principal in (principal, ANY_USER)
            and (acl.host in (host, ANY_HOST) or in_range(host, acl.host))
        ]
        exact = (needed, Operation.ALL)
        if any(acl.permission == Permission.DENY and acl.operation in exact for acl in about):
            return False
        enough = (*exact, *_DESCRIBES) if needed is Operation.DESCRIBE else exact
        return any(acl.permission == Permission.ALLOW and acl.operation in enough for acl in about)


def in_range(host: str, pattern: str) -> bool:
    """Whether an address is in the range that an ACL has for a host, which it may since Kafka 4.4.

    A range is in CIDR notation: 10.1.0.0/16, 2001:db8::/32. What is none has no address in it.
    """
    address, slash, bits = pattern.partition("/")
    if not slash:
        return False
    try:
        if ":" not in pattern:
            numbers = _IP_V4.fullmatch(address)
            if numbers is None or _PREFIX_V4.fullmatch(bits) is None:
                return False
            address = ".".join(str(int(number)) for number in numbers.groups())
        elif IPv6Address(address).ipv4_mapped is not None:
            return False  # To Java it is one of version 4.
        return ip_address(host) in ip_network(f"{address}/{int(bits)}", strict=False)
    except ValueError:
        return False


def cluster_acl(record: kafka.AccessControlEntryRecord) -> Acl | None:
    """Return what a record says about the cluster; None where it is about something else."""
    if record.resource_type != CLUSTER_RESOURCE:
        return None
    if record.pattern_type == Pattern.PREFIXED:
        is_about = CLUSTER_NAME.startswith(record.resource_name)
    else:
        is_about = record.resource_name in (CLUSTER_NAME, ANY_NAME)
    if not is_about:
        return None
    return Acl(record.principal, record.host, record.operation, record.permission_type)
