"""The native codec: compiles plan literals, once each, and runs them over msgspec structs.

``Programs`` turns the layouts of one message into the C structs of ``c/plan.h``; ``c/encode.h`` and
``c/decode.h`` run them. The functions here take the place of the methods of ``Message`` that have
their names. Whatever the engine does not take, it hands to those methods, whose word is the last.
"""

cimport cython
from cpython.buffer cimport (
    PyBUF_CONTIG_RO, PyBUF_FORMAT, PyBUF_WRITABLE, PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from libc.stdint cimport int64_t, uint8_t, uint32_t


cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        pass
    PyTypeObject *Py_TYPE(object value)
    bint Py_IS_TYPE(object value, PyTypeObject *type)
    # Borrowed; NULL, without an exception, when there is none.
    void *_PyType_Lookup(PyTypeObject *type, object name)


cdef extern from "c/decode.h":
    cdef enum:
        W_BOOL, W_INT8, W_INT16, W_UINT16, W_INT32, W_UINT32, W_INT64, W_FLOAT64, W_UUID
        W_STRING, W_BYTES, W_RECORDS, W_ARRAY, W_STRUCT
        D_NULL, D_BOOL, D_INT, D_FLOAT, D_STRING, D_BYTES, D_EMPTY, D_STRUCT
        F_SHARED, F_LIST, F_STRUCT
    ctypedef struct plan_fresh:
        uint8_t kind
        Py_ssize_t slot
        void *value
        const plan_defaults *defaults
    ctypedef struct plan_defaults:
        PyTypeObject *type
        Py_ssize_t count
        plan_fresh *slots
    ctypedef struct kept_text:
        void *text
        kept_text *next
    ctypedef struct plan_field:
        uint8_t wire
        uint8_t compact
        uint8_t nullable
        uint8_t in_tag
        uint8_t default_kind
        uint32_t tag
        Py_ssize_t slot
        const plan_field *item
        const plan_struct *child
        kept_text *kept
        void *given
        int64_t number
        const plan_defaults *defaults
    ctypedef struct plan_struct:
        PyTypeObject *type
        int flexible
        int height
        Py_ssize_t bytes_min
        Py_ssize_t unknown_slot, field_count, tagged_count, absent_count, fill_count
        Py_ssize_t reserved_count, later_count
        plan_field *fields
        plan_field *tagged
        plan_field *absent
        plan_fresh *fill
        plan_fresh *unset
        uint32_t *reserved
        uint32_t *later
    ctypedef struct writer:
        pass
    PyTypeObject *engine_uuid "engine.uuid"
    PyTypeObject *engine_codec "engine.codec"
    void *engine_zero_uuid "engine.zero_uuid"
    void *engine_standard_uuid "engine.standard_uuid"
    void *engine_is_default "engine.is_default"
    Py_ssize_t engine_programs_slot "engine.programs_slot"
    void *SLOT(void *object, Py_ssize_t offset)
    Py_ssize_t slot_of(PyTypeObject *type, object name) except -1
    bint is_plain_struct(PyTypeObject *type, PyTypeObject *base)
    bint is_bytes_view(const Py_buffer *view)
    int as_int(object value, int64_t *number)
    int engine_encode(writer *w, const plan_struct *plan, object value) except -1
    void writer_close(writer *w)
    object writer_bytes(const writer *w)
    object writer_parts(const writer *w)
    size_t writer_size(const writer *w)
    bint writer_overlaps(const writer *w, const uint8_t *to)
    void writer_copy(const writer *w, uint8_t *to)
    const uint8_t FIXED_BYTES[]
    int make_small_ints() except -1
    object engine_decode(
        const plan_struct *plan, object owner, const void *data, Py_ssize_t size,
        int64_t offset, bint whole, bint copy, Py_ssize_t *end,
    )


DEPTH_MAX = 100  # Structs in structs: C calls itself for each, and Kafka nests four.

cdef dict WIRES = {
    "bool": W_BOOL, "int8": W_INT8, "int16": W_INT16, "uint16": W_UINT16, "int32": W_INT32,
    "uint32": W_UINT32, "int64": W_INT64, "float64": W_FLOAT64, "uuid": W_UUID,
    "string": W_STRING, "bytes": W_BYTES, "records": W_RECORDS, "array": W_ARRAY,
    "struct": W_STRUCT,
}

make_small_ints()

cdef list held_always = []  # What `engine` in c/plan.h points to.
cdef PyTypeObject *base_struct = NULL
cdef tuple immutable = ()
cdef object python_encode, python_encode_parts, python_encode_into, python_decode
cdef object python_decode_from, flat
cdef object _MISSING = object()  # No version was given: Python's error names the argument.


def bind(
    codec_class, struct_class, uuid_class, zero_uuid, standard_uuid, is_default, flatten, methods
):
    """Set what the engine needs of the modules above it, which it does not import.

    ``methods`` are those of ``Message`` that are written in Python: encode, encode_parts,
    encode_into, decode and decode_from, the last two as functions of a class.
    """
    global engine_uuid, engine_zero_uuid, engine_standard_uuid, engine_is_default, engine_codec
    global engine_programs_slot, base_struct, immutable, flat
    global python_encode, python_encode_parts, python_encode_into, python_decode
    global python_decode_from
    held_always[:] = [
        codec_class, struct_class, uuid_class, zero_uuid, standard_uuid, is_default,
    ]
    if uuid_class.__itemsize__ != 1 or uuid_class.__basicsize__ != bytes.__basicsize__:
        raise TypeError("a uuid is laid out as bytes are")
    engine_programs_slot = slot_of(<PyTypeObject *> codec_class, "programs")
    engine_codec = <PyTypeObject *> codec_class
    engine_uuid = <PyTypeObject *> uuid_class
    engine_zero_uuid = <void *> zero_uuid
    engine_standard_uuid = <void *> standard_uuid
    engine_is_default = <void *> is_default
    base_struct = <PyTypeObject *> struct_class
    immutable = (int, str, bytes, bool, float, type(None), uuid_class)
    flat = flatten
    python_encode, python_encode_parts, python_encode_into, python_decode, python_decode_from = (
        methods
    )


# -------------------------------------------------------------------------------- compiling plans


@cython.final
@cython.no_gc_clear
cdef class Programs:
    """The compiled plans of one message, each compiled when its version is first used.

    ``structs``, ``layouts`` and ``plans`` are those of ``message.Codec``.
    """

    cdef tuple structs
    cdef tuple layouts
    cdef dict plans
    cdef list held  # Every object and every block of memory that a C struct points to.
    cdef dict compiled_structs
    cdef dict compiled_defaults
    cdef set refused
    cdef kept_text *kept
    cdef const plan_struct **versions
    cdef int64_t first
    cdef int64_t count

    def __cinit__(self, tuple structs, tuple layouts, dict plans):
        self.structs = structs
        self.layouts = layouts
        self.plans = plans
        self.held = []
        self.compiled_structs = {}
        self.compiled_defaults = {}
        self.refused = set()
        self.first = min(plans) if plans else 0
        self.count = max(plans) - self.first + 1 if plans else 0
        self.versions = <const plan_struct **> self.block(self.count * sizeof(void *))

    def __dealloc__(self):
        while self.kept is not NULL:
            Py_XDECREF(<PyObject *> self.kept.text)
            self.kept = self.kept.next

    def compile(self, int64_t version):
        """Compile the plan of a version; raises if that is not possible."""
        self.versions[version - self.first] = self.layout(self.plans[version], 0)

    cdef void *block(self, Py_ssize_t size) except NULL:
        """Return zeroed memory that lives as long as this object."""
        memory = bytearray(size)
        self.held.append(memory)
        return PyByteArray_AS_STRING(memory)

    cdef const plan_struct *find(self, version) except? NULL:
        """Return the plan of a version; NULL where there is none or it did not compile."""
        cdef int64_t at = 0
        if not PyLong_CheckExact(version) or as_int(version, &at) < 0:
            return NULL
        if at < self.first or at - self.first >= self.count:
            return NULL
        at -= self.first
        if self.versions[at] is NULL:
            self.prepare(version)
        return self.versions[at]

    cdef int prepare(self, version) except -1:
        if version in self.plans and version not in self.refused:
            try:
                self.compile(version)
            except (TypeError, ValueError, KeyError, IndexError, OverflowError):
                self.refused.add(version)
        return 0

    cdef const plan_struct *layout(self, Py_ssize_t index, int depth) except NULL:
        cdef plan_struct *plan
        cdef const plan_defaults *defaults
        cdef Py_ssize_t at
        if index in self.compiled_structs:
            return <const plan_struct *> <size_t> self.compiled_structs[index]
        if depth > DEPTH_MAX:
            raise ValueError("structs nest too deep, or in themselves")
        if not 0 <= index < len(self.layouts):
            raise IndexError(f"there is no layout {index}")
        number, flexible, fields, tagged, absent, later = self.layouts[index]
        cls = self.structs[number]
        tagged = tagged if flexible else ()
        defaults = self.defaults(cls)
        plan = <plan_struct *> self.block(sizeof(plan_struct))
        plan.type = <PyTypeObject *> cls
        plan.flexible = bool(flexible)
        plan.unknown_slot = -1
        if "unknown_tagged_fields" in cls.__struct_fields__:
            plan.unknown_slot = slot_of(plan.type, "unknown_tagged_fields")
        plan.field_count = len(fields)
        plan.fields = <plan_field *> self.block(len(fields) * sizeof(plan_field))
        for at, (_, attr, wire, nullable, element) in enumerate(fields):
            self.field(&plan.fields[at], cls, attr, wire, nullable, element, depth)
        plan.tagged_count = len(tagged)
        plan.tagged = <plan_field *> self.block(len(tagged) * sizeof(plan_field))
        for at, (tag, _, attr, wire, nullable, element, default) in enumerate(tagged):
            self.field(&plan.tagged[at], cls, attr, wire, nullable, element, depth)
            plan.tagged[at].tag = tag
            plan.tagged[at].in_tag = True
            self.default(&plan.tagged[at], cls, attr, default)
        kept = [(attr, default) for _, attr, ignorable, default in absent if not ignorable]
        plan.absent_count = len(kept)
        plan.absent = <plan_field *> self.block(len(kept) * sizeof(plan_field))
        for at, (attr, default) in enumerate(kept):
            plan.absent[at].slot = slot_of(plan.type, attr)
            self.default(&plan.absent[at], cls, attr, default)
        for at in range(plan.tagged_count):
            measure(plan, &plan.tagged[at])
        plan.bytes_min = plan.flexible  # Tagged fields may be left out, their count may not.
        for at in range(plan.field_count):
            measure(plan, &plan.fields[at])
        self.reserve(plan, [entry[0] for entry in tagged], later)
        self.fill(plan, defaults, [entry[1] for entry in fields], [entry[2] for entry in tagged])
        self.compiled_structs[index] = <size_t> plan
        return plan

    cdef int reserve(self, plan_struct *plan, list known, tuple later) except -1:
        cdef Py_ssize_t at
        plan.reserved_count = len(known) + len(later)
        plan.reserved = <uint32_t *> self.block(plan.reserved_count * sizeof(uint32_t))
        for at, tag in enumerate([*known, *later]):
            plan.reserved[at] = tag
        plan.later = plan.reserved + len(known)
        plan.later_count = len(later)
        return 0

    cdef int fill(
        self, plan_struct *plan, const plan_defaults *defaults, list fields, list tagged
    ) except -1:
        """Note the slots that a decode sets to defaults: all but those of ``fields``."""
        cdef Py_ssize_t at
        plan.fill = <plan_fresh *> self.block(defaults.count * sizeof(plan_fresh))
        plan.unset = <plan_fresh *> self.block(len(tagged) * sizeof(plan_fresh))
        for at, attr in enumerate((<object> plan.type).__struct_fields__):
            if attr in tagged:
                plan.unset[tagged.index(attr)] = defaults.slots[at]
            elif attr not in fields:
                plan.fill[plan.fill_count] = defaults.slots[at]
                plan.fill_count += 1
        return 0

    cdef int field(
        self, plan_field *out, cls, attr, str wire, bint nullable, element, int depth
    ) except -1:
        cdef plan_field *item
        plain = wire.removeprefix("compact_")
        out.wire = WIRES[plain]
        out.compact = plain != wire
        out.nullable = nullable
        if out.wire == W_STRING:
            out.kept = <kept_text *> self.block(sizeof(kept_text))
            out.kept.next = self.kept
            self.kept = out.kept
        if attr is not None:
            out.slot = slot_of(<PyTypeObject *> cls, attr)
        if isinstance(element, int):
            out.child = self.layout(element, depth + 1)
        elif element is not None:
            item = <plan_field *> self.block(sizeof(plan_field))
            self.field(item, cls, None, element, False, None, depth)
            out.item = item
        parts = (out.item is not NULL) + (out.child is not NULL)
        if parts != (out.wire >= W_ARRAY) or (out.wire == W_STRUCT and out.child is NULL):
            raise ValueError(f"{wire} of {element!r}")
        return 0

    cdef int default(self, plan_field *out, cls, attr, default) except -1:
        self.held.append(default)
        out.given = <void *> default
        if default is None:
            out.default_kind = D_NULL
        elif default is ...:
            out.default_kind = D_STRUCT
            out.defaults = self.defaults(type(getattr(cls(), attr)))
        elif default == () and type(default) is tuple:
            out.default_kind = D_EMPTY
        elif type(default) is int:
            out.default_kind = D_INT
            out.number = default
        else:
            out.default_kind = {bool: D_BOOL, float: D_FLOAT, str: D_STRING, bytes: D_BYTES}[
                type(default)
            ]
        return 0

    cdef const plan_defaults *defaults(self, cls) except NULL:
        """Note the default of each slot of a class, read from a new instance."""
        cdef plan_defaults *out
        cdef plan_fresh *fresh
        if cls in self.compiled_defaults:
            return <const plan_defaults *> <size_t> self.compiled_defaults[cls]
        if (
            not isinstance(cls, type)
            or not is_plain_struct(<PyTypeObject *> cls, base_struct)
            or hasattr(cls, "__post_init__")
        ):
            raise TypeError(f"{cls!r} is not a struct that only holds values")
        unset = cls()
        out = <plan_defaults *> self.block(sizeof(plan_defaults))
        out.type = <PyTypeObject *> cls
        out.count = len(cls.__struct_fields__)
        out.slots = <plan_fresh *> self.block(out.count * sizeof(plan_fresh))
        for at, attr in enumerate(cls.__struct_fields__):
            fresh = &out.slots[<Py_ssize_t> at]
            fresh.slot = slot_of(out.type, attr)
            value = getattr(unset, attr)
            self.held.append(value)
            if type(value) is list and not value:
                fresh.kind = F_LIST
            elif hasattr(type(value), "__struct_fields__") and value == type(value)():
                fresh.kind = F_STRUCT
                fresh.defaults = self.defaults(type(value))
            elif type(value) in immutable or (type(value) is tuple and not value):
                fresh.kind = F_SHARED
                fresh.value = <void *> value
            else:
                raise TypeError(f"the default of {cls.__name__}.{attr} is {value!r}")
        self.held.append(cls)
        self.compiled_defaults[cls] = <size_t> out
        return out


cdef int measure(plan_struct *plan, const plan_field *field) except -1:
    """Add a field to how deep the structs nest, and to how many bytes they take at least.

    C calls itself for each level, and the plans of two versions may share structs.
    """
    if field.wire <= W_UUID:
        plan.bytes_min += FIXED_BYTES[field.wire]
    elif field.wire == W_STRUCT:
        plan.bytes_min += 1 if field.nullable else field.child.bytes_min
    else:
        plan.bytes_min += 1 if field.compact else (2 if field.wire == W_STRING else 4)
    if field.child is not NULL and field.child.height >= plan.height:
        plan.height = field.child.height + 1
        if plan.height > DEPTH_MAX:
            raise ValueError("structs nest too deep")
    return 0


cdef Programs programs_of(PyTypeObject *cls):
    """Return the programs of a class, or None where it has none.

    The running call holds a reference: Python code in it may remove them from the class.
    """
    cdef void *codec = _PyType_Lookup(cls, "CODEC")
    if codec is NULL or not Py_IS_TYPE(<object> codec, engine_codec):
        return None
    cdef void *programs = SLOT(codec, engine_programs_slot)
    if programs is NULL or not Py_IS_TYPE(<object> programs, <PyTypeObject *> Programs):
        return None
    return <Programs> programs


cdef inline const plan_struct *plan_of(Programs programs, version) except? NULL:
    """Return the plan of a version; NULL where pure Python has to find the error."""
    if programs is None:
        return NULL
    return programs.find(version)


# --------------------------------------------------------------------------- methods of a message


def encode(self, version=_MISSING):
    """See ``Message.encode``."""
    encoded = try_encode(self, version)
    if version is _MISSING:
        return python_encode(self)
    return encoded if encoded is not None else python_encode(self, version)


cpdef try_encode(message, version):
    """Return the bytes of a message, or None where the engine gives up."""
    cdef writer w
    cdef Programs programs = programs_of(Py_TYPE(message))
    cdef const plan_struct *plan = plan_of(programs, version)
    if plan is NULL:
        return None
    try:
        return writer_bytes(&w) if engine_encode(&w, plan, message) else None
    finally:
        writer_close(&w)


def encode_parts(self, version=_MISSING):
    """See ``Message.encode_parts``."""
    cdef writer w
    cdef Programs programs = programs_of(Py_TYPE(self))
    cdef const plan_struct *plan = plan_of(programs, version)
    if plan is not NULL:
        try:
            if engine_encode(&w, plan, self):
                return writer_parts(&w)
        finally:
            writer_close(&w)
    if version is _MISSING:
        return python_encode_parts(self)
    return python_encode_parts(self, version)


def encode_into(self, buffer, offset, version):
    """See ``Message.encode_into``."""
    cdef writer w
    cdef Py_ssize_t end = -1
    cdef Programs programs = programs_of(Py_TYPE(self))
    cdef const plan_struct *plan = plan_of(programs, version)
    if plan is not NULL:
        try:
            if engine_encode(&w, plan, self):
                end = write_into(&w, buffer, offset)
        finally:
            writer_close(&w)
    return end if end >= 0 else python_encode_into(self, buffer, offset, version)


cdef Py_ssize_t write_into(writer *w, buffer, offset) except -2:
    """Copy what was encoded to its place; -1 where it has none, or would overwrite its source."""
    cdef Py_buffer view
    cdef Py_ssize_t end = -1
    cdef int64_t start = 0
    if type(buffer) is not bytearray and type(buffer) is not memoryview:
        return -1
    if not PyLong_CheckExact(offset) or as_int(offset, &start) < 0:
        return -1
    try:
        PyObject_GetBuffer(buffer, &view, PyBUF_CONTIG_RO | PyBUF_WRITABLE | PyBUF_FORMAT)
    except (BufferError, ValueError):
        return -1
    cdef uint8_t *to = <uint8_t *> view.buf + start
    if (
        is_bytes_view(&view)
        and 0 <= start <= view.len
        and writer_size(w) <= <size_t> (view.len - start)
        and not writer_overlaps(w, to)
    ):
        writer_copy(w, to)
        end = start + <Py_ssize_t> writer_size(w)
    PyBuffer_Release(&view)
    return end


def decode(cls, data, version=_MISSING, *, bint lenient=False, bint copy=False):
    """See ``Message.decode``."""
    cdef Py_ssize_t end
    if not lenient:
        value = run(cls, data, 0, version, True, copy, &end)
        if value is not None:
            return value
    if version is _MISSING:
        return python_decode(cls, data)
    return python_decode(cls, data, version, lenient=lenient, copy=copy)


def decode_from(cls, data, offset, version, *, bint lenient=False, bint copy=False):
    """See ``Message.decode_from``."""
    cdef Py_ssize_t end
    cdef int64_t start = 0
    if PyLong_CheckExact(offset) and not lenient and as_int(offset, &start) == 0 and start >= 0:
        value = run(cls, data, start, version, False, copy, &end)
        if value is not None:
            return value, end
    return python_decode_from(cls, data, offset, version, lenient=lenient, copy=copy)


def try_decode(cls, data, version):
    """Return the message that is all of ``data``, or None where the engine gives up."""
    cdef Py_ssize_t end
    return run(cls, data, 0, version, True, False, &end)


cdef run(cls, data, int64_t start, version, bint whole, bint copy, Py_ssize_t *end):
    """Decode from ``start`` on and set ``end``; None for giving up."""
    cdef Programs programs = programs_of(<PyTypeObject *> cls)
    cdef const plan_struct *plan = plan_of(programs, version)
    if plan is NULL:
        return None
    if type(data) is bytes:
        return engine_decode(
            plan, data, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), start, whole, copy, end
        )
    cdef Py_buffer view
    if type(data) is not bytearray and type(data) is not memoryview:
        data = flat(data)
    try:
        PyObject_GetBuffer(data, &view, PyBUF_CONTIG_RO | PyBUF_FORMAT)
    except (BufferError, ValueError):
        return None
    try:
        if not is_bytes_view(&view):
            return None
        return engine_decode(plan, data, view.buf, view.len, start, whole, copy, end)
    finally:
        PyBuffer_Release(&view)
