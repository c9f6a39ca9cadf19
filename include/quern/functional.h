/* SPDX-License-Identifier: MIT */
/* quern/functional.h -- what networks are made of: functions with the names and semantics of torch.nn.functional.
 *
 * Included by quern/ops.h, whose rules hold. Options structs: all zero means default, NULL means all zero. */
#ifndef QUERN_FUNCTIONAL_H
#define QUERN_FUNCTIONAL_H

#include <quern/array.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- attention ---- */

typedef struct qn_sdpa_options {
    qn_tensor *mask;          /* broadcasts to [.., heads, n, m]; BOOL: true takes part; F32 or of q's dtype: added to the scores */
    bool is_causal;           /* row i sees the keys 0 to i; excludes a mask */
    bool enable_gqa;          /* k and v may have fewer heads, each shared by as many neighbours of q */
    double scale;             /* of q k^T; 0: 1 / sqrt(d) */
    double dropout_p;         /* of the weights; whoever calls leaves it 0 outside of training */
    double softcap;           /* 0: none; else scores become softcap tanh(scores / softcap), before the mask */
    qn_tensor *sinks;         /* [heads], or NULL: one more score of each head, whose weight goes nowhere */
    int64_t window;           /* 0: none; with is_causal: row i sees the last `window` of its keys */
} qn_sdpa_options;
/* softmax(q k^T scale, masked) v: q [.., heads, n, d], k [.., heads, m, d], v [.., heads, m, dv] -> [.., heads, n, dv]; leading dimensions
 * and heads broadcast, and may be absent. A row that sees nothing is 0. Scores are held a tile at a time, forward and backward, but
 * with dropout, or a mask that requires a gradient, all at once. F16 and BF16 are computed in F32. */
QN_API qn_tensor *qn_scaled_dot_product_attention(qn_tensor *q, qn_tensor *k, qn_tensor *v, const qn_sdpa_options *options);

#ifdef __cplusplus
}
#endif
#endif
