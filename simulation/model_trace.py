"""A run as steps in the vocabulary of the TLA+ model: what TLC holds against ``model/Trace.tla``.

The decisions of a run are carried out again, and after each of them its node is looked at. No core
has to say anything for this: what is shown are the events and messages that pass the simulator, and
what any core shows of itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from kraftspec.model.traces import NOBODY, Trace, TracedStep
from kraftspec.reference.raft.messages import (
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchReply,
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
from kraftspec.simulation.harness.cores import Core
from kraftspec.simulation.log_model import LogModel
from kraftspec.simulation.network import Message
from kraftspec.simulation.replay import Replay
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.run import swarm_of
from kraftspec.simulation.schedule import Schedule
from kraftspec.simulation.swarm import Swarm
from kraftspec.simulation.trace_text import event_text, trace_events
from kraftspec.simulation.world import Decision

# Conditions that traces do not have yet: they are switched off.
_WITHOUT = (
    "kraft_version", "joiners", "upgrade_period_us", "snapshot_period_us", "clean_period_us",
    "stranding_period_us", "old_nodes", "reconfigure_period_us", "repeat_period_us",
    "leader_removal_period_us", "partitioned_removal_period_us", "move_period_us",
)  # fmt: skip
_WHAT = {kinds.FLUSH: "syncs", kinds.START: "starts", kinds.REPLACE: "wipes"}
_NO_STEPS = (kinds.CRASH, kinds.BOUNDARY, kinds.CUT, kinds.DISK)  # A crash is told at the start.


class Recorded(msgspec.Struct, kw_only=True):
    """A run to be judged, and the decisions that repeat it."""

    seed: int
    swarm: Swarm
    decisions: list[Decision]
    trace: Trace


def swarm_within_model(
    seed: int, profile: Profile, *, voters: int | None = None, cores: Sequence[Core] = ()
) -> Swarm:
    """Return the conditions of a seed, without those that traces do not have."""
    swarm = swarm_of(seed, profile, voters=voters, cores=cores)
    return msgspec.structs.replace(swarm, **dict.fromkeys(_WITHOUT, 0), old_vote_version=-1)


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
    for index, decision in enumerate(decisions):
        if replay.carry_out(index, decision) is not None:
            break
    first = range(swarm.voters)
    return Recorded(
        seed=seed,
        swarm=swarm,
        decisions=decisions,
        trace=Trace(
            voters=first,
            observers=[id for id in replay.world.replicas if id not in first],
            steps=replay.finish(),
        ),
    )


def told(recorded: Recorded, step: TracedStep, profile: Profile) -> str:
    """Return the event of a step as a line, as the simulator tells its traces."""
    last = recorded.decisions[: step.index + 1]
    events, _ = trace_events(recorded.seed, recorded.swarm, profile, last, is_judged=False)
    return event_text(events[-1])


class _TraceReplay(Replay):
    """A replay that notes steps."""

    def __init__(self, seed: int, swarm: Swarm, profile: Profile, cores: Sequence[Core]) -> None:
        self.steps: list[TracedStep] = []
        self._sent: list[Message] = []  # In the step that is under way.
        self._numbers: dict[int, int] = {}  # Identity of a message of the model → its number.
        self._requests: dict[tuple[int, int, int], tuple[int, Request]] = {}
        self._last_use: dict[int, TracedStep] = {}
        self._logs: dict[int, LogModel] = {}  # As they were after the last step.
        self._shown: dict[int, TracedStep] = {}
        self._hw_max: dict[int, int] = {}  # Since the node started.
        super().__init__(seed, swarm, profile, cores=cores, is_judged=False)

    def sent(self, message: Message) -> None:
        """Note a message between nodes."""
        if OPERATOR not in (message.source, message.target):
            self._sent.append(message)
        super().sent(message)

    def carry_out(self, index: int, decision: Decision) -> Violation | None:
        """Carry a decision out, and note what it did."""
        before = self.world.replicas[decision.node]
        log_before, was_over = before.log_model, _is_over(before)
        applied, arrived = len(self.applied), len(self.arrivals)
        self._sent = []
        violation = self.run([decision])
        if decision.kind in _NO_STEPS or len(self.applied) == applied:
            return violation
        replica = self.world.replicas[decision.node]
        step = TracedStep(index=index, node=replica.id, what=_WHAT.get(decision.kind, "runs"))
        if len(self.arrivals) > arrived and not was_over:
            step.gets = self._numbers.get(id(self.arrivals[-1][1]), 0)
            if step.gets:
                step.what = "receives"
                self._last_use[step.gets] = step
        if step.what == "syncs":
            step.to = _count(replica.log_model, replica.durable_end)
        if step.what == "starts" and replica.log_model is log_before:
            step.what = "runs"  # It lost its power before it had read its log.
        self._look(replica, step)
        step.sends = [one for message in self._sent if (one := self._described(message, step))]
        shown = self._shown.get(replica.id)
        if step.what != "runs" or step.sends or shown is None or _facts(shown) != _facts(step):
            self.steps.append(step)
            self._shown[replica.id] = step
        return violation

    def finish(self) -> list[TracedStep]:
        """Return the steps, each with the messages that nothing refers to after it."""
        for number, step in self._last_use.items():
            step.gone.append(number)
        return self.steps

    def _look(self, replica: Replica, step: TracedStep) -> None:
        """Note what a node shows."""
        before, log = self._logs.get(replica.id, LogModel()), replica.log_model
        step.keep = min(len(before.ends), len(log.ends))
        while step.keep and before.chains[step.keep - 1] != log.chains[step.keep - 1]:
            step.keep -= 1
        step.new = log.epochs[step.keep :]
        if step.new or step.keep < len(before.ends):
            self._logs[replica.id] = copy = LogModel()
            copy.ends, copy.epochs, copy.chains = [*log.ends], [*log.epochs], [*log.chains]
        if step.what in ("starts", "wipes"):
            self._hw_max[replica.id] = 0
        if step.what == "wipes":
            return
        step.is_shown = replica.is_up
        core = replica.core
        step.role, step.epoch, step.leader = str(core.role.name), core.epoch, core.leader_id
        step.vote = NOBODY if core.voted is None else core.voted.id
        step.hw = _count(log, core.high_watermark)
        hw_max = self._hw_max[replica.id] = max(self._hw_max.get(replica.id, 0), step.hw)
        step.is_forgotten = step.hw < hw_max

    # ---- messages ------------------------------------------------------------------------------

    def _described(self, message: Message, step: TracedStep) -> dict[str, Any] | None:
        """Return a message in the model's words; None if the model has none like it."""
        log = self.world.replicas[message.source].log_model
        profile, key = self.world.profile, (message.incarnation, message.correlation)
        if message.is_reply:
            number, request = self._requests.get((message.target, *key), (0, None))
            if request is None:
                return None
            reply = profile.decode_reply(request, message.version, message.body)
            fields = _reply_fields(request, reply, log)
            if fields is None:
                return None
            self._last_use[number] = step
        else:
            number = 0
            value = profile.decode_request(message.api_key, message.version, message.body)
            fields = _request_fields(value, log)
            if fields is None:
                return None
            self._requests[message.source, *key] = (len(self._numbers) + 1, value)
        own = self._numbers[id(message)] = len(self._numbers) + 1
        self._last_use[own] = step
        return {"id": own, "re": number, "to": message.target, **fields}


def _request_fields(request: Request, log: LogModel) -> dict[str, Any] | None:
    if isinstance(request, Vote):
        return {
            "kind": "vote", "epoch": request.epoch, "pre": request.pre_vote,
            "last": request.last_epoch, "at": _count(log, request.end_offset),
        }  # fmt: skip
    if isinstance(request, Fetch):
        return {
            "kind": "fetch", "epoch": request.leader_epoch, "last": request.last_fetched_epoch,
            "at": _count(log, request.fetch_offset),
        }  # fmt: skip
    if isinstance(request, BeginEpoch | EndEpoch):
        kind = "begin" if isinstance(request, BeginEpoch) else "end"
        return {"kind": kind, "epoch": request.leader_epoch}
    return None


def _reply_fields(request: Request, reply: Reply, log: LogModel) -> dict[str, Any] | None:
    if reply.top_error or reply.leader_epoch < 0:
        return None
    told = {"kind": "told", "epoch": reply.leader_epoch, "leader": reply.leader_id}
    if isinstance(reply, VoteReply) and reply.vote_granted:
        return told | {"kind": "granted"}
    if not isinstance(request, Fetch) or not isinstance(reply, FetchReply) or reply.error:
        return told
    if reply.diverging_epoch >= 0:
        end = _count(log, reply.diverging_end_offset)
        return {"kind": "diverging", "epochThere": reply.diverging_epoch, "endThere": end}
    end_offset = reply.batches[-1].last_offset + 1 if reply.batches else request.fetch_offset
    return {
        "kind": "records", "end": _count(log, end_offset), "hw": _count(log, reply.high_watermark),
    }  # fmt: skip


def _count(log: LogModel, offset: int) -> int:
    """Return how many batches end at an offset or before: an offset, in the model."""
    return bisect_right(log.ends, offset)


def _is_over(replica: Replica) -> bool:
    """Whether a node has left the quorum in good order: it takes no events any more."""
    core = replica.core if replica.incarnation and not replica.is_new else None
    return (
        core is not None and core.shutdown_deadline_us != NEVER_US and core.deadline_us == NEVER_US
    )


def _facts(step: TracedStep) -> tuple[Any, ...]:
    return (
        step.is_shown, step.is_forgotten, step.role, step.epoch, step.leader, step.vote, step.hw,
        len(step.new), step.keep + len(step.new),
    )  # fmt: skip
