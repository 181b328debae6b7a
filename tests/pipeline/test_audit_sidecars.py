"""What stands beside a log, planted so that it disagrees: indexes and checkpoint files."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from .audit_logs import (
    FIRST,
    SIZE,
    TIME_MS,
    batch,
    cut,
    findings_of,
    marker,
    produced,
    write,
)


def test_a_file_that_starts_after_its_name(tmp_path: Path) -> None:
    directory = write(tmp_path, [[batch(5)]])
    (directory / f"{5:020}.log").rename(directory / FIRST)
    assert findings_of(tmp_path) == [("file_name_differs", FIRST, 0, 5)]


def test_a_file_that_starts_before_its_name(tmp_path: Path) -> None:
    directory = write(tmp_path, [[batch(5)]])
    (directory / f"{5:020}.log").rename(directory / f"{6:020}.log")
    assert findings_of(tmp_path) == [("below_file_name", f"{6:020}.log", 0, 5)]


def test_epochs_are_held_against_the_checkpoint(tmp_path: Path) -> None:
    batches = [batch(3 * number, partition_leader_epoch=number // 2) for number in range(6)]
    write(tmp_path, [batches], epochs=[(0, 0), (1, 9), (2, 12)])
    assert findings_of(tmp_path) == [("epoch_checkpoint_differs", FIRST, 2 * SIZE, 6)]


@pytest.mark.parametrize("text", ["", "1\n0\n", "0\n2\n0 0\n", "0\n1\nx y\n", "0\n1\n1 2 3\n"])
def test_a_checkpoint_in_no_format_of_kafka(tmp_path: Path, text: str) -> None:
    directory = write(tmp_path, [[batch(0)]])
    (directory / "leader-epoch-checkpoint").write_text(text)
    assert findings_of(tmp_path) == [("checkpoint_unreadable", "leader-epoch-checkpoint", 0, -1)]


INDEXES: dict[str, tuple[str, bytes, list[tuple[str, int, int]]]] = {
    "sound": (".index", struct.pack(">4i", 5, SIZE, 11, 3 * SIZE) + bytes(80), []),
    # Before Kafka 4.0 an entry was of a whole append: its first byte, its last offset.
    "of an append": (".index", struct.pack(">2i", 11, SIZE), []),
    "inside a batch": (".index", struct.pack(">2i", 5, SIZE + 1), [("index_entry", 0, 5)]),
    "offset before": (".index", struct.pack(">2i", 2, SIZE), [("index_entry", 0, 2)]),
    "not ascending": (
        ".index", struct.pack(">4i", 8, 2 * SIZE, 5, SIZE), [("index_entry", 8, -1)]
    ),
    "past the end": (".index", struct.pack(">2i", 20, 4 * SIZE), [("index_entry", 0, -1)]),
    "cut": (".index", struct.pack(">2i", 5, SIZE) + b"\1\2\3", [("index_size", 8, -1)]),
    "times": (".timeindex", struct.pack(">qiqi", TIME_MS + 2, 2, TIME_MS + 8, 8) + bytes(24), []),
    "wrong time": (
        ".timeindex", struct.pack(">qi", TIME_MS + 6, 5), [("time_index_entry", 0, 5)]
    ),
    "time past the end": (
        ".timeindex", struct.pack(">qi", TIME_MS + 6, 50), [("time_index_entry", 0, -1)]
    ),
    "no abort": (
        ".txnindex", struct.pack(">hqqqq", 0, 7, 3, 5, 6), [("transaction_index_entry", 0, 5)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INDEXES)
def test_indexes_are_held_against_the_batches(tmp_path: Path, name: str) -> None:
    suffix, data, expected = INDEXES[name]
    directory = write(tmp_path, [[batch(3 * number) for number in range(4)]])
    index = (directory / FIRST).with_suffix(suffix)
    index.write_bytes(data)
    assert findings_of(tmp_path) == [
        (kind, index.name, at, offset) for kind, at, offset in expected
    ]


def test_an_aborted_transaction_has_its_marker(tmp_path: Path) -> None:
    batches = [produced(0, 0, transactional=True), marker(3, commit=False), batch(4)]
    directory = write(tmp_path, [batches])
    index = (directory / FIRST).with_suffix(".txnindex")
    index.write_bytes(struct.pack(">hqqqq", 0, 7, 0, 3, 4))
    assert findings_of(tmp_path) == []
    index.write_bytes(struct.pack(">hqqqq", 0, 8, 0, 3, 4))
    assert findings_of(tmp_path) == [
        ("transaction_index_entry", index.name, 0, 3), ("abort_not_indexed", FIRST, SIZE, 3),
    ]  # fmt: skip


@pytest.mark.parametrize("cut_at", [None, 1, 2])
@pytest.mark.parametrize("clean_until", [0, 20])
def test_an_abort_that_the_index_lacks(
    tmp_path: Path, cut_at: int | None, clean_until: int
) -> None:
    """Of two aborts, the data of one of them in another segment or not, either may be left out."""
    batches = [
        produced(0, 0, transactional=True), produced(3, 0, producer=8, transactional=True),
        marker(6, commit=False), marker(7, commit=False, producer=8), batch(8),
    ]  # fmt: skip
    segments = cut(batches, set() if cut_at is None else {cut_at})
    directory = write(tmp_path, segments, clean_until=clean_until)
    log = sorted(directory.glob("*.log"))[-1]
    start = 0 if cut_at is None else len(b"".join(batches[:cut_at]))
    entries = [struct.pack(">hqqqq", 0, 7, 0, 6, 3), struct.pack(">hqqqq", 0, 8, 3, 7, 8)]
    for kept, offset in ((0, 7), (1, 6)):
        log.with_suffix(".txnindex").write_bytes(b"".join(entries))
        assert findings_of(tmp_path) == []
        log.with_suffix(".txnindex").write_bytes(entries[kept])
        at = len(b"".join(batches[: offset - 4])) - start
        expected = [("abort_not_indexed", log.name, at, offset)]
        assert findings_of(tmp_path) == ([] if clean_until else expected)
    log.with_suffix(".txnindex").unlink()  # Where Kafka would write none, readers ask the markers.
    assert findings_of(tmp_path) == []


def test_markers_that_are_in_no_index(tmp_path: Path) -> None:
    """Commits are not, nor the aborts of transactions without a record."""
    batches = [
        produced(0, 0, transactional=True), marker(3, commit=False),
        produced(4, 3, transactional=True), marker(7), marker(8, commit=False, producer=9),
    ]  # fmt: skip
    directory = write(tmp_path, [batches])
    index = (directory / FIRST).with_suffix(".txnindex")
    index.write_bytes(struct.pack(">hqqqq", 0, 7, 0, 3, 4))
    assert [place[0] for place in findings_of(tmp_path)] == ["marker_without_transaction"]


def test_an_index_into_damage_is_no_second_finding(tmp_path: Path) -> None:
    bad = bytearray(batch(3))
    bad[-1] ^= 1
    directory = write(tmp_path, [[batch(0), bytes(bad), batch(6)]])
    (directory / FIRST).with_suffix(".index").write_bytes(struct.pack(">2i", 5, SIZE))
    (directory / FIRST).with_suffix(".timeindex").write_bytes(struct.pack(">qi", TIME_MS + 5, 5))
    assert [place[0] for place in findings_of(tmp_path)] == ["damage"]
