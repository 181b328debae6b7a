"""Metadata records as text from their bytes: equal to what the plain twin makes of objects."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftspec.conformance.fuzz.values import mutated
from kraftspec.fastpath import native
from kraftspec.fastpath.batch_reader import read_header
from kraftspec.fastpath.batch_writer import encode_batch
from kraftspec.reference.tools import dump_lines
from kraftspec.reference.tools.dump_batches import Piece
from kraftspec.reference.tools.dump_lines import DumpOptions, JsonLines, TextLines

from .metadata_records import kinds, random_record

_native: Any = native.load("_record_text")
OPTIONS = DumpOptions(deep=True, metadata=True)

pytestmark = pytest.mark.skipif(_native is None, reason="the module was not built")


def piece_of(data: bytes, position: int = 0) -> Piece:
    return Piece(read_header(data, position), data, 0, True)


def both(data: bytes, monkeypatch: pytest.MonkeyPatch, position: int = 0) -> bool:
    """Hold the native lines against the twin's; return whether the native ones were made."""
    programs = dump_lines._programs()
    for kind, words in ((TextLines, dump_lines._WORDS), (JsonLines, dump_lines._JSON_WORDS)):
        actual = programs.lines(data, position, words)
        quick = kind("file", OPTIONS)
        output = quick.piece(piece_of(data, position))
        with monkeypatch.context() as patched:
            patched.setattr(dump_lines, "_programs", lambda: None)
            twin = kind("file", OPTIONS)
            assert output == twin.piece(piece_of(data, position))
        assert quick.problems == twin.problems
        assert quick._last_offset == twin._last_offset
        assert actual is None or output.endswith(actual)
        assert actual is None or not twin.problems
    return actual is not None


@pytest.mark.parametrize(
    ("cls", "version"), list(kinds()), ids=lambda it: str(getattr(it, "__name__", it))
)
def test_every_record_at_every_version(
    cls: Any, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(f"{cls.__name__} {version}")
    count = 0
    for _ in range(40):
        value = random_record(random, cls, version, ascii=True, unknown_tags=False)
        count += both(encode_batch([value], timestamps=5), monkeypatch)
        other = random_record(random, cls, version, ascii=False, unknown_tags=True)
        both(encode_batch([other], timestamps=5), monkeypatch)
        both(encode_batch([mutated(random, value, other)], timestamps=5), monkeypatch)
        both(encode_batch([mutated(random, value, other, keep=3)], timestamps=5), monkeypatch)
    # A double is left to the twin; the vector of every other record is native.
    assert count == (0 if cls.__name__ == "ClientQuotaRecord" else 40)


@pytest.mark.soak
@given(seed=st.integers(0, 1 << 32), count=st.integers(0, 30), keyed=st.booleans())
def test_batches(seed: int, count: int, keyed: bool) -> None:
    random = Random(seed)
    several = list(kinds())
    values = [
        random_record(random, *random.choice(several), ascii=random.random() < 0.99,
                      unknown_tags=random.random() < 0.01)
        for _ in range(count)
    ]  # fmt: skip
    options: dict[str, Any] = {"base_offset": random.choice((0, 7)), "partition_leader_epoch": 1}
    if keyed and values:
        options["keys"] = [b"k", *[None] * (count - 1)]
    times = [random.randint(0, 1 << 40) for _ in values]
    batch = encode_batch(values, timestamps=times, **options) if values else b""
    with pytest.MonkeyPatch.context() as monkeypatch:
        if batch:
            actual = both(b"\xee" * 5 + batch, monkeypatch, 5)
            assert not (actual and keyed)


@given(seed=st.integers(0, 1 << 32), data=st.binary(max_size=200))
def test_bytes_that_are_anything(seed: int, data: bytes) -> None:
    """The text of any batch is equal to the twin's, or the batch is rejected."""
    random = Random(seed)
    several = list(kinds())
    values = [
        random_record(random, *random.choice(several), ascii=True, unknown_tags=False)
        for _ in range(3)
    ]
    batch = encode_batch(values, timestamps=9)
    broken = mutated(random, batch, data, keep=61)
    programs = dump_lines._programs()
    for at in range(0, len(broken) + 2, 7):
        programs.lines(broken[:at], 0, dump_lines._WORDS)
        programs.lines(broken, at, dump_lines._WORDS)
    assert programs.lines(b"", 0, dump_lines._WORDS) is None
    assert programs.lines(batch, -1, dump_lines._WORDS) is None


def test_what_it_does_not_take() -> None:
    programs = _native.Programs()
    flexible = (0, True, (("a", "a", "int32", False, None),), (), (), ())
    plain = (0, False, (("a", "a", "int32", False, None),), (), (), ())
    double = (0, True, (("a", "a", "float64", False, None),), (), (), ())
    uuid_tag = (0, True, (), ((0, "a", "a", "uuid", False, None, bytes(16)),), (), ())
    assert programs.add(1, 0, b"", (flexible,), 0, [["a"]])
    for layout in (plain, double, uuid_tag):
        assert not programs.add(2, 0, b"", (layout,), 0, [["a"]])
    assert not programs.add(128, 0, b"", (flexible,), 0, [["a"]])
    assert not programs.add(1, 16, b"", (flexible,), 0, [["a"]])
    batch = encode_batch([b"\x01\x01\x00\x00\x00\x00\x07\x00"], timestamps=3)
    words = (b"<", b" ", b" ", b" ", b">")
    assert programs.lines(batch, 0, words) == b'<0 3 8 {"a":7}>'
    with pytest.raises(TypeError):
        programs.lines(batch, 0, ("<", b"", b"", b"", b""))
    with pytest.raises(TypeError):
        programs.lines("text", 0, words)
