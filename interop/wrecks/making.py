"""How a wreck is made: a quorum from a seed, topics, the wreck itself, its directory."""

from __future__ import annotations

import random
import shutil
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import msgspec

from kraftspec.conformance.cluster import RELEASE, Cluster, Node, Quorum
from kraftspec.conformance.cluster.node import free_port
from kraftspec.interop.ours import wait_until
from kraftspec.interop.reproduce.stage import directory_id, log_end
from kraftspec.interop.wrecks.client import Records, append, create_topic
from kraftspec.interop.wrecks.manifest import Manifest, NodeFacts, Truth

BROKERS = (1, 1, 2)  # Most wrecks have one: two take a third longer to make.
TOPICS, PARTITIONS, RECORDS = (1, 3), (1, 2), (3, 12)
SETTLE_S = 120.0
PORTS = range(10_000, 14_000)
PORT_COUNT = 20  # For each wreck.
SLOT_COUNT = len(PORTS) // PORT_COUNT
# A busy machine must not change the leader, nor fence a broker, while a wreck is made.
CONTROLLER_PROPERTIES = {
    "controller.quorum.fetch.timeout.ms": "10000",
    "controller.quorum.request.timeout.ms": "10000",
    "broker.session.timeout.ms": "60000",
}
BROKER_PROPERTIES = {
    "log.index.size.max.bytes": "65536",  # Preallocated, and copied with each wreck.
    # The broker of a wreck waits for a controller as long as it takes.
    "initial.broker.registration.timeout.ms": "3600000",
}


@dataclass
class Plan:
    """What is left of a quorum.

    ``given`` are the nodes whose directories recover gets, ``keep`` those that it is told to keep,
    ``live`` brokers that run meanwhile, ``returning`` lost nodes that come back afterwards.
    ``moved``: every controller has got another port. ``is_killed``: the command will be.
    """

    keep: list[Node]
    given: list[Node]
    live: list[Node] = field(default_factory=list)
    returning: list[Node] = field(default_factory=list)
    moved: bool = False
    is_killed: bool = False
    expect: str = "recovered"
    beside: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)


class Making:
    """``with Making(home, "leader-kept", 3) as making: plan = kind(making)``."""

    def __init__(self, home: Path, kind: str, seed: int, release: str = RELEASE) -> None:
        """Nothing is started yet. ``home`` becomes the wreck's directory."""
        self.home = home
        self.kind = kind
        self.seed = seed
        self.release = release
        self.draw = random.Random(f"{kind} {seed}")
        self.records: Records = {}
        self.unended: list[str] = []
        self.story: list[str] = []
        self._truth: Truth | None = None
        # A wreck keeps its ports, so they are in no other's way: others are made of it later.
        first = PORTS.start + PORT_COUNT * (zlib.crc32(f"{kind} {seed}".encode()) % SLOT_COUNT)
        self.ports = range(first, first + PORT_COUNT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if hasattr(self, "cluster"):
            self.cluster.stop()

    def tell(self, text: str) -> None:
        """Add a line to the story."""
        self.story.append(text)

    def start(
        self, *, controllers: int, quorum: Quorum = "initial", properties: Mapping[str, str] = {}
    ) -> None:
        """Start the quorum and one or two brokers."""
        brokers = self.draw.choice(BROKERS)
        self.cluster = Cluster(
            self.home,
            controllers=controllers,
            brokers=brokers,
            quorum=quorum,
            controller_properties={**CONTROLLER_PROPERTIES, **properties},
            broker_properties={**BROKER_PROPERTIES, **properties},
            release=self.release,
            ports=self.ports,
        )
        self.cluster.start()
        self.tell(f"{controllers} controllers ({quorum}), {brokers} brokers, {self.release}")

    def leader(self) -> Node:
        """Return the active controller."""
        return self.cluster.leader()

    def followers(self) -> list[Node]:
        """Return the other controllers."""
        leader = self.leader()
        return [node for node in self.cluster.controllers if node is not leader]

    def start_with_topics(
        self, *, controllers: int, quorum: Quorum = "initial", properties: Mapping[str, str] = {}
    ) -> None:
        """Start the quorum and its brokers, with topics that all nodes have."""
        self.start(controllers=controllers, quorum=quorum, properties=properties)
        self.add_topics()
        self.settle()

    def add_topics(self) -> None:
        """Create some topics, and append records that all replicas acknowledge."""
        port = self.cluster.brokers[0].listener().port
        for _ in range(self.draw.randint(*TOPICS)):
            name = f"topic-{len(self.records)}"
            partitions = self.draw.randint(*PARTITIONS)
            create_topic(port, name, partitions, len(self.cluster.brokers))
            self.records[name] = [
                [f"{name}-{partition}-{at}" for at in range(self.draw.randint(*RECORDS))]
                for partition in range(partitions)
            ]
            for partition, values in enumerate(self.records[name]):
                append(port, name, partition, values)
        self.tell(f"topics up to topic-{len(self.records) - 1}")

    def settle(self, apart_from: Node | None = None) -> None:
        """Wait until all nodes but one have what is committed now, and note what is true now."""
        quorum = self.cluster.wait_quorum()
        end = quorum.high_watermark
        nodes = [node for node in self.cluster.nodes.values() if node is not apart_from]
        wait_until(
            "every node has what is committed",
            lambda: all(log_end(node) >= end for node in nodes),
            timeout_s=SETTLE_S,
        )
        self._truth = Truth(
            records=dict(self.records),
            kept=list(self.records),
            voters=sorted(voter.replica_id for voter in quorum.current_voters),
            leader=quorum.leader_id,
            epoch=quorum.leader_epoch,
            high_watermark=end,
        )

    def keep(self, left: Sequence[Node], keepers: Sequence[Node] | None = None) -> Plan:
        """Kill all nodes, in an order of the seed; ``left`` and the brokers are given."""
        nodes = [node for node in self.cluster.nodes.values() if node.process is not None]
        self.draw.shuffle(nodes)
        for node in nodes:
            node.kill()
        brokers = self.cluster.brokers
        live = brokers if self.draw.random() < 1 / 2 else []
        self.tell(f"SIGKILL {', '.join(str(node.id) for node in nodes)}")
        return Plan(list(keepers or left), [*left, *brokers], live)

    def manifest(self, plan: Plan) -> Manifest:
        """Return what is written about the wreck."""
        assert self._truth is not None
        taken = {node.listener().port for node in self.cluster.nodes.values()}
        nodes = []
        for node in self.cluster.nodes.values():
            port = node.listener().port
            if plan.moved and node.roles == "controller":
                port = free_port(taken, self.ports)
            nodes.append(
                NodeFacts(
                    id=node.id,
                    roles=node.roles,
                    port=port,
                    directory_id=str(directory_id(node)),
                    log_end=log_end(node),
                    state=_state(node, plan),
                    properties=_portable(node),
                )
            )
        return Manifest(
            kind=self.kind,
            seed=self.seed,
            release=self.release,
            cluster_id=self.cluster.cluster_id,
            quorum=self.cluster.quorum,
            keep=[node.id for node in plan.keep],
            returning=[node.id for node in plan.returning],
            expect=plan.expect,
            beside=plan.beside,
            options=plan.options,
            nodes=nodes,
            # What was acknowledged since is in no log that is kept, or only perhaps.
            truth=msgspec.structs.replace(
                self._truth, records=dict(self.records), unended=self.unended
            ),
            story=self.story,
            is_killed=plan.is_killed,
        )


def _state(node: Node, plan: Plan) -> str:
    if node in plan.live:
        return "live"
    return "given" if node in plan.given else "withheld"


def _portable(node: Node) -> dict[str, str]:
    """Return the properties that do not depend on the directory and the port."""
    dropped = ("log.dirs", "listeners", "advertised.listeners")
    return {key: value for key, value in node.properties.items() if key not in dropped}


def forget_outputs(nodes: Iterable[Node]) -> None:
    """Delete what is no part of a wreck: outputs of processes, and properties with old paths."""
    for node in nodes:
        node.log_path.unlink(missing_ok=True)
        node.properties_path.unlink(missing_ok=True)


def copy_wreck(source: Path, to: Path) -> None:
    """Copy a wreck; a file keeps its holes, for Kafka preallocates indexes."""
    shutil.copytree(source, to, copy_function=_copy_sparse)


def _copy_sparse(source: str, to: str) -> str:
    data = Path(source).read_bytes()
    with open(to, "wb") as file:
        file.write(data.rstrip(b"\0"))
        file.truncate(len(data))
    shutil.copystat(source, to)
    return to
