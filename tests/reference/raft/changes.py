"""What the tests of voter changes begin with: a quorum with kraft.version 1, and its requests."""

from __future__ import annotations

from typing import Any

from tests.reference.raft.network import CLUSTER, Network, Replica, directory, formatted, voter

from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.config import MS


def led(count: int = 3, **changes: Any) -> tuple[Network, Replica]:
    net = formatted(count, **changes)
    leader = net.elect()
    net.run(100 * MS)
    return net, leader


def voters(replica: Replica) -> tuple[int, ...]:
    return replica.core.log.voters.last.ids


def add_request(node_id: int = 4, **changes: Any) -> ms.AddVoter:
    values: dict[str, Any] = {
        "cluster_id": CLUSTER,
        "voter_id": node_id,
        "voter_directory_id": directory(node_id),
        "endpoints": voter(node_id).endpoints,
    }
    return ms.AddVoter(**{**values, **changes})


def remove_request(node_id: int, **changes: Any) -> ms.RemoveVoter:
    values: dict[str, Any] = {
        "cluster_id": CLUSTER,
        "voter_id": node_id,
        "voter_directory_id": directory(node_id),
    }
    return ms.RemoveVoter(**{**values, **changes})


def ask(net: Network, leader: Replica, request: ms.Request) -> ms.Reply | None:
    return net.ask(leader.config.node_id, request)


def others(net: Network, *nodes: Replica) -> list[Replica]:
    return [r for r in net.replicas.values() if r not in nodes]
