"""When and to which voter this node, which is no Kafka controller, transfers leadership.

A quorum that it leads has no node that answers brokers and operators. So where another voter is a
Kafka controller, by the APIs that it serves, this node resigns as soon as that voter has
everything, and names such voters first as its preferred successors.

They may lose the election all the same. In a quorum of four voters a pre-vote needs three grants,
and a follower that has fetched from the leader refuses it, also after that leader's EndQuorumEpoch
(``FollowerState.canGrantVote``). Then another node like this one leads, and resigns in its turn. So
a node that resigned without effect waits longer each time before it does so again.
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
FIRST_PAUSE_US: Final = 8_000_000
PAUSE_MAX_US: Final = 300_000_000


class LeadershipTransfer:
    """The decision. ``policy`` True and False fix it; with None it depends on the voters."""

    def __init__(self, policy: bool | None) -> None:
        self.policy = policy
        self.kinds: dict[int, bool] = {}  # Voters, and whether they are Kafka controllers.
        self._pause_us = FIRST_PAUSE_US
        self._paused_until_us = 0

    def is_due(self, core: Core, peers: Peers) -> bool:
        """Whether a leader should resign now, everything of its epoch's beginning committed."""
        role = core.role
        if not isinstance(role, Leader) or role.resign_requested or core.high_watermark < 0:
            return False
        if len(role.voters) == 1:
            return False  # There is no other voter.
        if self.policy is not None:
            return self.policy
        if core.now_us < self._paused_until_us:
            return False
        self._learn(core, peers)
        return any(
            self.kinds.get(node_id, False) and progress.end_offset >= core.high_watermark
            for node_id, progress in role.voters.items()
        )

    def resigned(self, core: Core) -> None:
        """Pause before the next time, twice as long as before this one."""
        self._paused_until_us = core.now_us + self._pause_us
        self._pause_us = min(2 * self._pause_us, PAUSE_MAX_US)

    def leader_changed(self, leader_id: int) -> None:
        """Forget the pauses where a Kafka controller leads: the transfer had its effect."""
        if self.kinds.get(leader_id, False):
            self._pause_us = FIRST_PAUSE_US
            self._paused_until_us = 0

    def in_order(
        self, core: Core, peers: Peers, successors: tuple[ReplicaKey, ...]
    ) -> tuple[ReplicaKey, ...]:
        """Return the successors with Kafka controllers first, else as they were."""
        if self.policy is False:
            return successors
        self._learn(core, peers)
        return tuple(sorted(successors, key=lambda key: not self.kinds.get(key.id, False)))

    def _learn(self, core: Core, peers: Peers) -> None:
        for node_id in core.log.voters.last.ids:
            versions = peers.versions_of(node_id)
            if versions is not None:
                self.kinds[node_id] = is_controller(versions)

    async def query_voters(self, core: Core, asker: Asker) -> None:
        """Send ApiVersions to the voters of which the kind is not known.

        A leader connects only to voters that do not fetch, so it may have sent it to none yet.
        """
        if self.policy is not None:
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
                pass  # It is queried again later.
            finally:
                peer.close()
