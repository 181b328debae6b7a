"""What `reference.recovery` says of the disks of a run, held against what the run knows.

A run is stopped at moments that its seed draws. Its disks are judged as they are then, and what is
called committed, or not, is compared with what the nodes know. At the last moment all nodes go
down, some with their power. Some of the disks are judged; their nodes start, and nobody disturbs
them. Then somebody is elected who was called electable, or nobody; and the leader has all that was
called committed::

    python -m kraftspec.simulation.offline 0..9999
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Final

from kraftspec.fastpath import crc32c
from kraftspec.reference.log.directory import METADATA_NAME
from kraftspec.reference.log.files import ReadableFiles, read_whole
from kraftspec.reference.log.memory_files import MemoryFile, MemoryFiles
from kraftspec.reference.log.snapshots import data_values
from kraftspec.reference.profiles import KAFKA, profile_named
from kraftspec.reference.profiles.kafka.profile import AS_KAFKA
from kraftspec.reference.recovery import Directory, Judgement, Severity, judge, read_directory
from kraftspec.reference.recovery.walker import batches_from
from kraftspec.simulation.committed_log import Violation
from kraftspec.simulation.faults import is_found
from kraftspec.simulation.log_model import SNAPSHOT_STATE
from kraftspec.simulation.own import DIRECTORY, OwnReplica
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.rng import Rng
from kraftspec.simulation.run import swarm_of
from kraftspec.simulation.schedule import Schedule
from kraftspec.simulation.swarm import S
from kraftspec.simulation.world import World

EVENTS_MAX: Final = 4_000
LOOKS: Final = 3
CHUNK: Final = 50  # Events between two looks at what is committed.
ELECTED_WITHIN_US: Final = 120 * S
NOBODY_WITHIN_US: Final = 30 * S
# What the simulator's own faults leave: a bit that was flipped, a disk that was replaced.
EXPECTED: Final = {"damaged-log", "directory-id-differs", "checkpoint-damaged", "nobody-electable"}


class Disks:
    """The disks of all nodes as one file system: ``/NODE`` is the root of a node's."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.rotten: set[int] = set()  # Nodes of whose disks bits were flipped.

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        """Open a file."""
        files, rest = self._find(path)
        return files.open(rest, create=create)

    def names(self, directory: str) -> list[str]:
        """List a directory."""
        files, rest = self._find(directory)
        return list(files.names(rest))

    def _find(self, path: str) -> tuple[MemoryFiles, str]:
        node, _, rest = path.removeprefix("/").partition("/")
        return self.files_of(node), f"/{rest}"

    def files_of(self, node: str) -> MemoryFiles:
        """Return the disk that a path begins with the name of."""
        return self._own(int(node)).files

    def _own(self, node_id: int) -> OwnReplica:
        replica = self._world.replicas[node_id]
        assert isinstance(replica, OwnReplica)
        return replica

    def look_torn(self, judgement: Judgement) -> bool:
        """Whether a bit was flipped in the size of a last batch: that looks like a torn tail."""
        return any(
            one.log.tail is not None and one.log.tail.torn_bytes and one.node_id in self.rotten
            for one in judgement.directories
        )

    def read(self, node_ids: list[int]) -> Judgement:
        """Judge the disks of some nodes; faults that count a disk's operations do not see it."""
        replicas = [self._own(node_id) for node_id in node_ids]
        hooks = [replica.files.hook for replica in replicas]
        try:
            for replica in replicas:
                replica.files.hook = None
            read = [read_directory(f"/{node_id}{DIRECTORY}", self) for node_id in node_ids]
            return judge(read, self, is_still=True)
        finally:
            for replica, hook in zip(replicas, hooks, strict=True):
                replica.files.hook = hook


class Truth:
    """What the nodes know to be committed: the chain at each offset where a batch ends."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.chains: dict[int, int] = {0: 0}
        self.end_offset = 0

    def look(self) -> None:
        """Take note of what was committed since the last look."""
        for replica in self._world.running():
            log_model = replica.log_model
            at = log_model.index_of(replica.high_watermark)
            while at >= 0 and log_model.ends[at] not in self.chains:
                self.chains[log_model.ends[at]] = log_model.chains[at]
                at -= 1
            self.end_offset = max(self.end_offset, replica.high_watermark)

    def run(self, schedule: Schedule, stop: int) -> None:
        """Let a run go on until there were so many events, and look now and then."""
        while self._world.events < stop:
            before = self._world.events
            schedule.run(min(stop, before + CHUNK))
            self.look()
            if self._world.events == before:
                break


def check(seed: int) -> Counter[str]:
    """Run a seed; raise Violation where a claim is wrong. Return what was compared, counted."""
    profile = profile_named(KAFKA, without=AS_KAFKA)
    schedule = Schedule(seed, swarm_of(seed, profile), profile)
    world = schedule.world
    rng = Rng(seed ^ 0x0FF11)
    truth, disks, done = Truth(world), Disks(world), Counter[str]()
    for stop in sorted(rng.between(100, EVENTS_MAX - 1) for _ in range(LOOKS)):
        truth.run(schedule, stop)
        truth.end_offset = max(truth.end_offset, world.committed_log.high_watermark)
        judgement = disks.read(sorted(world.replicas))
        disks.rotten = {*schedule.corrupted}
        _compare(judgement, truth, disks, done, is_at_rest=False)
    _elect(schedule, rng, truth, disks, done)
    return done


def _compare(
    judgement: Judgement, truth: Truth, disks: Disks, done: Counter[str], *, is_at_rest: bool
) -> dict[int, int]:
    """Hold a judgement against the truth; return the chains of what it says will be committed."""
    promised = {}
    for proof in judgement.proofs:
        directory = judgement.directories[proof.number]
        chain = chain_of(directory, disks, proof.end_offset)
        if chain is None:
            continue
        known = truth.chains.get(proof.end_offset)
        if known is not None and known != chain:
            raise Violation("certainly_committed", f"{proof}: other bytes were committed")
        if known is None and proof.end_offset > truth.end_offset:
            if proof.kind not in ("majority", "all-electable"):
                raise Violation("certainly_committed", f"{proof}: it is not, {truth.end_offset} is")
            promised[proof.end_offset] = chain
        done[f"certainly committed, by {proof.kind}"] += 1
    if judgement.perhaps_end is not None and not disks.look_torn(judgement):
        done["committed at most"] += 1
        if judgement.perhaps_end < truth.end_offset:
            text = f"at most {judgement.perhaps_end}, and {truth.end_offset} is"
            raise Violation("perhaps_committed", text)
    for verdict in judgement.verdicts:
        done[f"{verdict.severity} {verdict.code}"] += 1
        if verdict.severity is Severity.ERROR and verdict.code not in EXPECTED:
            raise Violation("no_false_alarm", f"{verdict.code}: {verdict.text}")
    return promised


def chain_of(directory: Directory, disks: ReadableFiles, end_offset: int) -> int | None:
    """Return the chain at an offset of the log on a disk; None where the disk does not say."""
    log = directory.log
    start, chain = log.start_offset, 0
    if start > 0:
        id_ = next((one for one in directory.checkpoints if one.id.end_offset == start), None)
        if id_ is None or end_offset < start:
            return None
        path = f"{directory.path}/{METADATA_NAME}/{id_.name}"
        for value in data_values(read_whole(disks, path)):
            chain = SNAPSHOT_STATE.unpack(value)[1]
    for header, window in batches_from(directory, disks, start, end_offset):
        chain = crc32c(window[header.position : header.end], chain)
    return chain


def all_down(schedule: Schedule, rng: Rng) -> None:
    """End the faults, and let all nodes go down, maybe with their power."""
    world = schedule.world
    schedule.faults.stop()
    schedule.operator.period_us = 0
    has_power_loss = rng.pick((True, False))
    for replica in list(world.running()):
        world.crash(replica, rng.bits(32) if has_power_loss else None)


def first_leader(schedule: Schedule, within_us: int) -> Replica | None:
    """Go on until somebody leads; None: nobody does in that time."""
    world = schedule.world
    limit_us = world.now_us + within_us
    while world.leader() is None and world.now_us < limit_us:
        schedule.run(world.events + 1, limit_us)
    return world.leader()


def _elect(schedule: Schedule, rng: Rng, truth: Truth, disks: Disks, done: Counter[str]) -> None:
    """Let all nodes go down, start some, and see who is elected."""
    world = schedule.world
    all_down(schedule, rng)
    schedule.take_over(world, {})
    healthy = [one for one in sorted(world.replicas) if one not in schedule.corrupted]
    count = rng.pick((rng.between(1, len(healthy)), len(healthy)))
    chosen = sorted(sorted(healthy, key=lambda _: rng.bits(32))[:count])
    judgement = disks.read(chosen)
    disks.rotten = set()  # Those are not among them.
    promised = _compare(judgement, truth, disks, done, is_at_rest=True)
    epoch = max(one.epoch for one in judgement.directories)
    for node_id in chosen:
        world.start(world.replicas[node_id], rng.bits(32))
    electable = {one.key.id for one in judgement.candidates if one.is_electable}
    leader = first_leader(schedule, ELECTED_WITHIN_US if electable else NOBODY_WITHIN_US)
    if leader is None:
        if electable and _any_has_moved(world, chosen):
            done["electable, and not where the log says"] += 1
            return
        if electable:
            raise Violation("electable", f"{electable} of {chosen}: nobody was elected")
        done["nobody electable, and nobody elected"] += 1
        return
    if leader.id not in electable:
        raise Violation("electable", f"{leader.id} was elected, {electable} of {chosen} could be")
    done["electable, and elected"] += 1
    log_model = leader.log_model
    for offset, chain in {**truth.chains, **promised}.items():
        has = log_model.chain_at(offset)
        if offset > log_model.end_offset or (has is not None and has != chain):
            raise Violation("certainly_committed", f"leader {leader.id} lacks {offset}")
    assert leader.epoch >= epoch


def _any_has_moved(world: World, chosen: list[int]) -> bool:
    """Whether a node listens elsewhere than another one knows: no disk tells that."""
    return any(
        voter.key.id in chosen and not is_found(world, voter)
        for node_id in chosen
        for voter in world.replicas[node_id].core.log.voters.last
    )


def run_seeds(check: Callable[[int], Counter[str]]) -> int:
    """Check the seeds ``A..B`` of the command line; the exit code is 1 where one was wrong."""
    first, _, last = sys.argv[1].partition("..")
    total, wrong = Counter[str](), 0
    for seed in range(int(first), int(last or first) + 1):
        try:
            total += check(seed)
        except Violation as error:
            wrong += 1
            print(f"seed {seed}: {error}", flush=True)
        if seed % 100 == 99:  # noqa: PLR2004 - how often to say so.
            print(f"seed {seed}: {wrong} wrong so far", flush=True)
    for what, count in sorted(total.items()):
        print(f"{count:9,} {what}")
    print(f"{wrong} seeds were wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(run_seeds(check))
