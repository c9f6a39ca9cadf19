/* SPDX-License-Identifier: MIT */
/* A failing allocator under a session in use: whatever fails, the session is as it was, and goes on to the bit as if
 * nothing had been. */
#include "failing.h"
#include <quern/perplexity.h>

/* A model of each kind of memory. */
static const tiny models[] = {{.arch = "qwen3"},
                              {.arch = "gemma3", .extra = tiny_window},
                              {.arch = "mistral4", .latent = true}};
enum { N_MODELS = sizeof(models) / sizeof(models[0]) };

typedef struct work {
    qn_engine *engine;
    qn_session *s, *fresh;
    rig_row want[3]; /* what each sequence says next */
    int len[3], last[3], free_cells;
    const char *path;
} work;

static void next_logits(qn_session *s, rig_row out[3])
{
    qn_batch_item items[3];
    for (int q = 0; q < 3; q++) items[q] = (qn_batch_item){7 + q, qn_session_seq_pos_max(s, q) + 1, q, true};
    rig_decode(s, items, 3);
    for (int q = 0; q < 3; q++) out[q] = rig_logits(s, q);
    for (int q = 0; q < 3; q++) MUST(qn_session_seq_remove(s, q, items[q].pos, -1, err));
}

static void as_it_was(void *ctx)
{
    work *w = ctx;
    rig_row got[3];
    for (int q = 0; q < 3; q++) {
        assert_int_equal(qn_session_seq_len(w->s, q), w->len[q]);
        assert_int_equal(qn_session_seq_pos_max(w->s, q), w->last[q]);
    }
    assert_int_equal(qn_session_free_cells(w->s), w->free_cells);
    next_logits(w->s, got);
    for (int q = 0; q < 3; q++) SAME(got[q], w->want[q]);
}

/* Without a plan cache nothing is left between two calls, so that every block must come back. */
static void begin(work *w, int model, bool no_plan_cache)
{
    qn_token tokens[40];
    *w = (work){.path = tiny_path("s.state")};
    w->engine = rig_open(&models[model], &(qn_engine_options){.n_threads = 1});
    w->s = rig_session(w->engine,
                       (qn_session_options){.n_seq = 3, .n_ctx = 200, .n_batch = 16, .no_plan_cache = no_plan_cache});
    w->fresh = rig_session(w->engine, (qn_session_options){.n_ctx = 8, .n_logits = 4, .no_plan_cache = true});
    rig_story(0, tokens, 40);
    rig_feed(w->s, 0, tokens, 30);
    MUST(qn_session_seq_copy(w->s, 0, 1, 0, 21, err));
    rig_feed(w->s, 2, tokens + 30, 9);
    next_logits(w->s, w->want);
    for (int q = 0; q < 3; q++) {
        w->len[q] = qn_session_seq_len(w->s, q);
        w->last[q] = qn_session_seq_pos_max(w->s, q);
    }
    w->free_cells = qn_session_free_cells(w->s);
}

static void end(work *w)
{
    qn_session_destroy(w->s);
    qn_session_destroy(w->fresh);
    qn_engine_close(w->engine);
}

/* ---- what is tried ---- */

static qn_status decode(void *ctx, qn_error *why) /* builds and compiles a graph; the one of before goes */
{
    work *w = ctx;
    qn_batch_item items[7];
    for (int i = 0; i < 7; i++) items[i] = (qn_batch_item){i, w->last[i % 3] + 1 + i / 3, i % 3, i > 4};
    const qn_status status = qn_session_decode(w->s, items, 7, why);
    for (int q = 0; q < 3 && status == QN_OK; q++) MUST(qn_session_seq_remove(w->s, q, w->last[q] + 1, -1, err));
    return status;
}

static qn_status shift(void *ctx, qn_error *err) /* shared cells must be copied */
{
    work *w = ctx;
    return qn_session_seq_shift(w->s, 0, 0, -1, 11, err);
}

static qn_status save(void *ctx, qn_error *err)
{
    const work *w = ctx;
    return qn_session_save(w->s, w->path, err);
}

static qn_status restore(void *ctx, qn_error *err)
{
    const work *w = ctx;
    return qn_session_restore(w->s, w->path, err);
}

static qn_status perplexity(void *ctx, qn_error *err) /* written, and compared with what was written */
{
    const work *w = ctx;
    qn_token tokens[16];
    qn_perplexity_result r;
    rig_story(1, tokens, 16);
    qn_status status =
        qn_perplexity(w->fresh, tokens, 16, &(qn_perplexity_options){.n_ctx = 8, .save = tiny_path("p.kld")}, &r, err);
    if (status == QN_OK)
        status = qn_perplexity(w->fresh, NULL, 0, &(qn_perplexity_options){.file = tiny_path("p.kld")}, &r, err);
    assert_int_equal(qn_session_seq_len(w->fresh, 0), 0);
    return status;
}

static qn_status print(void *ctx, qn_error *err)
{
    const work *w = ctx;
    char *text[4] = {0};
    qn_status status = qn_session_print_graph(w->s, 5, -1, QN_GRAPH_text, &text[0], err);
    if (status == QN_OK) status = qn_session_print_graph(w->s, 1, 1, QN_GRAPH_dot, &text[1], err);
    if (status == QN_OK) status = qn_session_print_graph(w->s, 5, 0, QN_GRAPH_svg, &text[2], err);
    if (status == QN_OK) status = qn_session_print_plan(w->s, 5, &text[3], err);
    for (int i = 0; i < 4; i++) qn_free(text[i]);
    return status;
}

static qn_status estimate(void *ctx, qn_error *err)
{
    const work *w = ctx;
    qn_estimate est;
    int32_t n = 0;
    const qn_status status = qn_engine_estimate(w->engine, &(qn_session_options){.n_ctx = 500}, &est, err);
    return status == QN_OK ? qn_engine_fit_batch(w->engine, &(qn_session_options){.n_ctx = 4}, 30000, &n, err) : status;
}

static bool read_it(void *ctx, const qn_node *node, bool after)
{
    static float x[1 << 16];
    const work *w = ctx;
    qn_error err;
    const qn_shape shape = qn_node_shape(node);
    if (!after) return true;
    const qn_status status =
        qn_session_read_node(w->s, node, x, (uint64_t)qn_shape_numel(&shape) * sizeof(float), &err);
    if (status != QN_OK) assert_int_equal(status, QN_STATUS_nomem);
    return true;
}

static qn_status decode_and_read(void *ctx, qn_error *err)
{
    work *w = ctx;
    qn_session_set_eval(w->s, read_it, w); /* reading 16-bit values needs room; the run goes on without it */
    const qn_status status = decode(ctx, err);
    qn_session_set_eval(w->s, NULL, NULL);
    return status;
}

/* ---- */

static void nothing_is_lost(void **state)
{
    (void)state;
    for (int m = 0; m < N_MODELS; m++) {
        work w;
        begin(&w, m, true);
        fault_sweep("decode", decode, as_it_was, &w);
        fault_sweep("save", save, as_it_was, &w);
        fault_sweep("restore", restore, as_it_was, &w);
        fault_sweep("print", print, NULL, &w); /* these don't touch it: once at the end is enough */
        fault_sweep("estimate", estimate, NULL, &w);
        MUST(perplexity(&w, err)); /* what the session keeps from its first decode on */
        fault_sweep("perplexity", perplexity, NULL, &w);
        as_it_was(&w);
        end(&w);
    }
}

/* Inside a callback an allocation may fail without the run failing: no status to expect, but nothing may leak or be
 * spoilt. */
static void reading_nodes(void **state)
{
    (void)state;
    work w;
    begin(&w, 0, true);
    for (long at = 0, through = 0; !through; at++) {
        qn_error err = {0};
        const long before = hook.live;
        hook_arm(at, false);
        const qn_status status = decode_and_read(&w, &err);
        through = hook.n <= at;
        hook_arm(-1, false);
        assert_int_equal(hook.live, before);
        assert_true(status == QN_OK || (status == QN_STATUS_nomem && err.text[0]));
        if (at % 16 == 0) as_it_was(&w);
    }
    as_it_was(&w);
    end(&w);
}

/* A shift that succeeds changes the session, so each failure is followed by one from the same start. */
static void shifts(int model)
{
    work w;
    begin(&w, model, true);
    rig_row want;
    long n = 0;
    for (long at = 0;; at++) {
        qn_error err = {0};
        hook_arm(at, at % 2);
        const qn_status status = shift(&w, &err);
        n = hook.n;
        hook_arm(-1, false);
        if (n <= at) {
            assert_int_equal(status, QN_OK);
            break;
        }
        assert_int_equal(status, QN_STATUS_nomem);
        assert_true(err.text[0]);
        as_it_was(&w);
    }
    assert_true(n > 5);
    assert_int_equal(qn_session_seq_pos_max(w.s, 0), 40);
    assert_int_equal(qn_session_free_cells(w.s), w.free_cells - 21); /* what sequence 1 shares was copied */
    rig_feed(w.s, 0, (qn_token[]){5}, 1);
    want = rig_logits(w.s, -1);
    end(&w);
    begin(&w, model, false); /* the same without failures */
    MUST(shift(&w, err));
    rig_feed(w.s, 0, (qn_token[]){5}, 1);
    SAME(rig_logits(w.s, -1), want);
    end(&w);
}

static void shifting(void **state)
{
    (void)state;
    for (int m = 0; m < N_MODELS; m++) shifts(m);
}

/* With a plan cache a failed compile leaves the cache as it was, and the next decode of that size works and is kept. */
static void plan_cache(void **state)
{
    (void)state;
    work w;
    begin(&w, 0, false);
    long at = 0, n_failed = 0;
    for (bool through = false; !through; at++) {
        qn_error err = {0};
        qn_session_stats before, after;
        qn_session_get_stats(w.s, &before);
        hook_arm(at, at % 2);
        const qn_status status = decode(&w, &err);
        through = hook.n <= at;
        hook_arm(-1, false);
        n_failed += status != QN_OK;
        assert_true(through ? status == QN_OK : status == QN_STATUS_nomem && err.text[0]);
        as_it_was(&w);
        qn_session_get_stats(w.s, &after);
        assert_int_equal(after.reserved_bytes, before.reserved_bytes);
    }
    assert_true(n_failed > 5);
    hook_arm(0, true); /* from now on it is in the cache: nothing to allocate */
    qn_error err = {0};
    const qn_status status = decode(&w, &err);
    hook_arm(-1, false);
    if (status != QN_OK) fail_msg("%s", err.text);
    as_it_was(&w);
    end(&w);
}

static qn_status create(void *ctx, qn_error *err)
{
    const work *w = ctx;
    qn_session *s = NULL;
    const qn_status status = qn_session_create(w->engine, &(qn_session_options){.n_seq = 2, .n_batch = 8}, &s, err);
    if (status != QN_OK) assert_null(s);
    qn_session_destroy(s);
    return status;
}

static void creating(void **state)
{
    (void)state;
    work w;
    begin(&w, 0, true);
    fault_sweep("create", create, NULL, &w);
    as_it_was(&w); /* a neighbour that failed to be did no harm */
    end(&w);
}

/* While timing is on a decode allocates once more, after its graph has taken the place of the last one: what is printed
 * then must not be what is gone. */
static void timing(void **state)
{
    (void)state;
    work w;
    begin(&w, 0, true);
    long at = 0, n_failed = 0;
    for (bool through = false; !through; at++) {
        qn_error err = {0};
        char *text = NULL;
        hook_arm(at, at % 2);
        qn_session_set_timing(w.s, true);
        const qn_status status = decode(&w, &err);
        qn_session_set_timing(w.s, false);
        through = hook.n <= at;
        hook_arm(-1, false);
        n_failed += status != QN_OK;
        assert_true(status == QN_OK ? through || at % 2 == 0 : status == QN_STATUS_nomem && err.text[0]);
        const qn_status printed = qn_session_print_last(w.s, -1, QN_GRAPH_text, &text, &err);
        assert_true(printed == QN_OK ? text != NULL : printed == QN_STATUS_state);
        qn_free(text);
        as_it_was(&w);
    }
    assert_true(n_failed > 5);
    end(&w);
}

/* Whatever fails, the same call then gives the same rows, and nothing is left in the cache. */
static void embedding(void **state)
{
    (void)state;
    qn_token tokens[20];
    float want[3 * 32], have[3 * 32];
    rig_story(0, tokens, 20);
    const qn_embedding_text texts[] = {{tokens, 12}, {tokens + 5, 3}, {tokens + 2, 16}};
    const qn_embedding_options options = {.pooling = QN_POOLING_mean};
    qn_engine *e = rig_open(&(tiny){.arch = "bert", .n_kv_head = 4}, &(qn_engine_options){.n_threads = 1});
    const qn_session_options o = {.n_ctx = 64, .n_batch = 16, .n_seq = 3, .embeddings = true, .no_plan_cache = true};
    qn_session *s = rig_session(e, o);
    MUST(qn_session_embeddings(s, texts, 3, &options, want, err));
    long n_failed = 0;
    for (long at = 0, through = false; !through; at++) {
        qn_error err = {0};
        hook_arm(at, at % 2);
        const qn_status status = qn_session_embeddings(s, texts, 3, &options, have, &err);
        through = hook.n <= at;
        hook_arm(-1, false);
        n_failed += status != QN_OK;
        assert_true(status == QN_OK || (status == QN_STATUS_nomem && err.text[0]));
        assert_int_equal(qn_session_free_cells(s), 64);
        if (status == QN_OK) assert_memory_equal(have, want, sizeof want);
    }
    assert_true(n_failed > 5);
    qn_session_destroy(s);
    qn_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost), cmocka_unit_test(reading_nodes), cmocka_unit_test(shifting),
        cmocka_unit_test(plan_cache),      cmocka_unit_test(creating),      cmocka_unit_test(timing),
        cmocka_unit_test(embedding),
    };
    return cmocka_run_group_tests(tests, hook_install, hook_remove);
}
