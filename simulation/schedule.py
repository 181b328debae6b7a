"""The seed's scheduler: what becomes of messages, disks and clocks, and the faults between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappush

from kraftspec.reference.raft import SnapshotId
from kraftspec.reference.raft.messages import Reply, Request
from kraftspec.reference.raft.profile import Profile
from kraftspec.reference.raft.types import NEVER_US
from kraftspec.simulation.clients import OPERATOR
from kraftspec.simulation.harness.cores import Core, RunCores
from kraftspec.simulation.invariants import Invariant, all_invariants
from kraftspec.simulation.network import Message
from kraftspec.simulation.protocols import protocol_of
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.rng import Rng
from kraftspec.simulation.swarm import MS, S, Swarm
from kraftspec.simulation.timeline import Timeline
from kraftspec.simulation.world import World, form

BACKLOG_MAX = 200  # Records not committed; with small fetches, followers take seconds for them.
STALE = 200  # Appends of 10,000 in an epoch that the state machine leads no longer.
LAG_MAX = 1_000  # Records that the slowest node lacks.
STRAGGLES = 100  # How much longer a straggler takes.
LATE = 3  # Request time-outs that a late reply takes at the most.
FALLEN_US = 20 * S  # The longest that a node is down by itself.


class _Committed(Invariant):
    """Judges nothing, and notes what is committed: state machines wait for it."""

    def high_watermark_changed(self, replica: Replica, old: int, new: int) -> None:
        """Note the chain at the new offset."""
        chain = replica.log_model.chain_at(new)
        if chain is not None:
            self.committed_log.commit(new, chain)


class Schedule(Timeline):
    """A run of one seed. ``run`` goes on for a number of events, ``heal`` ends the faults."""

    def __init__(
        self,
        seed: int,
        swarm: Swarm,
        profile: Profile,
        *,
        record: bool = False,
        cores: Sequence[Core] | RunCores = (),
        is_judged: bool = True,
    ) -> None:
        self.cores: RunCores | None = None
        if cores:
            self.cores = cores if isinstance(cores, RunCores) else RunCores(cores, seed)
        protocol = protocol_of(profile, self.cores)
        invariants: list[Invariant] = [_Committed()]
        if is_judged:
            invariants = all_invariants(protocol.invariants)
        world = World(protocol, invariants, self, swarm.log_config)
        super().__init__(world, swarm, Rng(seed))
        self.seed = seed
        self._span_us = swarm.latency_max_us - swarm.latency_min_us + 1
        self._arrival_us: dict[tuple[int, int], int] = {}  # Link → of the last to arrive by now.
        self.operator = protocol.operator(self)
        self.faults = protocol.faults(self, self.operator)
        form(self.world, swarm, self.rng)
        if record:
            self.world.decisions = []
        for replica in self.world.replicas.values():
            self.at(self.rng.below(500 * MS), self.restart, replica)
        self.at(swarm.append_period_us, self._append)
        self.faults.plan()
        self.operator.plan()

    def take_over(self, world: World, finishing: Mapping[int, SnapshotId]) -> None:
        """Go on with another world, of the same protocol, from how it is: nothing is planned there.

        Messages under way are lost. ``finishing`` are the snapshots that disks are syncing.
        """
        self._heap.clear()
        self.world, self.met = world, world.met
        world.scheduler = self
        self.at(world.now_us, self._append)
        for replica in world.running():
            replica.tick_at_us = -1
            self.stepped(replica)
            if replica.is_flushing:
                self.will_flush(replica)
            if replica.id in finishing:
                self.will_finish(replica, finishing[replica.id])

    def under_way(self) -> Iterator[Message]:
        """Yield the messages that were sent and did not arrive yet."""
        for _, _, _, arguments in self._heap:
            if arguments and isinstance(arguments[0], Message):
                yield arguments[0]

    # ---- what the world says may happen ----------------------------------------------------------

    def sent(self, message: Message) -> None:
        """Draw what becomes of a message."""
        bits = self.rng.bits(32)
        faults = self.faults
        if faults.is_targeting:
            faults.sent(message)
        held_us = 0
        if faults.is_any_link_cut:
            held_us = faults.on_link(message)
            if held_us < 0:
                self.met["cut"] += 1
                return
        delay_us = self.swarm.latency_min_us + ((bits & 0xFFFF) * self._span_us >> 16)
        if self.loss or self.straggler or self.duplicate:
            if self.rng.in_ten_thousand(self.loss):
                self.met["loss"] += 1
                return
            if self.rng.in_ten_thousand(self.straggler):
                self.met["straggler"] += 1
                delay_us *= self.rng.between(2, STRAGGLES)
            if self.rng.in_ten_thousand(self.duplicate):
                self.met["duplicate"] += 1
                again_us = delay_us * self.rng.between(1, STRAGGLES)
                self.after(again_us + held_us, self._deliver, message)
        if (
            self.late_reply
            and message.is_reply
            and message.target != OPERATOR
            and self.rng.in_ten_thousand(self.late_reply)
        ):
            self.met["reply after its request timed out"] += 1
            timeout_us = self.swarm.request_timeout_us
            delay_us += self.rng.between(timeout_us, LATE * timeout_us)
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
            heappush(
                self._heap, (at_us, self._number, self._tick, (replica, replica.incarnation, at_us))
            )

    def will_flush(self, replica: Replica) -> None:
        """Let a disk take its time."""
        if self.faults.is_targeting:
            self.faults.flushing(replica)
        self.after(self.faults.sync_us(replica), self._flush, replica, replica.incarnation)

    def will_finish(self, replica: Replica, snapshot: SnapshotId) -> None:
        """Let a disk take its time over a snapshot."""
        if self.faults.is_targeting:
            self.faults.finishing(replica)
        delay_us = self.faults.sync_us(replica)
        self.after(delay_us, self._finish, replica, replica.incarnation, snapshot)

    def will_fail(self, replica: Replica, request_id: int, unsupported: bool) -> None:
        """Tell the node soon that its request goes nowhere."""
        self.after(1, self._fail, replica, replica.incarnation, request_id, unsupported)

    def fell(self, replica: Replica) -> None:
        """Start it again: a cut that waited for an idle node may come after its restart."""
        self.after(FALLEN_US, self._start_again, replica, replica.incarnation)

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
                self.faults.hunt(replica, message)
        self.world.deliver(message)

    def _refuse(self, message: Message) -> None:
        """A connection to a machine whose process is gone is refused."""
        source = self.world.replicas[message.source]
        if message.incarnation == source.incarnation:
            self.after(
                self.swarm.latency_min_us,
                self._fail,
                source,
                source.incarnation,
                message.correlation,
                False,
            )

    def _tick(self, replica: Replica, incarnation: int, at_us: int) -> None:
        if replica.incarnation != incarnation or not replica.is_up or replica.tick_at_us != at_us:
            return
        replica.tick_at_us = -1
        now_us = self.world.now_us
        if replica.paused_until_us > now_us:
            replica.tick_at_us = replica.paused_until_us
            self.at(replica.tick_at_us, self._tick, replica, incarnation, replica.tick_at_us)
        elif replica.core.deadline_us > replica.clock_us():
            self.stepped(replica)  # The deadline has moved on.
        else:
            self.world.tick(replica)

    def _flush(self, replica: Replica, incarnation: int) -> None:
        if replica.incarnation == incarnation and replica.is_up:
            self.world.flush(replica)

    def _finish(self, replica: Replica, incarnation: int, snapshot: SnapshotId) -> None:
        if replica.incarnation == incarnation and replica.is_up:
            self.world.finish(replica, snapshot)

    def _fail(self, replica: Replica, incarnation: int, request_id: int, unsupported: bool) -> None:
        if replica.incarnation == incarnation and replica.is_up:
            self.world.fail(replica, request_id, unsupported)

    def restart(self, replica: Replica) -> None:
        """Start a node that is down, if it may be; one with a corrupted disk is wiped before."""
        if not replica.is_up and self.world.replicas.get(replica.id) is replica:
            if replica.id < self.swarm.absent and not self.world.leaders:
                self.met["absent voter"] += 1
                self.after(500 * MS, self.restart, replica)
                return
            self.faults.before_start(replica)
            replica = self.world.replicas[replica.id]
            if replica.incarnation:
                self.met["restart"] += 1
            self.world.start(replica, self.rng.seed())
            if not replica.is_up:
                self.after(500 * MS, self.restart, replica)

    def _start_again(self, replica: Replica, incarnation: int) -> None:
        if replica.incarnation == incarnation:
            self.restart(replica)

    def _append(self) -> None:
        swarm, rng, world = self.swarm, self.rng, self.world
        self.after(rng.between(1, 2 * swarm.append_period_us), self._append)
        for replica in world.replicas.values():
            # Whoever was told that it leads: one that was deposed may not know yet.
            if replica.led_epochs and replica.is_up:
                is_stale = rng.in_ten_thousand(STALE)
                if replica.epoch_to_append(is_stale) < 0:
                    continue
                # State machines wait when too much is not committed, or not replicated.
                committed_min = replica.log_model.end_offset - BACKLOG_MAX
                if (
                    replica.paused_until_us > world.now_us
                    or world.committed_log.high_watermark < committed_min
                ):
                    continue
                replicated_min = replica.log_model.end_offset - LAG_MAX
                if any(other.log_model.end_offset < replicated_min for other in world.running()):
                    continue
                count = rng.between(1, swarm.records_max)
                world.append(replica, count, rng.between(14, swarm.record_bytes_max), is_stale)
