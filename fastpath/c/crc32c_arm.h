/* CRC-32C on ARMv8: the crc32c instruction (an extension that nearly all have), and together with
 * it pmull (part of the cryptography extension, which for instance a Raspberry Pi 4 lacks).
 */
#if defined(__linux__)
#include <sys/auxv.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif
#include <arm_acle.h>
#include <arm_neon.h>

#include "crc32c_keys.h"

#ifdef __clang__
#define CRC32C_TARGET_CRC __attribute__((target("crc")))
#define CRC32C_TARGET_PMULL __attribute__((target("crc,aes")))
#define CRC32C_WORD(crc, word) ((uint64_t)__builtin_arm_crc32cd((uint32_t)(crc), word))
#define CRC32C_HALF __builtin_arm_crc32cw
#define CRC32C_BYTE __builtin_arm_crc32cb
#else
#define CRC32C_TARGET_CRC __attribute__((target("+crc")))
#define CRC32C_TARGET_PMULL __attribute__((target("+crc+crypto")))
#define CRC32C_WORD(crc, word) ((uint64_t)__crc32cd((uint32_t)(crc), word))
#define CRC32C_HALF __crc32cw
#define CRC32C_BYTE __crc32cb
#endif

#define CRC32C_NAME crc32c_armv8_crc
#define CRC32C_TARGET CRC32C_TARGET_CRC
#include "crc32c_streams.h"

#define CRC32C_LOW(v) vgetq_lane_u64(v, 0)
#define CRC32C_HIGH(v) vgetq_lane_u64(v, 1)
#define CRC32C_PRODUCT(a, b) vreinterpretq_u64_p128(vmull_p64((poly64_t)(a), (poly64_t)(b)))
#define CRC32C_MULTIPLY(crc, key) CRC32C_LOW(CRC32C_PRODUCT((uint32_t)(crc), (uint32_t)(key)))

#define CRC32C_WORDS 3
#define CRC32C_FOLDED_MIN_BYTES 128
#define CRC32C_FUSED_MIN_BYTES 1024
#define CRC32C_SWEPT_FROM_BYTES SIZE_MAX
#define CRC32C_VECTOR uint64x2_t
#define CRC32C_REGISTER(v) "+w"(v)
#define CRC32C_KEYS(high, low) vcombine_u64(vcreate_u64(low), vcreate_u64(high))
#define CRC32C_BY_ONE CRC32C_KEYS(CRC32C_X95, CRC32C_X159)
#define CRC32C_BY_TWO CRC32C_KEYS(CRC32C_X223, CRC32C_X287)
#define CRC32C_BY_FOUR CRC32C_KEYS(CRC32C_X479, CRC32C_X543)
#define CRC32C_LOAD(bytes) vreinterpretq_u64_u8(vld1q_u8(bytes))
#define CRC32C_XOR veorq_u64
#define CRC32C_SEED(crc) vcombine_u64(vcreate_u64(crc), vcreate_u64(0))
#define CRC32C_SUM uint64x2_t
#define CRC32C_REDUCE(v) (v)

#define CRC32C_NAME crc32c_armv8
#define CRC32C_TARGET CRC32C_TARGET_PMULL
#define CRC32C_FOLD(v, keys, next) veorq_u64(crc32c_product_high(v, keys), \
        veorq_u64(CRC32C_PRODUCT(CRC32C_LOW(v), CRC32C_LOW(keys)), next))
CRC32C_TARGET static inline uint64x2_t crc32c_product_high(uint64x2_t a, uint64x2_t b) {
    return vreinterpretq_u64_p128(
        vmull_high_p64(vreinterpretq_p64_u64(a), vreinterpretq_p64_u64(b)));
}
#include "crc32c_fused.h"

#define CRC32C_HARDWARE_PATHS \
    {"armv8", crc32c_armv8, 0}, \
    {"armv8-crc", crc32c_armv8_crc, 0},

#if defined(__linux__)
enum { CRC32C_HWCAP_PMULL = 1 << 4, CRC32C_HWCAP_CRC32 = 1 << 7 }; /* The kernel's numbers. */
static int crc32c_has_crc(void) { return (getauxval(AT_HWCAP) & CRC32C_HWCAP_CRC32) != 0; }
static int crc32c_has_pmull(void) { return (getauxval(AT_HWCAP) & CRC32C_HWCAP_PMULL) != 0; }
#elif defined(__APPLE__)
static int crc32c_has(const char *feature) {
    int value = 0;
    size_t size = sizeof value;
    return sysctlbyname(feature, &value, &size, NULL, 0) == 0 && value;
}
static int crc32c_has_crc(void) { return crc32c_has("hw.optional.armv8_crc32"); }
/* Each of Apple's ARMv8 processors has pmull; systems older than the name do not know it. */
static int crc32c_has_pmull(void) { return crc32c_has_crc(); }
#else
static int crc32c_has_crc(void) { return 0; }
static int crc32c_has_pmull(void) { return 0; }
#endif

static void crc32c_start_hardware(struct crc32c_path *path) {
    crc32c_start_run();
    crc32c_start_shift();
    path[0].runs = crc32c_has_crc() && crc32c_has_pmull();
    path[1].runs = crc32c_has_crc();
}
