"""Partitions along majorities that have no node in common, where a node acts on voters of before.

The voters that a node acts on are the last that its log has. Where they are not, as
``voters_follow_log`` demands, a run ends there. With that property ignored the run goes on, and
what follows is looked for here: such a node and a majority of what it takes for the voters are on
one side, a majority of the voters on the other. Nodes that act on their logs never meet this.
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
        for replica in list(schedule.world.running()):
            if leader is not None and not self._cuts and _is_stale(replica, leader):
                self._divide(replica, leader)
        schedule.after(LOOK_US, self._look)

    def _divide(self, stale: Replica, leader: Replica) -> None:
        """Let one node campaign on each side. All others start again, so that they follow nobody.

        The first does not: it would read its log again.
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
            (one for one in self._up(leader.core.log.voters.last) if one in there), key=_end
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
        voters = self._up(own)
        mates = [one for one in voters if one is not stale and _end(one) <= _end(stale)]
        # Who is no voter any more is missed least.
        mates.sort(key=lambda one: (due.is_voter(one.key), one is leader, one.id))
        here = [stale, *mates[: own.majority - 1]]
        there = [one for one in self._up(due) if one not in here]
        can_vote = len(here) == own.majority and len(there) >= due.majority
        return here if can_vote else None

    def _up(self, voters: VoterSet) -> list[Replica]:
        return [one for one in self.schedule.world.running() if voters.is_voter(one.key)]


def _is_stale(replica: Replica, leader: Replica) -> bool:
    """Whether it takes itself for a voter by other voters than those whose record it has."""
    own, due = replica.core.log.voters, leader.core.log.voters
    if own.last.ids == due.last.ids or due.last_offset is None:
        return False
    edges = leader.log_model.edges_of(due.last_offset)
    if edges is None or not own.last.is_voter(replica.key):
        return False
    return replica.log_model.chain_at(edges[1]) == leader.log_model.chain_at(edges[1])


def _end(replica: Replica) -> tuple[int, int]:
    """Return what a voter compares: the epoch and the end of a log."""
    model = replica.log_model
    return (model.last_epoch, model.end_offset)
