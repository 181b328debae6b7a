"""The cure of a lost majority by hand: what is written, and in which order.

It is written without `quorum recover`, to judge the judge: two control records behind the log, in
an epoch far above every other, and quorum-state of that epoch.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from kraftspec.fastpath.types import Uuid
from kraftspec.generated.kafka import LeaderChangeMessage, VotersRecord
from kraftspec.interop.logs import LogBatch, batches_of
from kraftspec.interop.wrecks.judge import Changes
from kraftspec.interop.wrecks.manifest import Manifest, NodeFacts
from kraftspec.reference.log.control import control_value, encode_control_values

EPOCH_BUMP = 1_000
METADATA = "data-0/__cluster_metadata-0"


def log_of(home: Path, facts: NodeFacts) -> Path:
    return home / facts.name / METADATA


def end_of(batches: list[LogBatch]) -> int:
    return batches[-1].last_offset + 1 if batches else 0


def segment_of(directory: Path) -> Path:
    """Return the only segment of a log; a node that was just formatted has none yet."""
    (*found,) = directory.glob("*.log")
    if not found:
        found = [directory / f"{0:020d}.log"]
        found[0].touch()
    (segment,) = found
    return segment


def graft(home: Path, manifest: Manifest) -> None:
    """Give the keepers what another of the given logs has behind theirs."""
    logs = {facts.id: list(batches_of(log_of(home, facts))) for facts in manifest.given()}
    longest = max(filter(None, logs.values()), key=lambda log: (log[-1].epoch, end_of(log)))
    for id in manifest.keep:
        end = end_of(logs[id])
        segment = segment_of(log_of(home, manifest.node(id)))
        whole = sum(len(batch.data) for batch in logs[id])
        with segment.open("r+b") as log:  # What is torn is cut off.
            log.truncate(whole)
            log.seek(whole)
            log.writelines(batch.data for batch in longest if batch.base_offset >= end)


def force(home: Path, manifest: Manifest) -> Changes:
    """Make the keepers the voters of a new epoch; a static quorum has them in its properties."""
    graft(home, manifest)
    kept = [manifest.node(id) for id in manifest.keep]
    if manifest.quorum == "static":
        voters = ",".join(f"{facts.id}@127.0.0.1:{facts.port}" for facts in kept)
        return {facts.id: {"controller.quorum.voters": voters} for facts in kept}
    highest = max(
        batch.epoch for facts in manifest.given() for batch in batches_of(log_of(home, facts))
    )
    states = [log_of(home, facts) / "quorum-state" for facts in manifest.given()]
    epochs = [json.loads(path.read_text())["leaderEpoch"] for path in states if path.exists()]
    epoch = max(highest, *epochs) + EPOCH_BUMP
    now_ms = int(time.time() * 1_000)
    for facts in kept:  # All get the same bytes: one offset of an epoch has one content.
        write_epoch(log_of(home, facts), kept, epoch, now_ms)
    return {}


def write_epoch(directory: Path, voters: list[NodeFacts], epoch: int, now_ms: int) -> None:
    change = LeaderChangeMessage(
        leader_id=voters[0].id,
        voters=[LeaderChangeMessage.Voter(voter_id=voter.id) for voter in voters],
        granting_voters=[LeaderChangeMessage.Voter(voter_id=voters[0].id)],
    )
    record = VotersRecord(voters=[voter_of(voter) for voter in voters])
    batch = encode_control_values(
        [control_value(change), control_value(record)],
        base_offset=end_of(list(batches_of(directory))),
        epoch=epoch,
        timestamp_ms=now_ms,
    )
    with segment_of(directory).open("ab") as log:
        log.write(batch)
    state = {
        "leaderId": -1, "leaderEpoch": epoch, "votedId": -1,
        "votedDirectoryId": "AAAAAAAAAAAAAAAAAAAAAA", "data_version": 1,
    }  # fmt: skip
    (directory / "quorum-state").write_text(json.dumps(state))


def voter_of(facts: NodeFacts) -> VotersRecord.Voter:
    endpoint = VotersRecord.Endpoint(name="CONTROLLER", host="127.0.0.1", port=facts.port)
    versions = VotersRecord.KRaftVersionFeature(min_supported_version=0, max_supported_version=1)
    return VotersRecord.Voter(
        voter_id=facts.id,
        voter_directory_id=Uuid.parse(facts.directory_id),
        endpoints=[endpoint],
        k_raft_version_feature=versions,
    )
