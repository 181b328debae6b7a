"""What the model alone says of seeded bugs: which runs, and the table of them."""

from __future__ import annotations

from pathlib import Path

from kraftspec.simulation.catalogue import all_bugs
from kraftspec.simulation.catalogue.against_model import Judged, first_seeds, runs, table

PAGE = Path(__file__).parents[2] / "docs" / "simulation.md"


def judged(bug: str, seed: int, stuck_at: int | None) -> Judged:
    return Judged(bug=bug, seed=seed, events=600, stuck_at=stuck_at)


def test_the_first_seed_of_each_bug_is_in_the_page() -> None:
    assert first_seeds(PAGE.read_text("utf-8")).keys() == all_bugs().keys()


def test_each_run_has_one_without_a_bug_beside_it() -> None:
    chosen = [*runs({"votes_twice": 7}, 1)]
    assert len(chosen) == len({*chosen})
    assert ("votes_twice", 7) in chosen[: 2 * len(all_bugs())]
    assert {("", 7), ("", 0)} <= {*chosen}
    assert {bug for bug, seed in chosen if seed == 0} == {"", *all_bugs()}


def test_a_rejection_counts_where_the_run_without_the_bug_is_explained() -> None:
    of_runs = [
        judged("", 1, None), judged("votes_twice", 1, 9), judged("reads_no_vote", 1, None),
        judged("", 2, 40), judged("wins_with_half", 2, 9),
    ]  # fmt: skip
    text = table(of_runs)
    assert text.startswith(f"1 of 3 bugs are rejected, of {len(all_bugs())} in the catalogue; 1 of")
    assert "| 1 | 1 | 9 |" in text
    assert text.count("**explained**") == 2
