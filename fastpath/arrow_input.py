"""Columns handed out by the Arrow C data interface, read in plain Python: no Arrow library.

The twin of c/arrow_gather.h, which draws the formats; it also says what is wrong with a column that
the native code did not take. As there, what the producer promises (that buffers are as long as
their offsets say) is believed; what can be checked is checked.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.plan import INTEGER_RANGE

BYTES_FORMATS: Final = {"z": 4, "u": 4, "Z": 8, "U": 8}  # to the width of their offsets
VIEW_FORMATS: Final = ("vz", "vu")
VIEW_BYTES: Final = 16
VIEW_INLINE_MAX: Final = 12
WIDTH_MAX: Final = INTEGER_RANGE["int32"][1]


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
    pass


def _function(*arguments: Any, result: Any = None) -> Any:
    return ctypes.CFUNCTYPE(result, *arguments)


_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.c_void_p),
    ("release", _function(ctypes.POINTER(_Schema))),
    ("private_data", ctypes.c_void_p),
]
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.c_void_p),
    ("release", _function(ctypes.POINTER(_Array))),
    ("private_data", ctypes.c_void_p),
]
_Stream._fields_ = [
    ("get_schema", _function(
        ctypes.POINTER(_Stream), ctypes.POINTER(_Schema), result=ctypes.c_int)),
    ("get_next", _function(
        ctypes.POINTER(_Stream), ctypes.POINTER(_Array), result=ctypes.c_int)),
    ("get_last_error", _function(ctypes.POINTER(_Stream), result=ctypes.c_char_p)),
    ("release", _function(ctypes.POINTER(_Stream))),
    ("private_data", ctypes.c_void_p),
]  # fmt: skip

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = (ctypes.py_object, ctypes.c_char_p)


def arrow_list(column: Any, name: str) -> list[Any]:
    """Copy a column into a list: bytes or None, or for ``timestamp`` int or None.

    Raises CodecError (wrong_type) for a column of another type, or one that is not as the format
    has it; ``name`` is what the error calls the column.
    """
    out: list[Any] = []
    for schema, array in _chunks(column, name):
        out += _Chunk(schema, array, name).items()
    return out


def _refuse(detail: str, name: str) -> NoReturn:
    raise CodecError(ErrorClass.WRONG_TYPE, f"an Arrow column {detail}", path=f"records.{name}")


def _struct(capsule: object, kind: Any, name: bytes, column: str) -> Any:
    try:
        struct = kind.from_address(_pointer_of(capsule, name))
    except (TypeError, ValueError):
        _refuse(f"whose capsule is not of {name.decode()}", column)
    if not struct.release:
        _refuse("that has been released", column)
    return struct


def _chunks(column: Any, name: str) -> Iterator[tuple[_Schema, _Array]]:
    """Yield (schema, array) for each chunk; valid until the next one is asked for."""
    if hasattr(column, "__arrow_c_array__"):
        capsules = column.__arrow_c_array__()
        if not isinstance(capsules, tuple) or len(capsules) != 2:  # noqa: PLR2004 - a pair
            _refuse("that does not hand out a pair of capsules", name)
        schema = _struct(capsules[0], _Schema, b"arrow_schema", name)
        yield schema, _struct(capsules[1], _Array, b"arrow_array", name)
        return
    capsule = column.__arrow_c_stream__()
    stream = _struct(capsule, _Stream, b"arrow_array_stream", name)
    schema, array = _Schema(), _Array()
    if stream.get_schema(stream, schema) != 0:
        _failed(stream, name)
    try:
        while True:
            if stream.get_next(stream, array) != 0:
                _failed(stream, name)
            if not array.release:
                return
            try:
                yield schema, array
            finally:
                array.release(array)
    finally:
        schema.release(schema)


def _failed(stream: Any, name: str) -> NoReturn:
    reason = stream.get_last_error(stream)
    _refuse(
        f"whose stream failed: {reason.decode(errors='replace') if reason else 'no reason'}", name
    )


class _Chunk:
    """One array with its schema."""

    def __init__(self, schema: Any, array: Any, name: str) -> None:
        self.name = name
        self.format = (schema.format or b"").decode(errors="replace")
        self.array = array
        self.rows = range(array.offset, array.offset + array.length)
        if array.length < 0 or array.offset < 0 or array.n_children or schema.dictionary:
            _refuse(f"of the format {self.format!r} with children, or a negative length", name)

    def items(self) -> list[Any]:
        """Copy the rows."""
        if self.name == "timestamp":
            if self.format != "l" and not self.format.startswith("tsm:"):
                _refuse(f"of int64 or timestamp[ms] wanted, not of {self.format!r}", self.name)
            values = self.buffer(1, 8)
            return self.rowwise(2, lambda row: self.integer(values, row, 8))
        if self.format in BYTES_FORMATS:
            return self.by_offsets(BYTES_FORMATS[self.format])
        if self.format in VIEW_FORMATS:
            return self.by_views()
        if self.format.startswith("w:"):
            width = self.width()
            data = self.buffer(1, width)
            return self.rowwise(2, lambda row: self.copy(data + row * width, width))
        if self.format == "n":
            return [None] * self.array.length
        _refuse(f"of bytes or text wanted, not of {self.format!r}", self.name)

    def width(self) -> int:
        """Return the width of fixed-size values."""
        digits = self.format[2:]
        if not (digits.isascii() and digits.isdigit()) or int(digits) > WIDTH_MAX:
            _refuse(f"of {self.format!r}: no width", self.name)
        return int(digits)

    def rowwise(self, buffers: int, read: Any) -> list[Any]:
        """Read each row that is valid."""
        array = self.array
        if array.n_buffers < buffers or not array.buffers:
            _refuse(f"of {self.format!r} with {array.n_buffers} buffers", self.name)
        bits = array.buffers[0] if array.null_count else None
        if bits is None and array.null_count > 0:
            _refuse("with nulls and no bitmap of them", self.name)
        return [
            read(row) if bits is None or self.copy(bits + row // 8, 1)[0] >> row % 8 & 1 else None
            for row in self.rows
        ]

    def buffer(self, index: int, needed: int) -> int:
        """Return the address of a buffer, which must be there if the rows need it."""
        array = self.array
        if array.n_buffers <= index or not array.buffers:
            _refuse(f"of {self.format!r} with {array.n_buffers} buffers", self.name)
        address = array.buffers[index]
        if address is None and needed and self.rows:
            _refuse(f"of {self.format!r} that lacks buffer {index}", self.name)
        return address or 0

    @staticmethod
    def copy(address: int, size: int) -> bytes:
        """Copy bytes; none from nowhere."""
        return ctypes.string_at(address, size) if size else b""

    def integer(self, address: int, index: int, width: int) -> int:
        """Read a signed integer of an array of them, in this machine's byte order."""
        raw = ctypes.string_at(address + index * width, width)
        return int.from_bytes(raw, sys.byteorder, signed=True)

    def by_offsets(self, width: int) -> list[Any]:
        """Read values that lie between neighbouring offsets."""
        offsets, data = self.buffer(1, width), self.buffer(2, 0)

        def read(row: int) -> bytes:
            start = self.integer(offsets, row, width)
            size = self.integer(offsets, row + 1, width) - start
            if start < 0 or size < 0 or (size and not data):
                _refuse("whose offsets are not ascending, or point nowhere", self.name)
            return self.copy(data + start, size)

        return self.rowwise(3, read)

    def by_views(self) -> list[Any]:
        """Read values that are views, inline when short."""
        array = self.array
        views = self.buffer(1, VIEW_BYTES)
        sizes = self.buffer(max(array.n_buffers - 1, 2), 0)

        def read(row: int) -> bytes:
            at = views + row * VIEW_BYTES
            size, _, index, offset = (self.integer(at, part, 4) for part in range(4))
            if 0 <= size <= VIEW_INLINE_MAX:
                return self.copy(at + 4, size)
            if (
                size < 0 or not 0 <= index < array.n_buffers - 3 or offset < 0 or not sizes
                or offset + size > self.integer(sizes, index, 8)
                or not array.buffers[2 + index]
            ):  # fmt: skip
                _refuse("whose views point nowhere", self.name)
            return self.copy(array.buffers[2 + index] + offset, size)

        return self.rowwise(3, read)
