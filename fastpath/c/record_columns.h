/* Records of many batches as columns in the layouts of Arrow.
 *
 *   fixed     one little array of int8, int16, int32 or int64
 *   flags     a bit a row, from the least significant on
 *   view      16 bytes a row: int32 length, then up to 12 bytes in place; or, of longer ones,
 *             4 bytes of prefix, int32 window, int32 offset in it
 *   binary    the end of each row's bytes as int32 (large: int64), one more than rows, then bytes
 *   headers   the end of each row's headers as int32; below it the columns of keys and of values
 *
 * A window is a run of bytes that views point into: of the input, which is not copied, or a
 * decompressed block. Its offsets are int32, so a long input has several. */
#ifndef KRAFTSPEC_RECORD_COLUMNS_H
#define KRAFTSPEC_RECORD_COLUMNS_H

#include <stdlib.h>

#include "record_read.h"

/* In the order of COLUMNS in columns.py. */
enum {
    OFFSET, TIMESTAMP, TIMESTAMP_TYPE, LEADER_EPOCH, KEY, VALUE, HEADERS, IS_CONTROL,
    IS_TRANSACTIONAL, PRODUCER_ID, PRODUCER_EPOCH, SEQUENCE, POSITION, COMPRESSION, COLUMN_COUNT
};
enum { VIEW, BINARY, LARGE_BINARY };
enum { STOP_END, STOP_LIMIT, STOP_REFUSED, STOP_COMPRESSED, STOP_MEMORY, GOES_ON };
enum { VIEW_BYTES = 16, VIEW_INLINE_MAX = 12, SLACK = 16,
    PREFETCH_BYTES = 1024, ROWS_EXPECTED_MAX = 1 << 20 };

/* Bytes a row of the fixed columns; 0 for those of other layouts. */
static const uint8_t fixed_width[COLUMN_COUNT] = { 8, 8, 1, 4, 0, 0, 0, 0, 0, 8, 2, 4, 8, 1 };

typedef struct {
    uint8_t *slots, *valid, *bytes;
    int64_t nulls, used, room;  /* Of `bytes`: how many are used, and how many there are. */
} bytes_column;

typedef struct {
    const uint8_t *base;
    int64_t size;
} window;

typedef struct {
    uint32_t wanted;
    int layout, is_micro;
    int64_t rows, rows_room, headers, headers_room;
    uint8_t *plain[COLUMN_COUNT];  /* Fixed columns and flags. */
    uint8_t *header_ends;
    bytes_column key, value, header_key, header_value;
    window *windows;
    int32_t window_count, window_room, input_window;
} record_columns;

typedef struct {  /* The state before a batch, to go back to when it is rejected. */
    int64_t rows, headers, nulls[4], used[4];
} columns_mark;

static inline int wants(const record_columns *columns, int column) {
    return columns->wanted >> column & 1;
}

static int grow(uint8_t **memory, int64_t bytes) {
    uint8_t *grown = (uint8_t *)realloc(*memory, (size_t)(bytes ? bytes : 1));
    if (grown)
        *memory = grown;
    return grown != NULL;
}

static inline int64_t bits_bytes(int64_t bits) {
    return (bits + 7) / 8;
}

/* Room for `rows` in all, up from `before`; new bits are set, and the first end is 0. */
static int bytes_column_grow(bytes_column *column, int layout, int64_t before, int64_t rows) {
    int64_t width = layout == VIEW ? VIEW_BYTES : layout == BINARY ? 4 : 8;
    int is_first = column->slots == NULL;
    if (!grow(&column->slots, width * (rows + (layout != VIEW))))
        return 0;
    if (is_first && layout != VIEW)
        memset(column->slots, 0, (size_t)width);
    if (!grow(&column->valid, bits_bytes(rows)))
        return 0;
    int64_t whole = is_first ? 0 : bits_bytes(before);
    memset(column->valid + whole, 0xFF, (size_t)(bits_bytes(rows) - whole));
    return 1;
}

static int columns_reserve(record_columns *columns, int64_t rows, int64_t expected) {
    int64_t before = columns->rows_room, room = before * 2;
    if (rows <= before && columns->windows)
        return 1;
    room = room < rows ? rows : room;
    room = room < expected ? expected : room;
    if (!columns->windows && !(columns->windows = (window *)malloc(sizeof(window))))
        return 0;
    columns->window_room = columns->window_room ? columns->window_room : 1;
    for (int column = 0; column < COLUMN_COUNT; column++) {
        int64_t width = fixed_width[column];
        int is_flag = column == IS_CONTROL || column == IS_TRANSACTIONAL;
        if (wants(columns, column) && (width || is_flag)
                && !grow(&columns->plain[column], is_flag ? bits_bytes(room) : width * room))
            return 0;
    }
    if (wants(columns, KEY) && !bytes_column_grow(&columns->key, columns->layout, before, room))
        return 0;
    if (wants(columns, VALUE)
            && !bytes_column_grow(&columns->value, columns->layout, before, room))
        return 0;
    if (wants(columns, HEADERS)) {
        int is_first = columns->header_ends == NULL;
        if (!grow(&columns->header_ends, 4 * (room + 1)))
            return 0;
        if (is_first) {
            memset(columns->header_ends, 0, 4);
            if (!bytes_column_grow(&columns->header_key, BINARY, 0, 1)
                    || !bytes_column_grow(&columns->header_value, columns->layout, 0, 1))
                return 0;
            columns->headers_room = 1;
        }
    }
    columns->rows_room = room;
    return 1;
}

static int headers_reserve(record_columns *columns, int64_t headers) {
    int64_t before = columns->headers_room, room = before * 2 < headers ? headers : before * 2;
    if (headers <= before)
        return 1;
    if (!bytes_column_grow(&columns->header_key, BINARY, before, room)
            || !bytes_column_grow(&columns->header_value, columns->layout, before, room))
        return 0;
    columns->headers_room = room;
    return 1;
}

/* Room for the bytes of one more block: STOP_LIMIT when int32 ends could not address them. */
static int bytes_reserve(bytes_column *column, int layout, int64_t size) {
    int64_t need = column->used + size + SLACK;
    if (layout == VIEW)
        return GOES_ON;
    if (layout == BINARY && need - SLACK > INT32_MAX)
        return STOP_LIMIT;
    if (need > column->room) {
        int64_t room = column->room * 2 < need ? need : column->room * 2;
        if (!grow(&column->bytes, room))
            return STOP_MEMORY;
        column->room = room;
    }
    return GOES_ON;
}

static int block_reserve(record_columns *columns, int64_t size) {
    int stop = GOES_ON;
    if (wants(columns, KEY))
        stop = bytes_reserve(&columns->key, columns->layout, size);
    if (stop == GOES_ON && wants(columns, VALUE))
        stop = bytes_reserve(&columns->value, columns->layout, size);
    if (stop == GOES_ON && wants(columns, HEADERS)) {
        if (columns->headers + size / HEADER_BYTES_MIN > INT32_MAX)
            return STOP_LIMIT;
        stop = bytes_reserve(&columns->header_key, BINARY, size);
        if (stop == GOES_ON)
            stop = bytes_reserve(&columns->header_value, columns->layout, size);
    }
    return stop;
}

/* The window that starts at `base`, new; -1 when there is no memory for it. */
static int32_t window_open(record_columns *columns, const uint8_t *base, int64_t size) {
    if (columns->window_count == columns->window_room) {
        size_t room = (size_t)columns->window_room * 2;
        window *grown = (window *)realloc(columns->windows, room * sizeof(window));
        if (!grown)
            return -1;
        columns->windows = grown;
        columns->window_room = (int32_t)room;
    }
    columns->windows[columns->window_count] = (window){ base, size };
    return columns->window_count++;
}

/* The window of the input that reaches to `end`, and in which int32 can address all of `at` on. */
static int32_t window_of_input(record_columns *columns, const uint8_t *at, const uint8_t *end) {
    int32_t index = columns->input_window;
    if (index < 0 || end - columns->windows[index].base > INT32_MAX)
        columns->input_window = index = window_open(columns, at, 0);
    if (index >= 0)
        columns->windows[index].size = end - columns->windows[index].base;
    return index;
}

/* The first `size` bytes, at most 16, as words whose rest is zero. */
static inline void short_words(const uint8_t *bytes, const uint8_t *end, int32_t size,
                               uint64_t words[2]) {
    if (LIKELY(end - bytes >= 16)) {
        memcpy(words, bytes, 16);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        words[1] = size > 8 ? words[1] & ~(uint64_t)0 >> (128 - 8 * size) : 0;
        words[0] = size > 7 ? words[0] : words[0] & (((uint64_t)1 << 8 * size) - 1);
        return;
#endif
    }
    words[0] = words[1] = 0;
    memcpy(words, bytes, (size_t)size);
}

/* `end` is that of the block, up to which bytes may be read. */
static inline __attribute__((always_inline)) void bytes_put(
        bytes_column *column, int layout, int64_t row, const uint8_t *bytes, int32_t size,
        const uint8_t *end, const uint8_t *base, int32_t window) {
    if (size < 0) {
        column->valid[row >> 3] &= (uint8_t)~(1u << (row & 7));
        column->nulls++;
        size = 0;
    }
    if (layout == VIEW) {
        uint8_t *slot = column->slots + VIEW_BYTES * row;
        uint32_t words[3];
        memcpy(slot, &size, 4);
        if (size <= VIEW_INLINE_MAX) {
            uint64_t content[2];
            short_words(bytes, end, size, content);
            memcpy(slot + 4, content, 12);
            return;
        }
        memcpy(words, bytes, 4);
        words[1] = (uint32_t)window;
        words[2] = (uint32_t)(bytes - base);
        memcpy(slot + 4, words, sizeof words);
        return;
    }
    if (size <= 16 && LIKELY(end - bytes >= 16))
        memcpy(column->bytes + column->used, bytes, 16);  /* There is SLACK for it. */
    else
        memcpy(column->bytes + column->used, bytes, (size_t)size);
    column->used += size;
    if (layout == BINARY)
        ((int32_t *)column->slots)[row + 1] = (int32_t)column->used;
    else
        ((int64_t *)column->slots)[row + 1] = column->used;
}

/* Strict UTF-8, as Python's: no overlong forms, no surrogates, nothing above U+10FFFF. */
static int is_utf8(const uint8_t *at, int32_t size, const uint8_t *limit) {
    const uint8_t *end = at + size;
    if (size <= 16) {
        uint64_t words[2];
        short_words(at, limit, size, words);
        if (!((words[0] | words[1]) & 0x8080808080808080u))
            return 1;
    }
    while (at < end) {
        uint8_t lead = *at++;
        if (lead < 0x80)
            continue;
        int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
        if (lead < 0xC2 || lead > 0xF4 || end - at < more)
            return 0;
        uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
        uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
        if (*at < low || *at > high)
            return 0;
        for (at++; --more; at++)
            if ((*at & 0xC0) != 0x80)
                return 0;
    }
    return 1;
}

static inline __attribute__((always_inline)) int headers_put(
        record_columns *columns, const record_view *record, int layout, const uint8_t *end,
        const uint8_t *base, int32_t window) {
    const uint8_t *at = record->headers;
    int64_t row = columns->headers;
    int is_wanted = wants(columns, HEADERS);
    if (is_wanted && !headers_reserve(columns, row + record->header_count))
        return STOP_MEMORY;
    for (int32_t index = 0; index < record->header_count; index++, row++) {
        header_view header;
        if (!(at = header_read(at, record->end, &header)) 
                || !is_utf8(header.key, header.key_size, end))
            return STOP_REFUSED;
        if (is_wanted) {
            bytes_put(&columns->header_key, BINARY, row, header.key, header.key_size, end, base, 0);
            bytes_put(&columns->header_value, layout, row, header.value, header.value_size, end,
                      base, window);
        }
    }
    if (is_wanted)
        columns->headers = row;
    return at == record->end ? GOES_ON : STOP_REFUSED;
}

static inline int64_t microseconds(int64_t milliseconds) {
    if (milliseconds > INT64_MAX / 1000)
        return INT64_MAX;
    return milliseconds < INT64_MIN / 1000 ? INT64_MIN : milliseconds * 1000;
}

/* DefaultRecordBatch.incrementSequence: a sequence goes on at 0 after the largest int32. */
static inline int32_t record_sequence(const batch_view *batch, int32_t delta) {
    return batch->base_sequence < 0
        ? -1 : (int32_t)(((uint32_t)batch->base_sequence + (uint32_t)delta) & INT32_MAX);
}

/* One row for each record between `at` and `end`; there is room for them. */
static inline __attribute__((always_inline)) int rows_put(
        record_columns *columns, const batch_view *batch, const uint8_t *at, const uint8_t *end,
        const uint8_t *base, int32_t window, int layout) {
    int64_t row = columns->rows, *offsets = (int64_t *)columns->plain[OFFSET];
    int64_t *timestamps = (int64_t *)columns->plain[TIMESTAMP];
    int32_t *sequences = (int32_t *)columns->plain[SEQUENCE], delta = -1;
    int has_key = wants(columns, KEY), has_value = wants(columns, VALUE);
    int has_headers = wants(columns, HEADERS), is_micro = columns->is_micro;
    for (int32_t left = batch->record_count; left; left--, row++) {
        record_view record;
        if (UNLIKELY(!(at = record_read(at, end, &record))) || record.offset_delta <= delta
                || record.offset_delta > batch->last_offset_delta)
            return STOP_REFUSED;
        delta = record.offset_delta;
        __builtin_prefetch((const void *)((uintptr_t)at + PREFETCH_BYTES));
        if (offsets)
            offsets[row] = wrapping_add(batch->base_offset, delta);
        if (timestamps) {
            int64_t stamp = record_timestamp(batch, record.timestamp_delta);
            timestamps[row] = is_micro ? microseconds(stamp) : stamp;
        }
        if (sequences)
            sequences[row] = record_sequence(batch, delta);
        if (has_key)
            bytes_put(&columns->key, layout, row, record.key, record.key_size, end, base, window);
        if (has_value)
            bytes_put(&columns->value, layout, row, record.value, record.value_size, end, base,
                      window);
        if (record.header_count) {
            int stop = headers_put(columns, &record, layout, end, base, window);
            if (stop != GOES_ON)
                return stop;
        }
        if (has_headers)
            ((int32_t *)columns->header_ends)[row + 1] = (int32_t)columns->headers;
    }
    return at == end ? GOES_ON : STOP_REFUSED;
}

static void fill(uint8_t *column, int64_t width, int64_t from, int64_t to, int64_t value) {
    if (!column)
        return;
    if (width == 1)
        memset(column + from, (int)value, (size_t)(to - from));
    else if (width == 2)
        for (int64_t row = from; row < to; row++) ((int16_t *)column)[row] = (int16_t)value;
    else if (width == 4)
        for (int64_t row = from; row < to; row++) ((int32_t *)column)[row] = (int32_t)value;
    else
        for (int64_t row = from; row < to; row++) ((int64_t *)column)[row] = value;
}

static void fill_bits(uint8_t *bits, int64_t from, int64_t to, int is_set) {
    while (bits && from < to) {
        if (!(from & 7) && to - from >= 8) {
            memset(bits + (from >> 3), is_set ? 0xFF : 0, (size_t)((to - from) >> 3));
            from += (to - from) & ~(int64_t)7;
            continue;
        }
        uint8_t bit = (uint8_t)(1u << (from & 7));
        bits[from >> 3] = is_set ? bits[from >> 3] | bit : bits[from >> 3] & (uint8_t)~bit;
        from++;
    }
}

/* What is the same for all records of a batch. */
static void batch_put(
        record_columns *columns, const batch_view *batch, int64_t position, int64_t from) {
    int64_t to = columns->rows;
    uint8_t **plain = columns->plain;
    fill(plain[TIMESTAMP_TYPE], 1, from, to, (batch->attributes & LOG_APPEND_TIME) != 0);
    fill(plain[LEADER_EPOCH], 4, from, to, batch->leader_epoch);
    fill_bits(plain[IS_CONTROL], from, to, batch->attributes & CONTROL);
    fill_bits(plain[IS_TRANSACTIONAL], from, to, batch->attributes & TRANSACTIONAL);
    fill(plain[PRODUCER_ID], 8, from, to, batch->producer_id);
    fill(plain[PRODUCER_EPOCH], 2, from, to, batch->producer_epoch);
    fill(plain[POSITION], 8, from, to, position);
    fill(plain[COMPRESSION], 1, from, to, batch->attributes & COMPRESSION_MASK);
}

static void bytes_columns_of(record_columns *columns, bytes_column *found[4]) {
    found[0] = &columns->key;
    found[1] = &columns->value;
    found[2] = &columns->header_key;
    found[3] = &columns->header_value;
}

/* Add the records of one batch, all or none of them; `window` is -1 for those of the input. */
static int block_put(
        record_columns *columns, const batch_view *batch, int64_t position, int64_t expected,
        const uint8_t *at, const uint8_t *end, int is_input) {
    int32_t count = batch->record_count;
    if (count < 0 || count > (end - at) / RECORD_BYTES_MIN)
        return STOP_REFUSED;
    if (!columns_reserve(columns, columns->rows + count, expected))
        return STOP_MEMORY;
    int stop = block_reserve(columns, end - at);
    if (stop != GOES_ON)
        return stop;
    int32_t window = 0;
    if (columns->layout == VIEW) {
        window = is_input ? window_of_input(columns, at, end) : window_open(columns, at, end - at);
        if (window < 0)
            return STOP_MEMORY;
    }
    const uint8_t *base = columns->layout == VIEW ? columns->windows[window].base : at;
    columns_mark mark = { columns->rows, columns->headers, { 0 }, { 0 } };
    bytes_column *parts[4];
    bytes_columns_of(columns, parts);
    for (int part = 0; part < 4; part++) {
        mark.nulls[part] = parts[part]->nulls;
        mark.used[part] = parts[part]->used;
    }
    stop = columns->layout == VIEW ? rows_put(columns, batch, at, end, base, window, VIEW)
        : columns->layout == BINARY ? rows_put(columns, batch, at, end, base, window, BINARY)
        : rows_put(columns, batch, at, end, base, window, LARGE_BINARY);
    if (stop == GOES_ON) {
        columns->rows += count;
        batch_put(columns, batch, position, mark.rows);
        return GOES_ON;
    }
    columns->headers = mark.headers;
    for (int part = 0; part < 4; part++) {
        int is_header = part >= 2;
        parts[part]->nulls = mark.nulls[part];
        parts[part]->used = mark.used[part];
        fill_bits(parts[part]->valid, is_header ? mark.headers : mark.rows,
                  is_header ? columns->headers_room : columns->rows_room, 1);
    }
    return stop;
}

/* Add whole batches from `*position` on; stop before the first that is compressed or refused, and
 * before one that would pass `rows_max`, unless it is the first. */
static int columns_run(
        record_columns *columns, const uint8_t *data, int64_t size, int64_t *position,
        int check_crc, int64_t rows_max, int64_t *batches_left, batch_view *batch) {
    while (*position < size) {
        const uint8_t *at = data + *position, *records = at + RECORDS_AT;
        if (!*batches_left)
            return STOP_LIMIT;
        if (!batch_read(at, data + size, 0, batch))
            return STOP_REFUSED;
        if (columns->rows && batch->record_count > rows_max - columns->rows)
            return STOP_LIMIT;
        if (check_crc && !batch_read(at, data + size, 1, batch))
            return STOP_REFUSED;
        int codec = batch->attributes & COMPRESSION_MASK;
        int has_records = batch->size > RECORDS_AT || batch->record_count;
        if (codec && (codec > COMPRESSION_MAX || has_records))
            return codec > COMPRESSION_MAX ? STOP_REFUSED : STOP_COMPRESSED;
        int64_t expected = 0;
        if (!columns->rows_room && batch->record_count > 0) {
            expected = (size - *position) / batch->size * batch->record_count;
            expected = expected > rows_max ? rows_max : expected;
            expected = expected > ROWS_EXPECTED_MAX ? ROWS_EXPECTED_MAX : expected;
        }
        int stop = block_put(columns, batch, *position, expected, records, at + batch->size, 1);
        if (stop != GOES_ON)
            return stop;
        *position += batch->size;
        --*batches_left;
    }
    return STOP_END;
}

static void columns_free(record_columns *columns) {
    bytes_column *parts[4];
    bytes_columns_of(columns, parts);
    for (int part = 0; part < 4; part++) {
        free(parts[part]->slots);
        free(parts[part]->valid);
        free(parts[part]->bytes);
    }
    for (int column = 0; column < COLUMN_COUNT; column++)
        free(columns->plain[column]);
    free(columns->header_ends);
    free(columns->windows);
}

#endif
