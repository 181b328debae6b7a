"""Leaders that are cut off with a long tail of records, and come back to a snapshot.

The tail is longer than all that the others commit meanwhile, and the log that the others share is
deleted up to a snapshot. So the leader of before fetches one that ends before its own log does, and
whose epoch is later. Between the moment at which that is stored and the one at which it has
replaced the log, the power goes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraftspec.reference.raft.messages import FetchSnapshot
from kraftspec.simulation.faults import Faults
from kraftspec.simulation.network import Message
from kraftspec.simulation.operators import Operator
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.swarm import MS, S
from kraftspec.simulation.timeline import Timeline

VOTERS_MIN: Final = 3
BURSTS: Final = 5
BURST_US: Final = 30 * MS  # Longer than appends linger.
APPENDS: Final = 8
LOOK_US: Final = 200 * MS
GONE_US: Final = 15 * S  # The longest that a leader is cut off, or its return is waited for.
# Of the end of a fetch: the last bytes, the snapshot's name, the reset of the log. An
# implementation whose disk is done at once has no more than the last two.
EFFECTS: Final = (0, 1, 1, 2, 2, 2, 3)
OPERATIONS_MAX: Final = 10  # Of a disk, in a reset.


class DivergedTails(Faults):
    """Faults, and leaders that are cut off and written to. ``_stranded`` is one of them."""

    def __init__(self, schedule: Timeline, operator: Operator) -> None:
        super().__init__(schedule, operator)
        self._stranded: Replica | None = None
        self._snapshot_key = -1

    def kinds(self) -> tuple[tuple[int, Callable[[], None]], ...]:
        """Return one more."""
        return (*super().kinds(), (self.schedule.swarm.stranding_period_us, self._strand))

    def _strand(self) -> None:
        """Cut off a leader, and let its state machine go on appending."""
        world = self.schedule.world
        leader = world.leader()
        if (
            self._stranded is not None
            or leader is None
            or leader.high_watermark < 0
            or len(leader.core.log.voters.last) < VOTERS_MIN
        ):
            return
        if self._snapshot_key < 0:
            request = FetchSnapshot(
                replica_id=0,
                leader_epoch=0,
                snapshot_end_offset=0,
                snapshot_epoch=0,
                position=0,
                max_bytes=0,
            )
            self._snapshot_key = world.profile.api_of(request).key
        self.schedule.met["stranded leader"] += 1
        self._stranded = leader
        others = [id for id in world.replicas if id != leader.id]
        links = [(leader.id, id) for id in others] + [(id, leader.id) for id in others]
        for link in links:
            self._cuts[link] = self._cuts.get(link, 0) + 1
        self.is_any_link_cut = True
        for burst in range(BURSTS):
            self.schedule.after(1 + burst * BURST_US, self._lengthen, leader, leader.incarnation)
        self.schedule.after(LOOK_US, self._bring_back, links, leader.epoch, world.now_us + GONE_US)

    def _lengthen(self, leader: Replica, incarnation: int) -> None:
        is_there = leader.is_up and leader.incarnation == incarnation
        if is_there and self.schedule.has_faults and leader.leads_epoch >= 0:
            for _ in range(APPENDS):
                self.schedule.world.append(leader, self.rng.between(1, 3), 20, False)

    def _bring_back(self, links: list[tuple[int, int]], epoch: int, until_us: int) -> None:
        """Let the next leader delete what the one of before needs, and then let that one back."""
        schedule = self.schedule
        if not schedule.has_faults:
            return
        world = schedule.world
        leader = world.leader()
        has_gone_on = (
            leader is not None
            and leader.epoch > epoch
            and leader.high_watermark > leader.epoch_start
        )
        if has_gone_on and leader is not None:
            world.snapshot(leader, False)
            if leader.is_up:
                world.clean(leader)
        elif world.now_us < until_us:
            schedule.after(LOOK_US, self._bring_back, links, epoch, until_us)
            return
        self._mend(self._cuts, links)
        self.is_hunting = True
        schedule.after(GONE_US, self._forget, self._stranded)

    def _forget(self, stranded: Replica | None) -> None:
        if self._stranded is stranded:
            self._stranded = None
            self.is_hunting = False

    def hunt(self, replica: Replica, message: Message) -> None:
        """Let the power go when it gets a snapshot, two times of three."""
        if self._stranded is None:
            super().hunt(replica, message)
        elif replica is self._stranded and message.api_key == self._snapshot_key:
            self._forget(replica)
            if self.rng.below(3) == 0 or replica.is_disk_spoilt:
                return
            self.schedule.met["power loss with a fetched snapshot"] += 1
            world, seed = self.schedule.world, self.rng.seed()
            if self.rng.below(2):
                world.lose_power_within(replica, self.rng.pick(EFFECTS), seed)
            else:
                world.lose_power_at(replica, 1 + self.rng.below(OPERATIONS_MAX), seed)
            self._later(replica)
            self.schedule.after(8 * S, self.schedule.restart, replica)
