"""How a quorum of a profile is asked and shown: its admin client, and what tools show of it.

The drafts call it "Admin Client" and leave it open. No node of a draft passes a request on to the
leader, so a client looks for it. With KIP-595 every node answers FindQuorum, to a replica id of -1
too, and says where the leader is; a node that leads no longer answers NOT_QUORUM_LEADER, and the
leader is looked for again. KIP-853 and KIP-996 have no such request: nodes are asked one after
another until one leads, so the addresses should be those of all voters.

::

    with Kip595Admin("localhost:9092") as admin:
        admin.alter_quorum([1, 2, 3])
        print(admin.describe_quorum().voters)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec

from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.reference.admin.caller import NOT_LEADER, Caller
from kraftspec.reference.admin.client import DraftEndpoint, Endpoint, quorum_request
from kraftspec.reference.admin.errors import AdminError, AnswerError

if TYPE_CHECKING:
    from kraftspec.fastpath.message import Message
    from kraftspec.reference.admin.connection import Connection
    from kraftspec.reference.profiles.parts import Parts

Row = dict[str, Any]


class DraftReplica(msgspec.Struct, frozen=True, kw_only=True):
    """A replica as the leader knows it. Times are the leader's, in ms since 1970; -1: unknown.

    ``uuid`` is zero and ``endpoints`` empty where a draft has none; ``should_become_voter`` is
    KIP-853's word for an observer that can be added.
    """

    id: int
    uuid: Uuid = ZERO_UUID
    log_end_offset: int = -1
    last_caught_up_ms: int = -1
    should_become_voter: bool = False
    endpoints: tuple[Endpoint, ...] = ()


class DraftQuorum(msgspec.Struct, frozen=True, kw_only=True):
    """What DescribeQuorum answers; ``target_voters`` None: there is no reassignment (KIP-595)."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[DraftReplica, ...]
    observers: tuple[DraftReplica, ...] = ()
    target_voters: tuple[int, ...] | None = None

    @property
    def leader(self) -> DraftReplica:
        """The leader's own entry; AdminError where there is none."""
        for replica in (*self.voters, *self.observers):
            if replica.id == self.leader_id:
                return replica
        raise AdminError(f"the leader {self.leader_id} does not describe itself: ask again")

    def lag(self, replica: DraftReplica) -> int:
        """Return how many offsets a replica is behind the leader."""
        return self.leader.log_end_offset - replica.log_end_offset

    def lag_ms(self, replica: DraftReplica) -> int:
        """Return how long ago a replica had all that the leader has; -1 where nobody knows."""
        own, its = self.leader.last_caught_up_ms, replica.last_caught_up_ms
        if replica.id == self.leader_id:
            return 0
        return -1 if own < 0 or its < 0 else max(own - its, 0)

    @property
    def max_follower_lag(self) -> int:
        """How many offsets the slowest voter is behind the leader."""
        return max(map(self.lag, self.voters), default=0)

    @property
    def max_follower_lag_ms(self) -> int:
        """How long ago the voter that is latest had everything; -1 where that is unknown of one."""
        lags = [self.lag_ms(voter) for voter in self.voters]
        return -1 if -1 in lags else max(lags, default=0)


class DraftAdmin(Caller):
    """The operations that all drafts have; nobody says who leads, but who does not refuse."""

    asks_around = True

    messages: Any

    def describe_quorum(self) -> DraftQuorum:
        """Return what the leader says of the quorum (DescribeQuorum)."""
        request = quorum_request(self.messages)
        response = self.messages.DescribeQuorumResponse

        def attempt(deadline_s: float) -> DraftQuorum:
            connection = self._at_leader(deadline_s)
            answer = connection.ask(request, response, deadline_s)
            check(answer.error_code)
            partition = only_partition(answer.topics)
            check(partition.error_code)  # Of a refusal that is all that Kafka's nodes fill in.
            return _quorum(partition)

        return self._call(attempt)

    def _at_leader(self, deadline_s: float) -> Connection:
        """Return a connection to the leader, or to who may be it."""
        return self._anyone(deadline_s)


# ---- how a quorum is asked and shown -------------------------------------------------------------


class AdminPart:
    """Base of all: the client of a profile, and ``None`` for what Kafka's own tools do not show."""

    client: type[Caller]
    # What control records say beside those of Kafka's.
    voters: type[LogVoters] | None = None
    # What names the profile on a command line.
    option = ""

    def __init__(self, profile: Parts) -> None:
        self.profile = profile


class DraftAdminPart(AdminPart):
    """How ``quorum describe`` and the shell show a quorum of a draft."""

    client: type[DraftAdmin]
    # Of --replication: the head of each column, and what it shows of a row.
    replication_columns: tuple[tuple[str, str], ...] = (
        ("ReplicaId", "replicaId"),
        ("LogEndOffset", "logEndOffset"),
        ("Lag", "lag"),
        ("LagTimeMs", "lagTimeMs"),
        ("Status", "status"),
    )
    # Of the members: the same. The ids of voters are all where there are none.
    member_columns: tuple[tuple[str, Callable[[Row], Any]], ...] = (
        ("ReplicaId", itemgetter("replicaId")),
        ("Status", itemgetter("status")),
    )

    def __init__(self, profile: Parts) -> None:
        super().__init__(profile)
        self.voters = self.voters or LogVoters
        self.option = f"--profile {profile.name}"

    def rows(self, quorum: DraftQuorum) -> list[Row]:
        """Return how far each replica is, in the shape of its JSON; the leader comes first."""
        voters = sorted(quorum.voters, key=lambda one: (one.id != quorum.leader_id, one.id))
        statuses = [(one, "Follower") for one in voters]
        statuses += [(one, "Observer") for one in quorum.observers]
        return [
            {
                "replicaId": replica.id,
                "logEndOffset": replica.log_end_offset,
                "lag": quorum.lag(replica),
                "lagTimeMs": quorum.lag_ms(replica),
                "status": "Leader" if replica.id == quorum.leader_id else status,
                **self.more(quorum, replica),
            }
            for replica, status in statuses
        ]

    def more(self, quorum: DraftQuorum, replica: DraftReplica) -> Row:
        """Return what this draft has of a replica beside that."""
        return {}

    def members(self, quorum: DraftQuorum) -> dict[str, Any]:
        """Return who is a member, in the shape of its JSON."""
        keys = ("replicaId", "replicaUuid", "endpoints", "status", "shouldBecomeVoter")
        rows = self.rows(quorum)
        return {"replicas": [{key: row[key] for key in keys if key in row} for row in rows]}


class LogVoters:
    """The voters by id, as the control records of a draft left them; others have more to say.

    ``target_voters`` is None where no reassignment is under way.
    """

    def __init__(self, profile: str) -> None:
        self.profile = profile
        self.cluster_id = ""
        self.voters: dict[int, dict[str, Any]] = {}
        self.target_voters: list[int] | None = None

    def note(self, message: Message) -> None:
        """Note a control record."""

    def as_kafka(self, message: Message) -> Message:
        """Return a leader change of a draft as Kafka's, ids alone; any other message as it is."""
        return message


# ---- answers -----------------------------------------------------------------------------------


def only_partition(topics: Sequence[Any]) -> Any:
    """Return the one partition of an answer; AdminError where it is about others."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise AdminError("the answer is not about one partition")
    return topics[0].partitions[0]


def _quorum(partition: Any) -> DraftQuorum:
    targets = tuple(one.replica_id for one in getattr(partition, "target_voters", ()))
    return DraftQuorum(
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        voters=tuple(map(_replica, partition.current_voters)),
        observers=tuple(map(_replica, partition.observers)),
        target_voters=targets or None,
    )


def _replica(state: Any) -> DraftReplica:
    """Return a replica of any draft's answer; each has other fields."""
    caught_up_ms = getattr(state, "last_caught_up_time_ms", None)
    return DraftReplica(
        id=state.replica_id,
        uuid=Uuid(getattr(state, "replica_uuid", ZERO_UUID)),
        log_end_offset=state.log_end_offset,
        last_caught_up_ms=state.last_caught_up_timestamp if caught_up_ms is None else caught_up_ms,
        should_become_voter=getattr(state, "should_become_voter", False),
        endpoints=tuple(
            DraftEndpoint(one.name, one.host, one.port, one.security_protocol)
            for one in getattr(state, "end_points", ())
        ),
    )


def check(code: int, message: str | None = None) -> None:
    """Raise AnswerError where a node refuses; that another leads it says, and not where."""
    if code:
        advice = "Name the addresses of all voters" if code in NOT_LEADER else ""
        raise AnswerError(code, message, advice=advice)


def left_ms(deadline_s: float) -> int:
    """Return how many ms there are until a deadline."""
    return max(0, round((deadline_s - time.monotonic()) * 1000))
