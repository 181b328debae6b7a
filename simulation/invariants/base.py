"""The hooks of an invariant, and who calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kraftspec.fastpath.types import Uuid
from kraftspec.reference.raft import ElectionState, RoleName, SnapshotId
from kraftspec.reference.raft.control import ControlRecord
from kraftspec.reference.raft.messages import Fetch, Request, Vote
from kraftspec.simulation.clients import Operation
from kraftspec.simulation.committed_log import CommittedLog, Violation
from kraftspec.simulation.log_model import LogModel
from kraftspec.simulation.network import Message
from kraftspec.simulation.replica import Replica


def role_of(replica: Replica) -> str:
    """Say what a node is, as a property tells it that looks at what such a node may do."""
    core = replica.core
    return f"{core.role.name} and {'a voter' if core.is_voter else 'an observer'}"


class Invariant:
    """Base of all. Override what you need to see; raise by ``fail``."""

    committed_log: CommittedLog

    @property
    def name(self) -> str:
        """The name of its file."""
        return type(self).__module__.rpartition(".")[2]

    def fail(self, text: str) -> None:
        """Say what was seen that must not be."""
        raise Violation(self.name, text)

    # ---- hooks: each is called after it happened ----------------------------------------------

    def started(self, replica: Replica, before: LogModel | None) -> None:
        """A node recovered; ``before`` is what its log was when it went down, if it had one."""

    def role_changed(self, replica: Replica, old: RoleName | None, new: RoleName) -> None:
        """A node has another role; ``old`` is None where it starts with it."""

    def epoch_changed(self, replica: Replica, old: int, new: int) -> None:
        """A node's epoch is another."""

    def persisted(self, replica: Replica, state: ElectionState) -> None:
        """Quorum-state was written and synced."""

    def vote_handled(self, replica: Replica, request: Vote, effects: list[Any]) -> None:
        """A node took a Vote; these effects it had, not yet carried out."""

    def change_requested(self, replica: Replica, request: Request) -> None:
        """A node took a request for other voters; what it does then has not happened yet."""

    def asked(self, replica: Replica, target: int, request: Request) -> None:
        """A node sent a request to another one."""

    def request_arrived(self, replica: Replica, message: Message, request: Request) -> None:
        """A node has read a request; it has not taken it yet."""

    def ticked(self, replica: Replica) -> None:
        """A node's clock struck, and it has done what it does then."""

    def disk_failed(self, replica: Replica, what: str) -> None:
        """A disk did not do what it was to do, or a power loss took what it had; for traces."""

    def quorum_described(self, replica: Replica, version: int, reply: Any) -> None:
        """A leader has described its quorum; ``reply`` is as its bytes say."""

    def fetch_handled(self, replica: Replica, replica_id: int, directory_id: Uuid) -> None:
        """A node took a request by which a follower shows that it follows."""

    def vote_answered(self, replica: Replica, request: Vote, granted: bool) -> None:
        """An answer to a vote leaves the node."""

    def epoch_answered(self, replica: Replica, epoch: int) -> None:
        """A node answers, and not with an error, what a voter of that epoch told or asked it."""

    def change_answered(self, replica: Replica, request: Request) -> None:
        """An answer leaves the node that says: the voters are changed as was requested."""

    def vote_requested(self, replica: Replica, request: Vote) -> None:
        """A Vote leaves the node."""

    def snapshot_answered(self, replica: Replica, request: Any, message: Message) -> None:
        """A node has the answer to a FetchSnapshot; it has not taken it yet."""

    def fetch_requested(self, replica: Replica, request: Fetch) -> None:
        """A Fetch leaves the node."""

    def appending(self, replica: Replica, base_offset: int) -> None:
        """A batch that a leader sent is about to be appended."""

    def appended(self, replica: Replica, first: int) -> None:
        """Batches are in the log: those of ``replica.log_model`` from index ``first`` on."""

    def control_appended(self, replica: Replica, offset: int, record: ControlRecord) -> None:
        """A control record is in the log."""

    def truncating(self, replica: Replica, end_offset: int) -> None:
        """The log is about to be cut there; the power may go before it is."""

    def truncated(self, replica: Replica) -> None:
        """The log is cut, durably."""

    def flushed(self, replica: Replica) -> None:
        """More of the log survives a power loss than before."""

    def high_watermark_changed(self, replica: Replica, old: int, new: int) -> None:
        """A node knows another high watermark."""

    def snapshot_stored(self, replica: Replica, snapshot: SnapshotId, chain: int) -> None:
        """A snapshot is complete, and says that the log before it has this chain."""

    def snapshot_loaded(self, replica: Replica, snapshot: SnapshotId) -> None:
        """A state machine is told to begin anew, with a snapshot."""

    def leader_reported(self, replica: Replica, epoch: int, leader_id: int) -> None:
        """A state machine is told who leads an epoch; -1: nobody."""

    def append_taken(self, replica: Replica, operation: Operation, epoch: int) -> None:
        """A leader says which offsets an append will have, in this epoch."""

    def snapshot_written(self, replica: Replica, snapshot: SnapshotId) -> None:
        """A node wrote a snapshot of its own."""

    def voters_changed(self, replica: Replica) -> None:
        """Voter sets came into the log, or went; the step that did it is over."""

    def log_reset(self, replica: Replica, snapshot: SnapshotId) -> None:
        """The log was thrown away for a snapshot."""

    def log_start_changed(self, replica: Replica) -> None:
        """The log starts later than before."""

    def operation_ended(self, operation: Operation) -> None:
        """A client knows what became of its append."""

    def finished(self, replicas: list[Replica]) -> None:
        """The run is over."""


_HOOKS = tuple(
    name
    for name, value in vars(Invariant).items()
    if callable(value) and not name.startswith("_") and name != "fail"
)


class Hooks:
    """Calls, for each hook, the invariants that override it."""

    def __init__(self, invariants: Iterable[Invariant], committed_log: CommittedLog) -> None:
        self.invariants = list(invariants)
        for invariant in self.invariants:
            invariant.committed_log = committed_log
        for name in _HOOKS:
            calls = [
                getattr(invariant, name)
                for invariant in self.invariants
                if getattr(type(invariant), name) is not getattr(Invariant, name)
            ]
            setattr(self, name, _caller(calls))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., None]: ...


def _caller(calls: list[Callable[..., None]]) -> Callable[..., None]:
    if not calls:
        return _nothing
    if len(calls) == 1:
        return calls[0]

    def call(*arguments: Any) -> None:
        for each in calls:
            each(*arguments)

    return call


def _nothing(*_: Any) -> None:
    """Nobody looks."""
