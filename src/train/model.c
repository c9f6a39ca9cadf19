/* SPDX-License-Identifier: MIT */
/* src/train/model.c -- the model that is trained: a Llama decoder, recorded with tensor operations, its weights named as in GGUF files. */
#include "train/train.h"
#include <math.h>
#include <quern/autograd.h>
#include <quern/ops.h>
#include <stdio.h>
#include <string.h>

#define NORM_EPS 1e-5

typedef struct lm_layer {
    qn_tensor *attn_norm, *ffn_norm;  /* [embd] */
    qn_tensor *q, *k, *v, *o;         /* [head d, embd] [kv_head d, embd] x 2, [embd, head d] */
    qn_tensor *gate, *up, *down;      /* [ff, embd] x 2, [embd, ff] */
} lm_layer;

struct qn_lm {
    qn_tensor *embedding, *norm, *output;
    lm_layer *layers;
};

int64_t qn__lm_count(const qn_train_options *o, int32_t n_vocab)
{
    const int64_t d = o->n_embd, kv = d / o->n_head * o->n_kv_head;
    return (int64_t)o->n_layer * (2 * d + 2 * d * d + 2 * d * kv + 3 * d * o->n_ff) + d + (int64_t)n_vocab * d * (o->tied ? 1 : 2);
}

/* ---- weights ---- */

static qn_tensor *weight(qn_trainer *t, int layer, const char *name, qn_shape shape, double deviation)
{
    char full[64];
    qn_train_param *p = &t->params[t->n_params];
    if (layer < 0) snprintf(full, sizeof full, "%s", name);
    else snprintf(full, sizeof full, "blk.%d.%s", layer, name);
    qn_tensor *value = deviation > 0 ? qn_normal(t->ctx, shape, 0, deviation, QN_DTYPE_F32) : qn_ones(t->ctx, shape, QN_DTYPE_F32);
    p->name = qn__arena_strdup(&t->arena, full);
    p->value = qn_requires_grad_(value, true);
    t->n_params++;
    return p->value;
}

qn_status qn__lm_create(qn_trainer *t, qn_error *err)
{
    const qn_train_options *o = &t->o;
    const int64_t d = o->n_embd, kv = d / o->n_head * o->n_kv_head, ff = o->n_ff, n_vocab = t->data.vocab->n_tokens;
    const double normal = 0.02, residual = normal / sqrt(2.0 * o->n_layer); /* what is added 2 n_layer times */
    qn_lm *m = t->lm = qn__arena_array(&t->arena, 1, sizeof *m);
    t->params = qn__arena_array(&t->arena, (size_t)o->n_layer * 9 + 3, sizeof *t->params);
    if (m) m->layers = qn__arena_array(&t->arena, (size_t)o->n_layer, sizeof *m->layers);
    if (!m || !t->params || !m->layers) return QN_FAIL_NOMEM(err, (size_t)o->n_layer * sizeof(lm_layer));
    qn_manual_seed(t->ctx, o->seed);
    m->embedding = weight(t, -1, "token_embd", qn_shape_of(n_vocab, d), normal);
    for (int32_t i = 0; i < o->n_layer; i++) {
        lm_layer *l = &m->layers[i];
        l->attn_norm = weight(t, i, "attn_norm", qn_shape_of(d), 0);
        l->q = weight(t, i, "attn_q", qn_shape_of(d, d), normal);
        l->k = weight(t, i, "attn_k", qn_shape_of(kv, d), normal);
        l->v = weight(t, i, "attn_v", qn_shape_of(kv, d), normal);
        l->o = weight(t, i, "attn_output", qn_shape_of(d, d), residual);
        l->ffn_norm = weight(t, i, "ffn_norm", qn_shape_of(d), 0);
        l->gate = weight(t, i, "ffn_gate", qn_shape_of(ff, d), normal);
        l->up = weight(t, i, "ffn_up", qn_shape_of(ff, d), normal);
        l->down = weight(t, i, "ffn_down", qn_shape_of(d, ff), residual);
    }
    m->norm = weight(t, -1, "output_norm", qn_shape_of(d), 0);
    m->output = o->tied ? m->embedding : weight(t, -1, "output", qn_shape_of(n_vocab, d), normal);
    if (t->arena.failed) return QN_FAIL_NOMEM(err, 64);
    return qn_eval_all(t->ctx) == QN_OK && qn_context_error(t->ctx)->status == QN_OK ? QN_OK : qn__train_failed(t, err);
}

/* ---- the graph ---- */

static qn_tensor *heads(qn_tensor *x, int32_t n_head, int32_t size)
{
    const qn_shape s = qn_shape_get(x);
    return qn_view_as(x, qn_shape_of(s.dim[0], s.dim[1], n_head, size));
}

static qn_tensor *attention(const qn_trainer *t, const lm_layer *l, qn_tensor *x)
{
    const qn_train_options *o = &t->o;
    const int32_t size = o->n_embd / o->n_head;
    qn_tensor *q = qn_linear(x, l->q, NULL), *k = qn_linear(x, l->k, NULL), *v = qn_linear(x, l->v, NULL);
    if (!q || !k || !v) return NULL;
    const qn_rope_options rope = {.base = (double)o->rope_base};
    const qn_shape s = qn_shape_get(x);
    q = qn_transpose(qn_rope(heads(q, o->n_head, size), NULL, &rope), 1, 2);     /* [batch, heads, ctx, d] */
    k = qn_transpose(qn_rope(heads(k, o->n_kv_head, size), NULL, &rope), 1, 2);
    v = qn_transpose(heads(v, o->n_kv_head, size), 1, 2);
    qn_tensor *y = qn_scaled_dot_product_attention(q, k, v, &(qn_sdpa_options){.is_causal = true, .enable_gqa = true});
    return qn_linear(qn_reshape(qn_transpose(y, 1, 2), s), l->o, NULL);
}

static qn_tensor *feed_forward(const lm_layer *l, qn_tensor *x)
{
    return qn_linear(qn_swiglu(qn_linear(x, l->gate, NULL), qn_linear(x, l->up, NULL)), l->down, NULL);
}

qn_tensor *qn__lm_loss(qn_trainer *t, double divisor, bool training)
{
    const qn_lm *m = t->lm;
    const double p = training ? (double)t->o.dropout : 0;
    qn_tensor *x = qn_embedding(m->embedding, t->ids_in);
    if (p > 0) x = qn_dropout(x, p, true);
    for (int32_t i = 0; i < t->o.n_layer && x; i++) {
        const lm_layer *l = &m->layers[i];
        qn_tensor *h = attention(t, l, qn_rms_norm(x, l->attn_norm, NORM_EPS));
        x = qn_add(x, p > 0 ? qn_dropout(h, p, true) : h);
        h = feed_forward(l, qn_rms_norm(x, l->ffn_norm, NORM_EPS));
        x = qn_add(x, p > 0 ? qn_dropout(h, p, true) : h);
    }
    qn_tensor *logits = qn_linear(qn_rms_norm(x, m->norm, NORM_EPS), m->output, NULL); /* [batch, ctx, vocab] */
    qn_tensor *loss = qn_cross_entropy(qn_flatten(logits, 0, 1), qn_flatten(t->targets_in, 0, 1),
                                       &(qn_cross_entropy_options){.ignore_index = -1, .reduction = QN_REDUCTION_SUM});
    return qn_mul_number(loss, 1 / divisor);
}
