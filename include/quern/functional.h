/* SPDX-License-Identifier: MIT */
/* quern/functional.h -- layers without parameters of their own, and losses: what torch.nn.functional has. Included by
 * quern/ops.h, which says what holds everywhere; quern/array.h for ownership and errors. Everything here is
 * differentiable, and what a step of training spends its time in is one operation forward and one back.
 *
 * Arguments that may be NULL say so. Options structs: all zero, or NULL, is the default. F16 and BF16 are computed in
 * F32 and rounded once, at the end. */
#ifndef QUERN_FUNCTIONAL_H
#define QUERN_FUNCTIONAL_H

#include <quern/array.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- normalization --------------------------------------------------------------------------- */

/* x / sqrt(mean(x x) + eps) (* weight), over the last dimension. weight [n] or NULL. */
QN_API qn_tensor *qn_rms_norm(qn_tensor *x, qn_tensor *weight, double eps);
/* (x - mean) / sqrt(variance + eps) (* weight) (+ bias), over the last n_dims dimensions together. weight and bias have
 * their shape, or are NULL. */
QN_API qn_tensor *qn_layer_norm(qn_tensor *x, int n_dims, qn_tensor *weight, qn_tensor *bias, double eps);
/* x [batch, channels, ..]: the same over each of `groups` groups of channels. weight [channels], bias [channels], or
 * NULL. */
QN_API qn_tensor *qn_group_norm(qn_tensor *x, int groups, qn_tensor *weight, qn_tensor *bias, double eps);

/* ---- parts of transformers ------------------------------------------------------------------- */

typedef struct qn_rope_options {
    double base;                 /* 0: 10000 */
    int n_rot;                   /* only the first n_rot elements of a head are rotated; 0: all */
    bool neox;                   /* pairs are (i, i + n_rot / 2); else (2i, 2i + 1) */
    bool heads_first;            /* x is [.., heads, n, d]; else [.., n, heads, d] */
    qn_tensor *factors;          /* F32 [n_rot / 2]: frequencies are divided by these; or NULL */
    double freq_scale;           /* 0: 1; 1 / factor for linear scaling */
    double attn_factor;          /* 0: 1; scales the result */
    double ext_factor;           /* 0; 1 for YaRN, with the next three */
    double beta_fast, beta_slow; /* 0: 32, 1 */
    int n_ctx_orig;              /* context of the model's training */
} qn_rope_options;
/* Rotary position embedding: pair i of every head is rotated by position * base^(-2i / n_rot). x [.., n, heads, d];
 * positions I32 or I64 [n], or [.., n] with as many of x's leading dimensions as are given, or NULL for 0, 1, .. */
QN_API qn_tensor *qn_rope(qn_tensor *x, qn_tensor *positions, const qn_rope_options *options);
/* silu(gate) * up, of one shape. */
QN_API qn_tensor *qn_swiglu(qn_tensor *gate, qn_tensor *up);

/* ---- attention ------------------------------------------------------------------------------- */

typedef struct qn_sdpa_options {
    /* broadcasts to [.., heads, n, m]; BOOL: true takes part; F32 or of q's dtype: added to the scores */
    qn_tensor *mask;
    bool is_causal;   /* row i sees the keys 0 to i; excludes a mask */
    bool enable_gqa;  /* k and v may have fewer heads, each shared by as many neighbours of q */
    double scale;     /* of q k^T; 0: 1 / sqrt(d) */
    double dropout_p; /* of the weights; whoever calls leaves it 0 outside of training */
    double softcap;   /* 0: none; else scores become softcap tanh(scores / softcap), before the mask */
    qn_tensor *sinks; /* [heads], or NULL: one more score of each head, whose weight goes nowhere */
    int64_t window;   /* 0: none; with is_causal: row i sees the last `window` of its keys */
} qn_sdpa_options;
/* softmax(q k^T scale, masked) v: q [.., heads, n, d], k [.., heads, m, d], v [.., heads, m, dv] -> [.., heads, n, dv];
 * leading dimensions and heads broadcast, and may be absent. A row that sees nothing is 0. Scores are held a tile at a
 * time, forward and backward, but with dropout, or a mask that requires a gradient, all at once. F16 and BF16 are
 * computed in F32. */
QN_API qn_tensor *qn_scaled_dot_product_attention(qn_tensor *q, qn_tensor *k, qn_tensor *v,
                                                  const qn_sdpa_options *options);

/* ---- losses ---------------------------------------------------------------------------------- */

/* What becomes of the losses of single elements or rows. */
typedef enum qn_reduction {
    QN_REDUCTION_MEAN,
    QN_REDUCTION_SUM,
    QN_REDUCTION_NONE,
    QN_REDUCTION_BATCHMEAN, /* kl_div only: the sum divided by the first dimension */
} qn_reduction;

typedef struct qn_cross_entropy_options {
    int64_t ignore_index;   /* targets of this value don't count; 0: -100 */
    bool ignore_zero;       /* it is class 0 instead */
    double label_smoothing; /* this share of each target goes to all classes evenly */
    qn_tensor *weight;      /* [classes], or NULL; gradients don't reach it */
    qn_reduction reduction; /* the mean divides by the sum of the weights of the targets that count */
} qn_cross_entropy_options;
/* -log softmax(logits)[target]. logits [classes], [n, classes] or [n, classes, ..] with targets I32 or I64 of the same
 * shape without classes. Real targets of the logits' shape are probabilities. A target that is no class, and is not
 * ignored, is an error at the next look, as indices are: see quern/functions.h. */
QN_API qn_tensor *qn_cross_entropy(qn_tensor *logits, qn_tensor *targets, const qn_cross_entropy_options *options);
/* -log_probs[target]: cross_entropy behind log_softmax. label_smoothing is not for this one. */
QN_API qn_tensor *qn_nll_loss(qn_tensor *log_probs, qn_tensor *targets, const qn_cross_entropy_options *options);

/* Between x and y, which broadcast. */
QN_API qn_tensor *qn_mse_loss(qn_tensor *x, qn_tensor *y, qn_reduction reduction); /* (x - y)^2 */
QN_API qn_tensor *qn_l1_loss(qn_tensor *x, qn_tensor *y, qn_reduction reduction);  /* |x - y| */
/* d = |x - y|: d^2 / (2 beta) below beta, d - beta / 2 from there on */
QN_API qn_tensor *qn_smooth_l1_loss(qn_tensor *x, qn_tensor *y, double beta, qn_reduction reduction);
/* d^2 / 2 up to delta, delta (d - delta / 2) beyond */
QN_API qn_tensor *qn_huber_loss(qn_tensor *x, qn_tensor *y, double delta, qn_reduction reduction);
/* -(y log p + (1 - y) log(1 - p)) * weight; logarithms are at least -100. One shape; weight broadcasts, or NULL. */
QN_API qn_tensor *qn_binary_cross_entropy(qn_tensor *p, qn_tensor *y, qn_tensor *weight, qn_reduction reduction);
/* The same of p = sigmoid(x), for any x; pos_weight (broadcasts, or NULL) counts y log p so many times. */
QN_API qn_tensor *qn_binary_cross_entropy_with_logits(qn_tensor *x, qn_tensor *y, qn_tensor *weight,
                                                      qn_tensor *pos_weight, qn_reduction reduction);
/* y (log y - x) for log-probabilities x and probabilities y, or, with log_target, their logarithms */
QN_API qn_tensor *qn_kl_div(qn_tensor *x, qn_tensor *y, bool log_target, qn_reduction reduction);

#ifdef __cplusplus
}
#endif
#endif
