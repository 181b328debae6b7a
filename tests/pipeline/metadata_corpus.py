"""Makes the metadata logs of ``data/metadata``: those of a real Apache Kafka cluster at work.

``python tests/pipeline/metadata_corpus.py`` writes the directory anew: the segments and checkpoints
of one controller, what Kafka's own classes read in them (``records.json.gz``), the images that they
make of them at many offsets (``images.json.gz``, see ``MetadataOracle.java``) and who the voters
were (``voters.json``).
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from kraftspec.conformance.cluster import RELEASE, Cluster, class_path
from kraftspec.conformance.cluster.cluster import CONTROLLER as LISTENER
from kraftspec.conformance.cluster.node import Node
from kraftspec.fastpath.message import Message
from kraftspec.fastpath.types import Uuid
from kraftspec.generated import kafka
from kraftspec.reference.wire.blocking import ask

HERE = Path(__file__).parent
DATA = HERE / "data" / "metadata"
IMAGE_COUNT = 60  # Offsets that an image is made of, spread over the log.
SNAPSHOT_TIMEOUT_S = 300.0
JAVA_TIMEOUT_S = 900.0

CONTROLLER = {
    "metadata.log.max.record.bytes.between.snapshots": "6000",
    "internal.metadata.log.segment.bytes": "16384",
    "metadata.log.segment.ms": "10000",
    "metadata.max.idle.interval.ms": "2000",  # Fewer NoOpRecords.
    "broker.session.timeout.ms": "4000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}
PATIENT = {"broker.session.timeout.ms": "60000"}  # Where no broker is to be fenced.
BROKER = {name: CONTROLLER[name] for name in list(CONTROLLER)[-3:]}
TOPIC, BROKER_RESOURCE = 2, 4  # ConfigResource.Type
SET, DELETE, APPEND = 0, 1, 2  # AlterConfigOp.OpType

_Answer = TypeVar("_Answer", bound=Message)


class Admin:
    """Sends the requests of an administrator to a broker, and fails where it rejects one."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def ask(self, request: Message, version: int, answer: type[_Answer]) -> _Answer:
        for broker in self.cluster.brokers:
            if broker.running():
                reply = ask(broker.listener().port, request, version, answer, timeout_s=30)
                refused(reply)
                return reply
        raise AssertionError("no broker runs")

    def create(self, name: str, partitions: int, replicas: int, **configs: str) -> Uuid:
        built = kafka.CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            configs=[
                kafka.CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
                for key, value in configs.items()
            ],
        )
        request = kafka.CreateTopicsRequest(topics=[built], timeout_ms=20_000)
        return self.ask(request, 7, kafka.CreateTopicsResponse).topics[0].topic_id

    def add_partitions(self, name: str, count: int) -> None:
        topic = kafka.CreatePartitionsRequest.CreatePartitionsTopic(
            name=name, count=count, assignments=None
        )
        request = kafka.CreatePartitionsRequest(topics=[topic], timeout_ms=20_000)
        self.ask(request, 3, kafka.CreatePartitionsResponse)

    def delete(self, name: str) -> None:
        topic = kafka.DeleteTopicsRequest.DeleteTopicState(name=name)
        request = kafka.DeleteTopicsRequest(topics=[topic], timeout_ms=20_000)
        self.ask(request, 6, kafka.DeleteTopicsResponse)

    def configure(self, kind: int, name: str, key: str, value: str | None, operation: int) -> None:
        cls = kafka.IncrementalAlterConfigsRequest
        change = cls.AlterableConfig(name=key, value=value, config_operation=operation)
        resource = cls.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=[change]
        )
        request = cls(resources=[resource])
        self.ask(request, 1, kafka.IncrementalAlterConfigsResponse)

    def quota(self, entity: dict[str, str | None], key: str, value: float | None) -> None:
        cls = kafka.AlterClientQuotasRequest
        entities = [
            cls.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()
        ]
        change = cls.OpData(key=key, value=value or 0.0, remove=value is None)
        request = cls(entries=[cls.EntryData(entity=entities, ops=[change])])
        self.ask(request, 1, kafka.AlterClientQuotasResponse)

    def allow(self, principal: str, topic: str) -> None:
        cls = kafka.CreateAclsRequest
        acl = cls.AclCreation(
            resource_type=2, resource_name=topic, resource_pattern_type=3,
            principal=principal, host="*", operation=3, permission_type=3,
        )  # fmt: skip
        self.ask(cls(creations=[acl]), 3, kafka.CreateAclsResponse)

    def disallow(self, principal: str) -> None:
        cls = kafka.DeleteAclsRequest
        filters = cls.DeleteAclsFilter(
            resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1,
            principal_filter=principal, host_filter=None, operation=1, permission_type=1,
        )  # fmt: skip
        self.ask(cls(filters=[filters]), 3, kafka.DeleteAclsResponse)

    def scram(self, user: str, *, remove: bool = False) -> None:
        cls = kafka.AlterUserScramCredentialsRequest
        if remove:
            request = cls(deletions=[cls.ScramCredentialDeletion(name=user, mechanism=1)])
        else:
            new = cls.ScramCredentialUpsertion(
                name=user, mechanism=1, iterations=4096, salt=b"salt", salted_password=b"x" * 32
            )
            request = cls(upsertions=[new])
        self.ask(request, 0, kafka.AlterUserScramCredentialsResponse)

    def producer(self) -> None:
        request = kafka.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        for _ in range(400):  # Until the coordinator has got a block of ids.
            answer = kafka.InitProducerIdResponse
            broker = self.cluster.brokers[0]
            if not ask(broker.listener().port, request, 4, answer, timeout_s=30).error_code:
                return
            time.sleep(0.3)
        raise AssertionError("no producer id was given")

    def reassign(self, name: str, partition: int, replicas: Sequence[int]) -> None:
        cls = kafka.AlterPartitionReassignmentsRequest
        one = cls.ReassignablePartition(partition_index=partition, replicas=tuple(replicas))
        request = cls(topics=[cls.ReassignableTopic(name=name, partitions=[one])])
        self.ask(request, 0, kafka.AlterPartitionReassignmentsResponse)

    def elect(self) -> None:
        """Elect preferred leaders; that some are elected already is no failure."""
        request = kafka.ElectLeadersRequest(election_type=0, topic_partitions=None)
        port = self.cluster.brokers[0].listener().port
        ask(port, request, 2, kafka.ElectLeadersResponse, timeout_s=30)

    def feature(self, name: str, level: int, upgrade: int = 1) -> None:
        cls = kafka.UpdateFeaturesRequest
        change = cls.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade)
        self.ask(cls(feature_updates=[change]), 1, kafka.UpdateFeaturesResponse)

    def unregister(self, broker: int) -> None:
        request = kafka.UnregisterBrokerRequest(broker_id=broker)
        self.ask(request, 0, kafka.UnregisterBrokerResponse)


def refused(answer: Any) -> None:
    """Raise AssertionError where an answer, or anything in it, has an error."""
    if isinstance(answer, (list, tuple)):
        for item in answer:
            refused(item)
    elif hasattr(answer, "__struct_fields__"):
        assert not getattr(answer, "error_code", 0), answer
        for name in answer.__struct_fields__:
            refused(getattr(answer, name))


def short_work(admin: Admin) -> None:
    """What every image table needs at least once."""
    admin.create("orders", 3, min(len(admin.cluster.brokers), 2), **{"retention.ms": "3600000"})
    admin.create("doomed", 2, 1)
    admin.add_partitions("orders", 5)
    admin.configure(TOPIC, "orders", "cleanup.policy", "compact", SET)
    admin.configure(TOPIC, "orders", "retention.ms", None, DELETE)
    admin.configure(TOPIC, "doomed", "retention.ms", "1000", SET)
    admin.configure(BROKER_RESOURCE, "", "message.max.bytes", "2000000", SET)
    admin.configure(BROKER_RESOURCE, "1", "log.cleaner.backoff.ms", "9000", SET)
    admin.delete("doomed")
    admin.quota({"user": "ann"}, "producer_byte_rate", 1024.0)
    admin.quota({"user": None, "client-id": "app"}, "request_percentage", 12.5)
    admin.quota({"user": "ann"}, "producer_byte_rate", None)
    admin.allow("User:ann", "orders")
    admin.allow("User:bob", "orders")
    admin.disallow("User:bob")
    admin.scram("ann")
    admin.scram("bob")
    admin.scram("bob", remove=True)
    admin.producer()


def long_work(cluster: Cluster) -> None:
    """A cluster's life: brokers and controllers that stop, features, reassignments, many topics."""
    admin = Admin(cluster)
    short_work(admin)
    for number in range(12):
        admin.create(f"topic-{number}", 2 + number % 3, 2, **{"min.insync.replicas": "2"})
    admin.reassign("orders", 0, [3, 1])
    admin.reassign("orders", 1, [2, 3])
    last = cluster.brokers[-1]
    last.stop()
    admin.create("while-one-is-away", 4, 2)
    for number in range(0, 12, 3):
        admin.delete(f"topic-{number}")
    cluster.leader().kill()
    cluster.leader()
    time.sleep(2)
    last.start()
    last.wait_healthy()
    admin.elect()
    admin.feature("group.version", 0, upgrade=2)
    admin.feature("group.version", 1)
    other = cluster.brokers[1]
    other.kill()
    time.sleep(6)  # Longer than its session.
    admin.create("after-the-crash", 3, 2)
    admin.unregister(other.id)
    admin.create("last", 1, 1)


def run(directory: Path, *, controllers: int, brokers: int, long: bool) -> dict[str, Any]:
    """Run a cluster; copy the metadata log of its leader to ``directory``; return the voters."""
    with tempfile.TemporaryDirectory() as place:
        cluster = Cluster(
            Path(place),
            controllers=controllers,
            brokers=brokers,
            controller_properties=CONTROLLER if long else {**CONTROLLER, **PATIENT},
            broker_properties=BROKER,
        )
        with cluster:
            if long:
                long_work(cluster)
                wait_for_snapshot(cluster.leader())
            else:
                short_work(Admin(cluster))
            quorum = cluster.wait_quorum()
            leader = cluster.leader()
            ports = {node.id: node.listener(LISTENER).port for node in cluster.controllers}
        keep(leader.metadata_log, directory)
        voters = [
            {
                "id": voter.replica_id,
                "directoryId": str(voter.replica_directory_id),
                "port": ports[voter.replica_id],
            }
            for voter in quorum.current_voters
        ]
        return {"leaderEpoch": quorum.leader_epoch, "voters": voters}


def wait_for_snapshot(node: Node) -> None:
    """Wait until a checkpoint stands that is not the one that the node was formatted with."""
    deadline = time.monotonic() + SNAPSHOT_TIMEOUT_S
    while len(list(node.metadata_log.glob("*.checkpoint"))) < 2:
        assert time.monotonic() < deadline, "no snapshot was written"
        time.sleep(0.2)


def keep(log: Path, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for path in [*log.glob("*.log"), *log.glob("*.checkpoint")]:
        shutil.copyfile(path, directory / path.name)


def run_java(
    source: Path, *arguments: str | int | Path, release: str = RELEASE
) -> subprocess.CompletedProcess[str]:
    """Run a Java file over the classes of a release of Kafka."""
    jars = os.pathsep.join(map(str, class_path(release)))
    return subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", jars, str(source), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=JAVA_TIMEOUT_S,
        check=False,
    )


def oracle(*arguments: str | int | Path) -> list[dict[str, Any]]:
    """Ask Kafka's own classes, and return their answers, a line each."""
    done = run_java(HERE / "MetadataOracle.java", *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def offsets_of_images(records: Sequence[dict[str, Any]], count: int) -> list[int]:
    """Offsets spread over a log, those around its transactions and checkpoints among them."""
    logged = [one for one in records if one["file"].endswith(".log")]
    end = max(one["offset"] for one in logged) + 1
    chosen = {end * step // count for step in range(1, count + 1)}
    for one in logged:
        if one["type"].endswith("TransactionRecord"):
            chosen |= {one["offset"], one["offset"] + 1}
    for one in records:
        if one["file"].endswith(".checkpoint"):
            at = int(one["file"].split("-")[0])
            chosen |= {at, at + 1} if at else set()
    return sorted(offset for offset in chosen if 0 < offset <= end)


def read_gzip(name: str) -> Any:
    return json.loads(gzip.decompress((DATA / name).read_bytes()))


def write_gzip(name: str, value: Any) -> None:
    text = json.dumps(value, separators=(",", ":"))
    (DATA / name).write_bytes(gzip.compress(text.encode(), mtime=0))


def main() -> None:
    shutil.rmtree(DATA, ignore_errors=True)
    voters = run(DATA, controllers=3, brokers=3, long=True)
    (DATA / "voters.json").write_text(json.dumps(voters, indent=2) + "\n", encoding="utf-8")
    records = oracle("records", DATA)
    write_gzip("records.json.gz", records)
    write_gzip("images.json.gz", oracle("images", DATA, *offsets_of_images(records, IMAGE_COUNT)))


if __name__ == "__main__":
    main()
