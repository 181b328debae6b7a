"""The tree of an image, node by node, as Apache Kafka's own MetadataShell prints it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.pipeline.metadata_corpus import BROKER, CONTROLLER, Admin, short_work
from tests.pipeline.metadata_writer import SEGMENT, Writer, frame, write_log
from tests.reference.log.corpus import METADATA, unpack
from tests.reference.tools.metadata_shell import (
    CORPUS,
    RECORDED,
    KafkaShell,
    ours,
    provenance,
    recorded,
    without_provenance,
)

from kraftspec.conformance.cluster import Cluster
from kraftspec.fastpath import encode_batch
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.types import Uuid
from kraftspec.generated import kafka
from kraftspec.reference.tools.shell.commands import Shell
from kraftspec.reference.tools.shell.load import Source


def test_a_real_log_and_checkpoint_are_as_recorded() -> None:
    log = ours(Source(snapshot=str(CORPUS / RECORDED["log"])))
    assert log == recorded("log")
    checkpoint = ours(Source(snapshot=str(CORPUS / RECORDED["checkpoint"])))
    assert without_provenance(checkpoint) == without_provenance(recorded("checkpoint"))
    assert len(checkpoint) > 300
    # Kafka's counts the records of the file; the log's are those of its name.
    assert provenance(recorded("checkpoint")).startswith("offset 82, epoch 3, ")
    assert provenance(checkpoint).startswith("offset 272, epoch 3, ")


@pytest.mark.kafka
@pytest.mark.parametrize("name", RECORDED)
def test_what_is_recorded_is_kafkas(name: str) -> None:
    with KafkaShell(CORPUS / RECORDED[name]) as shell:
        assert shell.tree() == recorded(name)


@pytest.mark.kafka
@pytest.mark.parametrize("shape", ["static", "failovers"])
def test_a_directory_is_its_segments_one_after_another(shape: str, tmp_path: Path) -> None:
    """Kafka's shell reads one file: the segments, joined; ours the checkpoint and what follows."""
    log = unpack(shape, tmp_path)[0] / METADATA
    segments = sorted(log.glob("*.log"))
    assert len(segments) > 1
    whole = tmp_path / SEGMENT
    whole.write_bytes(b"".join(path.read_bytes() for path in segments))
    with KafkaShell(whole) as shell:
        theirs = shell.tree()
    for directory in (log, log.parent):
        assert without_provenance(ours(Source(directory=str(directory)))) == (
            without_provenance(theirs)
        )
    assert ours(Source(snapshot=str(whole))) == ours(Source(directory=str(log)))
    assert (
        provenance(theirs).split(",")[0]
        == provenance(ours(Source(directory=str(log)))).split(",")[0]
    )


@pytest.mark.kafka
@pytest.mark.parametrize("seed", [0, 1])
def test_random_records(seed: int, tmp_path: Path) -> None:
    """Transactions, tokens, fencing of old, ELR: what no quiet cluster writes."""
    # Kafka's shell waits for good where a transaction is open at the end.
    write_log(tmp_path, Writer(seed).batches(150)[:-1])
    with KafkaShell(tmp_path / SEGMENT) as shell:
        assert ours(Source(snapshot=str(tmp_path / SEGMENT))) == shell.tree()


def rare() -> Iterator[tuple[Message, int]]:
    """Records, and versions of them, that neither the corpus nor the writer has."""
    level = kafka.FeatureLevelRecord(name="metadata.version", feature_level=30)
    yield level, 0
    topic_id, other_id = Uuid(b"t" * 16), Uuid(b"\xf0" * 16)
    yield kafka.TopicRecord(name="zebra.Ä_1", topic_id=topic_id), 0
    yield kafka.TopicRecord(name="orders", topic_id=other_id), 0
    for number in (0, 2, 10):
        partition = kafka.PartitionRecord(
            partition_id=number, topic_id=topic_id, replicas=(3, 1), isr=(1,), leader=1,
            leader_recovery_state=1, leader_epoch=7, partition_epoch=9, removing_replicas=(3,),
        )  # fmt: skip
        yield partition, 0
    broker = kafka.RegisterBrokerRecord
    directories = tuple(Uuid(bytes([first]) * 16) for first in (5, 0xFE, 3))
    yield (
        broker(
            broker_id=12, broker_epoch=1 << 40, incarnation_id=topic_id, rack="r ä,]",
            end_points=[
                broker.BrokerEndpoint(name=name, host="::1", port=1, security_protocol=number)
                for number, name in enumerate(("Z", "B", "A", "y"))
            ],
            features=[
                broker.BrokerFeature(name=name, min_supported_version=1, max_supported_version=high)
                for name, high in (("Z", 1), ("a", 32767), ("B", 2))
            ],
            log_dirs=directories, cordoned_log_dirs=directories[:2], fenced=False,
        ),
        4,
    )  # fmt: skip
    yield broker(broker_id=3, broker_epoch=2, is_migrating_zk_broker=True), 2
    controller = kafka.RegisterControllerRecord
    listener = controller.ControllerEndpoint(name="C", host="h", port=9, security_protocol=2)
    yield controller(controller_id=9, zk_migration_ready=True, end_points=[listener]), 0
    for kind, name, key in (
        (16, "metrics", "interval.ms"), (32, "group", "consumer.session.timeout.ms"),
        (2, "orders", "retention.ms"), (4, "", "log.retention.ms"),
    ):  # fmt: skip
        shown = f"ä {key}"
        yield kafka.ConfigRecord(resource_type=kind, resource_name=name, name=key, value=shown), 0
    quota = kafka.ClientQuotaRecord
    quotas: list[tuple[dict[str, str | None], float]] = [
        ({"ip": "10.0.0.1"}, 1e7), ({"user": "a(b)\\c"}, 9.5e-4),
        ({"user": "Ä", "client-id": "_"}, 0),
        ({"user": None}, 1 / 3), ({"client-id": None}, 1e22),
    ]  # fmt: skip
    for entity, value in quotas:
        parts = [quota.EntityData(entity_type=key, entity_name=entity[key]) for key in entity]
        yield quota(entity=parts, key="request_percentage", value=value), 0
    acl = kafka.AccessControlEntryRecord
    for number in range(16):
        yield (
            acl(
                id=Uuid(bytes([number * 16]) * 16), resource_type=2 + number % 6,
                resource_name="*", pattern_type=3 + number % 2, principal="User:ä", host="*",
                operation=number, permission_type=2 + number % 2,
            ),
            0,
        )  # fmt: skip
    yield kafka.DelegationTokenRecord(
        owner="User:a", requester="User:b", renewers=("User:c", "User:d:e"), issue_timestamp=1,
        max_timestamp=1 << 50, expiration_timestamp=-1, token_id="token",
    ), 0  # fmt: skip
    yield kafka.ProducerIdsRecord(next_producer_id=1 << 50), 0
    yield kafka.ZkMigrationStateRecord(zk_migration_state=0), 0
    yield kafka.NoOpRecord(), 0


@pytest.mark.kafka
def test_rare_records(tmp_path: Path) -> None:
    values = [frame(record)[:2] + bytes([at]) + record.encode(at) for record, at in rare()]
    data = encode_batch(values, timestamps=253_402_300_800_010, partition_leader_epoch=3)
    path = tmp_path / SEGMENT
    path.write_bytes(data)
    with KafkaShell(path) as shell:
        assert ours(Source(snapshot=str(path))) == shell.tree()


COMMANDS = [
    "ls", "ls /", "ls image/topics", "ls /nope", "ls /image /local", "ls image local/version",
    "ls /image/provenance /image/scram", "ls /image/s?ram", "ls '/image/{scram,acls}'",
    "ls /image/*/byName", "ls //image//", "ls .././image/topics/../scram", "ls /image/[st]*",
    "cat /image/provenance", "cat /image", "cat /nope", "cat /image/producerIds/*",
    "cat /image/topics/byName/orders/0 /image/topics/byName/orders/id", "cat image/features/*",
    "find /image/scram", "find image/provenance", "find /nope", "tree /image/scram",
    "tree /image/s*", "tree /nope", "tree /image/provenance", "tree /image/features /image/scram",
    "cd /image", "pwd", "ls", "find scram", "cat provenance", "cd topics/byName/orders", "pwd",
    "ls 0 1", "find .", "cd ../../nope", "cd 0", "cd ../../../cluster/b*", "pwd", "cd", "pwd",
    "cd a b", "pwd x", "blah", "ls -x", "man nope",
]  # fmt: skip


@pytest.mark.kafka
def test_commands_say_what_kafkas_say(tmp_path: Path) -> None:
    path = tmp_path / RECORDED["log"]
    shutil.copy(CORPUS / RECORDED["log"], path)
    printed: list[str] = []
    shell = Shell(
        Source(snapshot=str(path)), "0", out=printed.append, err=printed.append, out_json=print
    )
    shell.load()
    with KafkaShell(path) as theirs:
        for line in COMMANDS:
            printed.clear()
            shell.run_line(line)
            # What we have beside theirs: a subtree, and a command.
            known = [text.replace("'reload', ", "") for text in printed if text != "quorum"]
            assert known == theirs.ask(line), line


@pytest.mark.kafka
def test_a_controller_at_work(tmp_path: Path) -> None:
    """Its directory is read while it writes there, and then as Kafka's shell reads it."""
    started = Cluster(
        tmp_path / "cluster", controllers=1, brokers=1, controller_properties=CONTROLLER,
        broker_properties=BROKER,
        format_arguments=["--release-version", "4.3"],  # The newest that Kafka's shell reads.
    )  # fmt: skip
    with started as cluster:
        admin = Admin(cluster)
        admin.create("first", 2, 1)
        controller = cluster.leader()
        log = controller.metadata_log
        printed: list[str] = []
        shell = Shell(
            Source(directory=str(log.parent)), "0", out=printed.append, err=printed.append,
            out_json=print,
        )  # fmt: skip
        shell.load()
        before = shell.loaded.image.end_offset
        short_work(admin)
        shell.run_line("reload")
        shell.run_line("ls /image/topics/byName")
        assert "orders" in printed
        assert "doomed" not in printed
        assert shell.loaded.image.end_offset > before
        quorum = cluster.quorum_of(controller)
        assert quorum is not None
        printed.clear()
        shell.run_line("cat /quorum/leader/id /quorum/leader/epoch")
        shell.run_line("ls /quorum/voters")
        assert printed == [
            str(quorum.leader_id), str(quorum.leader_epoch),
            *(str(voter.replica_id) for voter in quorum.current_voters),
        ]  # fmt: skip
        assert controller.running()
    whole = tmp_path / SEGMENT
    segments = sorted(log.glob("*.log"))
    whole.write_bytes(b"".join(path.read_bytes() for path in segments))
    with KafkaShell(whole) as theirs:
        assert ours(Source(directory=str(log.parent))) == theirs.tree()
