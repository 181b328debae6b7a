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

/* Half a surrogate has no UTF-8: that too is for the caller to tell. */
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
        if (!plain_field(items[at], &out[at]))
            return 0;
    }
    return 1;
}

/* Room for `size` more bytes; NULL: there is no memory, which the caller meets again and tells. */
static inline uint8_t *scratch_room(scratch_t *scratch, size_t size) {
    if (scratch->capacity - scratch->used < size) {
        size_t capacity = (scratch->used + size) * 3 / 2 + 256;
        uint8_t *grown = PyMem_Realloc(scratch->bytes, capacity);
        if (grown == NULL)
            return NULL;
        scratch->bytes = grown;
        scratch->capacity = capacity;
    }
    return scratch->bytes + scratch->used;
}

/* Add the block of one record; the size of it, 0: not plain. */
static inline int64_t gather_block(PyObject *headers, scratch_t *scratch) {
    size_t start = scratch->used;
    Py_ssize_t count = 0;
    PyObject **items = plain_items(headers, &count);
    if (items == NULL && headers != Py_None && !PyList_CheckExact(headers))
        return 0;
    uint8_t *out = scratch_room(scratch, 10);
    if (out == NULL)
        return 0;
    scratch->used = (size_t)(varint_write(out, count) - scratch->bytes);
    for (Py_ssize_t at = 0; at < count; at++) {
        field_t key, value;
        PyObject *pair = items[at];
        if (!PyTuple_CheckExact(pair) || PyTuple_GET_SIZE(pair) != 2
            || !plain_text(PyTuple_GET_ITEM(pair, 0), &key)
            || !plain_field(PyTuple_GET_ITEM(pair, 1), &value)
            || (out = scratch_room(scratch, field_size(&key) + field_size(&value))) == NULL) {
            scratch->used = start;
            return 0;
        }
        out = field_write(field_write(out, &key), &value);
        scratch->used = (size_t)(out - scratch->bytes);
    }
    return (int64_t)(scratch->used - start);
}

/* Point `out` at the block of each record; records with the same object share one. */
static inline int gather_blocks(PyObject **items, Py_ssize_t count, field_t *out,
                                scratch_t *scratch) {
    for (Py_ssize_t at = 0; at < count; at++) {
        if (at > 0 && items[at] == items[at - 1]) {
            out[at] = out[at - 1];
            continue;
        }
        /* An offset for now: the scratch moves. */
        out[at].bytes = (const uint8_t *)scratch->used;
        out[at].size = gather_block(items[at], scratch);
        if (out[at].size == 0)
            return 0;
    }
    for (Py_ssize_t at = 0; at < count; at++)
        out[at].bytes = scratch->bytes + (size_t)out[at].bytes;
    return 1;
}

#endif
