"""Write an adapter's known failures from their reasons: ``python -m … known_make kio``.

A peer that lacks one thing fails hundreds of tests by it, whose ids nobody wants to type.
``known/<adapter>.toml`` says each reason once, either with a pattern of tests of which none
passes, or with a pattern of what a failure's detail says; the adapter is run, and
``known/<adapter>.json`` gets an entry for each failure that a reason explains. The others are
printed, and stay failures.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from kraftspec.codegen.strict import Strict
from kraftspec.conformance.known import KnownFailures, known_file
from kraftspec.conformance.raw.known import KnownFailure
from kraftspec.conformance.raw.results import Failure, UnexpectedPass
from kraftspec.conformance.registry import find
from kraftspec.conformance.run import describe, run
from kraftspec.conformance.vectors import dumps

SHOWN_MAX = 40


class Reason(Strict, kw_only=True):
    """Why a peer fails: of the tests that ``test`` matches, or whose detail ``detail`` matches.

    Attributes:
        test: a pattern over set/Message/version/family/direction/id, taken as it is.
        detail: a regular expression, searched for in a failure's detail.
        message: with ``detail``: a regular expression for the whole name of the message.
        family: with ``detail``: a regular expression for the whole family.
        reason: for people.
        issue: a link.
        expires: YYYY-MM-DD.
    """

    reason: str
    issue: str
    expires: str
    test: str = ""
    detail: str = ""
    message: str = ".*"
    family: str = ".*"

    def explains(self, failure: Failure) -> bool:
        """Whether the detail of a failure says that it is for this reason."""
        return (
            self.detail != ""
            and re.fullmatch(self.message, failure.message) is not None
            and re.fullmatch(self.family, failure.family) is not None
            and re.search(self.detail, failure.detail) is not None
        )

    def entry(self, test: str) -> KnownFailure:
        """Return the entry of one test, or of a pattern."""
        return KnownFailure(test=test, reason=self.reason, issue=self.issue, expires=self.expires)


class Reasons(Strict, kw_only=True):
    """A file of reasons."""

    reason: list[Reason]


def entries(
    reasons: Sequence[Reason], failures: Iterable[Failure]
) -> tuple[list[KnownFailure], list[Failure]]:
    """Return an entry for each pattern and for each test that fails, and what stays unexplained.

    Failures under a pattern are not looked at. An entry by id is for both directions of a test.
    """
    patterns = [reason.entry(reason.test) for reason in reasons if reason.test]
    by_id: dict[str, KnownFailure] = {}
    unexplained = []
    for failure in failures:
        reason = next((reason for reason in reasons if reason.explains(failure)), None)
        if reason is None:
            unexplained.append(failure)
        else:
            by_id.setdefault(failure.id, reason.entry(failure.id))
    return [*patterns, *(by_id[test_id] for test_id in sorted(by_id))], unexplained


def narrowed(
    known: Iterable[KnownFailure], passes: Iterable[UnexpectedPass]
) -> Iterable[KnownFailure]:
    """Yield the entries, those by id whose test passes in one direction only for the other."""
    fails_in = {"encode": "decode", "decode": "encode"}
    passing = {passed.id: passed.direction for passed in passes}
    for entry in known:
        if entry.test in passing:
            test = f"*/{fails_in[passing[entry.test]]}/{entry.test}"
            entry = msgspec.structs.replace(entry, test=test)  # noqa: PLW2901 - the same, narrower
        yield entry


def make(adapter: str) -> list[Failure]:
    """Write the known failures of an adapter anew; return the failures that no reason explains.

    Raises:
        ValueError: there are no reasons, or a pattern of theirs matches a test that passes.
    """
    path = known_file(adapter)
    source = path.with_suffix(".toml")
    reasons = msgspec.toml.decode(source.read_bytes(), type=Reasons).reason
    spec = find(adapter)
    patterns = KnownFailures([reason.entry(reason.test) for reason in reasons if reason.test])
    found = run(spec.adapter(), known=patterns)
    known, unexplained = entries(reasons, (f for f in found.failures if f.known is msgspec.UNSET))
    again = run(spec.adapter(), known=KnownFailures(known))
    wrong = {
        passed.known
        for passed in again.unexpected_passes
        if passed.id not in {entry.test for entry in known}
    }
    if wrong:
        raise ValueError(f"{source}: tests pass that a pattern calls failures: {sorted(wrong)}")
    write(path, narrowed(known, again.unexpected_passes))
    return unexplained


def write(path: Path, known: Iterable[KnownFailure]) -> None:
    """Write a file of known failures, an entry a line."""
    lines = ",\n".join(dumps(msgspec.to_builtins(entry)) for entry in known)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Write the known failures of the named adapters; 1: there are failures without a reason."""
    code = 0
    for adapter in arguments:
        unexplained = make(adapter)
        for failure in unexplained[:SHOWN_MAX]:
            print(describe(failure))
        print(f"{known_file(adapter)}: written; {len(unexplained)} failures without a reason")
        code |= bool(unexplained)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
