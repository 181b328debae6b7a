from __future__ import annotations

import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftspec.pipeline import LogFile, Report, Split, discover, plan_splits, read_split, scan
from kraftspec.pipeline.splits import OPEN_BYTES, Part

from .segment_files import TIME_MS, batch, write_index, write_segment

PLACES = ("file", "position", "offset", "value")


def parts_of(splits: list[Split]) -> dict[str, list[Part]]:
    result: dict[str, list[Part]] = {}
    for split in splits:
        for part in split.parts:
            result.setdefault(part.file.path, []).append(part)
    return result


def read_all(splits: list[Split], **options: Any) -> list[dict[str, Any]]:
    report = options.pop("report", Report())
    return [
        row
        for split in splits
        for record_batch in read_split(split, report=report, **{"columns": PLACES, **options})
        for row in record_batch.to_pylist()
    ]


def batches_of(files: list[Path]) -> dict[str, list[int]]:
    """Return where the batches of each file start, by their lengths alone."""
    result: dict[str, list[int]] = {}
    for path in files:
        data, at = path.read_bytes(), 0
        starts = result.setdefault(str(path), [])
        while at < len(data):
            starts.append(at)
            at += 12 + struct.unpack_from(">i", data, at + 8)[0]
    return result


SEGMENTS = st.lists(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 900)), max_size=12), min_size=1, max_size=5
)


@settings(max_examples=120, deadline=None)
@given(SEGMENTS, st.integers(1, 6_000), st.sampled_from([None, 1, 3]))
def test_every_byte_is_in_one_split_once(
    tmp_path_factory: pytest.TempPathFactory,
    segments: list[list[tuple[int, int]]],
    split_bytes: int,
    index_every: int | None,
) -> None:
    directory = tmp_path_factory.mktemp("logs")
    offset, paths = 0, []
    for number, sizes in enumerate(segments):
        batches = []
        base = offset
        for count, size in sizes:
            batches.append(batch(offset, count, size))
            offset += count
        offset += 1  # Segments need different names.
        path = write_segment(directory / f"t-{number % 2}", batches, base)
        if index_every and batches:
            write_index(path, index_every)
        paths.append(path)
    files = discover(directory)
    splits = plan_splits(files, split_bytes)
    assert splits == plan_splits(discover(directory), split_bytes)
    assert pickle.loads(pickle.dumps(splits)) == splits
    starts, parts = batches_of(paths), parts_of(splits)
    for file in files:
        spans = [(part.start, part.end) for part in parts.get(file.path, [])]
        covered = 0
        for start, end in spans:
            assert start == covered < end
            assert start in starts[file.path]
            covered = end
        assert covered == file.size
        ends = [*starts[file.path][1:], file.size]
        largest = max((b - a for a, b in zip(starts[file.path], ends, strict=False)), default=0)
        # An index does not know every batch.
        assert all(b - a <= split_bytes * 2 + largest * (index_every or 1) for a, b in spans)
    whole = [row for record_batch in scan(directory, PLACES) for row in record_batch.to_pylist()]
    assert read_all(splits) == whole
    assert len(whole) == sum(count for sizes in segments for count, _ in sizes)


def test_parts_are_of_about_the_size_asked_for(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "t-0", [batch(3 * at, 3, 300) for at in range(400)])
    for index in (None, write_index(path, 4)):
        splits = plan_splits(discover(tmp_path), 50_000)
        sizes = [part.size for split in splits for part in split.parts]
        assert index is None or discover(tmp_path)[0].indexes == (".index",)
        assert len(sizes) == round(path.stat().st_size / 50_000)
        assert max(sizes) - min(sizes) < 10_000


def test_small_files_are_packed(tmp_path: Path) -> None:
    for number in range(40):
        write_segment(tmp_path / f"t-{number}", [batch(0, 100, 100)])
    size = discover(tmp_path)[0].size
    splits = plan_splits(discover(tmp_path), 10 * (size + OPEN_BYTES))
    assert [len(split.parts) for split in splits] == [10, 10, 10, 10]
    assert all(split.size == 10 * size for split in splits)
    assert len(plan_splits(discover(tmp_path), 1 << 30)) == 1


def test_an_index_is_held_against_the_log(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "t-0", [batch(3 * at, 3, 300) for at in range(40)])
    starts = batches_of([path])[str(path)]
    index = write_index(path)
    truth = plan_splits(discover(path), 8_000)
    good = index.read_bytes()
    lies = {
        "positions": struct.pack(">ii", 3, starts[1] + 5) + struct.pack(">ii", 90, starts[30] + 7),
        "beyond the end": struct.pack(">ii", 3, 1 << 30),
        "negative": struct.pack(">ii", 3, -5),
        "back": good[80:88] + good[:80],
        "offsets too small": b"".join(struct.pack(">ii", at, starts[at]) for at in range(1, 40)),
        "zeros": bytes(800),
        "cut": good[:13],
        "nothing": b"",
    }
    for name, data in lies.items():
        index.write_bytes(data)
        splits = plan_splits(discover(path), 8_000)
        for part in parts_of(splits)[str(path)]:
            assert part.start in starts, name
        assert [row["offset"] for row in read_all(splits)] == list(range(120)), name
    index.write_bytes(good + bytes(64))  # Filled ahead, as that of an active segment.
    assert [row["offset"] for row in read_all(plan_splits(discover(path), 8_000))] == [
        row["offset"] for row in read_all(truth)
    ]


@pytest.mark.parametrize("with_index", [True, False])
def test_damage_does_not_stop_the_division(tmp_path: Path, with_index: bool) -> None:
    batches = [batch(3 * at, 3, 300) for at in range(100)]
    wrong = bytearray(batches[20])
    struct.pack_into(">i", wrong, 8, 17)
    path = write_segment(tmp_path / "t-0", batches)
    if with_index:
        write_index(path, 3)
    path.write_bytes(b"".join([*batches[:20], bytes(wrong), *batches[21:]]))
    splits = plan_splits(discover(path), 10_000)
    assert len(splits) > 5
    report = Report()
    rows = read_all(splits, report=report)
    assert [row["offset"] for row in rows] == [*range(60), *range(63, 300)]
    assert [(one.position, one.size) for one in report.damaged] == [
        (sum(map(len, batches[:20])), len(wrong))
    ]


def partition(directory: Path) -> list[LogFile]:
    """Make three segments with indexes: offsets 0 to 899, a millisecond a batch of three."""
    for number in range(3):
        base = 300 * number
        path = write_segment(
            directory / "t-0", [batch(base + 3 * at, 3, 100) for at in range(100)], base
        )
        write_index(path, 5)
        entries = [(TIME_MS + base + 3 * at, 3 * at + 2) for at in range(0, 100, 5)]
        times = b"".join(struct.pack(">qi", *entry) for entry in [*entries[1:], entries[-1]][:-1])
        last = struct.pack(">qi", TIME_MS + base + 297, 299)
        path.with_suffix(".timeindex").write_bytes(times + last)
    return discover(directory)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([("offset", ">=", 450), ("offset", "<", 500)], range(450, 500)),
        ([("offset", ">", 890)], range(891, 900)),
        ([("offset", "=", 5)], range(5, 6)),
        ([("offset", "in", [299, 300])], range(299, 301)),
        ([("timestamp", ">=", TIME_MS + 700)], range(702, 900)),
        ([("timestamp", "<", TIME_MS + 3)], range(3)),
        ([[("offset", "<", 2)], [("offset", ">=", 899)]], [0, 1, 899]),
        ([("partition", "=", 1)], []),
        ([("topic", "in", ["t"]), ("offset", "not in", list(range(899)))], [899]),
    ],
)
def test_filters_leave_out_what_cannot_match(
    tmp_path: Path, filters: list[Any], expected: Any
) -> None:
    files = partition(tmp_path)
    total = sum(file.size for file in files)
    splits = plan_splits(files, filters=filters)
    rows = read_all(splits, filters=filters)
    assert [row["offset"] for row in rows] == list(expected)
    planned = sum(split.size for split in splits)
    blind = plan_splits(files, filters=filters, use_indexes=False)
    assert read_all(blind, filters=filters) == rows
    if isinstance(filters[0], tuple) and filters[0][1] in (">", ">=", "="):
        # A twentieth of a segment lies between two entries of its index.
        assert planned <= total * (len(expected) + 40) / 900 < total / 2
    assert planned <= sum(split.size for split in blind) <= total


def test_splits_need_a_size() -> None:
    with pytest.raises(ValueError, match="split_bytes 0"):
        plan_splits([], 0)
