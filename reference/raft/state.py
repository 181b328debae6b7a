"""What a replica knows whatever its role is, and what it has decided to do in this step."""

from __future__ import annotations

from typing import Protocol, TypeVar

from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft.config import Config
from kraftspec.reference.raft.connections import Connections
from kraftspec.reference.raft.log_state import LogState
from kraftspec.reference.raft.messages import Fetch, Reply, Request
from kraftspec.reference.raft.types import (
    NEVER_US,
    NONE,
    ElectionState,
    Endpoints,
    Node,
    ReplicaKey,
    SnapshotId,
)

R = TypeVar("R", bound=Reply)


class Random(Protocol):
    """All that the core wants of a ``random.Random``."""

    def getrandbits(self, k: int, /) -> int:
        """Return an integer of ``k`` random bits."""
        ...


def draw_below(random: Random, bound: int) -> int:
    """Return one of 0 .. bound - 1, by integers alone, so that it is the same on any machine."""
    return random.getrandbits(32) * bound >> 32


class State:
    """Epoch, leader, vote, log and connections; and the effects of the step that is under way.

    ``started_us`` is when this life began; ``leader_id`` is -1 if none is known; ``voted`` is the
    key that this node voted for in this epoch; ``campaigns`` counts its own since it last knew a
    leader; ``high_watermark`` is -1 as long as a new leader has not established one;
    ``committed_offset`` is the highest that the high watermark ever was in this life. ``is_voter``:
    whether this replica takes part in elections; ``is_removed``: it does, although the last voter
    set leaves it out.
    """

    def __init__(
        self, config: Config, log: LogState, election: ElectionState | None, random: Random
    ) -> None:
        self.config = config
        self.log = log
        self.random = random
        self.now_us = 0
        self.started_us = 0
        self.deadline_us = NEVER_US
        self.effects: list[fx.Effect] = []
        state = election or ElectionState()
        self.epoch = state.epoch
        self.leader_id = state.leader_id
        self.leader_endpoints: Endpoints = ()
        self.voted: ReplicaKey | None = state.voted
        self.high_watermark = NONE
        self.committed_offset = NONE
        self.is_voter = log.voters.last.is_voter(config.key)
        self.is_removed = False
        self.connections = Connections(config.request_timeout_us, config.retry_backoff_us)
        self.campaigns = 0
        self.campaign_us = NEVER_US
        self.shutdown_deadline_us = NEVER_US
        self.stopped = False
        self.log_generation = 0
        self.writing_snapshots: dict[SnapshotId, None] = {}

    def emit(self, effect: fx.Effect) -> None:
        """Let this be done after what was emitted before."""
        self.effects.append(effect)

    def ask(self, node: Node, request: Request) -> None:
        """Send a request to a node that is ready."""
        request_id = self.connections.sent(node, request, self.now_us)
        self.effects.append(fx.Ask(request_id, node, request))

    def answer(self, token: int, reply: Reply) -> None:
        """Answer the request of that token."""
        self.effects.append(fx.Answer(token, reply))

    def reply(self, kind: type[R], error: int = 0) -> R:
        """Return a reply with what every reply carries: the leader and epoch known here."""
        return kind(
            error=error,
            leader_id=self.leader_id,
            leader_epoch=self.epoch,
            leader_endpoints=self.leader_endpoints,
        )

    def refusal(self, kind: type[R], top_error: int) -> R:
        """Return a reply to a request that is refused as a whole."""
        reply = self.reply(kind)
        reply.top_error = top_error
        return reply

    def fetch_request(self) -> Fetch:
        """Return the Fetch that asks for what comes next in this log (KIP-595, Fetch)."""
        config = self.config
        log = self.log
        return Fetch(
            cluster_id=config.cluster_id,
            replica_id=config.node_id,
            replica_directory_id=config.directory_id,
            leader_epoch=self.epoch,
            fetch_offset=log.end_offset,
            last_fetched_epoch=log.last_epoch,
            high_watermark=self.high_watermark,
            max_wait_us=config.fetch_max_wait_us,
            max_bytes=config.fetch_max_bytes,
        )
