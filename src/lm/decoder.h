/* SPDX-License-Identifier: MIT */
/* src/lm/decoder.h -- inside the room of models as modules. */
#ifndef QN_LM_DECODER_H
#define QN_LM_DECODER_H

#include "lm/record.h"
#include "nn/module.h"

/* The i-th tensor of a module. */
typedef struct qn_lm_place {
    const qn_module *module;
    int i;
} qn_lm_place;

/* Of the module at the top. Always holds: its tree, which lives as long, has a tensor for every weight. */
typedef struct qn_lm_state {
    qn_model *model;     /* without a file */
    qn_lm_place *places; /* [model->n_weights] */
    double dropout_p, deviation;
    bool grad_checkpointing;
    qn_kv_cache *cache; /* during one call */
} qn_lm_state;

typedef struct qn_lm_block_state {
    qn_lm_state *top; /* NULL when it is gone */
    int layer;
} qn_lm_block_state;

/* The two names that such modules go by. */
typedef struct qn_lm_type {
    qn_module_type top, block;
} qn_lm_type;
extern const qn_lm_type qn__lm_llama, qn__lm_decoder;

/* What options without a file ask for. */
qn_status qn__decoder_plan(const qn_decoder_options *options, qn_model **out, qn_error *err);
const qn_model *qn__decoder_model(const qn_module *m); /* of such a module */
/* Takes the model over. NULL, and an error, when that fails. */
qn_module *qn__decoder_create(qn_context *c, const qn_lm_type *type, qn_model *model, const qn_decoder_options *o);
/* The children that hold the model's weights, with their first values. */
void qn__lm_add_weights(qn_module *m, const qn_lm_type *type);

#endif
