/* SPDX-License-Identifier: MIT */
/* A crowd is served as each of it alone; and what callers may do to a batcher. */
#include "adapter.h"
#include "crowd.h"
#include "engine/batch.h"

enum { CROWD = 64 };

typedef struct rig {
    qn_engine *e;
    qn_session *alone;
    qn_grammar *grammar;
    crowd_request r[CROWD];
} rig;

static rig *set_up_model(const tiny *model, int n_threads, bool adapters, int n)
{
    rig *g = calloc(1, sizeof(*g));
    const char *path = tiny_path("crowd.gguf");
    qn_lora_use use[2] = {{NULL, 1}, {NULL, 0.5f}};
    assert_non_null(g);
    MUST(tiny_write(path, model, err));
    MUST(qn_engine_open(path, &(qn_engine_options){.n_threads = n_threads}, &g->e, err));
    for (int i = 0; i < 2 && adapters; i++) {
        const char *file = adapter_write(&(adapter){.path = path, .seed = 1 + (uint32_t)i, .rank = 2 + i, .alpha = 4});
        MUST(qn_lora_open(g->e, file, &use[i].lora, err));
    }
    MUST(qn_grammar_create("root ::= [a-z]+ \" \" [a-z ]+", NULL, &g->grammar, err));
    g->alone = crowd_session(g->e);
    for (int i = 0; i < n; i++) crowd_make(g->alone, &g->r[i], i, g->grammar, adapters ? use : NULL);
    return g;
}

/* What each must get is computed once for all tests of this model. */
static rig *set_up(int n)
{
    static crowd_request known[CROWD];
    static int n_known;
    rig *g = set_up_model(&(tiny){.arch = "llama"}, 2, false, 0);
    for (; n_known < n; n_known++) crowd_make(g->alone, &known[n_known], n_known, g->grammar, NULL);
    for (int i = 0; i < n; i++) {
        g->r[i] = known[i];
        if (known[i].grammar) g->r[i].grammar = g->grammar;
    }
    return g;
}

static void tear_down(rig *g)
{
    qn_grammar_destroy(g->grammar);
    qn_session_destroy(g->alone);
    qn_engine_close(g->e);
    free(g);
}

/* ---- the same answers ---- */

typedef struct comers {
    rig *g;
    qn_batcher *b;
    int first;
    uint32_t random;
    qn_status status;
} comers;

/* Every other request, in a random order, now and then after a pause. */
static void *come(void *ctx)
{
    comers *c = ctx;
    int order[CROWD / 2];
    for (int i = 0; i < CROWD / 2; i++) order[i] = c->first + 2 * i;
    for (int i = CROWD / 2 - 1; i > 0; i--) {
        c->random = c->random * 1664525 + 1013904223;
        const int j = (int)((c->random >> 8) % (uint32_t)(i + 1)), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    for (int i = 0; i < CROWD / 2 && c->status == QN_OK; i++) {
        c->status = crowd_submit(c->b, &c->g->r[order[i]], NULL);
        c->random = c->random * 1664525 + 1013904223;
        if (c->random >> 30 == 0) usleep((c->random >> 8) % 3000);
    }
    return NULL;
}

static void all_come(rig *g, qn_batcher *b, uint32_t random)
{
    pthread_t threads[2];
    comers c[2] = {{g, b, 0, random, QN_OK}, {g, b, 1, random + 99, QN_OK}};
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, come, &c[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) assert_int_equal(c[i].status, QN_OK);
    for (int i = 0; i < CROWD; i++) crowd_wait(&g->r[i]);
}

/* Cells for two of the longest: streams are set back. With adapters, on one thread and two, and every kind of memory:
 * all positions, windows (which forget, so that prefixes can't all be shared), latent ones; and a mixture. */
static void as_if_alone(void **state)
{
    (void)state;
    static const qn_batcher_options kinds[] = {
        {.session = {.n_ctx = 170}, .n_parallel = 8},
        {.session = {.n_ctx = 2000, .n_batch = 64}, .n_parallel = 64},
        {.session = {.n_ctx = 300, .n_batch = 5}, .n_parallel = 7, .n_cache = 1, .share_cache = true},
        {.session = {.n_ctx = 140}, .n_parallel = 5, .no_cache = true},
        {.session = {.n_ctx = 4000}, .n_parallel = 6, .share_cache = true}, /* nothing is lost */
    };
    static const struct {
        tiny model;
        int n_threads;
        bool adapters;
        const char *kinds;
    } crowds[] = {
#ifdef QN_CHECKED
        {{.arch = "llama"}, 2, true, "04"},
        {{.arch = "gemma3", .extra = tiny_window}, 1, true, "03"},
#else
        {{.arch = "llama"}, 2, true, "01234"},
        {{.arch = "llama"}, 1, true, "23"},
        {{.arch = "gemma3", .extra = tiny_window}, 2, true, "02"},
        {{.arch = "mistral4", .latent = true}, 2, false, "0"},
        {{.arch = "qwen3moe"}, 1, false, "0"},
#endif
    };
    uint64_t n_set_backs = 0, n_reused = 0, n_again = 0;
    for (size_t c = 0; c < sizeof(crowds) / sizeof(crowds[0]); c++) {
        rig *g = set_up_model(&crowds[c].model, crowds[c].n_threads, crowds[c].adapters, CROWD);
        for (const char *kind = crowds[c].kinds; *kind; kind++) {
            const int k = *kind - '0';
            qn_batcher *b = crowd_batcher(g->e, kinds[k]);
            qn_batcher_stats stats;
            all_come(g, b, 7 * (uint32_t)k + 1);
            for (int i = 0; i < CROWD; i++) CROWD_SAME(&g->r[i]);
            crowd_quiet(b, &stats);
            n_set_backs += stats.n_set_backs;
            n_reused += stats.tokens_reused;
            n_again += stats.tokens_read_again;
            assert_int_equal(stats.n_ended, CROWD);
            if (kinds[k].no_cache) assert_int_equal(stats.tokens_reused + (uint64_t)stats.n_cached, 0);
            if (kinds[k].no_cache) assert_int_equal(stats.n_free_cells, stats.n_cells);
            assert_int_equal(stats.n_cells, stats.n_free_cells + stats.n_cached_cells);
            qn_batcher_destroy(b);
        }
        tear_down(g);
    }
#ifdef QN_CHECKED
    assert_true(n_set_backs > 0 && n_again > 0 && n_reused > 200);
#else
    assert_true(n_set_backs > 3 && n_again > 50 && n_reused > 500);
#endif
}

/* ---- leaving ---- */

static void cancelled(void **state)
{
    (void)state;
    rig *g = set_up(CROWD);
    qn_batcher *b = crowd_batcher(g->e, (qn_batcher_options){.session = {.n_ctx = 200}, .n_parallel = 4});
    qn_batcher_stats stats;
    int n_cancelled = 0;
    for (int i = 0; i < CROWD; i++) {
        g->r[i].cancel_after = i % 3 == 0 ? 1 + i % 7 : -1;
        MUST(crowd_submit(b, &g->r[i], err));
        if (i % 5 == 1) qn_batcher_cancel(b, g->r[i].id);
    }
    for (int i = 0; i < CROWD; i++) {
        crowd_request *r = &g->r[i];
        crowd_wait(r);
        if (r->got.end != QN_BATCH_END_cancelled) {
            CROWD_SAME(r);
            continue;
        }
        n_cancelled++;
        assert_true(r->cancel_after > 0 || i % 5 == 1);
        assert_true(r->got.n <= r->want.n);
        if (i % 5 != 1) assert_int_equal(r->got.n, r->cancel_after); /* not one token more */
        assert_memory_equal(r->got.tokens, r->want.tokens, (size_t)r->got.n * sizeof(qn_token));
    }
    assert_true(n_cancelled > 20);
    crowd_quiet(b, &stats);
    assert_int_equal(stats.n_cells, stats.n_free_cells + stats.n_cached_cells);
    qn_batcher_cancel(b, g->r[0].id); /* has ended: nothing happens */
    qn_batcher_cancel(b, 12345678);
    qn_batcher_destroy(b);
    tear_down(g);
}

/* Whoever is under way gets an end. */
static void destroyed(void **state)
{
    (void)state;
    rig *g = set_up(CROWD);
    qn_batcher *b = crowd_batcher(g->e, (qn_batcher_options){.session = {.n_ctx = 200}, .n_parallel = 4});
    for (int i = 0; i < CROWD; i++) MUST(crowd_submit(b, &g->r[i], err));
    crowd_wait(&g->r[0]);
    qn_batcher_destroy(b);
    int n_cancelled = 0;
    for (int i = 0; i < CROWD; i++) {
        assert_true(g->r[i].ended);
        if (g->r[i].got.end == QN_BATCH_END_cancelled)
            n_cancelled++;
        else
            CROWD_SAME(&g->r[i]);
    }
    assert_true(n_cancelled > 0);
    tear_down(g);
}

static crowd_request prompt_of(const char *key, int story, int n, int n_answer)
{
    crowd_request r = {.n_prompt = n, .n_answer = n_answer, .sampler = {.greedy = true}, .cancel_after = -1};
    snprintf(r.key, sizeof(r.key), "%s", key);
    rig_story(story, r.prompt, n);
    return r;
}

/* Holds the executor at the end of a request. */
static void hold_at_end(void *ctx, const qn_batch_event *e)
{
    crowd_gate *g = ctx;
    if (e->kind == QN_BATCH_token) atomic_store(&g->reached, true);
    if (e->kind != QN_BATCH_end) return;
    atomic_store(&g->ended, true);
    while (!atomic_load(&g->open)) usleep(100);
}

static void *destroy(void *b)
{
    qn_batcher_destroy(b);
    return NULL;
}

/* .. also where the batcher is destroyed while the executor tells somebody else that he was cancelled. */
static void destroyed_meanwhile(void **state)
{
    (void)state;
    rig *g = set_up(0);
    qn_batcher *b = crowd_batcher(g->e, (qn_batcher_options){.session = {.n_ctx = 200}, .n_parallel = 4});
    const qn_logit_bias no_end = {2, -INFINITY};
    const qn_sampler_params endless = {.logit_bias = &no_end, .n_logit_bias = 1, .seed = 1};
    crowd_gate gate = {.open = false};
    crowd_request other = prompt_of("b", 1, 5, 150);
    pthread_t thread;
    uint64_t id;
    rig_story(2, gate.prompt, 3);
    other.sampler = endless;
    MUST(crowd_submit(b, &other, err));
    MUST(qn_batcher_submit(b,
                           &(qn_batch_request){.prompt = gate.prompt,
                                               .n_prompt = 3,
                                               .sampler = &endless,
                                               .max_tokens = 190,
                                               .key = "gate",
                                               .fn = hold_at_end,
                                               .ctx = &gate},
                           &id, err));
    while (!atomic_load(&gate.reached) && !atomic_load(&gate.ended)) usleep(20);
    qn_batcher_cancel(b, id);
    while (!atomic_load(&gate.ended)) usleep(100);
    assert_int_equal(pthread_create(&thread, NULL, destroy, b), 0);
    for (bool stopping = false; !stopping; usleep(100)) {
        qn__mutex_lock(&b->lock);
        stopping = b->stopping;
        qn__mutex_unlock(&b->lock);
    }
    atomic_store(&gate.open, true);
    pthread_join(thread, NULL);
    assert_true(atomic_load(&other.ended));
    assert_true(other.got.end == QN_BATCH_END_cancelled || other.got.n > 100); /* or it was too quick for us */
    tear_down(g);
}

typedef struct breaking {
    int n_runs, at; /* the run that is stopped, from 1 */
} breaking;

static bool stop_run(void *ctx, const qn_node *node, bool after)
{
    breaking *x = ctx;
    if (!after && strcmp(qn_node_name(node), "embd") == 0) x->n_runs++;
    return x->n_runs != x->at;
}

/* Where others compute, a step is computed in chunks: when one of them fails, nobody loses by what those before it
 * have kept. */
static void chunks_that_fail(void **state)
{
    (void)state;
    rig *g = set_up(0);
    qn_batcher *b = crowd_batcher(g->e, (qn_batcher_options){.session = {.n_ctx = 200}, .n_parallel = 4});
    crowd_request r[2] = {prompt_of("a", 1, 20, 5), prompt_of("b", 2, 12, 5)};
    for (int i = 0; i < 2; i++) crowd_expect(g->alone, &r[i]);
    crowd_gate gate;
    crowd_hold(b, &gate, 3);
    qn_turn_taker stranger = {0};
    breaking x = {.at = 2};
    b->session->token_s = 1; /* so that a chunk is the least there is */
    qn_session_set_eval(b->session, stop_run, &x);
    for (int i = 0; i < 2; i++) MUST(crowd_submit(b, &r[i], err));
    qn__turns_take(&g->e->turns, &stranger);
    qn__turns_give(&g->e->turns, &stranger);
    crowd_go(&gate);
    for (int i = 0; i < 2; i++) {
        crowd_wait(&r[i]);
        CROWD_SAME(&r[i]);
    }
    assert_true(x.n_runs > 6);
    qn_batcher_destroy(b);
    qn__turns_forget(&g->e->turns, &stranger);
    tear_down(g);
}

static void paused(void **state)
{
    (void)state;
    rig *g = set_up(8);
    qn_batcher *b = crowd_batcher(g->e, (qn_batcher_options){.session = {.n_ctx = 400}, .n_parallel = 4});
    crowd_request *r = &g->r[2];
    qn_batcher_stats stats;
    assert_true(r->want.n > 10);
    MUST(crowd_submit(b, r, err));
    while (atomic_load(&r->n_got) < 2) usleep(50);
    qn_batcher_pause(b, r->id, true);
    MUST(crowd_submit(b, &g->r[4], err));
    crowd_wait(&g->r[4]); /* another step has begun since */
    const int n = atomic_load(&r->n_got);
    qn_batcher_get_stats(b, &stats);
    if (!atomic_load(&r->ended)) { /* else it was too quick for us */
        assert_int_equal(stats.n_paused, 1);
        usleep(3000);
        assert_int_equal(atomic_load(&r->n_got), n);
        qn_batcher_pause(b, r->id, false);
    }
    crowd_wait(r);
    CROWD_SAME(r);
    qn_batcher_destroy(b);
    tear_down(g);
}

/* Readers who do not read hold up nobody: as many as there are streams are paused, and others are served. The paused
 * ones have their cells set back, and what they get in the end is the same. */
static void paused_ones_make_way(void **state)
{
    (void)state;
    rig *g = set_up(8);
    qn_batcher *b = crowd_batcher(g->e, (qn_batcher_options){.session = {.n_ctx = 400}, .n_parallel = 2});
    crowd_request *slow[2] = {&g->r[2], &g->r[5]};
    qn_batcher_stats stats;
    for (int i = 0; i < 2; i++) {
        assert_true(slow[i]->want.n > 2);
        slow[i]->pause_after = 2;
        MUST(crowd_submit(b, slow[i], err));
    }
    for (int i = 0; i < 2; i++)
        while (atomic_load(&slow[i]->n_got) < 2) usleep(50);
    MUST(crowd_submit(b, &g->r[4], err));
    crowd_wait(&g->r[4]);
    CROWD_SAME(&g->r[4]);
    qn_batcher_get_stats(b, &stats);
    assert_int_equal(stats.n_paused, 2);
    assert_true(stats.n_set_backs > 0);
    for (int i = 0; i < 2; i++) qn_batcher_pause(b, slow[i]->id, false);
    for (int i = 0; i < 2; i++) {
        crowd_wait(slow[i]);
        CROWD_SAME(slow[i]);
    }
    qn_batcher_destroy(b);
    tear_down(g);
}

/* ---- the cache ---- */

static int cached_of(qn_batcher *b, crowd_request r)
{
    MUST(crowd_submit(b, &r, err));
    crowd_wait(&r);
    assert_int_not_equal(r.got.end, QN_BATCH_END_error);
    return r.usage.n_cached;
}

static void prefixes(void **state)
{
    (void)state;
    rig *g = set_up(0);
    qn_batcher_options o = {.session = {.n_ctx = 200}, .n_parallel = 2, .n_cache = 2};
    qn_batcher *b = crowd_batcher(g->e, o);
    qn_batcher_stats stats;
    assert_int_equal(cached_of(b, prompt_of("a", 1, 20, 1)), 0);
    assert_int_equal(cached_of(b, prompt_of("a", 1, 20, 1)), 19); /* the last token gives the logits */
    assert_int_equal(cached_of(b, prompt_of("a", 1, 30, 1)), 20);
    assert_int_equal(cached_of(b, prompt_of("a", 1, 12, 1)), 11);
    assert_int_equal(cached_of(b, prompt_of("b", 1, 30, 1)), 0); /* another's */
    assert_int_equal(cached_of(b, prompt_of("b", 1, 30, 1)), 29);
    crowd_quiet(b, &stats);
    assert_int_equal(stats.n_cached, 2); /* shorter ones went into longer ones */
    assert_int_equal(stats.n_cached_cells, 60);
    /* the answer is part of the next prompt */
    crowd_request first = prompt_of("a", 2, 10, 6), second;
    first.sampler = (qn_sampler_params){.seed = 3, .temperature = 1};
    MUST(crowd_submit(b, &first, err));
    crowd_wait(&first);
    second = prompt_of("a", 2, 10, 1);
    for (int i = 0; i < first.got.n; i++) second.prompt[second.n_prompt++] = first.got.tokens[i];
    for (int i = 0; i < 5; i++) second.prompt[second.n_prompt++] = rig_token(9, i);
    assert_int_equal(cached_of(b, second), 10 + first.got.n - (first.got.end == QN_BATCH_END_length));
    /* three conversations and cells for all: none is lost until cells run out */
    qn_batcher_destroy(b);
    b = crowd_batcher(g->e, o);
    for (int turn = 0; turn < 3; turn++)
        for (int c = 0; c < 3; c++)
            assert_int_equal(cached_of(b, prompt_of("a", c, 20 + 10 * turn, 1)), turn ? 10 + 10 * turn : 0);
    crowd_quiet(b, &stats);
    assert_int_equal(stats.n_evictions, 0);
    /* the one that was of no use for the longest time goes first */
    assert_int_equal(cached_of(b, prompt_of("a", 0, 41, 1)), 40);
    assert_int_equal(cached_of(b, prompt_of("a", 5, 60, 1)), 0);
    assert_int_equal(cached_of(b, prompt_of("a", 6, 60, 1)), 0);
    crowd_quiet(b, &stats);
    assert_int_equal(stats.n_evictions, 40 + 41 + 40 + 60 + 60 - 200); /* all of 1, and one of the end of 2 */
    assert_int_equal(stats.n_cached_cells, 200);
    assert_int_equal(cached_of(b, prompt_of("a", 0, 42, 1)), 41);
    assert_int_equal(cached_of(b, prompt_of("a", 2, 20, 1)), 19);
    assert_int_equal(cached_of(b, prompt_of("a", 1, 20, 1)), 0);
    qn_batcher_destroy(b);
    o.share_cache = true;
    b = crowd_batcher(g->e, o);
    assert_int_equal(cached_of(b, prompt_of("a", 1, 20, 1)), 0);
    assert_int_equal(cached_of(b, prompt_of("b", 1, 25, 1)), 20);
    qn_batcher_destroy(b);
    tear_down(g);
}

/* Several answers to one prompt read it once. */
static void one_prompt(void **state)
{
    (void)state;
    rig *g = set_up(0);
    qn_batcher *b = crowd_batcher(g->e, (qn_batcher_options){.session = {.n_ctx = 300, .n_batch = 16}});
    crowd_request r[5];
    int n_cached = 0;
    for (int i = 0; i < 5; i++) {
        r[i] = prompt_of("a", 3, 60, 10);
        r[i].sampler = (qn_sampler_params){.seed = 1 + (uint64_t)i, .temperature = 1};
        crowd_expect(g->alone, &r[i]);
    }
    for (int i = 0; i < 5; i++) MUST(crowd_submit(b, &r[i], err));
    for (int i = 0; i < 5; i++) crowd_wait(&r[i]);
    for (int i = 0; i < 5; i++) CROWD_SAME(&r[i]);
    for (int i = 0; i < 5; i++) n_cached += r[i].usage.n_cached;
    assert_int_equal(n_cached, 4 * 59);
    qn_batcher_destroy(b);
    tear_down(g);
}

/* ---- in turn ---- */

static _Atomic int turn;

static void note_turn(void *ctx, const qn_batch_event *e)
{
    if (e->kind == QN_BATCH_end) *(_Atomic int *)ctx = atomic_fetch_add(&turn, 1) + 1;
}

/* One who asks much does not keep those who ask little, with two streams and with one. */
static void fair(void **state)
{
    (void)state;
    enum { MANY = 20, FEW = 3, KEYS = 2, ALL = MANY + FEW * KEYS };
    rig *g = set_up(0);
    for (int n_parallel = 2; n_parallel > 0; n_parallel--) {
        qn_batcher *b = crowd_batcher(g->e, (qn_batcher_options){.session = {.n_ctx = 400}, .n_parallel = n_parallel});
        _Atomic int when[ALL] = {0};
        char key[KEYS + 1][8] = {"much", "little", "less"};
        crowd_gate gate;
        uint64_t id, first_id;
        qn_token prompt[20];
        rig_story(1, prompt, 20);
        qn_batch_request r = {.prompt = prompt, .n_prompt = 20, .fn = note_turn, .max_tokens = 30};
        const qn_logit_bias no_end = {2, -INFINITY};
        r.sampler = &(qn_sampler_params){.logit_bias = &no_end, .n_logit_bias = 1, .seed = 1};
        atomic_store(&turn, 0);
        crowd_hold(b, &gate, 4);
        for (int i = 0; i < ALL; i++) {
            r.key = key[i < MANY ? 0 : 1 + (i - MANY) / FEW];
            r.ctx = (void *)&when[i];
            MUST(qn_batcher_submit(b, &r, &id, err));
            if (i == 0) first_id = id;
        }
        assert_int_equal(id, first_id + ALL - 1);
        crowd_go(&gate);
        while (atomic_load(&turn) < ALL) usleep(500);
        for (int i = 0; i < FEW * KEYS; i++) /* of three keys in turn, one of whose requests may have begun before */
            assert_in_range(when[MANY + i], 1, 3 * (i % FEW + 1) + n_parallel);
        qn_batcher_destroy(b);
    }
    tear_down(g);
}

enum { LONG_PROMPT = 300, SHORT_PROMPT = 15 };

typedef struct pair {
    qn_batcher *b;
    qn_token prompts[2][LONG_PROMPT];
    int n_short; /* answered */
    qn_status status;
    _Atomic bool long_done, short_done;
} pair;

static void next_short(void *ctx, const qn_batch_event *e)
{
    pair *p = ctx;
    uint64_t id;
    if (e && e->kind != QN_BATCH_end) return;
    p->n_short += e != NULL;
    if (atomic_load(&p->long_done) || p->n_short > 1000) {
        atomic_store(&p->short_done, true);
        return;
    }
    const qn_batch_request r = {.prompt = p->prompts[1],
                                .n_prompt = SHORT_PROMPT,
                                .max_tokens = 1,
                                .no_cache = true,
                                .fn = next_short,
                                .ctx = p};
    p->status = qn_batcher_submit(p->b, &r, &id, NULL);
    if (p->status != QN_OK) atomic_store(&p->short_done, true);
}

static void long_ends(void *ctx, const qn_batch_event *e)
{
    if (e->kind == QN_BATCH_end) atomic_store(&((pair *)ctx)->long_done, true);
}

/* Short prompts that never end, each as much as a step can read: they pass a long one, but not for ever. */
static void a_long_prompt_among_short_ones(void **state)
{
    (void)state;
    rig *g = set_up_model(&(tiny){.arch = "llama", .n_ctx = 512}, 1, false, 0);
    pair p = {0};
    crowd_gate gate;
    uint64_t id;
    p.b = crowd_batcher(g->e, (qn_batcher_options){.session = {.n_ctx = 400, .n_batch = 16}, .n_parallel = 2});
    for (int i = 0; i < 2; i++) rig_story(i, p.prompts[i], LONG_PROMPT);
    crowd_hold(p.b, &gate, 2);
    next_short(&p, NULL);
    const qn_batch_request r = {
        .prompt = p.prompts[0], .n_prompt = LONG_PROMPT, .max_tokens = 1, .fn = long_ends, .ctx = &p};
    MUST(qn_batcher_submit(p.b, &r, &id, err));
    crowd_go(&gate);
    while (!atomic_load(&p.short_done)) usleep(200);
    assert_int_equal(p.status, QN_OK);
    assert_in_range(p.n_short, 18, 80); /* 300 / 16 before it is its turn, then one for one */
    qn_batcher_destroy(p.b);
    tear_down(g);
}

/* A batcher takes no more than was estimated, its samplers' scratches included. */
static void estimated(void **state)
{
    (void)state;
    rig *g = set_up(0);
    const qn_batcher_options options = {.session = {.n_ctx = 400, .n_batch = 32}, .n_parallel = 3};
    for (int n_threads = 1; n_threads <= 8; n_threads += 7) {
        enum { SLACK = 8 << 10 }; /* what allocations have beside their bytes */
        qn_engine *e = rig_open(&(tiny){.arch = "llama"}, &(qn_engine_options){.n_threads = n_threads});
        qn_estimate estimate;
        qn_metrics before, now;
        MUST(qn_batcher_estimate(e, &options, &estimate, err));
        qn_metrics_snapshot(&before);
        qn_batcher *b = crowd_batcher(e, options);
        qn_metrics_snapshot(&now);
        assert_in_range(now.live_bytes - before.live_bytes, estimate.total_bytes - SLACK, estimate.total_bytes + SLACK);
        qn_batcher_destroy(b);
        qn_engine_close(e);
    }
    tear_down(g);
}

/* ---- errors ---- */

static void refusals(void **state)
{
    (void)state;
    rig *g = set_up(4);
    qn_batcher *b = NULL;
    REFUSED(invalid, qn_batcher_create(g->e, &(qn_batcher_options){.n_parallel = 129}, &b, err), "n_parallel", "129");
    REFUSED(invalid, qn_batcher_create(g->e, &(qn_batcher_options){.n_cache = 65537}, &b, err), "n_cache", "65537",
            "65536");
    REFUSED(invalid, qn_batcher_create(g->e, &(qn_batcher_options){.n_queue = -1}, &b, err), "n_queue", "-1");
    qn_session_options session;
    REFUSED(invalid, qn_batcher_session(&(qn_batcher_options){.session = {.n_ctx = -5}}, &session, err), "n_ctx", "-5");
    REFUSED(invalid, qn_batcher_create(g->e, &(qn_batcher_options){.session = {.embeddings = true}}, &b, err),
            "embeddings");
    b = crowd_batcher(g->e, (qn_batcher_options){.session = {.n_ctx = 50}, .n_parallel = 1, .n_queue = 2});
    uint64_t id = 77;
    qn_token long_prompt[51] = {0};
    qn_batch_request r = {.prompt = long_prompt, .n_prompt = 51, .fn = note_turn};
    REFUSED(invalid, qn_batcher_submit(b, &r, &id, err), "51 tokens", "50");
    r.n_prompt = 0;
    REFUSED(invalid, qn_batcher_submit(b, &r, &id, err), "empty");
    r.n_prompt = 3;
    long_prompt[2] = RIG_VOCAB;
    REFUSED(invalid, qn_batcher_submit(b, &r, &id, err), "token 2", "300", "299");
    long_prompt[2] = 5;
    r.n_top = 21;
    REFUSED(invalid, qn_batcher_submit(b, &r, &id, err), "n_top", "21");
    r.n_top = 0;
    r.sampler = &(qn_sampler_params){.top_p = 2};
    REFUSED(invalid, qn_batcher_submit(b, &r, &id, err), "top_p");
    r.sampler = NULL;
    r.fn = NULL;
    REFUSED(invalid, qn_batcher_submit(b, &r, &id, err), "callback");
    assert_int_equal(id, 77);
    /* a queue of two: paused ones are not served */
    for (int i = 0; i < 3; i++) g->r[i].n_prompt = 5, g->r[i].n_answer = 45, g->r[i].sampler.seed = 5;
    qn_batcher_stats stats;
    MUST(crowd_submit(b, &g->r[0], err));
    qn_batcher_pause(b, g->r[0].id, true);
    MUST(crowd_submit(b, &g->r[1], err));
    qn_batcher_pause(b, g->r[1].id, true);
    qn_status status = QN_OK;
    qn_error err = {0};
    crowd_request more[4] = {g->r[2], g->r[2], g->r[2], g->r[2]};
    int n_taken = 0;
    for (; n_taken < 4; n_taken++) {
        more[n_taken].n_answer = 45;
        if ((status = crowd_submit(b, &more[n_taken], &err)) != QN_OK) break;
        qn_batcher_pause(b, more[n_taken].id, true);
    }
    assert_int_equal(status, QN_STATUS_limit);
    assert_non_null(strstr(err.text, "2 requests wait"));
    qn_batcher_get_stats(b, &stats);
    assert_int_equal(stats.n_queued, stats.n_streams ? 2 : 3); /* who has a free stream doesn't wait in the queue */
    qn_batcher_destroy(b);
    tear_down(g);
}

/* As many as streams and queue have room for are taken at once, whatever the executor is just doing. */
static void room_for_all(void **state)
{
    (void)state;
    rig *g = set_up(5);
    for (int round = 0; round < 50; round++) {
        qn_batcher *b =
            crowd_batcher(g->e, (qn_batcher_options){.session = {.n_ctx = 200}, .n_parallel = 3, .n_queue = 2});
        for (int i = 0; i < 5; i++) {
            g->r[i].sampler.seed = 5;
            MUST(crowd_submit(b, &g->r[i], err));
        }
        qn_batcher_destroy(b);
    }
    tear_down(g);
}

/* A sampler that bans everything, a grammar that nothing satisfies: these end, the others don't notice. */
static void own_errors(void **state)
{
    (void)state;
    rig *g = set_up(16);
    qn_batcher *b = crowd_batcher(g->e, (qn_batcher_options){.session = {.n_ctx = 400}, .n_parallel = 4});
    qn_logit_bias all[RIG_VOCAB];
    for (int i = 0; i < RIG_VOCAB; i++) all[i] = (qn_logit_bias){i, -INFINITY};
    for (int i = 0; i < 16; i++) {
        if (i % 4 == 1) g->r[i].sampler = (qn_sampler_params){.logit_bias = all, .n_logit_bias = RIG_VOCAB};
        MUST(crowd_submit(b, &g->r[i], err));
    }
    for (int i = 0; i < 16; i++) {
        crowd_wait(&g->r[i]);
        if (i % 4 != 1) {
            CROWD_SAME(&g->r[i]);
            continue;
        }
        assert_int_equal(g->r[i].got.end, QN_BATCH_END_error);
        assert_int_equal(g->r[i].error.status, QN_STATUS_invalid);
        assert_int_equal(g->r[i].got.n, 0);
    }
    qn_batcher_destroy(b);
    tear_down(g);
}

static void drop_grammar(void *ctx, const qn_batch_event *e)
{
    crowd_request *r = ctx;
    if (e->kind != QN_BATCH_end) return;
    qn_grammar_destroy((qn_grammar *)r->grammar);
    atomic_store(&r->ended, true);
}

/* A grammar is the batcher's until the end is told, and not a moment longer; cancelled or not. */
static void grammars_end(void **state)
{
    (void)state;
    rig *g = set_up(8);
    qn_batcher *b = crowd_batcher(g->e, (qn_batcher_options){.session = {.n_ctx = 400}, .n_parallel = 4});
    for (int i = 0; i < 8; i++) {
        crowd_request *r = &g->r[i];
        qn_grammar *own = NULL;
        qn_batch_request ask = {.prompt = r->prompt, .n_prompt = (size_t)r->n_prompt, .fn = drop_grammar, .ctx = r};
        MUST(qn_grammar_create("root ::= [a-z ]{1,9}", NULL, &own, err));
        r->grammar = ask.grammar = own;
        ask.max_tokens = 5;
        MUST(qn_batcher_submit(b, &ask, &r->id, err));
        if (i % 2) qn_batcher_cancel(b, r->id);
    }
    for (int i = 0; i < 8; i++) crowd_wait(&g->r[i]);
    qn_batcher_destroy(b);
    tear_down(g);
}

/* Prompt and answer fill the context to its last cell, with the cells that kept sequences had. */
static void full_context(void **state)
{
    (void)state;
    rig *g = set_up(0);
    qn_batcher *b = crowd_batcher(g->e, (qn_batcher_options){.session = {.n_ctx = 40}, .n_parallel = 2});
    const qn_logit_bias no_end = {2, -INFINITY};
    for (int i = 0; i < 4; i++) {
        crowd_request r = prompt_of("a", i, 30, 0);
        r.sampler = (qn_sampler_params){.logit_bias = &no_end, .n_logit_bias = 1, .seed = 1};
        MUST(crowd_submit(b, &r, err));
        crowd_wait(&r);
        assert_int_equal(r.got.end, QN_BATCH_END_context);
        assert_int_equal(r.got.n, 11); /* the last needs no cell */
    }
    assert_int_equal(qn_batcher_n_ctx(b), 40);
    qn_batch_info info[2];
    assert_int_equal(qn_batcher_list(b, info, 2), 0);
    qn_batcher_destroy(b);
    tear_down(g);
}

/* More cells than positions: they are for several, and each ends at the last position that was learned. */
static void learned_positions(void **state)
{
    (void)state;
    enum { POSITIONS = 40 };
    const qn_logit_bias no_end = {2, -INFINITY};
    qn_engine *e = rig_open(&(tiny){.arch = "gpt2", .n_ctx = POSITIONS}, &(qn_engine_options){.n_threads = 1});
    qn_batcher *b = crowd_batcher(e, (qn_batcher_options){.session = {.n_ctx = 4 * POSITIONS}, .n_parallel = 4});
    assert_int_equal(qn_batcher_n_ctx(b), POSITIONS);
    crowd_request r[3];
    for (int i = 0; i < 3; i++) {
        r[i] = prompt_of("a", i, 30, i == 1 ? 2 * POSITIONS : 0);
        r[i].context_shift = i == 1;
        r[i].sampler = (qn_sampler_params){.logit_bias = &no_end, .n_logit_bias = 1, .seed = 1};
        MUST(crowd_submit(b, &r[i], err));
    }
    for (int i = 0; i < 3; i++) crowd_wait(&r[i]);
    for (int i = 0; i < 3; i++) assert_int_equal(r[i].got.end, i == 1 ? QN_BATCH_END_length : QN_BATCH_END_context);
    for (int i = 0; i < 3; i += 2) assert_int_equal(r[i].got.n, POSITIONS - 30 + 1);
    assert_true(r[1].usage.n_left_out > 0);
    r[0].n_prompt = POSITIONS + 1;
    REFUSED(invalid, crowd_submit(b, &r[0], err), "41 tokens", "40");
    qn_batcher_destroy(b);
    qn_engine_close(e);
}

static void not_causal(qn_gguf_writer *w) { qn_gguf_write_bool(w, "gemma2.attention.causal", false); }

/* What is read of such a prompt in parts, or found in the cache, would be something else. */
static void tokens_that_see_ahead(void **state)
{
    (void)state;
    qn_batcher *b = NULL;
    qn_estimate estimate;
    qn_engine *e = rig_open(&(tiny){.arch = "gemma2", .extra = not_causal}, NULL);
    REFUSED(unsupported, qn_batcher_create(e, NULL, &b, err), "gemma2", "after them");
    REFUSED(unsupported, qn_batcher_estimate(e, NULL, &estimate, err), "gemma2", "after them");
    qn_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_if_alone),
        cmocka_unit_test(cancelled),
        cmocka_unit_test(destroyed),
        cmocka_unit_test(destroyed_meanwhile),
        cmocka_unit_test(chunks_that_fail),
        cmocka_unit_test(paused),
        cmocka_unit_test(paused_ones_make_way),
        cmocka_unit_test(prefixes),
        cmocka_unit_test(one_prompt),
        cmocka_unit_test(fair),
        cmocka_unit_test(a_long_prompt_among_short_ones),
        cmocka_unit_test(refusals),
        cmocka_unit_test(room_for_all),
        cmocka_unit_test(own_errors),
        cmocka_unit_test(full_context),
        cmocka_unit_test(learned_positions),
        cmocka_unit_test(tokens_that_see_ahead),
        cmocka_unit_test(estimated),
        cmocka_unit_test(grammars_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
