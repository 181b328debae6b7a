"""The admin client of KIP-853's first draft: describe the quorum, add and remove voters."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.generated import kafka, kip_853
from kraftspec.generated.kip_853 import (
    AddVoterRequest,
    AddVoterResponse,
    QuorumStateData,
    RemoveVoterRequest,
    RemoveVoterResponse,
)
from kraftspec.reference.admin.added_controller import AddedController
from kraftspec.reference.admin.client import METADATA_TOPIC, DraftEndpoint, Endpoint
from kraftspec.reference.admin.errors import AnswerError, address
from kraftspec.reference.log.directory import METADATA_NAME
from kraftspec.reference.log.quorum_state import NAME as STATE_NAME
from kraftspec.reference.log.quorum_state import QuorumStateFile
from kraftspec.reference.profiles.common.admin import (
    DraftAdmin,
    DraftAdminPart,
    DraftQuorum,
    DraftReplica,
    LogVoters,
    Row,
    check,
    only_partition,
)
from kraftspec.reference.profiles.kip_853 import PARTS

if TYPE_CHECKING:
    from pathlib import Path

    from kraftspec.fastpath.message import Message

REQUEST_TIMED_OUT: Final = 7
INVALID_REQUEST: Final = 42
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")  # By their numbers in Kafka.
_NOT_ADDED: Final = (
    "A voter needs an endpoint of the controllers' listener: give it, or let the node fetch, and "
    "the leader knows it. Those of controller.quorum.voters are given none, and there are no others"
)
_NOT_REMOVED: Final = "The last voter stays, and so do those of controller.quorum.voters"


class Kip853Admin(DraftAdmin):
    """The operations of KIP-853 as drafted: describe the quorum, add a voter, remove one."""

    messages = kip_853

    def add_voter(
        self, voter_id: int, uuid: Uuid, endpoints: Sequence[Endpoint] = (), cluster_id: str = ""
    ) -> None:
        """Make a replica a voter; returns when that is committed (AddVoter).

        Without ``endpoints`` they are those that the leader knows of an observer. With static
        voters they are empty, and the id is one of theirs. One that does not say by which protocol
        it is spoken to says it by its name, as a listener does by default.
        """
        kind = AddVoterRequest
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
        self._change(request, AddVoterResponse, (voter_id, uuid), is_in=True)

    def remove_voter(self, voter_id: int, uuid: Uuid) -> None:
        """Take a voter out of the quorum; returns when that is committed (RemoveVoter)."""
        kind = RemoveVoterRequest
        partition = kind.PartitionData(index=0, voter_id=voter_id, voter_uuid=uuid)
        topic = kind.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
        request = kind(topics=[topic])
        self._change(request, RemoveVoterResponse, (voter_id, uuid), is_in=False)

    def _change(self, request: Any, response: Any, who: tuple[int, Uuid], *, is_in: bool) -> None:
        """Ask the leader for a change; where an answer was lost, look whether it was made."""
        attempts = 0

        def attempt(deadline_s: float) -> None:
            nonlocal attempts
            attempts += 1
            answer = self._anyone(deadline_s).ask(request, response, deadline_s)
            check(answer.error_code)
            code = only_partition(answer.topics).error_code
            if code == INVALID_REQUEST:  # The answer has no field for what is wrong.
                raise AnswerError(code, advice=_NOT_ADDED if is_in else _NOT_REMOVED)
            check(code)

        try:
            self._call(attempt, retried=self.not_leader | {REQUEST_TIMED_OUT})
        except AnswerError:
            if attempts == 1:
                raise
            voters = {(voter.id, voter.uuid) for voter in self.describe_quorum().voters}
            if (who in voters) != is_in:
                raise


def _security_protocol(endpoint: Endpoint) -> int:
    if isinstance(endpoint, DraftEndpoint):
        return endpoint.security_protocol
    return PROTOCOLS.index(endpoint.name) if endpoint.name in PROTOCOLS else 0


def draft_joiner_of(path: Path) -> AddedController:
    """Read which node a properties file is of, and the uuid that its replica made for itself.

    The uuid is that of quorum-state, which a node writes when it first starts; a static voter has
    its endpoints in the properties of all. Raises ValueError, or OSError where a file cannot be
    read.
    """
    # Only this command needs a node's configuration.
    from kraftspec.reference.node.config import load_config  # noqa: PLC0415

    config = load_config(path, PARTS.name)
    if not config.core.can_become_voter:
        raise ValueError("process.roles=broker: a broker is never a voter")
    name = f"{config.log_dir}/{METADATA_NAME}/{STATE_NAME}"
    try:
        with open(name, "rb") as file:
            state, _ = QuorumStateFile.parse(file.read(), name, QuorumStateData)
    except FileNotFoundError:
        raise ValueError(
            f"{name} is not there: start the node, which makes its uuid, and let it catch up"
        ) from None
    if state.voter_uuid == ZERO_UUID:
        raise ValueError(f"{name} has no VoterUuid: start the node, which makes one")
    numbers = {one.name: one.protocol.number for one in config.listeners}
    endpoints = tuple(
        DraftEndpoint(one.name, one.host, one.port, numbers.get(one.name, 0))
        for one in config.core.endpoints
        if not len(config.core.voters)
    )
    return AddedController(config.node_id, Uuid(state.voter_uuid), endpoints)


class Kip853Voters(LogVoters):
    """The voters that records added, and no other removed."""

    def note(self, message: Message) -> None:
        """Note a control record."""
        match message:
            case kip_853.AddVoterRecord():
                voter = message.to_json(0)
                del voter["version"]
                self.voters[message.voter_id] = voter
            case kip_853.RemoveVoterRecord():
                known = self.voters.get(message.voter_id)
                if known is not None and known["voterUuid"] == str(message.voter_uuid):
                    del self.voters[message.voter_id]
            case _:
                pass

    def as_kafka(self, message: Message) -> Message:
        """Return a leader change as Kafka's, without uuids."""
        if not isinstance(message, kip_853.LeaderChangeMessage):
            return message
        kind = kafka.LeaderChangeMessage
        return kind(
            leader_id=message.leader_id,
            voters=[kind.Voter(voter_id=one.voter_id) for one in message.voters],
            granting_voters=[kind.Voter(voter_id=one.voter_id) for one in message.granting_voters],
        )


def _can_be_added(row: Row) -> Any:
    return row["shouldBecomeVoter"] if row["status"] == "Observer" else "-"


class Kip853AdminPart(DraftAdminPart):
    """Replicas have uuids and endpoints, and observers may be added."""

    client = Kip853Admin
    voters = Kip853Voters
    replication_columns = (
        DraftAdminPart.replication_columns[0],
        ("ReplicaUuid", "replicaUuid"),
        *DraftAdminPart.replication_columns[1:],
    )
    member_columns = (
        ("Id", itemgetter("replicaId")),
        ("Uuid", lambda row: row.get("replicaUuid", "-")),
        ("Status", itemgetter("status")),
        ("CanBeAdded", _can_be_added),
        ("Endpoints", lambda row: ",".join(row.get("endpoints", ())) or "-"),
    )

    def more(self, quorum: DraftQuorum, replica: DraftReplica) -> Row:
        """Return what add-voter and remove-voter need."""
        return {
            **({"replicaUuid": str(replica.uuid)} if any(replica.uuid) else {}),
            "shouldBecomeVoter": replica.should_become_voter,
            "endpoints": [
                f"{one.name}://{address(one.host, one.port)}" for one in replica.endpoints
            ],
        }


ADMIN = Kip853AdminPart
