/* SPDX-License-Identifier: MIT */
/* src/cpu/op/matmul/gemm_wide.c -- tiles of products in 64 bits: F64 by panels as in gemm.c, integers by plain loops.
 * See gemm.h. */
#include "cpu/op/matmul/gemm.h"

#include "cpu/op/ops.h"

enum { SLICE = QN_MM_SLICE, ROOM = QN_MM_TILE_BYTES / 8 };

/* ---- F64 ------------------------------------------------------------------------------------- */

enum { PANEL = 48, BLOCK = 24, B_ROOM = SLICE * PANEL, A_ROOM = SLICE * BLOCK };
_Static_assert(B_ROOM + A_ROOM + QN_GEMM_ROWS * PANEL <= ROOM, "one panel of a tile");

static void pack_f64(const qn_gemm_side *s, double *dst, int64_t stride, int64_t k0, int64_t nk, int64_t j0, int64_t nj,
                     int64_t lanes)
{
    const double *from = (const double *)(const void *)s->data; /* none with a pack of its own */
    if (s->pack)
        s->pack(s, dst, stride, k0, nk, j0, nj);
    else
        for (int64_t k = 0; k < nk; k++)
            qn__move(8, dst + k * stride, 1, from + (k0 + k) * s->k_stride + j0 * s->j_stride, s->j_stride, nj);
    if (nj < lanes)
        for (int64_t k = 0; k < nk; k++) memset(dst + k * stride + nj, 0, (size_t)(lanes - nj) * 8);
}

static void store_f64(const qn_task *t, const qn_gemm *g, int64_t i, int64_t j0, int64_t n, double *x)
{
    const double *c = g->c ? (const double *)(const void *)g->c + i * g->c_row + j0 * g->c_col : NULL;
    for (int64_t j = 0; j < n; j++)
        x[j] = (g->alpha != 1 ? g->alpha * x[j] : x[j]) + (c ? g->beta * c[j * g->c_col] : 0);
    if (g->store)
        g->store(g, t, i, j0, n, x);
    else
        memcpy((double *)(void *)g->y + i * g->y_stride + j0, x, (size_t)n * 8);
}

static void panel_f64(const qn_task *t, const qn_gemm *g, int64_t i0, int64_t i1, int64_t j0, int64_t n)
{
    double *b = (double *)(void *)t->tile, *a = b + B_ROOM, *y = a + A_ROOM;
    for (int64_t k0 = 0; k0 == 0 || k0 < g->k; k0 += SLICE) {
        const int64_t nk = g->k - k0 < SLICE ? g->k - k0 : SLICE;
        pack_f64(&g->b, b, PANEL, k0, nk, j0, n, (n + 7) / 8 * 8);
        for (int64_t i = i0; i < i1; i += BLOCK) {
            qn_outer_f64 o = {.y = y + (i - i0) * PANEL,
                              .y_stride = PANEL,
                              .a = a,
                              .a_out = 1,
                              .a_in = BLOCK,
                              .b = b,
                              .b_stride = PANEL,
                              .n_lanes = (n + 7) / 8 * 8,
                              .n_out = i1 - i < BLOCK ? i1 - i : BLOCK,
                              .n_in = nk,
                              .mode = k0 == 0 ? QN_OUTER_set : QN_OUTER_add};
            if (g->a.pack) {
                g->a.pack(&g->a, a, BLOCK, k0, nk, i, o.n_out);
            } else {
                o.a = (const double *)(const void *)g->a.data + k0 * g->a.k_stride + i * g->a.j_stride;
                o.a_out = g->a.j_stride;
                o.a_in = g->a.k_stride;
            }
            t->kernels->outer_f64(&o);
        }
    }
    for (int64_t i = i0; i < i1; i++) store_f64(t, g, i, j0, n, y + (i - i0) * PANEL);
}

void qn__gemm_tile_f64(const qn_task *t, const qn_gemm *g, int64_t i0, int64_t i1, int64_t j0, int64_t j1)
{
    for (int64_t j = j0; j < j1; j += PANEL) panel_f64(t, g, i0, i1, j, j1 - j < PANEL ? j1 - j : PANEL);
}

/* ---- integers -------------------------------------------------------------------------------- */

enum { COLS = 64, ROWS = 128 };
_Static_assert(SLICE *COLS + SLICE + (ROWS + 1) * COLS <= ROOM, "an integer tile");

/* Unsigned, so that sums wrap. */
static void tile_int(const qn_task *t, const qn_gemm *g, int64_t i0, int64_t rows, int64_t j0, int64_t n)
{
    const qn_typed *type = qn__typed(g->dtype);
    const int64_t bytes = qn__elem_bytes(g->dtype);
    int64_t *b = (int64_t *)(void *)t->tile, *a = b + SLICE * COLS;
    uint64_t *sum = (uint64_t *)(void *)(a + SLICE);
    memset(sum, 0, (size_t)(rows * COLS) * 8);
    for (int64_t k0 = 0; k0 < g->k; k0 += SLICE) {
        const int64_t nk = g->k - k0 < SLICE ? g->k - k0 : SLICE;
        for (int64_t k = 0; k < nk; k++)
            type->widen(b + k * COLS, g->b.data + ((k0 + k) * g->b.k_stride + j0 * g->b.j_stride) * bytes,
                        g->b.j_stride, n);
        for (int64_t i = 0; i < rows; i++) {
            type->widen(a, g->a.data + (k0 * g->a.k_stride + (i0 + i) * g->a.j_stride) * bytes, g->a.k_stride, nk);
            for (int64_t k = 0; k < nk; k++)
                for (int64_t j = 0; j < n; j++) sum[i * COLS + j] += (uint64_t)a[k] * (uint64_t)b[k * COLS + j];
        }
    }
    const uint64_t alpha = (uint64_t)(int64_t)g->alpha, beta = (uint64_t)(int64_t)g->beta;
    int64_t *line = (int64_t *)(void *)(sum + ROWS * COLS);
    for (int64_t i = 0; i < rows; i++) {
        memset(line, 0, COLS * 8);
        if (g->c) type->widen(line, g->c + ((i0 + i) * g->c_row + j0 * g->c_col) * bytes, g->c_col, n);
        for (int64_t j = 0; j < n; j++) line[j] = (int64_t)(alpha * sum[i * COLS + j] + beta * (uint64_t)line[j]);
        type->narrow(g->y + ((i0 + i) * g->y_stride + j0) * bytes, line, n);
    }
}

void qn__gemm_tile_int(const qn_task *t, const qn_gemm *g, int64_t i0, int64_t i1, int64_t j0, int64_t j1)
{
    for (int64_t i = i0; i < i1; i += ROWS)
        for (int64_t j = j0; j < j1; j += COLS)
            tile_int(t, g, i, i1 - i < ROWS ? i1 - i : ROWS, j, j1 - j < COLS ? j1 - j : COLS);
}
