"""The profile ``kip-996``: static voters, pre-votes and Check Quorum as drafted.

Beside the faults that all protocols meet, some of its runs are about the draft's table of a disk
that is lost: nothing else fails in these.
"""

from __future__ import annotations

from collections.abc import Mapping

from kraftspec.reference.profiles.kip_996.profile import PRE_VOTE, Kip996Profile
from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft.leader import Leader
from kraftspec.reference.raft.profile import Profile
from kraftspec.simulation.operators import Operator
from kraftspec.simulation.protocols.base import SimulatedProtocol
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.rng import Rng
from kraftspec.simulation.swarm import MS, S, Swarm
from kraftspec.simulation.targeted_power_loss import TargetedPowerLoss
from kraftspec.simulation.timeline import Timeline

OLD_VOTE_VERSION = 0  # Without PreVote.
DISK_LOSS = 1_500  # Runs of 10,000 that are about a lost disk.
DISK_LOSS_PERIOD_US = 2 * S
LAG_US = 60 * S
_OF_CHANGES = (
    "one_voter_change", "change_was_asked_for", "answered_change_is_committed",
    "new_voter_is_caught_up",
)  # fmt: skip
IN_FLIGHT_US = 500 * MS  # After this nothing that a node sent is under way.


class Kip996Protocol(SimulatedProtocol):
    """How the simulator forms and runs quorums of KIP-996's draft."""

    changes = ()
    model: Mapping[str, str] = {"PreVote": '"kip-996"'}

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        assert isinstance(profile, Kip996Profile)
        # No voter set ever changes, so what is said of changes is left out.
        names = [name for name in self.invariants if name not in _OF_CHANGES]
        self.has_pre_votes = PRE_VOTE not in profile.without
        if self.has_pre_votes:  # Without them a leader is deposed by whoever was cut off.
            names.insert(
                names.index("no_vote_against_live_leader"), "no_election_against_live_leader"
            )
        else:
            self.legal = {
                "unattached": {"unattached", "candidate", "follower"},
                "follower": {"candidate", "follower", "unattached"},
                "candidate": {"leader", "unattached", "follower"},
                "leader": SimulatedProtocol.legal["leader"],
                "resigned": SimulatedProtocol.legal["resigned"],
            }
            self.twice = {("resigned", "candidate"), ("candidate", "resigned"),
                          ("leader", "candidate")}  # fmt: skip
        self.invariants = tuple(names)
        self.liveness = (
            "leader_elected", "appends_acknowledged", "replicas_catch_up", "majority_elects",
            "leadership_stays", "successor_leads",
        )  # fmt: skip

    def restrict(self, swarm: Swarm, rng: Rng) -> None:
        """Let the voters be static: nobody is added or removed, and no disk is replaced.

        But for the runs about a lost disk, in which a follower's is, and in which its leader and
        the links between the others do not fail.
        """
        swarm.kraft_version = 0
        swarm.joiners = 0
        swarm.auto_join = False
        swarm.reconfigure_period_us = 0
        swarm.wipe_period_us = 0  # Nothing protects a static quorum from a voter that forgot.
        swarm.corruption_period_us = 0  # The same: a corrupted disk has to be wiped.
        if swarm.old_nodes:
            swarm.old_vote_version = OLD_VOTE_VERSION
        if rng.in_ten_thousand(DISK_LOSS) and swarm.voters in (3, 5):
            for name in swarm.faults:
                setattr(swarm, name, 0)
            swarm.disk_loss_period_us = DISK_LOSS_PERIOD_US
            swarm.append_period_us = 20 * MS
            swarm.records_max = 1
            swarm.fetch_max_bytes = 1  # One batch at a time, so that who lags goes on lagging.

    def faults(self, schedule: Timeline, operator: Operator) -> TargetedPowerLoss:
        """Return faults among which is the loss of a disk."""
        return _Faults(schedule, operator)


class _Faults(TargetedPowerLoss):
    """Faults, and those of the draft's table: some followers lag, and another loses its disk."""

    def __init__(self, schedule: Timeline, operator: Operator) -> None:
        super().__init__(schedule, operator)
        self._lost: tuple[int, int] | None = None  # Who has to get back how much of the log.

    def plan(self) -> None:
        """Plan the first of each kind."""
        super().plan()
        period_us = self.schedule.swarm.disk_loss_period_us
        if period_us:
            self._plan_next(period_us, self._lose_disk)

    def _lose_disk(self) -> None:
        """Let some followers lag (T0), and when they do, take another's disk (T1)."""
        world = self.schedule.world
        leader = world.leader()
        if leader is None or not self._is_calm(leader):
            return
        voters = [world.replicas[voter.key.id] for voter in leader.core.log.voters.last]
        followers = sorted(
            (replica for replica in voters if replica is not leader), key=lambda r: r.durable_end
        )
        lagging, rest = followers[: len(followers) // 2], followers[len(followers) // 2 :]
        is_behind = all(r.durable_end < world.committed_log.high_watermark for r in lagging)
        if not is_behind or any(r.id not in self._slow for r in lagging):
            self.schedule.met["lagging follower"] += 1
            self._slow = {replica.id: world.now_us + LAG_US for replica in lagging}
            return
        lost = rest[-1]
        self._down(lost, None)
        self.schedule.after(IN_FLIGHT_US, self._lose, lost, lost.incarnation, leader, leader.epoch)

    def _is_calm(self, leader: Replica, *, but: Replica | None = None) -> bool:
        """Whether everybody follows, and whoever lost its disk has back what it had."""
        replicas = self.schedule.world.replicas
        if self._lost is not None:
            id, offset = self._lost
            if replicas[id].durable_end < offset:
                return False
        voters = [replicas[voter.key.id] for voter in leader.core.log.voters.last]
        return all(
            replica.is_up
            and (
                replica is leader
                or (replica.role is RoleName.FOLLOWER and replica.epoch == leader.epoch)
            )
            for replica in voters
            if replica is not but
        )

    def _lose(self, lost: Replica, incarnation: int, leader: Replica, epoch: int) -> None:
        """Let a node that is down come back empty, and not hear from its leader for a while (T2).

        Unless the leader has yet to learn that something is committed, which it counts that node
        for: nothing protects a static quorum from that.
        """
        if lost.is_up or lost.incarnation != incarnation:
            return  # The faults are over.
        role = leader.core.role
        if (
            not isinstance(role, Leader)
            or not leader.is_up
            or leader.epoch != epoch
            or not self._is_calm(leader, but=lost)
            or role.voters[lost.id].end_offset > leader.high_watermark
        ):
            self.schedule.restart(lost)
            return
        self.schedule.met["lost disk"] += 1
        self._lost = (lost.id, leader.high_watermark)
        links = [(leader.id, lost.id), (lost.id, leader.id)]
        for link in links:
            self._cuts[link] = self._cuts.get(link, 0) + 1
        self.is_any_link_cut = True
        self.schedule.after(self.rng.between(4 * S, 12 * S), self._mend, self._cuts, links)
        self._replace(lost)


PROTOCOL = Kip996Protocol
