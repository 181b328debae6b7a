"""The profile ``kip-595``: voters known by their ids, FindQuorum, and moves by AlterQuorum.

Disks are formatted without a cluster id: the first leader makes one. Of every ten quorums one has
nodes that were told different first voters; once the faults are over, their operator begins anew
where nobody has campaigned. Of another a minority of the first voters is not started before
somebody has led. Two of ten, whichever they are, begin with more servers than the voters: with
brokers that were told no first voters, and with servers that are down for the whole run, a minority
of them all. From their second incarnation on, nodes with even ids do without ``quorum.voters``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from kraftspec.fastpath.types import Uuid
from kraftspec.reference.profiles.kip_595.assignment import Assignment
from kraftspec.reference.profiles.kip_595.messages import AlterQuorum, FindQuorum
from kraftspec.reference.raft import Config, ReplicaKey, Voter, VoterSet
from kraftspec.reference.raft.messages import DescribeQuorum, Request
from kraftspec.reference.raft.types import Node
from kraftspec.simulation.initial_quorum import PORT_BASE, endpoints_of
from kraftspec.simulation.operators import VOTERS_MAX, Operator
from kraftspec.simulation.protocols.base import SimulatedProtocol
from kraftspec.simulation.rng import Rng
from kraftspec.simulation.swarm import MS, S, Swarm
from kraftspec.simulation.targeted_power_loss import TargetedPowerLoss
from kraftspec.simulation.timeline import Timeline

MIXED = 1_000  # Runs of 10,000 whose nodes were told different first voters.
ABSENT = 1_000  # Runs of 10,000 in which a minority starts after the first election.
BUSY = 2_500  # Runs of 10,000 whose operator changes the voters all the time.
UNTOLD = 2_000  # Runs of 10,000 that begin with more servers than the voters.
ALTER_TIMEOUT_US = 5 * S


FORGETFUL_MIN = 2  # Voters, where a node may lose what it had not synced.


class DraftOperator(Operator):
    """Asks a node for other voters; now and then one that does not lead, or for one unknown."""

    def _change(self) -> None:
        if not self.period_us:
            return
        self.plan()
        world, rng = self.schedule.world, self.schedule.rng
        leader = world.leader()
        if leader is None:
            return
        kind = rng.below(8)
        receiver = rng.pick(list(world.replicas)) if kind == 0 else leader.id
        if kind == 1:
            world.ask(receiver, rng.pick((DescribeQuorum(), FindQuorum())))
            return
        ids = [id for id in world.replicas if rng.below(2)][:VOTERS_MAX] or [leader.id]
        if len(ids) < FORGETFUL_MIN and self.schedule.swarm.forgets:
            return  # The second shape of docs/findings/kraft-gridlock.md.
        if kind == 0:
            ids.append(len(world.replicas))  # Nobody's.
        self.alter(receiver, tuple(ids))

    def alter(self, node_id: int, targets: tuple[int, ...]) -> None:
        """Ask a node for these voters."""
        self.schedule.met["AlterQuorum"] += 1
        self.schedule.world.ask(node_id, AlterQuorum(targets=targets, timeout_us=ALTER_TIMEOUT_US))


class DraftFaults(TargetedPowerLoss):
    """Faults; when they end, an operator who had mixed up the first voters formats anew."""

    def stop(self) -> None:
        """End all faults."""
        replicas = list(self.schedule.world.replicas.values())
        has_quorum = any(replica.epoch or replica.log_model.ends for replica in replicas)
        if self.schedule.swarm.mixed_voters and not has_quorum:
            for replica in replicas:
                if replica.is_up:
                    self._down(replica, None)
                self._replace(replica)
        super().stop()


class Kip595Protocol(SimulatedProtocol):
    """How the simulator forms and runs quorums of KIP-595's draft."""

    has_snapshots = False
    # Voters are records of the log, whatever kraft.version says: the draft has none.
    model: Mapping[str, str] = {
        "PreVote": '"none"',
        "Dynamic": "TRUE",
        "Reassigns": "TRUE",
    }
    changes = (AlterQuorum,)
    liveness = (
        "leader_elected",
        "appends_acknowledged",
        "replicas_catch_up",
        "reassignment_finishes",
        "leadership_stays",
        "successor_leads",
    )
    # No snapshots, so nothing is said of them, and no pre-votes.
    invariants = (
        *(
            name
            for name in SimulatedProtocol.invariants
            if name
            not in ("snapshot_is_prefix", "snapshot_at_log_start", "leader_loads_no_snapshot")
        ),
        "non_voters_rarely_disrupt",
        "voters_are_stored",
    )
    legal: Mapping[str, AbstractSet[str]] = {
        "unattached": {"unattached", "candidate", "follower"},
        "prospective": set[str](),
        "candidate": {"leader", "unattached", "follower"},
        "leader": {"resigned", "unattached", "follower"},
        "follower": {"candidate", "follower", "unattached"},
        "resigned": {"unattached", "follower"},
    }
    alone: Mapping[str, AbstractSet[str]] = {
        "unattached": {"leader"},
        "prospective": set[str](),
        "candidate": set[str](),
        "leader": set[str](),
        "follower": {"leader"},
        "resigned": {"candidate", "leader"},
    }
    # One step may go two arrows: a delay before an election may be nothing.
    twice: AbstractSet[tuple[str, str]] = frozenset(
        {
            ("resigned", "candidate"),
            ("candidate", "resigned"),
            ("leader", "candidate"),
        }
    )

    def restrict(self, swarm: Swarm, rng: Rng) -> None:
        """Take away what the draft has not: snapshots, directory ids, versions."""
        swarm.kraft_version = 0
        swarm.joiners = rng.pick((0, 1, 2))
        swarm.auto_join = False
        swarm.old_nodes, swarm.old_vote_version = 0, -1
        swarm.wipe_period_us = 0  # A voter that forgets is not protected by its id.
        swarm.corruption_period_us = 0  # The same: a corrupted disk has to be wiped.
        swarm.snapshot_period_us = 0
        swarm.clean_period_us = 0
        swarm.mixed_voters = swarm.voters > 1 and rng.in_ten_thousand(MIXED)
        if rng.in_ten_thousand(BUSY):
            swarm.reconfigure_period_us = rng.between(200 * MS, 2 * S)
        if rng.in_ten_thousand(ABSENT) and not swarm.mixed_voters:
            swarm.absent = (swarm.voters - 1) // 2
        swarm.untold = rng.in_ten_thousand(UNTOLD)
        if swarm.untold:
            up = swarm.voters - swarm.absent + swarm.joiners + swarm.observers
            swarm.dead_servers = rng.below(up - swarm.absent)

    def configurations(self, swarm: Swarm, rng: Rng) -> list[Config]:
        """Return one configuration a node; all begin with the same addresses."""
        count = swarm.voters + swarm.joiners + swarm.observers
        server_ids = range(count + swarm.dead_servers if swarm.untold else swarm.voters)
        servers = tuple(Node(-2 - id, "localhost", PORT_BASE + id) for id in server_ids)
        self._meant = _voters(range(swarm.voters))
        voters = [_voters(range(swarm.voters))] * count
        if swarm.mixed_voters:
            halves = (range(swarm.voters // 2), range(swarm.voters // 2, swarm.voters))
            voters = [_voters(rng.pick((*halves, range(swarm.voters)))) for _ in range(count)]
        if swarm.untold:
            voters[swarm.voters :] = [VoterSet()] * (count - swarm.voters)
        return [
            Config(
                cluster_id="",
                node_id=id,
                endpoints=endpoints_of(id),
                voters=voters[id],
                bootstrap_servers=servers,
                retry_backoff_max_us=1 * S,
                retention_bytes=-1,
            )
            for id in range(count)
        ]

    def with_new_disk(self, config: Config, directory_id: Uuid) -> Config:
        """Return the configuration that was meant in the first place."""
        voters = self._meant if len(config.voters) else config.voters
        return msgspec.structs.replace(config, voters=voters)

    def configuration_of(self, config: Config, incarnation: int, durable_end: int) -> Config:
        """Return what a node starts with: ``quorum.voters`` may go once they are in its log."""
        if config.node_id % 2 == 0 and incarnation and durable_end > 0:
            return msgspec.structs.replace(config, voters=VoterSet())
        return config

    def is_voter(
        self, key: ReplicaKey, voters: VoterSet, earlier: Sequence[VoterSet]
    ) -> bool | None:
        """Let a voter take itself for none: its leader tells it so before its log does."""
        return None if voters.is_voter(key) else False

    def unasked(
        self, before: VoterSet, after: VoterSet, requests: list[Request], own_id: int
    ) -> str:
        """Return targets that nobody asked for, or a move that leads to none that are in force."""
        assert isinstance(after, Assignment)
        targets = before.targets if isinstance(before, Assignment) else None
        if after.targets not in (None, targets):
            matching = [one for one in requests if self.has_happened(one, after)]
            return "" if matching else f"AlterQuorum of {after.targets}"
        added = {*after.ids} - {*before.ids}
        removed = {*before.ids} - {*after.ids}
        if not added | removed and targets in (after.targets, after.ids):
            return ""
        is_move = targets is not None and added <= {*targets} and not removed & {*targets}
        return "" if is_move else f"voters {after.ids}, where {targets} are to be"

    def has_happened(self, request: Request, voters: VoterSet) -> bool:
        """Whether these voters have the targets that were asked for: that is what is answered."""
        assert isinstance(request, AlterQuorum)
        assert isinstance(voters, Assignment)
        return voters.targets == tuple(sorted({*request.targets}))

    def operator(self, schedule: Timeline) -> Operator:
        """Return who asks for other voters."""
        return DraftOperator(schedule)

    def faults(self, schedule: Timeline, operator: Operator) -> TargetedPowerLoss:
        """Return who draws the faults."""
        return DraftFaults(schedule, operator)


def _voters(ids: range) -> VoterSet:
    return VoterSet(Voter(ReplicaKey(id)) for id in ids)


PROTOCOL = Kip595Protocol
