"""A fault campaign on a quorum of Kafka's controllers and of our nodes.

In each cycle a node is killed, stopped, paused or partitioned, while a client changes metadata
through a real broker. After the fault, the quorum must acknowledge a change within a bound. At the
end all nodes have the same bytes up to the high watermark, every log has all acknowledged changes,
each snapshot holds the metadata image of the log before it, and no epoch had two leaders.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from kraftspec.conformance.cluster import Cluster
from kraftspec.conformance.cluster import Node as KafkaNode
from kraftspec.conformance.cluster.cluster import quorum_at
from kraftspec.conformance.cluster.node import free_port
from kraftspec.interop.logs import judge_logs
from kraftspec.interop.network import Network
from kraftspec.interop.ours import Ours, describe, wait_until
from kraftspec.interop.snapshots import judge_snapshots
from kraftspec.interop.writer import Writer

FIRST_OF_OURS = 101
RECOVERY_S = 60.0
SETTLE_S = 120.0
ON_THE_LEADER = 0.5  # The share of the untargeted faults that hit the leader.
# All nodes write snapshots, and none deletes the log before them
# (metadata.max.retention.bytes).
SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "4000"}
FAULT_S = (0.5, 4.0)  # Duration of a pause or a partition: shorter and longer than an election.

AnyNode = KafkaNode | Ours


@dataclass(slots=True)
class Cycle:
    """One fault: its kind, its node, its duration, and the time until the next acknowledgement."""

    number: int
    fault: str
    node: int
    is_ours: bool
    was_leader: bool
    lasted_s: float
    recovery_s: float


@dataclass(slots=True)
class Outcome:
    """The results of a campaign. A failed check ends it by an exception."""

    seed: int
    kafka: int
    ours: int
    cycles: list[Cycle] = field(default_factory=list)
    acknowledged: int = 0
    doubtful: int = 0
    longest_silence_s: float = 0.0
    epochs: int = 0
    epochs_led_by_ours: int = 0
    batches_compared: int = 0
    snapshots_compared: int = 0
    high_watermark: int = 0
    seconds: float = 0.0

    def summary(self) -> dict[str, Any]:
        """Return the results as JSON, with statistics of the cycles."""
        recovery = [cycle.recovery_s for cycle in self.cycles] or [0.0]
        return {
            **asdict(self),
            "faults": dict(sorted(Counter(cycle.fault for cycle in self.cycles).items())),
            "faults_on_ours": sum(cycle.is_ours for cycle in self.cycles),
            "faults_on_the_leader": sum(cycle.was_leader for cycle in self.cycles),
            "recovery_median_s": round(median(recovery), 2),
            "recovery_max_s": round(max(recovery), 2),
        }


class Campaign:
    """``with Campaign(directory, kafka=2, ours=2, seed=1) as campaign: campaign.run(100)``."""

    def __init__(
        self,
        directory: Path,
        *,
        kafka: int = 2,
        ours: int = 1,
        seed: int = 1,
        progress: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.outcome = Outcome(seed, kafka, ours)
        self._directory = directory
        self._draw = random.Random(seed)
        self._progress = progress
        self._network = Network()
        self._count = ours
        self.ours: list[Ours] = []
        self._paused: AnyNode | None = None

    def __enter__(self) -> Campaign:
        self._network.__enter__()
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for node in self.ours:
                if node.running():
                    node.kill()
            if hasattr(self, "cluster"):
                self.cluster.stop()
        finally:
            self._network.__exit__(None, None, None)

    def _start(self) -> None:
        self.cluster = Cluster(
            self._directory / "kafka",
            controllers=self.outcome.kafka,
            brokers=1,
            controller_properties=SNAPSHOTS,
            front=lambda node_name, port: self._network.open(int(node_name.split()[1]), port),
        )
        self.cluster.start()
        for number in range(self._count):
            node_id = FIRST_OF_OURS + number
            port = free_port(set())
            node = Ours(
                self.cluster,
                self._directory / f"ours-{node_id}",
                node_id,
                properties=SNAPSHOTS,
                port=port,
                advertised_port=self._network.open(node_id, port),
            )
            self.ours.append(node)
            node.format()
            node.start()
            node.wait_caught_up()
            node.add()
            node.wait_voter()

    @property
    def nodes(self) -> list[AnyNode]:
        """All voters."""
        return [*self.cluster.controllers, *self.ours]

    def leader(self) -> AnyNode | None:
        """Return a node that reports itself as leader, if there is one."""
        quorum = describe(self.cluster)
        leader_id = quorum.leader_id if quorum is not None else None
        if leader_id is None:
            reachable = [node.id for node in self.ours if quorum_at(node.port) is not None]
            leader_id = reachable[0] if reachable else None
        return next((node for node in self.nodes if node.id == leader_id), None)

    # ---- faults --------------------------------------------------------------------------------

    def run(self, cycles: int) -> Outcome:
        """Run this many cycles, and compare the logs."""
        started = time.monotonic()
        broker = self.cluster.brokers[0].listener().port
        with Writer(broker) as writer:
            wait_until("the first change is acknowledged", lambda: bool(writer.acknowledged))
            for number in range(1, cycles + 1):
                cycle = self._cycle(number, writer)
                self.outcome.cycles.append(cycle)
                self._progress(
                    f"{number}/{cycles}: {cycle.fault} of {cycle.node}, "
                    f"recovered in {cycle.recovery_s:.1f} s, "
                    f"{len(writer.acknowledged)} acknowledged"
                )
        self._judge(writer)
        self.outcome.seconds = round(time.monotonic() - started, 1)
        return self.outcome

    def _cycle(self, number: int, writer: Writer) -> Cycle:
        draw = self._draw
        leader = self.leader()
        node = self._victim(number, leader)
        fault = draw.choice(["kill", "stop", "pause", "isolate", "cut"])
        lasted_s = draw.uniform(*FAULT_S)
        was_leader = node is leader
        getattr(self, f"_{fault}")(node, lasted_s)
        before = len(writer.acknowledged)
        over_at = time.monotonic()
        wait_until(
            f"cycle {number}, {fault} of node {node.id}: changes are acknowledged again",
            lambda: len(writer.acknowledged) > before + 1,
            timeout_s=RECOVERY_S,
        )
        recovery_s = round(time.monotonic() - over_at, 2)
        is_ours = isinstance(node, Ours)
        return Cycle(number, fault, node.id, is_ours, was_leader, round(lasted_s, 2), recovery_s)

    def _victim(self, number: int, leader: AnyNode | None) -> AnyNode:
        """Choose the node of a fault: one of ours, the leader, one of ours, any, and again."""
        turn = ("ours", "leader", "ours", "any")[(number - 1) % 4]
        if turn == "ours":
            return self._draw.choice(self.ours)
        wants_leader = turn == "leader" or self._draw.random() < ON_THE_LEADER
        if leader is not None and wants_leader:
            return leader
        return self._draw.choice(self.nodes)

    def _kill(self, node: AnyNode, lasts_s: float) -> None:
        node.kill()
        time.sleep(lasts_s)
        node.start()

    def _stop(self, node: AnyNode, lasts_s: float) -> None:
        node.stop()
        time.sleep(lasts_s)
        node.start()

    def _pause(self, node: AnyNode, lasts_s: float) -> None:
        node.pause()
        try:
            time.sleep(lasts_s)
        finally:
            node.resume()

    def _isolate(self, node: AnyNode, lasts_s: float) -> None:
        others = [*self.cluster.nodes, *(one.id for one in self.ours)]
        self._network.cut((node.id, other) for other in others if other != node.id)
        time.sleep(lasts_s)
        self._network.heal()

    def _cut(self, node: AnyNode, lasts_s: float) -> None:
        """Partition one pair: both nodes still reach all others."""
        other = self._draw.choice([one for one in self.nodes if one is not node])
        self._network.cut([(node.id, other.id)])
        time.sleep(lasts_s)
        self._network.heal()

    # ---- the end -------------------------------------------------------------------------------

    def _judge(self, writer: Writer) -> None:
        outcome = self.outcome
        for node in self.cluster.controllers:
            node.wait_healthy()
        end_offset = self.cluster.wait_quorum().high_watermark

        def all_have_all() -> bool:
            now = describe(self.cluster)
            if now is None:
                return False
            return len(now.current_voters) == len(self.nodes) and all(
                voter.log_end_offset >= end_offset for voter in now.current_voters
            )

        wait_until("every voter has everything", all_have_all, timeout_s=SETTLE_S)
        logs = {node.id: node.metadata_log for node in self.nodes}
        outcome.batches_compared, led = judge_logs(logs, end_offset, writer.acknowledged)
        outcome.snapshots_compared = judge_snapshots(list(logs.values()), end_offset)
        for ours in self.ours:
            if not ours.running():
                raise AssertionError(f"node {ours.id} has ended:\n{ours.output()}")
        outcome.acknowledged = len(writer.acknowledged)
        outcome.doubtful = len(writer.doubtful)
        outcome.longest_silence_s = round(writer.longest_silence_s, 1)
        outcome.epochs = len(led)
        own_ids = {ours.id for ours in self.ours}
        outcome.epochs_led_by_ours = sum(leader in own_ids for leader in led.values())
        outcome.high_watermark = end_offset
