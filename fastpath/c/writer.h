/* Where encoded bytes go: a scratch buffer for what is small, references for what is large.
 *
 *   scratch   [ header, lengths, names ...        | tags, next partition ...          | tail ]
 *   large                                    ^ at 0: 1 MiB of records            ^ at 1: ...
 *
 * What is large is copied once, into its place between the pieces, or not at all. The view of a
 * large value is held until the end, so its memory cannot move while fields behind it are encoded.
 */
#ifndef KRAFTSPEC_WRITER_H
#define KRAFTSPEC_WRITER_H

#include "c/plan.h"

#define LARGE_BYTES_MIN 4096              /* message.PART_BYTES_MIN */
#define SCRATCH_BYTES 16384               /* more than any request of a quorum takes */
#define SCRATCH_BYTES_KEPT (1024 * 1024)  /* what is larger goes back to the system */

typedef struct {
    Py_buffer view;
    size_t at; /* how many bytes of the scratch buffer stand before it */
} large_value;

typedef struct {
    uint8_t *base, *at, *end;
    int shared; /* `base` is the one buffer that calls share */
    large_value *large;
    Py_ssize_t large_count, large_room;
    size_t large_bytes;
} writer;

/* Most calls find it free: only one that Python code makes from inside another does not. */
static uint8_t *scratch;
static size_t scratch_bytes;
static int scratch_taken;

static int writer_open(writer *w) {
    memset(w, 0, sizeof *w);
    if (!scratch_taken) {
        if (scratch == NULL) {
            if ((scratch = PyMem_Malloc(SCRATCH_BYTES)) == NULL)
                return -1;
            scratch_bytes = SCRATCH_BYTES;
        }
        scratch_taken = w->shared = 1;
        w->base = w->at = scratch;
        w->end = scratch + scratch_bytes;
        return 0;
    }
    if ((w->base = w->at = PyMem_Malloc(SCRATCH_BYTES)) == NULL)
        return -1;
    w->end = w->base + SCRATCH_BYTES;
    return 0;
}

static void writer_close(writer *w) {
    for (Py_ssize_t at = 0; at < w->large_count; at++)
        PyBuffer_Release(&w->large[at].view);
    PyMem_Free(w->large);
    if (!w->shared) {
        PyMem_Free(w->base);
        return;
    }
    scratch = w->base;
    scratch_bytes = (size_t)(w->end - w->base);
    if (scratch_bytes > SCRATCH_BYTES_KEPT) {
        PyMem_Free(scratch);
        scratch = NULL;
    }
    scratch_taken = 0;
}

static int writer_grow(writer *w, size_t more) {
    size_t used = (size_t)(w->at - w->base);
    size_t room = 2 * (size_t)(w->end - w->base);
    if (more > (size_t)PY_SSIZE_T_MAX / 4 || used > (size_t)PY_SSIZE_T_MAX / 4)
        return -1;
    if (room < used + more)
        room = used + more;
    uint8_t *grown = PyMem_Realloc(w->base, room);
    if (grown == NULL)
        return -1;
    w->base = grown;
    w->at = grown + used;
    w->end = grown + room;
    return 0;
}

/* Make sure of room for `more` bytes; false without memory. */
static inline int room(writer *w, size_t more) {
    return (size_t)(w->end - w->at) >= more || writer_grow(w, more) == 0;
}

static inline void store16(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static inline void store32(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 24);
    at[1] = (uint8_t)(value >> 16);
    at[2] = (uint8_t)(value >> 8);
    at[3] = (uint8_t)value;
}

static inline void store64(uint8_t *at, uint64_t value) {
    store32(at, (uint32_t)(value >> 32));
    store32(at + 4, (uint32_t)value);
}

/* Unsigned varint, 7 bits a byte, least significant first; `at` has room for 5 bytes. */
static inline uint8_t *store_uvarint(uint8_t *at, uint32_t value) {
    while (value > 0x7F) {
        *at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

static inline int put_uvarint(writer *w, uint32_t value) {
    if (!room(w, 5))
        return -1;
    w->at = store_uvarint(w->at, value);
    return 0;
}

static inline int put_raw(writer *w, const void *bytes, size_t size) {
    if (!room(w, size))
        return -1;
    memcpy(w->at, bytes, size);
    w->at += size;
    return 0;
}

/* The prefix of a string, bytes or array: length -1 is null. */
static inline int put_length(writer *w, Py_ssize_t length, int compact, int is_short) {
    if (length >= LENGTH_MAX)
        return -1; /* Only 2^31-1 itself could be right, and the interpreter writes that. */
    if (!room(w, 5))
        return -1;
    if (compact) {
        w->at = store_uvarint(w->at, (uint32_t)(length + 1));
    } else if (is_short) {
        store16(w->at, (uint32_t)length);
        w->at += 2;
    } else {
        store32(w->at, (uint32_t)length);
        w->at += 4;
    }
    return 0;
}

/* Take over the view of a large value: it stands at the end of what was written so far. */
static int put_large(writer *w, Py_buffer *view) {
    if (w->large_count == w->large_room) {
        Py_ssize_t wanted = w->large_room ? 2 * w->large_room : 4;
        large_value *grown = PyMem_Realloc(w->large, (size_t)wanted * sizeof *grown);
        if (grown == NULL) {
            PyBuffer_Release(view);
            return -1;
        }
        w->large = grown;
        w->large_room = wanted;
    }
    large_value *entry = &w->large[w->large_count++];
    entry->view = *view;
    entry->at = (size_t)(w->at - w->base);
    w->large_bytes += (size_t)view->len;
    return 0;
}

/* A place for a size that is known later, after what it counts has been written. */
typedef struct {
    size_t at;
    Py_ssize_t large_count;
    size_t large_bytes;
} size_mark;

/* Leave one byte for an unsigned varint: nearly always enough. */
static int mark_size(writer *w, size_mark *mark) {
    if (!room(w, 1))
        return -1;
    mark->at = (size_t)(w->at - w->base);
    mark->large_count = w->large_count;
    mark->large_bytes = w->large_bytes;
    w->at++;
    return 0;
}

static int fill_mark(writer *w, const size_mark *mark, uint32_t value) {
    uint8_t varint[5];
    size_t width = (size_t)(store_uvarint(varint, value) - varint);
    if (width > 1) {
        size_t extra = width - 1;
        if (!room(w, extra))
            return -1;
        uint8_t *after = w->base + mark->at + 1;
        memmove(after + extra, after, (size_t)(w->at - after));
        w->at += extra;
        for (Py_ssize_t at = mark->large_count; at < w->large_count; at++)
            w->large[at].at += extra;
    }
    memcpy(w->base + mark->at, varint, width);
    return 0;
}

/* How many bytes follow the mark; -1 for more than a size can say. */
static int64_t size_since(const writer *w, const size_mark *mark) {
    size_t small = (size_t)(w->at - w->base) - mark->at - 1;
    size_t size = small + (w->large_bytes - mark->large_bytes);
    return size < LENGTH_MAX ? (int64_t)size : -1;
}

static inline size_t writer_size(const writer *w) {
    return (size_t)(w->at - w->base) + w->large_bytes;
}

/* Write everything, in order, where there is room for writer_size() bytes. */
static void writer_copy(const writer *w, uint8_t *to) {
    size_t done = 0;
    for (Py_ssize_t at = 0; at < w->large_count; at++) {
        const large_value *entry = &w->large[at];
        memcpy(to, w->base + done, entry->at - done);
        to += entry->at - done;
        done = entry->at;
        memcpy(to, entry->view.buf, (size_t)entry->view.len);
        to += entry->view.len;
    }
    memcpy(to, w->base + done, (size_t)(w->at - w->base) - done);
}

/* Whether a large value lies, in part, where the copy would go. */
static int writer_overlaps(const writer *w, const uint8_t *to) {
    const uint8_t *end = to + writer_size(w);
    for (Py_ssize_t at = 0; at < w->large_count; at++) {
        const uint8_t *bytes = w->large[at].view.buf;
        if (bytes < end && to < bytes + w->large[at].view.len)
            return 1;
    }
    return 0;
}

static int append_new(PyObject *list, PyObject *made) {
    int failed = made == NULL || PyList_Append(list, made) < 0;
    Py_XDECREF(made);
    return failed ? -1 : 0;
}

/* Return the pieces: bytes of what is small, and each large value itself. */
static PyObject *writer_parts(const writer *w) {
    size_t done = 0, total = (size_t)(w->at - w->base);
    PyObject *parts = PyList_New(0);
    if (parts == NULL)
        return NULL;
    for (Py_ssize_t at = 0; at <= w->large_count; at++) {
        size_t until = at < w->large_count ? w->large[at].at : total;
        const char *from = (const char *)w->base + done;
        if (until > done &&
            append_new(parts, PyBytes_FromStringAndSize(from, (Py_ssize_t)(until - done))) < 0)
            goto failed;
        done = until;
        if (at == w->large_count)
            break;
        PyObject *owner = w->large[at].view.obj;
        if (PyBytes_CheckExact(owner)) {
            if (PyList_Append(parts, owner) < 0)
                goto failed;
        } else if (append_new(parts, PyMemoryView_FromObject(owner)) < 0) {
            goto failed;
        }
    }
    return parts;
failed:
    Py_DECREF(parts);
    return NULL;
}

#endif
