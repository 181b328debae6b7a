"""A node of a harness process: what the simulator tells it, its starts, and its disk.

Its disk and its random numbers are the harness's. The simulator has a mirror of the log, made of
the events (`replica.HarnessReplica`), and compares it with what a start reads.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, NoReturn

from kraftspec.fastpath import crc32c
from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.records import CRC_AT, BatchHeader
from kraftspec.fastpath.walk import iterate_headers
from kraftspec.generated.control_records import ControlRecordType
from kraftspec.generated.kafka import DescribeQuorumRequest
from kraftspec.reference.host import PowerLostError
from kraftspec.reference.log.control import control_type_of
from kraftspec.reference.log.directory import METADATA_NAME
from kraftspec.reference.log.epochs import EpochEntry
from kraftspec.reference.log.snapshots import data_values, snapshot_name
from kraftspec.reference.raft import Config, SnapshotId
from kraftspec.reference.raft.control import ControlRecord, Voters
from kraftspec.reference.raft.types import BOOTSTRAP_SNAPSHOT, NEVER_US, Endpoints
from kraftspec.reference.raft.voters import VoterSet
from kraftspec.simulation.committed_log import Violation
from kraftspec.simulation.harness.process import Hosts
from kraftspec.simulation.harness.protocol import ENCODERS, Event
from kraftspec.simulation.harness.shown import CoreShown, election_of
from kraftspec.simulation.initial_quorum import PORT_BASE, endpoints_of
from kraftspec.simulation.log_model import LogModel
from kraftspec.simulation.replica import FULL, Replica, Surroundings
from kraftspec.simulation.rng import Rng

# `status` of a state event.
DOWN, UP, SHUT_DOWN, NO_POWER, FATAL, FAILED_DISK, FULL_DISK = range(7)
# `fault` of disk_fault.
HEALTHY, FAILS, IS_FULL, CUTS = range(4)
SEED_MASK = (1 << 47) - 1


# Properties of what a harness can only do with a capability.
_NEED = {
    "pre_vote": ("pre_vote_changes_nothing",),
    "dynamic_voters": (
        "one_voter_change", "change_was_asked_for", "answered_change_is_committed",
        "new_voter_is_caught_up", "reconfiguration_finishes", "voters_are_found",
    ),
    "snapshots": ("snapshot_is_prefix", "leader_loads_no_snapshot"),
}  # fmt: skip


class HarnessNode(Replica):
    """What `replica.HarnessReplica` is made on."""

    core: CoreShown
    unseen = frozenset({"corruption_is_detected", "fetched_whole", "requests_arrive_whole"})
    is_foreign = True

    def __init__(
        self,
        world: Surroundings,
        config: Config,
        first_files: Mapping[str, bytes] | None,
        process: Hosts,
        run: int,
    ) -> None:
        super().__init__(world, config)
        self.process = process
        self.run = run
        self.core = CoreShown(config.voters)
        self.api_max.update(dict.fromkeys(world.profile.apis, -1) | process.api_max)
        self.has_pre_votes = "pre_vote" in process.capabilities
        if "disk_faults" in process.capabilities:
            self.unseen -= {"corruption_is_detected"}
        for capability in _NEED.keys() - process.capabilities:
            self.unseen |= frozenset(_NEED[capability])
        if self.api_max.get(DescribeQuorumRequest.API_KEY, -1) < 0:
            self.unseen |= {"description_is_true"}
        self._batches: list[bytes] = []  # Beside `log_model`, whose ends are theirs.
        self._snapshots: dict[SnapshotId, bytes] = {}
        self._begun: list[Event] = []  # Of the start, after it was recovered.
        self._queued: list[bytes] = []  # Commands that go with the next.
        self._is_cutting = False
        self._is_spoilt = False
        self._durable_end = 0  # As it was when the node started.
        self._caps: dict[tuple[int, int], int] = {}  # (Peer, API key) → highest version it knows.
        self._queue(
            "define", config.directory_id, config.cluster_id, PORT_BASE, config.can_become_voter,
            config.auto_join and "auto_join" in process.capabilities,
            [voter.key.id for voter in config.voters],
            [node.port - PORT_BASE for node in config.bootstrap_servers],
            config.election_timeout_us, config.fetch_timeout_us, config.election_backoff_max_us,
            config.request_timeout_us, config.retry_backoff_us, config.append_linger_us,
            config.fetch_max_bytes, config.fetch_snapshot_max_bytes, config.retention_bytes,
        )  # fmt: skip
        name = f"{METADATA_NAME}/{snapshot_name(BOOTSTRAP_SNAPSHOT)}"
        content = (first_files or {}).get(name)
        if content is not None:
            self._queue("install", *BOOTSTRAP_SNAPSHOT, content)
            self._snapshots[BOOTSTRAP_SNAPSHOT] = content

    @property
    def endpoints(self) -> Endpoints:
        """Where its id says: a harness has no command that moves a node."""
        return endpoints_of(self.id)

    # ---- commands ------------------------------------------------------------------------------

    def _queue(self, command: str, *values: Any) -> None:
        """Let a command go before the next; nothing that it does is seen."""
        self._queued.append(ENCODERS[command](self.run, self.id, *values))

    def _do(self, command: str, *values: Any) -> list[Event]:
        """Send a command, after those that are queued; return its events."""
        commands = self._queued
        commands.append(ENCODERS[command](self.run, self.id, *values))
        self._queued = []
        return self.process.exchange(self.run, self.id, commands)[-1]

    # ---- incarnations --------------------------------------------------------------------------

    def recover(self, seed: int) -> LogModel:
        """Start the node; what it does at once waits for ``step``."""
        self._cap_versions()
        events = self._do("start", self.clock_us(), seed & SEED_MASK)
        if events[0][0] != "recovered":
            self._end(events[-1][1][0], events, "opens_its_disk")
        start, end, self._durable_end, crc, *election = events[0][1]
        self._begun = events[1:]
        self.will_reset = any(name == "reset" for name, _ in self._begun)
        log_model = self._log_as_read(start, end, crc & 0xFFFFFFFF)
        core = self.core
        self._forget_before(start)
        core.log.voters.truncate_from(end)
        core.shutdown_deadline_us = NEVER_US
        core.high_watermark = -1
        self.core_start = election_of(*election)
        core.epoch, core.leader_id = self.core_start.epoch, self.core_start.leader_id
        core.voted = self.core_start.voted
        for name, values in self._begun:
            if name == "voters":
                self._on_voters(*values)
        return log_model

    def _log_as_read(self, start: int, end: int, crc: int) -> LogModel:
        """Return the log as it was read: the mirror, cut to it, unless the bytes are others."""
        mirror = self.log_model
        if start == mirror.start_offset and end <= mirror.end_offset:
            kept = LogModel(start, mirror.start_chain, mirror.start_epoch)
            kept.append(b"".join(self._batches))
            kept.truncate_to(end)
            batches = self._batches[: len(kept.ends)]
            if kept.end_offset == end and crc32c(b"".join(batches)) == crc:
                self._batches = batches
                return kept
        log_model, self._batches = self._read(end)
        return log_model

    def read_log(self) -> LogModel:
        """Read the log from the disk of the harness."""
        return self._read(None)[0]

    def _read(self, end_offset: int | None) -> tuple[LogModel, list[bytes]]:
        """Read the log, up to an offset; return its batches, too."""
        for name, values in self._do("read"):
            if name == "log":
                start, data = values
                break
        else:
            raise ValueError(f"node {self.id} does not read its log")
        chain, epoch = 0, 0
        if start:
            snapshot = next(one for one in self._snapshots if one.end_offset == start)
            chain, epoch = self.snapshot_chain(snapshot), snapshot.epoch
        log_model = LogModel(start, chain, epoch)
        log_model.append(data)
        if end_offset is not None:
            log_model.truncate_to(end_offset)
        headers = list(iterate_headers(data))[: len(log_model.ends)]
        return log_model, [data[header.position : header.end] for header in headers]

    def _cap_versions(self) -> None:
        """Tell the harness which versions its peers have, where that is less than it has itself."""
        for peer in self.world.replicas.values():
            for api_key, newest in self.process.api_max.items():
                known = min(self.api_max[api_key], peer.api_max.get(api_key, newest))
                if known < self._caps.get((peer.id, api_key), newest):
                    self._caps[peer.id, api_key] = known
                    self._queue("cap", peer.id, api_key, known)

    @property
    def durable_at_start(self) -> int:
        """What the harness says."""
        return self._durable_end

    def stop(self) -> None:
        """Be down."""
        super().stop()
        if self._is_cutting:
            self._is_cutting = False
            self._queue("disk_fault", HEALTHY, 1)

    def kill(self) -> None:
        """End the process; the harness keeps what was written."""
        self._queue("kill")

    def cut_power(self, random: Random) -> Mapping[str, int]:
        """Choose what survives of what was not synced."""
        log_model = self.log_model
        first = next(
            (at for at, end in enumerate(log_model.ends) if end > self.durable_end),
            len(log_model.ends),
        )
        unsynced = self._batches[first:]
        kept = random.getrandbits(16) % (len(unsynced) + 1)
        torn = 0
        has_faults = "disk_faults" in self.process.capabilities
        if has_faults and kept < len(unsynced) and random.getrandbits(1):
            torn = random.getrandbits(16) % len(unsynced[kept])
        files = bool(random.getrandbits(1)) or not has_faults
        self._queue("power_loss", kept, torn, files)
        return {"lost write": int(kept < len(unsynced)), "torn write": int(torn > 0)}

    def lose_power_within(self, effects: int, seed: int) -> None:
        """Let the harness count effects."""
        super().lose_power_within(effects, seed)
        self._queue("power_after", effects)

    def lose_power_at(self, operations: int, seed: int) -> None:
        """Let the harness count operations of the disk, or effects where it cannot."""
        if "disk_faults" not in self.process.capabilities:
            self.lose_power_within(operations, seed)
            return
        self.power_seed = seed
        self._is_cutting = True
        self._queue("disk_fault", CUTS, operations)

    def spoil_disk(self, operations: int) -> None:
        """Let the harness fail an operation of the disk."""
        self._is_cutting = False
        self._is_spoilt = operations != 0
        if "disk_faults" in self.process.capabilities:
            fault = IS_FULL if operations == FULL else FAILS if operations else HEALTHY
            self._queue("disk_fault", fault, max(operations, 1))

    def corrupt(self, rng: Rng) -> bool:
        """Let the harness flip a bit of a synced batch, in the part of it that its CRC covers."""
        if "disk_faults" not in self.process.capabilities:
            return False
        synced = [
            batch
            for batch, end in zip(self._batches, self.log_model.ends, strict=True)
            if end <= self.durable_end
        ]
        if synced:
            batch = rng.pick(synced)
            base_offset = int.from_bytes(batch[:8], "big")
            mask = 1 << rng.below(8)
            at = rng.between(CRC_AT, len(batch) - 1)
            self._queue("rot", base_offset, at, mask - (mask >> 7 << 8))
        return bool(synced)

    def check_corruption_is_detected(self) -> None:
        """Start once, and look at what was read: Kafka's log is cut before what has changed."""
        events = self._do("start", self.clock_us(), 0)
        if events[0][0] == "recovered":
            start, end = events[0][1][:2]
            if start < self.durable_end <= end:
                text = f"node {self.id} opens a log whose bits flipped"
                raise Violation("corruption_is_detected", text)
        self._queue("kill")

    @property
    def is_disk_spoilt(self) -> bool:
        """Whether its disk has a fault that is not over."""
        return self._is_spoilt or self._is_cutting

    # ---- what is on its disk -------------------------------------------------------------------

    @property
    def log_bytes(self) -> int:
        """The size of the batches."""
        return sum(map(len, self._batches))

    @property
    def snapshots(self) -> Sequence[SnapshotId]:
        """The snapshots that it stored and did not delete."""
        return sorted(self._snapshots)

    @property
    def cached_epochs(self) -> Sequence[EpochEntry]:
        """None are shown."""
        return ()

    @property
    def stored_voters(self) -> VoterSet | None:
        """None are shown."""
        return None

    def values_in(self, snapshot: SnapshotId) -> Sequence[bytes]:
        """Read the data records of a snapshot."""
        return list(data_values(self._snapshots[snapshot]))

    def controls_in(self, snapshot: SnapshotId) -> Sequence[ControlRecord]:
        """Read the control records of a snapshot."""
        return [record for _, record in self._controls(self._snapshots[snapshot])]

    def _controls(self, data: bytes) -> Iterator[tuple[int, ControlRecord]]:
        for header in iterate_headers(data):
            if header.is_control:
                yield from self._controls_at(data, header)

    def _controls_at(self, data: bytes, header: BatchHeader) -> Iterator[tuple[int, ControlRecord]]:
        for record in decode_batch(data, header.position):
            control = self.profile.decode_control(control_type_of(record), record.value or b"")
            if control is not None:
                yield record.offset, control

    def _end(self, status: int, events: list[Event], name: str) -> NoReturn:
        """Say to the world why the node is down."""
        if status == NO_POWER:
            raise PowerLostError
        if status in (FAILED_DISK, FULL_DISK):
            code = errno.ENOSPC if status == FULL_DISK else errno.EIO
            raise OSError(code, "the simulated disk failed")
        texts = [values[0] for kind, values in events if kind == "fatal"]
        raise Violation(name, f"node {self.id}: {'; '.join(texts) or 'it is down'}")

    def _forget_before(self, offset: int) -> None:
        """Forget snapshots before the start of the log; a harness may delete them later."""
        for snapshot in [one for one in self._snapshots if one.end_offset < offset]:
            del self._snapshots[snapshot]

    def _on_voters(self, offset: int, value: bytes) -> None:
        voters = self.core.log.voters
        known = self.profile.decode_control(ControlRecordType.KRAFT_VOTERS, value)
        assert isinstance(known, Voters)
        self.has_new_voters = True
        voters.truncate_from(offset)
        if offset >= 0 or BOOTSTRAP_SNAPSHOT in self._snapshots or known.voters != voters.at(-2):
            voters.put(offset, known.voters)
