"""One node of a transcript: the real core, profile, log and disk image, and what each effect says.

The core is watched, not changed: ``WatchedCore`` only tells when a role was entered, and why.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
from tests.reference.transcripts import words

from kraftspec.conformance.simulation.disk import MemoryFiles
from kraftspec.fastpath.errors import CodecError
from kraftspec.generated.kafka import SnapshotHeaderRecord
from kraftspec.reference.log import LogConfig, LogDirectory, MetaProperties
from kraftspec.reference.log.control import control_value
from kraftspec.reference.log.directory import METADATA_NAME
from kraftspec.reference.log.snapshots import checkpoint_bytes, snapshot_name
from kraftspec.reference.profiles import kip_853
from kraftspec.reference.profiles.kip_853.bootstrap import bootstrap_files
from kraftspec.reference.raft import Cause, Config, Core, ElectionState, FatalError
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.control import KRaftVersion, LeaderChange, Voters
from kraftspec.reference.raft.messages import Reply, Request
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

    def move(self, cause: Cause, **how: Any) -> None:
        self.cause = cause.value
        super().move(cause, **how)

    def enter(
        self, role: Role, election: ElectionState, endpoints: Endpoints, *, persist: bool = True
    ) -> None:
        old = self.role.name
        super().enter(role, election, endpoints, persist=persist)
        self.effects.append(RoleEntered(old, role.name, self.cause, election))


class Draws:
    """Random numbers that are all the same: ``fraction`` of the range, 0 to below 1."""

    def __init__(self, fraction: float) -> None:
        self.fraction = fraction

    def getrandbits(self, k: int, /) -> int:
        return int(self.fraction * (1 << k)) + (self.fraction > 0)  # 0.1 of a second is 100 ms.


class WorstLuck(Random):
    """Of what was not synced a power cut keeps nothing."""

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
    life: int
    api_key: int
    version: int
    body: bytes
    words: str


class Machine:
    """A node with its disk."""

    def __init__(self, cluster: Cluster, config: Config, profile: Profile, draw: float) -> None:
        self.cluster = cluster
        self.config = config
        self.profile = profile
        self.id = config.node_id
        self.draws = Draws(draw)
        self.files = MemoryFiles()
        self.generation = 0  # How often its disk was replaced.
        self.life = 0
        self.is_up = False
        self.holds_flushes = False
        self.held: fx.FlushLog | None = None
        self.snapshot_values: list[bytes] = []
        self.core: WatchedCore
        self.storage: Storage
        self.asked: dict[int, tuple[Request, int]] = {}
        self.answering: dict[int, tuple[Request, Message]] = {}
        self._token = 0
        self._after: list[ev.Event] = []
        self._carry: dict[type[fx.Effect], Callable[[Any], None]] = {
            RoleEntered: self._role_entered,
            fx.PersistElection: self._persist,
            fx.TruncateLog: self._truncate,
            fx.ResetLog: self._reset,
            fx.AppendRecords: self._append_records,
            fx.AppendControl: self._append_control,
            fx.AppendBatches: self._append_batches,
            fx.FlushLog: self._flush,
            fx.WriteSnapshot: self._write_snapshot,
            fx.SnapshotRefused: lambda e: self.say(
                f"snapshot-refused {words.snapshot_words(e.id)} {e.reason}"
            ),
            fx.BeginSnapshot: lambda e: self._stored(e, "begin-snapshot"),
            fx.ExtendSnapshot: self._extend_snapshot,
            fx.FinishSnapshot: self._finish_snapshot,
            fx.AbandonSnapshot: lambda e: self._stored(e, "abandon-snapshot"),
            fx.DeleteBefore: self._delete_before,
            fx.Ask: self._ask,
            fx.Answer: self._answer,
            fx.ClusterIdLearned: self._name_cluster,
            fx.DropConnection: lambda e: self.say(f"drop-connection {e.node.id}"),
            fx.LoadSnapshot: self._load_snapshot,
            fx.Commit: lambda e: self.say(f"commit high-watermark={e.high_watermark}"),
            fx.LeaderChanged: lambda e: self.say(
                f"leader-changed epoch={e.epoch} leader-id={e.leader_id}"
            ),
            fx.Appended: lambda e: self.say(
                f"appended epoch={e.epoch} offsets={e.base_offset}..{e.last_offset}"
            ),
            fx.AppendRefused: lambda e: self.say(f"append-refused {_error(e.error)}"),
            fx.UpgradeAnswered: self._upgrade_answered,
            fx.ShutdownCompleted: self._shut_down,
        }

    # ---- the disk before a life ----------------------------------------------------------------

    def format(self, voters: VoterSet | None) -> None:
        """Format the disk; ``voters`` go into the bootstrap checkpoint, with kraft.version 1.

        In the draft of KIP-853 they are the first records of the log.
        """
        meta = MetaProperties(
            profile=self.profile.name,
            cluster_id=self.config.cluster_id,
            node_id=self.id,
            directory_id=self.config.directory_id,
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

    # ---- a life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Recover, and let the core choose its first role."""
        self.life += 1
        self.asked.clear()
        self.answering.clear()
        self.held = None
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

    def kill(self, power_cut: bool) -> None:
        """End the process; a power cut loses all that was not synced."""
        if power_cut:
            self.files.power_cut(WorstLuck())
        else:
            self.files.kill()
        self.is_up = False

    def step(self, event: ev.Event) -> None:
        """Let the core take an event, and the disk what follows from it."""
        try:
            effects = self.core.step(event, self.cluster.now_us)
        except FatalError as error:
            self.say(f"fatal: {error}")  # What this step ordered before is not done.
            self.kill(power_cut=False)
            return
        for effect in effects:
            self._carry[type(effect)](effect)
            if not self.is_up:
                return
        while self._after and self.is_up:
            self.step(self._after.pop(0))

    def say(self, text: str, data: bytes = b"") -> None:
        """Tell what this node does."""
        self.cluster.say(f"{self.id} {text}", data)

    def receive(self, message: Message) -> None:
        """Take a request or a reply, as bytes."""
        if message.is_reply:
            asked = self.asked.pop(message.correlation, None)
            if asked is None or message.life != self.life:
                self.say(f"ignores {message.words}")
                return
            request, version = asked
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
        assert self.held is not None, f"node {self.id} syncs nothing"
        effect, self.held = self.held, None
        self.step(self.storage.flush(effect))

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

    def _role_entered(self, effect: RoleEntered) -> None:
        state = effect.election
        voted = words.key_words(state.voted) if state.voted is not None else "none"
        self.say(
            f"role {effect.old} -> {effect.new} epoch={state.epoch} "
            f"leader-id={state.leader_id} voted={voted} ({effect.cause})"
        )

    def _persist(self, effect: fx.PersistElection) -> None:
        self.storage.persist_election(effect)
        state = effect.state
        voted = words.key_words(state.voted) if state.voted is not None else "none"
        self.say(f"persist epoch={state.epoch} leader-id={state.leader_id} voted={voted}")
        self.cluster.say(f"  {self.content('quorum-state').decode().strip()}")

    def _name_cluster(self, effect: fx.ClusterIdLearned) -> None:
        self.storage.carry_out(effect)
        self.say("meta.properties")
        for line in self.files.content(f"{PATH}/meta.properties").decode().splitlines():
            self.cluster.say(f"  {line}")

    def _truncate(self, effect: fx.TruncateLog) -> None:
        self.storage.truncate(effect.end_offset)
        self.say(f"truncate end-offset={effect.end_offset}")

    def _reset(self, effect: fx.ResetLog) -> None:
        self.storage.reset(effect.snapshot_id)
        self.say(f"reset-log {words.snapshot_words(effect.snapshot_id)}")

    def _append_records(self, effect: fx.AppendRecords) -> None:
        self.storage.append_records(effect)
        last = effect.base_offset + len(effect.records) - 1
        values = ",".join(bytes(record).decode() for record in effect.records)
        self.say(
            f"append offsets={effect.base_offset}..{last} epoch={effect.epoch} records={values}",
            self.storage.log.read(effect.base_offset, 1),
        )

    def _append_control(self, effect: fx.AppendControl) -> None:
        self.storage.append_control(effect)
        last = effect.base_offset + len(effect.records) - 1
        records = " ".join(map(words.message_words, effect.records))
        self.say(
            f"append offsets={effect.base_offset}..{last} epoch={effect.epoch} {records}",
            self.storage.log.read(effect.base_offset, 1),
        )

    def _append_batches(self, effect: fx.AppendBatches) -> None:
        for batch in effect.batches:
            self.storage.append_batch(batch)
            records = "".join(f" {words.message_words(record)}" for _, record in batch.control)
            offsets = f"{batch.base_offset}..{batch.last_offset}"
            self.say(f"append offsets={offsets} epoch={batch.epoch}{records}", bytes(batch.data))

    def _flush(self, effect: fx.FlushLog) -> None:
        if self.holds_flushes:
            self.held = effect
            self.say(f"begins to flush end-offset={effect.end_offset}")
            return
        self.say(f"flush end-offset={effect.end_offset}")
        self._after.append(self.storage.flush(effect))

    def _write_snapshot(self, effect: fx.WriteSnapshot) -> None:
        stored = self.storage.write_snapshot(
            effect, self.snapshot_values, self.cluster.now_us // 1000
        )
        assert stored is not None
        voters = f" voters={words.voters_words(effect.voters)}" if effect.voters else ""
        self.say(
            f"write-snapshot {words.snapshot_words(effect.id)} "
            f"kraft.version={effect.kraft_version}{voters}",
            self.content(snapshot_name(effect.id)),
        )
        self._after.append(stored)

    def _stored(self, effect: fx.BeginSnapshot | fx.AbandonSnapshot, what: str) -> None:
        self.storage.carry_out(effect)
        self.say(f"{what} {words.snapshot_words(effect.id)}")

    def _extend_snapshot(self, effect: fx.ExtendSnapshot) -> None:
        self.storage.carry_out(effect)
        where = f"position={effect.position} size={len(effect.data)}"
        self.say(f"extend-snapshot {words.snapshot_words(effect.id)} {where}")

    def _finish_snapshot(self, effect: fx.FinishSnapshot) -> None:
        stored = self.storage.finish_snapshot(effect.id)
        assert stored is not None
        if isinstance(stored, ev.SnapshotDamaged):
            self.say(f"snapshot-damaged {words.snapshot_words(effect.id)} {stored.reason}")
            self._after.append(stored)
            return
        self.say(
            f"finish-snapshot {words.snapshot_words(effect.id)}",
            self.content(snapshot_name(effect.id)),
        )
        self._after.append(stored)

    def _load_snapshot(self, effect: fx.LoadSnapshot) -> None:
        values = self.storage.snapshot_values(SnapshotId(*effect.snapshot_id))
        records = ",".join(value.decode() for value in values) or "none"
        self.say(f"load-snapshot {words.snapshot_words(effect.snapshot_id)} records={records}")

    def _delete_before(self, effect: fx.DeleteBefore) -> None:
        self.storage.delete_before(effect.snapshot_id)
        self.say(f"delete-before {words.snapshot_words(effect.snapshot_id)}")

    def _ask(self, effect: fx.Ask) -> None:
        request = effect.request
        target = effect.node.port - words.PORT_BASE
        api = self.profile.api_of(request)
        version = min(api.max_version, self.cluster.api_max.get((target, api.name), 99))
        if version < self.profile.min_version(request):
            self.say(f"cannot ask {target} {words.message_words(request)} (it serves v{version})")
            self._after.append(ev.RequestFailed(effect.request_id, unsupported=True))
            return
        body = self.profile.encode_request(request, version)
        said = words.message_words(self.profile.decode_request(api.key, version, body))
        self.asked[effect.request_id] = (request, version)
        self.cluster.send(
            Message(
                self.id, target, False, effect.request_id, self.life, api.key, version, body, said
            )
        )

    def _answer(self, effect: fx.Answer) -> None:
        request, asked = self.answering.pop(effect.token)
        self.storage.fill(effect.reply)
        self.cluster.send(self.answer_to(asked, request, effect.reply))

    def answer_to(self, asked: Message, request: Request, reply: Reply) -> Message:
        """Return the bytes of an answer, and what they say to whom asked."""
        body = self.profile.encode_reply(request, reply, asked.version, words.LISTENER)
        heard = self.profile.decode_reply(request, asked.version, body)
        said = words.message_words(heard)
        if heard.top_error != reply.top_error:
            api = self.profile.apis[asked.api_key]
            said = words.json_words(self.profile, heard, api.name, asked.version, body)
        return Message(
            self.id, asked.source, True, asked.correlation, asked.life,
            asked.api_key, asked.version, body, said,
        )  # fmt: skip

    def _upgrade_answered(self, effect: fx.UpgradeAnswered) -> None:
        message = f" {effect.message}" if effect.message else ""
        self.say(f"upgrade-answered {_error(effect.error)}{message}")

    def _shut_down(self, effect: fx.ShutdownCompleted) -> None:
        self.say(f"shutdown-completed timed-out={str(effect.timed_out).lower()}")
        self.stop()

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
