"""Known failures: a file for each adapter, with a reason, a link and a date for each entry."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from fnmatch import translate
from importlib.resources import files
from pathlib import Path

import msgspec

from kraftspec.conformance.cases import Case
from kraftspec.conformance.raw.known import KnownFailure
from kraftspec.conformance.raw.results import KnownEntry


class KnownFailures:
    """The entries of one file, and what became of each in a run."""

    def __init__(self, failures: Sequence[KnownFailure] = (), today: date | None = None) -> None:
        """Take the entries; ``ValueError`` for an expiry that is no date."""
        self.today = today or datetime.now(UTC).date()
        self.entries = [self._entry(failure) for failure in failures]
        self._ids = {entry.test: entry for entry in self.entries if _is_id(entry.test)}
        self._patterns = [
            (re.compile(translate(entry.test)).match, entry)
            for entry in self.entries
            if not _is_id(entry.test)
        ]

    @classmethod
    def read(cls, path: Path, today: date | None = None) -> KnownFailures:
        """Read a file of ``schemas/known.schema.json``; ``ValueError`` names it and says why."""
        try:
            return cls(msgspec.json.decode(path.read_bytes(), type=list[KnownFailure]), today)
        except (msgspec.DecodeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error

    def _entry(self, failure: KnownFailure) -> KnownEntry:
        try:
            expires = date.fromisoformat(failure.expires)
        except ValueError as error:
            raise ValueError(
                f"the entry {failure.test!r} expires on {failure.expires!r}, which is not a date, "
                f"YYYY-MM-DD: {error}"
            ) from error
        return KnownEntry(
            test=failure.test,
            reason=failure.reason,
            issue=failure.issue,
            expires=failure.expires,
            expired=expires < self.today,
            failed=0,
            passed=0,
        )

    def find(self, case: Case) -> KnownEntry | None:
        """Return the entry that a case is under: one by its id before one by a pattern."""
        entry = self._ids.get(case.test.id)
        return self.named(case.name) if entry is None and self._patterns else entry

    def named(self, name: str) -> KnownEntry | None:
        """Return the entry that has a pattern which matches a name."""
        return next((entry for match, entry in self._patterns if match(name)), None)

    def warnings(self, *, whole: bool) -> list[str]:
        """Say which entries are past their date and, of a whole run, which match nothing."""
        said = [
            f"known failure {entry.test} expired on {entry.expires}: {entry.reason}"
            for entry in self.entries
            if entry.expired and entry.failed
        ]
        if whole:
            said += [
                f"known failure {entry.test} matches no case that ran: take it out"
                for entry in self.entries
                if not entry.failed and not entry.passed
            ]
        return said


def known_file(adapter: str) -> Path:
    """Return where the known failures of one of the project's adapters stand, if it has any."""
    name = adapter.partition("@")[0]
    return Path(str(files("kraftspec.conformance") / "known" / f"{name}.json"))


def _is_id(test: str) -> bool:
    return "/" not in test and not set("*?[") & set(test)
