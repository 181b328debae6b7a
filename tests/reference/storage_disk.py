"""A node's directory on some file system, and what its tests put into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraftspec.fastpath import decode_batch, read_header
from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.generated.kafka import SnapshotHeaderRecord
from kraftspec.reference.log import (
    LogConfig,
    LogDirectory,
    MetaProperties,
)
from kraftspec.reference.log.control import control_value
from kraftspec.reference.log.directory import METADATA_NAME
from kraftspec.reference.log.files import Files, read_whole
from kraftspec.reference.log.memory_files import MemoryFiles
from kraftspec.reference.log.snapshots import checkpoint_bytes, snapshot_name
from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.reference.profiles.kafka.records import read_batches
from kraftspec.reference.raft import (
    Config,
    ReplicaKey,
    SnapshotId,
    Voter,
    VoterSet,
)
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.control import KRaftVersion, Voters
from kraftspec.reference.raft.types import BOOTSTRAP_SNAPSHOT, Endpoint, VersionRange
from kraftspec.reference.storage import Storage

PROFILE = KafkaProfile()
CLUSTER = "YtGxSdNvQRG40ENstXFRtw"
NOW_US = 1_700_000_000_000_000
MANY = 1 << 20


def directory_id(node_id: int) -> Uuid:
    return Uuid(bytes([*range(1, 16), node_id]))


def voters(*ids: int) -> VoterSet:
    return VoterSet(
        Voter(
            ReplicaKey(id, directory_id(id)),
            (Endpoint("CONTROLLER", f"node{id}", 9000 + id),),
            VersionRange(0, 1),
        )
        for id in ids
    )


def static(*ids: int) -> VoterSet:
    """What controller.quorum.voters can say: no directories."""
    return VoterSet(
        Voter(ReplicaKey(id, ZERO_UUID), (Endpoint("CONTROLLER", f"node{id}", 9000 + id),))
        for id in ids
    )


def bootstrap(*ids: int) -> bytes:
    """The checkpoint 0-0 of a quorum of these voters."""
    header = [
        control_value(SnapshotHeaderRecord()),
        PROFILE.encode_control(KRaftVersion(1)),
        PROFILE.encode_control(Voters(voters(*ids))),
    ]
    return checkpoint_bytes(header, [], timestamp_ms=0)


class Disk:
    """A directory of node 1 on some file system, and its storage while it is open."""

    def __init__(self, files: Files, path: str, kill: Callable[[], None]) -> None:
        self.files = files
        self.path = path
        self.kill = kill
        self.config = Config(cluster_id=CLUSTER, node_id=1, directory_id=directory_id(1))
        self.storage: Storage

    def format(self, checkpoint: bytes | None = None) -> Disk:
        name = f"{METADATA_NAME}/{snapshot_name(BOOTSTRAP_SNAPSHOT)}"
        meta = MetaProperties(cluster_id=CLUSTER, node_id=1, directory_id=self.config.directory_id)
        LogDirectory.format(self.path, meta, {name: checkpoint} if checkpoint else None, self.files)
        return self.open()

    def open(self, config: Config | None = None) -> Disk:
        log_config = LogConfig(segment_bytes=2000, zero_ahead_bytes=0)
        self.storage = Storage.open(
            self.path, PROFILE, config or self.config, files=self.files, log_config=log_config
        )
        return self

    def restart(self) -> Storage:
        self.storage.close()
        return self.open().storage

    def names(self) -> list[str]:
        return self.files.names(f"{self.path}/{METADATA_NAME}")

    def whole(self, name: str) -> bytes:
        return read_whole(self.files, f"{self.path}/{METADATA_NAME}/{name}")


def in_memory() -> Disk:
    files = MemoryFiles()
    return Disk(files, "/data", files.kill)


def append(storage: Storage, epoch: int, *values: bytes) -> None:
    base_offset = storage.log.end_offset
    storage.append_records(fx.AppendRecords(epoch, base_offset, values, NOW_US // 1000))


def append_control(storage: Storage, epoch: int, *records: Any) -> None:
    base_offset = storage.log.end_offset
    storage.append_control(fx.AppendControl(epoch, base_offset, records, NOW_US // 1000))


def contents(storage: Storage) -> bytes:
    """All batches, over all segments."""
    data = b""
    offset = storage.log.start_offset
    while offset < storage.log.end_offset:
        data += storage.log.read(offset, MANY)
        offset = 1 + max(batch.last_offset for batch in read_batches(data))
    return data


def values(data: bytes) -> list[bytes | None]:
    """The values of data records."""
    return [
        record.value
        for batch in read_batches(data)
        if not read_header(batch.data).is_control
        for record in decode_batch(batch.data)
    ]


ONE = SnapshotId(3, 2)


def with_snapshot(storage: Storage, level: int, known: VoterSet | None) -> ev.SnapshotStored:
    append(storage, 2, b"a", b"b", b"c")
    stored = storage.write_snapshot(fx.WriteSnapshot(ONE, 77, level, known), [b"abc"], 99)
    assert stored is not None
    return stored


def fetch(
    storage: Storage, snapshot_id: SnapshotId, data: bytes
) -> ev.SnapshotStored | ev.SnapshotDamaged | None:
    storage.begin_snapshot(snapshot_id)
    storage.extend_snapshot(fx.ExtendSnapshot(snapshot_id, 0, data))
    return storage.finish_snapshot(snapshot_id)
