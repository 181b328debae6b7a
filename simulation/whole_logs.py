"""The log of each node from its first batch on, also of what a snapshot took the place of.

A batch is known by the offset after it and the chain up to there. Whoever has the same has the same
log up to it, so what a node no longer has is read from where any node had it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import msgspec

from kraftspec.fastpath.types import Uuid
from kraftspec.model.traces import Batch, Key
from kraftspec.reference.profiles.kip_595.assignment import Assignment
from kraftspec.reference.raft import ReplicaKey, SnapshotId
from kraftspec.reference.raft.control import ControlRecord, Voters
from kraftspec.reference.raft.voters import VoterSet
from kraftspec.simulation.invariants import Invariant
from kraftspec.simulation.log_model import LogModel
from kraftspec.simulation.replica import Replica

_Place = tuple[int, int]  # The offset after a batch, and the chain up to there.


class WholeLog(msgspec.Struct):
    """Batches, from the first on; ``ends`` and ``chains`` say which they are."""

    ends: list[int] = []
    chains: list[int] = []
    batches: list[Batch] = []

    def count(self, offset: int) -> int:
        """Return how many batches end at an offset or before: an offset, in the model."""
        return bisect_right(self.ends, offset)

    def same_as(self, other: WholeLog) -> int:
        """Return how many batches both begin with."""
        same = min(len(self.ends), len(other.ends))
        while same and self.chains[same - 1] != other.chains[same - 1]:
            same -= 1
        return same


class WholeLogs(Invariant):
    """Looks at what is appended; it judges nothing. ``reset`` are nodes that took a snapshot."""

    def __init__(self) -> None:
        self.reset: dict[int, SnapshotId] = {}
        self._directories: dict[ReplicaKey, int] = {}
        self._counts: dict[int, int] = {}
        self._voters: dict[_Place, frozenset[Key]] = {}
        self._targets: dict[_Place, frozenset[Key]] = {}
        self._before: dict[_Place, tuple[_Place, Batch]] = {}
        self._last: dict[int, WholeLog] = {}

    def control_appended(self, replica: Replica, offset: int, record: ControlRecord) -> None:
        """Note the voters that a batch has."""
        if isinstance(record, Voters):
            place = replica.log_model.end_offset, replica.log_model.end_chain
            voters = record.voters
            self._voters[place] = self._keys(voters)
            if isinstance(voters, Assignment) and voters.targets:
                self._targets[place] = frozenset((id, 0) for id in voters.targets)

    def _keys(self, voters: VoterSet) -> frozenset[Key]:
        """Return voters as the model has them; the draft KIP-595 has no directories."""
        if isinstance(voters, Assignment):
            return frozenset((id, 0) for id in voters.ids)
        return frozenset((one.key.id, self.directory(one.key)) for one in voters)

    def log_reset(self, replica: Replica, snapshot: SnapshotId) -> None:
        """Note that a snapshot took the place of the log."""
        self.reset[replica.id] = snapshot

    def directory(self, key: ReplicaKey) -> int:
        """Return the number of a directory of a node: 1, and one more with each new disk."""
        number = self._directories.get(key)
        if number is None:
            number = self._counts[key.id] = self._counts.get(key.id, 0) + 1
            self._directories[key] = number
        return number

    def directory_of(self, node: int, directory_id: Uuid) -> int:
        """Return the number of a directory that a request names; the first, where it names none."""
        return self._directories.get(ReplicaKey(node, directory_id), 1)

    def look(self, replica: Replica) -> WholeLog:
        """Return the log that a node has now."""
        log, last = replica.log_model, self._last.get(replica.id, WholeLog())
        whole = self._until(last, log)
        place = (log.start_offset, log.start_chain)
        for end, chain, epoch in zip(log.ends, log.chains, log.epochs, strict=True):
            voters = self._voters.get((end, chain), frozenset())
            batch = Batch(epoch, voters, self._targets.get((end, chain), frozenset()))
            self._before[end, chain] = (place, batch)
            place = (end, chain)
            whole.ends.append(end)
            whole.chains.append(chain)
            whole.batches.append(batch)
        self._last[replica.id] = whole
        return whole

    def _until(self, last: WholeLog, log: LogModel) -> WholeLog:
        """Return the part of a log that is deleted."""
        if not log.start_offset:
            return WholeLog()
        at = bisect_left(last.ends, log.start_offset)
        if at < len(last.ends) and last.chains[at] == log.start_chain:
            count = at + 1
            return WholeLog(last.ends[:count], last.chains[:count], last.batches[:count])
        whole, place = WholeLog(), (log.start_offset, log.start_chain)
        while place in self._before:
            before, batch = self._before[place]
            whole.ends.append(place[0])
            whole.chains.append(place[1])
            whole.batches.append(batch)
            place = before
        for part in (whole.ends, whole.chains, whole.batches):
            part.reverse()
        return whole
