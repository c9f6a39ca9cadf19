/* SPDX-License-Identifier: MIT */
/* src/train/lora_model.c -- the base's layers recorded with tensor operations: what qn__decoder_layer builds for
 * running, with attention over a whole window instead of a cache, and x a^T b^T beside the layers that learn. Only the
 * pairs have gradients; what comes before the first of them is computed without a tape. */
#include "array/ops/apply.h"
#include "train/lora.h"
#include <math.h>
#include <quern/autograd.h>
#include <quern/ops.h>

static qn_tensor *weight(const qn_lora_base *base, const qn_weight *w) { return w ? base->layers[w->index].w : NULL; }

static qn_tensor *dense(qn_trainer *t, qn_tensor *x, const qn_weight *w, const qn_weight *bias, bool training)
{
    const qn_lora_base *base = t->lora;
    const qn_lora_layer *l = &base->layers[w->index];
    qn_tensor *y = qn_linear(x, l->w, weight(base, bias));
    if (!l->a) return y;
    if (training && t->o.dropout > 0) x = qn_dropout(x, (double)t->o.dropout, true);
    qn_tensor *h = qn_mul_number(qn_linear(x, l->a, NULL), (double)(base->alpha / (float)base->rank));
    return qn_add(y, qn_linear(h, l->b, NULL));
}

static qn_tensor *norm(const qn_lora_base *base, qn_tensor *x, const qn_weight *w)
{
    return qn_rms_norm(x, weight(base, w), (double)base->model->hp.norm_eps);
}

/* x [batch, ctx, heads * d] as [batch, heads, ctx, d], rotated by position unless it is a value. */
static qn_tensor *heads(qn_trainer *t, qn_tensor *x, int64_t n, const qn_weight *head_norm, bool rotated)
{
    const qn_lora_base *base = t->lora;
    const int64_t batch = t->o.n_batch, ctx = t->o.n_ctx, d = x ? qn_dim(x, -1) / n : 1;
    x = x ? qn_view_as(x, qn_shape_of(batch * ctx, n, d)) : NULL;
    if (head_norm) x = norm(base, x, head_norm);
    if (rotated) {
        qn_tensor *src[] = {x, base->pos, weight(base, base->model->top.rope_freqs)};
        x = qn__plain(QN_OP_rope, &base->model->hp.rope, (qn_target){0}, src, src[2] ? 3 : 2);
    }
    return x ? qn_transpose(qn_view_as(x, qn_shape_of(batch, ctx, n, d)), 1, 2) : NULL;
}

static qn_tensor *attention(qn_trainer *t, qn_tensor *x, const qn_layer *l, bool training)
{
    const qn_hparams *hp = &t->lora->model->hp;
    qn_tensor *q = heads(t, dense(t, x, l->attn_q, l->attn_q_bias, training), hp->n_head, l->attn_q_norm, true);
    qn_tensor *k = heads(t, dense(t, x, l->attn_k, l->attn_k_bias, training), hp->n_kv_head, l->attn_k_norm, true);
    qn_tensor *v = heads(t, dense(t, x, l->attn_v, l->attn_v_bias, training), hp->n_kv_head, NULL, false);
    const qn_sdpa_options options = {.mask = t->sees_in,
                                     .is_causal = !t->sees_in,
                                     .enable_gqa = true,
                                     .scale = 1 / sqrt((double)hp->n_embd_head_k)};
    qn_tensor *y = qn_scaled_dot_product_attention(q, k, v, &options);
    if (!y) return NULL;
    y = qn_reshape(qn_transpose(y, 1, 2),
                   qn_shape_of(t->o.n_batch, t->o.n_ctx, (int64_t)hp->n_head * hp->n_embd_head_v));
    return dense(t, y, l->attn_out, l->attn_out_bias, training);
}

static qn_tensor *feed_forward(qn_trainer *t, qn_tensor *x, const qn_layer *l, bool training)
{
    qn_tensor *gate = dense(t, x, l->ffn_gate, l->ffn_gate_bias, training),
              *up = dense(t, x, l->ffn_up, l->ffn_up_bias, training);
    return dense(t, qn_swiglu(gate, up), l->ffn_down, l->ffn_down_bias, training);
}

static qn_tensor *layer(qn_trainer *t, qn_tensor *x, const qn_layer *l, bool training)
{
    x = qn_add(attention(t, norm(t->lora, x, l->attn_norm), l, training), x);
    return x ? qn_add(feed_forward(t, norm(t->lora, x, l->ffn_norm), l, training), x) : NULL;
}

static qn_tensor *layer_again(void *arg, qn_tensor *const *inputs, int n)
{
    const qn_lora_step *step = arg;
    (void)n;
    return layer(step->trainer, inputs[0], step->layer, true);
}

qn_tensor *qn__lora_loss(qn_trainer *t, double divisor, bool training)
{
    const qn_model *m = t->lora->model;
    qn_tensor *x = qn_embedding(weight(t->lora, m->top.tok_embd), t->ids_in);
    if (x) x = qn_to(x, QN_DTYPE_F32);
    for (uint32_t i = 0; i < m->hp.n_layer && x; i++) {
        qn_lora_step *step = &t->lora->steps[i];
        *step = (qn_lora_step){t, &m->layers[i]};
        x = training && t->o.grad_checkpointing ? qn_checkpoint(layer_again, step, &x, 1)
                                                : layer(t, x, step->layer, training);
    }
    if (!x) return NULL;
    /* [batch, ctx, vocab] */
    qn_tensor *logits = dense(t, norm(t->lora, x, m->top.out_norm), m->top.out, NULL, training);
    const int64_t n = (int64_t)t->o.n_batch * t->o.n_ctx;
    if (!logits) return NULL;
    qn_tensor *sum =
        qn_cross_entropy(qn_view_as(logits, qn_shape_of(n, m->hp.n_vocab)), qn_view_as(t->targets_in, qn_shape_of(n)),
                         &(qn_cross_entropy_options){.ignore_index = -1, .reduction = QN_REDUCTION_SUM});
    return qn__train_scaled(t, sum, divisor);
}
