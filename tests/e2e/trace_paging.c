/* SPDX-License-Identifier: MIT */
/* tests/e2e/trace_paging.c -- what a trace of a run with enough memory says that less of it would cost is what an
 * engine with so much then does: the same blocks stay, the same bytes are read again, the same experts are missed. And
 * where only a table finds no room, nothing is read again. */
#include "base/paging.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <quern/quern.h>

#include <cmocka.h>

#define MUST(call) \
    do { \
        if ((call) != QN_OK) fail_msg("%s: %s", #call, err.text); \
    } while (0)
enum { N_VOCAB = 16384, N_TOKENS = 24, PROMPT = 600 };
#define EVER (UINT64_MAX - 1)

static qn_error err;
static char folder[64], path[96];

static const char *const of_experts[] = {"expert_count=16", "expert_used_count=3", "expert_feed_forward_length=64",
                                         NULL};
static const qn_synth_options models[] = {{.arch = "llama",
                                           .n_layer = 6,
                                           .n_embd = 128,
                                           .n_head = 4,
                                           .n_ff = 512,
                                           .n_vocab = N_VOCAB,
                                           .n_ctx = 1024,
                                           .type = "F16"},
                                          {.arch = "qwen3moe",
                                           .n_layer = 4,
                                           .n_embd = 128,
                                           .n_head = 4,
                                           .n_ff = 128,
                                           .n_vocab = 1024,
                                           .n_ctx = 1024,
                                           .type = "F16",
                                           .set = of_experts}};
enum { DENSE, MIXTURE, MODELS };

static const char *model(int i)
{
    static char name[2][96];
    snprintf(name[i], sizeof name[i], "%s/model-%d.gguf", folder, i);
    return name[i];
}

static int make_models(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "trace-paging-%ld", (long)getpid());
    snprintf(path, sizeof path, "%s/t.qtr", folder);
    assert_int_equal(mkdir(folder, 0777), 0);
    for (int i = 0; i < MODELS; i++) MUST(qn_synth(model(i), &models[i], NULL, NULL, &err));
    return 0;
}

static int remove_models(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++) remove(model(i));
    remove(path);
    remove(folder);
    return 0;
}

typedef struct running {
    qn_engine *engine;
    qn_session *session;
} running;

static running start(int i, uint64_t memory)
{
    running r = {0};
    MUST(qn_engine_open(model(i), &(qn_engine_options){.n_threads = 2, .memory = memory}, &r.engine, &err));
    MUST(qn_session_create(r.engine, &(qn_session_options){.n_ctx = 1024, .n_batch = 64}, &r.session, &err));
    return r;
}

static void stop(running r)
{
    qn_session_destroy(r.session);
    qn_engine_close(r.engine);
}

/* Tokens from..end-1, one by one; returns what memory came to. */
static qn_engine_memory tell(running r, int from, int end)
{
    qn_engine_memory m;
    for (int i = from; i < end; i++) {
        const qn_token token = 7 + i * 31 % 500;
        MUST(qn_session_feed(r.session, 0, &token, 1, &err));
    }
    qn_engine_get_memory(r.engine, &m);
    return m;
}

/* What is taken beside the weights, of which budget_bytes are the rest. A trace that is open is part of it. */
static uint64_t taken_by(int i)
{
    running r = start(i, EVER);
    const qn_engine_memory m = tell(r, 0, 1);
    stop(r);
    assert_int_equal(m.streamed_bytes, 0);
    return EVER - m.budget_bytes;
}

static qn_trace *record(int i)
{
    qn_trace *t = NULL;
    MUST(qn_trace_start(path, NULL, &err));
    running r = start(i, 0);
    (void)tell(r, 0, N_TOKENS);
    MUST(qn_trace_stop(NULL, &err)); /* the last look at what is allocated finds the session there */
    stop(r);
    MUST(qn_trace_open(path, &t, &err));
    return t;
}

static uint64_t apart(double a, double b) { return (uint64_t)(a > b ? a - b : b - a); }

/* With the same budget. */
static void compare(qn_trace *t, const qn_engine_memory *half, const qn_engine_memory *m, uint64_t block,
                    uint64_t expert)
{
    qn_trace_paging p;
    MUST(qn_trace_get_paging(t, 0, 0, &p, &err));
    MUST(qn_trace_get_paging(t, m->budget_bytes + p.taken_bytes + p.reserve_bytes, 0, &p, &err));
    assert_int_equal(p.budget_bytes, m->budget_bytes);
    assert_int_equal(p.n_tokens, N_TOKENS / 2);
    if (p.fits) {
        assert_int_equal(m->dropped_bytes + m->streamed_bytes + m->expert_misses, 0);
        return;
    }
    assert_int_equal(p.window_bytes, m->window_bytes);
    assert_true(apart((double)p.kept_bytes, (double)m->kept_bytes) <= 2 * block);
    assert_true(apart(p.ahead_bytes, (double)m->streamed_bytes) <= 2 * block);
    if (expert == 0) {
        const double read = (double)(m->read_bytes - half->read_bytes) / (N_TOKENS / 2);
        assert_true(apart(read, p.ahead_bytes) <= m->window_bytes + 2 * block);
        assert_true(p.expert_bytes == 0);
        return;
    }
    const double missed = (double)((m->expert_misses - half->expert_misses) * expert) / (N_TOKENS / 2);
    if (apart(missed, p.expert_bytes) * 20 > (uint64_t)missed)
        fail_msg("%.0f bytes of experts a token, %.0f were predicted", missed, p.expert_bytes);
}

static void as_predicted(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        struct stat st;
        qn_trace_paging all;
        const uint64_t without = taken_by(i), expert = i == MIXTURE ? 128 * 64 * 2 : 0;
        assert_int_equal(stat(model(i), &st), 0);
        qn_trace *t = record(i);
        const uint64_t taken = taken_by(i);
        MUST(qn_trace_get_paging(t, EVER, 0, &all, &err));
        assert_true(all.fits && all.ahead_bytes == 0 && all.expert_bytes == 0);
        /* not far from what this process has taken, which has the recorder's threads no more */
        const uint64_t said = all.taken_bytes + QN_PAGING_RESERVE;                /* that of a size that is given */
        assert_true(said > without - (256 << 10) && said < without + (64 << 10)); /* and what a pager has */
        const uint64_t size = (uint64_t)st.st_size, block = qn__paging_block(size);
        bool missed = false, streamed = false;
        for (int part = 11; part < 24; part += 3) { /* twentieths; with less than half a session is refused */
            const uint64_t memory = taken + size * (uint64_t)part / 20;
            running r = start(i, memory);
            const qn_engine_memory half = tell(r, 0, N_TOKENS / 2), m = tell(r, N_TOKENS / 2, N_TOKENS);
            compare(t, &half, &m, block, expert);
            /* of a size that is given an engine leaves weights what was said; the trace that is open is not in it */
            MUST(qn_trace_get_paging(t, memory, 0, &all, &err));
            if (apart((double)all.budget_bytes, (double)m.budget_bytes) > (3 << 20))
                fail_msg("%llu bytes for weights, %llu were said", (unsigned long long)m.budget_bytes,
                         (unsigned long long)all.budget_bytes);
            missed |= m.expert_misses > half.expert_misses;
            streamed |= m.streamed_bytes > 0;
            stop(r);
        }
        assert_true(streamed || i == MIXTURE);
        assert_true(missed == (i == MIXTURE));
        qn_trace_close(t);
    }
}

/* What the recording itself has, and what of that has grown, is not the library's: values of each node, one by one. */
static void of_the_recording_nothing(void **state)
{
    (void)state;
    qn_metrics m;
    qn_trace *t = NULL;
    running r = start(DENSE, 0);
    MUST(qn_session_tap(r.session, "*=record", &err));
    (void)tell(r, 0, N_TOKENS);
    qn_metrics_snapshot(&m);
    MUST(qn_trace_start(path, NULL, &err));
    for (int i = 0; i < 8; i++) (void)tell(r, 0, N_TOKENS);
    MUST(qn_trace_stop(NULL, &err));
    MUST(qn_trace_open(path, &t, &err));
    const char *note = qn_trace_find_note(t, "live_bytes");
    assert_non_null(note);
    const uint64_t said = strtoull(note, NULL, 10);
    if (apart((double)said, (double)m.live_bytes) > (32 << 10))
        fail_msg("%llu bytes are said to be allocated, %llu are", (unsigned long long)said,
                 (unsigned long long)m.live_bytes);
    qn_trace_close(t);
    stop(r);
}

/* What there is a place for is read while nobody waits, and once: from then on what is read is what is missed. */
static void places_are_read_early(void **state)
{
    (void)state;
    const uint64_t expert = 128 * 64 * 2, taken = taken_by(MIXTURE);
    struct stat st;
    assert_int_equal(stat(model(MIXTURE), &st), 0);
    for (int part = 17; part < 22; part += 2) { /* twentieths: what is not of experts stays */
        running r = start(MIXTURE, taken + (uint64_t)st.st_size * (uint64_t)part / 20);
        qn_engine_memory m = tell(r, 0, 1);
        assert_true(m.streamed_bytes == 0 && m.expert_bytes > 20 * expert);
        const uint64_t early = m.kept_bytes + m.expert_bytes;
        for (int i = 0; i < 2000 && m.read_bytes < early; i++) {
            usleep(10000);
            qn_engine_get_memory(r.engine, &m);
        }
        const qn_engine_memory later = tell(r, 1, N_TOKENS);
        assert_true(later.expert_misses > m.expert_misses); /* the first may have taken places that were not read yet */
        assert_in_range(later.read_bytes, early + (later.expert_misses - m.expert_misses) * expert,
                        early + later.expert_misses * expert);
        assert_int_equal((later.read_bytes - early) % expert, 0);
        stop(r);
    }
}

/* Of 4 MiB for embeddings and 4 for the output the rows that are looked up stay as long as there is room for them. */
static void tables_alone(void **state)
{
    (void)state;
    static qn_token tokens[PROMPT];
    qn_trace_paging all;
    const uint64_t table = (uint64_t)N_VOCAB * 128 * 2, rows = qn__paging_rows(table, N_VOCAB);
    for (int i = 0; i < PROMPT; i++) tokens[i] = i * 27 % N_VOCAB;
    qn_trace *t = record(DENSE);
    const uint64_t taken = taken_by(DENSE);
    MUST(qn_trace_get_paging(t, 0, 0, &all, &err));
    const uint64_t whole = (uint64_t)all.ahead_bytes;
    assert_true(rows + (512 << 10) < table);
    const uint64_t memory = taken + whole + rows + (256 << 10);
    running r = start(DENSE, memory);
    MUST(qn_session_feed(r.session, 0, tokens, PROMPT, &err));
    qn_engine_memory m = tell(r, 0, 2), later = tell(r, 2, 6);
    assert_int_equal(m.streamed_bytes, 0);
    assert_int_equal(m.window_bytes, 0);
    assert_int_equal(m.kept_bytes, whole);
    for (int i = 0; i < 1000 && m.dropped_bytes != table; i++) { /* by a thread that may have to wait for a processor */
        usleep(10000);
        qn_engine_get_memory(r.engine, &m);
    }
    assert_int_equal(m.dropped_bytes, table);
    assert_true(later.read_bytes <= later.kept_bytes);
    assert_int_equal(later.waits, 0);
    stop(r);
    MUST(qn_trace_get_paging(t, m.budget_bytes + all.taken_bytes + all.reserve_bytes, 0, &all, &err));
    assert_true(!all.fits && all.ahead_bytes == 0);
    qn_trace_close(t);
}

/* Pages come with what the kernel reads around them: with less room than that they come again and again. */
static void left_to_the_kernel(void **state)
{
    (void)state;
    qn_trace *t = record(DENSE);
    qn_trace_paging p;
    MUST(qn_trace_get_paging(t, EVER, 1 << 20, &p, &err));
    assert_true(p.kernel_bytes == 0);
    struct stat st;
    assert_int_equal(stat(model(DENSE), &st), 0);
    MUST(qn_trace_get_paging(t, 0, 0, &p, &err));
    const uint64_t others = p.taken_bytes + QN_PAGING_LATER;
    MUST(qn_trace_get_paging(t, others + (uint64_t)st.st_size / 2, 1 << 20, &p, &err));
    assert_true(p.kernel_bytes > (double)st.st_size * 0.5 && p.kernel_bytes <= (double)st.st_size + (2 << 20));
    assert_true(p.ahead_bytes < p.kernel_bytes);
    qn_trace_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_predicted), cmocka_unit_test(of_the_recording_nothing),
                                       cmocka_unit_test(tables_alone), cmocka_unit_test(places_are_read_early),
                                       cmocka_unit_test(left_to_the_kernel)};
    return cmocka_run_group_tests(tests, make_models, remove_models);
}
