"""What a follower appends: whole batches of a leader, up to the first that is damaged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.log.test_metadata_log import DIR, batch, open_log

from kraftspec.reference.log.files import read_whole
from kraftspec.reference.log.memory_files import MemoryFiles


def test_a_follower_takes_batches_as_they_are() -> None:
    log = open_log()
    data = batch(0) + batch(2, epoch=3) + batch(4, 5, epoch=3)
    appended = log.append_batches(data)
    assert (appended.base_offset, appended.end_offset, appended.rejected) == (0, 9, None)
    assert appended.data == data
    assert log.read(0, 1 << 20) == data
    assert log.epochs == [(1, 0), (3, 2)]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (batch(2)[:10], "batch_length_mismatch"),  # What follows is taken for the rest of it.
        (batch(2)[:-1] + b"!", "crc_mismatch"),
        (batch(3), "3, where 2 is due"),
        (batch(1), "1, where 2 is due"),
        (batch(2, epoch=0), "0, where 1 is due"),
        (batch(2, epoch=-1), "-1, where 1 is due"),
        (bytes(100), "batch_length_mismatch"),
    ],
)
def test_a_follower_keeps_what_is_good_before_damage(bad: bytes, reason: str) -> None:
    log = open_log()
    appended = log.append_batches(batch(0) + bad + batch(2))
    assert (appended.base_offset, appended.end_offset) == (0, 2)
    assert appended.data == batch(0)
    assert reason in str(appended.rejected)
    assert log.read(0, 1 << 20) == batch(0)
    assert log.append_batches(batch(2)).end_offset == 4
    for cut in (1, 10, 70):
        appended = log.append_batches(batch(4)[:-cut])
        assert (appended.end_offset, bytes(appended.data)) == (4, b"")
        assert "truncated" in str(appended.rejected)


def test_what_was_checked_is_not_checked_again() -> None:
    log = open_log()
    wrong = batch(0)[:-1] + b"!"
    assert log.append_batches(wrong, check_crc=False).rejected is None
    assert log.append_batches(batch(9), check_crc=False).rejected is not None


@given(
    segment_bytes=st.sampled_from([300, 700, 1 << 20]),
    segment_ms=st.sampled_from([4, 1000]),
    index_bytes_max=st.sampled_from([24, 36, 1 << 20]),
    index_interval_bytes=st.sampled_from([0, 150]),
    zero_ahead_bytes=st.sampled_from([0, 500]),
    drawn=st.lists(
        st.tuples(st.integers(1, 3), st.integers(0, 9), st.booleans(), st.booleans()), max_size=30
    ),
)
def test_batches_that_are_written_at_once_are_where_they_would_be_one_by_one(
    drawn: list[tuple[int, int, bool, bool]], **config: int
) -> None:
    """The same segments, indexes and epochs; also what a reader of the log gets."""
    contents: list[dict[str, bytes]] = []
    writes: list[int] = []
    epoch, offset = 1, 0
    whole: list[list[bytes]] = [[]]
    for count, timestamp, opens_an_epoch, ends_an_answer in drawn:
        epoch += opens_an_epoch
        whole[-1].append(batch(offset, count, epoch, timestamp))
        offset += count
        if ends_an_answer:
            whole.append([])
    for answers in (whole, [[one] for answer in whole for one in answer]):
        files = MemoryFiles()
        log = open_log(files, **config)
        operations: list[str] = []
        files.hook = lambda operation, *_, into=operations: into.append(operation)
        for answer in answers:
            assert log.append_batches(b"".join(answer)).rejected is None
        assert all(log.read(at, 1) for at in range(offset))
        log.close()
        writes.append(operations.count("write"))
        contents.append({name: read_whole(files, f"{DIR}/{name}") for name in files.names(DIR)})
    assert contents[0] == contents[1]
    assert writes[0] <= writes[1]


def test_batches_of_an_answer_are_one_write() -> None:
    files = MemoryFiles()
    log = open_log(files)
    log.append_batches(batch(0))
    sizes: list[tuple[str, int]] = []
    files.hook = lambda operation, _path, size: sizes.append((operation, size))
    data = b"".join(batch(2 * number) for number in range(1, 64))
    log.append_batches(data)
    assert sizes == [("write", len(data))]
