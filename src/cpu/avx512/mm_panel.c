/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/mm_panel.c -- products of block formats with many quantized columns (act.h).
 *
 * Every 512-bit instruction competes for the same two ports, so their number counts: how many for the 64 dot
 * products of 16 rows x 256 elements x 1 column. The integer and float sums of 32 rows x 6 columns, 24 registers,
 * stay in registers; weights and broadcast activations are memory operands from L1 (8 loads for 12 dot products).
 * Instructions, and share of the peak; the last column is Zen 5, which converts and adds on ports of its own:
 *     Q4_K        64 + 8 * 2 (convert, fma) + 1 + 3 + 4 + 3 = 91                         70 %    79 %
 *     Q5_K        64 + 4 * 5 (fma, convert, fma, convert, add) + 1 + 3 + 4 + 3 = 95      67 %    79 %
 *     Q6_K        64 + 8 * 5 + 1 + 3 = 108                                               59 %    77 %
 *     IQ4_XS      64 + 8 * 3 (fma, convert, add) + 1 + 3 = 92                            70 %    85 %
 *     Q3_K        64 + 5 = 69                                                            93 %    96 % (92 reached)
 *     Q2_K        64 + 5 + 8 + 3 (minima) = 80                                           80 %    83 % (80 reached)
 *     32          64 + 8 * 4 (zero, convert, scale, fma) = 96                            67 %    73 % (68 reached)
 *     MXFP4       96 as well; the product of two scales is a sum of exponents            67 %    80 %
 * A slice of 512 elements of 32 rows is unpacked into L1 (28 KiB) and multiplied with all columns before the next;
 * columns stream from L2, 3 bytes a cycle, and so do their sums. */
#include "cpu/avx512/avx512.h"
#include "cpu/avx512/mm_panel.h"
#include "cpu/avx512/panel_drive.h"
#include "cpu/kernel/inline.h"
#include "quant/blocks.h"

#include <string.h>

enum { ROWS = PANEL_ROWS, COLS = 6, SLICE_32 = 16, SLICE_256 = 2 };

/* MXFP4: d_w = 2^(e - 128). With -DOWN <= e - 128 <= UP, d_w * d is d * 2^-DOWN with e - 128 + DOWN added to its
 * exponent: d is 0 or in [2^-108, 2^122), so nothing is subnormal or overflows; a sum that saturates keeps a NaN one,
 * and where d is 0 the integer that it scales is 0 too. */
enum { DOWN = 18, UP = 5 };

/* One block of a group of columns. */
typedef struct group32 {
    uint8_t q[COLS][32]; /* q + 128 */
    int32_t zero[COLS];  /* -(zero + 128) in the low half */
    float d[COLS];
    float d_sum[COLS]; /* of MXFP4: d * 2^-DOWN */
} group32;
typedef struct group256 {
    uint8_t q[COLS][256];
    int16_t sum16[COLS][16], sum32[COLS][8];
    float d[COLS], zero[COLS]; /* zero: -zero */
} group256;

INLINE void put_32(void *group, size_t stride, int col, const void *blocks, int64_t n, const int powers)
{
    for (const qn_act32 *x = blocks; n > 0; n--, x++, group = (uint8_t *)group + stride) {
        group32 *g = group;
        for (int i = 0; i < 32; i++) g->q[col][i] = (uint8_t)x->q[i] ^ 0x80;
        g->zero[col] = -(x->zero + 128) & 0xffff;
        g->d[col] = x->d;
        g->d_sum[col] = x->d * (powers ? 1.0f / (1 << DOWN) : (float)x->sum);
    }
}
static void put32(void *group, size_t stride, int col, const void *blocks, int64_t n)
{
    put_32(group, stride, col, blocks, n, 0);
}
static void put32_powers(void *group, size_t stride, int col, const void *blocks, int64_t n)
{
    put_32(group, stride, col, blocks, n, 1);
}

static void put256(void *group, size_t stride, int col, const void *blocks, int64_t n)
{
    for (const qn_act256 *x = blocks; n > 0; n--, x++, group = (uint8_t *)group + stride) {
        group256 *g = group;
        for (int i = 0; i < 256; i++) g->q[col][i] = (uint8_t)x->q[i] ^ 0x80;
        for (int i = 0; i < 16; i++) g->sum16[col][i] = x->sum[i];
        for (int i = 0; i < 8; i++) g->sum32[col][i] = (int16_t)(x->sum[2 * i] + x->sum[2 * i + 1]);
        g->d[col] = x->d;
        g->zero[col] = (float)-x->zero;
    }
}

static const qn_mm_pack pack32 = {COLS, sizeof(group32), put32}, pack256 = {COLS, sizeof(group256), put256},
                        pack32_powers = {COLS, sizeof(group32), put32_powers};

/* ---- multiplying: n blocks of two panels with n_cols columns of a group; acc: [COLS][2] ------ */

static inline __m512i word_of(const void *p)
{
    int32_t w;
    memcpy(&w, p, 4);
    return _mm512_set1_epi32(w);
}

/* One load for each use: compilers would load once and copy, and a copy competes for the same two ports. */
static inline __m512i loaded(const __m512i *p)
{
    __m512i x;
    __asm__("vmovdqa32 %1, %0" : "=v"(x) : "m"(*p));
    return x;
}

/* s[c][h] += w[h][i] q[c][4i ...] over n vectors */
INLINE void dot(__m512i (*s)[2], const __m512i *w0, const __m512i *w1, const uint8_t *q, size_t q_stride, const int n,
                const int n_cols)
{
    UNROLL
    for (int i = 0; i < n; i++) {
        const __m512i u0 = w0[i], u1 = w1[i];
        UNROLL
        for (int c = 0; c < n_cols; c++) {
            const __m512i x = word_of(q + (size_t)c * q_stride + 4 * i);
            s[c][0] = _mm512_dpbusd_epi32(s[c][0], x, u0);
            s[c][1] = _mm512_dpbusd_epi32(s[c][1], x, u1);
        }
    }
}

#define EACH(c, h) \
    UNROLL \
    for (int c = 0; c < n_cols; c++) UNROLL \
    for (int h = 0; h < 2; h++)

/* Unpacks a block of MXFP4, and puts into m what is added to exponents, or -1 where d is outside of the range. */
static void panel_powers(const uint8_t *const *row, size_t at, void *panel)
{
    qn_panel32 *p = panel;
    qn__avx512_panel_MXFP4(row, at, panel);
    const __m512i up = _mm512_sub_epi32(_mm512_castps_si512(p->d), _mm512_set1_epi32((127 - DOWN) << 23));
    const __mmask16 within = _mm512_cmple_epu32_mask(up, _mm512_set1_epi32((DOWN + UP) << 23));
    p->m = _mm512_castsi512_ps(_mm512_mask_mov_epi32(_mm512_set1_epi32(-1), within, up));
}

INLINE bool all_within(const qn_panel32 *const half[2])
{
    return !_mm512_movepi32_mask(_mm512_castps_si512(_mm512_or_ps(half[0]->m, half[1]->m)));
}

/* d_w * d */
INLINE __m512 scale32(const qn_panel32 *p, const group32 *g, int c, const int powers)
{
    if (!powers) return _mm512_mul_ps(p->d, _mm512_set1_ps(g->d[c]));
    const __m512 down = _mm512_set1_ps(g->d_sum[c]);
    return _mm512_castsi512_ps(_mm512_adds_epi16(_mm512_castps_si512(p->m), _mm512_castps_si512(down)));
}

INLINE void mac_32(const void *panels, const void *group, size_t stride, int64_t n, float *sums, const int with_min,
                   const int powers, const int n_cols)
{
    const qn_panel32 *p = panels;
    __m512 acc[COLS][2];
    EACH(c, h) acc[c][h] = _mm512_load_ps(sums + c * ROWS + h * 16);
    for (; n > 0; n--, p++, group = (const uint8_t *)group + stride) {
        const group32 *g = group;
        const qn_panel32 *const half[2] = {p, p + SLICE_32};
        __m512i s[COLS][2];
        UNROLL
        for (int c = 0; c < n_cols; c++) {
            const __m512i zero = _mm512_set1_epi32(g->zero[c]);
            UNROLL
            for (int h = 0; h < 2; h++) s[c][h] = _mm512_madd_epi16(half[h]->sum_w, zero);
        }
        dot(s, half[0]->w, half[1]->w, g->q[0], sizeof g->q[0], 8, n_cols);
        if (powers && all_within(half)) {
            EACH(c, h) acc[c][h] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s[c][h]), scale32(half[h], g, c, 1), acc[c][h]);
            continue;
        }
        EACH(c, h)
        {
            acc[c][h] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s[c][h]), scale32(half[h], g, c, 0), acc[c][h]);
            if (with_min) acc[c][h] = _mm512_fmadd_ps(half[h]->m, _mm512_set1_ps(g->d_sum[c]), acc[c][h]);
        }
    }
    EACH(c, h) _mm512_store_ps(sums + c * ROWS + h * 16, acc[c][h]);
}

INLINE void mac32(const void *panels, const void *group, size_t stride, int64_t n, float *sums, const int sub,
                  const int with_min, const int n_cols)
{
    (void)sub;
    mac_32(panels, group, stride, n, sums, with_min, 0, n_cols);
}

INLINE void mac32_powers(const void *panels, const void *group, size_t stride, int64_t n, float *sums, const int sub,
                         const int with_min, const int n_cols)
{
    (void)sub;
    mac_32(panels, group, stride, n, sums, with_min, 1, n_cols);
}

/* Adds T of a super-block to the columns' sums. */
INLINE void add_supers(const qn_panel256 *const half[2], const group256 *g, __m512 (*t)[2], float *sums, const int sub,
                       const int with_min, const int n_cols)
{
    UNROLL
    for (int c = 0; c < n_cols; c++) {
        const uint8_t *pairs = sub == 16 ? (const uint8_t *)g->sum16[c] : (const uint8_t *)g->sum32[c];
        const __m512 d = _mm512_set1_ps(g->d[c]), zero = _mm512_set1_ps(g->zero[c]);
        __m512i m[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
        for (int i = 0; i < (with_min ? 128 / sub : 0); i++) {
            const __m512i x = word_of(pairs + 4 * i);
            UNROLL
            for (int h = 0; h < 2; h++) m[h] = _mm512_dpwssd_epi32(m[h], half[h]->min[i], x);
        }
        UNROLL
        for (int h = 0; h < 2; h++) {
            float *sum = sums + c * ROWS + h * 16;
            const __m512 s = _mm512_fmadd_ps(zero, half[h]->z, t[c][h]);
            __m512 acc = _mm512_fmadd_ps(s, _mm512_mul_ps(half[h]->d, d), _mm512_load_ps(sum));
            if (with_min) acc = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(m[h]), _mm512_mul_ps(half[h]->m, d), acc);
            _mm512_store_ps(sum, acc);
        }
    }
}

/* s = sum w q over sub-block j */
INLINE void dot_sub(__m512i (*s)[2], const qn_panel256 *const half[2], const group256 *g, int j, const int sub,
                    const int n_cols)
{
    const int at = j * sub / 4;
    EACH(c, h) s[c][h] = loaded(&half[h]->start[j]);
    dot(s, half[0]->w + at, half[1]->w + at, g->q[0] + 4 * at, sizeof g->q[0], sub / 4, n_cols);
}

/* Adds `chain` sub-blocks (1 or 2) at a time as floats: three and five instructions. The sums of the first start at
 * FLOATS, so that their bits are floats already; `more` subtracts it. */
INLINE void mac_chains(const void *panels, const void *group, size_t stride, int64_t n, float *sums, const int sub,
                       const int with_min, const int chain, const int n_cols)
{
    const qn_panel256 *p = panels;
    for (; n > 0; n--, p++, group = (const uint8_t *)group + stride) {
        const qn_panel256 *const half[2] = {p, p + SLICE_256};
        __m512i s[COLS][2], t[COLS][2];
        __m512 T[COLS][2];
        EACH(c, h) t[c][h] = _mm512_setzero_si512();
        for (int j = 0; j < 256 / sub; j += chain) {
            dot_sub(s, half, group, j, sub, n_cols);
            EACH(c, h)
            T[c][h] = _mm512_fmadd_ps(_mm512_castsi512_ps(s[c][h]), half[h]->scale[j], half[h]->more[j / chain]);
            if (chain > 1) dot_sub(s, half, group, j + 1, sub, n_cols);
            EACH(c, h)
            {
                if (chain > 1) T[c][h] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s[c][h]), half[h]->scale[j + 1], T[c][h]);
                t[c][h] = _mm512_add_epi32(t[c][h], _mm512_cvtps_epi32(T[c][h]));
            }
        }
        EACH(c, h) T[c][h] = _mm512_cvtepi32_ps(t[c][h]);
        add_supers(half, group, T, sums, sub, with_min, n_cols);
    }
}
#define MAC_CHAINS(name, chain) \
    INLINE void name(const void *panels, const void *group, size_t stride, int64_t n, float *sums, const int sub, \
                     const int with_min, const int n_cols) \
    { \
        mac_chains(panels, group, stride, n, sums, sub, with_min, chain, n_cols); \
    }
MAC_CHAINS(mac_singles, 1)
MAC_CHAINS(mac_pairs, 2)

/* Adds four sub-blocks at a time as floats: one rounding, when both halves are added. */
INLINE void mac_halves(const void *panels, const void *group, size_t stride, int64_t n, float *sums, const int sub,
                       const int with_min, const int n_cols)
{
    const qn_panel256 *p = panels;
    for (; n > 0; n--, p++, group = (const uint8_t *)group + stride) {
        const qn_panel256 *const half[2] = {p, p + SLICE_256};
        __m512i s[COLS][2];
        __m512 t[2][COLS][2];
        UNROLL
        for (int i = 0; i < 2; i++) {
            EACH(c, h) t[i][c][h] = _mm512_setzero_ps();
            for (int j = 4 * i; j < 4 * i + 4; j++) {
                dot_sub(s, half, group, j, sub, n_cols);
                EACH(c, h) t[i][c][h] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s[c][h]), half[h]->scale[j], t[i][c][h]);
            }
        }
        EACH(c, h) t[1][c][h] = _mm512_add_ps(t[0][c][h], t[1][c][h]);
        add_supers(half, group, t[1], sums, sub, with_min, n_cols);
    }
}

/* For Q2_K (with minima) and Q3_K (negated). */
INLINE void mac_exact(const void *panels, const void *group, size_t stride, int64_t n, float *sums, const int sub,
                      const int with_min, const int n_cols)
{
    const qn_panel256 *p = panels;
    for (; n > 0; n--, p++, group = (const uint8_t *)group + stride) {
        const group256 *g = group;
        const qn_panel256 *const half[2] = {p, p + SLICE_256};
        __m512i s[COLS][2];
        __m512 T[COLS][2];
        EACH(c, h) s[c][h] = loaded(&half[h]->start[0]);
        for (int at = 0; at < 64; at += 8)
            dot(s, half[0]->w + at, half[1]->w + at, g->q[0] + 4 * at, sizeof g->q[0], 8, n_cols);
        EACH(c, h) T[c][h] = _mm512_cvtepi32_ps(with_min ? s[c][h] : _mm512_sub_epi32(_mm512_setzero_si512(), s[c][h]));
        add_supers(half, group, T, sums, sub, with_min, n_cols);
    }
}

typedef void (*mac_fn)(const void *panels, const void *group, size_t stride, int64_t n, float *sums);

#define MAC(mac, sub, with_min, n_cols) \
    static void mac##_##sub##_##with_min##_##n_cols(const void *panels, const void *group, size_t stride, int64_t n, \
                                                    float *sums) \
    { \
        mac(panels, group, stride, n, sums, sub, with_min, n_cols); \
    }
/* clang-format off */
#define MACS(mac, sub, with_min) \
    MAC(mac, sub, with_min, 1) MAC(mac, sub, with_min, 2) MAC(mac, sub, with_min, 3) \
    MAC(mac, sub, with_min, 4) MAC(mac, sub, with_min, 5) MAC(mac, sub, with_min, 6) \
    static const mac_fn mac##_##sub##_##with_min[COLS] = { \
        mac##_##sub##_##with_min##_1, mac##_##sub##_##with_min##_2, mac##_##sub##_##with_min##_3, \
        mac##_##sub##_##with_min##_4, mac##_##sub##_##with_min##_5, mac##_##sub##_##with_min##_6, \
    };
MACS(mac32, 32, 0)
MACS(mac32, 32, 1)
MACS(mac32_powers, 32, 0)
MACS(mac_singles, 32, 0)
MACS(mac_halves, 32, 1)
MACS(mac_pairs, 32, 1)
MACS(mac_pairs, 16, 0)
MACS(mac_exact, 16, 0)
MACS(mac_exact, 16, 1)
/* clang-format on */

/* ---- the product ----------------------------------------------------------------------------- */

typedef struct format {
    int block; /* elements */
    size_t block_bytes, panel_bytes;
    int slice; /* blocks of a slice */
    qn_panel_fn unpack;
    const mac_fn *macs;
} format;

enum {
    PANELS_BYTES = 2 * SLICE_256 * sizeof(qn_panel256),
    COLS_MAX = (QN_MM_TILE_BYTES - PANELS_BYTES) / (ROWS * 4) / COLS * COLS, /* columns whose sums fit the tile */
};
_Static_assert(2 * SLICE_32 * sizeof(qn_panel32) <= PANELS_BYTES && PANELS_BYTES % 64 == 0, "panels of either kind");

/* `n` blocks from block `b` on */
static void unpack_slice(const qn_mm_args *a, const format *f, int32_t first_row, int64_t b, int64_t n, uint8_t *panels)
{
    for (int h = 0; h < 2; h++) {
        const uint8_t *row[16];
        panel_rows(a, first_row + h * 16, row);
        for (int64_t i = 0; i < n; i++)
            f->unpack(row, (size_t)(b + i) * f->block_bytes, panels + (size_t)(h * f->slice + i) * f->panel_bytes);
    }
}

static void row_panel(const qn_mm_args *a, const format *f, int32_t first_row, int32_t first_col, int32_t n_cols)
{
    const int64_t n_blocks = a->k / f->block, n_most = n_blocks < f->slice ? n_blocks : f->slice;
    uint8_t *panels = (uint8_t *)a->tile;
    float *sums = (float *)(void *)(panels + PANELS_BYTES);

    for (int64_t b = 0; b < n_blocks || b == 0; b += f->slice) {
        const int64_t n = n_blocks - b < f->slice ? n_blocks - b : f->slice;
        const bool last = b + n == n_blocks;
        const uint8_t *next = last ? a->w + (size_t)(first_row + ROWS) * a->w_row_bytes
                                   : a->w + (size_t)first_row * a->w_row_bytes + (size_t)(b + n) * f->block_bytes;
        const uint8_t *group =
            (const uint8_t *)a->x + (size_t)(first_col / COLS) * a->x_row_bytes + (size_t)b * a->x_block_bytes;
        unpack_slice(a, f, first_row, b, n, panels);
        for (int32_t c = 0; c < n_cols; c += COLS, group += a->x_row_bytes) {
            float *sum = sums + (size_t)c * ROWS;
            const int some = n_cols - c < COLS ? n_cols - c : COLS;
            if (b == 0) panel_clear(sum, COLS * ROWS);
            if (last) panel_fetch_y(a, first_row, first_col + c, some);
            panel_prefetch_rows(a, next, (size_t)n_most * f->block_bytes, ROWS * c / n_cols,
                                ROWS * (c + some) / n_cols);
            f->macs[some - 1](panels, group, a->x_block_bytes, n, sum);
            if (last) panel_store(a, first_row, first_col + c, some, sum);
        }
    }
}

static void mm(const qn_mm_args *a, const format *f)
{
    for (int64_t c = 0; c < a->cols; c += COLS_MAX) {
        const int64_t n_cols = a->cols - c < COLS_MAX ? a->cols - c : COLS_MAX;
        for (int64_t r = 0; r < a->rows; r += ROWS) row_panel(a, f, (int32_t)r, (int32_t)c, (int32_t)n_cols);
    }
}

#define FN(name, kind, mac, sub, with_min, unpack) \
    static void mm_##name(const qn_mm_args *a) \
    { \
        static const format f = {kind,   sizeof(qn_block_##name), sizeof(qn_panel##kind), SLICE_##kind, \
                                 unpack, mac##_##sub##_##with_min}; \
        mm(a, &f); \
    }
#define FORMAT(name, sub, with_min) FN(name, 32, mac32, sub, with_min, qn__avx512_panel_##name)
QN_PANEL_FORMATS_32(FORMAT)
#undef FORMAT
#define FORMAT(name, sub, with_min) FN(name, 32, mac32_powers, sub, with_min, panel_powers)
QN_PANEL_FORMATS_POW2(FORMAT)
#undef FORMAT
#define MAC_Q4_K                         mac_halves
#define MAC_Q5_K                         mac_pairs
#define MAC_Q6_K                         mac_pairs
#define MAC_IQ4_XS                       mac_singles
#define FN_256(name, mac, sub, with_min) FN(name, 256, mac, sub, with_min, qn__avx512_panel_##name)
#define FORMAT(name, sub, with_min)      FN_256(name, MAC_##name, sub, with_min)
QN_PANEL_FORMATS_256(FORMAT)
#undef FORMAT
#define FORMAT(name, sub, with_min) FN(name, 256, mac_exact, sub, with_min, qn__avx512_panel_##name)
QN_PANEL_FORMATS_EXACT(FORMAT)
#undef FORMAT

static void set(qn_mm *slot, qn_mm_fn fn, const qn_mm_pack *pack)
{
    slot->panel[0] = (qn_mm_panel){.fn = fn, .pack = pack, .from = 1};
}

void qn__avx512_mm_panel_init(qn_kernels *kernels)
{
#define FORMAT(name, sub, with_min) set(&kernels->mm[QN_DTYPE_##name], mm_##name, &pack32);
    QN_PANEL_FORMATS_32(FORMAT)
#undef FORMAT
#define FORMAT(name, sub, with_min) set(&kernels->mm[QN_DTYPE_##name], mm_##name, &pack32_powers);
    QN_PANEL_FORMATS_POW2(FORMAT)
#undef FORMAT
#define FORMAT(name, sub, with_min) set(&kernels->mm[QN_DTYPE_##name], mm_##name, &pack256);
    QN_PANEL_FORMATS_256(FORMAT)
    QN_PANEL_FORMATS_EXACT(FORMAT)
#undef FORMAT
}
