/* SPDX-License-Identifier: MIT */
/* A failing allocator under a recording: starting fails cleanly or not at all; what runs while it is on is never
 * touched, whatever the recording gets no memory for, which is counted; reading fails with nomem and gives all back. */
#include "failing.h"
#include <quern/trace.h>
#include <unistd.h>

static char path[64];

typedef struct work {
    qn_engine *engine;
    qn_token tokens[12];
    rig_row want;
    bool steps; /* something was recorded before memory was short */
} work;

/* The session is made with memory at hand; what fails is the recording's alone. */
static qn_status record(void *ctx, qn_error *e)
{
    work *w = ctx;
    qn_trace_summary summary;
    const qn_status status = qn_trace_start(path, NULL, e);
    if (status != QN_OK) return status;
    const long n = hook.n, at = hook.fail_at;
    const bool all_after = hook.all_after;
    hook_arm(-1, false);
    qn_session *s = rig_session(w->engine, (qn_session_options){.n_ctx = 64, .n_batch = 16});
    rig_feed(s, 0, w->tokens, 10);
    const rig_row got = rig_logits(s, -1);
    qn_session_destroy(s);
    hook_arm(at, all_after);
    hook.n = n;
    MUST(qn_trace_stop(&summary, err)); /* nobody is told of a recording's troubles but here */
    SAME(got, w->want);
    return QN_OK;
}

static void recording(void **state)
{
    (void)state;
    work w = {.engine = rig_open(&(tiny){.arch = "llama"}, &(qn_engine_options){.n_threads = 1})};
    rig_story(0, w.tokens, 12);
    qn_session *s = rig_session(w.engine, (qn_session_options){.n_ctx = 64, .n_batch = 16});
    rig_feed(s, 0, w.tokens, 10);
    w.want = rig_logits(s, -1);
    qn_session_destroy(s);
    for (int all_after = 0; all_after < 2; all_after++) {
        bool through = false;
        long n_failed = 0;
        for (long at = 0; !through; at++) {
            qn_error e = {0};
            const long before = hook.live;
            hook_arm(at, all_after);
            const qn_status status = record(&w, &e);
            through = hook.n <= at;
            hook_arm(-1, false);
            if (hook.live != before)
                fail_msg("allocation %ld: %ld blocks are out, %ld before (%s)", at, (long)hook.live, before, e.text);
            assert_true(status == QN_OK || (status == QN_STATUS_nomem && e.text[0]));
            n_failed += status != QN_OK;
            assert_in_range(at, 0, 2000);
        }
        assert_true(n_failed > 5);
    }
    qn_engine_close(w.engine);
}

static qn_status read_all(void *ctx, qn_error *e)
{
    qn_trace *t = NULL;
    (void)ctx;
    const qn_status status = qn_trace_open(path, &t, e);
    qn_trace_close(t);
    return status;
}

static void reading(void **state)
{
    (void)state;
    qn_engine *engine = rig_open(&(tiny){.arch = "llama"}, &(qn_engine_options){.n_threads = 1});
    qn_token tokens[12];
    rig_story(0, tokens, 12);
    MUST(qn_trace_start(path, &(qn_trace_options){.ops = "attention"}, err));
    qn_session *s = rig_session(engine, (qn_session_options){.n_ctx = 64, .n_batch = 16});
    rig_feed(s, 0, tokens, 10);
    qn_session_destroy(s);
    MUST(qn_trace_stop(NULL, err));
    qn_engine_close(engine);
    fault_sweep("read", read_all, NULL, NULL);
}

int main(void)
{
    snprintf(path, sizeof path, "fault-trace-%ld.qtr", (long)getpid());
    const struct CMUnitTest tests[] = {cmocka_unit_test(recording), cmocka_unit_test(reading)};
    const int failed = cmocka_run_group_tests(tests, hook_install, hook_remove);
    remove(path);
    return failed;
}
