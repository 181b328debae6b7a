"""`quorum recover` in the simulator: lost quorums go on, and a cure that is none is seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from kraftspec.reference.log.files import Files, Lock
from kraftspec.reference.recovery import cure, forced, plan, withdrawal
from kraftspec.reference.recovery.plan import Change, Plan
from kraftspec.simulation.committed_log import Violation
from kraftspec.simulation.recovered import check

SEEDS_MAX = 60  # A wrong cure that a seed below does not show is not looked for.
# The version of first voters was in no log: nodes that came later made snapshots without voters.
WITHOUT_VERSION = (130, 139)
# New controllers with ids of the former static voters were taken for these, and for electable.
MADE_DYNAMIC = 111
# Two voters in gridlock: the change is taken back, or the other gets the record that it lacks.
WITHDRAWN, GRAFTED = 122, 162
MOVED, PADDED = 8, 37


@pytest.mark.soak
def test_a_few_seeds() -> None:
    done = sum((check(seed) for seed in (0, 1, 2, *WITHOUT_VERSION)), Counter[str]())
    assert done["elected, and committed more"] >= 3
    assert done["the power failed in the cure"] >= 1


def test_static_voters_become_those_of_the_log() -> None:
    done = check(MADE_DYNAMIC)
    assert done["recovered: forced made dynamic"] == done["elected, and committed more"] == 1


@pytest.mark.parametrize(
    ("seed", "cure"),
    [
        (WITHDRAWN, "withdrawn"),
        (GRAFTED, "graft"),
        (MOVED, "forced moved"),
        (PADDED, "forced padded"),
    ],
)
def test_other_wrecks(seed: int, cure: str) -> None:
    done = check(seed)
    assert done[f"recovered: {cure}"] == done["elected, and committed more"] == 1
    assert done["two voters, in gridlock"] == (seed in (WITHDRAWN, GRAFTED))


@pytest.mark.soak
def test_many_seeds() -> None:
    done = sum((check(seed) for seed in range(1_020, 1_040)), Counter[str]())
    assert done["recovered: forced"] > done["recovered: static"] > 0
    assert done["the voters changed"] > 0
    assert done["refused: could-elect"] > 0
    assert done["refused: loss"] > 0


def first_violation(seeds: Iterable[int] = range(SEEDS_MAX)) -> str:
    for seed in seeds:
        try:
            check(seed)
        except Violation as error:
            return error.name
    return ""


def test_voters_without_a_version_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = forced.forced_batches
    monkeypatch.setattr(
        plan,
        "forced_batches",
        lambda *args, **named: batches(*args, **named | {"has_version": True}),
    )
    assert first_violation(WITHOUT_VERSION) == "voters_follow_log"


def test_an_untold_loss_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_check_losses", lambda plan: None)
    assert first_violation(range(4, 20)) == "loss_is_told"


def test_a_change_that_is_withdrawn_with_what_is_committed_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log is cut at its beginning, and not where the change of voters is."""
    find = withdrawal.find_withdrawal
    monkeypatch.setattr(plan, "find_withdrawal", lambda *given: find(*given)._replace(offset=0))
    assert first_violation([WITHDRAWN]) == "withdrawn_is_uncommitted"


@pytest.mark.soak
def test_a_cure_that_forgets_a_keeper_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first of the nodes to keep gets the batch; the others are left as they were."""
    write = cure._write_log

    def forgetful(plan: Plan, change: Change, files: Files, lock: Lock) -> None:
        if change.number == plan.keepers[0]:
            write(plan, change, files, lock)

    monkeypatch.setattr(cure, "_write_log", forgetful)
    assert first_violation() == "recovered_once"
