"""Control records of KIP-853's first draft, and the voter sets that they make.

A voter set is not written whole: each record adds one voter or takes one away, in the log; and a
snapshot begins with one record for each voter ("AddVoterRecord", "RemoveVoterRecord").
"""

from __future__ import annotations

from typing import Any

from kraftspec.generated.control_records import ControlRecordType, DraftControlRecordType
from kraftspec.generated.kip_853 import AddVoterRecord, LeaderChangeMessage, RemoveVoterRecord
from kraftspec.reference.profiles.kafka.records import read_batches
from kraftspec.reference.raft.control import ControlRecord
from kraftspec.reference.raft.messages import Batch, Bytes
from kraftspec.reference.raft.types import (
    DraftEndpoint,
    Endpoint,
    Endpoints,
    ReplicaKey,
    Voter,
)
from kraftspec.reference.raft.voters import VoterSet

RECORD_VERSION = 0
LEADER_CHANGE_VERSION = 1  # With the voters' uuids; version 0 has their ids alone.


class LeaderChange(ControlRecord, frozen=True, gc=False):
    """The first record of an epoch, with the voters' uuids ("The LeaderChangeRecord")."""

    leader_id: int
    voters: tuple[ReplicaKey, ...] = ()
    granting_voters: tuple[ReplicaKey, ...] = ()


class VoterAdded(ControlRecord, frozen=True, gc=False):
    """From here on this replica votes, and no other of its id does (``AddVoterRecord``)."""

    voter: Voter


class VoterRemoved(ControlRecord, frozen=True, gc=False):
    """From here on this replica votes no longer (``RemoveVoterRecord``)."""

    key: ReplicaKey


def folded(record: ControlRecord, voters: VoterSet) -> VoterSet | None:
    """Return the set that a record leaves of ``voters``; None for one that is not about them.

    A voter that is added without endpoints keeps those that its id had (static voters).
    """
    if isinstance(record, VoterAdded):
        key, endpoints = record.voter.key, record.voter.endpoints
        return voters.with_voter(Voter(key, endpoints or voters.endpoints(key.id)))
    if isinstance(record, VoterRemoved):
        known = voters.get(record.key.id)
        is_this = known is not None and known.key == record.key
        return voters.without(record.key.id) if is_this else voters
    return None


def encode_control(record: ControlRecord) -> tuple[int, bytes]:
    """Return the control type and the value of a record."""
    match record:
        case LeaderChange():
            kind = LeaderChangeMessage
            change = kind(
                version=LEADER_CHANGE_VERSION,
                leader_id=record.leader_id,
                voters=[
                    kind.Voter(voter_id=k.id, voter_uuid=k.directory_id) for k in record.voters
                ],
                granting_voters=[
                    kind.Voter(voter_id=k.id, voter_uuid=k.directory_id)
                    for k in record.granting_voters
                ],
            )
            return ControlRecordType.LEADER_CHANGE, change.encode(LEADER_CHANGE_VERSION)
        case VoterAdded():
            added = AddVoterRecord(
                voter_id=record.voter.key.id,
                voter_uuid=record.voter.key.directory_id,
                end_points=put_endpoints(AddVoterRecord.VoterEndpoint, record.voter.endpoints),
            )
            return DraftControlRecordType.ADD_VOTER, added.encode(RECORD_VERSION)
        case VoterRemoved():
            removed = RemoveVoterRecord(voter_id=record.key.id, voter_uuid=record.key.directory_id)
            return DraftControlRecordType.REMOVE_VOTER, removed.encode(RECORD_VERSION)
    raise TypeError(f"KIP-853's draft has no control record for {record!r}")


def decode_control(control_type: int, value: Bytes) -> ControlRecord | None:
    """Return a record of the draft's, or None; CodecError if its value is no such record."""
    if control_type == ControlRecordType.LEADER_CHANGE:
        version = int.from_bytes(value[:2], "big", signed=True)
        is_known = version in LeaderChangeMessage.VALID_VERSIONS
        layout = version if is_known else LEADER_CHANGE_VERSION
        change = LeaderChangeMessage.decode(value, layout, lenient=not is_known)
        return LeaderChange(
            change.leader_id,
            tuple(ReplicaKey(v.voter_id, v.voter_uuid) for v in change.voters),
            tuple(ReplicaKey(v.voter_id, v.voter_uuid) for v in change.granting_voters),
        )
    if control_type == DraftControlRecordType.ADD_VOTER:
        added = AddVoterRecord.decode(value, RECORD_VERSION)
        key = ReplicaKey(added.voter_id, added.voter_uuid)
        return VoterAdded(Voter(key, get_endpoints(added.end_points)))
    if control_type == DraftControlRecordType.REMOVE_VOTER:
        removed = RemoveVoterRecord.decode(value, RECORD_VERSION)
        return VoterRemoved(ReplicaKey(removed.voter_id, removed.voter_uuid))
    return None


def batches_of(data: Bytes) -> tuple[Batch, ...]:
    """Return the batches of a Fetch response, as ``read_batches`` does, with these records."""
    return read_batches(data, decode_control)


def get_endpoints(entries: Any) -> Endpoints:
    """Return endpoints that a message names; listeners' names are upper-cased, as Kafka does."""
    endpoints: list[Endpoint] = []
    for entry in entries:
        where = entry.name.upper(), entry.host, entry.port
        protocol = entry.security_protocol
        endpoints.append(DraftEndpoint(*where, protocol) if protocol else Endpoint(*where))
    return tuple(endpoints)


def put_endpoints(kind: Any, endpoints: Endpoints) -> list[Any]:
    """Return endpoints as the entries of a message; PLAINTEXT where none says a protocol."""
    return [
        kind(
            name=endpoint.name,
            host=endpoint.host,
            port=endpoint.port,
            security_protocol=getattr(endpoint, "security_protocol", 0),
        )
        for endpoint in endpoints
    ]
