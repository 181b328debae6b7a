"""What is appended by force: who leads and who votes, in an epoch far above every other.

A control batch has LeaderChange, KRaftVersion if the log before it has none, and Voters. A node
whose log was longer than the one that is kept does not read voters before the end that it had. For
such a node padding follows, NoOpRecords up to an offset, and the same voters again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kraftspec.fastpath.batch_writer import encode_batch
from kraftspec.generated.kafka import NoOpRecord
from kraftspec.reference.log.control import encode_control_values
from kraftspec.reference.metadata.frames import write_frame
from kraftspec.reference.profiles.kafka.records import encode_control
from kraftspec.reference.raft.control import KRaftVersion, LeaderChange, Voters

if TYPE_CHECKING:
    from kraftspec.reference.raft.voters import VoterSet
    from kraftspec.reference.recovery.reading import ControlBatch, Log

PADDING_MAX: Final = 1_000_000  # Records; idle, a controller appends that in six days.
_BATCH_RECORDS: Final = 1_000
_NO_OP: Final = write_frame(NoOpRecord(), 0)


def forced_batches(
    voters: VoterSet,
    *,
    base_offset: int,
    epoch: int,
    timestamp_ms: int,
    has_version: bool,
    pad_to: int = 0,
) -> Iterator[bytes]:
    """Yield the batches. The last voters are at ``pad_to`` or behind it, within PADDING_MAX."""
    ids = voters.ids
    records = [LeaderChange(ids[0], ids, ids), *(() if has_version else (KRaftVersion(1),))]
    yield encode_control_values(
        [encode_control(record) for record in [*records, Voters(voters)]],
        base_offset=base_offset,
        epoch=epoch,
        timestamp_ms=timestamp_ms,
    )
    if base_offset + len(records) < pad_to:
        start = base_offset + len(records) + 1
        yield from padding(voters, start, pad_to, epoch, timestamp_ms)


def padding(
    voters: VoterSet, start: int, pad_to: int, epoch: int, timestamp_ms: int
) -> Iterator[bytes]:
    """Yield NoOpRecords from ``start`` to ``pad_to``, and the voters behind them."""
    for offset in range(start, pad_to, _BATCH_RECORDS):
        yield encode_batch(
            [_NO_OP] * min(_BATCH_RECORDS, pad_to - offset),
            timestamps=timestamp_ms,
            base_offset=offset,
            partition_leader_epoch=epoch,
        )
    yield encode_control_values(
        [encode_control(Voters(voters))],
        base_offset=max(start, pad_to),
        epoch=epoch,
        timestamp_ms=timestamp_ms,
    )


def forced_at_end(log: Log) -> ControlBatch | None:
    """Return the forced batch that a log ends with: behind it there is padding at the most.

    Nobody leads the epoch of such a batch, so whatever has that epoch is of the recovery.
    """
    for batch in reversed(log.controls[-2:]):
        if batch.is_forced:
            return batch if batch.epoch == log.last_epoch else None
    return None


def voters_offset(log: Log) -> int:
    """Return the offset of the last VotersRecord; -1 if the log has none."""
    for batch in reversed(log.controls):
        for offset, record in reversed(batch.records):
            if isinstance(record, Voters):
                return offset
    return -1
