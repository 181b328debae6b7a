"""A controller of Kafka's starts on directories that ours formatted, and leads."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.reference.kafka_tools import DUMP, KafkaTools, ours

from kraftspec.conformance.cluster.guard import Guard
from kraftspec.conformance.cluster.node import HOST, Listener, Node, free_port
from kraftspec.fastpath.types import Uuid

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("kind", ["standalone", "initial", "static"])
def test_kafka_leads_on_a_directory_of_ours(kind: str, tmp_path: Path, kafka: KafkaTools) -> None:
    port = free_port(set())
    directory_id = str(Uuid.random())
    properties = {
        "process.roles": "controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"CONTROLLER://{HOST}:{port}",
        "log.dirs": str(tmp_path / "data"),
        "controller.quorum.election.timeout.ms": "100",
    }
    if kind == "static":
        properties["controller.quorum.voters"] = f"1@{HOST}:{port}"
    else:
        properties["controller.quorum.bootstrap.servers"] = f"{HOST}:{port}"
    listener = Listener("CONTROLLER", port, port)
    arguments = {"standalone": ["-s"], "static": []}.get(
        kind, ["-I", f"1@{HOST}:{port}:{directory_id}"]
    )
    with Guard() as guard:
        node = Node(1, "controller", tmp_path, (listener,), properties, 128, guard.process_group)
        node.write_properties()
        cluster_id = str(Uuid.random())
        config = str(node.properties_path)
        done = ours("storage", "format", "-c", config, "-t", cluster_id, *arguments)
        assert done.code == 0, done.err
        node.start()
        # Healthy is a controller whose features are final: it leads, and wrote what it began with.
        node.wait_healthy()
        # While it runs and holds the lock: all of its files, none of them damaged.
        live = ours("dump-log", "--cluster-metadata-decoder", str(tmp_path / "data"))
        assert live.code == 0, live.err
        assert '"name":"metadata.version"' in live.out
        assert "leaderId: 1 leaderEpoch: 1" in live.out
        assert node.stop() in (0, 143)
    segment = str(node.metadata_log / f"{0:020d}.log")
    arguments = ["--cluster-metadata-decoder", "--files", segment]
    theirs, same = kafka.run(DUMP, *arguments), ours("dump-log", *arguments)
    assert theirs.code == same.code == 0
    assert same.out == theirs.out
    assert '"name":"metadata.version","featureLevel":33' in same.out
    assert same.out.count("KRaftVersion ") == (kind != "static")
    info = ours("storage", "info", "-c", config)
    assert info.code == 0
    assert f"cluster.id={cluster_id}" in info.out
    assert kind != "initial" or directory_id in info.out
