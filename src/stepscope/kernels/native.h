/* Unaligned little-endian loads and small comparisons, below what typed memoryviews can say. */
#ifndef STEPSCOPE_NATIVE_H
#define STEPSCOPE_NATIVE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "event files are little-endian; this kernel has no byte swaps"
#endif

static inline uint64_t native_u8(const unsigned char *p) { uint64_t v; memcpy(&v, p, 8); return v; }
static inline uint32_t native_u4(const unsigned char *p) { uint32_t v; memcpy(&v, p, 4); return v; }
static inline uint16_t native_u2(const unsigned char *p) { uint16_t v; memcpy(&v, p, 2); return v; }
static inline double native_f8(const unsigned char *p) { double v; memcpy(&v, p, 8); return v; }
static inline float native_f4(const unsigned char *p) { float v; memcpy(&v, p, 4); return v; }

static inline float native_f4_of_bits(uint32_t bits) { float v; memcpy(&v, &bits, 4); return v; }

/* An IEEE 754 half. */
static inline float native_half(uint32_t h) {
    uint32_t sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31, mantissa = h & 1023;
    if (exponent == 0) {
        float v = (float)mantissa * 5.9604644775390625e-8f; /* 2^-24 */
        return sign ? -v : v;
    }
    return native_f4_of_bits(sign | (exponent == 31 ? 0x7F800000u : (exponent + 112) << 23) | mantissa << 13);
}

/* Whether n bytes are the same; tags are short, so no call. */
static inline int native_same(const unsigned char *a, const unsigned char *b, ptrdiff_t n) {
    if (n >= 8) {
        for (ptrdiff_t i = 0; i + 8 <= n; i += 8)
            if (native_u8(a + i) != native_u8(b + i)) return 0;
        return native_u8(a + n - 8) == native_u8(b + n - 8);
    }
    for (ptrdiff_t i = 0; i < n; i++)
        if (a[i] != b[i]) return 0;
    return 1;
}

#endif
