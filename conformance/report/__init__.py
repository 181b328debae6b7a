"""What people read of a run: the results' JSON is the truth, and everything here is made from it.

``matrix`` is the page (implementation by message by version), ``page`` what every page of the
project is made with, ``junit`` what build servers read, ``badge`` a picture of one figure,
``compare`` what changed from one run to the next, and ``transcript`` what was sent to whom.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from kraftspec.conformance.raw.results import Counts, Results
from kraftspec.conformance.vectors import KAFKA


def read_results(path: Path) -> Results:
    """Read the JSON of one run. ``ValueError`` has the file and the place of the mistake."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Results)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path}: not the results of a run: {error}") from error


def regressions(counts: Counts) -> int:
    """Return the number of unexpected outcomes: failures, and passes of known failures."""
    return counts.failed + counts.unexpected_passes


def answered(counts: Counts) -> int:
    """Return the number of cases that were not skipped."""
    return counts.passed + counts.failed + counts.known_failures + counts.unexpected_passes


def share_text(part: int, whole: int) -> str:
    """Return a percentage, rounded down: 100 % means all. ``whole`` is at least 1."""
    return "100 %" if part == whole else f"{part * 1000 // whole / 10:.1f} %"


def set_and_message(key: str) -> tuple[str, str]:
    """Split a key of the results' messages: ``kip-853/VoteRequest``; the set may be left out."""
    spec, _, message = key.rpartition("/")
    return spec or KAFKA, message
