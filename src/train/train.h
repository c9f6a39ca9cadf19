/* SPDX-License-Identifier: MIT */
/* src/train/train.h -- inside the training room: the text as windows, the model, the optimizer, and the trainer that
 * holds them. */
#ifndef QN_TRAIN_TRAIN_H
#define QN_TRAIN_TRAIN_H

#include "base/error.h"
#include "base/mem.h"
#include <quern/array.h>
#include <quern/chat.h>
#include <quern/nn.h>
#include <quern/optim.h>
#include <quern/text.h>
#include <quern/train.h>

/* ---- options.c ---- */
/* `out` is `in` with every 0 replaced, or the error names the option. */
qn_status qn__train_resolve(const qn_train_options *in, qn_train_options *out, qn_error *err);
/* The first of such lines that is not the same, as "heads is 4, 6 in the checkpoint"; false when there is none. */
bool qn__train_differs(const char *mine, const char *theirs, char *text, size_t size);
/* The options that a checkpoint must share, as "name=value" lines. */
bool qn__train_describe(const qn_train_options *o, char *text, size_t size); /* false when it does not fit */
#define QN_TRAIN_TEXT_BYTES 1024

/* ---- data.c: texts as tokens, cut into windows ---- */
/* Windows made in advance: conversations, several to a row. */
typedef struct qn_train_rows {
    int32_t *ids, *targets; /* [n, n_ctx] targets of what is not learnt are -1 */
    int32_t *part;          /* [n, n_ctx] which of the row's conversations a token is of; -1: none, the row's end */
    int32_t *n_learnt;      /* [n] targets that count */
    int64_t n;
} qn_train_rows;

typedef struct qn_train_data {
    qn_vocab *vocab; /* NULL with a tokenizer that was there before */
    bool chat;       /* rows and held_rows instead of tokens and held */
    qn_train_rows rows, held_rows;
    int64_t n_conversations, n_held_conversations, n_cut, n_left_out, n_fed;
    int64_t n_held_windows;
    int32_t n_vocab;
    qn_token begin;          /* what a window's first token is predicted from */
    qn_token *tokens, *held; /* to learn from, each text ended by eos; held out */
    int64_t n_tokens, n_held, n_bytes, n_held_bytes;
    int64_t n_windows; /* an epoch's */
    int32_t n_ctx;
    uint64_t seed;
    /* What a checkpoint must share: the texts' tokens, of conversations what is learnt in them too; the template;
     * special tokens and which one ends a text. joined: all in one, as checkpoints once had it. */
    uint64_t text_hash, template_hash, special_hash, joined_hash;
    int64_t epoch, offset; /* that `order` is for; -1: none */
    int32_t *order;        /* [n_windows] */
} qn_train_data;
/* What the data are made from. */
typedef struct qn_train_source {
    const qn_train_options *o;
    bool exact_vocab;              /* o->n_vocab was asked for */
    const qn_tokenizer *tok;       /* that of a base model; NULL: a vocabulary is trained from the texts */
    const qn_chat_template *shape; /* of conversations */
    const qn_train_corpus *corpus; /* special and eos filled in */
} qn_train_source;
qn_status qn__train_data_init(qn_train_data *d, const qn_train_source *s, qn_error *err);
void qn__train_data_deinit(qn_train_data *d);
/* The index-th window since the beginning of training: n_ctx ids to feed, and the ids that follow each. part: of
 * conversations, else untouched. */
void qn__train_window(qn_train_data *d, int64_t index, int32_t *ids, int32_t *targets, int32_t *part);
/* The index-th window of what is held out; targets past its end are -1. */
void qn__held_window(const qn_train_data *d, int64_t index, int32_t *ids, int32_t *targets, int32_t *part);
/* Targets that count in windows [index, index + n) of training. */
double qn__train_learnt(qn_train_data *d, int64_t index, int64_t n);
uint64_t qn__train_random(uint64_t *state); /* splitmix64 */

/* ---- special.c: where texts spell special tokens ---- */
/* The end of the plain text that begins at `from`; *len: of the special token behind it, 0 at the end of the text. */
size_t qn__special_next(const qn_special_token *special, int32_t n_special, const qn_gguf_str *text, size_t from,
                        size_t *len);
/* Adds the plain parts of a text to a vocabulary's trainer. */
qn_status qn__special_add(const qn_special_token *special, int32_t n_special, const qn_gguf_str *text,
                          qn_bpe_trainer *bpe, qn_error *err);
/* Tokenizes a text in which these tokens, and no other control tokens, are found. */
qn_status qn__special_tokenize(const qn_special_token *special, int32_t n_special, const qn_gguf_str *text,
                               const qn_tokenizer *tok, qn_token **out, size_t *n, qn_error *err);
/* Trains the vocabulary from what was added to `bpe`. */
qn_status qn__train_vocab_run(qn_train_data *d, const qn_train_source *s, qn_bpe_trainer *bpe, qn_error *err);
qn_bpe_train_options qn__train_vocab_options(const qn_train_source *s);

/* ---- conversations.c, pack.c ---- */
qn_status qn__conversations_load(qn_train_data *d, const qn_train_source *s, qn_error *err);
/* One conversation as tokens. */
typedef struct qn_train_talk {
    int32_t *ids;  /* [n] */
    uint8_t *said; /* [n] by the assistant */
    int32_t n;     /* at most n_ctx + 1 */
} qn_train_talk;
/* Puts talks into rows of n_ctx, each in the fullest row that has room, the longest first. */
qn_status qn__talks_pack(const qn_train_talk *talks, int64_t n, int32_t n_ctx, qn_train_rows *out, qn_error *err);
void qn__rows_deinit(qn_train_rows *rows);

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
    qn_module *lm;     /* one of the two */
    int64_t n_weights; /* of lm */
    qn_lora_base *lora;
    qn_optimizer *optimizer;
    qn_train_param *params;
    int32_t n_params;
    int32_t *ids, *targets; /* [n_batch, n_ctx] on their way to ids_in, targets_in */
    qn_tensor *ids_in, *targets_in;
    /* of conversations, else NULL: which of a row's each token is of [n_batch, n_ctx]; what sees what, and what the sum
     * of losses is multiplied by */
    int32_t *part;
    uint8_t *sees;
    qn_tensor *sees_in;  /* BOOL [n_batch, 1, n_ctx, n_ctx] */
    qn_tensor *scale_in; /* F32 [] */
    qn_chat_template *shape;
    int32_t step, n_steps, steps_per_epoch;
    bool has_best;
    int32_t best_step;
    double best_bits;
};

qn_status qn__lm_plan(qn_trainer *t, qn_error *err); /* counts t->n_weights; refuses what cannot be trained */
/* Makes t->lm, t->params and their first values. */
qn_status qn__lm_create(qn_trainer *t, qn_error *err);
/* Sum of -ln p over the targets that are not -1, divided by `divisor` or multiplied by t->scale_in where there is one:
 * a 0-d tensor of the present scope. */
qn_tensor *qn__lm_loss(qn_trainer *t, double divisor, bool training);

/* ---- lora.c: a frozen base model and what is learnt beside it ---- */
/* Opens the base, and fills in the options that it decides; the tokenizer is the base's. */
qn_status qn__lora_open(qn_trainer *t, const qn_lora_options *lora, const qn_train_options *in, qn_train_options *out,
                        qn_error *err);
const qn_gguf *qn__lora_file(const qn_lora_base *base);
const qn_tokenizer *qn__lora_tokenizer(const qn_lora_base *base);
/* Makes the base's tensors, t->params and their first values. */
qn_status qn__lora_create(qn_trainer *t, qn_error *err);
void qn__lora_close(qn_lora_base *base); /* after the context */
/* For counts that are shown: learnt parameters, and weights of products that a token passes. */
double qn__lora_count(const qn_lora_base *base);
double qn__lora_weights(const qn_lora_base *base);
/* What a checkpoint must share: the base, which layers have a pair, and how a pair is made, as "name=value" lines. */
typedef struct qn_lora_identity {
    uint64_t base, targets;
    char options[64];
} qn_lora_identity;
void qn__lora_identity(const qn_lora_base *base, qn_lora_identity *out);
uint64_t qn__lora_joined_hash(const qn_lora_base *base, uint64_t seed); /* as checkpoints once had it */
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
qn_tensor *qn__train_scaled(const qn_trainer *t, qn_tensor *sum, double divisor);
/* What the context says went wrong, which is cleared. */
qn_status qn__train_failed(qn_trainer *t, qn_error *err);
/* A parameter's values as F32, whatever its type. */
qn_status qn__train_values(qn_trainer *t, const qn_train_param *p, float *dst, qn_error *err);
/* Memory for params[].best. */
qn_status qn__train_best_room(qn_trainer *t, qn_error *err);

#endif
