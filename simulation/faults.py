"""The faults of a run: each is drawn, happens, and is over after a while.

What a quorum cannot survive by its own rules is not done to it: disks are wiped only where voters
have directory ids (KIP-853), and never so many that a voter set has lost its majority.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from kraftspec.reference.raft import RoleName, Voter
from kraftspec.reference.raft.types import NEVER_US
from kraftspec.simulation.initial_quorum import directory_id_of
from kraftspec.simulation.network import Message
from kraftspec.simulation.operators import Operator
from kraftspec.simulation.replica import FULL, Replica
from kraftspec.simulation.swarm import MS, S
from kraftspec.simulation.timeline import Timeline
from kraftspec.simulation.world import World, add_node

SLOW_SYNC_US = 400 * MS
_ONE_LINK, _SPLIT = 2, 3  # Two of the ways to spoil links: one direction of one; two parts.
VOTERS_LEFT = 3  # At the least, where one of them moves: those that are left elect.
EFFECTS_MAX = 8  # Steps with more effects than that are rare.
# The ways to spoil links, as they are told.
_WAYS = (
    "around a node", "around a node, one way", "of a link, one way", "in two parts",
    "in two parts, one way",
)  # fmt: skip


class Faults:
    """Draws faults for a schedule; ``stop`` ends them, those under way too."""

    def __init__(self, schedule: Timeline, operator: Operator) -> None:
        self.schedule = schedule
        self.operator = operator
        self.rng = schedule.rng
        self.is_any_link_cut = False
        self.is_hunting = False  # Whether the next candidate that is answered loses its power.
        self._cuts: dict[tuple[int, int], int] = {}  # (source, target) → how many cuts.
        self._clogged: dict[tuple[int, int], int] = {}  # … → until when, in µs.
        self._mute: dict[tuple[int, int], int] = {}  # Replies lost.
        self._slow: dict[int, int] = {}  # Node → until when its disk is slow.
        self._moves = 0

    def plan(self) -> None:
        """Plan the first of each kind."""
        for period_us, fault in self.kinds():
            if period_us:
                self._plan_next(period_us, fault)

    def kinds(self) -> tuple[tuple[int, Callable[[], None]], ...]:
        """Return each kind of fault, and how often it is to come: 0 is never."""
        swarm = self.schedule.swarm
        return (
            (swarm.partition_period_us, self._partition),
            (swarm.lost_reply_period_us, self._lose_replies),
            (swarm.clog_period_us, self._clog),
            (swarm.isolation_period_us, self._isolate),
            (swarm.kill_period_us, self._kill),
            (swarm.power_period_us, self._power),
            (swarm.boundary_period_us, self._boundary),
            (swarm.election_period_us, self._election),
            (swarm.pause_period_us, self._pause),
            (swarm.clock_jump_period_us, self._clock_jump),
            (swarm.shutdown_period_us, self._shutdown),
            (swarm.slow_disk_period_us, self._slow_disk),
            (swarm.failing_disk_period_us, self._failing_disk),
            (swarm.full_disk_period_us, self._full_disk),
            (swarm.wipe_period_us, self._wipe),
            (swarm.corruption_period_us, self._corrupt),
            (swarm.resign_period_us, self._resign),
            (swarm.snapshot_period_us, self._snapshot),
            (swarm.clean_period_us, self._clean),
            (swarm.leader_removal_period_us, self._remove_leader),
            (swarm.move_period_us, self._move),
            (swarm.edge_snapshot_period_us, self._edge_snapshot),
            (swarm.silence_period_us, self._silence),
        )

    def _plan_next(self, period_us: int, fault: Callable[[], None]) -> None:
        self.schedule.after(self.rng.between(1, 2 * period_us), self._happen, period_us, fault)

    def _happen(self, period_us: int, fault: Callable[[], None]) -> None:
        if self.schedule.has_faults:
            fault()
            self._plan_next(period_us, fault)

    def stop(self) -> None:
        """End all faults: links, clocks and disks are as they should be, and everybody is up."""
        self.schedule.has_faults = self.is_hunting = False
        self._cuts.clear()
        self._mute.clear()
        self._clogged.clear()
        self._slow.clear()
        self.is_any_link_cut = False
        schedule = self.schedule
        schedule.loss = schedule.duplicate = schedule.straggler = schedule.late_reply = 0
        for replica in list(schedule.world.replicas.values()):
            if replica.effects_left >= 0:
                schedule.world.lose_power_within(replica, -1, 0)
            if replica.is_disk_spoilt:
                schedule.world.spoil_disk(replica, 0)
            replica.paused_until_us = min(replica.paused_until_us, schedule.world.now_us)
            if not replica.is_up:
                schedule.restart(replica)
            elif replica.core.shutdown_deadline_us != NEVER_US:  # It is leaving, or has left.
                self._down(replica, None)
                schedule.restart(replica)

    # ---- links -------------------------------------------------------------------------------

    def on_link(self, message: Message) -> int:
        """Return how long a message is held on its link, in µs; -1: it is lost."""
        link = (message.source, message.target)
        if link in self._cuts or (message.is_reply and link in self._mute):
            return -1
        return max(0, self._clogged.get(link, 0) - self.schedule.world.now_us)

    def _links(self) -> tuple[str, list[tuple[int, int]]]:
        """Draw links to spoil: around one node, between two parts, or one direction of one link."""
        ids = list(self.schedule.world.replicas)
        kind = self.rng.below(5)
        one = self.rng.pick(ids)
        others = [id for id in ids if id != one]
        way = _WAYS[kind]
        if not others:
            return way, []
        if kind == 0:  # One node from all, both ways.
            return way, [(one, id) for id in others] + [(id, one) for id in others]
        if kind == 1:  # One node does not hear, or is not heard.
            halves = ([(one, id) for id in others], [(id, one) for id in others])
            return way, self.rng.pick(halves)
        if kind == _ONE_LINK:
            return way, [(one, self.rng.pick(others))]
        left = [id for id in ids if self.rng.below(2)]
        right = [id for id in ids if id not in left]
        there = [(a, b) for a in left for b in right]
        back = [(b, a) for a, b in there]
        return way, there + back if kind == _SPLIT else there

    def _spoil(self, name: str, spoilt: dict[tuple[int, int], int], shortest_us: int) -> None:
        way, links = self._links()
        if not links:
            return
        self.schedule.met[name] += 1
        self.schedule.met[f"{name} {way}"] += 1
        self._spoil_links(spoilt, links, self.rng.between(shortest_us, 8 * S))

    def _spoil_links(
        self, spoilt: dict[tuple[int, int], int], links: list[tuple[int, int]], duration_us: int
    ) -> None:
        self.is_any_link_cut = True
        for link in links:
            spoilt[link] = spoilt.get(link, 0) + 1
        self.schedule.after(duration_us, self._mend, spoilt, links)

    def _isolate(self) -> None:
        """Partition one node, the leader more often than others, until the others have gone on."""
        one = self.one_up()
        if one is not None:
            self.schedule.met["isolated node"] += 1
            self._cut_off(one, self.rng.between(3 * S, 12 * S))

    def _cut_off(self, one: Replica, duration_us: int) -> None:
        others = [id for id in self.schedule.world.replicas if id != one.id]
        links = [(one.id, id) for id in others] + [(id, one.id) for id in others]
        self._spoil_links(self._cuts, links, duration_us)

    def _mend(self, spoilt: dict[tuple[int, int], int], links: list[tuple[int, int]]) -> None:
        for link in links:
            if spoilt.get(link, 0) > 1:
                spoilt[link] -= 1
            else:
                spoilt.pop(link, None)
        self.is_any_link_cut = bool(self._cuts or self._mute or self._clogged)

    def _partition(self) -> None:
        self._spoil("partition", self._cuts, 100 * MS)

    def _lose_replies(self) -> None:
        self._spoil("lost replies", self._mute, 100 * MS)

    def _clog(self) -> None:
        way, links = self._links()
        if links:
            self.schedule.met["clog"] += 1
            self.schedule.met[f"clog {way}"] += 1
            self.is_any_link_cut = True
            until_us = self.schedule.world.now_us + self.rng.between(100 * MS, 5 * S)
            for link in links:
                self._clogged[link] = until_us

    # ---- machines ----------------------------------------------------------------------------

    def one_up(self) -> Replica | None:
        """Draw a node that is up; the leader more often than others."""
        running = list(self.schedule.world.running())
        if not running:
            return None
        leaders = [replica for replica in running if replica.role is RoleName.LEADER]
        return self.rng.pick(leaders if leaders and self.rng.below(3) == 0 else running)

    def _down(self, replica: Replica, seed: int | None) -> None:
        self.schedule.world.crash(replica, seed)

    def _later(self, replica: Replica) -> None:
        delay_us = self.rng.pick((1 * MS, 50 * MS, 1 * S, 5 * S))
        self.schedule.after(
            self.rng.between(delay_us, 2 * delay_us), self.schedule.restart, replica
        )

    def _kill(self) -> None:
        replica = self.one_up()
        if replica is not None:
            self.schedule.met["kill"] += 1
            self._down(replica, None)
            self._later(replica)

    def _power(self) -> None:
        replica = self.one_up()
        if replica is not None:
            self.schedule.met["power loss"] += 1
            self._down(replica, self.rng.seed())
            self._later(replica)

    def _boundary(self) -> None:
        replica = self.one_up()
        if replica is not None:
            self.schedule.met["power loss between effects"] += 1
            effects = self.rng.below(EFFECTS_MAX)
            self.schedule.world.lose_power_within(replica, effects, self.rng.seed())
            self._later(replica)
            self.schedule.after(8 * S, self.schedule.restart, replica)

    def _election(self) -> None:
        """Let an election be held, and let who is answered in it lose its power."""
        self.is_hunting = self.unseat() or self.is_hunting

    def unseat(self) -> bool:
        """The leader goes and is back at once, and all others campaign at the same moment."""
        world = self.schedule.world
        leader = world.leader()
        if leader is None or leader.paused_until_us > world.now_us:
            return False
        self.schedule.met["gridlock"] += 1
        self._down(leader, self.rng.seed())
        self.schedule.after(self.rng.between(1 * MS, 50 * MS), self.schedule.restart, leader)
        for replica in list(world.running()):
            if replica.paused_until_us <= world.now_us:
                world.jump(replica, replica.config.fetch_timeout_us)
        return True

    def hunt(self, replica: Replica, message: Message) -> None:
        """Let a candidate lose its power in the step in which it may win, or soon after."""
        if replica.role is not RoleName.CANDIDATE or replica.effects_left >= 0:
            return
        self.is_hunting = False
        self.schedule.met["power loss in an election"] += 1
        effects = self.rng.below(EFFECTS_MAX)
        self.schedule.world.lose_power_within(replica, effects, self.rng.seed())
        for delay_us in (self.rng.between(1 * MS, 100 * MS), 8 * S):
            self.schedule.after(delay_us, self.schedule.restart, replica)

    def _pause(self) -> None:
        replica = self.one_up()
        if replica is not None:
            self.schedule.met["pause"] += 1
            pause_us = self.rng.pick((100 * MS, 1 * S, 4 * S))
            replica.paused_until_us = self.schedule.world.now_us + pause_us

    def _silence(self) -> None:
        """The leader stands still, with its connections open, until others have gone on."""
        leader = self.schedule.world.leader()
        if leader is not None and leader.paused_until_us <= self.schedule.world.now_us:
            self.schedule.met["silent leader"] += 1
            leader.paused_until_us = self.schedule.world.now_us + self.rng.between(5 * S, 15 * S)

    def _clock_jump(self) -> None:
        replica = self.one_up()
        if replica is not None:
            self.schedule.met["clock jump"] += 1
            # Forwards, as after a suspension: a host's clock is monotonic, and never goes back.
            self.schedule.world.jump(replica, self.rng.pick((100 * MS, 2 * S, 60 * S)))

    def _shutdown(self) -> None:
        replica = self.one_up()
        if replica is not None:
            self.schedule.met["shutdown"] += 1
            self.schedule.world.shut_down(replica, 2 * S)
            self.schedule.after(3 * S, self._leave, replica, replica.incarnation)

    def _leave(self, replica: Replica, incarnation: int) -> None:
        if replica.is_up and replica.incarnation == incarnation:
            self._down(replica, None)
            self._later(replica)

    def _resign(self) -> None:
        leader = self.schedule.world.leader()
        if leader is not None and leader.paused_until_us <= self.schedule.world.now_us:
            self.schedule.met["resignation"] += 1
            self.schedule.world.resign(leader)

    # ---- disks -------------------------------------------------------------------------------

    def sync_us(self, replica: Replica) -> int:
        """Draw how long a disk takes to sync."""
        swarm = self.schedule.swarm
        sync_us = self.rng.between(swarm.sync_min_us, swarm.sync_max_us)
        if self._slow and self.is_slow(replica):
            return sync_us + SLOW_SYNC_US
        return sync_us

    def is_slow(self, replica: Replica) -> bool:
        """Whether its disk takes long to sync."""
        return self._slow.get(replica.id, 0) > self.schedule.world.now_us

    def slow_down(self, replica: Replica, for_us: int) -> None:
        """Let a disk take long to sync for a while."""
        self._slow[replica.id] = self.schedule.world.now_us + for_us

    def _slow_disk(self) -> None:
        replica = self.one_up()
        if replica is not None:
            self.schedule.met["slow disk"] += 1
            self.slow_down(replica, self.rng.between(1 * S, 6 * S))

    def _failing_disk(self) -> None:
        """One of the next operations of a disk fails; whether its bytes got there, nobody knows."""
        replica = self.one_up()
        if replica is not None:
            self.schedule.met["failing disk"] += 1
            self.schedule.world.spoil_disk(replica, 1 + self.rng.below(20))
            self.schedule.after(3 * S, self._repair, replica)
            self.schedule.after(4 * S, self.schedule.restart, replica)

    def _full_disk(self) -> None:
        replica = self.one_up()
        if replica is not None:
            self.schedule.met["full disk"] += 1
            self.schedule.world.spoil_disk(replica, FULL)
            self.schedule.after(3 * S, self._repair, replica)
            self.schedule.after(4 * S, self.schedule.restart, replica)

    def _repair(self, replica: Replica) -> None:
        self.schedule.world.spoil_disk(replica, 0)

    def may_wipe(self, replica: Replica) -> bool:
        """Whether every voter set that there is, or may be soon, has a majority without this.

        Who removed itself by a later set of its own log counts for none: see
        ``Operator.others_elect``.
        """
        keys = self.schedule.whole_disks()
        keys.pop(replica.key, None)
        for other in self.schedule.world.replicas.values():
            sets = other.known_voters
            votes = [voters.is_voter(other.key) for _, voters in sets]
            if any(votes) and not votes[-1] and sets[-1][0] >= other.high_watermark:
                keys.pop(other.key, None)
        operator = self.operator
        for other in self.schedule.world.replicas.values():
            for _, voters in other.known_voters:
                for gone, added in product((None, *operator.removing), (None, *operator.adding)):
                    left = [voter.key for voter in voters if voter.key != gone]
                    if added is not None and added.id not in voters:
                        left.append(added)
                    if sum(1 for key in left if key in keys) < len(left) // 2 + 1:
                        return False
        return True

    def _wipe(self) -> None:
        replica = self.one_up()
        if replica is not None and self.may_wipe(replica):
            self.schedule.met["wiped disk"] += 1
            self._down(replica, None)
            self._replace(replica)

    def _corrupt(self) -> None:
        """Bits flip in a log at rest; recovery has to notice."""
        replica = self.one_up()
        if replica is None or not self.may_wipe(replica) or not replica.log_model.ends:
            return
        self._down(replica, None)
        if replica.corrupt(self.rng):
            self.schedule.met["bit corruption"] += 1
            self.schedule.corrupted[replica.id] = None
        self._later(replica)

    def before_start(self, replica: Replica) -> None:
        """Wipe a disk that cannot be opened."""
        if replica.id in self.schedule.corrupted:
            del self.schedule.corrupted[replica.id]
            replica.check_corruption_is_detected()
            self._replace(replica)

    def _replace(self, replica: Replica) -> None:
        """Give the node an empty disk, formatted with another directory id."""
        schedule = self.schedule
        config = schedule.world.protocol.with_new_disk(replica.config, directory_id_of(self.rng))
        again = add_node(schedule.world, schedule.swarm, self.rng, config)
        self._later(again)

    # ---- membership --------------------------------------------------------------------------

    def _remove_leader(self) -> None:
        """The leader is asked to remove itself, and is cut off before that is over, or after it.

        Where the others would be too few, somebody is added.
        """
        leader, operator = self.schedule.world.leader(), self.operator
        if leader is None:
            return
        if not operator.may_remove(leader, leader.key):
            operator.add(leader, operator.to_add(leader))
            return
        self.schedule.met["leader removed"] += 1
        swarm, rng = self.schedule.swarm, self.rng
        if swarm.is_careless and rng.below(2):  # Nobody else gets the record.
            self._cut_off(leader, rng.between(1 * S, 5 * S))
            self.schedule.after(rng.between(1, 1 * S), self._kill_this, leader, leader.incarnation)
        operator.remove(leader, leader.key)
        round_trip_us = 2 * (swarm.latency_max_us + swarm.sync_max_us)
        duration_us = rng.between(500 * MS, 5 * S)
        self.schedule.after(rng.between(1, 3 * round_trip_us), self._cut_off, leader, duration_us)

    def _kill_this(self, replica: Replica, incarnation: int) -> None:
        if self.schedule.has_faults:
            self._leave(replica, incarnation)

    def _move(self) -> None:
        """A node restarts under another address, when all voters are where the last set says.

        Else two that have moved could not ask each other, and a third that has the longest log
        could ask neither: nobody would be elected.
        """
        world = self.schedule.world
        leader, replica = world.leader(), self.one_up()
        if leader is None or replica is None or not replica.can_move:
            return
        voters = leader.core.log.voters
        if len(voters.last) < VOTERS_LEFT or (voters.last_offset or 0) >= leader.high_watermark:
            return
        if not all(is_found(world, voter) for voter in voters.last):
            return
        self.schedule.met["moved"] += 1
        self._moves += 1
        self._down(replica, None)
        world.move(replica, self._moves)
        self._later(replica)

    # ---- state machines ----------------------------------------------------------------------

    def _snapshot(self) -> None:
        replica = self.one_up()
        if replica is not None and replica.paused_until_us <= self.schedule.world.now_us:
            self.schedule.world.snapshot(replica, self.rng.below(8) == 0)

    def _edge_snapshot(self) -> None:
        """A snapshot ends where a control record begins, or ends, and its node restarts.

        The record is the last with voters, or the one that opens the last epoch.
        """
        replica = self.one_up()
        if replica is None or replica.paused_until_us > self.schedule.world.now_us:
            return
        rng, log_model = self.rng, replica.log_model
        known = replica.known_voters
        at = known[-1][0] if known and rng.below(4) else log_model.last_epoch_start
        edges = log_model.edges_of(at)
        if edges is None:
            return
        world, end = self.schedule.world, rng.pick(edges)
        newest = max((one.end_offset for one in replica.snapshots), default=0)
        if max(newest, log_model.start_offset) < end <= replica.high_watermark:
            self.schedule.met["snapshot at a control record"] += 1
            world.snapshot(replica, False, end)
            if replica.is_up and rng.below(3) == 0:
                world.clean(replica)
        if replica.is_up:
            self._down(replica, rng.seed() if rng.below(2) else None)
            self._later(replica)

    def _clean(self) -> None:
        replica = self.one_up()
        if replica is not None and replica.paused_until_us <= self.schedule.world.now_us:
            self.schedule.world.clean(replica)


def is_found(world: World, voter: Voter) -> bool:
    """Whether a voter is where its entry says."""
    replica = world.replica_of(voter.key)
    return replica is not None and {*replica.endpoints} == {*voter.endpoints}
