"""What the control records of the drafts say, for the shell: ``/quorum`` of their logs."""

from __future__ import annotations

from typing import Any

from kraftspec.fastpath.message import Message
from kraftspec.generated import kafka, kip_595, kip_853


class DraftVoters:
    """The voters by id, as records left them; of KIP-595 the target and the cluster, too.

    ``target_voters`` is None where no reassignment is under way.
    """

    def __init__(self, profile: str) -> None:
        self.profile = profile
        self.cluster_id = ""
        self.voters: dict[int, dict[str, Any]] = {}
        self.target_voters: list[int] | None = None

    def note(self, message: Message) -> None:
        """Note a control record."""
        match message:
            case kip_595.VoterAssignmentMessage():
                target = message.target_voters
                self.cluster_id = message.cluster_id
                self.voters = {
                    one.voter_id: {"voterId": one.voter_id} for one in message.current_voters
                }
                self.target_voters = None if target is None else [one.voter_id for one in target]
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


def as_kafka(message: Message) -> Message:
    """Return a leader change of a draft as Kafka's, ids alone; any other message as it is."""
    kind = kafka.LeaderChangeMessage
    match message:
        case kip_595.LeaderChangeMessage():
            granting = [kind.Voter(voter_id=voter_id) for voter_id in message.voted_ids]
            return kind(leader_id=message.leader_id, granting_voters=granting)
        case kip_853.LeaderChangeMessage():
            return kind(
                leader_id=message.leader_id,
                voters=[kind.Voter(voter_id=one.voter_id) for one in message.voters],
                granting_voters=[
                    kind.Voter(voter_id=one.voter_id) for one in message.granting_voters
                ],
            )
    return message
