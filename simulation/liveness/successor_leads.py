"""A leader that resigns is followed by one of its preferred successors, and soon.

KIP-595: EndQuorumEpoch names the other voters, whose log is the longest first. The first campaigns
when it gets that, the next ones a little later, and the last no later than the maximum of the
election backoff (``KafkaRaftClient.endEpochElectionBackoff``). So nobody waits for a fetch
time-out, which is longer, nor does the election time-out of the leader that resigned pass.

An answer of the leader that EndQuorumEpoch overtakes is another matter: whoever gets it takes the
leader for alive, and waits a whole fetch time-out. Kafka's node does the same.
"""

from __future__ import annotations

from kraftspec.reference.raft import RoleName
from kraftspec.simulation.liveness.base import Liveness
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.schedule import Schedule
from kraftspec.simulation.swarm import MS, S

# Elections take some messages: they must be short beside the pauses between successors, or two of
# them may campaign at once, and nobody wins.
LATENCY_MAX_US = 5 * MS
SYNC_MAX_US = 3 * MS
CALM_US = 10 * S  # So long at the most until all voters have the same log.


class SuccessorLeads(Liveness):
    """Lets the leader resign when all voters have its log, and measures.

    Of a run with slow messages, and where no such moment comes, nothing is judged; nor where a
    successor is yet to get an answer of the leader.
    """

    step_us = 20 * MS

    def __init__(self) -> None:
        self.until_us = 0
        self.epoch = -1
        self.resigned_us = -1
        self.is_overtaken = False
        self.successors: tuple[int, ...] = ()

    def begin(self, schedule: Schedule) -> None:
        """Let nobody append any more, so that logs become the same."""
        swarm = schedule.swarm
        self.until_us = schedule.world.now_us
        if swarm.latency_max_us <= LATENCY_MAX_US and swarm.sync_max_us <= SYNC_MAX_US:
            swarm.append_period_us = 3600 * S
            self.until_us += CALM_US

    def is_so(self, schedule: Schedule) -> bool:
        """Whether one of them leads, or nothing is judged."""
        world = schedule.world
        leader = world.leader()
        if self.resigned_us >= 0:
            if self.is_overtaken and world.now_us >= self.resigned_us + self.within_us:
                return True
            return leader is not None and leader.epoch > self.epoch and leader.id in self.successors
        if world.now_us >= self.until_us:
            return True
        if leader is not None and _is_calm(schedule, leader):
            voters = leader.core.log.voters.last
            self.successors = tuple(id for id in voters.ids if id != leader.id)
            if not self.successors:
                return True
            self.is_overtaken = any(
                message.is_reply
                and message.source == leader.id
                and message.target in self.successors
                for message in schedule.under_way()
            )
            schedule.met["handover overtakes an answer" if self.is_overtaken else "handover"] += 1
            self.epoch, self.resigned_us = leader.epoch, world.now_us
            self.within_us = leader.config.election_backoff_max_us
            world.resign(leader)
        return False

    def progress(self, schedule: Schedule) -> int:
        """The time is that from the resignation on."""
        return self.resigned_us

    def why_not(self, schedule: Schedule) -> str:
        """Say who did not."""
        return (
            f"nobody of {self.successors} leads {self.within_us // MS} ms after the leader of "
            f"epoch {self.epoch} has resigned; {super().why_not(schedule)}"
        )


def _is_calm(schedule: Schedule, leader: Replica) -> bool:
    """Whether all voters follow, and have what the leader has, which is committed."""
    end_offset = leader.log_model.end_offset
    return leader.high_watermark == end_offset and all(
        (replica := schedule.world.replica_of(voter.key)) is not None
        and replica.is_up
        and replica.epoch == leader.epoch
        and (replica is leader or replica.role is RoleName.FOLLOWER)
        and replica.durable_end == end_offset
        for voter in leader.core.log.voters.last
    )


LIVENESS = SuccessorLeads
