"""The state of a node vector as the files of a log directory, and the other way round."""

from __future__ import annotations

import json
from pathlib import Path

from kraftspec.conformance.raw.node import NodeIdentity, NodeSnapshot, NodeState
from kraftspec.conformance.runner.metadata_batches import split_batches
from kraftspec.fastpath.batch_reader import read_header
from kraftspec.fastpath.types import Uuid
from kraftspec.reference.log import MetaProperties
from kraftspec.reference.log.directory import BOOTSTRAP_NAME, META_NAME, METADATA_NAME
from kraftspec.reference.log.snapshots import snapshot_name
from kraftspec.reference.raft.types import SnapshotId

QUORUM_STATE = "quorum-state"


def identity_of(state: NodeState) -> NodeIdentity:
    """Return who the node is; ``ValueError`` for a state that does not say so."""
    if not state.identity:
        raise ValueError("a node is put into this state by its identity, which is missing")
    return state.identity


def meta_of(state: NodeState) -> MetaProperties:
    """Return the meta.properties of a state."""
    identity = identity_of(state)
    return MetaProperties(
        cluster_id=identity.cluster_id,
        node_id=identity.node_id,
        directory_id=Uuid(identity.directory_id),
    )


def files_of(state: NodeState) -> dict[str, bytes]:
    """Return the files of a log directory by their names: a segment, snapshots, quorum-state."""
    files = {META_NAME: meta_of(state).render()}
    if state.bootstrap:
        files[BOOTSTRAP_NAME] = bytes.fromhex(state.bootstrap)
    batches = [bytes.fromhex(batch) for batch in state.log]
    if batches:
        base = read_header(batches[0]).base_offset
        files[f"{METADATA_NAME}/{base:020}.log"] = b"".join(batches)
    for snapshot in state.snapshots:
        name = snapshot_name(SnapshotId(snapshot.end_offset, snapshot.epoch))
        files[f"{METADATA_NAME}/{name}"] = bytes.fromhex(snapshot.hex)
    if state.quorum_state is not None:
        text = json.dumps(state.quorum_state, separators=(",", ":"))
        files[f"{METADATA_NAME}/{QUORUM_STATE}"] = text.encode()
    return files


def log_of(metadata: Path) -> list[bytes]:
    """Return the batches of a metadata log, which may be growing."""
    segments = sorted(metadata.glob("*.log"))
    return [batch for path in segments for batch in split_batches(path.read_bytes())]


def snapshots_of(metadata: Path) -> list[NodeSnapshot]:
    """Return the complete snapshots of a metadata log."""
    snapshots: list[NodeSnapshot] = []
    for path in sorted(metadata.glob("*.checkpoint")):
        end_offset, _, epoch = path.stem.partition("-")
        snapshots.append(
            NodeSnapshot(end_offset=int(end_offset), epoch=int(epoch), hex=path.read_bytes().hex())
        )
    return snapshots
