/* SPDX-License-Identifier: MIT */
/* src/nn/attention.h -- what attention modules share: from projected queries, keys and values to the sum over heads,
 * and the cache. */
#ifndef QN_NN_ATTENTION_H
#define QN_NN_ATTENTION_H

#include "nn/module.h"

typedef struct qn_attend_spec {
    int64_t heads, kv_heads;
    bool is_causal;
    double dropout_p;
    qn_tensor *mask;
    const qn_rope_options *rope; /* NULL: none */
    qn_kv_cache *cache;          /* NULL: none; else begun */
    int layer;                   /* of the cache */
} qn_attend_spec;

/* q [.., n, heads d], k [.., m, kv_heads d], v [.., m, kv_heads dv] -> [.., n, heads dv] */
qn_tensor *qn__attend(qn_tensor *q, qn_tensor *k, qn_tensor *v, const qn_attend_spec *spec);

/* n more positions: makes their numbers and what each may see, which live in the present scope. False, with an error,
 * when there is no room. */
bool qn__kv_begin(qn_kv_cache *kv, int64_t n);
/* They count from now on, if all went well; else the cache is what it was. */
void qn__kv_end(qn_kv_cache *kv, bool good);

#endif
