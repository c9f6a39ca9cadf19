/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/mm_one.h -- products with one column or a few (decoding): weights straight from the file's blocks,
 * sixteen rows at a time. One column takes weights as fast as memory gives them, four at 80 to 95 % of that, eight at 55
 * to 85 % (Q2_K, Q3_K, with the most arithmetic a byte: half and a third).
 *
 * A register holds four consecutive weights of sixteen rows, byte k % 4 of row r in lane r, so that integer sums, scales
 * and the float chain of act.h are all by rows in lanes and nothing is ever added across. 16 bytes of 16 rows come as
 * sixteen 128-bit loads and are transposed by eight shuffles. Sums of weights (for the columns' zero points) cost as much
 * as the products themselves: bytes are added first where they stay below 256. */
#ifndef QN_CPU_AVX512_MM_ONE_H
#define QN_CPU_AVX512_MM_ONE_H

#include "cpu/avx512/avx512.h"
#include "cpu/avx512/lanes.h"
#include "quant/blocks.h"

#include <string.h>

/* Everything is unrolled and inlined into its kernel, so that the number of columns and every shift are constants. A
 * sanitized build keeps loops and calls: with a check at each of so many accesses one file would take minutes to compile. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
#if defined(SANITIZED) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#undef UNROLL
#define UNROLL
#define INLINE __attribute__((unused)) static
#else
#define INLINE static inline __attribute__((always_inline))
#endif

/* Sixteen rows, `step` bytes apart, of n blocks, with the 1, 4 or 8 columns of the kernel: the columns' first blocks side
 * by side, then their second ones. y: a register a column, row r in lane r. */
typedef void (*qn_one_fn)(const uint8_t *w, size_t step, const void *x, int64_t n, __m512 *y);

enum { QN_ONE_COLS_MAX = 8 };
typedef struct qn_one_kernel {
    int block;          /* elements */
    size_t act_bytes;   /* of a column's block */
    qn_one_fn fn[3];    /* for 1, 4 and 8 columns */
} qn_one_kernel;

/* The whole of a `one` slot: columns taken together as far as there are kernels, rows shared out over the lanes. */
void qn__avx512_one(const qn_mm_args *a, const qn_one_kernel *kernel);

/* Defines mm_NAME from a function one_NAME(nc, ...). */
#define QN_ONE(name, block, act)                                                                                       \
    static void one_##name##_1(const uint8_t *w, size_t step, const void *x, int64_t n, __m512 *y)                     \
    {                                                                                                                  \
        one_##name(1, w, step, x, n, y);                                                                               \
    }                                                                                                                  \
    static void one_##name##_4(const uint8_t *w, size_t step, const void *x, int64_t n, __m512 *y)                     \
    {                                                                                                                  \
        one_##name(4, w, step, x, n, y);                                                                               \
    }                                                                                                                  \
    static void one_##name##_8(const uint8_t *w, size_t step, const void *x, int64_t n, __m512 *y)                     \
    {                                                                                                                  \
        one_##name(8, w, step, x, n, y);                                                                               \
    }                                                                                                                  \
    static void mm_##name(const qn_mm_args *a)                                                                         \
    {                                                                                                                  \
        static const qn_one_kernel kernel = {block, sizeof(act), {one_##name##_1, one_##name##_4, one_##name##_8}};    \
        qn__avx512_one(a, &kernel);                                                                                    \
    }

/* Also says from how many columns on a panel is faster (Q4_K: 16 columns 4.6 GB/s of weights against 4.3, 20 columns 3.5
 * against 3.7). */
static inline void qn__avx512_one_set(qn_mm *mm, qn_mm_fn fn)
{
    mm->one = fn;
    mm->panel_cols = 17;
}

void qn__avx512_one_32_init(qn_ukr *ukr);
void qn__avx512_one_256_init(qn_ukr *ukr);
void qn__avx512_one_float_init(qn_ukr *ukr);

INLINE __m512i load_quarters(const uint8_t *p, size_t step)
{
    const __m512i a = _mm512_castsi128_si512(_mm_loadu_si128((const void *)p));
    const __m512i b = _mm512_inserti32x4(a, _mm_loadu_si128((const void *)(p + step)), 1);
    const __m512i c = _mm512_inserti32x4(b, _mm_loadu_si128((const void *)(p + 2 * step)), 2);
    return _mm512_inserti32x4(c, _mm_loadu_si128((const void *)(p + 3 * step)), 3);
}

/* out[i] lane r: dword i of the 16 bytes at w of row r */
INLINE void load_16(const uint8_t *w, size_t step, __m512i out[4])
{
    const __m512i a = load_quarters(w, 4 * step), b = load_quarters(w + step, 4 * step);
    const __m512i c = load_quarters(w + 2 * step, 4 * step), d = load_quarters(w + 3 * step, 4 * step);
    const __m512i ab_lo = _mm512_unpacklo_epi32(a, b), ab_hi = _mm512_unpackhi_epi32(a, b);
    const __m512i cd_lo = _mm512_unpacklo_epi32(c, d), cd_hi = _mm512_unpackhi_epi32(c, d);
    out[0] = _mm512_unpacklo_epi64(ab_lo, cd_lo);
    out[1] = _mm512_unpackhi_epi64(ab_lo, cd_lo);
    out[2] = _mm512_unpacklo_epi64(ab_hi, cd_hi);
    out[3] = _mm512_unpackhi_epi64(ab_hi, cd_hi);
}

/* Compilers would keep sixteen pointers, most of them in memory: hidden, w and step give all addresses with six registers. */
#define HIDE(x) __asm__("" : "+r"(x))

INLINE const uint8_t *row_at(const uint8_t *w, size_t step, int r)
{
    return w + (size_t)(r % 4) * step + (size_t)(r / 4) * (4 * step);
}

/* Cache lines of rows [first, end), from L2 to L1: the processor's own prefetch brings them to L2. Addresses past the
 * weight's end do no harm. A block of 32 has many instructions a byte, so the processor's window looks less far ahead:
 * with this, 95 % of the read bandwidth; without, 72 (Q5_1) to 87 % (Q4_0). Super-blocks gain 5 % when it is spread over
 * their sub-blocks. */
enum { FETCH_AHEAD = 512 };
INLINE void fetch_rows(const uint8_t *w, size_t step, int first_row, int end_row, int lines)
{
    UNROLL for (int r = first_row; r < end_row; r++)
        UNROLL for (int i = 0; i < lines; i++)
            _mm_prefetch((const char *)row_at(w, step, r) + FETCH_AHEAD + 64 * i, _MM_HINT_T0);
}

/* One field of sixteen rows, by scalar moves: they cost the vector ports nothing. Left alone, compilers collect the values
 * in vector registers, which costs more than the rest of a block of 32. */
#define COPY_16(type)                                                                                                  \
    INLINE void copy_##type(const uint8_t *w, size_t step, type to[16])                                                \
    {                                                                                                                  \
        UNROLL for (int r = 0; r < 16; r++) {                                                                          \
            memcpy(&to[r], row_at(w, step, r), sizeof(type));                                                          \
            __asm__ volatile("" : "+m"(to[r]));                                                                        \
        }                                                                                                              \
    }
COPY_16(uint8_t)
COPY_16(uint16_t)
COPY_16(uint32_t)

INLINE __m512i all_4(const void *p) /* the same four bytes in every lane: a broadcast from memory */
{
    int32_t v;
    memcpy(&v, p, 4);
    return _mm512_set1_epi32(v);
}

/* s[c] += sum of u q over 4 n elements; column c's q stand c * stride bytes after those of column 0 */
INLINE void dots_n(const int nc, __m512i *s, const __m512i *u, const int8_t *q, size_t stride, int n)
{
    if (nc > 1 || n < 8) {
        UNROLL for (int i = 0; i < n; i++)
            UNROLL for (int c = 0; c < nc; c++) s[c] = _mm512_dpbusd_epi32(s[c], u[i], all_4(q + (size_t)c * stride + 4 * i));
        return;
    }
    __m512i other = _mm512_setzero_si512(); /* two chains: the latency of eight in a row shows in blocks of 32 (10 %) */
    UNROLL for (int i = 0; i < n; i += 2) {
        s[0] = _mm512_dpbusd_epi32(s[0], u[i], all_4(q + 4 * i));
        other = _mm512_dpbusd_epi32(other, u[i + 1], all_4(q + 4 * i + 4));
    }
    s[0] = _mm512_add_epi32(s[0], other);
}

/* start + sum of u over 4 n elements, each at most `max` */
INLINE __m512i sum_n(__m512i start, const __m512i *u, int n, int max)
{
    const __m512i ones = _mm512_set1_epi8(1);
    const int group = 255 / max < n ? 255 / max : n;
    UNROLL for (int i = 0; i < n; i += group) {
        __m512i bytes = u[i];
        UNROLL for (int j = 1; j < group; j++)
            if (i + j < n) bytes = _mm512_add_epi8(bytes, u[i + j]);
        start = _mm512_dpbusd_epi32(start, bytes, ones);
    }
    return start;
}

INLINE __m512i low_nibbles(__m512i x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
INLINE __m512i high_nibbles(__m512i x) { return low_nibbles(_mm512_srli_epi16(x, 4)); }
/* bits of a where mask has ones, of b elsewhere */
INLINE __m512i select_bits(__m512i mask, __m512i a, __m512i b) { return _mm512_ternarylogic_epi32(mask, a, b, 0xca); }

/* binary16 in the low half of each lane */
INLINE __m512 low_f16(__m512i x) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x)); }

INLINE __m512i table_16(const int8_t values[16], int off) /* value + off, in each 128 bits */
{
    const __m128i v = _mm_loadu_si128((const void *)values);
    return _mm512_broadcast_i32x4(_mm_add_epi8(v, _mm_set1_epi8((char)off)));
}

#endif
