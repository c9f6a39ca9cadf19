/* SPDX-License-Identifier: MIT */
/* src/train/train.h -- inside the training room: the text as windows, the model, the optimizer, and the trainer that
 * holds them. */
#ifndef QN_TRAIN_TRAIN_H
#define QN_TRAIN_TRAIN_H

#include "base/error.h"
#include "base/mem.h"
#include <quern/array.h>
#include <quern/nn.h>
#include <quern/optim.h>
#include <quern/text.h>
#include <quern/train.h>

/* ---- options.c ---- */
/* `out` is `in` with every 0 replaced, or the error names the option. */
qn_status qn__train_resolve(const qn_train_options *in, qn_train_options *out, qn_error *err);
/* The first option that a checkpoint must share and does not, as "heads is 4, 6 in the checkpoint"; false when there is
 * none. The text of a checkpoint is what qn__train_describe wrote. */
bool qn__train_differs(const qn_train_options *mine, const char *theirs, char *text, size_t size);
bool qn__train_describe(const qn_train_options *o, char *text, size_t size); /* false when it does not fit */
#define QN_TRAIN_TEXT_BYTES 1024

/* ---- data.c: texts as tokens, cut into windows ---- */
typedef struct qn_train_data {
    qn_vocab *vocab; /* NULL with a tokenizer that was there before */
    int32_t n_vocab;
    qn_token begin;          /* what a window's first token is predicted from */
    qn_token *tokens, *held; /* to learn from, each text ended by eos; held out */
    int64_t n_tokens, n_held, n_bytes, n_held_bytes;
    int64_t n_windows; /* an epoch's */
    int32_t n_ctx;
    uint64_t seed, hash;   /* of tokens */
    int64_t epoch, offset; /* that `order` is for; -1: none */
    int32_t *order;        /* [n_windows] */
} qn_train_data;
/* tok: that of a base model; NULL: a vocabulary is trained from the texts. */
qn_status qn__train_data_init(qn_train_data *d, const qn_train_options *o, bool exact_vocab, const qn_tokenizer *tok,
                              const qn_gguf_str *texts, size_t n_texts, qn_error *err);
void qn__train_data_deinit(qn_train_data *d);
/* The index-th window since the beginning of training: n_ctx ids to feed, and the ids that follow each. */
void qn__train_window(qn_train_data *d, int64_t index, int32_t *ids, int32_t *targets);
/* The index-th window of what is held out; targets past its end are -1. Returns how many targets there are. */
int64_t qn__held_window(const qn_train_data *d, int64_t index, int32_t *ids, int32_t *targets);
uint64_t qn__train_random(uint64_t *state); /* splitmix64 */

/* ---- model.c ---- */
typedef struct qn_train_param {
    const char *name; /* GGUF's */
    qn_tensor *value;
    float *best; /* of the best evaluation; NULL before the first */
} qn_train_param;

typedef struct qn_lora_base qn_lora_base;

struct qn_trainer {
    qn_train_options o;
    qn_arena arena;
    qn_train_data data;
    qn_context *ctx;
    qn_module *lm; /* one of the two */
    qn_lora_base *lora;
    qn_optimizer *optimizer;
    qn_train_param *params;
    int32_t n_params;
    int32_t *ids, *targets; /* [n_batch, n_ctx] on their way to ids_in, targets_in */
    qn_tensor *ids_in, *targets_in;
    int32_t step, n_steps, steps_per_epoch;
    bool has_best;
    int32_t best_step;
    double best_bits;
};

int64_t qn__lm_count(const qn_train_options *o, int32_t n_vocab); /* parameters */
/* Makes t->lm, t->params and their first values. */
qn_status qn__lm_create(qn_trainer *t, qn_error *err);
/* Sum of -ln p over the targets that are not -1, divided by `divisor`: a 0-d tensor of the present scope. */
qn_tensor *qn__lm_loss(qn_trainer *t, double divisor, bool training);

/* ---- lora.c: a frozen base model and what is learnt beside it ---- */
/* Opens the base, and fills in the options that it decides; the tokenizer is the base's. */
qn_status qn__lora_open(qn_trainer *t, const qn_lora_options *lora, const qn_train_options *in, qn_train_options *out,
                        qn_error *err);
const qn_tokenizer *qn__lora_tokenizer(const qn_lora_base *base);
/* Makes the base's tensors, t->params and their first values. */
qn_status qn__lora_create(qn_trainer *t, qn_error *err);
void qn__lora_close(qn_lora_base *base); /* after the context */
/* For counts that are shown: learnt parameters, and weights of products that a token passes. */
double qn__lora_count(const qn_lora_base *base);
double qn__lora_weights(const qn_lora_base *base);
uint64_t qn__lora_hash(const qn_lora_base *base, uint64_t seed);
qn_tensor *qn__lora_loss(qn_trainer *t, double divisor, bool training); /* as qn__lm_loss; lora_model.c */
qn_status qn__lora_export(qn_trainer *t, const char *path, const char *type, const char *name, qn_error *err);

/* ---- update.c ---- */
qn_status qn__train_optimizer_create(qn_trainer *t, qn_error *err);
void qn__train_set_decay(qn_trainer *t);
double qn__train_rate(const qn_trainer *t); /* of the next step */
/* Records clipping and AdamW's step for every parameter and takes the gradients away. The norm is a tensor of the
 * present scope. */
qn_tensor *qn__train_update(qn_trainer *t);

/* ---- trainer.c ---- */
/* What the context says went wrong, which is cleared. */
qn_status qn__train_failed(qn_trainer *t, qn_error *err);
/* A parameter's values as F32, whatever its type. */
qn_status qn__train_values(qn_trainer *t, const qn_train_param *p, float *dst, qn_error *err);
/* Memory for params[].best. */
qn_status qn__train_best_room(qn_trainer *t, qn_error *err);

#endif
