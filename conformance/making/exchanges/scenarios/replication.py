"""Fetch and FetchSnapshot at a leader: records, divergence, snapshots, the high watermark."""

from __future__ import annotations

from itertools import accumulate

from kraftspec.conformance.making.exchanges import requests as rq
from kraftspec.conformance.making.exchanges.record import Recording
from kraftspec.conformance.making.exchanges.scenarios.bases import candidate, end_of, replaced
from kraftspec.conformance.making.exchanges.scenarios.case import Case, since
from kraftspec.conformance.making.exchanges.scenarios.elections import (
    WRONG_SNAPSHOTS,
    campaigning,
    leads,
    single,
)
from kraftspec.conformance.making.exchanges.scenarios.wire import EPOCH
from kraftspec.conformance.raw.node import NodeState
from kraftspec.fastpath.batch_reader import read_header
from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.generated.kafka import DescribeQuorumRequest, FetchSnapshotRequest

FETCHES = range(13, 19)
FIRST_EPOCH = 1
CUT_AT = 6  # The offset from which fetches with a limit go on.


def fetches(r: Recording) -> None:
    """By offset, epoch and size; the high watermark is not known yet."""
    end = end_of(r.state)
    for version in FETCHES:
        r.ask(rq.fetch(version, EPOCH, end, last_epoch=5, sender=4), version, note="its opening")
        r.ask(rq.fetch(version, EPOCH, 0, last_epoch=0, sender=4), version, note="all there is")
        r.ask(rq.fetch(version, EPOCH, end + 1, last_epoch=EPOCH, sender=4), version, note="none")
    for offset, last_epoch in (
        (1, 1), (3, 1), (4, 1), (6, 1), (6, 3), (7, 3), (8, 3), (8, 5), (9, 5), (end, 5),
    ):  # fmt: skip
        message = rq.fetch(17, EPOCH, offset, last_epoch=last_epoch, sender=4)
        r.ask(message, 17, note=f"from {offset}, after epoch {last_epoch}")
    for offset, last_epoch in (
        (7, 1), (end, 1), (9, 3), (end + 5, EPOCH), (end + 5, 5), (6, 2), (7, 2), (5, 0), (3, 4),
        (end, 6), (3, 5), (end + 1, 5), (1, 0), (0, 3), (0, EPOCH),
    ):  # fmt: skip
        message = rq.fetch(17, EPOCH, offset, last_epoch=last_epoch, sender=4)
        r.ask(message, 17, note=f"another log: {offset}, after epoch {last_epoch}")
    for size in (0, 1, *_sizes(r)):
        message = rq.fetch(17, EPOCH, CUT_AT, last_epoch=1, sender=4, max_bytes=size)
        r.ask(message, 17, note=f"at most {size} bytes, which is so many whole batches")


def cut_batches(r: Recording) -> None:
    """Limits that are not those of a batch: Kafka sends the first part of the last one."""
    for size in _sizes(r):
        message = rq.fetch(17, EPOCH, CUT_AT, last_epoch=1, sender=4, max_bytes=size + 70)
        r.ask(message, 17, note=f"at most {size + 70} bytes")


def _sizes(r: Recording) -> list[int]:
    """Return how many bytes the first one, two and three batches from CUT_AT on have."""
    batches = [bytes.fromhex(batch) for batch in r.state.log]
    lengths = [len(batch) for batch in batches if read_header(batch).last_offset >= CUT_AT]
    return list(accumulate(lengths))[:3]


def fetch_errors(r: Recording) -> None:
    """What is refused."""
    end = end_of(r.state)
    for version in FETCHES:
        r.ask(rq.fetch(version, EPOCH - 1, end, last_epoch=5), version, note="an older epoch")
        r.ask(rq.fetch(version, EPOCH + 1, end, last_epoch=5), version, note="a newer epoch")
        r.ask(rq.fetch(version, EPOCH, -1, last_epoch=5), version, note="a negative offset")
        r.ask(rq.fetch(version, EPOCH, end, last_epoch=-1), version, note="no last epoch")
        r.ask(rq.fetch(version, EPOCH, end, last_epoch=EPOCH + 1), version, note="above its own")
    r.ask(rq.fetch(17, -1, end, last_epoch=-1), 17)
    r.ask(rq.fetch(17, -1, end, last_epoch=5), 17)
    r.ask(rq.fetch(17, EPOCH, end, last_epoch=5, max_wait_ms=-1), 17, note="a negative wait")
    r.ask(rq.fetch(17, EPOCH, end, last_epoch=5, cluster_id=rq.OTHER_CLUSTER_ID), 17)
    r.ask(rq.fetch(17, EPOCH, end, last_epoch=5, cluster_id=None), 17, note="no cluster id")
    r.ask(rq.fetch(17, EPOCH, end, last_epoch=5, topic_id=ZERO_UUID), 17)
    r.ask(rq.fetch(17, EPOCH, end, last_epoch=5, sender=-1), 17, note="a tool")
    r.ask(rq.fetch(17, EPOCH, end, last_epoch=5, partition=1), 17)


def commits(r: Recording) -> None:
    """Voters fetch; what a majority has is committed, once it is of this epoch."""
    end = end_of(r.state)
    message = rq.fetch(17, EPOCH, end, last_epoch=5, sender=2)
    r.ask(message, 17, note="a voter that has all but the opening of the epoch")
    r.ask(rq.describe_quorum(), 2, note="no high watermark")
    message = rq.fetch(17, EPOCH, end + 1, last_epoch=EPOCH, sender=4)
    r.ask(message, 17, note="an observer does not count")
    wrong = rq.directory_id(rq.NOBODY)
    message = rq.fetch(17, EPOCH, end + 1, last_epoch=EPOCH, sender_directory=wrong)
    r.ask(message, 17, note="nor does the id of a voter with another disk")
    message = rq.fetch(17, EPOCH, end + 1, last_epoch=EPOCH, sender_directory=ZERO_UUID)
    r.ask(message, 17, note="nor one without a disk")
    r.ask(rq.describe_quorum(), 2)
    message = rq.fetch(17, EPOCH, end + 1, last_epoch=EPOCH, sender=3)
    r.ask(message, 17, note="now it is committed")
    for version in DescribeQuorumRequest.VALID_VERSIONS:
        r.ask(rq.describe_quorum(), version)
    for version in FETCHES:
        r.ask(rq.fetch(version, EPOCH, end, last_epoch=5, sender=4), version)
        r.ask(rq.fetch(version, EPOCH, end + 1, last_epoch=EPOCH), version, note="the end")
    for known in (-1, 0, end, end + 1, end + 2):
        message = rq.fetch(
            18, EPOCH, end + 1, last_epoch=EPOCH, high_watermark=known, max_wait_ms=50
        )
        r.ask(message, 18, note=f"waits, or not: high watermark {known} is known")
    message = rq.fetch(17, EPOCH, end + 1, last_epoch=EPOCH, max_wait_ms=50)
    r.ask(message, 17, note="waits for more, in vain")
    r.ask(rq.fetch(17, EPOCH, end, last_epoch=5), 17, note="a voter goes back")
    r.ask(rq.describe_quorum(), 2, note="what is committed stays so")


def snapshot_errors(r: Recording) -> None:
    """FetchSnapshot where there is but the bootstrap checkpoint, which is not for others."""
    for version in FetchSnapshotRequest.VALID_VERSIONS:
        for snapshot in ((0, 0), (6, 3), (6, 1), (100, 9), (-1, -1)):
            r.ask(rq.fetch_snapshot(version, EPOCH, snapshot), version, note=f"{snapshot}")
        r.ask(rq.fetch_snapshot(version, EPOCH - 1, (0, 0)), version)
        r.ask(rq.fetch_snapshot(version, EPOCH + 1, (0, 0)), version)
        for fields in WRONG_SNAPSHOTS:
            note = ", ".join(f"{name} {value}" for name, value in fields.items())
            r.ask(rq.fetch_snapshot(version, EPOCH, (0, 0), **fields), version, note=note)


def snapshots(r: Recording) -> None:
    """A leader with snapshots: who is behind them is sent there."""
    end = end_of(r.state)
    oldest, *_, newest = (one for one in r.state.snapshots if one.end_offset)
    size = len(newest.hex) // 2
    for version in FETCHES:
        r.ask(rq.fetch(version, EPOCH, 0, last_epoch=0, sender=4), version, note="from nothing")
    for offset, last_epoch in (
        (1, 1), (oldest.end_offset, oldest.epoch), (oldest.end_offset - 1, oldest.epoch),
        (newest.end_offset, newest.epoch), (newest.end_offset - 1, newest.epoch),
        (newest.end_offset + 1, newest.epoch), (end, newest.epoch), (end, 1), (end, 0), (3, 3),
        (end + 4, EPOCH),
    ):  # fmt: skip
        message = rq.fetch(17, EPOCH, offset, last_epoch=last_epoch, sender=4)
        r.ask(message, 17, note=f"from {offset}, after epoch {last_epoch}")
    for snapshot in (newest, oldest):
        about = (snapshot.end_offset, snapshot.epoch)
        for version in FetchSnapshotRequest.VALID_VERSIONS:
            r.ask(rq.fetch_snapshot(version, EPOCH, about), version, note="whole")
            for position, count in ((0, 100), (100, 61), (size - 1, 100), (0, 0), (5, 1)):
                part = rq.fetch_snapshot(version, EPOCH, about, position, max_bytes=count)
                r.ask(part, version, note=f"{count} bytes from {position}")
    about = (newest.end_offset, newest.epoch)
    r.ask(rq.fetch_snapshot(1, EPOCH, about, cluster_id=rq.OTHER_CLUSTER_ID), 1)
    r.ask(rq.fetch_snapshot(1, EPOCH, about, cluster_id=None), 1, note="no cluster id")
    r.ask(rq.fetch_snapshot(1, EPOCH, about, sender=-1), 1, note="a tool")
    r.ask(rq.fetch_snapshot(1, EPOCH, about, sender=4), 1, note="who observes")


def no_such_snapshot(r: Recording) -> None:
    """What a leader with snapshots refuses."""
    newest = r.state.snapshots[-1]
    size = len(newest.hex) // 2
    about = (newest.end_offset, newest.epoch)
    for position in (-1, size, size + 1, 1 << 40):
        message = rq.fetch_snapshot(1, EPOCH, about, position)
        r.ask(message, 1, note=f"position {position} of {size}")
    for other in ((about[0] + 1, about[1]), (about[0], about[1] + 1), (0, 0)):
        r.ask(rq.fetch_snapshot(1, EPOCH, other), 1, note="one that there is not")
    r.ask(rq.fetch_snapshot(1, EPOCH - 1, about), 1, note="an older epoch")
    r.ask(rq.fetch_snapshot(1, EPOCH + 1, about), 1, note="a newer epoch")


def begins(r: Recording) -> None:
    """The first leader of a quorum: what it writes first, and what its state machine does."""
    end = r.end
    r.ask(rq.fetch(17, FIRST_EPOCH, 0, last_epoch=0), 17, note="all there is")
    r.ask(rq.describe_quorum(), 2)
    message = rq.fetch(17, FIRST_EPOCH, end, last_epoch=FIRST_EPOCH)
    r.ask(message, 17, note="now it is committed, and the state machine writes")
    r.appended()
    for version in FETCHES:
        message = rq.fetch(version, FIRST_EPOCH, end, last_epoch=FIRST_EPOCH, sender=4)
        r.ask(message, version, note="what it wrote")
    r.ask(rq.fetch(17, FIRST_EPOCH, 0, last_epoch=0, sender=4), 17, note="all there is")
    message = rq.fetch(17, FIRST_EPOCH, r.end, last_epoch=FIRST_EPOCH, sender=3)
    r.ask(message, 17, note="that is committed, too")
    r.ask(rq.describe_quorum(), 2)


def first(state: NodeState) -> NodeState:
    """It campaigns in the first epoch of all."""
    return candidate(state, FIRST_EPOCH)


def first_elected(r: Recording) -> None:
    """Voter 2 elects it."""
    vote = rq.vote_answer(FIRST_EPOCH, granted=True)
    r.answer(2, vote, 2, role="leader", writes=True)
    begins(r)


def beginning_late(state: NodeState) -> NodeState:
    """Its log begins at the end of its first snapshot."""
    kept = [one for one in state.snapshots if one.end_offset]
    return replaced(
        single(state),
        snapshots=kept,
        log=[
            batch
            for batch in state.log
            if read_header(bytes.fromhex(batch)).base_offset >= kept[0].end_offset
        ],
    )


REPLICATION = (
    Case("leader-first", "empty", first, first_elected),
    Case("leader-first-static", "empty-static", first, first_elected),
    Case("leader-first-checkpoint", "empty-checkpoint", first, first_elected, since("4.4.0")),
    Case("snapshots-fetched", "snapshots", single, snapshots),
    Case("snapshots-fetched-late", "snapshots", beginning_late, snapshots),
    Case("snapshots-snapshot-errors", "snapshots", single, no_such_snapshot),
    Case("leader-fetches", "lives", campaigning, leads(fetches)),
    Case("leader-cut-batches", "lives", campaigning, leads(cut_batches)),
    Case("leader-fetch-errors", "lives", campaigning, leads(fetch_errors)),
    Case("leader-commits", "lives", campaigning, leads(commits)),
    Case("leader-commits-static", "static", campaigning, leads(commits)),
    Case("leader-snapshot-errors", "lives", campaigning, leads(snapshot_errors)),
)
