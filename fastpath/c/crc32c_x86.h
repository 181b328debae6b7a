/* CRC-32C on x86-64: the paths of four generations, each compiled for its own instructions.
 *
 *     sse4.2     crc32
 *     pclmul     crc32 and pclmulqdq together, vectors of 16 bytes
 *     avx512vl   the same; three operands, and two exclusive ors in one instruction
 *     vpclmul    four multiplications in one instruction, vectors of 64 bytes
 */
#include <immintrin.h>

#include "crc32c_keys.h"

#define CRC32C_WORD _mm_crc32_u64
#define CRC32C_HALF _mm_crc32_u32
#define CRC32C_BYTE _mm_crc32_u8
#define CRC32C_MULTIPLY(crc, key) ((uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128( \
        _mm_cvtsi32_si128((int)(crc)), _mm_cvtsi32_si128((int)(key)), 0)))

#define CRC32C_NAME crc32c_sse42
#define CRC32C_TARGET __attribute__((target("sse4.2")))
#include "crc32c_streams.h"

/* Vectors of 16 bytes. */
#define CRC32C_WORDS 3
#define CRC32C_FOLDED_MIN_BYTES 128
#define CRC32C_FUSED_MIN_BYTES 1024
#define CRC32C_SWEPT_FROM_BYTES SIZE_MAX
#define CRC32C_VECTOR __m128i
#define CRC32C_REGISTER(v) "+x"(v)
#define CRC32C_KEYS(high, low) _mm_set_epi32(0, (int)(high), 0, (int)(low))
#define CRC32C_BY_ONE CRC32C_KEYS(CRC32C_X95, CRC32C_X159)
#define CRC32C_BY_TWO CRC32C_KEYS(CRC32C_X223, CRC32C_X287)
#define CRC32C_BY_FOUR CRC32C_KEYS(CRC32C_X479, CRC32C_X543)
#define CRC32C_LOAD(bytes) _mm_loadu_si128((const __m128i *)(bytes))
#define CRC32C_XOR _mm_xor_si128
#define CRC32C_SEED(crc) _mm_cvtsi32_si128((int)(crc))
#define CRC32C_SUM __m128i
#define CRC32C_REDUCE(v) (v)
#define CRC32C_LOW(sum) ((uint64_t)_mm_cvtsi128_si64(sum))
#define CRC32C_HIGH(sum) ((uint64_t)_mm_extract_epi64(sum, 1))

#define CRC32C_NAME crc32c_pclmul
#define CRC32C_TARGET __attribute__((target("sse4.2,pclmul")))
#define CRC32C_FOLD(v, keys, next) _mm_xor_si128(_mm_clmulepi64_si128(v, keys, 0x11), \
        _mm_xor_si128(_mm_clmulepi64_si128(v, keys, 0x00), next))
#include "crc32c_fused.h"

#define CRC32C_XOR3 0x96 /* The truth table of a ^ b ^ c. */
#define CRC32C_NAME crc32c_avx512vl
#define CRC32C_TARGET __attribute__((target("sse4.2,pclmul,avx512vl")))
#define CRC32C_FOLD(v, keys, next) _mm_ternarylogic_epi64(_mm_clmulepi64_si128(v, keys, 0x11), \
        _mm_clmulepi64_si128(v, keys, 0x00), next, CRC32C_XOR3)
#include "crc32c_fused.h"

/* Vectors of 64 bytes: four of 16 that are moved together. */
#undef CRC32C_WORDS
#undef CRC32C_FOLDED_MIN_BYTES
#undef CRC32C_FUSED_MIN_BYTES
#undef CRC32C_SWEPT_FROM_BYTES
#undef CRC32C_VECTOR
#undef CRC32C_REGISTER
#undef CRC32C_BY_ONE
#undef CRC32C_BY_TWO
#undef CRC32C_BY_FOUR
#undef CRC32C_LOAD
#undef CRC32C_XOR
#undef CRC32C_SEED
#undef CRC32C_REDUCE
#define CRC32C_WORDS 4
#define CRC32C_FOLDED_MIN_BYTES 256
#define CRC32C_FUSED_MIN_BYTES 3072
/* Main memory is slower than folding alone is, and fastest in one sweep. */
#define CRC32C_SWEPT_FROM_BYTES ((size_t)48 << 20)
#define CRC32C_VECTOR __m512i
#define CRC32C_REGISTER(v) "+v"(v)
#define CRC32C_BY_ONE _mm512_broadcast_i32x4(CRC32C_KEYS(CRC32C_X479, CRC32C_X543))
#define CRC32C_BY_TWO _mm512_broadcast_i32x4(CRC32C_KEYS(CRC32C_X991, CRC32C_X1055))
#define CRC32C_BY_FOUR _mm512_broadcast_i32x4(CRC32C_KEYS(CRC32C_X2015, CRC32C_X2079))
#define CRC32C_LOAD(bytes) _mm512_loadu_si512(bytes)
#define CRC32C_XOR _mm512_xor_si512
#define CRC32C_SEED(crc) _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)(crc)))
#define CRC32C_REDUCE crc32c_quarters

#define CRC32C_SHORTER crc32c_avx512vl
#define CRC32C_NAME crc32c_vpclmul
#define CRC32C_TARGET __attribute__((target("sse4.2,pclmul,avx512vl,vpclmulqdq")))
#define CRC32C_FOLD(v, keys, next) _mm512_ternarylogic_epi64( \
        _mm512_clmulepi64_epi128(v, keys, 0x11), _mm512_clmulepi64_epi128(v, keys, 0x00), \
        next, CRC32C_XOR3)

/* Move the first three quarters of a vector to where the last one stands. */
CRC32C_TARGET static inline __m128i crc32c_quarters(__m512i v) {
    const __m512i keys = _mm512_set_epi32(
        0, 0, 0, 0, 0, CRC32C_X95, 0, (int)CRC32C_X159,
        0, (int)CRC32C_X223, 0, CRC32C_X287, 0, (int)CRC32C_X351, 0, CRC32C_X415);
    const __m512i moved = CRC32C_FOLD(v, keys, _mm512_setzero_si512());
    return _mm_ternarylogic_epi64(
        _mm_xor_si128(_mm512_castsi512_si128(moved), _mm512_extracti32x4_epi32(moved, 1)),
        _mm512_extracti32x4_epi32(moved, 2), _mm512_extracti32x4_epi32(v, 3), CRC32C_XOR3);
}
#include "crc32c_fused.h"

#define CRC32C_HARDWARE_PATHS \
    {"vpclmul", crc32c_vpclmul, 0}, \
    {"avx512vl", crc32c_avx512vl, 0}, \
    {"pclmul", crc32c_pclmul, 0}, \
    {"sse4.2", crc32c_sse42, 0},

/* The builtin also checks that the operating system saves the wide registers. */
static void crc32c_start_hardware(struct crc32c_path *path) {
    __builtin_cpu_init();
    const int sse42 = __builtin_cpu_supports("sse4.2") != 0;
    const int pclmul = sse42 && __builtin_cpu_supports("pclmul");
    const int avx512vl = pclmul && __builtin_cpu_supports("avx512vl");
    const int vpclmul = avx512vl && __builtin_cpu_supports("vpclmulqdq");
    crc32c_start_run();
    crc32c_start_shift();
    path[0].runs = vpclmul;
    path[1].runs = avx512vl;
    path[2].runs = pclmul;
    path[3].runs = sse42;
}
