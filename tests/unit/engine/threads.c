/* SPDX-License-Identifier: MIT */
/* One engine, several threads, each with a session of its own: they take turns on the backends, and none sees another.
 * Run it under the thread sanitizer too. */
#include "rig.h"
#include "base/metrics.h"
#include "engine/engine.h"
#include <pthread.h>

enum { THREADS = 3, ROUNDS = 4, N = 24 };

typedef struct job {
    qn_engine *engine;
    int number;
    qn_session_options options;
    rig_row got[ROUNDS];
    qn_error err;
    qn_status status;
    char path[768];
} job;

/* Everything a session can do, but no cmocka: it is not for threads. */
static qn_status work(job *j, qn_session *s)
{
    qn_error *err = &j->err;
    qn_token tokens[N];
    char *text = NULL;
    size_t kept = 0;
    for (int r = 0; r < ROUNDS; r++) {
        qn_status status = QN_OK;
        rig_story(j->number * ROUNDS + r, tokens, N);
        if (status == QN_OK) status = qn_session_reuse(s, 0, tokens, N, &kept, err);
        if (status == QN_OK) status = qn_session_feed(s, 0, tokens + kept, N - 4 - kept, err);
        if (status == QN_OK) status = qn_session_seq_copy(s, 0, 1, 0, -1, err);
        if (status == QN_OK) status = qn_session_seq_shift(s, 1, 0, -1, 5, err);
        if (status == QN_OK) status = qn_session_save(s, j->path, err);
        for (int i = N - 4; i < N && status == QN_OK; i++) status = qn_session_feed(s, 0, tokens + i, 1, err);
        if (status == QN_OK) memcpy(j->got[r].x, qn_session_logits(s, -1), sizeof(j->got[r].x));
        if (status == QN_OK) status = qn_session_print_graph(s, 3, -1, QN_GRAPH_text, &text, err);
        qn_free(text);
        text = NULL;
        qn_estimate est;
        if (status == QN_OK) status = qn_engine_estimate(j->engine, &j->options, &est, err);
        if (status == QN_OK) status = qn_session_restore(s, j->path, err);
        if (status != QN_OK) return status;
    }
    return QN_OK;
}

static void *run(void *ctx)
{
    job *j = ctx;
    qn_session *s = NULL;
    j->status = qn_session_create(j->engine, &j->options, &s, &j->err);
    if (j->status == QN_OK) j->status = work(j, s);
    qn_session_destroy(s);
    return NULL;
}

static void sessions_in_threads(void **state)
{
    (void)state;
    static const tiny models[] = {{.arch = "qwen3"}, {.arch = "llama", .type = QN_DTYPE_Q8_0, .n_ff = 64}};
    for (int m = 0; m < 2; m++) {
        static job jobs[THREADS];
        pthread_t threads[THREADS];
        qn_engine *e = rig_open(&models[m], NULL);
        for (int t = 0; t < THREADS; t++) {
            jobs[t] = (job){.engine = e, .number = t, .options = {.n_ctx = 64, .n_batch = t ? 32 : 5, .n_seq = 2}};
            snprintf(jobs[t].path, sizeof(jobs[t].path), "%s-%d", tiny_path("t.state"), t);
            assert_int_equal(pthread_create(&threads[t], NULL, run, &jobs[t]), 0);
        }
        for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
        for (int t = 0; t < THREADS; t++) {
            if (jobs[t].status != QN_OK) fail_msg("thread %d: %s", t, jobs[t].err.text);
            for (int r = 0; r < ROUNDS; r++) {
                qn_token tokens[N];
                rig_story(t * ROUNDS + r, tokens, N);
                SAME(jobs[t].got[r], rig_fresh(e, (qn_session_options){0}, tokens, N));
            }
        }
        qn_engine_close(e);
    }
}

/* The same story at every number of threads, the number being the engine's. */
static void any_number_of_threads(void **state)
{
    (void)state;
    rig_row want;
    qn_token tokens[40];
    rig_story(0, tokens, 40);
    for (int n = 1; n <= 5; n++) {
        qn_engine *e = rig_open(&(tiny){.arch = "qwen2", .type = QN_DTYPE_F16}, &(qn_engine_options){.n_threads = n});
        qn_session *s = rig_session(e, (qn_session_options){0});
        rig_feed(s, 0, tokens, 40);
        if (n == 1) want = rig_logits(s, -1);
        SAME(rig_logits(s, -1), want);
        qn_engine_info info;
        qn_engine_get_info(e, &info);
        assert_int_equal(info.n_threads, n);
        qn_session_destroy(s);
        qn_engine_close(e);
    }
}

/* Engines of several numbers of threads at once, on the threads that the process has. */
static void engines_in_threads(void **state)
{
    (void)state;
    static job jobs[THREADS];
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) {
        qn_engine *e = rig_open(&(tiny){.arch = "qwen3"}, &(qn_engine_options){.n_threads = THREADS - t});
        jobs[t] = (job){.engine = e, .number = t, .options = {.n_ctx = 64, .n_batch = 32, .n_seq = 2}};
        snprintf(jobs[t].path, sizeof(jobs[t].path), "%s-e%d", tiny_path("t.state"), t);
    }
    for (int t = 0; t < THREADS; t++) assert_int_equal(pthread_create(&threads[t], NULL, run, &jobs[t]), 0);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    for (int t = 0; t < THREADS; t++) {
        if (jobs[t].status != QN_OK) fail_msg("engine %d: %s", t, jobs[t].err.text);
        qn_token tokens[N];
        rig_story(t * ROUNDS, tokens, N);
        SAME(jobs[t].got[0], rig_fresh(jobs[t].engine, (qn_session_options){0}, tokens, N));
        qn_engine_close(jobs[t].engine);
    }
}

/* While others compute too a long batch is cut into what is done soon, and the results are the same. */
static void gives_way(void **state)
{
    (void)state;
    enum { LONG = 64 };
    qn_token tokens[LONG];
    rig_row want;
    rig_story(0, tokens, LONG);
    qn_engine *e = rig_open(&(tiny){.arch = "qwen3"}, NULL);
    for (int shared = 0; shared < 2; shared++) {
        qn_session *s = rig_session(e, (qn_session_options){.n_batch = LONG});
        s->token_s = 0.005; /* 20 are 100 ms */
        e->turns.changed_ns = shared ? INT64_MAX / 2 : 0;
        const uint64_t runs = QN_METRIC_READ(graph_runs);
        rig_feed(s, 0, tokens, LONG);
        if (!shared) want = rig_logits(s, -1);
        SAME(rig_logits(s, -1), want);
        assert_in_range(QN_METRIC_READ(graph_runs) - runs, shared ? 2 : 1, shared ? 4 : 1);
        qn_session_destroy(s);
    }
    qn_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sessions_in_threads), cmocka_unit_test(any_number_of_threads),
                                       cmocka_unit_test(engines_in_threads), cmocka_unit_test(gives_way)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
