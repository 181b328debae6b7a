"""Values of TLA+ as TLC prints them, as values of Python."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from typing import Any

# A number, a string, a truth value, a model value (its name), a sequence, a set or a function. A
# record is a function of strings.
Value = Any

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|<<|>>|\|->|:>|@@|/\\|-?\d+|\w+|[\[\]{}(),=])')


class Function(Mapping[Hashable, Value]):
    """A function or a record; one that cannot be changed, and may be in a set."""

    def __init__(self, values: Mapping[Hashable, Value]) -> None:
        self._values = dict(values)

    def __getitem__(self, key: Hashable) -> Value:
        return self._values[key]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and self._values == dict(other)

    def __repr__(self) -> str:
        return f"Function({self._values!r})"


def parse(text: str) -> Value:
    """Return the value that a text is. Raises ``ValueError``."""
    reader = _Reader(text)
    value = reader.value()
    reader.end()
    return value


def parse_state(text: str) -> dict[str, Value]:
    r"""Return the variables of a state, of which TLC prints each as ``/\ name = value``."""
    reader = _Reader(text)
    state = {}
    while reader.next_is("/\\"):
        reader.take("/\\")
        name = reader.take()
        reader.take("=")
        state[name] = reader.value()
    reader.end()
    return state


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        if _TOKEN.sub("", text).strip():
            raise ValueError(f"no value of TLA+: {text[:60]}")
        self._at = 0

    def next_is(self, token: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at] == token

    def take(self, expected: str = "") -> str:
        if self._at == len(self._tokens) or expected not in ("", self._tokens[self._at]):
            raise ValueError(f"no {expected or 'value'} at token {self._at}")
        self._at += 1
        return str(self._tokens[self._at - 1])

    def end(self) -> None:
        if self._at != len(self._tokens):
            raise ValueError(f"{self._tokens[self._at]} where a value has ended")

    def value(self) -> Value:
        token = self.take()
        if token == "<<":
            return tuple(self._list(">>"))
        if token == "{":
            return frozenset(self._list("}"))
        if token == "[":
            return self._record()
        if token == "(":
            return self._function()
        if token[0] == '"':
            return token[1:-1]
        if token in ("TRUE", "FALSE"):
            return token == "TRUE"
        return int(token) if token.lstrip("-").isdigit() else token

    def _list(self, end: str) -> list[Value]:
        values = []
        while not self.next_is(end):
            values.append(self.value())
            if not self.next_is(end):
                self.take(",")
        self.take(end)
        return values

    def _record(self) -> Function:
        fields: dict[Hashable, Value] = {}
        while not self.next_is("]"):
            name = self.take()
            self.take("|->")
            fields[name] = self.value()
            if not self.next_is("]"):
                self.take(",")
        self.take("]")
        return Function(fields)

    def _function(self) -> Function:
        values: dict[Hashable, Value] = {}
        while not self.next_is(")"):
            argument = self.value()
            self.take(":>")
            values[argument] = self.value()
            if not self.next_is(")"):
                self.take("@@")
        self.take(")")
        return Function(values)
