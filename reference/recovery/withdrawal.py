"""A change of voters that cannot have been committed is taken back.

A leader uses new voters as soon as they are in its log, so whatever is behind a VotersRecord is
committed by a majority of *these* voters. If all of them are seen, and fewer than a majority of
them have the record, then neither it nor what is behind it is committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kraftspec.reference.raft.control import KRaftVersion, LeaderChange, Voters
from kraftspec.reference.raft.types import NONE, ReplicaKey
from kraftspec.reference.raft.voters import VoterSet
from kraftspec.reference.recovery.judgement import Judgement
from kraftspec.reference.recovery.reading import ControlBatch
from kraftspec.reference.recovery.refusals import Refusal, refusal


class Withdrawal(NamedTuple):
    """Where the log that is kept ends then, who votes by it, and what speaks against it."""

    offset: int
    voters: VoterSet
    refusals: list[Refusal]


def find_withdrawal(judgement: Judgement, source: int, keepers: Sequence[int]) -> Withdrawal:
    """Let the log of directory ``source`` end before its last change of voters, or say why not."""
    one = judgement.directories[source]
    batches = [batch for batch in one.log.controls if batch.find(Voters) is not None]
    change = batches[-1] if batches else None
    before = None if change is None else one.voters_at(change.base_offset)
    is_first = change is None or any(change.find(kind) for kind in (LeaderChange, KRaftVersion))
    if change is None or before is None or is_first:
        text = f"the log of node {one.node_id} ends with no change of voters"
        return Withdrawal(NONE, VoterSet(), [refusal("withdraw-nothing", text)])
    refusals = list(_refused(judgement, source, keepers, change, before.voters))
    return Withdrawal(change.base_offset, before.voters, refusals)


def _refused(
    judgement: Judgement, source: int, keepers: Sequence[int], change: ControlBatch, old: VoterSet
) -> Iterator[Refusal]:
    new: VoterSet = change.find(Voters).voters
    at, end = change.base_offset, change.last_offset + 1
    numbers = {one.key: number for number, one in enumerate(judgement.directories)}
    keys: set[ReplicaKey] = {voter.key for voters in (old, new) for voter in voters}
    if not_given := sorted(key.id for key in keys if key not in numbers):
        text = (
            f"whether the change of voters at offset {at} is committed depends on nodes whose "
            f"directories are not given: {', '.join(map(str, not_given))}"
        )
        yield refusal("withdraw-not-given", text)
        return
    holders = {key for key in keys if judgement.comparison.holds(numbers[key], source, end)}
    is_proven = judgement.certain is not None and judgement.certain.end_offset > at
    if is_proven or sum(voter.key in holders for voter in new) >= new.majority:
        text = f"the change of voters at offset {at} may be committed"
        yield refusal("withdraw-committed", text)
    kept = {judgement.directories[number].key for number in keepers}
    if others := sorted(key.id for key in holders - kept):
        text = f"the change is also in the logs of nodes {', '.join(map(str, others))}"
        yield refusal("withdraw-not-kept", text)
    if sum(voter.key in kept for voter in old) < old.majority:
        text = (
            f"without the change the voters are {', '.join(map(str, old.ids))}, and the nodes to "
            f"keep are no majority of them"
        )
        yield refusal("withdraw-not-kept", text)
