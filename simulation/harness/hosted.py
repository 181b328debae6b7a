"""The core of this project as a node harness: what another implementation would write.

It speaks the protocol from the other side: for lock-step in this process (`OwnProcess`), and as a
program, so that the simulator's side of the pipe can be tested without Java.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, BinaryIO

from kraftspec.fastpath import crc32c
from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.reference.host import NO_LIMIT, Host, PowerLostError
from kraftspec.reference.log import LogConfig, LogDirectory, MetaProperties
from kraftspec.reference.log.directory import METADATA_NAME
from kraftspec.reference.log.memory_files import MemoryFiles
from kraftspec.reference.log.quorum_state import NAME as QUORUM_STATE_NAME
from kraftspec.reference.log.quorum_state import render
from kraftspec.reference.log.segment import segment_name
from kraftspec.reference.log.snapshots import snapshot_name
from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.reference.raft import Config, ElectionState, ReplicaKey, RoleName, SnapshotId
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.control import Voters
from kraftspec.reference.raft.messages import Batch, Reply, Request
from kraftspec.reference.raft.transitions import FatalError
from kraftspec.reference.raft.types import NEVER_US, Endpoint, Node, Voter
from kraftspec.reference.raft.voters import VoterSet
from kraftspec.reference.storage import Storage
from kraftspec.simulation.harness.node import DOWN, FATAL, FULL_DISK, NO_POWER, SHUT_DOWN, UP
from kraftspec.simulation.harness.protocol import (
    SIZE,
    VERSION,
    Event,
    decode_commands,
    decode_events,
    encode_event,
)
from kraftspec.simulation.harness.shown import ROLES, election_of
from kraftspec.simulation.initial_quorum import LISTENER

DIRECTORY = "/log"
READ_BYTES = 1 << 26
MASK = (1 << 64) - 1
STEPS = 1000
RESTING_STARTS = 8  # Of so many one rests.
KINDS = (
    "Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch", "FetchSnapshot", "DescribeQuorum",
    "AddRaftVoter", "RemoveRaftVoter", "UpdateRaftVoter", "ApiVersions",
)  # fmt: skip


class HostedNode(Host):
    """A node: its disk, and while it is up its core. ``out`` is what a command led to."""

    def __init__(self, run: int, node_id: int, fields: Sequence[Any]) -> None:
        super().__init__()
        (
            directory, cluster_id, self.port_base, can_become_voter, auto_join, voters, servers,
            election_us, fetch_us, backoff_us, request_us, retry_us, linger_us, fetch_max,
            snapshot_max, retention,
        ) = fields  # fmt: skip
        self.run, self.id = run, node_id
        self.profile = KafkaProfile()
        self.now_us = 0
        self.out: list[bytes] = []
        self.status = DOWN
        self.config = Config(
            cluster_id=cluster_id, node_id=node_id, directory_id=Uuid(directory),
            endpoints=self._endpoints(node_id),
            voters=VoterSet(
                Voter(ReplicaKey(one, ZERO_UUID), self._endpoints(one)) for one in voters
            ),
            bootstrap_servers=tuple(
                Node(-2 - at, "localhost", self.port_base + one) for at, one in enumerate(servers)
            ),
            can_become_voter=can_become_voter, auto_join=auto_join,
            election_timeout_us=election_us, fetch_timeout_us=fetch_us,
            election_backoff_max_us=backoff_us, request_timeout_us=request_us,
            retry_backoff_us=retry_us, append_linger_us=linger_us, fetch_max_bytes=fetch_max,
            fetch_snapshot_max_bytes=snapshot_max, retention_bytes=retention,
        )  # fmt: skip
        self.first_files: dict[str, bytes] = {}
        self._format()
        self.requests: dict[int, tuple[Request, int]] = {}
        self.answering: dict[int, tuple[Request, int]] = {}
        self.caps: dict[tuple[int, int], int] = {}
        self.values: Sequence[bytes] = ()
        self.seen_voters: object = None
        self.seen_high_watermark = -1

    def _format(self) -> None:
        self.files = MemoryFiles()
        meta = MetaProperties(
            profile="kafka", cluster_id=self.config.cluster_id, node_id=self.id,
            directory_id=self.config.directory_id, id_property="node.id",
        )  # fmt: skip
        LogDirectory.format(DIRECTORY, meta, self.first_files, self.files)
        self.files.sync_directory("/")

    def _endpoints(self, node_id: int) -> tuple[Endpoint, ...]:
        return (Endpoint(LISTENER, "localhost", self.port_base + node_id),)

    def say(self, name: str, *values: Any) -> None:
        self.out.append(encode_event(name, self.run, self.id, *values))

    # ---- commands ------------------------------------------------------------------------------

    def obey(self, name: str, values: Sequence[Any]) -> bytes:
        self.out = []
        try:
            getattr(self, f"do_{name}")(*values)
        except PowerLostError:
            self.status = NO_POWER
        except FatalError as error:
            self.say("fatal", str(error))
            self.status = FATAL
        except OSError:
            self.status = FULL_DISK
        self._state()
        return b"".join(self.out)

    def do_install(self, end_offset: int, epoch: int, content: bytes) -> None:
        name = snapshot_name(SnapshotId(end_offset, epoch))
        self.first_files[f"{METADATA_NAME}/{name}"] = content
        self._format()

    def do_restore(self, log_start: int, data: bytes, *election: Any) -> None:
        if log_start or data:
            self.first_files[f"{METADATA_NAME}/{segment_name(log_start)}.log"] = data
        effect = fx.PersistElection(election_of(*election), 1, ())
        state = render(*self.profile.put_state(effect))
        self.first_files[f"{METADATA_NAME}/{QUORUM_STATE_NAME}"] = state
        self._format()

    def do_cap(self, peer: int, api_key: int, max_version: int) -> None:
        self.caps[peer, api_key] = max_version

    def do_start(self, now_us: int, seed: int) -> None:
        self.now_us = now_us
        self.begin_incarnation()
        self.requests.clear()
        self.answering.clear()
        self.seen_voters = None
        self.seen_high_watermark = -1
        self.storage = Storage.open(
            DIRECTORY, self.profile, self.config, files=self.files, log_config=LogConfig()
        )
        log = self.storage.log
        data = log.read(log.start_offset, READ_BYTES) if log.end_offset > log.start_offset else b""
        crc = crc32c(data)
        election = self.storage.election or ElectionState()
        self.say(
            "recovered", log.start_offset, log.end_offset, log.end_offset, crc - (crc >> 31 << 32),
            *_fields(election),
        )  # fmt: skip
        random: Any = TimedDraws(seed, self.clock_us) if seed < 0 else Random(seed)
        # In lock-step most starts ask again at once, as Kafka's node does: else little is compared.
        policy = self.profile.policy
        policy.rests_when_told_nothing = seed >= 0 or seed % RESTING_STARTS == 0
        policy.campaigns_when_removed = policy.abandons_rejected_snapshots = seed >= 0
        policy.seeks_when_unanswered = seed >= 0
        self.core = self.storage.make_core(self.config, random)
        self.status = UP
        self.step(ev.Start())

    def do_tick(self, now_us: int) -> None:
        self._at(now_us, ev.Tick())

    def do_request(self, now_us: int, token: int, api_key: int, version: int, body: bytes) -> None:
        request = self.profile.decode_request(api_key, version, body)
        self.answering[token] = (request, version)
        self._at(now_us, ev.RequestReceived(token, request))

    def do_reply(
        self, now_us: int, correlation: int, api_key: int, version: int, body: bytes
    ) -> None:
        request, _ = self.requests.pop(correlation)
        reply = self.profile.decode_reply(request, version, body)
        self._at(now_us, ev.ReplyReceived(correlation, reply))

    def do_fail(self, now_us: int, correlation: int, is_unsupported: bool) -> None:
        self.requests.pop(correlation, None)
        self._at(now_us, ev.RequestFailed(correlation, is_unsupported))

    def do_append(
        self, now_us: int, append_id: int, epoch: int, records: tuple[bytes, ...]
    ) -> None:
        self._at(now_us, ev.AppendRequested(append_id, epoch, records))

    def do_snapshot(
        self, now_us: int, end_offset: int, epoch: int, values: Sequence[bytes]
    ) -> None:
        self.values = values
        self._at(now_us, ev.SnapshotRequested(SnapshotId(end_offset, epoch)))

    def do_clean(self, now_us: int) -> None:
        self._at(now_us, ev.CleanRequested(self.storage.log.size_bytes))

    def do_resign(self, now_us: int, epoch: int) -> None:
        self._at(now_us, ev.ResignRequested(epoch))

    def do_shutdown(self, now_us: int, timeout_us: int) -> None:
        self._at(now_us, ev.ShutdownRequested(timeout_us))

    def do_upgrade(self, now_us: int, level: int, epoch: int) -> None:
        self._at(now_us, ev.UpgradeRequested(level, epoch, level))

    def do_power_after(self, effects: int) -> None:
        self.effects_left = effects

    def do_kill(self) -> None:
        self._down()
        self.files.kill()

    def do_power_loss(self, batches: int, torn_bytes: int, files: bool) -> None:
        self._down()
        self.files.power_loss(Random(batches << 20 | torn_bytes << 1 | files))

    def do_read(self) -> None:
        log = self.storage.log
        self.say("log", log.start_offset, log.read(log.start_offset, READ_BYTES))

    def _down(self) -> None:
        self.status = DOWN
        self.effects_left = NO_LIMIT

    # ---- a step --------------------------------------------------------------------------------

    def _at(self, now_us: int, event: ev.Event) -> None:
        self.now_us = now_us
        if self.status == UP:
            self.step(event)

    def step(self, event: ev.Event) -> None:
        effects = self.core.step(event, self.now_us)
        voters = (self.core.log.voters.last_offset, self.core.log.voters.last)
        if voters != self.seen_voters:
            self.seen_voters = voters
            _, value = self.profile.encode_control(Voters(voters[1]))
            self.say("voters", -1 if voters[0] is None else voters[0], value)
        assert self.carry_out(effects) is None
        self._say_high_watermark()
        while self.upcoming:
            self.step(self.upcoming.popleft())

    def _say_high_watermark(self) -> None:
        """Tell of it after what was appended, and before it is committed."""
        if self.core.high_watermark != self.seen_high_watermark:
            self.seen_high_watermark = self.core.high_watermark
            self.say("high_watermark", self.seen_high_watermark)

    def _state(self) -> None:
        if self.status != UP:
            self.say(
                "state", self.status, 0, -1, -1, -1, bytes(16), -1, 0, 0, 0, NEVER_US, False, 0
            )
            return
        core, log = self.core, self.storage.log
        state = ElectionState(core.epoch, core.leader_id, core.voted)
        self.say(
            "state", UP, ROLES.index(RoleName(core.role.name)), *_fields(state),
            core.high_watermark, log.start_offset, log.end_offset, core.log.flushed_offset,
            core.deadline_us, core.is_voter, core.log.kraft_versions.last,
        )  # fmt: skip

    # ---- effects -------------------------------------------------------------------------------

    def clock_us(self) -> int:
        return self.now_us

    def on_persist_election(self, effect: fx.PersistElection) -> None:
        super().on_persist_election(effect)
        stored = self.storage.election
        assert stored is not None
        self.say("persisted", *_fields(stored))

    def on_truncate_log(self, effect: fx.TruncateLog) -> None:
        super().on_truncate_log(effect)
        self.say("truncated", self.storage.log.end_offset)

    def on_reset_log(self, effect: fx.ResetLog) -> None:
        super().on_reset_log(effect)
        self.say("reset", *effect.snapshot_id)

    def on_append_records(self, effect: fx.AppendRecords) -> None:
        super().on_append_records(effect)
        self.say("appended", True, self.storage.log.read(effect.base_offset, 1))

    def on_append_control(self, effect: fx.AppendControl) -> None:
        super().on_append_control(effect)
        self.say("appended", True, self.storage.log.read(effect.base_offset, 1))

    def append_batches(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            super().append_batches((batch,))
            self.say("appended", False, batch.data)

    def sync(self) -> ev.LogFlushed:
        flushed = super().sync()
        self.say("flushed", flushed.end_offset)
        return flushed

    def snapshot_values(self, effect: fx.WriteSnapshot) -> Sequence[bytes]:
        return self.values

    def on_write_snapshot(self, effect: fx.WriteSnapshot) -> None:
        super().on_write_snapshot(effect)
        if self.upcoming:
            self._stored(effect.id, is_own=True)

    def finish_snapshot(self, snapshot_id: SnapshotId) -> None:
        super().finish_snapshot(snapshot_id)
        if self.upcoming:
            self._stored(snapshot_id, is_own=False)

    def _stored(self, snapshot_id: SnapshotId, *, is_own: bool) -> None:
        reader = self.storage.log.open_snapshot(snapshot_id)
        self.say("snapshot_stored", *snapshot_id, is_own, reader.read(0, reader.size))
        reader.close()

    def on_delete_before(self, effect: fx.DeleteBefore) -> None:
        super().on_delete_before(effect)
        self.say("start_moved", *effect.snapshot_id)

    def on_load_snapshot(self, effect: fx.LoadSnapshot) -> None:
        self.say("loaded", *effect.snapshot_id)

    def on_commit(self, effect: fx.Commit) -> None:
        self._say_high_watermark()
        self.say("committed", effect.high_watermark)

    def on_leader_changed(self, effect: fx.LeaderChanged) -> None:
        self.say("leader", effect.epoch, effect.leader_id)

    def on_shutdown_completed(self, effect: fx.ShutdownCompleted) -> None:
        self.status = SHUT_DOWN

    def on_upgrade_answered(self, effect: fx.UpgradeAnswered) -> None:
        self.say("upgraded", effect.upgrade_id, (effect.message or "") if effect.error else "")

    def on_appended(self, effect: fx.Appended) -> None:
        self.say("took", effect.append_id, effect.base_offset, effect.last_offset)

    def on_append_refused(self, effect: fx.AppendRefused) -> None:
        self.say("refused", effect.append_id, "")

    def on_ask(self, effect: fx.Ask) -> None:
        api = self.profile.api_of(effect.request)
        peer = effect.node.port - self.port_base
        version = self.caps.get((peer, api.key), api.max_version)
        if version < api.max_version and version < self.profile.min_version(effect.request):
            self.say("sent", effect.request_id, effect.node.port, api.key, -1, b"")
            return
        self.requests[effect.request_id] = (effect.request, version)
        body = self.profile.encode_request(effect.request, version)
        self.say("sent", effect.request_id, effect.node.port, api.key, version, body)

    def send_answer(self, token: int, reply: Reply) -> None:
        request, version = self.answering.pop(token)
        body = self.profile.encode_reply(request, reply, version, LISTENER)
        self.say("answered", token, body)


def _fields(state: ElectionState) -> tuple[int, int, int, bytes]:
    voted = state.voted
    if voted is None:
        return state.epoch, state.leader_id, -1, bytes(16)
    return state.epoch, state.leader_id, voted.id, bytes(voted.directory_id)


class TimedDraws:
    """Random numbers that depend on the time and not on how many were drawn before.

    Those of the class of this name in the harness of Kafka: a thousand steps below a bound.
    """

    def __init__(self, seed: int, clock_us: Callable[[], int]) -> None:
        self._seed = seed
        self._clock_us = clock_us

    def getrandbits(self, k: int) -> int:
        """Return bits of which a step of a bound follows, as `draw_below` does it."""
        mixed = self._seed + self._clock_us() // 1000 * 0x9E3779B97F4A7C15 & MASK
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & MASK
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & MASK
        step = (mixed ^ mixed >> 31) % STEPS
        return -(-(step << k) // STEPS)


class OwnProcess:
    """Nodes of this project behind the protocol, in this process: as `HarnessProcess` has them."""

    implementation = "kraftspec"
    release = ""
    is_closed = False

    def __init__(self) -> None:
        self.capabilities = frozenset(CAPABILITIES)
        self.api_max = dict(_versions())
        self._nodes: dict[tuple[int, int], HostedNode] = {}
        self._runs = 0

    def new_run(self) -> int:
        """Return the number of a run that nobody has."""
        self._runs += 1
        return self._runs

    def forget(self, run: int) -> None:
        """Drop a run."""
        self._nodes = {key: one for key, one in self._nodes.items() if key[0] != run}

    def exchange(self, run: int, node: int, commands: Sequence[bytes]) -> list[list[Event]]:
        """Carry out commands of one node; return the events of each."""
        answers = []
        for command in commands:
            ((_, _, (name, values)),) = decode_commands(command)
            data = self.obey(run, node, name, values)
            answers.append([event for _, _, event in decode_events(data)])
        return answers

    def obey(self, run: int, node: int, name: str, values: Sequence[Any]) -> bytes:
        """Carry out a command; return its events as bytes."""
        if name == "hello":
            versions = [number for one in self.api_max.items() for number in one]
            about = (self.implementation, self.release, versions, sorted(self.capabilities))
            return encode_event("welcome", 0, 0, VERSION, *about)
        if name == "forget":
            self.forget(run)
            return b""
        if name == "define":
            self._nodes[run, node] = HostedNode(run, node, values)
            return self._nodes[run, node].obey("kill", ())
        return self._nodes[run, node].obey(name, values)

    def cpu_seconds(self) -> float:
        """Return 0: what it takes is this process's."""
        return 0.0

    def close(self) -> None:
        """Drop all nodes."""
        self._nodes.clear()


def serve(source: BinaryIO, target: BinaryIO) -> None:
    """Answer frames until the input ends."""
    own = OwnProcess()
    while len(head := source.read(SIZE.size)) == SIZE.size:
        commands = decode_commands(source.read(*SIZE.unpack(head)))
        frame = b"".join(own.obey(run, node, *command) for run, node, command in commands)
        target.write(SIZE.pack(len(frame)) + frame)
        target.flush()


CAPABILITIES = ("pre_vote", "dynamic_voters", "snapshots", "upgrade", "auto_join", "lock_step")


def _versions() -> list[tuple[int, int]]:
    from kraftspec.generated import kafka  # noqa: PLC0415 - a thousand classes

    kinds = [getattr(kafka, f"{name}Request") for name in KINDS]
    return [(kind.API_KEY, kind.VALID_VERSIONS[-1]) for kind in kinds]


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
