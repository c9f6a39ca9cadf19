/* SPDX-License-Identifier: MIT */
/* A model in less memory than its weights take: the same logits to the bit, whatever is kept, dropped and read again,
 * by one thread or several, alone or beside other sessions. */
#include "rig.h"
#include "engine/pager.h"
#include <pthread.h>
#include <quern/metrics.h>

enum { N = 30, PROMPT = 17 };

/* Of many layers, so that some can stay; of experts. */
static const tiny models[] = {{.n_layer = 10, .n_embd = 64, .n_ff = 160},
                              {.n_layer = 6, .n_embd = 64, .n_ff = 96, .tied = true},
                              {.arch = "qwen3moe", .n_layer = 5, .n_embd = 64},
                              {.arch = "bert", .n_layer = 6, .n_embd = 64, .tokenizer = "bert"}};
enum { N_DECODERS = 3, BERT = 3 };

static qn_engine *open(int model, uint64_t memory, int threads)
{
    return rig_open(&models[model], &(qn_engine_options){.n_threads = threads, .memory = memory});
}

static void tell(qn_session *s, int story, rig_row *out)
{
    qn_token tokens[N];
    int n = 0;
    rig_story(story, tokens, N);
    rig_feed(s, 0, tokens, PROMPT);
    out[n++] = rig_logits(s, -1);
    for (int i = PROMPT; i < N; i++) {
        rig_feed(s, 0, tokens + i, 1);
        out[n++] = rig_logits(s, -1);
    }
}
enum { ROWS = N - PROMPT + 1 };

static void same(const rig_row *a, const rig_row *b)
{
    for (int i = 0; i < ROWS; i++) SAME(a[i], b[i]);
}

static uint64_t live(void)
{
    qn_metrics m;
    qn_metrics_snapshot(&m);
    return m.live_bytes;
}

/* Logits as they are without a limit; *taken: what the library then has. */
static uint64_t as_ever(int model, rig_row *want, uint64_t *taken)
{
    qn_engine_info info;
    qn_engine *e = open(model, 0, 1);
    qn_session *s = rig_session(e, (qn_session_options){.n_batch = 8});
    tell(s, 1, want);
    *taken = live() + QN_PAGING_RESERVE;
    qn_engine_get_info(e, &info);
    qn_engine_memory m;
    qn_engine_get_memory(e, &m);
    assert_int_equal(m.budget_bytes, 0);
    qn_session_destroy(s);
    qn_engine_close(e);
    return info.weight_bytes;
}

/* What must hold of a plan that streams. */
static void check_plan(const qn_engine_memory *m, uint64_t weights, int n_steps)
{
    assert_true(m->kept_bytes + m->window_bytes <= m->budget_bytes || m->kept_bytes == 0);
    assert_true(m->kept_bytes + m->expert_bytes < weights);
    assert_true(m->streamed_bytes > 0 || m->expert_misses > 0);
    assert_true(m->read_bytes >= m->streamed_bytes * (uint64_t)(n_steps - 1)); /* the last end may be read ahead */
    assert_true(m->read_bytes <= m->streamed_bytes * (uint64_t)(n_steps + 1) + m->kept_bytes + m->expert_bytes +
                                     m->window_bytes + m->expert_misses * weights);
    assert_true(m->dropped_bytes > 0);
}

static void the_same_bits(void **state)
{
    (void)state;
    for (int model = 0; model < N_DECODERS; model++) {
        rig_row want[ROWS], got[ROWS];
        uint64_t taken;
        const uint64_t weights = as_ever(model, want, &taken);
        for (int tenths = 1; tenths < 10; tenths += 4) {
            const int threads = 1 + tenths / 4;
            /* the engine itself, and its graphs, are a little more with its plan */
            qn_engine *e = open(model, taken + (uint64_t)QN_PAGER_RING * 24 + weights * (uint64_t)tenths / 10, threads);
            qn_session *s = rig_session(e, (qn_session_options){.n_batch = 8});
            qn_engine_memory m;
            tell(s, 1, got);
            same(got, want);
            qn_engine_get_memory(e, &m);
            if (tenths < 9) check_plan(&m, weights, N - PROMPT + (PROMPT + 7) / 8);
            qn_session_destroy(s);
            qn_engine_close(e);
        }
    }
}

static void nothing_is_done_when_all_fits(void **state)
{
    (void)state;
    for (int model = 0; model < N_DECODERS; model++) {
        rig_row want[ROWS], got[ROWS];
        uint64_t taken;
        const uint64_t weights = as_ever(model, want, &taken);
        qn_engine *e = open(model, model ? QN_MEMORY_AUTO : taken + 3 * weights + (8 << 20), 2);
        qn_session *s = rig_session(e, (qn_session_options){.n_batch = 8});
        qn_engine_memory m;
        tell(s, 1, got);
        same(got, want);
        qn_engine_get_memory(e, &m);
        assert_true(m.budget_bytes >= m.kept_bytes && m.kept_bytes > 0);
        assert_int_equal(m.streamed_bytes + m.read_bytes + m.dropped_bytes + m.waits, 0);
        qn_session_destroy(s);
        qn_engine_close(e);
    }
}

/* Two engines have as much each, or what the other doesn't need; one without a limit takes all of its weights. When
 * they are closed, all is as before.
 */
static void engines_share(void **state)
{
    (void)state;
    rig_row want[ROWS], got[ROWS];
    uint64_t taken;
    const uint64_t weights = as_ever(0, want, &taken), memory = taken + (1 << 18) + 3 * weights / 2;
    qn_engine_memory m;
    qn_engine *e = open(0, memory, 1);
    qn_session *s = rig_session(e, (qn_session_options){.n_batch = 8});
    tell(s, 1, got);
    qn_engine_get_memory(e, &m);
    const uint64_t alone = m.budget_bytes;
    assert_int_equal(m.streamed_bytes, 0);
    for (int limited = 0; limited < 2; limited++) {
        qn_engine *other = open(0, limited ? memory : 0, 1);
        const uint64_t with = live();
        MUST(qn_session_seq_remove(s, 0, 0, -1, err));
        tell(s, 1, got);
        same(got, want);
        qn_engine_get_memory(e, &m);
        const uint64_t room = memory - with - QN_PAGING_RESERVE, half = room / 2, rest = room - weights,
                       part = limited && half > rest ? half : rest;
        if (part >= m.budget_bytes + (1 << 17) || m.budget_bytes >= part + (1 << 17))
            fail_msg("%llu bytes for weights, not %llu", (unsigned long long)m.budget_bytes, (unsigned long long)part);
        qn_engine_close(other);
    }
    MUST(qn_session_seq_remove(s, 0, 0, -1, err));
    tell(s, 1, got);
    qn_engine_get_memory(e, &m);
    assert_true(m.budget_bytes + (1 << 19) > alone); /* but for what nodes need, once for each graph */
    assert_int_equal(m.streamed_bytes, 0);
    qn_session_destroy(s);
    qn_engine_close(e);
}

/* An engine that does nothing gives back what is beyond its part when another is opened; one that computes, when it
 * has. */
static void idle_engines_give_back(void **state)
{
    (void)state;
    rig_row want[ROWS], got[ROWS];
    uint64_t taken;
    const uint64_t weights = as_ever(0, want, &taken), memory = taken + (1 << 18) + 3 * weights / 2;
    for (int busy = 0; busy < 2; busy++) {
        qn_engine_memory m;
        qn_turn_taker somebody = {0};
        qn_engine *e = open(0, memory, 1);
        qn_session *s = rig_session(e, (qn_session_options){.n_batch = 8});
        tell(s, 1, got);
        if (busy) qn__turns_take(&e->turns, &somebody);
        qn_engine *other = open(0, 0, 1);
        qn_engine_get_memory(e, &m);
        assert_true((m.dropped_bytes > 0) == !busy);
        if (busy) qn__pager_give_turn(e, &somebody);
        if (busy) qn__turns_forget(&e->turns, &somebody);
        qn_engine_get_memory(e, &m);
        assert_true(m.dropped_bytes > weights / 4 && m.dropped_bytes < weights);
        const uint64_t dropped = m.dropped_bytes;
        qn_engine *third = open(0, memory, 1); /* one that has not run has nothing to say against it */
        qn_engine_close(other);
        qn_engine_close(third);
        qn_engine_get_memory(e, &m);
        assert_true(m.dropped_bytes > dropped);
        MUST(qn_session_seq_remove(s, 0, 0, -1, err));
        tell(s, 1, got);
        same(got, want);
        qn_engine_get_memory(e, &m);
        assert_int_equal(m.streamed_bytes, 0);
        qn_session_destroy(s);
        qn_engine_close(e);
    }
}

/* What was free when it was opened is less what the program has taken by then. */
static void free_memory(void **state)
{
    (void)state;
    qn_engine *e = open(0, QN_MEMORY_AUTO, 1);
    if (e->memory) assert_int_equal(e->reserve, QN_PAGING_LATER);
    assert_int_equal(qn_engine_least_memory(e),
                     (e->memory ? e->reserve : QN_PAGING_RESERVE) + e->info.weight_bytes / 2);
    qn_engine_close(e);
    e = open(0, (uint64_t)1 << 40, 1);
    assert_int_equal(e->reserve, QN_PAGING_RESERVE);
    qn_engine_close(e);
}

typedef struct job {
    qn_engine *engine;
    int story;
    rig_row got[ROWS];
    qn_status status;
} job;

/* No cmocka: it is not for threads. */
static void *run(void *ctx)
{
    job *j = ctx;
    qn_session *s = NULL;
    qn_token tokens[N];
    qn_error err;
    rig_story(j->story, tokens, N);
    j->status = qn_session_create(j->engine, &(qn_session_options){.n_ctx = RIG_MAX, .n_batch = 8}, &s, &err);
    if (j->status == QN_OK) j->status = qn_session_feed(s, 0, tokens, PROMPT, &err);
    for (int i = PROMPT - 1; i < N && j->status == QN_OK; i++) {
        if (i >= PROMPT) j->status = qn_session_feed(s, 0, tokens + i, 1, &err);
        if (j->status == QN_OK) memcpy(j->got[i - PROMPT + 1].x, qn_session_logits(s, -1), sizeof(j->got[0].x));
    }
    qn_session_destroy(s);
    return NULL;
}

/* Sessions that come and go in threads: what may stay becomes less, then more. */
static void sessions_in_threads(void **state)
{
    (void)state;
    for (int model = 0; model < N_DECODERS; model += 2) {
        rig_row want[ROWS];
        uint64_t taken;
        static job jobs[3];
        pthread_t threads[3];
        const uint64_t weights = as_ever(model, want, &taken);
        const uint64_t one = taken - QN_PAGING_RESERVE; /* there may be three at once */
        qn_engine *e = open(model, taken + 2 * one + (1 << 20) + weights / 2, 2);
        for (int i = 0; i < 3; i++) {
            jobs[i] = (job){.engine = e, .story = 1};
            assert_int_equal(pthread_create(&threads[i], NULL, run, &jobs[i]), 0);
        }
        for (int i = 0; i < 3; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(jobs[i].status, QN_OK);
            same(jobs[i].got, want);
        }
        qn_engine_close(e);
    }
}

static void embeddings(void **state)
{
    (void)state;
    qn_token tokens[N];
    float want[64], got[64];
    uint64_t taken = 0;
    qn_engine_info info = {0};
    rig_story(3, tokens, N);
    for (int limited = 0; limited < 2; limited++) {
        qn_engine *e = open(BERT, limited ? taken + (1 << 17) + info.weight_bytes / 3 : 0, 2);
        qn_session *s = rig_session(e, (qn_session_options){.n_batch = N, .embeddings = true});
        qn_engine_memory m;
        for (int i = 0; i < 3; i++)
            MUST(qn_session_embeddings(s, &(qn_embedding_text){tokens, N}, 1, NULL, limited ? got : want, err));
        taken = live() + QN_PAGING_RESERVE;
        qn_engine_get_info(e, &info);
        qn_engine_get_memory(e, &m);
        if (limited) assert_true(m.streamed_bytes > 0 && m.dropped_bytes > 0);
        qn_session_destroy(s);
        qn_engine_close(e);
    }
    assert_memory_equal(want, got, sizeof(want));
}

/* Too little for the session is refused before anything is allocated, and what fits is said. */
static void too_little(void **state)
{
    (void)state;
    const uint64_t sizes[] = {1, 4096, QN_PAGING_RESERVE, UINT64_MAX - 1};
    for (int i = 0; i < 4; i++) {
        qn_engine *e = open(0, sizes[i], 1);
        qn_session *s = NULL;
        if (i < 3)
            REFUSED(limit, qn_session_create(e, &(qn_session_options){.n_ctx = 64}, &s, err), "64 tokens", "none fits");
        else
            MUST(qn_session_create(e, &(qn_session_options){.n_ctx = 64}, &s, err));
        qn_session_destroy(s);
        qn_engine_close(e);
    }
    qn_engine *e = NULL;
    const qn_engine_options o = {.memory = 1000, .policy = QN_GGUF_populate};
    MUST(tiny_write(tiny_path("p.gguf"), &models[0], err));
    REFUSED(limit, qn_engine_open(tiny_path("p.gguf"), &o, &e, err), "loading takes", "lazy");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_same_bits), cmocka_unit_test(nothing_is_done_when_all_fits),
                                       cmocka_unit_test(engines_share), cmocka_unit_test(idle_engines_give_back),
                                       cmocka_unit_test(free_memory),   cmocka_unit_test(sessions_in_threads),
                                       cmocka_unit_test(embeddings),    cmocka_unit_test(too_little)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
