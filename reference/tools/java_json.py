"""JSON as Kafka's tools print it (Jackson): escapes, doubles, names of record types."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any, Final

import msgspec

from kraftspec.fastpath.message import Message
from kraftspec.fastpath.plan import Element, Layouts, is_default
from kraftspec.fastpath.types import Uuid
from kraftspec.fastpath.values import UNKNOWN_TAGS, in_order
from kraftspec.generated.kafka import ClientQuotaRecord

_ENCODER: Final = msgspec.json.Encoder()
_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ESCAPE: Final = re.compile(r"\\(?:u00([0-9a-f]{2})|.)")
_Write = Callable[[Any], dict[str, Any]]
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
    """Return a message as ``to_json`` does, a double as Java says it; lists may be tuples.

    The message is one that was decoded at that version: its values are not looked at again, which
    makes this three times as fast.
    """
    value = _writer(type(message), version)(message)
    if isinstance(message, ClientQuotaRecord):  # The only record that has a double.
        value["value"] = msgspec.Raw(double_text(message.value).encode())
    return value


@cache
def _writer(cls: type[Message], version: int) -> _Write:
    codec = cls.CODEC
    return _make_writer(codec.layouts, codec.structs, codec.plans[version])


def _make_writer(layouts: Layouts, structs: tuple[type, ...], index: int) -> _Write:
    """Return what makes a JSON object of a struct: all fields at once, then those that differ."""
    struct, _, fields, tagged, _, _ = layouts[index]
    order = in_order(structs[struct], fields, tagged)
    names = [name for _, name in order]
    kinds = {name: (attr, wire, element) for name, attr, wire, _, element in fields}
    kinds |= {name: (attr, wire, element) for _, name, attr, wire, _, element, _ in tagged}
    attributes = [kinds[name][0] for name in names]
    # Of a single name attrgetter gives no tuple; a struct without fields is one, too.
    get = attrgetter(*attributes, "__class__", "__class__")
    converted = []
    for name in names:
        _, wire, element = kinds[name]
        convert = _conversion(layouts, structs, wire.removeprefix("compact_"), element)
        if convert is not None:
            converted.append((name, convert))
    defaults = [(name, default) for _, name, _, _, _, _, default in tagged]

    def write(value: Any) -> dict[str, Any]:
        out = dict(zip(names, get(value), strict=False))
        for name, default in defaults:
            if is_default(out[name], default):
                del out[name]
        for name, convert in converted:
            given = out.get(name)
            if given is not None:
                out[name] = convert(given)
        unknown = getattr(value, "unknown_tagged_fields", ())
        if unknown:
            out[UNKNOWN_TAGS] = [{"tag": tag, "hex": payload.hex()} for tag, payload in unknown]
        return out

    return write


def _conversion(
    layouts: Layouts, structs: tuple[type, ...], kind: str, element: Element
) -> Callable[[Any], Any] | None:
    """Return what a value becomes before msgspec writes it; None where it is written as it is."""
    if isinstance(element, int):
        write = _make_writer(layouts, structs, element)
        return write if kind == "struct" else lambda items: [write(item) for item in items]
    if kind == "uuid":
        return _uuid_text
    if kind == "array" and element == "uuid":
        return lambda items: [_uuid_text(item) for item in items]
    return None  # Bytes become base64.


@lru_cache(maxsize=4096)
def _uuid_text(value: bytes) -> str:
    return str(Uuid(value))


def double_text(value: float) -> str:
    """Return a double as ``Double.toString`` does; what is not finite as a JSON string."""
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else f'"{"-" if value < 0 else ""}Infinity"'
    if value == 0 or _PLAIN_MIN <= abs(value) < _PLAIN_MAX:
        text = format(Decimal(repr(value)), "f")
        return text if "." in text else f"{text}.0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    if len(digits) == 1 and float(f"{value:.1e}") == value:  # Java has two digits at least.
        sign, digits, exponent = Decimal(f"{value:.1e}").normalize().as_tuple()
    assert isinstance(exponent, int)
    whole, *rest = map(str, digits)
    shown = exponent + len(digits) - 1
    return f"{'-' if sign else ''}{whole}.{''.join(rest) or '0'}E{shown}"
