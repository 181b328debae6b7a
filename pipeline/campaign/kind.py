"""What a campaign is made of: a kind of work, its units, their results as Arrow tables."""

from __future__ import annotations

import hashlib
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, TypeVar

import msgspec
import pyarrow as pa

# Suffixes of what decides a result: code, its compiled half, specs, vectors, manifests.
_SOURCES: Final = {".py", ".pyx", ".pxd", ".h", ".so", ".json", ".java", ".go", ".rs", ".js",
                   ".mjs", ".toml", ".xml", ".mod", ".sum", ".lock", ".jinja"}  # fmt: skip

# A row is a ``tally`` (how many cases came out how), a ``finding``, or the ``unit`` itself, whose
# count is the sum of its tallies'. The first column is added by the store.
RESULTS: Final = pa.schema(
    [
        pa.field("unit", pa.string(), nullable=False),
        pa.field("row", pa.string(), nullable=False),
        pa.field("adapter", pa.string(), nullable=False),
        pa.field("set", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
        pa.field("version", pa.int32(), nullable=False),
        # What was asked: encode, decode, or the reader that was given the bytes.
        pa.field("entry", pa.string(), nullable=False),
        # How it came out, in the words of the kind.
        pa.field("class", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("seconds", pa.float64()),  # Of a unit alone.
        # Of a finding alone: its name, in words, what was said, the least example, the command.
        pa.field("signature", pa.string()),
        pa.field("title", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("example", pa.string()),
        pa.field("reproduce", pa.string()),
    ]
)


class Unit(msgspec.Struct, frozen=True):
    """A piece of work: its number, how many cases it is of (planned), what the kind needs."""

    number: int
    cases: int
    work: dict[str, Any]


class Tally(msgspec.Struct, frozen=True):
    """How many cases of a message, asked in one way, came out how."""

    adapter: str
    set: str
    message: str
    version: int
    entry: str
    class_: str = msgspec.field(name="class")
    count: int


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something wrong. Findings of one ``signature`` are one finding, whichever units met it."""

    adapter: str
    set: str
    message: str
    version: int
    entry: str
    class_: str = msgspec.field(name="class")
    count: int
    signature: str
    title: str
    detail: str
    example: str
    reproduce: str


class Result(msgspec.Struct):
    """What a unit found out."""

    tallies: list[Tally]
    findings: list[Finding]

    @property
    def cases(self) -> int:
        """How many cases there were."""
        return sum(tally.count for tally in self.tallies)


class Kind(Protocol):
    """A kind of work, made of its options. It goes to the executors by pickle.

    Attributes:
        name: what the campaign is called.
        schema: of its results; ``RESULTS``, and what fields it adds at the end.
    """

    name: ClassVar[str]
    schema: ClassVar[pa.Schema]

    def options(self) -> dict[str, Any]:
        """Return all that decides the units, as JSON: options, versions of what is asked."""

    def sources(self) -> list[Path]:
        """Return the files and directories that decide the results of a unit."""

    def plan(self) -> list[Unit]:
        """Divide the work; the same units every time. Raises ``ValueError``, ``AdapterError``."""

    def run(self, unit: Unit) -> Result:
        """Do a unit, on an executor. What it returns follows from the options and the unit."""


def table(schema: pa.Schema, name: str, result: Result, seconds: float) -> pa.Table:
    """Return the rows of a unit."""
    rows = [{"row": "tally", **msgspec.to_builtins(tally)} for tally in result.tallies]
    rows += [{"row": "finding", **msgspec.to_builtins(found)} for found in result.findings]
    of_all = {"adapter": "", "set": "", "message": "", "version": 0, "entry": "", "class": ""}
    rows.append({"row": "unit", **of_all, "count": result.cases, "seconds": seconds})
    return pa.Table.from_pylist([{"unit": name, **row} for row in rows], schema=schema)


def room(name: str) -> Path:
    """Return the directory of a room of this package, or of a directory in one."""
    first, _, rest = name.partition("/")
    return Path(str(files(f"kraftspec.{first}") / rest)).resolve()


def programs(commands: Iterable[str]) -> list[Path]:
    """Return the files that commands name: programs on PATH, scripts, and what else is a file."""
    words = [word for command in commands for word in shlex.split(command)]
    found = [Path(shutil.which(word) or word) for word in words]
    return [path for path in found if path.is_file()]


def digest(paths: Iterable[Path]) -> str:
    """Return a hash of what files and directories hold, wherever they stand."""
    found = hashlib.sha256()
    for root in paths:
        for path in _files(root):
            found.update(f"{root.name}/{path.relative_to(root).as_posix()}\0".encode())
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:16]


def _files(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for path in sorted(root.rglob("*")):
        if path.suffix in _SOURCES and "__pycache__" not in path.parts and path.is_file():
            yield path


_Kept = TypeVar("_Kept", bound="Closable")


class Closable(Protocol):
    """What holds processes until it is closed."""

    def close(self) -> None:
        """End them."""


_kept: list[tuple[object, Closable]] = []


def kept(key: object, make: Callable[[], _Kept]) -> _Kept:
    """Return what ``make`` made for the last unit of this process, where that had the same key.

    Units of one key come one after the other, so only one is kept. Processes that it holds read
    from a pipe of this one, and end when it does, however it ends.
    """
    if _kept and _kept[0][0] == key:
        return _kept[0][1]  # type: ignore[return-value]  # of the same key, so of the same type
    release()
    made = make()
    _kept.append((key, made))
    return made


def release() -> None:
    """Close what is kept."""
    while _kept:
        _kept.pop()[1].close()
