"""Which vectors concern another release of Kafka: those of what it has in the same form.

The vectors are of one release. The schemas of both releases decide, before anything is sent,
whether a vector concerns the other: it has the message in this version, with the same fields, and
it knows the absent field or the tag of another version that the vector is about. An answer never
decides it. What does not concern the release is skipped, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Self

import msgspec
from msgspec import UNSET

from kraftspec.codegen.diff import load_side
from kraftspec.codegen.model import Message
from kraftspec.codegen.plan import AbsentPlan, FieldPlan, StructPlan, plan_message
from kraftspec.codegen.releases import release_specs
from kraftspec.conformance.adapters.ours import BATCH
from kraftspec.conformance.runner.cases import Case
from kraftspec.conformance.runner.judge import Skipped
from kraftspec.conformance.vectors import KAFKA
from kraftspec.fastpath.wire import read_uvarint
from kraftspec.specs import kafka_release, specs_root

_INDEX: Final = re.compile(r"\[\d+\]")
_Pair = tuple[StructPlan, StructPlan]  # A struct of the vectors' release, and of the other one.


class OtherRelease:
    """A release of Kafka that the vectors are not of; ``it`` in the reasons."""

    def __init__(
        self, release: str, ours: Mapping[str, Message], theirs: Mapping[str, Message]
    ) -> None:
        """Take the messages of the vectors' release and those of ``release``, by name."""
        self._release = release
        self._ours = ours
        self._theirs = theirs
        self._plans = cache(self._plan)

    @classmethod
    def read(cls, release: str, made_by: str) -> Self:
        """Read the schemas of a release, and of the one that made the vectors.

        Raises ``ReleaseError`` where they cannot be had.
        """
        return cls(release, _messages(made_by), _messages(release))

    def skip(self, case: Case) -> Skipped | None:
        """Return why a case does not concern the release; None if it does."""
        reason = self._reason(case)
        return None if reason is None else Skipped(f"not of Kafka {self._release}: {reason}")

    def _reason(self, case: Case) -> str | None:
        refusal = None if case.test.error is UNSET else case.test.error.class_
        message = self._theirs.get(case.message)
        if case.spec != KAFKA:
            return "a draft"
        if case.message == BATCH:  # It has no schema.
            return None
        if refusal == "unknown_message":
            return None if message is None else "it has the message"
        if message is None:
            return "it has no such message"
        has_version = case.test.version in message.valid_versions
        if refusal == "unsupported_version":
            return "it has the version" if has_version else None
        if not has_version:
            return "it has no such version"
        pair = self._plans(case.message, case.test.version)
        difference = pair if isinstance(pair, str) else _named(case, refusal, pair)
        return None if difference is None else f"{case.message}: {difference}"

    def _plan(self, message: str, version: int) -> _Pair | str:
        """Return the top struct of both releases, or the first field that differs."""
        pair = (
            plan_message(self._ours[message], version).struct,
            plan_message(self._theirs[message], version).struct,
        )
        return _difference(pair, "") or pair


def _messages(release: str) -> dict[str, Message]:
    is_default = release == kafka_release()
    return load_side(str(specs_root() / KAFKA if is_default else release_specs(release)))


def _named(case: Case, refusal: str | None, pair: _Pair) -> str | None:
    """Return what the case is about and the version does not have, if it differs."""
    test = case.test
    if refusal == "tag_below_version":
        return _later_tag(test, pair)
    if case.direction == "encode" and test.value is not UNSET:
        return _absent(msgspec.json.decode(test.value), pair)
    return None


def _difference(pair: _Pair, path: str) -> str | None:
    """Return the first field that differs in name, bytes, nullability or tag.

    Names of structs may differ, and so may what the version does not have.
    """
    ours, theirs = pair
    if ours.flexible != theirs.flexible:
        return f"{path or 'the version'} is flexible in one of the releases"
    for mine, other in ((ours.fields, theirs.fields), (ours.tagged, theirs.tagged)):
        for one, same in zip(mine, other, strict=False):
            where = f"{path}{one.name}"
            if _wire(one) != _wire(same):
                return f"{where} is another field in it"
            inner = _structs(one, same)
            if inner is not None and (difference := _difference(inner, f"{where}.")) is not None:
                return difference
        if len(mine) != len(other):
            longer = mine if len(mine) > len(other) else other
            name = f"{path}{longer[min(len(mine), len(other))].name}"
            return f"{name} is {'not' if longer is mine else 'only'} in it"
    return None


def _wire(entry: FieldPlan) -> tuple[object, ...]:
    element = "struct" if isinstance(entry.element, StructPlan) else entry.element
    # Only a tagged field is left out where it has its default.
    default = None if entry.tag is None else repr(entry.default)
    return entry.name, entry.wire, entry.nullable, element, entry.tag, default


def _structs(one: FieldPlan, same: FieldPlan) -> _Pair | None:
    if isinstance(one.element, StructPlan) and isinstance(same.element, StructPlan):
        return one.element, same.element
    return None


def _inner(pair: _Pair) -> dict[str, _Pair]:
    """Return the structs below two that do not differ, by the name of the field."""
    ours, theirs = ((*struct.fields, *struct.tagged) for struct in pair)
    structs = ((one.name, _structs(one, same)) for one, same in zip(ours, theirs, strict=True))
    return {name: inner for name, inner in structs if inner is not None}


def _later_tag(test: Any, pair: _Pair) -> str | None:
    """Return the tag of another version that stands where the test is to be refused.

    None if both releases know the tag from other versions.
    """
    path = "" if test.error.path is UNSET else _INDEX.sub("", test.error.path)
    for name in filter(None, path.split(".")):
        pair = _inner(pair)[name]
    tag, _ = read_uvarint(bytes.fromhex(test.hex), test.error.offset)
    if tag in pair[1].later_tags:
        return None
    return f"{f'{path}: ' if path else ''}tag {tag} is in no version of it"


def _absent(value: Any, pair: _Pair) -> str | None:
    """Return a field that the value names, the version does not have, and that differs."""
    if isinstance(value, list):
        return next(filter(None, (_absent(element, pair) for element in value)), None)
    if not isinstance(value, dict):
        return None
    ours, theirs = ({entry.name: entry for entry in struct.absent} for struct in pair)
    for name in value.keys() & ours.keys():
        if name not in theirs:
            return f"{name} is in no version of it"
        if _rules(ours[name]) != _rules(theirs[name]):
            return f"{name} has another default in it, or is not ignored alike"
    inner = _inner(pair)
    below = (_absent(value[name], inner[name]) for name in value.keys() & inner.keys())
    return next(filter(None, below), None)


def _rules(entry: AbsentPlan) -> tuple[object, ...]:
    return entry.ignorable, repr(entry.default)
