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
    double scale, softcap;       /* as in qn_sdpa_options */
    int64_t window;              /* 0: none; as in qn_sdpa_options */
    qn_tensor *first;            /* with a cache: of each new position the first that it sees, [n, 1]; NULL: 0 */
    qn_tensor *sinks;            /* NULL: none */
    qn_tensor *slopes;  /* F32 [heads, 1, 1]: scores lose that times the distance; NULL: none. Not with is_causal */
    qn_kv_cache *cache; /* NULL: none; else begun */
    int layer;          /* of the cache */
} qn_attend_spec;

/* q [.., n, heads d], k [.., m, kv_heads d], v [.., m, kv_heads dv] -> [.., n, heads dv] */
qn_tensor *qn__attend(qn_tensor *q, qn_tensor *k, qn_tensor *v, const qn_attend_spec *spec);
/* The same of heads that are rotated already: q [.., n, heads, d], k [.., m, kv_heads, d], v [.., m, kv_heads, dv] */
qn_tensor *qn__attend_heads(qn_tensor *q, qn_tensor *k, qn_tensor *v, const qn_attend_spec *spec);

/* What a layer keeps of a position. */
typedef struct qn_kv_shape {
    int64_t heads, d, dv;
} qn_kv_shape;
/* A cache whose layers differ; options' heads and head_dim are not looked at. layers [options->n_layers] */
qn_kv_cache *qn__kv_cache_of(qn_context *c, const qn_kv_options *options, const qn_kv_shape *layers);

/* n more positions: makes their numbers and what each may see, which live in the present scope. False, with an error,
 * when there is no room. */
bool qn__kv_begin(qn_kv_cache *kv, int64_t n);
qn_tensor *qn__kv_positions(const qn_kv_cache *kv); /* I64 [n] of those, while they are added */
/* They count from now on, if all went well; else the cache is what it was. */
void qn__kv_end(qn_kv_cache *kv, bool good);

#endif
