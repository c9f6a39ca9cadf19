/* SPDX-License-Identifier: MIT */
/* Answers that fill the context and go on: each as if what was left out had never been there, computed anew from its
 * beginning by a session of its own, whoever else is served and however often its cells were taken away. */
#include "crowd.h"

enum { N = 20, CTX = 48 };

typedef struct rig {
    qn_engine *e;
    qn_session *alone;
    crowd_request r[N];
} rig;

static const qn_logit_bias no_end = {2, -INFINITY};

/* Every way to say what stays and what goes, for each kind of sampler. */
static crowd_request make(int i)
{
    static const int keep[] = {0, 3, -1, 1000, CTX - 5}, discard[] = {0, 0, 1, 9, 1000, 0, 0};
    static const qn_sampler_params samplers[] = {
        {.greedy = true},
        {.temperature = 1.5f},
        {.repeat_penalty = 1.3f, .penalty_last_n = 50},
        {.mirostat = 2},
    };
    crowd_request r = {.n_prompt = 1 + i * 7 % 20,
                       .n_answer = CROWD_ANSWER - i % 5,
                       .sampler = samplers[i % 4],
                       .context_shift = true,
                       .n_keep = keep[i % 5],
                       .n_discard = discard[i % 7],
                       .cancel_after = -1};
    r.sampler.seed = 50 + (uint64_t)i;
    r.sampler.logit_bias = &no_end;
    r.sampler.n_logit_bias = 1;
    snprintf(r.key, sizeof(r.key), "key%d", i % 2);
    rig_story(i % 3, r.prompt, r.n_prompt);
    return r;
}

static void set_up(rig *g, const tiny *model, int n_threads)
{
    g->e = rig_open(model, &(qn_engine_options){.n_threads = n_threads});
    g->alone = crowd_session_of(g->e, CTX);
}

static void tear_down(rig *g)
{
    qn_session_destroy(g->alone);
    qn_engine_close(g->e);
}

static void as_if_it_had_never_been(void **state)
{
    (void)state;
    static const qn_batcher_options kinds[] = {
        {.session = {.n_ctx = CTX, .n_batch = 7}, .n_parallel = 3}, /* cells for one: others are set back */
        {.session = {.n_ctx = CTX}, .n_parallel = 5, .no_cache = true},
    };
    static const struct {
        tiny model;
        int n_threads;
    } models[] = {
        {{.arch = "llama"}, 2},
#ifndef __SANITIZE_THREAD__ /* a race would be the batcher's, whatever the architecture */
        {{.arch = "gemma3", .extra = tiny_window}, 1},
        {{.arch = "gpt2"}, 1}, /* positions are learned: cells could not be moved */
#endif
    };
    uint64_t n_set_backs = 0;
    rig g;
    for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++) {
        set_up(&g, &models[m].model, models[m].n_threads);
        for (int i = 0; i < N; i++) {
            g.r[i] = make(i);
            crowd_expect(g.alone, &g.r[i]);
            assert_true(g.r[i].left_out > 0 && g.r[i].want.n == g.r[i].n_answer);
        }
        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
            qn_batcher *b = crowd_batcher(g.e, kinds[k]);
            qn_batcher_stats stats;
            for (int i = 0; i < N; i++) MUST(crowd_submit(b, &g.r[i], err));
            for (int i = 0; i < N; i++) {
                crowd_wait(&g.r[i]);
                CROWD_SAME(&g.r[i]);
                assert_int_equal(g.r[i].usage.n_left_out, g.r[i].left_out);
                assert_int_equal(g.r[i].usage.n_read, g.r[i].n_prompt);
            }
            crowd_quiet(b, &stats);
            assert_true(stats.n_context_shifts > N);
            assert_int_equal(stats.n_cells, stats.n_free_cells + stats.n_cached_cells);
            n_set_backs += stats.n_set_backs;
            qn_batcher_destroy(b);
        }
        tear_down(&g);
    }
    assert_true(n_set_backs > 0);
}

/* A prompt and its answer may come back as one prompt that is too long: it goes on where the answer would. */
static void goes_on_with_a_long_prompt(void **state)
{
    (void)state;
    rig g;
    set_up(&g, &(tiny){.arch = "llama"}, 1);
    qn_batcher *b = crowd_batcher(g.e, (qn_batcher_options){.session = {.n_ctx = CTX}, .n_parallel = 2});
    for (int keep = 0; keep < 12; keep += 11) {
        crowd_request whole = make(0), rest;
        whole.n_prompt = 10;
        whole.n_keep = keep;
        rig_story(4, whole.prompt, whole.n_prompt);
        crowd_expect(g.alone, &whole);
        for (int n = 18; n < 50; n += 3) { /* tokens of the answer that are in the prompt */
            rest = whole;
            memcpy(rest.prompt + rest.n_prompt, whole.want.tokens, (size_t)n * sizeof(qn_token));
            rest.n_prompt += n;
            rest.n_answer -= n;
            rest.want.n -= n;
            memmove(rest.want.tokens, rest.want.tokens + n, (size_t)rest.want.n * sizeof(qn_token));
            memmove(rest.want.logprobs, rest.want.logprobs + n, (size_t)rest.want.n * sizeof(float));
            MUST(crowd_submit(b, &rest, err));
            crowd_wait(&rest);
            CROWD_SAME(&rest);
            assert_int_equal(rest.usage.n_left_out, whole.left_out);
        }
    }
    qn_batcher_destroy(b);
    tear_down(&g);
}

/* It ends: at max_tokens, and without that where the context is full. */
static void ends(void **state)
{
    (void)state;
    rig g;
    set_up(&g, &(tiny){.arch = "llama"}, 1);
    qn_batcher *b = crowd_batcher(g.e, (qn_batcher_options){.session = {.n_ctx = CTX}, .n_parallel = 2});
    crowd_request r = make(0);
    const int room = CTX + 1 - r.n_prompt; /* the last needs no cell */
    for (int n = room - 1; n <= room + 1; n++) {
        r.n_answer = n;
        MUST(crowd_submit(b, &r, err));
        crowd_wait(&r);
        assert_int_equal(r.got.end, QN_BATCH_END_length);
        assert_int_equal(r.got.n, n);
        assert_int_equal(r.usage.n_left_out > 0, n > room);
    }
    r.n_answer = 0;
    MUST(crowd_submit(b, &r, err));
    crowd_wait(&r);
    assert_int_equal(r.got.end, QN_BATCH_END_context);
    assert_int_equal(r.got.n, room);
    assert_int_equal(r.usage.n_left_out, 0);
    r.n_discard = -1;
    REFUSED(invalid, crowd_submit(b, &r, err), "n_discard", "-1");
    qn_batcher_destroy(b);
    tear_down(&g);
}

/* One that would never end makes way for those that wait, also for one whose prompt has no room beside it. */
static void makes_way(void **state)
{
    (void)state;
    rig g;
    set_up(&g, &(tiny){.arch = "llama"}, 1);
    qn_batcher *b = crowd_batcher(g.e, (qn_batcher_options){.session = {.n_ctx = CTX}, .n_parallel = 4});
    crowd_request endless = make(0), large = make(1), small = make(2);
    endless.n_answer = INT32_MAX;
    MUST(crowd_submit(b, &endless, err));
    while (atomic_load(&endless.n_got) < CROWD_ANSWER) usleep(200);
    large.n_prompt = CTX - 8;
    rig_story(1, large.prompt, large.n_prompt);
    large.n_answer = small.n_answer = 4;
    MUST(crowd_submit(b, &large, err));
    MUST(crowd_submit(b, &small, err));
    crowd_wait(&large);
    crowd_wait(&small);
    assert_int_equal(large.got.end, QN_BATCH_END_length);
    assert_int_equal(small.got.end, QN_BATCH_END_length);
    qn_batcher_cancel(b, endless.id);
    crowd_wait(&endless);
    assert_true(endless.usage.n_set_back > 0);
    qn_batcher_destroy(b);
    tear_down(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_if_it_had_never_been),
        cmocka_unit_test(goes_on_with_a_long_prompt),
        cmocka_unit_test(ends),
        cmocka_unit_test(makes_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
