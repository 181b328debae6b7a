"""Partitions along majorities without a common node, where one acts on an earlier voter set.

A node acts on the last voter set that its log has. Where it does not, ``voters_follow_log`` breaks,
and the run ends. With that property ignored the run goes on, and this looks for what follows: such
a node and a majority of its set are on one side, a majority of the last set is on the other.
Nodes that act on their logs never meet it.
"""

from __future__ import annotations

from typing import Final

from kraftspec.reference.raft import VoterSet
from kraftspec.simulation.invariants import is_ignored
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.swarm import S
from kraftspec.simulation.targeted_power_loss import TargetedPowerLoss

LOOK_US: Final = S // 2
CUT_US: Final = 20 * S  # Both sides elect, and commit.


class StaleVoters(TargetedPowerLoss):
    """Faults, and these partitions. Whether there is one is looked for without a draw."""

    def plan(self) -> None:
        """Plan the first of each kind."""
        super().plan()
        if is_ignored("voters_follow_log"):
            self.schedule.after(LOOK_US, self._look)

    def _look(self) -> None:
        schedule = self.schedule
        if not schedule.has_faults:
            return
        leader = schedule.world.leader()
        for replica in self._awake():
            if leader is not None and not self._cuts and _is_stale(replica, leader):
                self._divide(replica, leader)
        schedule.after(LOOK_US, self._look)

    def _divide(self, stale: Replica, leader: Replica) -> None:
        """Let the clocks of one node on each side jump, so that it campaigns.

        The leader and all others start again: they follow nobody then, and may vote.
        """
        here = self._side(stale, leader)
        if here is None:
            return
        schedule, world = self.schedule, self.schedule.world
        schedule.met["divided majorities"] += 1
        there = [one for one in world.replicas.values() if one not in here]
        links = [link for a in here for b in there for link in ((a.id, b.id), (b.id, a.id))]
        self._spoil_links(self._cuts, links, CUT_US)
        rival = max(
            (one for one in self._up(leader.core.log.voters.last) if one in there),
            key=lambda one: one.log_model.last,
        )
        for replica in (*here, *there):
            if replica in (stale, rival) and replica is not leader:
                world.jump(replica, replica.config.fetch_timeout_us)
            elif replica.is_up:
                self._down(replica, None)
                schedule.restart(replica)

    def _side(self, stale: Replica, leader: Replica) -> list[Replica] | None:
        """Return a majority by which a node may be elected, if it leaves the voters one, too."""
        own, due = stale.core.log.voters.last, leader.core.log.voters.last
        mates = [
            one
            for one in self._up(own)
            if one is not stale and one.log_model.last <= stale.log_model.last
        ]
        # Who is no voter any more is missed least.
        mates.sort(key=lambda one: (due.is_voter(one.key), one is leader, one.id))
        here = [stale, *mates[: own.majority - 1]]
        there = [one for one in self._up(due) if one not in here]
        can_vote = len(here) == own.majority and len(there) >= due.majority
        return here if can_vote else None

    def _up(self, voters: VoterSet) -> list[Replica]:
        return [one for one in self._awake() if voters.is_voter(one.key)]

    def _awake(self) -> list[Replica]:
        world = self.schedule.world
        return [one for one in world.running() if one.paused_until_us <= world.now_us]


def _is_stale(replica: Replica, leader: Replica) -> bool:
    """Whether it takes itself for a voter by an earlier set than the one whose record it has."""
    own, due = replica.core.log.voters, leader.core.log.voters
    if due.last_offset is None:
        return False
    if own.last_offset is not None and own.last_offset >= due.last_offset:
        return False
    edges = leader.log_model.edges_of(due.last_offset)
    if edges is None or _keys(own.last) == _keys(due.last) or not own.last.is_voter(replica.key):
        return False
    return replica.log_model.chain_at(edges[1]) == leader.log_model.chain_at(edges[1])


def _keys(voters: VoterSet) -> list[object]:
    return [voter.key for voter in voters]
