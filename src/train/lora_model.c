/* SPDX-License-Identifier: MIT */
/* src/train/lora_model.c -- the base's forward pass recorded with tensor operations: what model/blocks.c makes nodes of
 * for running, with attention over a whole window instead of a cache, and x a^T b^T beside the layers that learn. Only
 * the pairs have gradients; what comes before the first of them is computed without a tape. */
#include "array/ops/apply.h"
#include "model/forward.h"
#include "train/lora.h"
#include <math.h>
#include <quern/autograd.h>
#include <quern/functional.h>
#include <quern/ops.h>

/* What the recorder's functions get: x is [batch, ctx, ..], heads [batch * ctx, heads, d]. */
typedef struct recording {
    qn_trainer *t;
    bool training;
} recording;

static qn_tensor *tensor(qn_value *x) { return (qn_tensor *)x; }
static qn_value *value(qn_tensor *x) { return (qn_value *)x; }
static const qn_lora_base *base_of(void *ctx) { return ((recording *)ctx)->t->lora; }

static qn_tensor *weight(const qn_lora_base *base, const qn_weight *w) { return w ? base->layers[w->index].w : NULL; }

static qn_value *rows(void *ctx, const qn_weight *table)
{
    qn_tensor *x = qn_embedding(weight(base_of(ctx), table), ((recording *)ctx)->t->ids_in);
    return value(x ? qn_to(x, QN_DTYPE_F32) : NULL);
}

static qn_value *pos_rows(void *ctx, const qn_weight *table)
{
    const qn_train_options *o = &((recording *)ctx)->t->o;
    qn_tensor *x = qn_embedding(weight(base_of(ctx), table), base_of(ctx)->pos);
    return value(x ? qn_view_as(qn_to(x, QN_DTYPE_F32), qn_shape_of(o->n_batch, o->n_ctx, qn_dim(x, -1))) : NULL);
}

static qn_value *dense(void *ctx, qn_value *in, const qn_weight *w, const qn_weight *bias)
{
    const recording *rec = ctx;
    const qn_lora_base *base = rec->t->lora;
    const qn_lora_layer *l = &base->layers[w->index];
    qn_tensor *x = tensor(in), *y = qn_linear(x, l->w, weight(base, bias));
    if (!l->a) return value(y);
    if (rec->training && rec->t->o.dropout > 0) x = qn_dropout(x, (double)rec->t->o.dropout, true);
    qn_tensor *h = qn_mul_number(qn_linear(x, l->a, NULL), (double)(base->alpha / (float)base->rank));
    return value(qn_add(y, qn_linear(h, l->b, NULL)));
}

static qn_value *norm(void *ctx, qn_value *x, qn_norm_kind kind, const qn_weight *w, const qn_weight *bias)
{
    const qn_lora_base *base = base_of(ctx);
    const double eps = (double)base->model->hp.norm_eps;
    qn_tensor *own = w && w->shape.rank == 1 ? weight(base, w) : NULL;
    qn_tensor *y = kind == QN_NORM_layer ? qn_layer_norm(tensor(x), 1, own, weight(base, bias), eps)
                                         : qn_rms_norm(tensor(x), own, eps);
    return value(w && !own ? qn_mul(y, weight(base, w)) : y);
}

static qn_value *add(void *ctx, qn_value *a, qn_value *b)
{
    (void)ctx;
    return value(qn_add(tensor(a), tensor(b)));
}

static qn_value *scale(void *ctx, qn_value *x, float factor)
{
    (void)ctx;
    return value(qn_mul_number(tensor(x), (double)factor));
}

static qn_value *clamp(void *ctx, qn_value *x, float limit)
{
    (void)ctx;
    return value(qn_clamp(tensor(x), -(double)limit, (double)limit));
}

static qn_value *softcap(void *ctx, qn_value *x, float cap)
{
    (void)ctx;
    return value(qn_mul_number(qn_tanh(qn_mul_number(tensor(x), 1 / (double)cap)), (double)cap));
}

static qn_value *part(void *ctx, qn_value *x, int64_t start, int64_t n)
{
    (void)ctx;
    return value(x ? qn_narrow(tensor(x), -1, start, n) : NULL);
}

static qn_value *heads(void *ctx, qn_value *x, int64_t n)
{
    const qn_train_options *o = &((recording *)ctx)->t->o;
    const int64_t d = x ? qn_dim(tensor(x), -1) / n : 1;
    return value(x ? qn_reshape(tensor(x), qn_shape_of((int64_t)o->n_batch * o->n_ctx, n, d)) : NULL);
}

static qn_value *turned(void *ctx, qn_value *x, qn_turn turn)
{
    const qn_lora_base *base = base_of(ctx);
    const qn_rope_attrs *rope = turn == QN_TURN_window ? &base->model->hp.rope_window : &base->model->hp.rope;
    const recording *rec = ctx;
    qn_tensor *src[] = {tensor(x), base->pos, weight(base, qn__rope_factors(&base->model->top, rope, rec->t->o.n_ctx))};
    return value(qn__plain(QN_OP_rope, rope, (qn_target){0}, src, src[2] ? 3 : 2));
}

static qn_value *heat(void *ctx, qn_value *q, const qn_attn_spec *spec)
{
    const qn_lora_base *base = base_of(ctx);
    const int64_t n = qn_numel(base->pos);
    qn_tensor *pos = qn_add_number(qn_to(base->pos, QN_DTYPE_F32), (double)spec->heat_offset + 0.5);
    qn_tensor *steps = qn_floor(qn_mul_number(pos, 1 / (double)spec->heat_floor));
    qn_tensor *f = qn_add_number(qn_mul_number(qn_log1p(steps), (double)spec->heat), 1);
    return value(f ? qn_mul(tensor(q), qn_view_as(f, qn_shape_of(n, 1, 1))) : NULL);
}

static qn_tensor *activated(qn_tensor *x, qn_act act)
{
    qn_tensor *y = act == QN_ACT_silu                              ? qn_silu(x)
                   : act == QN_ACT_gelu || act == QN_ACT_gelu_tanh ? qn_gelu(x, act == QN_ACT_gelu_tanh)
                                                                   : qn_relu(x);
    return act == QN_ACT_relu2 ? qn_square(y) : y;
}

static qn_value *act(void *ctx, qn_value *x, qn_act kind)
{
    (void)ctx;
    return value(activated(tensor(x), kind));
}

static qn_value *gated(void *ctx, qn_value *gate, qn_value *up, qn_act kind)
{
    (void)ctx;
    return value(kind == QN_ACT_silu ? qn_swiglu(tensor(gate), tensor(up))
                                     : qn_mul(activated(tensor(gate), kind), tensor(up)));
}

/* [batch * ctx, n, d], or [batch, ctx, n d], as [batch, n, ctx, d] */
static qn_tensor *heads_first(const qn_train_options *o, qn_value *x, int64_t n, int64_t d)
{
    return x ? qn_transpose(qn_reshape(tensor(x), qn_shape_of(o->n_batch, o->n_ctx, n, d)), 1, 2) : NULL;
}

/* Which keys lie in the same run of `size` positions as a query, BOOL [batch, 1, ctx, ctx]. */
static qn_tensor *same_chunk(const recording *rec, int32_t size)
{
    const qn_train_options *o = &rec->t->o;
    qn_tensor *pos = qn_add_number(qn_to(rec->t->lora->pos, QN_DTYPE_F32), 0.5);
    qn_tensor *chunk = qn_floor(qn_mul_number(pos, 1 / (double)size));
    return qn_eq(qn_view_as(chunk, qn_shape_of(o->n_batch, 1, o->n_ctx, 1)),
                 qn_view_as(chunk, qn_shape_of(o->n_batch, 1, 1, o->n_ctx)));
}

static qn_value *attend(void *ctx, qn_value *q, qn_value *k, qn_value *v, const qn_layer *l, int i, float factor)
{
    const qn_train_options *o = &((recording *)ctx)->t->o;
    const qn_attn_spec *spec = &l->spec.attn;
    const int64_t dk = l->hp.d_k, dv = l->hp.d_v;
    const int64_t window = spec->sight.kind == QN_SIGHT_window ? spec->sight.size : 0;
    qn_tensor *sees = ((recording *)ctx)->t->sees_in; /* where a row holds several sequences */
    if (sees && window) sees = qn_triu(sees, 1 - window);
    if (spec->sight.kind == QN_SIGHT_chunk) {
        qn_tensor *chunk = same_chunk(ctx, spec->sight.size);
        sees = sees ? qn_logical_and(sees, chunk) : qn_tril(chunk, 0);
    }
    qn_tensor *sinks = weight(base_of(ctx), l->attn_sinks);
    const qn_sdpa_options options = {.mask = sees,
                                     .sinks = sinks ? qn_to(sinks, QN_DTYPE_F32) : NULL,
                                     .is_causal = !sees,
                                     .enable_gqa = true,
                                     .scale = (double)factor,
                                     .softcap = (double)spec->softcap,
                                     .window = sees ? 0 : window};
    (void)i;
    qn_tensor *y =
        qn_scaled_dot_product_attention(heads_first(o, q, l->hp.n_head, dk), heads_first(o, k, l->hp.n_kv_head, dk),
                                        heads_first(o, v, l->hp.n_kv_head, dv), &options);
    if (!y) return NULL;
    return value(qn_reshape(qn_transpose(y, 1, 2), qn_shape_of(o->n_batch, o->n_ctx, l->hp.n_head * dv)));
}

static qn_value *name(void *ctx, qn_value *x, const char *what, int i)
{
    (void)ctx, (void)what, (void)i;
    return x;
}

static const qn_recorder recorder = {
    .rows = rows,
    .pos_rows = pos_rows,
    .dense = dense,
    .norm = norm,
    .add = add,
    .scale = scale,
    .clamp = clamp,
    .softcap = softcap,
    .part = part,
    .heads = heads,
    .turn = turned,
    .heat = heat,
    .act = act,
    .gated = gated,
    .attend = attend,
    .name = name,
};

static qn_tensor *layer_again(void *arg, qn_tensor *const *inputs, int n)
{
    const qn_lora_step *step = arg;
    recording rec = {step->trainer, true};
    (void)n;
    return tensor(qn__forward_layer(&recorder, &rec, step->trainer->lora->model, step->layer, value(inputs[0])));
}

qn_tensor *qn__lora_loss(qn_trainer *t, double divisor, bool training)
{
    const qn_model *m = t->lora->model;
    recording rec = {t, training};
    qn_tensor *x = tensor(qn__forward_begin(&recorder, &rec, m));
    for (int i = 0; i < (int)m->hp.n_layer && x; i++) {
        qn_lora_step *step = &t->lora->steps[i];
        *step = (qn_lora_step){t, i};
        x = training && t->o.grad_checkpointing ? qn_checkpoint(layer_again, step, &x, 1)
                                                : tensor(qn__forward_layer(&recorder, &rec, m, i, value(x)));
    }
    if (!x) return NULL;
    qn_tensor *logits = tensor(qn__forward_logits(&recorder, &rec, m, value(x))); /* [batch, ctx, vocab] */
    const int64_t n = (int64_t)t->o.n_batch * t->o.n_ctx;
    if (!logits) return NULL;
    qn_tensor *sum =
        qn_cross_entropy(qn_view_as(logits, qn_shape_of(n, m->hp.n_vocab)), qn_view_as(t->targets_in, qn_shape_of(n)),
                         &(qn_cross_entropy_options){.ignore_index = -1, .reduction = QN_REDUCTION_SUM});
    return qn__train_scaled(t, sum, divisor);
}
