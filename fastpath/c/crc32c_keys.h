/* What the paths with carry-less multiplication multiply by.
 *
 * CRC32C_X<n> is x^n modulo P, reflected in 32 bits (tests derive each again). A carry-less product
 * of reflected numbers comes out one bit too far, and a 32-bit key stands 32 bits further up than a
 * lane of 64: so a lane times the key x^n is the lane times x^(n + 33). A vector is two such lanes,
 * and the first to come in memory, its low lane, stands 64 bits before the other. To move a vector
 * by D bits, the low lane's key is thus x^(D + 64 - 33), and the high lane's x^(D - 33).
 */
#ifndef KRAFTSPEC_CRC32C_KEYS_H
#define KRAFTSPEC_CRC32C_KEYS_H

/* D = 128, 256, 384: by one, two and three vectors of 16 bytes. */
#define CRC32C_X159 0xF20C0DFE
#define CRC32C_X95 0x493C7D27
#define CRC32C_X287 0x3DA6D0CB
#define CRC32C_X223 0xBA4FC28E
#define CRC32C_X415 0x1C291D04
#define CRC32C_X351 0xDDC0152B
/* D = 512, 1024, 2048: by four vectors of 16 bytes; by one, two and four vectors of 64. */
#define CRC32C_X543 0x740EEF02
#define CRC32C_X479 0x9E4ADDF8
#define CRC32C_X1055 0x6992CEA2
#define CRC32C_X991 0x0D3B6092
#define CRC32C_X2079 0xDCB17AA4
#define CRC32C_X2015 0xB9E02B86

/* A CRC moves over any distance: [i][digit] is the key of digit * 128^i words of 8 bytes,
 * x^(64 * words - 33). The keys of two distances, multiplied like a CRC and a key (CRC32C_TIMES in
 * crc32c_fused.h), give the key of both together.
 */
#define CRC32C_SHIFT_DIGITS 3
static uint32_t crc32c_shift[CRC32C_SHIFT_DIGITS][128];

static void crc32c_start_shift(void) {
    uint32_t identity = CRC32C_ONE; /* x^-33: x divides the polynomials whose constant is made 0. */
    uint32_t step = CRC32C_ONE;     /* x^64 */
    for (int bit = 0; bit < 33; bit++)
        identity = identity & CRC32C_ONE ? (identity ^ CRC32C_POLYNOMIAL) << 1 | 1 : identity << 1;
    for (int bit = 0; bit < 64; bit++)
        step = (step >> 1) ^ (CRC32C_POLYNOMIAL & (0u - (step & 1u)));
    for (int i = 0; i < CRC32C_SHIFT_DIGITS; i++) {
        uint32_t power = CRC32C_ONE;
        for (int digit = 0; digit < 128; digit++) {
            crc32c_shift[i][digit] = crc32c_multiply(identity, power);
            power = crc32c_multiply(power, step);
        }
        step = power;
    }
}

/* A block's four parts are read at once, which is fastest from the caches. Where those end, the
 * hardware foresees four places less well than one: from this size on the blocks are small, and the
 * next one is asked for, in order, while one is worked on.
 */
#define CRC32C_PREFETCHED_FROM_BYTES ((size_t)12 << 20)
#define CRC32C_PREFETCHED_ROUNDS 256

#endif
