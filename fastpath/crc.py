"""CRC-32C (Castagnoli), the checksum of Kafka's record batches (``Crc32C``, KIP-98).

``crc32c(data)`` gives the checksum of bytes, ``crc32c(more, crc)`` goes on from there, and
``crc32c_combine`` joins the checksums of two neighbours that were taken apart. The compiled module
takes the fastest instructions that the CPU has; what stands here is its twin, for reading and for
installations without a compiler.
"""

from __future__ import annotations

from functools import cache
from operator import index
from typing import TYPE_CHECKING, Any, Final

from kraftspec.fastpath import native

if TYPE_CHECKING:
    from typing_extensions import Buffer

CRC_MAX: Final = 0xFFFFFFFF
LENGTH_MAX: Final = (1 << 63) - 1

# Bits are reflected, as in the native code: bit 31 is the coefficient of x^0, bit 0 of x^31.
ONE: Final = 0x80000000
POLYNOMIAL: Final = 0x82F63B78  # x^32 + x^28 + x^27 + ... + 1 without its first term.


def crc32c_python(data: Buffer, crc: int = 0) -> int:
    """Return the CRC-32C of what ``crc`` covers followed by ``data``.

    ``data`` is bytes or any contiguous buffer, whatever its items are; ``crc`` is a result of this
    function, 0 for nothing. TypeError when ``data`` is no buffer or ``crc`` no integer, BufferError
    when the buffer is not one run of bytes, ValueError when ``crc`` is not in 0 to 2^32 - 1.
    Long inputs are worked on without the interpreter lock (256 KiB and more, native only).
    """
    crc = CRC_MAX ^ _checked("crc", crc, CRC_MAX)
    table = _table()
    for byte in _contiguous(data):
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc ^ CRC_MAX


def crc32c_combine_python(crc_a: int, crc_b: int, length_b: int) -> int:
    """Return the CRC-32C of ``a + b``, from the CRC-32C of each and the length of ``b`` in bytes.

    ValueError when a CRC is not in 0 to 2^32 - 1 or the length not in 0 to 2^63 - 1.
    """
    crc = _checked("crc_a", crc_a, CRC_MAX)
    crc_b = _checked("crc_b", crc_b, CRC_MAX)
    length = _checked("length_b", length_b, LENGTH_MAX)
    for exponent in range(length.bit_length()):
        if length >> exponent & 1:
            crc = _multiply(crc, _zeros(exponent))
    return crc ^ crc_b


def _checked(name: str, value: int, most: int) -> int:
    number = index(value)
    if not 0 <= number <= most:
        raise ValueError(f"{name} is {number}: not in 0 to {most}")
    return number


def _contiguous(data: Buffer) -> bytes:
    try:
        view = memoryview(data)
    except TypeError:
        raise TypeError(f"data is {type(data).__name__}: not bytes, nor a buffer") from None
    with view:
        if not view.c_contiguous:
            raise BufferError("data is not one run of bytes: copy it first")
        return view.tobytes()


@cache
def _table() -> tuple[int, ...]:
    return tuple(_multiply(byte, ONE >> 8) for byte in range(256))


@cache
def _zeros(exponent: int) -> int:
    """Return x^(8 * 2^exponent): what that power of two of zero bytes multiplies a CRC by."""
    if exponent == 0:
        return ONE >> 8
    half = _zeros(exponent - 1)
    return _multiply(half, half)


def _multiply(a: int, b: int) -> int:
    """Multiply two reflected polynomials modulo that of CRC-32C."""
    product = 0
    while b:
        if b & ONE:
            product ^= a
        a = a >> 1 ^ (POLYNOMIAL if a & 1 else 0)
        b = b << 1 & CRC_MAX
    return product


_native: Any = native.load("_crc")

if TYPE_CHECKING or _native is None:
    crc32c = crc32c_python
    crc32c_combine = crc32c_combine_python
else:
    crc32c = _native.crc32c
    crc32c_combine = _native.crc32c_combine


def crc32c_implementation() -> str:
    """Say what runs: vpclmul, avx512vl, pclmul, sse4.2, armv8, armv8-crc, table or python."""
    return "python" if _native is None else str(_native.implementation())
