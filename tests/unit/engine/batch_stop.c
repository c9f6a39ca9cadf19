/* SPDX-License-Identifier: MIT */
/* Steps that are stopped for somebody who comes: a shorter prompt is read first, whatever is cancelled ends, and each
 * gets what it gets alone; so does a session whose decodes are stopped at any moment. */
#include "crowd.h"
#include "engine/batch.h"

enum { LONG = 56, SHORT = 9, AT_ONCE = 16 };

/* The long one, and what happens at a node of a step that reads it: on the executor, while the step is computed. */
typedef struct scene {
    qn_batcher *b;
    crowd_request big, small;
    int n_nodes, at; /* seen, and the one at which it happens */
    bool cancel;
    _Atomic bool set;
    qn_status status;
    qn_error error;
} scene;

static bool happen(void *ctx, const qn_node *node, bool after)
{
    scene *s = ctx;
    (void)node;
    if (after || s->n_nodes++ != s->at) return true;
    if (s->cancel)
        qn_batcher_cancel(s->b, s->big.id);
    else
        s->status = crowd_submit(s->b, &s->small, &s->error);
    return true;
}

/* On the executor, whose these are: times on which AT_ONCE tokens of the long prompt are read at once. */
static void set_scene(void *ctx, const qn_batch_event *e)
{
    scene *s = ctx;
    if (e->kind != QN_BATCH_end) return;
    const double token_s = 0.5 / (AT_ONCE + 0.5);
    s->b->pace = (qn_pace){.stops = s->b->pace.stops, .token_s = {token_s, token_s}};
    s->b->session->eval = happen;
    s->b->session->eval_ctx = s;
    atomic_store(&s->set, true);
}

static qn_batcher *open_scene(qn_engine *e, scene *s)
{
    qn_session *alone = crowd_session(e);
    s->big = (crowd_request){.n_prompt = LONG, .n_answer = 20, .cancel_after = -1, .sampler = {.seed = 3}};
    s->small = (crowd_request){.n_prompt = SHORT, .n_answer = 20, .cancel_after = -1, .sampler = {.seed = 4}};
    rig_story(1, s->big.prompt, LONG);
    rig_story(2, s->small.prompt, SHORT);
    crowd_expect(alone, &s->big);
    crowd_expect(alone, &s->small);
    qn_session_destroy(alone);
    s->b = crowd_batcher(e, (qn_batcher_options){.session = {.n_ctx = 400}, .n_parallel = 4});
    uint64_t id;
    const qn_token any = 7;
    const qn_batch_request first = {
        .prompt = &any, .n_prompt = 1, .max_tokens = 1, .no_cache = true, .fn = set_scene, .ctx = s};
    MUST(qn_batcher_submit(s->b, &first, &id, err));
    while (!atomic_load(&s->set)) usleep(200);
    return s->b;
}

/* At the first node, and at later ones, of models that remember all, and that forget behind a window. */
static void shorter_first(void **state)
{
    (void)state;
    static const char *const archs[] = {"llama", "gemma3"};
    for (int k = 0; k < 4; k++) {
        qn_engine *e = rig_open(&(tiny){.arch = archs[k / 2]}, &(qn_engine_options){.n_threads = 2});
        scene s = {.at = k % 2 ? 17 : 0};
        qn_batcher_stats stats;
        qn_batcher *b = open_scene(e, &s);
        MUST(crowd_submit(b, &s.big, err));
        crowd_wait(&s.big);
        if (s.status != QN_OK) fail_msg("%s", s.error.text);
        crowd_wait(&s.small);
        CROWD_SAME(&s.big);
        CROWD_SAME(&s.small);
        /* it came when nothing of the long one was read, and had its first token before that was */
        assert_true(s.small.usage.read_ns < s.big.usage.read_ns);
        qn_batcher_get_stats(b, &stats);
        assert_int_equal(stats.n_stopped, 1);
        assert_int_equal(stats.tokens_read, 1 + LONG + SHORT);
        assert_int_equal(stats.tokens_read_again, 0);
        qn_batcher_destroy(b);
        qn_engine_close(e);
    }
}

/* A prompt as long as the rest would be read behind it: the step goes on. One that is cancelled ends at once. */
static void only_for_a_reason(void **state)
{
    (void)state;
    for (int cancel = 0; cancel < 2; cancel++) {
        qn_engine *e = rig_open(&(tiny){.arch = "llama"}, NULL);
        scene s = {.at = 3, .cancel = cancel};
        qn_batcher_stats stats;
        qn_batcher *b = open_scene(e, &s);
        if (!cancel) {
            s.small = s.big;
            rig_story(5, s.small.prompt, LONG);
            qn_session *alone = crowd_session(e);
            s.small.want = (crowd_answer){0};
            crowd_expect(alone, &s.small);
            qn_session_destroy(alone);
        }
        MUST(crowd_submit(b, &s.big, err));
        crowd_wait(&s.big);
        if (cancel) {
            assert_int_equal(s.big.got.end, QN_BATCH_END_cancelled);
            assert_int_equal(s.big.usage.n_read, 0);
        } else {
            if (s.status != QN_OK) fail_msg("%s", s.error.text);
            crowd_wait(&s.small);
            CROWD_SAME(&s.big);
            CROWD_SAME(&s.small);
        }
        qn_batcher_get_stats(b, &stats);
        assert_int_equal(stats.n_stopped, cancel);
        qn_batcher_destroy(b);
        qn_engine_close(e);
    }
}

/* The end of a cancelled request, before the executor looks at who waits: the next prompt comes just then. */
static void at_its_end(void *ctx, const qn_batch_event *e)
{
    scene *s = ctx;
    if (e->kind == QN_BATCH_end) s->status = crowd_submit(s->b, &s->small, &s->error);
}

/* Whoever comes between two steps is part of the second, or was seen not to be: it isn't stopped for that. */
static void not_for_who_was_seen(void **state)
{
    (void)state;
    qn_engine *e = rig_open(&(tiny){.arch = "llama"}, NULL);
    scene s = {.at = 3, .cancel = true};
    qn_batcher_stats stats;
    qn_batcher *b = open_scene(e, &s);
    s.small = s.big;
    const qn_batch_request first = {
        .prompt = s.big.prompt, .n_prompt = LONG, .max_tokens = 1, .no_cache = true, .fn = at_its_end, .ctx = &s};
    MUST(qn_batcher_submit(b, &first, &s.big.id, err)); /* cancelled at its fourth node */
    while (!atomic_load(&s.small.ended)) usleep(200);
    if (s.status != QN_OK) fail_msg("%s", s.error.text);
    CROWD_SAME(&s.small);
    qn_batcher_get_stats(b, &stats);
    assert_int_equal(stats.n_stopped, 1);
    qn_batcher_destroy(b);
    qn_engine_close(e);
}

/* ---- a session's decode, stopped by another thread ---- */

typedef struct stopper {
    qn_session *session;
    _Atomic bool done;
} stopper;

static void *stop_often(void *arg)
{
    stopper *s = arg;
    for (unsigned i = 1; !atomic_load(&s->done); i = i * 1664525 + 1013904223) {
        usleep(i >> 25);
        qn_session_stop(s->session, true);
    }
    return NULL;
}

static void at_any_moment(void **state)
{
    (void)state;
    enum { TIMES = 60 };
    static stopper s;
    qn_token tokens[LONG];
    rig_story(0, tokens, LONG);
    for (int threads = 1; threads <= 3; threads++) {
        pthread_t thread;
        int n_stopped = 0;
        qn_engine *e = rig_open(&(tiny){.arch = "gemma3"}, &(qn_engine_options){.n_threads = threads});
        const rig_row want = rig_fresh(e, (qn_session_options){0}, tokens, LONG);
        qn_session *session = rig_session(e, (qn_session_options){0});
        s.session = session;
        qn_session_stop(session, true);
        REFUSED(cancelled, qn_session_feed(session, 0, tokens, LONG, err), "stopped");
        atomic_store(&s.done, false);
        assert_int_equal(pthread_create(&thread, NULL, stop_often, &s), 0);
        for (int i = 0; i < TIMES || n_stopped < 5; i++) {
            qn_error error;
            qn_session_stop(session, false);
            const qn_status status = qn_session_feed(session, 0, tokens, LONG, &error);
            if (status != QN_OK && status != QN_STATUS_cancelled) fail_msg("%s", error.text);
            n_stopped += status != QN_OK;
            if (status == QN_OK) SAME(rig_logits(session, -1), want);
            MUST(qn_session_seq_remove(session, 0, 0, -1, err));
        }
        atomic_store(&s.done, true);
        pthread_join(thread, NULL);
        qn_session_stop(session, false);
        rig_feed(session, 0, tokens, LONG);
        SAME(rig_logits(session, -1), want);
        qn_session_destroy(session);
        qn_engine_close(e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shorter_first), cmocka_unit_test(only_for_a_reason),
                                       cmocka_unit_test(not_for_who_was_seen), cmocka_unit_test(at_any_moment)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
