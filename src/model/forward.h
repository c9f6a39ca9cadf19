/* SPDX-License-Identifier: MIT */
/* src/model/forward.h -- the forward pass of a decoder, once: it reads a layer's spec and calls a recorder for every
 * step, and the recorder makes of it nodes of an engine's graph (blocks.c) or tensor operations (lm/record.c).
 *
 * A value is what the recorder says it is; NULL stands for a step that failed, and passes through. x is
 * [.., n_embd], and its tokens are whatever dimensions the recorder has in front. */
#ifndef QN_MODEL_FORWARD_H
#define QN_MODEL_FORWARD_H

#include "model/arch.h"
#include "model/roles.h"

typedef struct qn_value qn_value;

/* The steps of a mixture: ids [.., n_used] are numbers of experts, gates [.., n_used] beside them. */
typedef struct qn_moe_recorder {
    qn_value *(*score)(void *ctx, qn_value *x, qn_moe_score score);       /* over the last dimension */
    qn_value *(*offset)(void *ctx, qn_value *x, const qn_weight *w);      /* x + w, a vector */
    qn_value *(*groups)(void *ctx, qn_value *x, int64_t n, int64_t used); /* -inf but in the best groups */
    qn_value *(*choose)(void *ctx, qn_value *x, int64_t n);               /* ids of the n greatest, best first */
    qn_value *(*pick)(void *ctx, qn_value *x, qn_value *ids);             /* x's elements there */
    qn_value *(*chunks)(void *ctx, qn_value *ids, int64_t n);             /* ids / n, rounded down */
    qn_value *(*weigh_by)(void *ctx, qn_value *gates, const qn_weight *w,
                          qn_value *ids); /* gates * w's elements there */
    qn_value *(*normalise)(void *ctx, qn_value *gates);
    /* x [.., k], or a row for each expert, [.., n_used, k] -> [.., n_used, m] */
    qn_value *(*dense)(void *ctx, qn_value *x, const qn_weight *w, qn_value *ids, const qn_weight *bias);
    qn_value *(*weigh)(void *ctx, qn_value *x, qn_value *gates); /* [.., k] -> [.., n_used, k] */
    qn_value *(*sum)(void *ctx, qn_value *y, qn_value *gates);   /* in order of ids; gates NULL: ones -> [.., m] */
    qn_value *(*limited)(void *ctx, qn_value *gate, qn_value *up, qn_act act, float limit);
    qn_value *(*switched)(void *ctx, qn_value *y, qn_value *x, const qn_weight *w); /* y sigmoid(x . w) */
} qn_moe_recorder;
/* The least mean square that `like` divides by the root of. */
#define QN_LIKE_EPS 1e-5f

/* What goes from layer to layer. */
typedef struct qn_stream {
    qn_value *x;      /* [.., n_embd]; with AltUp [.., n_altup n_embd]: its versions side by side */
    qn_value *embd;   /* what x was before the first layer; NULL where no layer adds it again */
    qn_value *inputs; /* [.., n_layer, n_embd_layer]: of each layer its own embedding; NULL where there are none */
} qn_stream;

typedef struct qn_recorder {
    qn_value *(*rows)(void *ctx, const qn_weight *table);      /* of the tokens: [.., n_embd] */
    qn_value *(*pos_rows)(void *ctx, const qn_weight *table);  /* of their positions */
    qn_value *(*first_row)(void *ctx, const qn_weight *table); /* [1, n_embd] */
    qn_value *(*dense)(void *ctx, qn_value *x, const qn_weight *w, const qn_weight *bias);
    /* over the last dimension; w and bias may be NULL, and w may have a row a head */
    qn_value *(*norm)(void *ctx, qn_value *x, qn_norm_kind kind, const qn_weight *w, const qn_weight *bias);
    qn_value *(*add)(void *ctx, qn_value *a, qn_value *b);
    qn_value *(*times)(void *ctx, qn_value *a, qn_value *b);        /* a * b; either may have one number a token */
    qn_value *(*weigh)(void *ctx, qn_value *x, const qn_weight *w); /* x * w, a vector or one number */
    qn_value *(*add_weighed)(void *ctx, qn_value *x, qn_value *y, const qn_weight *w); /* x + y * w, where x is */
    qn_value *(*like)(void *ctx, qn_value *x, qn_value *of); /* x of the length of `of`, over the last dimension */
    qn_value *(*sparse)(void *ctx, qn_value *x, float deviations); /* max(0, x - mean - deviations * std), over it */
    qn_value *(*cat_last)(void *ctx, qn_value *const *x, int n);   /* along the last dimension */
    qn_value *(*head)(void *ctx, qn_value *x, int64_t i);          /* [.., n, d] -> [.., d] */
    /* x w^T with matrix i of w [n, m, k] */
    qn_value *(*dense_of)(void *ctx, qn_value *x, const qn_weight *w, int64_t i);
    qn_value *(*scale)(void *ctx, qn_value *x, float factor);
    qn_value *(*clamp)(void *ctx, qn_value *x, float limit);             /* to -limit .. limit */
    qn_value *(*softcap)(void *ctx, qn_value *x, float cap);             /* cap tanh(x / cap) */
    qn_value *(*drop)(void *ctx, qn_value *x);                           /* what training drops; may do nothing */
    qn_value *(*part)(void *ctx, qn_value *x, int64_t start, int64_t n); /* of the last dimension */
    qn_value *(*heads)(void *ctx, qn_value *x, int64_t n);               /* [.., n d] -> [.., n, d] */
    qn_value *(*join)(void *ctx, qn_value *x);                           /* [.., n, d] -> [.., n d] */
    qn_value *(*cat)(void *ctx, qn_value *a, qn_value *b);               /* over the last dimension */
    qn_value *(*spread)(void *ctx, qn_value *x, int64_t n);              /* [.., 1, d] -> [.., n, d] */
    qn_value *(*by_head)(void *ctx, qn_value *x, const qn_weight *w);    /* [.., n, d], w [n, m, d] -> [.., n, m] */
    qn_value *(*turn)(void *ctx, qn_value *x, qn_turn turn);             /* [.., n, d], by position */
    qn_value *(*heat)(void *ctx, qn_value *q, const qn_attn_spec *spec); /* queries by position */
    qn_value *(*act)(void *ctx, qn_value *x, qn_act act);
    qn_value *(*xielu)(void *ctx, qn_value *x, const qn_ffn_spec *spec);
    qn_value *(*gated)(void *ctx, qn_value *gate, qn_value *up, qn_act act); /* act(gate) * up */
    /* q [.., n_head, d], k [.., n_kv_head, d], v [.., n_kv_head dv] -> [.., n_head dv]; with attn_k_b v is the first
     * part of k; k and v NULL: those of layer l->kv_of */
    qn_value *(*attend)(void *ctx, qn_value *q, qn_value *k, qn_value *v, const qn_layer *l, int i, float scale);
    /* attention y [.., n_head dv] times what g, a number a head or an element, becomes */
    qn_value *(*gate)(void *ctx, qn_value *y, qn_value *g, qn_attn_gate kind, int64_t n_head);
    qn_value *(*name)(void *ctx, qn_value *x, qn_role role, int i); /* i -1: outside layers; may do nothing */
    const qn_moe_recorder *moe;                                     /* NULL: for models without mixtures */
} qn_recorder;

/* A mixture: of x [.., n_embd], after its norm; router: what the router reads, mostly x too. */
qn_value *qn__forward_experts(const qn_recorder *r, void *ctx, const qn_layer *l, int i, qn_value *x, qn_value *router);
/* The vector that frequencies of a table are divided by, or NULL; n_ctx: the longest that a sequence may become. */
const qn_weight *qn__rope_factors(const qn_model *m, qn_turn turn, int64_t n_ctx);
/* The stream before the first layer; its x after layer i; the hidden state that this ends as, and
 * logits of that. */
qn_stream qn__forward_begin(const qn_recorder *r, void *ctx, const qn_model *m);
qn_value *qn__forward_layer(const qn_recorder *r, void *ctx, const qn_model *m, int i, const qn_stream *s);
qn_value *qn__forward_hidden(const qn_recorder *r, void *ctx, const qn_model *m, qn_value *x);
qn_value *qn__forward_logits(const qn_recorder *r, void *ctx, const qn_model *m, qn_value *x);

#endif
