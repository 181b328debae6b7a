"""Rules that hold whatever the role and whatever the message (KIP-595; ``KafkaRaftClient``)."""

from __future__ import annotations

from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft.messages import Reply
from kraftspec.reference.raft.role import QuorumState
from kraftspec.reference.raft.transitions import Cause, FatalError
from kraftspec.reference.raft.types import NONE, Endpoints, Node, RoleName, address

_ASK_THE_LEADER = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def learn(core: QuorumState, leader_id: int, epoch: int, endpoints: Endpoints) -> None:
    """Act on what another node says of leader and epoch.

    A higher epoch is always taken over, with its leader if that one can be reached. In the same
    epoch a leader is news if none was known, or if more of its endpoints are told. Two leaders in
    one epoch are the end (`FatalError`).

    Two claims are taken for "no leader known": that this node leads an epoch which it does not,
    which a replica hears when its disk was replaced while it led; and a leader of which nobody
    tells the address.
    """
    if leader_id == core.config.node_id:
        if core.role.name is RoleName.LEADER and epoch == core.epoch:
            return
        leader_id = NONE
    if not endpoints and leader_id != NONE:
        endpoints = core.policy.endpoints(core, leader_id)
    known = core.leader_id
    if epoch == core.epoch and NONE not in (leader_id, known) and leader_id != known:
        raise FatalError(f"epoch {epoch} has two leaders: {known} and {leader_id}")
    if address(leader_id, endpoints, core.config.listener_name) is None:
        leader_id = NONE
    if epoch > core.epoch:
        if leader_id == NONE:
            core.move(Cause.HIGHER_EPOCH, epoch=epoch)
        else:
            core.move(Cause.NEW_LEADER, epoch=epoch, leader_id=leader_id, endpoints=endpoints)
    elif leader_id != NONE and (known == NONE or len(endpoints) > len(core.leader_endpoints)):
        cause = Cause.LEADER_FOUND if known == NONE else Cause.MORE_ENDPOINTS
        core.move(cause, leader_id=leader_id, endpoints=endpoints)


def handled_by_rule(core: QuorumState, reply: Reply) -> bool | None:
    """Apply the rules for every reply, in Kafka's order.

    Return None if the reply is still to be handled; else whether it was good. One that taught
    nothing is not: its sender is left alone for a while. Kafka's node asks it again at once, and so
    two nodes can keep each other busy until somebody is elected.
    """
    error = reply.error
    epoch = reply.leader_epoch
    goes_on = not core.policy.rests_when_told_nothing
    if epoch < core.epoch or error == ErrorCode.UNKNOWN_LEADER_EPOCH:
        return goes_on  # Old news, or a node that has not heard of this epoch yet.
    if epoch > core.epoch or error in _ASK_THE_LEADER:
        before = core.role
        learn(core, reply.leader_id, epoch, reply.leader_endpoints)
        return goes_on or core.role is not before
    if reply.leader_id != NONE and not core.leader_endpoints:
        # No leader is known; or its id is, from quorum-state, and not where it is reached.
        learn(core, reply.leader_id, epoch, reply.leader_endpoints)
        return True if error else None
    if error == ErrorCode.INVALID_VOTER_KEY:
        return goes_on
    if error == ErrorCode.BROKER_NOT_AVAILABLE:
        return False
    if error == ErrorCode.INVALID_REQUEST:
        raise FatalError(f"a request of this node was found to be invalid: {reply!r}")
    return None


def top_level_is_good(core: QuorumState, source: Node, reply: Reply) -> bool:
    """Whether a reply is about this log at all; stop where this node may not ask."""
    if reply.top_error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        raise FatalError("this node is not authorized to take part in the quorum")
    if reply.top_error == ErrorCode.INCONSISTENT_CLUSTER_ID:
        core.policy.met_other_cluster(core, core.connections.last_request(source.id))
    return reply.top_error == 0
