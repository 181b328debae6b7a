"""The verdict on one answer, and the place where what was given parts from what was wanted."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from kraftspec.conformance.adapters.harness import Answer, Reply
from kraftspec.conformance.runner.cases import Case, Direction, RawTest
from kraftspec.conformance.runner.judge import (
    HEX_BYTES_MAX,
    Outcome,
    Skipped,
    Wrong,
    fails,
    field_at,
    hex_difference,
    judge,
    value_difference,
)

VALUE = {"clusterId": "a", "voterId": -1, "topics": []}
HEX = "0261ffffffff0100"
REFUSAL = {"error": {"class": "truncated", "offset": 17, "path": "topics[0]", "detail": "why"}}
WAYS: dict[str, Direction] = {"e": "encode", "d": "decode"}


def vector(**more: Any) -> dict[str, Any]:
    fields = {"id": "0" * 16, "version": 2, "op": "roundtrip", "family": "alone", "value": VALUE,
            "hex": HEX, "result": "valid", **more}  # fmt: skip
    return {name: value for name, value in fields.items() if value is not ...}


def verdict(reply: Reply, way: str = "d", *, exact: bool = False, **more: Any) -> Outcome:
    test = msgspec.json.decode(json.dumps(vector(**more)), type=RawTest)
    case = Case("kafka", "VoteRequest", test, WAYS[way])
    answer = msgspec.json.decode(json.dumps({"id": "x", **reply}), type=Answer)
    return judge(case, answer, exact=exact)


HEARTBEAT = {"value": {"throttleTimeMs": 100, "errorCode": 5}, "hex": "000000640005", "version": 1}


@pytest.mark.parametrize(
    ("way", "reply", "hint"),
    [
        ("e", {"hex": "000500000064"}, "throttleTimeMs and errorCode look swapped"),
        ("e", {"hex": "000000650005"}, ""),
        ("e", {"hex": "0005"}, ""),
        # Read as an int16 and an int32 after it, the bytes are 0 and 0x00640005.
        (
            "d",
            {"value": {"errorCode": 0, "throttleTimeMs": 0x640005}},
            "throttleTimeMs and errorCode look swapped",
        ),
        ("d", {"value": {"errorCode": 100, "throttleTimeMs": 5}}, ""),
        ("d", {"value": {"throttleTimeMs": True, "errorCode": 0}}, ""),
        ("d", {"value": [1]}, ""),
    ],
)
def test_fields_in_the_wrong_order(way: str, reply: Reply, hint: str) -> None:
    test = msgspec.json.decode(json.dumps(vector(**HEARTBEAT)), type=RawTest)
    case = Case("kafka", "HeartbeatResponse", test, WAYS[way])
    answer = msgspec.json.decode(json.dumps({"id": "x", **reply}), type=Answer)
    outcome = judge(case, answer, exact=False)
    assert isinstance(outcome, Wrong)
    assert ("look swapped" in outcome.detail) == bool(hint)
    assert outcome.detail.endswith(hint)


def wrong(reply: Reply, way: str = "d", **more: Any) -> Wrong:
    outcome = verdict(reply, way, **more)
    assert isinstance(outcome, Wrong)
    return outcome


@pytest.mark.parametrize(
    ("way", "reply"),
    [
        ("e", {"hex": HEX}),
        ("e", {"hex": HEX.upper()}),
        ("d", {"value": VALUE}),
        ("d", {"value": VALUE, "trailing": 0}),
        ("d", {"value": dict(reversed(VALUE.items()))}),  # The order is the writer's.
    ],
)
def test_what_is_right(way: str, reply: Reply) -> None:
    assert verdict(reply, way) is None


def test_text_may_be_escaped_or_not() -> None:
    test = msgspec.json.decode(json.dumps(vector(value={"clusterId": "\u00e9"})), type=RawTest)
    answer = Answer(id="x", value=msgspec.Raw('{"clusterId": "\u00e9"}'.encode()))
    assert judge(Case("kafka", "VoteRequest", test, "decode"), answer, exact=True) is None


@pytest.mark.parametrize(
    ("way", "reply", "kind", "path", "detail"),
    [
        ("e", {"hex": "0262ffffffff0100"}, "wrong", "clusterId",
         "bytes differ from byte 1 on (8 wanted, 8 given): "
         "…0261ffffffff0100… wanted, …0262ffffffff0100… given"),
        ("e", {"hex": None}, "malformed", "", "no hex in the reply"),
        ("e", {"hex": 5}, "malformed", "", "no hex in the reply, but 5"),
        ("e", {"hex": "zz"}, "malformed", "", "hex is two digits a byte, and no more: 'zz'"),
        ("e", {"hex": HEX[:-1]}, "malformed", "", "hex is two digits a byte, and no more: '0261f"),
        ("e", {"hex": "02 61"}, "malformed", "", "hex is two digits a byte, and no more: '02 61'"),
        ("e", {"hex": "0262FFFFFFFF0100"}, "wrong", "clusterId", "bytes differ from byte 1 on"),
        ("e", {"value": VALUE}, "malformed", "", "no hex in the reply"),
        ("e", {"error": {"class": "wrong_type"}}, "refused", "", "refused:  [wrong_type]"),
        ("e", REFUSAL, "refused", "topics[0]", "refused at topics[0] byte 17: why [truncated]"),
        ("e", {"error": {"class": "truncated", "offset": 0, "path": "", "detail": "x"}},
         "refused", "", "refused byte 0: x [truncated]"),
        ("e", {"error": "no"}, "malformed", "", "an error that is none"),
        ("e", {"error": {"class": "bad_luck"}}, "malformed", "", "an error that is none"),
        ("d", {"value": {**VALUE, "clusterId": "b"}}, "wrong", "clusterId",
         'clusterId: "a" wanted, "b" given'),
        ("d", {"value": {"clusterId": "a", "voterId": -1}}, "wrong", "topics", "topics: missing"),
        ("d", {"value": {**VALUE, "more": 1}}, "wrong", "more", "more: not wanted"),
        ("d", {"value": {**VALUE, "voterId": -1.0}}, "wrong", "voterId",
         "voterId: -1 wanted, -1.0 given"),
        ("d", {"value": None}, "wrong", "", ": {"),
        ("d", {}, "malformed", "", "no value in the reply"),
        ("d", {"hex": HEX}, "malformed", "", "no value in the reply, but"),
        ("d", {"value": VALUE, "trailing": 2}, "wrong", "", "2 bytes were left unread"),
        ("d", {"value": VALUE, "trailing": [0]}, "wrong", "", "[0] bytes were left unread"),
        ("d", REFUSAL, "refused", "topics[0]", "refused at topics[0] byte 17: why [truncated]"),
        ("d", {"skipped": 5}, "malformed", "", "skipped without a reason: 5"),
        ("d", {"skipped": {}}, "malformed", "", "skipped without a reason: {}"),
    ],
)  # fmt: skip
def test_what_is_wrong(way: str, reply: Reply, kind: str, path: str, detail: str) -> None:
    outcome = wrong(reply, way)
    assert (outcome.kind, outcome.path) == (kind, path)
    assert outcome.detail.startswith(detail)


def test_bytes_are_kept_where_they_differ() -> None:
    outcome = wrong({"hex": "0261ff"}, "e")
    assert (outcome.wanted, outcome.given, outcome.offset) == (HEX, "0261ff", 3)
    long = "11" * 5000
    other = f"{long[:6000]}22{long[6002:]}"
    outcome = wrong({"hex": other}, "e", hex=long)
    assert (outcome.offset, outcome.shown_from) == (3000, 2928)
    assert outcome.wanted == "11" * HEX_BYTES_MAX
    assert outcome.given == "11" * 72 + "22" + "11" * (HEX_BYTES_MAX - 73)


def test_of_values_the_part_that_differs_is_kept() -> None:
    outcome = wrong({"value": {**VALUE, "topics": [{"a": 1}]}})
    assert (outcome.path, outcome.wanted, outcome.given) == ("topics", "[]", '[{"a": 1}]')
    outcome = wrong({"value": {"clusterId": "a", "voterId": -1}})
    assert (outcome.path, outcome.wanted, outcome.given) == ("topics", "[]", None)
    outcome = wrong({"value": {**VALUE, "clusterId": "x" * 5000}})
    assert outcome.given is not None
    assert len(outcome.given) == 2000


LONG = "x" * 100_000


@pytest.mark.parametrize(
    ("way", "reply", "of_it"),
    [
        ("e", {"hex": "00" * 100_000}, {"result": "invalid", "error": {"class": "wrong_type"}}),
        ("d", {"value": LONG}, {"result": "invalid", "error": {"class": "wrong_type"}}),
        ("e", {"hex": "00" * 100_000}, {}),
        ("e", {"hex": LONG}, {}),
        ("d", {"value": {**VALUE, LONG: LONG}}, {}),
        ("d", {"value": VALUE, "trailing": LONG}, {}),
        ("d", {"skipped": LONG}, {}),
        ("d", {"skipped": {"reason": LONG, "issue": LONG}}, {}),
        ("d", {"error": LONG}, {}),
        ("d", {"error": {"class": LONG}}, {}),
        ("d", {"error": {"class": "truncated", LONG: 1}}, {}),
        ("d", {"error": {"class": "truncated", "path": LONG, "detail": LONG}}, {}),
    ],
)
def test_an_adapter_does_not_decide_how_much_is_kept(
    way: str, reply: Reply, of_it: dict[str, Any]
) -> None:
    outcome = verdict(reply, way, **of_it)
    assert outcome is not None
    texts = msgspec.to_builtins(outcome)
    kept = texts.values() if isinstance(texts, dict) else texts
    assert sum(len(text) for text in kept if isinstance(text, str)) < 8000


def test_skipped() -> None:
    reply = {"skipped": {"reason": "no", "issue": "https://x"}}
    assert verdict(reply) == Skipped("no", "https://x")
    assert verdict({"skipped": {"reason": "no"}}) == Skipped("no", "")
    # What must be refused is not refused by being skipped.
    assert verdict({"skipped": {"reason": "no"}}, result="invalid") == Skipped("no", "")


# ------------------------------------------------------------------------- invalid and acceptable

TRUNCATED = {"class": "truncated", "offset": 17}


def test_what_must_be_refused() -> None:
    of_it: dict[str, Any] = {"result": "invalid", "error": TRUNCATED, "value": ...}
    assert verdict(REFUSAL, **of_it) is None
    assert verdict(REFUSAL, exact=True, **of_it) is None
    accepted = wrong({"value": VALUE}, **of_it)
    assert (accepted.kind, accepted.wanted) == ("accepted", "truncated at byte 17")
    assert accepted.given == json.dumps(VALUE)
    other = {"error": {"class": "refused"}}
    assert verdict(other, **of_it) is None
    assert wrong(other, exact=True, **of_it).kind == "class"
    late = {"error": {"class": "truncated", "offset": 18}}
    assert verdict(late, **of_it) is None
    assert wrong(late, exact=True, **of_it).kind == "offset"
    assert wrong({"error": {"class": "truncated"}}, exact=True, **of_it).kind == "offset"
    encoded = wrong({"hex": "00"}, "e", result="invalid", error={"class": "wrong_type"})
    assert (encoded.kind, encoded.given, encoded.wanted) == ("accepted", "00", "wrong_type")


def test_what_may_be_refused() -> None:
    accepted: dict[str, Any] = {"verdict": "accepted", "value": {"clusterId": "k"}}
    of_it: dict[str, Any] = {"result": "acceptable", "value": ..., "kafka": accepted}
    assert verdict(REFUSAL, **of_it) is None
    assert verdict({"value": {"clusterId": "k"}}, **of_it) is None
    assert wrong({"value": {"clusterId": "j"}}, **of_it).path == "clusterId"
    assert wrong({"value": {"clusterId": "k"}, "trailing": 1}, **of_it).kind == "wrong"
    accepted["trailing"] = 1
    assert verdict({"value": {"clusterId": "k"}, "trailing": 1}, **of_it) is None
    assert wrong({"value": {"clusterId": "k"}, "trailing": 2}, **of_it).kind == "wrong"
    # Kafka's own word comes before that of the vector, and where there is none all will do.
    assert verdict({"value": {"clusterId": "k"}}, **{**of_it, "value": VALUE}) is None
    refused = {"verdict": "refused", "class": "truncated"}
    assert verdict({"value": {"x": 1}}, result="acceptable", value=..., kafka=refused) is None
    encoded: dict[str, Any] = {"verdict": "accepted", "hex": "01"}
    assert verdict({"hex": "01"}, "e", result="acceptable", hex=..., kafka=encoded) is None
    assert wrong({"hex": "02"}, "e", result="acceptable", hex=..., kafka=encoded).kind == "wrong"
    # Of bytes on which there is no word, that they are some.
    assert verdict({"hex": "02"}, "e", result="acceptable", hex=...) is None
    assert wrong({"hex": "0"}, "e", result="acceptable", hex=...).kind == "malformed"


@pytest.mark.parametrize(
    ("reply", "way", "result", "wrong"),
    [
        ({"hex": HEX}, "e", "valid", False), ({"hex": "00"}, "e", "valid", True),
        ({"value": VALUE}, "d", "valid", False), ({"value": {}}, "d", "valid", True),
        (REFUSAL, "d", "valid", True), (REFUSAL, "d", "invalid", False),
        (REFUSAL, "d", "acceptable", False), ({"value": VALUE}, "d", "invalid", True),
        ({"skipped": {"reason": "not yet"}}, "d", "invalid", False), ({}, "e", "valid", True),
    ],
)  # fmt: skip
def test_replies_that_are_read_already(reply: Reply, way: str, result: str, wrong: bool) -> None:
    test = msgspec.json.decode(json.dumps(vector(result=result)), type=RawTest)
    assert fails(Case("kafka", "VoteRequest", test, WAYS[way]), reply) is wrong


# ------------------------------------------------------------------------------------ differences


def test_the_field_of_a_byte() -> None:
    of_bytes = [field_at("kafka", "VoteRequest", 2, HEX, at) for at in range(9)]
    assert of_bytes == ["clusterId"] * 2 + ["voterId"] * 4 + ["topics", "", ""]
    assert field_at("kip-9", "VoteRequest", 2, HEX, 0) == ""
    assert field_at("kafka", "RecordBatch", 2, HEX, 0) == ""
    assert field_at("kafka", "VoteRequest", 2, "ff", 0) == ""


@pytest.mark.parametrize(
    ("expected", "actual", "text"),
    [
        ("", "", ""),
        ("00ff", "00ff", ""),
        ("00ff", "00", "from byte 1 on (2 wanted, 1 given): …00ff… wanted, …00… given"),
        ("00", "00ff", "from byte 1 on (1 wanted, 2 given)"),
        ("", "ff", "from byte 0 on (0 wanted, 1 given)"),
        ("0102", "0103", "from byte 1 on"),  # the first half of the byte is the same
        ("11" * 40, "11" * 20 + "22" * 20, "from byte 20 on (40 wanted, 40 given): "
         f"…{'11' * 16}… wanted, …{'11' * 8 + '22' * 8}… given"),
        ("00", 5, "no hex in the reply, but 5"),
    ],
)  # fmt: skip
def test_differences_of_bytes(expected: str, actual: object, text: str) -> None:
    assert text in hex_difference(expected, actual)
    assert bool(hex_difference(expected, actual)) == (expected != actual)


@pytest.mark.parametrize(
    ("expected", "actual", "text"),
    [
        ({"a": 1, "b": [1, {"c": None}]}, {"b": [1, {"c": None}], "a": 1}, ""),
        ({"a": 1}, {"a": 1.0}, "a: 1 wanted, 1.0 given"),
        ({"a": 1}, {"a": True}, "a: 1 wanted, true given"),
        ({"a": 0.0}, {"a": -0.0}, "a: 0.0 wanted, -0.0 given"),
        ({"a": None}, {}, "a: missing"),
        ({}, {"a": None}, "a: not wanted"),
        ({"a": [1, 2]}, {"a": [1]}, "a: [1, 2] wanted, [1] given"),
        ({"a": [{"b": [1, 2]}]}, {"a": [{"b": [1, 3]}]}, "a[0].b[1]: 2 wanted, 3 given"),
        ({"a": [{"b": 1}]}, {"a": [{}]}, "a[0].b: missing"),
        ({"a": {}}, {"a": []}, "a: {} wanted, [] given"),
        ({"a": "x" * 200}, {"a": ""}, f'a: "{"x" * 79} wanted, "" given'),
    ],
)
def test_differences_of_values(expected: Any, actual: Any, text: str) -> None:
    assert value_difference(expected, actual) == text
