"""What passes between a node and its state machine, clients and operators, step by step.

A trace for the model is made of it. Nothing is judged here.
"""

from __future__ import annotations

from kraftspec.model.traces import Change
from kraftspec.reference.profiles.kip_595.messages import AlterQuorum
from kraftspec.reference.raft import ReplicaKey, SnapshotId
from kraftspec.reference.raft.messages import AddVoter, RemoveVoter, Request
from kraftspec.simulation.clients import Operation
from kraftspec.simulation.invariants import Invariant
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.whole_logs import WholeLogs


class StepNotes(Invariant):
    """Notes of the step that a node is in; ``clear`` begins the next."""

    def __init__(self, logs: WholeLogs) -> None:
        self._logs = logs
        self._asked: dict[int, tuple[int, set[Change]]] = {}  # Node → its epoch, and what in it.
        self.clear()

    def clear(self) -> None:
        """Forget what was noted of a step."""
        self.leads = 0  # The epoch that a state machine is told to lead.
        self.takes: set[int] = set()  # The epochs that appends are meant for that were taken.
        self.confirms: set[Change] = set()  # Changes that are told to be done.
        self.reloads = False  # Whether a state machine that leads has to load a snapshot.

    def changes(self, replica: Replica) -> frozenset[Change]:
        """Return which changes of the voters a node was asked for in its epoch."""
        epoch, changes = self._asked.get(replica.id, (-1, set()))
        return frozenset(changes) if epoch == replica.core.epoch else frozenset()

    def change_requested(self, replica: Replica, request: Request) -> None:
        """Note whom a node is to add or to remove."""
        change = self._change(request)
        if change is not None:
            self._asked[replica.id] = (replica.core.epoch, {*self.changes(replica), change})

    def change_answered(self, replica: Replica, request: Request) -> None:
        """Note what is said to be done and committed."""
        change = self._change(request)
        if change is not None and getattr(request, "ack_when_committed", True):
            self.confirms.add(change)

    def leader_reported(self, replica: Replica, epoch: int, leader_id: int) -> None:
        """Note that a state machine is told to lead."""
        if leader_id == replica.id:
            self.leads = epoch

    def append_taken(self, replica: Replica, operation: Operation, epoch: int) -> None:
        """Note in which epoch an append is meant to be."""
        self.takes.add(operation.epoch)

    def snapshot_loaded(self, replica: Replica, snapshot: SnapshotId) -> None:
        """Note that a state machine begins anew though it was told to lead."""
        self.reloads = self.reloads or replica.leads_epoch >= 0

    def _change(self, request: Request) -> Change | None:
        if isinstance(request, AlterQuorum):
            return "alter", *sorted({*request.targets})
        if not isinstance(request, AddVoter | RemoveVoter):
            return None
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        what = "add" if isinstance(request, AddVoter) else "remove"
        return what, key.id, self._logs.directory_of(key.id, key.directory_id)
