/* Runs a compiled plan over a message: value to bytes.
 *
 *   struct      fields in wire order, then the tagged-field section when flexible
 *   string      int16 length (compact: uvarint length+1), UTF-8        -1 (compact: 0) is null
 *   bytes       int32 length (compact: uvarint length+1), bytes
 *   array       int32 count (compact: uvarint count+1), elements
 *   nullable    a struct that may be null has a marker before it: int8 1, or -1 for null
 *     struct    (inside a tagged field uvarint 1, or 0 for null)
 *   tags        uvarint count, then each: uvarint tag, uvarint size, payload; in tag order
 *
 * Optimistic: anything out of the ordinary makes it give up, by -1, with or without an exception.
 * The caller then calls the pure codec, which decides. What runs Python code (__index__,
 * __eq__ of other types, the collector when an exception is made) may change the message meanwhile,
 * so every object in use is held across it.
 */
#ifndef KRAFTSPEC_ENCODE_H
#define KRAFTSPEC_ENCODE_H

#include "c/writer.h"

#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

static int put_struct(writer *w, const plan_struct *plan, PyObject *value);

static int as_index(PyObject *value, int64_t *number) {
    int overflow = 0, failed;
    if (PyLong_Check(value)) {
        *number = PyLong_AsLongLongAndOverflow(value, &overflow);
        return overflow ? -1 : 0;
    }
    Py_INCREF(value);
    PyObject *index = PyNumber_Index(value);
    Py_DECREF(value);
    if (index == NULL)
        return -1;
    *number = PyLong_AsLongLongAndOverflow(index, &overflow);
    failed = overflow || (*number == -1 && PyErr_Occurred());
    Py_DECREF(index);
    return failed ? -1 : 0;
}

/* The value of an integer, or of what has __index__, that fits in 64 bits. */
static inline int as_int(PyObject *value, int64_t *number) {
    if (PyLong_CheckExact(value)) {
#if PY_VERSION_HEX >= 0x030C0000
        if (PyUnstable_Long_IsCompact((PyLongObject *)value)) {
            *number = PyUnstable_Long_CompactValue((PyLongObject *)value);
            return 0;
        }
#else
        Py_ssize_t size = Py_SIZE(value);
        if (size >= -1 && size <= 1) {
            *number = size * (int64_t)((PyLongObject *)value)->ob_digit[0];
            return 0;
        }
#endif
    }
    return as_index(value, number);
}

static inline int put_int(writer *w, uint8_t wire, PyObject *value) {
    int64_t number;
    if (UNLIKELY(as_int(value, &number) < 0 || !room(w, 8)))
        return -1;
    switch (wire) {
    case W_INT8:
        *w->at++ = (uint8_t)number;
        return number == (int8_t)number ? 0 : -1;
    case W_INT16:
        store16(w->at, (uint32_t)number);
        w->at += 2;
        return number == (int16_t)number ? 0 : -1;
    case W_UINT16:
        store16(w->at, (uint32_t)number);
        w->at += 2;
        return number == (uint16_t)number ? 0 : -1;
    case W_INT32:
        store32(w->at, (uint32_t)number);
        w->at += 4;
        return number == (int32_t)number ? 0 : -1;
    case W_UINT32:
        store32(w->at, (uint32_t)number);
        w->at += 4;
        return number == (uint32_t)number ? 0 : -1;
    default:
        store64(w->at, (uint64_t)number);
        w->at += 8;
        return 0;
    }
}

static int put_float(writer *w, PyObject *value) {
    Py_INCREF(value);
    double number = PyFloat_AsDouble(value);
    Py_DECREF(value);
    if ((number == -1.0 && PyErr_Occurred()) || !room(w, 8))
        return -1;
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    store64(w->at, bits);
    w->at += 8;
    return 0;
}

static int put_uuid(writer *w, PyObject *value) {
    if (PyBytes_Check(value))
        return PyBytes_GET_SIZE(value) == 16 ? put_raw(w, PyBytes_AS_STRING(value), 16) : -1;
    if (!Py_IS_TYPE(value, (PyTypeObject *)engine.standard_uuid))
        return -1;
    Py_INCREF(value);
    PyObject *bytes = PyObject_GetAttrString(value, "bytes");
    Py_DECREF(value);
    int done = -1;
    if (bytes != NULL && PyBytes_Check(bytes) && PyBytes_GET_SIZE(bytes) == 16)
        done = put_raw(w, PyBytes_AS_STRING(bytes), 16);
    Py_XDECREF(bytes);
    return done;
}

static inline int put_text(writer *w, int compact, const char *text, Py_ssize_t size) {
    if (UNLIKELY(size > STRING_BYTES_MAX || !room(w, (size_t)size + 5)))
        return -1;
    if (compact) {
        w->at = store_uvarint(w->at, (uint32_t)size + 1);
    } else {
        store16(w->at, (uint32_t)size);
        w->at += 2;
    }
    memcpy(w->at, text, (size_t)size);
    w->at += size;
    return 0;
}

static int put_string(writer *w, int compact, PyObject *value) {
    if (UNLIKELY(!PyUnicode_Check(value)))
        return -1;
#if PY_VERSION_HEX < 0x030C0000
    if (UNLIKELY(PyUnicode_READY(value) < 0))
        return -1;
#endif
    if (PyUnicode_IS_ASCII(value))
        return put_text(w, compact, PyUnicode_DATA(value), PyUnicode_GET_LENGTH(value));
    /* Not PyUnicode_AsUTF8: that keeps the bytes in the string for as long as it lives. */
    Py_INCREF(value);
    PyObject *bytes = PyUnicode_AsUTF8String(value);
    Py_DECREF(value);
    if (bytes == NULL)
        return -1;
    int done = put_text(w, compact, PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes));
    Py_DECREF(bytes);
    return done;
}

/* Bytes, and contiguous views and arrays of them; memoryview.cast judges all other formats. */
static int put_bytes(writer *w, int compact, PyObject *value) {
    Py_buffer view;
    if (PyBytes_Check(value)) {
        Py_ssize_t size = PyBytes_GET_SIZE(value);
        if (size < LARGE_BYTES_MIN || !PyBytes_CheckExact(value))
            return put_length(w, size, compact, 0) < 0
                       ? -1
                       : put_raw(w, PyBytes_AS_STRING(value), (size_t)size);
    } else if (!PyMemoryView_Check(value) && !PyByteArray_CheckExact(value)) {
        return -1;
    }
    Py_INCREF(value);
    int refused = PyObject_GetBuffer(value, &view, PyBUF_CONTIG_RO | PyBUF_FORMAT);
    Py_DECREF(value);
    if (refused < 0)
        return -1;
    if (!is_bytes_view(&view)) {
        PyBuffer_Release(&view);
        return -1;
    }
    if (put_length(w, view.len, compact, 0) < 0) {
        PyBuffer_Release(&view);
        return -1;
    }
    if (view.len >= LARGE_BYTES_MIN)
        return put_large(w, &view);
    int done = put_raw(w, view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return done;
}

static int put_value(writer *w, const plan_field *field, PyObject *value);

/* Whether a subclass of list or tuple is read as its base is. */
static inline int is_array(PyObject *value, const PyTypeObject *base) {
    const PyTypeObject *type = Py_TYPE(value);
    return type == base || (type->tp_iter == base->tp_iter && type->tp_as_sequence != NULL &&
                            type->tp_as_sequence->sq_length == base->tp_as_sequence->sq_length);
}

static inline PyObject *array_item(PyObject *array, int is_list, Py_ssize_t at) {
    return is_list ? PyList_GET_ITEM(array, at) : PyTuple_GET_ITEM(array, at);
}

static int put_items(writer *w, const plan_field *field, PyObject *array, int is_list) {
    const plan_field *item = field->item;
    Py_ssize_t count = Py_SIZE(array);
    for (Py_ssize_t at = 0; at < count; at++) {
        if (UNLIKELY(Py_SIZE(array) != count))
            return -1; /* Python code that ran for an element has changed the list. */
        PyObject *value = array_item(array, is_list, at);
        Py_INCREF(value);
        int done = item == NULL ? put_struct(w, field->child, value) : put_value(w, item, value);
        Py_DECREF(value);
        if (UNLIKELY(done < 0))
            return -1;
    }
    return Py_SIZE(array) == count ? 0 : -1;
}

/* Integers that are plain ints run no Python code: nothing needs to be held. */
static int put_ints(writer *w, uint8_t wire, PyObject *array, int is_list) {
    Py_ssize_t count = Py_SIZE(array);
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *value = array_item(array, is_list, at);
        if (UNLIKELY(!PyLong_Check(value) || put_int(w, wire, value) < 0))
            return -1;
    }
    return 0;
}

static int put_array(writer *w, const plan_field *field, PyObject *value) {
    int is_list = PyList_Check(value);
    if (is_list ? !is_array(value, &PyList_Type)
                : !PyTuple_Check(value) || !is_array(value, &PyTuple_Type))
        return -1;
    if (put_length(w, Py_SIZE(value), field->compact, 0) < 0)
        return -1;
    if (Py_SIZE(value) == 0)
        return 0;
    const plan_field *item = field->item;
    if (item != NULL && item->wire >= W_INT8 && item->wire <= W_INT64) {
        size_t written = (size_t)(w->at - w->base);
        if (put_ints(w, item->wire, value, is_list) == 0)
            return 0;
        if (PyErr_Occurred())
            return -1;
        w->at = w->base + written; /* Perhaps there is one with __index__ among them. */
    }
    Py_INCREF(value);
    int done = put_items(w, field, value, is_list);
    Py_DECREF(value);
    return done;
}

static int put_null(writer *w, const plan_field *field) {
    if (!field->nullable)
        return -1;
    if (field->wire != W_STRUCT)
        return put_length(w, -1, field->compact, field->wire == W_STRING);
    if (!room(w, 1))
        return -1;
    *w->at++ = field->in_tag ? 0 : 0xFF;
    return 0;
}

static int put_child(writer *w, const plan_field *field, PyObject *value) {
    if (field->nullable) {
        if (!room(w, 1))
            return -1;
        *w->at++ = 1;
    }
    Py_INCREF(value);
    int done = put_struct(w, field->child, value);
    Py_DECREF(value);
    return done;
}

static inline int put_value(writer *w, const plan_field *field, PyObject *value) {
    switch (field->wire) {
    case W_BOOL:
        if (UNLIKELY(!PyBool_Check(value) || !room(w, 1)))
            return -1;
        *w->at++ = value == Py_True;
        return 0;
    case W_FLOAT64:
        return put_float(w, value);
    case W_UUID:
        return put_uuid(w, value);
    case W_STRING:
        return value == Py_None ? put_null(w, field) : put_string(w, field->compact, value);
    case W_BYTES:
    case W_RECORDS:
        return value == Py_None ? put_null(w, field) : put_bytes(w, field->compact, value);
    case W_ARRAY:
        return value == Py_None ? put_null(w, field) : put_array(w, field, value);
    case W_STRUCT:
        return value == Py_None ? put_null(w, field) : put_child(w, field, value);
    default:
        return put_int(w, field->wire, value);
    }
}

/* --------------------------------------------------------------- what is left out, and may be */

static int ask_is_default(PyObject *value, PyObject *given) {
    Py_INCREF(value);
    PyObject *answer = PyObject_CallFunctionObjArgs(engine.is_default, value, given, NULL);
    Py_DECREF(value);
    if (answer == NULL)
        return -1;
    int is_default = answer == Py_True;
    Py_DECREF(answer);
    return is_default;
}

/* Whether every slot has its default: 1 or 0, or 2 where only Python's == can decide. */
static int all_default(const plan_defaults *defaults, PyObject *value) {
    for (Py_ssize_t at = 0; at < defaults->count; at++) {
        const plan_fresh *fresh = &defaults->slots[at];
        PyObject *held = SLOT(value, fresh->slot);
        int same = 2;
        if (held == NULL)
            return 2;
        if (fresh->kind == F_LIST) {
            same = PyList_CheckExact(held) ? Py_SIZE(held) == 0 : 2;
        } else if (fresh->kind == F_STRUCT) {
            if (Py_IS_TYPE(held, fresh->defaults->type))
                same = all_default(fresh->defaults, held);
        } else if (Py_IS_TYPE(held, Py_TYPE(fresh->value)) &&
                   (PyLong_CheckExact(held) || PyUnicode_CheckExact(held) ||
                    PyBytes_CheckExact(held) || Py_IS_TYPE(held, engine.uuid))) {
            same = PyObject_RichCompareBool(held, fresh->value, Py_EQ);
        } else if (held == fresh->value && !PyFloat_CheckExact(held)) {
            same = 1; /* None, a bool, the empty tuple. */
        }
        if (same != 1)
            return same < 0 ? 2 : same;
    }
    return 1;
}

/* Whether a field that need not be written holds its default: 1, 0, or -1 for giving up. */
static int is_unset(const plan_field *field, PyObject *value) {
    int64_t number;
    switch (field->default_kind) {
    case D_NULL:
        return value == Py_None;
    case D_BOOL:
        if (PyBool_Check(value))
            return value == field->given;
        break;
    case D_INT:
        if (PyLong_CheckExact(value))
            return as_int(value, &number) == 0 && number == field->number;
        break;
    case D_FLOAT:
        if (PyFloat_CheckExact(value))
            return PyFloat_AS_DOUBLE(value) == PyFloat_AS_DOUBLE(field->given);
        break;
    case D_STRING:
        if (PyUnicode_CheckExact(value))
            return PyUnicode_Compare(value, field->given) == 0;
        break;
    case D_BYTES:
        if (PyBytes_CheckExact(value) || Py_IS_TYPE(value, engine.uuid))
            return Py_SIZE(value) == Py_SIZE(field->given) &&
                   memcmp(PyBytes_AS_STRING(value), PyBytes_AS_STRING(field->given),
                          (size_t)Py_SIZE(value)) == 0;
        break;
    case D_EMPTY:
        if (PyList_CheckExact(value) || PyTuple_CheckExact(value))
            return Py_SIZE(value) == 0;
        break;
    default: /* A struct: of a tagged field its own class only, and put_struct sees to that. */
        if (field->child != NULL && !Py_IS_TYPE(value, field->child->type))
            return 0;
        if (Py_IS_TYPE(value, field->defaults->type)) {
            int same = all_default(field->defaults, value);
            if (same != 2)
                return same;
        }
    }
    return ask_is_default(value, field->given);
}

/* ------------------------------------------------------------------------- the tagged section */

static int put_tag(writer *w, const plan_field *field, PyObject *value) {
    size_mark mark;
    if (put_uvarint(w, field->tag) < 0 || mark_size(w, &mark) < 0)
        return -1;
    if (put_value(w, field, value) < 0)
        return -1;
    int64_t size = size_since(w, &mark);
    return size < 0 ? -1 : fill_mark(w, &mark, (uint32_t)size);
}

/* Read entry `at` of the unknown tags, which must be a free number above `*last`. */
static int unknown_tag(const plan_struct *plan, PyObject *unknown, Py_ssize_t at, int64_t *last) {
    PyObject *entry = PyTuple_GET_ITEM(unknown, at);
    int64_t tag;
    if (!PyTuple_CheckExact(entry) || PyTuple_GET_SIZE(entry) != 2 ||
        !PyLong_CheckExact(PyTuple_GET_ITEM(entry, 0)) ||
        !PyBytes_Check(PyTuple_GET_ITEM(entry, 1)))
        return -1;
    if (as_int(PyTuple_GET_ITEM(entry, 0), &tag) < 0 || tag <= *last || tag > TAG_MAX)
        return -1;
    for (Py_ssize_t other = 0; other < plan->reserved_count; other++)
        if (plan->reserved[other] == tag)
            return -1;
    *last = tag;
    return 0;
}

/* Write the unknown tags below `limit` from `*at` on; return how many, -1 for giving up. */
static Py_ssize_t put_unknown(writer *w, const plan_struct *plan, PyObject *unknown,
                              Py_ssize_t *at, int64_t *last, int64_t limit) {
    Py_ssize_t count = 0;
    for (; *at < PyTuple_GET_SIZE(unknown); (*at)++) {
        int64_t tag = *last;
        if (unknown_tag(plan, unknown, *at, &tag) < 0)
            return -1;
        if (tag > limit)
            break;
        *last = tag;
        PyObject *payload = PyTuple_GET_ITEM(PyTuple_GET_ITEM(unknown, *at), 1);
        Py_ssize_t size = PyBytes_GET_SIZE(payload);
        if (size >= LENGTH_MAX || put_uvarint(w, (uint32_t)tag) < 0 ||
            put_uvarint(w, (uint32_t)size) < 0 ||
            put_raw(w, PyBytes_AS_STRING(payload), (size_t)size) < 0)
            return -1;
        count++;
    }
    return count;
}

static int put_tags(writer *w, const plan_struct *plan, PyObject *value, PyObject *unknown) {
    size_mark mark;
    int64_t last = -1;
    Py_ssize_t count = 0, more, next = 0;
    if (mark_size(w, &mark) < 0)
        return -1;
    for (Py_ssize_t at = 0; at < plan->tagged_count; at++) {
        const plan_field *field = &plan->tagged[at];
        PyObject *held = SLOT(value, field->slot);
        if (held == NULL)
            return -1;
        Py_INCREF(held);
        int left_out = is_unset(field, held);
        if (left_out == 0) {
            more = unknown == NULL ? 0 : put_unknown(w, plan, unknown, &next, &last, field->tag);
            left_out = more < 0 ? -1 : put_tag(w, field, held);
            count += more + 1;
        }
        Py_DECREF(held);
        if (left_out < 0)
            return -1;
    }
    if (unknown != NULL) {
        more = put_unknown(w, plan, unknown, &next, &last, TAG_MAX);
        if (more < 0)
            return -1;
        count += more;
    }
    return count < LENGTH_MAX ? fill_mark(w, &mark, (uint32_t)count) : -1;
}

/* ---------------------------------------------------------------------------------- the struct */

/* The unknown tags of a struct, or NULL for none (whatever is false); -1 for what is no tuple. */
static inline int unknown_tags(const plan_struct *plan, PyObject *value, PyObject **unknown) {
    PyObject *held = plan->unknown_slot < 0 ? NULL : SLOT(value, plan->unknown_slot);
    *unknown = NULL;
    if (held == NULL)
        return 0;
    if (UNLIKELY(!PyTuple_CheckExact(held))) {
        Py_INCREF(held);
        int given = PyObject_IsTrue(held);
        Py_DECREF(held);
        return given == 0 ? 0 : -1;
    }
    if (PyTuple_GET_SIZE(held) == 0)
        return 0;
    *unknown = held;
    return plan->flexible ? 0 : -1;
}

/* `value` is held by the caller. */
static int put_struct(writer *w, const plan_struct *plan, PyObject *value) {
    PyObject *unknown;
    if (UNLIKELY(!Py_IS_TYPE(value, plan->type)))
        return -1;
    for (Py_ssize_t at = 0; at < plan->absent_count; at++) {
        PyObject *held = SLOT(value, plan->absent[at].slot);
        if (UNLIKELY(held == NULL || is_unset(&plan->absent[at], held) != 1))
            return -1;
    }
    const plan_field *end = plan->fields + plan->field_count;
    for (const plan_field *field = plan->fields; field < end; field++) {
        PyObject *held = SLOT(value, field->slot);
        if (UNLIKELY(held == NULL || put_value(w, field, held) < 0))
            return -1;
    }
    if (UNLIKELY(unknown_tags(plan, value, &unknown) < 0))
        return -1;
    if (!plan->flexible)
        return 0;
    if (plan->tagged_count == 0 && unknown == NULL) {
        if (!room(w, 1))
            return -1;
        *w->at++ = 0;
        return 0;
    }
    Py_XINCREF(unknown);
    int done = put_tags(w, plan, value, unknown);
    Py_XDECREF(unknown);
    return done;
}

/* After giving up: 0 when the pure codec shall decide, -1 for what is no refusal (Ctrl-C). */
static int gave_up(void) {
    if (!PyErr_Occurred())
        return 0;
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    PyErr_Clear();
    return 0;
}

/* Encode into `w`, which must be closed in any case: 1 done, 0 gave up, -1 an exception. */
static int engine_encode(writer *w, const plan_struct *plan, PyObject *value) {
    if (writer_open(w) < 0)
        return gave_up();
    return put_struct(w, plan, value) == 0 ? 1 : gave_up();
}

static PyObject *writer_bytes(const writer *w) {
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)writer_size(w));
    if (bytes != NULL)
        writer_copy(w, (uint8_t *)PyBytes_AS_STRING(bytes));
    return bytes;
}

#endif
