"""CRC-32C: the vectors of RFC 3720, the implementations of others, and every path of ours."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import re
import subprocess
import sys
import threading
from array import array
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import crc32c as peer
import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftspec.fastpath import crc32c, crc32c_combine, crc32c_implementation, native
from kraftspec.fastpath.crc import crc32c_combine_python, crc32c_python

_crc: Any = native.load("_crc")
PATHS: list[str] = _crc.paths() if _crc is not None else []
compiled = pytest.mark.skipif(not PATHS, reason="the compiled module is not there, or turned off")
BOTH = pytest.mark.parametrize("function", [crc32c, crc32c_python], ids=["crc32c", "python"])
COMBINES = pytest.mark.parametrize(
    "combine", [crc32c_combine, crc32c_combine_python], ids=["crc32c", "python"]
)

LENGTHS_MAX = 4096
POLYNOMIAL = 0x11EDC6F41
HEADERS = Path(__file__).resolve().parents[2] / "fastpath" / "c"

RANDOM = random.Random(3720).randbytes(1 << 20)
SHORT = RANDOM[: LENGTHS_MAX + 64]

# RFC 3720, B.4 prints each CRC as it goes on the wire, lowest byte first.
RFC_3720 = {
    "32 bytes of zeroes": (bytes(32), "aa36918a"),
    "32 bytes of ones": (b"\xff" * 32, "43aba862"),
    "32 bytes of incrementing 00..1f": (bytes(range(32)), "4e79dd46"),
    "32 bytes of decrementing 1f..00": (bytes(range(31, -1, -1)), "5cdb3f11"),
    "an iSCSI SCSI Read (10) command PDU": (
        bytes.fromhex(
            "01c00000 00000000 00000000 00000000 14000000 00000400"
            "00000014 00000018 28000000 00000000 02000000 00000000"
        ),
        "563a96d9",
    ),
}


@BOTH
@pytest.mark.parametrize("name", RFC_3720)
def test_the_vectors_of_rfc_3720(function: Callable[..., int], name: str) -> None:
    data, wire = RFC_3720[name]
    expected = int.from_bytes(bytes.fromhex(wire), "little")
    assert function(data) == expected
    for path in PATHS:
        assert _crc.run(path, data) == expected


@BOTH
def test_the_check_value(function: Callable[..., int]) -> None:
    assert function(b"123456789") == 0xE3069283  # The catalogues' "check" of CRC-32/ISCSI.
    assert function(b"") == 0
    assert function(b"", 7) == 7


@BOTH
@given(st.binary(max_size=300), st.integers(0, 0xFFFFFFFF))
def test_the_peers_agree(function: Callable[..., int], data: bytes, crc: int) -> None:
    assert function(data) == peer.crc32c(data) == google_crc32c.value(data)
    assert function(data, crc) == peer.crc32c(data, crc) == google_crc32c.extend(crc, data)
    assert function(data, crc=crc) == peer.crc32c(data, crc)


def test_python_on_every_length() -> None:
    crc = 0
    for length in range(LENGTHS_MAX):
        assert crc == peer.crc32c(SHORT[:length])
        crc = crc32c_python(SHORT[length : length + 1], crc)
    assert crc32c_python(SHORT) == peer.crc32c(SHORT)


@pytest.mark.parametrize("path", PATHS)
def test_a_path_on_every_length(path: str) -> None:
    run = _crc.run
    for length in range(LENGTHS_MAX + 1):
        data = SHORT[:length]
        assert run(path, data) == peer.crc32c(data), length
        assert run(path, data, 0x12345678) == peer.crc32c(data, 0x12345678), length


@pytest.mark.parametrize("path", PATHS)
def test_a_path_on_every_alignment(path: str) -> None:
    lengths = [*range(160), *range(250, 600, 7), *range(1000, LENGTHS_MAX, 379), LENGTHS_MAX]
    page = mmap.mmap(-1, 2 * LENGTHS_MAX)  # It starts on a page, so an offset is an alignment.
    with page, memoryview(page) as view:
        page[: len(SHORT)] = SHORT
        for alignment in range(64):
            for length in lengths:
                with view[alignment : alignment + length] as data:
                    assert _crc.run(path, data) == peer.crc32c(data), (alignment, length)


@pytest.mark.parametrize("path", PATHS)
def test_a_path_reads_nothing_beyond_the_end(path: str) -> None:
    """The last byte stands before a page that must not be touched."""
    page = mmap.PAGESIZE
    libc = ctypes.CDLL(None, use_errno=True)
    with mmap.mmap(-1, 4 * page) as memory:
        address = ctypes.addressof(anchor := ctypes.c_char.from_buffer(memory))
        assert libc.mprotect(ctypes.c_void_p(address + 3 * page), page, 0) == 0
        try:
            with memoryview(memory) as view:
                for length in range(0, 3 * page, 13):
                    with view[3 * page - length : 3 * page] as data:
                        assert _crc.run(path, data) == peer.crc32c(data), length
        finally:
            assert libc.mprotect(ctypes.c_void_p(address + 3 * page), page, 3) == 0
            del anchor


@compiled  # Plain Python would take a minute, and knows no blocks.
# A block of three thousand rounds; where prefetching starts; where the widest path folds alone.
@pytest.mark.parametrize(
    "length", [1 << 20, (1 << 20) + 1, (12 << 20) - 1, (16 << 20) + 12345, (48 << 20) + 77]
)
def test_long_inputs(length: int) -> None:
    data = (RANDOM * 49)[5 : 5 + length]
    expected = peer.crc32c(data)
    assert google_crc32c.value(data) == expected
    assert crc32c(data) == expected
    assert crc32c(memoryview(data)) == expected
    assert {path: _crc.run(path, data) for path in PATHS} == dict.fromkeys(PATHS, expected)


@given(st.lists(st.integers(0, LENGTHS_MAX), max_size=6))
def test_cut_anywhere(cuts: list[int]) -> None:
    crc = combined = 0
    for start, end in pairwise(sorted([0, *cuts, LENGTHS_MAX])):
        crc = crc32c(SHORT[start:end], crc)
        combined = crc32c_combine(combined, crc32c(SHORT[start:end]), end - start)
    assert crc == combined == peer.crc32c(SHORT[:LENGTHS_MAX])


@COMBINES
@given(a=st.binary(max_size=100), b=st.binary(max_size=100))
def test_combine(combine: Callable[[int, int, int], int], a: bytes, b: bytes) -> None:
    assert combine(peer.crc32c(a), peer.crc32c(b), len(b)) == peer.crc32c(a + b)


@given(st.integers(0, 0xFFFFFFFF), st.integers(0, 0xFFFFFFFF), st.integers(0, (1 << 63) - 1))
def test_combine_is_the_same_twice(a: int, b: int, length: int) -> None:
    actual = crc32c_combine(a, b, length)
    assert actual == crc32c_combine_python(a, b, length)
    # A CRC times x^(8 * length); x has the order 2^31 - 1, P being (x + 1) times a primitive one.
    assert actual ^ b == reflected(product(reflected(a), power(8 * length % ((1 << 31) - 1))))


def power(exponent: int) -> int:
    """Return x^exponent modulo the polynomial, not reflected."""
    result, base = 1, 2
    while exponent:
        if exponent & 1:
            result = product(result, base)
        base = product(base, base)
        exponent >>= 1
    return result


def product(a: int, b: int) -> int:
    total = 0
    while b:
        total ^= a if b & 1 else 0
        a, b = a << 1, b >> 1
        a ^= POLYNOMIAL if a >> 32 else 0
    return total


def reflected(number: int) -> int:
    return int(f"{number:032b}"[::-1], 2)


def test_the_keys_of_the_headers() -> None:
    text = (HEADERS / "crc32c_keys.h").read_text("ascii")
    keys = re.findall(r"#define CRC32C_X(\d+) (0x[0-9A-F]{8})\n", text)
    assert len(keys) == text.count("#define CRC32C_X") == 12
    for exponent, key in keys:
        assert int(key, 16) == reflected(power(int(exponent))), exponent
    header = (HEADERS / "crc32c.h").read_text("ascii")
    match = re.search(r"#define CRC32C_POLYNOMIAL (0x[0-9A-F]{8})u", header)
    assert match is not None
    assert int(match[1], 16) == reflected(POLYNOMIAL & 0xFFFFFFFF)


BUFFERS: dict[str, Callable[[bytes], Any]] = {
    "bytes": bytes,
    "a subclass of bytes": type("Bytes", (bytes,), {}),
    "bytearray": bytearray,
    "memoryview": memoryview,
    "memoryview of doubles": lambda data: memoryview(data).cast("d"),
    "memoryview of two dimensions": lambda data: memoryview(data).cast("B").cast("h", (4, 64)),
    "array of int64": lambda data: array("q", data),
    "ctypes": (ctypes.c_uint16 * 256).from_buffer_copy,
    "pyarrow buffer": lambda data: import_module("pyarrow").py_buffer(data),
}


@BOTH
@pytest.mark.parametrize("kind", BUFFERS)
def test_any_contiguous_buffer(function: Callable[..., int], kind: str) -> None:
    data = SHORT[:512]
    assert function(BUFFERS[kind](data)) == peer.crc32c(data)
    assert function(BUFFERS[kind](data), 9) == peer.crc32c(data, 9)


@BOTH
def test_a_mapped_file(function: Callable[..., int], tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(SHORT)
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
    ):
        assert function(mapped) == peer.crc32c(SHORT)


@BOTH
def test_a_buffer_is_let_go(function: Callable[..., int]) -> None:
    data = bytearray(SHORT)
    function(data)
    with pytest.raises(ValueError, match="crc is -1"):
        function(data, -1)
    data.append(0)  # A buffer that is still held could not grow.


@BOTH
@pytest.mark.parametrize("value", ["text", None, 5, [1], object()], ids=lambda v: type(v).__name__)
def test_no_buffer(function: Callable[..., int], value: object) -> None:
    with pytest.raises(TypeError, match=f"^data is {type(value).__name__}: not bytes"):
        function(value)


@BOTH
@pytest.mark.parametrize("step", [2, -1])
def test_not_contiguous(function: Callable[..., int], step: int) -> None:
    with pytest.raises(BufferError, match="not one run of bytes"):
        function(memoryview(SHORT)[::step])


@BOTH
def test_a_crc_out_of_range(function: Callable[..., int]) -> None:
    for crc in (-1, 1 << 32, 1 << 64, -(1 << 64)):
        with pytest.raises(ValueError, match=rf"^crc is {crc}: not in 0 to 4294967295$"):
            function(b"a", crc)
    for wrong in (1.0, "1", None):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            function(b"a", wrong)
    with pytest.raises(TypeError):
        function()


@COMBINES
def test_combine_out_of_range(combine: Callable[[int, int, int], int]) -> None:
    for arguments, message in {
        (1 << 32, 0, 0): "crc_a is 4294967296: not in 0 to 4294967295",
        (0, -1, 0): "crc_b is -1: not in 0 to 4294967295",
        (0, 0, -1): "length_b is -1: not in 0 to 9223372036854775807",
        (0, 0, 1 << 63): "length_b is 9223372036854775808: not in 0 to 9223372036854775807",
    }.items():
        with pytest.raises(ValueError, match=f"^{message}$"):
            combine(*arguments)


def test_what_runs_is_named() -> None:
    if not PATHS:
        assert crc32c_implementation() == "python"
        return
    assert crc32c_implementation() == PATHS[0]
    assert PATHS[-1] == "table"
    assert set(PATHS) <= {
        "vpclmul", "avx512vl", "pclmul", "sse4.2", "armv8", "armv8-crc", "table"
    }  # fmt: skip


@pytest.mark.skipif(not Path("/proc/cpuinfo").is_file(), reason="asks Linux what the CPU has")
def test_the_kernel_sees_the_same_cpu() -> None:
    flags = set(Path("/proc/cpuinfo").read_text("utf-8").split())
    if not PATHS or "sse2" not in flags:
        pytest.skip("no compiled module, or no x86-64")
    needs = {
        "vpclmul": {"sse4_2", "pclmulqdq", "avx512vl", "vpclmulqdq"},
        "avx512vl": {"sse4_2", "pclmulqdq", "avx512vl"},
        "pclmul": {"sse4_2", "pclmulqdq"},
        "sse4.2": {"sse4_2"},
        "table": set[str](),
    }
    assert [path for path, needed in needs.items() if needed <= flags] == PATHS


@compiled
def test_a_path_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="this CPU has no path 'abacus'"):
        _crc.run("abacus", b"")


@compiled
def test_a_long_input_lets_other_threads_run() -> None:
    """While one thread is inside a checksum of a hundredth of a second, this one must go on."""
    data = bytes(64 << 20)
    went_on = 0
    done, enough = threading.Event(), threading.Event()

    def work() -> None:
        for _ in range(50):  # More than one, as this thread may get no processor during the first.
            if enough.is_set():
                break
            _crc.run("table", data)
        done.set()

    before = sys.getswitchinterval()
    sys.setswitchinterval(10)  # Only the checksum itself can give the lock away now.
    try:
        thread = threading.Thread(target=work)
        thread.start()
        while not done.wait(0.001):
            went_on += 1
            if went_on == 3:
                enough.set()
        thread.join()
    finally:
        sys.setswitchinterval(before)
    assert went_on >= 3


def test_pure_python_is_there_when_asked_for() -> None:
    program = (
        "from kraftspec.fastpath import crc32c, crc32c_combine, crc32c_implementation as which\n"
        "print(which(), crc32c(b'123456789'), crc32c_combine(crc32c(b'1234'), crc32c(b'5'), 1))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, native.PURE_VARIABLE: "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["python", str(0xE3069283), str(peer.crc32c(b"12345"))]


def test_nothing_else_is_loaded() -> None:
    program = (
        "import sys, kraftspec.fastpath\n"
        "assert not any(name.startswith('kraftspec.fastpath.') for name in sys.modules)\n"
        "from kraftspec.fastpath import crc32c\n"
        "assert not {'pyarrow', 'numpy', 'msgspec'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@compiled
def test_reading_sums_the_words() -> None:
    words = array("Q", RANDOM[: 1 << 16])
    assert _crc.read(words.tobytes()) == sum(words) % (1 << 64)
    assert _crc.read(b"\x01\x02") == 3
    assert _crc.read(b"") == 0
