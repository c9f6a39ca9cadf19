/* SPDX-License-Identifier: MIT */
/* src/model/arch.h -- what an architecture is: a declaration of hyperparameter rows, tensor rows and one layer
 * function.
 *
 * Adding one is a row in archs.def and a file arch/NAME.c. The tensor rows say at once what a file must hold (name and
 * shape are checked), where it goes (a slot), and what `quern synth` writes. */
#ifndef QN_MODEL_ARCH_H
#define QN_MODEL_ARCH_H

#include "graph/graph.h"
#include <quern/gguf.h>

/* ---- hyperparameters ---- */
typedef struct qn_hparams {
    uint32_t n_vocab, n_ctx_train, n_embd, n_layer, n_head, n_kv_head;
    uint32_t n_embd_head_k, n_embd_head_v; /* default n_embd / n_head */
    uint32_t n_ff, n_rot;                  /* n_rot: default n_embd_head_k */
    uint32_t n_expert;                     /* 0: dense; anything else is not supported yet and refused */
    float norm_eps;
    float rope_base;
    float rope_factor; /* linear or YaRN; 0 and 1 are none */
    float rope_attn_factor;
    uint32_t rope_ctx_orig;
    qn_rope_attrs rope; /* made of the above when loading */
} qn_hparams;

/* The one key after "ARCH." that is text: none, linear or yarn. */
#define QN_ROPE_SCALING_TYPE "rope.scaling.type"

typedef enum qn_hparam_kind { QN_HPARAM_u32, QN_HPARAM_f32 } qn_hparam_kind;
typedef struct qn_hparam_row {
    const char *key; /* after "ARCH." */
    qn_hparam_kind kind;
    size_t field; /* offset in qn_hparams */
    bool required;
    double fallback, lo, hi; /* allowed range, both ends in */
} qn_hparam_row;
/* clang-format off */
#define U32(key, field, lo, hi)              {key, QN_HPARAM_u32, offsetof(qn_hparams, field), true, 0, lo, hi}
#define U32_OR(key, field, fallback, lo, hi) {key, QN_HPARAM_u32, offsetof(qn_hparams, field), false, fallback, lo, hi}
#define F32(key, field, lo, hi)              {key, QN_HPARAM_f32, offsetof(qn_hparams, field), true, 0, lo, hi}
#define F32_OR(key, field, fallback, lo, hi) {key, QN_HPARAM_f32, offsetof(qn_hparams, field), false, fallback, lo, hi}
/* clang-format on */

/* ---- weights ---- */
typedef struct qn_weight {
    const char *name; /* as in the file */
    qn_dtype dtype;
    qn_shape shape;
    const qn_gguf_tensor *tensor;
    void *buffer;    /* of a backend, set by the engine */
    uint64_t offset; /* bytes into it */
    int32_t index;   /* in qn_model.weights */
    int32_t beside;  /* a norm's or bias's: index of the matrix that it belongs to; a matrix's own */
} qn_weight;

/* Weights of one layer, and those outside layers. A slot is NULL where the file has no such (optional) tensor. */
typedef struct qn_layer {
    qn_weight *attn_norm, *attn_q, *attn_k, *attn_v, *attn_out;
    qn_weight *attn_q_bias, *attn_k_bias, *attn_v_bias, *attn_out_bias;
    qn_weight *attn_q_norm, *attn_k_norm;
    qn_weight *ffn_norm, *ffn_gate, *ffn_up, *ffn_down;
    qn_weight *ffn_gate_bias, *ffn_up_bias, *ffn_down_bias;
} qn_layer;
typedef struct qn_top {
    qn_weight *tok_embd, *out_norm, *out, *rope_freqs;
} qn_top;

/* Sizes that shapes are spelled in. */
/* clang-format off */
#define QN_DIM_ROWS(QN_DIM) \
    QN_DIM(VOCAB, hp->n_vocab) QN_DIM(EMBD, hp->n_embd) QN_DIM(HEAD, hp->n_embd_head_k) \
    QN_DIM(Q, (int64_t)hp->n_head * hp->n_embd_head_k) QN_DIM(K, (int64_t)hp->n_kv_head * hp->n_embd_head_k) \
    QN_DIM(V, (int64_t)hp->n_kv_head * hp->n_embd_head_v) QN_DIM(O, (int64_t)hp->n_head * hp->n_embd_head_v) \
    QN_DIM(FF, hp->n_ff) QN_DIM(ROT2, hp->n_rot / 2)
/* clang-format on */
typedef enum qn_dim {
    D_END,
#define QN_DIM_ENUM(name, value) D_##name,
    QN_DIM_ROWS(QN_DIM_ENUM)
#undef QN_DIM_ENUM
} qn_dim_name;

enum {
    W_OPTIONAL = 1 << 0, /* may be absent */
    W_TIED = 1 << 1,     /* absent: the token embedding serves */
    W_VECTOR = 1 << 2,   /* norms and biases: must be F32 or F16/BF16, and synth writes F32 */
    W_NO_SYNTH = 1 << 3, /* synth leaves it out unless it is asked for */
    W_ONES = 1 << 4,     /* synth writes values around 1 */
    W_MAY_LACK = W_OPTIONAL | W_NO_SYNTH,
};
typedef struct qn_tensor_row {
    bool layer;  /* one for each layer; the name has a %d */
    size_t slot; /* offset in qn_layer or qn_top */
    const char *name;
    uint8_t dim[4]; /* qn_dim_name, outermost first, D_END ends */
    uint32_t flags;
} qn_tensor_row;
#define TOP(field)   false, offsetof(qn_top, field)
#define LAYER(field) true, offsetof(qn_layer, field)

/* ---- the model ---- */
typedef struct qn_build qn_build;
typedef struct qn_arch {
    const char *name;
    const qn_hparam_row *hparams;
    int n_hparams;
    const qn_tensor_row *tensors;
    int n_tensors;
    qn_rope_mode rope_mode;
    qn_node *(*layer)(qn_build *b, const qn_layer *l, qn_node *x, int i); /* [n, n_embd] -> [n, n_embd] */
    /* layer is qn__decoder_layer, biases and norms of heads where they are: train/lora_model.c knows it too */
    bool plain_decoder;
} qn_arch;
const qn_arch *const *qn__archs(int *n);
const qn_arch *qn__arch_find(const char *name); /* NULL */

typedef struct qn_model {
    qn_arena arena;
    const qn_gguf *file; /* borrowed, outlives the model */
    const qn_arch *arch;
    qn_hparams hp;
    qn_top top;
    qn_layer *layers;   /* hp.n_layer */
    qn_weight *weights; /* all that are bound, in row order */
    int32_t n_weights;
    uint64_t n_params, weight_bytes;
} qn_model;

/* Reads hyperparameters and binds tensors; every missing, misshapen or mistyped one is named with what was expected.
 * Touches no tensor byte. n_vocab: of the tokenizer, which must agree with the file's embedding unless it is 0. */
qn_status qn__model_load(const qn_gguf *file, int32_t n_vocab, qn_model **out, qn_error *err);
void qn__model_free(qn_model *m);
qn_status qn__hparams_read(const qn_gguf *file, const qn_arch *arch, qn_hparams *hp, qn_error *err);
/* A row's number, of either kind. */
void qn__hparam_set(qn_hparams *hp, const qn_hparam_row *row, double value);
double qn__hparam_get(const qn_hparams *hp, const qn_hparam_row *row);
/* What the rope op multiplies sine and cosine by besides attn_factor: 1 unless it is YaRN. */
float qn__yarn_temperature(const qn_rope_attrs *rope);
qn_shape qn__tensor_row_shape(const qn_tensor_row *row, const qn_hparams *hp);

#endif
