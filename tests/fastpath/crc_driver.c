/* Compares each path of crc32c.h that this CPU runs with the table, and the table with RFC 3720.
 *
 * Reads nothing; prints the paths it ran; exits 1 at the first difference. With an argument, that
 * path must be the chosen one. arm_crc.sh runs it under an emulator.
 */
#include <stdio.h>
#include <stdlib.h>

#include "c/crc32c.h"

enum { LONG = 13 << 20, LENGTHS = 4096, ALIGNMENTS = 64 };

static uint8_t *bytes;

static void compare(const struct crc32c_path *path, uint32_t crc, size_t at, size_t size) {
    const uint32_t expected = crc32c_table(crc, bytes + at, size);
    const uint32_t found = path->extend(crc, bytes + at, size);
    if (found != expected) {
        printf("%s: %zu bytes from %zu, after %08x: %08x, not %08x\n", path->name, size, at,
               (unsigned)crc, (unsigned)found, (unsigned)expected);
        exit(1);
    }
}

static void check(const struct crc32c_path *path) {
    for (size_t size = 0; size <= LENGTHS; size++)
        compare(path, (uint32_t)(size * 2654435761u), size % ALIGNMENTS, size);
    for (size_t at = 0; at < ALIGNMENTS; at++)
        for (size_t size = 0; size <= LENGTHS; size += 1 + size / 8)
            compare(path, 0, at, size);
    for (size_t size = LENGTHS; size < LONG / 13; size += size / 3 + 1)
        compare(path, 1, 3, size);
#ifdef __OPTIMIZE__
    compare(path, 2, 5, LONG); /* Long enough for blocks that are fetched ahead. */
#endif
    for (size_t cut = 0; cut <= LENGTHS; cut += 61) {
        const uint32_t head = path->extend(0, bytes, cut);
        const uint32_t tail = path->extend(0, bytes + cut, LENGTHS - cut);
        if (crc32c_combine(head, tail, LENGTHS - cut) != crc32c_table(0, bytes, LENGTHS)) {
            printf("%s: combined at %zu\n", path->name, cut);
            exit(1);
        }
    }
}

int main(int count, char **arguments) {
    bytes = malloc(LONG + ALIGNMENTS);
    uint32_t random = 1;
    if (!bytes)
        return 2;
    crc32c_start();
    memset(bytes, 0xFF, 32); /* RFC 3720, B.4: 32 bytes of ones, printed byte-swapped there. */
    if (crc32c_table(0, bytes, 32) != 0x62A8AB43u || crc32c_table(0, bytes, 0) != 0) {
        puts("table: not CRC-32C");
        return 1;
    }
    for (size_t i = 0; i < LONG + ALIGNMENTS; i++) {
        random = random * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(random >> 24);
    }
    for (int i = 0; i < CRC32C_PATHS; i++)
        if (crc32c_paths[i].runs) {
            check(&crc32c_paths[i]);
            printf("%s ", crc32c_paths[i].name);
        }
    printf("chosen: %s\n", crc32c_chosen->name);
    free(bytes);
    return count > 1 && strcmp(arguments[1], crc32c_chosen->name) != 0;
}
