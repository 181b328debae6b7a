"""All states of a few real nodes: found once each, and none that the model does not have."""

from __future__ import annotations

import random
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft.state import draw_below
from kraftspec.simulation.exhaustive import SCOPES, Compared, Explorer, Scope, compare
from kraftspec.simulation.exhaustive import __main__ as command
from kraftspec.simulation.exhaustive.__main__ import MARKS, main
from kraftspec.simulation.exhaustive.node import Draws
from kraftspec.simulation.exhaustive.observed import seen_of

NOTHING_LOST = Compared(
    states=1000, transitions=2000, core_steps=30, depth=4, seconds=1.0, model_states=50,
    model_seconds=2.0, ours=6, models=7, unknown=(), error="",
)  # fmt: skip


def test_each_row_of_numbers_is_drawn_once() -> None:
    draws = Draws(3)
    rows = []
    goes_on = True
    while goes_on:
        first = draw_below(draws, 3)
        rows.append((first, draw_below(draws, 2)) if first else (first,))
        goes_on = draws.others()
    # A draw of two takes each of them, one of them twice: three places are tried.
    assert {*rows} == {(0,), (1, 0), (1, 1), (2, 0), (2, 1)}
    assert len(rows) == 7


def test_an_election_without_a_failure() -> None:
    """Both nodes may lead epoch 1, never at the same time, and what they write is committed."""
    explorer = Explorer(SCOPES["election"])
    states = [*explorer.run()]
    assert len(states) == len({*states}) == len(explorer.parents)
    roles = {tuple(explorer.nodes[node].role for node in state.nodes) for state in states}
    assert (RoleName.LEADER, RoleName.FOLLOWER) in roles
    assert (RoleName.FOLLOWER, RoleName.LEADER) in roles
    assert (RoleName.LEADER, RoleName.LEADER) not in roles
    assert max(node.batches for node in explorer.nodes) == 1
    for state in states[:: len(states) // 50]:
        way = explorer.way_to(state)
        assert (way[0], way[-1]) == (states[0], state)
        assert all(after in explorer.successors(before) for before, after in pairwise(way))


def test_nodes_of_one_shape_do_the_same() -> None:
    """A walk of one node that is never replaced by another of its shape: all that it does is known.

    Its times and the numbers of its requests go on, and those of the explored node do not.
    """
    explorer = Explorer(
        Scope(voters=2, epochs=2, crashes=1, appends=1, syncs_at_once=("follower",))
    )
    for _ in explorer.run(states_max=12_000):
        pass
    known = explorer.known_outcomes()
    rng = random.Random(1)
    walked = 0
    for _ in range(60):
        id, number = 0, explorer.way_to(next(iter(explorer.parents)))[0].nodes[0]
        host = explorer.hosts[id]
        node, frozen = explorer.nodes[number], explorer.frozen[number]
        for _ in range(25):
            events = sorted(known.get((id, number), {}))
            if not events:
                break
            event = rng.choice(events)
            expected = known[id, number][event]
            assert explorer.carried_out(id, node, frozen, event) == expected
            if not expected:  # Beyond the last epoch.
                continue
            walked += 1
            number = expected[-1].node  # The host is that of the last row of numbers.
            node, frozen = host.look(), host.put_aside()
    assert walked > 300


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.parametrize(
    "scope",
    [
        SCOPES["election"],
        SCOPES["second-election"],
        Scope(voters=1, observers=1, epochs=1, crashes=1, changes=1),
        Scope(voters=2, epochs=1, changes=1),
    ],
    ids=lambda scope: scope.about,
)
def test_the_model_has_all_that_our_nodes_come_to(scope: Scope) -> None:
    compared = compare(scope)
    assert (compared.unknown, compared.error) == ([], "")
    assert 40 < compared.ours <= compared.models < compared.states


@pytest.mark.soak
def test_a_voter_is_added_and_another_removed() -> None:
    """An observer becomes a voter when it has caught up, and a leader may remove itself."""
    for scope, first, last in (
        (Scope(voters=1, observers=1, epochs=1, changes=1), (0,), (0, 1)),
        (Scope(voters=2, epochs=1, changes=1), (0, 1), (1,)),
    ):
        explorer = Explorer(scope)
        for _ in explorer.run(states_max=20_000):
            pass
        nodes = {pair for state in explorer.parents for pair in enumerate(state.nodes)}
        seen = [seen_of(explorer, id, number) for id, number in nodes]
        sets = {tuple(at for at, votes in enumerate(one.voters) if votes) for one in seen}
        assert {first, last} <= sets
        committed = {one.high_watermark for one in seen if one.role == "leader"}
        assert max(committed) == 2


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "bug", "last"),
    [
        (
            "election", "wins_with_half",
            "   1  node 1 is leader of epoch 1, log 1 (durable 1, committed 0), leader 1",
        ),
        (
            "addition", "adds_who_is_far_behind",
            "   1  node 1 is leader of epoch 1, log 1 1 (durable 2, committed 1), leader 1",
        ),
    ],
)  # fmt: skip
def test_a_seeded_bug_comes_to_what_the_model_does_not_have(name: str, bug: str, last: str) -> None:
    done = CliRunner().invoke(main, [name, "--bug", bug])
    assert done.exit_code == 1
    assert done.output.splitlines()[-2:] == [
        "    after these steps, the model has no such state:",
        last,
    ]


def test_the_scopes_are_listed() -> None:
    done = CliRunner().invoke(main, ["--list"])
    assert done.exit_code == 0
    assert [line.partition(":")[0] for line in done.output.splitlines()] == [*SCOPES]
    about = "2 voters, 1 epoch, 1 append, 1 message in flight, a leader's syncs take their time"
    assert f"record: {about}" in done.output


def test_where_java_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    done = CliRunner().invoke(main, ["election"])
    assert done.exit_code == 1
    assert "apt-get install openjdk-17-jdk-headless maven" in done.output


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["absent"], "there is no absent; there are: election"),
        (["election", "--bug", "absent"], "takes a name of the catalogue"),
    ],
)
def test_what_cannot_be_explored(options: list[str], why: str) -> None:
    done = CliRunner().invoke(main, options)
    assert done.exit_code == 2
    assert why in " ".join(done.output.replace("│", "").split())


def test_the_states_of_a_scope_are_put_into_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "compare", lambda _: NOTHING_LOST)
    page = tmp_path / "page.md"
    page.write_text(f"a\n{MARKS[0]}\n| scope |\n| --- |\n\n{MARKS[1]}\nb\n")
    done = CliRunner().invoke(main, ["election", "--write", str(page)])
    assert done.exit_code == 0
    row = f"| `election` | {SCOPES['election'].about} | 1,000 | 2,000 | 30 | 4 | 6 | 7 |"
    assert page.read_text() == f"a\n{MARKS[0]}\n| scope |\n| --- |\n{row}\n\n{MARKS[1]}\nb\n"
    page.write_text("a\n")
    done = CliRunner().invoke(main, ["election", "--write", str(page)])
    assert (done.exit_code, page.read_text()) == (2, "a\n")
