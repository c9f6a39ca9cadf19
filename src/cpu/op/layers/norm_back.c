/* SPDX-License-Identifier: MIT */
/* src/cpu/op/layers/norm_back.c -- the gradients of rms_norm and layer_norm. With h = (x - mean) r, r = 1 / sqrt(var
 * + eps) and v = dy w:
 *     dx = r (v - h mean(v h) - mean(v))     rms_norm: mean is 0, and there is no mean(v)
 *     dw = sum over rows of dy h
 *     db = sum over rows of dy
 * Phase 0 takes blocks of rows, whose size depends on the shape alone, and adds up each block's dw and db; phase 1
 * adds the blocks in order. dy and x are read once from memory: a row is still in L1 when it is read again. */
#include "cpu/op/layers/norm.h"
#include "cpu/op/ops.h"
#include "cpu/op/row.h"

#include <string.h>

enum { MIN_BLOCK = 16, MAX_BLOCKS = 256, STRIP = 256 };

#define ATTRS(of) ((const qn_norm_back_attrs *)(of)->attrs)

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    static const char *const names[] = {"dy", "x", "the weight"};
    (void)kernels;
    for (int i = 0; i < node->n_src; i++)
        if (!qn__want_dense_rows(node, names[i], node->src[i], err)) return false;
    return true;
}

static int64_t block_rows(int64_t rows)
{
    const int64_t least = (rows + MAX_BLOCKS - 1) / MAX_BLOCKS;
    return least < MIN_BLOCK ? MIN_BLOCK : least;
}

static int n_sums(const qn_norm_back_attrs *a) { return !!(a->wanted & QN_NORM_w) + !!(a->wanted & QN_NORM_b); }

static int64_t n_blocks(const qn_layout *x)
{
    const int64_t rows = qn_layout_numel(x) > 0 ? qn__row_count(x) : 0, size = block_rows(rows);
    return (rows + size - 1) / size;
}

static uint64_t scratch(const qn_kernels *kernels, const qn_node *node)
{
    (void)kernels;
    const qn_layout *x = &node->src[1]->layout;
    const uint64_t elem = (uint64_t)qn_dtype_get(node->dtype)->block_bytes;
    return (uint64_t)n_blocks(x) * (uint64_t)n_sums(ATTRS(node)) * (uint64_t)qn__row_size(x) * elem;
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    const qn_layout *x = &node->src[1]->layout;
    const int64_t n = qn__row_size(x);
    *chunk = phase == 0 ? qn__chunk_of(4096, n * block_rows(qn__row_count(x))) : 1;
    return phase == 0 ? n_blocks(x) : n_sums(ATTRS(node)) * ((n + STRIP - 1) / STRIP);
}

/* ---- rows: y gets dx; dw and db are added to. NULL where it is not wanted -------------------- */

static void row_f32(const qn_task *t, const float *dy, const float *x, const float *w, float *y, float *dw, float *db,
                    int64_t n)
{
    const qn_kernels *u = t->kernels;
    const bool centred = ATTRS(t)->centred;
    if (db) u->add_f32(db, db, dy, n);
    if (!dw && !y) return;
    const norm_f32 of = norm_of_f32(u, x, n, ATTRS(t)->eps, centred);
    if (dw) u->add_dev_f32(dw, dy, x, of.mean, of.scale, n);
    if (!y) return;
    const float r = of.scale, along = u->dot_dev_f32(dy, w, x, of.mean, n) / (float)n * r;
    const float level = !centred ? 0 : (w ? u->dot_f32(dy, w, n) : u->sum_f32(dy, n)) / (float)n;
    u->norm_back_f32(y, dy, w, x, of.mean, r, -(r * r) * along, -(r * level), n);
}

static void row_f64(const qn_task *t, const double *dy, const double *x, const double *w, double *y, double *dw,
                    double *db, int64_t n)
{
    const bool centred = ATTRS(t)->centred;
    const norm_f64 of = norm_of_f64(x, n, ATTRS(t)->eps, centred);
    double along = 0, level = 0;
    for (int64_t i = 0; i < n; i++) {
        const double h = (x[i] - of.mean) * of.scale, v = w ? dy[i] * w[i] : dy[i];
        along += v * h / (double)n;
        level += centred ? v / (double)n : 0;
        if (dw) dw[i] += dy[i] * h;
        if (db) db[i] += dy[i];
    }
    for (int64_t i = 0; i < n && y; i++) {
        const double h = (x[i] - of.mean) * of.scale, v = w ? dy[i] * w[i] : dy[i];
        y[i] = of.scale * (v - h * along - level);
    }
}

/* The row of dx: in a result that is dx, or in the vector that begins with it. */
static uint8_t *dx_row(const qn_task *t, int64_t row, int64_t n)
{
    return ATTRS(t)->wanted & QN_NORM_x ? t->dst.data + row * n * qn_dtype_get(t->dst.dtype)->block_bytes : NULL;
}

static void do_block(const qn_task *t, int64_t block, int64_t n)
{
    const qn_layout *x = &t->src[1].layout;
    const int64_t rows = qn__row_count(x), size = block_rows(rows), first = block * size,
                  end = first + size < rows ? first + size : rows;
    const int64_t elem = qn_dtype_get(t->dst.dtype)->block_bytes;
    const int sums = n_sums(ATTRS(t));
    const void *w = t->n_src > 2 ? t->src[2].data : NULL;
    uint8_t *sum = sums > 0 ? t->scratch + block * sums * n * elem : NULL;
    if (sum) memset(sum, 0, (size_t)(sums * n * elem));
    void *dw = ATTRS(t)->wanted & QN_NORM_w ? sum : NULL;
    void *db = ATTRS(t)->wanted & QN_NORM_b ? sum + (dw ? n * elem : 0) : NULL;
    for (int64_t r = first; r < end; r++) {
        const void *dy = qn__row_at(&t->src[0], r), *xr = qn__row_at(&t->src[1], r);
        if (t->dst.dtype == QN_DTYPE_F64)
            row_f64(t, dy, xr, w, (double *)(void *)dx_row(t, r, n), dw, db, n);
        else
            row_f32(t, dy, xr, w, (float *)(void *)dx_row(t, r, n), dw, db, n);
    }
}

/* Columns of dw or db: the blocks' sums. */
static void add_blocks(const qn_task *t, int64_t item, int64_t n)
{
    const qn_layout *x = &t->src[1].layout;
    const int64_t strips = (n + STRIP - 1) / STRIP, which = item / strips, begin = item % strips * STRIP;
    const int64_t width = n - begin < STRIP ? n - begin : STRIP, elem = qn_dtype_get(t->dst.dtype)->block_bytes;
    const int64_t first = ATTRS(t)->wanted & QN_NORM_x ? qn_layout_numel(x) : 0, sums = n_sums(ATTRS(t)),
                  blocks = n_blocks(x);
    uint8_t *y = t->dst.data + (first + which * n + begin) * elem;
    memset(y, 0, (size_t)(width * elem));
    for (int64_t b = 0; b < blocks; b++) {
        const uint8_t *part = t->scratch + ((b * sums + which) * n + begin) * elem;
        if (t->dst.dtype == QN_DTYPE_F32) {
            t->kernels->add_f32((float *)(void *)y, (const float *)(const void *)y, (const float *)(const void *)part,
                                width);
            continue;
        }
        for (int64_t i = 0; i < width; i++) ((double *)(void *)y)[i] += ((const double *)(const void *)part)[i];
    }
}

static void run(const qn_task *t)
{
    const int64_t n = qn__row_size(&t->src[1].layout);
    for (int64_t i = t->begin; i < t->end; i++) {
        if (t->phase == 0)
            do_block(t, i, n);
        else
            add_blocks(t, i, n);
    }
}

const qn_cpu_op qn__cpu_op_norm_back = {QN_OP_norm_back, accepts, scratch, 2, items, run};
