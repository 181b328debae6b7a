"""From the raw typed model to the frozen one: each rule is kept where its subject is made.

The builder goes on after a mistake with the nearest thing that makes sense, so that one pass finds
all of them, and keeps silent about what only follows from a mistake already found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar, cast

from msgspec import UNSET, UnsetType

from kraftspec.codegen.diagnostics import Pointer, RuleErrors, Violation
from kraftspec.codegen.model import Field, FieldType, Message, Struct, parse_default
from kraftspec.codegen.raw.message import FieldSpec, MessageSpec, StructSpec
from kraftspec.codegen.versions import NONE, VERSION_MAX, Versions

T = TypeVar("T")
_ANY = Versions(0, VERSION_MAX)  # In place of a range that cannot be parsed.
_UNREADABLE = FieldType("int32")  # In place of a type that cannot be parsed.
_TAG = re.compile(r"[0-9]{1,10}")


@lru_cache(maxsize=4096)
def _parse_range(text: str) -> Versions:
    return Versions.parse(text)


class Builder:
    """Builds one message. ``violations`` has every broken rule, with the pointer of its object.

    ``wrong`` has the pointers of values that are known to be wrong: what depends on them is not
    reported again. ``names`` gives the dotted name of each field by its pointer.
    """

    def __init__(self, wrong: Iterable[Pointer] = ()) -> None:
        self.violations: list[tuple[Pointer, Violation]] = []
        self.wrong = set(wrong)
        self.names: dict[Pointer, str] = {}
        self._structs: dict[str, Struct] = {}
        self._places: dict[str, list[Pointer]] = {}  # struct -> the pointers of its fields
        self._declared_by: dict[str, str] = {}  # struct -> what declares it, in words
        self._common: set[str] = set()
        self._uses: list[tuple[Pointer, str]] = []  # fields whose struct is declared elsewhere

    def message(self, raw: MessageSpec) -> Message:
        """Return the message; a valid one only if ``violations`` is empty after it."""
        valid = self._range(raw.valid_versions, (), "validVersions", NONE)
        flexible = self._range(raw.flexible_versions, (), "flexibleVersions", NONE)
        if raw.flexible_versions is UNSET and not valid.empty:
            mend = 'add "flexibleVersions": "0+" to a new message, "none" to one that never is'
            keys = ("flexibleVersions",)
            text = "flexibleVersions is missing"
            self._note((), Violation("flexible-versions-required", keys, text, mend))
            flexible = _ANY
        commons = _items(raw.common_structs, ("commonStructs",))
        self._common = {common.name for _, common in commons}
        for path, common in commons:
            self._common_struct(common, path)
        fields = _items(raw.fields, ("fields",))
        self._places[""] = [path for path, _ in fields]
        top = self._struct(raw.name, valid, fields, "", ())
        self._check_uses()
        if valid.empty:  # Then nothing of it is ever on the wire.
            top = self._built((), lambda: Struct(raw.name, NONE, ()))
            self._structs, flexible = {}, NONE
        return self._built(
            (),
            lambda: Message(
                name=raw.name,
                type=raw.type,
                api_key=None if raw.api_key is UNSET else raw.api_key,
                valid_versions=valid,
                flexible_versions=flexible,
                top=top,
                deprecated_versions=self._range(
                    raw.deprecated_versions, (), "deprecatedVersions", NONE
                ),
                listeners=_listeners(raw),
                latest_version_unstable=raw.latest_version_unstable is True,
                structs=_in_order_of_use(top, self._structs),
            ),
        )

    def _struct(
        self,
        name: str,
        versions: Versions,
        fields: list[tuple[Pointer, FieldSpec]],
        prefix: str,
        path: Pointer,
    ) -> Struct:
        """Build a struct; ``prefix`` begins the dotted names of its fields."""
        places = [place for place, _ in fields]
        built = tuple(self._field(entry, place, prefix) for place, entry in fields)
        return self._built(path, lambda: Struct(name, versions, built), places)

    def _common_struct(self, raw: StructSpec, path: Pointer) -> None:
        self.names[path] = raw.name
        versions = self._range(raw.versions, path, "versions", _ANY)
        fields = _items(raw.fields, (*path, "fields"))
        first = self._declare(raw.name, path, "name", fields, "commonStructs")
        struct = self._struct(raw.name, versions, fields, f"{raw.name}.", path)
        if first:
            self._structs[raw.name] = struct

    def _field(self, raw: FieldSpec, path: Pointer, prefix: str) -> Field:
        name = f"{prefix}{raw.name}"
        self.names[path] = name
        kind = self._type(raw, path)
        tagged = self._range(raw.tagged_versions, path, "taggedVersions", NONE)
        versions = self._range(raw.versions, path, "versions", tagged)
        if raw.versions is UNSET and (tagged.empty or raw.fields is not UNSET):
            text = "its versions are missing"
            if not tagged.empty:
                text += ", and a field that declares a struct cannot go without them"
            mend = f'add "versions": "{"0+" if tagged.empty else tagged}" or what else is meant'
            self._note(path, Violation("versions-required", ("versions", "name"), text, mend))
            versions = _ANY if tagged.empty else tagged
        if raw.fields is not UNSET or kind.struct:
            self._inline_struct(raw, kind, versions, path)
        try:
            default = parse_default(kind, None if raw.default is UNSET else raw.default)
        except RuleErrors as errors:
            if raw.default != "null" or raw.nullable_versions is UNSET:
                # Where both keys take a number for nullable, that is one mistake.
                self._note(path, *errors.violations)
            self.wrong.add((*path, "default"))
            default = kind.zero
        overridden = raw.flexible_versions is not UNSET
        return self._built(
            path,
            lambda: Field(
                name=raw.name,
                type=kind,
                versions=versions,
                nullable_versions=self._range(
                    raw.nullable_versions, path, "nullableVersions", NONE
                ),
                tagged_versions=tagged,
                tag=self._tag(raw.tag, path),
                default=default,
                ignorable=raw.ignorable is True,
                map_key=raw.map_key is True,
                entity_type=None if raw.entity_type in (UNSET, "unknown") else raw.entity_type,
                about="" if raw.about is UNSET else raw.about,
                flexible_versions=self._range(raw.flexible_versions, path, "flexibleVersions", NONE)
                if overridden
                else None,
                zero_copy=raw.zero_copy is True,
            ),
        )

    def _inline_struct(
        self, raw: FieldSpec, kind: FieldType, versions: Versions, path: Pointer
    ) -> None:
        """Declare the struct that a field's ``fields`` describe, or keep that it is used."""
        if raw.fields is UNSET:
            self._uses.append((path, kind.element))
            return
        if not kind.struct:
            text = f"a field of type {kind} cannot have fields"
            mend = 'name a struct in "type", or leave "fields" out'
            self._note(path, Violation("struct-fields", ("fields", "type"), text, mend))
        name, element = self.names[path], kind.element if kind.struct else "Unreadable"
        fields = _items(raw.fields, (*path, "fields"))
        first = False
        if path[0] == "commonStructs" and kind.struct:
            text = f'struct "{element}" is declared inside a common struct'
            mend = 'declare it under "commonStructs" too, and leave "fields" out here'
            self._note(path, Violation("struct-in-common", ("fields", "type"), text, mend))
        elif kind.element in self._common:
            text = f'struct "{element}" is declared in commonStructs and again here'
            mend = 'leave "fields" out here, or rename one of the two'
            self._note(path, Violation("struct-common-inline", ("fields", "type"), text, mend))
        elif kind.struct:
            first = self._declare(element, path, "type", fields, f'field "{name}"')
        struct = self._struct(element, versions, fields, f"{name}.", path)
        if first:
            self._structs[element] = struct

    def _declare(
        self,
        name: str,
        path: Pointer,
        key: str,
        fields: list[tuple[Pointer, FieldSpec]],
        by: str,
    ) -> bool:
        """Take a struct's name, and return whether it was free."""
        if name in self._declared_by:
            text = f'struct "{name}" is declared twice'
            mend = (
                "leave one of the two out"
                if key == "name"
                else 'declare it once under "commonStructs", and leave "fields" out'
            )
            self._note(path, Violation("struct-declared-once", (key,), text, mend))
            return False
        self._declared_by[name] = by
        self._places[name] = [place for place, _ in fields]
        return True

    def _check_uses(self) -> None:
        """Reject a second use of an inline struct; Message rejects an undeclared one."""
        for path, name in self._uses:
            if name in self._structs and name not in self._common:
                text = f'struct "{name}" is declared inside {self._declared_by[name]}'
                mend = 'to use it twice, declare it under "commonStructs"'
                self._note(path, Violation("struct-shared", ("type",), text, mend))

    def _type(self, raw: FieldSpec, path: Pointer) -> FieldType:
        try:
            return FieldType.parse(raw.type)
        except RuleErrors as errors:
            self._note(path, *errors.violations)
            return _UNREADABLE

    def _range(self, text: str | UnsetType, path: Pointer, key: str, missing: Versions) -> Versions:
        if isinstance(text, UnsetType):
            return missing
        try:
            return _parse_range(text)
        except ValueError as error:
            text, mend = str(error).split(": ", 1)
            self._note(path, Violation("versions-form", (key,), text, mend))
            return _ANY

    def _tag(self, tag: int | str | UnsetType, path: Pointer) -> int | None:
        if isinstance(tag, UnsetType):
            return None
        if isinstance(tag, int) or _TAG.fullmatch(tag):
            return int(tag)
        mend = "write the next free number of the struct"
        self._note(path, Violation("tag-range", ("tag",), f'"{tag[:60]}" is not a tag', mend))
        return None

    def _built(
        self, path: Pointer, make: Callable[[], T], places: list[Pointer] | None = None
    ) -> T:
        """Return a value; if it is rejected, note why and return it as it would have been."""
        try:
            return make()
        except RuleErrors as errors:
            by_path: dict[Pointer, list[Violation]] = {}
            for violation in errors.violations:
                if violation.index is not None:
                    fields = self._places[violation.struct] if places is None else places
                    by_path.setdefault(fields[violation.index], []).append(violation)
                elif violation.rule != "struct-name" or path:
                    # The top struct has the name of the message; Message reports that.
                    by_path.setdefault(path, []).append(violation)
            for place, violations in by_path.items():
                self._note(place, *violations)
            return cast(T, errors.value)

    def _note(self, path: Pointer, *violations: Violation) -> None:
        """Keep violations of one check, unless a key that they concern is wrong already."""
        fresh = [
            violation
            for violation in violations
            if self.wrong.isdisjoint([path, *((*path, key) for key in violation.keys)])
        ]
        self.violations += [(path, violation) for violation in fresh]
        self.wrong.update((*path, violation.keys[0]) for violation in fresh)


def _items(value: list[T] | T | UnsetType, path: Pointer) -> list[tuple[Pointer, T]]:
    """Return the elements of a list with their pointers; a single value is a list of one."""
    if isinstance(value, UnsetType):
        return []
    if isinstance(value, list):
        return [((*path, index), item) for index, item in enumerate(value)]
    return [(path, value)]


def _listeners(raw: MessageSpec) -> tuple[str, ...]:
    if isinstance(raw.listeners, UnsetType):
        return ()
    return tuple(raw.listeners) if isinstance(raw.listeners, list) else (raw.listeners,)


def _in_order_of_use(top: Struct, structs: dict[str, Struct]) -> dict[str, Struct]:
    """Return the structs as a reader of the fields meets them, depth first, unused ones last."""
    ordered: dict[str, Struct] = {}

    def visit(struct: Struct) -> None:
        for entry in struct.fields:
            name = entry.type.element
            if name in structs and name not in ordered:
                ordered[name] = structs[name]
                visit(structs[name])

    visit(top)
    return ordered | structs
