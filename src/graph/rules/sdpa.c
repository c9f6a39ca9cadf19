/* SPDX-License-Identifier: MIT */
/* src/graph/rules/sdpa.c -- what attention over whole tensors accepts and yields. */
#include "graph/rules/rules.h"
#include <math.h>

static qn_status check_attrs(const qn_node *n, qn_error *err)
{
    const qn_sdpa_attrs *a = n->attrs;
    if (!isfinite(a->scale) || !isfinite(a->softcap) || a->softcap < 0) {
        return QN_FAIL(err, invalid,
                       "%s: scale %g and softcap %g, finite numbers and none below 0 for the softcap expected", OP(n),
                       a->scale, a->softcap);
    }
    if (a->window < 0 || (a->window > 0 && !a->causal)) {
        return QN_FAIL(err, invalid, "%s: a window of %lld, 0 or more and only with causal expected", OP(n),
                       (long long)a->window);
    }
    return QN_OK;
}

/* Sources 0 to 2. Counts of elements of results are kept far from what int64 holds. */
static qn_status check_qkv(const qn_node *n, qn_sdpa_sizes *s, qn_error *err)
{
    static const char *const names[] = {"q", "k", "v"};
    QN_TRY(check_attrs(n, err));
    for (int i = 0; i < 3; i++) {
        const qn_dtype d = n->src[i]->dtype;
        if (d != QN_DTYPE_F32 && d != QN_DTYPE_F64)
            return QN_FAIL(err, invalid, "%s: %s is %s, F32 or F64 expected", OP(n), names[i], DTYPE(d));
        QN_TRY(rule_same_dtype(n, 0, i, err));
        QN_TRY(rule_rank(n, i, names[i], 4, 4, err));
    }
    const qn_layout *q = &n->src[0]->layout, *k = &n->src[1]->layout, *v = &n->src[2]->layout;
    *s = qn__sdpa_sizes(q, k, v);
    const bool fits = k->dim[0] == s->batch && v->dim[0] == s->batch && v->dim[1] == s->kv_heads && v->dim[2] == s->m &&
                      k->dim[3] == s->d;
    if (!fits || s->d < 1 || s->dv < 1) {
        return QN_FAIL(err, invalid, "%s: q %s, k %s, v %s: [b,h,n,d], [b,g,m,d] and [b,g,m,e] expected", OP(n),
                       SHAPE(n->src[0]), SHAPE(n->src[1]), SHAPE(n->src[2]));
    }
    if (s->kv_heads < 1 ? s->heads > 0 : s->heads % s->kv_heads != 0) {
        return QN_FAIL(err, invalid, "%s: %lld heads of q don't divide into %lld of k and v", OP(n),
                       (long long)s->heads, (long long)s->kv_heads);
    }
    double most = 4.0; /* parts of a result, each padded at most so much */
    const int64_t factor[] = {s->batch, s->heads + 1, s->n + s->m + 64, s->d + s->dv + 16};
    for (int i = 0; i < 4; i++) most *= (double)factor[i];
    if (most > 0x1p58)
        return QN_FAIL(err, limit, "%s: q %s with k %s is too large", OP(n), SHAPE(n->src[0]), SHAPE(n->src[1]));
    return QN_OK;
}

static qn_status check_mask(const qn_node *n, int i, const qn_sdpa_sizes *s, qn_error *err)
{
    const qn_node *mask = n->src[i];
    const int64_t want[] = {s->batch, s->heads, s->n, s->m};
    if (mask->dtype != QN_DTYPE_BOOL) QN_TRY(rule_same_dtype(n, 0, i, err));
    QN_TRY(rule_rank(n, i, "the mask", 4, 4, err));
    for (int k = 0; k < 4; k++) {
        if (mask->layout.dim[k] == want[k] || mask->layout.dim[k] == 1) continue;
        return QN_FAIL(err, invalid, "%s: the mask is %s, %s or sizes of 1 expected", OP(n), SHAPE(mask),
                       SHAPE_TEXT(&qn_shape_of(want[0], want[1], want[2], want[3])));
    }
    return QN_OK;
}

static qn_status check_count(const qn_node *n, int have, qn_error *err)
{
    if (n->n_src == have) return QN_OK;
    return QN_FAIL(err, invalid, "%s: %d sources, %d expected", OP(n), n->n_src, have);
}

qn_status qn__rule_sdpa(qn_node *n, qn_error *err)
{
    const qn_sdpa_attrs *a = n->attrs;
    qn_sdpa_sizes s;
    QN_TRY(check_count(n, 3 + (a->has_mask != 0) + (a->has_sinks != 0), err));
    QN_TRY(check_qkv(n, &s, err));
    if (a->has_mask) QN_TRY(check_mask(n, 3, &s, err));
    if (a->has_sinks) {
        const int i = n->n_src - 1;
        QN_TRY(rule_same_dtype(n, 0, i, err));
        QN_TRY(rule_shape(n, i, "the sinks", &qn_shape_of(s.heads), err));
    }
    return rule_dense(n, n->src[0]->dtype, &qn_shape_of(qn__sdpa_parts(&s).forward), err);
}

qn_status qn__rule_sdpa_back(qn_node *n, qn_error *err)
{
    const qn_sdpa_attrs *a = n->attrs;
    qn_sdpa_sizes s;
    QN_TRY(check_count(n, 5 + (a->has_mask != 0), err));
    QN_TRY(check_qkv(n, &s, err));
    if (a->has_mask) QN_TRY(check_mask(n, 5, &s, err));
    const qn_sdpa_parts parts = qn__sdpa_parts(&s);
    const qn_shape all = qn_shape_of(parts.forward), y = qn_layout_shape(&parts.y);
    QN_TRY(rule_same_dtype(n, 0, 3, err));
    QN_TRY(rule_same_dtype(n, 0, 4, err));
    QN_TRY(rule_shape(n, 3, "the result", &all, err));
    QN_TRY(rule_shape(n, 4, "dy", n->src[4]->layout.rank == 1 ? &all : &y, err));
    return rule_dense(n, n->src[0]->dtype, &qn_shape_of(parts.back), err);
}
