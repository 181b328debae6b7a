"""What the model alone says of seeded bugs: which runs, and the table of them."""

from __future__ import annotations

from pathlib import Path

from kraftspec.simulation.catalogue import all_bugs, later_bugs, planted
from kraftspec.simulation.catalogue.against_model import (
    OUTSIDE,
    Judged,
    Search,
    first_seeds,
    run,
    table,
)

PAGE = Path(__file__).parents[2] / "docs" / "simulation.md"
EVENTS = 150
BUGS = ("wins_with_half", "votes_twice")


def judged(bug: str, seed: int, stuck_at: int | None, events: int = EVENTS) -> Judged:
    return Judged(bug=bug, seed=seed, events=events, stuck_at=stuck_at)


def test_the_first_seed_of_each_bug_is_in_the_page() -> None:
    assert first_seeds(PAGE.read_text("utf-8")).keys() == all_bugs().keys()


def test_what_the_model_leaves_out_is_no_mistake_of_a_name() -> None:
    assert OUTSIDE.keys() < all_bugs().keys()


def test_later_bugs_are_others() -> None:
    """They can be planted, and what was planted is undone."""
    assert len(later_bugs()) == 20
    assert not later_bugs().keys() & all_bugs().keys()
    before = run("", 1, EVENTS)
    for bug in later_bugs():
        with planted(bug):
            pass
    assert run("", 1, EVENTS) == before


def test_only_runs_in_which_a_bug_does_something_are_judged() -> None:
    known: list[Judged] = []
    rounds = Search(known, {"wins_with_half": 1}, 3, EVENTS, BUGS).rounds()
    todo = [(bug, seed) for some in rounds for bug, seed, _ in some]
    idle = [(one.bug, one.seed) for one in known if not one.acts]
    assert todo[0] == ("wins_with_half", 1)
    assert idle
    assert sorted(todo + idle) == sorted((bug, seed) for bug in BUGS for seed in range(3))


def test_a_bug_that_is_rejected_is_run_no_more_but_its_seed_without_it() -> None:
    known = [judged(bug, 2, 9) for bug in BUGS]
    rounds = Search(known, {}, 3, EVENTS, BUGS).rounds()
    assert [one[:2] for one in next(rounds)] == [("", 2)]


def test_a_bug_whose_run_is_rejected_without_it_too_is_run_again() -> None:
    known = [judged(BUGS[0], 2, 9), judged("", 2, 9), judged(BUGS[1], 1, 9), judged("", 1, None)]
    rounds = Search(known, {}, 3, EVENTS, BUGS).rounds()
    again = {one[:2] for some in rounds for one in some if one[0]}
    assert again
    assert again <= {(BUGS[0], 0), (BUGS[0], 1)}


def test_a_rejection_counts_where_the_run_without_the_bug_is_explained() -> None:
    of_runs = [
        judged("", 1, None), judged("votes_twice", 1, 9), judged("reads_no_vote", 1, None),
        judged("", 2, 40), judged("wins_with_half", 2, 9), judged("skips_an_epoch", 1, 7),
    ]  # fmt: skip
    text = table(of_runs)
    assert text.startswith(
        f"1 of 3 bugs of the catalogue are rejected; {len(OUTSIDE)} more are in "
    )
    assert "after it was done, 1 of 1 are rejected." in text
    assert "runs without a bug, 1 of 2 are explained." in text
    assert "| 1 | 1 | 1 | 9 |" in text
    assert text.count("**no**") == 2
