"""A real Kafka 4.3.1 on directories of ours: its dump tool, its lock, a controller that goes on."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftspec.conformance.cluster import Cluster, ClusterError, Node
from kraftspec.fastpath import encode_batch
from kraftspec.fastpath.types import Uuid
from kraftspec.generated.kafka import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    QuorumStateData,
    SnapshotHeaderRecord,
    VotersRecord,
)
from kraftspec.reference.log import LogConfig, LogDirectory, MetadataLog, MetaProperties
from kraftspec.reference.log.control import ControlMessage, control_value
from kraftspec.reference.log.snapshots import checkpoint_bytes
from kraftspec.reference.raft.types import SnapshotId

from .corpus import METADATA, METADATA_MESSAGES, Batch, parse_dump, read_batches
from .kafka_directories import SNAPSHOTS, dump, write_records

pytestmark = pytest.mark.kafka

NOW_MS = 1_795_279_280_000
SMALL = LogConfig(segment_bytes=8192, index_interval_bytes=4096)
FEATURES = {"metadata.version": 30, "group.version": 1, "transaction.version": 2}


def value(name: str, version: int = 0, /, **data: Any) -> bytes:
    """Encode a metadata record: frame, type, version (a byte each, being small), and its body."""
    message = next(one for one in METADATA_MESSAGES.values() if one.__name__ == name)
    assert message.API_KEY is not None
    return bytes([1, message.API_KEY, version]) + message.from_json(data, version).encode(version)


def features() -> list[bytes]:
    return [
        value("FeatureLevelRecord", name=name, featureLevel=level)
        for name, level in FEATURES.items()
    ]


def quota(number: int) -> bytes:
    entity = {"entityType": "user", "entityName": f"ours-{number:06d}"}
    return value(
        "ClientQuotaRecord", entity=[entity], key="producer_byte_rate", value=1e6, remove=False
    )


def voters(node_id: int, directory_id: Uuid, port: int) -> list[ControlMessage]:
    voter = VotersRecord.Voter(
        voter_id=node_id,
        voter_directory_id=directory_id,
        endpoints=[VotersRecord.Endpoint(name="CONTROLLER", host="127.0.0.1", port=port)],
        k_raft_version_feature=VotersRecord.KRaftVersionFeature(max_supported_version=1),
    )
    return [KRaftVersionRecord(k_raft_version=1), VotersRecord(voters=[voter])]


def format_ours(path: Path, cluster_id: str, node_id: int, port: int) -> list[ControlMessage]:
    """Format a directory for one voter; return the control records of its quorum."""
    meta = MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=Uuid.random())
    quorum = voters(node_id, meta.directory_id, port)
    header = control_value(SnapshotHeaderRecord(last_contained_log_timestamp=NOW_MS))
    plain = control_value(SnapshotHeaderRecord())
    LogDirectory.format(
        str(path),
        meta,
        {
            "bootstrap.checkpoint": checkpoint_bytes([plain], features(), timestamp_ms=NOW_MS),
            f"{METADATA}/{0:020d}-{0:010d}.checkpoint": checkpoint_bytes(
                [header, *map(control_value, quorum)], [], timestamp_ms=NOW_MS
            ),
        },
    )
    return quorum


def fill(log: MetadataLog, node_id: int, quorum: list[ControlMessage]) -> int:
    """Write a log as a leader of epoch 1 does: some segments, a snapshot, and then some."""
    voter = LeaderChangeMessage.Voter(voter_id=node_id)
    change = LeaderChangeMessage(leader_id=node_id, voters=[voter], granting_voters=[voter])
    log.append_control(1, [control_value(one) for one in [change, *quorum]], NOW_MS)
    log.append_records(1, features(), NOW_MS + 1)
    for first in range(0, 300, 10):
        values = [quota(number) for number in range(first, first + 10)]
        log.append_records(1, values, NOW_MS + 2 + first)
        log.flush()
    id_ = SnapshotId(log.end_offset, 1)
    header = [SnapshotHeaderRecord(last_contained_log_timestamp=NOW_MS + 400), *quorum]
    writer = log.create_snapshot(id_, list(map(control_value, header)), timestamp_ms=NOW_MS + 401)
    assert writer is not None
    writer.append(features())
    writer.append([quota(number) for number in range(300)])
    writer.freeze()
    log.append_records(1, [quota(number) for number in range(300, 350)], NOW_MS + 500)
    log.flush()
    assert log.delete_before(id_)
    assert len(log.segment_offsets) == 1 or log.segment_offsets[1] > id_.end_offset
    log.append_records(1, [quota(number) for number in range(350, 400)], NOW_MS + 600)
    log.flush()
    return log.end_offset


def test_the_dump_tool_reads_a_closed_log(tmp_path: Path) -> None:
    quorum = format_ours(tmp_path / "ours", "1RbVGyKRQCWE2F2RiQJq8g", 3001, 9093)
    with LogDirectory.open(str(tmp_path / "ours")) as directory:
        log = directory.open_log(SMALL)
        fill(log, 3001, quorum)
        for first in range(0, 1000, 10):  # Some segments more, whose indexes have entries.
            log.append_records(2, [quota(first + at) for at in range(10)], NOW_MS + 1000 + first)
        log.flush()
        log.close()
    metadata = tmp_path / "ours" / METADATA
    logs = sorted(metadata.glob("*.log"))
    assert len(logs) > 4
    files = [*logs, *sorted(metadata.glob("*.checkpoint"))]
    output = dump(None, files, "--deep-iteration")
    parts = re.split(r"^Dumping .*\n", output, flags=re.MULTILINE)[1:]
    for path, part in zip(files, parts, strict=True):
        assert flat(parse_dump(part)) == flat(list(read_batches(path.read_bytes())))
    indexes = sorted(metadata.glob("*index"))
    with_entries = [path for path in indexes if path.stat().st_size]
    assert len(with_entries) > 10
    output = dump(None, indexes, "--index-sanity-check")
    assert output.count("passed sanity check.") == len(with_entries)
    complaints = re.compile("mismatch|corrupt|error|invalid|exception|out of order|not found", re.I)
    for option in ("--index-sanity-check", "--verify-index-only"):
        output = dump(None, [*logs, *indexes], option)
        assert not [line for line in output.splitlines() if complaints.search(line)]


def flat(batches: list[Batch]) -> list[Any]:
    return [record for batch in batches for record in batch.records]


def test_the_dump_tool_sees_a_wrong_index(tmp_path: Path) -> None:
    """The check above can fail: an entry that points elsewhere is told."""
    format_ours(tmp_path / "ours", "1RbVGyKRQCWE2F2RiQJq8g", 3001, 9093)
    with LogDirectory.open(str(tmp_path / "ours")) as directory:
        log = directory.open_log(SMALL)
        for first in range(0, 200, 10):
            log.append_records(1, [quota(first + at) for at in range(10)], NOW_MS)
        log.close()
    index = min((tmp_path / "ours" / METADATA).glob("*.index"))
    index.write_bytes((99).to_bytes(4, "big") + index.read_bytes()[4:])
    assert "mismatch" in dump(None, [index], "--verify-index-only").lower()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(
        tmp_path_factory.mktemp("cluster"),
        controllers=1,
        brokers=0,
        quorum="standalone",
        controller_properties=SNAPSHOTS,
    ) as running:
        yield running


def data_of(node: Node) -> Path:
    return node.directory / "data-0"


def test_the_lock_holds_both_ways(cluster: Cluster) -> None:
    (node,) = cluster.controllers
    with pytest.raises(BlockingIOError, match="another node, of Kafka's or of ours"):
        LogDirectory.open(str(data_of(node)))
    node.stop()
    with LogDirectory.open(str(data_of(node))):
        node.start()
        with pytest.raises(ClusterError, match=r"ended \(exit code 1\)"):
            node.wait_healthy()
        assert "lock" in node.log_tail().lower()
    node.start()
    node.wait_healthy()
    node.stop()


@pytest.mark.parametrize("is_clean", [True, False], ids=["closed", "killed"])
def test_a_controller_goes_on_where_ours_ended(cluster: Cluster, is_clean: bool) -> None:
    """Formatted by ours, filled by ours, then Kafka's: it leads, has the records, writes more."""
    (node,) = cluster.controllers
    node.stop()
    path = data_of(node)
    shutil.rmtree(path)
    quorum = format_ours(path, cluster.cluster_id, node.id, node.listener().port)
    with LogDirectory.open(str(path)) as directory:
        directory.quorum_state.write(QuorumStateData(leader_id=node.id, leader_epoch=1), 1)
        log = directory.open_log(SMALL)
        end = fill(log, node.id, quorum)
        start = log.segment_offsets[0]
        ours = log.read(log.start_offset, 1 << 20)
        if is_clean:
            log.close()
        else:  # As if it had been killed: the zeros are there, the indexes are not.
            active = path / METADATA / f"{log.segment_offsets[-1]:020d}.log"
            data = active.read_bytes()
            log.close()
            active.write_bytes(data)
            assert data.endswith(bytes(100))
            for index in (path / METADATA).glob("*index"):
                index.unlink()
    node.start()
    node.wait_healthy()
    assert cluster.leader().id == node.id
    write_records(cluster, 0, 30)
    node.wait(lambda: len(list((path / METADATA).glob("*.checkpoint"))) > 1, "snapshotted")
    node.stop()
    with LogDirectory.open(str(path), cluster_id=cluster.cluster_id) as directory:
        log = directory.open_log(SMALL)
        assert log.segment_offsets[0] == start
        assert log.end_offset > end + 300
        assert log.last_epoch > 1
        first = next(read_batches(ours)).base_offset
        assert log.read(first, len(ours)) == ours
        latest = log.open_snapshot(log.snapshots[-1])
        names = re.findall(rb"ours-\d{6}", latest.read(0, latest.size))
        assert sorted({int(name[5:]) for name in names}) == list(range(400))
        latest.close()
        log.close()


def test_what_follows_a_torn_batch_is_cut_as_kafka_cuts_it(
    tmp_path: Path, cluster: Cluster
) -> None:
    """The same torn tail to both: they keep the same bytes."""
    (node,) = cluster.controllers
    node.stop()
    path = data_of(node)
    with LogDirectory.open(str(path)) as directory:
        log = directory.open_log()
        end, epoch = log.end_offset, log.last_epoch
        log.close()
    active = max((path / METADATA).glob("*.log"))
    whole = active.read_bytes()
    torn = encode_batch(
        [quota(1)] * 20, timestamps=NOW_MS, base_offset=end, partition_leader_epoch=epoch
    )
    active.write_bytes(whole + torn[:700])
    shutil.copytree(path, tmp_path / "copy")
    with LogDirectory.open(str(tmp_path / "copy")) as directory:
        log = directory.open_log()
        assert (log.end_offset, log.recovery.torn_bytes) == (end, 700)
        log.close()
    node.start()
    node.wait_healthy()
    node.stop()
    assert active.read_bytes()[: len(whole)] == whole
    ours = tmp_path / "copy" / METADATA / active.name
    assert ours.read_bytes() == whole
    assert torn[:700] not in active.read_bytes()


def test_a_directory_of_another_profile_is_refused_by_kafka(
    tmp_path: Path, cluster: Cluster
) -> None:
    meta = MetaProperties(profile="kip-595", cluster_id=cluster.cluster_id, node_id=3001)
    LogDirectory.format(str(tmp_path / "draft"), meta)
    properties = tmp_path / "draft.properties"
    (node,) = cluster.controllers
    text = node.properties_path.read_text().replace(str(data_of(node)), str(tmp_path / "draft"))
    properties.write_text(text)
    done: subprocess.CompletedProcess[str] = cluster.tool(
        "kafka.tools.StorageTool", "info", "-c", str(properties), check=False
    )
    assert done.returncode != 0
    assert "kip-595" in done.stdout + done.stderr
