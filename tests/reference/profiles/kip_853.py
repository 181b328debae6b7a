"""Quorums of the draft of KIP-853, on the network in memory, and questions to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.reference.raft.network import (
    LISTENER,
    Network,
    Replica,
    config,
    directory,
    joiner,
    voter,
)

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.reference.profiles.kip_853.policy import Kept
from kraftspec.reference.profiles.kip_853.profile import KipProfile, VoterAdded
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.types import ElectionState, Endpoint, Voter
from kraftspec.reference.raft.voters import VoterSet


def static(count: int = 3, *without: str, **changes: Any) -> Network:
    """Return voters of ``controller.quorum.voters``, whose uuids nobody knows, not even they."""
    net = Network(KipProfile(LISTENER, without=without))
    voters = VoterSet(voter(node_id, named=False) for node_id in range(1, count + 1))
    for node_id in voters.ids:
        settings = {"bootstrap_servers": (), "directory_id": ZERO_UUID, **changes}
        net.add(config(node_id, voters, **settings))
    return net


def begun(count: int = 3, *without: str, **changes: Any) -> Network:
    """Return voters that begin with a record for each of them in their logs."""
    net = Network(KipProfile(LISTENER, without=without))
    for node_id in range(1, count + 1):
        add(net, node_id, count, first=range(1, count + 1), **changes)
    return net


def add(
    net: Network,
    node_id: int,
    servers: int = 3,
    *,
    first: range = range(0),
    old_ports: Mapping[int, int] | None = None,
    **changes: Any,
) -> Replica:
    """Add a node, with these first voters in its log, some perhaps at addresses they had once."""
    replica = Replica(net, joiner(node_id, servers, **changes), net.profile.policy, node_id * 1000)
    net.replicas[node_id] = replica
    disk = replica.disk
    if first:
        records = tuple(
            VoterAdded(Voter(voter(id).key, endpoints(id, (old_ports or {}).get(id))))
            for id in first
        )
        disk.append_control(fx.AppendControl(0, 0, records, 0))
        disk.synced = disk.end
        disk.election = ElectionState()
        disk.rest = Kept(replica.config.directory_id, None)
    replica.start()
    return replica


def endpoints(node_id: int, port: int | None = None) -> tuple[Endpoint, ...]:
    """Return where a node listens, or listened."""
    return (Endpoint(LISTENER, f"node{node_id}", 9000 + node_id if port is None else port),)


def add_voter(node_id: int, generation: int = 0, **fields: Any) -> ms.AddVoter:
    """Return the request that makes a node a voter."""
    uuid = directory(node_id, generation)
    return ms.AddVoter(
        **{
            "voter_id": node_id,
            "voter_directory_id": uuid,
            "endpoints": endpoints(node_id),
            **fields,
        }
    )


def remove_voter(node_id: int, generation: int = 0) -> ms.RemoveVoter:
    """Return the request that makes it one no longer."""
    return ms.RemoveVoter(voter_id=node_id, voter_directory_id=directory(node_id, generation))


def append(leader: Replica, number: int) -> None:
    """Append a record."""
    leader.step(ev.AppendRequested(number, leader.core.epoch, (b"%d" % number,)))
