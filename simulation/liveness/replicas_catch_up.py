"""Voters and observers come to have everything that the leader has committed.

Each that lacks some gets on within the time that its own timers and one election may take. An
observer asks its bootstrap servers alone who leads. Where all of these were removed, and know it as
little, nobody tells it: that is for the operator to mend.
"""

from __future__ import annotations

from kraftspec.reference.raft.messages import FetchSnapshot
from kraftspec.simulation.liveness.base import Liveness, servers_of
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.schedule import Schedule
from kraftspec.simulation.swarm import S

ROUND_TRIPS = 8  # Of the slowest messages: to be told of a leader, to elect, to fetch.
BACKOFF_MAX_US = S  # Of a retry and of an election.


class ReplicasCatchUp(Liveness):
    """Waits for every replica to have what the leader has committed."""

    def __init__(self) -> None:
        self.offset = 0
        # Replica → how far it was at the most, and since when.
        self.reached: dict[int, tuple[tuple[int, int, int], int]] = {}

    def begin(self, schedule: Schedule) -> None:
        """What is committed now is what they must reach: the leader goes on."""
        world = schedule.world
        self.offset = world.committed_log.high_watermark
        config = next(iter(world.replicas.values())).config
        # A request that was lost, and the one after it; the leader that is silent, and the next.
        timeouts_us = 2 * (
            config.request_timeout_us + config.fetch_timeout_us + config.election_timeout_us
        )
        trips_us = 2 * ROUND_TRIPS * schedule.swarm.latency_max_us
        self.within_us = timeouts_us + 2 * BACKOFF_MAX_US + trips_us

    def is_so(self, schedule: Schedule) -> bool:
        """Whether everybody knows that much to be committed."""
        leader = schedule.world.leader()
        return not any(
            self._lacks(one, leader, schedule) for one in schedule.world.replicas.values()
        )

    def progress(self, schedule: Schedule) -> int:
        """A log of thousands of batches takes its time: who has waited longest must get on."""
        now_us = since_us = schedule.world.now_us
        leader = schedule.world.leader()
        for replica in schedule.world.replicas.values():
            if not self._lacks(replica, leader, schedule):
                continue
            asked = _snapshot_asked(replica)
            reached = (replica.high_watermark, *(asked or (-1, -1)))
            known = self.reached.get(replica.id)
            if known is None or reached > known[0]:
                self.reached[replica.id] = known = reached, now_us
            since_us = min(since_us, known[1])
        return since_us

    def why_not(self, schedule: Schedule) -> str:
        """Say, too, who asks for what is gone."""
        leader = schedule.world.leader()
        why = super().why_not(schedule)
        for replica in schedule.world.replicas.values():
            asked = None if self._is_there(replica) else _snapshot_asked(replica)
            if leader is None or asked is None:
                continue
            if all(one.end_offset != asked[0] for one in leader.snapshots):
                why = (
                    f"node {replica.id} asks its leader for byte {asked[1]} of the snapshot at "
                    f"{asked[0]}, which that has not; {why}"
                )
        return why

    def _lacks(self, replica: Replica, leader: Replica | None, schedule: Schedule) -> bool:
        """Whether it is to come to more than it has."""
        return not (self._is_there(replica) or _is_stranded(replica, leader, schedule))

    def _is_there(self, replica: Replica) -> bool:
        return replica.is_up and replica.high_watermark >= self.offset


def _is_stranded(replica: Replica, leader: Replica | None, schedule: Schedule) -> bool:
    """Whether it knows of no leader, and neither does anybody whom it asks."""
    if leader is None or replica.core.is_voter or replica.core.leader_id >= 0:
        return False
    voters = leader.core.log.voters.last
    return not any(
        server in voters.ids or schedule.world.replicas[server].core.leader_id >= 0
        for server in servers_of(replica, schedule) & schedule.world.replicas.keys()
    )


def _snapshot_asked(replica: Replica) -> tuple[int, int] | None:
    """Return which snapshot it asks for, by its end, and from which byte on."""
    asked = None
    for request, _ in replica.sent_requests.values():
        if isinstance(request, FetchSnapshot):
            asked = request.snapshot_end_offset, request.position
    return asked


LIVENESS = ReplicasCatchUp
