/* Metadata records as JSON text, straight from their bytes, as Kafka's tools print them (Jackson).
 *
 * Only what is usual: flexible structs of numbers, uuids, compact strings, bytes and arrays. What
 * is not (text beyond ASCII, doubles, unknown tags, a varint longer than needed) is refused by
 * NULL, and so is what is wrong; the plain-Python twin then does the whole batch. */
#ifndef KRAFTSPEC_RECORD_TEXT_H
#define KRAFTSPEC_RECORD_TEXT_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "record_read.h"

enum {
    TEXT_BOOL, TEXT_INT8, TEXT_INT16, TEXT_UINT16, TEXT_INT32, TEXT_UINT32, TEXT_INT64, TEXT_UUID,
    TEXT_STRING, TEXT_BYTES, TEXT_ARRAY, TEXT_STRUCT
};
/* The default of a tagged field: it is not printed. */
enum { DEFAULT_NUMBER, DEFAULT_EMPTY, DEFAULT_NULL };

enum { TEXT_FIELDS_MAX = 32, UUID_TEXT_BYTES = 22, NUMBER_TEXT_BYTES_MAX = 20 };

typedef struct text_struct text_struct;

typedef struct {
    const char *name;  /* ,"name": */
    Py_ssize_t name_size;
    const text_struct *child;
    int64_t number;
    uint32_t tag;
    uint8_t wire, element, nullable, is_tagged, default_kind;
} text_field;

/* The fields stand in the order of the spec, and `on_wire` are those before the tags. */
struct text_struct {
    text_field fields[TEXT_FIELDS_MAX];
    uint8_t on_wire[TEXT_FIELDS_MAX];
    int field_count, on_wire_count;
};

typedef struct {
    uint8_t *data;
    size_t used, room;
} text_out;

static const uint8_t TEXT_WIDTH[] = {1, 1, 2, 2, 4, 4, 8, 16};

/* ---- what is written ----------------------------------------------------------------------- */

static int out_reserve(text_out *out, size_t size) {
    if (LIKELY(out->room - out->used >= size))
        return 1;
    size_t room = out->room * 2 + size;
    uint8_t *data = realloc(out->data, room);
    if (data == NULL)
        return 0;
    out->data = data;
    out->room = room;
    return 1;
}

static int out_bytes(text_out *out, const void *bytes, size_t size) {
    if (!out_reserve(out, size))
        return 0;
    memcpy(out->data + out->used, bytes, size);
    out->used += size;
    return 1;
}

static int out_number(text_out *out, int64_t number) {
    uint8_t digits[NUMBER_TEXT_BYTES_MAX + 1];
    uint8_t *at = digits + sizeof digits;
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do {
        *--at = (uint8_t)('0' + left % 10);
        left /= 10;
    } while (left);
    if (number < 0)
        *--at = '-';
    return out_bytes(out, at, (size_t)(digits + sizeof digits - at));
}

static const char TEXT_URL[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
static const char TEXT_STANDARD[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int out_base64(
        text_out *out, const uint8_t *bytes, size_t size, const char *digits, int pad) {
    if (!out_reserve(out, size / 3 * 4 + 6))
        return 0;
    uint8_t *to = out->data + out->used;
    *to++ = '"';
    for (; size >= 3; bytes += 3, size -= 3) {
        uint32_t three = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
        *to++ = (uint8_t)digits[three >> 18];
        *to++ = (uint8_t)digits[three >> 12 & 63];
        *to++ = (uint8_t)digits[three >> 6 & 63];
        *to++ = (uint8_t)digits[three & 63];
    }
    if (size) {
        uint32_t rest = (uint32_t)bytes[0] << 16 | (size > 1 ? (uint32_t)bytes[1] << 8 : 0);
        *to++ = (uint8_t)digits[rest >> 18];
        *to++ = (uint8_t)digits[rest >> 12 & 63];
        if (size > 1)
            *to++ = (uint8_t)digits[rest >> 6 & 63];
        for (size_t missing = size; pad && missing < 3; missing++)
            *to++ = '=';
    }
    *to++ = '"';
    out->used = (size_t)(to - out->data);
    return 1;
}

static int out_string(text_out *out, const uint8_t *bytes, size_t size) {
    static const char HEX[] = "0123456789ABCDEF";
    static const char SHORT[] = "btn\0fr";  /* Of 8 to 13; 11 has none. */
    if (!out_reserve(out, size * 6 + 2))
        return 0;
    uint8_t *to = out->data + out->used;
    *to++ = '"';
    for (size_t at = 0; at < size; at++) {
        uint8_t byte = bytes[at];
        if (byte >= 0x80)
            return 0;
        if (LIKELY(byte >= 0x20)) {
            if (byte == '"' || byte == '\\')
                *to++ = '\\';
            *to++ = byte;
            continue;
        }
        *to++ = '\\';
        if (byte >= 8 && byte <= 13 && SHORT[byte - 8]) {
            *to++ = (uint8_t)SHORT[byte - 8];
            continue;
        }
        memcpy(to, "u00", 3);
        to[3] = (uint8_t)HEX[byte >> 4];
        to[4] = (uint8_t)HEX[byte & 15];
        to += 5;
    }
    *to++ = '"';
    out->used = (size_t)(to - out->data);
    return 1;
}

/* ---- what is read -------------------------------------------------------------------------- */

static inline const uint8_t *uvarint_at(const uint8_t *at, const uint8_t *end, uint32_t *value) {
    uint64_t sum = 0;
    for (int shift = 0; shift < 35 && at < end; shift += 7) {
        uint64_t byte = *at++;
        sum |= (byte & 0x7F) << shift;
        if (byte < 0x80) {
            if ((byte == 0 && shift) || sum > INT32_MAX)
                return NULL;
            *value = (uint32_t)sum;
            return at;
        }
    }
    return NULL;
}

/* A compact length: `*size` is -1 for null. */
static inline const uint8_t *length_at(const uint8_t *at, const uint8_t *end, int64_t *size) {
    uint32_t value;
    at = uvarint_at(at, end, &value);
    if (at != NULL)
        *size = (int64_t)value - 1;
    return at;
}

static int64_t number_at(uint8_t wire, const uint8_t *at) {
    switch (wire) {
    case TEXT_INT8: return (int8_t)at[0];
    case TEXT_INT16: return (int16_t)big_endian16(at);
    case TEXT_UINT16: return big_endian16(at);
    case TEXT_INT32: return (int32_t)big_endian32(at);
    case TEXT_UINT32: return big_endian32(at);
    case TEXT_INT64: return (int64_t)big_endian64(at);
    default: return at[0];
    }
}

static const uint8_t *text_object(
    text_out *out, const text_struct *type, const uint8_t *at, const uint8_t *end);

/* Write a value to `out`, or only pass over it where that is NULL; the byte after it, or NULL. */
static const uint8_t *text_value(
        text_out *out, const text_field *field, uint8_t wire, int nullable, const uint8_t *at,
        const uint8_t *end) {
    int64_t size;
    if (wire <= TEXT_UUID) {
        if (end - at < TEXT_WIDTH[wire])
            return NULL;
        if (out != NULL) {
            int done;
            if (wire == TEXT_UUID)
                done = out_base64(out, at, 16, TEXT_URL, 0);
            else if (wire == TEXT_BOOL)
                done = at[0] <= 1 && out_bytes(out, at[0] ? "true" : "false", at[0] ? 4 : 5);
            else
                done = out_number(out, number_at(wire, at));
            if (!done)
                return NULL;
        }
        return at + TEXT_WIDTH[wire];
    }
    if (wire == TEXT_STRUCT)
        return text_object(out, field->child, at, end);
    at = length_at(at, end, &size);
    if (at == NULL || size > end - at || (size < 0 && !nullable))
        return NULL;
    if (size < 0)
        return out == NULL || out_bytes(out, "null", 4) ? at : NULL;
    if (wire == TEXT_ARRAY) {
        if (out != NULL && !out_bytes(out, "[", 1))
            return NULL;
        for (int64_t index = 0; index < size && at != NULL; index++) {
            if (out != NULL && index && !out_bytes(out, ",", 1))
                return NULL;
            at = text_value(out, field, field->element, 0, at, end);
        }
        return at == NULL || out == NULL || out_bytes(out, "]", 1) ? at : NULL;
    }
    if (wire == TEXT_STRING && size > INT16_MAX)
        return NULL;
    if (out != NULL && !(wire == TEXT_STRING
            ? out_string(out, at, (size_t)size)
            : out_base64(out, at, (size_t)size, TEXT_STANDARD, 1)))
        return NULL;
    return at + size;
}

static const uint8_t *field_value(
        text_out *out, const text_field *field, const uint8_t *at, const uint8_t *end) {
    return text_value(out, field, field->wire, field->nullable, at, end);
}

/* Whether a tagged field holds what it does where it is not there. */
static int text_is_default(const text_field *field, const uint8_t *at) {
    switch (field->default_kind) {
    case DEFAULT_NUMBER:
        return field->wire < TEXT_UUID && number_at(field->wire, at) == field->number;
    case DEFAULT_EMPTY: return field->wire > TEXT_UUID && at[0] == 1;
    default: return field->wire > TEXT_UUID && at[0] == 0;
    }
}

static const uint8_t *text_tags(
        const text_struct *type, const uint8_t *at, const uint8_t *end, const uint8_t **places) {
    uint32_t count, tag, size;
    int64_t before = -1;
    at = uvarint_at(at, end, &count);
    for (; at != NULL && count; count--) {
        at = uvarint_at(at, end, &tag);
        if (at == NULL || (int64_t)tag <= before)
            return NULL;
        before = tag;
        at = uvarint_at(at, end, &size);
        if (at == NULL || size > end - at)
            return NULL;
        int found = 0;
        for (int index = 0; index < type->field_count && !found; index++) {
            const text_field *field = &type->fields[index];
            if (!field->is_tagged || field->tag != tag)
                continue;
            if (field_value(NULL, field, at, at + size) != at + size)
                return NULL;
            if (!text_is_default(field, at))
                places[index] = at;
            found = 1;
        }
        if (!found)
            return NULL;
        at += size;
    }
    return at;
}

static const uint8_t *text_object(
        text_out *out, const text_struct *type, const uint8_t *at, const uint8_t *end) {
    const uint8_t *places[TEXT_FIELDS_MAX] = {NULL};
    for (int index = 0; index < type->on_wire_count && at != NULL; index++) {
        int number = type->on_wire[index];
        places[number] = at;
        at = field_value(NULL, &type->fields[number], at, end);
    }
    if (at != NULL)
        at = text_tags(type, at, end, places);
    if (at == NULL || out == NULL)
        return at;
    size_t opening = out->used;
    for (int index = 0; index < type->field_count; index++) {
        const text_field *field = &type->fields[index];
        if (places[index] == NULL)
            continue;
        if (!out_bytes(out, field->name, (size_t)field->name_size)
                || field_value(out, field, places[index], end) == NULL)
            return NULL;
    }
    if (out->used == opening)
        return out_bytes(out, "{}", 2) ? at : NULL;
    out->data[opening] = '{';  /* Where the first name has its comma. */
    return out_bytes(out, "}", 1) ? at : NULL;
}

#endif
