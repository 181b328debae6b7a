"""The log of each node from its first batch on, also of what a snapshot took the place of.

A batch is known by the offset after it and the chain up to there. Whoever has the same has the same
log up to it, so what a node no longer has is read from where any node had it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import msgspec

from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.model.traces import Batch, Key
from kraftspec.reference.profiles.kip_595.assignment import Assignment
from kraftspec.reference.raft import ReplicaKey, SnapshotId, VoterSet
from kraftspec.reference.raft.control import ControlRecord
from kraftspec.simulation.invariants.log_voters import LogVoters
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


class WholeLogs(LogVoters):
    """Looks at what is appended; it judges nothing. ``reset`` are nodes that took a snapshot."""

    def __init__(self) -> None:
        super().__init__()
        self.reset: dict[int, SnapshotId] = {}
        self._directories: dict[ReplicaKey, int] = {}
        self._counts: dict[int, int] = {}
        self._voters: dict[_Place, VoterSet] = {}  # That a batch leaves, if it is about them.
        self._before: dict[_Place, tuple[_Place, Batch]] = {}
        self._last: dict[int, WholeLog] = {}

    def control_appended(self, replica: Replica, offset: int, record: ControlRecord) -> None:
        """Note the voters that a batch leaves, if it is about them."""
        sets = self.sets[replica.key]
        count = len(sets)
        super().control_appended(replica, offset, record)
        if len(sets) > count:
            self._voters[_place(replica, offset)] = sets[-1][1]

    def started(self, replica: Replica, before: LogModel | None) -> None:
        """Note the voters of a log that a node was formatted with, or of a write that failed."""
        super().started(replica, before)
        log = replica.log_model
        self._voters = {
            _place(replica, offset): voters
            for offset, voters in self.sets[replica.key]
            if log.start_offset <= offset < log.end_offset
        } | self._voters

    def log_reset(self, replica: Replica, snapshot: SnapshotId) -> None:
        """Note that a snapshot took the place of the log."""
        super().log_reset(replica, snapshot)
        self.reset[replica.id] = snapshot

    def directory(self, key: ReplicaKey) -> int:
        """Return the number of a directory of a node: 1, and one more with each new disk.

        It is 0 where a voter is named by its id alone.
        """
        if key.directory_id == ZERO_UUID:
            return 0
        number = self._directories.get(key)
        if number is None:
            number = self._counts[key.id] = self._counts.get(key.id, 0) + 1
            self._directories[key] = number
        return number

    def directory_of(self, node: int, directory_id: Uuid) -> int:
        """Return the number of a directory that a request names; the first, where it names none."""
        return self._directories.get(ReplicaKey(node, directory_id), 1)

    def keys(self, voters: VoterSet) -> frozenset[Key]:
        """Return voters as the model has them."""
        return frozenset((one.key.id, self.directory(one.key)) for one in voters)

    def look(self, replica: Replica) -> WholeLog:
        """Return the log that a node has now."""
        log, last = replica.log_model, self._last.get(replica.id, WholeLog())
        whole = self._until(last, log)
        place = (log.start_offset, log.start_chain)
        for end, chain, epoch in zip(log.ends, log.chains, log.epochs, strict=True):
            batch = self._batch(epoch, self._voters.get((end, chain)))
            self._before[end, chain] = (place, batch)
            place = (end, chain)
            whole.ends.append(end)
            whole.chains.append(chain)
            whole.batches.append(batch)
        self._last[replica.id] = whole
        return whole

    def _batch(self, epoch: int, voters: VoterSet | None) -> Batch:
        if voters is None:
            return Batch(epoch)
        targets = (voters.targets or ()) if isinstance(voters, Assignment) else ()
        return Batch(epoch, self.keys(voters), frozenset((id, 0) for id in targets))

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


def _place(replica: Replica, offset: int) -> _Place:
    log = replica.log_model
    index = bisect_right(log.ends, offset)
    return log.ends[index], log.chains[index]
