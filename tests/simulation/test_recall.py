"""The searches for public bugs of Kafka's raft client, and what they found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kraftspec.simulation.recall.search import run
from kraftspec.simulation.recall.searches import Search, all_searches
from kraftspec.simulation.recall.table import read_results, table, with_table

PAGE = Path(__file__).parents[2] / "docs/recall.md"
SEARCHES = {search.bug: search for search in all_searches()}


def test_each_search_is_for_a_bug_of_the_list() -> None:
    """By its number and its name, with releases that the list names."""
    page = PAGE.read_text(encoding="utf-8")
    for search in SEARCHES.values():
        row = re.search(rf"^\| {search.number} \| {search.bug}\b.*$", page, re.MULTILINE)
        assert row is not None, search.bug
        assert search.read, search.bug


def test_what_was_found_is_what_was_looked_for() -> None:
    """A result of a search that has changed since is none, and the page has no other table."""
    results = read_results()
    assert set(results) == {search.key for search in SEARCHES.values()}
    for search in SEARCHES.values():
        result = results[search.key]
        assert (result.has, result.without) == (search.has, search.without)
        assert result.seed is None or search.is_it(result.broken, result.text)
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page, table(list(SEARCHES.values()), results)) == page


def test_seeds_are_those_whose_conditions_fit() -> None:
    """Others are passed over."""
    search = Search(
        number=0, bug="", has="", without="", broken="", text="", read="",
        conditions={"voters": (2, 2), "kraft_version": (0, 0)}, runs=3,
    )  # fmt: skip
    seeds = list(search.seeds())
    assert len(seeds) == 3
    assert seeds == sorted(set(seeds))
    assert search.key != SEARCHES["KAFKA-16926"].key


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.parametrize("bug", sorted(SEARCHES))
def test_a_public_bug_is_found_where_it_is_and_not_where_it_is_repaired(bug: str) -> None:
    """The seed of the table, with the release that has the bug and with the other."""
    search = SEARCHES[bug]
    seed = read_results()[search.key].seed
    assert seed is not None
    assert run(search, search.has, seed).is_it
    assert not run(search, search.without, seed).is_it
