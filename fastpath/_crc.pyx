"""The native half of crc.py."""

from libc.stdint cimport uint8_t, uint32_t


cdef extern from "c/crc32c.h" nogil:
    void crc32c_start()
    uint32_t crc32c_extend(uint32_t crc, const uint8_t *bytes, size_t size)


crc32c_start()


def crc32c(const uint8_t[::1] data, uint32_t crc=0):
    """Return the CRC-32C of ``data``, continued from ``crc``."""
    cdef Py_ssize_t size = data.shape[0]
    if size == 0:
        return crc
    return crc32c_extend(crc, &data[0], size)
