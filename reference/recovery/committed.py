"""What is certainly committed, what perhaps, and why.

No file has the high watermark. What follows from files:

* a checkpoint ends at an offset that was committed when it was made;
* a leader's state machine appends data only after it has learnt that the epoch's LeaderChange is
  committed: data of an epoch prove its first batch;
* a leader changes the voters only when it has committed of its epoch, and when the change before is
  committed: a VotersRecord proves both, unless it came with the epoch's LeaderChange or with
  another kraft.version, which are written without such a check;
* what a majority of the voters holds, whose last records are of one epoch and who have seen no
  later one, stays: whoever is elected later needs one of them, with a log that is not behind. It
  has to be a majority of each voter set since the last one that is committed, since a node whose
  log lacks the change still counts by the set before;
* where nothing is written any more and all voters are given: what a majority holds, and every node
  that can be elected.

All that was ever committed is in the log of every node that can be elected: so it ends where those
logs end or part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from kraftspec.reference.raft.control import KRaftVersion, LeaderChange, Voters
from kraftspec.reference.raft.types import NONE
from kraftspec.reference.recovery.elections import Candidate, missing_voters
from kraftspec.reference.recovery.reading import static_set

if TYPE_CHECKING:
    from kraftspec.reference.raft.voters import VoterSet
    from kraftspec.reference.recovery.compare import Comparison
    from kraftspec.reference.recovery.reading import ControlBatch, Directory, Log


class Proof(msgspec.Struct, kw_only=True, frozen=True):
    """All before ``end_offset``, as directory ``number`` has it, is committed: here is why.

    ``epoch`` is that of the last record before. ``kind`` is checkpoint, data, voters-change,
    majority or all-electable.
    """

    end_offset: int
    epoch: int
    number: int
    kind: str
    text: str


def proofs_of(
    comparison: Comparison, candidates: Sequence[Candidate], *, is_still: bool
) -> list[Proof]:
    """Return what proves that something is committed, the furthest first.

    ``is_still``: no directory changed while they were read.
    """
    directories = comparison.directories
    proofs: list[Proof] = []
    for number, directory in enumerate(directories):
        if not directory.formatting_problem:
            proofs += _of_checkpoints(number, directory)
            proofs += _of_records(number, directory.log)
    proven = max((proof.end_offset for proof in proofs), default=0)
    proofs += _of_one_epoch(comparison, proven)
    if is_still and not missing_voters(directories):
        proofs += _of_all_electable(comparison, candidates, proven)
    proofs.sort(key=lambda proof: proof.end_offset, reverse=True)
    return proofs


def contradiction(proofs: Sequence[Proof], comparison: Comparison) -> tuple[Proof, Proof] | None:
    """Return two proofs of branches that exclude each other, if there are any."""
    for one in proofs:
        for other in proofs:
            if one.number < other.number:
                parting = comparison.parting(one.number, other.number)
                if parting and parting.offset < min(one.end_offset, other.end_offset):
                    return one, other
    return None


def _of_checkpoints(number: int, directory: Directory) -> Iterator[Proof]:
    for checkpoint in directory.checkpoints:
        end_offset, epoch = checkpoint.id
        if checkpoint.proves and directory.log.epoch_of(end_offset - 1) in (epoch, NONE):
            yield Proof(
                end_offset=end_offset, epoch=epoch, number=number, kind="checkpoint",
                text=f"a checkpoint of node {directory.node_id} ends there",
            )  # fmt: skip


def _of_records(number: int, log: Log) -> Iterator[Proof]:
    """Yield what records prove of those before them."""
    firsts = {batch.epoch: batch for batch in log.controls if batch.find(LeaderChange) is not None}
    for span in log.epochs:
        first = firsts.get(span.epoch)
        if first is not None and span.data_offset > first.base_offset and not first.is_forced:
            yield _proof(
                number, first, "data",
                f"the leader of epoch {span.epoch} appended data at offset {span.data_offset}, "
                f"which it does once its first record is committed",
            )  # fmt: skip
    before: ControlBatch | None = None
    for batch in log.controls:
        if batch.find(Voters) is None:
            continue
        is_checked = batch.find(LeaderChange) is None and batch.find(KRaftVersion) is None
        if is_checked:
            why = f"the voters were changed again at offset {batch.base_offset}"
            if before is not None:
                yield _proof(number, before, "voters-change", why)
            first = firsts.get(batch.epoch)
            if first is not None and not first.is_forced:
                yield _proof(number, first, "voters-change", why)
        before = batch


def _proof(number: int, batch: ControlBatch, kind: str, text: str) -> Proof:
    return Proof(
        end_offset=batch.last_offset + 1, epoch=batch.epoch, number=number, kind=kind, text=text
    )


def sets_since(directory: Directory, end_offset: int, proven: int) -> list[VoterSet]:
    """Return the voter sets of which what ends at ``end_offset`` needs a majority.

    They are the last one before that offset, and those before it, back to one that is committed.
    Static voters are those that the last leader before it named.
    """
    voter_sets = []
    for entry in reversed(directory.history):
        if entry.offset >= end_offset:
            continue
        voter_sets.append(entry.voters)
        if entry.offset < proven:
            return voter_sets
    if not voter_sets:
        controls = directory.log.controls[: directory.log.control_before(end_offset)]
        for batch in reversed(controls):
            change = batch.find(LeaderChange)
            if change is not None:
                return [static_set(change.voters)]
        return [static_set(directory.static_ids)] if directory.static_ids else []
    return voter_sets


def _holders(
    comparison: Comparison, numbers: Sequence[int], reference: int, end_offset: int
) -> list[int]:
    return [one for one in numbers if comparison.holds(one, reference, end_offset)]


def _is_majority(comparison: Comparison, holders: Sequence[int], voters: VoterSet) -> bool:
    keys = [comparison.directories[one].key for one in holders]
    count = sum(any(voter.key.matches(key) for key in keys) for voter in voters)
    return count >= voters.majority


def _furthest(
    comparison: Comparison, members: Sequence[int], reference: int, ends: Sequence[int], proven: int
) -> tuple[int, list[int]] | None:
    """Return the furthest of ``ends`` that majorities hold, and who holds it."""
    log = comparison.directories[reference]
    for end_offset in sorted(set(ends), reverse=True):
        sets = sets_since(log, end_offset, proven)
        holders = _holders(comparison, members, reference, end_offset)
        if sets and all(_is_majority(comparison, holders, one) for one in sets):
            return end_offset, holders
    return None


def _of_one_epoch(comparison: Comparison, proven: int) -> Iterator[Proof]:
    directories = comparison.directories
    by_epoch: dict[int, list[int]] = {}
    for number, directory in enumerate(directories):
        vote = directory.vote
        if directory.is_readable and vote is not None and vote.epoch == directory.log.last_epoch:
            by_epoch.setdefault(vote.epoch, []).append(number)
    for epoch, members in by_epoch.items():
        reference = max(members, key=lambda one: directories[one].log.end_offset)
        log = directories[reference].log
        if any(
            (parting := comparison.parting(one, reference)) and parting.is_conflict
            for one in members
        ):
            continue
        ends = [
            end
            for end in (directories[one].log.end_offset for one in members)
            if log.epoch_of(end - 1) == epoch
        ]
        held = _furthest(comparison, members, reference, ends, proven)
        if held is not None:
            yield Proof(
                end_offset=held[0], epoch=epoch, number=reference, kind="majority",
                text=f"{_who_holds(comparison, held[1], reference)}, and has seen no epoch "
                f"after {epoch}",
            )  # fmt: skip


def _of_all_electable(
    comparison: Comparison, candidates: Sequence[Candidate], proven: int
) -> Iterator[Proof]:
    directories = comparison.directories
    electable = [one.number for one in candidates if one.is_electable]
    if not electable:
        return
    reference = electable[0]
    log = directories[reference].log
    readable = [number for number, one in enumerate(directories) if one.is_readable]
    ends = [comparison.agree_until(reference, one) for one in readable if one != reference]
    ends.append(log.end_offset)
    limit = min(
        (comparison.agree_until(reference, one) for one in electable[1:]), default=log.end_offset
    )
    ends = [end for end in ends if log.first < end <= limit]
    held = _furthest(comparison, readable, reference, ends, proven)
    if held is not None:
        yield Proof(
            end_offset=held[0], epoch=log.epoch_of(held[0] - 1), number=reference,
            kind="all-electable",
            text=f"{_who_holds(comparison, held[1], reference)}, and so does every node that "
            f"can be elected",
        )  # fmt: skip


def _who_holds(comparison: Comparison, numbers: Sequence[int], reference: int) -> str:
    """Return the clause that a majority of the voters holds something; others are not named."""
    directories = comparison.directories
    voters = directories[reference].in_force.voters
    ids = sorted({directories[number].node_id for number in numbers})
    listed = [str(one) for one in ids if one in voters] or [str(one) for one in ids]
    who = f"nodes {', '.join(listed)}" if len(listed) > 1 else f"node {listed[0]}"
    return f"a majority of the voters holds it ({who})"
