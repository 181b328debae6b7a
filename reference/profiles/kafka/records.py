"""Control records and record batches as Kafka writes them (KIP-595, KIP-630, KIP-853).

A control record's key is its version and type; its value is the bare message, whose layout is that
of version 0, and whose first field is written 0 as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.walk import iterate_headers
from kraftspec.generated.control_records import ControlRecordType
from kraftspec.generated.kafka import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    VotersRecord,
)
from kraftspec.reference.profiles.common.translation import get_endpoints, put_endpoints
from kraftspec.reference.raft.control import ControlRecord, KRaftVersion, LeaderChange, Voters
from kraftspec.reference.raft.messages import Batch, Bytes
from kraftspec.reference.raft.types import ReplicaKey, VersionRange, Voter
from kraftspec.reference.raft.voters import VoterSet

VERSION = 0  # The only version of all three that Apache Kafka 4.4.0 writes.
CONTROL = 0x20  # The attribute bit of a control batch.


def encode_control(record: ControlRecord) -> tuple[int, bytes]:
    """Return the control type and the value of a record of the core."""
    match record:
        case LeaderChange():
            return ControlRecordType.LEADER_CHANGE, put_leader_change(LeaderChangeMessage, record)
        case KRaftVersion():
            level = KRaftVersionRecord(k_raft_version=record.level)
            return ControlRecordType.KRAFT_VERSION, level.encode(VERSION)
        case Voters():
            return ControlRecordType.KRAFT_VOTERS, _put_voters(record.voters).encode(VERSION)
    raise TypeError(f"Apache Kafka has no control record for {record!r}")


def decode_control(control_type: int, value: Bytes) -> ControlRecord | None:
    """Return a record that the core acts on, or None; CodecError if its value is no such record."""
    if control_type == ControlRecordType.LEADER_CHANGE:
        return get_leader_change(LeaderChangeMessage, value)
    if control_type == ControlRecordType.KRAFT_VERSION:
        return KRaftVersion(KRaftVersionRecord.decode(value, VERSION).k_raft_version)
    if control_type == ControlRecordType.KRAFT_VOTERS:
        return Voters(_get_voters(VotersRecord.decode(value, VERSION)))
    return None


def put_leader_change(kind: Any, record: LeaderChange) -> bytes:
    """Return the value of the first record of an epoch."""
    encoded: bytes = kind(
        leader_id=record.leader_id,
        voters=[kind.Voter(voter_id=id) for id in record.voters],
        granting_voters=[kind.Voter(voter_id=id) for id in record.granting_voters],
    ).encode(VERSION)
    return encoded


def get_leader_change(kind: Any, value: Bytes) -> LeaderChange:
    """Return what the first record of an epoch says."""
    change = kind.decode(value, VERSION)
    return LeaderChange(
        change.leader_id,
        tuple(voter.voter_id for voter in change.voters),
        tuple(voter.voter_id for voter in change.granting_voters),
    )


def _put_voters(voters: VoterSet) -> VotersRecord:
    return VotersRecord(
        voters=[
            VotersRecord.Voter(
                voter_id=voter.key.id,
                voter_directory_id=voter.key.directory_id,
                endpoints=put_endpoints(VotersRecord.Endpoint, voter.endpoints),
                k_raft_version_feature=VotersRecord.KRaftVersionFeature(
                    min_supported_version=voter.kraft_versions.min,
                    max_supported_version=voter.kraft_versions.max,
                ),
            )
            for voter in voters
        ]
    )


def _get_voters(record: VotersRecord) -> VoterSet:
    return VoterSet(
        Voter(
            ReplicaKey(voter.voter_id, voter.voter_directory_id),
            get_endpoints(voter.endpoints),
            VersionRange(
                voter.k_raft_version_feature.min_supported_version,
                voter.k_raft_version_feature.max_supported_version,
            ),
        )
        for voter in record.voters
    )


def read_batches(
    data: Bytes, decode: Callable[[int, Bytes], ControlRecord | None] = decode_control
) -> tuple[Batch, ...]:
    """Return the batches of a Fetch response, up to the first that is damaged or incomplete.

    The last batch may be cut short, by the sender's limit of bytes; all are checked by CRC.
    ``decode`` is a profile's ``decode_control``.
    """
    view = memoryview(data)
    batches = []
    try:
        for header in iterate_headers(view):
            if header.last_offset_delta < 0:  # It ends before it begins.
                break
            position = header.position
            control = _controls(view, position, decode) if header.attributes & CONTROL else ()
            batches.append(
                Batch(
                    header.base_offset,
                    header.last_offset,
                    header.partition_leader_epoch,
                    view[position : header.end],
                    control,
                )
            )
    except CodecError:
        pass
    return tuple(batches)


def _controls(
    view: memoryview, position: int, decode: Callable[[int, Bytes], ControlRecord | None]
) -> tuple[tuple[int, ControlRecord], ...]:
    controls = []
    for record in decode_batch(view, position, check_crc=False):
        control_type = int.from_bytes((record.key or b"")[2:4], "big", signed=True)
        control = decode(control_type, record.value or b"")
        if control is not None:
            controls.append((record.offset, control))
    return tuple(controls)
