/* Reading bytes as fast as a core can: what CRC-32C is measured against. */
#ifndef KRAFTSPEC_CRC32C_READ_H
#define KRAFTSPEC_CRC32C_READ_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Compilers split it where the CPU's vectors are shorter. */
typedef uint64_t read_vector __attribute__((vector_size(64)));

#define READ_NEXT(sum, i) do { \
        memcpy(&next, bytes + 64 * (i), 64); \
        sum += next; \
    } while (0)

static inline __attribute__((always_inline)) uint64_t
read_words(const uint8_t *bytes, size_t size) {
    read_vector next, sum0 = {0}, sum1 = {0}, sum2 = {0}, sum3 = {0};
    uint64_t total = 0;
    for (; size >= 256; size -= 256, bytes += 256) {
        READ_NEXT(sum0, 0);
        READ_NEXT(sum1, 1);
        READ_NEXT(sum2, 2);
        READ_NEXT(sum3, 3);
    }
    sum0 += sum1 + sum2 + sum3;
    for (int i = 0; i < 8; i++)
        total += sum0[i];
    for (; size >= 8; size -= 8, bytes += 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        total += word;
    }
    while (size--)
        total += *bytes++;
    return total;
}

#ifdef __x86_64__
__attribute__((target("avx512f"))) static uint64_t
read_words_avx512(const uint8_t *bytes, size_t size) {
    return read_words(bytes, size);
}
__attribute__((target("avx2"))) static uint64_t
read_words_avx2(const uint8_t *bytes, size_t size) {
    return read_words(bytes, size);
}
#endif

/* The sum of the words, and of the bytes that are left. */
static uint64_t read_all(const uint8_t *bytes, size_t size) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        return read_words_avx512(bytes, size);
    if (__builtin_cpu_supports("avx2"))
        return read_words_avx2(bytes, size);
#endif
    return read_words(bytes, size);
}

#endif
