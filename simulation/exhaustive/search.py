"""The search: each event in each state, breadth first, until nothing new comes of it.

A step of a node depends on that node and on the event alone. So the core carries each pair of them
out once, and what all nodes together come to is put together from that.

What may happen: a message arrives, in any order, or never; a request fails; time goes by at a node,
by one unit or by several at once; a disk is done syncing; a leader is asked to append, to resign,
or to add or remove a voter; a node crashes, and starts with any part of what it had not synced.
Which random numbers a step draws is a choice, too. A message that is lost is never sent here: with
no more than ``in_flight`` at a time, that is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from kraftspec.fastpath.types import Uuid
from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.reference.raft import Config, ReplicaKey, RoleName, Voter, VoterSet
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.messages import AddVoter, RemoveVoter, Reply, Request
from kraftspec.reference.raft.types import Node, VersionRange
from kraftspec.simulation.exhaustive.node import Disk, ExploredNode, NodeState
from kraftspec.simulation.exhaustive.scopes import Scope
from kraftspec.simulation.initial_quorum import CLUSTER_ID, endpoints_of

REQUEST, REPLY, FAIL, TICK, SYNC, RESIGN, APPEND, ADD, REMOVE, CRASH = range(10)
Event = tuple[int, ...]  # What happens, and what that needs.


class Flying(NamedTuple):
    """A message in flight; the messages themselves have numbers.

    ``is_awaited``: who asked, or is answered, still waits for that. An answer that nobody waits for
    is not looked at, so it is gone.
    """

    source: int
    target: int
    is_reply: bool
    message: int
    is_awaited: bool


class Spent(NamedTuple):
    """How much has happened of what the scope bounds."""

    crashes: int = 0
    appends: int = 0
    changes: int = 0


class State(NamedTuple):
    """All nodes, and what is between them: numbers, of `Explorer.nodes` and `Explorer.flying`."""

    nodes: tuple[int, ...]
    flying: tuple[int, ...]
    spent: Spent


class _Outcome(NamedTuple):
    """What an event makes of a node: what it is, what it sends, from whom it still awaits what."""

    node: int
    sends: tuple[int, ...]
    still_awaited: frozenset[int]


class Explorer:
    """What is known of a scope so far.

    ``parents`` has each state, and the one before it; ``at`` is the state whose events are tried.
    """

    at: State

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.replicas = [
            Voter(_key(id), endpoints_of(id), VersionRange(0, 1))
            for id in range(scope.voters + scope.observers)
        ]
        roles = frozenset(map(RoleName, scope.syncs_at_once))
        policy = KafkaProfile().policy
        self.hosts = [
            ExploredNode(config, policy, roles, len(self.replicas))
            for config in _configurations(self.replicas, scope)
        ]
        self.nodes: list[NodeState] = []
        self.frozen: list[bytes] = []  # From which they go on.
        self.flying: list[Flying] = []
        self.messages: list[Request | Reply] = []
        self.parents: dict[State, State | None] = {}
        self.transitions = 0
        self.core_steps = 0
        self.depth = 0
        self._numbers: dict[Any, int] = {}
        self._outcomes: dict[tuple[int, int, Event], tuple[_Outcome, ...]] = {}
        self._known_moves: dict[tuple[int, int, Spent], list[tuple[Spent, _Outcome]]] = {}

    def run(self, *, states_max: int = 0) -> Iterator[State]:
        """Yield each state once, those first that take the fewest events; 0: all there are."""
        nodes = []
        for id, host in enumerate(self.hosts):
            is_formatted = self.scope.changes and id < self.scope.voters
            host.start(Disk(VoterSet(self.replicas[: self.scope.voters]) if is_formatted else None))
            nodes.append(self._node(id, host.look()))
        first = State(tuple(nodes), (), Spent())
        parents = self.parents
        parents[first] = None
        yield first
        todo = [first]
        while todo:
            following = []
            for state in todo:
                self.at = state
                for other in self.successors(state):
                    self.transitions += 1
                    if other not in parents:
                        parents[other] = state
                        following.append(other)
                        yield other
                        if len(parents) == states_max:
                            return
            todo = following
            self.depth += bool(todo)

    def way_to(self, state: State) -> list[State]:
        """Return the states from the first one to this."""
        way: list[State] = []
        at: State | None = state
        while at is not None:
            way.append(at)
            at = self.parents[at]
        return way[::-1]

    def successors(self, state: State) -> Iterator[State]:
        """Yield what may come next, some of it more than once."""
        nodes, flying, spent = state
        for at, number in enumerate(flying):
            one = self.flying[number]
            event: Event = (REPLY, one.source, one.message)
            if not one.is_reply:
                event = (REQUEST, one.source, one.message, one.is_awaited)
            outcomes = self._outcomes_of(one.target, nodes[one.target], event)
            beside = flying[:at] + flying[at + 1 :]
            for outcome in outcomes:
                yield from self._after(state, one.target, outcome, beside, spent)
        for id, node in enumerate(nodes):
            for after, outcome in self._moves(id, node, spent):
                yield from self._after(state, id, outcome, flying, after)

    def _after(
        self, state: State, id: int, outcome: _Outcome, flying: tuple[int, ...], spent: Spent
    ) -> Iterator[State]:
        """Yield what all are when this has come of one; what it sends arrives, or some of it."""
        left = self._left(id, flying, outcome) if flying else ()
        nodes = (*state.nodes[:id], outcome.node, *state.nodes[id + 1 :])
        yield State(nodes, left, spent)
        if outcome.sends:
            sends = [one for one in outcome.sends if one not in left]
            for count in range(1, min(self.scope.in_flight - len(left), len(sends)) + 1):
                for some in combinations(sends, count):
                    yield State(nodes, tuple(sorted((*left, *some))), spent)

    def _moves(self, id: int, number: int, spent: Spent) -> list[tuple[Spent, _Outcome]]:
        """Return what a node may do by itself, and how much has happened then."""
        key = (id, number, spent)
        moves = self._known_moves.get(key)
        if moves is None:
            moves = self._known_moves[key] = [
                (after, outcome)
                for event, after in self._events(self.nodes[number], spent)
                for outcome in self._outcomes_of(id, number, event)
            ]
        return moves

    def _events(self, node: NodeState, spent: Spent) -> Iterator[tuple[Event, Spent]]:
        for event in self._free_events(node):
            yield event, spent
        scope = self.scope
        if node.role is RoleName.LEADER:
            if spent.appends < scope.appends:
                yield (APPEND,), spent._replace(appends=spent.appends + 1)
            if spent.changes < scope.changes:
                after = spent._replace(changes=spent.changes + 1)
                for replica in range(len(self.replicas)):
                    yield (ADD, replica), after
                    yield (REMOVE, replica), after
        if spent.crashes < scope.crashes:
            after = spent._replace(crashes=spent.crashes + 1)
            for batches in range(node.synced, node.batches + 1):
                yield (CRASH, batches), after

    def _free_events(self, node: NodeState) -> Iterator[Event]:
        for at in range(len(node.times_us)):
            yield (TICK, at)
        for peer in node.awaited:
            yield (FAIL, peer)
        if node.is_to_sync:
            yield (SYNC,)
        if node.role is RoleName.LEADER:
            yield (RESIGN,)

    def _left(self, id: int, flying: tuple[int, ...], outcome: _Outcome) -> tuple[int, ...]:
        """Return what is still in flight, now that a node awaits fewer answers."""
        left = []
        for number in flying:
            one = self.flying[number]
            requester, receiver = (
                (one.target, one.source) if one.is_reply else (one.source, one.target)
            )
            if requester != id or not one.is_awaited or receiver in outcome.still_awaited:
                left.append(number)
            elif not one.is_reply:
                left.append(self._number(self.flying, one._replace(is_awaited=False)))
        return tuple(sorted(set(left)))

    # ---- steps of the core ---------------------------------------------------------------------

    def known_outcomes(self) -> dict[tuple[int, int], dict[Event, tuple[_Outcome, ...]]]:
        """Return what the core has carried out so far, by node and number of its state."""
        known: dict[tuple[int, int], dict[Event, tuple[_Outcome, ...]]] = {}
        for (id, node, event), outcomes in self._outcomes.items():
            known.setdefault((id, node), {})[event] = outcomes
        return known

    def _outcomes_of(self, id: int, node: int, event: Event) -> tuple[_Outcome, ...]:
        key = (id, node, event)
        known = self._outcomes.get(key)
        if known is None:
            known = self.carried_out(id, self.nodes[node], self.frozen[node], event)
            self._outcomes[key] = known
        return known

    def carried_out(
        self, id: int, before: NodeState, frozen: bytes, event: Event
    ) -> tuple[_Outcome, ...]:
        """Let the core take an event, once for each row of numbers that it may draw."""
        host, outcomes = self.hosts[id], dict[_Outcome, None]()
        goes_on = True
        while goes_on:
            host.take_up(frozen)
            self._do(host, before, event)
            self.core_steps += 1
            after = host.look()
            if after.epoch <= self.scope.epochs:
                still_awaited = {
                    peer for peer, request in after.awaited.items()
                    if before.awaited.get(peer) == request and event[0] != CRASH
                }  # fmt: skip
                sends = self._sends(id, event, still_awaited, after)
                outcomes[_Outcome(self._node(id, after), sends, frozenset(still_awaited))] = None
            goes_on = host.draws.others()
        return tuple(outcomes)

    def _do(self, host: ExploredNode, before: NodeState, event: Event) -> None:
        kind, *detail = event
        if kind == REQUEST:
            peer, message, _ = detail
            request = self.messages[message]
            assert isinstance(request, Request)
            host.asked(peer, request)
        elif kind == REPLY:
            peer, message = detail
            reply = self.messages[message]
            assert isinstance(reply, Reply)
            host.step(ev.ReplyReceived(before.awaited[peer], reply))
        elif kind == FAIL:
            host.step(ev.RequestFailed(before.awaited[detail[0]]))
        elif kind == TICK:
            host.tick(before.times_us[detail[0]])
        elif kind == SYNC:
            host.sync_ends()
        elif kind == RESIGN:
            host.step(ev.ResignRequested(before.epoch))
        elif kind == APPEND:
            host.step(ev.AppendRequested(1, before.epoch, (b"",)))
        elif kind == ADD:
            added = self.replicas[detail[0]]
            host.operated(
                AddVoter(
                    voter_id=added.key.id,
                    voter_directory_id=added.key.directory_id,
                    endpoints=added.endpoints,
                )
            )
        elif kind == REMOVE:
            removed = self.replicas[detail[0]].key
            host.operated(RemoveVoter(voter_id=removed.id, voter_directory_id=removed.directory_id))
        else:
            host.crash(detail[0])

    def _sends(
        self, id: int, event: Event, still_awaited: set[int], after: NodeState
    ) -> tuple[int, ...]:
        """Return what the step has sent that may matter to somebody."""
        sends = []
        for peer, message, request in self.hosts[id].sent:
            is_reply = isinstance(message, Reply)
            if is_reply:
                is_awaited = bool(event[3]) and (peer != id or id in still_awaited)
            else:
                is_awaited = after.awaited.get(peer) == request
            if is_awaited or not is_reply:
                flying = Flying(id, peer, is_reply, self._message(message), is_awaited)
                sends.append(self._number(self.flying, flying))
        return tuple(sends)

    # ---- numbers -------------------------------------------------------------------------------

    def _node(self, id: int, node: NodeState) -> int:
        number = self._number(self.nodes, node, (id, node.key))
        if number == len(self.frozen):
            self.frozen.append(self.hosts[id].put_aside())
        return number

    def _message(self, message: Request | Reply) -> int:
        return self._number(self.messages, message, repr(message))

    def _number(self, known: list[Any], value: Any, key: Any = None) -> int:
        """Return the number of a value, the next one if it is new."""
        key = value if key is None else key
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(known)
            known.append(value)
        return number


def _key(id: int) -> ReplicaKey:
    return ReplicaKey(id, Uuid(bytes([id + 1]) * 16))


def _configurations(replicas: Sequence[Voter], scope: Scope) -> Iterator[Config]:
    """Yield that of each node. Those of a dynamic quorum have no voters, but servers to ask."""
    static = VoterSet(Voter(ReplicaKey(one.key.id), one.endpoints) for one in replicas)
    servers = tuple(
        Node(one.key.id, one.endpoints[0].host, one.endpoints[0].port) for one in replicas
    )
    for one in replicas:
        yield Config(
            cluster_id=CLUSTER_ID,
            node_id=one.key.id,
            directory_id=one.key.directory_id,
            endpoints=one.endpoints,
            voters=VoterSet() if scope.changes else static,
            bootstrap_servers=servers if scope.changes else (),
            election_timeout_us=scope.election_timeout_us,
            fetch_timeout_us=scope.fetch_timeout_us,
            request_timeout_us=scope.request_timeout_us,
            retry_backoff_us=scope.retry_backoff_us,
            append_linger_us=0,
            fetch_max_wait_us=0,
        )
