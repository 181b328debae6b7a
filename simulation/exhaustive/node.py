"""A node whose core is the real one, and which can be put aside and taken up again.

`ExploredNode` is a host of the core. Its disk is a list of batches and what quorum-state has; it is
done with everything at once, but for syncs of the log, which may be an event of their own. Between
two events a node is some bytes, from which any event may be tried.
"""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Sequence, Set
from typing import Any

import msgspec

from kraftspec.reference.host import Host
from kraftspec.reference.raft import (
    Config,
    Core,
    ElectionState,
    LogState,
    Policy,
    RoleName,
    VoterSet,
)
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.control import ControlRecord, KRaftVersion, Voters
from kraftspec.reference.raft.messages import Batch, FetchReply, Reply, Request
from kraftspec.reference.raft.types import BOOTSTRAP_OFFSET, Snapshot, SnapshotId
from kraftspec.simulation.exhaustive.shape import shape

TOKEN, OPERATOR = 1, 2  # Of the one request that is being answered; of one of an operator.
_SHARED = (
    "config", "policy", "random", "_request_handlers", "_reply_handlers", "control_handlers",
)  # fmt: skip


class Draws:
    """Random numbers of which all are tried: each draw takes one of so many places."""

    def __init__(self, places: int) -> None:
        self.places = places
        self._chosen: list[int] = []
        self._made = 0

    def getrandbits(self, bits: int, /) -> int:
        """Return the number that begins the part of all numbers that this draw takes."""
        if self._made == len(self._chosen):
            self._chosen.append(0)
        place = self._chosen[self._made]
        self._made += 1
        return -(-(place << bits) // self.places)

    def others(self) -> bool:
        """Let the next step draw other numbers than the last one; False if it has had all."""
        del self._chosen[self._made :]
        self._made = 0
        while self._chosen:
            self._chosen[-1] += 1
            if self._chosen[-1] < self.places:
                return True
            self._chosen.pop()
        return False


class Disk:
    """What a node has on its disk. ``synced`` is how many of the batches a crash must leave.

    ``first_voters``: those of the checkpoint that it was formatted with.
    """

    def __init__(self, first_voters: VoterSet | None = None) -> None:
        self.first_voters = first_voters
        self.election: ElectionState | None = None
        self.batches: tuple[Batch, ...] = ()
        self.synced = 0

    @property
    def end_offset(self) -> int:
        """Where the log ends."""
        return self.batches[-1].last_offset + 1 if self.batches else 0

    def count(self, end_offset: int) -> int:
        """Return how many batches end there or before."""
        return sum(batch.last_offset < end_offset for batch in self.batches)

    def log_state(self, config: Config) -> LogState:
        """Return what a core is told of the log at a start."""
        starts: dict[int, int] = {}
        for batch in self.batches:
            starts.setdefault(batch.epoch, batch.base_offset)
        log = LogState(
            end_offset=self.end_offset,
            epochs=starts.items(),
            snapshots=[] if self.first_voters is None else [Snapshot(SnapshotId(0, 0))],
            static_voters=config.voters,
        )
        if self.first_voters is not None:
            log.voters.add(BOOTSTRAP_OFFSET, self.first_voters)
            log.kraft_versions.add(BOOTSTRAP_OFFSET, 1)
        for batch in self.batches:
            for offset, record in batch.control:
                if isinstance(record, Voters):
                    log.voters.add(offset, record.voters)
                elif isinstance(record, KRaftVersion):
                    log.kraft_versions.add(offset, record.level)
        return log

    # ---- what a host wants of its storage ------------------------------------------------------

    def persist_election(self, effect: fx.PersistElection) -> None:
        """Store quorum-state."""
        self.election = effect.state

    def append_records(self, effect: fx.AppendRecords) -> None:
        """Append a batch of a client."""
        self._append(effect)

    def append_control(self, effect: fx.AppendControl) -> None:
        """Append the batch that opens an epoch, or changes the voters."""
        self._append(effect, tuple(enumerate(effect.records, effect.base_offset)))

    def _append(
        self,
        effect: fx.AppendRecords | fx.AppendControl,
        control: tuple[tuple[int, ControlRecord], ...] = (),
    ) -> None:
        last_offset = effect.base_offset + len(effect.records) - 1
        batch = Batch(effect.base_offset, last_offset, effect.epoch, b"", control)
        self.append_batches((batch,))

    def append_batches(self, batches: Sequence[Batch]) -> None:
        """Append batches that the leader sent."""
        assert batches[0].base_offset == self.end_offset
        self.batches += tuple(batches)

    def truncate(self, end_offset: int) -> None:
        """Cut the log."""
        self.keep(self.count(end_offset))

    def keep(self, batches: int) -> None:
        """Keep so many batches."""
        self.batches = self.batches[:batches]
        self.synced = min(self.synced, batches)

    def flush(self, effect: fx.FlushLog) -> ev.LogFlushed:
        """Sync all that is there."""
        self.synced = len(self.batches)
        return ev.LogFlushed(self.end_offset, effect.generation)

    def fill(self, reply: Reply) -> None:
        """Put batches into an answer to a Fetch."""
        if isinstance(reply, FetchReply) and reply.read_offset >= 0:
            first = self.count(reply.read_offset)
            reply.batches = self.batches[first:]


class NodeState(msgspec.Struct, frozen=True):
    """What there is to know of a node between two events.

    ``key`` is what its behaviour depends on, ``awaited`` the nodes that owe it an answer, each with
    the number of its request, ``times_us`` the times until one of its timers has expired.
    """

    key: Hashable
    role: RoleName
    epoch: int
    awaited: dict[int, int]
    times_us: range
    batches: int
    synced: int
    is_to_sync: bool


class ExploredNode(Host):
    """A host of the core that can go on from what it was. ``sent`` is what its step has sent."""

    disk: Disk

    def __init__(
        self, config: Config, policy: Policy, syncs_at_once: Set[RoleName], places: int
    ) -> None:
        super().__init__()
        self.config = config
        self.policy = policy
        self.draws = Draws(places)  # It draws a node, or a time.
        self.syncs_at_once = syncs_at_once
        self.sent: list[tuple[int, Request | Reply, int]] = []  # To whom, what; its number, or 0.
        self._asker = -1
        self._now_us = 0
        self._role_before = RoleName.UNATTACHED
        self._shared: dict[str, Any] = {}  # What all cores of the node share, by its name.

    def start(self, disk: Disk) -> None:
        """Start with that disk."""
        self.begin_incarnation()
        self.sent = []
        self.disk = disk
        self.storage: Any = disk
        log = disk.log_state(self.config)
        self.core = Core(self.config, self.policy, log, disk.election, self.draws)
        self._shared = {name: getattr(self.core, name) for name in _SHARED}
        self.step(ev.Start())

    def look(self) -> NodeState:
        """Return what the node is now, without the bytes from which it goes on."""
        core, disk = self.core, self.disk
        connections: Any = core.connections
        parts, last_us = shape(core)
        is_to_sync = self.flush_wanted is not None
        if core.deadline_us <= self._now_us:
            last_us = max(last_us, self._now_us + 1)  # A timer that is due strikes next.
        return NodeState(
            key=(parts, len(disk.batches), disk.synced, is_to_sync),
            role=core.role.name,
            epoch=core.epoch,
            awaited={one.node.id: id for id, one in connections._pending.items()},
            times_us=range(self._now_us + 1, last_us + 1),
            batches=len(disk.batches),
            synced=disk.synced,
            is_to_sync=is_to_sync,
        )

    def put_aside(self) -> bytes:
        """Return the bytes from which it goes on. The node itself does so no more."""
        for name in self._shared:
            setattr(self.core, name, None)
        self.core.effects = []
        return pickle.dumps((self.core, self.disk, self.flush_wanted, self._now_us), -1)

    def take_up(self, frozen: bytes) -> None:
        """Be what a node was."""
        self.sent = []
        self.core, self.disk, self.flush_wanted, self._now_us = pickle.loads(frozen)
        self.storage = self.disk
        self._role_before = self.core.role.name
        for name, value in self._shared.items():
            setattr(self.core, name, value)

    # ---- events --------------------------------------------------------------------------------

    def tick(self, now_us: int) -> None:
        """Let it be that late."""
        self._now_us = now_us
        self.step(ev.Tick())

    def asked(self, peer: int, request: Request) -> None:
        """Take a request, and answer it."""
        self._asker = peer
        self.step(ev.RequestReceived(TOKEN, request))

    def operated(self, request: Request) -> None:
        """Take a request of an operator, who looks at no answer."""
        self.step(ev.RequestReceived(OPERATOR, request))

    def sync_ends(self) -> None:
        """Let the disk be done with the log."""
        self.step(self.sync())

    def crash(self, batches: int) -> None:
        """End the process, and start again with so many batches."""
        self.disk.keep(batches)
        self.disk.synced = batches  # What a start reads, it syncs.
        self.start(self.disk)

    # ---- the host ------------------------------------------------------------------------------

    def clock_us(self) -> int:
        """Return a time of its own: how fast its clock runs beside others, nobody knows."""
        return self._now_us

    def begin_sync(self) -> None:
        """Sync at once, or leave that to an event. A leader may append and resign in one step."""
        if not self.syncs_at_once.isdisjoint((self._role_before, self.core.role.name)):
            super().begin_sync()

    def on_ask(self, effect: fx.Ask) -> None:
        """Note a request."""
        self.sent.append((effect.node.id, effect.request, effect.request_id))

    def send_answer(self, token: int, reply: Reply) -> None:
        """Note the answer."""
        if token == TOKEN:
            self.sent.append((self._asker, reply, 0))
