"""The schema language as a small frozen model: a value of these types is a valid spec.

Constructors refuse what the rules forbid (``RuleErrors`` lists every breach at once), so nothing
downstream checks again. Source of the rules: ``org.apache.kafka.message.{MessageSpec,FieldSpec}``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kraftspec.codegen.versions import NONE, Versions

MessageType = Literal[
    "request", "response", "header", "metadata", "data", "coordinator-key", "coordinator-value"
]
# A default as the wire sees it: None is null, () an empty array, {} a struct of defaults.
Default = bool | int | float | str | bytes | tuple[()] | dict[str, object] | None

PRIMITIVES = (
    "bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64",
    "uuid", "string", "bytes", "records",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FieldType:
    """``int32``, ``[]string``, ``TopicData``, ``[]TopicData``: an element and whether it repeats."""

    element: str  # one of PRIMITIVES, or the name of a struct
    array: bool = False

    @property
    def struct(self) -> bool:
        """Whether the element is a struct."""
        return self.element not in PRIMITIVES

    def __str__(self) -> str:
        return f"[]{self.element}" if self.array else self.element


@dataclass(frozen=True, slots=True)
class Field:
    """One field, with its ranges as written (not yet cut to the message's own versions)."""

    name: str
    type: FieldType
    versions: Versions
    nullable_versions: Versions = NONE
    tagged_versions: Versions = NONE
    tag: int | None = None
    default: Default = None
    ignorable: bool = False
    map_key: bool = False
    entity_type: str | None = None
    about: str = ""
    flexible_versions: Versions | None = None  # None: as the message
    zero_copy: bool = False


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct: top level of a message, inline (``fields`` of a field) or common."""

    name: str
    versions: Versions
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """A whole spec. ``structs`` holds every struct but the top one, by name, in order of first use."""

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
