"""The constructors of the model reject what the rules forbid, and turn defaults into values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftspec.codegen.diagnostics import RULES, RuleErrors
from kraftspec.codegen.model import (
    PRIMITIVES,
    Field,
    FieldType,
    Message,
    Struct,
    parse_default,
)
from kraftspec.codegen.versions import NONE, VERSION_MAX, Versions
from kraftspec.fastpath.plan import INTEGER_RANGE

ALL = Versions(0, VERSION_MAX)
ZERO_TO_TWO = Versions(0, 2)


def field(name: str = "LeaderId", kind: str = "int32", **more: Any) -> Field:
    return Field(name, FieldType.parse(kind), more.pop("versions", ALL), **more)


def struct(*fields: Field, name: str = "Voter", versions: Versions = ALL) -> Struct:
    return Struct(name, versions, fields)


def message(*fields: Field, **more: Any) -> Message:
    values: dict[str, Any] = {
        "name": "Sample",
        "type": "data",
        "api_key": None,
        "valid_versions": ZERO_TO_TWO,
        "flexible_versions": ALL,
        "top": Struct("Sample", ZERO_TO_TWO, fields),
    }
    return Message(**values | more)


def broken(make: Callable[[], object]) -> list[str]:
    """Return the rules that a constructor says are broken."""
    with pytest.raises(RuleErrors) as refusal:
        make()
    assert refusal.value.value is not None  # The value as it would have been, for the caller.
    for violation in refusal.value.violations:
        assert violation.rule in RULES
        assert violation.message
        assert violation.mend
        assert violation.keys
    return [violation.rule for violation in refusal.value.violations]


# ---- types ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRIMITIVES)
def test_primitives(name: str) -> None:
    one, many = FieldType.parse(name), FieldType.parse(f"[]{name}")
    assert (one.element, one.array, one.struct) == (name, False, False)
    assert (many.element, many.array, many.struct) == (name, True, False)
    assert (str(one), str(many)) == (name, f"[]{name}")
    assert many.nullable
    assert one.nullable == (name in ("string", "bytes", "records"))


def test_struct_types() -> None:
    assert FieldType.parse(" []TopicData ") == FieldType("TopicData", array=True)
    assert FieldType.parse("TopicData").struct
    assert FieldType.parse("TopicData").nullable


@pytest.mark.parametrize("text", ["int99", "", "[]", "voter", "Voter Set", "[Voter]", "Élan"])
def test_unknown_types(text: str) -> None:
    with pytest.raises(RuleErrors, match=r"\[type-known\]"):
        FieldType.parse(text)


def test_no_arrays_of_arrays() -> None:
    with pytest.raises(RuleErrors, match=r"\[type-array-of-arrays\]"):
        FieldType.parse("[][]int32")


# ---- defaults ---------------------------------------------------------------------------------

UUID = bytes.fromhex("0102030405060708090a0b0c0d0e0f10")


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        ("bool", None, False),
        ("bool", "TRUE", True),
        ("bool", False, False),
        ("int8", None, 0),
        ("int8", "0x7f", 127),
        ("int16", "-1", -1),
        ("int32", "0x7fffffff", 2147483647),
        ("int32", "+5", 5),
        ("int32", "007", 7),
        ("int64", "9223372036854775807", 9223372036854775807),
        ("int64", -2, -2),
        ("uint16", 65535, 65535),
        ("uint32", "0xffffffff", 4294967295),
        ("float64", None, 0.0),
        ("float64", "0.5", 0.5),
        ("float64", 2, 2.0),
        ("float64", "-Infinity", -math.inf),
        ("float64", "1e3", 1000.0),
        ("uuid", None, bytes(16)),
        ("uuid", "AQIDBAUGBwgJCgsMDQ4PEA", UUID),
        ("string", None, ""),
        ("string", "", ""),
        ("string", "null", None),
        ("string", "none", "none"),
        ("string", 7, "7"),
        ("bytes", None, b""),
        ("bytes", "null", None),
        ("records", None, None),
        ("records", "null", None),
        ("[]int32", None, ()),
        ("[]Voter", "null", None),
        ("Voter", None, {}),
        ("Voter", "null", None),
    ],
)
def test_defaults(kind: str, raw: str | int | float | bool | None, value: object) -> None:
    default = parse_default(FieldType.parse(kind), raw)
    assert default == value
    assert type(default) is type(value)


def test_not_a_number_is_a_float() -> None:
    value = parse_default(FieldType("float64"), "NaN")
    assert isinstance(value, float)
    assert math.isnan(value)


@given(st.sampled_from(sorted(INTEGER_RANGE)), st.integers(-(1 << 65), 1 << 65), st.booleans())
def test_integer_defaults_are_range_checked(kind: str, number: int, as_hex: bool) -> None:
    text = hex(number) if as_hex and number >= 0 else str(number)
    default = parse_default(FieldType(kind), text)
    assert default == number
    width = int(kind.strip("uint"))
    low, high = (0, 2**width) if kind[0] == "u" else (-(2 ** (width - 1)), 2 ** (width - 1))
    if low <= number < high:
        assert field(kind=kind, default=default).default == number
    else:
        assert broken(lambda: field(kind=kind, default=default)) == ["default-range"]


@pytest.mark.parametrize(
    ("kind", "raw", "rule"),
    [
        ("bool", "yes", "default-form"),
        ("bool", 1, "default-form"),
        ("int32", "0x", "default-form"),
        ("int32", True, "default-form"),
        ("int32", "٣", "default-form"),
        ("int32", "9" * 5000, "default-form"),
        ("int32", 1.5, "default-form"),
        ("float64", "1_0", "default-form"),
        ("uuid", "AAAA", "default-form"),
        ("uuid", "null", "default-null"),
        ("int32", "null", "default-null"),
        ("bytes", "00", "default-empty"),
        ("records", "00", "default-empty"),
        ("[]string", "[]", "default-empty"),
        ("Voter", "{}", "default-empty"),
    ],
)
def test_refused_defaults(kind: str, raw: str | int | float | bool, rule: str) -> None:
    with pytest.raises(RuleErrors) as refusal:
        parse_default(FieldType.parse(kind), raw)
    assert [violation.rule for violation in refusal.value.violations] == [rule]


@pytest.mark.parametrize(
    ("kind", "default"),
    [("int32", "1"), ("int32", True), ("bool", 0), ("string", b""), ("uuid", bytes(15)),
     ("[]int32", (1,)), ("Voter", {"VoterId": 1}), ("bytes", b"1"), ("float64", 1)],
)  # fmt: skip
def test_a_default_of_another_python_type(kind: str, default: Any) -> None:
    assert broken(lambda: field(kind=kind, default=default)) == ["default-form"]


def test_a_field_without_default_has_the_zero_of_its_type() -> None:
    assert field(kind="string").default == ""
    assert field(kind="string", default=None, nullable_versions=ALL).default is None
    assert field(kind="records").default is None
    assert field(kind="[]Voter").default == ()
    assert field(kind="uuid").default == bytes(16)


# ---- fields -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "more", "rules"),
    [
        ("uuid", {"nullable_versions": ALL}, ["nullable-type"]),
        ("uuid", {"nullable_versions": ALL, "default": None}, ["nullable-type", "default-form"]),
        ("int32", {"tag": 0}, ["tag-needs-versions"]),
        ("int32", {"tagged_versions": ALL}, ["tagged-needs-tag"]),
        ("int32", {"tag": -1, "tagged_versions": ALL}, ["tag-range"]),
        ("int32", {"tag": 0, "tagged_versions": ZERO_TO_TWO}, ["tagged-open"]),
        ("int32", {"tag": 0, "tagged_versions": ALL, "versions": ZERO_TO_TWO},
         ["tagged-in-versions"]),
        ("int32", {"tag": 0, "tagged_versions": ALL, "map_key": True}, ["map-key-tagged"]),
        ("string", {"tag": 0, "tagged_versions": ALL, "nullable_versions": ZERO_TO_TWO},
         ["tagged-nullable"]),
        ("records", {"tag": 0, "tagged_versions": ALL}, ["tagged-records"]),
        ("[]records", {}, ["records-array"]),
        ("int32", {"flexible_versions": NONE}, ["flexible-override-type"]),
        ("[]bytes", {"zero_copy": True}, ["zero-copy-type"]),
        ("int64", {"entity_type": "brokerId"}, ["entity-type"]),
        ("int64", {"entity_type": "voterId"}, ["entity-type-known"]),
        ("string", {"default": None, "nullable_versions": Versions(1, 2)}, ["default-null"]),
    ],
)  # fmt: skip
def test_bad_fields(kind: str, more: dict[str, Any], rules: list[str]) -> None:
    assert broken(lambda: field(kind=kind, **more)) == rules


@pytest.mark.parametrize(
    ("nullable", "words"),
    [
        (NONE, "no version is nullable"),
        (ZERO_TO_TWO, "nullableVersions 0-2 has only a part of versions 0+"),
    ],
)
def test_a_default_null_says_which_versions_are_nullable(nullable: Versions, words: str) -> None:
    with pytest.raises(RuleErrors) as refusal:
        field(kind="string", default=None, nullable_versions=nullable)
    [violation] = refusal.value.violations
    assert violation.message == f"the default is null, but {words}"


def test_a_field_lists_all_its_mistakes() -> None:
    def make() -> Field:
        return field("1st", "int32", nullable_versions=ALL, tag=0, zero_copy=True, default=1 << 40)

    assert broken(make) == [
        "field-name", "nullable-type", "tag-needs-versions", "zero-copy-type", "default-range",
    ]  # fmt: skip


def test_good_fields() -> None:
    assert field("ClusterId", "string").json_name == "clusterId"
    assert field(kind="[]int32", entity_type="brokerId").entity_type == "brokerId"
    assert field(kind="string", flexible_versions=NONE).flexible_versions == NONE
    tagged = field(kind="Voter", tag=0, tagged_versions=ALL, nullable_versions=ALL, default=None)
    assert tagged.default is None


# ---- structs and messages -----------------------------------------------------------------------


def tagged(name: str, tag: int) -> Field:
    return field(name, tag=tag, tagged_versions=ALL)


def test_bad_structs() -> None:
    assert broken(lambda: struct(name="voter")) == ["struct-name"]
    assert broken(lambda: struct(field("A"), field("a"))) == ["field-name-unique"]
    assert broken(lambda: struct(tagged("A", 0), tagged("B", 0))) == ["tag-unique"]
    assert broken(lambda: struct(tagged("A", 1), tagged("B", 2))) == ["tag-contiguous"]
    assert struct(tagged("A", 1), tagged("B", 0)).fields[0].tag == 1


def test_a_breach_tells_which_field() -> None:
    with pytest.raises(RuleErrors) as refusal:
        struct(field("A"), tagged("B", 0), tagged("C", 2))
    (violation,) = refusal.value.violations
    assert (violation.rule, violation.index, violation.keys) == ("tag-contiguous", 2, ("tag",))


@pytest.mark.parametrize(
    ("more", "rules"),
    [
        ({"name": "sample"}, ["message-name"]),
        ({"type": "request"}, ["api-key-required"]),
        ({"api_key": -1}, ["api-key-range"]),
        ({"valid_versions": ALL}, ["valid-versions-end"]),
        ({"deprecated_versions": Versions(2, 3)}, ["deprecated-versions-valid"]),
        ({"flexible_versions": ZERO_TO_TWO}, ["flexible-versions-open"]),
        ({"listeners": ("broker",)}, ["listeners-request"]),
        ({"type": "request", "api_key": 1, "listeners": ("zkBroker",)}, ["listener-known"]),
        ({"latest_version_unstable": True}, ["unstable-request"]),
        (
            {"type": "coordinator-key", "api_key": 1},
            ["coordinator-key-versions", "coordinator-key-flexible"],
        ),
        ({"type": "coordinator-value"}, ["api-key-required"]),
    ],
)
def test_bad_messages(more: dict[str, Any], rules: list[str]) -> None:
    assert broken(lambda: message(**more)) == rules


@pytest.mark.parametrize(
    ("fields", "more", "rule"),
    [
        ([field(kind="Voter")], {}, "struct-known"),
        ([field(map_key=True)], {}, "map-key-top"),
        ([tagged("A", 0)], {"flexible_versions": NONE}, "tagged-in-flexible"),
        ([field(kind="string", flexible_versions=ALL)], {"flexible_versions": NONE},
         "flexible-override-range"),
        ([field(versions=Versions(3, VERSION_MAX))], {}, "versions-live"),
        ([field(versions=NONE)], {}, "versions-live"),
        ([field(kind="Voter")], {"structs": {"Voter": struct(field(kind="[]Voter"))}},
         "struct-not-recursive"),
        ([field(kind="Voter")], {"structs": {"Voter": struct(versions=Versions(0, 1))}},
         "struct-versions"),
        ([field(kind="Voter", versions=Versions(0, 0))],
         {"structs": {"Voter": struct(versions=Versions(0, 0))}, "valid_versions": Versions(1, 2)},
         "struct-live"),
        ([field(kind="Sample")], {"structs": {"Sample": struct(name="Sample")}},
         "struct-name-message"),
    ],
)  # fmt: skip
def test_bad_layouts(fields: list[Field], more: dict[str, Any], rule: str) -> None:
    assert broken(lambda: message(*fields, **more)) == [rule]


def test_a_field_that_ended_with_older_versions_is_no_mistake() -> None:
    actual = message(field(versions=Versions(0, 0)), valid_versions=Versions(1, 2))
    assert actual.struct("").fields[0].versions == Versions(0, 0)


def test_good_message() -> None:
    voter = struct(field("VoterId", map_key=True), tagged("Port", 0))
    actual = message(field("Voters", "[]Voter"), structs={"Voter": voter}, api_key=7)
    assert actual.struct("Voter") is voter
    assert actual.struct("") is actual.top
    with pytest.raises(AttributeError):
        setattr(actual, "name", "Other")  # noqa: B010 - a plain assignment mypy refuses


# ---- versions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "versions"),
    [("3", (3, 3)), ("0-3", (0, 3)), (" 2+ ", (2, VERSION_MAX)), ("none", (0, -1))],
)
def test_ranges(text: str, versions: tuple[int, int]) -> None:
    assert Versions.parse(text) == Versions(*versions)
    assert str(Versions.parse(text)) == text.strip()


@pytest.mark.parametrize(
    "text", ["", "-1", "1-", "+", "3-1", "32768", "0 - 2", "1,2", "٣", "9" * 5000, "None"]
)
def test_not_ranges(text: str) -> None:
    with pytest.raises(ValueError, match=": "):
        Versions.parse(text)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_ranges_are_sets(a: int, b: int, c: int, d: int) -> None:
    one, other = Versions(a, b), Versions(c, d)
    here, there = set(range(a, b + 1)), set(range(c, d + 1))
    assert set(one) == here
    assert len(one) == len(here)
    assert set(one & other) == here & there
    assert one.covers(other) == (there <= here)
    assert one.empty == (not here)
    assert all((version in one) == (version in here) for version in range(10))
