"""The parts of a campaign: a kind of work, its units, and their results as Arrow tables."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, TypeVar

import msgspec
import pyarrow as pa

# A row is a ``tally`` (a number of cases with one outcome), a ``finding``, or the ``unit`` itself;
# its count is the sum of its tallies. The first column is added by the store.
RESULTS: Final = pa.schema(
    [
        pa.field("unit", pa.string(), nullable=False),
        pa.field("row", pa.string(), nullable=False),
        pa.field("adapter", pa.string(), nullable=False),
        pa.field("set", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
        pa.field("version", pa.int32(), nullable=False),
        # The operation: encode, decode, or the reader of the bytes.
        pa.field("entry", pa.string(), nullable=False),
        # The outcome; each kind has its own names.
        pa.field("class", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("seconds", pa.float64()),  # Of a unit alone.
        # Only of a finding: its id, title, detail, smallest example, and command to reproduce it.
        pa.field("signature", pa.string()),
        pa.field("title", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("example", pa.string()),
        pa.field("reproduce", pa.string()),
    ]
)


class Unit(msgspec.Struct, frozen=True):
    """A piece of work: its number, its planned number of cases, and the input of the kind."""

    number: int
    cases: int
    work: dict[str, Any]


class Tally(msgspec.Struct, frozen=True):
    """The number of cases of a message and an operation that had one outcome."""

    adapter: str
    set: str
    message: str
    version: int
    entry: str
    class_: str = msgspec.field(name="class")
    count: int


class Finding(Tally, frozen=True, kw_only=True):
    """Something wrong. Findings with one ``signature`` are the same finding in several units."""

    signature: str
    title: str
    detail: str
    example: str
    reproduce: str


class Result(msgspec.Struct):
    """The result of a unit."""

    tallies: list[Tally]
    findings: list[Finding]

    @property
    def cases(self) -> int:
        """How many cases there were."""
        return sum(tally.count for tally in self.tallies)


class Kind(Protocol):
    """A kind of work with its options. It is pickled for the executors.

    Attributes:
        name: what the campaign is called.
        schema: of its results; ``RESULTS``, and what fields it adds at the end.
    """

    name: ClassVar[str]
    schema: ClassVar[pa.Schema]

    def options(self) -> dict[str, Any]:
        """Return all that decides the units, as JSON: options, versions of the programs tested."""

    def sources(self) -> list[Path]:
        """Return the files and directories that decide the results of a unit."""

    def plan(self) -> list[Unit]:
        """Divide the work; the same units every time. Raises ``ValueError``, ``AdapterError``."""

    def run(self, unit: Unit) -> Result:
        """Do a unit, on an executor. What it returns follows from the options and the unit."""


def table(schema: pa.Schema, name: str, result: Result, seconds: float) -> pa.Table:
    """Return the rows of a unit."""
    rows = [{"row": "tally", **msgspec.to_builtins(tally)} for tally in result.tallies]
    rows += [{"row": "finding", **msgspec.to_builtins(finding)} for finding in result.findings]
    of_all = {"adapter": "", "set": "", "message": "", "version": 0, "entry": "", "class": ""}
    rows.append({"row": "unit", **of_all, "count": result.cases, "seconds": seconds})
    return pa.Table.from_pylist([{"unit": name, **row} for row in rows], schema=schema)


def programs(commands: Iterable[str]) -> list[Path]:
    """Return the files that commands name: programs on PATH, scripts, and what else is a file."""
    words = [word for command in commands for word in shlex.split(command)]
    paths = [Path(shutil.which(word) or word) for word in words]
    return [path for path in paths if path.is_file()]


_Kept = TypeVar("_Kept", bound="Closable")


class Closable(Protocol):
    """An object that keeps processes until it is closed."""

    def close(self) -> None:
        """End them."""


_kept: list[tuple[object, Closable]] = []


def kept(key: object, make: Callable[[], _Kept]) -> _Kept:
    """Return the value of ``make``, or the one kept from the last unit if that had the same key.

    Units of one key come one after the other, so only one is kept. Processes that it holds read
    from a pipe of this one, and end when it does, however it ends.
    """
    if _kept and _kept[0][0] == key:
        return _kept[0][1]  # type: ignore[return-value]  # of the same key, so of the same type
    release()
    value = make()
    _kept.append((key, value))
    return value


def release() -> None:
    """Close what is kept."""
    while _kept:
        _kept.pop()[1].close()
