/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/mm_int.c -- products of block formats with quantized columns, sixteen weight rows in the lanes of a
 * register.
 *
 * Sixteen rows of 32 weights are turned on their side into a panel: u[i] holds elements 4i to 4i+3 of every row, so that a
 * dot-product instruction with four broadcast activations adds to sixteen rows at once, no sum crosses lanes, and the float
 * chain of ukr.h is one vector fma a block. Turning costs 8 shuffles for 16 rows x 16 bytes and is shared by all columns;
 * formats take nibbles apart after it, where it is cheapest. Weights are unsigned there (u = w + off); what that and the
 * activations' zero add is taken off by 16-bit pairs: S = sum u q - zero sum u - off sum (q - zero). Everything is exact in
 * 32 bits. */
#include "cpu/avx512/avx512.h"
#include "cpu/avx512/lanes.h"
#include "quant/blocks.h"

#include <stddef.h>
#include <string.h>

enum { ROWS = 16, COLS = 8 };

/* One block of 32 of sixteen rows. */
typedef struct panel {
    __m512i u[8];
    __m512i pair[2];       /* 16-bit factors of fields of qn_act, see the mac of the family */
    __m512 d;
    __m512 scale[2];
} panel;

typedef const uint8_t *const *row_ptrs;

/* The tile: panels, then accumulators of up to ACCS columns. A decode step (one column) reads a panel back at once: 8 stay
 * in L1. */
enum { PANELS = 32, PANELS_ONE = 8, ACCS = 512 };
_Static_assert(PANELS * sizeof(panel) + ACCS * 64 <= QN_MM_TILE_BYTES, "panels and accumulators share the tile");

/* ---- turning
 * -------------------------------------------------------------------------------------------------------------- */

static inline __m512i four_rows(row_ptrs row, size_t at)
{
    __m512i z = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)(row[0] + at)));
    z = _mm512_inserti32x4(z, _mm_loadu_si128((const __m128i *)(const void *)(row[4] + at)), 1);
    z = _mm512_inserti32x4(z, _mm_loadu_si128((const __m128i *)(const void *)(row[8] + at)), 2);
    return _mm512_inserti32x4(z, _mm_loadu_si128((const __m128i *)(const void *)(row[12] + at)), 3);
}

/* 16 bytes at `at` of each row; lane r of out[i] is the i-th 32-bit word of row r. */
static inline void turn(row_ptrs row, size_t at, __m512i out[4])
{
    const __m512i a = four_rows(row, at), b = four_rows(row + 1, at), c = four_rows(row + 2, at), d = four_rows(row + 3, at);
    const __m512i ab0 = _mm512_unpacklo_epi32(a, b), ab1 = _mm512_unpackhi_epi32(a, b);
    const __m512i cd0 = _mm512_unpacklo_epi32(c, d), cd1 = _mm512_unpackhi_epi32(c, d);
    out[0] = _mm512_unpacklo_epi64(ab0, cd0);
    out[1] = _mm512_unpackhi_epi64(ab0, cd0);
    out[2] = _mm512_unpacklo_epi64(ab1, cd1);
    out[3] = _mm512_unpackhi_epi64(ab1, cd1);
}

static inline __m512 f16_lanes(__m512i low_halves) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(low_halves)); }

/* The binary16 at `at` of each row; 16 bytes are read there. */
static inline __m512 f16_of_rows(row_ptrs row, size_t at)
{
    const __m512i ab = _mm512_unpacklo_epi32(four_rows(row, at), four_rows(row + 1, at));
    const __m512i cd = _mm512_unpacklo_epi32(four_rows(row + 2, at), four_rows(row + 3, at));
    return f16_lanes(_mm512_unpacklo_epi64(ab, cd));
}

static inline __m512i sum_u(const __m512i *u, int n)
{
    const __m512i ones = _mm512_set1_epi8(1);
    __m512i s = _mm512_setzero_si512();
    for (int i = 0; i < n; i++) s = _mm512_dpbusd_epi32(s, u[i], ones);
    return s;
}

/* the 16-bit factors (low, high) of each lane, low a constant */
static inline __m512i pair_of(int low, __m512i high)
{
    return _mm512_mask_mov_epi16(_mm512_slli_epi32(high, 16), 0x55555555, _mm512_set1_epi16((short)low));
}
static inline __m512i minus(__m512i x) { return _mm512_sub_epi32(_mm512_setzero_si512(), x); }
static inline __m512i nibbles(__m512i x, int high)
{
    return _mm512_and_si512(high ? _mm512_srli_epi32(x, 4) : x, _mm512_set1_epi8(15));
}
static inline __m512i byte_of(__m512i x, int i) { return _mm512_and_si512(_mm512_srli_epi32(x, (unsigned)i * 8), _mm512_set1_epi32(255)); }
static inline __m512i signed_byte_of(__m512i x, int i)
{
    return _mm512_srai_epi32(_mm512_slli_epi32(x, 24 - (unsigned)i * 8), 24);
}

/* ---- formats: `n` units (blocks or super-blocks) of sixteen rows, from unit `first`, to panels
 * --------------------------- */

static void panels_Q8_0(row_ptrs row, int64_t first_unit, int n, panel *p)
{
    const __m512i top = _mm512_set1_epi8((char)0x80);
    for (size_t at = (size_t)first_unit * sizeof(qn_block_Q8_0); n > 0; n--, at += sizeof(qn_block_Q8_0), p++) {
        turn(row, at + 2, p->u);
        turn(row, at + 18, p->u + 4);
        for (int i = 0; i < 8; i++) p->u[i] = _mm512_xor_si512(p->u[i], top); /* w + 128 */
        p->pair[0] = pair_of(-128, minus(sum_u(p->u, 8)));
        p->d = f16_of_rows(row, at);
    }
}

static void panels_Q4_0(row_ptrs row, int64_t first_unit, int n, panel *p)
{
    for (size_t at = (size_t)first_unit * sizeof(qn_block_Q4_0); n > 0; n--, at += sizeof(qn_block_Q4_0), p++) {
        __m512i raw[4];
        turn(row, at + 2, raw);
        for (int i = 0; i < 8; i++) p->u[i] = nibbles(raw[i % 4], i / 4);
        p->pair[0] = pair_of(-8, minus(sum_u(p->u, 8)));
        p->d = f16_of_rows(row, at);
    }
}

static void panels_Q4_K(row_ptrs row, int64_t first_unit, int n, panel *p)
{
    const __m512i low6 = _mm512_set1_epi8(63), low4 = _mm512_set1_epi8(15), low2 = _mm512_set1_epi8(3);
    for (size_t at = (size_t)first_unit * sizeof(qn_block_Q4_K); n > 0; n--, at += sizeof(qn_block_Q4_K)) {
        __m512i head[4], scale[2], min[2]; /* d and dmin, 12 bytes of scales; byte j % 4 of scale[j / 4] */
        turn(row, at, head);
        const __m512 d = f16_lanes(head[0]), m = f16_lanes(_mm512_srli_epi32(head[0], 16));
        scale[0] = _mm512_and_si512(head[1], low6);
        min[0] = _mm512_and_si512(head[2], low6);
        const __m512i scale_top = _mm512_and_si512(_mm512_srli_epi32(head[1], 6), low2);
        const __m512i min_top = _mm512_and_si512(_mm512_srli_epi32(head[2], 6), low2);
        scale[1] = _mm512_or_si512(_mm512_and_si512(head[3], low4), _mm512_slli_epi32(scale_top, 4));
        min[1] = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(head[3], 4), low4), _mm512_slli_epi32(min_top, 4));

        for (int two = 0; two < 4; two++) {
            __m512i raw[8];
            turn(row, at + offsetof(qn_block_Q4_K, qs) + (size_t)two * 32, raw);
            turn(row, at + offsetof(qn_block_Q4_K, qs) + (size_t)two * 32 + 16, raw + 4);
            for (int high = 0; high < 2; high++, p++) {
                const int j = two * 2 + high;
                for (int i = 0; i < 8; i++) p->u[i] = nibbles(raw[i], high);
                p->pair[0] = pair_of(0, minus(sum_u(p->u, 8)));
                p->pair[1] = byte_of(min[j / 4], j % 4);
                p->d = d;
                p->scale[0] = _mm512_cvtepi32_ps(byte_of(scale[j / 4], j % 4));
                p->scale[1] = m;
            }
        }
    }
}

static void panels_Q6_K(row_ptrs row, int64_t first_unit, int n, panel *p)
{
    const __m512i low2 = _mm512_set1_epi8(3);
    for (size_t at = (size_t)first_unit * sizeof(qn_block_Q6_K); n > 0; n--, at += sizeof(qn_block_Q6_K)) {
        __m512i scale[4], last[4];
        turn(row, at + offsetof(qn_block_Q6_K, scales), scale);
        turn(row, at + sizeof(qn_block_Q6_K) - 16, last); /* d is the upper half of the last word */
        const __m512 d = f16_lanes(_mm512_srli_epi32(last[3], 16));

        for (int half = 0; half < 2; half++) {
            __m512i low[16], high[8];
            for (int i = 0; i < 4; i++) turn(row, at + (size_t)(half * 64 + i * 16), low + 4 * i);
            for (int i = 0; i < 2; i++) turn(row, at + offsetof(qn_block_Q6_K, qh) + (size_t)(half * 32 + i * 16), high + 4 * i);
            for (int j = 0; j < 4; j++, p++) {
                for (int i = 0; i < 8; i++) {
                    const __m512i top = _mm512_and_si512(_mm512_srli_epi32(high[i], 2 * (unsigned)j), low2);
                    p->u[i] = _mm512_or_si512(nibbles(low[j % 2 * 8 + i], j / 2), _mm512_slli_epi32(top, 4));
                }
                const int s = half * 8 + j * 2;
                p->pair[0] = _mm512_mask_mov_epi16(_mm512_set1_epi16(-32), 0x55555555, minus(sum_u(p->u, 4)));
                p->pair[1] = pair_of(-32, minus(sum_u(p->u + 4, 4)));
                p->d = d;
                p->scale[0] = _mm512_cvtepi32_ps(signed_byte_of(scale[s / 4], s % 4));
                p->scale[1] = _mm512_cvtepi32_ps(signed_byte_of(scale[s / 4], s % 4 + 1));
            }
        }
    }
}

/* ---- multiplying: the panels of `n` blocks with n_cols columns
 * ------------------------------------------------------------ */

static inline __m512i word_of(const void *p)
{
    int32_t w;
    memcpy(&w, p, 4);
    return _mm512_set1_epi32(w);
}
static inline __m512i sum_zero(const qn_act *x) { return word_of(&x->sum); }   /* (sum, zero) */
static inline __m512i zero_half(const qn_act *x) { return word_of(&x->zero); } /* (zero, half[0]) */
static inline __m512i dot4(__m512i s, const __m512i *u, const int8_t *q)
{
    for (int i = 0; i < 4; i++) s = _mm512_dpbusd_epi32(s, u[i], word_of(q + 4 * i));
    return s;
}

/* value = d w: pair[0] = (-off, -sum u) */
static inline __m512 mac_plain(const panel *p, const qn_act *x, __m512 acc)
{
    const __m512i s = dot4(_mm512_dpwssd_epi32(_mm512_setzero_si512(), p->pair[0], sum_zero(x)), p->u, x->q);
    const __m512i t = dot4(s, p->u + 4, x->q + 16);
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(t), _mm512_mul_ps(p->d, _mm512_set1_ps(x->d)), acc);
}

/* value = d scale w - m min: pair[1] = (min, 0), scale[1] = m; products with a scale are below 2^24, exact in float */
static inline __m512 mac_min(const panel *p, const qn_act *x, __m512 acc)
{
    const __m512i s = dot4(_mm512_dpwssd_epi32(_mm512_setzero_si512(), p->pair[0], sum_zero(x)), p->u, x->q);
    const __m512 t = _mm512_mul_ps(_mm512_cvtepi32_ps(dot4(s, p->u + 4, x->q + 16)), p->scale[0]);
    const __m512 d = _mm512_set1_ps(x->d), m = _mm512_cvtepi32_ps(_mm512_madd_epi16(p->pair[1], sum_zero(x)));
    acc = _mm512_fmadd_ps(t, _mm512_mul_ps(p->d, d), acc);
    return _mm512_fnmadd_ps(m, _mm512_mul_ps(p->scale[1], d), acc);
}

/* value = d scale[k / 16] (u - 32): each half's product with its scale is below 2^24, exact; their sum is rounded once, by
 * the fma. pair[0] = (-sum u, -32) for (zero, half[0]); pair[1] = (-32, -sum u) for (sum, zero), where sum holds half[0]
 * too much */
static inline __m512 mac_halves(const panel *p, const qn_act *x, __m512 acc)
{
    const __m512i zh = zero_half(x), off = _mm512_set1_epi32(32 << 16);
    const __m512i s0 = dot4(_mm512_dpwssd_epi32(_mm512_setzero_si512(), p->pair[0], zh), p->u, x->q);
    const __m512i both = _mm512_dpwssd_epi32(_mm512_dpwssd_epi32(_mm512_setzero_si512(), off, zh), p->pair[1], sum_zero(x));
    const __m512i s1 = dot4(both, p->u + 4, x->q + 16);
    const __m512 t = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s1), p->scale[1], _mm512_mul_ps(_mm512_cvtepi32_ps(s0), p->scale[0]));
    return _mm512_fmadd_ps(t, _mm512_mul_ps(p->d, _mm512_set1_ps(x->d)), acc);
}

typedef void (*mac_fn)(const panel *p, int n, const qn_act *x, size_t x_row_bytes, __m512 *acc);

#define MAC(family, n_cols)                                                                                            \
    static void mac_##family##_##n_cols(const panel *p, int n, const qn_act *x, size_t x_row_bytes, __m512 *acc)       \
    {                                                                                                                  \
        __m512 a[n_cols];                                                                                              \
        for (int c = 0; c < n_cols; c++) a[c] = acc[c];                                                                \
        for (const panel *end = p + n; p < end; p++, x++)                                                              \
            UNROLL for (int c = 0; c < n_cols; c++)                                                                    \
                a[c] = mac_##family(p, (const qn_act *)(const void *)((const uint8_t *)x + (size_t)c * x_row_bytes), a[c]); \
        for (int c = 0; c < n_cols; c++) acc[c] = a[c];                                                                \
    }
#define MACS(family)                                                                                                   \
    MAC(family, 1) MAC(family, 2) MAC(family, 4) MAC(family, 8)                                                        \
    static const mac_fn macs_##family[4] = {mac_##family##_1, mac_##family##_2, mac_##family##_4, mac_##family##_8};
MACS(plain)
MACS(min)
MACS(halves)

/* ---- the product
 * ---------------------------------------------------------------------------------------------------------- */

typedef struct format {
    int blocks; /* of 32 a unit */
    void (*panels)(row_ptrs row, int64_t first_unit, int n, panel *p);
    const mac_fn *macs;
} format;

/* A chunk of columns against sixteen rows; rows past the end repeat the last and are not stored. */
static void row_group(const qn_mm_args *a, const format *f, int32_t first_row, int32_t first_col, int n_cols)
{
    const int n_rows = a->rows - first_row < ROWS ? a->rows - first_row : ROWS;
    const int64_t n_blocks = a->k / 32, step = a->cols == 1 ? PANELS_ONE : PANELS;
    panel *p = (panel *)(void *)a->tile;
    __m512 *acc = (__m512 *)(void *)(p + PANELS);
    const uint8_t *row[ROWS];

    for (int r = 0; r < ROWS; r++) row[r] = a->w + (size_t)(first_row + (r < n_rows ? r : n_rows - 1)) * a->w_row_bytes;
    for (int c = 0; c < n_cols; c++) acc[c] = _mm512_setzero_ps();
    for (int64_t b = 0; b < n_blocks; b += step) {
        const int n = (int)(n_blocks - b < step ? n_blocks - b : step);
        const uint8_t *x = (const uint8_t *)a->x + (size_t)first_col * a->x_row_bytes + (size_t)b * sizeof(qn_act);
        f->panels(row, b / f->blocks, n / f->blocks, p);
        for (int c = 0, log2 = 3; c < n_cols; c += 1 << log2) {
            while (1 << log2 > n_cols - c) log2--;
            f->macs[log2](p, n, (const qn_act *)(const void *)(x + (size_t)c * a->x_row_bytes), a->x_row_bytes, acc + c);
        }
    }
    for (int c = 0; c < n_cols; c++) l_store_n(a->y + (first_col + c) * a->y_stride + first_row, n_rows, acc[c]);
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
#define FORMATS(FORMAT) FORMAT(Q8_0, 1, plain) FORMAT(Q4_0, 1, plain) FORMAT(Q4_K, 8, min) FORMAT(Q6_K, 8, halves)
FORMATS(FORMAT)
#undef FORMAT

void qn__avx512_mm_int_init(qn_ukr *ukr)
{
#define FORMAT(name, n_blocks, family) ukr->mm[QN_DTYPE_##name] = (qn_mm){mm_##name, true};
    FORMATS(FORMAT)
#undef FORMAT
}
