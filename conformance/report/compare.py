"""Compare two runs: the new failures and the new passes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from kraftspec.conformance.raw.results import Counts, Failure, Results
from kraftspec.conformance.report import answered, set_and_message

# A test in one direction: set, message, version, id, direction.
Case = tuple[str, str, int, str, str]
# A message at a version: set, message, version.
Pair = tuple[str, str, int]


@dataclass(frozen=True)
class Change:
    """One test in one direction with another outcome than before."""

    case: Case
    detail: str
    reproduce: str | None = None

    def __str__(self) -> str:
        spec, message, version, test, direction = self.case
        return f"{spec}/{message} v{version} {direction} {test}: {self.detail}"


@dataclass(frozen=True)
class Fewer:
    """A message at a version of which fewer tests are answered than before."""

    pair: Pair
    before: int
    after: int

    def __str__(self) -> str:
        spec, message, version = self.pair
        return f"{spec}/{message} v{version}: {self.after:,} answered, {self.before:,} before"


@dataclass(frozen=True)
class Comparison:
    """What changed from one run to the next.

    Attributes:
        newly_failing: fail now and did not before (or were known failures before).
        newly_passing: failed before and do not now, in a pair with as many answers.
        no_longer_answered: failed before, in a pair with fewer answers now.
        now_known: failed before, and are now known failures.
        answered_less: pairs with fewer answers to no fewer cases.
        added, gone: pairs that only one of the runs has.
    """

    newly_failing: tuple[Change, ...]
    newly_passing: tuple[Change, ...]
    no_longer_answered: tuple[Change, ...]
    now_known: tuple[Change, ...]
    answered_less: tuple[Fewer, ...]
    added: tuple[Pair, ...]
    gone: tuple[Pair, ...]

    @property
    def regressed(self) -> bool:
        """Whether there is a new failure or a missing answer."""
        return bool(self.newly_failing or self.answered_less)

    def to_json(self) -> dict[str, Any]:
        """Return the report of ``--json``."""

        def changes(items: Iterable[Change]) -> list[dict[str, Any]]:
            return [
                {**_case_json(one.case), "detail": one.detail}
                | ({"reproduce": one.reproduce} if one.reproduce else {})
                for one in items
            ]

        return {
            "regressed": self.regressed,
            "newlyFailing": changes(self.newly_failing),
            "newlyPassing": changes(self.newly_passing),
            "noLongerAnswered": changes(self.no_longer_answered),
            "nowKnown": changes(self.now_known),
            "answeredLess": [
                {**_pair_json(one.pair), "before": one.before, "after": one.after}
                for one in self.answered_less
            ],
            "added": [_pair_json(pair) for pair in self.added],
            "gone": [_pair_json(pair) for pair in self.gone],
        }


def _pair_json(pair: Pair) -> dict[str, Any]:
    return dict(zip(("spec", "message", "version"), pair, strict=True))


def _case_json(case: Case) -> dict[str, Any]:
    return dict(zip(("spec", "message", "version", "id", "direction"), case, strict=True))


def compare(old: Results, new: Results) -> Comparison:
    """Compare a run with an earlier one; the adapters may differ (two releases of one codec).

    A known failure is not a failure here. Results list the failures of a run and count the rest. So
    the counts of a message at a version decide whether a case that no longer fails passes, is
    skipped or does not run.
    """
    before, after = _pairs(old), _pairs(new)
    was, now = _failing(old), _failing(new)
    still = {_case(one) for one in new.failures}
    less = {
        pair: Fewer(pair, answered(before[pair]), answered(after[pair]))
        for pair in before.keys() & after.keys()
        if answered(after[pair]) < answered(before[pair])
        and after[pair].skipped > before[pair].skipped
    }
    ended = [
        Change(case, one.detail)
        for case, one in was.items()
        if case not in still and case[:3] in after
    ]
    return Comparison(
        newly_failing=tuple(
            Change(case, one.detail, one.reproduce) for case, one in now.items() if case not in was
        ),
        newly_passing=tuple(one for one in ended if one.case[:3] not in less),
        no_longer_answered=tuple(one for one in ended if one.case[:3] in less),
        now_known=tuple(
            Change(case, one.detail)
            for case, one in was.items()
            if case in still and case not in now
        ),
        answered_less=tuple(less[pair] for pair in sorted(less)),
        added=tuple(sorted(after.keys() - before.keys())),
        gone=tuple(sorted(before.keys() - after.keys())),
    )


def _pairs(run: Results) -> dict[Pair, Counts]:
    return {
        (*set_and_message(key), int(version)): counts
        for key, versions in run.messages.items()
        for version, counts in versions.items()
    }


def _case(one: Failure) -> Case:
    return one.spec, one.message, one.version, one.id, one.direction


def _failing(run: Results) -> dict[Case, Failure]:
    return {_case(one): one for one in run.failures if one.known is UNSET}
