"""A run as steps in the vocabulary of the TLA+ model: what TLC holds against ``model/Trace.tla``.

The decisions of a run are carried out again, and after each of them its node is looked at. No core
has to say anything for this: what is shown are the events and messages that pass the simulator, and
what any core shows of itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.generated.errors import DraftErrorCode, ErrorCode
from kraftspec.model.traces import NOBODY, SHOWN, Key, Trace, TracedStep, Verdict, words
from kraftspec.reference.profiles.kip_595.messages import FindQuorum
from kraftspec.reference.raft import ElectionState, ReplicaKey, SnapshotId
from kraftspec.reference.raft.messages import (
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchReply,
    FetchSnapshot,
    Reply,
    Request,
    Vote,
    VoteReply,
)
from kraftspec.reference.raft.profile import Profile
from kraftspec.reference.raft.types import NEVER_US
from kraftspec.simulation import world as kinds
from kraftspec.simulation.clients import OPERATOR
from kraftspec.simulation.committed_log import Violation
from kraftspec.simulation.harness.cores import Core, RunCores, lacking_capabilities
from kraftspec.simulation.harness.known import KnownBreach, known_breach
from kraftspec.simulation.harness.node import HarnessNode
from kraftspec.simulation.network import Message
from kraftspec.simulation.own import OwnReplica
from kraftspec.simulation.protocols import protocol_of
from kraftspec.simulation.replay import Replay
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.run import swarm_of
from kraftspec.simulation.schedule import Schedule
from kraftspec.simulation.step_notes import StepNotes
from kraftspec.simulation.swarm import Swarm
from kraftspec.simulation.trace_text import event_text, trace_events
from kraftspec.simulation.whole_logs import WholeLog, WholeLogs
from kraftspec.simulation.world import Decision

# Conditions that traces do not have: they are switched off.
_WITHOUT = ("upgrade_period_us", "old_nodes")
_WHAT = {kinds.FLUSH: "syncs", kinds.START: "starts", kinds.REPLACE: "wipes"}
# The node ended by itself, or has fetched another snapshot than it was offered: the world says so,
# whatever is judged.
_FAILURES = ("no_fatal_error", "opens_its_disk", "no_exception", "fetched_whole")
# What `known.toml` calls it that the model explains a step; its pattern is of what is told of one.
EXPLAINED = "explained_by_model"
_BEGINNINGS = (kinds.START, kinds.REPLACE)
_NO_STEPS = (kinds.CRASH, kinds.BOUNDARY, kinds.CUT, kinds.DISK)  # A crash is told at the start.


class Recorded(msgspec.Struct, kw_only=True):
    """A run to be judged, and the decisions that repeat it."""

    seed: int
    swarm: Swarm
    cores: Sequence[Core]
    decisions: list[Decision]
    trace: Trace


def swarm_within_model(
    seed: int, profile: Profile, *, voters: int | None = None, cores: Sequence[Core] = ()
) -> Swarm:
    """Return the conditions of a seed, without those that traces do not have."""
    swarm = swarm_of(seed, profile, voters=voters, cores=cores)
    return msgspec.structs.replace(swarm, **dict.fromkeys(_WITHOUT, 0), old_vote_version=-1)


def check_modelled(cores: Sequence[Core]) -> None:
    """Raise ``ValueError`` for a core that lacks what the model has."""
    for core in cores:
        if "pre_vote" in lacking_capabilities([core]):
            raise ValueError(
                f"the model has pre-votes (KIP-996, in Kafka since 4.0): {core.name} has none"
            )


def record(
    seed: int,
    profile: Profile,
    *,
    events: int,
    voters: int | None = None,
    cores: Sequence[Core] = (),
) -> Recorded:
    """Run a seed for so many events, and tell it to the model. No property of ours is judged."""
    swarm = swarm_within_model(seed, profile, voters=voters, cores=cores)
    schedule = Schedule(seed, swarm, profile, record=True, cores=cores, is_judged=False)
    with suppress(Violation):  # Of those that have no module.
        schedule.run(events)
    decisions = schedule.world.decisions or []
    replay = _TraceReplay(seed, swarm, profile, cores)
    replicas = replay.world.replicas.values()
    for index, decision in enumerate(decisions):
        if replay.carry_out(index, decision) is not None:
            break
    return Recorded(
        seed=seed,
        swarm=swarm,
        cores=cores,
        decisions=decisions,
        trace=Trace(
            voters=range(swarm.voters),
            observers=[one.id for one in replicas if not one.syncs],
            own=[one.id for one in replicas if isinstance(one, OwnReplica)],
            is_dynamic=swarm.kraft_version > 0,
            constants=protocol_of(profile).model,
            steps=replay.finish(),
        ),
    )


def unexplained(recorded: Recorded, verdict: Verdict, profile: Profile) -> list[str]:
    """Return in words the step that nothing explains, first its event as traces have it."""
    assert verdict.stuck_at is not None
    step = recorded.trace.steps[verdict.stuck_at]
    last = recorded.decisions[: step.index + 1]
    events, _ = trace_events(
        recorded.seed, recorded.swarm, profile, last, recorded.cores, is_judged=False
    )
    return [event_text(events[-1]), *words(step, verdict)]


def known_fault(
    recorded: Recorded, verdict: Verdict, profile: Profile, told: Sequence[str]
) -> KnownBreach | None:
    """Return the known fault of a core that shows in the step that nothing explains.

    ``told`` are the words of the step. They are known; or a property of the simulator breaks in the
    very same step, first of all, and that is known.
    """
    assert verdict.stuck_at is not None
    if not recorded.cores:
        return None
    step = recorded.trace.steps[verdict.stuck_at]
    core = RunCores(recorded.cores, recorded.seed).core_of(step.node)
    if known := known_breach([core], (EXPLAINED, "\n".join(told))):
        return known
    replay = Replay(recorded.seed, recorded.swarm, profile, cores=recorded.cores)
    if replay.run(recorded.decisions[: step.index]) is not None:
        return None
    violation = replay.run([recorded.decisions[step.index]])
    return known_breach([core], (violation.name, violation.text)) if violation else None


class _TraceReplay(Replay):
    """A replay that notes steps."""

    def __init__(self, seed: int, swarm: Swarm, profile: Profile, cores: Sequence[Core]) -> None:
        self.steps: list[TracedStep] = []
        self._index = -1  # Of the decision that is carried out.
        self._half: TracedStep | None = None  # What a harness has done in it so far.
        self._sent: list[tuple[Message, ElectionState]] = []  # Since the last step: stored then.
        self._numbers: dict[int, int] = {}  # Identity of a message of the model → its number.
        self._requests: dict[tuple[int, int, int], tuple[int, Request]] = {}
        self._offers: dict[tuple[int, SnapshotId], int] = {}  # To whom, and what → the number.
        self._last_use: dict[int, TracedStep] = {}
        self._logs: dict[int, WholeLog] = {}  # As they were after the last step.
        self._shown: dict[int, TracedStep] = {}
        self._hw_max: dict[int, int] = {}  # Since the node started.
        self._snapshots: dict[tuple[int, SnapshotId], frozenset[Key]] = {}
        self._whole = WholeLogs()
        self._notes = StepNotes(self._whole)
        extra = [self._whole, self._notes]
        super().__init__(seed, swarm, profile, cores=cores, is_judged=False, extra=extra)
        for replica in self.world.replicas.values():
            self._whole.directory(replica.key)

    def sent(self, message: Message) -> None:
        """Note a message between nodes."""
        if OPERATOR not in (message.source, message.target):
            self._sent.append((message, self.world.replicas[message.source].stored))
        super().sent(message)

    def stepped(self, replica: Replica) -> None:
        """Note a step of a harness: timers that are due strike before what comes then."""
        super().stepped(replica)
        if self._index >= 0 and isinstance(replica, HarnessNode):
            if self._half is not None:
                self._note(self._half)
            self._half = TracedStep(index=self._index, node=replica.id, what="runs")
            self._look(replica, self._half)

    def carry_out(self, index: int, decision: Decision) -> Violation | None:
        """Carry a decision out, and note what it did."""
        before = self.world.replicas[decision.node]
        log_before, was_over = before.log_model, _is_over(before)
        applied, arrived = len(self.applied), len(self.arrivals)
        self._sent, self._half, self._index = [], None, index
        self._notes.clear()
        violation = self.run([decision])
        self._index = -1
        if violation is not None and violation.name in _FAILURES:
            self.steps.append(
                TracedStep(index=index, node=decision.node, what="fails", is_shown=False)
            )
            return violation
        if decision.kind in _NO_STEPS or len(self.applied) == applied:
            return violation
        if (
            was_over and decision.kind not in _BEGINNINGS
        ):  # Its disk may sync, and it does not look.
            return violation
        replica = self.world.replicas[decision.node]
        step = self._half
        if step is None or not replica.is_up:
            if step is not None:
                self._note(step)
            step = TracedStep(index=index, node=replica.id, what="runs")
        step.what = _WHAT.get(decision.kind, "runs")
        if step.what == "starts" and replica.log_model is log_before:
            step.what = "runs"  # It lost its power before it had read its log.
        if step.what == "wipes":
            self._whole.directory(replica.key)
        if len(self.arrivals) > arrived:
            step.gets = self._numbers.get(id(self.arrivals[-1][1]), 0)
            if step.gets:
                step.what = "receives"
                self._last_use[step.gets] = step
        if step is not self._half:
            self._look(replica, step)
        self._note(step)
        return violation

    def finish(self) -> list[TracedStep]:
        """Return the steps, each with the messages that nothing refers to after it."""
        for number, step in self._last_use.items():
            step.gone.add(number)
        return self.steps

    def _note(self, step: TracedStep) -> None:
        """Note a step, unless nothing has happened in it."""
        shown = self._shown.get(step.node)
        begins = step.what in ("starts", "wipes")
        if begins:
            self._hw_max[step.node] = step.start  # What its snapshot has was committed.
        hw_max = self._hw_max[step.node] = max(self._hw_max.get(step.node, 0), step.hw)
        # It may know less after a start, or when it begins or ends to lead; from then on more and
        # more, until it knows again what it knew. Who becomes resigned has led.
        roles = {step.role, shown.role if shown is not None else step.role}
        may_forget = begins or (len(roles) > 1 and ("leader" in roles or step.role == "resigned"))
        goes_on = shown is not None and shown.is_forgotten and step.hw >= shown.hw
        step.is_forgotten = step.hw < hw_max and (may_forget or goes_on)
        is_new = shown is None or _facts(shown) != _facts(step)
        if step.what != "runs" or step.sends or step.loads or step.new or is_new or _is_noted(step):
            self.steps.append(step)
            self._shown[step.node] = step

    def _look(self, replica: Replica, step: TracedStep) -> None:
        """Note what a node shows, and has sent."""
        before, log = self._logs.get(replica.id, WholeLog()), self._whole.look(replica)
        self._logs[replica.id] = log
        step.keep = before.same_as(log)
        step.new = log.batches[step.keep :]
        step.to = log.count(replica.durable_end)
        if replica.has_untold_sync:  # A segment was sealed: it counts as synced when it is told.
            step.to = min(step.to, self._shown[replica.id].to)
        step.start = log.count(replica.log_model.start_offset)
        # Of a harness that has left the quorum, what it had in memory is not known.
        step.is_shown = replica.is_up and not (
            isinstance(replica, HarnessNode) and _is_over(replica)
        )
        if step.is_shown:
            core = replica.core
            step.role, step.epoch, step.leader = str(core.role.name), core.epoch, core.leader_id
            step.vote = _id_of(core.voted)
            step.stored_epoch, step.stored_vote = replica.stored.epoch, _id_of(replica.stored.voted)
            step.hw = log.count(core.high_watermark)
            step.voters, step.is_voter = self._whole.keys(core.log.voters.last), core.is_voter
            step.told = log.count(replica.committed)
            step.first = self._whole.keys(replica.config.voters)
            if replica.snapshots:
                self._look_at_snapshot(replica, max(replica.snapshots), step)
        step.loads = self._loads(replica, before, log, step.start)
        if step.loads:
            self._last_use[step.loads] = step
        notes = self._notes
        step.leads, step.takes, step.reloads = notes.leads, frozenset(notes.takes), notes.reloads
        step.confirms = frozenset(notes.confirms)
        if step.role in ("leader", "resigned") and any(batch.voters for batch in step.new):
            step.asked = notes.changes(replica)
        notes.clear()
        sends = (self._described(message, stored, step) for message, stored in self._sent)
        step.sends = [one for one in sends if one]
        self._sent = []

    def _look_at_snapshot(self, replica: Replica, snapshot: SnapshotId, step: TracedStep) -> None:
        """Note where the last snapshot ends, by what its name and its records say."""
        step.snapshot = self._logs[replica.id].count(snapshot.end_offset)
        if step.snapshot:
            known = self._snapshots.get((replica.id, snapshot))
            if known is None:
                sets = replica.snapshot_voters(snapshot)
                known = self._whole.keys(sets[-1][1]) if sets else frozenset()
                self._snapshots[replica.id, snapshot] = known
            step.snapshot_epoch, step.snapshot_voters = snapshot.epoch, known

    def _loads(self, replica: Replica, before: WholeLog, log: WholeLog, start: int) -> int:
        """Return the number of the answer that offered what the log was replaced by; 0: none."""
        reset = self._whole.reset.pop(replica.id, None)
        if reset is None and (
            not start or before.chains[start - 1 : start] == log.chains[start - 1 : start]
        ):
            return 0
        offset = replica.log_model.start_offset
        return next(
            (number for (node, offered), number in self._offers.items()
             if node == replica.id and offered.end_offset == offset),
            0,
        )  # fmt: skip

    # ---- messages ------------------------------------------------------------------------------

    def _described(
        self, message: Message, stored: ElectionState, step: TracedStep
    ) -> dict[str, Any] | None:
        """Return a message in the model's words; None if the model has none like it."""
        log = self._logs[message.source]
        profile, key = self.world.profile, (message.incarnation, message.correlation)
        if message.is_reply:
            number, request = self._requests.get((message.target, *key), (0, None))
            if request is None:
                return None
            reply = profile.decode_reply(request, message.version, message.body)
            fields = _reply_fields(request, reply, log)
            step.refuses |= reply.top_error == ErrorCode.INCONSISTENT_CLUSTER_ID
            if fields is None:
                return None
            self._last_use[number] = step
            if isinstance(reply, FetchReply) and fields["kind"] == "snapshot":
                offered = SnapshotId(reply.snapshot_end_offset, reply.snapshot_epoch)
                self._offers[message.target, offered] = len(self._numbers) + 1
        else:
            number = 0
            value = profile.decode_request(message.api_key, message.version, message.body)
            fields = _request_fields(value, log)
            if fields is None:
                return None
            directory_id = getattr(value, "voter_directory_id", ZERO_UUID)
            if directory_id != ZERO_UUID:
                fields["dir"] = self._whole.directory_of(message.target, directory_id)
            if isinstance(value, FetchSnapshot) and message.version:  # 0 names no directory.
                own_id = value.replica_directory_id
                is_named = own_id != ZERO_UUID
                fields["own"] = self._whole.directory_of(message.source, own_id) if is_named else 0
            self._requests[message.source, *key] = (len(self._numbers) + 1, value)
        if fields["kind"] in ("vote", "granted"):
            fields |= {"storedEpoch": stored.epoch, "storedVote": _id_of(stored.voted)}
        own = self._numbers[id(message)] = len(self._numbers) + 1
        self._last_use[own] = step
        return {"id": own, "re": number, "to": message.target, **fields}


def _id_of(voted: ReplicaKey | None) -> int:
    return NOBODY if voted is None else voted.id


def _request_fields(request: Request, log: WholeLog) -> dict[str, Any] | None:
    if isinstance(request, Vote):
        return {
            "kind": "vote", "epoch": request.epoch, "pre": request.pre_vote,
            "last": request.last_epoch, "at": log.count(request.end_offset),
        }  # fmt: skip
    if isinstance(request, Fetch):
        return {
            "kind": "fetch", "epoch": request.leader_epoch, "last": request.last_fetched_epoch,
            "at": log.count(request.fetch_offset),
        }  # fmt: skip
    if isinstance(request, BeginEpoch | EndEpoch):
        kind = "begin" if isinstance(request, BeginEpoch) else "end"
        return {"kind": kind, "epoch": request.leader_epoch}
    if isinstance(request, FetchSnapshot):
        return {"kind": "part", "epoch": request.leader_epoch}
    if isinstance(request, FindQuorum):
        return {"kind": "find"}
    return None


def _reply_fields(request: Request, reply: Reply, log: WholeLog) -> dict[str, Any] | None:
    if reply.top_error or reply.leader_epoch < 0:
        return None
    told = {"kind": "told", "epoch": reply.leader_epoch, "leader": reply.leader_id}
    if isinstance(reply, VoteReply) and reply.vote_granted:
        return told | {"kind": "granted"}
    if isinstance(reply, FetchReply) and reply.error == DraftErrorCode.NOT_FOLLOWER:
        return {"kind": "dismissal"}
    if not isinstance(request, Fetch) or not isinstance(reply, FetchReply) or reply.error:
        return told
    if reply.diverging_epoch >= 0:
        end = log.count(reply.diverging_end_offset)
        return {"kind": "diverging", "epochThere": reply.diverging_epoch, "endThere": end}
    if reply.snapshot_end_offset >= 0:
        return {"kind": "snapshot", "end": log.count(reply.snapshot_end_offset)}
    end_offset = reply.batches[-1].last_offset + 1 if reply.batches else request.fetch_offset
    return {
        "kind": "records", "end": log.count(end_offset), "hw": log.count(reply.high_watermark),
    }  # fmt: skip


def _is_over(replica: Replica) -> bool:
    """Whether a node has left the quorum in good order: it takes no events any more."""
    core = replica.core if replica.incarnation and not replica.is_new else None
    return (
        core is not None and core.shutdown_deadline_us != NEVER_US and core.deadline_us == NEVER_US
    )


def _facts(step: TracedStep) -> tuple[Any, ...]:
    return (step.is_shown, *(getattr(step, name) for name in SHOWN), step.keep + len(step.new))


def _is_noted(step: TracedStep) -> bool:
    return bool(step.leads or step.takes or step.confirms or step.reloads)
