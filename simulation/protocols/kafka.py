"""The profile ``kafka``: voters static, or by the bootstrap checkpoint 0-0 and AddRaftVoter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kraftspec.generated import kafka
from kraftspec.reference.log.directory import METADATA_NAME
from kraftspec.reference.log.snapshots import snapshot_name
from kraftspec.reference.raft import Config
from kraftspec.reference.raft.types import BOOTSTRAP_SNAPSHOT
from kraftspec.simulation.initial_quorum import bootstrap_checkpoint
from kraftspec.simulation.operators import Operator
from kraftspec.simulation.protocols.base import SimulatedProtocol
from kraftspec.simulation.rng import Rng
from kraftspec.simulation.stale_voters import StaleVoters
from kraftspec.simulation.swarm import S, Swarm
from kraftspec.simulation.timeline import Timeline

# What releases of Kafka before 4 speak among controllers, by their version of Vote; -1 is none.
RELEASES: dict[int, dict[Any, int]] = {
    0: {  # To 3.8: static voters, without directories (KIP-853)
        kafka.VoteRequest: 0,
        kafka.BeginQuorumEpochRequest: 0,
        kafka.EndQuorumEpochRequest: 0,
        kafka.FetchRequest: 16,
        kafka.FetchSnapshotRequest: 0,
        kafka.UpdateRaftVoterRequest: -1,
    },
    1: {kafka.VoteRequest: 1, kafka.FetchRequest: 17},  # 3.9: without pre-votes (KIP-996)
}


class KafkaProtocol(SimulatedProtocol):
    """How the simulator forms and runs quorums of Apache Kafka's protocol."""

    has_other_cores = True
    model: Mapping[str, str] = {"PreVote": '"kafka"'}
    liveness = (
        "leader_elected", "appends_acknowledged", "replicas_catch_up", "reconfiguration_finishes",
        "voters_are_found", "leadership_stays", "successor_leads", "silent_leader_is_left",
    )  # fmt: skip

    def faults(self, schedule: Timeline, operator: Operator) -> StaleVoters:
        """Return who draws the faults."""
        return StaleVoters(schedule, operator)

    def restrict(self, swarm: Swarm, rng: Rng) -> None:
        """Let some of the quorums that begin with static voters be upgraded (KIP-853)."""
        if not swarm.kraft_version and rng.in_ten_thousand(6_000):
            swarm.upgrade_period_us = rng.between(1 * S, 6 * S)

    def older(self, vote_version: int) -> Mapping[int, int]:
        """Return what a release before pre-votes speaks, by what it had of other KIPs."""
        return {kind.API_KEY: version for kind, version in RELEASES[vote_version].items()}

    def first_files(self, configs: list[Config], swarm: Swarm) -> Mapping[int, Mapping[str, bytes]]:
        """Return the checkpoint that makes the first voters known (KIP-853)."""
        if not swarm.kraft_version:
            return {}
        first = configs[: swarm.voters]
        name = f"{METADATA_NAME}/{snapshot_name(BOOTSTRAP_SNAPSHOT)}"
        checkpoint = bootstrap_checkpoint(first, self.profile)
        return {config.node_id: {name: checkpoint} for config in first}


PROTOCOL = KafkaProtocol
