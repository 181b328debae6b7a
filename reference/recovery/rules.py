"""What is wrong, one rule after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import TYPE_CHECKING, Final

from kraftspec.reference.raft.control import LeaderChange
from kraftspec.reference.recovery import committed
from kraftspec.reference.recovery.elections import EPOCH_MAX
from kraftspec.reference.recovery.judgement import Severity, Verdict

if TYPE_CHECKING:
    from kraftspec.reference.recovery.judgement import Judgement
    from kraftspec.reference.recovery.reading import ControlBatch, Directory

VOTERS_MIN: Final = 3  # With fewer, the loss of one is the loss of the majority.
EPOCHS_LEFT_MIN: Final = 1_000_000  # Fewer are a sign of forged epochs: an election takes one.


def _verdict(severity: Severity, code: str, text: str, *nodes: int) -> Verdict:
    return Verdict(code=code, severity=severity, text=text, nodes=nodes)


_ERROR, _WARNING, _UNKNOWN, _NOTE = Severity


def verdicts_of(judgement: Judgement) -> Iterator[Verdict]:
    """Yield what all rules say."""
    for directory in judgement.directories:
        yield from _directory(directory)
    yield from _identities(judgement)
    yield from _leaders(judgement)
    yield from _leader_changes(judgement)
    yield from _partings(judgement)
    yield from _elections(judgement)
    yield from _observers(judgement)
    yield from _voters(judgement)


# ---- one directory -----------------------------------------------------------------------------


def _directory(one: Directory) -> Iterator[Verdict]:
    node = one.node_id
    if one.formatting_problem:
        yield _verdict(_UNKNOWN, "unreadable", f"{one.path}: {one.formatting_problem}", node)
        return
    log = one.log
    if log.problem:
        yield _verdict(_ERROR, "damaged-log", f"node {node}: {log.problem}", node)
    elif log.tail is not None and log.tail.torn_bytes:
        text = f"node {node}: {log.tail.torn_bytes} bytes behind offset {log.end_offset} are an "
        yield _verdict(_NOTE, "torn-tail", f"{text}incomplete batch, which a start removes", node)
    if one.vote_problem:
        yield _verdict(_ERROR, "vote-unreadable", f"node {node}: {one.vote_problem}", node)
    elif one.vote is None and log.end_offset > 0:
        text = f"node {node} has a log and no quorum-state"
        yield _verdict(_WARNING, "vote-missing", text, node)
    if one.epoch > EPOCH_MAX - EPOCHS_LEFT_MIN:
        text = f"node {node} is in epoch {one.epoch}, and the last one is {EPOCH_MAX}"
        yield _verdict(_ERROR, "epochs-used-up", text, node)
    for checkpoint in one.checkpoints:
        if checkpoint.problem:
            text = f"node {node}: {checkpoint.name}: {checkpoint.problem}"
            yield _verdict(_ERROR, "checkpoint-damaged", text, node)
            continue
        end_offset, epoch = checkpoint.id
        there = log.epoch_of(end_offset - 1)
        if checkpoint.proves and there not in (-1, epoch):
            text = (
                f"node {node}: {checkpoint.name} ends in epoch {epoch}, the log has a record of "
                f"epoch {there} there"
            )
            yield _verdict(_ERROR, "checkpoint-differs", text, node)


# ---- all of them -------------------------------------------------------------------------------


def _formatted(judgement: Judgement) -> list[Directory]:
    return [one for one in judgement.directories if not one.formatting_problem]


def _identities(judgement: Judgement) -> Iterator[Verdict]:
    formatted = _formatted(judgement)
    clusters = {one.meta.cluster_id: one.node_id for one in formatted if one.meta is not None}
    if len(clusters) > 1:
        listed = ", ".join(f"{name} (node {node})" for name, node in clusters.items())
        yield _verdict(_ERROR, "cluster-ids-differ", f"these are of several clusters: {listed}")
    for one, other in combinations(formatted, 2):
        if one.node_id != other.node_id:
            continue
        both = f"{one.path} and {other.path} are of node {one.node_id}"
        if one.key == other.key:
            yield _verdict(
                _ERROR, "same-directory-twice", f"{both}, with one directory id", one.node_id
            )
        else:
            yield _verdict(_WARNING, "two-directories-of-a-node", both, one.node_id)
    static = {one.static_ids for one in formatted if one.static_ids and one.vote is not None}
    if len(static) > 1:
        listed = "; ".join(
            f"node {one.node_id}: {_ids(one.static_ids)}" for one in formatted if one.static_ids
        )
        yield _verdict(_WARNING, "static-voters-differ", f"the static voters are {listed}")


def _leaders(judgement: Judgement) -> Iterator[Verdict]:
    """Look for two leaders of one epoch, in logs and in quorum-state."""
    led: dict[int, tuple[int, str]] = {}
    for one in _formatted(judgement):
        sources = []
        for batch in one.log.controls:
            change = batch.find(LeaderChange)
            if change is not None:
                sources.append((batch.epoch, change.leader_id, f"the log of node {one.node_id}"))
        if one.vote is not None and one.vote.leader_id >= 0:
            source = f"the quorum-state of node {one.node_id}"
            sources.append((one.vote.epoch, one.vote.leader_id, source))
        for epoch, leader, source in sources:
            known = led.setdefault(epoch, (leader, source))
            if known[0] != leader:
                text = f"epoch {epoch} was led by {known[0]} ({known[1]}) and {leader} ({source})"
                yield _verdict(_ERROR, "two-leaders", text, known[0], leader)


def _leader_changes(judgement: Judgement) -> Iterator[Verdict]:
    """Hold each LeaderChange against the voters in force where it stands."""
    violations: dict[tuple[str, str], list[int]] = {}
    for one in _formatted(judgement):
        for batch in one.log.controls:
            change = batch.find(LeaderChange)
            if change is None or batch.is_forced:
                continue
            where = f"leader {change.leader_id} of epoch {batch.epoch} (offset {batch.base_offset})"
            entry = one.voters_at(batch.base_offset)
            named = tuple(sorted(change.voters))
            is_known = entry is not None and entry.offset + 1 >= one.log.first
            if entry is not None and is_known and named != entry.voters.ids:
                text = (
                    f"{where} was elected by voters {_ids(named)}; in force are "
                    f"{_ids(entry.voters.ids)}, by {entry.origin}"
                )
                violations.setdefault(("leader-by-other-voters", text), []).append(one.node_id)
            granting = set(change.granting_voters) & set(named)
            if change.granting_voters and len(granting) <= len(named) // 2:
                text = (
                    f"{where} has the votes of {_ids(change.granting_voters)} alone, of voters "
                    f"{_ids(named)}"
                )
                violations.setdefault(("leader-without-majority", text), []).append(one.node_id)
    for (code, text), nodes in violations.items():
        yield _verdict(_ERROR, code, f"{text}: in the logs of nodes {_ids(nodes)}", *nodes)


def _partings(judgement: Judgement) -> Iterator[Verdict]:
    directories = judgement.directories
    for a, b in combinations(range(len(directories)), 2):
        parting = judgement.comparison.parting(a, b)
        one, other = directories[a], directories[b]
        if parting is None or one.formatting_problem or other.formatting_problem:
            continue
        nodes = one.node_id, other.node_id
        if parting.is_conflict:
            text = (
                f"nodes {nodes[0]} and {nodes[1]} have different batches at offset "
                f"{parting.offset}, both of epoch {parting.epoch}"
            )
            yield _verdict(_ERROR, "same-epoch-two-contents", text, *nodes)
        else:
            text = (
                f"the logs of nodes {nodes[0]} and {nodes[1]} part at offset {parting.offset}: "
                f"epoch {parting.epoch} and epoch {parting.other_epoch}"
            )
            yield _verdict(_NOTE, "logs-part", text, *nodes)
    pair = committed.contradiction(judgement.proofs, judgement.comparison)
    if pair is not None:
        texts = [
            f"up to {proof.end_offset} by node {directories[proof.number].node_id}: {proof.text}"
            for proof in pair
        ]
        nodes = (directories[pair[0].number].node_id, directories[pair[1].number].node_id)
        text = f"two branches were committed: {'; '.join(texts)}"
        yield _verdict(_ERROR, "two-committed-branches", text, *nodes)
    for batch, holders in _forced(judgement):
        listed = _ids(sorted(one.node_id for one in holders))
        text = (
            f"at offset {batch.base_offset} the quorum was recovered by force, in epoch "
            f"{batch.epoch}: nodes {listed}"
        )
        yield _verdict(_NOTE, "forced-recovery", text)
        for one in _formatted(judgement):
            is_behind = one.log.end_offset <= batch.base_offset
            if one not in holders and not is_behind and one.log.last_epoch < batch.epoch:
                text = (
                    f"node {one.node_id} has records up to {one.log.end_offset} that the recovery "
                    f"at offset {batch.base_offset} left out"
                )
                yield _verdict(_WARNING, "left-of-forced-recovery", text, one.node_id)


def _forced(judgement: Judgement) -> Iterator[tuple[ControlBatch, list[Directory]]]:
    seen: dict[tuple[int, int], tuple[ControlBatch, list[Directory]]] = {}
    for one in _formatted(judgement):
        for batch in one.log.controls:
            if batch.is_forced:
                place = (batch.base_offset, batch.epoch)
                seen.setdefault(place, (batch, []))[1].append(one)
    yield from seen.values()


def _elections(judgement: Judgement) -> Iterator[Verdict]:
    candidates, directories = judgement.candidates, judgement.directories
    electable = [one for one in candidates if one.is_electable]
    for one in electable:
        lost = [
            proof
            for proof in judgement.proofs
            if not judgement.comparison.holds(one.number, proof.number, proof.end_offset)
            and directories[one.number].log.first <= proof.end_offset
        ]
        if lost:
            log = directories[one.number].log
            text = (
                f"node {one.key.id} could be elected with a log that ends at {log.end_offset} of "
                f"epoch {log.last_epoch}, and all before {lost[0].end_offset} of epoch "
                f"{lost[0].epoch} is committed: {lost[0].text}"
            )
            yield _verdict(_ERROR, "committed-could-be-lost", text, one.key.id)
    for one, other in combinations(electable, 2):
        votes = {*one.granted, *other.granted}
        if len(votes) >= one.needed + other.needed:
            text = (
                f"nodes {one.key.id} and {other.key.id} could be elected at once, by "
                f"{_ids(one.granted)} and by {_ids(other.granted)}"
            )
            yield _verdict(_ERROR, "disjoint-majorities", text, one.key.id, other.key.id)
    if electable:
        return
    readable = [one for one in directories if one.is_readable]
    if not any(len(one.in_force.voters) for one in readable):
        if readable:
            text = "no directory says who the voters are"
            yield _verdict(_UNKNOWN, "no-voters-known", text)
    elif judgement.missing:
        listed = _ids(judgement.missing)
        text = f"whether a leader can be elected depends on voters that were not given: {listed}"
        yield _verdict(_UNKNOWN, "too-few-directories", text, *judgement.missing)
    else:
        whys = [
            f"node {one.key.id} needs {one.needed} votes: "
            + ", ".join(f"{voter} refuses, {why}" for voter, why in one.refused.items())
            for one in candidates
        ]
        observers = [
            f"node {one.node_id} is no voter by {one.in_force.origin}"
            for one in readable
            if not one.is_voter and any(one.node_id in d.in_force.voters for d in readable)
        ]
        text = f"nobody can be elected: {'; '.join([*whys, *observers])}"
        yield _verdict(_ERROR, "nobody-electable", text)


def _observers(judgement: Judgement) -> Iterator[Verdict]:
    readable = [one for one in judgement.directories if one.is_readable]
    voters = [one for one in readable if one.is_voter]
    newest = max(readable, key=lambda one: one.log.position, default=None)
    if newest is not None:
        for one in readable:
            voter = newest.in_force.voters.get(one.node_id)
            if voter is not None and not voter.key.matches(one.key):
                text = (
                    f"node {one.node_id} has the directory id {one.directory_id}, the voter's is "
                    f"{voter.key.directory_id}"
                )
                yield _verdict(_WARNING, "directory-id-differs", text, one.node_id)
    if not voters or judgement.missing:
        return
    last = max(one.log.position for one in voters)
    epoch = max(one.epoch for one in voters)
    for one in readable:
        if one.is_voter:
            continue
        # Beside live nodes it may have been read later than they were.
        if one.log.position > last and (judgement.is_still or one.log.last_epoch > last[0]):
            text = (
                f"node {one.node_id}, which does not vote, has the log to {one.log.end_offset} of "
                f"epoch {one.log.last_epoch}; the voters' end at {last[1]} of epoch {last[0]}"
            )
            yield _verdict(_WARNING, "observer-ahead", text, one.node_id)
        if one.epoch > epoch:
            text = f"node {one.node_id} is in epoch {one.epoch}, the voters in {epoch}"
            yield _verdict(_WARNING, "observer-epoch-ahead", text, one.node_id)


def _voters(judgement: Judgement) -> Iterator[Verdict]:
    if judgement.missing and any(one.is_electable for one in judgement.candidates):
        text = f"not given: voters {_ids(judgement.missing)}"
        yield _verdict(_NOTE, "voters-not-given", text, *judgement.missing)
    if judgement.reference < 0:
        return
    newest = judgement.directories[judgement.reference]
    entry = newest.in_force
    count = len(entry.voters)
    if 0 < count < VOTERS_MIN:
        text = f"the quorum has {count} {'voter' if count == 1 else 'voters'}: it survives no loss"
        yield _verdict(_NOTE, "few-voters", text)
    certain = judgement.certain
    if entry.origin.kind == "log" and (certain is None or certain.end_offset <= entry.offset):
        text = f"{entry.origin} is not known to be committed: change no voters now"
        yield _verdict(_NOTE, "change-in-doubt", text)
    for one in _formatted(judgement):
        theirs = one.in_force
        if len(theirs.voters) and theirs.voters.ids != entry.voters.ids:
            text = (
                f"node {one.node_id} knows voters {_ids(theirs.voters.ids)}, by {theirs.origin}; "
                f"node {newest.node_id} {_ids(entry.voters.ids)}, by {entry.origin}"
            )
            yield _verdict(_NOTE, "voters-differ", text, one.node_id)


def _ids(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids)) or "none"
