"""When and to whom this node hands leadership back: it serves Raft, and is no Kafka controller.

A quorum in which it leads has nobody who answers brokers and operators. So where another voter is a
Kafka controller, as it says itself by the APIs that it serves, this node resigns as soon as that
voter has everything, and names such voters first as its successors.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kraftspec.reference.node.apis import is_controller
from kraftspec.reference.node.client import Peer, Peers
from kraftspec.reference.raft.leader import Leader

if TYPE_CHECKING:
    from kraftspec.reference.node.client import Asker
    from kraftspec.reference.raft import Core, ReplicaKey

LOOK_AGAIN_S: Final = 1.0


class HandingBack:
    """The decision. ``wish`` True and False decide it beforehand; None looks at the voters."""

    def __init__(self, wish: bool | None) -> None:
        self.wish = wish
        self.kinds: dict[int, bool] = {}  # Voters, and whether they are Kafka controllers.

    def is_due(self, core: Core, peers: Peers) -> bool:
        """Whether a leader should resign now, everything of its epoch's beginning committed."""
        role = core.role
        if not isinstance(role, Leader) or role.resign_requested or core.high_watermark < 0:
            return False
        if len(role.voters) == 1:
            return False  # There is nobody else.
        if self.wish is not None:
            return self.wish
        self._learn(core, peers)
        return any(
            self.kinds.get(node_id, False) and progress.end_offset >= core.high_watermark
            for node_id, progress in role.voters.items()
        )

    def in_order(
        self, core: Core, peers: Peers, successors: tuple[ReplicaKey, ...]
    ) -> tuple[ReplicaKey, ...]:
        """Return the successors with Kafka controllers first, else as they were."""
        if self.wish is False:
            return successors
        self._learn(core, peers)
        return tuple(sorted(successors, key=lambda key: not self.kinds.get(key.id, False)))

    def _learn(self, core: Core, peers: Peers) -> None:
        for node_id in core.log.voters.last.ids:
            versions = peers.versions_of(node_id)
            if versions is not None:
                self.kinds[node_id] = is_controller(versions)

    async def ask_around(self, core: Core, asker: Asker) -> None:
        """Ask the voters of which it is not known what they are.

        A leader speaks first only to those that do not fetch, so it may have asked nobody yet.
        """
        if self.wish is not None:
            return
        for voter in core.log.voters.last:
            node = voter.node(core.config.listener_name)
            if node is None or node.id in self.kinds or node.id == core.config.node_id:
                continue
            peer = Peer(Peers(asker), node)
            try:
                async with asyncio.timeout(asker.request_timeout_s):
                    self.kinds[node.id] = is_controller(await peer.connected())
            except OSError:
                pass  # It will be asked again.
            finally:
                peer.close()
