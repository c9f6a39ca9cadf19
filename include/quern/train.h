/* SPDX-License-Identifier: MIT */
/* quern/train.h -- training a language model from text: vocabulary, windows, steps, evaluation, checkpoints, export.
 *
 *     qn_trainer *t;
 *     qn_trainer_create(&(qn_train_options){.n_embd = 192}, &text, 1, &t, &err);
 *     while (qn_trainer_step(t, &step, &err) == QN_OK && step.step < step.n_steps) ...
 *     qn_trainer_evaluate(t, &eval, &err);
 *     qn_trainer_export(t, "model.gguf", NULL, &err);
 *     qn_trainer_destroy(t);
 *
 * The model has the architecture "llama", or another that is asked for, and SentencePiece's BPE, trained from the same
 * text, as vocabulary; the file runs wherever such files run. The end of each text is held out: the vocabulary and the
 * model never see it, evaluation measures there.
 *
 * A window is n_ctx tokens in a row, predicted from a beginning-of-sequence token and the tokens before. An epoch cuts
 * the text, from a random offset, into windows and shuffles them; both follow from the seed and the epoch alone. Every
 * number follows from the options and the texts: not from the threads, and not from where a run was interrupted and
 * resumed. */
#ifndef QUERN_TRAIN_H
#define QUERN_TRAIN_H

#include <quern/base.h>
#include <quern/gguf.h>
#include <quern/text.h>

#ifdef __cplusplus
extern "C" {
#endif

/* QN_TRAIN_OPTION(type, field, "its name on a command line", default, lowest, highest, whether a checkpoint must have
 * the same, "what it is"). Types: int, float, flag. A field that is 0 has its default; in a float's row whose lowest is
 * 0, negative means 0. Where the default follows from other options the row has 0 and the text says it in brackets. */
/* clang-format off */
#define QN_TRAIN_ROWS(QN_TRAIN_OPTION) \
    QN_TRAIN_OPTION(int,   n_layer,       "layers",        4,     1,    256,     true,  "layers") \
    QN_TRAIN_OPTION(int,   n_embd,        "embd",          128,   2,    16384,   true,  "embedding length") \
    QN_TRAIN_OPTION(int,   n_head,        "heads",         4,     1,    1024,    true,  "attention heads") \
    QN_TRAIN_OPTION(int,   n_kv_head,     "kv-heads",      0,     1,    1024,    true, \
        "key/value heads [as many as heads]") \
    QN_TRAIN_OPTION(int,   n_ff,          "ff",            0,     1,    65536,   true, \
        "feed-forward length [8/3 of the embedding]") \
    QN_TRAIN_OPTION(int,   n_ctx,         "ctx",           256,   2,    65536,   true, \
        "tokens in a window, the model's context") \
    QN_TRAIN_OPTION(int,   n_vocab,       "vocab-size",    1024,  262,  1048576, true,  "tokens of the vocabulary") \
    QN_TRAIN_OPTION(flag,  split_digits,  "split-digits",  0,     0,    1,       true,  "each digit is a token") \
    QN_TRAIN_OPTION(float, rope_base,     "rope-base",     10000, 1,    1e12,    true,  "RoPE frequency base") \
    QN_TRAIN_OPTION(flag,  tied,          "tied",          0,     0,    1,       true, \
        "the output matrix is the embedding") \
    QN_TRAIN_OPTION(float, eval_fraction, "eval-fraction", 0.1,   0,    0.9,     true, \
        "part of each text that is held out") \
    QN_TRAIN_OPTION(int,   n_batch,       "batch",         8,     1,    65536,   true,  "windows computed at once") \
    QN_TRAIN_OPTION(int,   n_accum,       "accum",         1,     1,    65536,   true, \
        "batches whose gradients make a step") \
    QN_TRAIN_OPTION(int,   n_steps,       "steps",         0,     1,    1e9,     false, \
        "steps [as many as the epochs have]") \
    QN_TRAIN_OPTION(float, n_epochs,      "epochs",        1,     1e-6, 1e6,     false, "times through the text") \
    QN_TRAIN_OPTION(float, lr,            "lr",            1e-3,  1e-9, 10,      false, "highest learning rate") \
    QN_TRAIN_OPTION(float, min_lr,        "min-lr",        0,     0,    10,      false, \
        "learning rate at the end of the cosine [a tenth]") \
    QN_TRAIN_OPTION(int,   n_warmup,      "warmup",        0,     1,    1e9,     false, \
        "steps of rising rate [a twentieth of all]") \
    QN_TRAIN_OPTION(float, weight_decay,  "weight-decay",  0.1,   0,    10,      false, "of matrices, AdamW's") \
    QN_TRAIN_OPTION(float, beta1,         "beta1",         0.9,   0,    0.9999,  false, "AdamW's first average") \
    QN_TRAIN_OPTION(float, beta2,         "beta2",         0.95,  0,    0.9999,  false, "AdamW's second average") \
    QN_TRAIN_OPTION(float, grad_clip,     "grad-clip",     1,     0,    1e6,     false, \
        "length that longer gradients are cut to") \
    QN_TRAIN_OPTION(float, dropout,       "dropout",       0,     0,    0.9,     false, "part of activations dropped") \
    QN_TRAIN_OPTION(flag,  grad_checkpointing, "grad-checkpointing", 0, 0, 1,    false, \
        "keep of each layer its input alone and compute the inside again in backward: less memory, the same losses") \
    QN_TRAIN_OPTION(flag,  bf16,          "bf16",          0,     0,    1,       false, \
        "weights, activations and gradients in BF16, master weights in F32")
/* clang-format on */

/* grad_checkpointing costs a second forward pass of the layers, about a fifth of the speed. bf16 is for memory and for
 * models that will run in BF16: inside, kernels compute in F32, so on a CPU it is slower than F32. Losses are summed in
 * F32; evaluation and export see the BF16 weights, which follow their masters. */
typedef int32_t qn_train_int;
typedef float qn_train_float;
typedef bool qn_train_flag;

typedef struct qn_train_options {
#define QN_TRAIN_FIELD(type, field, name, value, lo, hi, same, text) qn_train_##type field;
    QN_TRAIN_ROWS(QN_TRAIN_FIELD)
#undef QN_TRAIN_FIELD
    uint64_t seed; /* of the weights, the order of windows and what is dropped */
    int n_threads; /* 0: all that make sense */
    /* Devices as qn_context_options.backend (quern/array.h) takes them: weights, activations and the optimizer's state
     * lie on the first, "opencl:0,cpu". An adapter is trained on "cpu" alone. NULL: "cpu". */
    const char *backend;
    const char *arch; /* a name of qn_train_architectures; a checkpoint must have the same; NULL: llama */
} qn_train_options;

/* Those of qn_architectures (quern/engine.h) that can be trained from nothing, NULL-terminated: their steps all have
 * gradients, as those of mixtures of experts do not, and predict the next token, as encoders do not. */
QN_API const char *const *qn_train_architectures(void);

typedef struct qn_trainer qn_trainer;

/* Trains the vocabulary, splits and tokenizes the texts, which are not needed afterwards, and gives the weights their
 * first values. */
QN_API qn_status qn_trainer_create(const qn_train_options *options, const qn_gguf_str *texts, size_t n_texts,
                                   qn_trainer **out, qn_error *err);
/* The same for a low-rank adapter (LoRA) over a frozen base model of any type: in place of the vocabulary and the
 * weights, those of the base are used, and for every linear layer that a pattern names a [rank, in] and b [out, rank]
 * are learnt; b begins at 0. Options that the base decides (layers, embd, heads, kv-heads, ff, vocab-size, rope-base,
 * tied, arch) are 0. Export writes the adapter, in F32, F16 or BF16; it fits qn_lora_open. lora may be NULL:
 * qn_trainer_create. */
typedef struct qn_lora_options {
    const char *base; /* GGUF */
    int32_t rank;     /* 0: 8 */
    float alpha;      /* the layer adds alpha / rank times the product; 0: twice the rank */
    /* patterns of tensor names without ".weight", * any run, separated by commas; NULL: "blk.*" */
    const char *targets;
} qn_lora_options;
QN_API qn_status qn_trainer_create_lora(const qn_train_options *options, const qn_lora_options *lora,
                                        const qn_gguf_str *texts, size_t n_texts, qn_trainer **out, qn_error *err);
/* What is learnt from, in full: plain texts, or conversations.
 *
 * Conversations are texts of lines, each line a JSON object as of qn_chat_samples_create; empty lines are skipped. Each
 * is rendered by the model's template, and only what the assistant says counts for the loss: up to and with the token
 * that ends its turn. The last lines of each text are held out. Several conversations share a window and do not see
 * each other. One that is longer than n_ctx ends after the last of its turns that fits; where the first turn does not
 * fit it is left out; both are counted. bits_per_byte is of what the assistant says. */
typedef struct qn_train_corpus {
    const qn_gguf_str *texts; /* [n_texts] */
    size_t n_texts;
    const char *const *names; /* [n_texts] of the texts, in messages; NULL: "text 1" .. */
    bool chat;                /* texts are lines of conversations */
    /* Jinja, terminated: the model's template, which export writes (an adapter's file has none). NULL: none for plain
     * texts; for conversations ChatML without tools, or the base's where there is one. */
    const char *chat_template;
    /* Tokens of the vocabulary that is trained; where plain texts spell them, these tokens are meant. NULL: none for
     * plain texts; for conversations without a template those of ChatML. */
    const qn_special_token *special; /* [n_special] */
    int32_t n_special;
    const char *eos; /* the one that ends texts and generations; NULL: </s> */
} qn_train_corpus;
/* lora may be NULL. The vocabulary and its special tokens are the base's then. Errors in a conversation name text and
 * line. invalid, too, where no turn ends with a token that ends a generation: such a model would not stop. */
QN_API qn_status qn_trainer_create_corpus(const qn_train_options *options, const qn_lora_options *lora,
                                          const qn_train_corpus *corpus, qn_trainer **out, qn_error *err);
QN_API void qn_trainer_destroy(qn_trainer *trainer);

typedef struct qn_train_info {
    int64_t n_params;
    int32_t n_vocab;                     /* fewer than asked when the text has no more pairs */
    int64_t n_tokens, n_bytes;           /* to learn from */
    int64_t n_held_tokens, n_held_bytes; /* held out */
    /* of conversations: to learn from and held out; ended early; left out; and the tokens that windows hold, of which
     * n_tokens are said by the assistant */
    int64_t n_conversations, n_held_conversations, n_cut, n_left_out, n_fed;
    int32_t step, n_steps; /* done; in all */
    int32_t steps_per_epoch;
    /* multiplications and additions that the model's formulas ask for, forward and backward */
    double flops_per_step;
    int32_t best_step; /* of the best evaluation; 0 before the first */
    double best_bits_per_byte;
} qn_train_info;
QN_API void qn_trainer_get_info(const qn_trainer *trainer, qn_train_info *out);
/* The options in use: what was 0 has its value. */
QN_API const qn_train_options *qn_trainer_options(const qn_trainer *trainer);

typedef struct qn_train_step {
    int32_t step, n_steps; /* 1 for the first */
    double loss;           /* mean of -ln p over the step's tokens, before its update */
    double grad_norm;      /* before clipping */
    double lr;
} qn_train_step;
/* One update, which happens or does not: out of memory, it may be tried again. state when all steps are done; invalid
 * when loss or gradient is no finite number: the weights are lost then, a checkpoint and the best weights are not. */
QN_API qn_status qn_trainer_step(qn_trainer *trainer, qn_train_step *out, qn_error *err);

typedef struct qn_train_eval {
    double loss;          /* mean of -ln p over the held-out tokens */
    double bits_per_byte; /* of the held-out text: independent of the vocabulary */
    bool best;            /* so far: these weights are kept */
} qn_train_eval;
/* state when nothing is held out. */
QN_API qn_status qn_trainer_evaluate(qn_trainer *trainer, qn_train_eval *out, qn_error *err);

/* Everything that the next step depends on, and the best weights, as one safetensors file, which appears whole or not
 * at all. A trainer that loads it goes on as the one that saved it would have. Options marked so in the rows, the seed
 * and the text must be the same, or the error (invalid) names the first that is not; nothing has changed then. */
QN_API qn_status qn_trainer_save(qn_trainer *trainer, const char *path, qn_error *err);
QN_API qn_status qn_trainer_load(qn_trainer *trainer, const char *path, qn_error *err);

/* The weights of the best evaluation (the present ones when there was none) and the vocabulary as a GGUF file. type: a
 * packable dtype's name or a mix's (Q4_K_M); NULL: F32. Rows whose length the type's blocks do not divide get Q8_0 or
 * F16. name goes to general.name; NULL: none. */
QN_API qn_status qn_trainer_export(qn_trainer *trainer, const char *path, const char *type, const char *name,
                                   qn_error *err);

#ifdef __cplusplus
}
#endif
#endif
