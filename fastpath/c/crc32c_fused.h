/* A template: CRC-32C by carry-less multiplication and by the crc32 instruction at once.
 *
 * The two instructions run on different ports of a core, so a block of input is cut in four, and
 * each round of the loop takes CRC32C_WORDS words from each stream and four vectors from the rest:
 *
 *     | stream 0 | stream 1 | stream 2 | folded: four vectors a round | rest |
 *     |   span   |   span   |   span   |   rounds * 4 vectors         |      |
 *
 * Folding (Gopal, Ozturk et al., "Fast CRC computation using PCLMULQDQ", Intel 2009): a vector
 * that stands D bits before another may be multiplied by x^D modulo the polynomial and added to
 * it. In the end the last vector is all that is left, and its CRC is the CRC of all of them. The
 * three streams' CRCs are multiplied by x^(8 * the bytes after them), and added. The loop does not
 * wait for any of this: the multipliers depend on the sizes only.
 *
 * The including file defines CRC32C_NAME, CRC32C_TARGET, CRC32C_WORDS, CRC32C_FUSED_MIN_BYTES, and
 * CRC32C_VECTOR with its operations (see crc32c_x86.h). CRC32C_SHORTER, if any, is the path for
 * what is too short for these vectors.
 */
#define CRC32C_ROUND_BYTES (24 * CRC32C_WORDS + 4 * sizeof(CRC32C_VECTOR))

#define CRC32C_STREAMS(word) do { \
        crc0 = CRC32C_WORD(crc0, crc32c_word(bytes + 8 * (word))); \
        crc1 = CRC32C_WORD(crc1, crc32c_word(bytes + span + 8 * (word))); \
        crc2 = CRC32C_WORD(crc2, crc32c_word(bytes + 2 * span + 8 * (word))); \
    } while (0)
#define CRC32C_FOLD_NEXT(i) \
        v##i = CRC32C_FOLD(v##i, by_four, CRC32C_LOAD(folded + (i) * sizeof(CRC32C_VECTOR)))
/* Both ports are busy only if both kinds arrive mixed, and compilers sort them: not past this. */
#define CRC32C_MIX(i) \
    __asm__("" : CRC32C_REGISTER(v##i), "+r"(crc0), "+r"(crc1), "+r"(crc2))
#define CRC32C_ROUND do { \
        CRC32C_STREAMS(0); \
        CRC32C_FOLD_NEXT(0); \
        CRC32C_MIX(0); \
        CRC32C_STREAMS(1); \
        CRC32C_FOLD_NEXT(1); \
        CRC32C_MIX(1); \
        CRC32C_STREAMS(2); \
        CRC32C_FOLD_NEXT(2); \
        CRC32C_MIX(2); \
        if (CRC32C_WORDS > 3) \
            CRC32C_STREAMS(3); \
        CRC32C_FOLD_NEXT(3); \
        bytes += 8 * CRC32C_WORDS; \
        folded += QUAD; \
    } while (0)
#define CRC32C_TIMES(a, b) CRC32C_WORD(0, CRC32C_MULTIPLY(a, b))
#define CRC32C_KEY(words) CRC32C_TIMES(crc32c_shift[0][(words) & 127], \
        CRC32C_TIMES(crc32c_shift[1][(words) >> 7 & 127], crc32c_shift[2][(words) >> 14]))

CRC32C_TARGET static uint32_t CRC32C_NAME(uint32_t crc, const uint8_t *bytes, size_t size) {
    enum { VECTOR = sizeof(CRC32C_VECTOR), QUAD = 4 * VECTOR };
    const int prefetch = size >= CRC32C_PREFETCHED_FROM_BYTES;
    const size_t rounds_max = size >= CRC32C_SWEPT_FROM_BYTES ? 0
                              : prefetch ? CRC32C_PREFETCHED_ROUNDS : size;
    uint64_t crc0 = (uint32_t)~crc;

#ifdef CRC32C_SHORTER
    if (size < CRC32C_FOLDED_MIN_BYTES)
        return CRC32C_SHORTER(crc, bytes, size);
#endif
    while (size >= CRC32C_FOLDED_MIN_BYTES) {
        size_t rounds = size >= CRC32C_FUSED_MIN_BYTES ? size / CRC32C_ROUND_BYTES : 0;
        size_t block = size;
        if (rounds > rounds_max) {
            rounds = rounds_max;
            if (rounds)
                block = rounds * CRC32C_ROUND_BYTES;
        }
        const size_t span = rounds * 8 * CRC32C_WORDS;
        const uint8_t *folded = bytes + 3 * span;
        const uint8_t *end = bytes + block;
        const CRC32C_VECTOR by_four = CRC32C_BY_FOUR;
        CRC32C_VECTOR v0 = CRC32C_LOAD(folded);
        CRC32C_VECTOR v1 = CRC32C_LOAD(folded + VECTOR);
        CRC32C_VECTOR v2 = CRC32C_LOAD(folded + 2 * VECTOR);
        CRC32C_VECTOR v3 = CRC32C_LOAD(folded + 3 * VECTOR);
        uint64_t streams = 0;
        folded += QUAD;

        if (rounds) {
            const size_t after = (block - 3 * span) / VECTOR * VECTOR;
            const uint32_t by_span = CRC32C_KEY(span / 8);
            const uint32_t by2 = CRC32C_KEY(after / 8);
            const uint32_t by1 = CRC32C_TIMES(by2, by_span);
            const uint32_t by0 = CRC32C_TIMES(by1, by_span);
            const uint8_t *ahead = bytes + block;
            uint64_t crc1 = 0, crc2 = 0;
            if (prefetch)
                while (--rounds) {
                    CRC32C_ROUND;
                    for (size_t line = 0; line < CRC32C_ROUND_BYTES; line += 64)
                        __builtin_prefetch(ahead + line, 0, 2);
                    ahead += CRC32C_ROUND_BYTES;
                }
            else
                while (--rounds)
                    CRC32C_ROUND;
            CRC32C_STREAMS(0);
            CRC32C_STREAMS(1);
            CRC32C_STREAMS(2);
            if (CRC32C_WORDS > 3)
                CRC32C_STREAMS(3);
            streams = CRC32C_MULTIPLY(crc0, by0) ^ CRC32C_MULTIPLY(crc1, by1)
                      ^ CRC32C_MULTIPLY(crc2, by2);
        } else {
            v0 = CRC32C_XOR(v0, CRC32C_SEED(crc0));
        }

        for (; end - folded >= QUAD; folded += QUAD) {
            CRC32C_FOLD_NEXT(0);
            CRC32C_FOLD_NEXT(1);
            CRC32C_FOLD_NEXT(2);
            CRC32C_FOLD_NEXT(3);
        }
        v1 = CRC32C_FOLD(v0, CRC32C_BY_ONE, v1);
        v3 = CRC32C_FOLD(v2, CRC32C_BY_ONE, v3);
        v3 = CRC32C_FOLD(v1, CRC32C_BY_TWO, v3);
        for (; end - folded >= VECTOR; folded += VECTOR)
            v3 = CRC32C_FOLD(v3, CRC32C_BY_ONE, CRC32C_LOAD(folded));

        const CRC32C_SUM sum = CRC32C_REDUCE(v3);
        crc0 = CRC32C_WORD(CRC32C_WORD(0, CRC32C_LOW(sum)), CRC32C_HIGH(sum) ^ streams);
        size -= (size_t)(folded - (end - block));
        bytes = folded;
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

#undef CRC32C_ROUND_BYTES
#undef CRC32C_STREAMS
#undef CRC32C_FOLD_NEXT
#undef CRC32C_MIX
#undef CRC32C_ROUND
#undef CRC32C_TIMES
#undef CRC32C_KEY
#undef CRC32C_NAME
#undef CRC32C_TARGET
#undef CRC32C_FOLD
