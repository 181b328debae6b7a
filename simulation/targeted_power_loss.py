"""Power losses at the moment when a node has sent what its own disk does not hold yet.

A power loss at a random time rarely hits such a window, because a sync takes less time than a
message. So a window is chosen, some disks are made slow, and the power is lost while the window is
open, or during a disk operation. No promise of a node may depend on what such a loss takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft.messages import Fetch, Vote
from kraftspec.simulation.diverged_tails import DivergedTails
from kraftspec.simulation.network import Message
from kraftspec.simulation.operators import Operator
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.swarm import MS, S
from kraftspec.simulation.timeline import Timeline

SLOW_US: Final = 2 * S  # How long some disks are slow, and how long a window is waited for.
BACK_US: Final = (5 * MS, 20 * MS, 100 * MS, 2 * S)  # The longest that a node is down.
OPERATIONS_MAX: Final = 12  # Of a disk; a recovery has about as many.

# Windows that open when a message leaves a node, or when its disk begins to sync.
CANDIDATE: Final = "candidate"  # It has requested votes; no correct one syncs its log then.
VOTER: Final = "voter"  # It has answered a vote.
LEADER: Final = "leader"  # It has served what it appended.
FOLLOWER: Final = "follower"  # It has appended, and not fetched on.
VOTERS: Final = "voter set"  # It acts on a voter set already.
SNAPSHOT: Final = "snapshot"  # It has a snapshot of what is not on its disk, or a fetched one.
# Windows that are there at any time.
OPERATION: Final = "operation of a disk"
RECOVERY: Final = "recovery"
BLACKOUT: Final = "blackout"  # All nodes at once.

_OF_AN_ELECTION = (CANDIDATE, VOTER)
WINDOWS: Final = (
    CANDIDATE, CANDIDATE, CANDIDATE, VOTER, LEADER, LEADER, FOLLOWER, VOTERS, SNAPSHOT, OPERATION,
    RECOVERY, BLACKOUT,
)  # fmt: skip


class TargetedPowerLoss(DivergedTails):
    """Faults, and power losses in chosen windows. ``window`` is waited for while it is one.

    ``is_targeting`` is True while one is waited for.
    """

    def __init__(self, schedule: Timeline, operator: Operator) -> None:
        super().__init__(schedule, operator)
        self.is_targeting = False
        self.window = ""
        self._windows = 0  # That were waited for, so that one's end is not taken for another's.
        self._is_electing = False
        profile = self.schedule.world.profile
        vote = Vote(epoch=0, replica_id=0, last_epoch=0, end_offset=0)
        fetch = Fetch(replica_id=0, leader_epoch=0, fetch_offset=0, last_fetched_epoch=0)
        vote_key, fetch_key = profile.api_of(vote).key, profile.api_of(fetch).key
        self._opening_messages = {  # Window → which message opens it.
            CANDIDATE: (vote_key, False), VOTER: (vote_key, True), LEADER: (fetch_key, True),
        }  # fmt: skip

    def kinds(self) -> tuple[tuple[int, Callable[[], None]], ...]:
        """Return the kinds of faults, the choice of a window the last."""
        return (*super().kinds(), (self.schedule.swarm.targeted_power_period_us, self.choose))

    def stop(self) -> None:
        """End all faults; no window is waited for."""
        self.is_targeting = False
        super().stop()

    def choose(self) -> None:
        """Choose a window; what is not there at once is waited for."""
        schedule, rng = self.schedule, self.rng
        self.window = window = rng.pick(WINDOWS)
        if window == OPERATION:
            self._operation()
        elif window == RECOVERY:
            self._recovery()
        elif window == BLACKOUT:
            self._blackout()
        else:
            for replica in schedule.world.replicas.values():
                if rng.below(2):
                    self.slow_down(replica, SLOW_US)
            self._is_electing = False
            self._windows += 1
            schedule.after(SLOW_US, self._give_up, self._windows)
            self.is_targeting = True

    def _give_up(self, number: int) -> None:
        if number == self._windows:
            self.is_targeting = False

    def _elect(self) -> None:
        if self.is_targeting and self.window in _OF_AN_ELECTION:
            self.unseat()

    # ---- windows that open -------------------------------------------------------------------

    def sent(self, message: Message) -> None:
        """A message leaves a node: what it says may not be on the disk."""
        if self._opening_messages.get(self.window) == (message.api_key, message.is_reply):
            replica = self.schedule.world.replicas[message.source]
            is_meant = self.window != CANDIDATE or replica.core.role.name is RoleName.CANDIDATE
            if is_meant and replica.is_flushing:
                self._strike(replica)

    def flushing(self, replica: Replica) -> None:
        """A disk begins to sync what a node has already."""
        window = self.window
        if window == FOLLOWER:
            if replica.role is RoleName.FOLLOWER:
                self._strike(replica)
        elif window == VOTERS:
            known = replica.known_voters
            if known and known[-1][0] >= replica.durable_end:
                self._strike(replica)
        elif window == SNAPSHOT and self.schedule.world.protocol.has_snapshots:
            self.schedule.after(1, self._snapshot_unsynced, replica, replica.incarnation)
        elif window in _OF_AN_ELECTION and not self._is_electing:
            # Soon, as long as it lacks nothing that another has: else nobody votes for it.
            self._is_electing = self.is_slow(replica)
            if self._is_electing:
                longest_us = self.rng.pick((2 * MS, 20 * MS, 100 * MS))
                self.schedule.after(self.rng.between(1, longest_us), self._elect)

    def finishing(self, replica: Replica) -> None:
        """A disk begins to sync a snapshot that was fetched."""
        if self.window == SNAPSHOT:
            self._strike(replica)

    def _snapshot_unsynced(self, replica: Replica, incarnation: int) -> None:
        """Let a node write a snapshot of what it knows to be committed, and has not synced."""
        world = self.schedule.world
        is_there = (
            replica.incarnation == incarnation
            and replica.is_up
            and replica.paused_until_us <= world.now_us
        )
        if is_there and replica.high_watermark > replica.durable_end and self.is_targeting:
            world.snapshot(replica, False)
            self._strike(replica)

    def _strike(self, replica: Replica) -> None:
        """Let the power go while the window is open, or a little later; or at the next one."""
        if self.rng.below(2):
            return
        longest_us = self.rng.pick((0, 0, self.schedule.swarm.latency_max_us, 50 * MS))
        delay_us = self.rng.between(0, longest_us)
        self.schedule.after(delay_us, self._cut, replica, replica.incarnation, self.window)

    def _cut(self, replica: Replica, incarnation: int, window: str) -> None:
        if replica.incarnation == incarnation and replica.is_up and self.is_targeting:
            self._give_up(self._windows)
            self._lose_power(replica, window)

    def _lose_power(self, replica: Replica, window: str) -> None:
        self.schedule.met[f"targeted power loss: {window}"] += 1
        self.schedule.world.crash(replica, self.rng.seed())
        self._restart_within(replica, self.rng.pick(BACK_US))

    def _restart_within(self, replica: Replica, longest_us: int) -> None:
        self.schedule.after(self.rng.between(1 * MS, longest_us), self.schedule.restart, replica)

    # ---- windows that are there --------------------------------------------------------------

    def _operation(self) -> None:
        """Let the power go before one of the next operations of a disk."""
        replica = self.one_up()
        if replica is not None and self._cut_at_operation(replica, OPERATION):
            self._restart_within(replica, 2 * S)
            self.schedule.after(8 * S, self.schedule.restart, replica)

    def _cut_at_operation(self, replica: Replica, window: str) -> bool:
        if replica.is_disk_spoilt:
            return False
        self.schedule.met[f"targeted power loss: {window}"] += 1
        operations = 1 + self.rng.below(OPERATIONS_MAX)
        self.schedule.world.lose_power_at(replica, operations, self.rng.seed())
        return True

    def _recovery(self) -> None:
        """Let the power go, and go again while the node recovers."""
        replica = self.one_up()
        if replica is not None:
            self.schedule.world.crash(replica, self.rng.seed())
            self.schedule.after(self.rng.between(1, 100 * MS), self._recover, replica)

    def _recover(self, replica: Replica) -> None:
        schedule = self.schedule
        if not replica.is_up and schedule.has_faults and replica.id not in schedule.corrupted:
            self._cut_at_operation(replica, RECOVERY)
        schedule.restart(replica)
        schedule.after(8 * S, schedule.restart, replica)

    def _blackout(self) -> None:
        """Let the power of all machines go at once: what was promised is on enough disks."""
        self.schedule.met[f"targeted power loss: {BLACKOUT}"] += 1
        longest_us = self.rng.pick(BACK_US)
        for replica in list(self.schedule.world.running()):
            self.schedule.world.crash(replica, self.rng.seed())
            self._restart_within(replica, longest_us)
