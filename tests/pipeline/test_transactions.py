"""Committed data, compared with what Apache Kafka's own consumer read from the same logs."""

from __future__ import annotations

import shutil
import struct
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kraftspec.conformance.making.logs import kafka_logs, partitions, records
from kraftspec.pipeline import (
    DamagedLogError,
    Report,
    discover,
    plan_splits,
    read_split,
    scan,
)
from kraftspec.pipeline.layout import LogFile
from kraftspec.pipeline.transactions import OFFSET_MAX, Transaction, transactions_of

from .segment_files import batch, marker, transactional, write_segment

ISOLATIONS = ("read_uncommitted", "read_committed")
Key = tuple[str, int]


@cache
def logs() -> Path:
    return kafka_logs()


def consumed(read: str, isolation: str) -> dict[Key, list[Any]]:
    """What Kafka's consumer read, by partition."""
    result = defaultdict(list)
    for one in records(logs() / read / f"{isolation}.jsonl"):
        result[one.topic, one.partition].append(
            (
                one.offset, one.timestamp, one.timestamp_type, one.leader_epoch, one.key, one.value,
                [tuple(header) for header in one.headers],
            )
        )  # fmt: skip
    return dict(result)


def scanned(path: Path, isolation: str, starts: dict[Key, int]) -> dict[Key, list[Any]]:
    """What we read: a consumer sees no control records, and nothing before the log's start."""
    result = defaultdict(list)
    for rows in scan(path, isolation=isolation):
        for row in rows.to_pylist():
            place = row["topic"], row["partition"]
            if row["_error"] or row["is_control"] or row["offset"] < starts.get(place, 0):
                continue
            stamp_type = ("createtime", "logappendtime")[row["timestamp_type"]]
            result[place].append(
                (
                    row["offset"], row["timestamp"], stamp_type, row["leader_epoch"], row["key"],
                    row["value"], [(each["key"], each["value"]) for each in row["headers"]],
                )
            )  # fmt: skip
    # The metadata log is not for consumers.
    return {place: rows for place, rows in result.items() if place[0] != "__cluster_metadata"}


@pytest.mark.kafka
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize(("directory", "read"), [("clean", "clean_read"), ("torn", "torn_read")])
def test_all_that_kafkas_consumer_read(directory: str, read: str, isolation: str) -> None:
    reported = list(partitions(logs() / read / "partitions.jsonl"))
    starts = {(one.topic, one.partition): one.start_offset for one in reported}
    expected = consumed(read, isolation)
    assert scanned(logs() / directory, isolation, starts) == expected
    assert sum(map(len, expected.values())) > 5_000


@pytest.mark.kafka
def test_aborted_and_open_transactions_are_left_out_and_counted() -> None:
    report = Report()
    for _ in scan(logs() / "clean", isolation="read_committed", report=report):
        pass
    everything = Report()
    for _ in scan(logs() / "clean", report=everything):
        pass
    assert min(report.aborted_rows, report.undecided_rows, report.control_rows) > 0
    left_out = report.aborted_rows + report.undecided_rows + report.control_rows
    assert report.rows + left_out == everything.rows


def segments_of(directory: Path) -> dict[Key, list[LogFile]]:
    result: dict[Key, list[LogFile]] = defaultdict(list)
    for file in discover(directory):
        if file.topic is not None and file.partition is not None and file.kind == "segment":
            result[file.topic, file.partition].append(file)
    return result


@pytest.mark.kafka
def test_the_last_stable_offset_is_the_brokers() -> None:
    segments, was_open = segments_of(logs() / "clean"), 0
    for reported in partitions(logs() / "clean_read" / "partitions.jsonl"):
        transactions = transactions_of(segments[reported.topic, reported.partition])
        if reported.last_stable_offset < reported.end_offset:
            assert transactions.last_stable_offset == reported.last_stable_offset
            was_open += 1
        else:
            assert transactions.last_stable_offset == OFFSET_MAX
    assert was_open


def indexed(file: LogFile) -> list[Transaction]:
    """What Kafka wrote into the ``.txnindex`` of a segment."""
    path = Path(file.sibling(".txnindex"))
    data = path.read_bytes() if path.exists() else b""
    return [Transaction(*entry[1:4]) for entry in struct.iter_unpack(">hqqqq", data)]


@pytest.mark.kafka
def test_the_markers_say_what_kafkas_indexes_do() -> None:
    compared = 0
    for files in segments_of(logs() / "clean").values():
        transactions = transactions_of(files)
        # The index also has transactions of which compaction left no data, or less.
        ends = {(one.producer_id, one.last_offset): one for file in files for one in indexed(file)}
        for one in transactions.aborted:
            assert ends[one.producer_id, one.last_offset].first_offset <= one.first_offset
            compared += 1
    assert compared > 5


@pytest.mark.kafka
def test_no_byte_of_an_index_changes_what_is_committed(tmp_path: Path) -> None:
    shutil.copytree(logs() / "clean" / "transactions-0", tmp_path / "transactions-0")
    index = max(tmp_path.rglob("*.txnindex"), key=lambda path: path.stat().st_size)
    data = index.read_bytes()
    assert len(data) > 34
    files = discover(tmp_path)
    expected, rows = transactions_of(files), offsets(tmp_path)
    for at in range(len(data)):
        index.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        assert transactions_of(files) == expected, at
    for at in range(0, len(data), 34):
        for rest in (data[:at], data[:at] + data[at + 34 :], data[: at + 17]):
            index.write_bytes(rest)
            assert transactions_of(files) == expected, at
    index.write_bytes(data[:-34])
    assert offsets(tmp_path) == rows


def offsets(path: Path, report: Report | None = None) -> list[int]:
    actual = scan(path, ["offset"], isolation="read_committed", report=report)
    return [offset for rows in actual for offset in rows["offset"].to_pylist()]


def test_a_marker_may_stand_in_a_later_segment(tmp_path: Path) -> None:
    first = write_segment(tmp_path / "t-0", [batch(0, 1), transactional(1, 7), batch(3, 1)])
    write_segment(tmp_path / "t-0", [batch(4, 1), marker(5, 7, 0)], 4)
    assert offsets(tmp_path) == [0, 3, 4]
    assert offsets(first) == [0, 3]  # The segments beside it are looked at.


def test_reading_stops_before_a_transaction_that_is_open(tmp_path: Path) -> None:
    write_segment(
        tmp_path / "t-0",
        [transactional(0, 7), marker(2, 7, 1), transactional(3, 8), transactional(5, 7),
         marker(7, 7, 1), batch(8)],
    )  # fmt: skip
    report = Report()
    assert offsets(tmp_path, report) == [0, 1]
    assert (report.control_rows, report.undecided_rows, report.aborted_rows) == (1, 8, 0)


def test_one_producer_aborts_and_commits(tmp_path: Path) -> None:
    write_segment(
        tmp_path / "t-0",
        [transactional(0, 7), transactional(2, 8), marker(4, 7, 0), transactional(5, 7),
         marker(7, 8, 1), marker(8, 7, 1), batch(9, 1)],
    )  # fmt: skip
    report = Report()
    assert offsets(tmp_path, report) == [2, 3, 5, 6, 9]
    assert (report.rows, report.aborted_rows, report.control_rows) == (5, 2, 3)


def test_a_transaction_whose_start_is_deleted_is_told_by_its_marker(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", [transactional(10, 7), marker(12, 7, 0), batch(13)], 10)
    assert offsets(tmp_path) == [13, 14, 15]


def test_splits_know_what_was_aborted(tmp_path: Path) -> None:
    write_segment(
        tmp_path / "t-0",
        [transactional(0, 7), *(batch(at, 2, 500) for at in range(2, 40, 2)), transactional(40, 7),
         marker(42, 7, 0)],
    )  # fmt: skip
    splits = plan_splits(discover(tmp_path), 4_000, isolation="read_committed")
    assert len(splits) > 3
    actual = [
        offset
        for split in splits
        for rows in read_split(split, ["offset"], isolation="read_committed")
        for offset in rows["offset"].to_pylist()
    ]
    assert actual == list(range(2, 40))
    with pytest.raises(ValueError, match="isolation"):
        list(read_split(plan_splits(discover(tmp_path))[0], isolation="read_committed"))


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("later", [0, 1])
def test_no_wrong_byte_of_a_marker_commits_what_was_aborted(
    tmp_path: Path, kind: int, later: int
) -> None:
    """Whatever bit of the first marker is wrong, the data before it is left out, and counted."""
    before, bad = transactional(0, 7), marker(2, 7, kind)
    after = [transactional(3, 7), marker(5, 7, later), batch(6)]
    certain = [3, 4] * later + [6, 7, 8]
    for at in range(8, len(bad)):  # No checksum covers the base offset and the leader's epoch.
        if 12 <= at < 16:
            continue
        write_segment(tmp_path / "t-0", [before, flipped(bad, at), *after])
        report = Report()
        assert offsets(tmp_path, report) == certain, at
        assert report.undecided_rows == 2, at
        assert report.aborted_rows == 2 * (1 - later), at


def test_damage_makes_undecided_what_is_open_and_nothing_else(tmp_path: Path) -> None:
    first = [transactional(0, 7), marker(2, 7, 1), transactional(3, 8), batch(5, 1)]
    last = [transactional(7, 8), transactional(9, 9), marker(11, 8, 1), marker(12, 9, 1)]
    for hole in (b"\xff" * 100, bytes(300), flipped(marker(6, 9, 1), 70)):
        write_segment(tmp_path / "t-0", [*first, hole, *last])
        report = Report()
        assert offsets(tmp_path, report) == [0, 1, 5, 7, 8, 9, 10]
        assert report.undecided_rows == 2
    # The hole may be at the end of a segment, too.
    for tail in (bytes(300), marker(6, 9, 1)[:-20]):
        write_segment(tmp_path / "t-0", [*first, tail])
        write_segment(tmp_path / "t-0", last, 7)
        assert offsets(tmp_path) == [0, 1, 5, 7, 8, 9, 10]


def test_without_a_later_marker_reading_stops_before_damage(tmp_path: Path) -> None:
    bad = flipped(marker(2, 7, 1), 70)
    write_segment(tmp_path / "t-0", [transactional(0, 7), bad, batch(3)])
    report = Report()
    assert offsets(tmp_path, report) == []
    assert report.undecided_rows == 5


def test_a_length_that_is_wrong_hides_no_transaction(tmp_path: Path) -> None:
    bad = bytearray(batch(0, 5))
    bad[10] ^= 1  # 256 bytes more: the data below is in them, and the marker is not.
    write_segment(tmp_path / "t-0", [bytes(bad), transactional(5, 9), marker(7, 9, 0), batch(8)])
    assert offsets(tmp_path) == [8, 9, 10]


# Transaction indexes, when an option uses them.


def write_txn_index(log: Path, *entries: tuple[int, int, int]) -> Path:
    """Write producer, first and last offset of aborted transactions as Kafka does."""
    path = log.with_suffix(".txnindex")
    path.write_bytes(b"".join(struct.pack(">hqqqq", 0, *one, one[2] + 1) for one in entries))
    return path


def committed(path: Path, report: Report | None = None, **options: Any) -> list[int]:
    actual = scan(
        path, ["offset"], isolation="read_committed", use_txn_indexes=True, report=report, **options
    )
    return [offset for rows in actual for offset in rows["offset"].to_pylist()]


@pytest.mark.kafka
@pytest.mark.parametrize("directory", ["clean", "torn"])
def test_every_index_that_kafka_wrote_agrees_and_adds_nothing(directory: str) -> None:
    entries = 0
    for files in segments_of(logs() / directory).values():
        assert transactions_of(files, use_txn_indexes=True) == transactions_of(files)
        entries += sum(len(indexed(file)) for file in files)
    assert entries > 5


@pytest.mark.kafka
def test_an_abort_marker_that_is_damaged_is_known_from_kafkas_index(tmp_path: Path) -> None:
    shutil.copytree(logs() / "clean" / "transactions-0", tmp_path / "transactions-0")
    files = discover(tmp_path)
    whole, reported = transactions_of(files), 0
    for file in files:
        path = Path(file.path)
        data = path.read_bytes()
        for row in scan(path, ["offset", "position", "is_control"]).read_all().to_pylist():
            of = [one for one in whole.aborted if one.last_offset == row["offset"]]
            if not row["is_control"] or not of:
                continue
            at = row["position"]
            path.write_bytes(flipped(data, at + 70))
            without = transactions_of(files)
            transactions = transactions_of(files, use_txn_indexes=True)
            assert of[0] not in without.aborted
            assert of[0] in transactions.aborted
            assert transactions.indexed == tuple(of)
            # Of who had one open beside it the marker may be there as well, unless the index says
            # that the transaction went on, and was aborted later.
            others = {one for one in without.undecided if one.producer_id != of[0].producer_id}
            assert set(transactions.undecided) <= others
            for one in others - set(transactions.undecided):
                assert any(
                    each.producer_id == one.producer_id
                    and each.first_offset <= one.first_offset
                    and one.last_offset <= each.last_offset
                    for each in whole.aborted
                )
            assert (transactions.last_stable_offset, transactions.faults) == (
                whole.last_stable_offset,
                (),
            )
            reported += 1
            path.write_bytes(data)
    assert reported > 1


@pytest.mark.kafka
def test_a_byte_of_an_index_that_is_wrong_is_told_or_says_nothing(tmp_path: Path) -> None:
    """It is looked at in the log as it is: what is committed stays the same, whatever it says."""
    shutil.copytree(logs() / "clean" / "transactions-0", tmp_path / "transactions-0")
    index = max(tmp_path.rglob("*.txnindex"), key=lambda path: path.stat().st_size)
    data, files = index.read_bytes(), discover(tmp_path)
    expected = transactions_of(files)
    silent = set()
    for at in range(len(data)):
        index.write_bytes(flipped(data, at))
        transactions = transactions_of(files, use_txn_indexes=True)
        assert (transactions.aborted, transactions.undecided) == (
            expected.aborted,
            expected.undecided,
        ), at
        assert transactions.last_stable_offset == expected.last_stable_offset
        if not transactions.faults:
            silent.add(at % 34)
        else:
            assert transactions.faults[0].file == str(index)
            assert transactions.faults[0].position in (at - at % 34, at - at % 34 + 34), at
    # A first offset that is earlier, as where data is deleted; a last stable offset, which says
    # nothing here. All else is reported.
    assert silent <= {*range(10, 18), *range(26, 34)}
    for at in range(0, len(data), 34):
        for rest in (data[:at] + data[at + 34 :], data[: at + 17]):
            index.write_bytes(rest)
            transactions = transactions_of(files, use_txn_indexes=True)
            assert transactions.faults, at
            assert transactions.aborted == expected.aborted


def damaged_abort(directory: Path, *, later: tuple[bytes, ...] = ()) -> Path:
    """An aborted transaction that agrees with its index, and one whose marker is damaged."""
    return write_segment(
        directory / "t-0",
        [transactional(0, 7), marker(2, 7, 0), transactional(3, 8), flipped(marker(5, 8, 0), 70),
         batch(6, 1), *later],
    )  # fmt: skip


def test_an_index_ends_a_transaction_that_would_stay_open(tmp_path: Path) -> None:
    log = damaged_abort(tmp_path)
    write_txn_index(log, (7, 0, 2), (8, 3, 5))
    assert offsets(tmp_path) == []  # As ever: nothing after the first offset of what is open.
    report = Report()
    assert committed(tmp_path, report) == [6]
    assert report.indexed == [Transaction(8, 3, 5)]
    assert (report.aborted_rows, report.undecided_rows) == (4, 0)


def test_an_index_commits_nothing(tmp_path: Path) -> None:
    """Without an entry, the damaged marker may have been a commit: that is still undecided."""
    log = damaged_abort(tmp_path, later=(transactional(7, 8), marker(9, 8, 1)))
    write_txn_index(log, (7, 0, 2))
    report = Report()
    assert committed(tmp_path, report) == offsets(tmp_path) == [6, 7, 8]
    assert (report.undecided_rows, report.indexed, report.txn_index_faults) == (2, [], [])


def test_what_was_before_an_indexed_transaction_stays_undecided(tmp_path: Path) -> None:
    hole = flipped(marker(2, 7, 1), 70)
    log = write_segment(
        tmp_path / "t-0",
        [transactional(0, 7), hole, transactional(3, 7), marker(5, 7, 0), batch(6)],
    )
    write_txn_index(log, (7, 3, 5))
    transactions = transactions_of(discover(tmp_path), use_txn_indexes=True)
    assert transactions.undecided == (Transaction(7, 0, 2),)
    assert transactions.aborted == (Transaction(7, 3, 5),)
    # A transaction from the start on, of which a batch is damaged, is aborted as a whole.
    write_txn_index(log, (7, 0, 5))
    transactions = transactions_of(discover(tmp_path), use_txn_indexes=True)
    assert (transactions.undecided, transactions.aborted) == ((), (Transaction(7, 0, 5),))


STALE = {
    "of another producer": (((9, 0, 2), (8, 3, 5)), 0, "another marker"),
    "of another log": (((7, 0, 1), (8, 3, 5)), 0, "has no marker"),
    "without an abort": (((8, 3, 5),), 0, "at offset 2 is not in it"),
    "of a longer log": (((7, 0, 2), (8, 3, 5), (9, 7, 20)), 68, "past the last batch"),
    "out of order": (((8, 3, 5), (7, 0, 2)), 34, "last offset 2 after 5"),
    "that starts late": (((7, 1, 2), (8, 3, 5)), 0, "in the log it is from 0"),
    "of no producer": (((-1, 0, 2),), 0, "no producer -1"),
    "upside down": (((7, 2, 0),), 0, "from offset 2 to 0"),
}


@pytest.mark.parametrize("name", STALE)
def test_a_stale_index_is_told_and_not_believed(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    entries, position, detail = STALE[name]
    later = (transactional(7, 9), marker(9, 9, 1))
    log = damaged_abort(tmp_path, later=later)
    index = write_txn_index(log, *entries)
    report = Report()
    assert committed(tmp_path, report) == offsets(tmp_path)
    (fault,) = report.txn_index_faults
    assert (fault.file, fault.position) == (str(index), position)
    assert detail in fault.detail
    assert report.indexed == []
    assert str(index) in caplog.text
    with pytest.raises(DamagedLogError, match=f"byte {position}: .*{detail}.*use_txn_indexes"):
        committed(tmp_path, mode="FAILFAST")


def test_a_version_or_a_size_that_is_none(tmp_path: Path) -> None:
    log = damaged_abort(tmp_path)
    index = write_txn_index(log, (7, 0, 2), (8, 3, 5))
    data = index.read_bytes()
    for wrong, position in ((flipped(data, 35), 34), (data[:-1], 34), (data + b"\0" * 34, 68)):
        index.write_bytes(wrong)
        (fault,) = transactions_of(discover(tmp_path), use_txn_indexes=True).faults
        assert fault.position == position


def test_indexes_are_asked_for_with_committed_data_and_told_once(tmp_path: Path) -> None:
    log = damaged_abort(tmp_path)
    write_txn_index(log, (7, 0, 2), (8, 3, 5))
    with pytest.raises(ValueError, match="use_txn_indexes goes with"):
        scan(tmp_path, use_txn_indexes=True)
    parts = plan_splits(discover(tmp_path), 100, isolation="read_committed", use_txn_indexes=True)
    assert len(parts) > 2
    total = Report()
    for part in parts:
        report = Report()
        list(read_split(part, isolation="read_committed", report=report))
        total.add(report)
    assert total.indexed == [Transaction(8, 3, 5)]
