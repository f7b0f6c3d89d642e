/* CRC-32C by the processor's own instruction where it has one, found out at run time, else by eight tables.
 * Every crc function takes and gives the inverted register. */
#ifndef STEPSCOPE_CRC32C_H
#define STEPSCOPE_CRC32C_H

#include "native.h"

static uint32_t native_crc_tables[8][256];

static inline uint32_t native_crc_by_table(uint32_t crc, const unsigned char *p, size_t n) {
    const uint32_t(*t)[256] = (const uint32_t(*)[256])native_crc_tables;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t v = native_u8(p) ^ crc;
        crc = t[7][v & 255] ^ t[6][v >> 8 & 255] ^ t[5][v >> 16 & 255] ^ t[4][v >> 24 & 255] ^
              t[3][v >> 32 & 255] ^ t[2][v >> 40 & 255] ^ t[1][v >> 48 & 255] ^ t[0][v >> 56];
    }
    for (; n; p++, n--) crc = crc >> 8 ^ t[0][(crc ^ *p) & 255];
    return crc;
}

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <cpuid.h>
#include <nmmintrin.h>
#define NATIVE_CRC "sse4.2"
#if defined(__clang__) && __clang_major__ >= 14 /* made the instruction a feature of its own */
#define NATIVE_TARGET __attribute__((target("sse4.2,crc32")))
#else
#define NATIVE_TARGET __attribute__((target("sse4.2")))
#endif
#define NATIVE_CRC8(crc, v) ((uint32_t)_mm_crc32_u64(crc, v))
#define NATIVE_CRC4(crc, v) _mm_crc32_u32(crc, v)
#define NATIVE_CRC2(crc, v) _mm_crc32_u16(crc, v)
#define NATIVE_CRC1(crc, v) _mm_crc32_u8(crc, v)
static int native_crc_has_instruction(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c >> 20 & 1);
}
#elif defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
#include <arm_acle.h>
#define NATIVE_CRC "armv8"
#if defined(__clang__)
#define NATIVE_TARGET __attribute__((target("crc")))
#else
#define NATIVE_TARGET __attribute__((target("+crc")))
#endif
#define NATIVE_CRC8(crc, v) __crc32cd(crc, v)
#define NATIVE_CRC4(crc, v) __crc32cw(crc, v)
#define NATIVE_CRC2(crc, v) __crc32ch(crc, v)
#define NATIVE_CRC1(crc, v) __crc32cb(crc, v)
#if defined(__APPLE__)
static int native_crc_has_instruction(void) { return 1; }
#else
#include <sys/auxv.h>
static int native_crc_has_instruction(void) { return (getauxval(AT_HWCAP) >> 7 & 1) != 0; }
#endif
#endif

#ifdef NATIVE_CRC
NATIVE_TARGET static inline uint32_t native_crc_by_instruction(uint32_t crc, const unsigned char *p, size_t n) {
    for (; n >= 8; p += 8, n -= 8) crc = NATIVE_CRC8(crc, native_u8(p));
    if (n & 4) { crc = NATIVE_CRC4(crc, native_u4(p)); p += 4; }
    if (n & 2) { crc = NATIVE_CRC2(crc, native_u2(p)); p += 2; }
    if (n & 1) crc = NATIVE_CRC1(crc, *p);
    return crc;
}
#endif

static inline uint32_t native_masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xA282EAD8u; }

/* What a record is: whole and right, incomplete, or wrong in its header's or its payload's checksum. */
enum { NATIVE_GOOD, NATIVE_INCOMPLETE, NATIVE_BAD_HEADER, NATIVE_BAD_PAYLOAD };

#define NATIVE_FUNCTIONS(crc, target)                                                                    \
    target static uint32_t crc##_masked(const unsigned char *p, size_t n) {                              \
        return native_masked(~crc(0xFFFFFFFFu, p, n));                                                   \
    }                                                                                                    \
    target static int crc##_check(const unsigned char *p, size_t size, unsigned long long *length) {               \
        if (size < 12) return NATIVE_INCOMPLETE;                                                         \
        if (native_masked(~crc(0xFFFFFFFFu, p, 8)) != native_u4(p + 8)) return NATIVE_BAD_HEADER;        \
        uint64_t n = *length = native_u8(p);                                                             \
        if (size < 16 || n > size - 16) return NATIVE_INCOMPLETE;                                        \
        return native_masked(~crc(0xFFFFFFFFu, p + 12, n)) == native_u4(p + 12 + n) ? NATIVE_GOOD        \
                                                                                  : NATIVE_BAD_PAYLOAD;  \
    }

NATIVE_FUNCTIONS(native_crc_by_table, )
#ifdef NATIVE_CRC
NATIVE_FUNCTIONS(native_crc_by_instruction, NATIVE_TARGET)
#endif

static uint32_t (*native_masked_crc32c)(const unsigned char *, size_t) = native_crc_by_table_masked;
static int (*native_check)(const unsigned char *, size_t, unsigned long long *) = native_crc_by_table_check;

/* Run when the module is imported: gives the name of what is used. */
static const char *native_crc_setup(int by_table) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
        native_crc_tables[0][i] = crc;
    }
    for (int t = 1; t < 8; t++)
        for (int i = 0; i < 256; i++) {
            uint32_t before = native_crc_tables[t - 1][i];
            native_crc_tables[t][i] = before >> 8 ^ native_crc_tables[0][before & 255];
        }
#ifdef NATIVE_CRC
    if (!by_table && native_crc_has_instruction()) {
        native_masked_crc32c = native_crc_by_instruction_masked;
        native_check = native_crc_by_instruction_check;
        return NATIVE_CRC;
    }
#endif
    (void)by_table;
    native_masked_crc32c = native_crc_by_table_masked;
    native_check = native_crc_by_table_check;
    return "table";
}

#endif
