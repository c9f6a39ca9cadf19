/* SPDX-License-Identifier: MIT */
/* src/model/lora.h -- low-rank adapters (LoRA, Hu et al. 2021): for a weight w [out, in] of the model a pair a [r, in],
 * b [out, r]. The layer then yields x w^T + scale (x a^T) b^T. An adapter is a GGUF file of such pairs
 * (docs/FORMATS.md); binding finds the weight of each and checks its shape, so that building a graph cannot fail over
 * it. */
#ifndef QN_MODEL_LORA_H
#define QN_MODEL_LORA_H

#include "model/arch.h"

typedef struct qn_lora_pair {
    qn_weight a, b; /* a.tensor is NULL where the adapter leaves the weight alone */
} qn_lora_pair;

typedef struct qn_adapter {
    qn_arena arena;
    const qn_gguf *file; /* borrowed, outlives the adapter */
    float alpha;         /* 0: no scaling by alpha / r */
    int32_t n_weights;   /* of the model */
    int32_t n_pairs, max_rank;
    qn_lora_pair *of; /* [n_weights], by qn_weight.index */
    int32_t id;       /* set by the engine: no two adapters share one, at any time */
} qn_adapter;

/* An adapter at work, and by how much. */
typedef struct qn_adapter_use {
    const qn_adapter *adapter;
    float scale;
} qn_adapter_use;

/* Reads the header only. Refused, with the tensor named: another architecture, a pair without its other half, a tensor
 * that the model does not have or that is no linear layer's matrix, and shapes that do not fit. */
qn_status qn__adapter_load(const qn_model *m, const qn_gguf *file, qn_adapter **out, qn_error *err);
void qn__adapter_free(qn_adapter *a);
/* What the product of a pair is multiplied by, the user's scale apart. */
float qn__adapter_factor(const qn_adapter *a, const qn_lora_pair *pair);
/* May a linear layer use this weight, and nothing else? */
bool qn__adapter_fits(const qn_model *m, const qn_weight *w);

#endif
