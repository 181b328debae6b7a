"""Appends that share a batch, and what becomes of each."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from tests.reference.node.quorum import Quorum, committed_bytes, run

from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.walk import iterate_headers
from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.node.appending import (
    SHARED_BYTES_MAX,
    Appended,
    Appending,
    NotAppendedError,
)
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev

EPOCH = 3
BASE_OFFSET = 100


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def looped(*arguments: Any, **named: Any) -> None:
        asyncio.run(test(*arguments, **named))

    return looped


class Stage:
    """An inbox whose events the test takes, as the core would."""

    def __init__(self) -> None:
        self.inbox: deque[ev.Event] = deque()
        self.appending = Appending(self.inbox, self.inbox.append)
        self.futures: list[asyncio.Future[Appended]] = []

    def add(self, *records: bytes, epoch: int = EPOCH) -> None:
        self.futures.append(self.appending.add(epoch, records))

    def requests(self) -> list[ev.AppendRequested]:
        return [event for event in self.inbox if isinstance(event, ev.AppendRequested)]

    def batches(self) -> list[list[Any]]:
        return [list(request.records) for request in self.requests()]

    def take(self) -> ev.AppendRequested:
        event = self.inbox.popleft()
        assert isinstance(event, ev.AppendRequested)
        return event

    def append(self, base_offset: int) -> None:
        """Let the core append the next batch at an offset."""
        event = self.take()
        last_offset = base_offset + len(event.records) - 1
        self.appending.appended(fx.Appended(event.append_id, EPOCH, base_offset, last_offset))

    def errors(self) -> list[int]:
        errors = [future.exception() for future in self.futures if future.done()]
        return [error.error for error in errors if isinstance(error, NotAppendedError)]


@in_loop
async def test_each_append_is_told_its_own_offsets() -> None:
    stage = Stage()
    stage.add(b"a")
    stage.add(b"b", b"c")
    stage.add(b"d")
    assert stage.batches() == [[b"a", b"b", b"c", b"d"]]
    stage.append(BASE_OFFSET)
    stage.appending.committed(BASE_OFFSET + 3, EPOCH)
    assert not any(future.done() for future in stage.futures)
    stage.appending.committed(BASE_OFFSET + 4, EPOCH)
    assert [future.result() for future in stage.futures] == [
        Appended(EPOCH, BASE_OFFSET, BASE_OFFSET),
        Appended(EPOCH, BASE_OFFSET + 1, BASE_OFFSET + 2),
        Appended(EPOCH, BASE_OFFSET + 3, BASE_OFFSET + 3),
    ]


@in_loop
async def test_what_the_core_has_taken_grows_no_more() -> None:
    stage = Stage()
    stage.add(b"a")
    taken = stage.take()
    stage.add(b"b")
    assert (taken.records, stage.batches()) == ([b"a"], [[b"b"]])


@in_loop
async def test_no_append_passes_another_event() -> None:
    stage = Stage()
    stage.add(b"a")
    stage.inbox.append(ev.Tick())
    stage.add(b"b")
    assert [type(event) for event in stage.inbox] == [
        ev.AppendRequested,
        ev.Tick,
        ev.AppendRequested,
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((), (b"a",)),
        ((b"a",), ()),
        ((bytes(SHARED_BYTES_MAX),), (b"a",)),
        ((b"a",), (bytes(SHARED_BYTES_MAX),)),
        ((b"",) * 200_000, (b"",) * 200_000),  # More than 8 MiB together, as a leader counts.
    ],
    ids=["nothing", "nothing after it", "much", "much after it", "many"],
)
@in_loop
async def test_what_could_be_refused_is_alone(
    first: Sequence[bytes], second: Sequence[bytes]
) -> None:
    stage = Stage()
    stage.add(*first)
    stage.add(*second)
    assert stage.batches() == [list(first), list(second)]


@in_loop
async def test_a_batch_is_of_one_epoch() -> None:
    stage = Stage()
    stage.add(b"a")
    stage.add(b"b", epoch=EPOCH + 1)
    assert [request.epoch for request in stage.requests()] == [EPOCH, EPOCH + 1]


@in_loop
async def test_a_caller_that_gives_up_disturbs_no_other() -> None:
    stage = Stage()
    stage.add(b"a")
    stage.add(b"b")
    stage.futures[0].cancel()
    stage.append(BASE_OFFSET)
    stage.appending.committed(BASE_OFFSET + 2, EPOCH)
    assert stage.futures[1].result() == Appended(EPOCH, BASE_OFFSET + 1, BASE_OFFSET + 1)


@in_loop
async def test_all_appends_of_a_batch_fail_together() -> None:
    refused = ErrorCode.NOT_LEADER_OR_FOLLOWER
    stage = Stage()
    stage.add(b"a")
    stage.add(b"b")
    stage.appending.refused(fx.AppendRefused(stage.take().append_id, refused))
    assert stage.errors() == [refused, refused]
    stage.add(b"c")
    stage.append(BASE_OFFSET)
    stage.add(b"d")
    stage.appending.close()
    assert stage.errors() == [refused, refused, refused, ErrorCode.BROKER_NOT_AVAILABLE]


@in_loop
async def test_another_leaders_records_are_not_taken_for_ours() -> None:
    stage = Stage()
    stage.add(b"a")
    stage.append(BASE_OFFSET)
    stage.appending.committed(BASE_OFFSET + 1, EPOCH + 1)
    assert stage.errors() == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_sixty_appends_at_once_are_one_batch_of_the_log(tmp_path: Path) -> None:
    values = [b"value %d" % number for number in range(60)]

    async def main() -> None:
        async with Quorum(tmp_path, count=1) as quorum:
            leader = await quorum.leader()
            taken = await asyncio.gather(*(leader.append([value]) for value in values))
            log = committed_bytes(leader)
            (batch,) = [
                header
                for header in iterate_headers(log)
                if header.base_offset == taken[0].base_offset
            ]
            records = decode_batch(log, batch.end - batch.size)
            assert [(record.offset, record.value) for record in records] == [
                (place.base_offset, value) for place, value in zip(taken, values, strict=True)
            ]

    run(main())


def test_what_cannot_be_appended_is_explained_and_disturbs_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with Quorum(tmp_path, count=1) as quorum:
            leader = await quorum.leader()
            text: Any = [b"a", "b"]
            with pytest.raises(TypeError, match="item 1: expected a bytes-like object, str found"):
                await leader.append(text)
            with pytest.raises(
                NotAppendedError, match=r"RECORD_LIST_TOO_LARGE: more than 8388608 bytes.*fewer"
            ) as refused:
                await leader.append([bytes(5 << 20), bytes(4 << 20)])
            assert refused.value.error == ErrorCode.RECORD_LIST_TOO_LARGE
            assert (await leader.append([b"c"])).epoch == leader.core.epoch

    run(main())
