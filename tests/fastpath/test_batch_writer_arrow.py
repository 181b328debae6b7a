"""Batches of Arrow columns: every kind, sliced and in chunks, and columns that are not sound."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftspec.fastpath import arrow_input
from kraftspec.fastpath.errors import CodecError, ErrorClass

from .batches import build_cases, writers
from .test_batch_writer import NOW, both

KINDS = {
    "binary": pa.binary(), "large_binary": pa.large_binary(), "binary_view": pa.binary_view(),
}  # fmt: skip


def whole(data: list[Any], kind: pa.DataType) -> Any:
    return pa.array(data, kind)


def sliced(data: list[Any], kind: pa.DataType) -> Any:
    """From row 3 on of more: the bitmap starts inside a byte."""
    filler = [data[0], None, data[-1]] if kind not in (pa.int64(), pa.timestamp("ms")) else [0] * 3
    return pa.array([*filler, *data, *filler], kind).slice(3, len(data))


def chunked(data: list[Any], kind: pa.DataType) -> Any:
    half = len(data) // 2
    parts = [pa.array(part, kind) for part in (data[:half], [], data[half:])]
    return pa.chunked_array(parts, kind)


SHAPES: tuple[Callable[[list[Any], pa.DataType], Any], ...] = (whole, sliced, chunked)


@writers
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_arrow_columns_make_kafkas_bytes(encode: Any, builder: Any, kind: Any, shape: Any) -> None:
    wrong, times = [], (pa.int64(), pa.timestamp("ms"), pa.timestamp("ms", "UTC"))
    for at, v in enumerate(build_cases()):
        encoded = encode(
            shape(v.values, kind), keys=shape(v.keys, kind),
            timestamps=shape(v.timestamps, times[at % 3]), headers=v.headers, **v.fields,
        )  # fmt: skip
        if encoded != v.expected:
            wrong.append(v.id)
    assert wrong == []


@writers
def test_other_kinds(encode: Any, builder: Any) -> None:
    expected = encode([b"four", None, b"\xc3\xa9\xc3\xa9"], timestamps=NOW)
    for kind in (pa.binary(4), pa.string(), pa.large_string(), pa.string_view()):
        data: list[Any] = [b"four", None, b"\xc3\xa9\xc3\xa9"]
        if not pa.types.is_fixed_size_binary(kind):
            data = ["four", None, "éé"]
        for shape in SHAPES:
            assert encode(shape(data, kind), timestamps=NOW) == expected
    nothing = encode([b"a", b"b"], keys=[None, None], timestamps=[1, 2])
    assert encode([b"a", b"b"], keys=pa.nulls(2), timestamps=pa.array([1, 2])) == nothing
    assert encode(pa.array([b"a", b"b"]), keys=[None] * 2, timestamps=[1, 2]) == nothing
    assert encode(pa.array([], pa.binary()), timestamps=NOW) == b""
    assert encode(pa.chunked_array([], pa.binary_view()), timestamps=[]) == b""
    assert encode(pa.array([], pa.binary(0)), timestamps=NOW) == b""
    assert encode(pa.array([b"", b""], pa.binary(0)), timestamps=NOW) == encode(
        [b"", b""], timestamps=NOW
    )


columns = st.lists(st.none() | st.binary(max_size=40), max_size=20)


@given(columns, st.sampled_from([*KINDS.values()]), st.integers(0, 5), st.data())
def test_slices_of_anything(data: list[Any], kind: Any, start: int, more: Any) -> None:
    array = pa.array(data, kind).slice(start)
    times = more.draw(st.lists(st.integers(-1, 1 << 62), min_size=len(array), max_size=len(array)))
    encoded = both(lambda encode, _: encode(array, timestamps=pa.array(times, pa.int64())))
    assert encoded == both(lambda encode, _: encode(data[start:], timestamps=times))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 2]), pa.array([[b"a"], [b"b"]]), pa.array([b"a", b"b"]).dictionary_encode(),
        pa.array([True, False]), pa.array([{"a": b"a"}] * 2), pa.array(["a", "b"]).cast(
            pa.dictionary(pa.int8(), pa.string())), pa.array([1.5, 2]),
    ],
    ids=lambda column: str(column.type),
)  # fmt: skip
def test_columns_that_are_no_bytes(column: Any) -> None:
    for call in (
        lambda encode, _: encode(column, timestamps=NOW),
        lambda encode, _: encode([b"", b""], keys=column, timestamps=NOW),
        lambda encode, _: encode(pa.chunked_array([column]), timestamps=NOW),
    ):
        assert both(call)[0] is ErrorClass.WRONG_TYPE


@pytest.mark.parametrize(
    ("times", "error", "path"),
    [
        (pa.array([1, None]), ErrorClass.WRONG_TYPE, "records[1].timestamp"),
        (pa.array([1, -2]), ErrorClass.INTEGER_OUT_OF_RANGE, "records[1].timestamp"),
        (pa.array([1, 2], pa.int32()), ErrorClass.WRONG_TYPE, "records.timestamp"),
        (pa.array([1, 2], pa.timestamp("us")), ErrorClass.WRONG_TYPE, "records.timestamp"),
        (pa.array([1.0, 2.0]), ErrorClass.WRONG_TYPE, "records.timestamp"),
        (pa.array([1]), ErrorClass.RECORD_COUNT_MISMATCH, "records"),
        (pa.nulls(2), ErrorClass.WRONG_TYPE, "records.timestamp"),
    ],
)
def test_columns_that_are_no_timestamps(times: Any, error: ErrorClass, path: str) -> None:
    refusal = both(lambda encode, _: encode([b"a", b"b"], timestamps=times))
    assert (refusal[0], refusal[2]) == (error, path)


def test_headers_are_no_arrow_column() -> None:
    column = pa.array([b"a", b"b"])
    refusal = both(lambda encode, _: encode([b"", b""], timestamps=NOW, headers=column))
    assert refusal[0] is ErrorClass.WRONG_TYPE


@writers
def test_nothing_is_kept(encode: Any, builder: Any) -> None:
    before = pa.total_allocated_bytes()
    for kind in KINDS.values():
        values = pa.chunked_array([pa.array([b"x" * 9999] * 10, kind)] * 3)
        for _ in range(5):
            encode(values, timestamps=pa.array(range(30)), keys=values.combine_chunks())
            with pytest.raises(CodecError):
                encode(values, timestamps=pa.array(range(29)))
        del values
    assert pa.total_allocated_bytes() == before


# -------------------------------------------------------------------- columns that are not sound


_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


# Releases nothing: the array that was copied owns it all.
_keep = ctypes.CFUNCTYPE(None, ctypes.POINTER(arrow_input._Array))(lambda array: None)


class Tampered:
    """Exports a sound array with some fields changed."""

    def __init__(self, array: Any, format: bytes | None = None, **changes: Any) -> None:
        self.owner = array.__arrow_c_array__()
        self.schema, self.array = (
            kind.from_buffer_copy(kind.from_address(arrow_input._pointer_of(capsule, name)))
            for capsule, kind, name in zip(
                self.owner, (arrow_input._Schema, arrow_input._Array),
                (b"arrow_schema", b"arrow_array"), strict=True,
            )
        )  # fmt: skip
        if format is not None:
            self.schema.format = format
        count = max(self.array.n_buffers, 1)
        self.buffers = (ctypes.c_void_p * count)(*(self.array.buffers[i] for i in range(count)))
        self.array.buffers = self.buffers
        self.array.release = ctypes.cast(_keep, type(self.array.release))
        for name, value in changes.items():
            if name.startswith("buffer"):
                self.buffers[int(name[6:])] = value
            else:
                setattr(self.array, name, value)

    def __arrow_c_array__(self) -> tuple[Any, Any]:
        return (
            _capsule(ctypes.addressof(self.schema), b"arrow_schema", None),
            _capsule(ctypes.addressof(self.array), b"arrow_array", None),
        )


def offsets(*values: int, wide: bool = False) -> Any:
    kind = ctypes.c_int64 if wide else ctypes.c_int32
    kept.append((kind * len(values))(*values))
    return ctypes.addressof(kept[-1])


def view(size: int, index: int, offset: int) -> Any:
    return offsets(size, 0, index, offset, size, 0, index, offset)


kept: list[Any] = []
LONG = b"0123456789abcdef"
BINARY, LARGE, VIEW = (pa.array([LONG, LONG], kind) for kind in KINDS.values())
UNSOUND: dict[str, Any] = {
    "offsets fall": Tampered(BINARY, buffer1=offsets(5, 3, 16)),
    "offsets below 0": Tampered(BINARY, buffer1=offsets(-5, -1, 3)),
    "large offsets fall": Tampered(LARGE, buffer1=offsets(9, 3, 1, wide=True)),
    "no offsets": Tampered(BINARY, buffer1=None),
    "no data": Tampered(BINARY, buffer2=None),
    "no large data": Tampered(LARGE, buffer2=None),
    "negative length": Tampered(BINARY, length=-1),
    "negative offset": Tampered(BINARY, offset=-1),
    "nulls, no bitmap": Tampered(BINARY, null_count=1, buffer0=None),
    "too few buffers": Tampered(BINARY, n_buffers=2),
    "children": Tampered(BINARY, n_children=1),
    "no views": Tampered(VIEW, buffer1=None),
    "view of a buffer that is not": Tampered(VIEW, buffer1=view(16, 1, 0)),
    "view of buffer -1": Tampered(VIEW, buffer1=view(16, -1, 0)),
    "view past the end": Tampered(VIEW, buffer1=view(16, 0, 30)),
    "view from below 0": Tampered(VIEW, buffer1=view(16, 0, -1)),
    "view of -1 bytes": Tampered(VIEW, buffer1=view(-1, 0, 0)),
    "view into nothing": Tampered(VIEW, buffer2=None),
    "no sizes of views": Tampered(VIEW, buffer3=None),
    "few buffers of views": Tampered(VIEW, n_buffers=2),
    "fixed size, no data": Tampered(pa.array([b"1234"], pa.binary(4)), buffer1=None),
    "width -4": Tampered(pa.array([b"1234"], pa.binary(4)), b"w:-4"),
    "width of letters": Tampered(pa.array([b"1234"], pa.binary(4)), b"w:abc"),
    "width of no digits": Tampered(pa.array([b"1234"], pa.binary(4)), b"w:"),
    "width past int32": Tampered(pa.array([b"1234"], pa.binary(4)), b"w:99999999999999999999"),
    "format of no text": Tampered(BINARY, b"\xff"),
    "another format": Tampered(BINARY, b"+l"),
    "no format": Tampered(BINARY, b""),
}


@pytest.mark.parametrize("column", UNSOUND.values(), ids=UNSOUND)
def test_unsound_columns_are_refused(column: Any) -> None:
    refusal = both(lambda encode, _: encode(column, timestamps=NOW))
    assert refusal[0] is ErrorClass.WRONG_TYPE
    assert refusal[2] == "records.value"


@pytest.mark.parametrize(
    "column",
    [
        Tampered(pa.array([1, 2]), buffer1=None), Tampered(pa.array([1, 2]), n_buffers=1),
        Tampered(pa.array([1, 2]), null_count=2, buffer0=None),
    ],
)  # fmt: skip
def test_unsound_timestamps_are_refused(column: Any) -> None:
    refusal = both(lambda encode, _: encode([b"a", b"b"], timestamps=column))
    assert (refusal[0], refusal[2]) == (ErrorClass.WRONG_TYPE, "records.timestamp")


class Handing:
    """Exports the capsule that it was constructed with."""

    def __init__(self, handed: Any) -> None:
        self.handed = handed

    def __arrow_c_array__(self) -> Any:
        return self.handed


@pytest.mark.parametrize("handed", [None, (), (1, 2), (1,), "ab", b"ab", (None, None)])
def test_what_is_no_pair_of_capsules(handed: Any) -> None:
    refusal = both(lambda encode, _: encode(Handing(handed), timestamps=NOW))
    assert refusal[0] is ErrorClass.WRONG_TYPE


def test_capsules_of_other_things() -> None:
    schema, array = BINARY.__arrow_c_array__()
    for pair in ((array, schema), (schema, schema), (array, array)):
        assert both(lambda encode, _, pair=pair: encode(Handing(pair), timestamps=NOW))[0] is (
            ErrorClass.WRONG_TYPE
        )
    taken = BINARY.__arrow_c_array__()
    pa.Array._import_from_c_capsule(*taken)  # Moves them out: what is left is released.
    assert both(lambda encode, _: encode(Handing(taken), timestamps=NOW))[1].endswith("released")


class Streaming:
    """Exports a stream."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.stream()


class Failing:
    """Exports a stream that fails after some chunks."""

    def __init__(self, chunks: int) -> None:
        table = pa.chunked_array([[LONG]] * 9, pa.binary())
        stream = arrow_input._Stream

        def get_next(_: Any, out: Any) -> int:
            self.left -= 1
            return self.sound.get_next(self.sound, out) if self.left >= 0 else 5

        self.chunks = chunks
        self.left = 0
        self.owner = table.__arrow_c_stream__()
        self.sound = stream.from_address(arrow_input._pointer_of(self.owner, b"arrow_array_stream"))
        self.broken = stream.from_buffer_copy(self.sound)
        types = {name: kind for name, kind, *_ in stream._fields_}
        self.broken.get_schema = types["get_schema"](
            lambda _, out: self.sound.get_schema(self.sound, out)
        )
        self.broken.get_next = types["get_next"](get_next)
        self.broken.get_last_error = types["get_last_error"](lambda _: ctypes.addressof(REASON))
        self.broken.release = types["release"](lambda _: None)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        self.left = self.chunks
        return _capsule(ctypes.addressof(self.broken), b"arrow_array_stream", None)


REASON = ctypes.create_string_buffer(b"the disk is gone")


@pytest.mark.parametrize("chunks", [0, 1, 3])
def test_streams_that_fail(chunks: int) -> None:
    column = Failing(chunks)
    refusal = both(lambda encode, _: encode(column, timestamps=NOW))
    assert refusal[0] is ErrorClass.WRONG_TYPE
    assert "the disk is gone" in refusal[1]


def test_what_is_no_stream() -> None:
    for handed in (None, 5, BINARY.__arrow_c_array__()[0]):
        column = Streaming(lambda handed=handed: handed)
        actual = both(lambda encode, _, column=column: encode(column, timestamps=NOW))
        assert actual[0] is ErrorClass.WRONG_TYPE


@writers
def test_errors_of_the_producer_are_its_own(encode: Any, builder: Any) -> None:
    class Failing:
        def __arrow_c_array__(self) -> Any:
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        encode(Failing(), timestamps=NOW)
