/* Pointing at what Python objects hold, without running Python code and without references: the
 * caller owns the objects, and runs no Python code while the pointers are in use. Only exact types
 * are understood; at anything else a function gives 0 and the caller makes it plain first.
 */
#ifndef KRAFTSPEC_RECORD_GATHER_H
#define KRAFTSPEC_RECORD_GATHER_H

#include <Python.h>

#include "record_write.h"

/* Header blocks (header count, headers), encoded one after another; moves as it grows. */
typedef struct {
    uint8_t *bytes;
    size_t used;
    size_t capacity;
} scratch_t;

/* Take a new bytes object that is longer than it need be, and make it `size` long. Moving it costs
 * more than the memory is worth where there is little of it, and what the allocator gives back of
 * a large block would be allocated from the system again for the next. */
static inline PyObject *bytes_shortened(PyObject *bytes, Py_ssize_t size) {
    if (PyBytes_GET_SIZE(bytes) - size > PyBytes_GET_SIZE(bytes) / 8) {
        (void)_PyBytes_Resize(&bytes, size); /* NULL where it failed. */
        return bytes;
    }
    PyBytes_AS_STRING(bytes)[size] = 0;
    Py_SET_SIZE(bytes, size);
    return bytes;
}

/* The items of a list or tuple; NULL at other types. */
static inline PyObject **plain_items(PyObject *column, Py_ssize_t *count) {
    if (PyList_CheckExact(column)) {
        *count = PyList_GET_SIZE(column);
        return ((PyListObject *)column)->ob_item;
    }
    if (PyTuple_CheckExact(column)) {
        *count = PyTuple_GET_SIZE(column);
        return ((PyTupleObject *)column)->ob_item;
    }
    return NULL;
}

static inline int plain_field(PyObject *value, field_t *out) {
    if (PyBytes_CheckExact(value)) {
        out->bytes = (const uint8_t *)PyBytes_AS_STRING(value);
        out->size = PyBytes_GET_SIZE(value);
        return 1;
    }
    *out = FIELD_NULL;
    return value == Py_None;
}

/* Half a surrogate has no UTF-8: the caller reports that too. */
static inline int plain_text(PyObject *text, field_t *out) {
    Py_ssize_t size;
    if (!PyUnicode_CheckExact(text))
        return 0;
    if (PyUnicode_IS_COMPACT_ASCII(text)) {
        out->bytes = (const uint8_t *)PyUnicode_DATA(text);
        out->size = PyUnicode_GET_LENGTH(text);
        return 1;
    }
    out->bytes = (const uint8_t *)PyUnicode_AsUTF8AndSize(text, &size);
    if (out->bytes == NULL) {
        PyErr_Clear();
        return 0;
    }
    out->size = size;
    return 1;
}

static inline int gather_fields(PyObject **items, Py_ssize_t count, field_t *out) {
    for (Py_ssize_t at = 0; at < count; at++) {
        if (at + 12 < count)
            __builtin_prefetch(items[at + 12]);
        if (!plain_field(items[at], &out[at]))
            return 0;
    }
    return 1;
}

static uint8_t *scratch_grow(scratch_t *scratch, size_t size) {
    size_t capacity = (scratch->used + size) * 3 / 2 + 256;
    uint8_t *grown = PyMem_Realloc(scratch->bytes, capacity);
    if (grown == NULL)
        return NULL;
    scratch->bytes = grown;
    scratch->capacity = capacity;
    return grown + scratch->used;
}

/* Room for `size` more bytes; NULL: no memory, which the caller meets again and reports. */
HOT uint8_t *scratch_room(scratch_t *scratch, size_t size) {
    if (scratch->capacity - scratch->used < size)
        return scratch_grow(scratch, size);
    return scratch->bytes + scratch->used;
}

/* An int (IntEnum and bool too) from -1 on. Milliseconds of today have two digits of 30 bits. */
HOT int plain_timestamp(PyObject *number, int64_t *out) {
    if (!PyLong_Check(number))
        return 0;
#if PYLONG_BITS_IN_DIGIT == 30
#if PY_VERSION_HEX < 0x030C0000
    const digit *digits = ((PyLongObject *)number)->ob_digit;
    int has_two = Py_SIZE(number) == 2;
#else
    const digit *digits = ((PyLongObject *)number)->long_value.ob_digit;
    int has_two = ((PyLongObject *)number)->long_value.lv_tag == 2 << _PyLong_NON_SIZE_BITS;
#endif
    if (has_two) {
        *out = (int64_t)digits[1] << 30 | digits[0];
        return 1;
    }
#endif
    int overflow;
    *out = PyLong_AsLongLongAndOverflow(number, &overflow); /* Of an int, it raises nothing. */
    return overflow == 0 && *out >= -1;
}

static int gather_timestamps(PyObject **items, Py_ssize_t count, int64_t *out) {
    for (Py_ssize_t at = 0; at < count; at++) {
        if (!plain_timestamp(items[at], &out[at]))
            return 0;
    }
    return 1;
}

HOT int plain_header(PyObject *pair, field_t *key, field_t *value) {
    return PyTuple_CheckExact(pair) && PyTuple_GET_SIZE(pair) == 2
        && plain_text(PyTuple_GET_ITEM(pair, 0), key)
        && plain_field(PyTuple_GET_ITEM(pair, 1), value);
}

/* Add the block of one record; the size of it, 0: not plain. */
HOT int64_t gather_block(PyObject *headers, scratch_t *scratch) {
    const size_t start = scratch->used;
    Py_ssize_t count = 0;
    PyObject **items = plain_items(headers, &count);
    if (items == NULL && headers != Py_None && !PyList_CheckExact(headers))
        return 0;
    uint8_t *out = scratch_room(scratch, VARINT_BYTES_MAX);
    if (out == NULL)
        return 0;
    out = varint_write(out, count);
    scratch->used = (size_t)(out - scratch->bytes);
    for (Py_ssize_t at = 0; at < count; at++) {
        field_t key, value;
        if (!plain_header(items[at], &key, &value)
            || (out = scratch_room(
                    scratch, (size_t)key.size + (size_t)(value.size + 1) + 2 * VARINT_BYTES_MAX))
                == NULL) {
            scratch->used = start;
            return 0;
        }
        out = field_write(field_write(out, &key), &value);
        scratch->used = (size_t)(out - scratch->bytes);
    }
    return (int64_t)(scratch->used - start);
}

/* A header is four objects deep, each a wait for memory: ask for those of the next records, one
 * level deeper for each record nearer. */
HOT void prefetch_header(PyObject **items, Py_ssize_t left) {
    if (left > 12)
        __builtin_prefetch(items[12]);
    if (left > 8 && PyList_CheckExact(items[8]))
        __builtin_prefetch(((PyListObject *)items[8])->ob_item);
    if (left > 4) {
        Py_ssize_t count = 0;
        PyObject **headers = plain_items(items[4], &count);
        if (count > 0)
            __builtin_prefetch(headers[0]);
    }
}

/* How a block with one header of this key begins. Records mostly have the same header keys. */
typedef struct {
    PyObject *key;
    uint8_t bytes[16];
    size_t size;
} beginning_t;

#define BEGINNING_KEY_BYTES_MAX 14 /* Two more are the count and the key's length. */

/* The same as gather_block() for one header whose key is the one before; 0: it is not. */
HOT int64_t gather_like(PyObject *headers, scratch_t *scratch, const beginning_t *like) {
    Py_ssize_t count = 0;
    PyObject **items = plain_items(headers, &count);
    field_t value;
    if (count != 1 || !PyTuple_CheckExact(items[0]) || PyTuple_GET_SIZE(items[0]) != 2
        || PyTuple_GET_ITEM(items[0], 0) != like->key
        || !plain_field(PyTuple_GET_ITEM(items[0], 1), &value))
        return 0;
    uint8_t *out = scratch_room(
        scratch, sizeof like->bytes + VARINT_BYTES_MAX + (size_t)(value.size + 1));
    if (out == NULL)
        return 0;
    memcpy(out, like->bytes, sizeof like->bytes);
    uint8_t *end = field_write(out + like->size, &value);
    scratch->used += (size_t)(end - out);
    return end - out;
}

/* Keep the beginning of the block that was added last. */
static inline void keep_beginning(PyObject *headers, const uint8_t *block, beginning_t *like) {
    Py_ssize_t count = 0;
    PyObject **items = plain_items(headers, &count);
    field_t key;
    if (count == 1 && plain_text(PyTuple_GET_ITEM(items[0], 0), &key)
        && key.size <= BEGINNING_KEY_BYTES_MAX) {
        like->key = PyTuple_GET_ITEM(items[0], 0);
        like->size = 2 + (size_t)key.size;
        memcpy(like->bytes, block, like->size);
    }
}

/* Point `out` at the block of each record; records with the same object share one. */
static int gather_blocks(PyObject **items, Py_ssize_t count, field_t *out, scratch_t *scratch) {
    scratch_t grown = *scratch; /* In variables, for the loop. */
    beginning_t like = {NULL, {0}, 0};
    PyObject *last = NULL;
    size_t start = 0;
    int64_t size = 0;
    for (Py_ssize_t at = 0; at < count; at++) {
        prefetch_header(items + at, count - at);
        if (items[at] != last) {
            last = items[at];
            start = grown.used;
            size = gather_like(last, &grown, &like);
            if (size == 0) {
                size = gather_block(last, &grown);
                if (size == 0)
                    break;
                keep_beginning(last, grown.bytes + start, &like);
            }
        }
        /* An offset for now: the scratch moves. */
        out[at].bytes = (const uint8_t *)start;
        out[at].size = size;
    }
    *scratch = grown;
    if (count > 0 && size == 0)
        return 0;
    for (Py_ssize_t at = 0; at < count; at++)
        out[at].bytes = grown.bytes + (size_t)out[at].bytes;
    return 1;
}

#endif
