"""Metadata records as lines of text, straight from their batch: None where one is not usual.

The twin that does all the rest is ``kraftspec.reference.tools.dump_lines``.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint8_t, uint32_t
from libc.stdlib cimport free


cdef extern from "c/record_read.h" nogil:
    int RECORDS_AT, COMPRESSION_MASK, CONTROL

    ctypedef struct batch_view:
        int64_t base_offset, base_timestamp, max_timestamp, producer_id, size
        int32_t leader_epoch, last_offset_delta, base_sequence, record_count
        uint32_t crc
        int16_t attributes, producer_epoch

    ctypedef struct record_view:
        int64_t timestamp_delta
        const uint8_t *value
        int32_t offset_delta, key_size, value_size, header_count
        int8_t attributes

    void crc32c_start()
    const uint8_t *batch_read(
        const uint8_t *at, const uint8_t *end, bint check_crc, batch_view *batch)
    const uint8_t *record_read(const uint8_t *at, const uint8_t *end, record_view *record)
    int64_t record_timestamp(const batch_view *batch, int64_t delta)


cdef extern from "c/record_text.h" nogil:
    enum:
        TEXT_BOOL, TEXT_INT8, TEXT_INT16, TEXT_UINT16, TEXT_INT32, TEXT_UINT32, TEXT_INT64
        TEXT_UUID, TEXT_STRING, TEXT_BYTES, TEXT_ARRAY, TEXT_STRUCT
        DEFAULT_NUMBER, DEFAULT_EMPTY, DEFAULT_NULL
        TEXT_FIELDS_MAX

    ctypedef struct text_field:
        const char *name
        Py_ssize_t name_size
        const text_struct *child
        int64_t number
        uint32_t tag
        uint8_t wire, element, nullable, is_tagged, default_kind

    ctypedef struct text_struct:
        text_field *fields
        uint8_t *on_wire
        int field_count, on_wire_count

    ctypedef struct text_out:
        uint8_t *data
        size_t used, room

    bint out_bytes(text_out *out, const void *data, size_t size)
    bint out_number(text_out *out, int64_t number)
    const uint8_t *text_object(
        text_out *out, const text_struct *type, const uint8_t *at, const uint8_t *end)


crc32c_start()

cdef enum:
    NUMBERS = 128  # An API key that takes one byte.
    VERSIONS = 16
    FRAME_BYTES = 3
    FRAME_VERSION = 1

cdef dict WIRES = {
    "bool": TEXT_BOOL, "int8": TEXT_INT8, "int16": TEXT_INT16, "uint16": TEXT_UINT16,
    "int32": TEXT_INT32, "uint32": TEXT_UINT32, "int64": TEXT_INT64, "uuid": TEXT_UUID,
    "compact_string": TEXT_STRING, "compact_bytes": TEXT_BYTES, "compact_array": TEXT_ARRAY,
}


cdef class Programs:
    """The layouts of metadata records, compiled: which of them are known is asked by ``add``."""

    cdef text_struct *types[NUMBERS][VERSIONS]
    cdef const char *heads[NUMBERS][VERSIONS]
    cdef Py_ssize_t head_sizes[NUMBERS][VERSIONS]
    cdef list kept

    def __cinit__(self):
        self.kept = []

    def add(self, int number, int version, bytes head, layouts, int index, orders):
        """Compile the layout of a record; return whether it is one that can be.

        ``head`` is the text before the record's own object, and ``orders`` has the names of each
        layout's fields in the order of the spec.
        """
        if not (0 <= number < NUMBERS and 0 <= version < VERSIONS):
            return False
        type = self.compile(layouts, index, orders)
        if type is None:
            return False
        self.kept.append((type, head))
        self.types[number][version] = (<Type>type).type
        self.heads[number][version] = PyBytes_AS_STRING(head)
        self.head_sizes[number][version] = PyBytes_GET_SIZE(head)
        return True

    cdef compile(self, layouts, int index, orders):
        _, flexible, fields, tagged, _, _ = layouts[index]
        names = orders[index]
        if not flexible or len(names) > TEXT_FIELDS_MAX:
            return None
        cdef Type made = Type()
        at = {name: place for place, name in enumerate(names)}
        for name, _, wire, nullable, element in fields:
            made.type.on_wire[made.type.on_wire_count] = at[name]
            made.type.on_wire_count += 1
            if not self.field(made, at[name], name, wire, nullable, element, layouts, orders):
                return None
        for tag, name, _, wire, nullable, element, default in tagged:
            if not self.field(made, at[name], name, wire, nullable, element, layouts, orders):
                return None
            if not made.default(at[name], tag, default):
                return None
        made.type.field_count = len(names)
        return made

    cdef bint field(
            self, Type made, int place, name, wire, nullable, element, layouts, orders) except -1:
        cdef text_field *field = &made.type.fields[place]
        text = f',"{name}":'.encode()
        made.kept.append(text)
        field.name = PyBytes_AS_STRING(text)
        field.name_size = PyBytes_GET_SIZE(text)
        field.nullable = nullable
        if wire not in WIRES:
            return False
        field.wire = WIRES[wire]
        if wire != "compact_array":
            return True
        if isinstance(element, int):
            child = self.compile(layouts, element, orders)
            if child is None:
                return False
            made.kept.append(child)
            field.child = (<Type>child).type
            field.element = TEXT_STRUCT
            return True
        if element not in WIRES or element == "compact_array":
            return False
        field.element = WIRES[element]
        return True

    def lines(self, data, Py_ssize_t position, tuple words):
        """Return the records of the batch at ``position`` as lines; None where one is not usual.

        ``words`` stand before the offset, the timestamp, the size of the value and the record, and
        at the end of each line. The CRC was checked.
        """
        cdef Py_buffer buffer
        cdef const char *starts[5]
        cdef Py_ssize_t sizes[5]
        for index in range(5):
            word = words[index]
            if not isinstance(word, bytes):
                raise TypeError("bytes wanted")
            starts[index] = PyBytes_AS_STRING(word)
            sizes[index] = PyBytes_GET_SIZE(word)
        cdef text_out out = text_out(NULL, 0, 0)
        cdef bint done
        PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
        try:
            with nogil:
                done = self.write(&buffer, position, starts, sizes, &out)
            if not done:
                return None
            return PyBytes_FromStringAndSize(<char *>out.data, out.used)
        finally:
            free(out.data)
            PyBuffer_Release(&buffer)

    cdef bint write(
            self, Py_buffer *buffer, Py_ssize_t position, const char **words,
            const Py_ssize_t *sizes, text_out *out) noexcept nogil:
        cdef const uint8_t *start = <const uint8_t *>buffer.buf
        cdef const uint8_t *at
        cdef const uint8_t *end
        cdef const uint8_t *value_end
        cdef batch_view batch
        cdef record_view record
        cdef int32_t index
        cdef const text_struct *type
        cdef uint8_t number, version
        if position < 0 or position > buffer.len:
            return False
        end = batch_read(start + position, start + buffer.len, False, &batch)
        if end == NULL or batch.attributes & (COMPRESSION_MASK | CONTROL):
            return False
        if batch.base_sequence >= 0 or batch.record_count != batch.last_offset_delta + 1:
            return False
        if batch.base_offset < 0 or batch.base_offset > (<int64_t>1 << 62):
            return False
        at = start + position + RECORDS_AT
        for index in range(batch.record_count):
            at = record_read(at, end, &record)
            if at == NULL or record.attributes or record.offset_delta != index:
                return False
            if record.key_size >= 0 or record.header_count or record.value_size < FRAME_BYTES:
                return False
            number, version = record.value[1], record.value[2]
            if record.value[0] != FRAME_VERSION or number >= NUMBERS or version >= VERSIONS:
                return False
            type = self.types[number][version]
            if type == NULL:
                return False
            value_end = record.value + record.value_size
            if not (
                out_bytes(out, words[0], sizes[0])
                and out_number(out, batch.base_offset + index)
                and out_bytes(out, words[1], sizes[1])
                and out_number(out, record_timestamp(&batch, record.timestamp_delta))
                and out_bytes(out, words[2], sizes[2])
                and out_number(out, record.value_size)
                and out_bytes(out, words[3], sizes[3])
                and out_bytes(out, self.heads[number][version], self.head_sizes[number][version])
                and text_object(out, type, record.value + FRAME_BYTES, value_end) == value_end
                and out_bytes(out, words[4], sizes[4])
            ):
                return False
        return at == end


cdef class Type:
    """A compiled struct, and what its pointers lead to."""

    cdef text_struct *type
    cdef list kept

    def __cinit__(self):
        self.kept = []
        self.type = <text_struct *>PyMem_Calloc(1, sizeof(text_struct))
        if self.type == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.type)

    cdef bint default(self, int place, uint32_t tag, default) except -1:
        cdef text_field *field = &self.type.fields[place]
        field.is_tagged = True
        field.tag = tag
        if default is None:
            field.default_kind = DEFAULT_NULL
        elif isinstance(default, int):
            field.default_kind = DEFAULT_NUMBER
            field.number = default
        elif default == "" or default == ():
            field.default_kind = DEFAULT_EMPTY
        else:
            return False
        return True
