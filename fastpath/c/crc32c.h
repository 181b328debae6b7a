/* CRC-32C (Castagnoli), reflected, as Kafka's record batches and iSCSI (RFC 3720) have it.
 *
 *     crc32c_start()                     once, before all else: makes the tables, asks the CPU
 *     crc32c_extend(crc, bytes, size)    the CRC of what `crc` covers followed by these bytes
 *     crc32c_combine(a, b, size_of_b)    the CRC of two runs of bytes, from the CRC of each
 *     crc32c_paths[]                     the ways to do it, fastest first; `runs` is set by start
 *
 * A CRC is a polynomial over GF(2) modulo P = x^32 + x^28 + ... + 1 (0x11EDC6F41). "Reflected":
 * in a uint32_t, bit 0 is the coefficient of x^31, so 0x80000000 is 1 and a right shift is a
 * multiplication by x.
 *
 * For tests, -DCRC32C_SKIPPED=2 does without the two fastest that the CPU has, and
 * -DCRC32C_NO_HARDWARE compiles the table alone, as on other CPUs.
 */
#ifndef KRAFTSPEC_CRC32C_H
#define KRAFTSPEC_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef CRC32C_SKIPPED
#define CRC32C_SKIPPED 0
#endif
#define CRC32C_ONE 0x80000000u
#define CRC32C_POLYNOMIAL 0x82F63B78u /* P without x^32, reflected. */

typedef uint32_t crc32c_extender(uint32_t crc, const uint8_t *bytes, size_t size);

struct crc32c_path {
    const char *name;
    crc32c_extender *extend;
    int runs;
};

static uint32_t crc32c_slices[8][256]; /* [i][byte]: the byte, followed by i zero bytes. */

static inline uint64_t crc32c_word(const uint8_t *bytes) {
    uint64_t word;
    memcpy(&word, bytes, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

static inline uint32_t crc32c_half(const uint8_t *bytes) {
    uint32_t half;
    memcpy(&half, bytes, 4);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    half = __builtin_bswap32(half);
#endif
    return half;
}

/* Multiply two polynomials modulo P. */
static inline uint32_t crc32c_multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (int bit = 31; bit >= 0; bit--) {
        product ^= a & (0u - (b >> bit & 1u));
        a = (a >> 1) ^ (CRC32C_POLYNOMIAL & (0u - (a & 1u)));
    }
    return product;
}

/* Slicing-by-8 (Kounavis and Berry, 2005): one lookup a byte, and the eight do not wait in line. */
static uint32_t crc32c_table(uint32_t crc, const uint8_t *bytes, size_t size) {
    crc = ~crc;
    for (; size >= 8; size -= 8, bytes += 8) {
        const uint64_t word = crc32c_word(bytes) ^ crc;
        crc = 0;
        for (int i = 0; i < 8; i++)
            crc ^= crc32c_slices[7 - i][word >> (8 * i) & 255];
    }
    for (; size; size--, bytes++)
        crc = (crc >> 8) ^ crc32c_slices[0][(crc ^ *bytes) & 255];
    return ~crc;
}

static void crc32c_start_slices(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (CRC32C_POLYNOMIAL & (0u - (crc & 1u)));
        crc32c_slices[0][byte] = crc;
    }
    for (int i = 1; i < 8; i++)
        for (int byte = 0; byte < 256; byte++) {
            const uint32_t crc = crc32c_slices[i - 1][byte];
            crc32c_slices[i][byte] = (crc >> 8) ^ crc32c_slices[0][crc & 255];
        }
}

#if !defined(CRC32C_NO_HARDWARE) && defined(__GNUC__)
#if defined(__x86_64__)
#include "crc32c_x86.h"
#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include "crc32c_arm.h"
#endif
#endif
#ifndef CRC32C_HARDWARE_PATHS
#define CRC32C_HARDWARE_PATHS
static void crc32c_start_hardware(struct crc32c_path *path) { (void)path; }
#endif

static struct crc32c_path crc32c_paths[] = {
    CRC32C_HARDWARE_PATHS
    {"table", crc32c_table, 1},
};
enum { CRC32C_PATHS = sizeof crc32c_paths / sizeof crc32c_paths[0] };

static const struct crc32c_path *crc32c_chosen;
static uint32_t crc32c_zeros[64]; /* [i]: x^(8 * 2^i), which 2^i zero bytes multiply a CRC by. */

static void crc32c_start(void) {
    crc32c_start_slices();
    crc32c_zeros[0] = CRC32C_ONE >> 8;
    for (int i = 1; i < 64; i++)
        crc32c_zeros[i] = crc32c_multiply(crc32c_zeros[i - 1], crc32c_zeros[i - 1]);
    crc32c_start_hardware(crc32c_paths);
    int skipped = 0;
    for (int i = 0; i < CRC32C_PATHS - 1; i++)
        if (crc32c_paths[i].runs && skipped++ < CRC32C_SKIPPED)
            crc32c_paths[i].runs = 0;
    crc32c_chosen = crc32c_paths;
    while (!crc32c_chosen->runs)
        crc32c_chosen++;
}

static inline uint32_t crc32c_extend(uint32_t crc, const uint8_t *bytes, size_t size) {
    return crc32c_chosen->extend(crc, bytes, size);
}

static inline uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t length_b) {
    for (int i = 0; length_b; i++, length_b >>= 1)
        if (length_b & 1)
            crc_a = crc32c_multiply(crc_a, crc32c_zeros[i]);
    return crc_a ^ crc_b;
}

#endif
