"""Voter sets, and the history that lets a truncation take one back (KIP-853).

A replica acts on a voter set as soon as it is in its log. If another leader makes it truncate that
part of the log, the set before it holds again. So sets are remembered by the offset at which they
were written, and looked up there when a snapshot of an older offset is made.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from kraftspec.reference.raft.types import Endpoints, Node, ReplicaKey, Voter

T = TypeVar("T")


class VoterSet:
    """Who may vote, ascending by id. Changing it gives another set; it never changes itself."""

    __slots__ = ("_by_id", "ids", "majority")

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        self._by_id = {voter.key.id: voter for voter in sorted(voters, key=lambda v: v.key.id)}
        self.ids = tuple(self._by_id)
        self.majority = len(self._by_id) // 2 + 1

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._by_id.values())

    def __contains__(self, voter_id: object) -> bool:
        return voter_id in self._by_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._by_id == other._by_id

    def __hash__(self) -> int:
        return hash(self.ids)

    def __repr__(self) -> str:
        return f"VoterSet({list(self)!r})"

    def get(self, voter_id: int) -> Voter | None:
        """Return the voter with this id."""
        return self._by_id.get(voter_id)

    def is_voter(self, key: ReplicaKey) -> bool:
        """Whether this very replica is a voter: same id, and same directory if one is known."""
        voter = self._by_id.get(key.id)
        return voter is not None and voter.key.matches(key)

    def is_only_voter(self, key: ReplicaKey) -> bool:
        """Whether this replica decides alone."""
        return len(self._by_id) == 1 and self.is_voter(key)

    def endpoints(self, voter_id: int) -> Endpoints:
        """Return where a voter is reached; none if it is not one."""
        voter = self._by_id.get(voter_id)
        return voter.endpoints if voter is not None else ()

    def node(self, voter_id: int, listener: str) -> Node | None:
        """Return where to send a request to a voter, or None if that is not known."""
        voter = self._by_id.get(voter_id)
        return voter.node(listener) if voter is not None else None

    def needs_update(self, voter: Voter) -> bool:
        """Whether ``voter`` is one of these, and its endpoints or versions are not what stands."""
        known = self._by_id.get(voter.key.id)
        return known is not None and known.key.matches(voter.key) and not known.is_same(voter)

    def with_voter(self, voter: Voter) -> VoterSet:
        """Return this set with ``voter`` added, or put in place of the one that has its id."""
        return VoterSet([*(v for v in self if v.key.id != voter.key.id), voter])

    def without(self, voter_id: int) -> VoterSet:
        """Return this set without the voter of that id."""
        return VoterSet(v for v in self if v.key.id != voter_id)

    def all_support(self, level: int) -> bool:
        """Whether every voter speaks this level of ``kraft.version``."""
        return all(voter.kraft_versions.covers(level) for voter in self)


class History(Generic[T]):
    """Values by the offset at which each came into force."""

    __slots__ = ("_offsets", "_values", "last", "last_offset")

    def __init__(self, default: T, entries: Iterable[tuple[int, T]] = ()) -> None:
        self._offsets: list[int] = []
        self._values: list[T] = [default]
        self.last: T = default
        self.last_offset: int | None = None  # None: nothing but the default is known.
        for offset, value in entries:
            self.add(offset, value)

    def __len__(self) -> int:
        return len(self._offsets)

    def entries(self) -> list[tuple[int, T]]:
        """Return (offset, value) pairs, ascending."""
        return list(zip(self._offsets, self._values[1:], strict=True))

    def add(self, offset: int, value: T) -> None:
        """Remember that ``value`` holds from ``offset`` on."""
        if self._offsets and offset <= self._offsets[-1]:
            raise ValueError(f"offset {offset} is not after {self._offsets[-1]}")
        self._offsets.append(offset)
        self._values.append(value)
        self._refresh()

    def put(self, offset: int, value: T) -> None:
        """Remember that ``value`` holds from ``offset`` on, and not what was said to before."""
        if self._offsets and offset == self._offsets[-1]:
            del self._offsets[-1], self._values[-1]
        self.add(offset, value)

    def at(self, offset: int) -> T:
        """Return what holds at ``offset``."""
        return self._values[bisect_right(self._offsets, offset)]

    def truncate_from(self, end_offset: int) -> bool:
        """Forget what was written at ``end_offset`` or later; tell whether anything was."""
        keep = bisect_right(self._offsets, end_offset - 1)
        if keep == len(self._offsets):
            return False
        del self._offsets[keep:], self._values[keep + 1 :]
        self._refresh()
        return True

    def truncate_before(self, start_offset: int) -> None:
        """Forget what no longer matters once the log starts at ``start_offset``.

        What was in force at the record before it stays, even where another value came with the
        first one: that may be cut off again.
        """
        drop = bisect_right(self._offsets, start_offset - 1) - 1
        if drop > 0:
            del self._offsets[:drop], self._values[1 : drop + 1]

    def replace(self, entries: Iterable[tuple[int, T]]) -> None:
        """Forget everything, and take these entries instead, as a loaded snapshot demands."""
        del self._offsets[:], self._values[1:]
        self._refresh()
        for offset, value in entries:
            self.add(offset, value)

    def _refresh(self) -> None:
        self.last = self._values[-1]
        self.last_offset = self._offsets[-1] if self._offsets else None
