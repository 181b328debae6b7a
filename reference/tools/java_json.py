"""JSON as Kafka's tools print it (Jackson): escapes, doubles, names of record types."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any, Final

import msgspec

from kraftspec.fastpath.message import Message
from kraftspec.generated.kafka import ClientQuotaRecord

_ENCODER: Final = msgspec.json.Encoder()
_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ESCAPE: Final = re.compile(r"\\(?:u00([0-9a-f]{2})|.)")
_PLAIN_MIN, _PLAIN_MAX = 1e-3, 1e7  # Between them a double has no exponent.


def type_name(cls: type[Message]) -> str:
    """Return the name of a record in ``MetadataRecordType``: TopicRecord is TOPIC_RECORD."""
    return _WORD.sub("_", cls.__name__).upper()


def json_lines(values: list[Any]) -> list[str]:
    """Return each value as JSON, as Jackson prints it."""
    if not values:
        return []
    text = _ENCODER.encode_lines(values).decode()
    lines = text.split("\n")
    lines.pop()
    return [_upper(line) if "\\u00" in line else line for line in lines]


def json_text(value: Any) -> str:
    """Return a value as JSON, as Jackson prints it."""
    return json_lines([value])[0]


def _upper(text: str) -> str:
    return _ESCAPE.sub(
        lambda match: match[0] if match[1] is None else f"\\u00{match[1].upper()}", text
    )


def message_value(message: Message, version: int) -> dict[str, Any]:
    """Return a message as ``to_json`` does, a double as Java says it.

    The message was decoded at that version, and so encodes.
    """
    codec = message.CODEC
    value: dict[str, Any] = codec.tables.writer(codec.plans[version])(message)
    if isinstance(message, ClientQuotaRecord):  # The only record that has one.
        value["value"] = msgspec.Raw(double_text(message.value).encode())
    return value


def double_text(value: float) -> str:
    """Return a double as ``Double.toString`` does; what is not finite as a JSON string."""
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else f'"{"-" if value < 0 else ""}Infinity"'
    if value == 0 or _PLAIN_MIN <= abs(value) < _PLAIN_MAX:
        text = format(Decimal(repr(value)), "f")
        return text if "." in text else f"{text}.0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    whole, *rest = map(str, digits)
    shown = exponent + len(digits) - 1
    return f"{'-' if sign else ''}{whole}.{''.join(rest) or '0'}E{shown}"
