"""Tests of the bugs that have names: made beside the others, or marked where they are already.

The bytes of a value are made by Apache Kafka's classes as those of every vector are, and Kafka's
verdict is asked on bytes that must be refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET

from kraftspec.conformance.adapters.harness import decode_request, encode_request
from kraftspec.conformance.adapters.kafka import KafkaAdapter
from kraftspec.conformance.bugs import FAMILY, bugs
from kraftspec.conformance.making.invalid import Fault
from kraftspec.conformance.making.make_invalid import judged
from kraftspec.conformance.raw.bugs import Bug, BugTest
from kraftspec.conformance.vectors import KAFKA, dumps, test_id

Test = dict[str, Any]


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
                vector = _vector(kafka, case)
                test = by_id.setdefault(vector["id"], vector)
                test["flags"] = [*test.get("flags", ()), bug.flag]
    return [_in_order(test) for test in by_id.values()]


def bug_notes(tests: Iterable[Test]) -> dict[str, Any]:
    """Explain those flags of tests that name bugs, for the ``notes`` of a vector file."""
    used = {flag for test in tests for flag in test.get("flags", ())}
    return {
        bug.flag: {"bugType": bug.bug_type, "description": _description(bug), "links": bug.links}
        for bug in bugs()
        if bug.flag in used
    }


def _description(bug: Bug) -> str:
    text = f"{bug.project}: {bug.description}"
    return text if bug.behaviour is UNSET else f"{text} {bug.behaviour}"


def _vector(kafka: KafkaAdapter, case: BugTest) -> Test:
    if case.hex is not UNSET and case.error is not UNSET:
        path = "" if case.error.path is UNSET else case.error.path
        data = bytes.fromhex(case.hex)
        fault = Fault(case.error.class_, case.comment, path, data, case.error.offset)
        [test], wrong = judged(kafka, KAFKA, case.message, case.version, [fault])
        if wrong:
            raise ValueError(f"bugs.json: {wrong[0]}")
        return test
    assert isinstance(case.value, dict)
    encoded = kafka.request(encode_request("e", case.message, case.version, case.value))
    if "hex" not in encoded:
        raise ValueError(f"bugs.json: {case.message} v{case.version} {case.comment}: {encoded}")
    read = kafka.request(decode_request("d", case.message, case.version, encoded["hex"]))
    is_roundtrip = case.op is UNSET and read.get("value") == case.value
    if not is_roundtrip and case.op is UNSET:
        raise ValueError(f"bugs.json: {case.message} v{case.version} {case.comment}: reads {read}")
    op = "roundtrip" if is_roundtrip else "encode"
    content = encoded["hex"] if is_roundtrip else dumps(case.value)
    return {
        "id": test_id(case.message, case.version, op, content),
        "version": case.version,
        "op": op,
        "family": FAMILY,
        "value": case.value,
        "hex": encoded["hex"],
        "result": "valid",
        "comment": case.comment,
    }


def _in_order(test: Test) -> Test:
    """Return the test with its comment last, as in all tests."""
    if "comment" not in test or next(reversed(test)) == "comment":
        return test
    comment = test["comment"]
    return {**{key: test[key] for key in test if key != "comment"}, "comment": comment}
