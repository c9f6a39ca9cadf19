/* SPDX-License-Identifier: MIT */
/* src/model/spec.h -- what one layer computes, as data: the forward pass (forward.c) reads it, and with it the engine
 * and LoRA training. A new option is a field whose zero is what Llama does.
 *
 * Which weights there are says the rest: a slot that is NULL is a step left out (a bias, a norm of heads, a fused
 * projection). */
#ifndef QN_MODEL_SPEC_H
#define QN_MODEL_SPEC_H

#include <stdbool.h>
#include <stdint.h>

typedef enum qn_norm_kind {
    QN_NORM_rms,   /* x / sqrt(mean(x x) + eps) */
    QN_NORM_layer, /* (x - mean(x)) / sqrt(var(x) + eps) */
} qn_norm_kind;
typedef struct qn_norm_spec {
    qn_norm_kind kind;
} qn_norm_spec;

/* What a token may see of its own sequence, by positions. */
typedef enum qn_sight_kind {
    QN_SIGHT_all,         /* what is not after it */
    QN_SIGHT_window,      /* the last `size` positions of that, its own among them */
    QN_SIGHT_chunk,       /* what is not after it of its own `size` positions: 0 .. size - 1, size .. 2 size - 1 .. */
    QN_SIGHT_both,        /* everything, before and after it */
    QN_SIGHT_both_window, /* up to `size` positions away, before and after it */
} qn_sight_kind;
typedef struct qn_sight {
    qn_sight_kind kind;
    int32_t size;
} qn_sight;
static inline bool qn__sees_ahead(const qn_sight *s)
{
    return s->kind == QN_SIGHT_both || s->kind == QN_SIGHT_both_window;
}
/* It sees positions first <= p < end. */
static inline void qn__sight_range(const qn_sight *s, int32_t pos, int32_t *first, int32_t *end)
{
    const bool window = s->kind == QN_SIGHT_window, both_window = s->kind == QN_SIGHT_both_window;
    const int64_t before = window                      ? s->size - 1
                           : s->kind == QN_SIGHT_chunk ? pos % s->size
                           : both_window               ? s->size
                                                       : pos;
    const int64_t after = both_window ? (int64_t)pos + s->size + 1 : s->kind == QN_SIGHT_both ? INT32_MAX : pos + 1;
    *first = pos > before ? (int32_t)(pos - before) : 0;
    *end = after < INT32_MAX ? (int32_t)after : INT32_MAX;
}

/* How many positions back it ever sees, its own among them; 0: all. */
static inline int32_t qn__sight_reach(const qn_sight *s)
{
    return s->kind == QN_SIGHT_window || s->kind == QN_SIGHT_chunk ? s->size : 0;
}

/* Which table rotates queries and keys. */
typedef enum qn_turn { QN_TURN_full, QN_TURN_window, QN_TURN_none } qn_turn;
enum { QN_TURN_TABLES = QN_TURN_none };

/* Where queries and keys are normalised. A weight of two dimensions has a row a head. */
typedef enum qn_qk_norm {
    QN_QK_none,
    QN_QK_head,       /* every head by itself */
    QN_QK_row,        /* all heads of a token together */
    QN_QK_after_turn, /* every head by itself, after it was rotated */
} qn_qk_norm;

/* What attn_gate's product with attention's input, a number a head or an element, multiplies attention by. */
typedef enum qn_attn_gate { QN_GATE_sigmoid, QN_GATE_softplus } qn_attn_gate;

typedef struct qn_attn_spec {
    qn_norm_spec norm; /* of queries and keys */
    qn_qk_norm qk_norm;
    bool bare_norm; /* they are normalised also where there is no weight for it */
    bool v_norm;    /* values too, every head by itself, without a weight */
    bool v_of_k;    /* where there is no attn_v, values are what attn_k gave */
    qn_turn turn;
    qn_sight sight;
    float scale;   /* of q.k; 0: 1 / sqrt(head size) */
    float softcap; /* of scores; 0: none */
    float v_scale; /* of values; 0: 1 */
    float alibi;   /* ALiBi: a score loses its head's slope (qn__alibi_slope) times the distance; 0: none */
    float clamp;   /* of queries, keys and values, both ways; 0: none */
    /* Queries are multiplied by 1 + heat log(floor((pos + heat_offset) / heat_floor) + 1); 0: not. */
    float heat, heat_offset;
    int32_t heat_floor;
    qn_attn_gate gate;
} qn_attn_spec;

typedef enum qn_act {
    QN_ACT_silu,
    QN_ACT_gelu,
    QN_ACT_gelu_tanh,
    QN_ACT_relu,
    QN_ACT_relu2,
    QN_ACT_tanh,
    QN_ACT_xielu,      /* qn_ffn_spec.xielu */
    QN_ACT_swiglu_oai, /* gate and up at most 7, up at least -7: gate sigmoid(1.702 gate) (up + 1) */
} qn_act;
typedef struct qn_ffn_spec {
    qn_act act;
    /* xIELU: x > 0: p x x + beta x; else n (exp(min(x, eps)) - 1 - x) + beta x */
    struct {
        float n, p, beta, eps;
    } xielu;
    float sparse; /* of gate only what is above its mean by so many standard deviations, less that; 0: all */
    bool plain;   /* act(up), where others have act(gate) * up */
    bool fused;   /* ffn_up has the rows of gate and up, one behind the other */
} qn_ffn_spec;

/* A mixture of experts: of a layer's many feed-forwards a router chooses some for each token. Here and in files:
 * experts in the order of their scores, gates (what their results are multiplied by) beside them. */
typedef enum qn_moe_score {
    QN_MOE_softmax,
    QN_MOE_sigmoid,
    QN_MOE_softmax_chosen, /* of those that were chosen by the router's logits */
    QN_MOE_sqrt_softplus,
    QN_MOE_SCORES
} qn_moe_score;
typedef struct qn_moe_spec {
    qn_moe_score score;
    bool normalise;            /* a token's gates add up to 1 */
    bool by_logits;            /* chosen by the router's logits, whatever the score */
    bool weight_before;        /* gates multiply what goes in, not what comes out */
    bool begin;                /* experts take the layer's input, not that of the feed-forward */
    bool begin_router;         /* the router does */
    float scale;               /* of gates; 0: 1 */
    float sum_scale;           /* of experts and what is added for all tokens; 0: 1 */
    float limit, shared_limit; /* act(gate) at most that, and up both ways: of experts, of the shared ones; 0: none */
    int32_t n_chunk;           /* neighbours that share a small expert, which is chosen with each of them; 0: none do */
    float chunk_scale;         /* of what small experts make */
    int32_t n_used;
    int32_t n_group, n_group_used; /* chosen only in the groups whose two best experts are best; 0: no groups */
} qn_moe_spec;

/* Of what attention and feed-forward take, of what they make, of both, or of the stream after it was added. */
typedef enum qn_norms { QN_NORMS_before, QN_NORMS_after, QN_NORMS_both, QN_NORMS_sum } qn_norms;
typedef struct qn_block_spec {
    qn_norm_spec norm;
    qn_norms norms;
    bool bare_attn; /* attention takes the stream as it is */
    bool parallel;  /* both from the layer's input; the feed-forward has a norm of its own where the file has one */
    float residual_scale; /* of what is added to the stream; 0: 1 */
    bool norm_embd;       /* embeddings are normalised also where there is no weight for it */
    bool embd_again; /* out_scale times the embeddings is added to the stream; else the stream is times out_scale */
    bool norm_out;   /* the layer ends with the norm that logits begin with */
    qn_attn_spec attn;
    qn_ffn_spec ffn; /* of experts too */
    qn_moe_spec moe;
} qn_block_spec;

/* What makes a score, or several, of a text's hidden states: out(norm(act(dense(x)))), of which any may be missing. */
typedef struct qn_head_spec {
    enum { QN_HEAD_first, QN_HEAD_mean, QN_HEAD_last } of; /* which hidden state it takes */
    bool gelu;                                             /* where others have tanh */
    bool softmax;                                          /* of the scores */
} qn_head_spec;

#endif
