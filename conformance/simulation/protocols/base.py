"""What a protocol decides of a simulated run: who is there, how it begins, what can happen."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import msgspec

from kraftspec.conformance.simulation import invariants, liveness
from kraftspec.conformance.simulation.faults import Faults
from kraftspec.conformance.simulation.formation import VOTE_API_KEY, configurations
from kraftspec.conformance.simulation.invariants import legal_transitions
from kraftspec.conformance.simulation.operators import Operator
from kraftspec.reference.log import MetaProperties

if TYPE_CHECKING:
    from kraftspec.conformance.simulation.dice import Dice
    from kraftspec.conformance.simulation.replica import Replica
    from kraftspec.conformance.simulation.schedule import Schedule
    from kraftspec.conformance.simulation.swarm import Swarm
    from kraftspec.fastpath.types import Uuid
    from kraftspec.reference.raft import Config
    from kraftspec.reference.raft.profile import Profile


class SimulatedProtocol:
    """Base of all. What stands here is a quorum of static voters that nobody asks for anything.

    A class of another protocol overrides what differs. Where it leaves a property out, or allows
    more than another protocol does, it says why beside it.
    """

    # Which properties hold, by the modules of ``invariants`` and ``liveness``, in this order.
    invariants: tuple[str, ...] = invariants.NAMES
    liveness: tuple[str, ...] = liveness.NAMES
    # The arrows between roles; see ``invariants.legal_transitions`` for what each of them is.
    legal: Mapping[str, AbstractSet[str]] = legal_transitions.LEGAL
    alone: Mapping[str, AbstractSet[str]] = legal_transitions.ALONE
    twice: AbstractSet[tuple[str, str]] = legal_transitions.TWICE

    # Whether quorum-state has voters, so that those before the first set of a log that a node found
    # may be of a log, too, and committed.
    stores_voters = False

    # Whether state machines write snapshots.
    has_snapshots = True

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    def restrict(self, swarm: Swarm, dice: Dice) -> None:
        """Change the conditions that a seed drew into such as the protocol has.

        A field that is 0 switches its fault off. What is drawn here comes after all other draws.
        """

    def configurations(self, swarm: Swarm, dice: Dice) -> list[Config]:
        """Return one configuration a node; a node's id is its index."""
        return configurations(swarm, dice)

    def meta_properties(self, config: Config) -> MetaProperties:
        """Return what a disk is formatted with."""
        return MetaProperties(
            profile=self.profile.name,
            cluster_id=config.cluster_id,
            node_id=config.node_id,
            directory_id=config.directory_id,
        )

    def first_files(self, configs: list[Config], swarm: Swarm) -> Mapping[int, Mapping[str, bytes]]:
        """Return the files, by node and name, that first disks have beside their properties.

        Names are from the log directory on. A disk that is replaced later has none of them.
        """
        return {}

    def with_new_disk(self, config: Config, directory_id: Uuid) -> Config:
        """Return the configuration of a node whose disk was replaced by an empty one."""
        return msgspec.structs.replace(config, directory_id=directory_id)

    def configuration_of(self, replica: Replica) -> Config:
        """Return what a node starts with; of what was decided, it may depend on the node alone."""
        return replica.config

    def older(self, vote_version: int) -> Mapping[int, int]:
        """Return the highest versions, by API key, of a release that speaks this one of Vote."""
        return {VOTE_API_KEY: vote_version}

    def operator(self, schedule: Schedule) -> Operator:
        """Return who changes the quorum from time to time."""
        return Operator(schedule)

    def faults(self, schedule: Schedule) -> Faults:
        """Return who draws the faults."""
        return Faults(schedule)
