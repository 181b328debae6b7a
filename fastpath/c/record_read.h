/* Reading record batches of magic 2: nothing is allocated, nothing beyond `end` is touched.
 *
 * The layout is drawn in records.py. A reader returns the byte after what it read, or NULL when
 * it rejects; the plain-Python twin (batch_reader.py) then finds the error. */
#ifndef KRAFTSPEC_RECORD_READ_H
#define KRAFTSPEC_RECORD_READ_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "crc32c.h"

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

enum {
    LENGTH_AT = 8, MAGIC_AT = 16, CRC_AT = 17, ATTRIBUTES_AT = 21, RECORDS_AT = 61,
    LOG_OVERHEAD_BYTES = 12, BATCH_LENGTH_MIN = RECORDS_AT - LOG_OVERHEAD_BYTES, MAGIC = 2,
    COMPRESSION_MASK = 0x07, LOG_APPEND_TIME = 0x08, TRANSACTIONAL = 0x10, CONTROL = 0x20,
    COMPRESSION_MAX = 4, RECORD_BYTES_MIN = 7, HEADER_BYTES_MIN = 2
};

typedef struct {
    int64_t base_offset, base_timestamp, max_timestamp, producer_id, size;
    int32_t leader_epoch, last_offset_delta, base_sequence, record_count;
    uint32_t crc;
    int16_t attributes, producer_epoch;
} batch_view;

typedef struct {
    int64_t timestamp_delta;
    const uint8_t *key, *value, *headers, *end;
    int32_t offset_delta, key_size, value_size, header_count;  /* A size of -1: null. */
    int8_t attributes;
} record_view;

typedef struct {
    const uint8_t *key, *value;
    int32_t key_size, value_size;
} header_view;

static inline uint16_t big_endian16(const uint8_t *at) {
    return (uint16_t)(at[0] << 8 | at[1]);
}

static inline uint32_t big_endian32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    value = __builtin_bswap32(value);
#endif
    return value;
}

static inline uint64_t big_endian64(const uint8_t *at) {
    return (uint64_t)big_endian32(at) << 32 | big_endian32(at + 4);
}

/* Sums wrap as Java's long does; signed overflow would be undefined. */
static inline int64_t wrapping_add(int64_t left, int64_t right) {
    return (int64_t)((uint64_t)left + (uint64_t)right);
}

static const uint8_t *batch_read(
        const uint8_t *at, const uint8_t *end, int check_crc, batch_view *batch) {
    if (end - at < RECORDS_AT || at[MAGIC_AT] != MAGIC)
        return NULL;
    int32_t length = (int32_t)big_endian32(at + LENGTH_AT);
    if (length < BATCH_LENGTH_MIN || length > end - at - LOG_OVERHEAD_BYTES)
        return NULL;
    batch->size = (int64_t)length + LOG_OVERHEAD_BYTES;
    batch->crc = big_endian32(at + CRC_AT);
    if (check_crc) {
        size_t covered = (size_t)batch->size - ATTRIBUTES_AT;
        if (crc32c_extend(0, at + ATTRIBUTES_AT, covered) != batch->crc)
            return NULL;
    }
    batch->base_offset = (int64_t)big_endian64(at);
    batch->leader_epoch = (int32_t)big_endian32(at + 12);
    batch->attributes = (int16_t)big_endian16(at + ATTRIBUTES_AT);
    batch->last_offset_delta = (int32_t)big_endian32(at + 23);
    batch->base_timestamp = (int64_t)big_endian64(at + 27);
    batch->max_timestamp = (int64_t)big_endian64(at + 35);
    batch->producer_id = (int64_t)big_endian64(at + 43);
    batch->producer_epoch = (int16_t)big_endian16(at + 51);
    batch->base_sequence = (int32_t)big_endian32(at + 53);
    batch->record_count = (int32_t)big_endian32(at + 57);
    return at + batch->size;
}

static inline int64_t record_timestamp(const batch_view *batch, int64_t delta) {
    return batch->attributes & LOG_APPEND_TIME
        ? batch->max_timestamp : wrapping_add(batch->base_timestamp, delta);
}

/* Any zigzag varint of at most `bits` bits, in as few bytes as its value takes. */
static __attribute__((noinline)) const uint8_t *varint_read_long(
        const uint8_t *at, const uint8_t *end, int bits, uint64_t *value) {
    uint64_t sum = 0;
    for (int shift = 0; shift < bits && at < end; shift += 7) {
        uint64_t byte = *at++;
        sum |= (byte & 0x7F) << shift;
        if (byte < 0x80) {
            if ((byte == 0 && shift) || (bits - shift < 7 && byte >> (bits - shift)))
                return NULL;
            *value = sum;
            return at;
        }
    }
    return NULL;
}

/* A varint as it stands, zigzag not undone: one and two bytes in line, which is nearly every number
 * of a record. */
static inline __attribute__((always_inline)) const uint8_t *zigzag_read(
        const uint8_t *at, const uint8_t *end, int bits, uint64_t *zigzag) {
    if (LIKELY(end - at >= 2)) {
        uint32_t low = at[0], high = at[1];
        if (LIKELY(low < 0x80)) {
            *zigzag = low;
            return at + 1;
        }
        if (LIKELY(high - 1 < 0x7F)) {  /* Not 0, which would be more bytes than needed. */
            *zigzag = (low & 0x7F) | high << 7;
            return at + 2;
        }
    } else if (at < end && at[0] < 0x80) {
        *zigzag = at[0];
        return at + 1;
    }
    return varint_read_long(at, end, bits, zigzag);
}

static inline int64_t from_zigzag(uint64_t zigzag) {
    return (int64_t)(zigzag >> 1 ^ (0 - (zigzag & 1)));
}

/* A length and that many bytes, or null; `*bytes` is where they start. */
static inline __attribute__((always_inline)) const uint8_t *sized_read(
        const uint8_t *at, const uint8_t *end, const uint8_t **bytes, int32_t *size) {
    uint64_t zigzag;
    if (!(at = zigzag_read(at, end, 32, &zigzag)))
        return NULL;
    *bytes = at;
    if (zigzag & 1) {
        *size = -1;
        return zigzag == 1 ? at : NULL;
    }
    *size = (int32_t)(zigzag >> 1);
    return *size <= end - at ? at + *size : NULL;
}

/* All of a record but the contents of its headers, which header_read reads one by one. */
static inline __attribute__((always_inline)) const uint8_t *record_read(
        const uint8_t *at, const uint8_t *end, record_view *record) {
    uint64_t zigzag;
    if (!(at = zigzag_read(at, end, 32, &zigzag)))
        return NULL;
    if (zigzag & 1 || !zigzag || (int64_t)(zigzag >> 1) > end - at)
        return NULL;
    end = at + (zigzag >> 1);
    record->attributes = (int8_t)*at++;
    if (!(at = zigzag_read(at, end, 64, &zigzag)))
        return NULL;
    record->timestamp_delta = from_zigzag(zigzag);
    if (!(at = zigzag_read(at, end, 32, &zigzag)))
        return NULL;
    record->offset_delta = (int32_t)from_zigzag(zigzag);
    if (!(at = sized_read(at, end, &record->key, &record->key_size)))
        return NULL;
    if (!(at = sized_read(at, end, &record->value, &record->value_size)))
        return NULL;
    if (!(at = zigzag_read(at, end, 32, &zigzag)))
        return NULL;
    uint64_t count = zigzag >> 1;
    if (zigzag & 1 || count > (uint64_t)(end - at) / HEADER_BYTES_MIN || (!count && at != end))
        return NULL;
    record->header_count = (int32_t)count;
    record->headers = at;
    record->end = end;
    return end;
}

/* A header but for whether its key is UTF-8. */
static inline const uint8_t *header_read(
        const uint8_t *at, const uint8_t *end, header_view *header) {
    if (!(at = sized_read(at, end, &header->key, &header->key_size)) || header->key_size < 0)
        return NULL;
    return sized_read(at, end, &header->value, &header->value_size);
}

#endif
