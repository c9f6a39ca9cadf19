/* SPDX-License-Identifier: MIT */
/* src/cpu/op/elementwise.c -- see elementwise.h. A source row whose elements do not touch (or that is one broadcast element) is first
 * gathered into this thread's tile; the kernels see dense rows only. */
#include "cpu/op/elementwise.h"

#include "cpu/op/ops.h"
#include "cpu/row.h"

enum { GATHER = QN_MM_TILE_BYTES / 4 / 2 }; /* floats a source */

static bool same_dense(const qn_node *n)
{
    for (int i = 0; i < n->n_src; i++) {
        const qn_layout *l = &n->src[i]->layout;
        if (!qn_layout_is_contiguous(l) || qn_layout_numel(l) != qn_layout_numel(&n->layout)) return false;
    }
    return true;
}

bool qn__ew_accepts(const qn_ukr *ukr, const qn_node *node, qn_error *err)
{
    (void)ukr;
    static const char *const what[] = {"the first source", "the second source"};
    for (int i = 0; i < node->n_src; i++)
        if (!qn__want_dtype(node, what[i], node->src[i], QN_DTYPE_F32, err)) return false;
    return true;
}

int64_t qn__ew_items(const qn_ukr *ukr, const qn_node *node, int phase, int64_t *chunk)
{
    (void)ukr;
    (void)phase;
    if (same_dense(node)) {
        *chunk = 4;
        return (qn_layout_numel(&node->layout) + QN_EW_RUN - 1) / QN_EW_RUN;
    }
    *chunk = qn__chunk_of(4 * QN_EW_RUN, qn__row_size(&node->layout));
    return qn__row_count(&node->layout);
}

static void run_dense(const qn_task *t, qn_ew_fn fn)
{
    const int64_t total = qn_layout_numel(&t->dst.layout);
    for (int64_t item = t->begin; item < t->end; item++) {
        const int64_t at = item * QN_EW_RUN;
        const int64_t n = total - at < QN_EW_RUN ? total - at : QN_EW_RUN;
        const float *b = t->n_src > 1 ? (const float *)(const void *)t->src[1].data + at : NULL;
        fn(t, (float *)(void *)t->dst.data + at, (const float *)(const void *)t->src[0].data + at, b, n);
    }
}

/* The source as if it had the result's shape. */
static qn_layout stretched(const qn_layout *src, const qn_layout *dst)
{
    qn_layout l = *dst;
    l.offset = src->offset;
    for (int i = 0; i < l.rank; i++) {
        const int from = i - (l.rank - src->rank);
        l.stride[i] = from < 0 || src->dim[from] == 1 ? 0 : src->stride[from];
    }
    return l;
}

static const float *dense(const float *row, int64_t step, int64_t at, int64_t n, float *tile)
{
    if (step == 1 || n == 1) return row + at * step;
    for (int64_t i = 0; i < n; i++) tile[i] = row[(at + i) * step];
    return tile;
}

void qn__ew_run(const qn_task *t, qn_ew_fn fn)
{
    if (same_dense(t->node)) {
        run_dense(t, fn);
        return;
    }
    qn_view src[2] = {t->src[0], t->src[t->n_src > 1]};
    int64_t step[2];
    for (int s = 0; s < 2; s++) {
        src[s].layout = stretched(&src[s].layout, &t->dst.layout);
        step[s] = qn__row_step(&src[s].layout);
    }
    const int64_t n = qn__row_size(&t->dst.layout);
    for (int64_t r = t->begin; r < t->end; r++) {
        float *y = qn__row_f32(&t->dst, r);
        const float *a = qn__row_f32(&src[0], r), *b = t->n_src > 1 ? qn__row_f32(&src[1], r) : NULL;
        for (int64_t at = 0; at < n; at += GATHER) {
            const int64_t m = n - at < GATHER ? n - at : GATHER;
            fn(t, y + at, dense(a, step[0], at, m, t->tile), b ? dense(b, step[1], at, m, t->tile + GATHER) : NULL, m);
        }
    }
}
