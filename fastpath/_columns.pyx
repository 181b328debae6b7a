"""The native half of columns.py: one table of rows, filled batch by batch."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free

from kraftspec.fastpath.errors import CodecError


cdef extern from "c/arrow_export.h" nogil:
    enum:
        RECORDS_AT, COMPRESSION_MASK, COLUMN_COUNT
        STOP_END, STOP_LIMIT, STOP_REFUSED, STOP_COMPRESSED, STOP_MEMORY, GOES_ON

    ctypedef struct batch_view:
        int64_t size
        int32_t record_count
        int16_t attributes

    ctypedef struct record_columns:
        uint32_t wanted
        int layout, is_micro
        int64_t rows
        int32_t input_window

    ctypedef struct ArrowSchema "struct ArrowSchema":
        void (*release)(ArrowSchema *)

    ctypedef struct ArrowArray "struct ArrowArray":
        void (*release)(ArrowArray *)

    void crc32c_start()
    int columns_reserve(record_columns *columns, int64_t rows, int64_t expected)
    int columns_run(
        record_columns *columns, const uint8_t *data, int64_t size, int64_t *position,
        bint check_crc, int64_t rows_max, int64_t *batches_left, batch_view *batch)
    int block_put(
        record_columns *columns, const batch_view *batch, int64_t position, int64_t expected,
        const uint8_t *at, const uint8_t *end, bint is_input)
    void columns_free(record_columns *columns)


cdef extern from "c/arrow_export.h":
    int table_export(
        ArrowSchema *schema, ArrowArray *array, object owner, const record_columns *columns,
        const int *order, const char *const *names, int count, const char *timestamp_format)


# In the order of the enumeration in record_columns.h.
cdef const char *NAMES[14]
NAMES[:] = [
    b"offset", b"timestamp", b"timestamp_type", b"leader_epoch", b"key", b"value", b"headers",
    b"is_control", b"is_transactional", b"producer_id", b"producer_epoch", b"sequence",
    b"position", b"compression"]
cdef dict NUMBERS = {NAMES[number].decode(): number for number in range(COLUMN_COUNT)}
cdef frozenset BYTES = frozenset([b"key", b"value", b"headers"])
cdef dict LAYOUTS = {"view": 0, "binary": 1, "large_binary": 2}
cdef dict REASONS = {
    STOP_END: "end", STOP_LIMIT: "limit", STOP_REFUSED: "refused"}
cdef const char *FORMATS[5]
FORMATS[:] = [b"l", b"tsm:", b"tsm:UTC", b"tsu:", b"tsu:UTC"]
cdef dict TIMESTAMPS = {
    "int64": 0, "timestamp[ms]": 1, "timestamp[ms, tz=UTC]": 2, "timestamp[us]": 3,
    "timestamp[us, tz=UTC]": 4}
crc32c_start()


cdef void free_schema(object capsule) noexcept:
    cdef ArrowSchema *schema = <ArrowSchema *>PyCapsule_GetPointer(capsule, b"arrow_schema")
    if schema.release != NULL:
        schema.release(schema)
    free(schema)


cdef void free_array(object capsule) noexcept:
    cdef ArrowArray *array = <ArrowArray *>PyCapsule_GetPointer(capsule, b"arrow_array")
    if array.release != NULL:
        array.release(array)
    free(array)


cdef class Table:
    """Rows of the records of one input, in Arrow's layouts. It keeps the input alive."""

    cdef record_columns columns
    cdef Py_buffer buffer
    cdef bint has_buffer, is_shared
    cdef list blocks  # The decompressed blocks that views point into.
    cdef int order[14]
    cdef int count
    cdef const char *timestamp_format
    cdef readonly Py_ssize_t inflated_bytes

    def __cinit__(self, data, tuple names, str values, str timestamps):
        PyObject_GetBuffer(data, &self.buffer, PyBUF_SIMPLE)
        self.has_buffer = True
        self.blocks = []
        self.count = len(names)
        for index in range(self.count):
            self.order[index] = NUMBERS[names[index]]
            self.columns.wanted |= 1u << self.order[index]
        self.columns.layout = LAYOUTS[values]
        self.columns.is_micro = timestamps.startswith("timestamp[us")
        self.columns.input_window = -1
        self.timestamp_format = FORMATS[<int>TIMESTAMPS[timestamps]]
        if not columns_reserve(&self.columns, 0, 0):
            raise MemoryError

    def __dealloc__(self):
        columns_free(&self.columns)
        if self.has_buffer:
            PyBuffer_Release(&self.buffer)

    def __len__(self):
        return self.columns.rows

    def let_go(self):
        """Let the input go where no view points into it; no row is added any more."""
        self.is_shared = True
        has_views = self.columns.layout == 0 and any(
            [NAMES[self.order[index]] in BYTES for index in range(self.count)]
        )
        if self.has_buffer and not has_views:
            self.has_buffer = False
            PyBuffer_Release(&self.buffer)

    def run(
            self, int64_t position, bint check_crc, int64_t rows_max, int64_t batches_max,
            inflate, size_max, ratio_max, Py_ssize_t inflated_bytes_max):
        """Add batches from ``position`` on; return (why it stopped, where, how many it added)."""
        if self.is_shared:
            raise ValueError("the table was handed out, and no longer grows")
        cdef batch_view batch
        cdef int64_t left = batches_max
        cdef int stop
        while True:
            with nogil:
                stop = columns_run(
                    &self.columns, <const uint8_t *>self.buffer.buf, self.buffer.len, &position,
                    check_crc, rows_max, &left, &batch)
            if stop == STOP_COMPRESSED:
                if self.inflated_bytes >= inflated_bytes_max:
                    stop = STOP_LIMIT
                else:
                    stop = self.put(&batch, position, inflate, size_max, ratio_max)
                if stop == GOES_ON:
                    position += batch.size
                    left -= 1
                    continue
            if stop == STOP_MEMORY:
                raise MemoryError
            return REASONS[stop], position, batches_max - left

    cdef int put(
            self, const batch_view *batch, int64_t position, inflate, size_max, ratio_max
    ) except -1:
        """Decompress the batch at ``position`` and add its records."""
        cdef bytes block
        cdef const uint8_t *at
        cdef Py_ssize_t size
        cdef int stop
        at = <const uint8_t *>self.buffer.buf + position + RECORDS_AT
        compressed = PyBytes_FromStringAndSize(<const char *>at, batch.size - RECORDS_AT)
        try:
            block = inflate(
                batch.attributes & COMPRESSION_MASK, compressed, position, size_max, ratio_max)
        except CodecError:
            return STOP_REFUSED
        at = <const uint8_t *>block
        size = len(block)
        with nogil:
            stop = block_put(&self.columns, batch, position, 0, at, at + size, False)
        self.inflated_bytes += size
        if self.columns.layout == 0:
            self.blocks.append(block)  # Also when refused: a window was opened on it.
        return stop

    def __arrow_c_array__(self, requested_schema=None):
        """Return capsules of the schema and of the rows; from now on no row is added."""
        cdef ArrowSchema *schema = <ArrowSchema *>calloc(1, sizeof(ArrowSchema))
        if schema == NULL:
            raise MemoryError
        schema_capsule = PyCapsule_New(schema, b"arrow_schema", free_schema)
        cdef ArrowArray *array = <ArrowArray *>calloc(1, sizeof(ArrowArray))
        if array == NULL:
            raise MemoryError
        array_capsule = PyCapsule_New(array, b"arrow_array", free_array)
        self.is_shared = True
        if not table_export(
                schema, array, self, &self.columns, self.order, NAMES, self.count,
                self.timestamp_format):
            raise MemoryError
        return schema_capsule, array_capsule
