from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from kraftspec.pipeline import discover
from kraftspec.pipeline.layout import survey

from .segment_files import batch, write_segment

UNIQUE = "0123456789abcdef" * 2


def make_logs(directory: Path) -> Path:
    for name in ("a.b_c-1", "a.b_c-0", "-0-2", "__cluster_metadata-0"):
        for base in (0, 30, 700):
            write_segment(directory / name, [batch(base)], base)
    metadata = directory / "__cluster_metadata-0"
    (metadata / "00000000000000000030-0000000002.checkpoint").write_bytes(batch(0))
    (metadata / "00000000000000000700-0000000003.checkpoint.part").write_bytes(b"x")
    (metadata / "quorum-state").write_text("{}")
    (metadata / "00000000000000000030.index").write_bytes(b"")
    for name in (f"a-0.{UNIQUE}-delete", f"a-1.{UNIQUE}-future", f"a-2.{UNIQUE}-stray"):
        write_segment(directory / name, [batch(0)])
    for suffix in ("deleted", "cleaned", "swap"):
        (directory / "a.b_c-0" / f"00000000000000000000.log.{suffix}").write_bytes(b"x")
    (directory / "meta.properties").write_text("")
    (directory / "not a partition").mkdir()
    return directory


def test_a_log_directory(tmp_path: Path) -> None:
    actual = survey(make_logs(tmp_path))
    segments = [
        (file.topic, file.partition, file.base_offset, file.end_offset)
        for file in actual.files
        if file.kind == "segment"
    ]
    assert segments == [
        (topic, partition, *offsets)
        for topic, partition in (("-0", 2), ("__cluster_metadata", 0), ("a.b_c", 0), ("a.b_c", 1))
        for offsets in ((0, 30), (30, 700), (700, None))
    ]
    (checkpoint,) = [file for file in actual.files if file.kind == "checkpoint"]
    assert (checkpoint.base_offset, checkpoint.epoch, checkpoint.topic) == (
        30, 2, "__cluster_metadata",
    )  # fmt: skip
    assert [file.indexes for file in actual.files if file.indexes] == [(".index",)]
    assert all(file.size == Path(file.path).stat().st_size for file in actual.files)
    assert pickle.loads(pickle.dumps(actual.files)) == actual.files
    reported = sorted(one.reason.rpartition(" ")[2] for one in actual.ignored)
    assert reported == sorted(
        ["delete", "future", "stray", "fetched", "fetched", "fetched", "fetched"]
    )


def test_other_paths(tmp_path: Path) -> None:
    make_logs(tmp_path / "broker/logs")
    partition = tmp_path / "broker/logs/a.b_c-1"
    assert [file.base_offset for file in discover(partition)] == [0, 30, 700]
    (middle,) = discover(partition / f"{30:020}.log")
    assert (middle.topic, middle.partition, middle.end_offset) == ("a.b_c", 1, 700)
    # A file that is to be deleted is read when it is named.
    (leaving,) = discover(tmp_path / f"broker/logs/a-1.{UNIQUE}-future")
    assert (leaving.topic, leaving.partition) == ("a", 1)
    assert discover(tmp_path / "broker") == discover(tmp_path / "broker/logs")
    both = discover([partition, partition / f"{0:020}.log"])
    assert [file.base_offset for file in both] == [0, 30, 700]
    other = tmp_path / "orders.log"
    other.write_bytes(batch(0))
    (file,) = discover(other)
    assert (file.kind, file.topic, file.partition, file.base_offset) == ("segment", None, None, -1)
    (tmp_path / "empty-0").mkdir()
    assert discover(tmp_path / "empty-0") == []


def test_what_holds_no_log(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no log directory"):
        discover(tmp_path)
    with pytest.raises(FileNotFoundError, match="gone"):
        discover(tmp_path / "gone")
