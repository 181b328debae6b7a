# What _batch_writer.pyx takes from C: the headers in c/ say what each thing does.

from cpython.object cimport PyObject
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t


cdef extern from "Python.h":
    ctypedef object (*PyCFunction)(object, object)
    ctypedef struct PyMethodDef:
        const char *ml_name
        PyCFunction ml_meth
        int ml_flags
        const char *ml_doc
    int METH_FASTCALL
    int METH_KEYWORDS
    object PyCFunction_NewEx(PyMethodDef *definition, PyObject *self, object module)
    object PyObject_Vectorcall(
        object function, PyObject *const *arguments, size_t count, PyObject *names
    )
    void *PyCapsule_GetPointer(object, const char *name) except NULL
    int PyLong_Check(object)
    int PyLong_CheckExact(object)
    # Of an int it raises nothing: -1 is looked at no further.
    long long PyLong_AsLongLongAndOverflow(object, int *overflow)


cdef extern from "c/record_gather.h":
    # Pointers, for a bytes object that is shortened must have no other owner.
    PyObject *bytes_new "PyBytes_FromStringAndSize" (const char *data, Py_ssize_t size) except NULL
    uint8_t *bytes_data "(uint8_t *)PyBytes_AS_STRING" (PyObject *data)
    object bytes_shortened(PyObject *data, Py_ssize_t size)
    void Py_DECREF(PyObject *)


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
    int RECORD_OVERHEAD_BYTES_MAX
    size_t parts_size(const field_t *key, const field_t *value, const field_t *headers)
    uint8_t *record_write(uint8_t *out, const field_t *key, const field_t *value,
                          const field_t *headers, int64_t timestamp_delta, int64_t offset_delta)
    size_t records_size(const records_t *records)
    size_t records_size_max(const records_t *records)
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


# Releasing and streaming may run a producer's Python code: not without the interpreter lock.
cdef extern from "c/arrow_gather.h":
    struct ArrowSchema:
        pass
    struct ArrowArray:
        pass
    struct ArrowArrayStream:
        pass
    ctypedef struct arrow_column_t:
        int64_t length
    bint arrow_of_array(arrow_column_t *column, const ArrowSchema *schema, ArrowArray *array)
    bint arrow_of_stream(arrow_column_t *column, ArrowArrayStream *stream)
    void arrow_close(arrow_column_t *column)
    bint arrow_gather_bytes(const arrow_column_t *column, field_t *out)
    bint arrow_gather_timestamps(const arrow_column_t *column, int64_t *out)
