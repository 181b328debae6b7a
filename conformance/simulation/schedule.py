"""The seed's scheduler: everything that will happen, in order of time, and the faults between.

The heap has (time, number, what, arguments). Numbers keep things of one time in the order in which
they were planned, so the order never depends on how a heap is built.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from kraftspec.conformance.simulation.clients import OPERATOR
from kraftspec.conformance.simulation.dice import Dice
from kraftspec.conformance.simulation.formation import form
from kraftspec.conformance.simulation.invariants import all_invariants
from kraftspec.conformance.simulation.network import Message
from kraftspec.conformance.simulation.protocols import protocol_of
from kraftspec.conformance.simulation.replica import Replica
from kraftspec.conformance.simulation.swarm import MS, S, Swarm
from kraftspec.conformance.simulation.world import World
from kraftspec.reference.log import LogConfig
from kraftspec.reference.raft import RoleName, SnapshotId
from kraftspec.reference.raft.messages import Reply, Request
from kraftspec.reference.raft.profile import Profile
from kraftspec.reference.raft.types import NEVER_US

BACKLOG_MAX = 200  # Records not committed; with small fetches, followers take seconds for them.
LAG_MAX = 1_000  # Records that the slowest node lacks.
STRAGGLES = 100  # How much longer a straggler takes.
FALLEN_US = 20 * S  # The longest that a node is down by itself.


class Schedule:
    """A run of one seed. ``run`` goes on for a number of events, ``heal`` ends the faults."""

    def __init__(self, seed: int, swarm: Swarm, profile: Profile, *, record: bool = False) -> None:
        self.seed = seed
        self.dice = Dice(seed)
        self.swarm = swarm
        log_config = LogConfig(segment_bytes=swarm.segment_bytes, zero_ahead_bytes=0)
        protocol = protocol_of(profile)
        self.world = World(protocol, all_invariants(protocol.invariants), self, log_config)
        self.met = self.world.met
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0
        self._span_us = swarm.latency_max_us - swarm.latency_min_us + 1
        self._arrival_us: dict[tuple[int, int], int] = {}  # Link → of the last to arrive by now.
        self.loss = swarm.loss
        self.duplicate = swarm.duplicate
        self.straggler = swarm.straggler
        self.faults = protocol.faults(self)
        self.operator = protocol.operator(self)
        form(self.world, swarm, self.dice)
        if record:
            self.world.decisions = []
        for replica in self.world.replicas.values():
            self.at(self.dice.below(500 * MS), self.restart, replica)
        self.at(swarm.append_period_us, self._append)
        self.faults.plan()
        self.operator.plan()

    # ---- time -----------------------------------------------------------------------------------

    def at(self, time_us: int, what: Callable[..., None], *arguments: Any) -> None:
        """Plan something."""
        self._number += 1
        heappush(self._heap, (time_us, self._number, what, arguments))

    def after(self, delay_us: int, what: Callable[..., None], *arguments: Any) -> None:
        """Plan something from now on."""
        self.at(self.world.now_us + delay_us, what, *arguments)

    def run(self, events: int, until_us: int = NEVER_US) -> None:
        """Let happen what happens, until the world has seen so many events in all."""
        heap, world = self._heap, self.world
        while heap and world.events < events:
            time_us, _, what, arguments = heap[0]
            if time_us > until_us:
                world.now_us = until_us
                return
            heappop(heap)
            world.now_us = time_us
            what(*arguments)

    # ---- what the world says may happen ----------------------------------------------------------

    def sent(self, message: Message) -> None:
        """Draw what becomes of a message."""
        bits = self.dice.bits(32)
        faults = self.faults
        if faults.is_aiming:
            faults.aim.sent(message)
        held_us = 0
        if faults.is_any_link_cut:
            held_us = faults.on_link(message)
            if held_us < 0:
                self.met["cut"] += 1
                return
        delay_us = self.swarm.latency_min_us + ((bits & 0xFFFF) * self._span_us >> 16)
        if self.loss or self.straggler or self.duplicate:
            if self.dice.in_ten_thousand(self.loss):
                self.met["loss"] += 1
                return
            if self.dice.in_ten_thousand(self.straggler):
                self.met["straggler"] += 1
                delay_us *= self.dice.between(2, STRAGGLES)
            if self.dice.in_ten_thousand(self.duplicate):
                self.met["duplicate"] += 1
                again_us = delay_us * self.dice.between(1, STRAGGLES)
                self.after(again_us + held_us, self._deliver, message)
        self._number += 1
        at_us = self.world.now_us + delay_us + held_us
        link = (message.source, message.target)
        if at_us < self._arrival_us.get(link, 0):
            self.met["reorder"] += 1
        else:
            self._arrival_us[link] = at_us
        heappush(self._heap, (at_us, self._number, self._deliver, (message,)))

    def stepped(self, replica: Replica) -> None:
        """Plan the next strike of a node's clock, if it is earlier than the one that is planned."""
        deadline_us = replica.core.deadline_us
        if deadline_us == NEVER_US:
            return
        now_us = self.world.now_us
        at_us = replica.world_us(deadline_us) if replica.has_own_clock else deadline_us
        if at_us <= now_us:
            at_us = now_us + 1
        if at_us < replica.tick_at_us or replica.tick_at_us < 0:
            replica.tick_at_us = at_us
            self._number += 1
            heappush(self._heap, (at_us, self._number, self._tick, (replica, replica.life, at_us)))

    def will_flush(self, replica: Replica) -> None:
        """Let a disk take its time."""
        if self.faults.is_aiming:
            self.faults.aim.flushing(replica)
        self.after(self.faults.sync_us(replica), self._flush, replica, replica.life)

    def will_finish(self, replica: Replica, snapshot: SnapshotId) -> None:
        """Let a disk take its time over a snapshot."""
        if self.faults.is_aiming:
            self.faults.aim.finishing(replica)
        delay_us = self.faults.sync_us(replica)
        self.after(delay_us, self._finish, replica, replica.life, snapshot)

    def will_fail(self, replica: Replica, request_id: int, unsupported: bool) -> None:
        """Tell the node soon that its request goes nowhere."""
        self.after(1, self._fail, replica, replica.life, request_id, unsupported)

    def fell(self, replica: Replica) -> None:
        """Start it again: a cut that waited for an idle node may come after its restart."""
        self.after(FALLEN_US, self._start_again, replica, replica.life)

    def answered(self, request: Request, reply: Reply) -> None:
        """Tell the operator."""
        self.operator.answered(request, reply)

    # ---- what is on the heap ---------------------------------------------------------------------

    def _deliver(self, message: Message) -> None:
        target = message.target
        if target != OPERATOR:
            replica = self.world.replicas[target]
            if replica.paused_until_us > self.world.now_us:
                self.at(replica.paused_until_us, self._deliver, message)
                return
            if not replica.is_up:
                if not message.is_reply and message.source != OPERATOR:
                    self._refuse(message)
                return
            if self.faults.is_hunting and message.is_reply:
                self.faults.hunt(replica)
        self.world.deliver(message)

    def _refuse(self, message: Message) -> None:
        """A connection to a machine whose process is gone is refused."""
        asker = self.world.replicas[message.source]
        if message.life == asker.life:
            self.after(
                self.swarm.latency_min_us, self._fail, asker, asker.life, message.correlation, False
            )

    def _tick(self, replica: Replica, life: int, at_us: int) -> None:
        if replica.life != life or not replica.is_up or replica.tick_at_us != at_us:
            return
        replica.tick_at_us = -1
        now_us = self.world.now_us
        if replica.paused_until_us > now_us:
            replica.tick_at_us = replica.paused_until_us
            self.at(replica.tick_at_us, self._tick, replica, life, replica.tick_at_us)
        elif replica.core.deadline_us > replica.clock_us():
            self.stepped(replica)  # The deadline has moved on.
        else:
            self.world.tick(replica)

    def _flush(self, replica: Replica, life: int) -> None:
        if replica.life == life and replica.is_up:
            self.world.flush(replica)

    def _finish(self, replica: Replica, life: int, snapshot: SnapshotId) -> None:
        if replica.life == life and replica.is_up:
            self.world.finish(replica, snapshot)

    def _fail(self, replica: Replica, life: int, request_id: int, unsupported: bool) -> None:
        if replica.life == life and replica.is_up:
            self.world.fail(replica, request_id, unsupported)

    def restart(self, replica: Replica) -> None:
        """Start a node that is down; one whose disk is rotten is wiped before."""
        if not replica.is_up and self.world.replicas.get(replica.id) is replica:
            self.faults.before_start(replica)
            replica = self.world.replicas[replica.id]
            if replica.life:
                self.met["restart"] += 1
            self.world.start(replica, self.dice.seed())
            if not replica.is_up:
                self.after(500 * MS, self.restart, replica)

    def _start_again(self, replica: Replica, life: int) -> None:
        if replica.life == life:
            self.restart(replica)

    def _append(self) -> None:
        swarm, dice, world = self.swarm, self.dice, self.world
        self.after(dice.between(1, 2 * swarm.append_period_us), self._append)
        for replica in world.replicas.values():
            # Whoever thinks that it leads: one that was deposed may not know yet.
            if replica.role is RoleName.LEADER and replica.is_up:
                # State machines wait when too much is not committed, or not replicated.
                committed_min = replica.mirror.end_offset - BACKLOG_MAX
                if (
                    replica.paused_until_us > world.now_us
                    or world.ledger.high_watermark < committed_min
                ):
                    continue
                replicated_min = replica.mirror.end_offset - LAG_MAX
                if any(other.mirror.end_offset < replicated_min for other in world.running()):
                    continue
                count = dice.between(1, swarm.records_max)
                world.append(replica, count, dice.between(14, swarm.record_bytes_max))
