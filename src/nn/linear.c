/* SPDX-License-Identifier: MIT */
/* src/nn/linear.c -- Linear and Embedding. */
#include "nn/module.h"

#include <math.h>
#include <stdio.h>

enum { WEIGHT, BIAS };

bool qn__sizes_fit(qn_context *c, const char *name, const int64_t *sizes, int n)
{
    for (int i = 0; i < n; i++) {
        if (sizes[i] > 0) continue;
        (void)qn_context_fail(c, QN_STATUS_invalid, "%s: size %d is %lld, at least 1 expected", name, i,
                              (long long)sizes[i]);
        return false;
    }
    return true;
}

/* PyTorch's: weights kaiming_uniform with slope sqrt(5), which is +-1/sqrt(fan_in), and biases the same. */
void qn__init_affine(qn_module *m, qn_tensor *w, qn_tensor *b)
{
    if (m == NULL || w == NULL) return;
    const double bound = 1 / sqrt((double)(qn_numel(w) / qn_dim(w, 0)));
    if (qn_init_uniform_(w, -bound, bound) == NULL || (b != NULL && qn_init_uniform_(b, -bound, bound) == NULL))
        m->failed = true;
}

/* ---- Linear ---- */

static qn_tensor *linear(qn_module *m, qn_tensor *const *x, int n)
{
    (void)n;
    return qn_linear(x[0], qn__own(m, WEIGHT), qn__own(m, BIAS));
}

static void describe_linear(const qn_module *m, char *text, size_t size)
{
    const qn_tensor *w = qn__own(m, WEIGHT);
    snprintf(text, size, "in=%lld, out=%lld%s", (long long)qn_dim(w, 1), (long long)qn_dim(w, 0),
             m->n_tensors > BIAS ? "" : ", bias=false");
}

static const qn_module_type linear_type = {.name = "Linear", .forward = linear, .describe = describe_linear};

qn_module *qn_nn_linear(qn_context *c, int64_t in, int64_t out, bool bias)
{
    if (c == NULL || !qn__sizes_fit(c, "Linear", (const int64_t[]){in, out}, 2)) return NULL;
    qn_module *m = qn_module_create(c, &linear_type);
    qn_tensor *w = qn__add_empty(m, "weight", qn_shape_of(out, in));
    qn_tensor *b = bias ? qn__add_empty(m, "bias", qn_shape_of(out)) : NULL;
    qn__init_affine(m, w, b);
    return qn_module_ready(m);
}

/* ---- Embedding ---- */

typedef struct embedding_state {
    int64_t padding_idx; /* negative: none */
} embedding_state;

/* Rows of the padding index come detached: that row of the table gets no gradient. */
static qn_tensor *embedding(qn_module *m, qn_tensor *const *x, int n)
{
    (void)n;
    const embedding_state *s = m->state;
    qn_tensor *w = qn__own(m, WEIGHT), *y = qn_embedding(w, x[0]);
    if (y == NULL || s->padding_idx < 0 || !qn_requires_grad(y)) return y;
    qn_tensor *is_padding = qn_unsqueeze(qn_eq_number(x[0], (double)s->padding_idx), -1);
    return qn_where(is_padding, qn_detach(y), y);
}

static void describe_embedding(const qn_module *m, char *text, size_t size)
{
    const embedding_state *s = m->state;
    const qn_tensor *w = qn__own(m, WEIGHT);
    const int at = snprintf(text, size, "%lld, %lld", (long long)qn_dim(w, 0), (long long)qn_dim(w, 1));
    if (s->padding_idx >= 0 && at > 0 && (size_t)at < size)
        snprintf(text + at, size - (size_t)at, ", padding_idx=%lld", (long long)s->padding_idx);
}

static const qn_module_type embedding_type = {
    .name = "Embedding",
    .forward = embedding,
    .describe = describe_embedding,
    .state_bytes = sizeof(embedding_state),
};

qn_module *qn_nn_embedding(qn_context *c, int64_t num, int64_t dim, int64_t padding_idx)
{
    if (c == NULL || !qn__sizes_fit(c, "Embedding", (const int64_t[]){num, dim}, 2)) return NULL;
    if (padding_idx >= num) {
        (void)qn_context_fail(c, QN_STATUS_invalid, "Embedding: padding index %lld of %lld rows",
                              (long long)padding_idx, (long long)num);
        return NULL;
    }
    qn_module *m = qn_module_create(c, &embedding_type);
    if (m == NULL) return NULL;
    embedding_state *s = m->state;
    s->padding_idx = padding_idx;
    qn_tensor *w = qn__add_empty(m, "weight", qn_shape_of(num, dim));
    if (w == NULL) return qn_module_ready(m);
    const bool was = qn_set_grad_enabled(c, false);
    qn_tensor *row = NULL;
    bool good = qn_init_normal_(w, 0, 1) != NULL;
    if (good && padding_idx >= 0) row = qn_select(w, 0, padding_idx), good = row != NULL && qn_zero_(row) != NULL;
    qn_release(row);
    qn_set_grad_enabled(c, was);
    m->failed = !good;
    return qn_module_ready(m);
}
