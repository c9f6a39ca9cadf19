/* SPDX-License-Identifier: MIT */
/* What a batcher has cached is what the requests before had in common with this one, computed here by comparing texts;
 * of whom, under which adapters, for how long, and what goes first. */
#include "adapter.h"
#include "crowd.h"

enum { LONG = 300 };

typedef struct talk {
    qn_token tokens[LONG]; /* a prompt; then also what was answered */
    int n;
    int n_cached;
    qn_batch_end end;
    _Atomic bool ended;
} talk;

static void hear(void *ctx, const qn_batch_event *e)
{
    talk *t = ctx;
    if (e->kind == QN_BATCH_token && t->n < LONG) t->tokens[t->n++] = e->token;
    if (e->kind != QN_BATCH_end) return;
    t->n_cached = e->usage.n_cached;
    t->end = e->end;
    atomic_store(&t->ended, true);
}

static qn_batch_request ask_of(talk *t, const char *key, int n_answer, const qn_sampler_params *sampler)
{
    atomic_store(&t->ended, false);
    return (qn_batch_request){.prompt = t->tokens,
                              .n_prompt = (size_t)t->n,
                              .key = key,
                              .max_tokens = n_answer,
                              .sampler = sampler,
                              .fn = hear,
                              .ctx = t};
}

static void say(qn_batcher *b, talk *t, const qn_batch_request *r)
{
    uint64_t id;
    MUST(qn_batcher_submit(b, r, &id, err));
    while (!atomic_load(&t->ended)) usleep(100);
    assert_int_not_equal(t->end, QN_BATCH_END_error);
}

static void tell(talk *t, int story, int n)
{
    t->n = n;
    rig_story(story, t->tokens, n);
}

static int cached(qn_batcher *b, const char *key, int story, int n)
{
    talk t = {0};
    tell(&t, story, n);
    const qn_batch_request r = ask_of(&t, key, 1, &(qn_sampler_params){.greedy = true});
    say(b, &t, &r);
    return t.n_cached;
}

static void check_sum(qn_batcher *b)
{
    qn_batcher_stats s;
    qn_batcher_get_stats(b, &s);
    assert_true(s.n_stream_cells >= 0 && s.n_shared_cells >= 0 && s.n_cached_cells >= 0 && s.n_free_cells >= 0);
    assert_int_equal(s.n_cells, s.n_stream_cells + s.n_shared_cells + s.n_cached_cells + s.n_free_cells);
}

/* ---- conversations ---- */

enum { TURNS = 6, TALKS = 10 };

/* Everything that was computed, whole: prompts, and answers but for a last token that nothing was computed after. */
typedef struct past {
    qn_token tokens[TURNS * TALKS][LONG];
    int n[TURNS * TALKS], n_texts;
} past;

static int common(const past *p, const qn_token *tokens, int n)
{
    int most = 0;
    for (int i = 0; i < p->n_texts; i++) {
        int k = 0;
        while (k < p->n[i] && k < n && p->tokens[i][k] == tokens[k]) k++;
        if (k > most) most = k;
    }
    return most;
}

static void remember(past *p, const talk *t, bool last_is_out)
{
    memcpy(p->tokens[p->n_texts], t->tokens, sizeof(t->tokens));
    p->n[p->n_texts++] = t->n - last_is_out;
}

/* Templates that show earlier turns in another form (without reasoning, say): what follows `from` in the conversation
 * so far is left out but for every third token, then something new is asked. */
static void rewrite(talk *t, int from, uint32_t random, int n_new)
{
    int n = from;
    for (int i = from; i < t->n; i++)
        if (i % 3 == 0) t->tokens[n++] = t->tokens[i];
    for (int i = 0; i < n_new; i++) t->tokens[n++] = (qn_token)((random + (uint32_t)i * 7919) % RIG_VOCAB);
    t->n = n;
}

/* Ten conversations in turn, of which some are rewritten every turn: nothing is lost while there are cells. */
static void conversations(void **state)
{
    (void)state;
    static past p;
    static talk talks[TALKS];
#ifdef QN_CHECKED
    const int least_threads = 2;
#else
    const int least_threads = 1;
#endif
    for (int n_threads = least_threads; n_threads <= 2; n_threads++) {
        qn_engine *e = rig_open(&(tiny){.arch = "llama", .n_ctx = 2048}, &(qn_engine_options){.n_threads = n_threads});
        qn_batcher *b = crowd_batcher(e, (qn_batcher_options){.session = {.n_ctx = 3000}, .n_parallel = 2});
        int n_rewritten = 0;
        p.n_texts = 0;
        for (int turn = 0; turn < TURNS; turn++)
            for (int c = 0; c < TALKS; c++) {
                talk *t = &talks[c];
                const uint32_t random = (uint32_t)(turn * 131 + c * 17);
                if (turn == 0) {
                    tell(t, 0, 12); /* the same system prompt */
                    rewrite(t, 12, random, 5 + c);
                } else if (c % 3 == 0) {
                    rewrite(t, 12 + c, random, 6);
                    n_rewritten++;
                } else {
                    rewrite(t, t->n, random, 6); /* goes on as it was */
                }
                const int want = common(&p, t->tokens, t->n - 1);
                const qn_sampler_params sampler = {.seed = random, .temperature = 1};
                const qn_batch_request r = ask_of(t, "a", 4 + (int)(random % 19), &sampler);
                say(b, t, &r);
                if (t->n_cached != want) fail_msg("turn %d of %d: %d cached, %d in common", turn, c, t->n_cached, want);
                if (turn) assert_true(want >= 12);
                remember(&p, t, t->end == QN_BATCH_END_length);
                check_sum(b);
            }
        assert_true(n_rewritten > 10);
        qn_batcher_stats s;
        crowd_quiet(b, &s);
        assert_int_equal(s.n_evictions, 0);
        qn_batcher_destroy(b);
        qn_engine_close(e);
    }
}

/* Of layers with a window ends are kept; a conversation that goes on, or whose last answer alone is shown in another
 * form, finds all of its prefix. */
static void conversations_with_windows(void **state)
{
    (void)state;
    static talk talks[TALKS];
    qn_engine *e =
        rig_open(&(tiny){.arch = "gemma3", .extra = tiny_window, .n_ctx = 2048}, &(qn_engine_options){.n_threads = 1});
    qn_batcher *b =
        crowd_batcher(e, (qn_batcher_options){.session = {.n_ctx = 3000}, .n_parallel = 1, .n_cache = TALKS + 1});
    for (int turn = 0; turn < TURNS; turn++)
        for (int c = 0; c < TALKS; c++) {
            talk *t = &talks[c];
            const int n_before = t->n, before = t->n_cached; /* where its last prompt ended */
            if (turn == 0) tell(t, c, 100);
            const int at = turn && c % 2 ? before : t->n;
            if (turn) rewrite(t, at, (uint32_t)(turn * 131 + c), 6);
            const int n_prompt = t->n;
            const qn_sampler_params sampler = {.seed = (uint64_t)(turn + c), .temperature = 1};
            const qn_batch_request r = ask_of(t, "a", 8, &sampler);
            say(b, t, &r);
            /* the answer's last token was computed unless it was the eighth */
            if (turn) {
                const int least = c % 2 ? before : n_before - 1;
                assert_in_range(t->n_cached, least, n_prompt - 1);
            }
            t->n_cached = n_prompt;
            check_sum(b);
        }
    qn_batcher_stats s;
    crowd_quiet(b, &s);
    assert_int_equal(s.n_evictions, 0);
    qn_batcher_destroy(b);
    qn_engine_close(e);
}

/* ---- what goes first ---- */

static void least_recently_used(void **state)
{
    (void)state;
    qn_engine *e = rig_open(&(tiny){.arch = "llama", .n_ctx = 512}, NULL);
    qn_batcher *b = crowd_batcher(e, (qn_batcher_options){.session = {.n_ctx = 401}, .n_parallel = 1});
    qn_batcher_stats s;
    for (int c = 1; c <= 4; c++) assert_int_equal(cached(b, "a", c, 100), 0);
    for (int c = 1; c <= 4; c++) assert_int_equal(cached(b, "a", c, 100), 99);
    crowd_quiet(b, &s);
    assert_int_equal(s.n_evictions, 0);
    assert_int_equal(s.n_cached_cells, 400);
    assert_int_equal(s.n_cached, 4);
    assert_int_equal(cached(b, "a", 1, 100), 99); /* of use: 2, 3, 4, 1 is the order now */
    assert_int_equal(cached(b, "a", 5, 150), 0);
    crowd_quiet(b, &s);
    assert_int_equal(s.n_evictions, 149); /* all of 2, half of 3 */
    assert_int_equal(s.n_cached, 4);
    assert_int_equal(cached(b, "a", 4, 100), 99);
    assert_int_equal(cached(b, "a", 1, 100), 99);
    assert_int_equal(cached(b, "a", 3, 45), 44); /* its beginning */
    assert_int_equal(cached(b, "a", 2, 1), 0);
    crowd_quiet(b, &s);
    assert_int_equal(s.n_free_cells, 0);
    qn_batcher_destroy(b);
    qn_engine_close(e);
}

/* ---- whose ---- */

static void adapters_have_prefixes_of_their_own(void **state)
{
    (void)state;
    const char *path = tiny_path("base.gguf");
    qn_engine *e = NULL;
    qn_lora_use use[2] = {{NULL, 1}, {NULL, 1}};
    MUST(tiny_write(path, &(tiny){.n_ctx = 512}, err));
    MUST(qn_engine_open(path, NULL, &e, err));
    for (int i = 0; i < 2; i++) {
        const char *file = adapter_write(&(adapter){.path = path, .seed = 5 + (uint32_t)i});
        MUST(qn_lora_open(e, file, &use[i].lora, err));
    }
    /* the session's own are those of requests that name none */
    qn_batcher *b =
        crowd_batcher(e, (qn_batcher_options){.session = {.n_ctx = 400, .loras = use, .n_loras = 1}, .n_parallel = 2});
    const qn_lora_use half = {use[0].lora, 0.5f}, off = {use[1].lora, 0};
    const qn_lora_use both[2] = {use[0], use[1]}, other_way[2] = {use[1], use[0]}, with_off[2] = {off, use[0]};
    const struct {
        const qn_lora_use *loras;
        int n, want;
    } asks[] = {{NULL, 0, 0},   {NULL, 0, 39},   {use, 1, 39}, {use, 0, 0},        {use, 0, 39},      {&half, 1, 0},
                {&half, 1, 39}, {use + 1, 1, 0}, {both, 2, 0}, {other_way, 2, 39}, {with_off, 2, 39}, {&off, 1, 39}};
    for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
        talk t = {0};
        tell(&t, 1, 40);
        qn_batch_request r = ask_of(&t, "a", 1, NULL);
        r.loras = asks[i].loras;
        r.n_loras = asks[i].n;
        say(b, &t, &r);
        if (t.n_cached != asks[i].want) fail_msg("request %zu: %d cached, not %d", i, t.n_cached, asks[i].want);
    }
    talk t = {0};
    uint64_t id;
    tell(&t, 1, 40);
    qn_batch_request r = ask_of(&t, "a", 1, NULL);
    r.loras = (const qn_lora_use[]){use[0], use[0]};
    r.n_loras = 2;
    REFUSED(invalid, qn_batcher_submit(b, &r, &id, err), "adapters 0 and 1");
    qn_batcher_destroy(b);
    qn_engine_close(e);
}

typedef struct turns {
    int in_a_row[2], most[2]; /* tokens that came without one of the other set between */
    _Atomic int n_ended;
    bool both; /* the other set still writes */
} turns;

typedef struct writer {
    turns *t;
    int set;
} writer;

static void take_turns(void *ctx, const qn_batch_event *e)
{
    writer *w = ctx;
    turns *t = w->t;
    if (e->kind == QN_BATCH_end) {
        t->both = false; /* from here on one may be alone */
        atomic_fetch_add(&t->n_ended, 1);
    }
    if (e->kind != QN_BATCH_token) return;
    if (e->usage.n_generated == 3) t->both = t->both || w->set; /* all have long begun when the last one has */
    t->in_a_row[1 - w->set] = 0;
    if (++t->in_a_row[w->set] > t->most[w->set] && t->both) t->most[w->set] = t->in_a_row[w->set];
}

/* Three streams with an adapter, one without: the one has a token for each step of the three. */
static void sets_take_turns(void **state)
{
    (void)state;
    const char *path = tiny_path("base.gguf");
    qn_engine *e = NULL;
    qn_lora_use use = {NULL, 1};
    turns t = {.n_ended = 0};
    writer w[2] = {{&t, 0}, {&t, 1}};
    crowd_gate gate;
    MUST(tiny_write(path, &(tiny){.n_ctx = 512}, err));
    MUST(qn_engine_open(path, NULL, &e, err));
    MUST(qn_lora_open(e, adapter_write(&(adapter){.path = path}), &use.lora, err));
    qn_batcher *b = crowd_batcher(e, (qn_batcher_options){.session = {.n_ctx = 900}, .n_parallel = 4});
    const qn_logit_bias no_end = {2, -INFINITY};
    crowd_hold(b, &gate, 4);
    for (int i = 0; i < 4; i++) {
        uint64_t id;
        qn_token prompt[4];
        rig_story(i, prompt, 4);
        qn_batch_request r = {.prompt = prompt, .n_prompt = 4, .max_tokens = 200, .fn = take_turns, .ctx = &w[i == 3]};
        r.sampler = &(qn_sampler_params){.logit_bias = &no_end, .n_logit_bias = 1, .seed = 1};
        if (i < 3) r.loras = &use, r.n_loras = 1;
        MUST(qn_batcher_submit(b, &r, &id, err));
    }
    crowd_go(&gate);
    while (atomic_load(&t.n_ended) < 4) usleep(500);
    assert_int_equal(t.most[0], 3);
    assert_int_equal(t.most[1], 1);
    qn_batcher_destroy(b);
    qn_engine_close(e);
}

/* ---- coming and going ---- */

/* A pool that is much too small, requests that are cancelled at any moment: parts make up the whole whenever somebody
 * looks, and at last nothing is a stream's. */
static void parts_add_up(void **state)
{
    (void)state;
    enum { N = 150 };
    static const tiny models[] = {{.arch = "llama"}, {.arch = "gemma3", .extra = tiny_window}};
    for (int m = 0; m < 2; m++) {
        static talk talks[N];
        qn_engine *e = rig_open(&models[m], NULL);
        qn_batcher *b = crowd_batcher(e, (qn_batcher_options){.session = {.n_ctx = 160}, .n_parallel = 6});
        uint64_t ids[N];
        uint32_t random = 3 + (uint32_t)m;
        for (int i = 0; i < N; i++) {
            random = random * 1664525 + 1013904223;
            talk *t = &talks[i];
            tell(t, (int)(random >> 8) % 4, 1 + (int)((random >> 12) % 70));
            if (i % 2) t->tokens[t->n / 2] = i % RIG_VOCAB;
            qn_batch_request r = ask_of(t, i % 3 ? "a" : "b", 1 + (int)((random >> 20) % 40), NULL);
            r.no_cache = i % 11 == 5;
            MUST(qn_batcher_submit(b, &r, &ids[i], err));
            if (random >> 30 == 0) qn_batcher_cancel(b, ids[(random >> 8) % (uint32_t)(i + 1)]);
            if (random >> 30 == 1) usleep((random >> 8) % 1000);
            check_sum(b);
        }
        for (int i = 0; i < N; i++) {
            while (!atomic_load(&talks[i].ended)) {
                check_sum(b);
                usleep(100);
            }
            assert_int_not_equal(talks[i].end, QN_BATCH_END_error);
        }
        qn_batcher_stats s;
        crowd_quiet(b, &s);
        assert_int_equal(s.n_stream_cells + s.n_shared_cells, 0);
        assert_int_equal(s.n_cells, s.n_cached_cells + s.n_free_cells);
        assert_true(s.n_set_backs > 0 && s.n_evictions > 100);
        qn_batcher_destroy(b);
        qn_engine_close(e);
    }
}

/* What a request needs is taken when it comes: computing, sharing, keeping and giving up take nothing more. */
static void the_executor_allocates_nothing(void **state)
{
    (void)state;
    enum { N = 12, ROUNDS = 4 };
    static talk talks[N];
    qn_engine *e = rig_open(&(tiny){.arch = "gemma3", .extra = tiny_window}, &(qn_engine_options){.n_threads = 1});
    /* as small a batch as fits whatever time there is for prompts: every round has the same steps */
    qn_batcher *b = crowd_batcher(e, (qn_batcher_options){.session = {.n_ctx = 200, .n_batch = 4}, .n_parallel = 3});
    const qn_logit_bias no_end = {2, -INFINITY};
    const qn_sampler_params sampler = {.logit_bias = &no_end, .n_logit_bias = 1, .seed = 1};
    qn_batcher_stats s;
    for (int round = 0; round < ROUNDS; round++) {
        crowd_gate gate;
        uint64_t id;
        qn_metrics before, after;
        crowd_hold(b, &gate, round);
        for (int i = 0; i < N; i++) { /* always others; of each two one begins as the other */
            tell(&talks[i], 10 + round * N + i / 2, 20 + i);
            const qn_batch_request r = ask_of(&talks[i], i % 3 ? "a" : "b", 10, &sampler);
            MUST(qn_batcher_submit(b, &r, &id, err));
        }
        qn_metrics_snapshot(&before);
        crowd_go(&gate);
        for (int i = 0; i < N; i++)
            while (!atomic_load(&talks[i].ended)) usleep(100);
        crowd_quiet(b, &s);
        qn_metrics_snapshot(&after);
        if (round > 1) assert_int_equal(after.allocs, before.allocs);
        assert_true(atomic_load(&gate.ended));
    }
    assert_true(s.n_evictions > 100 && s.tokens_reused > 100);
    qn_batcher_destroy(b);
    qn_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversations),
        cmocka_unit_test(conversations_with_windows),
        cmocka_unit_test(least_recently_used),
        cmocka_unit_test(adapters_have_prefixes_of_their_own),
        cmocka_unit_test(the_executor_allocates_nothing),
        cmocka_unit_test(sets_take_turns),
        cmocka_unit_test(parts_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
