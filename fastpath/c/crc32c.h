/* CRC-32C (Castagnoli), reflected, as Kafka's record batches and iSCSI have it. */
#ifndef KRAFTSPEC_CRC32C_H
#define KRAFTSPEC_CRC32C_H

#include <stddef.h>
#include <stdint.h>

static uint32_t crc32c_table[256];

static void crc32c_start(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0x82F63B78u & (0u - (crc & 1u)));
        crc32c_table[byte] = crc;
    }
}

/* The CRC of what `crc` covers followed by `size` bytes; 0 covers nothing. */
static uint32_t crc32c_extend(uint32_t crc, const uint8_t *bytes, size_t size) {
    crc = ~crc;
    while (size--)
        crc = (crc >> 8) ^ crc32c_table[(crc ^ *bytes++) & 0xFF];
    return ~crc;
}

#endif
