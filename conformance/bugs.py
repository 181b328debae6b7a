"""The bugs of others as named tests: each has a flag, and vectors that carry it.

``bugs.json`` lists them (``schemas/bugs.schema.json``). The bytes of a value are made by Apache
Kafka's classes as those of every vector are, and Kafka's verdict is asked on bytes that must be
refused. Which releases fail them is for ``bug_evidence`` to find out.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from kraftspec.conformance.harness import decode_request, encode_request
from kraftspec.conformance.invalid import Fault
from kraftspec.conformance.make_invalid import judged
from kraftspec.conformance.raw.bugs import Bug, BugFile, BugTest
from kraftspec.conformance.vectors import KAFKA, dumps, test_id

if TYPE_CHECKING:
    from kraftspec.conformance.java import KafkaAdapter

FAMILY: Final = "bugs"

Test = dict[str, Any]


@cache
def bugs() -> tuple[Bug, ...]:
    """Return all bugs, as ``bugs.json`` has them."""
    text = (files("kraftspec.conformance") / "bugs.json").read_bytes()
    return tuple(msgspec.json.decode(text, type=BugFile).bugs)


def with_bugs(kafka: KafkaAdapter, spec: str, message: str, tests: list[Test]) -> list[Test]:
    """Return the tests of a message with the named bugs in: flags, and the tests still missing.

    A test that is there already gets the flag; the others are added at the end, valid ones as the
    family ``bugs``. Only the set kafka has any.

    Raises ``ValueError`` for a test of ``bugs.json`` that Kafka takes otherwise than it says.
    """
    if spec != KAFKA:
        return tests
    by_id = {test["id"]: test for test in tests}
    for bug in bugs():
        for case in bug.tests:
            if case.message == message:
                made = _made(kafka, case)
                test = by_id.setdefault(made["id"], made)
                test["flags"] = [*test.get("flags", ()), bug.flag]
    return [_in_order(test) for test in by_id.values()]


def bug_notes(tests: Iterable[Test]) -> dict[str, Any]:
    """Explain those flags of tests that name bugs, for the ``notes`` of a vector file."""
    used = {flag for test in tests for flag in test.get("flags", ())}
    return {
        bug.flag: {"bugType": bug.bug_type, "description": _told(bug), "links": bug.links}
        for bug in bugs()
        if bug.flag in used
    }


def _told(bug: Bug) -> str:
    text = f"{bug.project}: {bug.description}"
    return text if bug.behaviour is UNSET else f"{text} {bug.behaviour}"


def _made(kafka: KafkaAdapter, case: BugTest) -> Test:
    if case.hex is not UNSET and case.error is not UNSET:
        path = "" if case.error.path is UNSET else case.error.path
        data = bytes.fromhex(case.hex)
        fault = Fault(case.error.class_, case.comment, path, data, case.error.offset)
        [test], wrong = judged(kafka, KAFKA, case.message, case.version, [fault])
        if wrong:
            raise ValueError(f"bugs.json: {wrong[0]}")
        return test
    assert isinstance(case.value, dict)
    made = kafka.request(encode_request("e", case.message, case.version, case.value))
    if "hex" not in made:
        raise ValueError(f"bugs.json: {case.message} v{case.version} {case.comment}: {made}")
    read = kafka.request(decode_request("d", case.message, case.version, made["hex"]))
    is_roundtrip = case.op is UNSET and read.get("value") == case.value
    if not is_roundtrip and case.op is UNSET:
        raise ValueError(f"bugs.json: {case.message} v{case.version} {case.comment}: reads {read}")
    op = "roundtrip" if is_roundtrip else "encode"
    content = made["hex"] if is_roundtrip else dumps(case.value)
    return {
        "id": test_id(case.message, case.version, op, content),
        "version": case.version,
        "op": op,
        "family": FAMILY,
        "value": case.value,
        "hex": made["hex"],
        "result": "valid",
        "comment": case.comment,
    }


def _in_order(test: Test) -> Test:
    """Return the test with its comment last, as all have it."""
    if "comment" not in test or next(reversed(test)) == "comment":
        return test
    comment = test["comment"]
    return {**{key: test[key] for key in test if key != "comment"}, "comment": comment}
