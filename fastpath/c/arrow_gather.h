/* Reading columns out of Arrow arrays, by the Arrow C data interface.
 *
 *   binary, string         offsets int32[n + 1], data
 *   large_ kinds           offsets int64[n + 1], data
 *   _view kinds            16 bytes each: int32 length, then 12 bytes of data, or (when longer)
 *                          4 bytes of data, int32 buffer, int32 offset; behind the data buffers
 *                          stands one with the int64 length of each
 *   fixed_size_binary[w]   data
 *   null                   nothing
 *
 * The first buffer says which are valid, a bit each from the least significant on; none: all are.
 * What is not understood, or not as the format has it, gives 0: the caller then looks closer.
 */
#ifndef KRAFTSPEC_ARROW_GATHER_H
#define KRAFTSPEC_ARROW_GATHER_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "arrow_abi.h"
#include "record_write.h"

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

#endif

#define VIEW_BYTES 16
#define VIEW_INLINE_MAX 12

/* Producers should align their buffers and need not. */
HOT int64_t arrow_load(const uint8_t *array, int64_t at, int wide) {
    int64_t eight;
    int32_t four;
    if (wide) {
        memcpy(&eight, array + at * 8, 8);
        return eight;
    }
    memcpy(&four, array + at * 4, 4);
    return four;
}

static inline int arrow_valid(const uint8_t *bits, int64_t at) {
    return bits == NULL || (bits[at >> 3] >> (at & 7) & 1);
}

/* Lengths and buffer counts as the format wants them; *bits is the validity bitmap or NULL. */
static int arrow_sound(const struct ArrowSchema *schema, const struct ArrowArray *array,
                       int64_t buffers, const uint8_t **bits) {
    *bits = NULL;
    if (array->length < 0 || array->offset < 0 || array->offset > INT64_MAX - array->length - 1
        || array->n_children != 0 || schema->dictionary != NULL || array->dictionary != NULL)
        return 0;
    if (buffers == 0)
        return 1;
    if (array->n_buffers < buffers || array->buffers == NULL)
        return 0;
    if (array->null_count != 0) {
        *bits = array->buffers[0];
        if (*bits == NULL && array->null_count > 0)
            return 0;
    }
    return 1;
}

/* Inlined once for each width of offset. */
HOT int arrow_offsets(const struct ArrowArray *array, const uint8_t *bits, int wide,
                      field_t *out) {
    const uint8_t *offsets = array->buffers[1];
    const uint8_t *data = array->buffers[2];
    if (array->length == 0)
        return 1;
    if (offsets == NULL)
        return 0;
    for (int64_t at = 0; at < array->length; at++) {
        int64_t row = array->offset + at;
        if (!arrow_valid(bits, row)) {
            out[at] = FIELD_NULL;
            continue;
        }
        int64_t start = arrow_load(offsets, row, wide);
        int64_t end = arrow_load(offsets, row + 1, wide);
        if (start < 0 || end < start || (data == NULL && end > start))
            return 0;
        out[at].bytes = end > start ? data + start : NULL;
        out[at].size = end - start;
    }
    return 1;
}

static int arrow_views(const struct ArrowArray *array, const uint8_t *bits, field_t *out) {
    const uint8_t *views = array->buffers[1];
    const uint8_t *sizes = array->buffers[array->n_buffers - 1];
    int64_t data_count = array->n_buffers - 3;
    if (array->length > 0 && views == NULL)
        return 0;
    for (int64_t at = 0; at < array->length; at++) {
        int64_t row = array->offset + at;
        int32_t view[4];
        if (!arrow_valid(bits, row)) {
            out[at] = FIELD_NULL;
            continue;
        }
        memcpy(view, views + row * VIEW_BYTES, VIEW_BYTES);
        if (view[0] < 0)
            return 0;
        out[at].size = view[0];
        if (view[0] <= VIEW_INLINE_MAX) {
            out[at].bytes = views + row * VIEW_BYTES + 4;
            continue;
        }
        if (view[2] < 0 || view[2] >= data_count || sizes == NULL || view[3] < 0
            || (int64_t)view[3] + view[0] > arrow_load(sizes, view[2], 1)
            || array->buffers[2 + view[2]] == NULL)
            return 0;
        out[at].bytes = (const uint8_t *)array->buffers[2 + view[2]] + view[3];
    }
    return 1;
}

static int arrow_fixed(const struct ArrowArray *array, const uint8_t *bits, int64_t width,
                       field_t *out) {
    const uint8_t *data = array->buffers[1];
    if (array->length > 0 && width > 0 && data == NULL)
        return 0;
    for (int64_t at = 0; at < array->length; at++) {
        int64_t row = array->offset + at;
        out[at].bytes = width > 0 ? data + row * width : NULL;
        out[at].size = arrow_valid(bits, row) ? width : -1;
    }
    return 1;
}

/* Decimal digits as an int32, or -1. */
static int64_t arrow_width(const char *digits) {
    int64_t width = *digits == 0 ? -1 : 0;
    for (; *digits != 0 && width >= 0; digits++)
        width = *digits < '0' || *digits > '9' || width > INT32_MAX
            ? -1 : width * 10 + (*digits - '0');
    return width > INT32_MAX ? -1 : width;
}

/* Point `out` (array->length fields) at the values of a column of bytes or text. */
static int arrow_bytes(const struct ArrowSchema *schema, const struct ArrowArray *array,
                       field_t *out) {
    const char *format = schema->format;
    const uint8_t *bits;
    if (format == NULL)
        return 0;
    if (strcmp(format, "z") == 0 || strcmp(format, "u") == 0)
        return arrow_sound(schema, array, 3, &bits) && arrow_offsets(array, bits, 0, out);
    if (strcmp(format, "Z") == 0 || strcmp(format, "U") == 0)
        return arrow_sound(schema, array, 3, &bits) && arrow_offsets(array, bits, 1, out);
    if (strcmp(format, "vz") == 0 || strcmp(format, "vu") == 0)
        return arrow_sound(schema, array, 3, &bits) && arrow_views(array, bits, out);
    if (strncmp(format, "w:", 2) == 0) {
        int64_t width = arrow_width(format + 2);
        return width >= 0 && arrow_sound(schema, array, 2, &bits)
            && arrow_fixed(array, bits, width, out);
    }
    if (strcmp(format, "n") == 0 && arrow_sound(schema, array, 0, &bits)) {
        for (int64_t at = 0; at < array->length; at++)
            out[at] = FIELD_NULL;
        return 1;
    }
    return 0;
}

/* Copy a column of int64 or timestamp[ms] that holds no null and nothing below -1. */
static int arrow_timestamps(const struct ArrowSchema *schema, const struct ArrowArray *array,
                            int64_t *out) {
    const uint8_t *bits;
    if (schema->format == NULL)
        return 0;
    if (strcmp(schema->format, "l") != 0 && strncmp(schema->format, "tsm:", 4) != 0)
        return 0;
    if (!arrow_sound(schema, array, 2, &bits))
        return 0;
    const uint8_t *data = array->buffers[1];
    if (array->length > 0 && data == NULL)
        return 0;
    for (int64_t at = 0; at < array->length; at++) {
        int64_t row = array->offset + at;
        if (!arrow_valid(bits, row) || (out[at] = arrow_load(data, row, 1)) < -1)
            return 0;
    }
    return 1;
}

/* A column: one borrowed array, or the chunks of a stream, which it owns. */
typedef struct {
    const struct ArrowSchema *schema;
    struct ArrowArray *arrays;
    int64_t array_count;
    int64_t length;
    struct ArrowSchema own_schema;
    int is_own;
} arrow_column_t;

static int arrow_of_array(arrow_column_t *column, const struct ArrowSchema *schema,
                          struct ArrowArray *array) {
    column->schema = schema;
    column->arrays = array;
    column->array_count = 1;
    column->length = array->length;
    return schema->release != NULL && array->release != NULL;
}

/* Take every chunk of a stream; arrow_close() also after a failure. */
static int arrow_of_stream(arrow_column_t *column, struct ArrowArrayStream *stream) {
    struct ArrowArray chunk;
    column->is_own = 1;
    column->own_schema.release = NULL;
    column->schema = &column->own_schema;
    if (stream->release == NULL || stream->get_schema(stream, &column->own_schema) != 0)
        return 0;
    for (;;) {
        chunk.release = NULL;
        if (stream->get_next(stream, &chunk) != 0)
            return 0;
        if (chunk.release == NULL)
            return 1;
        struct ArrowArray *grown = realloc(
            column->arrays, (size_t)(column->array_count + 1) * sizeof(struct ArrowArray));
        if (grown == NULL) {
            chunk.release(&chunk);
            return 0;
        }
        column->arrays = grown;
        grown[column->array_count++] = chunk;
        if (chunk.length < 0 || chunk.length > INT32_MAX - column->length)
            return 0;
        column->length += chunk.length;
    }
}

static void arrow_close(arrow_column_t *column) {
    if (!column->is_own)
        return;
    for (int64_t at = 0; at < column->array_count; at++) {
        if (column->arrays[at].release != NULL)
            column->arrays[at].release(&column->arrays[at]);
    }
    free(column->arrays);
    if (column->own_schema.release != NULL)
        column->own_schema.release(&column->own_schema);
}

static int arrow_gather_bytes(const arrow_column_t *column, field_t *out) {
    for (int64_t at = 0; at < column->array_count; at++) {
        if (!arrow_bytes(column->schema, &column->arrays[at], out))
            return 0;
        out += column->arrays[at].length;
    }
    return 1;
}

static int arrow_gather_timestamps(const arrow_column_t *column, int64_t *out) {
    for (int64_t at = 0; at < column->array_count; at++) {
        if (!arrow_timestamps(column->schema, &column->arrays[at], out))
            return 0;
        out += column->arrays[at].length;
    }
    return 1;
}

#endif
