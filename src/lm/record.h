/* SPDX-License-Identifier: MIT */
/* src/lm/record.h -- a model's forward pass as tensor operations, which have gradients: what model/blocks.c makes nodes
 * of for running. Modules and the training of adapters record with it; they differ in where weights come from. */
#ifndef QN_LM_RECORD_H
#define QN_LM_RECORD_H

#include "model/forward.h"
#include "nn/attention.h"

typedef struct qn_lm_host {
    qn_tensor *(*weight)(void *host, const qn_weight *w);
    /* y = x w^T + bias with what is learnt beside w; NULL: y */
    qn_tensor *(*beside)(void *host, qn_tensor *y, qn_tensor *x, const qn_weight *w);
    /* the embedded tokens, and what each half of a layer adds, without what training drops; NULL: all of it */
    qn_tensor *(*drop)(void *host, qn_tensor *x);
    /* in F32 whatever the weights are, with the engine's roundings; else in the type of the embedding, with PyTorch's
     */
    bool as_engine;
} qn_lm_host;

/* What the recorder's functions get: x is [batch, n, ..]. */
typedef struct qn_lm_pass {
    const qn_lm_host *type;
    void *host;
    const qn_model *model;
    qn_tensor *ids;     /* I32 or I64 [batch, n]; layers do without */
    qn_tensor *sees;    /* as of qn_scaled_dot_product_attention; NULL: as the layers' sights have it */
    qn_kv_cache *cache; /* of the positions before, begun; NULL: positions are 0, 1, .. */
    int64_t n_ctx;      /* the longest that a sequence may become */
} qn_lm_pass;

extern const qn_recorder qn__lm_recorder;
/* Has every step of the model a gradient? Names what has none. */
qn_status qn__lm_check(const qn_model *m, qn_error *err);

static inline qn_tensor *qn__lm_tensor(qn_value *x) { return (qn_tensor *)x; }
static inline qn_value *qn__lm_value(qn_tensor *x) { return (qn_value *)x; }

#endif
