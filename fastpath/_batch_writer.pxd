# What _batch_writer.pyx takes from C: the headers in c/ say what each thing does.

from cpython.object cimport PyObject
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t


cdef extern from "Python.h":
    void *PyCapsule_GetPointer(object, const char *name) except NULL
    int PyLong_Check(object)
    int PyLong_CheckExact(object)
    # Of an int it raises nothing: -1 is looked at no further.
    long long PyLong_AsLongLongAndOverflow(object, int *overflow)


cdef extern from "c/record_write.h" nogil:
    enum:
        BATCH_HEAD_BYTES
        LOG_OVERHEAD_BYTES
    ctypedef struct field_t:
        const uint8_t *bytes
        int64_t size
    ctypedef struct records_t:
        int64_t count
        const field_t *keys
        const field_t *values
        const field_t *headers
        const int64_t *timestamps
        int64_t base_timestamp
        uint32_t *body_sizes
    ctypedef struct batch_head_t:
        int64_t base_offset
        int32_t partition_leader_epoch
        int16_t attributes
        int32_t last_offset_delta
        int64_t base_timestamp
        int64_t max_timestamp
        int64_t producer_id
        int16_t producer_epoch
        int32_t base_sequence
        int32_t count
    const field_t BLOCK_NONE
    void crc32c_start()
    size_t varint_size(int64_t value)
    size_t record_body_size(const field_t *key, const field_t *value, const field_t *headers,
                            int64_t timestamp_delta, int64_t offset_delta)
    uint8_t *record_write(uint8_t *out, size_t body_size, const field_t *key,
                          const field_t *value, const field_t *headers,
                          int64_t timestamp_delta, int64_t offset_delta)
    size_t records_size(const records_t *records)
    uint8_t *records_write(uint8_t *out, const records_t *records)
    void batch_seal(uint8_t *batch, size_t size, const batch_head_t *head)


cdef extern from "c/record_gather.h":
    ctypedef struct scratch_t:
        uint8_t *bytes
        size_t used
        size_t capacity
    PyObject **plain_items(object column, Py_ssize_t *count)
    bint plain_field(object value, field_t *out)
    bint gather_fields(PyObject **items, Py_ssize_t count, field_t *out)
    bint plain_timestamp(object number, int64_t *out)
    bint gather_timestamps(PyObject **items, Py_ssize_t count, int64_t *out)
    int64_t gather_block(object headers, scratch_t *scratch)
    bint gather_blocks(PyObject **items, Py_ssize_t count, field_t *out, scratch_t *scratch)


cdef extern from "c/arrow_gather.h" nogil:
    struct ArrowSchema:
        const char *format
        void (*release)(ArrowSchema *) noexcept
    struct ArrowArray:
        int64_t length
        void (*release)(ArrowArray *) noexcept
    struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream *, ArrowSchema *) noexcept
        int (*get_next)(ArrowArrayStream *, ArrowArray *) noexcept
        void (*release)(ArrowArrayStream *) noexcept
    int arrow_bytes(const ArrowSchema *schema, const ArrowArray *array, field_t *out)
    int arrow_timestamps(const ArrowSchema *schema, const ArrowArray *array, int64_t *out)
