"""The form in which mistakes in a spec are reported, and every rule that a spec can break.

Kafka's generator stops at the first mistake, with no place. Ours has for each mistake a place, a
rule, a sentence and a way to mend it. All mistakes of a file are reported at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Pointer = tuple[str | int, ...]  # Keys and indices from the root of a JSON text to a value.

RULES: dict[str, str] = {
    # The text.
    "file-readable": "A spec is a file that exists and can be read.",
    "file-name": "A file is called after the message in it: VoteRequest.json.",
    "message-name-unique": "No two messages of a set have one name, or names in one module.",
    "json-encoding": "A spec is UTF-8 without a byte order mark.",
    "json-space": "White space is spaces, tabs and line ends, none of the other Unicode blanks.",
    "json-comment": "Comments begin with // and end with the line; there are no others.",
    "json-comma": "Members and elements are separated by one comma, and none follows the last.",
    "json-colon": "A colon stands between a key and its value.",
    "json-key": "A member of an object begins with a key in double quotes.",
    "json-value": "A value is an object, array, string, number, true, false or null.",
    "json-number": "A number is decimal, without leading zeros or a plus sign.",
    "json-string": "A string ends on its line, in a double quote, and holds no control characters.",
    "json-escape": r"A backslash in a string is followed by \"\\/bfnrt, or u and four digits.",
    "json-unclosed": "Each { is closed by } and each [ by ], in order.",
    "json-unopened": "An object begins with { and a list with [.",
    "json-closed-early": "An object is closed after its last member.",
    "json-ellipsis": "Everything is written out; ... is not JSON.",
    "json-duplicate-key": "A key stands once in an object.",
    "json-trailing": "Nothing but comments follows the message.",
    "json-depth": "Objects and arrays nest at most 64 deep.",
    "json-empty": "A spec holds one JSON object.",
    # The grammar.
    "key-known": "A message, field or struct has no keys but those of the schema language.",
    "key-required": "The keys that each message, field or struct must have are there.",
    "value-type": "The value of each key is of the JSON type that the schema language gives it.",
    "api-key-range": "An apiKey is a 16-bit number that is not negative.",
    "message-type-known": "type is one of request, response, header, metadata, data, "
    "coordinator-key and coordinator-value.",
    "listener-known": "A listener is broker or controller.",
    "entity-type-known": "entityType is one of transactionalId, producerId, groupId, topicName "
    "and brokerId.",
    "versions-form": "A range of versions is N, A-B, A+ or none, of 16-bit numbers, low end first.",
    # Messages.
    "message-name": "A message has a capitalised name of letters and digits.",
    "api-key-required": "Requests, responses, metadata records and coordinator keys and values "
    "have an apiKey.",
    "valid-versions-end": "validVersions is not open-ended.",
    "flexible-versions-required": "flexibleVersions is given unless validVersions is none.",
    "flexible-versions-open": "flexibleVersions is none or open-ended.",
    "deprecated-versions-valid": "deprecatedVersions are among validVersions.",
    "listeners-request": "Only a request has listeners.",
    "unstable-request": "Only a request has latestVersionUnstable.",
    "coordinator-key-versions": "A coordinator-key has the one version 0.",
    "coordinator-key-flexible": "A coordinator-key has no flexible versions.",
    # Structs.
    "struct-name": "A struct has a capitalised name of letters and digits.",
    "struct-declared-once": "A struct is declared in one place.",
    "struct-common-inline": "A struct of commonStructs is not declared again by a field.",
    "struct-in-common": "A struct of commonStructs declares no structs inside it.",
    "struct-name-message": "A struct is not called like its message.",
    "struct-versions": "A struct has all versions in which fields use it.",
    "struct-live": "A struct has a version that its message has.",
    "struct-shared": "A struct that several fields use is declared in commonStructs.",
    "struct-known": "A struct that a field names is declared, by that field or in commonStructs.",
    "struct-not-recursive": "A struct does not contain itself.",
    "struct-fields": "Only a struct or an array of structs has fields.",
    # Fields.
    "field-name": "A field's name is a letter followed by letters and digits.",
    "field-name-unique": "No two fields of a struct have the same name, first letters of either "
    "case being the same.",
    "type-known": "A type is a primitive, a capitalised name of a struct, or [] and one of these.",
    "type-array-of-arrays": "The elements of an array are not arrays.",
    "records-array": "The elements of an array are not records.",
    "versions-required": "A field gives its versions; taggedVersions can stand for them, but not "
    "where the field declares a struct.",
    "versions-live": "A field begins in a version that its message, and the struct it is in, have.",
    "nullable-type": "Only strings, bytes, records, structs and arrays can be null.",
    "tag-range": "A tag is a number from 0 to 2147483647.",
    "tag-needs-versions": "A field with a tag has taggedVersions.",
    "tagged-needs-tag": "A field with taggedVersions has a tag.",
    "tag-unique": "No two fields of a struct have the same tag.",
    "tag-contiguous": "The tags of a struct count from 0 without a gap.",
    "tagged-open": "taggedVersions is open-ended.",
    "tagged-in-versions": "taggedVersions lies within the versions of the field.",
    "tagged-in-flexible": "taggedVersions lies within the flexible versions.",
    "tagged-nullable": "Either all tagged versions of a field are nullable, or none is.",
    "tagged-records": "A field of type records is not tagged.",
    "map-key-top": "A field at the top level of a message is not a mapKey.",
    "map-key-tagged": "A tagged field is not a mapKey.",
    "flexible-override-type": "Only a field of type string or bytes has flexibleVersions of its "
    "own.",
    "flexible-override-range": "The flexibleVersions of a field lie within the message's.",
    "zero-copy-type": "Only a field of type bytes is zeroCopy.",
    "entity-type": "The type of a field is the one that its entityType goes with.",
    # Defaults.
    "default-form": "A default is written as its type asks: a number, true or false, a uuid.",
    "default-range": "A default lies within the range of its type.",
    "default-empty": "bytes, records, arrays and structs have no default but empty and null.",
    "default-null": "Only a field that is nullable in all its versions has the default null.",
}


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule inside one object of a spec; its line is not known yet.

    ``keys`` are the JSON keys that the rule looks at; the first says where the mistake is shown,
    and a mistake already found in any of them silences this one.
    """

    rule: str
    keys: tuple[str, ...]
    message: str
    mend: str
    struct: str = ""  # Set by Message: the struct whose field it is, "" for the top level.
    index: int | None = None  # Set by Struct and Message: which of its fields.


class RuleErrors(ValueError):  # noqa: N818 - it carries many
    """A constructor of the model refused its arguments. ``value`` is what it would have made."""

    def __init__(self, violations: Iterable[Violation], value: object = None) -> None:
        self.violations = tuple(violations)
        self.value = value
        super().__init__("; ".join(f"{b.message} [{b.rule}]" for b in self.violations))


@dataclass(frozen=True, slots=True, order=True)
class Diagnostic:
    """One mistake at one place. ``str()`` is one line: ``path:line:col: message [rule]; mend``."""

    path: str
    line: int  # 1-based
    column: int  # 1-based, in characters
    rule: str
    message: str
    mend: str

    def __str__(self) -> str:
        text = f"{self.path}:{self.line}:{self.column}: {self.message} [{self.rule}]; {self.mend}"
        return printable(text)


class SpecErrors(Exception):  # noqa: N818 - it carries many
    """A spec has mistakes; ``diagnostics`` lists them all, in order of place."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(map(str, self.diagnostics)))


def printable(text: str) -> str:
    """Return the text with all characters escaped that could break its line or encoding."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
