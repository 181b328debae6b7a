"""Directories of small quorums, written by the project's own log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kraftspec.fastpath.types import Uuid
from kraftspec.generated.kafka import NoOpRecord, QuorumStateData, SnapshotHeaderRecord
from kraftspec.reference.log import LogDirectory, MetadataLog, MetaProperties
from kraftspec.reference.log.control import control_value
from kraftspec.reference.log.directory import FIRST_CHECKPOINT, METADATA_NAME
from kraftspec.reference.log.files import LocalFiles
from kraftspec.reference.log.quorum_state import QuorumStateFile
from kraftspec.reference.log.snapshots import checkpoint_bytes
from kraftspec.reference.metadata.frames import write_frame
from kraftspec.reference.profiles.kafka.records import encode_control
from kraftspec.reference.raft import VoterSet
from kraftspec.reference.raft.control import KRaftVersion, LeaderChange, Voters
from kraftspec.reference.raft.types import Endpoint, ReplicaKey, SnapshotId, VersionRange, Voter

CLUSTER_ID = "YtGxSdNvQRG40ENstXFRtw"
TIME_MS = 1_700_000_000_000
NO_OP = write_frame(NoOpRecord(), 0)


def directory_id(node_id: int) -> Uuid:
    return Uuid(bytes([node_id]) * 16)


def voter_set(ids: Sequence[int]) -> VoterSet:
    return VoterSet(
        Voter(
            ReplicaKey(id, directory_id(id)),
            (Endpoint("CONTROLLER", "localhost", 9000 + id),),
            VersionRange(0, 1),
        )
        for id in ids
    )


class Lead(NamedTuple):
    """The first batch of an epoch. ``new_voters`` and ``level`` come with it."""

    epoch: int
    leader: int
    voters: tuple[int, ...]
    granting: tuple[int, ...] = ()
    new_voters: tuple[int, ...] = ()
    level: int | None = None


class Change(NamedTuple):
    """A VotersRecord; ``level`` is that of a KRaftVersion before it."""

    epoch: int
    voters: tuple[int, ...]
    level: int | None = None


class Data(NamedTuple):
    """So many batches of one NoOpRecord, which differ by their times."""

    epoch: int
    batches: int = 1
    time_ms: int = TIME_MS


Step = Lead | Change | Data


class Node:
    """The directory of a node, formatted. ``first_voters`` are those of the checkpoint 0-0."""

    def __init__(
        self,
        root: Path,
        node_id: int,
        first_voters: Sequence[int] | None = None,
        *,
        cluster_id: str = CLUSTER_ID,
        directory: Uuid | None = None,
        name: str = "",
    ) -> None:
        self.path = root / (name or f"node-{node_id}")
        self.id = node_id
        checkpoints = {}
        if first_voters is not None:
            header = [
                control_value(SnapshotHeaderRecord()),
                encode_control(KRaftVersion(1)),
                encode_control(Voters(voter_set(first_voters))),
            ]
            checkpoints[FIRST_CHECKPOINT] = checkpoint_bytes(header, [], timestamp_ms=TIME_MS)
        meta = MetaProperties(
            cluster_id=cluster_id, node_id=node_id, directory_id=directory or directory_id(node_id)
        )
        LogDirectory.format(str(self.path), meta, checkpoints)

    @property
    def metadata(self) -> Path:
        return self.path / METADATA_NAME

    @property
    def segment(self) -> Path:
        return sorted(self.metadata.glob("*.log"))[-1]

    def append(self, *steps: Step) -> Node:
        with LogDirectory.open(str(self.path)) as directory:
            log = directory.open_log()
            for step in steps:
                _append(log, step)
            log.close()
        return self

    def vote(
        self, epoch: int, leader: int = -1, voted: int = -1, static: Sequence[int] = ()
    ) -> Node:
        data = QuorumStateData(leader_id=leader, leader_epoch=epoch, voted_id=voted)
        if static:
            data.current_voters = [QuorumStateData.Voter(voter_id=id) for id in static]
        elif voted >= 0:
            data.voted_directory_id = directory_id(voted)
        file = QuorumStateFile(LocalFiles(), str(self.metadata))
        file.write(data, 0 if static else 1)
        return self

    def checkpoint(self, end_offset: int, epoch: int, voters: Sequence[int] = ()) -> Node:
        header = [control_value(SnapshotHeaderRecord(last_contained_log_timestamp=TIME_MS))]
        if voters:
            header += [encode_control(KRaftVersion(1)), encode_control(Voters(voter_set(voters)))]
        with LogDirectory.open(str(self.path)) as directory:
            log = directory.open_log()
            writer = log.create_snapshot(
                SnapshotId(end_offset, epoch), header, timestamp_ms=TIME_MS
            )
            assert writer is not None
            writer.append([NO_OP])
            writer.freeze()
            log.close()
        return self

    def start_at(self, end_offset: int, epoch: int) -> Node:
        """Let the log begin with what a checkpoint leaves."""
        with LogDirectory.open(str(self.path)) as directory:
            log = directory.open_log()
            log.truncate_fully_to(SnapshotId(end_offset, epoch))
            log.close()
        return self


def _append(log: MetadataLog, step: Step) -> None:
    if isinstance(step, Data):
        for number in range(step.batches):
            log.append_records(step.epoch, [NO_OP], step.time_ms + number)
        return
    records: list[Any] = []
    if isinstance(step, Lead):
        records.append(LeaderChange(step.leader, step.voters, step.granting or step.voters))
    if step.level is not None:
        records.append(KRaftVersion(step.level))
    voters = step.new_voters if isinstance(step, Lead) else step.voters
    if voters:
        records.append(Voters(voter_set(voters)))
    log.append_control(step.epoch, [encode_control(record) for record in records], TIME_MS)


def quorum(root: Path, *steps: Step, ids: Sequence[int] = (1, 2, 3), epoch: int = 1) -> list[Node]:
    """Nodes that all hold the same, in an epoch whose leader is the first."""
    nodes = []
    for id in ids:
        node = Node(root, id, ids).append(*steps)
        nodes.append(node.vote(epoch, leader=ids[0]))
    return nodes
