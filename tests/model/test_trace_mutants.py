"""The model made worse: a run of real nodes that it explains, it explains no more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kraftspec.model.groups import groups
from kraftspec.model.traces import Trace, check
from kraftspec.reference.profiles import profile_named
from kraftspec.simulation.catalogue import planted
from kraftspec.simulation.model_trace import record

MARGIN = 50  # Events of a run that are no step of a node.

# Seeded bugs that drop the guard of a mutant: a seed, the step that is rejected, the mutant.
SAME = {
    "votes_for_any_log": (1, 457, "mutant-votes-for-any-log"),
    "follower_grants_pre_votes": (1, 826, "mutant-always-grants-pre-votes"),
    "fetches_before_it_syncs": (0, 637, "mutant-fetches-before-it-syncs"),
    "asks_before_its_log_is_durable": (38, 484, "mutant-asks-before-it-syncs"),
    "adds_who_is_far_behind": (16, 603, "mutant-adds-whoever-fetches"),
}

# The page's mutants that a run notices: the operator that one of Mutants.tla takes the place of, or
# "" for a group of mutants.toml; the seed and the step.
NOTICED = {
    name: (operator, int(seed), int(step))
    for name, operator, seed, step in re.findall(
        r"^\| `([\w-]+)`(?: for `(\w+)`)? \|.* \| seed (\d+), step (\d+) \|$",
        (Path(__file__).parents[2] / "docs/model.md").read_text("utf-8"),
        re.MULTILINE,
    )
}


def run(seed: int, step: int) -> Trace:
    return record(seed, profile_named("kafka", without=()), events=step + MARGIN).trace


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.parametrize("mutant", NOTICED)
def test_a_run_notices_a_mutant(mutant: str) -> None:
    operator, seed, step = NOTICED[mutant]
    replaces = {operator: mutant} if operator else groups()[mutant].replaces
    (verdict,) = check([run(seed, step)], heap_mib=512, replaces=replaces)
    assert verdict.stuck_at == step


@pytest.mark.kafka
@pytest.mark.soak
def test_these_runs_are_explained_without_a_mutant() -> None:
    """And with one that lets a node do more than it does."""
    lasts: dict[int, int] = {}
    for _, seed, step in NOTICED.values():
        lasts[seed] = max(step, lasts.get(seed, 0))
    runs = [run(seed, step) for seed, step in lasts.items()]
    explained = [one.stuck_at for one in check(runs, heap_mib=1024)]
    assert explained == [None] * len(runs)
    lax = groups()["mutant-fetches-before-it-syncs"].replaces
    assert [one.stuck_at for one in check(runs[:3], heap_mib=1024, replaces=lax)] == [None] * 3


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.parametrize("bug", SAME)
def test_a_mutant_explains_the_bug_that_drops_its_guard(bug: str) -> None:
    seed, step, mutant = SAME[bug]
    with planted(bug):
        bugged = run(seed, step)
    (verdict,) = check([bugged], heap_mib=512)
    (with_mutant,) = check([bugged], heap_mib=512, replaces=groups()[mutant].replaces)
    assert (verdict.stuck_at, with_mutant.stuck_at) == (step, None)


def test_the_page_has_mutants_of_both_kinds() -> None:
    of_groups = {name for name, (operator, *_) in NOTICED.items() if not operator}
    assert of_groups < {name for name in groups() if name.startswith("mutant-")}
    assert (len(of_groups), len(NOTICED) - len(of_groups)) == (21, 6)
