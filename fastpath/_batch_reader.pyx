"""The native half of batch_reader.py: None where a batch is wrong, and its twin says what."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t

from kraftspec.fastpath.records import BatchHeader, Header, RawRecord, Record


cdef extern from "c/record_read.h" nogil:
    int RECORDS_AT, COMPRESSION_MASK, COMPRESSION_MAX

    ctypedef struct batch_view:
        int64_t base_offset, base_timestamp, max_timestamp, producer_id, size
        int32_t leader_epoch, last_offset_delta, base_sequence, record_count
        uint32_t crc
        int16_t attributes, producer_epoch

    void crc32c_start()
    const uint8_t *batch_read(
        const uint8_t *at, const uint8_t *end, bint check_crc, batch_view *batch)


cdef extern from "c/record_objects.h":
    ctypedef struct struct_layout:
        pass

    ctypedef struct record_layouts:
        struct_layout record, raw, header

    int struct_layout_find(
        struct_layout *layout, object type, const char *const *fields) except -1
    PyObject *record_objects(
        const record_layouts *layouts, const batch_view *batch,
        const uint8_t *at, const uint8_t *end, bint raw) except? NULL


# In the order of the enumerations in record_objects.h.
cdef const char *RECORD_FIELDS[6]
RECORD_FIELDS[:] = [b"offset", b"timestamp", b"key", b"value", b"headers", NULL]
cdef const char *RAW_FIELDS[7]
RAW_FIELDS[:] = [
    b"attributes", b"timestamp_delta", b"offset_delta", b"key", b"value", b"headers", NULL]
cdef const char *HEADER_FIELDS[3]
HEADER_FIELDS[:] = [b"key", b"value", NULL]

cdef record_layouts layouts
struct_layout_find(&layouts.record, Record, RECORD_FIELDS)
struct_layout_find(&layouts.raw, RawRecord, RAW_FIELDS)
struct_layout_find(&layouts.header, Header, HEADER_FIELDS)
crc32c_start()


cdef bint open_batch(
        Py_buffer *buffer, Py_ssize_t position, bint check_crc, batch_view *batch) noexcept nogil:
    """Find the batch at ``position``; false when there is none that is whole."""
    cdef const uint8_t *start = <const uint8_t *>buffer.buf
    if position < 0 or position > buffer.len:
        return False
    return batch_read(start + position, start + buffer.len, check_crc, batch) != NULL


def read_header(data, Py_ssize_t position, bint check_crc):
    """Return the BatchHeader of the batch at ``position``, or None when it is wrong."""
    cdef Py_buffer buffer
    cdef batch_view batch
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        if not open_batch(&buffer, position, check_crc, &batch):
            return None
    finally:
        PyBuffer_Release(&buffer)
    return BatchHeader(
        position, batch.size, batch.base_offset, batch.leader_epoch, batch.crc, batch.attributes,
        batch.last_offset_delta, batch.base_timestamp, batch.max_timestamp, batch.producer_id,
        batch.producer_epoch, batch.base_sequence, batch.record_count)


cdef object block_objects(const uint8_t *at, Py_ssize_t size, const batch_view *batch, bint raw):
    cdef PyObject *found = record_objects(&layouts, batch, at, at + size, raw)
    if found is NULL:
        return None
    records = <object>found
    Py_DECREF(records)  # The cast took a reference of its own.
    return records


cdef object batch_objects(
        Py_buffer *buffer, Py_ssize_t position, const batch_view *batch, bint raw,
        inflate, view, size_max, ratio_max):
    cdef const uint8_t *records = <const uint8_t *>buffer.buf + position + RECORDS_AT
    cdef Py_ssize_t size = batch.size - RECORDS_AT
    cdef int codec = batch.attributes & COMPRESSION_MASK
    cdef bytes block
    if codec > COMPRESSION_MAX:
        return None
    if codec == 0 or (size == 0 and batch.record_count == 0):
        return block_objects(records, size, batch, raw)
    block = inflate(
        codec, view[position + RECORDS_AT:position + batch.size], position, size_max, ratio_max)
    return block_objects(<const uint8_t *>block, len(block), batch, raw)


def read_records(view, Py_ssize_t position, inflate, size_max, ratio_max):
    """Return the records of the batch at ``position`` with deltas, or None when it is invalid."""
    cdef Py_buffer buffer
    cdef batch_view batch
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        if not open_batch(&buffer, position, False, &batch):
            return None
        return batch_objects(&buffer, position, &batch, True, inflate, view, size_max, ratio_max)
    finally:
        PyBuffer_Release(&buffer)


def decode_batch(
        view, Py_ssize_t position, bint check_crc, inflate, size_max, ratio_max):
    """Return (records, the byte after the batch), or None when it is wrong."""
    cdef Py_buffer buffer
    cdef batch_view batch
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        if not open_batch(&buffer, position, check_crc, &batch):
            return None
        records = batch_objects(
            &buffer, position, &batch, False, inflate, view, size_max, ratio_max)
        return None if records is None else (records, position + batch.size)
    finally:
        PyBuffer_Release(&buffer)


def walk(view, Py_ssize_t position, bint check_crc):
    """Walk good batches; return (where that ends, how many they are, where the last starts)."""
    cdef Py_buffer buffer
    cdef batch_view batch
    cdef Py_ssize_t batches = 0, last = -1
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        with nogil:
            while open_batch(&buffer, position, check_crc, &batch):
                batches += 1
                last = position
                position += batch.size
    finally:
        PyBuffer_Release(&buffer)
    return position, batches, last
