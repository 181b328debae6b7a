"""Blocks of offsets: whatever their size, a difference is within what is suspect."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraftspec.reference.recovery.fingerprints import Fingerprints, suspects

sizes = st.lists(st.integers(1, 5), min_size=1, max_size=200)


def made(batches: list[tuple[int, int, int]], blocks_max: int) -> Fingerprints:
    index = Fingerprints(blocks_max)
    for base_offset, last_offset, crc in batches:
        index.add(base_offset, last_offset, 1, crc, base_offset)
    return index


def batches_of(start: int, sizes: list[int]) -> list[tuple[int, int, int]]:
    batches = []
    for size in sizes:
        batches.append((start, start + size - 1, 7 * start))
        start += size
    return batches


@given(sizes, st.integers(0, 300), st.integers(2, 40), st.integers(2, 300), st.data())
def test_a_difference_is_found(
    lengths: list[int], start: int, one_max: int, other_max: int, data: st.DataObject
) -> None:
    batches = batches_of(start, lengths)
    at = data.draw(st.integers(0, len(batches) - 1))
    base_offset, last_offset, crc = batches[at]
    changed = [*batches[:at], (base_offset, last_offset, crc + 1), *batches[at + 1 :]]
    end = batches[-1][1] + 1
    ranges = list(suspects(made(batches, one_max), made(changed, other_max), start, end))
    assert any(base_offset in place for place in ranges)
    assert ranges == sorted(ranges, key=lambda place: place.start)


@given(sizes, st.integers(0, 300), st.integers(2, 40), st.integers(2, 300))
def test_the_same_logs_have_nothing_suspect(
    lengths: list[int], start: int, one_max: int, other_max: int
) -> None:
    batches = batches_of(start, lengths)
    end = batches[-1][1] + 1
    one, other = made(batches, one_max), made(batches, other_max)
    assert list(suspects(one, other, start, end)) == []


@given(sizes, st.integers(0, 300), st.integers(2, 20), st.integers(0, 1_000))
def test_a_place_is_at_or_before_its_offset(
    lengths: list[int], start: int, blocks_max: int, offset: int
) -> None:
    batches = batches_of(start, lengths)
    index = made(batches, blocks_max)
    place = index.place_before(offset)  # Here a place is the offset of the batch.
    before = [base_offset for base_offset, _, _ in batches if base_offset <= offset]
    if place >= 0:
        assert place <= max([offset, start])
    assert len(list(index.blocks(index.shift))) <= blocks_max
    assert place >= 0 or not before
