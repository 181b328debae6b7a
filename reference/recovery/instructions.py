"""What a plan writes, what it loses, and what is to be done afterwards: in words, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kraftspec.fastpath.walk import iterate_headers
from kraftspec.reference.admin.errors import address
from kraftspec.reference.recovery.report import (
    all_record_lines,
    batch_lines,
    endpoint_text,
    record_lines,
    voters_json,
)
from kraftspec.words import counted

if TYPE_CHECKING:
    from kraftspec.reference.log.files import ReadableFiles
    from kraftspec.reference.recovery.plan import Change, Loss, Plan
    from kraftspec.reference.recovery.reading import Directory

_METADATA = "__cluster_metadata-0"


def headline(plan: Plan) -> str:
    """Return in a sentence what the cure is."""
    keep = _nodes(one.node_id for one in _kept(plan))
    source = f"the log of node {plan.log_source.node_id}, to offset {plan.end_offset}"
    if not plan.changes:
        return f"Nothing is left to write: {keep} can be started."
    if plan.is_static:
        return f"For {keep}: {source}, and epoch {plan.epoch}. The voters are in the properties."
    if plan.is_begun:
        return f"A recovery was begun, in epoch {plan.epoch}. For {keep}: the rest of it."
    forced = f"by force, in epoch {plan.epoch}. {_why_forced(plan)}"
    if plan.withdrawn_at >= 0:
        end = f", {forced}" if plan.batch else ". Nothing is made up."
        return (
            f"For {keep}: {source}. The change of voters there is not committed: without it the "
            f"voters are {_nodes(plan.withdrawn_voters.ids)} again{end}"
        )
    if plan.batch:
        return f"For {keep}: {source}, and to be the voters {forced}"
    return f"For {keep}: {source}. That is enough to elect a leader: nothing is made up."


def _why_forced(plan: Plan) -> str:
    known = plan.withdrawn_voters if plan.withdrawn_at >= 0 else plan.log_source.in_force.voters
    if sum(id_ in known for id_ in plan.voters.ids) >= known.majority:
        return "In the log they have other addresses."
    return "The log alone gives no majority."


def written(plan: Plan, files: ReadableFiles) -> Iterator[tuple[str, list[str]]]:
    """Yield each thing that is written, with the lines of ``dump-log`` where they are batches."""
    for change in plan.changes:
        yield from _written(plan, change, files)


def _written(plan: Plan, change: Change, files: ReadableFiles) -> Iterator[tuple[str, list[str]]]:
    one = plan.directories[change.number]
    log, source = f"{one.path}/{_METADATA}", plan.log_source
    if change.changes_log and one.log.tail is not None and one.log.tail.torn_bytes:
        torn = counted(one.log.tail.torn_bytes, "byte")
        yield f"{log}: {torn} of an incomplete batch at the end are removed", []
    if change.cut_at >= 0:
        lines = record_lines(one, files, change.cut_at, one.log.end_offset)
        yield f"{log}: is cut at offset {change.cut_at}", lines
    if change.checkpoint is not None:
        yield f"{log}: gets {change.checkpoint.name} of node {source.node_id}", []
    if change.copy_to > change.copy_from:
        lines = record_lines(source, files, change.copy_from, change.copy_to)
        yield (
            f"{log}: gets the batches from offset {change.copy_from} to {change.copy_to} of node "
            f"{source.node_id}",
            lines,
        )
    if change.takes_batch:
        size = len(plan.batch)
        yield f"{log}: gets {size} bytes at its end", list(_forced_lines(plan.batch))
    if change.vote_epoch >= 0:
        yield f"{log}/quorum-state: epoch {change.vote_epoch}, no leader, no vote", []


def _forced_lines(data: bytes) -> Iterator[str]:
    """Yield the batches as ``dump-log`` shows them; of padding only where it is."""
    start = -1
    for header in iterate_headers(data):
        if not header.is_control:
            start = header.base_offset if start < 0 else start
            continue
        if start >= 0:
            yield f"NO_OP_RECORD at each offset from {start} to {header.base_offset}"
        yield from batch_lines(data[header.position : header.end])


def lost(plan: Plan, loss: Loss, files: ReadableFiles) -> tuple[str, list[str]]:
    """Return what is lost, and all its records."""
    one = plan.directories[loss.number]
    text = f"node {one.node_id}: records from offset {loss.start} to {loss.end}"
    return text, list(all_record_lines(one, files, loss.start, loss.end))


# ---- afterwards --------------------------------------------------------------------------------


def afterwards(plan: Plan) -> Iterator[str]:
    """Yield what to do, in this order."""
    kept = _kept(plan)
    ids = [one.node_id for one in kept]
    cluster_id = "" if kept[0].meta is None else kept[0].meta.cluster_id
    gone = {key.id for key in plan.judgement.missing.values()} - set(ids)
    left_out = [one for one in plan.left_out() if one.node_id not in gone]
    if gone:
        yield (
            f"Never start the lost controllers with the directories that they had: "
            f"{_nodes(gone)}. Those would be a second quorum, or none that can follow this one."
        )
    is_made_up = plan.is_begun or bool(plan.batch) or plan.is_static
    if is_made_up:
        for one in left_out:
            yield f"Move the directory of node {one.node_id} away, {one.path}: it is not kept."
    for loss in plan.losses:
        one = plan.directories[loss.number]
        if one.node_id not in ids and one not in left_out:
            yield (
                f"Stop node {one.node_id}, and move {one.path}/{_METADATA} out of {one.path} "
                f"before a controller starts: its log is longer than that of the leader will be. "
                f"Do not rename it there: a broker ends at a name that it does not know."
            )
    servers = ",".join(_addresses(plan)) or "HOST:PORT"
    if plan.is_static:
        yield from _static(plan, ids)
    else:
        yield (
            "The voters are in the log. Take controller.quorum.voters out of the properties of "
            "every controller and broker, where it is: new controllers that have it elect an "
            "empty leader among themselves."
        )
        yield (
            f"In the properties of every controller and broker: "
            f"controller.quorum.bootstrap.servers={servers}"
        )
        for id_ in plan.request.endpoints:
            places = [endpoint_text(at) for at in plan.voters.endpoints(id_)]
            yield f"In the properties of node {id_}: advertised.listeners={','.join(places)}"
    server = servers.split(",")[0]
    yield (
        f"Start {_nodes(ids)}. {'One of them' if len(ids) > 1 else 'It'} leads: "
        f"kafka-metadata-quorum.sh --bootstrap-controller {server} describe --status"
    )
    if left_out and not (is_made_up or plan.losses):
        others = _nodes(one.node_id for one in left_out)
        yield f"Then {others} may start, too, with the directory that is there."
    yield "Start the brokers, if they do not run, and look whether all topics are there."
    if plan.is_static:
        yield (
            f"To have more controllers, first make the quorum dynamic: kafka-features.sh "
            f"--bootstrap-controller {server} upgrade --feature kraft.version=1"
        )
    yield (
        f"For each controller to add, one after the other: kafka-storage.sh format --cluster-id "
        f"{cluster_id} --config NEW.properties --no-initial-controllers; start it; wait until "
        f"describe --replication shows no lag of it; kafka-metadata-quorum.sh "
        f"--bootstrap-controller {server} --command-config NEW.properties add-controller"
    )
    yield "Look at the directories again: kraftspec quorum verify DIR…"


def _static(plan: Plan, ids: list[int]) -> Iterator[str]:
    known = {id_: plan.voters.endpoints(id_) for id_ in ids}
    voters = ",".join(
        f"{id_}@{address(at[0].host, at[0].port)}" if at else f"{id_}@HOST:PORT"
        for id_, at in known.items()
    )
    yield (
        f"The voters are static. In the properties of {_nodes(ids)}: "
        f"controller.quorum.voters={voters}"
    )
    yield (
        "The properties of brokers may stay, if their controller.quorum.voters names a node that "
        "is kept, with its address."
    )
    yield (
        "Start no controller that was just formatted before these lead: blank controllers elect "
        "an empty leader, and the brokers then give up their partitions."
    )


def _addresses(plan: Plan) -> list[str]:
    return [address(at.host, at.port) for voter in plan.voters for at in voter.endpoints[:1]]


def _kept(plan: Plan) -> list[Directory]:
    return [plan.directories[at] for at in plan.keepers]


def _nodes(ids: Any) -> str:
    listed = sorted(ids)
    return f"{'nodes' if len(listed) > 1 else 'node'} {', '.join(map(str, listed))}"


# ---- JSON --------------------------------------------------------------------------------------


def to_json(plan: Plan, files: ReadableFiles) -> dict[str, Any]:
    """Return the whole plan."""
    document: dict[str, Any] = {
        "keep": list(plan.request.keep),
        "refusals": [
            {"code": one.code, "text": one.text, "wayOn": one.way_on} for one in plan.refusals
        ],
        "losses": [],
        "changes": [],
        "afterwards": [],
    }
    if plan.source < 0 or not plan.keepers:
        return document
    document["source"] = plan.log_source.path
    document["endOffset"] = plan.end_offset
    document["losses"] = [
        {
            "nodeId": plan.directories[loss.number].node_id,
            "startOffset": loss.start,
            "endOffset": loss.end,
            "records": lost(plan, loss, files)[1],
        }
        for loss in plan.losses
    ]
    if plan.refusals:
        return document
    if plan.epoch >= 0:
        document["epoch"] = plan.epoch
    return document | {
        "batch": plan.batch.hex(),
        "voters": voters_json(plan.voters),
        "isStatic": plan.is_static,
        "isBegun": plan.is_begun,
        "changes": [{"text": text, "lines": lines} for text, lines in written(plan, files)],
        "afterwards": list(afterwards(plan)),
    }
