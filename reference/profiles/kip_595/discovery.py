"""FindQuorum: who leads, where the voters are, and when a first election may begin.

A node that knows no leader asks the servers that it was configured with, and the voters that it
has heard of, all of them, in rounds that come the later the more were in vain (KIP-580's formula).
Followers ask their leader once in a while, too: the draft has a voter that was added tell its
address, and no request but this one that could ("Bootstrapping", step 4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftspec.reference.profiles.kip_595.assignment import Assignment
from kraftspec.reference.profiles.kip_595.messages import Connection, FindQuorum, FindQuorumReply
from kraftspec.reference.raft.rules import learn
from kraftspec.reference.raft.transitions import FatalError
from kraftspec.reference.raft.types import NONE, Node, RoleName
from kraftspec.reference.raft.unattached import Unattached

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kraftspec.reference.profiles.kip_595.memory import Memory
    from kraftspec.reference.profiles.kip_595.policy import DraftPolicy
    from kraftspec.reference.raft.core import Core

ROUND_US_MIN = 1_000  # However short the backoff is set, the network gets its turn.


def own_connection(core: Core) -> Connection:
    """Return where this node is reached, and since when: its clock at its first question."""
    memory: Memory = core.memory
    memory.boot_timestamp_ms = memory.boot_timestamp_ms or core.now_us // 1000
    for endpoint in core.config.endpoints:
        if endpoint.name == core.config.listener_name:
            protocol = getattr(endpoint, "security_protocol", 0)
            return Connection(
                core.config.node_id,
                memory.boot_timestamp_ms,
                endpoint.host,
                endpoint.port,
                protocol,
            )
    return Connection(core.config.node_id)


def targets_of(core: Core) -> tuple[int, ...] | None:
    """Return the target voters in force, or None."""
    voters = core.log.voters.last
    return voters.targets if isinstance(voters, Assignment) else None


def question(core: Core) -> FindQuorum:
    """Return what is asked."""
    return FindQuorum(sender=own_connection(core))


# ---- asking ------------------------------------------------------------------------------------


def look(policy: DraftPolicy, core: Core) -> int:
    """Ask everybody that is ready, if a round is due; return when the next one is."""
    memory: Memory = core.memory
    if core.now_us >= memory.find_us:
        memory.rounds += 1
        backoff_us = policy.retry_backoff_us(core, memory.rounds)
        memory.find_us = core.now_us + max(backoff_us, ROUND_US_MIN)
        for node in _servers(policy, core):
            if core.connections.ready(node.id, core.now_us):
                core.ask(node, question(core))
    return min(memory.find_us, core.connections.check_us)


def contacts(core: Core) -> list[Node]:
    """Return the servers of ``bootstrap.servers``, this node left out."""
    own = own_connection(core)
    return [
        node
        for node in core.config.bootstrap_servers
        if (node.host, node.port) != (own.host, own.port)
    ]


def publish(core: Core) -> None:
    """Tell the servers to begin with where this node is ("Bootstrapping", step 4)."""
    for node in contacts(core):
        if core.connections.ready(node.id, core.now_us):
            core.ask(node, question(core))


def _servers(policy: DraftPolicy, core: Core) -> list[Node]:
    """Return the servers to begin with, and the voters that are known; and who asked this node.

    The last is no rule of the draft's: where the voters have moved on, and the server that others
    begin with was down meanwhile, nobody else could tell it where they are.
    """
    servers = contacts(core)
    places = {(node.host, node.port) for node in servers}
    for voter_id in dict.fromkeys((*core.log.voters.last.ids, *(targets_of(core) or ()))):
        node = core.node(voter_id) if voter_id != core.config.node_id else None
        if node is not None and (node.host, node.port) not in places:
            servers.append(node)
            places.add((node.host, node.port))
    if policy.asks_back:
        callers = core.memory.callers.values()
        servers += [Node(c[0], c.host, c.port) for c in callers if (c.host, c.port) not in places]
    return servers


# ---- answering ---------------------------------------------------------------------------------


def on_find_quorum(core: Core, token: int, request: FindQuorum) -> None:
    """FindQuorum: note where a voter is, and say all that is known ("FindQuorum Request").

    Neither cluster id nor epoch are checked: who asks may know neither.
    """
    memory: Memory = core.memory
    targets = targets_of(core)
    voter_ids = core.log.voters.last.ids
    sender = request.sender
    if sender.voter_id in voter_ids or sender.voter_id in (targets or ()):
        role = core.role
        knew_nobody = not memory.connections and not contacts(core)
        if memory.merge(sender) and knew_nobody and isinstance(role, Unattached):
            # Here is somebody to ask, and there was nobody: first look, and then campaign.
            memory.find_us = core.now_us
            role.election_deadline_us = core.election_deadline_us()
    elif sender.voter_id != core.config.node_id:
        memory.called(sender)
    reply = core.reply(FindQuorumReply)
    reply.cluster_id = memory.cluster_id
    reply.voters = _known(core, voter_ids)
    reply.targets = None if targets is None else _known(core, targets)
    core.answer(token, reply)


def _known(core: Core, ids: Iterable[int]) -> tuple[Connection, ...]:
    """Return the connections of voters; of one that nobody knows, its id alone."""
    memory: Memory = core.memory
    own_id = core.config.node_id
    return tuple(
        own_connection(core) if id == own_id else memory.connections.get(id, Connection(id))
        for id in ids
    )


# ---- what an answer means ------------------------------------------------------------------------


def on_find_quorum_reply(policy: DraftPolicy, core: Core, source: Node, reply: object) -> bool:
    """Take in an answer, in the draft's order ("FindQuorum Response")."""
    assert isinstance(reply, FindQuorumReply)
    memory: Memory = core.memory
    if reply.error or reply.top_error:
        return False
    if reply.cluster_id and memory.cluster_id and reply.cluster_id != memory.cluster_id:
        raise FatalError(
            f"this node is of the cluster {memory.cluster_id}, and has found {reply.cluster_id}"
        )
    memory.heard[source.id] = tuple(connection.voter_id for connection in reply.voters)
    if reply.leader_epoch < core.epoch:
        return True
    for connection in (*reply.voters, *(reply.targets or ())):
        if connection.voter_id != core.config.node_id:
            memory.merge(connection)
    if reply.cluster_id and not memory.cluster_id:
        policy.settle(core, reply.cluster_id)
    if reply.leader_id != NONE:
        leader_id = reply.leader_id
        learn(core, leader_id, reply.leader_epoch, policy.endpoints(core, leader_id))
        if core.role.name is RoleName.FOLLOWER:
            memory.rounds = 0
        return True
    if reply.leader_epoch > core.epoch:
        learn(core, NONE, reply.leader_epoch, ())
    # Who has given its vote to another waits for that election to end.
    is_free = core.voted is None and core.leader_id == NONE
    if core.is_voter and core.role.name is RoleName.UNATTACHED and is_free:
        core.role.hurry()
    return True


# ---- the first election --------------------------------------------------------------------------


def knows_majority(core: Core) -> bool:
    """Whether it is known where a majority of the voters are, this one among them."""
    voters = core.log.voters.last
    known = sum(core.policy.endpoints(core, voter_id) != () for voter_id in voters.ids)
    return known >= voters.majority


def is_first(core: Core) -> bool:
    """Whether an election now would be the first that this node knows of: its log is empty."""
    return core.log.end_offset == 0 and not isinstance(core.log.voters.last, Assignment)


def others_agree(core: Core) -> bool:
    """Whether every server to begin with has answered, and expects these very voters, or none.

    A server that is no voter by its own configuration, nor knows a quorum, expects none.
    """
    memory: Memory = core.memory
    expected = core.log.voters.last.ids
    return all(memory.heard.get(node.id) in ((), expected) for node in contacts(core))


def others_asked(core: Core) -> bool:
    """Whether the servers to begin with were asked, and had the time of a round to answer."""
    memory: Memory = core.memory
    contact_ids = [node.id for node in contacts(core)]
    return memory.rounds > 1 or all(id in memory.heard for id in contact_ids)
