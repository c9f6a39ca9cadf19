/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/mm_int.c -- products of block formats with quantized columns, eight weight rows in the lanes of a register.
 *
 * Eight rows of 32 weights are turned on their side into a panel: u[i] holds elements 4i to 4i+3 of every row, so that four
 * broadcast activations meet eight rows at once, no sum crosses lanes, and the float chain of ukr.h is one vector fma a
 * block. Formats take nibbles apart after turning, where it is cheapest. There is no exact 8-bit dot product here: maddubs
 * adds two products of an unsigned and a signed byte in 16 bits and saturates, so each family says why its sums cannot
 * reach 32767. */
#include "cpu/avx2/avx2.h"
#include "cpu/avx2/lanes.h"
#include "quant/blocks.h"

#include <stddef.h>
#include <string.h>

enum { ROWS = 8, COLS = 4 };

/* One block of 32 of eight rows. */
typedef struct panel {
    __m256i u[8];          /* unsigned, w + off; Q8_0: signed */
    __m256i pair[2];       /* 16-bit factors of fields of qn_act, see the mac of the family */
    __m256 d;
    __m256 scale[2];
} panel;

typedef const uint8_t *const *row_ptrs;

/* The tile: panels, then accumulators of up to ACCS columns. A decode step (one column) reads a panel back at once: 8 stay
 * in L1. */
enum { PANELS = 64, PANELS_ONE = 8, ACCS = 512 };
_Static_assert(PANELS * sizeof(panel) + ACCS * 32 <= QN_MM_TILE_BYTES, "panels and accumulators share the tile");

/* ---- turning
 * -------------------------------------------------------------------------------------------------------------- */

static inline __m256i two_rows(row_ptrs row, size_t at)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load128(row[0] + at)), load128(row[4] + at), 1);
}

/* 16 bytes at `at` of each row; lane r of out[i] is the i-th 32-bit word of row r. */
static inline void turn(row_ptrs row, size_t at, __m256i out[4])
{
    const __m256i a = two_rows(row, at), b = two_rows(row + 1, at), c = two_rows(row + 2, at), d = two_rows(row + 3, at);
    const __m256i ab0 = _mm256_unpacklo_epi32(a, b), ab1 = _mm256_unpackhi_epi32(a, b);
    const __m256i cd0 = _mm256_unpacklo_epi32(c, d), cd1 = _mm256_unpackhi_epi32(c, d);
    out[0] = _mm256_unpacklo_epi64(ab0, cd0);
    out[1] = _mm256_unpackhi_epi64(ab0, cd0);
    out[2] = _mm256_unpacklo_epi64(ab1, cd1);
    out[3] = _mm256_unpackhi_epi64(ab1, cd1);
}

static inline __m256 f16_lanes(__m256i x) /* in the low halves */
{
    const __m256i low = _mm256_and_si256(x, _mm256_set1_epi32(0xffff));
    return _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08)));
}

/* The binary16 at `at` of each row; 16 bytes are read there. */
static inline __m256 f16_of_rows(row_ptrs row, size_t at)
{
    const __m256i ab = _mm256_unpacklo_epi32(two_rows(row, at), two_rows(row + 1, at));
    const __m256i cd = _mm256_unpacklo_epi32(two_rows(row + 2, at), two_rows(row + 3, at));
    return f16_lanes(_mm256_unpacklo_epi64(ab, cd));
}

static inline __m256i in_words(__m256i pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); } /* 16-bit pairs added */

/* up to 8 of at most 15, 4 of at most 63: sums of bytes stay bytes */
static inline __m256i sum_u(const __m256i *u, int n)
{
    __m256i s = u[0];
    for (int i = 1; i < n; i++) s = _mm256_add_epi8(s, u[i]);
    return in_words(_mm256_maddubs_epi16(s, _mm256_set1_epi8(1)));
}

/* the 16-bit factors (low, high) of each lane, low a constant */
static inline __m256i pair_of(int low, __m256i high)
{
    return _mm256_blend_epi16(_mm256_slli_epi32(high, 16), _mm256_set1_epi16((short)low), 0x55);
}
static inline __m256i minus(__m256i x) { return _mm256_sub_epi32(_mm256_setzero_si256(), x); }
static inline __m256i nibbles(__m256i x, int high)
{
    return _mm256_and_si256(high ? _mm256_srli_epi32(x, 4) : x, _mm256_set1_epi8(15));
}
static inline __m256i byte_of(__m256i x, int i) { return _mm256_and_si256(_mm256_srli_epi32(x, i * 8), _mm256_set1_epi32(255)); }
static inline __m256i signed_byte_of(__m256i x, int i) { return _mm256_srai_epi32(_mm256_slli_epi32(x, 24 - i * 8), 24); }

/* ---- formats: `n` units (blocks or super-blocks) of eight rows, from unit `first`, to panels --------------------------- */

static void panels_Q8_0(row_ptrs row, int64_t first_unit, int n, panel *p)
{
    for (size_t at = (size_t)first_unit * sizeof(qn_block_Q8_0); n > 0; n--, at += sizeof(qn_block_Q8_0), p++) {
        turn(row, at + 2, p->u);
        turn(row, at + 18, p->u + 4);
        __m256i s = _mm256_setzero_si256();
        for (int i = 0; i < 8; i++) s = _mm256_add_epi16(s, _mm256_maddubs_epi16(_mm256_set1_epi8(1), p->u[i]));
        p->pair[0] = pair_of(0, minus(in_words(s)));
        p->d = f16_of_rows(row, at);
    }
}

static void panels_Q4_0(row_ptrs row, int64_t first_unit, int n, panel *p)
{
    for (size_t at = (size_t)first_unit * sizeof(qn_block_Q4_0); n > 0; n--, at += sizeof(qn_block_Q4_0), p++) {
        __m256i raw[4];
        turn(row, at + 2, raw);
        for (int i = 0; i < 8; i++) p->u[i] = nibbles(raw[i % 4], i / 4);
        p->pair[0] = pair_of(-8, minus(sum_u(p->u, 8)));
        p->d = f16_of_rows(row, at);
    }
}

static void panels_Q4_K(row_ptrs row, int64_t first_unit, int n, panel *p)
{
    const __m256i low6 = _mm256_set1_epi8(63), low4 = _mm256_set1_epi8(15), low2 = _mm256_set1_epi8(3);
    for (size_t at = (size_t)first_unit * sizeof(qn_block_Q4_K); n > 0; n--, at += sizeof(qn_block_Q4_K)) {
        __m256i head[4], scale[2], min[2]; /* d and dmin, 12 bytes of scales; byte j % 4 of scale[j / 4] */
        turn(row, at, head);
        const __m256 d = f16_lanes(head[0]), m = f16_lanes(_mm256_srli_epi32(head[0], 16));
        scale[0] = _mm256_and_si256(head[1], low6);
        min[0] = _mm256_and_si256(head[2], low6);
        const __m256i scale_top = _mm256_and_si256(_mm256_srli_epi32(head[1], 6), low2);
        const __m256i min_top = _mm256_and_si256(_mm256_srli_epi32(head[2], 6), low2);
        scale[1] = _mm256_or_si256(_mm256_and_si256(head[3], low4), _mm256_slli_epi32(scale_top, 4));
        min[1] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(head[3], 4), low4), _mm256_slli_epi32(min_top, 4));

        for (int two = 0; two < 4; two++) {
            __m256i raw[8];
            turn(row, at + offsetof(qn_block_Q4_K, qs) + (size_t)two * 32, raw);
            turn(row, at + offsetof(qn_block_Q4_K, qs) + (size_t)two * 32 + 16, raw + 4);
            for (int high = 0; high < 2; high++, p++) {
                const int j = two * 2 + high;
                for (int i = 0; i < 8; i++) p->u[i] = nibbles(raw[i], high);
                p->pair[0] = pair_of(0, minus(sum_u(p->u, 8)));
                p->pair[1] = byte_of(min[j / 4], j % 4);
                p->d = d;
                p->scale[0] = _mm256_cvtepi32_ps(byte_of(scale[j / 4], j % 4));
                p->scale[1] = m;
            }
        }
    }
}

static void panels_Q6_K(row_ptrs row, int64_t first_unit, int n, panel *p)
{
    const __m256i low2 = _mm256_set1_epi8(3);
    for (size_t at = (size_t)first_unit * sizeof(qn_block_Q6_K); n > 0; n--, at += sizeof(qn_block_Q6_K)) {
        __m256i scale[4], last[4];
        turn(row, at + offsetof(qn_block_Q6_K, scales), scale);
        turn(row, at + sizeof(qn_block_Q6_K) - 16, last); /* d is the upper half of the last word */
        const __m256 d = f16_lanes(_mm256_srli_epi32(last[3], 16));

        for (int half = 0; half < 2; half++) {
            __m256i low[16], high[8];
            for (int i = 0; i < 4; i++) turn(row, at + (size_t)(half * 64 + i * 16), low + 4 * i);
            for (int i = 0; i < 2; i++) turn(row, at + offsetof(qn_block_Q6_K, qh) + (size_t)(half * 32 + i * 16), high + 4 * i);
            for (int j = 0; j < 4; j++, p++) {
                for (int i = 0; i < 8; i++) {
                    const __m256i top = _mm256_and_si256(_mm256_srli_epi32(high[i], 2 * j), low2);
                    p->u[i] = _mm256_or_si256(nibbles(low[j % 2 * 8 + i], j / 2), _mm256_slli_epi32(top, 4));
                }
                const int s = half * 8 + j * 2;
                p->pair[0] = _mm256_blend_epi16(_mm256_set1_epi16(-32), minus(sum_u(p->u, 4)), 0x55);
                p->pair[1] = pair_of(-32, minus(sum_u(p->u + 4, 4)));
                p->d = d;
                p->scale[0] = _mm256_cvtepi32_ps(signed_byte_of(scale[s / 4], s % 4));
                p->scale[1] = _mm256_cvtepi32_ps(signed_byte_of(scale[s / 4], s % 4 + 1));
            }
        }
    }
}

/* ---- multiplying: the panels of `n` blocks with n_cols columns
 * ------------------------------------------------------------ */

static inline __m256i word_of(const void *p)
{
    int32_t w;
    memcpy(&w, p, 4);
    return _mm256_set1_epi32(w);
}
static inline __m256i sum_zero(const qn_act *x) { return word_of(&x->sum); }   /* (sum, zero) */
static inline __m256i zero_half(const qn_act *x) { return word_of(&x->zero); } /* (zero, half[0]) */
/* n products of u with q, added in 16 bits: n * 2 * max(u) * 127 must be below 32768 */
static inline __m256i dot_pairs(const __m256i *u, const int8_t *q, int n)
{
    __m256i s = _mm256_maddubs_epi16(u[0], word_of(q));
    for (int i = 1; i < n; i++) s = _mm256_add_epi16(s, _mm256_maddubs_epi16(u[i], word_of(q + 4 * i)));
    return s;
}
static inline __m256 mac_float(__m256i s, const panel *p, const qn_act *x, __m256 acc)
{
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(s), _mm256_mul_ps(p->d, _mm256_set1_ps(x->d)), acc);
}

/* value = d w, w of 8 bits: |w| times q with w's sign, at most 2 * 128 * 127 = 32512. pair[0] = (0, -sum w) */
static inline __m256 mac_signed(const panel *p, const qn_act *x, __m256 acc)
{
    __m256i s = _mm256_madd_epi16(p->pair[0], sum_zero(x));
    for (int i = 0; i < 8; i++) {
        const __m256i q = _mm256_sign_epi8(word_of(x->q + 4 * i), p->u[i]);
        s = _mm256_add_epi32(s, in_words(_mm256_maddubs_epi16(_mm256_abs_epi8(p->u[i]), q)));
    }
    return mac_float(s, p, x, acc);
}

/* value = d (u - off), u at most 15: 8 * 2 * 15 * 127 = 30480. pair[0] = (-off, -sum u) */
static inline __m256i dot_nibbles(const panel *p, const qn_act *x)
{
    return _mm256_add_epi32(in_words(dot_pairs(p->u, x->q, 8)), _mm256_madd_epi16(p->pair[0], sum_zero(x)));
}
static inline __m256 mac_nibbles(const panel *p, const qn_act *x, __m256 acc)
{
    return mac_float(dot_nibbles(p, x), p, x, acc);
}

/* value = d scale u - m min, u at most 15: pair[1] = (min, 0), scale[1] = m; products with a scale are below 2^24, exact in
 * float */
static inline __m256 mac_min(const panel *p, const qn_act *x, __m256 acc)
{
    const __m256 t = _mm256_mul_ps(_mm256_cvtepi32_ps(dot_nibbles(p, x)), p->scale[0]);
    const __m256 d = _mm256_set1_ps(x->d), m = _mm256_cvtepi32_ps(_mm256_madd_epi16(p->pair[1], sum_zero(x)));
    acc = _mm256_fmadd_ps(t, _mm256_mul_ps(p->d, d), acc);
    return _mm256_fnmadd_ps(m, _mm256_mul_ps(p->scale[1], d), acc);
}

/* value = d scale[k / 16] (u - 32), u at most 63: 2 * 2 * 63 * 127 = 32004. Each half's product with its scale is below
 * 2^24, exact; their sum is rounded once, by the fma. pair[0] = (-sum u, -32) for (zero, half[0]); pair[1] = (-32, -sum u)
 * for (sum, zero), where sum holds half[0] too much */
static inline __m256 mac_halves(const panel *p, const qn_act *x, __m256 acc)
{
    const __m256i zh = zero_half(x), off = _mm256_set1_epi32(32 << 16);
    __m256i s[2];
    for (int h = 0; h < 2; h++)
        s[h] = _mm256_add_epi32(in_words(dot_pairs(p->u + 4 * h, x->q + 16 * h, 2)),
                                in_words(dot_pairs(p->u + 4 * h + 2, x->q + 16 * h + 8, 2)));
    s[0] = _mm256_add_epi32(s[0], _mm256_madd_epi16(p->pair[0], zh));
    s[1] = _mm256_add_epi32(s[1], _mm256_add_epi32(_mm256_madd_epi16(off, zh), _mm256_madd_epi16(p->pair[1], sum_zero(x))));
    const __m256 t = _mm256_mul_ps(_mm256_cvtepi32_ps(s[0]), p->scale[0]);
    return _mm256_fmadd_ps(_mm256_fmadd_ps(_mm256_cvtepi32_ps(s[1]), p->scale[1], t), _mm256_mul_ps(p->d, _mm256_set1_ps(x->d)), acc);
}

typedef void (*mac_fn)(const panel *p, int n, const qn_act *x, size_t x_row_bytes, __m256 *acc);

#define MAC(family, n_cols)                                                                                            \
    static void mac_##family##_##n_cols(const panel *p, int n, const qn_act *x, size_t x_row_bytes, __m256 *acc)       \
    {                                                                                                                  \
        __m256 a[n_cols];                                                                                              \
        for (int c = 0; c < n_cols; c++) a[c] = acc[c];                                                                \
        for (const panel *end = p + n; p < end; p++, x++)                                                              \
            UNROLL for (int c = 0; c < n_cols; c++)                                                                    \
                a[c] = mac_##family(p, (const qn_act *)(const void *)((const uint8_t *)x + (size_t)c * x_row_bytes), a[c]); \
        for (int c = 0; c < n_cols; c++) acc[c] = a[c];                                                                \
    }
#define MACS(family)                                                                                                   \
    MAC(family, 1) MAC(family, 2) MAC(family, 4)                                                                     \
    static const mac_fn macs_##family[3] = {mac_##family##_1, mac_##family##_2, mac_##family##_4};
MACS(signed)
MACS(nibbles)
MACS(min)
MACS(halves)

/* ---- the product
 * ---------------------------------------------------------------------------------------------------------- */

typedef struct format {
    int blocks; /* of 32 a unit */
    void (*panels)(row_ptrs row, int64_t first_unit, int n, panel *p);
    const mac_fn *macs;
} format;

/* A chunk of columns against eight rows; rows past the end repeat the last and are not stored. */
static void row_group(const qn_mm_args *a, const format *f, int32_t first_row, int32_t first_col, int n_cols)
{
    const int n_rows = a->rows - first_row < ROWS ? a->rows - first_row : ROWS;
    const int64_t n_blocks = a->k / 32, step = a->cols == 1 ? PANELS_ONE : PANELS;
    panel *p = (panel *)(void *)a->tile;
    __m256 *acc = (__m256 *)(void *)(p + PANELS);
    const uint8_t *row[ROWS];

    for (int r = 0; r < ROWS; r++) row[r] = a->w + (size_t)(first_row + (r < n_rows ? r : n_rows - 1)) * a->w_row_bytes;
    for (int c = 0; c < n_cols; c++) acc[c] = _mm256_setzero_ps();
    for (int64_t b = 0; b < n_blocks; b += step) {
        const int n = (int)(n_blocks - b < step ? n_blocks - b : step);
        const uint8_t *x = (const uint8_t *)a->x + (size_t)first_col * a->x_row_bytes + (size_t)b * sizeof(qn_act);
        f->panels(row, b / f->blocks, n / f->blocks, p);
        for (int c = 0, log2 = 2; c < n_cols; c += 1 << log2) {
            while (1 << log2 > n_cols - c) log2--;
            f->macs[log2](p, n, (const qn_act *)(const void *)(x + (size_t)c * a->x_row_bytes), a->x_row_bytes, acc + c);
        }
    }
    const __m256i mask = first(n_rows).a;
    for (int c = 0; c < n_cols; c++) _mm256_maskstore_ps(a->y + (first_col + c) * a->y_stride + first_row, mask, acc[c]);
}

static void mm(const qn_mm_args *a, const format *f)
{
    for (int64_t c = 0; c < a->cols; c += ACCS) {
        const int n_cols = (int)(a->cols - c < ACCS ? a->cols - c : ACCS);
        for (int64_t r = 0; r < a->rows; r += ROWS) row_group(a, f, (int32_t)r, (int32_t)c, n_cols);
    }
}

#define FORMAT(name, n_blocks, family)                                                                                 \
    static void mm_##name(const qn_mm_args *a)                                                                         \
    {                                                                                                                  \
        static const format f = {n_blocks, panels_##name, macs_##family};                                              \
        mm(a, &f);                                                                                                     \
    }
#define FORMATS(FORMAT) FORMAT(Q8_0, 1, signed) FORMAT(Q4_0, 1, nibbles) FORMAT(Q4_K, 8, min) FORMAT(Q6_K, 8, halves)
FORMATS(FORMAT)
#undef FORMAT

void qn__avx2_mm_int_init(qn_ukr *ukr)
{
#define FORMAT(name, n_blocks, family) ukr->mm[QN_DTYPE_##name] = (qn_mm){mm_##name, true};
    FORMATS(FORMAT)
#undef FORMAT
}
