"""Reads directories and judges them, again where that may be a moment between two writes.

Live nodes go on while they are read. What is wrong at two readings, with the same offsets, is
wrong; what only one of them shows was a moment between two writes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kraftspec.reference.log.files import ReadOnlyFiles
from kraftspec.reference.recovery import committed, rules
from kraftspec.reference.recovery.compare import ChangedMeanwhileError, Comparison
from kraftspec.reference.recovery.elections import candidates_of, common_end, missing_voters
from kraftspec.reference.recovery.judgement import Judgement, Severity
from kraftspec.reference.recovery.walker import is_as_read, read_directory

if TYPE_CHECKING:
    from kraftspec.reference.log.files import ReadableFiles
    from kraftspec.reference.recovery.reading import Directory

_READINGS: Final = 3  # So often something wrong is seen before it is said of a live node.
_TRIES: Final = 20
_PAUSE_S: Final = 0.3  # A live log grows every 500 ms, by a NoOpRecord.


def judge(directories: Sequence[Directory], files: ReadableFiles, *, is_still: bool) -> Judgement:
    """Judge readings; ChangedMeanwhileError where a log is not what was read of it any more."""
    comparison = Comparison(directories, files)
    candidates = candidates_of(directories)
    judgement = Judgement(
        directories=list(directories),
        comparison=comparison,
        candidates=candidates,
        missing=missing_voters(directories),
        proofs=committed.proofs_of(comparison, candidates, is_still=is_still),
        # Of logs that grow meanwhile, the shorter may be the one that was read first.
        perhaps_end=common_end(candidates, comparison) if is_still else None,
        is_still=is_still,
    )
    judgement.verdicts = sorted(
        rules.verdicts_of(judgement), key=lambda one: list(Severity).index(one.severity)
    )
    return judgement


def verify(paths: Sequence[str], files: ReadableFiles | None = None) -> Judgement:
    """Read directories, again where that may be a moment between two writes, and judge them.

    Changes nothing. What cannot be read is a verdict; OSError where logs never keep still.
    """
    files = files or ReadOnlyFiles()
    directories = [read_directory(path, files) for path in paths]
    seen: list[set[tuple[str, str]]] = []  # What was wrong, a reading each.
    for _ in range(_TRIES):
        is_still = all(is_as_read(one, files) for one in directories)
        try:
            judgement = judge(directories, files, is_still=is_still)
        except ChangedMeanwhileError:
            judgement = None
        if judgement is not None:
            wrong = {
                one.identity for one in judgement.verdicts if one.severity is not Severity.NOTE
            }
            seen.append(wrong)
            lasting = set.intersection(*seen)
            if judgement.is_still or not lasting or len(seen) == _READINGS:
                if not judgement.is_still:
                    judgement.verdicts = [
                        one
                        for one in judgement.verdicts
                        if one.severity is Severity.NOTE or one.identity in lasting
                    ]
                return judgement
        time.sleep(_PAUSE_S)
        directories = [
            one if is_as_read(one, files) else read_directory(one.path, files)
            for one in directories
        ]
    raise OSError("the logs change faster than they can be compared: try again")
