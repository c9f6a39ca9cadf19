/* SPDX-License-Identifier: MIT */
/* src/model/arch.h -- what an architecture is: hyperparameter rows, tensor rows, and the spec of a layer.
 *
 * Adding one is a row in archs.def and a file arch/NAME.c. The tensor rows say at once what a file must hold (name and
 * shape are checked), where it goes (a slot), and what `quern synth` writes; what is computed with it, forward.c reads
 * from the spec. */
#ifndef QN_MODEL_ARCH_H
#define QN_MODEL_ARCH_H

#include "graph/graph.h"
#include "model/spec.h"
#include <quern/gguf.h>

/* ---- hyperparameters ---- */
typedef struct qn_hparams {
    uint32_t n_vocab, n_ctx_train, n_embd, n_layer, n_head, n_kv_head;
    uint32_t n_embd_head_k, n_embd_head_v;                             /* default n_embd / n_head */
    uint32_t n_ff, n_rot;                                              /* n_rot: default n_embd_head_k */
    uint32_t n_embd_head_k_window, n_embd_head_v_window, n_rot_window; /* of layers that see a window; 0: the same */
    uint32_t n_expert, n_expert_used;                                  /* 0: no mixtures; of a token */
    uint32_t n_ff_exp;                                                 /* of one expert; 0: n_ff */
    uint32_t n_expert_chunk, n_ff_chexp; /* neighbours that share a small expert; its size */
    uint32_t n_expert_shared;            /* that all tokens use */
    uint32_t n_ff_shexp;                 /* of these together; 0: n_expert_shared times an expert's */
    uint32_t n_layer_dense, moe_step;    /* mixtures are after so many layers, and of every so many the last; 0: all */
    uint32_t moe_second_of;              /* of every so many the second; 0: as moe_step says */
    uint32_t n_layer_nextn;              /* at the end, left alone */
    uint32_t n_expert_group, n_expert_group_used;
    uint32_t expert_gating; /* 1 + qn_moe_score; 0: the architecture's */
    uint32_t expert_norm;
    float expert_scale, chunk_scale;
    float expert_limit, shared_limit; /* in qn_layer_hp */
    /* Latent attention: ranks of queries (0: whole) and of keys and values, a head's sizes where cached is what they
     * are made of; 0: heads are cached, of n_embd_head_k and _v */
    uint32_t n_lora_q, n_lora_kv, n_embd_head_k_mla, n_embd_head_v_mla;
    float norm_eps;
    float rope_base;
    uint32_t rope_scaling; /* qn_rope_scaling */
    float rope_factor;     /* linear or YaRN; 0 and 1 are none */
    float rope_attn_factor;
    float rope_beta_fast, rope_beta_slow, rope_log_factor; /* YaRN; log_factor 1: without its attention temperature */
    float rope_base_window;                                /* of layers that see a window; 0: rope_base */
    uint32_t rope_ctx_orig;
    uint32_t n_window; /* positions that a layer with a window sees; 0: there is none */
    uint32_t windowed; /* in qn_layer_hp: does the layer see a window? Here: of how many layers the last sees all */
    uint32_t sees_all_first; /* of so many layers it is the first */
    float embd_scale;        /* factors, 0: 1 */
    float residual_scale, logit_scale, attn_scale, value_scale;
    float xielu_n, xielu_p, xielu_beta, xielu_eps, sparse; /* in qn_layer_hp */
    float attn_softcap, logit_softcap, qkv_clamp;          /* 0: none */
    float attn_alibi;                                      /* 0: none */
    float attn_heat;
    uint32_t attn_heat_floor;
    uint32_t parallel; /* attention and feed-forward side by side */
    uint32_t causal;   /* 0: tokens see what comes after them too */
    uint32_t pooling;  /* the file's number */
    uint32_t n_label, n_token_type;
    uint32_t silu;                             /* an encoder's activation where others have GELU */
    uint32_t n_dense_2, n_dense_3, n_embd_out; /* out of the one, into and out of the other; 0: there are none */
    uint32_t n_loops;    /* the layers are run so many times, each with a cache of its own; n_layer counts all */
    uint32_t bare_loops; /* not normalised in between */
    uint32_t
        n_kv_shared; /* so many last layers read the keys and values of the last layer before them that sees alike */
    uint32_t n_embd_layer; /* size of an embedding for each layer; 0: there is none */
    uint32_t n_altup;      /* AltUp: versions of the stream; 0: one */
    uint32_t n_laurel;     /* rank of the learnt residual beside attention */
    uint32_t rope_sections[4];
    float rope_alpha;     /* 0: none */
    uint32_t bare_window; /* layers that see a window rotate without factors */
    qn_rope_attrs rope;   /* made of the above when loading */
    qn_rope_attrs rope_window;
} qn_hparams;

/* Layers of the file; each is run n_loops times. */
static inline uint32_t qn__n_stored(const qn_hparams *hp) { return hp->n_layer / (hp->n_loops ? hp->n_loops : 1); }

/* What may differ between layers. */
typedef struct qn_layer_hp {
    uint32_t n_head, n_kv_head, n_ff, windowed;
    uint32_t d_k, d_v; /* of a head */
    uint32_t experts;  /* a mixture, where others have one feed-forward */
    float expert_limit, shared_limit;
    float xielu_n, xielu_p, xielu_beta, xielu_eps, sparse;
} qn_layer_hp;

#define QN_POOLING_UNSET_IN_FILE 255 /* of qn_hparams.pooling */

/* The words that rope.scaling.type may be, in the order of QN_ROPE_SCALING_WORDS. */
typedef enum qn_rope_scaling {
    QN_ROPE_SCALING_unset,
    QN_ROPE_SCALING_none,
    QN_ROPE_SCALING_linear,
    QN_ROPE_SCALING_yarn,
    QN_ROPE_SCALING_longrope
} qn_rope_scaling;
#define QN_ROPE_SCALING_WORDS "none linear yarn" /* longrope: where an architecture has its factors */

typedef enum qn_hparam_kind {
    QN_HPARAM_u32,
    QN_HPARAM_f32,
    QN_HPARAM_bool,
    QN_HPARAM_word,    /* text: one of `words`, and the field its number from 1 on */
    QN_HPARAM_count,   /* how many elements an array has */
    QN_HPARAM_four,    /* an array of four numbers below 2^12; the field is uint32_t[4] */
    QN_HPARAM_pattern, /* a number n: every n-th layer is different, 0 none; or a boolean a layer, true where not */
} qn_hparam_kind;
/* Four numbers of 12 bits as one that a double holds, and back. */
enum { QN_FOUR_BITS = 12 };
static inline double qn__four_as_one(const uint32_t four[4])
{
    uint64_t all = 0;
    for (int i = 0; i < 4; i++) all |= (uint64_t)four[i] << (QN_FOUR_BITS * i);
    return (double)all;
}
static inline const uint32_t *qn__four_of(double one, uint32_t four[4])
{
    for (int i = 0; i < 4; i++) four[i] = (uint64_t)one >> (QN_FOUR_BITS * i) & ((1u << QN_FOUR_BITS) - 1);
    return four;
}
typedef struct qn_hparam_row {
    const char *key; /* after "ARCH.", or of the tokenizer's or xIELU's */
    qn_hparam_kind kind;
    size_t field; /* offset in qn_hparams: a uint32_t, or a float for f32 */
    bool required;
    double fallback, lo, hi; /* of a required one: what synth writes; allowed range, both ends in */
    size_t of_layer; /* 1 + offset in qn_layer_hp of what may differ between layers; the field is the greatest */
    const char *words;
} qn_hparam_row;
/* clang-format off */
#define HPARAM_(key, kind, field, ...)       {key, QN_HPARAM_##kind, offsetof(qn_hparams, field), __VA_ARGS__}
#define OF_LAYER_(field)                     1 + offsetof(qn_layer_hp, field)
#define U32(key, field, lo, hi)              HPARAM_(key, u32, field, true, 0, lo, hi, 0, NULL)
#define U32_OF(key, field, synth, lo, hi)    HPARAM_(key, u32, field, true, synth, lo, hi, 0, NULL)
#define U32_OR(key, field, fallback, lo, hi) HPARAM_(key, u32, field, false, fallback, lo, hi, 0, NULL)
#define F32(key, field, lo, hi)              HPARAM_(key, f32, field, true, 0, lo, hi, 0, NULL)
#define F32_OR(key, field, fallback, lo, hi) HPARAM_(key, f32, field, false, fallback, lo, hi, 0, NULL)
#define BOOL_OR(key, field, fallback)        HPARAM_(key, bool, field, false, fallback, 0, 1, 0, NULL)
#define WORD_OR(key, field, words)           HPARAM_(key, word, field, false, 0, 0, 64, 0, words)
#define COUNT_OR(key, field, fallback, lo, hi) \
    HPARAM_(key, count, field, false, fallback, lo, hi, 0, NULL)
/* These may differ between layers. */
#define LU32(key, field, lo, hi)             HPARAM_(key, u32, field, true, 0, lo, hi, OF_LAYER_(field), NULL)
#define LF32_OR(key, field, fallback, lo, hi) \
    HPARAM_(key, f32, field, false, fallback, lo, hi, OF_LAYER_(field), NULL)
#define LU32_OR(key, field, fallback, lo, hi) \
    HPARAM_(key, u32, field, false, fallback, lo, hi, OF_LAYER_(field), NULL)
#define LF32_OR(key, field, fallback, lo, hi) \
    HPARAM_(key, f32, field, false, fallback, lo, hi, OF_LAYER_(field), NULL)
#define LF32(key, field, lo, hi)             HPARAM_(key, f32, field, true, 0, lo, hi, OF_LAYER_(field), NULL)
#define FOUR(key, field)                     HPARAM_(key, four, field, true, 0, 0, 4095, 0, NULL)
#define FOUR_OR(key, field)                  HPARAM_(key, four, field, false, 0, 0, 4095, 0, NULL)
#define PATTERN_OR(key, field, fallback) \
    HPARAM_(key, pattern, field, false, fallback, 0, 4096, OF_LAYER_(field), NULL)
/* clang-format on */

/* ---- weights ---- */
typedef struct qn_tensor_row qn_tensor_row;
typedef struct qn_weight {
    const char *name; /* as in the file */
    qn_dtype dtype;
    qn_shape shape;
    const qn_tensor_row *row;
    const qn_gguf_tensor *tensor; /* NULL without a file */
    void *buffer;                 /* of a backend, set by the engine */
    uint64_t offset;              /* bytes into it */
    int32_t index;                /* in qn_model.weights */
    int32_t beside;               /* a norm's or bias's: index of the matrix that it belongs to; a matrix's own */
    bool vector;                  /* W_VECTOR, of whatever shape */
} qn_weight;

/* Weights of one layer, and those outside layers. A slot is NULL where the file has no such (optional) tensor. */
typedef struct qn_layer {
    qn_weight *attn_norm, *attn_q, *attn_k, *attn_v, *attn_out;
    qn_weight *attn_q_bias, *attn_k_bias, *attn_v_bias, *attn_out_bias;
    qn_weight *attn_q_norm, *attn_k_norm;
    qn_weight *ffn_norm, *ffn_gate, *ffn_up, *ffn_down;
    qn_weight *ffn_gate_bias, *ffn_up_bias, *ffn_down_bias;
    qn_weight *attn_norm_bias, *ffn_norm_bias, *attn_post_norm, *ffn_post_norm;
    qn_weight *attn_qkv, *attn_qkv_bias;         /* queries, keys and values, one behind the other */
    qn_weight *attn_inner_norm, *ffn_inner_norm; /* before the last product */
    qn_weight *attn_norm_2, *attn_norm_2_bias;
    /* Mixtures: the router, then [n_expert, rows, columns], then the experts that all tokens use. */
    qn_weight *ffn_gate_inp, *ffn_gate_inp_bias, *exp_probs_b;
    qn_weight *ffn_gate_exps, *ffn_up_exps, *ffn_down_exps;
    qn_weight *ffn_gate_up_exps; /* of an expert the rows of gate and up, one behind the other */
    qn_weight *ffn_gate_exps_bias, *ffn_up_exps_bias, *ffn_down_exps_bias;
    qn_weight *ffn_down_exps_scale;                               /* [n_expert]: of each expert's result */
    qn_weight *ffn_gate_chexps, *ffn_up_chexps, *ffn_down_chexps; /* small ones, of which neighbours share one */
    qn_weight *ffn_norm_router; /* the router reads the stream after a norm of its own, divided by sqrt(n_embd) */
    qn_weight *ffn_post_norm_exps, *ffn_post_norm_dense; /* of what each of the two makes, before they are added */
    qn_weight *ffn_norm_exps; /* of what experts take, where it is not what a dense feed-forward beside them takes */
    qn_weight *ffn_gate_shexp, *ffn_up_shexp, *ffn_down_shexp, *ffn_gate_inp_shexp;
    qn_weight *attn_gate;                              /* [n_head, n_embd], or a row an element */
    qn_weight *out_scale;                              /* [1] */
    qn_weight *embd_gate, *embd_proj, *embd_post_norm; /* the layer's own embedding, into the stream */
    qn_weight *laurel_l, *laurel_r, *laurel_post_norm;
    qn_weight *altup_router, *altup_router_norm, *altup_predict, *altup_correct, *altup_correct_scale;
    qn_weight *attn_sinks; /* [n_head]: of each head one more score, whose weight goes nowhere */
    qn_weight *attn_post_norm_bias, *ffn_post_norm_bias, *attn_q_norm_bias, *attn_k_norm_bias;
    /* Latent attention: queries by way of a vector; of the stream a vector c of a position, and a key's rotated part;
     * of c keys and values, [keys, then values] of a head, or split and of rank 3: c then serves as both, as products
     * with these are moved to queries and results. */
    qn_weight *attn_q_a, *attn_q_a_norm, *attn_q_b, *attn_kv_a, *attn_kv_a_norm, *attn_kv_b;
    qn_weight *attn_k_b; /* [n_head, n_lora_kv, elements that are not rotated] */
    qn_weight *attn_v_b; /* [n_head, elements of a value, n_lora_kv] */
    const float *slopes; /* [n_head] of ALiBi, or NULL */
    qn_layer_hp hp;
    qn_block_spec spec;
    int32_t sight; /* in qn_model.sights */
    int32_t kv_of; /* the layer whose keys and values it reads: its own number, or one before it */
} qn_layer;
typedef struct qn_top {
    qn_weight *tok_embd, *out_norm, *out, *rope_freqs;
    qn_weight *out_norm_bias, *out_bias, *pos_embd, *embd_norm, *embd_norm_bias, *rope_long, *rope_short;
    qn_weight *type_embd;                                          /* of an encoder: kinds of tokens */
    qn_weight *cls, *cls_bias, *cls_norm, *cls_out, *cls_out_bias; /* of a reranker */
    qn_weight *dense_2, *dense_3;                                  /* of an embedding */
    qn_weight *layer_embd, *layer_proj, *layer_proj_norm;          /* of each layer's own embedding */
    qn_weight *altup_proj, *altup_unembd;                          /* [n_altup - 1, n_embd, n_embd] */
} qn_top;

/* A head's sizes in latent attention, whatever is cached. */
static inline int64_t qn__latent_head(const qn_hparams *hp)
{
    return hp->n_embd_head_k_mla ? hp->n_embd_head_k_mla : hp->n_embd_head_k;
}
static inline int64_t qn__latent_value(const qn_hparams *hp)
{
    return hp->n_embd_head_k_mla ? hp->n_embd_head_v_mla : hp->n_embd_head_v;
}

/* Sizes that shapes are spelled in. */
/* clang-format off */
#define QN_DIM_ROWS(QN_DIM) \
    QN_DIM(VOCAB, hp->n_vocab) QN_DIM(EMBD, hp->n_embd) QN_DIM(HEAD, l->d_k) \
    QN_DIM(Q, (int64_t)l->n_head * l->d_k) QN_DIM(K, (int64_t)l->n_kv_head * l->d_k) \
    QN_DIM(V, (int64_t)l->n_kv_head * l->d_v) QN_DIM(O, (int64_t)l->n_head * l->d_v) \
    QN_DIM(QKV, ((int64_t)l->n_head + l->n_kv_head) * l->d_k + (int64_t)l->n_kv_head * l->d_v) \
    QN_DIM(FF, l->n_ff) QN_DIM(FF2, 2 * (int64_t)l->n_ff) QN_DIM(FF_HALF, l->n_ff / 2) QN_DIM(ROT2, hp->n_rot / 2) \
    QN_DIM(CTX, hp->n_ctx_train) QN_DIM(TYPES, hp->n_token_type) QN_DIM(LABELS, hp->n_label) \
    QN_DIM(DENSE_2, hp->n_dense_2) QN_DIM(DENSE_3, hp->n_dense_3) \
    QN_DIM(EMBD_OUT, hp->n_embd_out) \
    QN_DIM(LORA_Q, hp->n_lora_q) QN_DIM(LORA_KV, hp->n_lora_kv) QN_DIM(KV_A, hp->n_lora_kv + hp->n_rot) \
    QN_DIM(Q_WHOLE, hp->n_lora_q ? 0 : l->n_head * qn__latent_head(hp)) \
    QN_DIM(Q_B, l->n_head * qn__latent_head(hp)) QN_DIM(NOPE, qn__latent_head(hp) - hp->n_rot) \
    QN_DIM(VALUE, qn__latent_value(hp)) QN_DIM(VALUES, l->n_head * qn__latent_value(hp)) \
    QN_DIM(KV_B, hp->n_embd_head_k_mla ? 0 \
                     : l->n_head * (qn__latent_head(hp) - hp->n_rot + qn__latent_value(hp))) \
    QN_DIM(HEADS_B, hp->n_embd_head_k_mla ? l->n_head : 0) \
    QN_DIM(EXPERTS, hp->n_expert) QN_DIM(FF_EXP, hp->n_ff_exp ? hp->n_ff_exp : l->n_ff) \
    QN_DIM(FF_EXP2, 2 * (int64_t)(hp->n_ff_exp ? hp->n_ff_exp : l->n_ff)) \
    QN_DIM(CHUNKS, hp->n_expert_chunk ? hp->n_expert / hp->n_expert_chunk : 0) \
    QN_DIM(FF_CHEXP, hp->n_ff_chexp ? hp->n_ff_chexp : l->d_k) \
    QN_DIM(FF_SHEXP, hp->n_ff_shexp ? hp->n_ff_shexp \
                                    : (int64_t)hp->n_expert_shared * (hp->n_ff_exp ? hp->n_ff_exp : l->n_ff)) \
    QN_DIM(LEMBD, hp->n_embd_layer) QN_DIM(LEMBDS, (int64_t)hp->n_embd_layer * hp->n_layer) \
    QN_DIM(ALTUP, hp->n_altup) QN_DIM(ALTUP2, (int64_t)hp->n_altup * hp->n_altup) \
    QN_DIM(ALTUP_MORE, hp->n_altup ? hp->n_altup - 1 : 0) QN_DIM(LAUREL, hp->n_laurel) QN_DIM(ONE, 1) \
    QN_DIM(HEADS, l->n_head) QN_DIM(KV_HEADS, l->n_kv_head)
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
    W_EXPERTS = 1 << 5, /* in layers that are mixtures only */
    W_DENSE = 1 << 6,   /* in the others only */
    W_SHARED = 1 << 7,  /* where a file has experts that all tokens use */
    W_SIZED = 1 << 8,   /* where none of its sizes is 0 */
};
/* A size besides those of the shape: the tensor is there where it is not 0. */
#define W_WHERE(dim)    ((uint32_t)(dim) << 24)
#define W_WHERE_OF(row) ((qn_dim_name)((row)->flags >> 24))
struct qn_tensor_row {
    bool layer;  /* one for each layer; the name has a %d */
    size_t slot; /* offset in qn_layer or qn_top */
    const char *name;
    uint8_t dim[4]; /* qn_dim_name, outermost first, D_END ends */
    uint32_t flags;
};
#define TOP(field)   false, offsetof(qn_top, field)
#define LAYER(field) true, offsetof(qn_layer, field)

/* ---- the model ---- */
typedef struct qn_model qn_model;
typedef struct qn_arch {
    const char *name;
    const qn_hparam_row *hparams;
    int n_hparams;
    const qn_tensor_row *tensors;
    int n_tensors;
    qn_rope_mode rope_mode;
    qn_block_spec block; /* of every layer, before hyperparameters and `layer` change it */
    qn_head_spec head;
    bool dense_without_router; /* where no key says it: layers before the first with a router */
    /* Refuses what cannot be computed, of numbers that are fine one by one; may be NULL. */
    qn_status (*check)(const qn_hparams *hp, qn_error *err);
    /* What no key of the file says (factors that follow from sizes): after the rows were read; may be NULL. */
    void (*settle)(qn_hparams *hp);
    /* What differs between layers: layer i with its hyperparameters, weights and spec; may be NULL. */
    void (*layer)(const qn_model *m, qn_layer *l, int i);
} qn_arch;
const qn_arch *const *qn__archs(int *n);
const qn_arch *qn__arch_find(const char *name); /* NULL */

enum { QN_MAX_SIGHTS = 4, QN_MAX_GROUPS = 1 + QN_MAX_SIGHTS, QN_MAX_ALTUP = 8 };
struct qn_model {
    qn_arena arena;
    const qn_gguf *file; /* borrowed, outlives the model; NULL: there is none */
    const qn_arch *arch;
    qn_hparams hp;
    qn_hparams given; /* the rows' numbers alone, before what follows from them was settled */
    qn_top top;
    qn_layer *layers;               /* hp.n_layer */
    qn_weight *weights;             /* all that are bound, in row order */
    int32_t n_weights, max_weights; /* as many as the file has tensors: no two rows ask for the same one */
    uint64_t n_params, weight_bytes;
    qn_sight sights[QN_MAX_SIGHTS]; /* the different ones of the layers; the first is that of the first layer */
    int32_t n_sights;
    bool alibi;      /* some layer's scores depend on distances */
    bool sees_ahead; /* tokens see what comes after them: a text is computed at once */
    /* Groups of layers that remember alike: how many positions back, 0 all. Group 0 is that of all positions. */
    int32_t windows[QN_MAX_GROUPS];
    int32_t n_groups;
    int32_t group_of[QN_MAX_SIGHTS]; /* sight -> group */
};
/* Does a layer remember what group g does? */
bool qn__model_uses_group(const qn_model *m, int32_t g);

/* Reads hyperparameters and binds tensors; every missing, misshapen or mistyped one is named with what was expected.
 * Touches no tensor byte. n_vocab: of the tokenizer, which must agree with the file's embedding unless it is 0. */
qn_status qn__model_load(const qn_gguf *file, int32_t n_vocab, qn_model **out, qn_error *err);
/* A model that no file holds: `given` has the numbers of all rows and n_vocab, tensors are F32, and which of those that
 * may lack are there, `has` says. */
typedef struct qn_model_plan {
    const qn_arch *arch;
    qn_hparams given;
    bool (*has)(void *arg, const qn_tensor_row *row);
    void *arg;
} qn_model_plan;
qn_status qn__model_plan(const qn_model_plan *plan, qn_model **out, qn_error *err);
/* The model without its file, which may be closed then. */
qn_status qn__model_detach(qn_model *m, qn_error *err);
void qn__model_free(qn_model *m);
/* What only tensors tell: after the rows. */
void qn__count_dense(const qn_gguf *file, const qn_arch *arch, qn_hparams *hp);
qn_status qn__hparams_read(const qn_gguf *file, const qn_arch *arch, qn_hparams *hp, qn_error *err); /* the rows */
/* What follows from them; refuses what does not go together. */
qn_status qn__hparams_settle(const qn_arch *arch, qn_hparams *hp, qn_error *err);
/* Every row's fallback. */
void qn__hparams_begin(const qn_arch *arch, qn_hparams *hp);
/* One "KEY=VALUE": a row's number, or one of its words. */
qn_status qn__hparam_parse(const qn_arch *arch, const char *text, qn_hparams *hp, qn_error *err);
/* Is each row's number one that a file may give? */
qn_status qn__hparams_check(const qn_arch *arch, const qn_hparams *hp, qn_error *err);
/* All rows of a model, as a file has them; without m->layers those are alike. */
void qn__hparams_write(const qn_model *m, qn_gguf_writer *w);
/* Layer i's part of them. */
qn_status qn__layer_hp_read(const qn_gguf *file, const qn_arch *arch, const qn_hparams *hp, uint32_t i,
                            qn_layer_hp *out, qn_error *err);
qn_status qn__layer_hp_check(const qn_arch *arch, const qn_layer_hp *l, uint32_t i, qn_error *err);
/* Layer i's part where no array says otherwise, as in files that synth writes. */
qn_layer_hp qn__layer_hp(const qn_hparams *hp, uint32_t i);
/* The number of the word text[0 .. len) among a row's, from 1 on; 0: none of them. */
uint32_t qn__hparam_word(const qn_hparam_row *row, const char *text, size_t len);
/* For writers of files: required numbers that are still 0 get what synth writes. */
void qn__hparams_fill(qn_hparams *hp, const qn_arch *arch);
/* Is layer i a mixture of experts? Do an architecture and a file's numbers of experts go together? */
bool qn__is_mixture(const qn_hparams *hp, uint32_t i);
qn_status qn__check_experts(const qn_arch *arch, const qn_hparams *hp, qn_error *err);
/* A row's number, of any kind. */
void qn__hparam_set(qn_hparams *hp, const qn_hparam_row *row, double value);
double qn__hparam_get(const qn_hparams *hp, const qn_hparam_row *row);
/* Its key as files have it. */
const char *qn__hparam_key(const qn_arch *arch, const qn_hparam_row *row, char *out, size_t size);
void qn__hparam_write(qn_gguf_writer *w, const char *key, const qn_hparam_row *row, double value);
/* What the rope op multiplies sine and cosine by besides attn_factor: 1 unless it is YaRN. */
float qn__yarn_temperature(const qn_rope_attrs *rope);
/* Does a layer, or the part outside layers, have a tensor of this row? */
bool qn__tensor_row_in(const qn_tensor_row *row, const qn_hparams *hp, const qn_layer_hp *l);
/* Scores of the model's head; 0: it has none. */
uint32_t qn__n_label(const qn_model *m);
qn_shape qn__tensor_row_shape(const qn_tensor_row *row, const qn_hparams *hp, const qn_layer_hp *l);

#endif
