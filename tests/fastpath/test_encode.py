"""Encoding is strict: a wrong value is rejected with its path, a right one has just its bytes.

The bytes are derived by hand from the wire rules.
"""

from __future__ import annotations

import enum
import uuid
from array import array
from collections.abc import Iterator
from typing import Any

import pytest

from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.interpret import Encoder
from kraftspec.fastpath.types import Uuid
from kraftspec.fastpath.wire import RefusedError, uvarint
from kraftspec.generated.kafka import (
    BeginQuorumEpochRequest,
    CreateTopicsResponse,
    FetchRequest,
    VoteRequest,
)

from .messages import field, message, put_by_interpreter, put_by_straight_line, tagged

E = ErrorClass
OLD, NEW = "none", "0+"
INNER = [field("X", "int8"), field("Y", "string")]
IDS = bytes(range(16))


class Index:
    """A number that is no int, as numpy's are."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value

    def __repr__(self) -> str:
        return f"Index({self.value})"


class Elementwise:
    """Compares element by element, as numpy's arrays do."""

    def __eq__(self, other: object) -> Any:
        return self

    def __ne__(self, other: object) -> Any:
        return self

    def __hash__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        raise ValueError("the truth of several elements")


class Speaking:
    """Not text, for all that it has ``encode``."""

    def encode(self) -> bytes:
        return b"hi"


class Colour(enum.IntEnum):
    RED = 3


class Text(str):
    pass


class Names(list[str]):
    pass


def accepted(value: Any, version: int = 0) -> str:
    """Return the bytes in hex; all ways to encode agree."""
    encoded: bytes = value.encode(version)
    assert put_by_straight_line(value, version) == encoded
    assert put_by_interpreter(value, version) == encoded
    return encoded.hex()


def refused(value: Any, version: int = 0) -> tuple[ErrorClass, str]:
    """Return class and path of the refusal; all ways to encode agree."""
    with pytest.raises(CodecError) as caught:
        value.encode(version)
    assert caught.value.offset is None
    assert put_by_straight_line(value, version) is None
    return caught.value.error_class, caught.value.path


def values(*of: object) -> list[Any]:
    return list(of)


def only(entry: dict[str, Any], value: Any, flexible: str = OLD) -> Any:
    """Return a message whose one field holds a value."""
    built = message(entry, flexible=flexible)()
    setattr(built, built.__struct_fields__[0], value)
    return built


# ------------------------------------------------------------------------------------- integers

RANGES = {
    "int8": (-128, 127, "80", "7f"),
    "int16": (-32768, 32767, "8000", "7fff"),
    "uint16": (0, 65535, "0000", "ffff"),
    "int32": (-(2**31), 2**31 - 1, "80000000", "7fffffff"),
    "uint32": (0, 2**32 - 1, "00000000", "ffffffff"),
    "int64": (-(2**63), 2**63 - 1, "8000000000000000", "7fffffffffffffff"),
}


@pytest.mark.parametrize("wire", RANGES)
def test_integers_at_their_ends(wire: str) -> None:
    low, high, low_hex, high_hex = RANGES[wire]
    zeros = low_hex.replace("8", "0")
    for value, expected in ((low, low_hex), (high, high_hex), (0, zeros), (False, zeros)):
        assert accepted(only(field("N", wire), value)) == expected
        assert accepted(only(field("N", f"[]{wire}"), (value,))) == "00000001" + expected
        assert accepted(only(field("N", f"[]{wire}"), [value] * 20)) == "00000014" + expected * 20
    for value in values(low - 1, high + 1, 10**30, -(10**30), Index(high + 1)):
        assert refused(only(field("N", wire), value)) == (E.INTEGER_OUT_OF_RANGE, "n")
        assert refused(only(tagged(0, "N", wire), value, NEW)) == (E.INTEGER_OUT_OF_RANGE, "n")
        many = only(field("N", f"[]{wire}"), (0, value))
        assert refused(many) == (E.INTEGER_OUT_OF_RANGE, "n[1]")


@pytest.mark.parametrize("wire", RANGES)
def test_what_counts_as_an_integer(wire: str) -> None:
    zeros = RANGES[wire][2].replace("8", "0")
    for value, number in ((True, 1), (Index(2), 2), (Colour.RED, 3)):
        expected = zeros[:-1] + str(number)
        assert accepted(only(field("N", wire), value)) == expected
        assert accepted(only(field("N", f"[]{wire}"), [value])) == "00000001" + expected
        assert accepted(only(tagged(0, "N", wire), value, NEW)) == (
            f"0100{len(expected) // 2:02x}{expected}"
        )
    for value in values(1.0, "1", b"1", [], object(), 1j, Elementwise()):
        assert refused(only(field("N", wire), value)) == (E.WRONG_TYPE, "n")
        assert refused(only(tagged(0, "N", wire), value, NEW)) == ((E.WRONG_TYPE, "n"))
        assert refused(only(field("N", f"[]{wire}"), [value])) == (E.WRONG_TYPE, "n[0]")
    for entry in (field("N", wire), tagged(0, "N", wire)):
        assert refused(only(entry, None, NEW)) == (E.NULL_FOR_NON_NULLABLE, "n")
    assert refused(only(field("N", f"[]{wire}"), [0, None])) == (E.NULL_FOR_NON_NULLABLE, "n[1]")


# -------------------------------------------------------------------------- the other primitives


def test_booleans() -> None:
    assert accepted(only(field("B", "bool"), True)) == "01"
    assert accepted(only(field("B", "bool"), False)) == "00"
    assert accepted(only(field("B", "[]bool"), [True, False])) == "000000020100"
    assert accepted(only(tagged(0, "B", "bool"), True, NEW)) == "01000101"
    for value in values(1, 0, "true", Index(1), Colour.RED):
        assert refused(only(field("B", "bool"), value)) == (E.WRONG_TYPE, "b")
        assert refused(only(field("B", "[]bool"), [value])) == (E.WRONG_TYPE, "b[0]")
    assert refused(only(field("B", "bool"), None)) == (E.NULL_FOR_NON_NULLABLE, "b")


def test_floats() -> None:
    expected = {1.5: "3ff8000000000000", 2: "4000000000000000", True: "3ff0000000000000",
              -0.0: "8000000000000000", float("inf"): "7ff0000000000000"}  # fmt: skip
    for value, encoded in expected.items():
        assert accepted(only(field("F", "float64"), value)) == encoded
        assert accepted(only(field("F", "[]float64"), [value])) == "00000001" + encoded
    for value in values("1", b"", [], 10**400, 1j):
        assert refused(only(field("F", "float64"), value)) == (E.WRONG_TYPE, "f")
    assert refused(only(field("F", "float64"), None)) == (E.NULL_FOR_NON_NULLABLE, "f")


@pytest.mark.parametrize("value", [IDS, Uuid(IDS), uuid.UUID(bytes=IDS)])
def test_uuids(value: Any) -> None:
    assert accepted(only(field("U", "uuid"), value)) == IDS.hex()
    assert accepted(only(field("U", "[]uuid"), [value])) == "00000001" + IDS.hex()
    assert accepted(only(tagged(0, "U", "uuid"), value, NEW)) == "010010" + IDS.hex()


@pytest.mark.parametrize("value", [bytes(16), Uuid(), uuid.UUID(int=0), bytearray(16)])
def test_the_zero_uuid_is_left_out_of_tagged_fields(value: Any) -> None:
    assert accepted(only(tagged(0, "U", "uuid"), value, NEW)) == "00"


@pytest.mark.parametrize(
    "value", [bytes(15), bytes(17), "AAAAAAAAAAAAAAAAAAAAAA", 0, bytearray(16)]
)
def test_no_uuids(value: Any) -> None:
    assert refused(only(field("U", "uuid"), value)) == (E.WRONG_TYPE, "u")
    assert refused(only(field("U", "[]uuid"), [value])) == (E.WRONG_TYPE, "u[0]")


def test_strings() -> None:
    for value in values("é", Text("é")):
        assert accepted(only(field("S", "string"), value)) == "0002c3a9"
        assert accepted(only(field("S", "string"), value, NEW)) == "03c3a900"
        assert accepted(only(field("S", "[]string"), [value], NEW)) == "0203c3a900"
        assert accepted(only(tagged(0, "S", "string"), value, NEW)) == "01000303c3a9"
    for value in values(b"a", 1, Speaking(), ["a"], VoteRequest()):
        for flexible in (OLD, NEW):
            assert refused(only(field("S", "string"), value, flexible)) == (E.WRONG_TYPE, "s")
            many = only(field("S", "[]string"), ("a", value), flexible)
            assert refused(many) == (E.WRONG_TYPE, "s[1]")
    for flexible in (OLD, NEW):
        assert refused(only(field("S", "string"), "a\ud800", flexible)) == (E.INVALID_UTF8, "s")


@pytest.mark.parametrize(
    ("length", "prefix"),
    [(0, "01"), (126, "7f"), (127, "8001"), (16382, "ff7f"), (16383, "808001"), (32767, "808002")],
)
def test_lengths_of_strings_and_bytes(length: int, prefix: str) -> None:
    """The compact length is the length and one, in groups of seven bits, the least first."""
    body = "61" * length
    assert accepted(only(field("S", "string"), "a" * length, NEW)) == prefix + body + "00"
    assert accepted(only(field("S", "string"), "a" * length)) == f"{length:04x}{body}"
    assert accepted(only(field("S", "bytes"), b"a" * length, NEW)) == prefix + body + "00"
    assert accepted(only(field("S", "bytes"), b"a" * length)) == f"{length:08x}{body}"
    many = only(field("S", "[]int8"), [0x61] * length, NEW)
    assert accepted(many) == prefix + body + "00"
    ones = message(field("S", "[]Inner", fields=[field("X", "int8")]))
    assert accepted(ones(s=[ones.Inner(x=0x61)] * length)) == prefix + "6100" * length + "00"


def test_strings_have_a_greatest_length() -> None:
    for value in values("a" * 32768, "é" * 16384):
        for flexible in (OLD, NEW):
            assert refused(only(field("S", "string"), value, flexible)) == (E.LENGTH_TOO_LONG, "s")
            many = only(field("S", "[]string"), [value], flexible)
            assert refused(many) == (E.LENGTH_TOO_LONG, "s[0]")
    assert accepted(only(field("S", "bytes"), b"a" * 32768)) == "00008000" + "61" * 32768


@pytest.mark.parametrize("kind", ["bytes", "records"])
def test_bytes_and_records(kind: str) -> None:
    for value in (b"\1\2", bytearray(b"\1\2"), memoryview(b"\1\2"), memoryview(b"x\1\2")[1:],
                  memoryview(array("B", b"\1\2")), memoryview(b"\1\2").cast("h")):  # fmt: skip
        assert accepted(only(field("B", kind), value)) == "000000020102"
        assert accepted(only(field("B", kind), value, NEW)) == "03010200"
    for value in values("a", [1], 1, array("B", b"a"), memoryview(b"1234")[::2]):
        for flexible in (OLD, NEW):
            assert refused(only(field("B", kind), value, flexible)) == (E.WRONG_TYPE, "b")
    assert accepted(only(field("B", kind), Uuid(IDS))) == "00000010" + IDS.hex()
    nullable = field("B", kind, nullableVersions="0+")
    assert accepted(only(nullable, None)) == "ffffffff"
    assert accepted(only(nullable, None, NEW)) == "0000"
    assert accepted(only(nullable, b"", NEW)) == "0100"


def test_lengths_that_no_test_has_the_memory_for() -> None:
    encoder = Encoder((), ())
    assert encoder.length(2**31 - 1, compact=False).hex() == "7fffffff"
    assert encoder.length(2**31 - 2, compact=True).hex() == "ffffffff07"
    for length, compact in ((2**31, False), (2**31 - 1, True)):
        with pytest.raises(CodecError) as caught:
            encoder.length(length, compact)
        assert caught.value.error_class is E.LENGTH_TOO_LONG
    assert uvarint(2**31 - 1).hex() == "ffffffff07"
    for number in (-1, 2**31):
        with pytest.raises(RefusedError):
            uvarint(number)


@pytest.mark.parametrize("kind", ["string", "bytes", "records", "[]int32", "[]Inner"])
def test_null_where_it_is_not_allowed(kind: str) -> None:
    more: dict[str, Any] = {"fields": INNER} if kind == "[]Inner" else {}
    for flexible in (OLD, NEW):
        value = only(field("Some", kind, **more), None, flexible)
        assert refused(value) == (E.NULL_FOR_NON_NULLABLE, "some")


# ------------------------------------------------------------------------------ arrays, structs


def test_arrays_are_lists_and_tuples() -> None:
    for value in values(["a"], ("a",), Names(["a"])):
        assert accepted(only(field("S", "[]string"), value)) == "00000001000161"
    for value in values("a", {"a"}, {"a": 1}, iter(["a"]), 1, array("B", b"a"), b"a", range(1)):
        for kind in ("[]string", "[]int32"):
            for flexible in (OLD, NEW):
                assert refused(only(field("S", kind), value, flexible)) == (E.WRONG_TYPE, "s")
    nullable = field("S", "[]string", nullableVersions="0+")
    assert accepted(only(nullable, None)) == "ffffffff"
    assert accepted(only(nullable, None, NEW)) == "0000"


def test_structs() -> None:
    many = message(field("Many", "[]Inner", fields=INNER))
    assert accepted(many(many=[many.Inner(x=5, y="a")])) == "0205026100" + "00"
    assert accepted(many(many=(many.Inner(x=5, y="a"),))) == "0205026100" + "00"
    for value in values(5, None, {"x": 5}, many(), VoteRequest.TopicData()):
        why = E.NULL_FOR_NON_NULLABLE if value is None else E.WRONG_TYPE
        assert refused(many(many=[many.Inner(), value])) == (why, "many[1]")
    assert refused(many(many=[many.Inner(x=300)])) == (E.INTEGER_OUT_OF_RANGE, "many[0].x")


def test_a_subclass_of_a_struct_is_another_class() -> None:
    many = message(field("Many", "[]Inner", fields=INNER))

    class Other(many.Inner):  # type: ignore[name-defined,misc]  # made by the test
        pass

    assert refused(many(many=[Other()])) == (E.WRONG_TYPE, "many[0]")


def test_nullable_structs() -> None:
    nullable = field("One", "Inner", nullableVersions="0+", fields=INNER)
    for flexible, one in ((OLD, "05000161"), (NEW, "05026100" + "00")):
        cls = message(nullable, flexible=flexible)
        assert accepted(cls(one=None)) == "ff" + ("00" if flexible == NEW else "")
        assert accepted(cls(one=cls.Inner(x=5, y="a"))) == "01" + one
    plain = message(field("One", "Inner", fields=INNER), flexible=OLD)
    assert accepted(plain(one=plain.Inner(x=5, y="a"))) == "05000161"
    assert refused(plain(one=None)) == (E.NULL_FOR_NON_NULLABLE, "one")


# -------------------------------------------------------------------------------- tagged fields


def test_a_tagged_struct_is_left_out_when_all_of_it_is_default() -> None:
    cls = message(tagged(3, "One", "Inner", fields=INNER), tagged(2, "T", "int8"),
                  tagged(1, "A", "int8"), tagged(0, "B", "int8"))  # fmt: skip
    assert accepted(cls()) == "00"
    assert accepted(cls(one=cls.Inner())) == "00"
    assert accepted(cls(one=cls.Inner(y="a"))) == "01" + "0304" + "00026100"
    unknown = cls.Inner(unknown_tagged_fields=((9, b""),))
    assert accepted(cls(one=unknown)) == "01" + "0305" + "0001" + "010900"
    for value in values(0, "", [], range(3), VoteRequest(), VoteRequest.TopicData(), cls.Inner):
        assert refused(cls(one=value)) == (E.WRONG_TYPE, "one")
    assert refused(cls(one=None)) == (E.NULL_FOR_NON_NULLABLE, "one")


def test_a_tagged_nullable_struct_marks_null_with_a_varint() -> None:
    null = message(tagged(0, "One", "Inner", nullableVersions="0+", default="null", fields=INNER))
    assert accepted(null()) == "00"
    assert accepted(null(one=null.Inner(x=5, y="a"))) == "01" + "0005" + "01" + "05026100"
    assert accepted(null(one=null.Inner())) == "01" + "0004" + "01" + "000100"
    zero = message(tagged(0, "One", "Inner", nullableVersions="0+", fields=INNER))
    assert accepted(zero(one=None)) == "01" + "0001" + "00"
    assert accepted(zero()) == "00"


@pytest.mark.parametrize(
    ("kind", "more", "default", "other", "payload"),
    [
        ("int32", {"default": "-1"}, -1, 0, "00000000"),
        ("int32", {"default": "-1"}, -1.0, 0, "00000000"),
        ("bool", {"default": "true"}, True, False, "00"),
        ("float64", {"default": "0.5"}, 0.5, 0.0, "0000000000000000"),
        ("string", {"default": "x"}, "x", "", "01"),
        ("string", {"nullableVersions": "0+", "default": "null"}, None, "", "01"),
        ("string", {"nullableVersions": "0+"}, "", None, "00"),
        ("bytes", {}, b"", b"\1", "0201"),
        ("bytes", {}, memoryview(b""), bytearray(b"\1"), "0201"),
        ("[]int32", {}, [], (1,), "0200000001"),
        ("[]int32", {"nullableVersions": "0+"}, (), None, "00"),
        ("[]int32", {"nullableVersions": "0+", "default": "null"}, None, [], "01"),
        ("uuid", {"default": "AAECAwQFBgcICQoLDA0ODw"}, IDS, bytes(16), "00" * 16),
    ],
)
def test_tagged_fields_at_their_defaults(
    kind: str, more: dict[str, Any], default: Any, other: Any, payload: str
) -> None:
    entry = tagged(0, "T", kind, **more)
    assert accepted(message(entry)()) == "00"
    assert accepted(only(entry, default, NEW)) == "00"
    assert accepted(only(entry, other, NEW)) == f"0100{len(payload) // 2:02x}{payload}"


def test_tags_are_written_in_ascending_order() -> None:
    """Declared in any order; known and unknown ones merged."""
    cls = message(tagged(2, "C", "int8"), tagged(0, "A", "int8"), tagged(1, "B", "int8"))
    value = cls(c=3, b=2, a=1, unknown_tagged_fields=((5, b"\5"), (200, b"")))
    assert accepted(value) == "05" + "000101" + "010102" + "020103" + "050105" + "c80100"
    value = cls(c=3, unknown_tagged_fields=((5, b""),))
    assert accepted(value) == "02" + "020103" + "0500"


def test_a_payload_longer_than_a_bytes_length() -> None:
    """The size of a tagged field is a varint (KAFKA-18199, KAFKA-13277)."""
    cls = message(tagged(0, "B", "bytes"))
    for length, size, prefix in ((125, "7e", "7e"), (126, "7f", "7f"), (127, "8101", "8001")):
        assert accepted(cls(b=bytes(length))) == "01" + "00" + size + prefix + "00" * length


UNKNOWN: list[tuple[Any, ErrorClass]] = [
    ([(5, b"")], E.WRONG_TYPE),  # a list
    ("5", E.WRONG_TYPE),
    (((5,),), E.WRONG_TYPE),
    (((5, b"", b""),), E.WRONG_TYPE),
    ((5,), E.WRONG_TYPE),
    ((("5", b""),), E.WRONG_TYPE),
    (((5.0, b""),), E.WRONG_TYPE),
    (((Index(5), b""),), E.WRONG_TYPE),
    (((5, ""),), E.WRONG_TYPE),
    (((5, None),), E.WRONG_TYPE),
    (((5, bytearray()),), E.WRONG_TYPE),
    (((5, memoryview(b"")),), E.WRONG_TYPE),
    (((-1, b""),), E.INTEGER_OUT_OF_RANGE),
    (((2**31, b""),), E.INTEGER_OUT_OF_RANGE),
    (((5, b""), (5, b"")), E.TAG_DUPLICATE),
    (((5, b""), (4, b"")), E.TAG_OUT_OF_ORDER),
    (((0, b""),), E.TAG_DUPLICATE),  # the schema's own
    (((1, b""),), E.TAG_DUPLICATE),  # the schema's own in a later version
]


@pytest.mark.parametrize(("unknown", "why"), UNKNOWN)
def test_wrong_unknown_tags(unknown: Any, why: ErrorClass) -> None:
    cls = message(tagged(0, "A", "int8"), tagged(1, "B", "int8", versions="1+"))
    assert refused(cls(unknown_tagged_fields=unknown)) == (why, "_unknownTaggedFields")
    assert refused(cls(a=1, unknown_tagged_fields=unknown)) == (why, "_unknownTaggedFields")
    if unknown not in (((0, b""),), ((1, b""),)):
        bare = message(field("Many", "[]Inner", fields=INNER))
        value = bare(many=[bare.Inner(unknown_tagged_fields=unknown)])
        assert refused(value) == (why, "many[0]._unknownTaggedFields")


def test_unknown_tags_that_pass() -> None:
    cls = message(field("A", "int8"))
    assert accepted(cls(unknown_tagged_fields=((0, Uuid(IDS)), (2**31 - 1, b"\1")))) == (
        "00" + "02" + "0010" + IDS.hex() + "ffffffff07" + "0101"
    )
    assert accepted(cls(unknown_tagged_fields=((True, b""),))) == "00" + "01" + "0100"


def test_unknown_tags_need_a_flexible_version() -> None:
    cls = message(field("A", "int8"), field("One", "Inner", fields=INNER), flexible="1+")
    value = cls(unknown_tagged_fields=((5, b""),))
    assert accepted(value, 1) == "00" + "000100" + "010500"
    assert refused(value, 0) == (E.FIELD_NOT_IN_VERSION, "_unknownTaggedFields")
    value = cls(one=cls.Inner(unknown_tagged_fields=((5, b""),)))
    assert refused(value, 0) == (E.FIELD_NOT_IN_VERSION, "one._unknownTaggedFields")


# ------------------------------------------------------------------- versions, missing attributes


def late(kind: str, **more: Any) -> Iterator[dict[str, Any]]:
    """Yield a field of kind that version 0 lacks: plain, and tagged."""
    yield field("New", kind, versions="1+", **more)
    yield tagged(0, "New", kind, versions="1+", **more)


@pytest.mark.parametrize(
    ("kind", "more", "default", "other"),
    [
        ("int32", {}, 0, 1),
        ("int32", {"default": "7"}, 7, 0),
        ("bool", {}, False, True),
        ("bool", {"default": "true"}, True, False),
        ("float64", {}, 0.0, 0.5),
        ("string", {}, "", "a"),
        ("string", {"nullableVersions": "1+", "default": "null"}, None, ""),
        ("bytes", {}, b"", b"a"),
        ("uuid", {}, bytes(16), IDS),
        ("uuid", {}, uuid.UUID(int=0), uuid.UUID(int=1)),
        ("[]int32", {}, [], [1]),
        ("[]Inner", {"fields": INNER}, (), None),
        ("int64", {}, 0, Elementwise()),
    ],
)
def test_a_field_that_the_version_lacks(
    kind: str, more: dict[str, Any], default: Any, other: Any
) -> None:
    for entry in late(kind, **more):
        cls = message(entry)
        assert accepted(cls()) == "00"
        assert accepted(cls(new=default)) == "00"
        assert refused(cls(new=other)) == (E.FIELD_NOT_IN_VERSION, "new")
        ignorable = message({**entry, "ignorable": True})
        assert accepted(ignorable(new=other)) == "00"


def test_a_struct_that_the_version_lacks() -> None:
    for entry in late("Inner", fields=INNER):
        cls = message(entry)
        assert accepted(cls(new=cls.Inner())) == "00"
        for value in values(cls.Inner(x=1), None, 0, range(3)):
            assert refused(cls(new=value)) == (E.FIELD_NOT_IN_VERSION, "new")


def test_the_named_field_of_a_real_message() -> None:
    """PreVote came with version 2 of VoteRequest, and is not ignorable (KIP-996)."""
    partition = VoteRequest.PartitionData(pre_vote=True)
    value = VoteRequest(topics=[VoteRequest.TopicData(partitions=[partition])])
    assert len(accepted(value, 2)) > 0
    for version in (0, 1):
        assert refused(value, version) == (
            E.FIELD_NOT_IN_VERSION, "topics[0].partitions[0].preVote"
        )  # fmt: skip
    partition.pre_vote, value.voter_id = False, 5  # VoterId is ignorable
    assert len(accepted(value, 0)) > 0


def test_a_missing_attribute() -> None:
    partition = BeginQuorumEpochRequest.PartitionData()
    del partition.leader_epoch
    value = BeginQuorumEpochRequest(
        topics=[
            BeginQuorumEpochRequest.TopicData(
                partitions=[BeginQuorumEpochRequest.PartitionData(), partition]
            )
        ]
    )
    assert refused(value, 0) == (E.MISSING_FIELD, "topics[0].partitions[1].leaderEpoch")
    cls = message(tagged(0, "A", "int8"), field("New", "int8", versions="1+"),
                  field("Newer", "int8", versions="1+", ignorable=True))  # fmt: skip
    for attribute, path in (("a", "a"), ("new", "new")):
        value = cls()
        delattr(value, attribute)
        assert refused(value) == (E.MISSING_FIELD, path)
    value = cls()
    del value.newer  # no version reads it
    assert accepted(value) == "00"


@pytest.mark.parametrize("version", [-1, 3, None, "2", 1.5, [1]])
def test_unsupported_version(version: Any) -> None:
    assert refused(VoteRequest(), version) == (E.UNSUPPORTED_VERSION, "")


def test_an_error_of_the_values_own_is_not_hidden() -> None:
    class Broken:
        def __index__(self) -> int:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        only(field("N", "int32"), Broken()).encode(0)


def test_deep_paths_of_real_messages() -> None:
    request = FetchRequest(
        topics=[
            FetchRequest.FetchTopic(
                partitions=[
                    FetchRequest.FetchPartition(fetch_offset="9")  # type: ignore[arg-type] # meant
                ]
            )
        ]
    )
    assert refused(request, 17) == (E.WRONG_TYPE, "topics[0].partitions[0].fetchOffset")
    config = CreateTopicsResponse.CreatableTopicConfigs(config_source=200)
    result = CreateTopicsResponse.CreatableTopicResult(configs=[config])
    response = CreateTopicsResponse(topics=[result])
    assert refused(response, 7) == (E.INTEGER_OUT_OF_RANGE, "topics[0].configs[0].configSource")
