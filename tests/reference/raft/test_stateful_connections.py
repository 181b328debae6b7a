"""Requests under way, time-outs and backoff against one word for each node: what it waits for."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kraftspec.reference.raft.connections import Connection, Connections
from kraftspec.reference.raft.messages import ApiVersions
from kraftspec.reference.raft.types import NEVER_US, Node

TIMEOUT_US = 100
RETRY_US = 7
NODES = [Node(id, f"node{id}", 9000 + id) for id in (1, 2, 3)]
nodes = st.sampled_from(NODES)


class ConnectionsMachine(RuleBasedStateMachine):
    """``asked``: node → (request id, when it times out). ``resting``: node → until when."""

    def __init__(self) -> None:
        super().__init__()
        self.connections = Connections(TIMEOUT_US, RETRY_US)
        self.now_us = 1_000
        self.pending: dict[int, tuple[int, int]] = {}
        self.resting: dict[int, int] = {}
        self.ids: set[int] = set()  # All that were ever given out.
        self.answered: Connection | None = None  # The last that was taken, not yet judged.

    @rule(node=nodes)
    def ask(self, node: Node) -> None:
        """A role asks who is ready; nothing stops it from asking others again."""
        request_id = self.connections.sent(node, ApiVersions(), self.now_us)
        assert request_id not in self.ids
        self.ids.add(request_id)
        self.pending[node.id] = (request_id, self.now_us + TIMEOUT_US)
        self.resting.pop(node.id, None)

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def is_answered(self, data: st.DataObject) -> None:
        node_id = data.draw(st.sampled_from(sorted(self.pending)))
        request_id, _ = self.pending.pop(node_id)
        self.answered = self.connections.take(request_id)
        assert self.answered is not None
        assert self.answered.node.id == node_id

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def is_answered_too_late(self, data: st.DataObject) -> None:
        """Or twice: whoever gave a request up, or was answered, finds nothing."""
        awaited = {request_id for request_id, _ in self.pending.values()}
        late = sorted(self.ids - awaited)
        if late:
            assert self.connections.take(data.draw(st.sampled_from(late))) is None

    @precondition(lambda self: self.answered is not None)
    @rule()
    def the_answer_is_no_good(self) -> None:
        assert self.answered is not None
        self.connections.back_off(self.answered, self.now_us)
        self._rests(self.answered.node.id)
        self.answered = None

    @rule(node=nodes)
    def is_left_alone(self, node: Node) -> None:
        known = self.connections._by_node
        is_known = node.id in known
        self.connections.leave_alone(node.id, self.now_us)
        if is_known:
            self._rests(node.id)

    def _rests(self, node_id: int) -> None:
        if node_id not in self.pending:
            self.resting[node_id] = self.now_us + RETRY_US

    @rule(by_us=st.sampled_from((1, RETRY_US - 1, RETRY_US, TIMEOUT_US // 2, TIMEOUT_US)))
    def time_passes(self, by_us: int) -> None:
        self.now_us += by_us
        overdue = {id for id, (_, until_us) in self.pending.items() if until_us <= self.now_us}
        if overdue:
            assert self.connections.check_us <= self.now_us
        assert {node.id for node in self.connections.timed_out(self.now_us)} == overdue
        for node_id in overdue:
            del self.pending[node_id]
        self.resting = {id: until for id, until in self.resting.items() if until > self.now_us}

    @rule()
    def the_role_changes(self) -> None:
        self.connections.reset()
        self.pending.clear()
        self.resting.clear()
        self.answered = None

    @invariant()
    def who_is_ready(self) -> None:
        connections, now_us = self.connections, self.now_us
        for node in NODES:
            id = node.id
            assert connections.ready(id, now_us) == (id not in self.pending | self.resting)
            assert connections.backing_off(id, now_us) == (id in self.resting)
            until_us = self.pending[id][1] if id in self.pending else self.resting.get(id, 0)
            assert max(connections.ready_us(id), now_us) == max(until_us, now_us)
        for first in range(len(NODES)):
            circle = [NODES[(first + at) % len(NODES)] for at in range(len(NODES))]
            ready = [node for node in circle if connections.ready(node.id, now_us)]
            first_id = connections.first_ready(NODES, first, now_us)
            assert first_id == (ready[0] if ready else None)

    @invariant()
    def when_to_look_again(self) -> None:
        ends = [until_us for _, until_us in self.pending.values()]
        assert self.connections.busy_until_us(self.now_us) == max(ends, default=0)
        assert self.connections.check_us <= min(ends, default=NEVER_US)
        soonest_us = min([*ends, *self.resting.values(), self.now_us + RETRY_US])
        assert self.connections.next_ready_us(self.now_us) == soonest_us


TestConnections = ConnectionsMachine.TestCase
