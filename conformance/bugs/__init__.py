"""The bugs of others as named tests: each has a flag, and vectors that carry it.

``bugs.json`` lists them (``schemas/bugs.schema.json``), and ``making.bug_tests`` makes their
vectors. Which releases fail them is for ``trials`` to find out; ``page`` writes docs/bugs.md.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

from kraftspec.conformance.raw.bugs import Bug, BugFile

FAMILY: Final = "bugs"


@cache
def bugs() -> tuple[Bug, ...]:
    """Return all bugs, as ``bugs.json`` has them."""
    text = (files("kraftspec.conformance.bugs") / "bugs.json").read_bytes()
    return tuple(msgspec.json.decode(text, type=BugFile).bugs)
