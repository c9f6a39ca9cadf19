/* SPDX-License-Identifier: MIT */
/* A failing allocator under a batcher: it cannot be created, a request is refused, or requests end with nomem; whoever
 * gets through has the tokens that it gets alone, and everything comes back. */
#include "failing.h"
#include "unit/engine/crowd.h"

enum { N = 4, CTX = 24 };

typedef struct work {
    qn_engine *engine;
    qn_grammar *grammar;
    crowd_request r[N];
    bool wrong;
} work;

static bool as_wanted(const crowd_request *r)
{
    return r->got.end == r->want.end && r->got.n == r->want.n &&
           memcmp(r->got.tokens, r->want.tokens, (size_t)r->got.n * sizeof(qn_token)) == 0;
}

static qn_status serve(void *ctx, qn_error *err)
{
    work *w = ctx;
    qn_batcher *b = NULL;
    bool taken[N] = {false};
    const qn_batcher_options o = {.session = {.n_ctx = CTX, .n_batch = 16, .no_plan_cache = true}, .n_parallel = 3};
    qn_status status = qn_batcher_create(w->engine, &o, &b, err);
    if (status != QN_OK) return status;
    for (int i = 0; i < N; i++) {
        qn_error own = {0};
        const qn_status s = crowd_submit(b, &w->r[i], &own);
        taken[i] = s == QN_OK;
        if (s == QN_OK) continue;
        status = s;
        *err = own;
    }
    for (int i = 0; i < N; i++) {
        crowd_request *r = &w->r[i];
        if (!taken[i]) continue;
        crowd_wait(r);
        if (r->got.end == QN_BATCH_END_error) {
            status = r->error.status;
            *err = r->error;
        } else {
            w->wrong = w->wrong || !as_wanted(r);
        }
    }
    qn_batcher_destroy(b);
    return status;
}

static void right(void *ctx) { assert_false(((work *)ctx)->wrong); }

static void a_batcher(void **state)
{
    (void)state;
    work *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    w->engine = rig_open(&(tiny){.arch = "llama", .n_layer = 1}, &(qn_engine_options){.n_threads = 1});
    MUST(qn_grammar_create("root ::= [a-z]+", NULL, &w->grammar, err));
    qn_session *alone = crowd_session(w->engine), *narrow = crowd_session_of(w->engine, CTX);
    for (int i = 0; i < N; i++) {
        crowd_make(alone, &w->r[i], i + 4, i == 1 ? w->grammar : NULL, NULL);
        if (w->r[i].n_answer > 3) w->r[i].n_answer = 3;
        if (w->r[i].n_prompt > 12) w->r[i].n_prompt = 12;
        crowd_expect(alone, &w->r[i]);
    }
    crowd_request *fills = &w->r[N - 1]; /* the context, and goes on */
    fills->context_shift = true;
    fills->n_prompt = CTX - 2;
    fills->n_answer = 5;
    fills->n_discard = CTX - 6;
    rig_story(1, fills->prompt, fills->n_prompt);
    crowd_expect(narrow, fills);
    assert_int_equal(fills->left_out, CTX - 6);
    qn_session_destroy(narrow);
    qn_session_destroy(alone);
    qn_error err;
    assert_int_equal(serve(w, &err), QN_OK); /* what is made once is made */
    fault_sweep("a batcher serves", serve, right, w);
    qn_grammar_destroy(w->grammar);
    qn_engine_close(w->engine);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_batcher)};
    return cmocka_run_group_tests(tests, hook_install, hook_remove);
}
