"""A row of decisions, carried out again: all of them, or as many as make sense."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kraftspec.fastpath.types import Uuid
from kraftspec.reference.raft import SnapshotId
from kraftspec.reference.raft.messages import Reply, Request
from kraftspec.reference.raft.profile import Profile
from kraftspec.reference.raft.types import NEVER_US
from kraftspec.simulation import world as kinds
from kraftspec.simulation.committed_log import Violation
from kraftspec.simulation.harness.cores import Core, RunCores
from kraftspec.simulation.invariants import Invariant, all_invariants
from kraftspec.simulation.network import Message
from kraftspec.simulation.protocols import protocol_of
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.rng import Rng
from kraftspec.simulation.swarm import Swarm
from kraftspec.simulation.world import Decision, World, add_node, form

_Link = tuple[int, int, bool, int]  # Source, target, whether it is a reply, API key.


class Replay:
    """A world that does what decisions say; what they do not say does not happen.

    ``applied`` are the decisions that made sense. Messages that nobody delivers are lost.
    """

    def __init__(
        self,
        seed: int,
        swarm: Swarm,
        profile: Profile,
        *,
        extra: Sequence[Invariant] = (),
        cores: Sequence[Core] | RunCores = (),
        is_judged: bool = True,
    ) -> None:
        self.swarm = swarm
        self.rng = Rng(seed)
        nodes = cores if isinstance(cores, RunCores) else RunCores(cores, seed) if cores else None
        protocol = protocol_of(profile, nodes)
        invariants = [*extra, *(all_invariants(protocol.invariants) if is_judged else [])]
        self.world = World(protocol, invariants, self, swarm.log_config)
        self.applied: list[Decision] = []
        self.arrivals: list[tuple[int, Message]] = []  # Which of the decisions brought it.
        self.departures: list[tuple[int, Message]] = []
        self._in_flight: dict[_Link, list[Message]] = {}
        self._delivered: dict[_Link, list[Message]] = {}
        self.finishing: dict[int, SnapshotId] = {}  # What disks are syncing.
        self._failing: dict[int, list[tuple[int, bool]]] = {}
        form(self.world, swarm, self.rng)
        self._handlers: dict[int, Callable[[Replica, Decision], bool]] = {
            kinds.DELIVER: self._deliver, kinds.TICK: self._tick, kinds.FLUSH: self._flush,
            kinds.FINISH: self._finish, kinds.FAIL: self._fail, kinds.APPEND: self._append,
            kinds.SNAPSHOT: self._snapshot, kinds.CLEAN: self._clean, kinds.JUMP: self._jump,
            kinds.STOP: self._stop, kinds.CRASH: self._crash, kinds.START: self._start,
            kinds.ASK: self._ask, kinds.BOUNDARY: self._boundary, kinds.DISK: self._disk,
            kinds.REPLACE: self._replace, kinds.UPGRADE: self._upgrade,
            kinds.CUT: self._cut, kinds.MOVE: self._move,
        }  # fmt: skip

    def run(self, decisions: Sequence[Decision]) -> Violation | None:
        """Carry decisions out, in order; return the first breach of an invariant."""
        world = self.world
        for decision in decisions:
            world.now_us = max(world.now_us, decision.at_us)
            replica = world.replicas[decision.node]
            try:
                if self._handlers[decision.kind](replica, decision):
                    self.applied.append(decision)
            except Violation as violation:
                self.applied.append(decision)
                return violation
        return None

    # ---- what the world says may happen ----------------------------------------------------------

    def sent(self, message: Message) -> None:
        """Keep it; the decisions say whether it arrives."""
        self.departures.append((len(self.applied), message))
        self._in_flight.setdefault(message.key[:4], []).append(message)

    def stepped(self, replica: Replica) -> None:
        """Clocks strike when decisions say so."""

    def will_flush(self, replica: Replica) -> None:
        """The node itself knows that it flushes."""

    def will_finish(self, replica: Replica, snapshot: SnapshotId) -> None:
        """Remember which snapshot."""
        self.finishing[replica.id] = snapshot

    def will_fail(self, replica: Replica, request_id: int, unsupported: bool) -> None:
        """Remember which request."""
        self._failing.setdefault(replica.id, []).append((request_id, unsupported))

    def fell(self, replica: Replica) -> None:
        """The decisions say when it starts."""

    def apart(self, replica: Replica) -> None:
        """In lock-step, a pair that differs: it stays so, unless the decisions restart it."""

    def answered(self, request: Request, reply: Reply) -> None:
        """Nobody waits for it."""

    # ---- decisions: each tells whether it made sense ---------------------------------------------

    def _deliver(self, replica: Replica, decision: Decision) -> bool:
        if not replica.is_up:
            return False
        message = self._message(*decision.detail)
        if message is None:
            return False
        self.arrivals.append((len(self.applied), message))
        self.world.deliver(message)
        return True

    def _message(
        self, source: int, target: int, is_reply: bool, api_key: int, crc: int, *same: int
    ) -> Message | None:
        """Find the message that is meant, or else one of its kind: the last that is under way."""
        link = (source, target, is_reply, api_key)
        waiting = self._in_flight.get(link, [])
        delivered = self._delivered.setdefault(link, [])
        alike = [message for message in waiting if message.key[4] == crc]
        exact = [message for message in alike if (message.correlation, message.incarnation) == same]
        again = [m for m in delivered if (m.key[4], m.correlation, m.incarnation) == (crc, *same)]
        for match in (exact[:1], again[:1], alike[-1:], waiting[-1:]):
            if match:
                if match[0] in waiting:
                    waiting.remove(match[0])
                    delivered.append(match[0])
                return match[0]
        return None

    def _tick(self, replica: Replica, _: Decision) -> bool:
        if not replica.is_up or replica.core.deadline_us == NEVER_US:
            return False
        world = self.world
        world.now_us = max(world.now_us, replica.world_us(replica.core.deadline_us))
        world.tick(replica)
        return True

    def _flush(self, replica: Replica, _: Decision) -> bool:
        if not replica.is_up or not replica.is_flushing:
            return False
        self.world.flush(replica)
        return True

    def _finish(self, replica: Replica, _: Decision) -> bool:
        snapshot = self.finishing.pop(replica.id, None)
        if not replica.is_up or snapshot is None:
            return False
        self.world.finish(replica, snapshot)
        return True

    def _fail(self, replica: Replica, decision: Decision) -> bool:
        request_id, unsupported = decision.detail
        if not replica.is_up:
            return False
        failing = self._failing.get(replica.id)
        if unsupported and failing:
            exact = (request_id, unsupported)
            request_id, unsupported = exact if exact in failing else failing[-1]
            failing.remove((request_id, unsupported))
        self.world.fail(replica, request_id, unsupported)
        return True

    def _append(self, replica: Replica, decision: Decision) -> bool:
        _, _, is_stale = decision.detail
        can_append = replica.is_up and replica.epoch_to_append(is_stale) >= 0
        if can_append:
            self.world.append(replica, *decision.detail)
        return can_append

    def _snapshot(self, replica: Replica, decision: Decision) -> bool:
        if not replica.is_up:
            return False
        self.world.snapshot(replica, *decision.detail)
        return True

    def _clean(self, replica: Replica, _: Decision) -> bool:
        if not replica.is_up:
            return False
        self.world.clean(replica)
        return True

    def _upgrade(self, replica: Replica, decision: Decision) -> bool:
        if not replica.is_up:
            return False
        self.world.upgrade(replica, *decision.detail)
        return True

    def _jump(self, replica: Replica, decision: Decision) -> bool:
        if not replica.is_up:
            return False
        self.world.jump(replica, *decision.detail)
        return True

    def _stop(self, replica: Replica, decision: Decision) -> bool:
        (timeout_us,) = decision.detail
        if not replica.is_up:
            return False
        if timeout_us < 0:
            self.world.resign(replica)
        else:
            self.world.shut_down(replica, timeout_us)
        return True

    def _crash(self, replica: Replica, decision: Decision) -> bool:
        if not replica.is_up:
            return False
        self.world.crash(replica, *decision.detail)
        return True

    def _start(self, replica: Replica, decision: Decision) -> bool:
        if replica.is_up:
            return False
        self._failing.pop(replica.id, None)
        self.world.start(replica, *decision.detail)
        return True

    def _ask(self, replica: Replica, decision: Decision) -> bool:
        api_key, version, body = decision.detail
        request = self.world.profile.decode_request(api_key, version, bytes.fromhex(body))
        self.world.ask(replica.id, request)
        return True

    def _boundary(self, replica: Replica, decision: Decision) -> bool:
        if replica.is_up:
            self.world.lose_power_within(replica, *decision.detail)
        return replica.is_up

    def _disk(self, replica: Replica, decision: Decision) -> bool:
        self.world.spoil_disk(replica, *decision.detail)
        return True

    def _cut(self, replica: Replica, decision: Decision) -> bool:
        self.world.lose_power_at(replica, *decision.detail)
        return True

    def _move(self, replica: Replica, decision: Decision) -> bool:
        if not replica.is_up:
            self.world.move(replica, *decision.detail)
        return not replica.is_up

    def _replace(self, replica: Replica, decision: Decision) -> bool:
        (directory,) = decision.detail
        if replica.is_up or replica.is_new:
            return False
        config = self.world.protocol.with_new_disk(replica.config, Uuid(directory))
        add_node(self.world, self.swarm, self.rng, config)
        return True
