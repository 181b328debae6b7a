"""FindQuorum: who leads, where the voters are, and when a first election may begin.

A node that knows no leader asks the servers that it was configured with, and the voters that it
has heard of, all of them, in rounds that come the later the more were in vain (KIP-580's formula).
So does a candidate that misses a voter's address, and a leader that has resigned or restarted.
Followers ask their leader once in a while, too: the draft has a voter that was added tell its
address, and no request but this one that could ("Bootstrapping", step 4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kraftspec.reference.profiles.kip_595.assignment import Assignment
from kraftspec.reference.profiles.kip_595.messages import Connection, FindQuorum, FindQuorumReply
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft.rules import learn
from kraftspec.reference.raft.transitions import Cause, FatalError
from kraftspec.reference.raft.types import NONE, ElectionState, Node, RoleName
from kraftspec.reference.raft.unattached import Unattached

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kraftspec.reference.profiles.kip_595.memory import Memory
    from kraftspec.reference.raft.role import QuorumState

ROUND_US_MIN = 1_000  # However short the backoff is set, the network gets its turn.


def own_connection(core: QuorumState) -> Connection:
    """Return where this node is reached, and since when: its clock at its start."""
    for endpoint in core.config.endpoints:
        if endpoint.name == core.config.listener_name:
            protocol = getattr(endpoint, "security_protocol", 0)
            return Connection(
                core.config.node_id,
                core.started_us // 1000,
                endpoint.host,
                endpoint.port,
                protocol,
            )
    return Connection(core.config.node_id)


def targets_of(core: QuorumState) -> tuple[int, ...] | None:
    """Return the target voters in force, or None."""
    voters = core.log.voters.last
    return voters.targets if isinstance(voters, Assignment) else None


def voter_ids(core: QuorumState) -> tuple[int, ...]:
    """Return the voters by the log, or as this node was told; if by neither, as it has learned."""
    return core.log.voters.last.ids or core.memory.learned


def question(core: QuorumState) -> FindQuorum:
    """Return what is asked."""
    return FindQuorum(sender=own_connection(core))


# ---- the cluster's id --------------------------------------------------------------------------


def settle(core: QuorumState, cluster_id: str) -> None:
    """Be sure of the cluster that this node is of, and cache it in meta.properties."""
    memory: Memory = core.memory
    if memory.cluster_id and memory.cluster_id != cluster_id:
        raise FatalError(f"the log is of the cluster {cluster_id}, not of {memory.cluster_id}")
    if memory.cluster_id != cluster_id:
        memory.cluster_id = cluster_id
        core.emit(fx.ClusterIdLearned(cluster_id))
    name_cluster(core, memory)


def name_cluster(core: QuorumState, memory: Memory) -> None:
    """Let requests carry the cluster id: the settled one, or else what an assignment says."""
    cluster_id = memory.cluster_id
    last = core.log.voters.last
    if not cluster_id and isinstance(last, Assignment):
        cluster_id = last.cluster_id
    if core.config.cluster_id != cluster_id:
        core.config = msgspec.structs.replace(core.config, cluster_id=cluster_id)


# ---- asking ------------------------------------------------------------------------------------


def look(core: QuorumState, asks_back: bool) -> int:
    """Ask everybody that is ready, if a round is due; return when the next one is."""
    memory: Memory = core.memory
    if core.now_us >= memory.find_us:
        memory.rounds += 1
        backoff_us = core.policy.retry_backoff_us(core, memory.rounds)
        memory.find_us = core.now_us + max(backoff_us, ROUND_US_MIN)
        for node in _servers(core, asks_back):
            if core.connections.ready(node.id, core.now_us):
                core.ask(node, question(core))
    return min(memory.find_us, core.connections.check_us)


def contacts(core: QuorumState) -> list[Node]:
    """Return the servers of ``bootstrap.servers``, this node left out."""
    own = own_connection(core)
    return [
        node
        for node in core.config.bootstrap_servers
        if (node.host, node.port) != (own.host, own.port)
    ]


def publish(core: QuorumState) -> None:
    """Tell the servers to begin with where this node is ("Bootstrapping", step 4)."""
    for node in contacts(core):
        if core.connections.ready(node.id, core.now_us):
            core.ask(node, question(core))


def _servers(core: QuorumState, asks_back: bool) -> list[Node]:
    """Return the servers to begin with, and the voters that are known; and who asked this node.

    The last is no rule of the draft's: where the voters have moved on, and the server that others
    begin with was down meanwhile, nobody else could tell it where they are.
    """
    servers = contacts(core)
    places = {(node.host, node.port) for node in servers}
    for voter_id in dict.fromkeys((*voter_ids(core), *(targets_of(core) or ()))):
        node = core.node(voter_id) if voter_id != core.config.node_id else None
        if node is not None and (node.host, node.port) not in places:
            servers.append(node)
            places.add((node.host, node.port))
    if asks_back:
        callers = core.memory.callers.values()
        servers += [Node(c[0], c.host, c.port) for c in callers if (c.host, c.port) not in places]
    return servers


# ---- answering ---------------------------------------------------------------------------------


def on_find_quorum(core: QuorumState, token: int, request: FindQuorum) -> None:
    """FindQuorum: note where a voter is, and say all that is known ("FindQuorum Request").

    Neither cluster id nor epoch are checked: who asks may know neither.
    """
    memory: Memory = core.memory
    targets = targets_of(core)
    ids = voter_ids(core)
    sender = request.sender
    if sender.voter_id in ids or sender.voter_id in (targets or ()):
        role = core.role
        knew_nobody = not memory.connections and not contacts(core)
        if memory.merge(sender) and knew_nobody and isinstance(role, Unattached):
            # Here is somebody to ask, and there was nobody: first look, and then campaign.
            memory.find_us = core.now_us
            if core.is_voter:
                role.election_deadline_us = core.election_deadline_us()
    elif sender.voter_id != core.config.node_id:
        memory.called(sender)
    memory.asks_itself |= sender == own_connection(core)
    reply = core.reply(FindQuorumReply)
    reply.cluster_id = memory.cluster_id
    reply.voters = _known(core, ids)
    reply.targets = None if targets is None else _known(core, targets)
    core.answer(token, reply)


def _known(core: QuorumState, ids: Iterable[int]) -> tuple[Connection, ...]:
    """Return the connections of voters; of one that nobody knows, its id alone."""
    memory: Memory = core.memory
    own_id = core.config.node_id
    return tuple(
        own_connection(core) if id == own_id else memory.connections.get(id, Connection(id))
        for id in ids
    )


# ---- what an answer means ------------------------------------------------------------------------


def on_find_quorum_reply(
    core: QuorumState,
    source: Node,
    reply: FindQuorumReply,
    *,
    learns_voters: bool,
    leader_stays: bool,
) -> bool:
    """Take in an answer, in the draft's order ("FindQuorum Response").

    ``learns_voters``: who was told no first voters takes over those of the answer.
    ``leader_stays``: that another node knows no leader yet does not depose it.
    """
    memory: Memory = core.memory
    if reply.error or reply.top_error:
        return False
    if reply.cluster_id and memory.cluster_id and reply.cluster_id != memory.cluster_id:
        raise FatalError(
            f"this node is of the cluster {memory.cluster_id}, and has found {reply.cluster_id}"
        )
    expected = tuple(connection.voter_id for connection in reply.voters)
    memory.expected_voters[source.id] = expected
    if reply.leader_epoch < core.epoch:
        return True
    if learns_voters and reply.leader_id == NONE and expected and not voter_ids(core):
        memory.learned = expected
        core.persist(ElectionState(core.epoch, core.leader_id, core.voted))
    for connection in (*reply.voters, *(reply.targets or ())):
        if connection.voter_id != core.config.node_id:
            memory.merge(connection)
    if reply.cluster_id and not memory.cluster_id:
        settle(core, reply.cluster_id)
    if reply.leader_id != NONE:
        leader_id = reply.leader_id
        learn(core, leader_id, reply.leader_epoch, core.policy.endpoints(core, leader_id))
        if core.role.name is RoleName.FOLLOWER:
            memory.rounds = 0
        return True
    if reply.leader_epoch > core.epoch:
        learn(core, NONE, reply.leader_epoch, ())
    if core.is_voter and not (leader_stays and core.role.name is RoleName.LEADER):
        become_candidate(core)
    return True


def become_candidate(core: QuorumState) -> None:
    """Let a voter campaign, after the delay of every election; a candidate goes on as it is.

    Who leads this epoch, or has led it, leaves it first: no election can be held in it.
    """
    if core.role.name in (RoleName.LEADER, RoleName.RESIGNED):
        core.move(Cause.HIGHER_EPOCH, epoch=core.epoch + 1)
    core.role.hurry()


# ---- the first election --------------------------------------------------------------------------


def unknown_voters(core: QuorumState) -> list[int]:
    """Return the voters whose addresses nobody has told."""
    ids = core.log.voters.last.ids
    return [voter_id for voter_id in ids if not core.policy.endpoints(core, voter_id)]


def knows_majority(core: QuorumState) -> bool:
    """Whether it is known where a majority of the voters are, this one among them."""
    voters = core.log.voters.last
    return len(voters) - len(unknown_voters(core)) >= voters.majority


def is_first(core: QuorumState) -> bool:
    """Whether an election now would be the first that this node knows of: its log is empty."""
    return core.log.end_offset == 0 and not isinstance(core.log.voters.last, Assignment)


def expectations(core: QuorumState) -> dict[str, tuple[int, ...] | None]:
    """Return the first voters that each server of ``bootstrap.servers`` expects, by its address.

    None stands for one that has not answered; no voters for one that was told none, as a broker
    that only observes, and has not learned them yet.
    """
    expected = core.memory.expected_voters
    return {f"{node.host}:{node.port}": expected.get(node.id) for node in contacts(core)}


def majority_agrees(core: QuorumState) -> bool:
    """Whether a majority of ``bootstrap.servers`` and this node expects the voters that it expects.

    Two majorities of the same servers have one in common, and a server expects one set of voters,
    for good: so no second set has a majority, whoever is down or not heard. A server that was told
    none expects what it hears first, and so a majority that is up can agree.
    """
    own_ids = core.log.voters.last.ids
    expected = list(expectations(core).values())
    if not core.memory.asks_itself:  # Else it is one of the servers, under another name.
        expected.append(own_ids)
    return 2 * expected.count(own_ids) > len(expected)


def contacts_queried(core: QuorumState) -> bool:
    """Whether the first servers were queried, and had the time of a round to answer."""
    memory: Memory = core.memory
    contact_ids = [node.id for node in contacts(core)]
    return memory.rounds > 1 or all(id in memory.expected_voters for id in contact_ids)
