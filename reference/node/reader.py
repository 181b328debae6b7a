"""A properties file as it is read: where each property stands, and everything that is wrong.

What is wrong is collected, not raised: all of it is told at once, each with its line.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final, NamedTuple

from kraftspec.reference.log.properties import read_properties
from kraftspec.reference.node.keys import BadValueError, Key, kafka_keys
from kraftspec.reference.node.settings import ConfigError, ConfigWarning

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kraftspec.reference.node.keys import Value

FILE_BYTES_MAX: Final = 4 << 20  # Certificates may stand in it; nobody writes more by hand.
PROPERTY_COUNT_MAX: Final = 2_000  # Kafka defines 360.
# Of any known property one letter that is missing, doubled or swapped is found; see the tests.
LIKENESS_MIN: Final = 0.85
NAME_LIKENESS_MIN: Final = 0.6  # Of the few names that a file itself has: difflib's own.

# Kafka's own, though KafkaConfig does not define them: the authorizer reads them.
OTHER_KEYS: Final = {
    "super.users": Key(type="STRING", default=""),
    "allow.everyone.if.no.acl.found": Key(type="BOOLEAN", default="false"),
}
LISTENER_PREFIX: Final = "listener.name."
# What a mechanism's name may stand before, as in listener.name.x.plain.sasl.jaas.config.
OF_MECHANISM: Final = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "sasl.server.max.receive.size",
    "connections.max.reauth.ms",
)
MECHANISM_PREFIXES: Final = ("plain", "scram-sha-256", "scram-sha-512", "gssapi", "oauthbearer")
ZOOKEEPER: Final = "zookeeper."


class Entry(NamedTuple):
    """A property as it stands in the file."""

    line: int
    value: str


def known_keys() -> dict[str, Key]:
    """Return every property that a controller of Kafka reads, without prefixes."""
    return kafka_keys() | OTHER_KEYS


class Reader:
    """The properties of one file. Each one that is asked for counts as used.

    ``keys`` are those that there are, by ``owner``; ``assumed`` what holds of some that the file
    does not set, as it would be written.
    """

    def __init__(
        self, path: str, entries: dict[str, Entry], keys: dict[str, Key] | None = None
    ) -> None:
        self.path = path
        self.entries = entries
        self.keys = keys or known_keys()
        self.owner = "Kafka"
        self.assumed: dict[str, str] = {}
        self.mistakes: list[tuple[int, str]] = []
        self.warnings: list[tuple[int, ConfigWarning]] = []
        self.used: set[str] = set()
        self._judged: set[str] = set()
        self._wrong: set[str] = set()

    @classmethod
    def open(cls, path: Path, keys: dict[str, Key] | None = None) -> Reader:
        """Read a file; ConfigError where it is none, too large, or no properties file."""
        try:
            with path.open("rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
        except OSError as error:
            raise ConfigError([f"{path}: {error.strerror or error}"]) from error
        if len(data) > FILE_BYTES_MAX:
            raise ConfigError([f"{path}: it has more than {FILE_BYTES_MAX} bytes"])
        if b"\0" in data:
            raise ConfigError([f"{path}: it has zero bytes: it is no properties file"])
        reader = cls(str(path), {}, keys)
        try:
            for line, key, value in read_properties(data.decode("latin-1")):
                if key in reader.entries:
                    before = reader.entries[key].line
                    reader.warn(key, f"stands in line {before}, too; this one counts", line)
                reader.entries[key] = Entry(line, value)
        except ValueError as error:
            raise ConfigError([f"{path}: {error}"]) from error
        if len(reader.entries) > PROPERTY_COUNT_MAX:
            raise ConfigError([f"{path}: it has more than {PROPERTY_COUNT_MAX} properties"])
        return reader

    # ---- what is wrong -------------------------------------------------------------------------

    def where(self, key: str) -> str:
        """Return file:line of a property, the file alone where it does not stand in it."""
        entry = self.entries.get(key)
        return self.path if entry is None else f"{self.path}:{entry.line}"

    def mistake(self, key: str, text: str) -> None:
        """Note that a property is wrong: what, and what to do."""
        self._wrong.add(key)
        line = self.entries[key].line if key in self.entries else 0
        mistake = (line, f"{self.where(key)}: {key}: {text}")
        if mistake not in self.mistakes:
            self.mistakes.append(mistake)

    def warn(self, key: str, text: str, line: int | None = None) -> None:
        """Note that a property does not do what it does in Kafka."""
        entry = self.entries.get(key)
        at = line if line is not None else entry.line if entry is not None else 0
        where = f"{self.path}:{at}" if at else self.path
        self.warnings.append((at, ConfigWarning(where, key, text)))

    def said_warnings(self) -> tuple[ConfigWarning, ...]:
        """Return the warnings in the order of their lines."""
        return tuple(warning for _, warning in sorted(self.warnings, key=lambda noted: noted[0]))

    def is_wrong(self, *keys: str) -> bool:
        """Whether a mistake was noted in any of them."""
        return any(key in self._wrong for key in keys)

    def refuse(self) -> None:
        """Raise ConfigError if anything was wrong."""
        if self.mistakes:
            raise ConfigError(text for _, text in sorted(self.mistakes))

    # ---- values --------------------------------------------------------------------------------

    def has(self, key: str) -> bool:
        """Whether it stands in the file."""
        return key in self.entries

    def value(self, key: str, base: str | None = None) -> Value | None:
        """Return what a property says, or its default; a bad value is noted and gives the default.

        ``base`` is the name by which Kafka defines it, where ``key`` has a prefix.
        """
        self.used.add(key)
        known = self.keys[base or key]
        entry = self.entries.get(key)
        if entry is None:
            if key in self.assumed:
                return known.parse(self.assumed[key])
            if known.required:
                self._judge(key, f"it is missing, and {self.owner} needs it")
            return known.parse_default()
        try:
            return known.parse(entry.value)
        except BadValueError as error:
            self._judge(key, str(error))
            return known.parse_default()

    def _judge(self, key: str, text: str) -> None:
        if key not in self._judged:
            self._judged.add(key)
            self.mistake(key, text)

    def integer(self, key: str) -> int:
        """Return a whole number that has a default."""
        value = self.value(key)
        return value if isinstance(value, int) else 0

    def text(self, key: str, base: str | None = None) -> str:
        """Return a string; empty where it is not set and has no default."""
        value = self.value(key, base)
        return value if isinstance(value, str) else ""

    def words(self, key: str, base: str | None = None) -> tuple[str, ...]:
        """Return a list."""
        value = self.value(key, base)
        return value if isinstance(value, tuple) else ()

    def flag(self, key: str) -> bool:
        """Return a boolean."""
        return self.value(key) is True

    # ---- the rest of the file ------------------------------------------------------------------

    def judge_rest(self, ignored: str) -> None:
        """Judge what nobody asked for: bad values, unknown names, names that are nearly known."""
        for key in self.entries:
            if key in self.used:
                continue
            base = base_key(key)
            prefix = key.removesuffix(base)
            if prefix != prefix.lower():
                self.mistake(
                    key, f"{self.owner} looks for it in lower case: write {prefix.lower()}{base}"
                )
                continue
            if base in self.keys:
                count = len(self.mistakes)
                self.value(key, base)
                if len(self.mistakes) == count:
                    self.warn(key, ignored)
            else:
                self._judge_unknown(key)

    def _judge_unknown(self, key: str) -> None:
        near = nearest(key, self.keys)
        if near is not None:
            self.mistake(key, f"{self.owner} has no such property; did you mean {near}?")
        elif key.startswith(ZOOKEEPER):
            self.warn(key, "Kafka has no ZooKeeper any more; it is ignored")
        else:
            self.warn(key, f"{self.owner} has no such property; it is ignored")


def base_key(key: str) -> str:
    """Return a property without ``listener.name.x.`` and a mechanism's name."""
    if key.startswith(LISTENER_PREFIX):
        _, dot, rest = key.removeprefix(LISTENER_PREFIX).partition(".")
        key = rest if dot else key
        head, _, tail = key.partition(".")
        if head in MECHANISM_PREFIXES and tail in OF_MECHANISM:
            return tail
    return key


def nearest(key: str, keys: Iterable[str] | None = None) -> str | None:
    """Return the known property that ``key`` probably means, None where there is none."""
    base = base_key(key)
    match = closest(base.lower(), keys or known_keys(), LIKENESS_MIN)
    return None if match is None else key.removesuffix(base) + match


def closest(word: str, words: Iterable[str], likeness_min: float) -> str | None:
    """Return the one of ``words`` that is most like ``word``; None if none is."""
    matches = difflib.get_close_matches(word[:200], list(words), 1, likeness_min)
    return matches[0] if matches else None


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return the end of a message about ``word`` that none of ``words`` is."""
    names = sorted(words)
    by_upper = {name.upper(): name for name in names}
    near = by_upper.get(word.upper()) or closest(word.upper(), names, NAME_LIKENESS_MIN)
    return f"; did you mean {near}?" if near else f"; there is {', '.join(names) or 'none'}"
