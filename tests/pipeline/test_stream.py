"""Streams of ``kafkalog`` over logs that grow, tear, roll and lose segments; without a JVM."""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from kraftspec.fastpath import LogAppender
from kraftspec.fastpath.crc import crc32c
from kraftspec.pipeline.source.options import OptionError
from kraftspec.pipeline.source.ranges import DataLossError
from kraftspec.pipeline.source.reports import read_report

from .segment_files import TIME_MS, batch, marker, transactional, write_segment
from .source_reading import Query, Row, fields, source

OFFSET = fields("topic", "partition", "offset")
ALL = ReadAllAvailable()
EARLIEST: Row = {"startingOffsets": "earliest"}


def triples(rows_: list[Row]) -> list[tuple[str, int, int]]:
    return [(row["topic"], row["partition"], row["offset"]) for row in rows_]


def offsets(rows_: list[Row]) -> list[int]:
    return [row["offset"] for row in rows_]


def append(path: Path, *data: bytes) -> None:
    with path.open("ab") as file:
        for each in data:
            file.write(each)


class TestGrowth:
    def test_batches_come_once_and_torn_ones_wait(self, tmp_path: Path) -> None:
        path = write_segment(tmp_path / "t-0", [batch(0)])
        query = Query(tmp_path, OFFSET, **EARLIEST)
        assert offsets(query.step()) == [0, 1, 2]
        assert query.step() == []
        torn = batch(3)
        for cut in (1, 20, 61, len(torn) - 1):
            append(path, torn[path.stat().st_size - len(batch(0)) : cut])
            assert query.step() == []
        append(path, torn[-1:], batch(6)[:-5])
        assert offsets(query.step()) == [3, 4, 5]
        append(path, batch(6)[-5:])
        assert offsets(query.step()) == [6, 7, 8]

    def test_a_batch_of_which_pages_are_missing_waits(self, tmp_path: Path) -> None:
        # A file that was filled ahead has its size before it has its bytes.
        path = write_segment(tmp_path / "t-0", [batch(0), batch(3), bytes(1_000)])
        with path.open("r+b") as file:
            file.seek(len(batch(0)) + 100)
            file.write(bytes(20))
            file.flush()
            query = Query(tmp_path, OFFSET, **EARLIEST)
            assert offsets(query.step()) == [0, 1, 2]
            file.seek(len(batch(0)))
            file.write(batch(3))
        assert offsets(query.step()) == [3, 4, 5]

    def test_a_hole_of_zeros_waits(self, tmp_path: Path) -> None:
        hole = bytes(len(batch(3)))
        path = write_segment(tmp_path / "t-0", [batch(0), hole, batch(6)])
        query = Query(tmp_path, OFFSET, **EARLIEST)
        assert offsets(query.step()) == [0, 1, 2]
        path.write_bytes(batch(0) + batch(3) + batch(6))
        assert offsets(query.step()) == [3, 4, 5, 6, 7, 8]

    def test_an_open_appender_is_followed(self, tmp_path: Path) -> None:
        directory = tmp_path / "t-0"
        directory.mkdir()
        with LogAppender(directory / f"{0:020}.log") as log:
            query = Query(tmp_path, OFFSET, **EARLIEST)
            for number in range(3):
                log.append_values([b"one", b"two"], timestamps=TIME_MS)
                assert offsets(query.step()) == [2 * number, 2 * number + 1]

    def test_segments_roll(self, tmp_path: Path) -> None:
        write_segment(tmp_path / "t-0", [batch(0)])
        query = Query(tmp_path, OFFSET, **EARLIEST)
        query.step()
        append(tmp_path / f"t-0/{0:020}.log", batch(3))
        write_segment(tmp_path / "t-0", [batch(6)], 6)
        assert offsets(query.step()) == [3, 4, 5, 6, 7, 8]
        write_segment(tmp_path / "t-0", [], 9)
        assert query.step() == []
        append(tmp_path / f"t-0/{9:020}.log", batch(9))
        assert offsets(query.step()) == [9, 10, 11]

    def test_partitions_appear(self, tmp_path: Path) -> None:
        write_segment(tmp_path / "t-0", [batch(0, 1)])
        query = Query(tmp_path, OFFSET, **EARLIEST)
        query.step()
        write_segment(tmp_path / "t-1", [batch(0, 2)])
        write_segment(tmp_path / "u-0", [])
        assert triples(query.step()) == [("t", 1, 0), ("t", 1, 1)]
        append(tmp_path / f"u-0/{0:020}.log", batch(0, 1))
        assert triples(query.step()) == [("u", 0, 0)]

    def test_open_transactions_wait(self, tmp_path: Path) -> None:
        path = write_segment(tmp_path / "t-0", [batch(0, 2), transactional(2, 7), batch(4, 1)])
        options: Row = {"kafka.isolation.level": "read_committed", **EARLIEST}
        query = Query(tmp_path, OFFSET, **options)
        assert offsets(query.step()) == [0, 1]
        append(path, transactional(5, 8), marker(7, 7, 1))
        assert offsets(query.step()) == [2, 3, 4]
        append(path, marker(8, 8, 0), batch(9, 1))
        assert offsets(query.step()) == [9]

    def test_a_damaged_marker_may_be_known_from_its_index(self, tmp_path: Path) -> None:
        bad = bytearray(marker(2, 7, 0))
        bad[70] ^= 1
        log = write_segment(tmp_path / "t-0", [transactional(0, 7), bytes(bad), batch(3)])
        log.with_suffix(".txnindex").write_bytes(struct.pack(">hqqqq", 0, 7, 0, 2, 3))
        options: Row = {"kafka.isolation.level": "read_committed", "mode": "DROPMALFORMED"}
        without = Query(tmp_path, OFFSET, **options, **EARLIEST)
        query = Query(tmp_path, OFFSET, useTxnIndexes=True, **options, **EARLIEST)
        assert offsets(query.step()) == [3, 4, 5]
        append(log, batch(6, 1))
        query.restarted()
        assert offsets(query.step()) == [6]
        assert offsets(without.step()) == []  # For all that is known, it is still open.

    @pytest.mark.parametrize("seed", range(30))
    def test_any_history_comes_out_once_and_in_order(self, tmp_path: Path, seed: int) -> None:
        """Random appends in random pieces, rolls, limits, failed batches and restarts."""
        random = Random(seed)
        log = _GrowingLog(tmp_path / "t-0", random)
        log.grow()
        query = Query(tmp_path, OFFSET, splitBytes=random.choice([1, 300, 1 << 20]), **EARLIEST)
        for _ in range(60):
            random.choice([log.grow, log.grow, log.roll])()
            match random.randrange(6):
                case 0:
                    query.restarted()
                case 1:
                    query.step(fails=True)
                case 2:
                    query.step(ReadMaxRows(random.randint(1, 9)))
                case 3:
                    query.step(ReadMaxBytes(random.randint(1, 400)))
                case _:
                    query.step()
        log.finish()
        for _ in range(3):
            query.step(ALL)
        assert offsets(query.rows) == list(range(log.offset))
        assert log.offset > 50


class _GrowingLog:
    """A partition that is written a few bytes at a time."""

    def __init__(self, directory: Path, random: Random) -> None:
        self.directory, self.random = directory, random
        self.offset = 0
        self.pending = b""
        self.path = write_segment(directory, [])

    def grow(self) -> None:
        if not self.pending:
            count = self.random.randint(1, 5)
            self.pending = batch(self.offset, count, size=self.random.randint(1, 60))
            self.offset += count
        cut = self.random.choice([len(self.pending), self.random.randint(1, len(self.pending))])
        append(self.path, self.pending[:cut])
        self.pending = self.pending[cut:]

    def roll(self) -> None:
        self.finish()
        self.path = write_segment(self.directory, [], self.offset)

    def finish(self) -> None:
        append(self.path, self.pending)
        self.pending = b""


class TestStart:
    def test_is_the_end_by_default_as_with_kafka(self, tmp_path: Path) -> None:
        path = write_segment(tmp_path / "t-0", [batch(0)])
        query = Query(tmp_path, OFFSET)
        assert query.step() == []
        append(path, batch(3))
        assert offsets(query.step()) == [3, 4, 5]

    @pytest.mark.parametrize(
        "options",
        [
            {"startingOffsets": '{"t":{"0":4}}'},
            {"startingTimestamp": TIME_MS + 2},
            {"startingOffsetsByTimestamp": f'{{"t":{{"0":{TIME_MS + 2}}}}}'},
        ],
    )
    def test_as_asked_for(self, tmp_path: Path, options: Row) -> None:
        write_segment(tmp_path / "t-0", [batch(0), batch(3)])
        query = Query(tmp_path, OFFSET, **options)
        assert offsets(query.step()) == [4, 5] if "startingOffsets" in options else [3, 4, 5]

    def test_offsets_are_in_kafkas_form(self, tmp_path: Path) -> None:
        for name, end in (("t-0", 2), ("t-10", 3), ("t-9", 1), ("a-0", 0)):
            write_segment(tmp_path / name, [batch(0, end)] if end else [])
        reader = source(tmp_path, {}).streamReader(OFFSET)
        actual = reader.initialOffset()
        marks = actual.pop("last batches")
        assert json.dumps(actual) == '{"a": {"0": 0}, "t": {"0": 2, "9": 1, "10": 3}}'
        # First and last offset, epoch, records; and the checksum, which is bytes 17 to 21.
        assert {number: mark[:4] for number, mark in marks["t"].items()} == {
            "0": [0, 1, -1, 2], "9": [0, 0, -1, 1], "10": [0, 2, -1, 3],
        }  # fmt: skip
        assert marks["t"]["0"][4] == int.from_bytes(batch(0, 2)[17:21], "big")
        assert marks.keys() == {"t"}

    @pytest.mark.parametrize("option", ["endingOffsets", "endingTimestamp"])
    def test_a_stream_has_no_end(self, tmp_path: Path, option: str) -> None:
        value = "latest" if option == "endingOffsets" else "5"
        with pytest.raises(OptionError, match=f"option {option}: a stream has no end"):
            source(tmp_path, {option: value}).streamReader(OFFSET)


class TestLimits:
    @pytest.fixture
    def log(self, tmp_path: Path) -> Path:
        write_segment(tmp_path / "t-0", [batch(at) for at in range(0, 90, 3)])
        write_segment(tmp_path / "t-1", [batch(at) for at in range(0, 9, 3)])
        return tmp_path

    def test_offsets_are_shared_by_what_there_is(self, log: Path) -> None:
        query = Query(log, OFFSET, maxOffsetsPerTrigger=33, **EARLIEST)
        first = triples(query.step())
        assert len(first) == 33
        assert [one for one in first if one[1] == 1] == [("t", 1, 0), ("t", 1, 1), ("t", 1, 2)]
        assert len(query.step()) == len(query.step()) == 33
        assert query.step() == []
        assert sorted(triples(query.rows)) == [
            *(("t", 0, at) for at in range(90)), *(("t", 1, at) for at in range(9)),
        ]  # fmt: skip

    def test_a_partition_that_has_little_is_not_starved(self, log: Path) -> None:
        query = Query(log, OFFSET, maxOffsetsPerTrigger=5, **EARLIEST)
        assert [one for one in triples(query.step()) if one[1] == 1] == [("t", 1, 0)]

    def test_bytes(self, log: Path) -> None:
        size = len(batch(0))
        query = Query(log, OFFSET, maxBytesPerTrigger=4 * size, **EARLIEST)
        first = triples(query.step())
        assert [one[2] for one in first if one[1] == 0] == list(range(6))
        assert [one[2] for one in first if one[1] == 1] == list(range(6))
        while query.step():
            pass
        assert len(set(triples(query.rows))) == len(query.rows) == 99

    def test_less_than_a_batch_is_a_batch(self, log: Path) -> None:
        query = Query(log, OFFSET, maxBytesPerTrigger=1, **EARLIEST)
        assert len(query.step()) == 6

    def test_what_is_there_now_is_the_end_of_a_query_that_asks_for_it(self, log: Path) -> None:
        query = Query(log, OFFSET, maxOffsetsPerTrigger=50, **EARLIEST)
        query.reader.prepareForTriggerAvailableNow()
        append(log / f"t-0/{0:020}.log", batch(90))
        write_segment(log / "t-2", [batch(0)])
        while query.step():
            pass
        assert len(query.rows) == 99
        query.restarted()
        assert len(query.step(ALL)) == 6

    def test_the_status_says_how_far_the_logs_go(self, log: Path) -> None:
        query = Query(log, OFFSET, maxOffsetsPerTrigger=1, **EARLIEST)
        query.step()
        assert query.reader.reportLatestOffset() == {"t": {"0": 90, "1": 9}}


class TestLoss:
    """What retention, truncation and deletion take, failing and not."""

    @pytest.fixture
    def log(self, tmp_path: Path) -> Path:
        for base in (0, 30, 60):
            write_segment(tmp_path / "t-0", [batch(base + at) for at in range(0, 30, 3)], base)
        return tmp_path

    @staticmethod
    def delete_first(log: Path) -> None:
        for base in (0, 30):
            (log / f"t-0/{base:020}.log").unlink()

    @staticmethod
    def truncate(log: Path) -> None:
        path = log / f"t-0/{60:020}.log"
        path.write_bytes(path.read_bytes()[: len(batch(0))])

    @staticmethod
    def delete_all(log: Path) -> None:
        write_segment(log / "other-0", [batch(0)])
        for path in (log / "t-0").iterdir():
            path.unlink()
        (log / "t-0").rmdir()

    @staticmethod
    def grow_late(log: Path) -> None:
        write_segment(log / "late-0", [batch(50)], 50)

    @pytest.mark.parametrize(
        ("read", "change", "message", "left"),
        [
            (10, "delete_first", "t-0: offsets 10 to 59 are deleted", ("t", range(60, 90))),
            (90, "truncate", "t-0 ends at offset 63, and was read to 90", ("t", ())),
            (90, "delete_all", "t-0 is gone; it was read to offset 90", ("other", range(3))),
            (90, "grow_late", "late-0: offsets 0 to 49 are deleted", ("late", range(50, 53))),
        ],
    )
    def test_is_an_error_or_said(
        self,
        log: Path,
        caplog: pytest.LogCaptureFixture,
        read: int,
        change: str,
        message: str,
        left: tuple[str, Sequence[int]],
    ) -> None:
        query = Query(log, OFFSET, **EARLIEST)
        query.step(ReadMaxRows(read))
        assert len(query.rows) == read
        getattr(self, change)(log)
        with pytest.raises(DataLossError, match=message):
            query.step()
        going_on = Query(log, OFFSET, failOnDataLoss=False, **EARLIEST)
        going_on.offset = query.offset
        with caplog.at_level(logging.WARNING):
            assert triples(going_on.step()) == [(left[0], 0, at) for at in left[1]]
        assert message in caplog.text
        assert going_on.step() == []

    def test_a_log_that_was_cut_is_read_on_from_there(self, log: Path) -> None:
        query = Query(log, OFFSET, failOnDataLoss=False, **EARLIEST)
        query.step()
        self.truncate(log)
        query.step()
        append(log / f"t-0/{60:020}.log", batch(63, 2, size=7), batch(65))
        assert offsets(query.step()) == [63, 64, 65, 66, 67]

    def test_a_log_that_was_cut_and_grew_over_its_old_size(self, log: Path) -> None:
        query = Query(log, OFFSET, failOnDataLoss=False, **EARLIEST)
        query.step()
        self.truncate(log)
        append(log / f"t-0/{60:020}.log", batch(63, 29, size=41), batch(92))
        # From 63 to 89 other records stand now, and where they begin is not known.
        assert offsets(query.step()) == [*range(95)]
        assert query.step() == []

    @staticmethod
    def cut(log: Path) -> None:
        """Keep the first batch, and write others until the log is longer than before."""
        TestLoss.truncate(log)
        append(log / f"t-0/{60:020}.log", *(batch(at, size=50) for at in range(63, 120, 3)))

    @staticmethod
    def make_anew(log: Path) -> None:
        for path in (log / "t-0").iterdir():
            path.unlink()
        write_segment(log / "t-0", [batch(at, size=50) for at in range(0, 120, 3)])

    @staticmethod
    def make_anew_as_long(log: Path) -> None:
        for path in (log / "t-0").iterdir():
            path.unlink()
        write_segment(log / "t-0", [batch(at, size=50) for at in range(0, 90, 3)])

    @staticmethod
    def make_anew_and_roll(log: Path) -> None:
        TestLoss.make_anew(log)
        write_segment(log / "t-0", [batch(120)], 120)

    @pytest.mark.parametrize("is_restarted", [False, True])
    @pytest.mark.parametrize(
        ("change", "read", "left"),
        [
            ("cut", 90, 120), ("cut", 89, 120), ("make_anew", 90, 120), ("make_anew", 50, 120),
            ("make_anew_as_long", 90, 90), ("make_anew_and_roll", 90, 123),
            ("make_anew_and_roll", 31, 123),
        ],
    )  # fmt: skip
    def test_other_records_at_its_offsets(
        self,
        log: Path,
        caplog: pytest.LogCaptureFixture,
        change: str,
        read: int,
        left: int,
        is_restarted: bool,
    ) -> None:
        query = Query(log, OFFSET, **EARLIEST)
        query.step(ReadMaxRows(read))
        getattr(self, change)(log)
        if is_restarted:
            query.restarted()
        message = f"t-0 was read to offset {read}, and has other records there now"
        with pytest.raises(DataLossError, match=message):
            query.step()
        going_on = Query(log, OFFSET, failOnDataLoss=False, **EARLIEST)
        going_on.offset = query.offset
        with caplog.at_level(logging.WARNING):
            assert offsets(going_on.step()) == [*range(left)]
        assert message in caplog.text
        assert going_on.step() == []

    @pytest.mark.parametrize("left", [0, 1])
    def test_compaction_is_no_loss(self, log: Path, left: int) -> None:
        query = Query(log, OFFSET, **EARLIEST)
        query.step(ReadMaxRows(60))
        # The cleaner keeps the offsets of a batch of which it keeps a record.
        rest = bytearray(batch(57, 1))
        rest[23:27] = (2).to_bytes(4, "big")
        rest[17:21] = crc32c(rest[21:]).to_bytes(4, "big")
        path = log / f"t-0/{30:020}.log"
        path.write_bytes(batch(30) + bytes(rest) * left)
        query.restarted()
        assert offsets(query.step()) == [*range(60, 90)]

    def test_offsets_of_an_earlier_version_have_no_marks(self, log: Path) -> None:
        query = Query(log, OFFSET, **EARLIEST)
        query.offset = '{"t": {"0": 90}}'
        assert query.step() == []
        assert query.offset == '{"t": {"0": 90}}'
        append(log / f"t-0/{60:020}.log", batch(90))
        assert offsets(query.step()) == [90, 91, 92]
        assert "last batches" in json.loads(query.offset)

    def test_a_batch_that_was_planned_before(self, log: Path) -> None:
        query = Query(log, OFFSET, **EARLIEST)
        query.step(ReadMaxRows(10), fails=True)
        self.delete_first(log)
        query.restarted()
        with pytest.raises(DataLossError, match="t-0: offsets 0 to 59 are deleted"):
            query.step()

    def test_a_partition_of_one_that_was_planned_before(self, log: Path) -> None:
        query = Query(log, OFFSET, **EARLIEST)
        query.step(fails=True)
        self.delete_all(log)
        with pytest.raises(DataLossError, match="t-0 is gone; offsets to 90 are lost"):
            query.step()

    def test_what_appears_later_is_for_the_next_batch(self, log: Path) -> None:
        query = Query(log, OFFSET, **EARLIEST)
        query.step(ReadMaxRows(10), fails=True)
        self.grow_late(log)
        assert len(query.step()) == 10
        with pytest.raises(DataLossError, match="late-0: offsets 0 to 49 are deleted"):
            query.step()

    def test_the_end_of_one_that_was_planned_before(self, log: Path) -> None:
        query = Query(log, OFFSET, **EARLIEST)
        query.step(fails=True)
        self.truncate(log)
        with pytest.raises(DataLossError, match="t-0 ends at offset 63; it went to 90"):
            query.step()


class TestDamage:
    def test_between_batches_is_told_of_once(self, tmp_path: Path) -> None:
        """However a stream is cut into its batches, each damaged byte is in one of them."""
        bad = bytearray(batch(3))
        bad[-1] ^= 1
        data = [batch(0), bytes(bad), batch(6), b"\xff" * 99, batch(9), batch(12)]
        path = write_segment(tmp_path / "t-0", data[:1])
        query = Query(
            tmp_path, fields("offset", "_error", source_=source(tmp_path, {})), **EARLIEST
        )
        for each in data[1:]:
            append(path, each)
            query.step(ReadMaxRows(2))
        write_segment(tmp_path / "t-0", [batch(15)], 15)
        while query.step(ReadMaxRows(2)):
            pass
        assert [row["offset"] for row in query.rows if row["_error"] is None] == [
            0, 1, 2, *range(6, 18),
        ]  # fmt: skip
        assert [
            (row["_error"]["position"], row["_error"]["size"])
            for row in query.rows if row["_error"] is not None
        ] == [(len(batch(0)), len(bad)), (len(bad) * 3, 99)]  # fmt: skip

    def test_it_is_reported(self, tmp_path: Path) -> None:
        write_segment(tmp_path / "t-0", [batch(0), b"\xff" * 99, batch(3)])
        report = tmp_path / "report"
        query = Query(tmp_path / "t-0", OFFSET, mode="DROPMALFORMED", report=report, **EARLIEST)
        assert len(query.step()) == 6
        report_ = read_report(str(report))
        assert (report_.rows, report_.damaged_bytes) == (6, 99)


def test_an_empty_directory_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no log directory"):
        Query(tmp_path, OFFSET).step()
