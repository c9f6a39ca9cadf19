/* SPDX-License-Identifier: MIT */
/* src/engine/session_graph.c -- the decode graph of a batch of any size. Few are compiled: where backends can resize,
 * each serves all sizes up to its own, which is a few hundred numbers to write; elsewhere a batch is padded. */
#include "engine/engine.h"

size_t qn__session_key(const qn_session *s, int32_t kind, int32_t n_tokens, int32_t n_out, qn_decode_key *key)
{
    const qn_lora_set *set = &s->shape.loras;
    *key = (qn_decode_key){.kind = kind, .n_tokens = n_tokens, .n_out = n_out};
    for (int i = 0; i < set->n; i++) {
        key->lora[i].id = set->use[i].adapter->id;
        key->lora[i].scale = set->use[i].scale;
    }
    return offsetof(qn_decode_key, lora) + (size_t)set->n * sizeof(key->lora[0]);
}

qn_status qn__session_build(const qn_session *s, int32_t n_tokens, int32_t n_out, qn_graph **out, qn_error *err)
{
    const qn_decode_spec spec = qn__decode_spec(s->engine, &s->shape, n_tokens, n_out);
    return qn__build_decode(s->engine->model, &s->kv_desc, &spec, out, err);
}

/* Found, or built and compiled. */
static qn_status find_exec(qn_session *s, int32_t n_tokens, int32_t n_out, qn_exec **out, qn_error *err)
{
    qn_decode_key key;
    const size_t key_bytes = qn__session_key(s, QN_KEY_decode, n_tokens, n_out, &key);
    *out = qn__sched_find(s->sched, &key, key_bytes);
    if (*out) {
        s->stats.plan_cache_hits++;
        return QN_OK;
    }
    s->last = NULL; /* compiling may evict it */
    s->stats.plan_cache_misses++;
    s->stats.graph_builds++;
    qn_graph *graph = NULL;
    QN_TRY(qn__session_build(s, n_tokens, n_out, &graph, err));
    return qn__sched_compile(s->sched, graph, &key, key_bytes, out, err);
}

/* Where graphs can be resized few of them do: 1, 4, 16 .. tokens, with one row of output or all that there may be. */
static int32_t coarse_size(int32_t n, int32_t most)
{
    int32_t size = 1;
    while (size < n) size *= 4;
    return size < most ? size : most;
}

/* Elsewhere what is too much is computed: 1, 2, 3, 4, 6, 8, 12 .. */
static int32_t fine_size(int32_t n, int32_t most)
{
    int32_t size = 1;
    while (size < n && size + size / 2 < n) size *= 2;
    if (size < n) size += size / 2;
    return size < most ? size : most;
}

static qn_status learn(qn_session *s, qn_exec *e, int axis, int32_t n_tokens, int32_t n_out, qn_error *err)
{
    qn_graph *less = NULL;
    if (qn__exec_has_learnt(e, axis)) return QN_OK;
    QN_TRY(qn__session_build(s, n_tokens - (axis == 0), n_out - (axis == 1), &less, err));
    return qn__exec_learn(e, axis, less, err);
}

/* *fits: it computes those sizes now. */
static qn_status resized_exec(qn_session *s, int32_t n_tokens, int32_t n_out, qn_exec **out, bool *fits, qn_error *err)
{
    const int32_t most = s->shape.n_logits, size = coarse_size(n_tokens, s->shape.n_batch),
                  rows = n_out == 1    ? 1
                         : most < size ? most
                                       : size;
    const int32_t less[QN_EXEC_AXES] = {size - n_tokens, rows - n_out};
    QN_TRY(find_exec(s, size, rows, out, err));
    if (less[0]) QN_TRY(learn(s, *out, 0, size, rows, err));
    if (less[1]) QN_TRY(learn(s, *out, 1, size, rows, err));
    *fits = qn__exec_resize(*out, less);
    return QN_OK;
}

static qn_status exec_of(qn_session *s, int32_t n_tokens, int32_t n_out, qn_exec **out, qn_sizes *sizes, qn_error *err)
{
    *sizes = (qn_sizes){n_tokens, n_out};
    if (s->no_plan_cache) return find_exec(s, n_tokens, n_out, out, err);
    if (s->resizes) QN_TRY(resized_exec(s, n_tokens, n_out, out, &s->resizes, err));
    if (s->resizes) return QN_OK;
    if (s->eval) return find_exec(s, n_tokens, n_out, out, err); /* who looks on sees what was asked for */
    const int32_t size = fine_size(n_tokens, s->shape.n_batch), most = s->shape.n_logits;
    *sizes = (qn_sizes){size, fine_size(n_out, most < size ? most : size)};
    return find_exec(s, sizes->n_tokens, sizes->n_out, out, err);
}

qn_status qn__session_exec(qn_session *s, int32_t n_tokens, int32_t n_out, qn_exec **out, qn_sizes *sizes,
                           qn_error *err)
{
    const int64_t start = qn__now_ns();
    const qn_status status = exec_of(s, n_tokens, n_out, out, sizes, err);
    s->stats.compile_seconds += (double)(qn__now_ns() - start) * 1e-9;
    return status;
}
