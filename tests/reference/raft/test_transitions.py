"""The table of transitions, all that it allows, and all that it does not."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.reference.raft.network import (
    Network,
    Replica,
    directory,
    formatted,
    joiner,
    quorum,
    voter,
)

from kraftspec.reference.raft import TRANSITIONS, Cause, FatalError, RoleName
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.config import S
from kraftspec.reference.raft.types import NONE, ElectionState, ReplicaKey

U, P, C, L, F, R = (
    RoleName.UNATTACHED,
    RoleName.PROSPECTIVE,
    RoleName.CANDIDATE,
    RoleName.LEADER,
    RoleName.FOLLOWER,
    RoleName.RESIGNED,
)

# KIP-595, KIP-996 and Kafka's QuorumState: who may become what. Written down here once more, from
# the documents, so that a change of the table is seen twice.
ALLOWED = {
    U: {U, P, F},
    P: {P, C, F, U},
    C: {L, P, U, F},
    F: {F, P, U},
    L: {R, U, F},
    R: {U, F, P},  # Prospective as the only voter, at its start
}


def test_the_table_is_the_one_of_the_documents() -> None:
    assert {role: set(causes.values()) for role, causes in TRANSITIONS.items()} == ALLOWED


def node_in(role: RoleName) -> Replica:
    """Return node 1 of three in that role, in epoch 5, with nobody answering."""
    net = quorum(3)
    for node_id in (2, 3):
        net.replicas[node_id].crash()
    node = net.replicas[1]
    node.crash()
    node.disk.election = {
        F: ElectionState(5, 3),
        R: ElectionState(5, 1),
        C: ElectionState(5, -1, ReplicaKey(1, directory(1))),
    }.get(role, ElectionState(4 if role is L else 5))
    node.restart()
    if role in (P, L):
        net.run(node.core.role.election_deadline_us - net.now_us)
    if role is L:
        node.core.move(Cause.PRE_VOTE_WON)
        node.core.move(Cause.ELECTION_WON)
    assert (node.role, node.core.epoch) == (role, 5)
    return node


FACTS: dict[Cause, dict[str, Any]] = {
    Cause.HIGHER_EPOCH: {"epoch": 6},
    Cause.NEW_LEADER: {"epoch": 6, "leader_id": 3, "endpoints": voter(3).endpoints},
    Cause.LEADER_FOUND: {"leader_id": 3, "endpoints": voter(3).endpoints},
    Cause.MORE_ENDPOINTS: {"leader_id": 3, "endpoints": voter(3).endpoints},
    Cause.PRE_VOTE_LOST_LEADER_KNOWN: {"leader_id": 3, "endpoints": voter(3).endpoints},
    Cause.VOTE_GRANTED: {"voted": ReplicaKey(2, directory(2))},
    Cause.RESIGNATION_TIMEOUT: {"epoch": 6},
}


@pytest.mark.parametrize(
    ("role", "cause"), [(role, cause) for role in RoleName for cause in TRANSITIONS[role]]
)
def test_every_row(role: RoleName, cause: Cause) -> None:
    node = node_in(role)
    node.core.move(cause, **FACTS.get(cause, {}))
    assert node.role is TRANSITIONS[role][cause]


@pytest.mark.parametrize(
    ("role", "cause"),
    [(role, cause) for role in RoleName for cause in Cause if cause not in TRANSITIONS[role]],
)
def test_every_other_is_fatal(role: RoleName, cause: Cause) -> None:
    node = node_in(role)
    with pytest.raises(FatalError):
        node.core.move(cause, **FACTS.get(cause, {}))
    assert (node.role, node.core.epoch) == (role, 5)


@pytest.mark.parametrize("role", list(RoleName))
def test_an_epoch_never_falls(role: RoleName) -> None:
    node = node_in(role)
    with pytest.raises(FatalError, match="epoch 4 after 5"):
        node.core.move(Cause.HIGHER_EPOCH, epoch=4)


FORBIDDEN: dict[str, tuple[RoleName, Callable[[Replica], None]]] = {
    "unattached in the same epoch": (F, lambda n: n.core.move(Cause.HIGHER_EPOCH, epoch=5)),
    "new leader in the same epoch": (
        L,
        lambda n: n.core.move(Cause.NEW_LEADER, epoch=5, leader_id=3, endpoints=voter(3).endpoints),
    ),
    "another leader in the same epoch": (
        F,
        lambda n: n.core.move(Cause.MORE_ENDPOINTS, leader_id=2, endpoints=voter(2).endpoints),
    ),
    "itself as leader": (
        U,
        lambda n: n.core.move(Cause.NEW_LEADER, epoch=6, leader_id=1, endpoints=voter(1).endpoints),
    ),
    "a leader without endpoints": (
        U,
        lambda n: n.core.move(Cause.NEW_LEADER, epoch=6, leader_id=3, endpoints=()),
    ),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_forbidden_by_its_facts(name: str) -> None:
    role, act = FORBIDDEN[name]
    node = node_in(role)
    with pytest.raises(FatalError):
        act(node)


@pytest.mark.parametrize("role", [L, F, R])
def test_two_leaders_in_one_epoch_end_the_node(role: RoleName) -> None:
    node = node_in(role)
    other = 2
    with pytest.raises(FatalError, match="epoch 5 has two leaders"):
        node.net.ask(1, ms.BeginEpoch(leader_id=other, leader_epoch=5))


def test_an_observer_does_not_campaign() -> None:
    net = formatted(3)
    observer = net.add(joiner(9))
    for cause in (Cause.ELECTION_TIMEOUT, Cause.SOLE_VOTER):
        with pytest.raises(FatalError, match="observer"):
            observer.core.move(cause)


@pytest.mark.parametrize("role", list(RoleName))
def test_a_node_that_is_said_to_lead_and_does_not_stays_what_it_is(role: RoleName) -> None:
    """A replica whose disk was replaced while it led hears this of its peers."""
    node = node_in(role)
    node.net.ask(1, ms.BeginEpoch(leader_id=1, leader_epoch=5, leader_endpoints=()))
    assert (node.role, node.core.epoch) == (role, 5)
    node.net.ask(1, ms.BeginEpoch(leader_id=1, leader_epoch=8, leader_endpoints=()))
    assert (node.role, node.core.epoch, node.core.leader_id) == (U, 8, NONE)


def test_what_a_core_does_depends_on_nothing_but_what_it_is_given() -> None:
    """The same seeds, the same events: the same effects, in the same order."""

    def life() -> list[str]:
        net: Network = formatted(3)
        leader = net.elect()
        for number in range(20):
            leader.step(ev.AppendRequested(number, leader.core.epoch, (b"a", b"b")))
        net.run(S)
        leader.crash()
        net.run(10 * S)
        leader.restart()
        net.run(S)
        effects = [repr(e) for r in net.replicas.values() for e in r.effects]
        return [re.sub("<memory at 0x.*?>", "", effect) for effect in effects]

    assert life() == life()
