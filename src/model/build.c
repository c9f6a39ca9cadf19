/* SPDX-License-Identifier: MIT */
/* src/model/build.c -- whole graphs: decoding a batch, and moving cached cells. Symbolic: nothing is computed here. */
#include "model/build.h"

#include "graph/ops/layers.h"

static qn_status begin(qn_build *b, const qn_model *m, const qn_kv_desc *kv, int32_t n_tokens, qn_error *err)
{
    *b = (qn_build){.model = m, .hp = &m->hp, .kv = kv, .n_tokens = n_tokens};
    QN_TRY(qn__graph_create(&b->g, err));
    b->params = qn__arena_array(&b->g->arena, (size_t)m->n_weights, sizeof(*b->params));
    if (b->params) return QN_OK;
    qn__graph_destroy(b->g);
    return QN_FAIL(err, nomem, "out of memory while building a graph of %d weights", m->n_weights);
}

static qn_status end(qn_build *b, qn_graph **out, qn_error *err)
{
    qn_status status = qn__graph_finish(b->g, err);
    if (status == QN_OK)
        *out = b->g;
    else
        qn__graph_destroy(b->g);
    return status;
}

qn_status qn__build_decode(const qn_model *m, const qn_kv_desc *kv, const qn_decode_spec *spec, qn_graph **out,
                           qn_error *err)
{
    qn_build build, *b = &build;
    const int32_t n_tokens = spec->n_tokens, n_out = spec->n_out;
    QN_TRY(begin(b, m, kv, n_tokens, err));
    b->loras = spec->loras;
    b->n_loras = spec->n_loras;
    b->tokens = qn__input(b->g, "tokens", QN_DTYPE_I32, &qn_shape_of(n_tokens));
    b->pos = qn__input(b->g, "pos", QN_DTYPE_I32, &qn_shape_of(n_tokens));
    b->rows = qn__input(b->g, "rows", QN_DTYPE_I32, &qn_shape_of(n_tokens));
    b->spans = qn__input(b->g, "spans", QN_DTYPE_I32, &qn_shape_of(n_tokens, 2));
    b->out_ids = qn__input(b->g, "out_ids", QN_DTYPE_I32, &qn_shape_of(n_out));

    b->rope_table = qn__rope_table(b->g, b->pos, qn__weight(b, m->top.rope_freqs),
                                   &(qn_rope_table_attrs){m->hp.rope, QN_DTYPE_F32});
    qn_node *x = qn__get_rows(b->g, qn__weight(b, m->top.tok_embd), b->tokens); /* [n_tokens, n_embd] */
    for (uint32_t i = 0; i < m->hp.n_layer; i++) {
        qn__graph_scope(b->g, (int)i, spec->hints ? spec->hints[i] : -1);
        x = m->arch->layer(b, &m->layers[i], x, (int)i);
    }
    qn__graph_scope(b->g, -1, -1);
    x = qn__get_rows(b->g, x, b->out_ids); /* [n_out, n_embd] */
    x = qn__norm(b, x, m->top.out_norm);
    x = qn__name(b->g, qn__dense(b, x, m->top.out, NULL), "logits"); /* [n_out, n_vocab] */
    qn__output(b->g, x);
    return end(b, out, err);
}

qn_status qn__build_shift(const qn_model *m, const qn_kv_desc *kv, int32_t n, bool copy_v, qn_graph **out,
                          qn_error *err)
{
    qn_build build, *b = &build;
    QN_TRY(begin(b, m, kv, n, err));
    qn_graph *g = b->g;
    const qn_hparams *hp = &m->hp;
    qn_node *src = qn__input(g, "src", QN_DTYPE_I32, &qn_shape_of(n));
    qn_node *dst = qn__input(g, "dst", QN_DTYPE_I32, &qn_shape_of(n));
    qn_node *delta = qn__input(g, "delta", QN_DTYPE_I32, &qn_shape_of(n));
    qn_rope_attrs rope = hp->rope;
    rope.attn_factor = 1.0f / qn__yarn_temperature(&rope); /* the cached keys carry factor and temperature already */
    const int64_t k_row = (int64_t)hp->n_kv_head * hp->n_embd_head_k,
                  v_row = (int64_t)hp->n_kv_head * hp->n_embd_head_v;

    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const qn_kv_layer *kl = &kv->layers[i];
        qn__graph_scope(g, (int)i, -1);
        qn_node *cache = qn__param(g, "cache_k", kv->type, &qn_shape_of(kv->n_cells, k_row), kl->k_buffer, kl->k_offset,
                                   QN_NODE_mutable);
        qn_node *k = qn__reshape(g, qn__get_rows(g, cache, src), qn_shape_of(n, hp->n_kv_head, hp->n_embd_head_k));
        k = qn__rope(g, k, delta, qn__weight(b, m->top.rope_freqs), &rope);
        qn__set_rows(g, cache, qn__reshape(g, k, qn_shape_of(n, k_row)), dst);
        if (!copy_v) continue;
        cache = qn__param(g, "cache_v", kv->type, &qn_shape_of(kv->n_cells, v_row), kl->v_buffer, kl->v_offset,
                          QN_NODE_mutable);
        qn__set_rows(g, cache, qn__get_rows(g, cache, src), dst);
    }
    return end(b, out, err);
}
