"""Admin clients of the drafts: what their documents call "Admin Client" and leave open.

Nobody hands a request on to the leader, so a client looks for it. With KIP-595 anybody answers
FindQuorum, to a replica id of -1 too, and says where the leader is; whoever leads no longer answers
NOT_QUORUM_LEADER, and it is looked for again. KIP-853 and KIP-996 have no such request: nodes are
asked one after another until one leads, so the addresses should be those of all voters.

::

    with Kip595Admin("localhost:9092") as admin:
        admin.alter_quorum([1, 2, 3])
        print(admin.describe_quorum().voters)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.reference.admin.caller import NOT_LEADER, Caller
from kraftspec.reference.admin.client import METADATA_TOPIC, DraftEndpoint, Endpoint
from kraftspec.reference.admin.errors import AdminError, AnswerError

if TYPE_CHECKING:
    from kraftspec.reference.admin.connection import Connection

NOT_QUORUM_LEADER: Final = 20001
REQUEST_TIMED_OUT: Final = 7
ADMIN_ID: Final = -1  # FindQuorum's replica id of an admin client.
INVALID_REQUEST: Final = 42
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")  # By their numbers in Kafka.
POLL_S: Final = 0.1
_ALTER_MS_MAX: Final = 10_000  # The leader waits so long for a commit; then it is asked again.


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


class FoundVoter(msgspec.Struct, frozen=True):
    """A voter as FindQuorum tells of it; where it is, as of its last start; "" if nobody knows."""

    id: int
    host: str
    port: int
    boot_ms: int


class FoundQuorum(msgspec.Struct, frozen=True, kw_only=True):
    """What FindQuorum answers. ``leader_id`` is -1 where none is known, ``cluster_id`` empty."""

    cluster_id: str
    leader_id: int
    leader_epoch: int
    voters: tuple[FoundVoter, ...]
    target_voters: tuple[FoundVoter, ...] | None


class Kip595Admin(Caller):
    """The operations of KIP-595 as drafted: find, describe and alter the quorum.

    Raises what ``AdminClient`` does: AnswerError, TimedOutError, AdminError.
    """

    not_leader = frozenset({NOT_QUORUM_LEADER})

    def find_quorum(self) -> FoundQuorum:
        """Return what any broker says of the quorum (FindQuorum)."""
        return self._call(self._find)

    def describe_quorum(self) -> DraftQuorum:
        """Return what the leader says of the quorum (DescribeQuorum)."""
        from kraftspec.generated import kip_595  # noqa: PLC0415 - each client has its own

        def attempt(deadline_s: float) -> DraftQuorum:
            found = _describe(self._at_leader(deadline_s), kip_595, deadline_s)
            target = tuple(one.replica_id for one in found.target_voters)
            return _quorum(found, target or None)

        return self._call(attempt)

    def alter_quorum(
        self, target: Iterable[int], *, cluster_id: str | None = None, wait: bool = False
    ) -> None:
        """Let these be the voters; returns once that target is committed (AlterQuorum).

        The leader goes on to move towards it, one voter at a time; with ``wait`` this returns when
        it is there. ``cluster_id`` is compared where it is given.
        """
        from kraftspec.generated.kip_595 import (  # noqa: PLC0415 - this call alone needs them
            AlterQuorumRequest,
            AlterQuorumResponse,
        )

        ids = sorted(set(target))
        voters = [AlterQuorumRequest.Voter(voter_id=voter_id) for voter_id in ids]

        def attempt(deadline_s: float) -> None:
            request = AlterQuorumRequest(
                cluster_id=cluster_id,
                target_voters=voters,
                timeout_ms=min(_left_ms(deadline_s), _ALTER_MS_MAX),
            )
            answer = self._at_leader(deadline_s).ask(request, AlterQuorumResponse, deadline_s)
            _check(answer.error_code, answer.error_message)

        # To ask again for the target that is there already is no other change.
        self._call(attempt)
        if wait:
            self._wait(ids)

    def _wait(self, ids: Sequence[int]) -> None:
        def attempt(deadline_s: float) -> None:
            while time.monotonic() < deadline_s:
                found = self.describe_quorum()
                if found.target_voters is None:
                    voters = sorted(voter.id for voter in found.voters)
                    if voters != ids:
                        raise AdminError(f"the voters are {voters}: another target came in between")
                    return
                time.sleep(POLL_S)
            raise TimeoutError("the moves towards the target go on")

        self._call(attempt)

    def _find(self, deadline_s: float) -> FoundQuorum:
        from kraftspec.generated.kip_595 import (  # noqa: PLC0415 - this call alone needs them
            FindQuorumRequest,
            FindQuorumResponse,
        )

        request = FindQuorumRequest(replica_id=ADMIN_ID)
        answer = self._anyone(deadline_s).ask(request, FindQuorumResponse, deadline_s)
        _check(answer.error_code)
        target = answer.target_voters
        return FoundQuorum(
            cluster_id=answer.cluster_id,
            leader_id=answer.leader_id,
            leader_epoch=answer.leader_epoch,
            voters=_found(answer.voters),
            target_voters=None if target is None else _found(target),
        )

    def _at_leader(self, deadline_s: float) -> Connection:
        """Return a connection to the leader, looked for anew after ``_forget``."""
        if self._leader is None:
            found = self._find(deadline_s)
            known = {voter.id: voter for voter in (*found.voters, *(found.target_voters or ()))}
            leader = known.get(found.leader_id)
            if leader is None or not leader.host:  # Known from quorum-state, and not found yet.
                self._forget()
                said = "no leader" if found.leader_id < 0 else f"not where {found.leader_id} is"
                raise ConnectionError(f"FindQuorum knows {said}")
            self._leader = self._connect(leader.host, leader.port, deadline_s)
        return self._leader


class _AskingAround(Caller):
    """What KIP-853 and KIP-996 have in common: the leader is whoever does not refuse."""

    asks_around = True

    messages: Any

    def describe_quorum(self) -> DraftQuorum:
        """Return what the leader says of the quorum (DescribeQuorum)."""

        def attempt(deadline_s: float) -> DraftQuorum:
            return _quorum(_describe(self._anyone(deadline_s), self.messages, deadline_s))

        return self._call(attempt)


class Kip996Admin(_AskingAround):
    """The operations of KIP-996 as drafted, whose voters never change: describe the quorum."""

    @property
    def messages(self) -> Any:
        """The messages that it speaks."""
        from kraftspec.generated import kip_996  # noqa: PLC0415 - each client has its own

        return kip_996


_NOT_ADDED: Final = (
    "A voter has a uuid, and an endpoint of the controllers' listener; one of "
    "controller.quorum.voters has its id there, and no endpoint here"
)
_NOT_REMOVED: Final = "The last voter stays, and so do those of controller.quorum.voters"


class Kip853Admin(_AskingAround):
    """The operations of KIP-853 as drafted: describe the quorum, add a voter, remove one."""

    @property
    def messages(self) -> Any:
        """The messages that it speaks."""
        from kraftspec.generated import kip_853  # noqa: PLC0415 - each client has its own

        return kip_853

    def add_voter(
        self, voter_id: int, uuid: Uuid, endpoints: Sequence[Endpoint], cluster_id: str = ""
    ) -> None:
        """Make a replica a voter; returns when that is committed (AddVoter).

        With static voters ``endpoints`` are empty, and the id is one of theirs. One that does not
        say by which protocol it is spoken to says it by its name, as a listener does by default.
        """
        kind = self.messages.AddVoterRequest
        listeners = [
            kind.VoterEndpoint(
                name=one.name,
                host=one.host,
                port=one.port,
                security_protocol=_security_protocol(one),
            )
            for one in endpoints
        ]
        partition = kind.PartitionData(
            index=0, voter_id=voter_id, voter_uuid=uuid, end_points=listeners
        )
        topic = kind.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
        request = kind(cluster_id=cluster_id, topics=[topic])
        self._change(request, self.messages.AddVoterResponse, (voter_id, uuid), is_in=True)

    def remove_voter(self, voter_id: int, uuid: Uuid) -> None:
        """Take a voter out of the quorum; returns when that is committed (RemoveVoter)."""
        kind = self.messages.RemoveVoterRequest
        partition = kind.PartitionData(index=0, voter_id=voter_id, voter_uuid=uuid)
        topic = kind.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
        response = self.messages.RemoveVoterResponse
        self._change(kind(topics=[topic]), response, (voter_id, uuid), is_in=False)

    def _change(self, request: Any, response: Any, who: tuple[int, Uuid], *, is_in: bool) -> None:
        """Ask the leader for a change; where an answer was lost, look whether it was made."""
        attempts = 0

        def attempt(deadline_s: float) -> None:
            nonlocal attempts
            attempts += 1
            answer = self._anyone(deadline_s).ask(request, response, deadline_s)
            _check(answer.error_code)
            code = _only_partition(answer.topics).error_code
            if code == INVALID_REQUEST:  # The answer has no field for what is wrong.
                raise AnswerError(code, advice=_NOT_ADDED if is_in else _NOT_REMOVED)
            _check(code)

        try:
            self._call(attempt, retried=self.not_leader | {REQUEST_TIMED_OUT})
        except AnswerError:
            if attempts == 1:
                raise
            voters = {(voter.id, voter.uuid) for voter in self.describe_quorum().voters}
            if (who in voters) != is_in:
                raise


ADMINS: Final[dict[str, Callable[..., Any]]] = {
    "kip-595": Kip595Admin,
    "kip-853": Kip853Admin,
    "kip-996": Kip996Admin,
}


# ---- answers -----------------------------------------------------------------------------------


def _describe(connection: Connection, messages: Any, deadline_s: float) -> Any:
    """Return the partition that DescribeQuorum answers; AnswerError for a refusal."""
    kind = messages.DescribeQuorumRequest
    topic = kind.TopicData(
        topic_name=METADATA_TOPIC, partitions=[kind.PartitionData(partition_index=0)]
    )
    answer = connection.ask(kind(topics=[topic]), messages.DescribeQuorumResponse, deadline_s)
    _check(answer.error_code)
    found = _only_partition(answer.topics)
    _check(found.error_code)  # Of a refusal that is all that Kafka's nodes fill in.
    return found


def _only_partition(topics: Sequence[Any]) -> Any:
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise AdminError("the answer is not about one partition")
    return topics[0].partitions[0]


def _quorum(found: Any, target: tuple[int, ...] | None = None) -> DraftQuorum:
    return DraftQuorum(
        leader_id=found.leader_id,
        leader_epoch=found.leader_epoch,
        high_watermark=found.high_watermark,
        voters=tuple(map(_replica, found.current_voters)),
        observers=tuple(map(_replica, found.observers)),
        target_voters=target,
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


def _security_protocol(endpoint: Endpoint) -> int:
    if isinstance(endpoint, DraftEndpoint):
        return endpoint.security_protocol
    return PROTOCOLS.index(endpoint.name) if endpoint.name in PROTOCOLS else 0


def _found(voters: Iterable[Any]) -> tuple[FoundVoter, ...]:
    return tuple(FoundVoter(one.voter_id, one.host, one.port, one.boot_timestamp) for one in voters)


def _check(code: int, message: str | None = None) -> None:
    """Raise AnswerError where a node refuses; that another leads it says, and not where."""
    if code:
        advice = "Name the addresses of all voters" if code in NOT_LEADER else ""
        raise AnswerError(code, message, advice=advice)


def _left_ms(deadline_s: float) -> int:
    return max(0, round((deadline_s - time.monotonic()) * 1000))
