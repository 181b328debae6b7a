"""The native half of batch_writer.py.

Optimistic: it takes plain values only (exact bytes, int, str, list, tuple, or Arrow arrays) and
hands everything else to ``batch_fields``, which makes it plain or refuses it by name. Pointers are
gathered and used with no Python code between, so nothing can move or shrink under them.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_CheckExact
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport INT16_MAX, INT16_MIN, INT32_MAX, INT32_MIN, INT64_MAX, int16_t, int32_t
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from kraftspec.fastpath import batch_fields, records as facts
from kraftspec.fastpath.errors import CodecError, ErrorClass


crc32c_start()

cdef object _MINUS_ONE = -1
cdef object _NONE = facts.Compression.NONE
cdef object _CREATE_TIME = facts.TimestampType.CREATE_TIME
cdef int64_t _BATCH_BYTES_MAX = batch_fields.BATCH_BYTES_MAX
cdef int16_t _LOG_APPEND_TIME = facts.LOG_APPEND_TIME
cdef int16_t _TRANSACTIONAL = facts.TRANSACTIONAL
cdef int16_t _CONTROL = facts.CONTROL
cdef int16_t _COMPRESSION_MASK = facts.COMPRESSION_MASK

# How many records have their columns on the stack: an allocation costs as much as a record.
cdef enum:
    FEW = 16


cdef inline bint _plain_int(
    object value, int64_t low, int64_t high, int64_t *out
) noexcept:
    """Take an int (IntEnum and bool too) within bounds; runs no Python code."""
    cdef int overflow = 0
    if value is _MINUS_ONE:  # What most fields of most batches are.
        out[0] = -1
        return low <= -1
    if not PyLong_Check(value):
        return False
    out[0] = PyLong_AsLongLongAndOverflow(value, &overflow)
    return overflow == 0 and low <= out[0] <= high


# ------------------------------------------------------------------------------ fields of a batch


cdef struct fields_t:
    batch_head_t head
    int64_t log_append_time


cdef int _set_fields(
    fields_t *fields, object base_offset, object partition_leader_epoch, object compression,
    object level, object timestamp_type, object log_append_time, object producer_id,
    object producer_epoch, object base_sequence, object transactional, object control,
) except -1:
    """Take the fields of a batch, or have them made plain, or refused."""
    cdef batch_head_t *head = &fields.head
    cdef int64_t epoch, producer, sequence, codec = 0, stamp = 0
    if (
        _plain_int(base_offset, -INT64_MAX - 1, INT64_MAX, &head.base_offset)
        and _plain_int(partition_leader_epoch, INT32_MIN, INT32_MAX, &epoch)
        and (compression is _NONE or _plain_int(compression, 0, 4, &codec))
        and (timestamp_type is _CREATE_TIME or _plain_int(timestamp_type, 0, 1, &stamp))
        and _plain_int(log_append_time, -1, INT64_MAX, &fields.log_append_time)
        and _plain_int(producer_id, -INT64_MAX - 1, INT64_MAX, &head.producer_id)
        and _plain_int(producer_epoch, INT16_MIN, INT16_MAX, &producer)
        and _plain_int(base_sequence, INT32_MIN, INT32_MAX, &sequence)
        and type(transactional) is bool and type(control) is bool
    ):
        head.partition_leader_epoch = <int32_t>epoch
        head.producer_epoch = <int16_t>producer
        head.base_sequence = <int32_t>sequence
        head.attributes = <int16_t>codec
        if stamp:
            head.attributes |= _LOG_APPEND_TIME
        if transactional is True:
            head.attributes |= _TRANSACTIONAL
        if control is True:
            head.attributes |= _CONTROL
        if _producer_agrees(head):
            return 0
    plain = batch_fields.plain_fields(
        base_offset, partition_leader_epoch, compression, level, timestamp_type,
        log_append_time, producer_id, producer_epoch, base_sequence, transactional, control,
    )
    head.base_offset = plain.base_offset
    head.partition_leader_epoch = plain.partition_leader_epoch
    head.attributes = plain.attributes
    fields.log_append_time = plain.log_append_time
    head.producer_id = plain.producer_id
    head.producer_epoch = plain.producer_epoch
    head.base_sequence = plain.base_sequence
    return 0


cdef inline bint _producer_agrees(const batch_head_t *head) noexcept:
    """Return whether batch_fields.check_producer would accept the fields."""
    if head.producer_id == -1:
        return not head.attributes & _TRANSACTIONAL
    return head.producer_epoch != -1 and (
        head.base_sequence >= 0 or head.attributes & _CONTROL != 0
    )


cdef int _refuse(object error_class, str detail, str path) except -1:
    raise CodecError(error_class, detail, path=path)


cdef int _too_long(int64_t size, int64_t limit) except -1:
    return _refuse(
        ErrorClass.LENGTH_TOO_LONG, f"a batch of {size} bytes, and at most {limit} wanted",
        "records",
    )


cdef inline int _check_offsets(int64_t base_offset, int64_t count) except -1:
    if base_offset > INT64_MAX - (count - 1):
        return _offset_too_great(count)
    return 0


cdef int _offset_too_great(int64_t count) except -1:
    return _refuse(
        ErrorClass.INTEGER_OUT_OF_RANGE,
        f"the offset of record {count - 1} is more than an int64 holds",
        "baseOffset",
    )


cdef bytes _finish(fields_t *fields, const uint8_t *records, size_t size, object level):
    """Make the batch of records that are written already."""
    cdef batch_head_t *head = &fields.head
    cdef size_t total = BATCH_HEAD_BYTES + size
    cdef bytes batch
    cdef uint8_t *out
    if head.attributes & _LOG_APPEND_TIME:
        head.max_timestamp = fields.log_append_time
    if <int64_t>total > _BATCH_BYTES_MAX:
        _too_long(total, _BATCH_BYTES_MAX)
    if head.attributes & _COMPRESSION_MASK:
        return _compressed(head, PyBytes_FromStringAndSize(<char *>records, size), level)
    batch = PyBytes_FromStringAndSize(NULL, total)
    out = <uint8_t *>PyBytes_AS_STRING(batch)
    memcpy(out + BATCH_HEAD_BYTES, records, size)
    batch_seal(out, total, head)
    return batch


cdef bytes _finish_columns(fields_t *fields, const records_t *records, object level):
    """Make the batch of records that are gathered."""
    cdef batch_head_t *head = &fields.head
    cdef size_t size, room = BATCH_HEAD_BYTES + records_size_max(records)
    cdef PyObject *batch
    cdef uint8_t *out
    if head.attributes & _LOG_APPEND_TIME:
        head.max_timestamp = fields.log_append_time
    if <int64_t>room > _BATCH_BYTES_MAX:
        size = BATCH_HEAD_BYTES + records_size(records)
        if <int64_t>size > _BATCH_BYTES_MAX:
            _too_long(size, _BATCH_BYTES_MAX)
    batch = bytes_new(NULL, room)
    out = bytes_data(batch)
    size = records_write(out + BATCH_HEAD_BYTES, records) - out
    if not head.attributes & _COMPRESSION_MASK:
        batch_seal(out, size, head)
        return bytes_shortened(batch, size)
    try:
        return _compressed(
            head,
            PyBytes_FromStringAndSize(<char *>out + BATCH_HEAD_BYTES, size - BATCH_HEAD_BYTES),
            level,
        )
    finally:
        Py_DECREF(batch)


cdef bytes _compressed(const batch_head_t *head, bytes records, object level):
    """Make the batch of records to be compressed. ``head`` is copied: Python code runs here."""
    cdef batch_head_t sealed = head[0]
    cdef bytes batch
    cdef size_t total
    from kraftspec.fastpath.compression import compress

    codec = facts.Compression(sealed.attributes & _COMPRESSION_MASK)
    records = compress(codec, records, level)
    total = BATCH_HEAD_BYTES + PyBytes_GET_SIZE(records)
    if <int64_t>total > _BATCH_BYTES_MAX:
        _too_long(total, _BATCH_BYTES_MAX)
    batch = PyBytes_FromStringAndSize(NULL, total)
    memcpy(PyBytes_AS_STRING(batch) + BATCH_HEAD_BYTES, PyBytes_AS_STRING(records), len(records))
    batch_seal(<uint8_t *>PyBytes_AS_STRING(batch), total, &sealed)
    return batch


# ---------------------------------------------------------------------------------- Arrow arrays


cdef class _Arrow:
    """An Arrow column, kept alive."""

    cdef object capsules
    cdef arrow_column_t column  # zeros, to begin with

    def __dealloc__(self):
        arrow_close(&self.column)

    cdef bint of_array(self, object capsules) except -1:
        """Take the pair that ``__arrow_c_array__`` returned."""
        if not PyTuple_CheckExact(capsules) or PyTuple_GET_SIZE(capsules) != 2:
            return False
        self.capsules = capsules
        return arrow_of_array(
            &self.column,
            <ArrowSchema *>PyCapsule_GetPointer((<tuple>capsules)[0], "arrow_schema"),
            <ArrowArray *>PyCapsule_GetPointer((<tuple>capsules)[1], "arrow_array"),
        )

    cdef bint of_stream(self, object capsule) except -1:
        """Take every chunk of what ``__arrow_c_stream__`` returned."""
        self.capsules = capsule
        return arrow_of_stream(
            &self.column,
            <ArrowArrayStream *>PyCapsule_GetPointer(capsule, "arrow_array_stream"),
        )


cdef object _arrow(object column):
    """Return an ``_Arrow`` of a column; None: it is none, or one that batch_fields must judge."""
    cdef _Arrow arrow = _Arrow()
    try:
        found = getattr(column, "__arrow_c_array__", None)
        if found is not None:
            return arrow if arrow.of_array(found()) else None
        found = getattr(column, "__arrow_c_stream__", None)
        if found is not None:
            return arrow if arrow.of_stream(found()) else None
    except (TypeError, ValueError):
        pass
    return None


# -------------------------------------------------------------------------------------- columns


cdef struct columns_t:
    records_t records
    field_t *values
    field_t *keys
    field_t *headers
    int64_t *timestamps
    scratch_t scratch
    void *block  # of the columns, when they are more than FEW
    field_t few_fields[3 * FEW]
    int64_t few_timestamps[FEW]


cdef inline void _empty(columns_t *columns) noexcept:
    columns.block = NULL
    columns.scratch.bytes = NULL
    columns.scratch.used = columns.scratch.capacity = 0


cdef inline void _free(columns_t *columns) noexcept:
    if columns.block != NULL:
        PyMem_Free(columns.block)
    if columns.scratch.bytes != NULL:
        PyMem_Free(columns.scratch.bytes)
    _empty(columns)


cdef inline int _make_room(
    columns_t *columns, int64_t count, bint has_keys, bint has_headers, bint has_timestamps
) except -1:
    """Make room for the columns that there are; the others are NULL in ``records``."""
    cdef records_t *records = &columns.records
    cdef int64_t field_count = count * (1 + has_keys + has_headers)
    if count <= FEW:
        columns.values = columns.few_fields
        columns.timestamps = columns.few_timestamps
    else:
        columns.block = PyMem_Malloc(
            field_count * sizeof(field_t) + count * has_timestamps * sizeof(int64_t)
        )
        if columns.block == NULL:
            raise MemoryError
        columns.values = <field_t *>columns.block
        columns.timestamps = <int64_t *>(columns.values + field_count)
    columns.keys = columns.values + count
    columns.headers = columns.keys + has_keys * count
    records.count = count
    records.values = columns.values
    records.keys = columns.keys if has_keys else NULL
    records.headers = columns.headers if has_headers else NULL
    records.timestamps = columns.timestamps if has_timestamps else NULL
    records.base_timestamp = -1
    return 0


cdef inline object _held(object column):
    """Return a column that can be gathered without running Python code; None: it cannot."""
    if PyList_CheckExact(column) or PyTuple_CheckExact(column):
        return column
    return _arrow(column)


cdef inline int64_t _length(object column) noexcept:
    cdef Py_ssize_t count = 0
    if type(column) is _Arrow:
        return (<_Arrow>column).column.length
    plain_items(column, &count)
    return count


cdef bint _gather_fields(object column, field_t *out) noexcept:
    cdef Py_ssize_t count = 0
    cdef PyObject **items
    if type(column) is _Arrow:
        return arrow_gather_bytes(&(<_Arrow>column).column, out)
    items = plain_items(column, &count)
    return gather_fields(items, count, out)


cdef bint _gather_headers(object column, field_t *out, scratch_t *scratch) noexcept:
    cdef Py_ssize_t count = 0
    cdef PyObject **items
    if type(column) is _Arrow:
        return False
    items = plain_items(column, &count)
    return gather_blocks(items, count, out, scratch)


cdef bint _gather_timestamps(object column, int64_t *out) noexcept:
    cdef Py_ssize_t count = 0
    cdef PyObject **items
    if type(column) is _Arrow:
        return arrow_gather_timestamps(&(<_Arrow>column).column, out)
    items = plain_items(column, &count)
    return gather_timestamps(items, count, out)


cdef bint _gather(
    columns_t *columns, object values, object keys, object timestamps, object headers,
) except -1:
    """Point ``columns`` at the records; False where something is not plain.

    All columns are held already. No Python code runs in here.
    """
    cdef int64_t count = _length(values)
    cdef bint has_one_timestamp = PyLong_CheckExact(timestamps)
    if (
        count > INT32_MAX
        or (keys is not None and _length(keys) != count)
        or (headers is not None and _length(headers) != count)
        or (not has_one_timestamp and _length(timestamps) != count)
    ):
        return False
    _make_room(columns, count, keys is not None, headers is not None, not has_one_timestamp)
    if not (
        _gather_fields(values, columns.values)
        and (keys is None or _gather_fields(keys, columns.keys))
        and (headers is None or _gather_headers(headers, columns.headers, &columns.scratch))
    ):
        return False
    if has_one_timestamp:
        return plain_timestamp(timestamps, &columns.records.base_timestamp)
    if not _gather_timestamps(timestamps, columns.timestamps):
        return False
    if count > 0:
        columns.records.base_timestamp = columns.timestamps[0]
    return True


cdef int64_t _max_timestamp(const records_t *records) noexcept:
    cdef int64_t at, greatest = records.base_timestamp
    if records.timestamps != NULL:
        for at in range(records.count):
            if records.timestamps[at] > greatest:
                greatest = records.timestamps[at]
    return greatest


cdef bytes _encode(
    fields_t *fields, object values, object keys, object timestamps, object headers, object level
):
    cdef columns_t columns
    cdef records_t *records = &columns.records
    cdef bint plain
    _empty(&columns)
    try:
        # All that runs Python code comes first; from _gather on, nothing may move.
        held_values = _held(values)
        held_keys = None if keys is None else _held(keys)
        held_headers = None if headers is None else _held(headers)
        held_timestamps = timestamps if PyLong_CheckExact(timestamps) else _held(timestamps)
        plain = (
            held_values is not None
            and (held_keys is not None or keys is None)
            and (held_headers is not None or headers is None)
            and held_timestamps is not None
            and _gather(&columns, held_values, held_keys, held_timestamps, held_headers)
        )
        if not plain:
            _free(&columns)
            held = batch_fields.plain_columns(values, keys, timestamps, headers)
            held_values, held_keys, held_timestamps, held_headers = held
            if not _gather(&columns, held_values, held_keys, held_timestamps, held_headers):
                raise RuntimeError("columns changed while they were read")
        if records.count == 0:
            return b""
        _check_offsets(fields.head.base_offset, records.count)
        fields.head.base_timestamp = records.base_timestamp
        fields.head.max_timestamp = _max_timestamp(records)
        fields.head.last_offset_delta = <int32_t>(records.count - 1)
        fields.head.count = <int32_t>records.count
        return _finish_columns(fields, records, level)
    finally:
        _free(&columns)


def encode_batch(
    values, *, timestamps, keys=None, headers=None, base_offset=0, partition_leader_epoch=-1,
    compression=_NONE, compression_level=None, timestamp_type=_CREATE_TIME, log_append_time=-1,
    producer_id=-1, producer_epoch=-1, base_sequence=-1, transactional=False, control=False,
):
    """Encode one batch of whole columns: see batch_writer."""
    cdef fields_t fields
    _set_fields(
        &fields, base_offset, partition_leader_epoch, compression, compression_level,
        timestamp_type, log_append_time, producer_id, producer_epoch, base_sequence,
        transactional, control,
    )
    return _encode(&fields, values, keys, timestamps, headers, compression_level)


# Fifteen arguments cost as much to take as a short batch to encode, and most calls give a few. So
# the function that is exported looks for those, and leaves the other calls to the one above.

cdef object _with_all_arguments = encode_batch
cdef PyObject *_TIMESTAMPS = <PyObject *>"timestamps"  # interned, as names in calls are
cdef PyObject *_KEYS = <PyObject *>"keys"
cdef PyObject *_HEADERS = <PyObject *>"headers"
cdef fields_t _DEFAULTS
cdef PyMethodDef _definition

_set_fields(&_DEFAULTS, 0, -1, _NONE, None, _CREATE_TIME, -1, -1, -1, -1, False, False)


cdef object _with_few_arguments(
    PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *names
):
    cdef PyObject *timestamps = NULL
    cdef PyObject *keys = <PyObject *>None
    cdef PyObject *headers = <PyObject *>None
    cdef PyObject *name
    cdef Py_ssize_t at
    cdef fields_t fields
    cdef bint is_known = count == 1 and names != NULL
    if is_known:
        for at in range(PyTuple_GET_SIZE(<object>names)):
            name = PyTuple_GET_ITEM(<object>names, at)
            if name == _TIMESTAMPS:
                timestamps = arguments[1 + at]
            elif name == _KEYS:
                keys = arguments[1 + at]
            elif name == _HEADERS:
                headers = arguments[1 + at]
            else:
                is_known = False
    if not is_known or timestamps == NULL:
        return PyObject_Vectorcall(_with_all_arguments, arguments, count, names)
    fields = _DEFAULTS
    return _encode(
        &fields, <object>arguments[0], <object>keys, <object>timestamps, <object>headers, None
    )


_definition.ml_name = "encode_batch"
_definition.ml_meth = <PyCFunction><void *>_with_few_arguments
_definition.ml_flags = METH_FASTCALL | METH_KEYWORDS
_definition.ml_doc = (
    b"encode_batch(values, *, timestamps, keys=None, headers=None, base_offset=0, "
    b"partition_leader_epoch=-1, compression=0, compression_level=None, timestamp_type=0, "
    b"log_append_time=-1, producer_id=-1, producer_epoch=-1, base_sequence=-1, "
    b"transactional=False, control=False)\n--\n\n"
    b"Encode one batch of whole columns: see batch_writer."
)
encode_batch = PyCFunction_NewEx(&_definition, NULL, __name__)


# -------------------------------------------------------------------------------------- builder


cdef inline size_t _size_max(const record_t *record) noexcept:
    return RECORD_OVERHEAD_BYTES_MAX + parts_size(&record.key, &record.value, &record.headers)


cdef struct record_t:
    field_t key
    field_t value
    field_t headers
    int64_t timestamp


cdef class BatchBuilder:
    """BatchBuilder(base_offset=0, *, partition_leader_epoch=-1, compression=0, \
compression_level=None, timestamp_type=0, log_append_time=-1, producer_id=-1, producer_epoch=-1, \
base_sequence=-1, transactional=False, control=False, size_max=None)
--

Collects records into one batch: see batch_writer."""

    cdef fields_t fields
    cdef object level
    cdef int64_t size_max
    cdef uint8_t *records
    cdef size_t used
    cdef size_t capacity
    cdef int64_t appended
    cdef int64_t first_timestamp
    cdef int64_t max_timestamp
    cdef scratch_t scratch

    def __init__(
        self, base_offset=0, *, partition_leader_epoch=-1, compression=_NONE,
        compression_level=None, timestamp_type=_CREATE_TIME, log_append_time=-1, producer_id=-1,
        producer_epoch=-1, base_sequence=-1, transactional=False, control=False, size_max=None,
    ):
        cdef fields_t fields
        cdef int64_t limit = _BATCH_BYTES_MAX
        _set_fields(
            &fields, base_offset, partition_leader_epoch, compression, compression_level,
            timestamp_type, log_append_time, producer_id, producer_epoch, base_sequence,
            transactional, control,
        )
        if size_max is not None:
            limit = min(batch_fields.integer(size_max, "int64", "size_max"), limit)
        self.fields = fields
        self.level = compression_level
        self.size_max = limit
        self._reset()

    def __dealloc__(self):
        PyMem_Free(self.records)
        PyMem_Free(self.scratch.bytes)

    cdef void _reset(self) noexcept:
        self.used = 0
        self.appended = 0
        self.first_timestamp = self.max_timestamp = -1

    @property
    def size(self):
        """The size of the batch in bytes, head included, before compression."""
        return BATCH_HEAD_BYTES + self.used

    @property
    def count(self):
        """How many records have been appended."""
        return self.appended

    @property
    def base_offset(self):
        """The offset of the first record."""
        return self.fields.head.base_offset

    cdef inline bint _gather(self, record_t *record, key, value, timestamp, headers) noexcept:
        """Point at the parts of a record; False where one is not plain."""
        cdef int64_t size
        if not (
            plain_field(value, &record.value)
            and plain_field(key, &record.key)
            and plain_timestamp(timestamp, &record.timestamp)
        ):
            return False
        record.headers = BLOCK_NONE
        if headers is not None and not (
            PyTuple_CheckExact(headers) and PyTuple_GET_SIZE(headers) == 0
        ):
            self.scratch.used = 0
            size = gather_block(headers, &self.scratch)
            if size == 0:
                return False
            record.headers.bytes = self.scratch.bytes
            record.headers.size = size
        return True

    cdef inline object _take(self, record_t *record, key, value, timestamp, headers):
        """Point at the parts of a record; return what holds those that had to be made plain."""
        if self._gather(record, key, value, timestamp, headers):
            return None
        held = batch_fields.plain_record(key, value, timestamp, headers, self.appended)
        key, value, timestamp, headers = held
        if not self._gather(record, key, value, timestamp, headers):
            raise RuntimeError("a record changed while it was read")
        return held

    cdef inline int64_t _delta(self, const record_t *record) noexcept:
        return record.timestamp - self.first_timestamp if self.appended else 0

    cdef int64_t _size_of(self, const record_t *record) noexcept:
        """Return the size of the batch with this record."""
        cdef size_t body = record_body_size(
            &record.key, &record.value, &record.headers, self._delta(record), self.appended
        )
        return BATCH_HEAD_BYTES + self.used + varint_size(<int64_t>body) + body

    cdef inline bint _room(self, int64_t size) noexcept:
        return size <= (self.size_max if self.appended else _BATCH_BYTES_MAX)

    cdef int _grow(self, size_t wanted) except -1:
        cdef size_t capacity = wanted + wanted // 2 + 512
        cdef uint8_t *grown = <uint8_t *>PyMem_Realloc(self.records, capacity)
        if grown == NULL:
            raise MemoryError
        self.records = grown
        self.capacity = capacity
        return 0

    @cython.binding(False)  # A call is a tenth shorter.
    def append(self, key, value, timestamp, headers=()):
        """append($self, key, value, timestamp, headers=())
--

Append a record and return its offset: see batch_writer."""
        cdef record_t record
        held = self._take(&record, key, value, timestamp, headers)
        # The size is computed where it is not certain that it fits.
        if not (
            self._room(BATCH_HEAD_BYTES + self.used + _size_max(&record))
            or self._room(self._size_of(&record))
        ):
            _too_long(self._size_of(&record), self.size_max if self.appended else _BATCH_BYTES_MAX)
        _check_offsets(self.fields.head.base_offset, self.appended + 1)
        if self.used + _size_max(&record) > self.capacity:
            self._grow(self.used + _size_max(&record))
        self.used = record_write(
            self.records + self.used, &record.key, &record.value, &record.headers,
            self._delta(&record), self.appended,
        ) - self.records
        if self.appended == 0:
            self.first_timestamp = self.max_timestamp = record.timestamp
        elif record.timestamp > self.max_timestamp:
            self.max_timestamp = record.timestamp
        self.appended += 1
        return self.fields.head.base_offset + (self.appended - 1)

    cdef int64_t _size_with(self, key, value, timestamp, headers) except -1:
        cdef record_t record
        held = self._take(&record, key, value, timestamp, headers)
        return self._size_of(&record)

    def size_with(self, key, value, timestamp, headers=()):
        """Return what ``size`` would be after this record."""
        return self._size_with(key, value, timestamp, headers)

    def has_room_for(self, key, value, timestamp, headers=()):
        """Tell whether ``append`` would find room: of bytes, and of offsets in an int64."""
        cdef int64_t size = self._size_with(key, value, timestamp, headers)
        return self._room(size) and self.fields.head.base_offset <= INT64_MAX - self.appended

    def build(self):
        """Return the batch; without records that is no bytes, as with Kafka's builder."""
        cdef fields_t fields = self.fields
        if self.appended == 0:
            return b""
        fields.head.base_timestamp = self.first_timestamp
        fields.head.max_timestamp = self.max_timestamp
        fields.head.last_offset_delta = <int32_t>(self.appended - 1)
        fields.head.count = <int32_t>self.appended
        return _finish(&fields, self.records, self.used, self.level)

    def clear(self, base_offset=None, base_sequence=None):
        """Drop the records; start at another offset, and another sequence, where given."""
        cdef batch_head_t head = self.fields.head
        if base_offset is not None:
            head.base_offset = batch_fields.integer(base_offset, "int64", "baseOffset")
        if base_sequence is not None:
            head.base_sequence = batch_fields.integer(base_sequence, "int32", "baseSequence")
        if not _producer_agrees(&head):
            batch_fields.check_producer(
                head.attributes, head.producer_id, head.producer_epoch, head.base_sequence
            )
        self.fields.head = head
        self._reset()
