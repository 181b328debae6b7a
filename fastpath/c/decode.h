/* Runs a compiled plan over bytes: bytes to value. The wire layout is drawn in encode.h.
 *
 * Optimistic: whatever is not right makes it give up (NULL), and the interpreter then names the
 * class, path and offset. Every count is compared with the bytes that are left, at so many as one
 * element takes at least, before a pointer for each is made. Structs nest only as the plan does.
 *
 * The collector may run while memoryviews and tuples are made, and with it any finalizer. It must
 * not find what is half made: structs are never tracked, a list is made when its items are there,
 * and a tuple of ints, strings, bytes and uuids, which can be in no cycle, stays untracked.
 */
#ifndef KRAFTSPEC_DECODE_H
#define KRAFTSPEC_DECODE_H

#include "c/encode.h"

typedef struct {
    const uint8_t *at, *end;
    PyObject *owner; /* the owner of that memory */
    PyObject *view;  /* a memoryview of it, when there has been one */
    int copy;        /* records become bytes, and not views */
} reader;

static PyObject *get_struct(reader *r, const plan_struct *plan);

static inline Py_ssize_t left(const reader *r) { return r->end - r->at; }

static inline uint32_t load16(const uint8_t *at) { return (uint32_t)at[0] << 8 | at[1]; }

static inline uint32_t load32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline uint64_t load64(const uint8_t *at) {
    return (uint64_t)load32(at) << 32 | load32(at + 4);
}

static int get_long_uvarint(reader *r, uint32_t *value) {
    uint64_t sum = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        if (r->at >= r->end)
            return -1;
        uint8_t byte = *r->at++;
        sum |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = (uint32_t)sum;
            return (byte == 0 && shift > 0) || sum > LENGTH_MAX ? -1 : 0;
        }
    }
    return -1;
}

static inline int get_uvarint(reader *r, uint32_t *value) {
    if (r->at < r->end && *r->at < 0x80) {
        *value = *r->at++;
        return 0;
    }
    return get_long_uvarint(r, value);
}

/* The prefix of a string, bytes or array: -1 is null, and at most what is left of the input. */
static inline int get_length(reader *r, const plan_field *field, Py_ssize_t *length) {
    if (field->compact) {
        uint32_t value;
        if (UNLIKELY(get_uvarint(r, &value) < 0))
            return -1;
        *length = (Py_ssize_t)value - 1;
    } else if (field->wire == W_STRING) {
        if (UNLIKELY(left(r) < 2))
            return -1;
        *length = (int16_t)load16(r->at);
        r->at += 2;
    } else {
        if (UNLIKELY(left(r) < 4))
            return -1;
        *length = (int32_t)load32(r->at);
        r->at += 4;
    }
    return *length > left(r) || *length < (field->nullable ? -1 : 0) ? -1 : 0;
}

static inline PyObject *new_none(void) {
    Py_INCREF(Py_None);
    return Py_None;
}

static int is_ascii(const uint8_t *bytes, Py_ssize_t size) {
    uint64_t word, high = 0;
    for (; size >= 8; size -= 8, bytes += 8) {
        memcpy(&word, bytes, 8);
        high |= word;
    }
    while (size-- > 0)
        high |= *bytes++;
    return (high & 0x8080808080808080u) == 0;
}

#define KEPT_BYTES_MAX 64 /* names and ids; what is longer costs more to compare */

static inline PyObject *get_text(kept_text *kept, const uint8_t *bytes, Py_ssize_t size) {
    PyObject *text = kept->text;
    if (text != NULL && PyUnicode_GET_LENGTH(text) == size &&
        memcmp(PyUnicode_1BYTE_DATA(text), bytes, (size_t)size) == 0) {
        Py_INCREF(text);
        return text;
    }
    text = PyUnicode_New(size, 127);
    if (text == NULL)
        return NULL;
    /* Read the copy: memory that others write to may change between two reads. */
    memcpy(PyUnicode_1BYTE_DATA(text), bytes, (size_t)size);
    if (!is_ascii(PyUnicode_1BYTE_DATA(text), size)) {
        Py_DECREF(text);
        return PyUnicode_DecodeUTF8((const char *)bytes, size, NULL);
    }
    if (size <= KEPT_BYTES_MAX) {
        Py_INCREF(text);
        Py_XSETREF(kept->text, text);
    }
    return text;
}

static PyObject *get_string(reader *r, const plan_field *field) {
    Py_ssize_t size;
    if (UNLIKELY(get_length(r, field, &size) < 0 || size > STRING_BYTES_MAX))
        return NULL;
    if (size < 0)
        return new_none();
    const uint8_t *bytes = r->at;
    r->at += size;
    if (size > 1)
        return get_text(field->kept, bytes, size);
    return PyUnicode_DecodeUTF8((const char *)bytes, size, NULL); /* Python keeps these too. */
}

/* A memoryview of the input. Of two views of one object the second is made from the first, which
 * is what slicing does, without the slice object and a view of the whole. */
static PyObject *get_view(reader *r, Py_ssize_t size) {
    PyObject *made = PyMemoryView_FromObject(r->view != NULL ? r->view : r->owner);
    if (made == NULL)
        return NULL;
    Py_buffer *view = PyMemoryView_GET_BUFFER(made);
    view->buf = (void *)r->at;
    view->len = size;
    view->shape[0] = size;
    r->at += size;
    if (r->view == NULL) {
        Py_INCREF(made);
        r->view = made;
    }
    return made;
}

static PyObject *get_bytes(reader *r, const plan_field *field) {
    Py_ssize_t size;
    if (UNLIKELY(get_length(r, field, &size) < 0))
        return NULL;
    if (size < 0)
        return new_none();
    if (field->wire == W_RECORDS && !r->copy)
        return get_view(r, size);
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)r->at, size);
    r->at += size;
    return bytes;
}

static PyObject *get_uuid(reader *r) {
    static const uint8_t zero[16];
    if (UNLIKELY(left(r) < 16))
        return NULL;
    const uint8_t *bytes = r->at;
    r->at += 16;
    if (memcmp(bytes, zero, 16) == 0) {
        Py_INCREF(engine.zero_uuid);
        return engine.zero_uuid;
    }
    PyObject *made = PyType_GenericAlloc(engine.uuid, 16);
    if (made == NULL)
        return NULL;
    memcpy(PyBytes_AS_STRING(made), bytes, 16);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    ((PyBytesObject *)made)->ob_shash = -1; /* No hash yet, as bytes.__new__ leaves it. */
#pragma GCC diagnostic pop
    return made;
}

static PyObject *get_bool(reader *r) {
    if (UNLIKELY(left(r) < 1 || *r->at > 1))
        return NULL;
    PyObject *value = *r->at++ ? Py_True : Py_False;
    Py_INCREF(value);
    return value;
}

static PyObject *get_float(reader *r) {
    double number;
    if (UNLIKELY(left(r) < 8))
        return NULL;
    uint64_t bits = load64(r->at);
    memcpy(&number, &bits, sizeof number);
    r->at += 8;
    return PyFloat_FromDouble(number);
}

/* The ints that Python keeps one of. */
#define SMALL_INT_MIN (-5)
#define SMALL_INT_MAX 256
static PyObject *small_ints[SMALL_INT_MAX - SMALL_INT_MIN + 1];

static int make_small_ints(void) {
    for (long number = SMALL_INT_MIN; number <= SMALL_INT_MAX; number++)
        if ((small_ints[number - SMALL_INT_MIN] = PyLong_FromLong(number)) == NULL)
            return -1;
    return 0;
}

static inline PyObject *new_int(int64_t number) {
    if (number < SMALL_INT_MIN || number > SMALL_INT_MAX)
        return PyLong_FromLongLong(number);
    PyObject *small = small_ints[number - SMALL_INT_MIN];
    Py_INCREF(small);
    return small;
}

/* Step over a value of that many bytes; NULL when they are not there. */
static inline const uint8_t *take(reader *r, Py_ssize_t size) {
    const uint8_t *at = r->at;
    if (UNLIKELY(left(r) < size))
        return NULL;
    r->at += size;
    return at;
}

static PyObject *get_value(reader *r, const plan_field *field);

/* A list of the items, which it takes over: what PyList_New does, once there is something in it. */
static PyObject *list_of(PyObject **items, Py_ssize_t count) {
#ifdef Py_GIL_DISABLED
    PyObject *list = PyList_New(count); /* Its items stand in a block of another kind. */
    if (list == NULL)
        return NULL;
    for (Py_ssize_t at = 0; at < count; at++)
        PyList_SET_ITEM(list, at, items[at]);
    PyMem_Free(items);
#else
    PyObject *list = PyList_New(0);
    if (list == NULL)
        return NULL;
    ((PyListObject *)list)->ob_item = items;
    ((PyListObject *)list)->allocated = count;
    Py_SET_SIZE(list, count);
#endif
    return list;
}

static PyObject *get_list(reader *r, const plan_struct *child, Py_ssize_t count) {
    if (count == 0)
        return PyList_New(0);
    if (child->bytes_min > 0 && count > left(r) / child->bytes_min)
        return NULL;
    PyObject **items = PyMem_Malloc((size_t)count * sizeof *items), *list = NULL;
    if (items == NULL)
        return PyErr_NoMemory();
    Py_ssize_t made = 0;
    while (made < count && (items[made] = get_struct(r, child)) != NULL)
        made++;
    if (made < count || (list = list_of(items, count)) == NULL) {
        while (made > 0)
            Py_DECREF(items[--made]);
        PyMem_Free(items);
    }
    return list;
}

static PyObject *get_tuple(reader *r, const plan_field *item, Py_ssize_t count) {
    if (item->wire <= W_UUID && count > left(r) / FIXED_BYTES[item->wire])
        return NULL;
    PyObject *tuple = PyTuple_New(count);
    if (tuple == NULL || count == 0)
        return tuple;
    PyObject_GC_UnTrack(tuple);
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *value = get_value(r, item);
        if (UNLIKELY(value == NULL)) {
            Py_DECREF(tuple);
            return NULL;
        }
        PyTuple_SET_ITEM(tuple, at, value);
    }
    return tuple;
}

static PyObject *get_array(reader *r, const plan_field *field) {
    Py_ssize_t count;
    if (UNLIKELY(get_length(r, field, &count) < 0))
        return NULL;
    if (count < 0)
        return new_none();
    return field->child != NULL ? get_list(r, field->child, count)
                                : get_tuple(r, field->item, count);
}

static PyObject *get_child(reader *r, const plan_field *field) {
    if (field->nullable) {
        if (UNLIKELY(left(r) < 1))
            return NULL;
        uint8_t marker = *r->at++;
        if (marker == (field->in_tag ? 0 : 0xFF))
            return new_none();
        if (marker != 1)
            return NULL;
    }
    return get_struct(r, field->child);
}

static inline PyObject *get_value(reader *r, const plan_field *field) {
    const uint8_t *at;
    switch (field->wire) {
    case W_BOOL:
        return get_bool(r);
    case W_INT8:
        return (at = take(r, 1)) == NULL ? NULL : new_int((int8_t)at[0]);
    case W_INT16:
        return (at = take(r, 2)) == NULL ? NULL : new_int((int16_t)load16(at));
    case W_UINT16:
        return (at = take(r, 2)) == NULL ? NULL : new_int(load16(at));
    case W_INT32:
        return (at = take(r, 4)) == NULL ? NULL : new_int((int32_t)load32(at));
    case W_UINT32:
        return (at = take(r, 4)) == NULL ? NULL : new_int(load32(at));
    case W_INT64:
        return (at = take(r, 8)) == NULL ? NULL : new_int((int64_t)load64(at));
    case W_FLOAT64:
        return get_float(r);
    case W_UUID:
        return get_uuid(r);
    case W_STRING:
        return get_string(r, field);
    case W_ARRAY:
        return get_array(r, field);
    case W_STRUCT:
        return get_child(r, field);
    default:
        return get_bytes(r, field);
    }
}

/* --------------------------------------------------------------------------- the tagged section */

static int keep_unknown(reader *r, PyObject **unknown, uint32_t tag, uint32_t size) {
    if (*unknown == NULL && (*unknown = PyList_New(0)) == NULL)
        return -1;
    PyObject *entry = Py_BuildValue("Iy#", (unsigned)tag, (const char *)r->at, (Py_ssize_t)size);
    r->at += size;
    return append_new(*unknown, entry);
}

static int get_tag(reader *r, const plan_struct *plan, PyObject *made, int64_t *last,
                   PyObject **unknown) {
    uint32_t tag, size;
    if (get_uvarint(r, &tag) < 0 || get_uvarint(r, &size) < 0)
        return -1;
    if ((int64_t)tag <= *last || (Py_ssize_t)size > left(r))
        return -1;
    *last = tag;
    for (Py_ssize_t at = 0; at < plan->later_count; at++)
        if (plan->later[at] == tag)
            return -1;
    for (Py_ssize_t at = 0; at < plan->tagged_count; at++) {
        const plan_field *field = &plan->tagged[at];
        if (field->tag == tag) {
            const uint8_t *body = r->at;
            SLOT(made, field->slot) = get_value(r, field);
            return SLOT(made, field->slot) != NULL && r->at - body == (Py_ssize_t)size ? 0 : -1;
        }
    }
    return keep_unknown(r, unknown, tag, size);
}

static int get_tags(reader *r, const plan_struct *plan, PyObject *made, uint32_t count) {
    PyObject *unknown = NULL;
    int64_t last = -1;
    int done = 0;
    while (count-- > 0 && done == 0)
        done = get_tag(r, plan, made, &last, &unknown);
    if (done == 0 && unknown != NULL) {
        PyObject *tags = PyList_AsTuple(unknown);
        done = tags == NULL ? -1 : 0;
        if (plan->unknown_slot < 0)
            done = -1;
        if (done == 0)
            Py_XSETREF(SLOT(made, plan->unknown_slot), tags);
        else
            Py_XDECREF(tags);
    }
    Py_XDECREF(unknown);
    return done;
}

/* ----------------------------------------------------------------------------------- the struct */

static int fill_rest(reader *r, const plan_struct *plan, PyObject *made) {
    for (Py_ssize_t at = 0; at < plan->fill_count; at++) {
        const plan_fresh *fresh = &plan->fill[at];
        if (UNLIKELY((SLOT(made, fresh->slot) = fresh_value(fresh)) == NULL))
            return -1;
    }
    if (!plan->flexible)
        return 0;
    uint32_t count;
    if (UNLIKELY(get_uvarint(r, &count) < 0))
        return -1;
    if (UNLIKELY(count > 0 && get_tags(r, plan, made, count) < 0))
        return -1;
    for (Py_ssize_t at = 0; at < plan->tagged_count; at++) {
        const plan_fresh *fresh = &plan->unset[at];
        if (SLOT(made, fresh->slot) == NULL &&
            UNLIKELY((SLOT(made, fresh->slot) = fresh_value(fresh)) == NULL))
            return -1;
    }
    return 0;
}

/* On the way out with NULL, the slots that were not reached are empty, which msgspec expects. */
static PyObject *get_struct(reader *r, const plan_struct *plan) {
    PyObject *made = new_struct(plan->type);
    if (UNLIKELY(made == NULL))
        return NULL;
    const plan_field *end = plan->fields + plan->field_count;
    for (const plan_field *field = plan->fields; field < end; field++) {
        PyObject *value = get_value(r, field);
        if (UNLIKELY(value == NULL)) {
            Py_DECREF(made);
            return NULL;
        }
        SLOT(made, field->slot) = value;
    }
    if (UNLIKELY(fill_rest(r, plan, made) < 0)) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}

/* Decode from `offset` on and set `*end` to the offset after it; None for giving up, which bytes
 * left over are a reason for when `whole`. */
static PyObject *engine_decode(const plan_struct *plan, PyObject *owner, const void *bytes,
                               Py_ssize_t size, int64_t offset, int whole, int copy,
                               Py_ssize_t *end) {
    const uint8_t *start = bytes;
    if (offset > size)
        return new_none();
    reader r = {start + offset, start + size, owner, NULL, copy};
    PyObject *value = get_struct(&r, plan);
    Py_XDECREF(r.view);
    *end = r.at - start;
    if (value != NULL && whole && r.at != r.end)
        Py_CLEAR(value);
    if (value == NULL && gave_up() == 0)
        return new_none();
    return value;
}

#endif
