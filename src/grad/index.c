/* SPDX-License-Identifier: MIT */
/* src/grad/index.c -- what was read by index is added up there; what was written by index is read from there. */
#include "grad/rows.h"

/* Gradients exist where an element replaces or is added to what was there. */
static bool plain_mode(const qn_grad_task *t, int32_t mode)
{
    if (mode == QN_COMBINE_set || mode == QN_COMBINE_add) return true;
    if (t->g->error.status == QN_OK)
        (void)QN_FAIL(&t->g->error, unsupported, "mode %s has no gradient", qn__combine_name(mode));
    return false;
}

/* ---- reading ---- */

void qn__grad_get_rows(qn_grad_task *t)
{
    qn_node *dy = t->dtype[0] == t->dy->dtype ? t->dy : qn__copy(t->g, t->dy, t->dtype[0]);
    t->dx[0] = qn__index_add(t->g, zeros(t, 0), 0, t->src[1], dy, QN_COMBINE_add);
}

void qn__grad_gather(qn_grad_task *t)
{
    const qn_index_attrs *a = t->attrs;
    t->dx[0] = qn__scatter(t->g, zeros(t, 0), a->dim, t->src[1], t->dy, QN_COMBINE_add);
}

void qn__grad_index_select(qn_grad_task *t)
{
    const qn_index_attrs *a = t->attrs;
    t->dx[0] = qn__index_add(t->g, zeros(t, 0), a->dim, t->src[1], t->dy, QN_COMBINE_add);
}

void qn__grad_tri(qn_grad_task *t) { t->dx[0] = qn__op(t->g, QN_OP_tri, t->attrs, &t->dy, 1); }

void qn__grad_pad(qn_grad_task *t)
{
    const qn_pad_attrs *a = t->attrs;
    int64_t before[QN_MAX_RANK], after[QN_MAX_RANK];
    for (int i = 0; i < QN_MAX_RANK; i++) {
        before[i] = -a->before[i];
        after[i] = -a->after[i];
    }
    t->dx[0] = qn__pad(t->g, t->dy, before, after, 0.0);
}

/* ---- writing ---- */

/* sources: x, ids, src; src may be larger than ids: what lies outside takes no part. Where several were set in one
 * place, each gets the gradient of that place, as in PyTorch. */
void qn__grad_scatter(qn_grad_task *t)
{
    qn_graph *g = t->g;
    const qn_index_attrs *a = t->attrs;
    if (!plain_mode(t, a->mode)) return;
    if (t->wanted[0]) {
        t->dx[0] = t->dy;
        if (a->mode == QN_COMBINE_set) {
            qn_node *none = qn__full(g, t->dy->dtype, &t->shape[1], qn__value(0.0));
            t->dx[0] = qn__scatter(g, t->dy, a->dim, t->src[1], none, QN_COMBINE_set);
        }
    }
    if (!t->wanted[2]) return;
    int64_t before[QN_MAX_RANK] = {0}, after[QN_MAX_RANK] = {0};
    for (int i = 0; i < t->shape[1].rank; i++) after[i] = t->shape[2].dim[i] - t->shape[1].dim[i];
    t->dx[2] = qn__gather(g, t->dy, a->dim, t->src[1]);
    if (!qn_shape_equal(&t->shape[1], &t->shape[2])) t->dx[2] = qn__pad(g, t->dx[2], before, after, 0.0);
}

void qn__grad_index_add(qn_grad_task *t)
{
    qn_graph *g = t->g;
    const qn_index_attrs *a = t->attrs;
    if (!plain_mode(t, a->mode)) return;
    if (t->wanted[0]) {
        t->dx[0] = t->dy;
        if (a->mode == QN_COMBINE_set) {
            qn_node *none = qn__full(g, t->dy->dtype, &t->shape[2], qn__value(0.0));
            t->dx[0] = qn__index_add(g, t->dy, a->dim, t->src[1], none, QN_COMBINE_set);
        }
    }
    if (t->wanted[2]) t->dx[2] = qn__index_select(g, t->dy, a->dim, t->src[1]);
}

/* The layout is over the result's row-major elements. */
void qn__grad_strided_update(qn_grad_task *t)
{
    qn_graph *g = t->g;
    const qn_strided_attrs *a = t->attrs;
    if (!plain_mode(t, a->mode)) return;
    if (t->wanted[0]) {
        t->dx[0] = t->dy;
        if (a->mode == QN_COMBINE_set) t->dx[0] = qn__strided_update(g, t->dy, zeros(t, 1), &a->layout, QN_COMBINE_set);
    }
    if (!t->wanted[1]) return;
    qn_node *dense = qn__grad_dense(g, t->dy);
    if (g->error.status != QN_OK) return;
    qn_view_attrs view = {.layout = a->layout};
    view.layout.offset += dense->layout.offset;
    t->dx[1] = qn__op(g, QN_OP_view, &view, &dense, 1);
}
