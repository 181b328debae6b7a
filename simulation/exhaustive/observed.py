"""States of real nodes in the words of the model, beside those that TLC visits."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence, Set
from itertools import permutations
from typing import Any, NamedTuple

import msgspec

from kraftspec.model import Group, run
from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft.campaign import Campaign
from kraftspec.reference.raft.follower import Follower
from kraftspec.reference.raft.leader import Leader
from kraftspec.reference.raft.transitions import FatalError
from kraftspec.simulation.exhaustive.node import ExploredNode
from kraftspec.simulation.exhaustive.scopes import Scope
from kraftspec.simulation.exhaustive.search import Explorer, State

_PRINTED = '"<<\\"seen\\"'


class Seen(NamedTuple):
    """What `Observed.tla` says of a node. Nodes count from 1 on, 0 is none."""

    role: str
    epoch: int
    leader: int
    vote: int
    log: tuple[int, ...]  # The epoch of each batch.
    synced: int
    high_watermark: int
    has_fetched: int
    votes: tuple[int, ...]  # Of each voter whether it has granted its vote.
    acknowledged: tuple[int, ...]  # Of each node what it has, as a leader knows.
    voters: tuple[int, ...]  # Of each node whether it is a voter by what this one has read.
    is_first: int  # Whether it is one of the first voters; they alone are alike.


AllSeen = tuple[Seen, ...]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """The two explorations of a scope.

    ``unknown`` is the way to a state that the model lacks; ``error`` is what a core says that meets
    in the last state of it what no correct quorum does. Ours ends with the first of them.
    """

    states: int
    transitions: int
    core_steps: int
    depth: int
    seconds: float
    model_states: int
    model_seconds: float
    ours: int  # States as the model sees them, nodes being alike.
    models: int
    unknown: Sequence[AllSeen]
    error: str


def compare(scope: Scope) -> Compared:
    """Explore a scope, let TLC do the same with the model, and look for states it lacks.

    Raises ``kraftspec.model.TlcError``.
    """
    group = Group(
        about="what TLC sees", module="Observed", constants=scope.constants,
        invariants=["observed"], properties=[],
    )  # fmt: skip
    result = run(group)
    models = {_of_alike(seen) for seen in _printed(result.output)}
    ours = _Ours(Explorer(scope), models)
    began, error = time.monotonic(), ""
    try:
        ours.explore()
    except FatalError as fatal:
        error = str(fatal)
        ours.unknown = ours.way_to(ours.explorer.at)
    explorer = ours.explorer
    return Compared(
        states=len(explorer.parents), transitions=explorer.transitions,
        core_steps=explorer.core_steps, depth=explorer.depth,
        seconds=time.monotonic() - began, model_states=result.distinct,
        model_seconds=result.seconds, ours=len(ours.states), models=len(models),
        unknown=ours.unknown, error=error,
    )  # fmt: skip


class _Ours:
    """Our exploration, as the model sees it. ``states`` are those it reached, nodes being alike."""

    def __init__(self, explorer: Explorer, models: Set[AllSeen]) -> None:
        self.explorer = explorer
        self.models = models
        self.states: set[AllSeen] = set()
        self.unknown: list[AllSeen] = []
        self._seen: dict[int, Seen] = {}  # By the number of a node's state.
        self._known: set[AllSeen] = set()

    def explore(self) -> None:
        """Go on until all is explored, or a state is found that the model lacks."""
        for state in self.explorer.run():
            seen = self._all_seen(state)
            if seen not in self._known:
                self._known.add(seen)
                one = _of_alike(seen)
                self.states.add(one)
                if one not in self.models:
                    self.unknown = self.way_to(state)
                    return

    def way_to(self, state: State) -> list[AllSeen]:
        """Return the way to a state, without the steps in which nothing is seen."""
        return list(dict.fromkeys(map(self._all_seen, self.explorer.way_to(state))))

    def _all_seen(self, state: State) -> AllSeen:
        for id, node in enumerate(state.nodes):
            if node not in self._seen:
                self._seen[node] = seen_of(self.explorer, id, node)
        return tuple([self._seen[node] for node in state.nodes])


def seen_of(explorer: Explorer, id: int, number: int) -> Seen:
    """Return a node in the words of the model."""
    host: ExploredNode = explorer.hosts[id]
    host.take_up(explorer.frozen[number])
    core, disk, role = host.core, host.disk, host.core.role
    voters, nodes = core.log.voters.last.ids, range(len(explorer.hosts))
    is_leader = isinstance(role, Leader)
    shows_no_vote = core.voted is None or role.name in (RoleName.LEADER, RoleName.RESIGNED)
    votes, acknowledged = [0] * len(nodes), [0] * len(nodes)
    if isinstance(role, Campaign):
        votes = [int(node in role.tally.granted and node in voters) for node in nodes]
    elif isinstance(role, Leader):
        for one in (*role.voters.values(), *role.observers.values()):
            if one.key.id != id:
                acknowledged[one.key.id] = disk.count(one.end_offset)
    return Seen(
        role=str(role.name),
        epoch=core.epoch,
        leader=core.leader_id + 1,
        vote=0 if shows_no_vote or core.voted is None else core.voted.id + 1,
        log=tuple(batch.epoch for batch in disk.batches),
        synced=disk.synced,
        high_watermark=disk.count(core.high_watermark if is_leader else core.committed_offset),
        has_fetched=int(isinstance(role, Follower) and role.has_fetched),
        votes=tuple(votes),
        acknowledged=tuple(acknowledged),
        voters=tuple([int(node in voters) for node in nodes]),
        is_first=int(id < explorer.scope.voters),
    )


def _printed(output: str) -> list[AllSeen]:
    states = []
    for line in output.splitlines():
        if line.startswith(_PRINTED):
            _, nodes = json.loads(json.loads(line).replace("<<", "[").replace(">>", "]"))
            states.append(tuple([Seen(*map(_frozen, node)) for node in nodes]))
    return states


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _of_alike(seen: AllSeen) -> AllSeen:
    """Return the one state that stands for all that differ in the names of nodes alone."""
    return min(_renamed(seen, order) for order in permutations(range(len(seen))))


def _renamed(seen: AllSeen, order: tuple[int, ...]) -> AllSeen:
    """Return a state whose first node is the one that ``order`` names first, and so on."""
    number = {old + 1: new + 1 for new, old in enumerate(order)} | {0: 0}
    return tuple([
        one._replace(
            leader=number[one.leader], vote=number[one.vote],
            votes=tuple([one.votes[old] for old in order]),
            acknowledged=tuple([one.acknowledged[old] for old in order]),
            voters=tuple([one.voters[old] for old in order]),
        )
        for one in (seen[old] for old in order)
    ])  # fmt: skip
