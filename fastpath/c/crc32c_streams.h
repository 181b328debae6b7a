/* A template: CRC-32C by the crc32 instruction alone, over three streams at once.
 *
 * The instruction takes a word a cycle but answers after two or three, so one stream would use a
 * third of it. A block is three runs of CRC32C_RUN_BYTES, each with a CRC of its own; four lookups
 * (crc32c_run) multiply a CRC by x^(8 * CRC32C_RUN_BYTES), which is to let that many zero bytes
 * follow it, and then the next run's CRC is added.
 *
 * The including file defines CRC32C_NAME, CRC32C_TARGET, CRC32C_WORD and CRC32C_BYTE.
 */
#define CRC32C_RUN_BYTES 256

static uint32_t crc32c_run[4][256]; /* [i][byte]: the byte << 8 * i, times x^(8 * 256). */

static void crc32c_start_run(void) {
    uint32_t key = CRC32C_ONE;
    for (int bit = 0; bit < 8 * CRC32C_RUN_BYTES; bit++)
        key = (key >> 1) ^ (CRC32C_POLYNOMIAL & (0u - (key & 1u)));
    for (int bit = 0; bit < 32; bit++) {
        const uint32_t product = crc32c_multiply((uint32_t)1 << bit, key);
        uint32_t *row = crc32c_run[bit / 8];
        for (int low = 0; low < 1 << bit % 8; low++)
            row[low | 1 << bit % 8] = row[low] ^ product;
    }
}

static inline uint64_t crc32c_after_run(uint64_t crc) {
    return crc32c_run[0][crc & 255] ^ crc32c_run[1][crc >> 8 & 255]
           ^ crc32c_run[2][crc >> 16 & 255] ^ crc32c_run[3][crc >> 24];
}

CRC32C_TARGET static uint32_t CRC32C_NAME(uint32_t crc, const uint8_t *bytes, size_t size) {
    uint64_t crc0 = (uint32_t)~crc;
    while (size >= 3 * CRC32C_RUN_BYTES) {
        const uint8_t *end = bytes + CRC32C_RUN_BYTES;
        uint64_t crc1 = 0, crc2 = 0;
        for (; bytes < end; bytes += 8) {
            crc0 = CRC32C_WORD(crc0, crc32c_word(bytes));
            crc1 = CRC32C_WORD(crc1, crc32c_word(bytes + CRC32C_RUN_BYTES));
            crc2 = CRC32C_WORD(crc2, crc32c_word(bytes + 2 * CRC32C_RUN_BYTES));
        }
        crc0 = crc32c_after_run(crc32c_after_run(crc0) ^ crc1) ^ crc2;
        bytes += 2 * CRC32C_RUN_BYTES;
        size -= 3 * CRC32C_RUN_BYTES;
    }
    for (; size >= 8; size -= 8, bytes += 8)
        crc0 = CRC32C_WORD(crc0, crc32c_word(bytes));
    if (size >= 4) {
        crc0 = CRC32C_HALF((uint32_t)crc0, crc32c_half(bytes));
        size -= 4;
        bytes += 4;
    }
    for (; size; size--, bytes++)
        crc0 = CRC32C_BYTE((uint32_t)crc0, *bytes);
    return ~(uint32_t)crc0;
}

#undef CRC32C_NAME
#undef CRC32C_TARGET
