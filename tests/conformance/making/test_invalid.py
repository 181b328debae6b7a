"""The vectors that must be refused: how they are derived, how many, and what they say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from kraftspec.codegen.generate import read_set, specs_sets
from kraftspec.codegen.model import Message
from kraftspec.codegen.plan import plan_message
from kraftspec.conformance.making import invalid_batches as batches
from kraftspec.conformance.making import policies
from kraftspec.conformance.making.annotate import Token, annotate, edited, joined, start_of
from kraftspec.conformance.making.invalid import Fault, bases, cut_error, decode_faults
from kraftspec.conformance.making.invalid_values import encode_faults, fields_of
from kraftspec.conformance.making.make import LONG
from kraftspec.conformance.runner.run import adapter_named, run
from kraftspec.conformance.vectors import vectors_root
from kraftspec.specs import specs_root

SETS = ("kafka", "kip-595", "kip-853", "kip-996")
# Of CONFORMANCE: what a decoder, a reader of batches and an encoder refuse.
DECODE = {
    "truncated", "trailing", "null_for_non_nullable", "negative_length", "length_exceeds_input",
    "varint_overflow", "varint_truncated", "tag_out_of_order", "tag_duplicate",
    "tag_below_version", "tagged_size_mismatch", "invalid_utf8", "unsupported_version",
    "invalid_boolean", "non_minimal_varint", "invalid_struct_marker", "length_too_long",
    "unknown_message",
}  # fmt: skip
BATCH = {
    "crc_mismatch", "bad_magic", "batch_length_mismatch", "record_count_mismatch",
    "offset_delta_disorder", "unknown_compression", "decompression_bomb", "truncated", "trailing",
    "negative_length", "length_exceeds_input", "varint_overflow", "varint_truncated",
    "non_minimal_varint", "invalid_utf8", "unsupported_version",
}  # fmt: skip
ENCODE = {
    "wrong_type", "integer_out_of_range", "length_too_long", "null_for_non_nullable",
    "field_not_in_version", "missing_field", "unknown_message", "unsupported_version",
    "tag_out_of_order", "tag_duplicate",
}  # fmt: skip
LAX = {"invalid_boolean", "non_minimal_varint", "invalid_utf8", "trailing"}


@cache
def files() -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (spec, path.stem): json.loads(path.read_bytes())
        for spec in SETS
        for path in (vectors_root() / spec).glob("*.json")
    }


def refusals(message: str = "") -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield (message, file, test) of all tests that are not valid."""
    for (_, name), file in files().items():
        if message in ("", name):
            for test in file["tests"]:
                if test["result"] != "valid":
                    yield name, file, test


def test_there_are_as_many_as_promised() -> None:
    results = Counter(test["result"] for _, _, test in refusals())
    assert results["invalid"] > 6_000
    assert results["acceptable"] > 6_000
    assert results.total() > 40_000


def test_every_class_is_there() -> None:
    classes = {
        op: {test["error"]["class"] for _, _, test in refusals() if test["op"] == op}
        for op in ("decode", "encode")
    }
    of_batches = {
        test["error"]["class"] for _, _, test in refusals("RecordBatch") if test["op"] == "decode"
    }
    assert of_batches == BATCH
    assert classes["decode"] == DECODE | BATCH
    assert classes["encode"] == ENCODE


def test_every_pair_is_cut_short_and_given_too_much() -> None:
    pairs: set[tuple[str, str, int]] = set()
    by_family: dict[str, set[tuple[str, str, int]]] = {"trailing": set(), "truncated": set()}
    for (spec, message), file in files().items():
        for test in file["tests"]:
            pair = spec, message, test["version"]
            if test["result"] == "valid" and any(t for t in test["hex"]):
                pairs.add(pair)
            elif test["family"] in by_family:
                by_family[test["family"]].add(pair)
    assert len(pairs) == 918 - 15  # 15 messages have no byte.
    assert pairs <= by_family["trailing"]
    assert pairs == by_family["truncated"]


def test_bytes_that_must_be_refused_are_none_that_must_be_read() -> None:
    for (spec, message), file in files().items():
        good = {
            (test["version"], test["hex"]) for test in file["tests"] if test["result"] == "valid"
        }
        for test in file["tests"]:
            if test["result"] != "valid" and test["op"] == "decode":
                assert (test["version"], test["hex"]) not in good, f"{spec}/{message} {test['id']}"
                assert 0 <= test["error"].get("offset", 0) <= len(test["hex"]) // 2


def test_kafkas_verdict_is_the_result() -> None:
    classes: set[str] = set()
    for _, file, test in refusals():
        kafka, error_class = test["kafka"], test["error"]["class"]
        if test["result"] == "invalid":
            assert kafka["verdict"] == "refused"
            assert not any(flag.startswith("lax-") for flag in test.get("flags", ()))
            if error_class == "crc_mismatch":
                assert kafka["class"] == error_class
            else:  # Its CRC was made to fit.
                assert kafka["class"] != "crc_mismatch"
            continue
        classes.add(error_class)
        assert kafka["verdict"] == "accepted"
        [flag] = [flag for flag in test["flags"] if flag.startswith("lax-")]
        policy = policies.policy_of(test["op"], error_class)
        assert policy is not None
        assert policy.flag == flag
        assert file["notes"][flag]["bugType"] == "policy"
        assert "value" in kafka if test["op"] == "decode" else "hex" in kafka
    assert classes >= LAX
    for _, file in files().items():
        carried = {flag for test in file["tests"] for flag in test.get("flags", ())}
        assert {name for name, note in file["notes"].items() if note["bugType"] == "policy"} == {
            flag for flag in carried if flag.startswith("lax-")
        }


def test_no_policy_is_idle() -> None:
    """A habit that no vector shows is not told of."""
    shown = {
        (test["op"], test["error"]["class"])
        for _, _, test in refusals()
        if test["result"] == "acceptable"
    }
    for error_class in policies.DECODE:
        assert ("decode", error_class) in shown
    for error_class in policies.ENCODE:
        assert ("encode", error_class) in shown


# ------------------------------------------------------------------------------------ derivation


@cache
def messages(spec: str) -> list[Message]:
    [message_set] = specs_sets(specs_root(), vectors_root(), "unused", (spec,))
    return [each for each in read_set(message_set).values() if len(each.valid_versions)]


@pytest.mark.parametrize("spec", SETS)
def test_annotated_bytes_are_kafkas(spec: str) -> None:
    """What offsets are derived from: every tenth valid vector, primitive by primitive."""
    count = 0
    for message in messages(spec):
        plans = {v: plan_message(message, v).struct for v in message.valid_versions}
        tests = files()[spec, message.name]["tests"]
        for test in [t for t in tests if (t["result"], t["op"]) == ("valid", "roundtrip")][::10]:
            count += 1
            tokens = annotate(plans[test["version"]], test["value"])
            assert joined(tokens).hex() == test["hex"], test["id"]
    assert count > 100


@pytest.mark.soak
@pytest.mark.parametrize("spec", SETS)
def test_the_faults_are_those_of_the_plans(spec: str) -> None:
    """What is committed is what the plans of today call for, class, byte and path."""
    for message in messages(spec):
        committed: dict[tuple[int, str], tuple[str, int | None, str]] = {}
        for test in files()[spec, message.name]["tests"]:
            # Named bugs are given by hand, in bugs.json.
            is_named = any(not flag.startswith("lax-") for flag in test.get("flags", ()))
            if test["result"] != "valid" and not is_named:
                content = test["hex"] if test["op"] == "decode" else json.dumps(test["value"])
                error = test["error"]
                error_place = error["class"], error.get("offset"), error.get("path", "")
                committed[test["version"], content] = error_place
        plans = {version: plan_message(message, version) for version in message.valid_versions}
        fields = fields_of(plans)
        for version, plan in plans.items():
            originals = bases(plan)
            is_full = version == message.valid_versions.highest
            faults: list[Fault] = list(decode_faults(plan, originals, is_full=is_full))
            is_long = is_full and message.name in LONG
            faults += encode_faults(plan, fields, is_full=is_full, is_long=is_long)
            if not originals[0].tokens and not is_full:
                continue  # Has more: see the empty messages.
            for fault in faults:
                if fault.value is None:
                    error_place = fault.error_class, fault.offset, fault.path
                    key = version, fault.data.hex()
                else:
                    error_place = fault.error_class, None, fault.path
                    key = version, json.dumps(fault.value)
                assert committed.pop(key, error_place) == error_place
        left = {
            key: error_place
            for key, error_place in committed.items()
            if key[0] in plans and error_place[0] not in ("trailing", "field_not_in_version")
        }
        assert left == {}
        assert {
            error_place[0]
            for (version, _), error_place in committed.items()
            if version not in plans
        } == {"unsupported_version"}


def test_a_message_without_fields_is_given_the_body_of_a_newer_version() -> None:
    """What a broker sees that does not know the version of an ApiVersions request (KIP-511)."""
    tests = [t for _, _, t in refusals("ApiVersionsRequest") if t["version"] == 0]
    highest = max(
        v["version"]
        for v in files()["kafka", "ApiVersionsRequest"]["tests"]
        if v["result"] == "valid"
    )
    bodies = [t["hex"] for t in tests if t.get("comment") == f"the body of version {highest}"]
    assert bodies
    assert all(t["error"] == {"class": "trailing", "offset": 0} for t in tests if "hex" in t)
    newest = {t["hex"] for t in files()["kafka", "ApiVersionsRequest"]["tests"]
              if t["result"] == "valid" and t["version"] == highest}  # fmt: skip
    assert set(bodies) <= newest


def tokens_by_hand() -> list[Token]:
    """A text, then an array of two int8, then a tag that nobody knows: 10 bytes."""
    return [
        Token("length", "text", b"\x03", "compact_string", number=2, until=2),
        Token("content", "text", b"ab", "string"),
        Token("count", "rows", b"\x03", "compact_array", number=2, until=5),
        Token("fixed", "rows[0]", b"\x01", "int8"),
        Token("fixed", "rows[1]", b"\x02", "int8"),
        Token("tags", "", b"\x01", number=1),
        Token("tag", "", b"\x80\x01", number=128),
        Token("size", "", b"\x01", number=1, until=9),
        Token("content", "", b"z"),
    ]


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, ("truncated", "text", 0)),
        (1, ("length_exceeds_input", "text", 0)),
        (2, ("length_exceeds_input", "text", 0)),
        (3, ("truncated", "rows", 3)),
        (4, ("length_exceeds_input", "rows", 3)),  # Two elements take two bytes or more.
        (5, ("length_exceeds_input", "rows", 3)),
        (6, ("truncated", "", 6)),
        (7, ("truncated", "", 7)),
        (8, ("varint_truncated", "", 7)),
        (9, ("truncated", "", 9)),
        (10, ("length_exceeds_input", "", 9)),
    ],
)
def test_where_a_cut_shows(size: int, expected: tuple[str, str, int]) -> None:
    error_class, token, offset = cut_error(tokens_by_hand(), size)
    assert (error_class, token.path, offset) == expected


def test_nothing_is_cut_off_a_whole_message() -> None:
    with pytest.raises(AssertionError, match="nothing is cut off"):
        cut_error(tokens_by_hand(), 11)


def test_sizes_fit_what_was_edited() -> None:
    tokens = tokens_by_hand()
    longer = edited(tokens, {8: b"z" * 200})
    assert joined(longer)[9:11] == b"\xc8\x01"
    assert start_of(longer, 8) == 11
    result = edited(tokens, {7: b"\x05", 8: b"zz"})  # A size that is broken stays so.
    assert joined(result) == b"\x03ab\x03\x01\x02\x01\x80\x01\x05zz"
    assert joined(tokens) == b"\x03ab\x03\x01\x02\x01\x80\x01\x01z"  # Nothing is changed in place.


# ----------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize(
    ("number", "bits", "expected"),
    [(0, 32, "00"), (-1, 32, "01"), (63, 32, "7e"), (64, 32, "8001"),
     (-(1 << 31), 32, "ffffffff0f"), ((1 << 31) - 1, 32, "feffffff0f"),
     (-(1 << 63), 64, "ffffffffffffffffff01")],
)  # fmt: skip
def test_zigzag_by_hand(number: int, bits: int, expected: str) -> None:
    assert batches.varint(number, bits).hex() == expected


def test_sealing_a_batch() -> None:
    parts = batches.annotate_batch(batches.base_value())
    data = batches.bytes_of(parts)
    assert int.from_bytes(data[8:12], "big") == len(data) - 12
    at = [part.path for part in parts].index("records[0].value content")
    edits = {at: b"value" * 30, at - 1: batches.varint(150)}
    longer = batches.bytes_of(batches.sealed(parts, edits))
    assert int.from_bytes(longer[8:12], "big") == len(longer) - 12
    assert longer[17:21] != data[17:21]
    assert longer[61:63] == batches.varint(int(data[61]) // 2 + 146)


@pytest.mark.parametrize(
    "name", ["kraftspec", pytest.param("kraftspec-python", marks=pytest.mark.soak)]
)
def test_our_codecs_refuse_as_told(name: str) -> None:
    """Class and offset of every refusal, in one process behind the pipe."""
    results = run(adapter_named(name), filters=("RecordBatch", "Response"))
    assert results.failures == []
    assert (results.counts.failed, results.counts.skipped) == (0, 0)
    assert results.counts.passed > 40_000
