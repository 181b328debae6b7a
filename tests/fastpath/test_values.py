"""Messages as JSON: the shape of Kafka's converters, and each refusal by its path.

That the shape is Kafka's is shown by every golden vector; here is what those do not have.
"""

from __future__ import annotations

import enum
import json
import math
import struct
import uuid
from typing import Any

import pytest

from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.values import default_json
from kraftspec.generated.kafka import VoteRequest

from .messages import exactly, field, message, tagged

E = ErrorClass
INNER = [field("X", "int8"), field("Y", "string")]
IDS = bytes(range(16))
IDS_TEXT = "AAECAwQFBgcICQoLDA0ODw"


class Colour(enum.IntEnum):
    RED = 3


def refusal(cls: Any, value: Any, version: int = 0) -> tuple[ErrorClass, str]:
    with pytest.raises(CodecError) as caught:
        cls.from_json(value, version)
    assert caught.value.offset is None
    return caught.value.error_class, caught.value.path


# -------------------------------------------------------------------------------------- to_json


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("int32", 5, 5),
        ("int32", True, 1),
        ("int64", Colour.RED, 3),
        ("bool", True, True),
        ("float64", 2, 2.0),
        ("float64", 1.5, 1.5),
        ("float64", float("inf"), "0x7ff0000000000000"),
        ("float64", -math.inf, "0xfff0000000000000"),
        ("float64", struct.unpack(">d", bytes.fromhex("7ff8000000000001"))[0],
         "0x7ff8000000000001"),
        ("string", "é", "é"),
        ("uuid", uuid.UUID(bytes=IDS), IDS_TEXT),
        ("uuid", IDS, IDS_TEXT),
        ("bytes", memoryview(b"\xfb\xff"), "+/8="),  # base64 with + and /, unlike a uuid's
        ("bytes", bytearray(), ""),
        ("records", b"\xfb\xff", "+/8="),
        ("records", None, None),
        ("[]uuid", (IDS,), [IDS_TEXT]),
        ("[]bytes", [b"a"], ["YQ=="]),
        ("[]bool", [False], [False]),
        ("[]int8", (True,), [1]),
    ],
)  # fmt: skip
def test_values_as_json(kind: str, value: Any, shown: Any) -> None:
    more = {"nullableVersions": "0+"} if value is None else {}
    plain = message(field("F", kind, **more))
    assert exactly(plain(f=value).to_json(0)) == exactly({"f": shown})
    if kind != "records":
        cls = message(tagged(0, "F", kind))
        expected = {"f": shown} if shown else {}
        assert exactly(cls(f=value).to_json(0)) == exactly(expected)


def test_json_of_structs() -> None:
    cls = message(
        field("One", "One", fields=INNER),
        field("Maybe", "Maybe", nullableVersions="0+", fields=INNER),
        field("Many", "[]Many", fields=INNER),
        tagged(0, "Tagged", "Tagged", fields=INNER),
    )
    value = cls(maybe=None, many=[cls.Many(x=1, y="a", unknown_tagged_fields=((7, b"\xab"),))])
    expected = {
        "one": {"x": 0, "y": ""},
        "maybe": None,
        "many": [{"x": 1, "y": "a", "_unknownTaggedFields": [{"tag": 7, "hex": "ab"}]}],
    }
    assert value.to_json(0) == expected
    assert cls.from_json(expected, 0) == value
    value.tagged.x = 5
    assert value.to_json(0) == {**expected, "tagged": {"x": 5, "y": ""}}
    assert json.loads(json.dumps(value.to_json(0))) == value.to_json(0)


def test_to_json_refuses_what_the_version_lacks() -> None:
    inner = [field("Old", "int8"), field("New", "int8", versions="1+")]
    deep = field(
        "Tag", "Deep", tag=0, taggedVersions="0+", fields=[field("D", "[]E", fields=inner)]
    )
    cls = message(field("Many", "[]Inner", fields=inner), field("Top", "int8", versions="1+"),
                  field("Ignored", "int8", versions="1+", ignorable=True), deep)  # fmt: skip
    cases = {
        "top": cls(top=1),
        "many[1].new": cls(many=[cls.Inner(), cls.Inner(new=1)]),
        "tag.d[0].new": cls(tag=cls.Deep(d=[cls.E(new=1)])),
    }
    for path, value in cases.items():
        with pytest.raises(CodecError) as caught:
            value.to_json(0)
        assert caught.value.error_class is E.FIELD_NOT_IN_VERSION
        assert caught.value.path == path
        assert value.to_json(1)
    assert cls(ignored=1).to_json(0) == {"many": []}
    with pytest.raises(CodecError, match="Sample has versions 0 to 2, not 3"):
        cls().to_json(3)


# ------------------------------------------------------------------------------------- from_json


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("bool", 1), ("bool", "true"), ("int32", True), ("int32", 1.0), ("int32", "1"),
        ("int64", []), ("float64", True), ("float64", "1.0"), ("float64", "0x00"),
        ("float64", "0xzz"), ("float64", 10**400), ("string", 1), ("string", b"a"),
        ("uuid", 5), ("uuid", "AAAA"), ("uuid", "!" * 22), ("bytes", 5), ("bytes", "a"),
        ("bytes", "é"), ("bytes", "YQ==YQ=="), ("records", ["a"]), ("[]int32", "a"),
        ("[]int32", {"0": 1}), ("[]int32", (1,)), ("Inner", 5), ("Inner", []), ("[]Inner", {}),
    ],
)  # fmt: skip
def test_wrong_types(kind: str, value: Any) -> None:
    more: dict[str, Any] = {"fields": INNER} if "Inner" in kind else {}
    assert refusal(message(field("F", kind, **more)), {"f": value}) == (E.WRONG_TYPE, "f")
    if kind != "records":
        assert refusal(message(tagged(0, "F", kind, **more)), {"f": value}) == (E.WRONG_TYPE, "f")
    if not kind.startswith(("[]", "records")):
        many = message(field("F", f"[]{kind}", **more))
        assert refusal(many, {"f": [value]}) == (E.WRONG_TYPE, "f[0]")


@pytest.mark.parametrize("value", [None, [], "{}", 5, True, b"{}"])
def test_a_message_is_an_object(value: Any) -> None:
    assert refusal(message(), value) == (E.WRONG_TYPE, "")


def test_null_only_where_it_may_be() -> None:
    for kind in ("int32", "bool", "uuid", "string", "bytes", "records", "[]int8", "[]Inner"):
        more: dict[str, Any] = {"fields": INNER} if "Inner" in kind else {}
        cls = message(field("F", kind, **more))
        assert refusal(cls, {"f": None}) == (E.NULL_FOR_NON_NULLABLE, "f")
    names = message(field("F", "[]string", nullableVersions="0+"))
    assert names.from_json({"f": None}, 0).f is None
    assert refusal(names, {"f": ["a", None]}) == (E.NULL_FOR_NON_NULLABLE, "f[1]")
    maybe = message(field("F", "Inner", nullableVersions="0+", fields=INNER))
    assert maybe.from_json({"f": None}, 0).f is None


def test_a_missing_field_is_an_error_unless_tagged() -> None:
    cls = message(field("Many", "[]Inner", fields=INNER), tagged(0, "T", "int8"))
    assert refusal(cls, {}) == (E.MISSING_FIELD, "many")
    assert refusal(cls, {"many": [{"x": 1, "y": ""}, {"x": 1}]}) == (E.MISSING_FIELD, "many[1].y")
    assert cls.from_json({"many": []}, 0) == cls()


def test_a_field_that_the_version_lacks() -> None:
    cls = message(field("New", "int8", versions="1+", default="3"),
                  field("Ids", "uuid", versions="1+"), field("List", "[]int8", versions="1+"),
                  field("Blob", "bytes", versions="1+"),
                  field("One", "Inner", versions="1+", fields=INNER),
                  field("Ignored", "int8", versions="1+", ignorable=True))  # fmt: skip
    right: list[dict[str, Any]] = [
        {"new": 3}, {"ids": "A" * 22}, {"list": []}, {"blob": ""}, {"ignored": 9},
    ]  # fmt: skip
    for value in right:
        assert cls.from_json(value, 0) == cls()
    wrong: list[dict[str, Any]] = [
        {"new": 4}, {"ids": IDS_TEXT}, {"list": [1]}, {"blob": "YQ=="}, {"one": {}},
    ]  # fmt: skip
    for value in wrong:
        assert refusal(cls, value) == (E.FIELD_NOT_IN_VERSION, next(iter(value)))


def test_a_field_of_no_version() -> None:
    cls = message(field("Many", "[]Inner", fields=INNER))
    assert refusal(cls, {"many": [], "more": 1}) == (E.FIELD_NOT_IN_VERSION, "more")
    value: Any = {"many": [{"x": 1, "y": "", "z": 1, "a": 1}]}
    assert refusal(cls, value) == (E.FIELD_NOT_IN_VERSION, "many[0].a")
    assert refusal(cls, {"many": [], 5: 1, "x": 1}) == (E.FIELD_NOT_IN_VERSION, "5")


@pytest.mark.parametrize(
    "tags",
    [5, None, {"tag": 5, "hex": ""}, [5], [{"tag": 5}], [{"hex": ""}], [{"tag": 5, "hex": "0"}],
     [{"tag": 5, "hex": 0}], "x", "", {}],
)  # fmt: skip
def test_wrong_unknown_tags(tags: Any) -> None:
    cls = message(field("Many", "[]Inner", fields=INNER))
    assert refusal(cls, {"many": [], "_unknownTaggedFields": tags}) == (
        E.WRONG_TYPE, "_unknownTaggedFields",
    )  # fmt: skip


def test_unknown_tags_need_a_flexible_version() -> None:
    cls = message(field("Many", "[]Inner", fields=INNER), flexible="1+")
    inner = {"x": 1, "y": "", "_unknownTaggedFields": [{"tag": 5, "hex": "ab"}]}
    assert cls.from_json({"many": [inner]}, 1).many[0].unknown_tagged_fields == ((5, b"\xab"),)
    assert refusal(cls, {"many": [inner]}, 0) == (
        E.FIELD_NOT_IN_VERSION, "many[0]._unknownTaggedFields",
    )  # fmt: skip
    inner["_unknownTaggedFields"] = []  # none of them is what every version has
    assert cls.from_json({"many": [inner]}, 0).many[0].x == 1
    rigid = message(field("Many", "[]Inner", fields=INNER))
    assert rigid.from_json({"many": [inner]}, 0).many[0].x == 1


def test_floats() -> None:
    cls = message(field("F", "float64"))
    assert cls.from_json({"f": 1}, 0).encode(0).hex() == "3ff000000000000000"
    for digits in ("7ff8000000000001", "fff0000000000000", "8000000000000000"):
        assert cls.from_json({"f": f"0x{digits}"}, 0).encode(0).hex() == digits + "00"


def test_ranges_and_versions() -> None:
    value: dict[str, Any] = {"clusterId": None, "voterId": 1 << 31, "topics": []}
    with pytest.raises(CodecError, match="voterId: int32 holds") as refused:
        VoteRequest.from_json(value, 2)
    assert refused.value.error_class is ErrorClass.INTEGER_OUT_OF_RANGE
    assert VoteRequest.from_json(value | {"voterId": (1 << 31) - 1}, 2).voter_id == (1 << 31) - 1
    with pytest.raises(CodecError, match="VoteRequest has versions 0 to 2, not 9"):
        VoteRequest.from_json({}, 9)


def test_names_of_no_version_pass_only_where_lenient() -> None:
    value: dict[str, Any] = {"clusterId": None, "voterId": 1, "topics": [], "extra": 1}
    with pytest.raises(CodecError, match="extra") as refused:
        VoteRequest.from_json(value, 2)
    assert refused.value.error_class is ErrorClass.FIELD_NOT_IN_VERSION
    assert VoteRequest.from_json(value, 2, lenient=True) == VoteRequest(voter_id=1)


@pytest.mark.parametrize(
    ("message", "path"),
    [
        (VoteRequest(cluster_id=5), "clusterId"),  # type: ignore[arg-type]  # meant
        (VoteRequest(topics=None), "topics"),  # type: ignore[arg-type]  # meant
        (VoteRequest(voter_id=5.9), "voterId"),  # type: ignore[arg-type]  # meant
        (VoteRequest(voter_id=1 << 31), "voterId"),
    ],
)
def test_to_json_refuses_what_encode_refuses(message: VoteRequest, path: str) -> None:
    with pytest.raises(CodecError) as refused:
        message.to_json(2)
    assert refused.value.path == path


def test_tags_that_only_a_lenient_decode_lets_in_have_a_json_form() -> None:
    tagged = bytes.fromhex("00 ffffffff 01 02 05 00 04 00".replace(" ", ""))  # tag 5, then 4
    with pytest.raises(CodecError, match="tag_out_of_order"):
        VoteRequest.decode(tagged, 2)
    shown = VoteRequest.decode(tagged, 2, lenient=True).to_json(2)
    assert shown["_unknownTaggedFields"] == [{"tag": 5, "hex": ""}, {"tag": 4, "hex": ""}]


def test_defaults_as_json() -> None:
    assert default_json(bytes(16)) == "A" * 22
    assert default_json(b"") == ""
    assert default_json(()) == []
    assert [default_json(value) for value in (None, 0, "x", True)] == [None, 0, "x", True]
