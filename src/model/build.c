/* SPDX-License-Identifier: MIT */
/* src/model/build.c -- whole graphs: decoding a batch, and moving cached cells. Symbolic: nothing is computed here. */
#include "model/build.h"

#include "graph/ops/index.h"
#include "graph/ops/layers.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/reduce.h"

const char *const qn__span_names[QN_MAX_SIGHTS] = {"spans", "spans-1", "spans-2", "spans-3"};
const char *const qn__row_names[QN_MAX_GROUPS] = {"rows", "rows-1", "rows-2", "rows-3", "rows-4"};
const char *const qn__src_names[QN_MAX_GROUPS] = {"src", "src-1", "src-2", "src-3", "src-4"};
const char *const qn__dst_names[QN_MAX_GROUPS] = {"dst", "dst-1", "dst-2", "dst-3", "dst-4"};

void qn__kv_groups(const qn_model *m, int32_t n_ctx, int32_t n_batch, int32_t n_seq, int32_t n_ends, qn_kv_desc *kv)
{
    kv->n_ctx = n_ctx;
    kv->n_groups = m->n_groups;
    kv->positions = m->alibi;
    kv->list_bytes = 0;
    for (int32_t g = 0; g < m->n_groups; g++) {
        kv->sizes[g] = qn__kv_size(m->windows[g], n_ctx, n_batch, n_seq, n_ends);
        kv->list_offset[g] = qn__align_up(kv->list_bytes, QN_ALIGN_GPU);
        if (qn__model_uses_group(m, g))
            kv->list_bytes = kv->list_offset[g] + qn__list_bytes(&kv->sizes[g]) * (kv->positions ? 2 : 1);
    }
    for (uint32_t i = 0; i < m->hp.n_layer; i++) kv->layers[i].group = m->group_of[m->layers[i].sight];
}

int32_t qn__list_entries(const qn_model *m, int32_t n_tokens)
{
    int32_t n = 0;
    for (int32_t g = 0; g < m->n_groups; g++) n += qn__model_uses_group(m, g);
    return n * n_tokens * (m->alibi ? 2 : 1);
}

static qn_status begin(qn_build *b, const qn_model *m, const qn_kv_desc *kv, int32_t n_tokens, qn_error *err)
{
    *b = (qn_build){.model = m, .hp = &m->hp, .kv = kv, .n_tokens = n_tokens};
    QN_TRY(qn__graph_create(&b->g, err));
    b->list_now = qn__arena_array(&b->g->arena, m->hp.n_layer, sizeof(*b->list_now));
    b->params = qn__arena_array(&b->g->arena, (size_t)m->n_weights, sizeof(*b->params));
    b->cache_k = qn__arena_array(&b->g->arena, 3 * (size_t)m->hp.n_layer, sizeof(*b->cache_k));
    b->cache_v = b->cache_k ? b->cache_k + m->hp.n_layer : NULL;
    b->lists = b->cache_k ? b->cache_v + m->hp.n_layer : NULL;
    if (b->params && b->cache_k && b->list_now) return QN_OK;
    qn__graph_destroy(b->g);
    return QN_FAIL(err, nomem, "out of memory while building a graph of %d weights", m->n_weights);
}

static qn_status end(qn_build *b, qn_graph **out, qn_error *err)
{
    qn__name_rest(b->g);
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
    for (int g = 0; g < m->n_groups; g++)
        if (qn__model_uses_group(m, g))
            b->rows[g] = qn__input(b->g, qn__row_names[g], QN_DTYPE_I32, &qn_shape_of(n_tokens));
    for (int i = 0; i < m->n_sights; i++)
        b->spans[i] = qn__input(b->g, qn__span_names[i], QN_DTYPE_I32, &qn_shape_of(n_tokens, qn__span_size(m)));
    b->out_ids = qn__input(b->g, "out_ids", QN_DTYPE_I32, &qn_shape_of(n_out));
    bool rides = false;
    for (uint32_t i = 0; i < m->hp.n_layer; i++) rides |= kv->layers[i].list_rides;
    if (rides) {
        b->list_at = qn__input(b->g, "list_at", QN_DTYPE_I32, &qn_shape_of(qn__list_entries(m, n_tokens)));
        b->list_to = qn__input(b->g, "list_to", QN_DTYPE_I32, &qn_shape_of(qn__list_entries(m, n_tokens), 1));
    }

    const qn_recorder *r = &qn__graph_recorder;
    qn_stream s = qn__forward_begin(r, b, m);
    for (uint32_t i = 0; i < m->hp.n_layer; i++) {
        qn__graph_scope(b->g, (int)i, spec->hints ? spec->hints[i] : -1);
        s.x = qn__forward_layer(r, b, m, (int)i, &s);
    }
    qn__graph_scope(b->g, -1, -1);
    qn_value *x = (qn_value *)qn__get_rows(b->g, (qn_node *)s.x, b->out_ids); /* [n_out, ..] */
    x = r->name(b, x, QN_ROLE_out_rows, -1);
    x = spec->hidden ? qn__forward_hidden(r, b, m, x) : qn__forward_logits(r, b, m, x); /* [n_out, n_vocab] */
    if (spec->hidden) qn__name(b->g, (qn_node *)x, "%s", qn__role_name(QN_ROLE_hidden));
    qn__output(b->g, (qn_node *)x);
    return end(b, out, err);
}

/* out(norm(act(cls(x)))) */
static qn_value *score(qn_build *b, qn_value *x)
{
    const qn_recorder *r = &qn__graph_recorder;
    const qn_top *top = &b->model->top;
    const qn_head_spec *head = &b->model->arch->head;
    if (top->cls) {
        qn_node *y = (qn_node *)r->dense(b, x, top->cls, top->cls_bias);
        x = (qn_value *)(head->gelu ? qn__gelu(b->g, y, false) : qn__unary(b->g, QN_OP_tanh, y));
        if (top->cls_norm) x = r->norm(b, x, QN_NORM_layer, top->cls_norm, NULL);
    }
    if (top->cls_out) x = r->dense(b, x, top->cls_out, top->cls_out_bias);
    return head->softmax ? (qn_value *)qn__along(b->g, QN_OP_softmax, (qn_node *)x, -1) : x;
}

qn_status qn__build_head(const qn_model *m, const qn_decode_spec *spec, bool rank, qn_graph **out, qn_error *err)
{
    const qn_recorder *r = &qn__graph_recorder;
    const qn_top *top = &m->top;
    qn_build build, *b = &build;
    QN_TRY(begin(b, m, NULL, 1, err));
    b->loras = spec->loras;
    b->n_loras = spec->n_loras;
    qn_value *x = (qn_value *)qn__input(b->g, "x", QN_DTYPE_F32, &qn_shape_of(1, m->hp.n_embd));
    if (rank) {
        x = score(b, x);
    } else {
        if (top->dense_2) x = r->dense(b, x, top->dense_2, NULL);
        if (top->dense_3) x = r->dense(b, x, top->dense_3, NULL);
    }
    qn__output(b->g, qn__name(b->g, (qn_node *)x, "y"));
    return end(b, out, err);
}

qn_status qn__build_lens(const qn_model *m, const qn_decode_spec *spec, int32_t n, int64_t width, qn_graph **out,
                         qn_error *err)
{
    qn_build build, *b = &build;
    QN_TRY(begin(b, m, NULL, n, err));
    b->loras = spec->loras;
    b->n_loras = spec->n_loras;
    qn_value *x = (qn_value *)qn__input(b->g, "x", QN_DTYPE_F32, &qn_shape_of(n, width));
    qn__output(b->g, (qn_node *)qn__forward_logits(&qn__graph_recorder, b, m, x));
    return end(b, out, err);
}

qn_status qn__build_shift(const qn_model *m, const qn_kv_desc *kv, int32_t n, bool copy_v, qn_graph **out,
                          qn_error *err)
{
    qn_build build, *b = &build;
    QN_TRY(begin(b, m, kv, n, err));
    qn_graph *g = b->g;
    const qn_hparams *hp = &m->hp;
    qn_node *from[QN_MAX_GROUPS], *to[QN_MAX_GROUPS];
    for (int k = 0; k < m->n_groups; k++) {
        if (!qn__model_uses_group(m, k)) continue;
        from[k] = qn__input(g, qn__src_names[k], QN_DTYPE_I32, &qn_shape_of(n));
        to[k] = qn__input(g, qn__dst_names[k], QN_DTYPE_I32, &qn_shape_of(n));
    }
    qn_node *delta = qn__input(g, "delta", QN_DTYPE_I32, &qn_shape_of(n)), *tables[QN_TURN_TABLES] = {NULL};

    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const qn_kv_layer *kl = &kv->layers[i];
        const qn_layer *l = &m->layers[i];
        const int64_t n_cells = kv->sizes[kl->group].n_cells;
        qn_node *src = from[kl->group], *dst = to[kl->group];
        const qn_turn turn = l->spec.attn.turn;
        if (l->kv_of != (int32_t)i) continue;
        const int64_t n_kv = l->hp.n_kv_head, k_row = n_kv * l->hp.d_k, v_row = n_kv * l->hp.d_v;
        qn__graph_scope(g, (int)i, -1);
        qn_node *cache = qn__cache(g, QN_ROLE_cache_k, (int)i, kv->type, n_cells, k_row, kl->k_buffer, kl->k_offset);
        qn_node *k = qn__reshape(g, qn__get_rows(g, cache, src), qn_shape_of(n, n_kv, l->hp.d_k));
        const int64_t kept = l->attn_kv_a ? l->hp.d_k - hp->n_rot : 0; /* of a head: before what is rotated */
        if (turn != QN_TURN_none) {
            qn_rope_attrs rope = turn == QN_TURN_window ? hp->rope_window : hp->rope;
            rope.attn_factor = 1.0f / qn__yarn_temperature(&rope); /* the keys carry factor and temperature already */
            if (!tables[turn])
                tables[turn] = qn__rope_table(g, delta, qn__weight(b, qn__rope_factors(m, turn, kv->n_ctx)),
                                              &(qn_rope_table_attrs){rope, QN_DTYPE_F32});
            qn_node *first = kept ? qn__narrow(g, k, -1, 0, kept) : NULL;
            if (kept) k = qn__narrow(g, k, -1, kept, hp->n_rot);
            k = qn__rope_apply(g, k, tables[turn], &(qn_rope_apply_attrs){.mode = rope.mode, .n_rot = rope.n_rot});
            if (kept) k = qn__cat(g, (qn_node *[]){first, k}, 2, -1);
        }
        if (turn != QN_TURN_none || copy_v) {
            k = qn__set_rows(g, cache, qn__reshape(g, k, qn_shape_of(n, k_row)), dst);
            qn__role(g, k, QN_ROLE_cache_k_moved, (int)i);
        }
        if (!copy_v || l->attn_k_b) continue;
        cache = qn__cache(g, QN_ROLE_cache_v, (int)i, kv->type, n_cells, v_row, kl->v_buffer, kl->v_offset);
        qn_node *v = qn__set_rows(g, cache, qn__get_rows(g, cache, src), dst);
        qn__role(g, v, QN_ROLE_cache_v_moved, (int)i);
    }
    return end(b, out, err);
}
