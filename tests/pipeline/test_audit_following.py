"""How batches follow one another: offsets, epochs, sequences and transactions, planted."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftspec.pipeline.audit import audit

from .audit_logs import (
    FIRST,
    TIME_MS,
    batch,
    cut,
    findings_of,
    marker,
    produced,
    write,
)

HOUR_MS = 3_600_000
SEQUENCE_MAX = (1 << 31) - 1
# Batches, and which of them (by number) is a finding of which kind.
FOLLOWING: dict[str, tuple[list[bytes], list[tuple[str, int]]]] = {
    "gap": ([batch(0), batch(5), batch(8)], [("offset_gap", 1)]),
    "the same again": ([batch(0), batch(3), batch(3), batch(6)], [("offset_duplicate", 2)]),
    "back": ([batch(0), batch(3), batch(2), batch(6)], [("offset_out_of_order", 2)]),
    "epoch falls": (
        [
            batch(0, partition_leader_epoch=4),
            batch(3, partition_leader_epoch=3),
            batch(6, partition_leader_epoch=4),
        ],
        [("epoch_regression", 1)],
    ),
    "sequences": ([produced(0, 0), produced(3, 3), produced(6, 6)], []),
    "a producer from before": ([produced(0, 500), produced(3, 503)], []),
    "round": ([produced(0, SEQUENCE_MAX - 2), produced(3, 0)], []),
    "round within": ([produced(0, SEQUENCE_MAX - 1), produced(3, 1)], []),
    "sequence gap": ([produced(0, 0), produced(3, 4), produced(6, 7)], [("sequence_gap", 1)]),
    "sequence again": (
        [produced(0, 0), produced(3, 3), produced(6, 3), produced(9, 6)],
        [("sequence_duplicate", 2)],
    ),
    "two producers": (
        [produced(0, 0), produced(3, 9, producer=8), produced(6, 3), produced(9, 12, producer=8)],
        [],
    ),
    "new epoch": ([produced(0, 7), produced(3, 0, epoch=1), produced(6, 3, epoch=1)], []),
    "new epoch, late": ([produced(0, 7), produced(3, 5, epoch=1)], [("sequence_gap", 1)]),
    "old epoch": (
        [produced(0, 0, epoch=2), produced(3, 0, epoch=1), produced(6, 0, epoch=3)],
        [("producer_epoch_regression", 1)],
    ),
    "marker between": (
        [produced(0, 0, transactional=True), marker(3), produced(4, 3, transactional=True),
         marker(7)],
        [],
    ),
    "marker with the next epoch": (
        [produced(0, 4, transactional=True), marker(3, epoch=1),
         produced(4, 0, epoch=1, transactional=True), marker(7, epoch=2)],
        [],
    ),
    "marker of an old epoch": (
        [produced(0, 4, epoch=3, transactional=True), marker(3, epoch=2)],
        [("producer_epoch_regression", 1)],
    ),
    "marker, then a gap": (
        [produced(0, 0, transactional=True), marker(3), produced(4, 9, transactional=True),
         marker(7)],
        [("sequence_gap", 2)],
    ),
    "marker alone": ([batch(0), marker(3)], [("marker_without_transaction", 1)]),
    "marker twice": (
        [produced(0, 0, transactional=True), marker(3), marker(4)],
        [("marker_without_transaction", 2)],
    ),
    "open": (
        [batch(0), produced(3, 0, transactional=True), produced(6, 3, transactional=True),
         produced(9, 0, producer=8, transactional=True), marker(12, producer=8)],
        [("transaction_open", 1)],
    ),
    "hanging": (
        [produced(0, 0, transactional=True), produced(3, 0, producer=8, transactional=True),
         marker(6, producer=8), produced(7, 3, producer=8, transactional=True),
         marker(10, producer=8, time=TIME_MS + HOUR_MS)],
        [("transaction_hanging", 0)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLLOWING)
@pytest.mark.parametrize("is_cut", [False, True])
def test_how_batches_follow(tmp_path: Path, name: str, is_cut: bool) -> None:
    batches, expected_rows = FOLLOWING[name]
    segments = cut(batches, set(range(len(batches))) if is_cut and name not in BACKWARDS else set())
    write(tmp_path, segments)
    expected = []
    for kind, number in expected_rows:
        base = struct.unpack_from(">q", batches[number])[0]
        at = (base, 0) if len(segments) > 1 else (0, len(b"".join(batches[:number])))
        expected.append((kind, f"{at[0]:020}.log", at[1], base))
    assert findings_of(tmp_path) == expected


BACKWARDS = {"the same again", "back"}  # Files are named for their first offsets, and sorted.


@given(data=st.data())
def test_files_make_no_difference(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Batches in one file or in many give the same findings."""
    batches, offset = [], 0
    for _ in range(data.draw(st.integers(1, 14))):
        offset += data.draw(st.sampled_from([0, 0, 0, 2]))
        producer = data.draw(st.integers(7, 9))
        epoch = data.draw(st.sampled_from([0, 0, 0, 1]))
        if data.draw(st.sampled_from(["data", "data", "marker"])) == "marker":
            time = TIME_MS + data.draw(st.sampled_from([0, HOUR_MS]))
            batches.append(marker(offset, producer=producer, epoch=epoch, time=time))
            offset += 1
            continue
        sequence = data.draw(st.sampled_from([0, 0, 2, 4]))
        batches_ = produced(
            offset, sequence, count=2, producer=producer, epoch=epoch,
            transactional=data.draw(st.booleans()),
        )  # fmt: skip
        batches.append(batches_)
        offset += 2
    cuts = data.draw(st.sets(st.integers(1, len(batches))))
    reports = []
    for segments in (cut(batches, set()), cut(batches, cuts)):
        root = tmp_path_factory.mktemp("log")
        write(root, segments)
        report = audit(root)
        findings = sorted((one.kind, one.offset, one.detail) for one in report.findings.kept)
        reports.append((findings, report.totals.records, report.partitions[0].missing_offsets))
    assert reports[0] == reports[1]


@given(data=st.data())
def test_bytes_add_up_whatever_is_damaged(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = bytearray(b"".join(batch(3 * number) for number in range(8)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "insert", "zeros"])):
            case "flip":
                whole[at] ^= data.draw(st.integers(1, 255))
            case "cut":
                del whole[at : at + data.draw(st.integers(1, 200))]
            case "insert":
                whole[at:at] = data.draw(st.binary(min_size=1, max_size=100))
            case _:
                whole[at : at + 30] = bytes(len(whole[at : at + 30]))
        if not whole:
            whole += b"\0"
    root = tmp_path_factory.mktemp("log")
    directory = root / "t-0"
    directory.mkdir()
    (directory / FIRST).write_bytes(whole)
    findings_of(root)


def test_sequences_of_coordinators_are_their_own(tmp_path: Path) -> None:
    """Offsets that are committed in transactions have sequence 0 each time."""
    batches = [produced(0, 0, transactional=True), produced(3, 0, transactional=True), marker(6)]
    write(tmp_path, [batches], topic="__consumer_offsets")
    assert findings_of(tmp_path) == []


def test_what_was_lost_with_damage_is_not_told_twice(tmp_path: Path) -> None:
    bad = bytearray(produced(3, 3))
    bad[-1] ^= 1
    write(tmp_path, [[produced(0, 0), bytes(bad)], [produced(6, 6)]])
    assert [place[0] for place in findings_of(tmp_path)] == ["damage"]
