/* SPDX-License-Identifier: MIT */
/* tests/golden/golden.h -- models against logits from elsewhere: NMSE at every CPU level under each model's limit; bits
 * equal for 1, 2 and 3 threads and for batches of 1, 7 and 32, alone and beside neighbours, with plans kept and
 * without, and on two backends. A program fills `goldens` and runs these tests over it. */
#ifndef QN_TEST_GOLDEN_H
#define QN_TEST_GOLDEN_H

#include "engine/engine.h"
#include "unit/model/tiny.h"

#include <quern/machine.h>

#include "cpu/dispatch.h"

enum { N_TOKENS = 32, MAX_VOCAB = 512, MAX_GOLDENS = 256 };

/* Logits are compared in `width` sums a token: sum f of the logits f, f + width, f + 2 width .., added and taken away
 * in turn. Of the width of a row they are the logits themselves. */
typedef struct golden {
    const char *name;
    char path[768];
    const qn_token *tokens; /* [N_TOKENS] */
    double limit;
    int width;
    const float *want; /* [N_TOKENS, width] */
    bool every_combination;
    qn_dtype kv_type;
    /* filled by the tests */
    int n_vocab;
    float *alone[QN_CPU_LEVEL_COUNT]; /* [N_TOKENS, n_vocab]: all tokens at once, one thread */
} golden;

static golden goldens[MAX_GOLDENS];
static int n_goldens;

static float scratch[N_TOKENS * MAX_VOCAB];

/* What an embedding model makes of the tokens, [N_TOKENS, width]: where the file names a pooling, row i is that of the
 * first i + 1 tokens, `batch` texts a call; else each token's own hidden state, all of one call. With `noise` other
 * texts are computed beside. */
static bool pools(const qn_gguf *file, const char *arch)
{
    char key[96];
    snprintf(key, sizeof key, "%s.pooling_type", arch);
    return qn_gguf_kv_find(file, key) != NULL;
}

static void eval_texts(golden *g, qn_session *s, int batch, bool noise, float *out)
{
    qn_engine_info info;
    qn_embedding_text texts[2 * N_TOKENS];
    static float all[2 * N_TOKENS * MAX_VOCAB];
    qn_engine_get_info(qn_session_engine(s), &info);
    const bool pooled = pools(qn_engine_file(qn_session_engine(s)), info.arch);
    const qn_embedding_options options = {.pooling = pooled ? QN_POOLING_unset : QN_POOLING_none};
    const int width = pooled && info.pooling == QN_POOLING_rank ? info.n_label : info.n_embd_out;
    const int step = pooled ? batch : N_TOKENS;
    g->n_vocab = width;
    for (int i = 0; i < N_TOKENS; i += step) {
        int n = 0, at = 0, begin[2 * N_TOKENS];
        for (int j = i; j < i + step && j < N_TOKENS; j += pooled ? 1 : N_TOKENS) {
            if (noise) {
                texts[n++] = (qn_embedding_text){g->tokens + j % 7, 5 + j % 3};
                at += pooled ? 1 : texts[n - 1].n_tokens;
            }
            begin[j] = at;
            texts[n++] = (qn_embedding_text){g->tokens, pooled ? j + 1 : N_TOKENS};
            at += pooled ? 1 : N_TOKENS;
        }
        MUST(qn_session_embeddings(s, texts, n, &options, all, err));
        for (int j = i; j < i + step && j < N_TOKENS; j++)
            memcpy(out + j * width, all + (pooled ? begin[j] : begin[0] + j) * width, (size_t)width * sizeof *out);
    }
}

/* Everything is computed by the first backend of a list; else the second layer and the output by the second. */
static bool on_first;

/* Logits of all tokens in batches of `batch`; with `noise`, other sequences are computed in the same batches. */
static void eval(golden *g, const char *backends, int threads, int batch, bool noise, qn_dtype kv_type, float *out)
{
    qn_engine *engine = NULL;
    qn_session *session = NULL;
    qn_engine_info info;
    qn_batch_item items[3 * N_TOKENS];
    const qn_place_rule rules[] = {{"blk.1.*", 1}, {"output*", 1}};
    const bool two = strchr(backends, ',') != NULL;
    qn_gguf *file = NULL;
    MUST(qn_gguf_open(g->path, NULL, &file, err));
    const bool ends = qn_gguf_tensor_find(file, "output_norm.weight") || qn_gguf_tensor_find(file, "output.weight");
    qn_gguf_close(file);
    const qn_engine_options eo = {.backends = backends,
                                  .n_threads = threads,
                                  .rules = rules,
                                  .n_rules = two && !on_first ? 1 + ends : 0,
                                  .strict = true};
    qn_session_options so = {.n_ctx = 256,
                             .n_batch = 3 * N_TOKENS,
                             .n_seq = 3,
                             .n_logits = 3 * N_TOKENS,
                             .kv_type = kv_type,
                             .kv_type_set = true,
                             .no_plan_cache = batch == 7};
    MUST(qn_engine_open(g->path, &eo, &engine, err));
    qn_engine_get_info(engine, &info);
    g->n_vocab = info.n_vocab;
    assert_in_range(g->n_vocab, 1, MAX_VOCAB);
    so.embeddings = info.encoder || pools(qn_engine_file(engine), info.arch);
    MUST(qn_session_create(engine, &so, &session, err));
    if (so.embeddings) eval_texts(g, session, batch, noise, out);
    if (engine->model->sees_ahead) batch = N_TOKENS; /* a text is computed at once */
    for (int i = 0; i < N_TOKENS && !so.embeddings; i += batch) {
        int n = 0;
        for (int j = i; j < i + batch && j < N_TOKENS; j++) {
            if (noise) items[n++] = (qn_batch_item){g->tokens[N_TOKENS - 1 - j], j, 1, false};
            items[n++] = (qn_batch_item){g->tokens[j], j, 0, true};
            if (noise && j % 2) items[n++] = (qn_batch_item){(j * 37) % g->n_vocab, j, 2, false};
        }
        MUST(qn_session_decode(session, items, n, err));
        memcpy(out + (size_t)i * (size_t)g->n_vocab, qn_session_logits(session, 0),
               (size_t)qn_session_n_logits(session) * (size_t)g->n_vocab * sizeof(float));
    }
    qn_session_destroy(session);
    qn_engine_close(engine);
}

static double nmse(const golden *g, const float *logits)
{
    double num = 0, den = 0;
    for (int i = 0; i < N_TOKENS; i++) {
        double sums[MAX_VOCAB] = {0};
        for (int v = 0; v < g->n_vocab; v++)
            sums[v % g->width] += (v / g->width % 2 ? -1.0 : 1.0) * (double)logits[i * g->n_vocab + v];
        for (int f = 0; f < g->width; f++) {
            const double want = (double)g->want[i * g->width + f];
            num += (sums[f] - want) * (sums[f] - want);
            den += want * want;
        }
    }
    return num / den;
}

static const char *const levels[] = {
#define LEVEL(name, base, needs) "cpu:" #name,
    QN_CPU_LEVEL_ROWS(LEVEL)
#undef LEVEL
};

/* Found out once: a virtual machine leaves itself for every question to the processor. */
static const qn_machine *this_machine(void)
{
    static qn_machine machine;
    if (!machine.levels) qn_machine_get(&machine);
    return &machine;
}

static bool runs(int level) { return this_machine()->levels >> level & 1; }

static int best_level(void) { return (int)this_machine()->level; }

/* Under a sanitizer an architecture is looked at as a graph, once for each way to run it: its operations are the other
 * models', which go through every kernel of every level there. */
static bool graph_only(const golden *g)
{
#ifdef QN_CHECKED
    return g->kv_type == QN_DTYPE_F32;
#else
    (void)g;
    return false;
#endif
}

static bool runs_for(const golden *g, int level) { return runs(level) && (!graph_only(g) || level == best_level()); }

static const float *alone(golden *g, int level)
{
    if (!g->alone[level]) {
        float *row = calloc(N_TOKENS * MAX_VOCAB, sizeof *row);
        assert_non_null(row);
        eval(g, levels[level], 1, N_TOKENS, false, g->kv_type, row);
        g->alone[level] = row;
    }
    return g->alone[level];
}

static bool same_bits(const golden *g, const float *a, const float *b)
{
    return memcmp(a, b, (size_t)(N_TOKENS * g->n_vocab) * sizeof *a) == 0;
}

static inline void error_at_every_level(void **state)
{
    (void)state;
    int over = 0;
    for (golden *g = goldens; g < goldens + n_goldens; g++) {
        for (int l = 0; l < QN_CPU_LEVEL_COUNT; l++) {
            if (!runs_for(g, l)) continue;
            const double e = nmse(g, alone(g, l));
            printf("%-18s %-11s NMSE %.3g, limit %.3g\n", g->name, levels[l], e, g->limit);
            over += !(e <= g->limit);
        }
    }
    assert_int_equal(over, 0);
}

/* Every combination of threads and batch where that is quick: not at the level without vectors, not under a sanitizer.
 */
static bool full(const golden *g, int level)
{
    if (g->kv_type == QN_DTYPE_F32) return false; /* there is one for each architecture */
#ifdef QN_CHECKED
    (void)g;
    (void)level;
    return false;
#else
    return level > 0 && (g->every_combination || level == best_level());
#endif
}

/* Three threads and batches of 7, beside others: under a sanitizer all that a level without vectors, which takes most
 * of the time there, is asked for. */
static bool runs_once(const golden *g, int level)
{
#ifdef QN_CHECKED
    if (level == QN_CPU_ref) return true;
#endif
    (void)level;
    return graph_only(g);
}

static inline void bit_identical(void **state)
{
    (void)state;
    static const int batches[] = {1, 7, 32};
    for (golden *g = goldens; g < goldens + n_goldens; g++) {
        for (int l = 0; l < QN_CPU_LEVEL_COUNT; l++) {
            const bool once = runs_once(g, l);
            for (int t = once ? 3 : 1; runs_for(g, l) && t <= 3; t++) {
                for (int b = 0; b < 3; b++) {
                    if (!full(g, l) && b != (once ? 1 : t % 3)) continue; /* each thread count and each batch once */
                    eval(g, levels[l], t, batches[b], t != 1, g->kv_type, scratch);
                    if (!same_bits(g, alone(g, l), scratch))
                        fail_msg("%s %s differs with %d threads, batch %d", g->name, levels[l], t, batches[b]);
                }
            }
        }
    }
}

/* The highest level that multiplies this model's weights as `ref` does, to the bit: with F16 and BF16 not every one
 * does (cpu/dispatch.h). */
static int like_ref(const golden *g)
{
    qn_gguf *file = NULL;
    int level = best_level();
    MUST(qn_gguf_open(g->path, NULL, &file, err));
    for (size_t i = 0; i < qn_gguf_n_tensors(file); i++) {
        const qn_gguf_tensor *t = qn_gguf_tensor_get(file, i);
        const qn_kernels *ref = qn__kernels_get(QN_CPU_ref);
        while (!runs(level) ||
               (t->shape.rank > 1 && qn__kernels_get((qn_cpu_level)level)->mm[t->dtype].act != ref->mm[t->dtype].act))
            level--;
    }
    qn_gguf_close(file);
    return level;
}

/* Half the model on each of two backends that may not read each other's buffers: the very bits of one. */
static inline void split_over_two_backends(void **state)
{
    (void)state;
    for (golden *g = goldens; g < goldens + n_goldens; g++) {
        const int level = like_ref(g);
        const float *whole = alone(g, level);
        char backends[40];
        snprintf(backends, sizeof backends, "%s,cpu:ref", levels[level]);
        for (int threads = graph_only(g) ? 2 : 1; threads <= 2; threads++) {
            eval(g, backends, threads, threads == 1 ? N_TOKENS : 5, threads == 2, g->kv_type, scratch);
            if (!same_bits(g, whole, scratch)) fail_msg("%s differs when split, NMSE %g", g->name, nmse(g, scratch));
        }
    }
}

typedef struct kv_limit {
    qn_dtype type;
    double limit;
} kv_limit;

/* One model with each type of cache: under its limit, and the same bits on two threads in small batches. */
static inline void with_kv_types(const char *name, const kv_limit *types, int n)
{
    static float other[N_TOKENS * MAX_VOCAB];
    golden *g = goldens;
    while (g < goldens + n_goldens && strcmp(g->name, name) != 0) g++;
    assert_true(g < goldens + n_goldens);
    for (int k = 0; k < n; k++) {
        eval(g, "cpu", 1, N_TOKENS, false, types[k].type, scratch);
        const double e = nmse(g, scratch);
        printf("KV %-6s NMSE %.3g, limit %.3g\n", qn_dtype_get(types[k].type)->name, e, types[k].limit);
        assert_true(e <= types[k].limit);
        eval(g, "cpu", 2, 5, true, types[k].type, other);
        assert_true(same_bits(g, scratch, other));
    }
}

static inline int release_goldens(void **state)
{
    (void)state;
    for (golden *g = goldens; g < goldens + n_goldens; g++)
        for (int l = 0; l < QN_CPU_LEVEL_COUNT; l++) free(g->alone[l]);
    return 0;
}

#endif
