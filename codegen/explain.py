"""Say everything that is wrong with a spec, each mistake once and at its place.

Three readers look at the text in turn: the recovering parser, JSON Schema and the rules of the
model. Whatever one of them refuses is mended in memory before the next looks, the way a person
would probably mend it, and what cannot be mended silences the rules that depend on it.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from typing import Any

import msgspec
from jsonschema import Draft202012Validator, validators

from kraftspec.codegen import jsonc
from kraftspec.codegen.build import Builder
from kraftspec.codegen.diagnostics import Diagnostic, Pointer, Violation
from kraftspec.codegen.model import Message
from kraftspec.codegen.raw.message import MessageSpec

ROUNDS_MAX = 8  # Each round mends mistakes that the last one uncovered; good specs nest far less.

# JSON Schema reports these too; the rules report them better.
_LEFT_TO_RULES = {"pattern", "minimum", "maximum"}
_ENUM_RULES = {
    "type": "message-type-known", "listeners": "listener-known", "entityType": "entity-type-known",
}  # fmt: skip
_PLACEHOLDERS = {
    "name": "Unknown", "type": "int32", "versions": "0+", "validVersions": "0",
}  # fmt: skip
_FIELD: dict[str, Any] = {"name": "Unknown", "type": "int32", "versions": "0+"}
_TYPE_NAMES = {
    "string": "a string", "integer": "an integer", "number": "a number", "boolean": "true or false",
    "array": "a list", "object": "an object", "null": "null",
}  # fmt: skip


@cache
def validator() -> Draft202012Validator:
    """Return the schema language as a validator of specs."""
    text = resources.files("kraftspec.specs").joinpath("message.schema.json").read_text("utf-8")
    # JSON Schema takes 1.0 for an integer; the models, and a reader of the spec, do not.
    types = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: _integer(value))
    strict: Any = validators.extend(  # type: ignore[no-untyped-call]  # its stubs lack types
        Draft202012Validator, type_checker=types
    )
    validate: Draft202012Validator = strict(json.loads(text))
    return validate


def _integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def explain(data: str | bytes, label: str) -> tuple[Message | None, list[Diagnostic]]:
    """Return the message of a text without mistakes, else None and all its mistakes by place."""
    text, diagnostics = _decoded(data, label)
    document = jsonc.parse(text, label)
    diagnostics += document.diagnostics
    message = None
    if document.root is not None:
        explainer = _Explainer(document)
        message = explainer.message()
        diagnostics += explainer.diagnostics
    unique = sorted(set(diagnostics))
    return (None if unique else message), unique


def _decoded(data: str | bytes, label: str) -> tuple[str, list[Diagnostic]]:
    diagnostics: list[Diagnostic] = []
    if isinstance(data, str):
        text = data
    else:
        text = data.decode("utf-8", "replace")
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            before = data[: error.start].decode("utf-8")
            line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
            message = f"the byte 0x{data[error.start]:02x} is not UTF-8 here"
            mend = "save the file as UTF-8"
            diagnostics = [Diagnostic(label, line, column, "json-encoding", message, mend)]
    if text.startswith("\ufeff"):
        message, mend = "the file begins with a byte order mark", "save it without one"
        diagnostics.append(Diagnostic(label, 1, 1, "json-encoding", message, mend))
        text = f" {text[1:]}"
    return text, diagnostics


class _Explainer:
    def __init__(self, document: jsonc.Document) -> None:
        assert document.root is not None
        self.document = document
        self.value: Any = document.root.plain()
        self.wrong = {pointer for pointer, node in document.nodes() if node.invalid}
        self.partial = {pointer for pointer, node in document.nodes() if node.partial}
        self.diagnostics: list[Diagnostic] = []
        self.renamed: dict[Pointer, str] = {}  # where a key was meant -> the key as written

    def message(self) -> Message | None:
        """Look for mistakes, mending as we go; return the message if there are none."""
        if self.wrong & {()}:
            return None
        for pointer in sorted(self.wrong, key=len):
            self.replace(pointer)
        for _ in range(ROUNDS_MAX):
            errors = list(_leaves(validator().iter_errors(self.value)))
            unknown = [error for error in errors if error.validator == "additionalProperties"]
            for error in unknown or errors:  # A misspelt key explains the missing one.
                self.schema_error(error)
            if not errors or not isinstance(self.value, dict):
                break
        try:
            raw = msgspec.convert(self.value, MessageSpec)
        except msgspec.ValidationError:
            return None
        builder = Builder(self.wrong)
        message = builder.message(raw)
        for pointer, violation in builder.violations:
            self.rule_broken(pointer, violation)
        return message

    def report(self, rule: str, place: tuple[int, int], message: str, mend: str) -> None:
        self.diagnostics.append(Diagnostic(self.document.label, *place, rule, message, mend))

    def place(self, pointer: Pointer, *, key: bool = False) -> tuple[int, int]:
        """Return line and column of a value in the text as it was before mending."""
        written = tuple(self.renamed.get(pointer[: i + 1], step) for i, step in enumerate(pointer))
        return self.document.place(written, key=key)

    # The rules.

    def rule_broken(self, pointer: Pointer, violation: Violation) -> None:
        if violation.rule in ("struct-known", "struct-shared") and self.struct_names_lost():
            return
        item = _at(self.value, pointer)
        if pointer in self.partial and not all(key in item for key in violation.keys):
            return  # What is missing may be in the part that cannot be read.
        key = next((key for key in violation.keys if key in item), None)
        place = self.place(pointer if key is None else (*pointer, key))
        self.report(
            violation.rule, place, self.subject(pointer) + violation.message, violation.mend
        )

    def struct_names_lost(self) -> bool:
        """Whether the name of a common struct could not be read."""
        lost = (pointer for pointer in self.wrong if pointer[:1] == ("commonStructs",))
        return any(pointer[2:] in ((), ("name",)) for pointer in lost)

    def subject(self, pointer: Pointer) -> str:
        """Return ``field "Topics.Partitions": `` for a pointer to or into that field."""
        names, node, last = [], self.value, ""
        for step in pointer:
            if isinstance(step, str) and step in ("fields", "commonStructs"):
                last = "struct" if step == "commonStructs" else "field"
            node = _step(node, step)
            if isinstance(node, dict):
                names.append(str(node.get("name", "?")))
        return f'{last} "{".".join(names)}": ' if names else ""

    # JSON Schema.

    def schema_error(self, error: Any) -> None:
        pointer: Pointer = tuple(error.absolute_path)
        if any(pointer[:length] in self.wrong for length in range(len(pointer) + 1)):
            return
        if error.validator == "additionalProperties":
            for key in sorted(set(error.instance) - set(error.schema["properties"])):
                self.unknown_key(pointer, key, list(error.schema["properties"]))
        elif error.validator == "required":
            for key in sorted(set(error.validator_value) - set(error.instance)):
                self.missing_key(pointer, key)
        elif error.validator == "enum" and isinstance(error.instance, str):
            self.not_in_enum(pointer, error)
        else:
            self.wrong_type(pointer, error)

    def unknown_key(self, pointer: Pointer, key: str, known: list[str]) -> None:
        meant = _nearest(key, known)
        item = _at(self.value, pointer)
        mend = f'write "{meant}"' if meant else f"leave it out, or use one of {', '.join(known)}"
        message = f'{self.subject(pointer)}there is no key "{key}"'
        self.report("key-known", self.place((*pointer, key), key=True), message, mend)
        value = item.pop(key)
        if meant and meant not in item:
            item[meant] = value
            self.renamed[*pointer, meant] = key
            if (*pointer, key) in self.wrong:
                self.wrong.add((*pointer, meant))

    def missing_key(self, pointer: Pointer, key: str) -> None:
        what = (
            "message"
            if not pointer
            else "struct"
            if pointer[-2:-1] == ("commonStructs",)
            else "field"
        )
        message = f'{self.subject(pointer)}the {what} has no "{key}"'
        if pointer not in self.partial:
            self.report("key-required", self.place(pointer), message, f'add "{key}"')
        self.wrong.add((*pointer, key))
        self.replace((*pointer, key))

    def not_in_enum(self, pointer: Pointer, error: Any) -> None:
        key = next(step for step in reversed(pointer) if isinstance(step, str))
        value, allowed = error.instance, list(error.validator_value)
        choice = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
        meant = "data" if (key, value) == ("type", "message") else _nearest(value, allowed)
        mend = f'write "{meant}"' if meant else f"use {choice}"
        if value == "zkBroker":
            mend = "leave it out: no broker of a supported release uses ZooKeeper"
        message = f'{self.subject(pointer)}"{value[:60]}" is no {_ENUM_WORDS[key]}'
        self.report(_ENUM_RULES[key], self.place(pointer), message, mend)
        self.wrong.add(pointer)
        self.replace(pointer)

    def wrong_type(self, pointer: Pointer, error: Any) -> None:
        expected = _expected(error)
        kind = " or ".join(_TYPE_NAMES[name] for name in expected)
        keys = [step for step in pointer if isinstance(step, str)]
        what = "a spec" if not keys else f'"{keys[-1]}"'
        if pointer and isinstance(pointer[-1], int):
            what = f'an element of "{keys[-1]}"'
        message = (
            f"{self.subject(pointer[:-1])}{what} should be {kind}, not {_type_name(error.instance)}"
        )
        mended = _coerced(error.instance, expected)
        mend = f"write {kind}" if mended is None else f"write {json.dumps(mended)}"
        self.report("value-type", self.place(pointer), message, mend)
        if mended is not None and pointer:
            _at(self.value, pointer[:-1])[pointer[-1]] = mended
            return
        self.wrong.add(pointer)
        self.replace(pointer)

    def replace(self, pointer: Pointer) -> None:
        """Put something harmless where a value is wrong."""
        if not pointer:
            self.value = None
            return
        around, key = _at(self.value, pointer[:-1]), pointer[-1]
        if isinstance(around, list):
            listed = pointer[-2] if len(pointer) > 1 else None
            struct: dict[str, Any] = {"fields": []} if listed == "commonStructs" else {}
            fields = listed in ("fields", "commonStructs")
            around[int(key)] = {**_FIELD, **struct} if fields else "broker"
        elif key == "type" and len(pointer) == 1:
            around[key] = "data"
        elif key == "fields" and pointer[:1] == ("commonStructs",):
            around[key] = []
        elif key in _PLACEHOLDERS:
            around[key] = _PLACEHOLDERS[str(key)]
        else:
            around.pop(key, None)


_ENUM_WORDS = {"type": "type of message", "listeners": "listener", "entityType": "entityType"}


def _leaves(errors: Iterable[Any]) -> Iterator[Any]:
    """Yield the errors a person can act on: of alternatives, those of the one that was meant."""
    for error in errors:
        if error.validator in _LEFT_TO_RULES:
            continue
        if error.validator != "anyOf":
            yield error
            continue
        branches: dict[int, list[Any]] = {}
        for inner in error.context or ():
            branches.setdefault(int(inner.relative_schema_path[0]), []).append(inner)
        meant = [
            inners
            for inners in branches.values()
            if not any(inner.validator == "type" and not inner.relative_path for inner in inners)
        ]
        if meant:
            yield from _leaves(meant[0])
        else:
            yield error


def _expected(error: Any) -> list[str]:
    """Return the JSON types that a schema allows at the place of an error."""
    if error.validator == "type":
        value = error.validator_value
        return [value] if isinstance(value, str) else list(value)
    if error.validator == "enum":
        return ["string"]
    names = []
    for inner in error.context or ():
        names += [name for name in _expected(inner) if name not in names]
    return names


def _coerced(value: Any, types: list[str]) -> Any:
    """Return the value in one of the types, if only one value can be meant."""
    if "string" in types and type(value) is int:
        return str(value)
    if "boolean" in types and value in ("true", "false"):
        return value == "true"
    if "integer" in types and isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value):
        return int(value)
    return None


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return json.dumps(value)
    for kind, name in ((str, "string"), (int, "integer"), (float, "number"), (list, "array")):
        if isinstance(value, kind):
            return _TYPE_NAMES[name]
    return "null" if value is None else "an object"


def _nearest(key: str, known: list[str]) -> str | None:
    same = [name for name in known if name.lower() == key.lower()]
    return next(iter(same or difflib.get_close_matches(key, known, n=1, cutoff=0.75)), None)


def _at(value: Any, pointer: Pointer) -> Any:
    for step in pointer:
        value = _step(value, step)
    return value


def _step(value: Any, step: str | int) -> Any:
    """Go one step down; an element of a list that is not one is the value itself."""
    if isinstance(value, dict):
        return value.get(step)
    return value[step] if isinstance(value, list) and isinstance(step, int) else None
