/* SPDX-License-Identifier: MIT */
/* Estimates against what a session then really takes, and the largest context or batch that fits. */
#include "rig.h"

static uint64_t live(void)
{
    qn_metrics m;
    qn_metrics_snapshot(&m);
    return m.live_bytes;
}

static const qn_place_rule rules[] = {{"blk.1.*", 1}, {"output*", 1}};
/* The last three serve for searching too: each of its steps plans a whole graph. */
static const struct {
    const char *what;
    tiny model;
    const char *backends;
    int n_rules;
} engines[] = {
    {"wide",
     {.arch = "qwen2", .n_embd = 512, .n_head = 16, .head = 32, .n_kv_head = 4, .n_ff = 1024, .type = QN_DTYPE_F16},
     "cpu",
     0},
    {"deep", {.arch = "qwen3", .n_layer = 30}, "cpu", 0},
    {"all places", {.arch = "llama"}, "cpu,cpu:ref,cpu:ref,cpu:ref,cpu:ref,cpu:ref,cpu:ref,cpu:ref", 2},
    {"an idle backend", {.arch = "llama"}, "cpu,cpu:ref", 0},
    {"latent", {.arch = "mistral4", .latent = true}, "cpu,cpu:ref", 2},
    {"small", {.arch = "llama"}, "cpu", 0},
    {"two backends", {.arch = "qwen2", .n_embd = 64}, "cpu,cpu:ref", 2},
    {"windows", {.arch = "gemma3", .n_layer = 3, .extra = tiny_window}, "cpu,cpu:ref", 1},
};
enum { N_ENGINES = sizeof(engines) / sizeof(engines[0]) };

static qn_engine *open_engine(int i)
{
    return rig_open(&engines[i].model, &(qn_engine_options){.n_threads = 1,
                                                            .backends = engines[i].backends,
                                                            .rules = rules,
                                                            .n_rules = engines[i].n_rules});
}

static const qn_session_options shapes[] = {
    {.n_ctx = 128},
    {.n_ctx = 1, .n_batch = 1},
    {.n_ctx = 64, .n_batch = 7, .n_seq = 5},
    {.n_ctx = 5000, .n_batch = 64, .n_logits = 64},
    {.n_ctx = 1000, .n_batch = 1, .n_seq = 200},
    {.n_ctx = 60000, .n_batch = 128, .kv_type = QN_DTYPE_F32, .kv_type_set = true},
    {.n_ctx = 2048, .n_batch = 512, .n_seq = 3},
    {.n_ctx = 200, .n_batch = 33, .n_seq = 3, .embeddings = true},
    {.n_ctx = 300, .n_batch = 300, .n_logits = 300, .kv_type = QN_DTYPE_BF16, .kv_type_set = true},
    {0},
};
enum { N_SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

/* Exact where that is promised; in all never too little, and over by a few KiB at most. */
static void against_reality(void **state)
{
    (void)state;
    for (int i = 0; i < N_ENGINES; i++) {
        qn_engine *e = open_engine(i);
        for (int k = 0; k < N_SHAPES; k++) {
            qn_estimate est;
            qn_session *s = NULL;
            qn_session_stats stats;
            const uint64_t before = live();
            MUST(qn_engine_estimate(e, &shapes[k], &est, err));
            assert_int_equal(live(), before); /* nothing stays of estimating */
            MUST(qn_session_create(e, &shapes[k], &s, err));
            const uint64_t took = live() - before;
            qn_session_get_stats(s, &stats);
            assert_int_equal(est.kv_bytes, stats.kv_bytes);
            assert_int_equal(est.activation_bytes, stats.reserved_bytes);
            const int n_ctx = qn_session_n_ctx(s), n_seq = shapes[k].n_seq ? shapes[k].n_seq : 1;
            int n_logits = shapes[k].n_logits ? shapes[k].n_logits : n_seq;
            if (n_logits > n_ctx) n_logits = n_ctx;
            qn_engine_info info;
            qn_engine_get_info(e, &info);
            /* hidden states of a batch, and a sum in double precision */
            const uint64_t hidden = ((uint64_t)qn_session_n_batch(s) + 2) * (uint64_t)info.n_embd * sizeof(float);
            assert_int_equal(est.logits_bytes,
                             shapes[k].embeddings ? hidden : (uint64_t)n_logits * RIG_VOCAB * sizeof(float));
            assert_int_equal(est.total_bytes, est.kv_bytes + est.activation_bytes + est.logits_bytes + est.table_bytes);
            if (took > est.total_bytes || est.total_bytes - took > 8192)
                fail_msg("%s, options %d: %llu bytes estimated, %llu taken", engines[i].what, k,
                         (unsigned long long)est.total_bytes, (unsigned long long)took);
            qn_session_destroy(s);
            assert_int_equal(live(), before);
        }
        qn_engine_close(e);
    }
}

/* Gigabytes and terabytes are estimated without being there. */
static void without_allocating(void **state)
{
    (void)state;
    qn_engine *e = open_engine(0);
    qn_estimate est;
    qn_metrics m;
    const uint64_t before = live();
    qn_metrics_reset();
    MUST(qn_engine_estimate(e, &(qn_session_options){.n_ctx = 1 << 28, .n_batch = 4096, .n_seq = 16}, &est, err));
    qn_metrics_snapshot(&m);
    /* cells, layers, keys and values, 128 F16 */
    assert_int_equal(est.kv_bytes, ((uint64_t)1 << 28) * 2 * 2 * (4 * 32 * 2));
    assert_true(m.peak_bytes - before < 1 << 20);
    /* Twice the cells, twice the bytes; activations don't grow with the context. */
    qn_estimate half;
    MUST(qn_engine_estimate(e, &(qn_session_options){.n_ctx = 1 << 27, .n_batch = 4096, .n_seq = 16}, &half, err));
    assert_int_equal(est.kv_bytes, 2 * half.kv_bytes);
    assert_int_equal(est.activation_bytes, half.activation_bytes);
    REFUSED(invalid, qn_engine_estimate(e, &(qn_session_options){.n_ctx = -1}, &est, err), "-1");
    qn_engine_close(e);
}

static uint64_t total(qn_engine *e, qn_session_options o)
{
    qn_estimate est;
    MUST(qn_engine_estimate(e, &o, &est, err));
    return est.total_bytes;
}

/* The answer fits, the next larger does not, and more bytes never give less. */
static void largest_context(void **state)
{
    (void)state;
    for (int i = N_ENGINES - 3; i < N_ENGINES; i++) {
        qn_engine *e = open_engine(i);
        for (int k = 0; k < (i == N_ENGINES - 3 ? 4 : 1); k++) {
            qn_session_options o = (qn_session_options[]){{0},
                                                          {.n_batch = 7, .n_seq = 3},
                                                          {.n_batch = 100, .n_logits = 9},
                                                          {.kv_type = QN_DTYPE_F32, .kv_type_set = true}}[k];
            const uint64_t steps[] = {0,         30000, 50000, 77777, 150000, 1 << 20, (1 << 20) + 1, (uint64_t)1 << 32,
                                      UINT64_MAX};
            int32_t last = 0;
            for (size_t b = 0; b < sizeof(steps) / sizeof(steps[0]); b++) {
                int32_t n = -1;
                MUST(qn_engine_fit_ctx(e, &o, steps[b], &n, err));
                assert_true(n >= last);
                qn_session_options with = o;
                with.n_batch = o.n_batch ? o.n_batch : 512;
                with.n_ctx = n;
                if (n > 0) assert_true(total(e, with) <= steps[b]);
                with.n_ctx = n + 1;
                if (n < 1 << 28) assert_true(total(e, with) > steps[b]);
                last = n;
            }
            assert_int_equal(last, 1 << 28);
        }
        /* Exactly enough is enough, a byte less is one cell less. */
        int32_t n = 0;
        MUST(qn_engine_fit_ctx(e, NULL, total(e, (qn_session_options){.n_ctx = 700}), &n, err));
        assert_int_equal(n, 700);
        MUST(qn_engine_fit_ctx(e, NULL, total(e, (qn_session_options){.n_ctx = 700}) - 1, &n, err));
        assert_int_equal(n, 699);
        qn_engine_close(e);
    }
}

static void largest_batch(void **state)
{
    (void)state;
    for (int i = N_ENGINES - 3; i < N_ENGINES; i++) {
        qn_engine *e = open_engine(i);
        const qn_session_options o = {.n_ctx = 600, .n_seq = 2};
        qn_session_options with = o;
        int32_t last = 0, n = -1;
        with.n_batch = 1;
        const uint64_t one = total(e, with);
        with.n_batch = 600;
        const uint64_t all = total(e, with);
        assert_true(all > one);
        MUST(qn_engine_fit_batch(e, &o, one - 1, &n, err));
        assert_int_equal(n, 0);
        for (uint64_t bytes = one; bytes <= all;
             bytes = bytes < all && bytes + (all - one) / 9 > all ? all : bytes + (all - one) / 9) {
            MUST(qn_engine_fit_batch(e, &o, bytes, &n, err));
            assert_true(n >= 1 && n >= last);
            with.n_batch = n;
            assert_true(total(e, with) <= bytes);
            with.n_batch = n + 1;
            if (n < 600) assert_true(total(e, with) > bytes);
            last = n;
        }
        assert_int_equal(last, 600); /* never more than the context */
        qn_session *s = NULL;
        MUST(qn_engine_fit_batch(e, &o, (one + all) / 2, &n, err));
        with.n_batch = n;
        const uint64_t before = live();
        MUST(qn_session_create(e, &with, &s, err));
        assert_true(live() - before <= (one + all) / 2);
        qn_session_destroy(s);
        qn_engine_close(e);
    }
    qn_engine *e = open_engine(N_ENGINES - 1);
    int32_t n = 5;
    REFUSED(invalid, qn_engine_fit_batch(e, &(qn_session_options){.n_ctx = -3}, 1 << 20, &n, err), "-3");
    /* all at once, however many: what that takes is not counted out query by query (minutes, once) */
    int32_t all;
    MUST(qn_engine_fit_ctx(e, &(qn_session_options){.n_batch = INT32_MAX}, UINT64_MAX, &all, err));
    assert_true(all > 1 << 24);
    REFUSED(unsupported,
            qn_engine_fit_ctx(e, &(qn_session_options){.kv_type = QN_DTYPE_Q4_K, .kv_type_set = true}, 1 << 20, &n,
                              err),
            "Q4_K");
    assert_int_equal(n, 5);
    qn_engine_close(e);
}

static int n_warnings;
static char warning[512];
static void on_log(void *ctx, qn_log_level level, const char *line)
{
    (void)ctx;
    if (level != QN_LOG_warn) return;
    n_warnings++;
    snprintf(warning, sizeof(warning), "%s", line);
}

static uint64_t weights(const qn_engine *e)
{
    qn_engine_info info;
    qn_engine_get_info(e, &info);
    return info.weight_bytes;
}

/* More than there is is refused before anything is allocated, with both numbers and a context that then fits; none
 * larger does. The engine's limit holds for its sessions, a session's own goes before it. */
static void refused_before_it_is_taken(void **state)
{
    (void)state;
    for (int i = N_ENGINES - 3; i < N_ENGINES; i++) {
        const qn_engine_options eo = {.n_threads = 1,
                                      .backends = engines[i].backends,
                                      .rules = rules,
                                      .n_rules = engines[i].n_rules,
                                      .memory_limit = 3 << 20};
        qn_engine *e = rig_open(&engines[i].model, &eo);
        qn_session *s = NULL;
        qn_session_options o = {.n_ctx = 1 << 20, .n_batch = 16};
        qn_error error;
        qn_metrics m;
        const uint64_t before = live();
        qn_metrics_reset();
        assert_int_equal(qn_session_create(e, &o, &s, &error), QN_STATUS_limit);
        qn_metrics_snapshot(&m);
        assert_int_equal(live(), before);
        assert_true(m.peak_bytes - before < 2 << 20); /* graphs and plans, no cache */
        const char *fits = strstr(error.text, "the largest that fits is ");
        assert_non_null(fits);
        assert_non_null(strstr(error.text, "a context of 1048576 tokens needs "));
        assert_non_null(strstr(error.text, " of memory are free beside the weights"));
        o.n_ctx = atoi(fits + strlen("the largest that fits is "));
        assert_true(o.n_ctx > 100);
        assert_true(total(e, o) <= (3 << 20) - weights(e));
        MUST(qn_session_create(e, &o, &s, err));
        qn_session_destroy(s);
        o.n_ctx++;
        assert_int_equal(qn_session_create(e, &o, &s, &error), QN_STATUS_limit);
        o.memory_limit = UINT64_MAX;
        MUST(qn_session_create(e, &o, &s, err));
        qn_session_destroy(s);
        o.memory_limit = weights(e) / 2;
        REFUSED(limit, qn_session_create(e, &o, &s, err), "0 B of memory", "none fits", "smaller model");
        qn_engine_close(e);
    }
    /* What this machine has: 2^28 cells of 30 layers are terabytes. */
    qn_engine *e = open_engine(1);
    qn_session *s = NULL;
    REFUSED(limit,
            qn_session_create(e, &(qn_session_options){.n_ctx = 1 << 28, .kv_type = QN_DTYPE_F32, .kv_type_set = true},
                              &s, err),
            "GiB", "the largest that fits");
    qn_engine_close(e);
}

/* A batch that nobody asked for gives way, with a warning; one that was asked for is refused. */
static void a_smaller_batch(void **state)
{
    (void)state;
    qn_engine *e = open_engine(0);
    qn_session *s = NULL;
    const uint64_t small = total(e, (qn_session_options){.n_ctx = 128, .n_batch = 64});
    qn_session_options o = {.n_ctx = 128, .memory_limit = small + weights(e)};
    n_warnings = 0;
    qn_set_log(on_log, NULL);
    MUST(qn_session_create(e, &o, &s, err));
    assert_int_equal(qn_session_n_batch(s), 64);
    assert_non_null(strstr(warning, "64 tokens are computed at once, not 128"));
    qn_session_destroy(s);
    assert_int_equal(n_warnings, 1);
    o.n_batch = 128;
    REFUSED(limit, qn_session_create(e, &o, &s, err), "128 tokens");
    qn_set_log(NULL, NULL);
    qn_engine_close(e);
}

/* Beyond what the model was trained for: said once, when the context is made, or when the first sequence gets there. */
static void beyond_training(void **state)
{
    (void)state;
    qn_engine *e = rig_open(&(tiny){0}, NULL);
    qn_engine_info info;
    qn_engine_get_info(e, &info);
    const int32_t trained = info.n_ctx_train;
    qn_session *s = NULL;
    const qn_token token = 5;
    qn_set_log(on_log, NULL);
    n_warnings = 0;
    s = rig_session(e, (qn_session_options){.n_ctx = trained});
    qn_session_destroy(s);
    assert_int_equal(n_warnings, 0);
    s = rig_session(e, (qn_session_options){.n_ctx = trained + 1});
    assert_int_equal(n_warnings, 1);
    assert_non_null(strstr(warning, "trained for"));
    rig_decode(s, &(qn_batch_item){token, trained, 0, true}, 1);
    assert_int_equal(n_warnings, 1);
    qn_session_destroy(s);
    s = rig_session(e, (qn_session_options){.n_ctx = 4 * trained, .n_seq = 4}); /* short ones have room for all */
    rig_decode(s, &(qn_batch_item){token, trained - 1, 0, true}, 1);
    assert_int_equal(n_warnings, 1);
    rig_feed(s, 0, &token, 1);
    assert_int_equal(n_warnings, 2);
    rig_feed(s, 0, &token, 1);
    assert_int_equal(n_warnings, 2);
    qn_session_destroy(s);
    qn_set_log(NULL, NULL);
    qn_engine_close(e);
}

/* What presets keep, in bytes: of n_ctx positions, in the layers that see all. Narrow ones, whose heads are the
 * presets'. */
static uint64_t kept(const char *preset, int n_layer, int32_t n_ctx)
{
    const char *path = tiny_path("preset.gguf"), *const set[] = {"expert_count=6", "expert_feed_forward_length=16",
                                                                 NULL};
    const qn_synth_options o = {.preset = preset,
                                .n_layer = n_layer,
                                .n_embd = 64,
                                .n_embd_head = strstr(preset, "deepseek") ? 576 : 256,
                                .n_ff = 32,
                                .n_vocab = 300,
                                .type = "F32",
                                .set = strstr(preset, "deepseek") ? set : NULL};
    qn_engine *e = NULL;
    qn_estimate est;
    MUST(qn_synth(path, &o, NULL, NULL, err));
    MUST(qn_engine_open(path, &(qn_engine_options){.n_threads = 1}, &e, err));
    MUST(qn_engine_estimate(e, &(qn_session_options){.n_ctx = n_ctx, .n_batch = 16}, &est, err));
    qn_engine_close(e);
    return est.kv_bytes;
}

static void presets(void **state)
{
    (void)state;
    const uint64_t f16 = 2, more = 131072 - 8192;
    assert_int_equal(kept("deepseek-v2-lite", 3, 8192), 3 * 8192 * 576 * f16);
    /* of gemma-3-1b's layers one of six sees all: a key and a value of 256 */
    assert_int_equal(kept("gemma-3-1b", 12, 131072) - kept("gemma-3-1b", 12, 8192), 2 * more * 2 * 256 * f16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_before_it_is_taken),
        cmocka_unit_test(presets),
        cmocka_unit_test(a_smaller_batch),
        cmocka_unit_test(beyond_training),
        cmocka_unit_test(against_reality),
        cmocka_unit_test(without_allocating),
        cmocka_unit_test(largest_context),
        cmocka_unit_test(largest_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
