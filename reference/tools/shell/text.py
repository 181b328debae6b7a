"""What Apache Kafka's shell prints for each thing of an image, to the letter.

Sources: ``toString`` of ``BrokerRegistration``, ``ControllerRegistration``,
``PartitionRegistration``, ``StandardAcl``, ``Endpoint``, ``VersionRange``, and the ``print`` of
``ScramCredentialDataNode``, ``DelegationTokenDataNode`` and ``ProvenanceNode``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import isinf, isnan
from typing import Any, Final

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.generated import kafka
from kraftspec.reference.metadata.features import NAMES
from kraftspec.reference.metadata.names import (
    ACL_RESOURCES,
    OPERATIONS,
    PATTERNS,
    PERMISSIONS,
)

_SECURITY_PROTOCOLS: Final = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
_RECOVERY_STATES: Final = {0: "RECOVERED", 1: "RECOVERING"}
_UNKNOWN: Final = "UNKNOWN"
_INT16_MAX: Final = (1 << 15) - 1
_SMALL, _LARGE = 1e-3, 1e7  # Outside, Java writes a double with an exponent.
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# The calendar repeats after 400 years.
_CYCLE_YEARS: Final = 400
_CYCLE_MS: Final = 146_097 * 86_400_000
_YEAR_DIGITS_MAX: Final = 9999


def java_order(text: str) -> bytes:
    """Return what strings are sorted by in Java: their UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def boolean(value: bool) -> str:
    """Return true or false."""
    return "true" if value else "false"


def optional(value: str | None) -> str:
    """Return how Java prints an Optional."""
    return "Optional.empty" if value is None else f"Optional[{value}]"


def list_of(items: Iterable[object]) -> str:
    """Return how Java prints a list, or an array by ``Arrays.toString``."""
    return f"[{', '.join(map(str, items))}]"


def double(value: float) -> str:
    """Return how Java prints a double."""
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    shortest = Decimal(repr(value))
    if value == 0 or _SMALL <= abs(value) < _LARGE:
        plain = f"{shortest:f}"
        return plain if "." in plain else f"{plain}.0"
    digits = "".join(map(str, shortest.as_tuple().digits)).rstrip("0")
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{shortest.adjusted()}"


def instant(timestamp_ms: int) -> str:
    """Return a time as Java's ISO_ZONED_DATE_TIME has it, in UTC; any int64 is one."""
    cycles = timestamp_ms // _CYCLE_MS
    shown = _EPOCH + timedelta(milliseconds=timestamp_ms - cycles * _CYCLE_MS)
    number = shown.year + cycles * _CYCLE_YEARS
    year = f"{number:04d}" if number >= 0 else f"-{-number:04d}"
    if number > _YEAR_DIGITS_MAX:
        year = f"+{number}"
    fraction = f".{shown.microsecond // 1000:03d}".rstrip("0").rstrip(".")
    return f"{year}{shown:-%m-%dT%H:%M:%S}{fraction}Z[UTC]"


def provenance(offset: int, epoch: int, timestamp_ms: int) -> str:
    """Return the offset of the last record, its epoch, and when it was appended."""
    return f"offset {offset}, epoch {epoch}, time {instant(timestamp_ms)}"


def metadata_version(level: int | None) -> str:
    """Return the release that a level of metadata.version stands for."""
    if level is None:
        return optional(None)
    return optional(NAMES.get(level, f"unknown level {level}"))


def _endpoints(endpoints: Iterable[Any]) -> str:
    # Of two of one name the last counts, as in Kafka's map.
    by_name = {each.name: each for each in endpoints}
    return list_of(
        f"Endpoint(listenerName='{name}', securityProtocol={_protocol(each.security_protocol)}, "
        f"host='{each.host}', port={each.port})"
        for name, each in _sorted(by_name)
    )


def _protocol(number: int) -> str:
    return _SECURITY_PROTOCOLS.get(number, str(number))


def _features(features: Iterable[Any]) -> str:
    by_name = {each.name: each for each in features}
    ranges = (
        f"{name}: {_range(each.min_supported_version, each.max_supported_version)}"
        for name, each in _sorted(by_name)
    )
    return "{" + ", ".join(ranges) + "}"


def _range(low: int, high: int) -> str:
    if low == high:
        return str(low)
    return f"{low}+" if high == _INT16_MAX else f"{low}-{high}"


def _sorted(by_name: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted(by_name.items(), key=lambda item: java_order(item[0]))


def _signed(uuid: bytes) -> tuple[int, int]:
    """Return what Kafka's Uuid is ordered by: two signed longs."""
    high, low = (
        int.from_bytes(uuid[at : at + 8], "big", signed=True) for at in (0, 8)
    )  # fmt: skip
    return high, low


def broker(record: kafka.RegisterBrokerRecord) -> str:
    """Return a broker's registration."""
    cordoned = record.cordoned_log_dirs
    directories = sorted(record.log_dirs, key=_signed)
    return (
        f"BrokerRegistration(id={record.broker_id}, epoch={record.broker_epoch}, "
        f"incarnationId={record.incarnation_id}, listeners={_endpoints(record.end_points)}, "
        f"supportedFeatures={_features(record.features)}, rack={optional(record.rack)}, "
        f"fenced={boolean(record.fenced)}, "
        f"inControlledShutdown={boolean(record.in_controlled_shutdown)}, "
        f"isMigratingZkBroker={boolean(record.is_migrating_zk_broker)}, "
        f"directories={list_of(directories)}, "
        f"cordonedDirectories={'null' if cordoned is None else list_of(cordoned)})"
    )


def controller(record: kafka.RegisterControllerRecord) -> str:
    """Return a controller's registration."""
    return (
        f"ControllerRegistration(id={record.controller_id}, "
        f"incarnationId={record.incarnation_id}, "
        f"zkMigrationReady={boolean(record.zk_migration_ready)}, "
        f"listeners={_endpoints(record.end_points)}, "
        f"supportedFeatures={_features(record.features)})"
    )


def partition(record: kafka.PartitionRecord) -> str:
    """Return a partition's state; replicas of records before KIP-858 have no directories."""
    directories = record.directories or (ZERO_UUID,) * len(record.replicas)
    state = record.leader_recovery_state
    return (
        f"PartitionRegistration(replicas={list_of(record.replicas)}, "
        f"directories={list_of(directories)}, isr={list_of(record.isr)}, "
        f"removingReplicas={list_of(record.removing_replicas)}, "
        f"addingReplicas={list_of(record.adding_replicas)}, "
        f"elr={list_of(record.eligible_leader_replicas or ())}, "
        f"lastKnownElr={list_of(record.last_known_elr or ())}, leader={record.leader}, "
        f"leaderRecoveryState={_RECOVERY_STATES.get(state, str(state))}, "
        f"leaderEpoch={record.leader_epoch}, partitionEpoch={record.partition_epoch})"
    )


def acl(record: kafka.AccessControlEntryRecord) -> str:
    """Return an access control entry."""
    return (
        f"StandardAcl[resourceType={ACL_RESOURCES.get(record.resource_type, _UNKNOWN)}, "
        f"resourceName={record.resource_name}, "
        f"patternType={PATTERNS.get(record.pattern_type, _UNKNOWN)}, "
        f"principal={record.principal}, host={record.host}, "
        f"operation={OPERATIONS.get(record.operation, _UNKNOWN)}, "
        f"permissionType={PERMISSIONS.get(record.permission_type, _UNKNOWN)}]"
    )


def scram(record: kafka.UserScramCredentialRecord) -> str:
    """Return a SCRAM credential, its secrets in hex."""
    return (
        f"ScramCredentialData(salt={record.salt.hex()}, storedKey={record.stored_key.hex()}, "
        f"serverKey={record.server_key.hex()}, iterations={record.iterations})"
    )


def token(record: kafka.DelegationTokenRecord) -> str:
    """Return a delegation token; the parentheses are as they are in Kafka's."""
    return (
        f"DelegationTokenDatatokenId={record.token_id}(owner={record.owner}"
        f"(tokenRequester={record.requester}(renewers={' '.join(record.renewers)}, "
        f"issueTimestamp={record.issue_timestamp}, maxTimestamp={record.max_timestamp}), "
        f"expiryTimestamp={record.expiration_timestamp}"
    )


def voter(record: kafka.VotersRecord.Voter) -> str:
    """Return a voter: this node is not in Kafka's shell."""
    endpoints = list_of(f"{each.name}://{each.host}:{each.port}" for each in record.endpoints)
    versions = record.k_raft_version_feature
    return (
        f"Voter(id={record.voter_id}, directoryId={record.voter_directory_id}, "
        f"endpoints={endpoints}, kraftVersions="
        f"{_range(versions.min_supported_version, versions.max_supported_version)})"
    )
