"""What a run decided, event by event: enough to run it again, whole or in part.

A decision names what happened without numbers that depend on what happened before it, so that most
of a row still makes sense when some of it is left out: a message is known by its bytes, or else by
who sent which kind of it to whom.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kraftspec.simulation.world import (
    APPEND,
    ASK,
    BOUNDARY,
    CLEAN,
    CRASH,
    CUT,
    DELIVER,
    DISK,
    FAIL,
    FINISH,
    FLUSH,
    JUMP,
    MOVE,
    REPLACE,
    SNAPSHOT,
    START,
    STOP,
    TICK,
    UPGRADE,
    Decision,
)

WORDS: dict[int, str] = {
    DELIVER: "receives", TICK: "its clock strikes", FLUSH: "its disk has synced",
    FINISH: "has stored a fetched snapshot", FAIL: "cannot send", APPEND: "appends",
    ASK: "is asked by the operator", CRASH: "goes down", START: "starts",
    SNAPSHOT: "writes a snapshot", CLEAN: "cleans its log", JUMP: "its clock jumps",
    STOP: "is to leave", BOUNDARY: "will lose its power", REPLACE: "gets an empty disk",
    DISK: "its disk will fail", UPGRADE: "is asked to raise kraft.version",
    CUT: "will lose its power in an operation of its disk", MOVE: "gets another address",
}  # fmt: skip


def to_json(decisions: list[Decision]) -> list[Any]:
    """Return decisions as JSON."""
    return [msgspec.to_builtins(decision) for decision in decisions]


def from_json(value: list[Any]) -> list[Decision]:
    """Read what ``to_json`` wrote."""
    return msgspec.convert(value, list[Decision])
