"""All directories together: what they say of each other, and what is wrong.

Live nodes go on while they are read. What is wrong at two readings, with the same offsets, is
wrong; what only one of them shows was a moment between two writes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from kraftspec.reference.log.files import ReadOnlyFiles
from kraftspec.reference.raft.types import ReplicaKey
from kraftspec.reference.recovery import committed, rules
from kraftspec.reference.recovery.committed import Proof
from kraftspec.reference.recovery.compare import ChangedMeanwhileError, Comparison
from kraftspec.reference.recovery.elections import (
    Candidate,
    candidates_of,
    common_end,
    missing_voters,
)
from kraftspec.reference.recovery.rules import Severity, Verdict
from kraftspec.reference.recovery.walker import read_directory, stamp_of

if TYPE_CHECKING:
    from kraftspec.reference.log.files import ReadableFiles
    from kraftspec.reference.recovery.reading import Directory

_READINGS: Final = 6
_PAUSE_S: Final = 0.3  # A live log grows every 500 ms, by a NoOpRecord.


class Judgement(msgspec.Struct, kw_only=True):
    """What the directories say together.

    ``proofs`` are of what is committed, the furthest first. ``perhaps_end`` is where everything
    that was ever committed ends, None if nobody can say. ``is_still``: no directory changed while
    they were read.
    """

    directories: list[Directory]
    comparison: Comparison
    candidates: list[Candidate]
    missing: dict[int, ReplicaKey]
    proofs: list[Proof]
    perhaps_end: int | None
    is_still: bool
    verdicts: list[Verdict] = []

    @property
    def certain(self) -> Proof | None:
        """The furthest offset that is certainly committed, and why."""
        return self.proofs[0] if self.proofs else None

    @property
    def reference(self) -> int:
        """The number of the longest log that could lead, else of the longest log; -1: none."""
        electable = [one.number for one in self.candidates if one.is_electable]
        numbers = electable or [
            number for number, one in enumerate(self.directories) if not one.formatting_problem
        ]
        return max(numbers, key=lambda one: self.directories[one].log.position, default=-1)

    @property
    def exit_code(self) -> int:
        """0: all is well; 1: something is wrong; 3: the directories are too few to say."""
        severities = {verdict.severity for verdict in self.verdicts}
        if severities & {Severity.ERROR, Severity.WARNING}:
            return 1
        return 3 if Severity.UNKNOWN in severities else 0


def judge(directories: Sequence[Directory], files: ReadableFiles, *, is_still: bool) -> Judgement:
    """Judge readings; ChangedMeanwhileError where a log is not what was read of it any more."""
    comparison = Comparison(directories, files)
    candidates = candidates_of(directories)
    found = Judgement(
        directories=list(directories),
        comparison=comparison,
        candidates=candidates,
        missing=missing_voters(directories),
        proofs=committed.proofs_of(comparison, candidates, is_still=is_still),
        perhaps_end=common_end(candidates, comparison),
        is_still=is_still,
    )
    found.verdicts = sorted(
        rules.verdicts_of(found), key=lambda one: list(Severity).index(one.severity)
    )
    return found


def verify(paths: Sequence[str], files: ReadableFiles | None = None) -> Judgement:
    """Read directories, again where that may be a moment between two writes, and judge them.

    Changes nothing. What cannot be read is a verdict.
    """
    files = files or ReadOnlyFiles()
    directories = [read_directory(path, files) for path in paths]
    before: set[tuple[str, str]] | None = None
    for reading in range(_READINGS):
        is_last = reading + 1 == _READINGS
        changed = [
            number
            for number, one in enumerate(directories)
            if not one.formatting_problem and stamp_of(one, files) != one.stamp
        ]
        try:
            found = judge(directories, files, is_still=not changed)
        except ChangedMeanwhileError:
            found = None
        if found is not None:
            wrong = {one.identity for one in found.verdicts if one.severity is not Severity.NOTE}
            if not wrong or found.is_still:
                return found
            if before is not None:
                found.verdicts = [
                    one
                    for one in found.verdicts
                    if one.severity is Severity.NOTE or one.identity in before
                ]
                wrong &= before
                if not wrong or is_last:
                    return found
            before = wrong
        time.sleep(_PAUSE_S)
        directories = [
            read_directory(one.path, files) if stamp_of(one, files) != one.stamp else one
            for one in directories
        ]
    assert found is not None, "a log changed each time that it was read"
    return found
