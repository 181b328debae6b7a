"""Unexpected behaviour of peers, which a node survives and an operator should look at.

Each is logged once, by the logger ``kraftspec.node.anomalies``, with what to do about it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft.types import NONE

if TYPE_CHECKING:
    from kraftspec.reference.profiles.common.node import NodePart
    from kraftspec.reference.raft import Core
    from kraftspec.reference.raft.messages import Reply, Request

log = logging.getLogger("kraftspec.node.anomalies")


class Anomalies:
    """Logs each anomaly of one node's quorum once."""

    def __init__(self, node_id: int, kind: NodePart) -> None:
        self.node_id = node_id
        self.kind = kind
        self._logged: set[str] = set()

    def _warn(self, text: str) -> None:
        if text not in self._logged:
            self._logged.add(text)
            log.warning(text, extra={"node": self.node_id})

    def check_voters(self, core: Core) -> None:
        """Check this node's place in the voter set, and whether it can reach the others."""
        config = core.config
        voters = core.log.voters.last
        own = voters.get(config.node_id)
        if own is not None and not own.key.matches(config.key):
            self._warn(
                f"node {config.node_id} is a voter with the {self.kind.id_word} "
                f"{own.key.directory_id}, and this one is {config.directory_id}: it only "
                f"observes. If the old directory is lost, remove that voter and add this one; if "
                f"not, two nodes have the same node.id"
            )
        if not self.kind.addresses_in_log:
            return
        listener = config.listener_name
        away = [str(voter.key.id) for voter in voters if voter.node(listener) is None]
        if away:
            self._warn(
                f"no listener {listener} is known of the voters {', '.join(away)}: this node "
                f"cannot ask them. The first of controller.listener.names must be the same on "
                f"every controller"
            )

    def check_wait(self, core: Core) -> None:
        """Check whether an election has to wait for others."""
        awaited = self.kind.awaits(core)
        if awaited:
            self._warn(awaited)

    def check_reply(self, core: Core, reply: Reply, peer: str) -> None:
        """Check the response of another node."""
        if not core.config.cluster_id:
            return  # It has begun without one, and learns which it is.
        if ErrorCode.INCONSISTENT_CLUSTER_ID in (reply.top_error, reply.error):
            self._warn(
                f"the node at {peer} belongs to another cluster than {core.config.cluster_id}: "
                f"correct {self.kind.servers}, or format this node's directory "
                f"with the id of that cluster"
            )

    def check_request(self, core: Core, request: Request, peer: str) -> None:
        """Check the sender of a request: no other node may have this node's id."""
        config = core.config
        if getattr(request, "replica_id", NONE) != config.node_id or config.node_id == NONE:
            return
        directory_id = getattr(request, "replica_directory_id", ZERO_UUID)
        if directory_id in (ZERO_UUID, config.directory_id):
            return  # A node that looks for the leader may send a request to itself.
        self._warn(
            f"somebody at {peer.rpartition(':')[0]} says that it is node {config.node_id}, too, "
            f"with the {self.kind.id_word} {directory_id}: give each node a node.id of its own"
        )
