"""What Apache Kafka lets pass though the protocol does not say so: one flag for each habit.

Where Kafka accepts what a strict reader refuses, the vector is ``acceptable`` and carries the flag.
A refusal of the class in the vector is as right as Kafka's own reading.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple

Op = Literal["encode", "decode"]
BUG_TYPE: Final = "policy"
_SOURCES: Final = "https://github.com/apache/kafka/blob/4.3.1/"
_CLIENTS: Final = f"{_SOURCES}clients/src/main/java/org/apache/kafka/common/"
_GENERATOR: Final = f"{_SOURCES}generator/src/main/java/org/apache/kafka/message/"


class Policy(NamedTuple):
    """A flag, what Kafka does, and where it does it."""

    flag: str
    description: str
    link: str


_ORDER: Final = Policy(
    "lax-tag-order",
    "Tags must ascend (KIP-482). Kafka reads them in any order, and a repeated one again.",
    f"{_GENERATOR}MessageDataGenerator.java",
)
_VARINT: Final = f"{_CLIENTS}utils/ByteUtils.java"
_BATCH: Final = f"{_CLIENTS}record/internal/DefaultRecordBatch.java"
_JSON: Final = f"{_CLIENTS}protocol/MessageUtil.java"

_EMPTY: Final = Policy(
    "lax-empty-batch",
    "Where a batch says that it has no records, Kafka looks at nothing but its head and its CRC: "
    "neither at the compression, nor at what follows.",
    _BATCH,
)

# By the class of the refusal. A class that is not here is refused by Kafka too.
DECODE: Final = {
    "trailing": Policy(
        "lax-trailing",
        "Kafka reads one message and leaves what follows; nobody looks whether anything does.",
        f"{_CLIENTS}requests/AbstractRequest.java",
    ),
    "negative_length": Policy(
        "lax-negative-length",
        "-1 is null. Kafka takes any other negative length for null too.",
        f"{_GENERATOR}MessageDataGenerator.java",
    ),
    "varint_overflow": Policy(
        "lax-varint-width",
        "A length is a Java int. Kafka drops the bits of a varint that one does not hold.",
        _VARINT,
    ),
    "non_minimal_varint": Policy(
        "lax-varint-padding",
        "A varint takes as few bytes as its value needs. Kafka reads one with leading zeros, up to "
        "the most bytes that a varint of its width takes.",
        _VARINT,
    ),
    "invalid_utf8": Policy(
        "lax-utf8",
        "Kafka puts U+FFFD where bytes are not UTF-8: what was written is lost.",
        f"{_CLIENTS}protocol/Readable.java",
    ),
    "invalid_boolean": Policy(
        "lax-boolean",
        "0 is false and 1 is true. Kafka takes any other byte for true.",
        f"{_CLIENTS}protocol/types/Type.java",
    ),
    "invalid_struct_marker": Policy(
        "lax-marker",
        "-1 or 1 say whether a nullable struct is there (0 or 1 in a tagged field). Kafka looks at "
        "the sign alone.",
        f"{_GENERATOR}MessageDataGenerator.java",
    ),
    "tag_out_of_order": _ORDER,
    "tag_duplicate": _ORDER,
    "tagged_size_mismatch": Policy(
        "lax-tag-size",
        "Kafka does not look at the size of a tagged field that it knows.",
        f"{_GENERATOR}MessageDataGenerator.java",
    ),
    "length_exceeds_input": Policy(
        "lax-tag-size",
        "Kafka does not look at the size of a tagged field that it knows.",
        f"{_GENERATOR}MessageDataGenerator.java",
    ),
    "offset_delta_disorder": Policy(
        "lax-offset-delta",
        "The offsets of a batch ascend up to its last one. Kafka's reader does not check it.",
        _BATCH,
    ),
    "unknown_compression": _EMPTY,
    "record_count_mismatch": _EMPTY,
}  # fmt: skip
ENCODE: Final = {
    "integer_out_of_range": Policy(
        "lax-json-int8",
        "Kafka's JSON converters take 128 to 256 for an int8 and subtract 128: 128 becomes 0.",
        _JSON,
    ),
    "field_not_in_version": Policy(
        "lax-json-field",
        "Kafka's JSON converters pass over fields that they do not know.",
        f"{_GENERATOR}JsonConverterGenerator.java",
    ),
    "tag_duplicate": Policy(
        "lax-tag-known",
        "Kafka writes an unknown tag under the number of a known field of type struct that holds "
        "its default; its own reader then reads it as that field.",
        f"{_CLIENTS}protocol/types/RawTaggedFieldWriter.java",
    ),
}
_BY_OP: Final[dict[Op, dict[str, Policy]]] = {"decode": DECODE, "encode": ENCODE}


def policy_of(op: Op, error_class: str) -> Policy | None:
    """Return the habit that lets a fault pass, where Kafka is known to have it."""
    return _BY_OP[op].get(error_class)


def notes_of(tests: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the notes on the policies that tests carry as flags."""
    used = {flag for test in tests for flag in test.get("flags", ())}
    known = {policy.flag: policy for of_op in _BY_OP.values() for policy in of_op.values()}
    return {
        flag: {
            "bugType": BUG_TYPE,
            "description": known[flag].description,
            "links": [known[flag].link],
        }
        for flag in sorted(used)
        if flag in known
    }
