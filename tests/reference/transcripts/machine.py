"""One node of a transcript: the real core, profile, log and disk image, and what each effect says.

The core is watched, not changed: ``WatchedCore`` only tells when a role was entered, and why.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from tests.reference.transcripts import words

from kraftspec.fastpath.errors import CodecError
from kraftspec.generated.kafka import SnapshotHeaderRecord
from kraftspec.reference.host import Host
from kraftspec.reference.log import LogConfig, LogDirectory, MetaProperties
from kraftspec.reference.log.control import control_value
from kraftspec.reference.log.directory import METADATA_NAME
from kraftspec.reference.log.memory_files import MemoryFiles
from kraftspec.reference.log.snapshots import checkpoint_bytes, snapshot_name
from kraftspec.reference.profiles import parts_of
from kraftspec.reference.profiles.kip_853 import profile as kip_853
from kraftspec.reference.profiles.kip_853.bootstrap import bootstrap_files
from kraftspec.reference.raft import Cause, Config, Core, ElectionState, FatalError
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.control import KRaftVersion, LeaderChange, Voters
from kraftspec.reference.raft.messages import Batch, Reply, Request
from kraftspec.reference.raft.types import (
    BOOTSTRAP_SNAPSHOT,
    NEVER_US,
    Endpoints,
    RoleName,
    SnapshotId,
)
from kraftspec.reference.raft.voters import VoterSet
from kraftspec.reference.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.reference.transcripts.cluster import Cluster

    from kraftspec.reference.raft.profile import Profile
    from kraftspec.reference.raft.role import Role

PATH = "/log"
LOG_CONFIG = LogConfig(zero_ahead_bytes=0)  # So that files hold what was appended, and no zeros.


class RoleEntered(fx.Effect, gc=False):
    """Not an effect of the core's: where among them a role was entered."""

    old: RoleName
    new: RoleName
    cause: str
    election: ElectionState


class WatchedCore(Core):
    """The core, which tells of each change of role where it happens."""

    __slots__ = ("cause",)

    cause: str

    def move(self, cause: Cause, **options: Any) -> None:
        self.cause = cause.value
        super().move(cause, **options)

    def enter(self, role: Role, election: ElectionState, endpoints: Endpoints, **how: bool) -> None:
        old = self.role.name
        super().enter(role, election, endpoints, **how)
        self.effects.append(RoleEntered(old, role.name, self.cause, election))


class Draws:
    """Random numbers that are all the same: ``fraction`` of the range, 0 to below 1."""

    def __init__(self, fraction: float) -> None:
        self.fraction = fraction

    def getrandbits(self, k: int, /) -> int:
        return int(self.fraction * (1 << k)) + (self.fraction > 0)  # 0.1 of a second is 100 ms.


class WorstLuck(Random):
    """Of what was not synced a power loss keeps nothing."""

    def getrandbits(self, k: int, /) -> int:
        return 0

    def random(self) -> float:
        return 0.0


class Message(msgspec.Struct):
    """Bytes on their way, with what they say. ``source`` and ``target`` 0 are nobody of ours."""

    source: int
    target: int
    is_reply: bool
    correlation: int
    incarnation: int
    api_key: int
    version: int
    body: bytes
    words: str


class Machine(Host):
    """A node with its disk: a `Host` that tells what it does."""

    HANDLERS: ClassVar = {**Host.HANDLERS, RoleEntered: "on_role_entered"}

    core: WatchedCore

    def __init__(self, cluster: Cluster, config: Config, profile: Profile, draw: float) -> None:
        super().__init__()
        self.cluster = cluster
        self.config = config
        self.profile = profile
        self.id = config.node_id
        self.draws = Draws(draw)
        self.files = MemoryFiles()
        self.generation = 0  # How often its disk was replaced.
        self.incarnation = 0
        self.is_up = False
        self.holds_flushes = False
        self.snapshot_data: list[bytes] = []
        self.sent_requests: dict[int, tuple[Request, int]] = {}
        self.answering: dict[int, tuple[Request, Message]] = {}
        self._token = 0

    # ---- the disk before an incarnation ---------------------------------------------------------

    def format(self, voters: VoterSet | None) -> None:
        """Format the disk; ``voters`` go into the bootstrap checkpoint, with kraft.version 1.

        In the draft of KIP-853 they are the first records of the log.
        """
        meta = MetaProperties(
            profile=self.profile.name,
            cluster_id=self.config.cluster_id,
            node_id=self.id,
            directory_id=self.config.directory_id,
            id_property=parts_of(self.profile.name).id_property,
        )
        checkpoints = {}
        if voters is not None and self.profile.name == kip_853.KipProfile.name:
            checkpoints = bootstrap_files(self.config.directory_id, list(voters))
        elif voters is not None:
            head = [
                control_value(SnapshotHeaderRecord()),
                self.profile.encode_control(KRaftVersion(1)),
                self.profile.encode_control(Voters(voters)),
            ]
            name = f"{METADATA_NAME}/{snapshot_name(BOOTSTRAP_SNAPSHOT)}"
            checkpoints[name] = checkpoint_bytes(head, (), timestamp_ms=0)
        LogDirectory.format(PATH, meta, checkpoints, self.files)
        self.files.sync_directory("/")

    def open(self) -> Storage:
        """Open the disk, as at a start."""
        return Storage.open(
            PATH, self.profile, self.config, files=self.files, log_config=LOG_CONFIG
        )

    def replace_disk(self) -> None:
        """Give it an empty disk, with a directory id of its own."""
        self.generation += 1
        directory_id = words.directory_of(self.id, self.generation)
        self.config = msgspec.structs.replace(self.config, directory_id=directory_id)
        self.files = MemoryFiles()
        self.format(None)

    def content(self, name: str) -> bytes:
        """Return the bytes of a file of the metadata log."""
        return self.files.content(f"{PATH}/{METADATA_NAME}/{name}")

    # ---- an incarnation -------------------------------------------------------------------------

    def start(self) -> None:
        """Recover, and let the core choose its first role."""
        self.incarnation += 1
        self.sent_requests.clear()
        self.answering.clear()
        self.begin_incarnation()
        self.storage = self.open()
        core = self.storage.make_core(self.config, self.draws, WatchedCore)
        assert isinstance(core, WatchedCore)
        self.core = core
        core.cause = "start"
        self.is_up = True
        self.step(ev.Start())

    def stop(self) -> None:
        """End the process, and leave the disk as after a clean stop."""
        self.storage.close()
        self.is_up = False

    def kill(self, power_loss: bool) -> None:
        """End the process; a power loss loses all that was not synced."""
        if power_loss:
            self.files.power_loss(WorstLuck())
        else:
            self.files.kill()
        self.is_up = False

    def step(self, event: ev.Event) -> None:
        """Let the core take an event, and the disk what follows from it."""
        try:
            effects = self.core.step(event, self.cluster.now_us)
        except FatalError as error:
            self.say(f"fatal: {error}")  # What this step ordered before is not done.
            self.kill(power_loss=False)
            return
        self.carry_out(effects)
        while self.upcoming and self.is_up:
            self.step(self.upcoming.popleft())

    def say(self, text: str, data: bytes = b"") -> None:
        """Tell what this node does."""
        self.cluster.say(f"{self.id} {text}", data)

    def receive(self, message: Message) -> None:
        """Take a request or a reply, as bytes."""
        if message.is_reply:
            sent = self.sent_requests.pop(message.correlation, None)
            if sent is None or message.incarnation != self.incarnation:
                self.say(f"ignores {message.words}")
                return
            request, version = sent
            reply = self.profile.decode_reply(request, version, message.body)
            self.step(ev.ReplyReceived(message.correlation, reply))
            return
        try:
            request = self.profile.decode_request(message.api_key, message.version, message.body)
        except CodecError as error:
            self.say(f"cannot read {message.words}: {error}")
            return
        self._token += 1
        self.answering[self._token] = (request, message)
        self.step(ev.RequestReceived(self._token, request))

    def finish_flush(self) -> None:
        """Let the disk be done with the sync that was held."""
        assert self.flush_wanted is not None, f"node {self.id} syncs nothing"
        self.step(self.sync())

    def summary(self) -> str:
        """Return what the node is and has, in a line."""
        if not self.is_up:
            return "down"
        core = self.core
        log = core.log
        voted = words.key_words(core.voted) if core.voted is not None else "none"
        parts = [
            f"{core.role.name} epoch={core.epoch} leader-id={core.leader_id} voted={voted}",
            f"high-watermark={core.high_watermark} log={log.start_offset}..{log.end_offset}",
            f"last-epoch={log.last_epoch} kraft.version={log.kraft_versions.last}",
            f"voters={words.voters_words(log.voters.last)}",
        ]
        parts += [f"snapshot={words.snapshot_words(id)}" for id in log.snapshots]
        for name in ("election", "fetch", "check_quorum"):
            deadline_us = getattr(core.role, f"{name}_deadline_us", NEVER_US)
            if deadline_us != NEVER_US:
                left = words.duration_words(deadline_us - self.cluster.now_us)
                parts.append(f"{name.replace('_', '-')}-timer={left}")
        return " ".join(parts)

    # ---- effects -------------------------------------------------------------------------------

    def clock_us(self) -> int:
        return self.cluster.now_us

    def begin_sync(self) -> None:
        if not self.holds_flushes:
            super().begin_sync()

    def snapshot_values(self, effect: fx.WriteSnapshot) -> list[bytes]:
        return self.snapshot_data

    def on_role_entered(self, effect: RoleEntered) -> None:
        state = effect.election
        voted = words.key_words(state.voted) if state.voted is not None else "none"
        self.say(
            f"role {effect.old} -> {effect.new} epoch={state.epoch} "
            f"leader-id={state.leader_id} voted={voted} ({effect.cause})"
        )

    def on_persist_election(self, effect: fx.PersistElection) -> None:
        super().on_persist_election(effect)
        state = effect.state
        voted = words.key_words(state.voted) if state.voted is not None else "none"
        self.say(f"persist epoch={state.epoch} leader-id={state.leader_id} voted={voted}")
        self.cluster.say(f"  {self.content('quorum-state').decode().strip()}")

    def on_cluster_id_learned(self, effect: fx.ClusterIdLearned) -> None:
        super().on_cluster_id_learned(effect)
        self.say("meta.properties")
        for line in self.files.content(f"{PATH}/meta.properties").decode().splitlines():
            self.cluster.say(f"  {line}")

    def on_truncate_log(self, effect: fx.TruncateLog) -> None:
        super().on_truncate_log(effect)
        self.say(f"truncate end-offset={effect.end_offset}")

    def on_reset_log(self, effect: fx.ResetLog) -> None:
        super().on_reset_log(effect)
        self.say(f"reset-log {words.snapshot_words(effect.snapshot_id)}")

    def on_append_records(self, effect: fx.AppendRecords) -> None:
        super().on_append_records(effect)
        last = effect.base_offset + len(effect.records) - 1
        values = ",".join(bytes(record).decode() for record in effect.records)
        self.say(
            f"append offsets={effect.base_offset}..{last} epoch={effect.epoch} records={values}",
            self.storage.log.read(effect.base_offset, 1),
        )

    def on_append_control(self, effect: fx.AppendControl) -> None:
        super().on_append_control(effect)
        last = effect.base_offset + len(effect.records) - 1
        records = " ".join(map(words.message_words, effect.records))
        self.say(
            f"append offsets={effect.base_offset}..{last} epoch={effect.epoch} {records}",
            self.storage.log.read(effect.base_offset, 1),
        )

    def append_batches(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            super().append_batches((batch,))
            records = "".join(f" {words.message_words(record)}" for _, record in batch.control)
            offsets = f"{batch.base_offset}..{batch.last_offset}"
            self.say(f"append offsets={offsets} epoch={batch.epoch}{records}", bytes(batch.data))

    def on_flush_log(self, effect: fx.FlushLog) -> None:
        action = "begins to flush" if self.holds_flushes else "flush"
        self.say(f"{action} end-offset={effect.end_offset}")
        super().on_flush_log(effect)

    def on_write_snapshot(self, effect: fx.WriteSnapshot) -> None:
        super().on_write_snapshot(effect)
        voters = f" voters={words.voters_words(effect.voters)}" if effect.voters else ""
        self.say(
            f"write-snapshot {words.snapshot_words(effect.id)} "
            f"kraft.version={effect.kraft_version}{voters}",
            self.content(snapshot_name(effect.id)),
        )

    def on_snapshot_refused(self, effect: fx.SnapshotRefused) -> None:
        self.say(f"snapshot-refused {words.snapshot_words(effect.id)} {effect.reason}")

    def on_begin_snapshot(self, effect: fx.BeginSnapshot) -> None:
        super().on_begin_snapshot(effect)
        self.say(f"begin-snapshot {words.snapshot_words(effect.id)}")

    def on_abandon_snapshot(self, effect: fx.AbandonSnapshot) -> None:
        super().on_abandon_snapshot(effect)
        self.say(f"abandon-snapshot {words.snapshot_words(effect.id)}")

    def on_extend_snapshot(self, effect: fx.ExtendSnapshot) -> None:
        super().on_extend_snapshot(effect)
        where = f"position={effect.position} size={len(effect.data)}"
        self.say(f"extend-snapshot {words.snapshot_words(effect.id)} {where}")

    def on_finish_snapshot(self, effect: fx.FinishSnapshot) -> None:
        super().on_finish_snapshot(effect)
        stored = self.upcoming[-1]
        if isinstance(stored, ev.SnapshotDamaged):
            self.say(f"snapshot-damaged {words.snapshot_words(effect.id)} {stored.reason}")
            return
        self.say(
            f"finish-snapshot {words.snapshot_words(effect.id)}",
            self.content(snapshot_name(effect.id)),
        )

    def on_load_snapshot(self, effect: fx.LoadSnapshot) -> None:
        values = self.storage.snapshot_values(SnapshotId(*effect.snapshot_id))
        records = ",".join(value.decode() for value in values) or "none"
        self.say(f"load-snapshot {words.snapshot_words(effect.snapshot_id)} records={records}")

    def on_delete_before(self, effect: fx.DeleteBefore) -> None:
        super().on_delete_before(effect)
        self.say(f"delete-before {words.snapshot_words(effect.snapshot_id)}")

    def on_commit(self, effect: fx.Commit) -> None:
        self.say(f"commit high-watermark={effect.high_watermark}")

    def on_leader_changed(self, effect: fx.LeaderChanged) -> None:
        self.say(f"leader-changed epoch={effect.epoch} leader-id={effect.leader_id}")

    def on_appended(self, effect: fx.Appended) -> None:
        offsets = f"{effect.base_offset}..{effect.last_offset}"
        self.say(f"appended epoch={effect.epoch} offsets={offsets}")

    def on_append_refused(self, effect: fx.AppendRefused) -> None:
        self.say(f"append-refused {_error(effect.error)}")

    def on_upgrade_answered(self, effect: fx.UpgradeAnswered) -> None:
        message = f" {effect.message}" if effect.message else ""
        self.say(f"upgrade-answered {_error(effect.error)}{message}")

    def on_shutdown_completed(self, effect: fx.ShutdownCompleted) -> None:
        self.say(f"shutdown-completed timed-out={str(effect.timed_out).lower()}")
        self.stop()

    def on_drop_connection(self, effect: fx.DropConnection) -> None:
        self.say(f"drop-connection {effect.node.id}")

    def on_ask(self, effect: fx.Ask) -> None:
        request = effect.request
        target = effect.node.port - words.PORT_BASE
        api = self.profile.api_of(request)
        version = min(api.max_version, self.cluster.api_max.get((target, api.name), 99))
        if version < self.profile.min_version(request):
            self.say(f"cannot ask {target} {words.message_words(request)} (it serves v{version})")
            self.upcoming.append(ev.RequestFailed(effect.request_id, unsupported=True))
            return
        body = self.profile.encode_request(request, version)
        text = words.message_words(self.profile.decode_request(api.key, version, body))
        self.sent_requests[effect.request_id] = (request, version)
        self.cluster.send(
            Message(
                self.id,
                target,
                False,
                effect.request_id,
                self.incarnation,
                api.key,
                version,
                body,
                text,
            )
        )

    def send_answer(self, token: int, reply: Reply) -> None:
        request, message = self.answering.pop(token)
        self.cluster.send(self.answer_to(message, request, reply))

    def answer_to(self, message: Message, request: Request, reply: Reply) -> Message:
        """Return the bytes of an answer, and its text."""
        body = self.profile.encode_reply(request, reply, message.version, words.LISTENER)
        decoded = self.profile.decode_reply(request, message.version, body)
        text = words.message_words(decoded)
        if decoded.top_error != reply.top_error:
            api = self.profile.apis[message.api_key]
            text = words.json_words(self.profile, decoded, api.name, message.version, body)
        return Message(
            self.id, message.source, True, message.correlation, message.incarnation,
            message.api_key, message.version, body, text,
        )  # fmt: skip

    # ---- records for a disk that is prepared ---------------------------------------------------

    def prepare(self, storage: Storage, batch: str) -> None:
        """Append ``2:a,b``, ``2:leader-1``, ``2:version-1`` or ``2:voters-1/d1,2/d2``.

        Of the draft of KIP-853: ``2:added-3/d3``, ``2:removed-3/d3``.
        """
        epoch, _, what = batch.partition(":")
        record = self.control(what)
        if record is None:
            values = [text.encode() for text in what.split(",")]
            storage.log.append_records(int(epoch), values, 0)
            return
        storage.log.append_control(int(epoch), [self.profile.encode_control(record)], 0)

    def checkpoint(self, text: str) -> bytes:
        """Return a snapshot of ``added-3/d3,removed-3/d3:a,b``: control records, and values."""
        controls, _, values = text.partition(":")
        head = [control_value(SnapshotHeaderRecord())]
        for what in controls.split(","):
            record = self.control(what)
            assert record is not None, f"{what} is no control record"
            head.append(self.profile.encode_control(record))
        return checkpoint_bytes(head, [one.encode() for one in values.split(",")], timestamp_ms=0)

    def control(self, what: str) -> Any:
        """Return the control record that ``leader-1`` and its like say; None: it is none."""
        kind, _, value = what.partition("-")
        if kind == "leader" and self.profile.name == kip_853.KipProfile.name:
            return kip_853.LeaderChange(int(value))
        if kind == "added":
            (voter,) = words.read_voters(value)
            return kip_853.VoterAdded(voter)
        if kind == "removed":
            return kip_853.VoterRemoved(words.read_key(value))
        if kind == "leader":
            ids = self.config.voters.ids
            return LeaderChange(int(value), ids, ids)
        if kind == "version":
            return KRaftVersion(int(value))
        if kind == "voters":
            is_595 = self.profile.name == "kip-595"
            read = words.read_assignment if is_595 else words.read_voters
            return Voters(read(value))
        return None


def _error(error: int) -> str:
    return f"error={error} {words.error_name(error)}"
