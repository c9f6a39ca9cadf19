/* SPDX-License-Identifier: MIT */
/* src/cpu/amx/mm_panel_32.c -- products of blocks of 32 with many quantized columns (act.h), by tiles. A block has a
 * sum of its own, which needs only half of a tile product; the other half multiplies w with -zero, so that the
 * result is S. Three vector instructions a column then add it up, where VNNI needs twelve for everything. Two
 * threads of a shared Sapphire Rapids, compared with avx512's panels: 0.84 to 1.48 times as fast, median 1.1 (busy
 * neighbours share the tiles). Two groups with two panels at a time, so that each loaded tile serves twice, keep
 * their sums in memory: 0.94 times this. */
#include "cpu/amx/amx.h"
#include "cpu/avx512/mm_panel.h"
#include "cpu/avx512/panel_drive.h"
#include "cpu/kernel/inline.h"
#include "quant/blocks.h"

/* From: columns; with fewer the panels of avx512 are as fast or faster. */
enum { ROWS = PANEL_ROWS, LANES = 16, COLS = 16, SLICE = 8, FROM = 29 };

/* One block of a group of columns. */
typedef struct group {
    int8_t q[COLS][64]; /* q of 32 elements, then 32 times -zero */
    float d[COLS], d_sum[COLS];
} group;

static void put(void *to, size_t stride, int col, const void *blocks, int64_t n)
{
    for (const qn_act32 *x = blocks; n > 0; n--, x++, to = (uint8_t *)to + stride) {
        group *g = to;
        memcpy(g->q[col], x->q, 32);
        memset(g->q[col] + 32, -x->zero, 32);
        g->d[col] = x->d;
        g->d_sum[col] = x->d * (float)x->sum;
    }
}

static const qn_mm_pack pack = {COLS, sizeof(group), put};

/* A block of sixteen rows; w twice. */
typedef struct panel {
    __m512i w[16];
    __m512 d, m;
} panel;

typedef int32_t sums[COLS][LANES];

INLINE void dot(const panel *p, const group *g, sums *s)
{
    QN_TILE_LOAD(5, p->w, 64);
    QN_TILE_LOAD(4, g->q, 64);
    QN_TILE_ZERO(0);
    QN_TILE_DOT(0, 4, 5);
    QN_TILE_STORE(0, *s, 64);
}

INLINE void add(const panel *p, const group *g, const sums *s, __m512 *acc, const int with_min, const int n_cols)
{
    const __m512 d = p->d, m = p->m;
    UNROLL
    for (int c = 0; c < n_cols; c++) {
        const __m512 dd = _mm512_mul_ps(d, _mm512_set1_ps(g->d[c]));
        acc[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512((*s)[c])), dd, acc[c]);
        if (with_min) acc[c] = _mm512_fmadd_ps(m, _mm512_set1_ps(g->d_sum[c]), acc[c]);
    }
}

/* A block of a group, multiplied one step later. */
INLINE void prefetch_group(const uint8_t *x)
{
    UNROLL
    for (size_t at = 0; at < sizeof(group); at += 64) _mm_prefetch((const char *)x + at, _MM_HINT_T0);
}

/* Multiplies n blocks of a panel with a group; tiles run one block ahead of vectors. y: [n_cols][ROWS]. next: n
 * blocks to prefetch to L1, or NULL. */
INLINE void mac(const panel *p, const uint8_t *x, size_t stride, int64_t n, float *y, const uint8_t *next,
                const int with_min, const int n_cols)
{
    sums s[2] __attribute__((aligned(64)));
    __m512 acc[COLS];
    UNROLL
    for (int c = 0; c < n_cols; c++) acc[c] = _mm512_load_ps(y + c * ROWS);
    dot(p, (const void *)x, &s[0]);
    if (next) prefetch_group(next);
    for (int64_t i = 1; i < n; i++, p++, x += stride) {
        dot(p + 1, (const void *)(x + stride), &s[i & 1]);
        if (next) prefetch_group(next += stride);
        add(p, (const void *)x, (const sums *)&s[~i & 1], acc, with_min, n_cols);
    }
    add(p, (const void *)x, (const sums *)&s[~n & 1], acc, with_min, n_cols);
    UNROLL
    for (int c = 0; c < n_cols; c++) _mm512_store_ps(y + c * ROWS, acc[c]);
}

typedef void (*mac_fn)(const panel *p, const uint8_t *x, size_t stride, int64_t n, float *y, const uint8_t *next);
#define MAC(with_min, n_cols) \
    static void mac_##with_min##_##n_cols(const panel *p, const uint8_t *x, size_t stride, int64_t n, float *y, \
                                          const uint8_t *next) \
    { \
        mac(p, x, stride, n, y, next, with_min, n_cols); \
    }
#define MACS(with_min) \
    MAC(with_min, 4) \
    MAC(with_min, 8) \
    MAC(with_min, 12) \
    MAC(with_min, 16) \
    static const mac_fn macs_##with_min[] = {mac_##with_min##_4, mac_##with_min##_8, mac_##with_min##_12, \
                                             mac_##with_min##_16};
MACS(0)
MACS(1)

typedef struct format {
    size_t block_bytes;
    qn_panel_fn unpack;
    const mac_fn *macs;
} format;

enum {
    PANELS_BYTES = 2 * SLICE * sizeof(panel),
    COLS_MAX = (QN_MM_TILE_BYTES - PANELS_BYTES) / (ROWS * 4) / COLS * COLS, /* columns whose sums fit the tile */
};

static void unpack(const format *f, const uint8_t *const *row, size_t at, panel *to)
{
    qn_panel32 p;
    f->unpack(row, at, &p);
    for (int i = 0; i < 16; i++) to->w[i] = p.w[i % 8];
    to->d = p.d;
    if (f->macs == macs_1) to->m = p.m;
}

static void row_panel(const qn_mm_args *a, const void *which, int32_t first_row, int32_t first_col, int32_t n_cols)
{
    const format *f = which;
    const int64_t n_blocks = a->k / 32, n_most = n_blocks < SLICE ? n_blocks : SLICE;
    panel *panels = (void *)a->tile;
    float *y = (float *)(void *)((uint8_t *)a->tile + PANELS_BYTES);
    const uint8_t *row[2][LANES];
    for (int h = 0; h < 2; h++) panel_rows(a, first_row + h * LANES, row[h]);
    panel_clear(y, (int64_t)(n_cols + COLS - 1) / COLS * COLS * ROWS);

    for (int64_t b = 0; b < n_blocks; b += SLICE) {
        const int64_t n = n_blocks - b < SLICE ? n_blocks - b : SLICE;
        const bool last = b + n == n_blocks;
        const uint8_t *next = last ? a->w + (size_t)(first_row + ROWS) * a->w_row_bytes
                                   : a->w + (size_t)first_row * a->w_row_bytes + (size_t)(b + n) * f->block_bytes;
        const uint8_t *x =
            (const uint8_t *)a->x + (size_t)(first_col / COLS) * a->x_row_bytes + (size_t)b * a->x_block_bytes;
        for (int h = 0; h < 2; h++)
            for (int64_t i = 0; i < n; i++) unpack(f, row[h], (size_t)(b + i) * f->block_bytes, panels + h * SLICE + i);
        for (int32_t c = 0; c < n_cols; c += COLS, x += a->x_row_bytes) {
            const int some = n_cols - c < COLS ? n_cols - c : COLS;
            if (last) panel_fetch_y(a, first_row, first_col + c, some);
            panel_prefetch_rows(a, next, (size_t)n_most * f->block_bytes, ROWS * c / n_cols,
                                ROWS * (c + some) / n_cols);
            if (some < COLS) qn__tile_config(some);
            for (int h = 0; h < 2; h++)
                f->macs[(some - 1) / 4](panels + h * SLICE, x, a->x_block_bytes, n, y + (size_t)c * ROWS + h * LANES,
                                        h > 0 ? x + a->x_row_bytes : NULL);
            if (some < COLS && n_cols > COLS) qn__tile_config(COLS);
            if (last) panel_store(a, first_row, first_col + c, some, y + (size_t)c * ROWS);
        }
    }
}

static void mm(const qn_mm_args *a, const format *f) { qn__amx_mm(a, f, row_panel, ROWS, COLS_MAX); }

#define FORMAT(name, sub, with_min) \
    static void mm_##name(const qn_mm_args *a) \
    { \
        static const format f = {sizeof(qn_block_##name), qn__avx512_panel_##name, macs_##with_min}; \
        mm(a, &f); \
    }
QN_PANEL_FORMATS_32(FORMAT)
QN_PANEL_FORMATS_POW2(FORMAT)
#undef FORMAT

void qn__amx_mm_panel_32_init(qn_kernels *kernels)
{
#define FORMAT(name, sub, with_min) \
    kernels->mm[QN_DTYPE_##name].panel[1] = (qn_mm_panel){.fn = mm_##name, .pack = &pack, .from = FROM};
    QN_PANEL_FORMATS_32(FORMAT)
    QN_PANEL_FORMATS_POW2(FORMAT)
#undef FORMAT
}
