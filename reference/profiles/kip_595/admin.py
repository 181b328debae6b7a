"""KIP-595's "Admin Client": find, describe and alter the quorum, and what tools show of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kraftspec.generated import kafka, kip_595
from kraftspec.generated.kip_595 import (
    AlterQuorumRequest,
    AlterQuorumResponse,
    FindQuorumRequest,
    FindQuorumResponse,
)
from kraftspec.reference.admin.errors import AdminError
from kraftspec.reference.profiles.common.admin import (
    DraftAdmin,
    DraftAdminPart,
    DraftQuorum,
    DraftReplica,
    LogVoters,
    Row,
    check,
    left_ms,
)

if TYPE_CHECKING:
    from kraftspec.fastpath.message import Message
    from kraftspec.reference.admin.connection import Connection

NOT_QUORUM_LEADER: Final = 20001
ADMIN_ID: Final = -1  # FindQuorum's replica id of an admin client.
POLL_S: Final = 0.1
_ALTER_MS_MAX: Final = 10_000  # The leader waits so long for a commit; then it is asked again.


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


class Kip595Admin(DraftAdmin):
    """The operations of KIP-595 as drafted: find, describe and alter the quorum.

    Raises what ``AdminClient`` does: AnswerError, TimedOutError, AdminError.
    """

    asks_around = False
    messages = kip_595
    not_leader = frozenset({NOT_QUORUM_LEADER})

    def find_quorum(self) -> FoundQuorum:
        """Return what any broker says of the quorum (FindQuorum)."""
        return self._call(self._find)

    def alter_quorum(
        self, target: Iterable[int], *, cluster_id: str | None = None, wait: bool = False
    ) -> None:
        """Let these be the voters; returns once that target is committed (AlterQuorum).

        The leader goes on to move towards it, one voter at a time; with ``wait`` this returns when
        it is there. ``cluster_id`` is compared where it is given.
        """
        ids = sorted(set(target))
        voters = [AlterQuorumRequest.Voter(voter_id=voter_id) for voter_id in ids]

        def attempt(deadline_s: float) -> None:
            request = AlterQuorumRequest(
                cluster_id=cluster_id,
                target_voters=voters,
                timeout_ms=min(left_ms(deadline_s), _ALTER_MS_MAX),
            )
            answer = self._at_leader(deadline_s).ask(request, AlterQuorumResponse, deadline_s)
            check(answer.error_code, answer.error_message)

        # To ask again for the target that is there already is no other change.
        self._call(attempt)
        if wait:
            self._wait(ids)

    def _wait(self, ids: Sequence[int]) -> None:
        def attempt(deadline_s: float) -> None:
            while time.monotonic() < deadline_s:
                quorum = self.describe_quorum()
                if quorum.target_voters is None:
                    voters = sorted(voter.id for voter in quorum.voters)
                    if voters != ids:
                        raise AdminError(f"the voters are {voters}: another target came in between")
                    return
                time.sleep(POLL_S)
            raise TimeoutError("the moves towards the target go on")

        self._call(attempt)

    def _find(self, deadline_s: float) -> FoundQuorum:
        request = FindQuorumRequest(replica_id=ADMIN_ID)
        answer = self._anyone(deadline_s).ask(request, FindQuorumResponse, deadline_s)
        check(answer.error_code)
        target = answer.target_voters
        return FoundQuorum(
            cluster_id=answer.cluster_id,
            leader_id=answer.leader_id,
            leader_epoch=answer.leader_epoch,
            voters=_voters_of(answer.voters),
            target_voters=None if target is None else _voters_of(target),
        )

    def _at_leader(self, deadline_s: float) -> Connection:
        """Return a connection to the leader, looked for anew after ``_forget``."""
        if self._leader is None:
            quorum = self._find(deadline_s)
            known = {voter.id: voter for voter in (*quorum.voters, *(quorum.target_voters or ()))}
            leader = known.get(quorum.leader_id)
            if leader is None or not leader.host:  # Known from quorum-state, and not found yet.
                self._forget()
                state = "no leader" if quorum.leader_id < 0 else f"not where {quorum.leader_id} is"
                raise ConnectionError(f"FindQuorum knows {state}")
            self._leader = self._connect(leader.host, leader.port, deadline_s)
        return self._leader


def _voters_of(voters: Iterable[Any]) -> tuple[FoundVoter, ...]:
    return tuple(FoundVoter(one.voter_id, one.host, one.port, one.boot_timestamp) for one in voters)


class Kip595Voters(LogVoters):
    """The voters that the last assignment names, its target, and the cluster."""

    def note(self, message: Message) -> None:
        """Note a control record."""
        if isinstance(message, kip_595.VoterAssignmentMessage):
            target = message.target_voters
            self.cluster_id = message.cluster_id
            self.voters = {
                one.voter_id: {"voterId": one.voter_id} for one in message.current_voters
            }
            self.target_voters = None if target is None else [one.voter_id for one in target]

    def as_kafka(self, message: Message) -> Message:
        """Return a leader change as Kafka's."""
        if not isinstance(message, kip_595.LeaderChangeMessage):
            return message
        kind = kafka.LeaderChangeMessage
        granting = [kind.Voter(voter_id=voter_id) for voter_id in message.voted_ids]
        return kind(leader_id=message.leader_id, granting_voters=granting)


class Kip595AdminPart(DraftAdminPart):
    """Voters are ids, and some of them targets."""

    client = Kip595Admin
    voters = Kip595Voters
    replication_columns = (
        *DraftAdminPart.replication_columns,
        ("IsReassignTarget", "isReassignTarget"),
    )
    member_columns = ()

    def more(self, quorum: DraftQuorum, replica: DraftReplica) -> Row:
        """Return whether it is to be a voter."""
        return {"isReassignTarget": replica.id in (quorum.target_voters or ())}

    def members(self, quorum: DraftQuorum) -> dict[str, Any]:
        """Return who votes, and who is to vote."""
        target = quorum.target_voters
        return {
            "currentVoters": sorted(voter.id for voter in quorum.voters),
            "targetVoters": None if target is None else sorted(target),
        }


ADMIN = Kip595AdminPart
