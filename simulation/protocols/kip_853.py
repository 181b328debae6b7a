"""The profile ``kip-853``: replicas with uuids, added and removed one record at a time.

Of every three quorums that are not static one begins as the draft says, with a single voter, and
an operator adds the others. The rest begin with all voters, so that faults find a quorum at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.reference.profiles.kip_853.bootstrap import bootstrap_files
from kraftspec.reference.raft import Config, ReplicaKey, Voter
from kraftspec.reference.raft.messages import AddVoter, RemoveVoter, Request
from kraftspec.simulation.operators import Operator
from kraftspec.simulation.protocols.base import SimulatedProtocol
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.rng import Rng
from kraftspec.simulation.swarm import MS, S, Swarm
from kraftspec.simulation.targeted_power_loss import TargetedPowerLoss
from kraftspec.simulation.timeline import Timeline

WIPE_PERIOD_US = 3 * S  # Where disks are all that fails.
PARTITIONED_REMOVAL_PERIOD_US = 500 * MS  # Between two of the changes that are made without it.
GROWTH_PERIOD_US = 2 * S  # How often an operator looks after a quorum that begins with one voter.


class DraftOperator(Operator):
    """Names static voters by their uuids; to them it gives no endpoints, which would be refused."""

    def to_add(self, leader: Replica) -> Replica | None:
        """Draw who is no voter; or, of static voters, one whose uuid is not known."""
        if self.schedule.swarm.kraft_version:
            return super().to_add(leader)
        voters = leader.core.log.voters.last
        unnamed = [v.key.id for v in voters if v.key.directory_id == ZERO_UUID]
        if not unnamed:
            return None
        return self.schedule.world.replicas[self.schedule.rng.pick(unnamed)]

    def _to_remove(self, leader: Replica) -> ReplicaKey | None:
        """Draw a voter, unless a removal may be on its way: a leader may take its time."""
        return None if self.removing else super()._to_remove(leader)

    def others_elect(self, leader: Replica, removed: ReplicaKey) -> bool:
        """Remove any voter: whoever the others need campaigns until its removal is committed."""
        return True

    def add(self, leader: Replica, replica: Replica | None) -> None:
        """Ask for a replica to become a voter, or to be known by its uuid."""
        if replica is not None:
            self.schedule.met["AddVoter"] += 1
            request = AddVoter(
                voter_id=replica.id,
                voter_directory_id=replica.key.directory_id,
                endpoints=replica.config.endpoints if self.schedule.swarm.kraft_version else (),
            )
            self.ask(leader.id, request)

    def remove(self, leader: Replica, key: ReplicaKey | None) -> None:
        """Ask for a voter to be removed; or, of one with a new disk, as often for that one."""
        if key is not None:
            replica = self.schedule.world.replicas[key.id]
            if replica.key != key and self.schedule.rng.below(2):
                self.schedule.met["another uuid"] += 1
                self.add(leader, replica)
                return
        super().remove(leader, key)


class RemovedWhilePartitioned(TargetedPowerLoss):
    """Partitions a voter and removes it meanwhile. It is back when the faults are over.

    Two voters are added in that time, and it and another are removed, so that it knows few of the
    voters that there are by then.
    """

    def plan(self) -> None:
        """Plan the first of each kind."""
        super().plan()
        self.removed_voter_id: int | None = None
        period_us = self.schedule.swarm.partitioned_removal_period_us
        if period_us:
            self._plan_next(period_us, self._go_on)

    def _go_on(self) -> None:
        """Partition a voter; or, once one is, request the next change."""
        world = self.schedule.world
        leader = world.leader()
        if leader is None or leader.high_watermark < 0:
            return
        voters = leader.core.log.voters.last
        if self.removed_voter_id is None:
            self.schedule.met["removed while partitioned"] += 1
            removed_id = self.rng.pick([id for id in voters.ids if id != leader.id])
            self.removed_voter_id = removed_id
            for id in world.replicas:
                if id != removed_id:
                    self._cuts[removed_id, id] = self._cuts[id, removed_id] = 1
            self.is_any_link_cut = True
            return
        operator = self.operator
        old = [v.key for v in voters if v.key.id < self.schedule.swarm.voters]
        joiners = [
            replica
            for replica in world.replicas.values()
            if replica.config.can_become_voter
            and replica.id >= self.schedule.swarm.voters
            and not voters.is_voter(replica.key)
        ]
        if joiners:
            operator.add(leader, joiners[0])
        elif self.removed_voter_id in voters.ids:
            operator.remove(leader, next(key for key in old if key.id == self.removed_voter_id))
        elif len(old) > 1:
            operator.remove(leader, next(key for key in old if key.id != leader.id))


class Kip853Protocol(SimulatedProtocol):
    """How the simulator forms and runs quorums of KIP-853's first version."""

    changes = (AddVoter, RemoveVoter)
    model: Mapping[str, str] = {"PreVote": '"none"', "FirstKip853": "TRUE"}
    liveness = ("removed_voter_stops", *SimulatedProtocol.liveness)
    # No role of pre-votes: who was prospective in Kafka is a candidate at once (the Raft paper).
    legal: Mapping[str, AbstractSet[str]] = {
        "unattached": {"unattached", "candidate", "follower"},
        "candidate": {"leader", "candidate", "unattached", "follower"},
        "leader": {"resigned", "unattached", "follower"},
        "follower": {"candidate", "follower", "unattached"},
        "resigned": {"unattached", "follower"},
    }
    alone: Mapping[str, AbstractSet[str]] = {
        "unattached": {"leader"},
        "candidate": set[str](),
        "leader": set[str](),
        "follower": {"leader"},
        "resigned": {"candidate", "leader"},
    }
    twice: AbstractSet[tuple[str, str]] = frozenset(
        {("resigned", "candidate"), ("candidate", "resigned"), ("leader", "candidate")}
    )

    def restrict(self, swarm: Swarm, rng: Rng) -> None:
        """Let replicas be added by the operator alone, and speak of uuids where they have to.

        An old node, whose Vote has no uuids, may be one of static voters. In a few runs nothing
        happens but such a removal; in a few others only disks are replaced, one after the other.
        """
        swarm.auto_join = False
        if swarm.kraft_version:
            swarm.old_nodes = 0
        else:
            swarm.old_vote_version = 0
        if swarm.kraft_version and rng.below(3) == 0:
            swarm.joiners += swarm.voters - 1
            swarm.voters = 1
            swarm.reconfigure_period_us = swarm.reconfigure_period_us or GROWTH_PERIOD_US
        elif swarm.kraft_version and rng.below(20) == 0:
            for name in swarm.faults:
                setattr(swarm, name, 0)
            swarm.voters, swarm.joiners, swarm.observers = 3, 2, 0
            swarm.partitioned_removal_period_us = PARTITIONED_REMOVAL_PERIOD_US
            swarm.append_period_us = 200 * MS
        elif swarm.kraft_version and rng.below(20) == 0:
            for name in swarm.faults:
                setattr(swarm, name, 0)
            swarm.voters, swarm.joiners = rng.pick((3, 5)), 0
            swarm.wipe_period_us, swarm.reconfigure_period_us = WIPE_PERIOD_US, 1 * S
            swarm.straggler = 300
            swarm.append_period_us = 200 * MS

    def first_files(self, configs: list[Config], swarm: Swarm) -> Mapping[int, Mapping[str, bytes]]:
        """Return the log that makes the first voters known, and each one's uuid."""
        if not swarm.kraft_version:
            return {}
        first = configs[: swarm.voters]
        voters = [Voter(config.key, config.endpoints) for config in first]
        return {config.node_id: bootstrap_files(config.directory_id, voters) for config in first}

    def faults(self, schedule: Timeline, operator: Operator) -> TargetedPowerLoss:
        """Return faults among which a partitioned voter is removed."""
        return RemovedWhilePartitioned(schedule, operator)

    def asks_for(
        self, request: Request, kind: type[AddVoter | RemoveVoter], key: ReplicaKey
    ) -> bool:
        """Let AddVoter remove the voter with the same id and another uuid: it is replaced."""
        if isinstance(request, AddVoter) and kind is RemoveVoter:
            return request.voter_id == key.id and request.voter_directory_id != key.directory_id
        return super().asks_for(request, kind, key)

    def operator(self, schedule: Timeline) -> Operator:
        """Return who adds and removes voters."""
        return DraftOperator(schedule)


PROTOCOL = Kip853Protocol
