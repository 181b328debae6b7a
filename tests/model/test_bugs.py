"""What the model alone says of seeded bugs: which runs, and the table of them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import msgspec
import pytest

from kraftspec.simulation.catalogue import all_bugs, later_bugs, planted
from kraftspec.simulation.catalogue.against_model import (
    BEGIN,
    END,
    NOT_OF_FIRST,
    OF_FIRST_MIN,
    OUTSIDE,
    Judged,
    Search,
    first_bugs,
    first_seeds,
    main,
    run,
    table,
)
from kraftspec.sources import MODEL_CHECK, digest, package_directory

DOCS = Path(__file__).parents[2] / "docs"
EVENTS = 150
BUGS = ("wins_with_half", "votes_twice")


def judged(bug: str, seed: int, stuck_at: int | None, events: int = EVENTS) -> Judged:
    return Judged(bug=bug, seed=seed, events=events, stuck_at=stuck_at)


def test_the_first_seed_of_each_bug_is_in_the_page() -> None:
    assert first_seeds((DOCS / "simulation.md").read_text("utf-8")).keys() == all_bugs().keys()


def test_what_the_model_leaves_out_is_no_mistake_of_a_name() -> None:
    assert OUTSIDE.keys() < all_bugs().keys()


def test_the_page_has_each_bug_once_as_the_catalogue_says_it() -> None:
    part = (DOCS / "model.md").read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", part, re.MULTILINE)
    assert sorted(rows) == sorted(
        (name, bug.sentence) for name, bug in (all_bugs() | later_bugs()).items()
    )


def test_what_came_after_the_first_bugs_is_no_mistake_of_a_name() -> None:
    assert all_bugs().keys() > NOT_OF_FIRST
    assert len(first_bugs()) == 89


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
    assert "first 89 bugs, 1 are among the rejected." in text
    assert "after the model was done, 1 of 1 are rejected." in text
    assert "runs without a bug, 1 of 2 are explained." in text
    assert "| 1 | 1 | 1 | 9 |" in text
    assert text.count("**no**") == 2


@pytest.mark.parametrize(
    ("of_first", "sources", "expected"),
    [
        (OF_FIRST_MIN, "", None),
        (OF_FIRST_MIN - 1, "", "79 of the catalogue's first 89 bugs are rejected, and 80 have"),
        (OF_FIRST_MIN, "others", "0 of the catalogue's first 89 bugs are rejected, and 80 have"),
    ],
    ids=["enough", "one-too-few", "of-other-sources"],
)
def test_the_command_fails_where_too_few_are_rejected(
    of_first: int,
    sources: str,
    expected: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by = sources or digest(map(package_directory, MODEL_CHECK))
    bugs = [*sorted(first_bugs())[:of_first], *later_bugs()]
    lines = [judged("", 1, None), *(judged(bug, 1, 9) for bug in bugs)]
    out = tmp_path / "runs.jsonl"
    out.write_bytes(
        b"\n".join(msgspec.json.encode(msgspec.structs.replace(one, sources=by)) for one in lines)
    )
    monkeypatch.setattr(sys, "argv", ["against_model", "--seconds", "0", "--out", str(out)])
    if expected is None:
        main()
        return
    with pytest.raises(SystemExit) as ended:
        main()
    assert str(ended.value).startswith(expected)
