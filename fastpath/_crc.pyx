"""The native half of crc.py."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.number cimport PyNumber_Index
from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef extern from "c/crc32c.h" nogil:
    ctypedef uint32_t crc32c_extender(uint32_t crc, const uint8_t *bytes, size_t size)
    struct crc32c_path:
        const char *name
        crc32c_extender *extend
        bint runs
    const crc32c_path[] crc32c_paths
    const int CRC32C_PATHS
    const crc32c_path *crc32c_chosen
    void crc32c_start()
    uint32_t combine "crc32c_combine"(uint32_t crc_a, uint32_t crc_b, uint64_t length_b)


cdef extern from "c/crc32c_read.h" nogil:
    uint64_t read_all(const uint8_t *bytes, size_t size)


# Some microseconds of work: other threads gain more than the lock's return may cost this one.
cdef Py_ssize_t GIL_RELEASED_FROM_BYTES = 256 << 10

cdef long long CRC_MAX = 0xFFFFFFFF
cdef long long LENGTH_MAX = 0x7FFFFFFFFFFFFFFF

crc32c_start()


cdef long long checked(name, value, long long most) except -1:
    cdef object number = PyNumber_Index(value)
    if not 0 <= number <= most:
        raise ValueError(f"{name} is {number}: not in 0 to {most}")
    return number


cdef object extend_bytes(const crc32c_path *path, bytes data, uint32_t crc):
    cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    if size < GIL_RELEASED_FROM_BYTES:
        return path.extend(crc, at, <size_t>size)
    with nogil:  # The caller's reference keeps the bytes, and they never move.
        crc = path.extend(crc, at, <size_t>size)
    return crc


cdef object extend_buffer(const crc32c_path *path, data, uint32_t crc):
    cdef Py_buffer view
    try:
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    except TypeError:
        raise TypeError(f"data is {type(data).__name__}: not bytes, nor a buffer") from None
    except (BufferError, ValueError):  # numpy raises ValueError.
        raise BufferError("data is not one run of bytes: copy it first") from None
    if view.len < GIL_RELEASED_FROM_BYTES:
        crc = path.extend(crc, <const uint8_t *>view.buf, <size_t>view.len)
    else:
        with nogil:
            crc = path.extend(crc, <const uint8_t *>view.buf, <size_t>view.len)
    PyBuffer_Release(&view)
    return crc


@cython.binding(False)  # As a plain C function it is called 15 ns faster.
def crc32c(data, crc=0):
    """crc32c(data, crc=0)

    Return the CRC-32C of what ``crc`` covers followed by ``data`` (see crc.py).
    """
    cdef uint32_t start = 0 if crc is 0 else <uint32_t>checked("crc", crc, CRC_MAX)
    if PyBytes_CheckExact(data):
        return extend_bytes(crc32c_chosen, <bytes>data, start)
    return extend_buffer(crc32c_chosen, data, start)


def crc32c_combine(crc_a, crc_b, length_b):
    """Return the CRC-32C of two runs of bytes, from the CRC of each (see crc.py)."""
    cdef uint32_t a = <uint32_t>checked("crc_a", crc_a, CRC_MAX)
    cdef uint32_t b = <uint32_t>checked("crc_b", crc_b, CRC_MAX)
    return combine(a, b, <uint64_t>checked("length_b", length_b, LENGTH_MAX))


def implementation():
    """The name of the path that `crc32c` takes."""
    return crc32c_chosen.name.decode()


def paths():
    """The names of the paths that this CPU runs, fastest first."""
    return [crc32c_paths[i].name.decode() for i in range(CRC32C_PATHS) if crc32c_paths[i].runs]


def run(path, data, crc=0):
    """`crc32c` by the path of this name."""
    cdef int i
    for i in range(CRC32C_PATHS):
        if crc32c_paths[i].runs and crc32c_paths[i].name.decode() == path:
            return extend_buffer(&crc32c_paths[i], data, <uint32_t>checked("crc", crc, CRC_MAX))
    raise ValueError(f"this CPU has no path {path!r}: {', '.join(paths())}")


def read(const uint8_t[::1] data):
    """Sum the words of ``data``: what reading it costs, the yardstick of the benchmarks."""
    cdef Py_ssize_t size = data.shape[0]
    cdef const uint8_t *at = &data[0] if size else NULL
    cdef uint64_t total
    with nogil:
        total = read_all(at, <size_t>size)
    return total
