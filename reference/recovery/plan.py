"""Which cure a lost quorum gets: the mildest after which the nodes to keep elect a leader.

* *Graft*: the nodes to keep get the batches that the longest log has and theirs has not, byte for
  byte; where that log begins behind theirs, its checkpoint first, as a follower would fetch it. If
  they then are a majority of the voters, nothing else is written.
* *Withdraw*, if asked for: the log that is kept ends before its last change of voters.
* *Force*: behind that a control batch, the same in all their logs: LeaderChange and the nodes to
  keep as the voters, in an epoch far above every other.
* A static quorum has its voters in the properties: it gets the graft, and the epoch in
  quorum-state; or it is made dynamic by force.

Nothing is written here. What speaks against a cure is in ``Plan.refusals``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.reference.raft.control import KRaftVersion, Voters
from kraftspec.reference.raft.types import NONE, Endpoints, VersionRange, Voter
from kraftspec.reference.raft.voters import VoterSet
from kraftspec.reference.recovery.elections import EPOCH_MAX
from kraftspec.reference.recovery.forced import (
    PADDING_MAX,
    forced_at_end,
    forced_batches,
    padding,
    voters_offset,
)
from kraftspec.reference.recovery.judgement import Judgement
from kraftspec.reference.recovery.reading import FORCED_EPOCHS, Checkpoint, Directory
from kraftspec.reference.recovery.refusals import Refusal, refusal, refused_directories
from kraftspec.reference.recovery.rules import EPOCHS_LEFT_MIN
from kraftspec.reference.recovery.walker import batches_from
from kraftspec.reference.recovery.withdrawal import find_withdrawal

if TYPE_CHECKING:
    from kraftspec.reference.log.files import ReadableFiles

_NEW_VERSIONS = VersionRange(0, 1)  # Of a node that was no voter: those of Kafka since 3.9.


class Request(msgspec.Struct, kw_only=True, frozen=True):
    """What is asked for. ``keep`` are ids; ``source`` the path of the log that is kept, or "".

    ``pad_to`` is the offset that the last voters have at the least; 0: wherever the log ends.
    """

    keep: tuple[int, ...]
    source: str = ""
    endpoints: Mapping[int, Endpoints] = {}
    epoch_bump: int = FORCED_EPOCHS
    accepts_loss: bool = False
    to_dynamic: bool = False
    withdraws_voters: bool = False
    pad_to: int = 0


class Change(msgspec.Struct, kw_only=True):
    """What the directory of a node to keep gets, in this order.

    Its log is cut at ``cut_at``; it gets ``checkpoint`` of the source, whose end it then begins at,
    the batches of the source from ``copy_from`` to ``copy_to``, and what the plan forces if it
    ``takes_batch``. Last comes quorum-state of ``vote_epoch``. -1 and None: nothing of that kind.
    """

    number: int
    cut_at: int = NONE
    checkpoint: Checkpoint | None = None
    copy_from: int = NONE
    copy_to: int = NONE
    takes_batch: bool = False
    vote_epoch: int = NONE

    @property
    def changes_log(self) -> bool:
        """Whether the log is written to."""
        return self.cut_at >= 0 or self.copy_to >= 0 or self.takes_batch

    @property
    def is_empty(self) -> bool:
        """Whether the directory is as it should be."""
        return not self.changes_log and self.vote_epoch < 0


class Loss(msgspec.Struct, kw_only=True, frozen=True):
    """Records from ``start`` to ``end`` of directory ``number`` that nobody will have any more."""

    number: int
    start: int
    end: int


class Plan(msgspec.Struct, kw_only=True):
    """A cure. ``source`` is the number of the log that is kept, ``voters`` who will vote.

    ``batch`` has the batches that are forced, from ``end_offset`` of the source on and in
    ``epoch``. It is empty if the graft will do. If it ``is_begun``, a log has them, or the first
    of them; then it has the rest. ``withdrawn_at`` is where the log that is kept is cut, or -1,
    and ``withdrawn_voters`` are in force then.
    """

    judgement: Judgement
    request: Request
    source: int = NONE
    keepers: list[int] = []  # Numbers of directories.
    voters: VoterSet = VoterSet()
    epoch: int = NONE
    batch: bytes = b""
    is_static: bool = False
    is_begun: bool = False
    withdrawn_at: int = NONE
    withdrawn_voters: VoterSet = VoterSet()
    changes: list[Change] = []
    losses: list[Loss] = []
    refusals: list[Refusal] = []

    @property
    def directories(self) -> Sequence[Directory]:
        """The directories, by their numbers."""
        return self.judgement.directories

    @property
    def log_source(self) -> Directory:
        """The directory whose log is kept."""
        return self.directories[self.source]

    @property
    def end_offset(self) -> int:
        """Where the log that is kept ends."""
        return self.log_source.log.end_offset if self.withdrawn_at < 0 else self.withdrawn_at

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to write."""
        return not self.refusals and not self.changes

    def left_out(self) -> list[Directory]:
        """Return the given directories of voters, by any of the logs, that are not kept."""
        ids = {voter.key.id for one in self.directories for voter in one.in_force.voters}
        kept = set(self.keepers)
        return [
            one
            for number, one in enumerate(self.directories)
            if number not in kept and one.node_id in ids
        ]


def plan_of(
    judgement: Judgement, request: Request, files: ReadableFiles, in_use: Sequence[int] = ()
) -> Plan:
    """Choose the cure; ``in_use`` are the numbers of directories that a process has locked."""
    plan = Plan(judgement=judgement, request=request)
    plan.refusals += refused_directories(judgement)
    for id_ in request.keep:
        numbers = [at for at, one in enumerate(judgement.directories) if one.node_id == id_]
        plan.keepers += numbers[:1]
        if not numbers:
            plan.refusals.append(refusal("not-given", f"no directory is that of node {id_}"))
    if plan.refusals:
        return plan
    _choose_source(plan)
    if request.withdraws_voters and not plan.refusals:
        _check_elections(plan)
        if not plan.refusals:
            withdrawal = find_withdrawal(judgement, plan.source, plan.keepers)
            plan.withdrawn_at, plan.withdrawn_voters = withdrawal.offset, withdrawal.voters
            plan.refusals += withdrawal.refusals
    if not plan.refusals:
        _check_voters(plan, in_use)
    if not plan.refusals:
        _find_changes(plan, files)
        _check_elections(plan)
        _check_losses(plan)
    return plan


def _choose_source(plan: Plan) -> None:
    directories = plan.directories
    if plan.request.source:
        numbers = [at for at, one in enumerate(directories) if one.path == plan.request.source]
        if not numbers:
            text = f"--source {plan.request.source} is none of the directories"
            plan.refusals.append(refusal("not-given", text))
            return
        given = numbers[0]
        plan.source = next((at for at in plan.keepers if _has_cure(plan, at, given)), given)
        return
    plan.source = max(
        range(len(directories)),
        key=lambda at: (directories[at].log.position, at in plan.keepers),
    )


def _has_cure(plan: Plan, number: int, source: int) -> bool:
    """Whether a log is that of the source and what was forced behind it, by a call before."""
    batch = forced_at_end(plan.directories[number].log)
    ends = {
        plan.directories[source].log.end_offset,
        plan.judgement.comparison.agree_until(number, source),
    }
    return batch is not None and ends == {batch.base_offset}


# ---- who votes ---------------------------------------------------------------------------------


def _in_force(plan: Plan) -> VoterSet:
    """Return the voters by the log that is kept; a broker may know none, who keeps it does."""
    if plan.withdrawn_at >= 0:
        return plan.withdrawn_voters
    known = [plan.log_source, *(plan.directories[at] for at in plan.keepers)]
    return next((one.in_force.voters for one in known if len(one.in_force.voters)), VoterSet())


def _check_voters(plan: Plan, in_use: Sequence[int]) -> None:
    kept = [plan.directories[at] for at in plan.keepers]
    voters = _in_force(plan)
    level = max(one.kraft_version for one in [plan.log_source, *kept])
    plan.is_static = level == 0 and not plan.request.to_dynamic
    for at in in_use:
        one = plan.directories[at]
        if at in plan.keepers or one.node_id in voters:
            text = f"the node {one.node_id} runs: {one.path} is locked"
            plan.refusals.append(refusal("in-use", text))
    if not len(voters):
        plan.refusals.append(refusal("no-voters-known", "no directory says who the voters are"))
        return
    is_lost = not any(voters.is_voter(one.key) for one in plan.directories)
    members = []
    for at, one in zip(plan.keepers, kept, strict=True):
        voter = voters.get(one.node_id)
        if voter is None or not voter.key.matches(one.key):
            former = None
            if is_lost and not plan.is_static:
                former = _former_voter(one) or _adopting(plan, at)
            if former is None:
                plan.refusals.append(_other_node(one, voter, voters))
                continue
            voter = former
        endpoints = plan.request.endpoints.get(one.node_id, voter.endpoints)
        if not endpoints and not plan.is_static:
            text = f"no log says where node {one.node_id} listens as a controller"
            plan.refusals.append(refusal("no-address", text))
        if plan.request.to_dynamic and one.directory_id == ZERO_UUID:
            text = f"{one.path}/meta.properties has no directory.id"
            plan.refusals.append(refusal("no-directory-id", text))
        versions = voter.kraft_versions if level else _NEW_VERSIONS
        members.append(Voter(one.key, endpoints, versions))
    plan.voters = VoterSet(members)
    if plan.request.to_dynamic and level and not _is_begun(plan):
        plan.refusals.append(refusal("is-dynamic", f"kraft.version is {level}"))


def _former_voter(one: Directory) -> Voter | None:
    """Return a node as it voted by an earlier voter set of its own log: it was removed."""
    for entry in reversed(one.history):
        voter = entry.voters.get(one.node_id)
        if voter is not None and voter.key == one.key:
            return voter
    return None


def _adopting(plan: Plan, number: int) -> Voter | None:
    """Return a node whose log is the beginning of another's: blank, or a graft that was begun."""
    one = plan.directories[number]
    others = set(range(len(plan.directories))) - set(plan.keepers)
    ends = [plan.judgement.comparison.agree_until(number, at) for at in others]
    return Voter(one.key, (), _NEW_VERSIONS) if one.log.end_offset in ends else None


def _other_node(one: Directory, voter: Voter | None, voters: VoterSet) -> Refusal:
    if voter is None:
        ids = ", ".join(map(str, voters.ids))
        return refusal("not-a-voter", f"node {one.node_id} is no voter: those are {ids}")
    text = (
        f"node {one.node_id} has the directory id {one.directory_id}, the voter's is "
        f"{voter.key.directory_id}"
    )
    return refusal("directory-id-differs", text)


# ---- what is written ---------------------------------------------------------------------------


def _find_changes(plan: Plan, files: ReadableFiles) -> None:
    changes = [_graft(plan, at, files) for at in plan.keepers]
    highest = max(one.epoch for one in plan.directories)
    plan.is_begun = not plan.is_static and _is_begun(plan)
    if plan.is_static:
        _raise_epoch(plan, changes, highest)
    elif plan.is_begun:
        plan.epoch = plan.log_source.log.last_epoch
        plan.batch = _rest_of_forced(plan)
    elif not _elects_after_graft(plan):
        _choose_epoch(plan, highest)
        _check_padding(plan)
        if not plan.refusals:
            plan.batch = _forced(plan)
    is_forced = plan.is_begun or bool(plan.batch) or bool(plan.refusals)
    if plan.request.pad_to and not is_forced:
        text = "nothing is forced here, so there are no voters that a node could pass over"
        plan.refusals.append(refusal("no-padding", text))
    for change in changes:
        change.takes_batch = bool(plan.batch)
        vote = plan.directories[change.number].vote
        if plan.epoch >= 0 and (vote is None or vote.epoch < plan.epoch):
            change.vote_epoch = plan.epoch
    plan.changes = [change for change in changes if not change.is_empty]


def _choose_epoch(plan: Plan, highest: int) -> None:
    plan.epoch = highest + plan.request.epoch_bump
    if plan.epoch > EPOCH_MAX - EPOCHS_LEFT_MIN:
        text = f"the epoch would be {plan.epoch}, and the last one is {EPOCH_MAX}"
        plan.refusals.append(refusal("epochs-used-up", text))


def _check_padding(plan: Plan) -> None:
    if plan.request.pad_to - plan.end_offset > PADDING_MAX:
        text = f"the log ends at {plan.end_offset}: {PADDING_MAX} records at the most are made up"
        plan.refusals.append(refusal("no-padding", text))


def _raise_epoch(plan: Plan, changes: Sequence[Change], highest: int) -> None:
    """Let nobody who returns with an older epoch win, unless that was done before."""
    kept = [plan.directories[at] for at in plan.keepers]
    logs = max(one.log.last_epoch for one in plan.directories)
    is_raised = all(one.epoch == highest for one in kept) and highest >= logs + FORCED_EPOCHS
    if is_raised and all(change.is_empty for change in changes):
        plan.epoch = highest
    else:
        _choose_epoch(plan, highest)


def _is_begun(plan: Plan) -> bool:
    """Whether the log that is kept ends with the very voters that would be forced."""
    batch = forced_at_end(plan.log_source.log)
    return batch is not None and bool(batch.find(Voters).voters == plan.voters)


def _rest_of_forced(plan: Plan) -> bytes:
    """Return the padding that a begun recovery lacks."""
    log = plan.log_source.log
    if voters_offset(log) >= plan.request.pad_to:
        return b""
    _check_padding(plan)
    time_ms = log.controls[-1].timestamp_ms
    rest = padding(plan.voters, log.end_offset, plan.request.pad_to, plan.epoch, time_ms)
    return b"" if plan.refusals else b"".join(rest)


def _elects_after_graft(plan: Plan) -> bool:
    """Whether the nodes to keep are a majority of the voters that the log itself names."""
    voters = _in_force(plan) if plan.withdrawn_at >= 0 else plan.log_source.in_force.voters
    known = [(voters.get(voter.key.id), voter) for voter in plan.voters]
    is_same = all(one is not None and one.is_same(voter) for one, voter in known)
    return is_same and len(known) >= voters.majority


def _forced(plan: Plan) -> bytes:
    """Return what is forced: the same for all nodes to keep, and each time that it is made."""
    log = plan.log_source.log
    # The version of first voters is in the checkpoint 0-0, which followers do not fetch.
    has_version = log.start_offset > 0 and plan.log_source.kraft_version > 0
    has_version |= any(
        batch.find(KRaftVersion) is not None
        for batch in log.controls
        if batch.base_offset < plan.end_offset
    )
    times = [one.log.last_timestamp_ms for one in [plan.log_source, *plan.directories]]
    batches = forced_batches(
        plan.voters,
        base_offset=plan.end_offset,
        epoch=plan.epoch,
        timestamp_ms=next((time for time in times if time >= 0), 0),
        has_version=has_version,
        pad_to=plan.request.pad_to,
    )
    return b"".join(batches)


def _graft(plan: Plan, number: int, files: ReadableFiles) -> Change:
    """Return what makes the log of a directory that of the source."""
    change = Change(number=number)
    if number == plan.source:
        change.cut_at = plan.withdrawn_at
        return change
    comparison = plan.judgement.comparison
    one, source = plan.directories[number], plan.log_source
    own, kept = one.log, source.log
    agreed = min(comparison.agree_until(number, plan.source), plan.end_offset)
    beyond = [each.name for each in one.checkpoints if each.proves and each.id.end_offset > agreed]
    if beyond:
        text = f"node {one.node_id} has {beyond[-1]}, and the log to keep is its own to {agreed}"
        plan.refusals.append(refusal("checkpoint-beyond", text))
    if agreed < own.end_offset:
        change.cut_at = agreed
    start = agreed
    if kept.first > agreed or not comparison.holds(number, plan.source, agreed):
        ends = [each for each in source.checkpoints if each.proves]
        ends = [each for each in ends if kept.first <= each.id.end_offset <= plan.end_offset]
        if not ends:
            text = f"the log of node {source.node_id} begins at {kept.first}, behind {agreed}"
            plan.refusals.append(refusal("gap", text))
            return change
        change.checkpoint, change.cut_at = ends[0], NONE
        start = ends[0].id.end_offset
    if start < plan.end_offset or change.checkpoint is not None:
        change.copy_from, change.copy_to = start, plan.end_offset
    due = start
    for header, _ in batches_from(source, files, start, plan.end_offset):
        if header.base_offset != due:
            break
        due = header.last_offset + 1
    if due != plan.end_offset:
        text = f"the batches of node {source.node_id} from {start} on do not follow offset {due}"
        plan.refusals.append(refusal("gap", text))
    return change


# ---- what speaks against it --------------------------------------------------------------------


def _check_elections(plan: Plan) -> None:
    """Refuse where a leader can be elected without any of this."""
    electable = [one for one in plan.judgement.candidates if one.is_electable]
    if plan.is_begun:
        # Who has the batch needs only the nodes to keep; what is left is done in any case.
        electable = [one for one in electable if one.number not in plan.keepers]
    elif _has_moved(plan) or _completes_logs(plan, [one.number for one in electable]):
        electable = []
    for one in electable:
        votes = ", ".join(map(str, one.granted))
        text = f"node {one.key.id} could be elected as it is, by the votes of {votes}"
        plan.refusals.append(refusal("could-elect", text))


def _completes_logs(plan: Plan, electable: Sequence[int]) -> bool:
    """Whether those who could be elected are kept, and only get what a longer log has.

    Nothing is forced then, and without it they would lead without these records. A graft that was
    begun looks so, too.
    """
    copies = all(
        one.cut_at < 0 and one.checkpoint is None and one.vote_epoch < 0 and not one.takes_batch
        for one in plan.changes
    )
    return bool(plan.changes) and copies and set(electable) <= set(plan.keepers)


def _has_moved(plan: Plan) -> bool:
    """Whether all voters are kept, and some listen elsewhere: without that nobody finds them."""
    voters = _in_force(plan)
    moved = [one for one in plan.voters if one.key.id in plan.request.endpoints]
    return (
        plan.voters.ids == voters.ids
        and not plan.is_static
        and any(one.endpoints != voters.endpoints(one.key.id) for one in moved)
    )


def _check_losses(plan: Plan) -> None:
    comparison = plan.judgement.comparison
    for at, one in enumerate(plan.directories):
        agreed = comparison.agree_until(at, plan.source)
        start = min(agreed, plan.end_offset)  # What is before its log is in its checkpoint.
        if start >= one.log.end_offset:
            continue
        plan.losses.append(Loss(number=at, start=start, end=one.log.end_offset))
        if plan.request.accepts_loss or agreed > plan.end_offset:
            continue  # What is withdrawn was asked for, and is not committed.
        text = (
            f"node {one.node_id} has records from {start} to {one.log.end_offset} (epoch "
            f"{one.log.last_epoch}) that the log to keep, of node {plan.log_source.node_id}, has "
            f"not"
        )
        plan.refusals.append(refusal("loss", text))
