"""The profile ``kafka``: voters static, or by the bootstrap checkpoint 0-0 and AddRaftVoter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kraftspec.conformance.simulation.formation import bootstrap_checkpoint
from kraftspec.conformance.simulation.protocols.base import SimulatedProtocol
from kraftspec.conformance.simulation.swarm import S
from kraftspec.generated import kafka
from kraftspec.reference.log.directory import METADATA_NAME
from kraftspec.reference.log.snapshots import snapshot_name
from kraftspec.reference.raft.types import BOOTSTRAP_SNAPSHOT

if TYPE_CHECKING:
    from kraftspec.conformance.simulation.dice import Dice
    from kraftspec.conformance.simulation.swarm import Swarm
    from kraftspec.reference.raft import Config

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
    """See the module."""

    def restrict(self, swarm: Swarm, dice: Dice) -> None:
        """Let some of the quorums that begin with static voters be upgraded (KIP-853)."""
        if not swarm.kraft_version and dice.in_ten_thousand(6_000):
            swarm.upgrade_period_us = dice.between(1 * S, 6 * S)

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
