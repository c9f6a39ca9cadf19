/* SPDX-License-Identifier: MIT */
/* src/cpu/amx/mm_f16.c -- products of F16 weights with columns of two bfloat16 (QN_ACT_512 of act.h).
 *
 * A weight is two bfloat16 as well: its first eight bits and its last three. Tiles multiply three of the four
 * combinations. The chains of a block of 512 run through it 32 elements apart, so that few columns need neither
 * tiles nor transposing: a register holds 16 weights as they lie, each lane is a chain, and only the ends of chains
 * are transposed. For tiles, weights are transposed once for all columns.
 *
 * Two threads of a shared Sapphire Rapids, compared with avx512's products of floats: 256 columns 1.6 to 3 times as
 * fast, 8 columns 0.9, 4 columns 0.7, one column (from memory) 1.05 to 1.1. One column needs 14 vector instructions
 * for 64 bytes: 4 convert, 4 split, 6 multiply. */
#include "cpu/amx/amx.h"
#include "cpu/avx512/avx512.h"
#include "cpu/avx512/gemv_lanes.h"
#include "cpu/avx512/panel_drive.h"

enum {
    TILE = 1024, /* bytes */
    COLS = 16,   /* of a group */
    ROWS = 16,
    GROUPS = 2,      /* that a panel is multiplied with at a time */
    LANES = 16,      /* chains of a block, in pairs */
    STEPS = 16,      /* pairs of elements of each */
    SKINNY_COLS = 4, /* columns at a time without tiles */
    PANEL_FROM = 5,  /* compared with gemv: 4 columns as fast, 6 columns 1.6 times */
    /* rows that few columns read as streams (kernel/gemv_streams.h). Decoding with 1, 4, 7, 16: 5.2, 7.0, 7.9, 8.6
     * tokens/s */
    MAX_ROW_STRIDE = 16,
    PREFETCH_BYTES = 1024, /* 512, 2048: 0.92, 0.95 times as fast */
};

/* ---- columns --------------------------------------------------------------------------------- */

/* One block of a group: x1 and x2 of each pair of chains are a tile. */
typedef struct group {
    uint32_t x[LANES][2][STEPS][COLS];
} group;

/* Two vectors of floats that are bfloat16 numbers, as pairs of bfloat16. */
INLINE __m512i paired(__m512 first, __m512 second)
{
    return _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(first), 16), _mm512_castps_si512(second));
}

static void put(void *to, size_t stride, int col, const void *blocks, int64_t n)
{
    for (const qn_act512 *x = blocks; n > 0; n--, x++, to = (uint8_t *)to + stride) {
        group *g = to;
        for (int part = 0; part < 2; part++)
            for (int i = 0; i < STEPS; i++) {
                uint32_t pair[LANES];
                _mm512_storeu_si512(pair, paired(_mm512_loadu_ps(x->x[part] + 32 * i),
                                                 _mm512_loadu_ps(x->x[part] + 32 * i + 16)));
                for (int l = 0; l < LANES; l++) g->x[l][part][i][col] = pair[l];
            }
    }
}

static const qn_mm_pack pack = {COLS, sizeof(group), put};

/* The nearest bfloat16, as a float; 0 below 2^-126. */
INLINE __m512 rounded(__m512 x)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x)), 16));
}

void qn__amx_split_act512(qn_act512 *y, const float *x, int64_t n)
{
    for (; n > 0; n -= 512, x += 512, y++)
        for (int i = 0; i < 512; i += 16) {
            const __m512 zero = l_set(0),
                         v = n - i >= 16 ? l_load(x + i)
                             : n > i     ? l_load_n(x + i, (int)(n - i), zero)
                                         : zero,
                         high = rounded(v);
            _mm512_storeu_ps(y->x[0] + i, high);
            _mm512_storeu_ps(y->x[1] + i, rounded(l_sub(v, high)));
        }
}

/* ---- few columns ----------------------------------------------------------------------------- */

/* The ends of chains for each column: w1 x1, w2 x1, w1 x2 of each row. */
typedef float ends[3][ROWS][LANES];

/* Multiplies n_rows rows of a block with n_cols columns; n_halves of the chains at a time, as registers hold 24. */
INLINE void chains(const uint8_t *w, size_t row_bytes, const qn_act512 *const *x, ends *to, const int row,
                   const int n_rows, const int n_cols, const int n_halves)
{
    const __m512 upper = _mm512_castsi512_ps(_mm512_set1_epi32((int)0xffff0000u));
    UNROLL
    for (int start = 0; start < 2; start += n_halves) {
        __m512 acc[8][3][2];
        UNROLL
        for (int i = 0; i < n_rows * n_cols; i++) UNROLL
        for (int p = 0; p < 3; p++) UNROLL
        for (int h = 0; h < n_halves; h++) acc[i][p][h] = _mm512_setzero_ps();
        for (int i = 0; i < STEPS; i++) UNROLL
        for (int h = 0; h < n_halves; h++) {
            const int at = 32 * i + 16 * (start + h);
            __m512 w1[4], w2[4];
            UNROLL
            for (int r = 0; r < n_rows; r++) {
                const uint8_t *from = w + (size_t)(row + r) * row_bytes + 2 * at;
                if (start + h == 0) _mm_prefetch((const char *)from + PREFETCH_BYTES, _MM_HINT_T0);
                const __m512 v = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)from));
                w1[r] = _mm512_and_ps(v, upper);
                w2[r] = _mm512_sub_ps(v, w1[r]);
            }
            UNROLL
            for (int c = 0; c < n_cols; c++) {
                const __m512 x1 = _mm512_loadu_ps(x[c]->x[0] + at), x2 = _mm512_loadu_ps(x[c]->x[1] + at);
                UNROLL
                for (int r = 0; r < n_rows; r++) {
                    __m512(*a)[2] = acc[r * n_cols + c];
                    a[0][h] = _mm512_fmadd_ps(w1[r], x1, a[0][h]);
                    a[1][h] = _mm512_fmadd_ps(w2[r], x1, a[1][h]);
                    a[2][h] = _mm512_fmadd_ps(w1[r], x2, a[2][h]);
                }
                /* otherwise compilers load columns first and keep sums in memory */
                if (n_cols > 1) __asm__ volatile("" ::: "memory");
            }
        }
        UNROLL
        for (int r = 0; r < n_rows; r++) UNROLL
        for (int c = 0; c < n_cols; c++) UNROLL
        for (int p = 0; p < 3; p++) {
            const __m512 *a = acc[r * n_cols + c][p];
            float *end = to[c][p][row + r];
            if (n_halves == 2)
                _mm512_store_ps(end, _mm512_add_ps(a[0], a[1]));
            else
                _mm512_store_ps(end, start == 0 ? a[0] : _mm512_add_ps(_mm512_load_ps(end), a[0]));
        }
    }
}

/* y: a register a column, rows in lanes */
typedef void (*block_fn)(const uint8_t *w, size_t row_bytes, const qn_act512 *const *x, __m512 *y);
#define BLOCK_FN(n_rows, n_cols, n_halves) \
    static void block_##n_cols(const uint8_t *w, size_t row_bytes, const qn_act512 *const *x, __m512 *y) \
    { \
        ends e[n_cols] __attribute__((aligned(64))); \
        for (int r = 0; r < ROWS; r += n_rows) chains(w, row_bytes, x, e, r, n_rows, n_cols, n_halves); \
        for (int c = 0; c < n_cols; c++) y[c] = all_lanes(y[c], &e[c]); \
    }

/* Adds the ends of all chains to y, in the order of lanes. */
INLINE __m512 all_lanes(__m512 y, const ends *e)
{
    for (int l = 0; l < LANES; l += 4) {
        words v[3][4];
        UNROLL
        for (int p = 0; p < 3; p++) load_16((const uint8_t *)&(*e)[p][0][l], sizeof(*e)[p][0], v[p]);
        UNROLL
        for (int i = 0; i < 4; i++) UNROLL
        for (int p = 0; p < 3; p++) y = _mm512_add_ps(y, _mm512_castsi512_ps(v[p][i]));
    }
    return y;
}

/* clang-format off */
BLOCK_FN(4, 1, 2) BLOCK_FN(2, 2, 2) BLOCK_FN(2, 3, 1) BLOCK_FN(2, 4, 1)
/* clang-format on */

/* Copies elements [at, k) of sixteen rows, padded with zeros; past the end the last row repeats. */
static void copy_rest(const qn_mm_args *a, int32_t first_row, int32_t row_stride, int64_t at, uint8_t *to)
{
    const int64_t n = a->k - at < 512 ? a->k - at : 512;
    for (int32_t i = 0; i < ROWS; i++, to += TILE) {
        const int32_t r = first_row + i * row_stride;
        memcpy(to, a->w + (size_t)(r < a->rows ? r : a->rows - 1) * a->w_row_bytes + 2 * at, 2 * (size_t)n);
        memset(to + 2 * n, 0, TILE - 2 * (size_t)n);
    }
}

static void skinny_rows(const qn_mm_args *a, int32_t first_row, int32_t row_stride, int32_t first_col, int n_cols)
{
    static const block_fn fns[SKINNY_COLS] = {block_1, block_2, block_3, block_4};
    const bool whole = first_row + (ROWS - 1) * row_stride < a->rows;
    const qn_act512 *x[SKINNY_COLS];
    __m512 y[SKINNY_COLS];
    for (int c = 0; c < n_cols; c++) {
        x[c] = (const void *)((const uint8_t *)a->x + (size_t)(first_col + c) * a->x_row_bytes);
        y[c] = _mm512_setzero_ps();
    }
    for (int64_t at = 0; at < a->k; at += 512) {
        const uint8_t *w = a->w + (size_t)first_row * a->w_row_bytes + 2 * at;
        size_t row_bytes = (size_t)row_stride * a->w_row_bytes;
        if (!whole || a->k - at < 512) {
            copy_rest(a, first_row, row_stride, at, (uint8_t *)a->tile);
            w = (const uint8_t *)a->tile;
            row_bytes = TILE;
        }
        fns[n_cols - 1](w, row_bytes, x, y);
        for (int c = 0; c < n_cols; c++) x[c]++;
    }
    for (int c = 0; c < n_cols; c++) {
        float *to = a->y + (first_col + c) * a->y_stride + first_row, of[ROWS];
        _mm512_storeu_ps(of, y[c]);
        for (int32_t r = 0; r < ROWS && first_row + r * row_stride < a->rows; r++) to[r * row_stride] = of[r];
    }
}

/* Numbers below 2^-126 count as 0, as in tiles (MXCSR: flush to zero, denormals are zero). */
static void gemv(const qn_mm_args *a)
{
    const unsigned state = _mm_getcsr();
    int32_t row_stride;
    _mm_setcsr(state | 0x8040);
    for (int32_t r = 0; r < a->rows; r += row_stride * ROWS) {
        row_stride = qn__row_stride(a, (a->rows - r) / ROWS, MAX_ROW_STRIDE);
        for (int32_t i = 0; i < row_stride; i++)
            for (int32_t c = 0; c < a->cols; c += SKINNY_COLS)
                skinny_rows(a, r + i, row_stride, c, a->cols - c < SKINNY_COLS ? a->cols - c : SKINNY_COLS);
    }
    _mm_setcsr(state);
}

/* ---- many columns ---------------------------------------------------------------------------- */

/* One block of sixteen rows: w1 and w2 of each pair of chains are a tile. */
typedef struct panel {
    __m512i w[LANES][2][ROWS];
} panel;

enum {
    SUMS_FLOATS = ROWS * COLS, /* of a group */
    GROUPS_MAX = (QN_MM_TILE_BYTES - sizeof(panel) - ROWS * TILE) / (SUMS_FLOATS * 4) / GROUPS * GROUPS,
};

static void fill(const uint8_t *w, size_t row_bytes, panel *to)
{
    const __m512i upper = _mm512_set1_epi32((int)0xffff0000u);
    __m512i step[2][STEPS];
    for (int r = 0; r < ROWS; r++, w += row_bytes) {
        for (int i = 0; i < STEPS; i++) {
            const __m512 first = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(w + 64 * i)));
            const __m512 second = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(w + 64 * i + 32)));
            const __m512 f1 = _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(first), upper));
            const __m512 s1 = _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(second), upper));
            step[0][i] = paired(f1, s1);
            step[1][i] = paired(_mm512_sub_ps(first, f1), _mm512_sub_ps(second, s1));
        }
        for (int part = 0; part < 2; part++)
            for (int l = 0; l < LANES; l += 4) {
                words v[4];
                load_16((const uint8_t *)step[part] + 4 * l, 64, v);
                UNROLL
                for (int i = 0; i < 4; i++) to->w[l + i][part][r] = v[i];
            }
    }
}

INLINE void prefetch_lane(const void *tiles)
{
    UNROLL
    for (int i = 0; i < 2 * TILE / 64; i++) _mm_prefetch((const char *)tiles + 64 * i, _MM_HINT_T0);
}

#define GROUP_AT(x) ((const group *)(const void *)(x))

/* Multiplies a panel with one or two groups. Prefetching the next chains to L1 makes it 1.4 times as fast; four
 * groups at a time, 0.8 times. */
INLINE void mac(const panel *p, const uint8_t *x, size_t group_bytes, float *sums, bool first, const int n_groups)
{
    const group *g = GROUP_AT(x), *h = GROUP_AT(x + group_bytes);
    if (first) {
        QN_TILE_ZERO(0);
        if (n_groups > 1) QN_TILE_ZERO(1);
    } else {
        QN_TILE_LOAD(0, sums, 64);
        if (n_groups > 1) QN_TILE_LOAD(1, sums + SUMS_FLOATS, 64);
    }
    for (int l = 0; l < LANES; l++) {
        QN_TILE_LOAD(4, p->w[l][0], 64);
        QN_TILE_LOAD(5, p->w[l][1], 64);
        QN_TILE_LOAD(6, g->x[l][0], 64);
        QN_TILE_DOT_BF16(0, 4, 6);
        if (n_groups > 1) QN_TILE_LOAD(7, h->x[l][0], 64);
        if (n_groups > 1) QN_TILE_DOT_BF16(1, 4, 7);
        QN_TILE_DOT_BF16(0, 5, 6);
        QN_TILE_LOAD(6, g->x[l][1], 64);
        if (n_groups > 1) QN_TILE_DOT_BF16(1, 5, 7);
        if (n_groups > 1) QN_TILE_LOAD(7, h->x[l][1], 64);
        QN_TILE_DOT_BF16(0, 4, 6);
        if (n_groups > 1) QN_TILE_DOT_BF16(1, 4, 7);
        prefetch_lane(g->x[l + 1]);
        if (n_groups > 1) prefetch_lane(h->x[l + 1]);
    }
    QN_TILE_STORE(0, sums, 64);
    if (n_groups > 1) QN_TILE_STORE(1, sums + SUMS_FLOATS, 64);
}

static void mac1(const panel *p, const uint8_t *x, size_t group_bytes, float *sums, bool first)
{
    mac(p, x, group_bytes, sums, first, 1);
}
static void mac2(const panel *p, const uint8_t *x, size_t group_bytes, float *sums, bool first)
{
    mac(p, x, group_bytes, sums, first, 2);
}

static void some_rows(const qn_mm_args *a, const void *none, int32_t first_row, int32_t first_col, int32_t n_cols)
{
    panel *p = (void *)a->tile;
    uint8_t *rest = (uint8_t *)(p + 1);
    float *sums = (float *)(void *)(rest + ROWS * TILE);
    const int n_groups = (n_cols + COLS - 1) / COLS;
    (void)none;
    for (int64_t at = 0; at < a->k; at += 512) {
        const uint8_t *w = a->w + (size_t)first_row * a->w_row_bytes + 2 * at, *x = (const uint8_t *)a->x;
        const uint8_t *next = a->k - at > 512 ? w + TILE : a->w + (size_t)(first_row + ROWS) * a->w_row_bytes;
        x += (size_t)(first_col / COLS) * a->x_row_bytes + (size_t)(at / 512) * a->x_block_bytes;
        if (first_row + ROWS <= a->rows && a->k - at >= 512) {
            fill(w, a->w_row_bytes, p);
        } else {
            copy_rest(a, first_row, 1, at, rest);
            fill(rest, TILE, p);
        }
        for (int g = 0; g < n_groups; g += GROUPS, x += GROUPS * a->x_row_bytes) {
            const int some = n_groups - g < GROUPS ? n_groups - g : GROUPS;
            panel_prefetch_rows(a, next, TILE, ROWS * g / n_groups, ROWS * (g + some) / n_groups);
            (some > 1 ? mac2 : mac1)(p, x, a->x_row_bytes, sums + g * SUMS_FLOATS, at == 0);
        }
    }
    for (int g = 0; g < n_groups; g++) {
        const int some = n_cols - g * COLS < COLS ? n_cols - g * COLS : COLS;
        qn__avx512_transpose_f32(a->y + (first_col + g * COLS) * a->y_stride + first_row, a->y_stride,
                                 sums + g * SUMS_FLOATS, COLS, a->rows - first_row < ROWS ? a->rows - first_row : ROWS,
                                 some);
    }
}

static void mm_panel(const qn_mm_args *a) { qn__amx_mm(a, NULL, some_rows, ROWS, GROUPS_MAX * COLS); }

void qn__amx_mm_f16_init(qn_kernels *kernels)
{
    kernels->split_act512 = qn__amx_split_act512;
    kernels->mm[QN_DTYPE_F16] = (qn_mm){.act = QN_ACT_512,
                                        .gemv = gemv,
                                        .panel = {{.fn = mm_panel, .pack = &pack, .from = PANEL_FROM, .rows = ROWS}}};
}
