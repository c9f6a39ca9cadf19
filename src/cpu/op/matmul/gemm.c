/* SPDX-License-Identifier: MIT */
/* src/cpu/op/matmul/gemm.c -- a tile of a product in float32, see gemm.h.
 *
 * A slice of k of the right matrix is packed in panels of PANEL columns, and each panel is multiplied with all rows
 * of the tile: a panel of 256 x 64 floats stays in L2 and streams through L1, and 6 rows x 64 columns of sums stay
 * in registers (outer_f32). Levels with registers for 6 x 16 get it as strips, which stay in L1 for BLOCK rows. The
 * left matrix is read in place when it is float32 and one of its strides is 1 and the other not large; otherwise it
 * is packed BLOCK rows at a time. Columns that do not fill the last panel, and results that are not float32 rows,
 * are summed in a separate tile and stored from there. */
#include "cpu/op/matmul/gemm.h"

#include "cpu/op/ops.h"

enum {
    PANEL = 64, /* columns */
    SLICE = QN_MM_SLICE,
    BLOCK = 48,                    /* rows packed at once */
    B_ROOM = SLICE * QN_GEMM_COLS, /* floats */
    A_ROOM = SLICE * BLOCK,
    Y_ROOM = QN_MM_TILE_BYTES / 4 - B_ROOM - A_ROOM,
    /* times outer_lanes, the largest stride in k: beyond it, TLB and cache sets run out */
    FAR = 8,
    SKINNY_ROWS = 24, /* with fewer rows packing does not pay */
};
_Static_assert(Y_ROOM >= QN_GEMM_ROWS * PANEL, "the last panel of a tile");
_Static_assert(Y_ROOM >= 128 * QN_GEMM_COLS, "a tile of 128 rows that is stored");

/* ---- dividing the work ----------------------------------------------------------------------- */

static int64_t up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }
static int64_t parts(int64_t x, int64_t size) { return (x + size - 1) / size; }

qn_gemm_cut qn__gemm_cut(int64_t m, int64_t n, int64_t k, int64_t batch, bool small_rows)
{
    qn_gemm_cut c = {.rows = small_rows ? 128 : QN_GEMM_ROWS, .cols = QN_GEMM_COLS};
    if (m <= 0 || n <= 0 || batch <= 0) return (qn_gemm_cut){.rows = 1, .cols = 1};
    const double work = (double)m * (double)n * (double)(k > 0 ? k : 1);
    /* Enough tiles for threads to share, where there is enough work: a tile of 24 x 64 x 256 takes about 5 us. */
    for (int step = 0; step < 5; step++) {
        const int64_t tiles = parts(m, c.rows) * parts(n, c.cols);
        if ((double)tiles * (double)batch >= 16 || work / (double)tiles < 2e6) break;
        if (c.rows > c.cols && m > c.rows / 2)
            c.rows /= 2;
        else if (c.cols > PANEL)
            c.cols /= 2;
        else if (c.rows > 24)
            c.rows /= 2;
    }
    c.n_rows = parts(m, c.rows);
    c.rows = up(parts(m, c.n_rows), m > 24 ? 6 : 1);
    c.n_rows = parts(m, c.rows);
    c.n_cols = parts(n, c.cols);
    return c;
}

int64_t qn__gemm_chunk(const qn_gemm_cut *c, int64_t k)
{
    return qn__chunk_of(64 * 64 * 64, c->rows * c->cols * (k > 0 ? k : 1));
}

/* ---- packing --------------------------------------------------------------------------------- */

/* Loads n elements from p with stride `step` as floats. */
static void load(const qn_task *t, qn_dtype dtype, const uint8_t *p, int64_t step, int64_t n, float *dst)
{
    if (dtype == QN_DTYPE_F32 && step == 1)
        memcpy(dst, p, (size_t)n * 4);
    else
        qn__row_load(t->kernels, dtype, p, step, 0, n, dst);
}

/* Packs elements (k, j) to [nk, stride]; `lanes` columns are written, zeros past nj. `spare` holds A_ROOM floats. */
static void pack(const qn_task *t, const qn_gemm_side *s, float *dst, int64_t stride, int64_t k0, int64_t nk,
                 int64_t j0, int64_t nj, int64_t lanes, float *spare)
{
    const int64_t bytes = qn__elem_bytes(s->dtype);
    const uint8_t *from = s->pack ? NULL : s->data + (k0 * s->k_stride + j0 * s->j_stride) * bytes;
    if (s->pack) {
        s->pack(s, dst, stride, k0, nk, j0, nj);
    } else if (s->k_stride == 1 && s->j_stride != 1 && s->dtype == QN_DTYPE_F32) {
        t->kernels->transpose_f32(dst, stride, (const float *)(const void *)from, s->j_stride, nj, nk);
    } else if (s->k_stride == 1 && s->j_stride != 1 && spare) {
        for (int64_t j = 0; j < nj; j += BLOCK) {
            const int64_t n = nj - j < BLOCK ? nj - j : BLOCK;
            for (int64_t i = 0; i < n; i++)
                load(t, s->dtype, from + (j + i) * s->j_stride * bytes, 1, nk, spare + i * SLICE);
            t->kernels->transpose_f32(dst + j, stride, spare, SLICE, n, nk);
        }
    } else {
        for (int64_t k = 0; k < nk; k++)
            load(t, s->dtype, from + k * s->k_stride * bytes, s->j_stride, nj, dst + k * stride);
    }
    if (nj < lanes)
        for (int64_t k = 0; k < nk; k++) memset(dst + k * stride + nj, 0, (size_t)(lanes - nj) * 4);
}

/* The same as strips of `strip` lanes, one after the other, each [nk, strip]. */
static void pack_strips(const qn_task *t, const qn_gemm_side *s, float *dst, int64_t strip, int64_t k0, int64_t nk,
                        int64_t j0, int64_t nj, float *spare)
{
    int64_t l = 0;
    /* a row at a time: the next is on another page */
    if (s->dtype == QN_DTYPE_F32 && s->j_stride == 1 && strip == 16) {
        const float *from = (const float *)(const void *)s->data + k0 * s->k_stride + j0;
        for (int64_t k = 0; k < nk; k++)
            for (l = 0; l + 16 <= nj; l += 16) memcpy(dst + l * nk + k * 16, from + k * s->k_stride + l, 64);
    }
    for (; l < nj; l += strip) {
        const int64_t n = nj - l < strip ? nj - l : strip;
        pack(t, s, dst + l * nk, strip, k0, nk, j0 + l, n, up(n, 16), spare);
    }
}

/* ---- storing --------------------------------------------------------------------------------- */

/* Finishes one row of sums: the epilogue, then the store. `line` has room for the row. */
static void finish_row(const qn_task *t, const qn_gemm *g, int64_t i, int64_t j0, int64_t n, float *x)
{
    const float alpha = (float)g->alpha, beta = (float)g->beta;
    if (alpha != 1)
        for (int64_t j = 0; j < n; j++) x[j] *= alpha;
    if (g->c) {
        const uint8_t *c = g->c + (i * g->c_row + j0 * g->c_col) * qn__elem_bytes(g->dtype);
        if (g->dtype == QN_DTYPE_F32) {
            const float *p = (const float *)(const void *)c;
            for (int64_t j = 0; j < n; j++) x[j] += beta * p[j * g->c_col];
        } else {
            const int64_t bytes = qn__elem_bytes(g->dtype);
            for (int64_t j = 0; j < n; j++) {
                float one;
                qn__row_load(t->kernels, g->dtype, c + j * g->c_col * bytes, 1, 0, 1, &one);
                x[j] += beta * one;
            }
        }
    }
}

static void store_row(const qn_task *t, const qn_gemm *g, int64_t i, int64_t j0, int64_t n, float *x)
{
    finish_row(t, g, i, j0, n, x);
    if (g->store)
        g->store(g, t, i, j0, n, x);
    else
        qn__row_store(t->kernels, g->dtype, g->y + (i * g->y_stride + j0) * qn__elem_bytes(g->dtype), x, n);
}

/* ---- the tile -------------------------------------------------------------------------------- */

typedef struct place {
    float *b, *a, *y;       /* the three parts of the thread's tile */
    int64_t panels, direct; /* panels of the tile; how many of them are written straight to y */
} place;

static bool left_in_place(const qn_task *t, const qn_gemm_side *a)
{
    return a->dtype == QN_DTYPE_F32 && !a->pack &&
           (a->k_stride == 1 || (a->j_stride == 1 && a->k_stride <= FAR * t->kernels->outer_lanes));
}

/* Rows [i, i + n) of the left matrix for k from k0 on, as outer_f32 takes them. */
static void left(const qn_task *t, const qn_gemm_side *a, float *room, int64_t k0, int64_t nk, int64_t i, int64_t n,
                 qn_outer *o)
{
    if (left_in_place(t, a)) {
        o->a = (const float *)(const void *)a->data + k0 * a->k_stride + i * a->j_stride;
        o->a_out = a->k_stride == 1 ? a->j_stride : 1;
        o->a_in = a->k_stride;
        if (o->a_out == 1) o->a_in = a->k_stride; /* both 1: both readings are right */
        return;
    }
    if (a->k_stride == 1 && !a->pack) { /* rows in place */
        for (int64_t r = 0; r < n; r++)
            load(t, a->dtype, a->data + ((i + r) * a->j_stride + k0) * qn__elem_bytes(a->dtype), 1, nk,
                 room + r * SLICE);
        o->a_out = SLICE;
        o->a_in = 1;
        /* dense for each strip */
    } else if (a->dtype == QN_DTYPE_F32 && !a->pack && a->j_stride == 1 && t->kernels->outer_lanes < PANEL) {
        t->kernels->transpose_f32(room, SLICE, (const float *)(const void *)a->data + k0 * a->k_stride + i, a->k_stride,
                                  nk, n);
        o->a_out = SLICE;
        o->a_in = 1;
    } else {
        pack(t, a, room, BLOCK, k0, nk, i, n, n, NULL);
        o->a_out = 1;
        o->a_in = BLOCK;
    }
    o->a = room;
}

/* No packing of the right matrix: its rows are floats that fill the lanes, and the left one has too few rows to pay
 * for packing. */
static bool right_in_place(const qn_gemm_side *b, int64_t rows, int64_t cols)
{
    return b->dtype == QN_DTYPE_F32 && !b->pack && b->j_stride == 1 && cols % 16 == 0 &&
           (rows <= SKINNY_ROWS || b->k_stride <= 2 * PANEL);
}

static void slice(const qn_task *t, const qn_gemm *g, const place *p, int64_t k0, int64_t nk, int64_t i0, int64_t i1,
                  int64_t j0, int64_t j1)
{
    qn_outer o = {.n_in = nk, .mode = k0 == 0 ? QN_OUTER_set : QN_OUTER_add};
    const bool b_there = right_in_place(&g->b, i1 - i0, j1 - j0), a_there = left_in_place(t, &g->a);
    const int64_t strip = g->b.dtype == QN_DTYPE_F32 && !g->b.pack ? t->kernels->outer_lanes : PANEL;
    const int64_t step = a_there && (b_there || strip == PANEL) ? i1 - i0 : BLOCK; /* strips share rows in L2 */
    if (!b_there) {
        for (int64_t panel = 0; panel < p->panels; panel++) {
            const int64_t j = j0 + panel * PANEL, nj = j1 - j < PANEL ? j1 - j : PANEL;
            pack_strips(t, &g->b, p->b + panel * SLICE * PANEL, strip, k0, nk, j, nj, p->a);
        }
    }
    for (int64_t i = i0; i < i1; i += step) {
        o.n_out = i1 - i < step ? i1 - i : step;
        left(t, &g->a, p->a, k0, nk, i, o.n_out, &o);
        for (int64_t panel = 0; panel < p->panels; panel++) {
            const int64_t j = j0 + panel * PANEL, nj = j1 - j < PANEL ? j1 - j : PANEL;
            o.b = b_there ? (const float *)(const void *)g->b.data + k0 * g->b.k_stride + j
                          : p->b + panel * SLICE * PANEL;
            o.b_stride = b_there ? g->b.k_stride : strip;
            if (panel < p->direct) {
                o.y = (float *)(void *)g->y + i * g->y_stride + j;
                o.y_stride = g->y_stride;
            } else {
                o.y_stride = (p->panels - p->direct) * PANEL;
                o.y = p->y + (i - i0) * o.y_stride + (panel - p->direct) * PANEL;
            }
            const int64_t lanes = up(nj, 16), width = b_there ? lanes : strip;
            for (int64_t l = 0; l < lanes; l += width, o.y += width, o.b += width * nk) {
                o.n_lanes = lanes - l < width ? lanes - l : width;
                t->kernels->outer_f32(&o);
            }
        }
    }
}

void qn__gemm_tile(const qn_task *t, const qn_gemm *g, int64_t i0, int64_t i1, int64_t j0, int64_t j1)
{
    place p = {.b = t->tile, .a = t->tile + B_ROOM, .y = t->tile + B_ROOM + A_ROOM, .panels = parts(j1 - j0, PANEL)};
    const bool straight = g->dtype == QN_DTYPE_F32 && !g->store;
    p.direct = !straight ? 0 : (j1 - j0) % 16 == 0 ? p.panels : (j1 - j0) / PANEL;
    for (int64_t k = 0; k == 0 || k < g->k; k += SLICE)
        slice(t, g, &p, k, g->k - k < SLICE ? g->k - k : SLICE, i0, i1, j0, j1);

    const int64_t n_direct = p.direct * PANEL < j1 - j0 ? p.direct * PANEL : j1 - j0,
                  width = (p.panels - p.direct) * PANEL;
    if (n_direct > 0 && (g->alpha != 1 || g->c))
        for (int64_t i = i0; i < i1; i++)
            finish_row(t, g, i, j0, n_direct, (float *)(void *)g->y + i * g->y_stride + j0);
    if (n_direct < j1 - j0)
        for (int64_t i = i0; i < i1; i++) store_row(t, g, i, j0 + n_direct, j1 - j0 - n_direct, p.y + (i - i0) * width);
}

void qn__gemm_run(const qn_task *t, const qn_gemm *g, const qn_gemm_cut *cut, int64_t m, int64_t n, int64_t tile)
{
    const int64_t i0 = tile % cut->n_rows * cut->rows, j0 = tile / cut->n_rows * cut->cols;
    const int64_t i1 = m - i0 < cut->rows ? m : i0 + cut->rows, j1 = n - j0 < cut->cols ? n : j0 + cut->cols;
    const qn_dtype_class class = qn_dtype_get(g->dtype)->class_;
    if (g->dtype == QN_DTYPE_F64)
        qn__gemm_tile_f64(t, g, i0, i1, j0, j1);
    else if (class == QN_CLASS_real)
        qn__gemm_tile(t, g, i0, i1, j0, j1);
    else
        qn__gemm_tile_int(t, g, i0, i1, j0, j1);
}
