"""The schema language as a small frozen model: a value of these types is a valid spec.

Constructors refuse what the rules forbid (``RuleErrors`` lists every violation at once), so nothing
downstream checks again. Source of the rules: ``org.apache.kafka.message.{MessageSpec,FieldSpec}``.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal, cast

from kraftspec import words
from kraftspec.codegen.diagnostics import RuleErrors, Violation
from kraftspec.codegen.versions import NONE, VERSION_MAX, Versions
from kraftspec.fastpath.plan import INTEGER_RANGE
from kraftspec.words import nearest

MessageType = Literal[
    "request", "response", "header", "metadata", "data", "coordinator-key", "coordinator-value"
]
# A default as the wire sees it: None is null, () an empty array, {} a struct of defaults.
Default = bool | int | float | str | bytes | tuple[()] | dict[str, object] | None

PRIMITIVES = (
    "bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64",
    "uuid", "string", "bytes", "records",
)  # fmt: skip
NULLABLE = ("string", "bytes", "records")  # And every struct and array.
ENTITY_TYPES = {
    "transactionalId": "string",
    "producerId": "int64",
    "groupId": "string",
    "topicName": "string",
    "brokerId": "int32",
}
UUID_BYTES = 16
SHOWN_CHARS_MAX = 60  # Of a name or value in a message, so that it stays one readable line.
TAG_MAX = 0x7FFFFFFF  # Kafka reads tags into an int.

_ZERO = cast(Default, object())  # Without a default: the zero value of the type.
_ZEROS: dict[str, Default] = {
    "bool": False, "float64": 0.0, "uuid": bytes(16), "string": "", "bytes": b"", "records": None,
}  # fmt: skip
_FIELD_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_STRUCT_NAME = re.compile(r"[A-Z][A-Za-z0-9]*")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,40}")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,40}")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|NaN|[+-]?Infinity")


@dataclass(frozen=True, slots=True)
class FieldType:
    """``int32``, ``[]string``, ``TopicData``, ``[]TopicData``: an element, repeated or not."""

    element: str  # one of PRIMITIVES, or the name of a struct
    array: bool = False

    def __post_init__(self) -> None:
        if self.element not in PRIMITIVES and not _STRUCT_NAME.fullmatch(self.element):
            raise RuleErrors([_type_violation(self.element)], self)

    @classmethod
    def parse(cls, text: str) -> FieldType:
        """Read a type as a spec writes it. Raises ``RuleErrors``."""
        return _parse_type(text)

    @property
    def struct(self) -> bool:
        """Whether the element is a struct."""
        return self.element not in PRIMITIVES

    @property
    def nullable(self) -> bool:
        """Whether a value of the type can be null."""
        return self.array or self.element in NULLABLE or self.struct

    @property
    def zero(self) -> Default:
        """The value that a field has when its spec names no default."""
        if self.array:
            return ()
        if self.struct:
            return {}
        return _ZEROS.get(self.element, 0)

    def __str__(self) -> str:
        return f"[]{self.element}" if self.array else self.element


@lru_cache(maxsize=4096)
def _parse_type(text: str) -> FieldType:
    element = text.strip()
    array = element.startswith("[]")
    if array:
        element = element[2:].strip()
        if element.startswith("[]"):
            message = f"the type {_quote(text)} is an array of arrays"
            mend = "use an array of structs that hold an array"
            raise RuleErrors([Violation("type-array-of-arrays", ("type",), message, mend)])
    return FieldType(element, array)


def _type_violation(element: str) -> Violation:
    other = {"boolean": "bool", "booleanbool": "bool", "byte": "int8", "short": "int16"}
    other |= {"int": "int32", "integer": "int32", "long": "int64", "str": "string"}
    other |= {"float": "float64", "double": "float64"}
    lowered = element.lower()
    after = lowered.removesuffix("[]")  # Most languages write an array so.
    nearest = after if after in PRIMITIVES else other.get(after)
    if nearest is None and element == lowered:  # A capitalised name is that of a struct.
        nearest = next(iter(words.nearest(after, PRIMITIVES)), None)
    if after != lowered:
        nearest = f"[]{nearest or element.removesuffix('[]')}"
    mend = f'write "{nearest}"' if nearest else f"use {', '.join(PRIMITIVES)} or a capitalised name"
    return Violation("type-known", ("type",), f"there is no type {_quote(element)}", mend)


def parse_default(kind: FieldType, raw: str | int | float | bool | None) -> Default:
    """Turn a default as a spec writes it into the value. Raises ``RuleErrors``.

    A bare null and ``""`` say that there is none, so the result is the zero of the type. Source:
    ``FieldSpec.fieldDefault``.
    """
    if raw is None or raw == "":
        return kind.zero
    text = raw if isinstance(raw, str) else str(raw).lower() if isinstance(raw, bool) else repr(raw)
    if text == "null":
        if kind.nullable:
            return None
        mend = "the zero uuid means none" if kind.element == "uuid" else "use a value"
        message = f"the default is null, which a field of type {kind} cannot be"
        raise _refused("default-null", message, mend)
    if kind.array or kind.struct or kind.element in ("bytes", "records"):
        message = f"{_quote(text)} cannot be the default of {kind}"
        raise _refused("default-empty", message, 'leave "default" out, or write "null"')
    return text if kind.element == "string" else _scalar_default(kind.element, text)


def _scalar_default(element: str, text: str) -> Default:
    if element == "bool":
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        mend = "write true or false"
    elif element == "float64":
        if _FLOAT.fullmatch(text):
            return float(text)
        mend = 'write a decimal number, such as "0.5"'
    elif element == "uuid":
        uuid = _uuid(text)
        if uuid is not None:
            return uuid
        mend = "write the 16 bytes as 22 characters of URL-safe base64, without padding"
    else:
        if _DECIMAL.fullmatch(text):
            return int(text)
        if _HEX.fullmatch(text):
            return int(text[2:], 16)
        mend = 'write a decimal number, or a hexadecimal one as "0x7f"'
    raise _refused("default-form", f"{_quote(text)} is not a default of type {element}", mend)


def _uuid(text: str) -> bytes | None:
    if not re.fullmatch(r"[A-Za-z0-9_-]{22}(==)?", text):
        return None
    try:
        return base64.urlsafe_b64decode(text[:22] + "==")
    except binascii.Error:
        return None


def _refused(rule: str, message: str, mend: str) -> RuleErrors:
    return RuleErrors([Violation(rule, ("default", "type"), message, mend)])


def _quote(text: str) -> str:
    """Return the text in double quotes, shortened if it is too long to read."""
    return f'"{text}"' if len(text) <= SHOWN_CHARS_MAX else f'"{text[:SHOWN_CHARS_MAX]}…"'


@dataclass(frozen=True, slots=True)
class Field:
    """One field, with its ranges as written (not yet cut to the message's own versions)."""

    name: str
    type: FieldType
    versions: Versions
    nullable_versions: Versions = NONE
    tagged_versions: Versions = NONE
    tag: int | None = None
    default: Default = _ZERO  # Left out: the zero value of the type.
    ignorable: bool = False
    map_key: bool = False
    entity_type: str | None = None
    about: str = ""
    flexible_versions: Versions | None = None  # None: as the message
    zero_copy: bool = False

    def __post_init__(self) -> None:
        if self.default is _ZERO:
            object.__setattr__(self, "default", self.type.zero)
        if violations := list(_field_violations(self)):
            raise RuleErrors(violations, self)

    @property
    def json_name(self) -> str:
        """The name in JSON values and error paths: the first letter is lower."""
        return self.name[:1].lower() + self.name[1:]


def _field_violations(entry: Field) -> Iterator[Violation]:
    kind = entry.type
    if not _FIELD_NAME.fullmatch(entry.name):
        message = f"{_quote(entry.name)} is not a field name"
        words = re.findall("[A-Za-z0-9]+", entry.name)
        camel = "".join(word[:1].upper() + word[1:] for word in words)
        mend = "use letters and digits, a letter first"
        if _FIELD_NAME.fullmatch(camel):
            mend = f'write "{camel}": {mend}'
        yield Violation("field-name", ("name",), message, mend)
    if entry.nullable_versions != NONE and not kind.nullable:
        mend = "leave nullableVersions out, and a default of null"
        if kind.element == "uuid":
            mend += "; the zero uuid means none"
        message = f"a field of type {kind} cannot be null"
        yield Violation("nullable-type", ("nullableVersions", "type"), message, mend)
    if entry.tag is not None or entry.tagged_versions != NONE:
        yield from _tag_violations(entry)
    if entry.entity_type is not None:
        expected = ENTITY_TYPES.get(entry.entity_type)
        if expected is None:
            message = f"there is no entityType {_quote(entry.entity_type)}"
            yield Violation(
                "entity-type-known", ("entityType",), message, f"use {', '.join(ENTITY_TYPES)}"
            )
        elif kind.element != expected:
            message = f"entityType {entry.entity_type} goes with {expected}, not with {kind}"
            mend = f"make the field {expected} or []{expected}, or leave entityType out"
            yield Violation("entity-type", ("entityType", "type"), message, mend)
    if kind.array and kind.element == "records":
        message = "records cannot be the elements of an array"
        mend = "use []bytes, or an array of structs that hold records"
        yield Violation("records-array", ("type",), message, mend)
    plain_bytes = kind.element == "bytes" and not kind.array
    plain_string = kind.element == "string" and not kind.array
    if entry.flexible_versions is not None and not (plain_bytes or plain_string):
        message = f"a field of type {kind} cannot have flexibleVersions of its own"
        mend = "leave flexibleVersions out: the message's own apply"
        yield Violation("flexible-override-type", ("flexibleVersions", "type"), message, mend)
    if entry.zero_copy and not plain_bytes:
        message = f"a field of type {kind} cannot be zeroCopy"
        yield Violation("zero-copy-type", ("zeroCopy", "type"), message, "leave zeroCopy out")
    yield from _default_violations(entry)


def _tag_violations(entry: Field) -> Iterator[Violation]:
    tagged, keys = entry.tagged_versions, ("taggedVersions",)
    if entry.tag is None:
        message = f"taggedVersions {tagged} is given, but no tag"
        yield Violation(
            "tagged-needs-tag", (*keys, "tag"), message, 'add "tag": the next free number'
        )
        return
    if not 0 <= entry.tag <= TAG_MAX:
        message = f"the tag {entry.tag} is not between 0 and {TAG_MAX}"
        yield Violation("tag-range", ("tag",), message, "use the next free number of the struct")
    if tagged.empty:
        message = f"the tag {entry.tag} is given, but no taggedVersions"
        yield Violation("tag-needs-versions", ("tag", *keys), message, "add taggedVersions")
        return
    if not tagged.open_ended:
        message = f"taggedVersions {tagged} ends"
        yield Violation("tagged-open", keys, message, f'write "{tagged.lowest}+"')
    elif not entry.versions.covers(tagged):
        message = f"taggedVersions {tagged} is not within versions {entry.versions}"
        mend = f'widen versions to "{min(tagged.lowest, entry.versions.lowest)}+"'
        yield Violation("tagged-in-versions", (*keys, "versions"), message, mend)
    if entry.nullable_versions & tagged not in (NONE, tagged):
        message = (
            f"nullableVersions {entry.nullable_versions} has a part of taggedVersions {tagged}"
        )
        mend = "let nullableVersions cover all tagged versions, or none"
        yield Violation("tagged-nullable", ("nullableVersions", *keys), message, mend)
    if entry.map_key:
        message = "a tagged field cannot be a mapKey"
        yield Violation("map-key-tagged", ("mapKey", *keys), message, "leave mapKey or the tag out")
    if entry.type.element == "records":
        message = "a field of type records cannot be tagged"
        yield Violation(
            "tagged-records", ("tag", "type"), message, "leave the tag out, or use bytes"
        )


def _default_violations(entry: Field) -> Iterator[Violation]:
    value, kind = entry.default, entry.type
    if value is None and kind.nullable:
        if str(kind) != "records" and not entry.nullable_versions.covers(entry.versions):
            nullable = entry.nullable_versions
            message = "the default is null, but " + (
                "no version is nullable"
                if nullable.empty
                else f"nullableVersions {nullable} has only a part of versions {entry.versions}"
            )
            mend = f'write "nullableVersions": "{entry.versions}", or another default'
            keys = ("default", "nullableVersions", "versions", "type")
            yield Violation("default-null", keys, message, mend)
        return
    if not kind.array and kind.element in INTEGER_RANGE and type(value) is int:
        lowest, highest = INTEGER_RANGE[kind.element]
        if not lowest <= value <= highest:
            message = f"the default {value} is not in {kind}, which is {lowest} to {highest}"
            mend = "use a number of that range, or a wider type"
            yield Violation("default-range", ("default", "type"), message, mend)
        return
    fits = type(value) is type(kind.zero) if kind.zero is not None else value is None
    if not fits or (kind.zero in ((), {}, b"") and value != kind.zero):
        message = f"{value!r} cannot be the default of {kind}"
        yield Violation("default-form", ("default", "type"), message, "use a value of that type")
    elif kind.element == "uuid" and not kind.array and len(cast(bytes, value)) != UUID_BYTES:
        message = f"a default uuid of {len(cast(bytes, value))} bytes"
        yield Violation("default-form", ("default",), message, "a uuid has 16 bytes")


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct: top level of a message, inline (``fields`` of a field) or common."""

    name: str
    versions: Versions
    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        if violations := list(_struct_violations(self)):
            raise RuleErrors(violations, self)


def _struct_violations(struct: Struct) -> Iterator[Violation]:
    if not _STRUCT_NAME.fullmatch(struct.name):
        mend = "begin with a capital letter; use letters and digits"
        yield Violation(
            "struct-name", ("name",), f"{_quote(struct.name)} is not a struct name", mend
        )
    names: set[str] = set()
    tags: dict[int, int] = {}
    for index, entry in enumerate(struct.fields):
        if entry.json_name in names:
            message = f"{struct.name} has another field of the name {_quote(entry.name)}"
            mend = "rename one of them"
            yield Violation("field-name-unique", ("name",), message, mend, index=index)
        names.add(entry.json_name)
        if entry.tag is None or entry.tag < 0:
            continue
        if entry.tag in tags:
            other = struct.fields[tags[entry.tag]].name
            message = f"field {_quote(other)} has the tag {entry.tag} already"
            mend = "give each field of the struct a tag of its own"
            yield Violation("tag-unique", ("tag",), message, mend, index=index)
        else:
            tags[entry.tag] = index
    missing = next((tag for tag in range(len(tags)) if tag not in tags), None)
    if missing is not None:
        highest = max(tags)
        message = f"the tag {highest} is used, but not {missing}"
        mend = f"use {missing} before any higher tag"
        yield Violation("tag-contiguous", ("tag",), message, mend, index=tags[highest])


@dataclass(frozen=True, slots=True)
class Message:
    """A whole spec. ``structs`` holds every struct but the top one, by name, in order of first use.

    A message whose ``valid_versions`` are none keeps its name and apiKey and nothing else.
    """

    name: str
    type: MessageType
    api_key: int | None
    valid_versions: Versions
    flexible_versions: Versions
    top: Struct
    deprecated_versions: Versions = NONE
    listeners: tuple[str, ...] = ()
    latest_version_unstable: bool = False
    structs: dict[str, Struct] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if violations := [*_message_violations(self), *_layout_violations(self)]:
            raise RuleErrors(violations, self)

    def struct(self, name: str) -> Struct:
        """Return the struct of that name, ``""`` being the top level."""
        return self.structs[name] if name else self.top


def _message_violations(message: Message) -> Iterator[Violation]:
    """The rules about the keys of the message itself."""
    kind, flexible = message.type, message.flexible_versions
    if not _STRUCT_NAME.fullmatch(message.name):
        text = f"{_quote(message.name)} is not a message name"
        mend = "begin with a capital letter; use letters and digits"
        yield Violation("message-name", ("name",), text, mend)
    if message.api_key is None and kind not in ("header", "data"):
        text, mend = f"a message of type {kind} needs an apiKey", 'add "apiKey": its number'
        yield Violation("api-key-required", ("apiKey", "type"), text, mend)
    elif message.api_key is not None and not 0 <= message.api_key <= VERSION_MAX:
        text = f"the apiKey {message.api_key} is not between 0 and {VERSION_MAX}"
        yield Violation("api-key-range", ("apiKey",), text, "use a 16-bit number, not negative")
    if message.valid_versions.open_ended:
        text = f"validVersions {message.valid_versions} has no end"
        mend = f'write "0-N" with N the highest version, or "{message.valid_versions.lowest}"'
        yield Violation("valid-versions-end", ("validVersions",), text, mend)
    if not message.valid_versions.covers(message.deprecated_versions):
        text = f"deprecatedVersions {message.deprecated_versions} are not all in validVersions"
        mend = f'stay within "{message.valid_versions}"'
        yield Violation(
            "deprecated-versions-valid", ("deprecatedVersions", "validVersions"), text, mend
        )
    if not flexible.empty and not flexible.open_ended:
        text, mend = f"flexibleVersions {flexible} ends", f'write "{flexible.lowest}+" or "none"'
        yield Violation("flexible-versions-open", ("flexibleVersions",), text, mend)
    if kind != "request" and not message.valid_versions.empty:
        mend = "leave it out"
        if message.listeners:
            text = f"a message of type {kind} has no listeners"
            yield Violation("listeners-request", ("listeners", "type"), text, mend)
        if message.latest_version_unstable:
            text = f"a message of type {kind} cannot have latestVersionUnstable"
            yield Violation("unstable-request", ("latestVersionUnstable", "type"), text, mend)
    for listener in message.listeners:
        if listener not in ("broker", "controller"):
            text, mend = f"there is no listener {_quote(listener)}", "use broker or controller"
            yield Violation("listener-known", ("listeners",), text, mend)
    if kind == "coordinator-key" and not message.valid_versions.empty:
        if message.valid_versions != Versions(0, 0):
            text = f"a coordinator-key has version 0, not {message.valid_versions}"
            yield Violation(
                "coordinator-key-versions", ("validVersions", "type"), text, 'write "0"'
            )
        if not flexible.empty:
            text = "a coordinator-key is never flexible"
            mend = 'write "none"'
            yield Violation("coordinator-key-flexible", ("flexibleVersions", "type"), text, mend)


def _layout_violations(message: Message) -> Iterator[Violation]:
    """The rules about fields that need the message around them."""
    reach = _reach(message)
    for name in ("", *message.structs):
        for index, entry in enumerate(message.struct(name).fields):
            for violation in _placed_field_violations(message, name, entry, reach[name]):
                yield replace(violation, struct=name, index=index)


def _reach(message: Message) -> dict[str, set[Versions]]:
    """Return for each struct the versions in which it is used, a range for each way to it."""
    reach: dict[str, set[Versions]] = {name: set() for name in message.structs}
    reach[""] = {message.valid_versions}
    pending = [("", message.valid_versions)]
    while pending:
        name, versions = pending.pop()
        for entry in message.struct(name).fields:
            child, common = entry.type.element, entry.versions & versions
            if child in message.structs and common not in reach[child]:
                reach[child].add(common)
                pending.append((child, common))
    return reach


def _placed_field_violations(
    message: Message, struct: str, entry: Field, reach: set[Versions]
) -> Iterator[Violation]:
    flexible = message.flexible_versions
    used = message.structs.get(entry.type.element)
    if entry.type.struct:
        yield from _struct_use_violations(message, struct, entry, reach)
    if entry.map_key and not struct:
        text = "a field at the top level of a message cannot be a mapKey"
        yield Violation("map-key-top", ("mapKey",), text, "leave mapKey out")
    own = entry.flexible_versions
    if own is not None and not flexible.covers(own):
        text = f"flexibleVersions {own} is not within the message's {flexible}"
        keys = ("flexibleVersions",)
        yield Violation("flexible-override-range", keys, text, 'stay within it, or write "none"')
    compact = flexible if own is None else own
    tagged = entry.tagged_versions
    if entry.tag is not None and tagged.open_ended and not compact.covers(tagged):
        text = f"taggedVersions {tagged} is not within flexibleVersions {compact}"
        mend = "tag the field only in flexible versions"
        yield Violation("tagged-in-flexible", ("taggedVersions", "flexibleVersions"), text, mend)
    live = sorted(str(versions) for versions in reach if not versions.empty)
    if entry.versions.empty:
        text = "a field in no version"
        yield Violation("versions-live", ("versions",), text, "give it versions, or leave it out")
    elif live and all(entry.versions.lowest > versions.highest for versions in reach):
        # A field that ended with versions since removed is as it should be.
        around = " or ".join(live)
        text = f"versions {entry.versions} begins after the versions around it, {around}"
        mend = f'write "{around}" or a part of it' if len(live) == 1 else "begin earlier"
        yield Violation("versions-live", ("versions",), text, mend)
    elif used and live and all((used.versions & versions).empty for versions in reach):
        text = f"no version of struct {_quote(used.name)} is left, of {used.versions}"
        yield Violation("struct-live", ("versions",), text, "leave the field out, with its struct")


def _struct_use_violations(
    message: Message, struct: str, entry: Field, reach: set[Versions]
) -> Iterator[Violation]:
    name = entry.type.element
    used = message.structs.get(name)
    if used is None:
        text = f"struct {_quote(name)} is not declared"
        mend = 'give the field "fields", or declare the struct under "commonStructs"'
        if name.lower() in PRIMITIVES:
            mend = f'write "{name.lower()}"'
        elif near := nearest(name, message.structs, 1):
            mend = f'write "{near[0]}", or {mend}'
        yield Violation("struct-known", ("type", "fields"), text, mend)
        return
    if name == message.name:
        text = f"struct {_quote(name)} has the name of the message"
        yield Violation("struct-name-message", ("type",), text, "rename the struct")
    if struct and _contains(message, name, struct):
        text = f"struct {_quote(struct)} contains itself"
        yield Violation("struct-not-recursive", ("type",), text, "break the cycle")
    around = {versions for versions in reach if not versions.empty}
    if not all(used.versions.covers(entry.versions & versions) for versions in around):
        text = f"versions {entry.versions} uses {_quote(name)}, which has only {used.versions}"
        mend = f'write "versions": "{entry.versions}" at the struct, or narrow the field'
        yield Violation("struct-versions", ("versions", "type"), text, mend)


def _contains(message: Message, outer: str, inner: str) -> bool:
    """Whether a value of struct ``outer`` holds one of struct ``inner`` at any depth, or is one."""
    seen, pending = set(), [outer]
    while pending:
        name = pending.pop()
        if name == inner:
            return True
        if name not in seen and name in message.structs:
            seen.add(name)
            pending += [f.type.element for f in message.structs[name].fields if f.type.struct]
    return False
