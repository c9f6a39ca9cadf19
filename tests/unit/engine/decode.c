/* SPDX-License-Identifier: MIT */
/* Decoding: what fails leaves nothing behind, limits are kept and said, KV types agree, the plan cache changes no bit,
 * and a decode of 200 tokens builds a graph twice and allocates nothing once warm. */
#include "rig.h"
#include "engine/engine.h"

static qn_engine *engine;
static int open_one(void **state)
{
    (void)state;
    engine = rig_open(&(tiny){.arch = "qwen3", .n_layer = 3}, NULL);
    return 0;
}
static int close_one(void **state)
{
    (void)state;
    qn_engine_close(engine);
    return 0;
}

/* ---- a callback that stops at the n-th call ---- */

typedef struct stopper {
    int calls, at;
} stopper;
static bool stop_at(void *ctx, const qn_node *node, bool after)
{
    stopper *s = ctx;
    (void)node, (void)after;
    return s->calls++ != s->at;
}

/* Stopped before and after every node of a batch with neighbours: no item is left, and the same batch then gives the
 * same bits. */
static void rollback_at_every_node(void **state)
{
    (void)state;
    qn_token tokens[14];
    rig_story(0, tokens, 14);
    qn_batch_item items[9];
    for (int i = 0; i < 9; i++)
        items[i] = (qn_batch_item){rig_token(i % 2, 10 + i), i % 2 ? i / 2 : 10 + i / 2, i % 2, i > 6};
    qn_session *w = rig_session(engine, (qn_session_options){.n_seq = 2});
    rig_feed(w, 0, tokens, 10);
    stopper count = {.at = -1};
    qn_session_set_eval(w, stop_at, &count);
    rig_decode(w, items, 9);
    const rig_row want[2] = {rig_logits(w, 0), rig_logits(w, 1)};
    qn_session_destroy(w);
    assert_true(count.calls > 3 * 2 * 10);

    qn_session *s = rig_session(engine, (qn_session_options){.n_seq = 2});
    rig_feed(s, 0, tokens, 10);
    for (int at = 0; at < count.calls; at++) {
        stopper stop = {.at = at};
        qn_session_set_eval(s, stop_at, &stop);
        REFUSED(cancelled, qn_session_decode(s, items, 9, err), "callback");
        assert_int_equal(stop.calls, at + 1);
        assert_int_equal(qn_session_n_logits(s), 0);
        assert_int_equal(qn_session_seq_len(s, 0), 10);
        assert_int_equal(qn_session_seq_len(s, 1), 0);
        assert_int_equal(qn_session_free_cells(s), RIG_MAX - 10);
        if (at % 7 && at != count.calls - 1) continue; /* mostly stop after stop; now and then it goes well between */
        qn_session_set_eval(s, NULL, NULL);
        rig_decode(s, items, 9);
        SAME(rig_logits(s, 0), want[0]);
        SAME(rig_logits(s, 1), want[1]);
        MUST(qn_session_seq_remove(s, 0, 10, -1, err));
        MUST(qn_session_seq_remove(s, 1, 0, -1, err));
    }
    qn_session_destroy(s);
}

static bool decode_again(void *ctx, const qn_node *node, bool after)
{
    qn_session *s = ctx;
    const qn_token token = 1;
    (void)node, (void)after;
    REFUSED(state, qn_session_feed(s, 0, &token, 1, err), "under way");
    REFUSED(state, qn_session_decode(s, &(qn_batch_item){1, 0, 0, true}, 1, err), "under way");
    return true;
}

/* What a run calls can't start another run of the session, and is told so. */
static void no_run_inside(void **state)
{
    (void)state;
    const qn_token token = 1;
    qn_session *s = rig_session(engine, (qn_session_options){0});
    qn_session_set_eval(s, decode_again, s);
    MUST(qn_session_feed(s, 0, &token, 1, err));
    qn_session_set_eval(s, NULL, NULL);
    MUST(qn_session_feed(s, 0, &token, 1, err));
    qn_session_destroy(s);
}

/* Of several chunks those before the one that fails stay, with their logits. */
static void earlier_chunks_stay(void **state)
{
    (void)state;
    qn_batch_item items[12];
    for (int i = 0; i < 12; i++) items[i] = (qn_batch_item){rig_token(0, i), i, 0, i == 3 || i == 11};
    qn_session *s = rig_session(engine, (qn_session_options){.n_batch = 5, .n_logits = 2});
    stopper stop = {.at = -1};
    qn_session_set_eval(s, stop_at, &stop);
    rig_decode(s, items, 5);
    const int a_chunk = stop.calls;
    const rig_row third = rig_logits(s, 0);
    MUST(qn_session_seq_remove(s, 0, 0, -1, err));
    stop = (stopper){.at = a_chunk + 4};
    REFUSED(cancelled, qn_session_decode(s, items, 12, err));
    assert_int_equal(qn_session_seq_len(s, 0), 5);
    assert_int_equal(qn_session_n_logits(s), 1);
    SAME(rig_logits(s, 0), third);
    qn_session_set_eval(s, NULL, NULL);
    rig_decode(s, items + 5, 7);
    qn_token tokens[12];
    rig_story(0, tokens, 12);
    SAME(rig_logits(s, -1), rig_fresh(engine, (qn_session_options){0}, tokens, 12));
    qn_session_destroy(s);
}

static void refused(void **state)
{
    (void)state;
    qn_token tokens[30];
    qn_batch_item items[40];
    rig_story(0, tokens, 30);
    qn_session *s = rig_session(engine, (qn_session_options){.n_seq = 2, .n_ctx = 20, .n_batch = 5, .n_logits = 3});
    rig_feed(s, 0, tokens, 10);
    const qn_batch_item good = {5, 10, 0, true};
#define ONE(...) (items[0] = good, items[1] = (qn_batch_item){__VA_ARGS__}, qn_session_decode(s, items, 2, err))
    REFUSED(invalid, ONE(RIG_VOCAB, 11, 0, true), "token 1", "300", "299");
    REFUSED(invalid, ONE(-1, 11, 0, true), "-1");
    REFUSED(invalid, ONE(INT32_MIN, 11, 0, true));
    REFUSED(invalid, ONE(5, -1, 0, true), "position -1");
    REFUSED(invalid, ONE(5, INT32_MAX, 0, true), "position 2147483647");
    REFUSED(invalid, ONE(5, 11, 2, true), "sequence 2", "0 to 1");
    REFUSED(invalid, ONE(5, 11, -1, true), "sequence -1");
    REFUSED(invalid, ONE(5, 9, 0, true), "position 9 of sequence 0 is taken");
    REFUSED(invalid, ONE(5, 10, 0, true), "position 10 of sequence 0 is taken"); /* by the other item */
    REFUSED(invalid, qn_session_decode(s, items, 0, err), "0 tokens");
    REFUSED(invalid, qn_session_decode(s, items, -5, err), "-5");
    for (int i = 0; i < 40; i++) items[i] = (qn_batch_item){5, 10 + i, 0, false};
    REFUSED(limit, qn_session_decode(s, items, 11, err), "11 tokens", "10 of the context's 20");
    for (int i = 0; i < 4; i++) items[i].logits = true;
    REFUSED(limit, qn_session_decode(s, items, 4, err), "logits of 4", "3 rows");
    REFUSED(limit, qn_session_feed(s, 0, tokens, 11, err), "11 tokens", "10 of the context's 20");
    REFUSED(limit, qn_session_feed(s, 0, tokens, SIZE_MAX, err));
    REFUSED(invalid, qn_session_feed(s, 0, tokens, 0, err), "no tokens");
    REFUSED(invalid, qn_session_feed(s, 2, tokens, 1, err), "sequence 2");
    tokens[20] = 300;
    /* in its second chunk, yet before the first is computed */
    REFUSED(invalid, qn_session_feed(s, 1, tokens + 12, 9, err), "token 8", "300");
    assert_int_equal(qn_session_seq_len(s, 0), 10);
    assert_int_equal(qn_session_seq_len(s, 1), 0);
    assert_int_equal(qn_session_free_cells(s), 10);
    tokens[20] = rig_token(0, 20);
    rig_feed(s, 0, tokens + 10, 10); /* to the last cell */
    SAME(rig_logits(s, -1), rig_fresh(engine, (qn_session_options){0}, tokens, 20));
    REFUSED(limit, qn_session_feed(s, 0, tokens, 1, err), "0 of the context's 20");
    qn_session_destroy(s);
}

static void session_options(void **state)
{
    (void)state;
    qn_session *s = NULL;
#define WITH(...) qn_session_create(engine, &(qn_session_options){__VA_ARGS__}, &s, err)
    REFUSED(invalid, WITH(.n_ctx = -1), "-1");
    REFUSED(invalid, WITH(.n_ctx = INT32_MAX), "2147483647", "268435456");
    REFUSED(invalid, WITH(.n_seq = -2), "-2 sequences");
    REFUSED(invalid, WITH(.n_seq = 257), "257 sequences", "256");
    REFUSED(invalid, WITH(.n_batch = -1), "batch of -1");
    REFUSED(invalid, WITH(.n_logits = -1), "-1 rows");
    REFUSED(unsupported, WITH(.kv_type = QN_DTYPE_Q4_K, .kv_type_set = true), "Q4_K", "Q8_0");
    REFUSED(unsupported, WITH(.kv_type = QN_DTYPE_I32, .kv_type_set = true), "I32");
    REFUSED(unsupported, WITH(.kv_type = (qn_dtype)12345, .kv_type_set = true));
    /* heads of 8 */
    REFUSED(unsupported, WITH(.kv_type = QN_DTYPE_Q8_0, .kv_type_set = true), "Q8_0", "multiple of 32", "8");
    assert_null(s);
    MUST(qn_session_create(engine, NULL, &s, err)); /* defaults */
    assert_int_equal(qn_session_n_ctx(s), 128);     /* what the model was trained for */
    assert_int_equal(qn_session_n_batch(s), 128);   /* 512, but no more than the context */
    assert_ptr_equal(qn_session_engine(s), engine);
    qn_session_destroy(s);
    MUST(WITH(.n_ctx = 300, .n_batch = 1000, .n_logits = 5000, .n_seq = 256));
    assert_int_equal(qn_session_n_ctx(s), 300); /* more than it was trained for is the caller's business */
    assert_int_equal(qn_session_n_batch(s), 300);
    qn_session_destroy(s);
    qn_session_destroy(NULL);
}

/* A full context, then on: what was there before does not shine through. */
static void fill_and_empty(void **state)
{
    (void)state;
    qn_token tokens[16];
    qn_session *s = rig_session(engine, (qn_session_options){.n_ctx = 16, .n_batch = 3});
    for (int round = 0; round < 10; round++) {
        rig_story(round, tokens, 16);
        rig_feed(s, 0, tokens, 16);
        SAME(rig_logits(s, -1), rig_fresh(engine, (qn_session_options){0}, tokens, 16));
        MUST(qn_session_seq_remove(s, 0, 0, -1, err));
    }
    qn_session_destroy(s);
}

/* Of a mixture all experts: a router that sees rounded keys would choose others, and the error would say nothing. */
static bool all_experts(qn_gguf_writer *w, const char *key)
{
    const char *dot = strchr(key, '.');
    if (!dot || strcmp(dot, ".expert_used_count") != 0) return false;
    qn_gguf_write_u32(w, key, 6);
    return true;
}

/* Keys and values are rounded once: to 11 bits, to 8 bits, or to 1/127 (1/31, 1/16, 1/15, 1/8) of a block's largest or
 * its range, which is some 2.5 times its usual size: by 2^-12, 2^-9 and 0.006 (up to 0.08) of that on average. A score
 * of these sharp models is about 10, so its error is some ten times that, and with it that of the logits; the limits
 * allow sixteen. */
static void kv_types(void **state)
{
    (void)state;
    static const struct {
        qn_dtype type;
        double limit;
    } rows[] = {{QN_DTYPE_F32, 0},     {QN_DTYPE_F16, 4e-3},  {QN_DTYPE_BF16, 3.2e-2},
                {QN_DTYPE_Q8_0, 1e-1}, {QN_DTYPE_Q5_1, 4e-1}, {QN_DTYPE_Q5_0, 4e-1},
                {QN_DTYPE_Q4_1, 8e-1}, {QN_DTYPE_IQ4_NL, 1},  {QN_DTYPE_Q4_0, 1}};
    enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };
    for (int a = 0; a < TINY_N_ARCHS; a++) {
#ifdef __SANITIZE_THREAD__ /* a race would be the engine's, whatever the architecture */
        if (a % 4 != 0) continue;
#endif
        if (tiny_sees_ahead(tiny_archs[a])) continue;
        qn_engine *e = rig_open(&(tiny){.arch = tiny_archs[a],
                                        .n_head = tiny_is_latent(tiny_archs[a]) ? 2 : 0,
                                        .n_embd = 64,
                                        .head = 32,
                                        .key = all_experts},
                                NULL);
        qn_token tokens[60];
        rig_row exact;
        rig_story(1, tokens, 60); /* one for all: a new row of archs.def moves no other */
        double last = -1;
        for (int k = 0; k < N_ROWS; k++) {
#ifdef QN_CHECKED /* F32, and the types in turn */
            if (k != 0 && k != a % N_ROWS) continue;
            const bool in_turn = k == a % N_ROWS;
#else
            const bool in_turn = true;
#endif
            const qn_session_options o = {.kv_type = rows[k].type, .kv_type_set = true, .n_batch = 64};
            qn_session *s = rig_session(e, o);
            qn_session_stats stats;
            qn_session_get_stats(s, &stats);
            /* 2 layers of 128 cells, 2 heads of 32 keys and as many values */
            assert_int_equal(stats.kv_bytes, 2 * 128 * 2 * (uint64_t)qn_dtype_row_bytes(rows[k].type, 64));
            rig_feed(s, 0, tokens, 60);
            const rig_row row = rig_logits(s, -1);
            if (in_turn) SAME(row, rig_fresh(e, o, tokens, 60)); /* token by token, so through the cache */
            if (k == 0) exact = row;
            const double d = rig_distance(&row, &exact);
            if (d > rows[k].limit || (k > 0 && d <= 0))
                fail_msg("%s: KV %s is off by %g", tiny_archs[a], qn_dtype_get(rows[k].type)->name, d);
            assert_true(k >= 3 || d > last); /* the types are really different */
            last = d;
            qn_session_destroy(s);
        }
        qn_engine_close(e);
    }
}

static void plan_cache(void **state)
{
    (void)state;
    enum { N = 30 };
    static rig_row with[N], without[N];
    static const int sizes[] = {5, 1, 1, 7, 5, 1, 10}; /* 30 tokens */
    for (int off = 0; off < 2; off++) {
        qn_session *s = rig_session(engine, (qn_session_options){.no_plan_cache = off, .n_logits = N});
        qn_session_stats stats;
        int at = 0;
        for (int b = 0; b < 7; b++) {
            qn_batch_item items[N];
            for (int i = 0; i < sizes[b]; i++) items[i] = (qn_batch_item){rig_token(2, at + i), at + i, 0, true};
            rig_decode(s, items, sizes[b]);
            for (int i = 0; i < sizes[b]; i++) (off ? without : with)[at + i] = rig_logits(s, i);
            at += sizes[b];
        }
        qn_session_get_stats(s, &stats);
        assert_int_equal(stats.graph_builds, off ? 7 : 2); /* 1, and 16, which serves 5, 7 and 10 */
        assert_int_equal(stats.plan_cache_hits, off ? 0 : 5);
        assert_int_equal(stats.plan_cache_misses, off ? 7 : 2);
        assert_int_equal(stats.tokens, N);
        qn_session_destroy(s);
    }
    for (int i = 0; i < N; i++) SAME(with[i], without[i]);
}

/* A graph pass off at a time: other plans, other kernels fused, the same bits. */
static void passes(void **state)
{
    (void)state;
    qn_token tokens[20];
    rig_row want;
    rig_story(0, tokens, 20);
    for (uint32_t off = 0; off <= 32; off = off ? off * 2 : 1) {
        const uint32_t bits = off == 32 ? 31 : off;
        qn_engine *e = rig_open(&(tiny){.arch = "qwen2", .type = QN_DTYPE_F16},
                                &(qn_engine_options){.n_threads = 1, .passes_off = bits});
        qn_session *s = rig_session(e, (qn_session_options){0});
        rig_feed(s, 0, tokens, 20);
        if (off == 0) want = rig_logits(s, -1);
        SAME(rig_logits(s, -1), want);
        qn_session_destroy(s);
        qn_engine_close(e);
    }
}

static void two_hundred_tokens(void **state)
{
    (void)state;
    qn_metrics before, warm, after;
    qn_token tokens[RIG_MAX];
    rig_story(0, tokens, RIG_MAX);
    qn_metrics_reset();
    qn_metrics_snapshot(&before);
    qn_engine *e = rig_open(&(tiny){0}, NULL);
    qn_session *s = rig_session(e, (qn_session_options){.n_ctx = 256});
    rig_feed(s, 0, tokens, 20);
    rig_feed(s, 0, tokens + 20, 1);
    qn_session_stats stats;
    qn_session_get_stats(s, &stats);
    const uint64_t reserved = stats.reserved_bytes;
    qn_metrics_snapshot(&warm);
    for (int i = 0; i < 200; i++) {
        rig_feed(s, 0, tokens + i % 100, 1);
        assert_non_null(qn_session_logits(s, -1));
    }
    qn_metrics_snapshot(&after);
    qn_session_get_stats(s, &stats);
    assert_int_equal(after.allocs, warm.allocs);
    assert_int_equal(after.frees, warm.frees);
    assert_int_equal(after.live_bytes, warm.live_bytes);
    assert_int_equal(stats.graph_builds, 2);
    assert_int_equal(stats.plan_cache_hits, 200);
    assert_in_range(after.graph_builds, 1, 4); /* these two, the one that reserved memory, and 31 beside 32 */
    assert_int_equal(after.sched_created, 1);
    assert_int_equal(after.gguf_parses, 1);
    assert_int_equal(after.graph_runs, 202);
    assert_int_equal(stats.tokens, 221);
    assert_int_equal(stats.reserved_bytes, reserved);
    assert_true(stats.seconds > 0);
    qn_session_destroy(s);
    qn_engine_close(e);
    qn_metrics_snapshot(&after);
    assert_int_equal(after.live_bytes, before.live_bytes);
}

/* The worst case was reserved: no batch up to its size moves a buffer, and once each size has come, none allocates. */
static void reserved_is_enough(void **state)
{
    (void)state;
    enum { BATCH = 24 };
    qn_session *s = rig_session(engine, (qn_session_options){.n_batch = BATCH, .n_logits = 4});
    qn_session_stats stats;
    qn_session_get_stats(s, &stats);
    const uint64_t reserved = stats.reserved_bytes;
    assert_true(reserved > 0);
    for (int n = 1; n <= BATCH; n++)
        for (int n_logits = 0; n_logits <= 4 && n_logits <= n; n_logits++) {
            qn_batch_item items[BATCH];
            for (int i = 0; i < n; i++) items[i] = (qn_batch_item){i, i, 0, i < n_logits};
            rig_decode(s, items, n);
            assert_int_equal(qn_session_n_logits(s), n_logits);
            MUST(qn_session_seq_shift(s, 0, 0, -1, 1, err));
            MUST(qn_session_seq_remove(s, 0, 0, -1, err));
            qn_session_get_stats(s, &stats);
            assert_int_equal(stats.reserved_bytes, reserved);
        }
    qn_session_destroy(s);
}

/* ---- batches of every size ---- */

/* A step of n sequences and part of a prompt behind them, each with rows of its own to compare. */
static void mixed_step(qn_session *s, int32_t n, int32_t part, rig_row *rows, int32_t *n_rows)
{
    enum { PROMPT = 12 };
    qn_batch_item items[RIG_MAX];
    int32_t k = 0;
    for (int32_t q = 0; q < n; q++) {
        const int32_t pos = qn_session_seq_pos_max(s, q) + 1;
        items[k++] = (qn_batch_item){rig_token(q, pos), pos, q, true};
    }
    const int32_t first = qn_session_seq_pos_max(s, PROMPT) + 1;
    for (int32_t i = 0; i < part; i++) items[k++] = (qn_batch_item){rig_token(9, first + i), first + i, PROMPT, false};
    rig_decode(s, items, k);
    for (int32_t q = 0; q < n; q++) rows[(*n_rows)++] = rig_logits(s, q);
    if (first + part > 40) MUST(qn_session_seq_remove(s, PROMPT, 0, -1, err));
    for (int32_t q = 0; q < n; q++)
        if (qn_session_seq_len(s, q) > 5) MUST(qn_session_seq_remove(s, q, 0, -1, err));
}

enum { STEPS = 40, MIXED = 12 };
static int32_t mixed_steps(qn_session *s, rig_row *rows)
{
    int32_t n_rows = 0;
    for (int q = 0; q <= MIXED; q++) MUST(qn_session_seq_remove(s, q, 0, -1, err));
    for (int i = 0; i < STEPS; i++) mixed_step(s, 1 + i * 7 % MIXED, i % 3 ? i * 5 % 20 : 0, rows, &n_rows);
    return n_rows;
}

static const qn_session_options mixed = {.n_seq = MIXED + 1, .n_logits = MIXED, .n_batch = 32};

/* Graphs that are resized, padded ones, and one compiled for each size: the same bits. After warm-up nothing is
 * compiled, and no step allocates. */
static void any_size(void **state)
{
    (void)state;
    static rig_row want[STEPS * MIXED], got[STEPS * MIXED];
    static const char *const archs[] = {"llama", "gemma3", "qwen3moe"};
    for (int a = 0; a < 3; a++) {
        qn_engine *e = rig_open(&(tiny){.arch = archs[a]}, NULL);
        qn_session_options o = mixed;
        o.no_plan_cache = true;
        qn_session *s = rig_session(e, o);
        const int32_t n = mixed_steps(s, want);
        qn_session_destroy(s);
        s = rig_session(e, mixed);
        qn_metrics warm, after;
        for (int round = 0; round < 2; round++) {
            qn_metrics_snapshot(&warm);
            assert_int_equal(mixed_steps(s, got), n);
            qn_metrics_snapshot(&after);
            for (int32_t i = 0; i < n; i++) SAME(got[i], want[i]);
        }
        assert_int_equal(after.allocs, warm.allocs);
        assert_int_equal(after.graph_builds, warm.graph_builds);
        qn_session_stats stats;
        qn_session_get_stats(s, &stats);
        assert_in_range(stats.plan_cache_misses, 3, 6); /* 1, 4, 16 and 32 tokens; 1 row or all */
        qn_session_destroy(s);
        qn_backend *be = e->backends[0]; /* another table of functions: a backend that cannot resize */
        const qn_backend_type *type = be->type;
        qn_backend_type stiff = *type;
        stiff.resize = NULL;
        be->type = &stiff;
        s = rig_session(e, mixed);
        for (int round = 0; round < 2; round++) {
            qn_metrics_snapshot(&warm);
            assert_int_equal(mixed_steps(s, got), n);
            qn_metrics_snapshot(&after);
            for (int32_t i = 0; i < n; i++) SAME(got[i], want[i]);
        }
        assert_int_equal(after.allocs, warm.allocs);
        qn_session_get_stats(s, &stats);
        assert_in_range(stats.plan_cache_misses, 10, 40);
        qn_session_destroy(s);
        be->type = type;
        qn_engine_close(e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rollback_at_every_node),
        cmocka_unit_test(no_run_inside),
        cmocka_unit_test(earlier_chunks_stay),
        cmocka_unit_test(refused),
        cmocka_unit_test(session_options),
        cmocka_unit_test(fill_and_empty),
        cmocka_unit_test(kv_types),
        cmocka_unit_test(plan_cache),
        cmocka_unit_test(passes),
        cmocka_unit_test(two_hundred_tokens),
        cmocka_unit_test(reserved_is_enough),
        cmocka_unit_test(any_size),
    };
    return cmocka_run_group_tests(tests, open_one, close_one);
}
