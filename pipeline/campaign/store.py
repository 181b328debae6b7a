"""The directory of a campaign: what it is of, and a file for each unit that is done.

    campaign.json     the manifest: kind, options, hash of the code, the number of units and cases
    units/N-H.parquet the result of unit N; H is a hash of all that decides it
    summary.json, report.html, findings/    what was made of the results

A result is written beside and renamed, so that it is there whole or not at all, whoever is killed.
The directory must be one that driver and executors share.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from kraftspec.pipeline.campaign.kind import Kind, Result, Unit, table
from kraftspec.sources import digest

MANIFEST: Final = "campaign.json"
UNITS: Final = "units"
_MADE: Final = (UNITS, "findings")
_FILES: Final = (MANIFEST, "summary.json", "report.html")
SCHEMA_VERSION: Final = 1


class MixedError(ValueError):
    """The directory has results of other options, or of other code."""


class Store(msgspec.Struct, frozen=True):
    """A campaign's directory, and the hash of all that its results follow from."""

    directory: str
    basis: str

    def name(self, unit: Unit) -> str:
        """Return the name of a unit's result: its number, and a hash of all that decides it."""
        text = json.dumps([self.basis, msgspec.to_builtins(unit)], sort_keys=True)
        return f"{unit.number:06d}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    @property
    def units(self) -> Path:
        """Where the results are."""
        return Path(self.directory, UNITS)

    def path(self, unit: Unit) -> Path:
        """Return the file of a unit's result."""
        return self.units / f"{self.name(unit)}.parquet"

    def write(self, schema: pa.Schema, unit: Unit, result: Result, seconds: float) -> None:
        """Write a unit's result; it is there whole or not at all."""
        path = self.path(unit)
        beside = path.with_name(f".{path.stem}.{uuid.uuid4().hex}")
        try:
            pq.write_table(table(schema, self.name(unit), result, seconds), beside)
            with beside.open("rb") as file:
                os.fsync(file.fileno())
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)

    def is_done(self, unit: Unit) -> bool:
        """Whether there is a result; one that cannot be read is none."""
        path = self.path(unit)
        try:
            return bool(pq.read_metadata(path).num_rows)
        except FileNotFoundError:
            return False
        except (OSError, pa.ArrowInvalid):
            path.unlink()
            return False

    def count_done(self, names: dict[str, int]) -> tuple[int, int]:
        """Return how many of the units of these names are done, and the sum of their cases."""
        with suppress(FileNotFoundError), os.scandir(self.units) as entries:
            done = [names[stem] for entry in entries if (stem := entry.name[:-8]) in names]
            return len(done), sum(done)
        return 0, 0


def open_store(directory: Path, kind: Kind, units: Sequence[Unit], *, new: bool = False) -> Store:
    """Open a campaign's directory, or begin one; ``new`` throws away what it has.

    A campaign of something else that has no result yet is replaced. Raises ``MixedError`` where it
    has results of something else, ``OSError``.
    """
    current = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": kind.name,
        "options": kind.options(),
        "code": digest(kind.sources()),
        "units": len(units),
        "cases": sum(unit.cases for unit in units),
    }
    manifest = json.loads(json.dumps(current))  # As it is read again.
    path = directory / MANIFEST
    if new:
        _empty(directory)
    has_results = any((directory / UNITS).glob("*.parquet"))
    if path.exists():
        _compare(path, manifest, has_results=has_results)
    elif has_results:
        raise MixedError(f"{directory} has results and no {MANIFEST}: give --new, or another --out")
    (directory / UNITS).mkdir(parents=True, exist_ok=True)
    if not has_results:  # Then it may be of a campaign that never started.
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        beside.replace(path)
    for left in (directory / UNITS).glob(".*"):
        left.unlink(missing_ok=True)  # Of a process that was killed while it wrote.
    return Store(str(directory.resolve()), json.dumps(manifest, sort_keys=True))


def _empty(directory: Path) -> None:
    for name in _MADE:
        shutil.rmtree(directory / name, ignore_errors=True)
    for name in _FILES:
        (directory / name).unlink(missing_ok=True)


def _compare(path: Path, manifest: dict[str, Any], *, has_results: bool) -> None:
    """Refuse to go on with results of something else, or where the file is no manifest."""
    try:
        known = json.loads(path.read_bytes())
        differ = [
            f"{name} was {_short(known['options'].get(name))}, is {_short(value)}"
            for name, value in manifest["options"].items()
            if known["options"].get(name) != value
        ]
        if known["kind"] != manifest["kind"]:
            differ = [f"it is of {known['kind']}, not {manifest['kind']}"]
        elif not differ and known["code"] != manifest["code"]:
            differ = [f"the code or the vectors have changed ({known['code']}, {manifest['code']})"]
        elif not differ and known != manifest:
            differ = ["its units are others"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MixedError(f"{path} is no campaign's manifest: {error!r}") from error
    if differ and has_results:
        raise MixedError(
            f"{path.parent} has another campaign's results: {'; '.join(differ)}. Run it as it was "
            "to go on with it, give another --out, or --new to throw its results away"
        )


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 100 else f"{text[:100]}…"  # noqa: PLR2004 - a line


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Let no second driver work on a directory. Raises ``MixedError`` where one does."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MixedError(f"{directory}: another process is at work on this campaign") from None
        yield
