"""Known failures: a TOML file for each adapter, with a reason, a link and a date for each entry.

An entry has ``test`` or ``detail``. ``test`` names tests, by id or by a pattern: all of them are
expected to fail, and one that passes fails the run. ``detail`` matches the text of the
failures, of any number of tests; tests that pass are ignored. After a run of every vector there is
a warning about each entry that matched nothing, or not the number of its ``cases``. An entry with
``releases`` is for other releases of the codec than the usual one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase, translate
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import UNSET

from kraftspec.conformance.raw import known as raw
from kraftspec.conformance.raw.results import KnownEntry
from kraftspec.conformance.runner.cases import Case
from kraftspec.conformance.runner.judge import Wrong


class KnownFailures:
    """The entries of one file, and their matches in a run."""

    def __init__(
        self,
        failures: Sequence[raw.KnownFailure] = (),
        today: date | None = None,
        release: str = "",
    ) -> None:
        """Take the entries that are for a release; ``ValueError`` for one that cannot be used."""
        self.today = today or datetime.now(UTC).date()
        self.entries = [
            self._entry(failure)
            for failure in failures
            if failure.releases is UNSET
            or any(fnmatchcase(release, pattern) for pattern in failure.releases)
        ]
        tests = [(entry.test, entry) for entry in self.entries if entry.test is not UNSET]
        self._ids = {test: entry for test, entry in tests if _is_id(test)}
        self._patterns = [
            (re.compile(translate(test)).match, entry) for test, entry in tests if not _is_id(test)
        ]
        self._details = [
            _Detail(entry, entry.detail) for entry in self.entries if entry.detail is not UNSET
        ]

    @classmethod
    def read(cls, path: Path, today: date | None = None, release: str = "") -> KnownFailures:
        """Read a file of ``schemas/known.schema.json``; ``ValueError`` names it and the error."""
        try:
            file = msgspec.toml.decode(path.read_bytes(), type=raw.KnownFailures)
            return cls(file.failure, today, release)
        except (msgspec.DecodeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error

    def _entry(self, failure: raw.KnownFailure) -> KnownEntry:
        title = f"the entry {_title(failure)}"
        try:
            expires = date.fromisoformat(failure.expires)
        except ValueError as error:
            raise ValueError(
                f"{title} expires on {failure.expires!r}, which is not a date, YYYY-MM-DD: {error}"
            ) from error
        of_detail = (failure.message, failure.family, failure.cases)
        if (failure.test is UNSET) == (failure.detail is UNSET):
            raise ValueError(f"{title} needs either test or detail")
        if failure.detail is UNSET and any(value is not UNSET for value in of_detail):
            raise ValueError(f"{title}: message, family and cases go with detail, not with test")
        return KnownEntry(
            **msgspec.structs.asdict(failure), expired=expires < self.today, failed=0, passed=0
        )

    def find(self, case: Case, wrong: Wrong | None) -> KnownEntry | None:
        """Return the entry of a case: by its id, else by a pattern, else by the failure.

        ``wrong`` is None for a case that passed.
        """
        entry = self._ids.get(case.test.id)
        if entry is None and self._patterns:
            entry = self.named(case.name)
        if entry is None and wrong is not None:
            entry = next((one.entry for one in self._details if one.explains(case, wrong)), None)
        return entry

    def named(self, name: str) -> KnownEntry | None:
        """Return the entry that has a pattern which matches a name."""
        return next((entry for match, entry in self._patterns if match(name)), None)

    def warnings(self, *, whole: bool) -> list[str]:
        """Return a line for each expired entry and, after a full run, each outdated one."""
        lines = [
            f"known failure {_title(entry)} expired on {entry.expires}: {entry.reason}"
            for entry in self.entries
            if entry.expired and entry.failed
        ]
        for entry in self.entries if whole else ():
            if not entry.failed and not entry.passed:
                lines.append(f"known failure {_title(entry)} matches no case that ran: take it out")
            elif entry.cases not in (UNSET, entry.failed):
                lines.append(
                    f"known failure {_title(entry)} matches {entry.failed:,} cases, and its file "
                    f"says {entry.cases:,}: {entry.reason}"
                )
        return lines


class _Detail:
    """An entry that matches the detail of a failure."""

    def __init__(self, entry: KnownEntry, detail: str) -> None:
        self.entry = entry
        try:
            self._detail = re.compile(detail).search
            self._message = re.compile(entry.message or ".*").fullmatch
            self._family = re.compile(entry.family or ".*").fullmatch
        except re.error as error:
            raise ValueError(
                f"the entry {_title(entry)}: {error.pattern!r} is no regular expression: {error}"
            ) from error

    def explains(self, case: Case, wrong: Wrong) -> bool:
        """Whether the entry matches the failure of a case."""
        return (
            self._message(case.message) is not None
            and self._family(case.test.family) is not None
            and self._detail(wrong.detail) is not None
        )


def known_failures(adapter: str, path: Path | None = None) -> KnownFailures:
    """Return the known failures of ``NAME`` or ``NAME@RELEASE``: of a file, else of its own."""
    path = path or known_file(adapter)
    release = adapter.partition("@")[2]
    return KnownFailures.read(path, release=release) if path.exists() else KnownFailures()


def known_file(adapter: str) -> Path:
    """Return the file of known failures of one of the project's adapters, if it has one."""
    name = adapter.partition("@")[0]
    return Path(str(files("kraftspec.conformance") / "known" / f"{name}.toml"))


def _title(entry: raw.KnownFailure | KnownEntry) -> str:
    """Return the fields that distinguish an entry in its file."""
    if entry.test is not UNSET:
        return entry.test
    fields = {"detail": entry.detail, "message": entry.message, "family": entry.family}
    return ", ".join(f"{name} {text!r}" for name, text in fields.items() if text is not UNSET)


def _is_id(test: str) -> bool:
    return "/" not in test and not set("*?[") & set(test)
