/* Writing record batches of magic 2; records.py draws the layout of a batch and of a record.
 *
 * A record's length stands before it: a record is written behind as much room as its length will
 * need, which follows from the sizes of its parts. Nothing here allocates, calls Python or fails.
 */
#ifndef KRAFTSPEC_RECORD_WRITE_H
#define KRAFTSPEC_RECORD_WRITE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "crc32c.h"

#define BATCH_HEAD_BYTES 61
#define LOG_OVERHEAD_BYTES 12
#define CRC_AT 17
#define ATTRIBUTES_AT 21
#define VARINT_BYTES_MAX 10

/* The compiler would call these rather than repeat them, which costs a third of the time. */
#define HOT static inline __attribute__((always_inline))

/* Borrowed bytes; size -1 is null. */
typedef struct {
    const uint8_t *bytes;
    int64_t size;
} field_t;

/* The columns of a batch, `count` long. A NULL column is: every key null, no headers at all,
 * every timestamp the base timestamp. A header block is what stands in the record: header
 * count, headers. */
typedef struct {
    int64_t count;
    const field_t *keys;
    const field_t *values;
    const field_t *headers;
    const int64_t *timestamps;
    int64_t base_timestamp;
} records_t;

typedef struct {
    int64_t base_offset;
    int32_t partition_leader_epoch;
    int16_t attributes;
    int32_t last_offset_delta;
    int64_t base_timestamp;
    int64_t max_timestamp;
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t base_sequence;
    int32_t count;
} batch_head_t;

HOT uint64_t zigzag(int64_t value) {
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

/* Seven bits a byte: one byte for 1 to 7 bits, ten for 64. */
HOT size_t varint_size(int64_t value) {
    unsigned bits = 64u - (unsigned)__builtin_clzll(zigzag(value) | 1);
    return (bits * 9 + 64) >> 6;
}

HOT uint8_t *varint_write(uint8_t *out, int64_t value) {
    uint64_t left = zigzag(value);
    while (left >= 0x80) {
        *out++ = (uint8_t)(left | 0x80);
        left >>= 7;
    }
    *out++ = (uint8_t)left;
    return out;
}

HOT size_t field_size(const field_t *field) {
    return field->size < 0 ? 1 : varint_size(field->size) + (size_t)field->size;
}

/* Copies with two moves that may overlap each other, for each power of two; a call of memcpy
 * costs more than these where keys, headers and short values are copied. */
HOT void copy_short(uint8_t *out, const uint8_t *in, size_t size) {
#define COPY_TWICE(width)                                 \
    do {                                                  \
        uint8_t first[width], last[width];                \
        memcpy(first, in, width);                         \
        memcpy(last, in + size - (width), width);         \
        memcpy(out, first, width);                        \
        memcpy(out + size - (width), last, width);        \
    } while (0)
    if (size >= 16)
        COPY_TWICE(16);
    else if (size >= 8)
        COPY_TWICE(8);
    else if (size >= 4)
        COPY_TWICE(4);
    else if (size >= 2)
        COPY_TWICE(2);
    else if (size == 1)
        *out = *in;
#undef COPY_TWICE
}

HOT uint8_t *copy(uint8_t *out, const uint8_t *in, size_t size) {
    if (size <= 32)
        copy_short(out, in, size);
    else
        memcpy(out, in, size);
    return out + size;
}

HOT uint8_t *field_write(uint8_t *out, const field_t *field) {
    out = varint_write(out, field->size);
    return field->size > 0 ? copy(out, field->bytes, (size_t)field->size) : out;
}

static const field_t FIELD_NULL = {NULL, -1};
static const uint8_t NO_HEADERS[1] = {0};
static const field_t BLOCK_NONE = {NO_HEADERS, 1};

/* The size of a record without its own length. */
HOT size_t record_body_size(const field_t *key, const field_t *value, const field_t *headers,
                            int64_t timestamp_delta, int64_t offset_delta) {
    return 1 + varint_size(timestamp_delta) + varint_size(offset_delta) + field_size(key)
        + field_size(value) + (size_t)headers->size;
}

HOT size_t size_or_none(const field_t *field) {
    return (size_t)(field->size & ~(field->size >> 63));
}

HOT size_t parts_size(const field_t *key, const field_t *value, const field_t *headers) {
    return size_or_none(key) + size_or_none(value) + (size_t)headers->size;
}

/* What a record has besides its parts: attributes, deltas, and three lengths. */
#define RECORD_OVERHEAD_BYTES_MAX (1 + VARINT_BYTES_MAX + 5 + 3 * 5)

/* Writes a record; the byte behind it. */
HOT uint8_t *record_write(uint8_t *out, const field_t *key, const field_t *value,
                               const field_t *headers, int64_t timestamp_delta,
                               int64_t offset_delta) {
    const size_t parts = parts_size(key, value, headers);
    /* A guess, and right but for records within few bytes of where a varint grows. */
    const size_t room = parts < 58 ? 1 : parts < 8180 ? 2 : varint_size((int64_t)parts + 8);
    uint8_t *body = out + room, *end = body;
    *end++ = 0; /* attributes: none are defined */
    end = varint_write(end, timestamp_delta);
    end = varint_write(end, offset_delta);
    end = field_write(end, key);
    end = field_write(end, value);
    end = copy(end, headers->bytes, (size_t)headers->size);
    const size_t size = (size_t)(end - body);
    if (room == 2 && size >= 64 && size < 8192) {
        out[0] = (uint8_t)(size << 1 | 0x80);
        out[1] = (uint8_t)(size >> 6);
        return end;
    }
    const size_t wanted = varint_size((int64_t)size);
    if (wanted != room)
        memmove(out + wanted, body, size);
    varint_write(out, (int64_t)size);
    return out + wanted + size;
}

/* Inlined with constants, so that each shape of a batch gets a loop of its own. All that is read
 * in the loop stands in variables: behind a pointer, each byte written might have changed it. */
HOT uint8_t *records_write_of(uint8_t *out, const records_t *records, int has_keys,
                              int has_headers, int has_timestamps) {
    const records_t r = *records;
    for (int64_t at = 0; at < r.count; at++) {
        const field_t key = has_keys ? r.keys[at] : FIELD_NULL;
        const field_t value = r.values[at];
        const field_t block = has_headers ? r.headers[at] : BLOCK_NONE;
        int64_t delta = has_timestamps ? r.timestamps[at] - r.base_timestamp : 0;
        out = record_write(out, &key, &value, &block, delta, at);
    }
    return out;
}

/* No less than the size of all records, by few bytes a record where they are alike: each varint
 * is taken to be as long as the greatest number of its kind needs. Cannot overflow: every size was
 * the size of something in memory. */
HOT size_t records_size_max_of(const records_t *records, int has_keys, int has_headers,
                               int has_timestamps) {
    const records_t r = *records;
    size_t size = 0, all_keys = 0, all_values = 0, all_parts = 0;
    uint64_t all_deltas = 0;
    for (int64_t at = 0; at < r.count; at++) {
        const size_t key = has_keys ? size_or_none(&r.keys[at]) : 0;
        const size_t value = size_or_none(&r.values[at]);
        const size_t parts = key + value + (has_headers ? (size_t)r.headers[at].size : 1);
        all_keys |= key;
        all_values |= value;
        all_parts |= parts;
        if (has_timestamps)
            all_deltas |= zigzag(r.timestamps[at] - r.base_timestamp);
        size += parts;
    }
    const size_t lengths = 1 + varint_size((int64_t)(all_deltas >> 1)) + varint_size(r.count)
        + varint_size((int64_t)all_keys) + varint_size((int64_t)all_values);
    /* One more, for record_write() may need a byte that it gives back. */
    return size + (size_t)r.count * (lengths + varint_size((int64_t)(all_parts + lengths))) + 1;
}

/* The size of all records. */
static size_t records_size(const records_t *records) {
    const records_t r = *records;
    size_t size = 0;
    for (int64_t at = 0; at < r.count; at++) {
        size_t body = record_body_size(
            r.keys == NULL ? &FIELD_NULL : &r.keys[at], &r.values[at],
            r.headers == NULL ? &BLOCK_NONE : &r.headers[at],
            r.timestamps == NULL ? 0 : r.timestamps[at] - r.base_timestamp, at);
        size += varint_size((int64_t)body) + body;
    }
    return size;
}

#define RECORDS_BY_SHAPE(records, function, ...)                                          \
    switch (((records)->keys != NULL) << 2 | ((records)->headers != NULL) << 1            \
            | ((records)->timestamps != NULL)) {                                          \
    case 0: return function(__VA_ARGS__, 0, 0, 0);                                        \
    case 1: return function(__VA_ARGS__, 0, 0, 1);                                        \
    case 2: return function(__VA_ARGS__, 0, 1, 0);                                        \
    case 3: return function(__VA_ARGS__, 0, 1, 1);                                        \
    case 4: return function(__VA_ARGS__, 1, 0, 0);                                        \
    case 5: return function(__VA_ARGS__, 1, 0, 1);                                        \
    case 6: return function(__VA_ARGS__, 1, 1, 0);                                        \
    default: return function(__VA_ARGS__, 1, 1, 1);                                       \
    }

static size_t records_size_max(const records_t *records) {
    RECORDS_BY_SHAPE(records, records_size_max_of, records)
}

/* Writes the records; the byte behind them. Needs room for records_size_max(). */
static uint8_t *records_write(uint8_t *out, const records_t *records) {
    RECORDS_BY_SHAPE(records, records_write_of, out, records)
}

HOT uint8_t *big_endian(uint8_t *out, uint64_t value, int size) {
    for (int at = 0; at < size; at++)
        out[at] = (uint8_t)(value >> (8 * (size - 1 - at)));
    return out + size;
}

/* Writes the head before the records, which stand at BATCH_HEAD_BYTES already. `size` is that
 * of the whole batch. */
static void batch_seal(uint8_t *batch, size_t size, const batch_head_t *head) {
    uint8_t *out = batch;
    out = big_endian(out, (uint64_t)head->base_offset, 8);
    out = big_endian(out, (uint64_t)(size - LOG_OVERHEAD_BYTES), 4);
    out = big_endian(out, (uint32_t)head->partition_leader_epoch, 4);
    *out++ = 2; /* magic */
    out += 4;   /* CRC */
    out = big_endian(out, (uint16_t)head->attributes, 2);
    out = big_endian(out, (uint32_t)head->last_offset_delta, 4);
    out = big_endian(out, (uint64_t)head->base_timestamp, 8);
    out = big_endian(out, (uint64_t)head->max_timestamp, 8);
    out = big_endian(out, (uint64_t)head->producer_id, 8);
    out = big_endian(out, (uint16_t)head->producer_epoch, 2);
    out = big_endian(out, (uint32_t)head->base_sequence, 4);
    big_endian(out, (uint32_t)head->count, 4);
    uint32_t crc = crc32c_extend(0, batch + ATTRIBUTES_AT, size - ATTRIBUTES_AT);
    big_endian(batch + CRC_AT, crc, 4);
}

#endif
