/* SPDX-License-Identifier: MIT */
/* src/train/lora.h -- a frozen base model as tensors, and the pairs that are learnt beside it. */
#ifndef QN_TRAIN_LORA_H
#define QN_TRAIN_LORA_H

#include "model/lora.h"
#include "train/train.h"

typedef struct qn_lora_layer {
    qn_tensor *w;     /* of the base, over the file's memory */
    qn_tensor *a, *b; /* [r, in], [out, r]; NULL where nothing is learnt */
} qn_lora_layer;

/* A layer in training, for backward to record again. */
typedef struct qn_lora_step {
    qn_trainer *trainer;
    int layer;
    bool has_embd, has_inputs; /* what the stream has besides x */
} qn_lora_step;

struct qn_lora_base {
    qn_gguf *file;
    qn_tokenizer *tok;
    qn_model *model;
    int32_t rank;
    float alpha;
    bool *target; /* [model->n_weights] */
    int32_t n_targets;
    qn_lora_layer *layers; /* [model->n_weights], by qn_weight.index */
    qn_lora_step *steps;   /* [n_layer] */
};

/* Can a model learn to predict the next token, all of it or adapters? model.c */
qn_status qn__lm_trainable(const qn_model *m, qn_error *err);

#endif
