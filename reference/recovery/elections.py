"""Who could be elected as things stand, and by whose votes.

A candidate is a voter by its own log, and needs a majority of the voters of its own log. A node
grants its vote to a log that is not behind its own (last epoch, then end), whether the candidate is
a voter by the log of the one that votes or not, if the request names its directory id. A vote that
was given away binds in its epoch alone: who loses asks again in the next one.

Nodes are taken as stopped and started again, with nobody leading.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from kraftspec.reference.raft.types import ReplicaKey
from kraftspec.reference.recovery.compare import Comparison

if TYPE_CHECKING:
    from kraftspec.reference.recovery.reading import Directory

EPOCH_MAX: Final = (1 << 31) - 1


class Candidate(msgspec.Struct, kw_only=True):
    """A node that is a voter by its own log, and what the voters of that log would do.

    ``number`` is that of its directory. ``refused`` has why; ``absent`` are voters whose directory
    was not given, or cannot be read.
    """

    number: int
    key: ReplicaKey
    needed: int
    granted: list[int] = []
    refused: dict[int, str] = {}
    absent: list[int] = []

    @property
    def is_electable(self) -> bool:
        """Whether the directories that were given elect it."""
        return len(self.granted) >= self.needed

    @property
    def may_be_electable(self) -> bool:
        """Whether it is elected if those that were not given grant their votes."""
        return len(self.granted) + len(self.absent) >= self.needed


def candidates_of(directories: Sequence[Directory]) -> list[Candidate]:
    """Return the nodes that are voters by their own logs, the longest log first."""
    candidates = []
    for number, directory in enumerate(directories):
        voters = directory.in_force.voters
        if not directory.is_readable or not voters.is_voter(directory.key):
            continue
        candidate = Candidate(number=number, key=directory.key, needed=voters.majority)
        for voter in voters:
            _ask(candidate, directory, voter.key, directories)
        candidates.append(candidate)
    candidates.sort(key=lambda one: directories[one.number].log.position, reverse=True)
    return candidates


def _ask(
    candidate: Candidate, own: Directory, voter: ReplicaKey, directories: Sequence[Directory]
) -> None:
    if voter.matches(own.key):
        candidate.granted.append(voter.id)
        return
    known = [one for one in directories if one.node_id == voter.id]
    meant = [one for one in known if voter.matches(one.key)]
    if not known or (meant and not any(one.is_readable for one in meant)):
        candidate.absent.append(voter.id)
        return
    if not meant:
        candidate.refused[voter.id] = (
            f"its directory id is {known[0].directory_id}, the voter's is {voter.directory_id}"
        )
        return
    # Of two copies of one directory either may be the one that is started.
    last = max(one.log.position for one in meant)
    if own.epoch >= EPOCH_MAX:
        candidate.refused[voter.id] = f"no epoch is left after {EPOCH_MAX}"
    elif last > own.log.position:
        candidate.refused[voter.id] = (
            f"its log is longer: epoch {last[0]}, end {last[1]}, against epoch "
            f"{own.log.last_epoch}, end {own.log.end_offset}"
        )
    else:
        candidate.granted.append(voter.id)


def common_end(candidates: Sequence[Candidate], comparison: Comparison) -> int | None:
    """Return up to where the logs of all electable nodes are one; None where nobody is electable.

    What was ever committed is in the log of every node that can be elected, so it ends there.
    """
    numbers = [one.number for one in candidates if one.is_electable]
    if not numbers:
        return None
    first = numbers[0]
    return (
        min(comparison.agree_until(first, number) for number in numbers)
        if len(numbers) > 1
        else (comparison.directories[first].log.end_offset)
    )


def missing_voters(directories: Sequence[Directory]) -> dict[int, ReplicaKey]:
    """Return the voters, by any of the logs, of whom no readable directory was given."""
    given = [one.key for one in directories if one.is_readable]
    return {
        voter.key.id: voter.key
        for directory in directories
        for voter in directory.in_force.voters
        if not any(voter.key.matches(key) for key in given)
    }
