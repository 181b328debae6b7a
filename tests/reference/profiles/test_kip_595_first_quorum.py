"""One first quorum of KIP-595's draft: who agrees on its voters, in all cases of a few servers."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from tests.reference.profiles.test_kip_595 import configured, draft
from tests.reference.raft.network import LISTENER, Network

from kraftspec.reference.profiles import profile_named
from kraftspec.reference.profiles.kip_595.discovery import majority_agrees, own_connection
from kraftspec.reference.profiles.kip_595.messages import Connection, FindQuorum
from kraftspec.reference.raft.types import Endpoint, ReplicaKey, Voter
from kraftspec.reference.raft.voters import VoterSet


def may_agree(
    core: Any,
    expected: dict[int, tuple[int, ...]],
    heard: tuple[int, ...],
    early: tuple[int, ...] = (),
) -> bool:
    """Whether it may begin; it has heard ``early`` before they had learned of any voters."""
    answers = {one: () if one in early else expected[one] for one in heard}
    core.memory.expected_voters = {-2 - one: ids for one, ids in answers.items()}
    return majority_agrees(core)


@pytest.mark.parametrize("count", range(1, 6))
@pytest.mark.parametrize("renamed", [(), (1, 3, 5), (1, 2, 3, 4, 5)])
def test_no_two_sets_of_first_voters_have_a_majority(count: int, renamed: tuple[int, ...]) -> None:
    """Every node expects one of two sets, or none, and hears any others: all cases of up to five.

    Of up to four, each may have been heard before it had learned what it expects, too.
    bootstrap.servers has the ``renamed`` under other names than their own: they find themselves.
    """
    ids = tuple(range(1, count + 1))
    one, other = (101,), (101, 102)
    cores: dict[tuple[int, tuple[int, ...]], Any] = {}
    for node_id, expected in itertools.product(ids, (one, other)):
        voters = VoterSet(Voter(ReplicaKey(voter_id)) for voter_id in expected)
        name = "renamed" if node_id in renamed else "node"
        own = (Endpoint(LISTENER, f"{name}{node_id}", 9000 + node_id),)
        net = Network(profile_named("kip-595"))
        cores[node_id, expected] = net.add(configured(node_id, voters, ids, endpoints=own)).core
        cores[node_id, expected].memory.asks_itself = node_id in renamed
    subsets = [heard for size in ids for heard in itertools.combinations(ids, size)] + [()]
    ways = [(heard, early) for heard in subsets for early in (subsets if count < 5 else [()])]
    ways = [(heard, early) for heard, early in ways if {*early} <= {*heard}]
    for drawn in itertools.product((one, other, ()), repeat=count):
        expected_by = dict(zip(ids, drawn, strict=True))
        leading = {
            expected
            for node_id, expected in expected_by.items()
            if expected
            for heard, early in ways
            if may_agree(cores[node_id, expected], expected_by, heard, early)
        }
        assert len(leading) <= 1
    # And any majority that is heard is enough, where all expect the same.
    alike: dict[int, tuple[int, ...]] = dict.fromkeys(ids, one)
    for heard in subsets:
        agreeing = {*heard} if 1 in renamed else {*heard, 1}
        assert may_agree(cores[1, one], alike, heard) == (2 * len(agreeing) > count)


def test_a_node_learns_that_it_asks_itself() -> None:
    """By another name, or behind a proxy: it is one server then, and not two."""
    net = draft((1, 2))
    core = net.replicas[1].core
    net.ask(1, FindQuorum(sender=Connection(2, 1, "node2", 9002)))
    assert not core.memory.asks_itself
    net.ask(1, FindQuorum(sender=own_connection(core)))
    assert core.memory.asks_itself
