/* Moments and histogram keys of float32 numbers, by wider registers where the processor has them. */
#ifndef STEPSCOPE_MOMENTS_H
#define STEPSCOPE_MOMENTS_H

#include "native.h"

#define MOMENTS_LANES 16
#define MOMENTS_BLOCK 2048 /* numbers read twice while they are in the nearest cache */
#define MOMENTS_KEYS 2048
#define MOMENTS_SHIFT 21
#define MOMENTS_ROW (MOMENTS_KEYS + 16) /* rows of a power of two would fight for the same places in the cache */
#define MOMENTS_FEW 1024                /* so few numbers are counted where they belong at once, without tables */

typedef struct {
    double sum[MOMENTS_LANES], square[MOMENTS_LANES];
    float least[MOMENTS_LANES], most[MOMENTS_LANES];
    int32_t zeros[MOMENTS_LANES];
} MomentsLanes;

static inline void moments_begin(MomentsLanes *m) {
    for (int j = 0; j < MOMENTS_LANES; j++) {
        m->sum[j] = m->square[j] = 0;
        m->least[j] = native_f4_of_bits(0x7F800000u);
        m->most[j] = native_f4_of_bits(0xFF800000u);
        m->zeros[j] = 0;
    }
}

/* A comparison with NaN is false, so least and most are those of the numbers. */
#define MOMENTS_ONE(x, j)                                   \
    do {                                                    \
        double wide = (double)(x);                          \
        m->sum[j] += wide;                                  \
        m->square[j] += wide * wide;                        \
        m->least[j] = (x) < m->least[j] ? (x) : m->least[j];\
        m->most[j] = (x) > m->most[j] ? (x) : m->most[j];   \
        m->zeros[j] += (x) == 0.0f;                         \
    } while (0)

#define MOMENTS_BODY                                                  \
    size_t i = 0;                                                     \
    MomentsLanes lanes = *given, *m = &lanes;                         \
    for (; i + MOMENTS_LANES <= n; i += MOMENTS_LANES)                \
        for (int j = 0; j < MOMENTS_LANES; j++) {                     \
            float x = p[i + j];                                       \
            MOMENTS_ONE(x, j);                                        \
        }                                                             \
    for (; i < n; i++) {                                              \
        float x = p[i];                                               \
        MOMENTS_ONE(x, 0);                                            \
    }                                                                 \
    *given = lanes;

#define SQUARES_ONE(x, j) s[j] += (double)(x) * (double)(x)

/* Four stretches at a time: memory answers several streams sooner than one. */
#define SQUARES_BODY                                                                        \
    size_t part = n / (4 * MOMENTS_LANES) * MOMENTS_LANES, i;                                \
    const float *a = p, *b = a + part, *c = b + part, *d = c + part;                         \
    double s[MOMENTS_LANES];                                                                 \
    memcpy(s, square, sizeof s);                                                             \
    for (i = 0; i < part; i += MOMENTS_LANES) {                                              \
        for (int j = 0; j < MOMENTS_LANES; j++) SQUARES_ONE(a[i + j], j);                    \
        for (int j = 0; j < MOMENTS_LANES; j++) SQUARES_ONE(b[i + j], j);                    \
        for (int j = 0; j < MOMENTS_LANES; j++) SQUARES_ONE(c[i + j], j);                    \
        for (int j = 0; j < MOMENTS_LANES; j++) SQUARES_ONE(d[i + j], j);                    \
    }                                                                                        \
    for (i = 4 * part; i < n; i++) SQUARES_ONE(p[i], 0);                                     \
    memcpy(square, s, sizeof s);

static void moments_plain(const float *p, size_t n, MomentsLanes *given) { MOMENTS_BODY }
static void squares_plain(const float *p, size_t n, double *square) { SQUARES_BODY }

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <cpuid.h>
#define MOMENTS_WIDE 1
__attribute__((target("avx2,fma"))) static void moments_wide(const float *p, size_t n, MomentsLanes *given) {
    MOMENTS_BODY
}
__attribute__((target("avx2,fma"))) static void squares_wide(const float *p, size_t n, double *square) {
    SQUARES_BODY
}
/* AVX2, FMA and F16C of the processor, and an operating system that keeps their registers. */
static int moments_has_wide(void) {
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1) || !(c >> 28 & 1) || !(c >> 12 & 1) || !(c >> 29 & 1)) return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & 6) != 6) return 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 5 & 1);
}
#endif

static void (*moments_block)(const float *, size_t, MomentsLanes *) = moments_plain;
static void (*squares_block)(const float *, size_t, double *) = squares_plain;

/* Four tables, as numbers in a row often share a key and each count waits for the one before. */
static inline void moments_count(const float *p, size_t n, uint32_t (*t)[MOMENTS_ROW]) {
    const unsigned char *b = (const unsigned char *)p;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        uint64_t v = native_u8(b + 4 * i), w = native_u8(b + 4 * i + 8);
        t[0][(uint32_t)v >> MOMENTS_SHIFT]++;
        t[1][v >> (32 + MOMENTS_SHIFT)]++;
        t[2][(uint32_t)w >> MOMENTS_SHIFT]++;
        t[3][w >> (32 + MOMENTS_SHIFT)]++;
    }
    for (; i < n; i++) t[0][native_u4(b + 4 * i) >> MOMENTS_SHIFT]++;
}

/* What a float32 cannot hold counts as its largest number. */
static inline float moments_narrow(double v) {
    float x = (float)v;
    if (x - x != 0 && v - v == 0) x = native_f4_of_bits(v < 0 ? 0xFF7FFFFFu : 0x7F7FFFFFu);
    return x;
}

/* Element types of a part. */
#define MOMENTS_F4 0
#define MOMENTS_BF16 1
#define MOMENTS_F2 2
#define MOMENTS_F8 3

static void load_plain(const unsigned char *p, int type, size_t n, float *room) {
    size_t j;
    if (type == MOMENTS_BF16)
        for (j = 0; j < n; j++) room[j] = native_f4_of_bits((uint32_t)native_u2(p + 2 * j) << 16);
    else if (type == MOMENTS_F2)
        for (j = 0; j < n; j++) room[j] = native_half(native_u2(p + 2 * j));
    else
        for (j = 0; j < n; j++) room[j] = moments_narrow(native_f8(p + 8 * j));
}

#ifdef MOMENTS_WIDE
#include <immintrin.h>
__attribute__((target("avx2,f16c"))) static void load_wide(const unsigned char *p, int type, size_t n, float *room) {
    size_t j = 0;
    if (type == MOMENTS_BF16)
        for (; j + 8 <= n; j += 8) {
            __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p + 2 * j)));
            _mm256_storeu_si256((__m256i *)(room + j), _mm256_slli_epi32(bits, 16));
        }
    else if (type == MOMENTS_F2)
        for (; j + 8 <= n; j += 8)
            _mm256_storeu_ps(room + j, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 2 * j))));
    load_plain(p + (type == MOMENTS_F8 ? 8 : 2) * j, type, n - j, room + j);
}
#endif

static void (*load_block)(const unsigned char *, int, size_t, float *) = load_plain;

static inline const float *moments_load(const unsigned char *p, int type, size_t i, size_t n, float *room) {
    if (type == MOMENTS_F4) return (const float *)(p + 4 * i);
    load_block(p + (type == MOMENTS_F8 ? 8 : 2) * i, type, n, room);
    return room;
}

static const char *moments_setup(int plain) {
    moments_block = moments_plain;
    squares_block = squares_plain;
    load_block = load_plain;
#ifdef MOMENTS_WIDE
    if (!plain && moments_has_wide()) {
        moments_block = moments_wide;
        squares_block = squares_wide;
        load_block = load_wide;
        return "avx2";
    }
#endif
    return "plain";
}

/* out: count, sum, squares, zeros, nonfinite, least, most; added to what is there. */
static void moments_part(const unsigned char *p, size_t n, int type, double *out, int64_t *counts,
                         const int64_t *bucket_of_key, int squares_only) {
    float room[MOMENTS_BLOCK];
    uint32_t t[4][MOMENTS_ROW];
    int tables = counts && n > MOMENTS_FEW;
    MomentsLanes m;
    double wide_sum = 0, wide_square = 0, wide_least = out[5], wide_most = out[6], zeros = 0;
    size_t i, k;
    moments_begin(&m);
    if (tables) memset(t, 0, sizeof t);
    size_t block = type == MOMENTS_F4 && squares_only && !counts ? n : MOMENTS_BLOCK;
    for (i = 0; i < n; i += block) {
        size_t size = n - i < block ? n - i : block;
        const float *x = moments_load(p, type, i, size, room);
        if (type == MOMENTS_F8) {
            for (k = 0; k < size; k++) {
                double v = native_f8(p + 8 * (i + k));
                wide_sum += v;
                wide_square += v * v;
                wide_least = v < wide_least ? v : wide_least;
                wide_most = v > wide_most ? v : wide_most;
                zeros += v == 0;
            }
        } else if (squares_only) {
            squares_block(x, size, m.square);
        } else {
            moments_block(x, size, &m);
        }
        if (tables)
            moments_count(x, size, t);
        else if (counts)
            for (k = 0; k < size; k++)
                counts[bucket_of_key[native_u4((const unsigned char *)(x + k)) >> MOMENTS_SHIFT]]++;
    }
    for (k = 0; k < MOMENTS_LANES; k++) {
        wide_sum += m.sum[k];
        wide_square += m.square[k];
        zeros += m.zeros[k];
        wide_least = m.least[k] < wide_least ? m.least[k] : wide_least;
        wide_most = m.most[k] > wide_most ? m.most[k] : wide_most;
    }
    out[0] += (double)n;
    out[1] += wide_sum;
    out[2] += wide_square;
    out[3] += zeros;
    if (wide_square - wide_square != 0) /* something is infinite or NaN, or squares of doubles overflowed */
        for (i = 0; i < n; i += MOMENTS_BLOCK) {
            size_t size = n - i < MOMENTS_BLOCK ? n - i : MOMENTS_BLOCK;
            const float *x = moments_load(p, type, i, size, room);
            for (k = 0; k < size; k++) out[4] += x[k] - x[k] != 0;
        }
    out[5] = wide_least;
    out[6] = wide_most;
    if (tables)
        for (k = 0; k < MOMENTS_KEYS; k++) counts[bucket_of_key[k]] += (int64_t)t[0][k] + t[1][k] + t[2][k] + t[3][k];
}

#endif
