"""A counterexample in words, as the simulator tells its traces: who did what, and what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kraftspec.model.tlc import Step
from kraftspec.model.values import Value

# What an action of a node is, where the changes alone do not tell it.
ACTIONS = {
    "TimesOut": "'s timer expires",
    "TimesOutAlone": "'s timer expires",
    "TargetsTimeOut": "'s timer expires",
    "GivesUp": "'s election ends without a leader",
    "GivesUpWhatIsLost": "'s election ends without a leader",
    "Resigns": " resigns",
    "LeavesEpoch": "'s election time-out expires, after it resigned",
    "AsksVote": " asks for a vote",
    "Calls": " tells that it leads",
    "SaysEnd": " tells that it resigned",
    "AsksRecords": " fetches",
    "Appends": " appends what a client sent",
    "Syncs": "'s disk has synced",
    "Crashes": " crashes and starts again",
    "Wipes": " gets an empty disk",
    "Adds": " appends new voters: one more",
    "Removes": " appends new voters: one fewer",
    "Names": " appends new voters: one with a name",
    "RequestTimesOut": "'s request to remove it times out",
    "Alters": " is asked for other voters (AlterQuorum)",
    "Moves": " goes on with the reassignment",
    "Snapshots": " writes a snapshot",
    "Cleans": " deletes what its snapshot has",
}
# How a behaviour goes on that never becomes what it has to.
_ENDS = {"Stuttering": "and nothing else happens", "Back": "and so again and again"}
MESSAGES = {
    "vote": "Vote",
    "granted": "its vote",
    "told": "who leads",
    "begin": "BeginQuorumEpoch",
    "end": "EndQuorumEpoch",
    "fetch": "Fetch",
    "part": "FetchSnapshot",
    "records": "records",
    "diverging": "a diverging epoch",
    "snapshot": "a snapshot",
    "find": "FindQuorum",
    "dismissal": "NOT_FOLLOWER",
}


def story(trace: Sequence[Step]) -> list[str]:
    """Return a trace as lines: the beginning, and one for each step."""
    if not trace:
        return []
    lines = ["    at first:"]
    lines += [f"         {_node(n)} {_standing(s)}" for n, s in _nodes(trace[0].state)]
    previous = trace[0]
    for number, step in enumerate(trace[1:], 1):
        if step.action in _ENDS:
            lines.append(f"      → {_ENDS[step.action]}")
        else:
            lines.append(f"{number:4}  {_step(step, previous.state)}")
        previous = step
    return lines


def _step(step: Step, before: dict[str, Value]) -> str:
    after = step.state
    changed = [(n, dict(_nodes(before))[n], s) for n, s in _nodes(after)]
    changed = [one for one in changed if one[1] != one[2]]
    gone, new = before["net"] - after["net"], after["net"] - before["net"]
    changes = [text for _, old, now in changed for text in _changes(old, now)]
    changes += [f"sends {_message(m)} to {_node(m['to'])}" for m in _sorted(new)]
    told = f" → {'; '.join(changes)}" if changes else ""
    if step.action == "Loses":
        return "; ".join(f"lost: {_message(m)} from {_node(m['from'])}" for m in _sorted(gone))
    if step.action.startswith("Receives"):
        if not gone:  # One that was received before.
            return f"{_actor(changed, new)} receives a message again{told}"
        (message,) = gone
        what = f"{_message(message)} from {_node(message['from'])}"
        return f"{_node(message['to'])} receives {what}{told}"
    return f"{_actor(changed, new)}{ACTIONS.get(step.action, ' ' + step.action)}{told}"


def _actor(changed: list[tuple[str, Value, Value]], new: frozenset[Value]) -> str:
    if changed:
        return _node(changed[0][0])
    return _node(next(iter(new))["from"]) if new else "a node"


def _changes(old: Value, now: Value) -> Iterator[str]:
    if old["dir"] != now["dir"]:
        yield f"directory {now['dir']}"
    if (old["role"], old["epoch"]) != (now["role"], now["epoch"]):
        yield f"is {now['role']} of epoch {now['epoch']}"
    if old["leader"] != now["leader"] and now["leader"] not in ("None", now["id"]):
        yield f"follows {_node(now['leader'])}"
    if old["vote"] != now["vote"] and now["vote"] != "None":
        yield f"votes for {_node(now['vote'][0])}"
    same = 0
    while same < min(len(old["log"]), len(now["log"])) and old["log"][same] == now["log"][same]:
        same += 1
    if same < len(old["log"]):
        yield f"its log is cut at {same}"
    for at, record in enumerate(now["log"][same:], same):
        yield f"has {_record(record)} at offset {at}"
    if old["synced"] != now["synced"]:
        yield f"durable to {now['synced']}"
    if _voters(old) != _voters(now):
        yield f"acts on voters {_keys(_voters(now))}"
    if old["hw"] != now["hw"]:
        yield f"high watermark {now['hw']}"
    if old["votes"] < now["votes"] and now["role"] in ("candidate", "prospective"):
        yield f"has {len(now['votes'])} of {len(_voters(now))} votes"
    if old["snapshot"] != now["snapshot"]:
        yield f"has a snapshot of {now['snapshot']} records"
    if old["start"] != now["start"]:
        yield f"its log starts at {now['start']}"


def _standing(s: Value) -> str:
    log = ", ".join(_record(record) for record in s["log"]) or "nothing"
    voters = f", voters {_keys(_voters(s))}"
    return f"is {s['role']} of epoch {s['epoch']}; its log has {log}{voters}"


def _message(m: Value) -> str:
    name, epoch = MESSAGES[m["kind"]], f"epoch {m['epoch']}"
    if m["kind"] == "vote":
        pre = ", pre-vote" if m["pre"] else ""
        return f"{name}({epoch}{pre}, log to {m['end']} of epoch {m['lastEpoch']})"
    if m["kind"] == "granted":
        return f"{'its pre-vote' if m['pre'] else name} ({epoch})"
    if m["kind"] == "told":
        return f"{name} ({epoch}: {_node(m['leader']) if m['leader'] != 'None' else 'nobody'})"
    if m["kind"] == "end" and m["isPreferred"]:
        return f"{name}({epoch}, you first)"
    if m["kind"] == "fetch":
        return f"{name}({epoch}, from {m['at']} of epoch {m['lastEpoch']})"
    if m["kind"] == "records":
        end = m["at"] + len(m["records"])
        has = f"records from {m['at']} to {end}" if m["records"] else "no records"
        return f"{has} ({epoch}, high watermark {m['hw']})"
    if m["kind"] == "diverging":
        return f"{name} ({m['epochThere']}, which ends at {m['endThere']})"
    if m["kind"] == "snapshot":
        return f"{name} of {len(m['prefix'])} records"
    return f"{name}({epoch})"


def _record(record: Value) -> str:
    what = {"leader": "leader change", "data": "data", "voters": "voters"}[record["kind"]]
    voters = f" {_keys(record['voters'])}" if record["voters"] else ""
    what += " with voters" if voters and record["kind"] == "leader" else ""
    targets = f" on the way to {_keys(record['targets'])}" if record["targets"] else ""
    return f"{what}{voters}{targets} ({record['epoch']})"


def _keys(keys: frozenset[Value]) -> str:
    names = [n if d <= 1 else f"{n} on disk {d}" for n, d in sorted(keys)]
    return f"{{{', '.join(names)}}}"


def _voters(s: Value) -> frozenset[Value]:
    voters: frozenset[Value] = s["sets"][-1]["voters"]
    return voters


def _nodes(state: dict[str, Value]) -> list[tuple[str, Value]]:
    return sorted(state["node"].items())


def _node(name: Value) -> str:
    return f"node {name}"


def _sorted(messages: frozenset[Value]) -> list[Value]:
    return sorted(messages, key=lambda m: (m["to"], m["kind"]))
