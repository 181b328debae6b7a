"""`quorum verify` on simulated disks: what it claims is so, and a wrong claim would be seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from kraftspec.reference.raft.control import LeaderChange
from kraftspec.reference.recovery import committed, elections
from kraftspec.reference.recovery.committed import Proof
from kraftspec.reference.recovery.compare import Comparison
from kraftspec.reference.recovery.reading import Log
from kraftspec.simulation.committed_log import Violation
from kraftspec.simulation.offline import check

SEEDS_MAX = 150  # A wrong claim that a seed below does not show is not looked for.


def test_a_few_seeds() -> None:
    done = sum((check(seed) for seed in range(3)), Counter[str]())
    assert done["electable, and elected"] >= 1
    assert done["certainly committed, by data"] >= 1
    assert done["committed at most"] >= 1


@pytest.mark.soak
def test_many_seeds() -> None:
    done = sum((check(seed) for seed in range(1_000, 1_050)), Counter[str]())
    assert all(
        done[f"certainly committed, by {kind}"]
        for kind in ("checkpoint", "data", "voters-change", "majority", "all-electable")
    )
    assert done["nobody electable, and nobody elected"]


def first_violation() -> str:
    for seed in range(SEEDS_MAX):
        try:
            check(seed)
        except Violation as error:
            return error.name
    return ""


@pytest.mark.soak
def test_a_vote_that_would_not_be_granted_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every candidate is said to get the votes of all that were given."""
    ask = elections._ask

    def generous(candidate: elections.Candidate, *rest: object) -> None:
        ask(candidate, *rest)  # type: ignore[arg-type] # What it takes.
        candidate.granted += candidate.refused
        candidate.refused = {}

    monkeypatch.setattr(elections, "_ask", generous)
    assert first_violation() in ("electable", "perhaps_committed", "no_false_alarm")


@pytest.mark.soak
def test_a_record_that_is_not_committed_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first batch of each epoch is said to be committed, whatever follows it."""

    def rash(number: int, log: Log) -> Sequence[Proof]:
        return [
            committed._proof(number, batch, "data", "")
            for batch in log.controls
            if batch.find(LeaderChange) is not None
        ]

    monkeypatch.setattr(committed, "_of_records", rash)
    assert first_violation() in ("certainly_committed", "no_false_alarm")


@pytest.mark.soak
def test_a_majority_that_has_moved_on_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one voter holds is said to be what a majority holds."""

    def one_is_enough(comparison: Comparison, holders: Sequence[int], voters: object) -> bool:
        return bool(holders)

    monkeypatch.setattr(committed, "_is_majority", one_is_enough)
    assert first_violation() in ("certainly_committed", "no_false_alarm")
