"""The walker: windows of every size give what the whole buffer gives, and little is read."""

from __future__ import annotations

import pytest

from kraftspec.fastpath import walk as walk_module
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.walk import Resync, Walk, iterate_headers, reader_of, walk_headers

from .logs import batch

SIZES = (8, 3_000, 24, 400, 8, 8, 1_200)
DATA = b"".join(batch(3 * number, 3, size) for number, size in enumerate(SIZES))
WINDOWS = (61, 100, 1_000, 5_000, 1 << 20)


class Reads:
    """Reads a buffer as a file, and notes how much at a time."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.counts: list[int] = []

    def __call__(self, position: int, size: int) -> bytes:
        self.counts.append(size)
        return self.data[position : position + size]


def spans(walk: Walk) -> list[tuple[int, int]]:
    result = []
    for header in walk:
        start = walk.base + header.position
        assert walk.position == start + header.size
        assert bytes(walk.window[header.position : header.end]) == DATA[start : walk.position]
        result.append((start, walk.position))
    return result


@pytest.mark.parametrize("window", WINDOWS)
def test_windows_give_the_batches_of_the_buffer(window: int) -> None:
    expected = [(header.position, header.end) for header in iterate_headers(DATA)]
    assert len(expected) == len(SIZES)
    walk = Walk(Reads(DATA), 0, len(DATA), window_bytes=window)
    assert spans(walk) == expected
    assert (walk.position, walk.error) == (len(DATA), None)
    headers = walk_headers(Reads(DATA), 0, len(DATA), window)
    assert [(header.position, header.end) for header in headers] == expected


@pytest.mark.parametrize("window", WINDOWS)
def test_an_error_has_its_byte_of_the_file(window: int) -> None:
    starts = [header.position for header in iterate_headers(DATA)]
    for start in starts:
        data = bytearray(DATA)
        data[start + 40] ^= 1
        with pytest.raises(CodecError) as refused:
            list(iterate_headers(bytes(data)))
        walk = Walk(Reads(bytes(data)), 0, len(data), window_bytes=window)
        for _ in walk:
            pass
        assert walk.position == start
        assert str(walk.error) == str(refused.value)


@pytest.mark.parametrize("window", WINDOWS)
def test_a_length_beyond_the_file_is_refused_unread(window: int) -> None:
    lying = DATA + bytes(8) + b"\x7f\xff\xff\xff" + bytes(4) + b"\2" + b"\1" * 200_000
    with pytest.raises(CodecError) as refused:
        list(iterate_headers(lying))
    reads = Reads(lying)
    walk = Walk(reads, 0, len(lying), window_bytes=window)
    assert len(spans(walk)) == len(SIZES)
    assert str(walk.error) == str(refused.value)
    assert max(reads.counts) <= max(window, len(lying) if window == 1 << 20 else 3 * 3_200)


def test_a_batch_larger_than_the_limit_is_refused() -> None:
    walk = Walk(Reads(DATA), 0, len(DATA), window_bytes=61, batch_bytes_max=2_000)
    assert len(spans(walk)) == 1
    assert walk.error is not None
    assert walk.error.error_class is ErrorClass.TRUNCATED


def test_a_file_that_has_become_shorter_ends_there() -> None:
    walk = Walk(Reads(DATA), 0, len(DATA) + 500, window_bytes=61)
    assert len(spans(walk)) == len(SIZES)
    assert (walk.end, walk.error) == (len(DATA), None)


@pytest.mark.parametrize("window", WINDOWS)
def test_batches_are_found_again_across_windows(
    window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk_module, "WINDOW_BYTES", window)
    for gap in range(0, 200, 7):
        data = b"\xff\2" * 7 + bytes(gap) + DATA
        for read in (Reads(data), reader_of(memoryview(data))):
            assert Resync(read, len(data)).after(0, 0) == 14 + gap
