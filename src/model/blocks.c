/* SPDX-License-Identifier: MIT */
/* src/model/blocks.c -- the blocks that architectures are made of. x is [n_tokens, n_embd] throughout. */
#include "model/build.h"

#include "graph/ops/layers.h"

#include <math.h>

qn_node *qn__weight(qn_build *b, const qn_weight *w)
{
    if (!w) return NULL;
    qn_node **slot = &b->params[w->index];
    if (!*slot) {
        *slot = qn__param(b->g, w->name, w->dtype, &w->shape, w->buffer, w->offset, 0);
        /* Norms and biases enter float kernels; a file may store them in 16 bits. */
        if (w->shape.rank == 1 && w->dtype != QN_DTYPE_F32) *slot = qn__copy(b->g, *slot, QN_DTYPE_F32);
    }
    return *slot;
}

qn_node *qn__norm(qn_build *b, qn_node *x, const qn_weight *w)
{
    return qn__rms_norm(b->g, x, qn__weight(b, w), b->hp->norm_eps);
}

static qn_node *half(qn_build *b, const qn_weight *w)
{
    return qn__param(b->g, w->name, w->dtype, &w->shape, w->buffer, w->offset, 0);
}

/* y + scale (x a^T) b^T for every adapter that has a pair for w: the product with r numbers in the middle is the small
 * one to scale. */
static qn_node *adapted(qn_build *b, qn_node *y, qn_node *x, const qn_weight *w)
{
    qn_graph *g = b->g;
    for (int i = 0; i < b->n_loras; i++) {
        const qn_adapter_use *use = &b->loras[i];
        const qn_lora_pair *pair = &use->adapter->of[w->index];
        if (!pair->a.tensor || use->scale == 0) continue;
        qn_node *h = qn__linear(g, x, half(b, &pair->a), NULL); /* [n, r] */
        h = qn__scale(g, h, use->scale * qn__adapter_factor(use->adapter, pair), 0);
        y = qn__add(g, y, qn__linear(g, h, half(b, &pair->b), NULL)); /* [n, out] */
    }
    return y;
}

qn_node *qn__dense(qn_build *b, qn_node *x, const qn_weight *w, const qn_weight *bias)
{
    qn_node *y = qn__linear(b->g, x, qn__weight(b, w), qn__weight(b, bias));
    return b->n_loras ? adapted(b, y, x, w) : y;
}

qn_node *qn__self_attention(qn_build *b, qn_node *x, const qn_layer *l, int i, const qn_attn_spec *spec)
{
    qn_graph *g = b->g;
    const qn_hparams *hp = b->hp;
    const qn_kv_layer *kl = &b->kv->layers[i];
    const int64_t n = b->n_tokens, n_head = hp->n_head, n_kv = hp->n_kv_head, dk = hp->n_embd_head_k,
                  dv = hp->n_embd_head_v;
    const int64_t n_cells = b->kv->n_cells;
    const qn_rope_apply_attrs rope = {.mode = hp->rope.mode, .n_rot = hp->rope.n_rot};

    qn_node *q = qn__reshape(g, qn__dense(b, x, l->attn_q, l->attn_q_bias), qn_shape_of(n, n_head, dk));
    qn_node *k = qn__reshape(g, qn__dense(b, x, l->attn_k, l->attn_k_bias), qn_shape_of(n, n_kv, dk));
    qn_node *v = qn__dense(b, x, l->attn_v, l->attn_v_bias); /* [n, n_kv * dv] */
    if (spec->qk_norm) {
        q = qn__norm(b, q, l->attn_q_norm);
        k = qn__norm(b, k, l->attn_k_norm);
    }
    q = qn__name(g, qn__rope_apply(g, q, b->rope_table, &rope), "q-%d", i);
    k = qn__name(g, qn__rope_apply(g, k, b->rope_table, &rope), "k-%d", i);

    /* The cache is written first and then read through the result of the write: the order is in the graph, not in a
     * convention. */
    qn_node *cache_k = qn__param(g, "cache_k", b->kv->type, &qn_shape_of(n_cells, n_kv * dk), kl->k_buffer,
                                 kl->k_offset, QN_NODE_mutable);
    qn_node *cache_v = qn__param(g, "cache_v", b->kv->type, &qn_shape_of(n_cells, n_kv * dv), kl->v_buffer,
                                 kl->v_offset, QN_NODE_mutable);
    qn_node *lists = qn__param(g, "lists", QN_DTYPE_I32, &qn_shape_of(b->kv->n_seq, n_cells), kl->list_buffer, 0, 0);
    cache_k = qn__set_rows(g, cache_k, qn__reshape(g, k, qn_shape_of(n, n_kv * dk)), b->rows);
    cache_v = qn__set_rows(g, cache_v, v, b->rows);

    const qn_attn_attrs attrs = {.scale = 1.0f / sqrtf((float)dk)};
    qn_node *y = qn__attention(g, q, qn__reshape(g, cache_k, qn_shape_of(n_cells, n_kv, dk)),
                               qn__reshape(g, cache_v, qn_shape_of(n_cells, n_kv, dv)), lists, b->spans, &attrs);
    y = qn__name(g, y, "attn-%d", i);
    return qn__dense(b, y, l->attn_out, l->attn_out_bias);
}

qn_node *qn__ffn_swiglu(qn_build *b, qn_node *x, const qn_layer *l)
{
    qn_node *gate = qn__silu(b->g, qn__dense(b, x, l->ffn_gate, l->ffn_gate_bias));
    qn_node *up = qn__dense(b, x, l->ffn_up, l->ffn_up_bias);
    return qn__dense(b, qn__mul(b->g, gate, up), l->ffn_down, l->ffn_down_bias);
}

qn_node *qn__decoder_layer(qn_build *b, const qn_layer *l, qn_node *x, int i, const qn_attn_spec *spec)
{
    /* What the layer computed comes first in a sum: the sum is then placed where the layer's weights are, and the
     * stream changes backends once between layers, not twice in each. */
    qn_node *h = qn__self_attention(b, qn__norm(b, x, l->attn_norm), l, i, spec);
    x = qn__name(b->g, qn__add(b->g, h, x), "attn_res-%d", i);
    h = qn__ffn_swiglu(b, qn__norm(b, x, l->ffn_norm), l);
    return qn__name(b->g, qn__add(b->g, h, x), "ffn_res-%d", i);
}
