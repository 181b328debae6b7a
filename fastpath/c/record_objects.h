/* Records of one batch as Python objects, written straight into the slots of their structs. */
#ifndef KRAFTSPEC_RECORD_OBJECTS_H
#define KRAFTSPEC_RECORD_OBJECTS_H

#include <Python.h>
#include <structmember.h>

#include "record_read.h"

/* Where a msgspec.Struct of `fields` keeps them. */
enum { FIELDS_MAX = 6, KEYS_CACHED = 8 };

typedef struct {
    PyTypeObject *type;
    Py_ssize_t slots[FIELDS_MAX];
} struct_layout;

enum { RECORD_OFFSET, RECORD_TIMESTAMP, RECORD_KEY, RECORD_VALUE, RECORD_HEADERS };
enum { RAW_ATTRIBUTES, RAW_TIMESTAMP, RAW_OFFSET, RAW_KEY, RAW_VALUE, RAW_HEADERS };
enum { HEADER_KEY, HEADER_VALUE };

typedef struct {
    struct_layout record, raw, header;
} record_layouts;

/* The keys of headers repeat from record to record: the same str serves while they do. */
typedef struct {
    const uint8_t *bytes[KEYS_CACHED];
    int32_t sizes[KEYS_CACHED];
    PyObject *texts[KEYS_CACHED];
} key_cache;

/* Find the slots of `type`; -1 with an exception set when it is not laid out as expected. */
static int struct_layout_find(struct_layout *layout, PyObject *type, const char *const *fields) {
    layout->type = (PyTypeObject *)type;
    Py_ssize_t size = sizeof(PyObject);
    for (int field = 0; fields[field]; field++, size += sizeof(PyObject *)) {
        PyObject *member = PyObject_GetAttrString(type, fields[field]);
        if (!member)
            return -1;
        int is_slot = Py_IS_TYPE(member, &PyMemberDescr_Type)
            && ((PyMemberDescrObject *)member)->d_member->type == T_OBJECT_EX;
        if (is_slot)
            layout->slots[field] = ((PyMemberDescrObject *)member)->d_member->offset;
        Py_DECREF(member);
        if (!is_slot) {
            PyErr_Format(PyExc_TypeError, "%R.%s is not a slot", type, fields[field]);
            return -1;
        }
    }
    if (PyType_IS_GC(layout->type) || layout->type->tp_basicsize != size) {
        PyErr_Format(PyExc_TypeError, "%R has more in it than its fields", type);
        return -1;
    }
    return 0;
}

/* A struct whose slots are still to be set, every one of them: it is not zeroed. */
static inline PyObject *struct_new(const struct_layout *layout) {
    PyObject *self = PyObject_Malloc((size_t)layout->type->tp_basicsize);
    return self ? PyObject_Init(self, layout->type) : PyErr_NoMemory();
}

/* Give `value` (a new reference, or NULL after an error) to a slot; 0 when there is none. */
static inline int slot_set(
        PyObject *owner, const struct_layout *layout, int field, PyObject *value) {
    *(PyObject **)((char *)owner + layout->slots[field]) = value;
    return value != NULL;
}

static inline PyObject *bytes_or_none(const uint8_t *bytes, int32_t size) {
    if (size < 0)
        return Py_NewRef(Py_None);
    return PyBytes_FromStringAndSize((const char *)bytes, size);
}

static PyObject *header_key(key_cache *cache, int32_t index, const header_view *header) {
    int is_cached = index < KEYS_CACHED;
    if (is_cached && cache->texts[index] && cache->sizes[index] == header->key_size
            && !memcmp(cache->bytes[index], header->key, (size_t)header->key_size))
        return Py_NewRef(cache->texts[index]);
    PyObject *text = PyUnicode_DecodeUTF8((const char *)header->key, header->key_size, NULL);
    if (!text && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        PyErr_Clear();
    if (text && is_cached) {
        cache->bytes[index] = header->key;
        cache->sizes[index] = header->key_size;
        Py_XSETREF(cache->texts[index], Py_NewRef(text));
    }
    return text;
}

static PyObject *header_objects(
        const record_layouts *layouts, const record_view *record, key_cache *cache) {
    PyObject *headers = PyTuple_New(record->header_count);
    if (!headers || !record->header_count)
        return headers;
    const uint8_t *at = record->headers;
    for (int32_t index = 0; index < record->header_count; index++) {
        header_view view;
        PyObject *header;
        if (!(at = header_read(at, record->end, &view)) || !(header = struct_new(&layouts->header)))
            goto refused;
        PyTuple_SET_ITEM(headers, index, header);
        PyObject *value = bytes_or_none(view.value, view.value_size);
        int whole = slot_set(header, &layouts->header, HEADER_VALUE, value);
        PyObject *key = value ? header_key(cache, index, &view) : NULL;
        if (!slot_set(header, &layouts->header, HEADER_KEY, key) || !whole)
            goto refused;
    }
    if (at == record->end) {
        PyObject_GC_UnTrack(headers);  /* What it holds is not tracked either. */
        return headers;
    }
refused:
    Py_DECREF(headers);
    return NULL;
}

/* Milliseconds of today and great offsets have two digits of 30 bits, which need no counting. */
static inline PyObject *number_new(int64_t value) {
#if PYLONG_BITS_IN_DIGIT == 30
    if (value >> 30 > 0 && value >> 30 < 1 << 30) {
        PyLongObject *number = _PyLong_New(2);
        if (!number)
            return NULL;
#if PY_VERSION_HEX < 0x030C0000
        digit *digits = number->ob_digit;
#else
        digit *digits = number->long_value.ob_digit;
#endif
        digits[0] = (digit)(value & PyLong_MASK);
        digits[1] = (digit)(value >> 30);
        return (PyObject *)number;
    }
#endif
    return PyLong_FromLongLong(value);
}

/* A number that is often that of the record before: timestamps, and their deltas. */
static inline PyObject *repeated_number(PyObject **last, int64_t *last_value, int64_t value) {
    if (!*last || *last_value != value) {
        Py_XSETREF(*last, number_new(value));
        *last_value = value;
    }
    return Py_XNewRef(*last);
}

static PyObject *record_object(
        const record_layouts *layouts, const batch_view *batch, const record_view *record,
        PyObject *timestamp, PyObject *headers) {
    const struct_layout *layout = &layouts->record;
    PyObject *self = struct_new(layout);
    if (!self) {
        Py_XDECREF(timestamp);
        Py_XDECREF(headers);
        return NULL;
    }
    int64_t offset = wrapping_add(batch->base_offset, record->offset_delta);
    int whole = slot_set(self, layout, RECORD_TIMESTAMP, timestamp);
    whole &= slot_set(self, layout, RECORD_HEADERS, headers);
    whole &= slot_set(self, layout, RECORD_OFFSET, PyLong_FromLongLong(offset));
    whole &= slot_set(self, layout, RECORD_KEY, bytes_or_none(record->key, record->key_size));
    whole &= slot_set(self, layout, RECORD_VALUE, bytes_or_none(record->value, record->value_size));
    if (!whole)
        Py_CLEAR(self);
    return self;
}

static PyObject *raw_object(
        const record_layouts *layouts, const record_view *record,
        PyObject *timestamp, PyObject *headers) {
    const struct_layout *layout = &layouts->raw;
    PyObject *self = struct_new(layout);
    if (!self) {
        Py_XDECREF(timestamp);
        Py_XDECREF(headers);
        return NULL;
    }
    int whole = slot_set(self, layout, RAW_TIMESTAMP, timestamp);
    whole &= slot_set(self, layout, RAW_HEADERS, headers);
    whole &= slot_set(self, layout, RAW_ATTRIBUTES, PyLong_FromLong(record->attributes));
    whole &= slot_set(self, layout, RAW_OFFSET, PyLong_FromLong(record->offset_delta));
    whole &= slot_set(self, layout, RAW_KEY, bytes_or_none(record->key, record->key_size));
    whole &= slot_set(self, layout, RAW_VALUE, bytes_or_none(record->value, record->value_size));
    if (!whole)
        Py_CLEAR(self);
    return self;
}

/* The list of records between `at` and `end`: RawRecord when `raw`, else Record.
 * NULL without an exception when the batch is refused, with one when memory ran out. */
static PyObject *record_objects(
        const record_layouts *layouts, const batch_view *batch,
        const uint8_t *at, const uint8_t *end, int raw) {
    int64_t count = batch->record_count;
    if (count < 0 || count > (end - at) / RECORD_BYTES_MIN)
        return NULL;
    PyObject *list = PyList_New(count);
    PyObject *last = NULL;
    key_cache cache;
    memset(&cache, 0, sizeof cache);
    int64_t last_value = 0;
    int32_t delta = -1;
    for (int64_t index = 0; list && index < count; index++) {
        record_view view;
        PyObject *item = NULL;
        at = record_read(at, end, &view);
        if (at && view.offset_delta > delta && view.offset_delta <= batch->last_offset_delta) {
            delta = view.offset_delta;
            PyObject *headers = header_objects(layouts, &view, &cache);
            if (headers) {
                int64_t stamp = raw ? view.timestamp_delta
                    : record_timestamp(batch, view.timestamp_delta);
                PyObject *timestamp = repeated_number(&last, &last_value, stamp);
                item = raw ? raw_object(layouts, &view, timestamp, headers)
                    : record_object(layouts, batch, &view, timestamp, headers);
            }
        }
        if (item)
            PyList_SET_ITEM(list, index, item);
        else
            Py_CLEAR(list);
    }
    if (list && at != end)
        Py_CLEAR(list);
    Py_XDECREF(last);
    for (int index = 0; index < KEYS_CACHED; index++)
        Py_XDECREF(cache.texts[index]);
    return list;
}

#endif
