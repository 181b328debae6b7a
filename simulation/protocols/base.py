"""What a protocol decides of a simulated run: its rules, its nodes, and who disturbs them."""

from __future__ import annotations

from collections.abc import Mapping

from kraftspec.reference.raft import Config
from kraftspec.simulation.harness.cores import RunCores
from kraftspec.simulation.operators import Operator
from kraftspec.simulation.own import OwnReplica
from kraftspec.simulation.replica import Replica, Surroundings
from kraftspec.simulation.rules import Rules
from kraftspec.simulation.targeted_power_loss import TargetedPowerLoss
from kraftspec.simulation.timeline import Timeline


class SimulatedProtocol(Rules):
    """Base of all. What stands here are nodes of this project and the faults that all meet.

    ``cores`` says which nodes are of other implementations; None: none of them.
    """

    cores: RunCores | None = None
    has_other_cores = False  # Whether there are any.
    # The constants of model/KRaft.tla by which it describes this protocol.
    model: Mapping[str, str]

    def replica(
        self, world: Surroundings, config: Config, first_files: Mapping[str, bytes] | None
    ) -> Replica:
        """Return a node with a new disk: of this project, where nothing else is said."""
        if self.cores is not None:
            return self.cores.replica(world, config, first_files)
        return OwnReplica(world, config, first_files)

    def operator(self, schedule: Timeline) -> Operator:
        """Return who changes the quorum from time to time."""
        return Operator(schedule)

    def faults(self, schedule: Timeline, operator: Operator) -> TargetedPowerLoss:
        """Return who draws the faults."""
        return TargetedPowerLoss(schedule, operator)
