/* SPDX-License-Identifier: MIT */
/* src/lm/tree.c -- a model's weights as modules, named as in GGUF files: "blk.0.attn_q.weight" is the weight of a
 * Linear attn_q in blk.0. */
#include "lm/decoder.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- what holds neither a product's weights nor a norm's ---- */

static qn_tensor *no_forward(qn_module *m, qn_tensor *const *inputs, int n)
{
    (void)inputs, (void)n;
    return QN_MODULE_FAIL(m, unsupported, "these numbers are read by the layers, and compute nothing"), NULL;
}

static const qn_module_type holder_type = {.name = "Weights", .forward = no_forward};

/* Frequencies are divided by them; nothing learns them. */
static bool is_fixed(const qn_weight *w) { return w->row->dim[0] == D_ROT2; }

static void add_tensor(qn_module *m, const char *name, const qn_weight *w, double deviation)
{
    if (is_fixed(w)) {
        (void)qn_module_add_buffer(m, name, qn_ones(m->ctx, w->shape, QN_DTYPE_F32));
        return;
    }
    qn_tensor *t = qn__add_empty(m, name, w->shape);
    if (!t) return;
    const bool matrix = !(w->row->flags & W_VECTOR);
    if (!(matrix ? qn_init_normal_(t, 0, deviation) : qn_init_constant_(t, w->row->flags & W_ONES ? 1 : 0)))
        m->failed = true;
}

/* ---- one child, for a weight and its bias ---- */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* "x.bias" of a weight "x.weight"; NULL without. Those of a layer are neighbours. */
static const qn_weight *bias_of(const qn_model *m, const qn_weight *w)
{
    const size_t n = strlen(w->name) - strlen("weight");
    if (!ends_with(w->name, ".weight")) return NULL;
    for (int32_t i = w->index + 1; i < m->n_weights && i - w->index <= m->arch->n_tensors; i++) {
        const qn_weight *b = &m->weights[i];
        if (strncmp(b->name, w->name, n) == 0 && strcmp(b->name + n, "bias") == 0 && b->shape.rank == 1) return b;
    }
    return NULL;
}

/* What is added to the stream 2 n_layer times starts smaller. */
static double deviation_of(const qn_lm_state *s, const qn_weight *w)
{
    const bool added = w->row->layer && w->row->dim[0] == D_EMBD;
    return added ? s->deviation / sqrt(2.0 * (double)s->model->hp.n_layer) : s->deviation;
}

static qn_module *make_linear(qn_context *c, const qn_weight *w, bool bias, double deviation)
{
    qn_module *l = qn_nn_linear(c, w->shape.dim[1], w->shape.dim[0], bias);
    if (l && !qn_init_normal_(qn__own(l, 0), 0, deviation)) l->failed = true;
    if (l && bias && !qn_init_constant_(qn__own(l, 1), 0)) l->failed = true;
    return qn_module_ready(l);
}

static qn_module *make_table(qn_context *c, const qn_weight *w, double deviation)
{
    qn_module *e = qn_nn_embedding(c, w->shape.dim[0], w->shape.dim[1], -1);
    if (e && !qn_init_normal_(qn__own(e, 0), 0, deviation)) e->failed = true;
    return qn_module_ready(e);
}

static qn_module *make_child(qn_context *c, const qn_lm_state *s, const qn_weight *w, const qn_weight *bias)
{
    const qn_model *m = s->model;
    const bool weight = ends_with(w->name, ".weight"), matrix = w->shape.rank == 2 && !(w->row->flags & W_VECTOR);
    const double eps = (double)m->hp.norm_eps;
    if (w == m->top.tok_embd || w == m->top.pos_embd || w == m->top.type_embd) return make_table(c, w, s->deviation);
    if (weight && matrix && (!bias || bias->shape.dim[0] == w->shape.dim[0]))
        return make_linear(c, w, bias != NULL, deviation_of(s, w));
    if (weight && w->shape.rank == 1 && ends_with(w->name, "_norm.weight")) {
        const bool layer = bias || m->arch->block.norm.kind == QN_NORM_layer;
        return layer ? qn_nn_layer_norm(c, w->shape, eps, true, bias != NULL) : qn_nn_rms_norm(c, w->shape.dim[0], eps);
    }
    qn_module *holder = qn_module_create(c, &holder_type);
    if (holder) add_tensor(holder, strrchr(w->name, '.') + 1, w, deviation_of(s, w));
    return holder;
}

/* ---- all of them ---- */

static qn_module *child_of(const qn_module *m, const char *name, size_t n)
{
    for (int i = 0; i < m->n_children; i++)
        if (strlen(m->children[i].name) == n && memcmp(m->children[i].name, name, n) == 0) return m->children[i].module;
    return NULL;
}

/* A weight whose name behind m's path is `name`; with its bias, where it has one. */
static void add_weight(qn_module *m, qn_lm_state *s, const qn_weight *w, const char *name)
{
    const char *dot = strchr(name, '.');
    char child[96];
    if (m->failed || s->places[w->index].module) return;
    if (!dot) {
        add_tensor(m, name, w, deviation_of(s, w));
        s->places[w->index] = (qn_lm_place){m, m->n_tensors - 1};
        return;
    }
    const size_t n = (size_t)(dot - name);
    qn_module *there = child_of(m, name, n);
    snprintf(child, sizeof child, "%.*s", (int)n, name);
    if (there || strchr(dot + 1, '.')) {
        if (!there) there = qn_module_add_module(m, child, qn_module_create(m->ctx, &holder_type));
        if (there) add_weight(there, s, w, dot + 1);
        if (!there || there->failed) m->failed = true;
        return;
    }
    const qn_weight *bias = bias_of(s->model, w);
    there = qn_module_add_module(m, child, make_child(m->ctx, s, w, bias));
    if (!there) return;
    s->places[w->index] = (qn_lm_place){there, 0};
    if (bias && there->n_tensors > 1) s->places[bias->index] = (qn_lm_place){there, 1};
}

static qn_module *make_block(qn_context *c, const qn_module_type *type, qn_lm_state *s, int layer, int32_t *at)
{
    qn_module *b = qn_module_create(c, type);
    if (!b) return NULL;
    *(qn_lm_block_state *)b->state = (qn_lm_block_state){s, layer};
    char path[32];
    const int n = snprintf(path, sizeof path, "blk.%d.", layer);
    for (; *at < s->model->n_weights && strncmp(s->model->weights[*at].name, path, (size_t)n) == 0; ++*at)
        add_weight(b, s, &s->model->weights[*at], s->model->weights[*at].name + n);
    return qn_module_ready(b);
}

/* The embedding, the layers, then what else lies outside of layers: in the order of a forward pass. */
void qn__lm_add_weights(qn_module *m, const qn_lm_type *type)
{
    qn_lm_state *s = m->state;
    const qn_model *model = s->model;
    int32_t n_top = 0;
    while (n_top < model->n_weights && !model->weights[n_top].row->layer) n_top++;
    int32_t at = n_top;
    add_weight(m, s, model->top.tok_embd, model->top.tok_embd->name);
    qn_module *blocks = qn_module_add_module(m, "blk", qn_nn_module_list(m->ctx, NULL, 0));
    for (int i = 0; i < (int)model->hp.n_layer && blocks; i++)
        (void)qn_module_append(blocks, make_block(m->ctx, &type->block, s, i, &at));
    if (!blocks || blocks->failed) m->failed = true;
    for (int32_t i = 0; i < n_top; i++) add_weight(m, s, &model->weights[i], model->weights[i].name);
}
