"""Which faults a run has, and how often: chosen from its seed, so that runs differ in kind.

A run with every fault at once rarely gets anywhere. Each seed switches most of them off, and draws
the rates of the rest (swarm testing: Groce et al., 2012).
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from kraftspec.reference.log import LogConfig
from kraftspec.simulation.rng import Rng

MS = 1_000
S = 1_000_000
RESTLESS = 1_000  # Runs of 10,000 whose operator repeats requests, and lets leaders be removed.
REMOVED_LEADERS = 700  # Runs of 10,000 whose leaders are removed, and cut off then.
CARELESS = 2_500  # Of 10,000 of these, where nodes are Kafka's.
SLOW_SNAPSHOTS = 500  # Runs of 10,000 whose snapshots are slower than the fetch time-out.
MOVES = 400  # Runs of 10,000 whose nodes restart under other addresses.
DIVERGED_TAILS = 400  # Runs of 10,000 whose leaders are cut off, and written to.
LATE_REPLIES = 500  # Runs of 10,000 with replies that come after their requests timed out.
EDGE_SNAPSHOTS = 500  # Runs of 10,000 whose snapshots end at control records.
SILENT_LEADERS = 600  # Runs of 10,000 whose leaders fall silent, and whose nodes know one server.


class Swarm(msgspec.Struct, kw_only=True):
    """The conditions of one run. Chances are of 10,000; a period of 0 switches a fault off."""

    # Who is there.
    voters: int = 3
    observers: int = 1
    kraft_version: int = 1  # 0: static voters (controller.quorum.voters).
    mixed_voters: bool = False  # Nodes were told different ones, where a protocol has that.
    absent: int = 0  # Of the first voters: not started before somebody has led.
    untold: bool = False  # Joiners and observers are told no first voters, and are servers, too.
    dead_servers: int = 0  # Servers to begin with that are down for the whole run.
    joiners: int = 0  # Formatted without voters, waiting to be added.
    auto_join: bool = False
    old_vote_version: int = -1  # Of the release of ``old_nodes``, the highest; -1: all are new.
    old_nodes: int = 0
    # The network.
    latency_min_us: int = 200
    latency_max_us: int = 2 * MS
    loss: int = 0
    duplicate: int = 0
    straggler: int = 0  # Messages that take up to a hundred times as long.
    late_reply: int = 0  # Replies that take longer than ``request_timeout_us``.
    request_timeout_us: int = 2 * S
    partition_period_us: int = 0
    lost_reply_period_us: int = 0
    isolation_period_us: int = 0  # Partitions of one node from all others, for a while.
    clog_period_us: int = 0
    # The machines.
    kill_period_us: int = 0
    power_period_us: int = 0
    boundary_period_us: int = 0  # Power lost between two effects.
    election_period_us: int = 0  # Everybody campaigns at once, and who wins loses its power.
    targeted_power_period_us: int = 0  # See `targeted_power_loss`.
    pause_period_us: int = 0
    clock_jump_period_us: int = 0
    clock_drift_ppm_max: int = 0
    shutdown_period_us: int = 0
    # The disks.
    sync_min_us: int = 100
    sync_max_us: int = 1 * MS
    slow_disk_period_us: int = 0
    failing_disk_period_us: int = 0
    full_disk_period_us: int = 0
    wipe_period_us: int = 0
    disk_loss_period_us: int = 0  # Of a protocol whose static voters may lose one; else 0.
    corruption_period_us: int = 0
    partitioned_removal_period_us: int = 0  # A partitioned voter is removed.
    leader_removal_period_us: int = 0  # A leader is removed, and partitioned soon after.
    is_careless: bool = False  # Voters are removed without whom the others may elect nobody.
    move_period_us: int = 0  # A node restarts under another address.
    listeners: int = 1  # Of each node, in such a run.
    stranding_period_us: int = 0  # A leader is cut off, and comes back: see `diverged_tails`.
    edge_snapshot_period_us: int = 0  # A snapshot ends at a control record, before a restart.
    silence_period_us: int = 0  # A leader neither hears nor says anything until it is deposed.
    servers: int = 0  # Bootstrap servers of each node, the voters that follow it; 0: all there are.
    # What is asked of it.
    append_period_us: int = 40 * MS
    records_max: int = 3
    record_bytes_max: int = 40
    snapshot_period_us: int = 0
    clean_period_us: int = 0
    reconfigure_period_us: int = 0
    repeat_period_us: int = 0  # Of requests for changes of voters that were sent before.
    upgrade_period_us: int = 0  # Of kraft.version, from 0 to 1; asked until it is done.
    resign_period_us: int = 0
    segment_bytes: int = 1 << 20
    zero_ahead_bytes: int = 0  # Zeros that a log writes ahead of its batches, at the most.
    fetch_max_bytes: int = 1 << 20
    fetch_snapshot_max_bytes: int = 1 << 20

    @property
    def log_config(self) -> LogConfig:
        """How the nodes keep their logs."""
        return LogConfig(segment_bytes=self.segment_bytes, zero_ahead_bytes=self.zero_ahead_bytes)

    @property
    def forgets(self) -> bool:
        """Whether a node may lose what it wrote and had not synced yet."""
        return any(getattr(self, name) for name in _FORGETS)

    @property
    def is_of_one_kind(self) -> bool:
        """Whether it is a run in which one thing fails, and little else."""
        kinds = (
            self.repeat_period_us, self.leader_removal_period_us, self.isolation_period_us,
            self.stranding_period_us, self.move_period_us, self.late_reply,
            self.silence_period_us,
        )  # fmt: skip
        return any(kinds)

    @property
    def faults(self) -> dict[str, int]:
        """The faults that are on, by name, with their rate or period."""
        names = [name for name in self.__struct_fields__ if name.endswith("_period_us")]
        names += ["loss", "duplicate", "straggler", "late_reply"]
        names += ["clock_drift_ppm_max", "old_nodes"]
        idle = ("append_period_us",)
        return {n: getattr(self, n) for n in sorted(names) if getattr(self, n) and n not in idle}


_FORGETS = (
    "power_period_us", "boundary_period_us", "election_period_us", "targeted_power_period_us",
    "failing_disk_period_us", "full_disk_period_us", "stranding_period_us",
    "edge_snapshot_period_us",
)  # fmt: skip

# Fault → shortest and longest mean time between two of them.
_PERIODS_US = {
    "partition_period_us": (2 * S, 20 * S),
    "lost_reply_period_us": (3 * S, 20 * S),
    "clog_period_us": (3 * S, 20 * S),
    "kill_period_us": (2 * S, 20 * S),
    "power_period_us": (2 * S, 20 * S),
    "boundary_period_us": (1 * S, 10 * S),
    "pause_period_us": (2 * S, 20 * S),
    "clock_jump_period_us": (5 * S, 30 * S),
    "shutdown_period_us": (5 * S, 30 * S),
    "slow_disk_period_us": (3 * S, 20 * S),
    "failing_disk_period_us": (5 * S, 30 * S),
    "full_disk_period_us": (5 * S, 30 * S),
    "wipe_period_us": (10 * S, 40 * S),
    "corruption_period_us": (10 * S, 40 * S),
    "snapshot_period_us": (500 * MS, 5 * S),
    "clean_period_us": (1 * S, 10 * S),
    "reconfigure_period_us": (1 * S, 8 * S),
    "resign_period_us": (3 * S, 20 * S),
}


def draw_swarm(rng: Rng, *, voters: int | None = None) -> Swarm:
    """Draw the conditions of a run; ``voters`` fixes how many nodes vote at first."""
    swarm = Swarm(voters=voters or rng.pick((1, 2, 3, 3, 3, 3, 4, 5, 5, 7)))
    swarm.kraft_version = rng.pick((0, 1, 1, 1))
    swarm.observers = rng.pick((0, 0, 1, 2))
    swarm.joiners = rng.pick((0, 1, 2)) if swarm.kraft_version else 0
    swarm.auto_join = rng.in_ten_thousand(2_000)
    swarm.latency_min_us = rng.pick((100, 500, 2 * MS))
    swarm.latency_max_us = swarm.latency_min_us * rng.pick((1, 3, 10, 30))
    swarm.sync_min_us = rng.pick((10, 100, 1 * MS))
    swarm.sync_max_us = swarm.sync_min_us * rng.pick((1, 3, 10))
    if rng.in_ten_thousand(4_000):
        swarm.loss = rng.pick((50, 300, 1_000, 2_500))
    if rng.in_ten_thousand(3_000):
        swarm.duplicate = rng.pick((100, 500, 2_000))
    if rng.in_ten_thousand(3_000):
        swarm.straggler = rng.pick((50, 300, 1_500))
    for name, (shortest, longest) in _PERIODS_US.items():
        drawn = rng.between(shortest, longest)
        is_on = rng.in_ten_thousand(3_500)
        if is_on:
            setattr(swarm, name, drawn)
    if not swarm.kraft_version:
        swarm.wipe_period_us = 0  # Nothing protects a static quorum from a voter that forgot.
        swarm.corruption_period_us = 0  # The same: a corrupted disk has to be wiped.
    if rng.in_ten_thousand(2_000):
        swarm.clock_drift_ppm_max = rng.pick((100, 10_000, 100_000))
    if rng.in_ten_thousand(2_000):
        swarm.old_nodes = rng.between(1, swarm.voters)
        swarm.old_vote_version = rng.pick((1, 1, 0)) if not swarm.kraft_version else 1
    swarm.append_period_us = rng.pick((5 * MS, 20 * MS, 50 * MS, 200 * MS))
    swarm.records_max = rng.pick((1, 1, 3, 20))
    swarm.record_bytes_max = rng.pick((14, 40, 300))
    swarm.segment_bytes = rng.pick((1 << 10, 1 << 12, 1 << 20))
    swarm.fetch_max_bytes = rng.pick((1, 500, 1 << 20))
    swarm.fetch_snapshot_max_bytes = rng.pick((50, 300, 1 << 20))
    if rng.in_ten_thousand(2_500):
        swarm.election_period_us = rng.between(500 * MS, 5 * S)
    return swarm


# What is not asked for where a core lacks a capability.
_NEEDS = {
    "dynamic_voters": (
        "kraft_version", "joiners", "reconfigure_period_us", "upgrade_period_us", "wipe_period_us",
        "corruption_period_us",
    ),
    "snapshots": ("snapshot_period_us", "clean_period_us"),
    "upgrade": ("upgrade_period_us",),
    "disk_faults": ("failing_disk_period_us", "full_disk_period_us", "corruption_period_us"),
}  # fmt: skip


def forgo(swarm: Swarm, lacking: Collection[str]) -> None:
    """Leave out what needs capabilities that a core is lacking."""
    for capability in lacking:
        for name in _NEEDS.get(capability, ()):
            setattr(swarm, name, 0)


def draw_targeted_power(swarm: Swarm, rng: Rng) -> None:
    """Draw targeted power losses, by an rng of their own: a seed's other conditions stay."""
    if rng.in_ten_thousand(2_500):
        swarm.targeted_power_period_us = rng.between(500 * MS, 3 * S)


def draw_zeros(swarm: Swarm, rng: Rng) -> None:
    """Draw how many bytes are preallocated, up to a whole segment, by an rng of its own."""
    swarm.zero_ahead_bytes = rng.pick((0, 700, 1 << 12, 40_000))


def draw_restless_operator(swarm: Swarm, rng: Rng) -> None:
    """Draw an operator who changes the voters all the time, by an rng of its own.

    Disks are replaced, so that some of what is repeated is about a disk that is gone. Little else
    fails in these runs, and less is appended: a change takes many steps.
    """
    if swarm.kraft_version and rng.in_ten_thousand(RESTLESS):
        corruption_period_us = swarm.corruption_period_us  # That replaces a disk, too.
        for name in swarm.faults:
            setattr(swarm, name, 0)
        swarm.corruption_period_us = corruption_period_us
        swarm.voters = max(swarm.voters, 3)
        swarm.joiners = max(swarm.joiners, rng.pick((1, 2)))
        swarm.reconfigure_period_us = rng.between(500 * MS, 2 * S)
        swarm.repeat_period_us = rng.between(500 * MS, 2 * S)
        swarm.wipe_period_us = rng.between(2 * S, 6 * S)
        swarm.append_period_us = 500 * MS
        swarm.latency_min_us, swarm.latency_max_us = 10 * MS, 40 * MS


def draw_removed_leaders(swarm: Swarm, rng: Rng) -> None:
    """Draw leaders that are removed and cut off soon after, by an rng of its own.

    Others are added meanwhile, so that there is somebody to remove. Little else fails.
    """
    if swarm.kraft_version and rng.in_ten_thousand(REMOVED_LEADERS):
        for name in swarm.faults:
            setattr(swarm, name, 0)
        swarm.voters = rng.pick((3, 3, 4, 5))
        swarm.joiners, swarm.observers = max(swarm.joiners, 1), 0
        swarm.leader_removal_period_us = rng.between(500 * MS, 2 * S)
        swarm.append_period_us = 500 * MS
        swarm.latency_min_us, swarm.latency_max_us = 10 * MS, 40 * MS


def draw_careless_operator(swarm: Swarm, rng: Rng) -> None:
    """Draw two voters; the leader is removed although the other may never be elected then."""
    if swarm.leader_removal_period_us and rng.in_ten_thousand(CARELESS):
        swarm.voters, swarm.is_careless = 2, True


def draw_slow_snapshots(swarm: Swarm, rng: Rng) -> None:
    """Draw snapshots that take longer to fetch than the fetch time-out, by an rng of its own.

    Their parts are so small, and messages take so long, that the leader has newer ones before.
    Little else fails in these runs: a new leader would hardly have begun to commit.
    """
    if rng.in_ten_thousand(SLOW_SNAPSHOTS):
        for name in swarm.faults:
            setattr(swarm, name, 0)
        swarm.latency_min_us, swarm.latency_max_us = 100 * MS, rng.pick((150, 200, 300)) * MS
        swarm.fetch_snapshot_max_bytes = rng.pick((15, 50))
        swarm.append_period_us, swarm.fetch_max_bytes = 300 * MS, 1 << 20
        swarm.snapshot_period_us = rng.between(500 * MS, 3 * S)
        swarm.clean_period_us = rng.between(500 * MS, 3 * S)
        swarm.isolation_period_us = rng.between(4 * S, 12 * S)


def draw_diverged_tails(swarm: Swarm, rng: Rng) -> None:
    """Draw leaders that are cut off with a tail longer than a snapshot, by an rng of its own.

    The others commit little meanwhile. Little else fails: who is cut off has to come back in time.
    """
    if rng.in_ten_thousand(DIVERGED_TAILS) and not swarm.is_of_one_kind:
        for name in swarm.faults:
            setattr(swarm, name, 0)
        swarm.voters = rng.pick((3, 3, 4, 5))
        swarm.append_period_us, swarm.records_max = 500 * MS, 1
        swarm.fetch_max_bytes = swarm.fetch_snapshot_max_bytes = 1 << 20
        swarm.latency_min_us, swarm.latency_max_us = 10 * MS, 40 * MS
        swarm.stranding_period_us = rng.between(1 * S, 4 * S)


def draw_moves(swarm: Swarm, rng: Rng) -> None:
    """Draw nodes that restart under other addresses, by an rng of its own.

    Processes end beside, leaders resign, and snapshots take the place of the log: whoever was away
    learns from them where the voters are.
    """
    if swarm.kraft_version and not swarm.is_of_one_kind and rng.in_ten_thousand(MOVES):
        for name in swarm.faults:
            setattr(swarm, name, 0)
        swarm.voters, swarm.listeners = rng.pick((3, 3, 4, 5)), rng.pick((1, 2))
        swarm.move_period_us = rng.between(1 * S, 4 * S)
        swarm.kill_period_us = rng.between(3 * S, 15 * S)
        swarm.resign_period_us = rng.between(3 * S, 15 * S)
        swarm.snapshot_period_us = swarm.clean_period_us = rng.between(1 * S, 8 * S)
        swarm.append_period_us = 500 * MS
        swarm.latency_min_us, swarm.latency_max_us = 10 * MS, 40 * MS


def draw_late_replies(swarm: Swarm, rng: Rng) -> None:
    """Draw replies that come when their requests were given up, by an rng of its own.

    Logs diverge and snapshots are fetched in parts meanwhile: there it matters what a reply is to.
    Processes stay up, for a new one expects no reply.
    """
    if rng.in_ten_thousand(LATE_REPLIES) and not swarm.is_of_one_kind:
        for name in swarm.faults:
            setattr(swarm, name, 0)
        swarm.voters, swarm.observers = rng.pick((3, 3, 4, 5)), rng.pick((1, 2))
        swarm.late_reply = rng.pick((200, 800, 2_000))
        swarm.request_timeout_us = rng.pick((600 * MS, 1 * S, 2 * S))
        swarm.latency_min_us, swarm.latency_max_us = 5 * MS, rng.pick((10, 40)) * MS
        swarm.append_period_us, swarm.fetch_max_bytes = 100 * MS, rng.pick((1, 500, 1 << 20))
        swarm.fetch_snapshot_max_bytes = rng.pick((20, 60, 300))
        swarm.snapshot_period_us = rng.between(500 * MS, 3 * S)
        swarm.clean_period_us = rng.between(500 * MS, 3 * S)
        swarm.isolation_period_us = rng.between(2 * S, 8 * S)
        swarm.resign_period_us = rng.between(3 * S, 15 * S)


def draw_edge_snapshots(swarm: Swarm, rng: Rng) -> None:
    """Draw snapshots that end where a control record begins or ends, by an rng of its own.

    Their nodes restart soon after. Little else fails, but voters change all the time.
    """
    if rng.in_ten_thousand(EDGE_SNAPSHOTS) and not swarm.is_of_one_kind:
        for name in swarm.faults:
            setattr(swarm, name, 0)
        swarm.voters, swarm.joiners = rng.pick((2, 3, 3, 4)), rng.pick((1, 2))
        swarm.edge_snapshot_period_us = rng.between(300 * MS, 1 * S)
        swarm.reconfigure_period_us = rng.between(500 * MS, 2 * S)
        swarm.clean_period_us = rng.between(1 * S, 4 * S)
        swarm.append_period_us, swarm.records_max = 300 * MS, rng.pick((1, 3))
        swarm.latency_min_us, swarm.latency_max_us = 5 * MS, 20 * MS


def draw_silent_leaders(swarm: Swarm, rng: Rng) -> None:
    """Draw leaders that are silent until others are elected, by an rng of its own.

    Each node has one bootstrap server or two, which hardly ever lead: what goes wrong with the
    leader is not cured by asking somebody else. Half of these runs have snapshots that are slow to
    fetch, and that are deleted meanwhile. The voters stay as they are.
    """
    if rng.in_ten_thousand(SILENT_LEADERS) and not swarm.is_of_one_kind:
        for name in swarm.faults:
            setattr(swarm, name, 0)
        swarm.voters, swarm.observers, swarm.joiners = rng.pick((3, 3, 4, 5)), rng.pick((1, 2)), 0
        swarm.servers = rng.pick((1, 1, 2))
        swarm.silence_period_us = rng.between(4 * S, 12 * S)
        swarm.snapshot_period_us = rng.between(500 * MS, 3 * S)
        swarm.clean_period_us = rng.between(500 * MS, 3 * S)
        swarm.latency_min_us, swarm.latency_max_us = 5 * MS, rng.pick((10, 40)) * MS
        swarm.append_period_us, swarm.fetch_max_bytes = 100 * MS, rng.pick((500, 1 << 20))
        swarm.fetch_snapshot_max_bytes = rng.pick((5, 20, 300))
        swarm.isolation_period_us = rng.between(4 * S, 12 * S)
        if rng.below(2):
            swarm.latency_min_us, swarm.latency_max_us = 100 * MS, rng.pick((150, 200)) * MS
            swarm.append_period_us = 300 * MS
            swarm.fetch_snapshot_max_bytes = rng.pick((20, 50))
