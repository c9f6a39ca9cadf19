/* SPDX-License-Identifier: MIT */
/* tests/unit/graph/common.h -- what the tests of this room share. */
#ifndef TESTS_GRAPH_COMMON_H
#define TESTS_GRAPH_COMMON_H

#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "graph/graph.h"
#include "graph/plan/plan.h"

#define F32        QN_DTYPE_F32
#define I32        QN_DTYPE_I32
#define SHAPE(...) (&qn_shape_of(__VA_ARGS__))
#define N_OF(a)    (sizeof(a) / sizeof(a)[0])

static inline qn_graph *graph_new(void)
{
    qn_graph *g = NULL;
    assert_int_equal(qn__graph_create(&g, NULL), QN_OK);
    return g;
}

/* The call succeeded; its message is shown when not. */
#define OK(call) \
    do { \
        qn_error e_ = {0}; \
        qn_error *err = &e_; \
        if ((call) != QN_OK) fail_msg("%s: %s", #call, e_.text); \
    } while (0)

/* The sticky error of g is exactly this; g is destroyed. */
static inline void graph_fails(qn_graph *g, qn_status status, const char *text)
{
    qn_error e = {0};
    assert_int_equal(qn__graph_finish(g, &e), status);
    assert_string_equal(e.text, text);
    qn__graph_destroy(g);
}

/* verify refuses g with exactly this text; g is destroyed. */
static inline void verify_fails(qn_graph *g, const char *text)
{
    qn_error e = {0};
    if (qn__graph_verify(g, &e) == QN_OK) fail_msg("accepted, \"%s\" expected", text);
    assert_string_equal(e.text, text);
    qn__graph_destroy(g);
}

static inline qn_node *weight(qn_graph *g, const char *name, int64_t rows, int64_t cols)
{
    return qn__param(g, name, F32, SHAPE(rows, cols), NULL, 0, 0);
}

static inline int count_op(const qn_graph *g, qn_op op)
{
    int n = 0;
    for (int32_t i = 0; i < g->n_nodes; i++) n += g->nodes[i]->op == op && !(g->nodes[i]->flags & QN_NODE_dead);
    return n;
}

static inline qn_node *find_node(const qn_graph *g, const char *name)
{
    for (int32_t i = 0; i < g->n_nodes; i++) {
        if (strcmp(g->nodes[i]->name, name) == 0) return g->nodes[i];
    }
    return NULL;
}

typedef struct decoder_shape {
    int n_layer, n_tokens, n_embd, n_head, n_kv, d, n_ff, n_vocab, n_cells;
} decoder_shape;

/* A Llama-like decoder in the way that models build it: separate silu and mul, biases by add, norms without their
 * weights, so that the passes have something to do. */
static inline void decoder_layer(qn_graph *g, const decoder_shape *s, qn_node **io, qn_node *const *in, qn_node *lists,
                                 int l)
{
    const qn_rope_attrs rope = {.mode = QN_ROPE_NEOX, .n_rot = s->d, .base = 10000, .freq_scale = 1, .attn_factor = 1};
    const qn_attn_attrs attn = {.scale = 0.125f};
    const int64_t n = s->n_tokens, e = s->n_embd, q_row = (int64_t)s->n_head * s->d, kv_row = (int64_t)s->n_kv * s->d;
    char name[64];
#define W(suffix, rows, cols) (snprintf(name, sizeof name, "blk.%d." suffix, l), weight(g, name, rows, cols))
#define V(suffix, size) \
    (snprintf(name, sizeof name, "blk.%d." suffix, l), qn__param(g, name, F32, SHAPE(size), NULL, 0, 0))
#define C(format) \
    (snprintf(name, sizeof name, format, l), \
     qn__param(g, name, QN_DTYPE_F16, SHAPE(s->n_cells, kv_row), NULL, 0, QN_NODE_mutable))
    qn__graph_scope(g, l, -1);
    qn_node *x = *io, *h = qn__mul(g, qn__rms_norm(g, x, NULL, 1e-5f), V("attn_norm", e));
    qn_node *q = qn__add(g, qn__linear(g, h, W("attn_q", q_row, e), NULL), V("attn_q.bias", q_row));
    qn_node *k = qn__add(g, qn__linear(g, h, W("attn_k", kv_row, e), NULL), V("attn_k.bias", kv_row));
    qn_node *v = qn__add(g, qn__linear(g, h, W("attn_v", kv_row, e), NULL), V("attn_v.bias", kv_row));
    q = qn__rope(g, qn__reshape(g, q, qn_shape_of(n, s->n_head, s->d)), in[1], NULL, &rope);
    k = qn__rope(g, qn__reshape(g, k, qn_shape_of(n, s->n_kv, s->d)), in[1], NULL, &rope);
    qn_node *ck = C("cache_k-%d");
    qn_node *cv = C("cache_v-%d");
    ck = qn__set_rows(g, ck, qn__reshape(g, k, qn_shape_of(n, kv_row)), in[2]);
    cv = qn__set_rows(g, cv, v, in[2]);
    ck = qn__reshape(g, ck, qn_shape_of(s->n_cells, s->n_kv, s->d));
    cv = qn__reshape(g, cv, qn_shape_of(s->n_cells, s->n_kv, s->d));
    h = qn__attention(g, &(qn_attn_sources){.q = q, .k = ck, .v = cv, .lists = lists, .spans = in[3]}, &attn);
    x = qn__name(g, qn__add(g, x, qn__linear(g, h, W("attn_out", e, q_row), NULL)), "attn_res-%d", l);
    h = qn__mul(g, qn__rms_norm(g, x, NULL, 1e-5f), V("ffn_norm", e));
    qn_node *gate = qn__silu(g, qn__linear(g, h, W("ffn_gate", s->n_ff, e), NULL));
    h = qn__mul(g, gate, qn__linear(g, h, W("ffn_up", s->n_ff, e), NULL));
    *io = qn__name(g, qn__add(g, x, qn__linear(g, h, W("ffn_down", e, s->n_ff), NULL)), "ffn_res-%d", l);
#undef W
#undef V
#undef C
}

static inline void decoder_build(qn_graph *g, const decoder_shape *s)
{
    const int64_t n = s->n_tokens;
    qn_node *in[4] = {qn__input(g, "tokens", I32, SHAPE(n)), qn__input(g, "pos", I32, SHAPE(n)),
                      qn__input(g, "rows", I32, SHAPE(n)), qn__input(g, "spans", I32, SHAPE(n, 3))};
    qn_node *lists = qn__param(g, "lists", I32, SHAPE(4, s->n_cells), NULL, 0, 0);
    qn_node *x = qn__get_rows(g, weight(g, "token_embd", s->n_vocab, s->n_embd), in[0]);
    for (int l = 0; l < s->n_layer; l++) decoder_layer(g, s, &x, in, lists, l);
    qn__graph_scope(g, -1, -1);
    x = qn__mul(g, qn__rms_norm(g, x, NULL, 1e-5f), qn__param(g, "output_norm", F32, SHAPE(s->n_embd), NULL, 0, 0));
    x = qn__name(g, qn__linear(g, x, weight(g, "output", s->n_vocab, s->n_embd), NULL), "logits");
    qn__output(g, x);
}

#endif
