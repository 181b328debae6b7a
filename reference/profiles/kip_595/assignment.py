"""Voters as the draft has them: ids, where they are going, and the cluster that they are of.

A VoterAssignmentMessage in the log says all three. It is the core's record ``Voters``, whose set is
an `Assignment`, so that what the core does with a set (acting on it when it is appended, taking it
back when it is cut) holds for target voters and cluster id as well.
"""

from __future__ import annotations

from collections.abc import Iterable

from kraftspec.generated.control_records import DraftControlRecordType
from kraftspec.generated.kip_595 import LeaderChangeMessage, VoterAssignmentMessage
from kraftspec.reference.profiles.kafka.records import read_batches
from kraftspec.reference.raft.control import ControlRecord, LeaderChange, Voters
from kraftspec.reference.raft.messages import Batch, Bytes
from kraftspec.reference.raft.types import ReplicaKey, Voter
from kraftspec.reference.raft.voters import VoterSet

VERSION = 0  # Both messages have no other.


class Assignment(VoterSet):
    """The current voters, and the target voters, ascending, or None."""

    __slots__ = ("cluster_id", "targets")

    def __init__(
        self, cluster_id: str, ids: Iterable[int], targets: Iterable[int] | None = None
    ) -> None:
        super().__init__(Voter(ReplicaKey(id)) for id in ids)
        self.cluster_id = cluster_id
        self.targets = None if targets is None else tuple(sorted(set(targets)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Assignment)
            and super().__eq__(other)
            and (self.cluster_id, self.targets) == (other.cluster_id, other.targets)
        )

    def __hash__(self) -> int:
        return hash((self.cluster_id, self.ids, self.targets))

    def __repr__(self) -> str:
        return f"Assignment({self.cluster_id!r}, {self.ids}, {self.targets})"


def encode_control(record: ControlRecord) -> tuple[int, bytes]:
    """Return the control type and the value of a record of the core."""
    if isinstance(record, LeaderChange):
        change = LeaderChangeMessage(leader_id=record.leader_id, voted_ids=record.granting_voters)
        return DraftControlRecordType.LEADER_CHANGE, change.encode(VERSION)
    if isinstance(record, Voters) and isinstance(record.voters, Assignment):
        kind, assignment = VoterAssignmentMessage, record.voters
        targets = assignment.targets
        message = kind(
            cluster_id=assignment.cluster_id,
            current_voters=[kind.Voter(voter_id=id) for id in assignment.ids],
            target_voters=None if targets is None else [kind.Voter(voter_id=id) for id in targets],
        )
        return DraftControlRecordType.VOTER_ASSIGNMENT, message.encode(VERSION)
    raise TypeError(f"KIP-595's draft has no control record for {record!r}")


def decode_control(control_type: int, value: Bytes) -> ControlRecord | None:
    """Return a record of the draft's, or None; CodecError if its value is no such record."""
    if control_type == DraftControlRecordType.LEADER_CHANGE:
        change = LeaderChangeMessage.decode(value, VERSION)
        return LeaderChange(change.leader_id, (), tuple(change.voted_ids))
    if control_type == DraftControlRecordType.VOTER_ASSIGNMENT:
        message = VoterAssignmentMessage.decode(value, VERSION)
        targets = message.target_voters
        return Voters(
            Assignment(
                message.cluster_id,
                [voter.voter_id for voter in message.current_voters],
                None if targets is None else [voter.voter_id for voter in targets],
            )
        )
    return None


def batches_of(data: Bytes) -> tuple[Batch, ...]:
    """Return the batches of a FetchQuorumRecords response, as ``read_batches`` does."""
    return read_batches(data, decode_control)
