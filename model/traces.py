"""Runs of real nodes, held against the model: TLC says whether a behaviour of it explains them."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kraftspec.model.groups import Group
from kraftspec.model.tlc import TlcError, run
from kraftspec.model.values import Value, parse
from kraftspec.model.words import MESSAGES

NOBODY = -1  # No node; TLA+'s None.

_PRINTED = re.compile(r'^<<\s*"(?:explained|stuck)"')
_OPENS, _CLOSES = re.compile(r"<<|[\[{(]"), re.compile(r">>|[\]})]")


Key = tuple[int, int]  # A voter: its id, and the number of its directory.
# "add" or "remove", and a voter; or "alter", and the ids of the target voters.
Change = tuple[str, *tuple[int, ...]]


class Batch(msgspec.Struct, frozen=True):
    """A batch: its epoch, and the voters that it has, with those who are to be the voters."""

    epoch: int
    voters: frozenset[Key] = frozenset()
    targets: frozenset[Key] = frozenset()


class TracedStep(msgspec.Struct, kw_only=True):
    """A step of one node. Offsets are numbers of batches, epochs those of batches.

    ``what`` is "receives" (the message that has the number ``gets``), "syncs", "starts", "wipes"
    (its disk is another, and empty), "fails" (it ended, and nobody has ended it), or "runs" for all
    others. ``loads`` is the number of the answer that offered the snapshot which took the place of
    the log. Then comes what the node shows after it: of the log that it had before, ``keep``
    batches are left, and ``new`` are those after; ``to`` are on the disk, the log starts after
    ``start``, and the last snapshot ends after ``snapshot``. ``sends`` are messages, with the
    fields that Trace.tla names; ``gone`` the numbers of messages that nothing refers to any more.
    """

    index: int  # Of the event of the run that it is.
    node: int
    what: str
    gets: int = 0
    loads: int = 0
    keep: int = 0
    new: list[Batch] = []
    sends: list[dict[str, Any]] = []
    gone: set[int] = set()
    is_shown: bool = True  # False where it ended in the step, by a loss of power.
    # What it shows.
    role: str = "unattached"
    epoch: int = 0
    leader: int = NOBODY
    vote: int = NOBODY
    stored_epoch: int = 0  # In quorum-state.
    stored_vote: int = NOBODY
    hw: int = 0
    is_forgotten: bool = False  # It has known a higher high watermark, and then led.
    to: int = 0
    start: int = 0
    snapshot: int = 0
    snapshot_epoch: int = 0
    snapshot_voters: frozenset[Key] = frozenset()
    voters: frozenset[Key] = frozenset()  # That it acts on.
    is_voter: bool = False  # What it takes itself for.
    told: int = 0  # What its state machine knows to be committed.
    first: frozenset[Key] = frozenset()  # The voters that its properties have.
    # What its state machine, clients and operators have to do with it in the step.
    leads: int = 0  # The epoch that its state machine is told to lead.
    takes: frozenset[int] = frozenset()  # The epochs that appends are meant for that it took.
    asked: frozenset[Change] = frozenset()  # Until it changes the voters, in its epoch.
    confirms: frozenset[Change] = frozenset()
    reloads: bool = False  # Its state machine leads, and is to load a snapshot.
    refuses: bool = False  # The message that it got is of another cluster, it says.


SHOWN = (
    "role", "epoch", "leader", "vote", "stored_epoch", "stored_vote", "hw", "is_forgotten", "to",
    "start", "snapshot", "snapshot_epoch", "snapshot_voters", "voters", "is_voter", "told", "first",
)  # fmt: skip


class Trace(msgspec.Struct, kw_only=True):
    """A run: its first voters, those who sync beside their fetches, our nodes, and its steps.

    In a static quorum all have the directory 0, and in the draft KIP-595. ``constants`` are those
    of the model that say which protocol it is.
    """

    voters: Collection[int]
    observers: Collection[int]
    own: Collection[int]
    is_dynamic: bool = False
    constants: Mapping[str, str]
    steps: list[TracedStep]


class Verdict(msgspec.Struct, kw_only=True):
    """What TLC says of a trace. ``stuck_at`` is the first step that nothing explains, or None."""

    stuck_at: int | None = None
    before: Mapping[str, Value] = {}  # The model's node then, by the names of ``Facts``.
    allowed: Sequence[Mapping[str, Value]] = ()  # What it might have become.
    unexplained_sends: Sequence[int] = ()  # From 0 on; where it became what it might.


def check(
    traces: Sequence[Trace], *, heap_mib: int = 2048, replaces: Mapping[str, str] = {}
) -> list[Verdict]:
    """Let TLC judge these: one for those of each protocol's static quorums, one for the others.

    ``replaces``: operators of the model that others of Mutants.tla take the place of. Raises
    ``TlcError``.
    """
    alike: dict[Any, list[int]] = {}
    for at, trace in enumerate(traces):
        alike.setdefault((trace.is_dynamic, *sorted(trace.constants.items())), []).append(at)
    verdicts: dict[int, Verdict] = {}
    for chosen in alike.values():
        judged = _check([traces[at] for at in chosen], heap_mib, replaces)
        verdicts |= zip(chosen, judged, strict=True)
    return [verdicts[at] for at in range(len(traces))]


def _check(traces: Sequence[Trace], heap_mib: int, replaces: Mapping[str, str]) -> list[Verdict]:
    steps = [step for trace in traces for step in trace.steps]
    nodes = {node for trace in traces for node in (*trace.voters, *trace.observers)}
    nodes |= {step.node for step in steps} | {one["to"] for step in steps for one in step.sends}
    with tempfile.TemporaryDirectory(prefix="kraftspec-traces-") as directory:
        Path(directory, "Runs.tla").write_text(_module(traces, bool(replaces)), encoding="utf-8")
        group = Group(
            about="runs of real nodes",
            constants={
                **_UNBOUNDED,
                "Dynamic": _tla(traces[0].is_dynamic),
                **traces[0].constants,
                "Node": _tla(nodes),
                "InitialVoters": "{}",
            },
            module="Runs",
            specification="TraceSpec",
            replaces={**{one: f"{one}There" for one in _THERE}, **replaces},
            invariants=[],
            properties=[],
            has_symmetry=False,
            directory=directory,
        )
        output = run(group, heap_mib=heap_mib, is_short=True).output
    verdicts: dict[int, Verdict] = {}
    for kind, number, *rest in _printed(output):
        if kind == "explained":
            verdicts[number] = Verdict()
        elif number not in verdicts or verdicts[number].stuck_at is not None:
            step, before, allowed, sends = rest
            verdicts[number] = Verdict(
                stuck_at=step - 1,
                before=before,
                allowed=sorted(allowed, key=str),
                unexplained_sends=sorted(one - 1 for one in sends),
            )
    if len(verdicts) != len(traces):
        raise TlcError(f"TLC judged {len(verdicts)} of {len(traces)} traces:\n{output[-2000:]}")
    return [verdicts[number] for number in range(1, len(traces) + 1)]


# Operators of the model that one of Trace.tla takes the place of.
_THERE = ("WritesVoters", "FollowerGrantsPreVote", "KeepsOngarosRule", "VotesForStrangers")
_UNBOUNDED = {
    "SyncsAtOnce": "{}",
    "Begins": '"empty"',
    "Duplicates": "TRUE",
    **{
        f"Max{what}": "1000000"
        for what in ("Epoch", "InFlight", "Appends", "Crashes", "Wipes", "Changes", "Snapshots")
    },
}


def _module(traces: Sequence[Trace], has_mutants: bool) -> str:
    runs = []
    for trace in traces:
        steps = ",\n".join(_steps(trace))
        runs.append(
            f"[voters |-> {_tla(set(trace.voters))}, observers |-> {_tla(set(trace.observers))}, "
            f"own |-> {_tla(set(trace.own))}, steps |-> <<\n{steps}>>]"
        )
    lines = [
        "---- MODULE Runs ----",
        f"EXTENDS Trace{', Mutants, Liveness' if has_mutants else ''}",
    ]
    lines.append(f"ASSUME TLCSet(0, <<{', '.join(runs)}>>)")
    lines.append(f"ASSUME \\A number \\in 1..{len(traces)} : TLCSet(number, 0)")
    return "\n".join([*lines, "====", ""])


_NOTHING = TracedStep(index=0, node=0, what="")


def _steps(trace: Trace) -> Iterator[str]:
    """Yield each step as text, without what is as before at its node, and what is nothing."""
    last: dict[int, TracedStep] = {}
    ends: dict[int, int] = {}
    for step in trace.steps:
        before = last.get(step.node, _NOTHING)
        fields = {"node": step.node, "what": step.what}
        if step.keep != ends.get(step.node, 0):
            fields["keep"] = step.keep
        for name in step.__struct_fields__[3:]:
            value = getattr(step, name)
            if name != "keep" and value != getattr(before if name in SHOWN else _NOTHING, name):
                fields[_camel(name)] = value
        yield _tla(fields)
        last[step.node], ends[step.node] = step, step.keep + len(step.new)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


_NODES = ("leader", "vote", "storedVote")  # Fields that have a node, or none.


def _tla(value: Any, name: str = "") -> str:
    """Return a value as TLA+ text; a node that is none by the name that the model has for it."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return "None" if value == NOBODY and name in _NODES else str(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(map(_tla, sorted(value)))}}}"
    if isinstance(value, Batch):
        targets = {"targets": value.targets} if value.targets else {}
        return _tla({"epoch": value.epoch, "voters": value.voters, **targets})
    if isinstance(value, list | tuple):
        return f"<<{', '.join(map(_tla, value))}>>"
    fields = (f"{key} |-> {_tla(field, key)}" for key, field in value.items())
    return f"[{', '.join(fields)}]"


def _printed(output: str) -> Iterator[Value]:
    """Yield what the model printed. TLC wraps what is long."""
    text, depth = "", 0
    for line in output.splitlines():
        if text or _PRINTED.match(line):
            text += line + "\n"
            depth += len(_OPENS.findall(line)) - len(_CLOSES.findall(line))
            if depth == 0:
                yield parse(text)
                text = ""


def words(step: TracedStep, verdict: Verdict) -> list[str]:
    """Return in words what a node showed in a step that nothing explains, and what it might."""
    lines = [f"      the model's node before: {_standing(verdict.before)}"]
    if verdict.unexplained_sends:
        sends = (_sent(step.sends[number]) for number in verdict.unexplained_sends)
        return [*lines, *(f"      nothing explains what it sends: {one}" for one in sends)]
    shown = {name: getattr(step, name) for name in (*_STANDING, "voters")}
    shown |= {"end": step.keep + len(step.new), "last": ""}
    if step.is_shown:
        lines.append(f"      it shows: {_standing(shown)}")
        told = {name: getattr(step, name) for name in _TOLD}
        lines += [f"      and {name}: {_plain(value)}" for name, value in told.items() if value]
    else:
        lines.append(
            "      it ends by itself" if step.what == "fails" else "      it shows nothing"
        )
    lines += [f"      allowed: {_standing(one)}" for one in verdict.allowed]
    return lines if verdict.allowed else [*lines, "      allowed: nothing"]


_STANDING = ("role", "epoch", "leader", "vote", "hw", "start", "snapshot")
_TOLD = ("told", "leads", "takes", "asked", "confirms", "reloads")


_FIELDS = {
    "at": "from offset",
    "end": "up to offset",
    "endThere": "ends at",
    "epochThere": "the epoch",
    "hw": "high watermark",
    "last": "last epoch",
    "own": "sender's directory",
    "pre": "pre-vote",
    "storedEpoch": "quorum-state has epoch",
    "storedVote": "and a vote for",
}


def _sent(message: Mapping[str, Any]) -> str:
    """Return a message of a trace in words."""
    fields = {_FIELDS.get(name, name): value for name, value in message.items()
              if name not in ("id", "re", "kind", "dir", "to") and value is not False}  # fmt: skip
    told = (
        name if value is True else f"{name} {'nobody' if value == NOBODY else value}"
        for name, value in fields.items()
    )
    return f"{MESSAGES[message['kind']]} to node {message['to']} ({', '.join(told)})"


def _plain(value: Any) -> str:
    """Return a value of a step without brackets."""
    if not isinstance(value, frozenset | tuple):
        return str(value)
    return " ".join(map(_plain, sorted(value) if isinstance(value, frozenset) else value))


def _standing(facts: Mapping[str, Value]) -> str:
    nobody = ("None", NOBODY)
    leader = "no leader" if facts["leader"] in nobody else f"leader {facts['leader']}"
    vote = "no vote" if facts["vote"] in nobody else f"vote for {facts['vote']}"
    last = f" of epoch {facts['last']}" if facts["last"] != "" else ""
    synced = f", durable to {facts['synced']}" if "synced" in facts else ""
    snapshot = f", snapshot to {facts['snapshot']}" if facts["snapshot"] else ""
    start = f", log from {facts['start']}" if facts["start"] else ""
    ids = " ".join(str(voter[0]) for voter in sorted(facts["voters"]))
    voters = f"voters {ids}" if ids else "no voters"
    return (
        f"{facts['role']} of epoch {facts['epoch']}, {leader}, {vote}, log to {facts['end']}{last}"
        f"{synced}, high watermark {facts['hw']}{snapshot}{start}, {voters}"
    )
