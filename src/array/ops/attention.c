/* SPDX-License-Identifier: MIT */
/* src/array/ops/attention.c -- scaled dot product attention on handles: one node forward, one backward. What that node
 * does not do, dropout and the gradient of a mask, is composed of other operations and does hold a matrix of all
 * scores. */
#include "array/ops/apply.h"
#include <quern/autograd.h>
#include <quern/functional.h>

#include <math.h>
#include <string.h>

static const char name[] = "scaled_dot_product_attention";

/* q, k and v as [batch, heads, rows, size] of one computing type; mask likewise, with sizes of 1. */
typedef struct call {
    qn_context *ctx;
    qn_tensor *q, *k, *v, *mask, *sinks;
    qn_shape lead; /* the batch dimensions as the caller has them */
    int64_t batch, heads, kv_heads, n, m, d, dv;
    qn_dtype dtype; /* of the result */
    int rank;
    const qn_sdpa_options *options;
    qn_sdpa_attrs attrs;
} call;

/* ---- what was given ---- */

static int64_t dim_back(const qn_tensor *t, int back)
{
    return of(t)->layout.rank >= back ? of(t)->layout.dim[of(t)->layout.rank - back] : 1;
}

static bool no(const call *c, const char *what)
{
    (void)QN_FAIL(qn__err(c->ctx), invalid, "%s: q %s, k %s, v %s: %s", name, QN_TEXT_OF(c->q), QN_TEXT_OF(c->k),
                  QN_TEXT_OF(c->v), what);
    return false;
}

static bool wrong(const call *c, const char *what)
{
    (void)QN_FAIL(qn__err(c->ctx), invalid, "%s: %s", name, what);
    return false;
}

static bool check_options(const call *c)
{
    const qn_sdpa_options *o = c->options;
    if (!(o->dropout_p >= 0 && o->dropout_p <= 1)) return wrong(c, "dropout_p must be from 0 to 1");
    if (!isfinite(o->scale) || !(o->softcap >= 0) || !isfinite(o->softcap))
        return wrong(c, "scale and softcap must be finite, and the softcap not below 0");
    if (o->window < 0 || (o->window > 0 && !o->is_causal))
        return wrong(c, "a window must not be below 0, and goes with is_causal");
    if (o->mask != NULL && o->is_causal) return wrong(c, "a mask and is_causal exclude each other");
    return true;
}

static bool check_types(call *c)
{
    c->dtype = of(c->q)->storage->dtype;
    if (!qn__is_real(c->dtype) || of(c->k)->storage->dtype != c->dtype || of(c->v)->storage->dtype != c->dtype)
        return no(c, "one real dtype expected");
    if (c->sinks != NULL && of(c->sinks)->storage->dtype != c->dtype)
        return wrong(c, "the sinks must have the dtype of q");
    const qn_dtype mask = c->mask != NULL ? of(c->mask)->storage->dtype : QN_DTYPE_BOOL;
    if (mask == QN_DTYPE_BOOL || mask == QN_DTYPE_F32 || mask == c->dtype) return true;
    return wrong(c, "the mask must be BOOL, F32 or of the dtype of q");
}

static qn_shape lead_of(const qn_tensor *t)
{
    qn_shape s = {.rank = of(t)->layout.rank > 3 ? of(t)->layout.rank - 3 : 0};
    memcpy(s.dim, of(t)->layout.dim, (size_t)s.rank * sizeof s.dim[0]);
    return s;
}

static bool check_shapes(call *c)
{
    qn_tensor *const all[] = {c->q, c->k, c->v};
    c->lead = lead_of(c->q);
    c->rank = 2;
    for (int i = 0; i < 3; i++) {
        const qn_shape lead = lead_of(all[i]);
        qn_shape both;
        if (of(all[i])->layout.rank < 2) return no(c, "at least 2 dimensions expected");
        if (qn_shape_broadcast(&c->lead, &lead, &both, NULL) != QN_OK)
            return no(c, "batch dimensions do not broadcast");
        c->lead = both;
        if (of(all[i])->layout.rank > c->rank) c->rank = of(all[i])->layout.rank;
    }
    c->n = dim_back(c->q, 2);
    c->m = dim_back(c->k, 2);
    c->d = dim_back(c->q, 1);
    c->dv = dim_back(c->v, 1);
    if (dim_back(c->k, 1) != c->d) return no(c, "rows of q and k differ in size");
    if (dim_back(c->v, 2) != c->m) return no(c, "k and v differ in rows");
    if (c->d < 1 || c->dv < 1) return no(c, "rows are empty");
    const int64_t hq = dim_back(c->q, 3), hk = dim_back(c->k, 3), hv = dim_back(c->v, 3);
    c->kv_heads = hk == 1 ? hv : hk;
    c->heads = hq == 1 ? c->kv_heads : hq;
    if (hv != c->kv_heads && hv != 1) return no(c, "k and v differ in heads");
    if (c->heads == c->kv_heads || c->kv_heads == 1) return true;
    if (!c->options->enable_gqa) return no(c, "heads differ; enable_gqa lets heads of q share those of k and v");
    return (c->kv_heads > 0 && c->heads % c->kv_heads == 0) ||
           no(c, "heads of q must be a multiple of those of k and v");
}

/* ---- the shapes that the operation takes ---- */

static qn_tensor *four(const call *c, qn_tensor *t, int64_t heads, int64_t rows, int64_t size)
{
    if (t == NULL) return NULL;
    qn_shape wide = c->lead;
    const int64_t last[] = {heads, rows, size};
    memcpy(wide.dim + wide.rank, last, sizeof last);
    wide.rank += 3;
    const qn_shape have = qn_layout_shape(&of(t)->layout);
    if (wide.rank == 4 && qn_shape_equal(&have, &wide)) return t;
    return qn_reshape(qn_expand(t, wide), qn_shape_of(c->batch, heads, rows, size));
}

/* Any shape that broadcasts to [.., heads, n, m]. Leading dimensions of 1 stay so where that can be said in four
 * dimensions. */
static qn_tensor *four_of_mask(const call *c, qn_tensor *t)
{
    const int64_t want[] = {c->m, c->n, c->heads};
    bool fits = of(t)->layout.rank <= c->lead.rank + 3, alone = true;
    for (int back = 1; back <= of(t)->layout.rank && fits; back++) {
        const int64_t have = dim_back(t, back),
                      most = back <= 3 ? want[back - 1] : c->lead.dim[c->lead.rank - back + 3];
        fits = have == most || have == 1;
        if (back > 3 && have != 1) alone = false;
    }
    if (!fits) {
        (void)QN_FAIL(qn__err(c->ctx), invalid, "%s: the mask %s does not broadcast to %lld heads of [%lld,%lld]", name,
                      QN_TEXT_OF(t), (long long)c->heads, (long long)c->n, (long long)c->m);
        return NULL;
    }
    if (alone) return qn_reshape(t, qn_shape_of(1, dim_back(t, 3), dim_back(t, 2), dim_back(t, 1)));
    return four(c, t, dim_back(t, 3), dim_back(t, 2), dim_back(t, 1));
}

static bool bring(call *c)
{
    const qn_dtype compute = c->dtype == QN_DTYPE_F64 ? QN_DTYPE_F64 : QN_DTYPE_F32;
    c->batch = qn_shape_numel(&c->lead);
    c->q = four(c, qn__cast(c->q, compute), c->heads, c->n, c->d);
    c->k = four(c, qn__cast(c->k, compute), c->kv_heads, c->m, c->d);
    c->v = four(c, qn__cast(c->v, compute), c->kv_heads, c->m, c->dv);
    if (c->q == NULL || c->k == NULL || c->v == NULL) return false;
    if (c->mask != NULL) {
        if (of(c->mask)->storage->dtype != QN_DTYPE_BOOL) c->mask = qn__cast(c->mask, compute);
        c->mask = c->mask != NULL ? four_of_mask(c, c->mask) : NULL;
        if (c->mask == NULL) return false;
    }
    if (c->sinks == NULL) return true;
    if (of(c->sinks)->layout.rank != 1 || of(c->sinks)->layout.dim[0] != c->heads)
        return wrong(c, "the sinks must be one number a head of q");
    c->sinks = qn__cast(c->sinks, compute);
    return c->sinks != NULL;
}

/* ---- by one node ---- */

/* The rows are the front of what the node gives; the tape notes them as they lie, [batch, n, heads, dv], and as if they
 * were all: so they can be written in place, and backward finds the rest behind them. */
static qn_tensor *fused(const call *c)
{
    qn_tensor *src[5] = {c->q, c->k, c->v};
    qn_node *nodes[5];
    int n = 3;
    if (c->mask != NULL) src[n++] = c->mask;
    if (c->sinks != NULL) src[n++] = c->sinks;
    for (int i = 0; i < n; i++) {
        nodes[i] = qn__node_of(src[i]);
        if (nodes[i] == NULL) return NULL;
    }
    qn_tensor *result = qn__tensor_of(c->ctx, qn__node_op(c->ctx, QN_OP_sdpa, &c->attrs, nodes, n));
    if (result == NULL) return NULL;
    const qn_sdpa_sizes sizes = {c->batch, c->heads, c->kv_heads, c->n, c->m, c->d, c->dv};
    const qn_sdpa_parts parts = qn__sdpa_parts(&sizes);
    qn_layout rows;
    if (qn_layout_transpose(&parts.y, 1, 2, &rows, qn__err(c->ctx)) != QN_OK) return NULL;
    qn_tensor *y = qn__tensor_alias(result, &rows);
    if (y == NULL) return NULL;
    if (qn__tape_wanted(c->ctx, src, n) && !qn__tape_record(y, QN_OP_sdpa, &c->attrs, src, n)) return NULL;
    return qn_transpose(y, 1, 2);
}

/* ---- composed ---- */

static qn_tensor *for_all_heads(const call *c, qn_tensor *t, int64_t size)
{
    const int64_t group = c->kv_heads > 0 ? c->heads / c->kv_heads : 1;
    if (group == 1) return t;
    return qn_reshape(qn_expand(qn_unsqueeze(t, 2), qn_shape_of(c->batch, c->kv_heads, group, c->m, size)),
                      qn_shape_of(c->batch, c->heads, c->m, size));
}

static qn_tensor *masked(const call *c, qn_tensor *s)
{
    qn_tensor *seen = c->mask;
    if (seen != NULL && of(seen)->storage->dtype != QN_DTYPE_BOOL) return qn_add(s, seen);
    if (c->attrs.causal) {
        const int32_t was = qn__place_swap(c->ctx, qn__place_of(s));
        seen = qn_tril(qn_ones(c->ctx, qn_shape_of(c->n, c->m), QN_DTYPE_BOOL), 0);
        qn__place_swap(c->ctx, was);
        if (c->attrs.window > 0) seen = qn_triu(seen, 1 - c->attrs.window);
        if (seen == NULL) return NULL;
    }
    return seen != NULL ? qn_masked_fill(s, qn_logical_not(seen), -INFINITY) : s;
}

static qn_tensor *composed(const call *c)
{
    qn_tensor *s = qn_matmul(qn_mul_number(c->q, c->attrs.scale), qn_transpose(for_all_heads(c, c->k, c->d), 2, 3));
    if (c->attrs.softcap > 0) s = qn_mul_number(qn_tanh(qn_div_number(s, c->attrs.softcap)), c->attrs.softcap);
    s = s != NULL ? masked(c, s) : NULL;
    qn_tensor *p;
    if (c->sinks != NULL) {
        qn_tensor *column =
            qn_expand(qn_view_as(c->sinks, qn_shape_of(1, c->heads, 1, 1)), qn_shape_of(c->batch, c->heads, c->n, 1));
        qn_tensor *parts[] = {s, column};
        p = s != NULL && column != NULL ? qn_narrow(qn_softmax(qn_cat(parts, 2, 3), 3), 3, 0, c->m) : NULL;
    } else { /* rows that see nothing become 0 */
        qn_tensor *blind = qn_all(qn_eq_number(s, -INFINITY), QN_DIMS(3), true);
        p = qn_masked_fill(qn_softmax(qn_masked_fill(s, blind, 0), 3), blind, 0);
    }
    if (c->options->dropout_p > 0) p = qn_dropout(p, c->options->dropout_p, true);
    return qn_matmul(p, for_all_heads(c, c->v, c->dv));
}

/* ---- */

static qn_tensor *attend(call *c)
{
    if (!check_options(c) || !check_types(c) || !check_shapes(c) || !bring(c)) return NULL;
    const qn_sdpa_options *o = c->options;
    memset(&c->attrs, 0, sizeof c->attrs);
    c->attrs.scale = o->scale != 0 ? o->scale : 1 / sqrt((double)c->d);
    c->attrs.softcap = o->softcap;
    c->attrs.window = o->window;
    c->attrs.causal = o->is_causal;
    c->attrs.has_mask = c->mask != NULL;
    c->attrs.has_sinks = c->sinks != NULL;
    const bool mask_learns = c->mask != NULL && of(c->mask)->grad_fn != NULL && qn_grad_enabled(c->ctx);
    qn_tensor *y = qn__cast(o->dropout_p > 0 || mask_learns ? composed(c) : fused(c), c->dtype);
    if (y == NULL || c->rank == 4) return y;
    qn_shape shape = c->lead;
    if (c->rank > 2) shape.dim[shape.rank++] = c->heads;
    shape.dim[shape.rank++] = c->n;
    shape.dim[shape.rank++] = c->dv;
    return qn_reshape(y, shape);
}

qn_tensor *qn_scaled_dot_product_attention(qn_tensor *q, qn_tensor *k, qn_tensor *v, const qn_sdpa_options *options)
{
    static const qn_sdpa_options none;
    if (options == NULL) options = &none;
    qn_tensor *src[5] = {q, k, v};
    int n = 3;
    if (options->mask != NULL) src[n++] = options->mask;
    if (options->sinks != NULL) src[n++] = options->sinks;
    qn_context *ctx = qn__same_context(name, src, n);
    if (ctx == NULL || !qn__make_room(ctx) || qn_scope_begin(ctx) != QN_OK) return NULL;
    call c = {.ctx = ctx, .q = q, .k = k, .v = v, .mask = options->mask, .sinks = options->sinks, .options = options};
    return qn_scope_end(ctx, attend(&c));
}
