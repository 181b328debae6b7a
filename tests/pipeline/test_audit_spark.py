"""The audit over Spark, and over an object store: the report is the one that is made here."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow.fs
import pytest
from pyspark.sql import SparkSession

from kraftspec.conformance.making.logs import kafka_logs
from kraftspec.fastpath.records import Compression
from kraftspec.pipeline.audit import audit

from .audit_logs import batch, marker, produced, write


def troubled(root: Path) -> Path:
    """Segments with findings within them and across them."""
    bad = bytearray(batch(30, 30))
    bad[200] ^= 4
    segments = [
        [batch(0, 30, compression=Compression.GZIP), bytes(bad), batch(60, 5)],
        [produced(65, 0, transactional=True), batch(68, 24)],
        [batch(95, 5), produced(100, 9, transactional=True), marker(103)],
        [produced(104, 12, transactional=True), batch(107)],
    ]
    directory = write(root, segments, epochs=[(0, 0), (1, 107)])
    index = struct.pack(">2i", 3, 17)
    (directory / f"{65:020}.index").write_bytes(index)
    return root


def test_executors_find_what_is_found_here(spark: SparkSession, tmp_path: Path) -> None:
    root = troubled(tmp_path / "made")
    here, there = audit(root), audit(root, spark=spark)
    kinds = {
        "damage", "index_entry", "sequence_gap", "transaction_open", "epoch_checkpoint_differs",
        "offset_gap",
    }  # fmt: skip
    assert here.findings.counts.keys() == kinds
    assert there.to_json() == here.to_json()


def test_executors_audit_what_kafka_wrote(spark: SparkSession) -> None:
    logs = kafka_logs() / "clean"
    progress: list[tuple[str, int, int]] = []
    here = audit(logs)
    there = audit(logs, spark=spark, advance=lambda *one: progress.append(one))
    assert there.to_json() == here.to_json()
    assert progress[-1] == ("done", here.totals.files, here.totals.files)


def test_a_file_that_is_gone_is_told_of_and_the_rest_is_audited(tmp_path: Path) -> None:
    """Retention takes a segment between the listing and the reading."""
    directory = write(tmp_path, [[produced(0, 0)], [produced(3, 3)], [produced(6, 6)]])
    gone = directory / f"{3:020}.log"

    def takes(what: str, number: int, count: int) -> None:
        if number == 1:
            gone.unlink()

    report = audit(tmp_path, advance=takes)
    assert list(report.unread) == [str(gone)]
    assert "FileNotFoundError" in report.unread[str(gone)]
    # What is missing with it is no gap of the log's.
    assert report.findings.counts == {}
    assert report.totals.records == 6


def test_a_store_is_read_by_ranges(tmp_path: Path) -> None:
    root = troubled(tmp_path / "made")
    store = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    there = audit("made", filesystem=store)
    assert there.findings.counts == audit(root).findings.counts
    assert there.totals == audit(root).totals


@pytest.mark.parametrize("name", ["none", "t-0"])
def test_what_is_no_log_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises((FileNotFoundError, ValueError), match=name):
        audit(tmp_path / name)
