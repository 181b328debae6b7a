"""The properties that Apache Kafka 4.4.0 defines for a server, and the values that each takes.

``kafka_keys.json`` was written by Kafka's own classes (``KafkaConfig.configDef``): types, defaults,
bounds. ``Key.parse`` reads a value as ``ConfigDef`` does.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final, Literal

import msgspec

KEYS_FILE: Final = files("kraftspec.reference.node") / "kafka_keys.json"

Type = Literal["BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"]
Value = bool | int | float | str | tuple[str, ...]

_BITS: Final = {"SHORT": 16, "INT": 32, "LONG": 64}
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DOUBLE: Final = re.compile(
    r"[+-]?(NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)"
)
_COMMA: Final = re.compile(r"\s*,\s*", re.ASCII)
_JAVA_SPACES: Final = "".join(map(chr, range(33)))  # What java.lang.String.trim takes off.
_GZIP_LEVELS: Final = (-1, *range(1, 10))


class BadValueError(ValueError):
    """A value that a key does not take; the message says what it takes."""


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """What Kafka says of a property. ``default`` is as it would be written; None if there is none.

    ``rule`` names a validator that has no bounds to write down.
    """

    type: Type
    default: str | None = None
    required: bool = False
    internal: bool = False
    min: float | int | None = None
    max: float | int | None = None
    one_of: tuple[str, ...] = ()
    any_case: bool = False
    may_be_empty: bool = True
    unique: bool = False
    rule: str = ""

    def parse(self, text: str) -> Value:
        """Return what ``text`` means, as ``ConfigDef.parseType`` and the validators have it.

        A class is taken by its name alone. Raises BadValueError.
        """
        text = text.strip(_JAVA_SPACES)
        if self.type == "BOOLEAN":
            if text.lower() not in ("true", "false"):
                raise BadValueError(f"{shown(text)} is neither true nor false")
            return text.lower() == "true"
        if self.type in _BITS:
            return self._in_range(_integer(text, _BITS[self.type]))
        if self.type == "DOUBLE":
            if not _DOUBLE.fullmatch(text):
                raise BadValueError(f"{shown(text)} is no number")
            return self._in_range(float(text.rstrip("fFdD")))
        if self.type == "LIST":
            return self._list(tuple(_COMMA.split(text)) if text else ())
        self._check_word(text)
        return text

    def parse_default(self) -> Value | None:
        """Return what holds where the key is not set."""
        return None if self.default is None else self.parse(self.default)

    def _in_range(self, value: Value) -> Value:
        assert isinstance(value, int | float)
        if (self.min is not None and value < self.min) or (
            self.max is not None and value > self.max
        ):
            limits = f"at least {self.min}" if self.max is None else f"{self.min} to {self.max}"
            raise BadValueError(f"{value} is out of range: it must be {limits}")
        if "-1" in self.rule and value not in _GZIP_LEVELS:  # Of compression.gzip.level alone.
            raise BadValueError(f"{value} is out of range: it must be {self.rule}")
        return value

    def _list(self, values: tuple[str, ...]) -> tuple[str, ...]:
        if not values and not self.may_be_empty:
            raise BadValueError("it is empty, and at least one value is needed")
        if self.unique:  # What stands in it twice counts once.
            values = tuple(dict.fromkeys(values))
        for value in values:
            if self.unique and not value:
                raise BadValueError("a value between its commas is empty")
            if self.one_of:
                self._check_word(value)
        return values

    def _check_word(self, text: str) -> None:
        if not text and not self.may_be_empty:
            raise BadValueError("it is empty")
        word = text.upper() if self.any_case else text
        if self.one_of and word not in self.one_of:
            raise BadValueError(f"{shown(text)} is none of {', '.join(self.one_of)}")


def _integer(text: str, bits: int) -> int:
    if not _INTEGER.fullmatch(text):
        raise BadValueError(f"{shown(text)} is no whole number")
    limit = 1 << (bits - 1)
    # Longer digits than these are not even read: int() takes quadratic time.
    if len(text.lstrip("+-0")) > len(str(limit)) or not -limit <= int(text) < limit:
        raise BadValueError(f"{shown(text)} does not fit in {bits} bits")
    return int(text)


def shown(text: str, chars_max: int = 60) -> str:
    """Return a value for a message: quoted, escaped, and not longer than a line."""
    return repr(text if len(text) <= chars_max else text[:chars_max] + "…")


@cache
def kafka_keys() -> dict[str, Key]:
    """Return every property that Kafka defines, by its name."""
    return msgspec.json.decode(KEYS_FILE.read_bytes(), type=dict[str, Key])
