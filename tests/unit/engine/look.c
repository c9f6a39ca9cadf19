/* SPDX-License-Identifier: MIT */
/* Looking inside: the callback is called around every node in order and its readings are the true values; printed
 * graphs and plans name what runs where. */
#include "rig.h"
#include "base/str.h"
#include "engine/engine.h"

/* ---- the callback ---- */

typedef struct watcher {
    qn_session *s;
    const qn_node *open; /* before was called, after not yet */
    int n, last_id, n_read, n_updates, n_places[2];
    bool check_embedding, check_cache;
    const float *embedding; /* of the file: [RIG_VOCAB, 32] F32 */
    const qn_token *tokens;
    int n_tokens;
    float keys[64 * 16]; /* what rope gave layer 0: [n_tokens, 2 heads * 8] */
    char empty[96];      /* a tap of one that has no values yet; "": none was seen */
    bool embedding_seen, keys_seen, cache_seen, logits_seen;
    rig_row logits[2];
} watcher;

static uint64_t n_values(const qn_node *node)
{
    const qn_shape shape = qn_node_shape(node);
    return (uint64_t)qn_shape_numel(&shape);
}

static void look_at_f32(watcher *w, const qn_node *node, const float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            fail_msg("%s \"%s\": value %llu is %g", qn_node_op_name(node), qn_node_name(node), (unsigned long long)i,
                     (double)x[i]);
    if (w->check_embedding && !w->embedding_seen && strcmp(qn_node_op_name(node), "get_rows") == 0) {
        w->embedding_seen = true; /* the first lookup is the embedding's: the file's own rows */
        assert_int_equal(n, w->n_tokens * 32);
        for (int i = 0; i < w->n_tokens; i++)
            assert_memory_equal(x + i * 32, w->embedding + w->tokens[i] * 32, 32 * sizeof(float));
    }
    if (strcmp(qn_node_name(node), "k-0") == 0) {
        w->keys_seen = true;
        assert_int_equal(n, w->n_tokens * 16);
        assert_int_equal(qn_node_layer(node), 0);
        memcpy(w->keys, x, n * sizeof(float));
    }
    if (strcmp(qn_node_name(node), "logits") == 0) {
        w->logits_seen = true;
        assert_int_equal(n % RIG_VOCAB, 0);
        memcpy(w->logits, x, n * sizeof(float));
    }
}

/* The first cells of the cache hold what rope gave, rounded to 16 bits; the rest was never written. */
static void look_at_cache(watcher *w, const float *x)
{
    if (!w->check_cache || w->cache_seen || !w->keys_seen) return;
    w->cache_seen = true;
    for (int i = 0; i < w->n_tokens * 16; i++)
        assert_true(fabsf(x[i] - w->keys[i]) <= fabsf(w->keys[i]) * 0x1p-11f + 0x1p-25f);
}

static bool watch(void *ctx, const qn_node *node, bool after)
{
    watcher *w = ctx;
    if (!after) {
        assert_null(w->open);
        w->open = node;
        assert_true(qn_node_id(node) > w->last_id);
        w->last_id = qn_node_id(node);
        const char *op = qn_node_op_name(node);
        assert_true(qn_node_n_sources(node) > 0 || strcmp(op, "empty") == 0 || strcmp(op, "full") == 0);
        assert_null(qn_node_source(node, qn_node_n_sources(node)));
        assert_in_range(qn_node_place(node), 0, 1);
        w->n_places[qn_node_place(node)]++;
        return true;
    }
    assert_ptr_equal(w->open, node);
    w->open = NULL;
    w->n++;
    const uint64_t n = n_values(node);
    float *x = malloc((size_t)n * sizeof(float));
    MUST(qn_session_read_node(w->s, node, x, n * sizeof(float), err));
    w->n_read++;
    if (strcmp(qn_node_op_name(node), "empty") == 0) { /* whatever was in the memory */
        snprintf(w->empty, sizeof w->empty, "%s=stats", qn_node_name(node));
    } else if (strcmp(qn_node_op_name(node), "set_rows") == 0) {
        w->n_updates++;
        look_at_cache(w, x);
    } else if (strstr(qn_node_name(node), "_topk")) { /* numbers of experts, and what they are made of */
        assert_int_equal(qn_node_dtype(node), QN_DTYPE_I64);
        for (uint64_t i = 0; i < n; i++) assert_true(x[i] >= 0 && x[i] == floorf(x[i]));
    } else {
        assert_true(qn_node_dtype(node) == QN_DTYPE_F32 || qn_node_dtype(node) == QN_DTYPE_BOOL); /* xIELU asks */
        look_at_f32(w, node, x, n);
    }
    REFUSED(invalid, qn_session_read_node(w->s, node, x, n * sizeof(float) - 1, err), "bytes");
    REFUSED(invalid, qn_session_read_node(w->s, node, x, 0, err));
    free(x);
    return true;
}

static void every_node(void **state)
{
    (void)state;
    int n_empty = 0; /* architectures with such a node */
    for (int a = 0; a < TINY_N_ARCHS; a++) {
        if (tiny_sees_ahead(tiny_archs[a])) continue;
        qn_engine *e = rig_open(&(tiny){.arch = tiny_archs[a], .n_head = tiny_is_latent(tiny_archs[a]) ? 2 : 0}, NULL);
        qn_session *s = rig_session(e, (qn_session_options){.n_logits = 2});
        qn_token tokens[20];
        rig_story(a, tokens, 20);
        static watcher w;
        w = (watcher){.s = s,
                      .last_id = -1,
                      .check_embedding = true,
                      .check_cache = true,
                      .tokens = tokens,
                      .n_tokens = 20,
                      .embedding = qn_gguf_tensor_find(qn_engine_file(e), "token_embd.weight")->data};
        qn_batch_item items[20];
        for (int i = 0; i < 20; i++) items[i] = (qn_batch_item){tokens[i], i, 0, i >= 18};
        qn_metrics before, after;
        qn_session_set_eval(s, watch, &w);
        qn_metrics_snapshot(&before);
        rig_decode(s, items, 20);
        qn_metrics_snapshot(&after);
        assert_null(w.open);
        assert_int_equal(w.n, after.kernel_tasks - before.kernel_tasks);
        assert_int_equal(w.n_updates, 4);
        assert_true(w.n > 2 * 12 && w.n_read == w.n);
        assert_true(w.embedding_seen && w.logits_seen);
        /* without rotation keys are a view, and no node of their own */
        assert_int_equal(w.keys_seen && w.cache_seen, tiny_turns(tiny_archs[a]));
        SAME(w.logits[0], rig_logits(s, 0));
        SAME(w.logits[1], rig_logits(s, 1));
        assert_int_equal(w.n_places[1], 0);
        /* Without anybody looking the bits are the same. */
        qn_session_set_eval(s, NULL, NULL);
        MUST(qn_session_seq_remove(s, 0, 0, -1, err));
        rig_decode(s, items, 20);
        SAME(w.logits[1], rig_logits(s, 1));
        if (w.empty[0]) REFUSED(invalid, qn_session_tap(s, w.empty, err), "written later");
        n_empty += w.empty[0] != '\0';
        qn_session_destroy(s);
        qn_engine_close(e);
    }
    assert_true(n_empty > 0);
}

static void over_two_backends(void **state)
{
    (void)state;
    const qn_place_rule rules[] = {{"blk.1.*", 1}, {"output*", 1}};
    qn_engine *e = rig_open(
        &(tiny){0},
        &(qn_engine_options){.backends = "cpu,cpu:ref", .n_threads = 1, .rules = rules, .n_rules = 2, .strict = true});
    qn_session *s = rig_session(e, (qn_session_options){0});
    qn_token tokens[9];
    rig_story(0, tokens, 9);
    static watcher w;
    w = (watcher){.s = s, .last_id = -1, .tokens = tokens, .n_tokens = 9};
    qn_session_set_eval(s, watch, &w);
    rig_feed(s, 0, tokens, 9);
    assert_true(w.n_places[0] > 5 && w.n_places[1] > 5 && w.logits_seen);
    SAME(w.logits[0], rig_logits(s, 0));
    qn_session_stats stats;
    qn_session_get_stats(s, &stats);
    assert_int_equal(stats.n_splits, 2);
    assert_true(stats.n_transfers >= 1);
    qn_session_destroy(s);
    qn_engine_close(e);
}

static const qn_node *some_node;
static bool remember(void *ctx, const qn_node *node, bool after)
{
    (void)ctx, (void)after;
    some_node = node;
    return true;
}

static void reading_outside(void **state)
{
    (void)state;
    qn_engine *e = rig_open(&(tiny){0}, NULL);
    qn_session *s = rig_session(e, (qn_session_options){0});
    float x[RIG_VOCAB];
    qn_session_set_eval(s, remember, NULL);
    rig_feed(s, 0, (qn_token[]){1, 2}, 2);
    assert_string_equal(qn_node_name(some_node), "logits");
    REFUSED(state, qn_session_read_node(s, some_node, x, sizeof(x), err), "callback");
    qn_session_destroy(s);
    qn_engine_close(e);
}

/* ---- printing ---- */

static int occurrences(const char *text, const char *word)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)); p += strlen(word)) n++;
    return n;
}

static void graphs(void **state)
{
    (void)state;
    qn_engine *e = rig_open(&(tiny){.n_layer = 3}, NULL);
    qn_session *s = rig_session(e, (qn_session_options){0});
    qn_metrics before, after;
    char *text = NULL;
    rig_feed(s, 0, (qn_token[]){1, 2, 3}, 3);
    qn_metrics_snapshot(&before);
    MUST(qn_session_print_graph(s, 7, -1, QN_GRAPH_text, &text, err));
    assert_non_null(strstr(text, "blk.2.ffn_down.weight"));
    assert_non_null(strstr(text, "logits"));
    assert_non_null(strstr(text, "[7,32]"));
    assert_non_null(strstr(text, qn_engine_backend_name(e, 0)));
    qn_free(text);
    MUST(qn_session_print_graph(s, 1, 1, QN_GRAPH_text, &text, err));
    assert_non_null(strstr(text, "blk.1.attn_q.weight"));
    assert_null(strstr(text, "blk.0.attn_q.weight"));
    assert_null(strstr(text, "blk.2.attn_q.weight"));
    qn_free(text);
    MUST(qn_session_print_graph(s, 1, -1, QN_GRAPH_dot, &text, err));
    assert_int_equal(strncmp(text, "digraph", 7), 0);
    assert_int_equal(occurrences(text, "{"), occurrences(text, "}"));
    qn_free(text);
    MUST(qn_session_print_graph(s, 32, 0, QN_GRAPH_svg, &text, err));
    assert_non_null(strstr(text, "<svg"));
    assert_non_null(strstr(text, "</svg>"));
    qn_free(text);
    text = NULL;
    REFUSED(invalid, qn_session_print_graph(s, 0, -1, QN_GRAPH_text, &text, err), "0 tokens", "32");
    REFUSED(invalid, qn_session_print_graph(s, 33, -1, QN_GRAPH_text, &text, err), "33 tokens", "32");
    REFUSED(invalid, qn_session_print_graph(s, 1, 3, QN_GRAPH_text, &text, err), "layer 3", "0 to 2");
    REFUSED(invalid, qn_session_print_graph(s, 1, -2, QN_GRAPH_text, &text, err), "layer -2");
    REFUSED(invalid, qn_session_print_plan(s, 33, &text, err), "33 tokens");
    assert_null(text);
    qn_metrics_snapshot(&after);
    assert_int_equal(after.live_bytes, before.live_bytes);
    assert_int_equal(after.graph_runs, before.graph_runs); /* printing computes nothing */
    qn_token tokens[4] = {1, 2, 3, 4};
    rig_feed(s, 0, tokens + 3, 1);
    SAME(rig_logits(s, -1), rig_fresh(e, (qn_session_options){0}, tokens, 4));
    qn_session_destroy(s);
    qn_engine_close(e);
}

static void plans(void **state)
{
    (void)state;
    const qn_place_rule rules[] = {{"blk.1.*", 1}};
    qn_engine *e =
        rig_open(&(tiny){0},
                 &(qn_engine_options){.backends = "cpu,cpu:ref", .n_threads = 1, .rules = rules, .n_rules = 1});
    qn_session *s = rig_session(e, (qn_session_options){0});
    char *text = NULL;
    MUST(qn_session_print_plan(s, 16, &text, err));
    assert_int_equal(occurrences(text, "\"logits\" ->"), 1); /* said once */
    assert_int_equal(occurrences(text, "\"attn_res-1\" -> cpu:ref"), 1);
    assert_int_equal(occurrences(text, "split 0:"), 1);
    assert_int_equal(occurrences(text, "split 2:"), 1); /* there, and back for the output */
    assert_true(occurrences(text, "copy ") >= 2);
    /* Each value that is laid out has one line: its name stands there, and among the places. */
    assert_int_equal(occurrences(text, "attn_res-0"), 2);
    qn_free(text);
    qn_session_destroy(s);
    qn_engine_close(e);
}

/* What each pass did, as numbers and as a table; a pass that is off leaves the graph alone and a bit that is none is
 * refused. */
static void passes(void **state)
{
    (void)state;
    qn_pass pass;
    qn_engine *e = NULL;
    for (int i = 0; i < QN_PASS_COUNT; i++) {
        assert_true(qn_pass_find(qn_pass_name((qn_pass)i), &pass));
        assert_int_equal(pass, i);
    }
    assert_null(qn_pass_name(QN_PASS_COUNT));
    assert_false(qn_pass_find("frob", &pass));
    for (int off = 0; off < 2; off++) {
        e = rig_open(&(tiny){0}, &(qn_engine_options){.passes_off = off ? QN_PASS_BIT(fuse) | QN_PASS_BIT(dce) : 0});
        qn_session *s = rig_session(e, (qn_session_options){0});
        qn_pass_stats stats[QN_PASS_COUNT];
        char *text = NULL;
        MUST(qn_session_get_passes(s, 4, stats, err));
        const qn_pass_stats *fuse = &stats[QN_PASS_fuse];
        assert_int_equal(fuse->nodes_before - fuse->nodes_after, off ? 0 : 2); /* a gate in each of two layers */
        assert_int_equal(fuse->changed, off ? 0 : 2);
        assert_int_equal(fuse->ns > 0, !off);
        for (int i = 1; i < QN_PASS_COUNT; i++) assert_int_equal(stats[i].nodes_before, stats[i - 1].nodes_after);
        MUST(qn_session_print_passes(s, 4, &text, err));
        assert_int_equal(occurrences(text, "\n"), 1 + QN_PASS_COUNT);
        assert_int_equal(occurrences(text, "-2 mul, -2 silu, +2 swiglu"), !off);
        assert_int_equal(occurrences(text, " off\n"), off ? 2 : 0);
        qn_free(text);
        text = NULL;
        REFUSED(invalid, qn_session_get_passes(s, 33, stats, err), "33 tokens");
        REFUSED(invalid, qn_session_print_passes(s, 0, &text, err), "0 tokens");
        assert_null(text);
        qn_session_destroy(s);
        qn_engine_close(e);
    }
    REFUSED(invalid, qn_engine_open("x", &(qn_engine_options){.passes_off = 1u << QN_PASS_COUNT}, &e, err),
            "passes_off is 0x20", "fold, layout");
}

/* A rule with a layer's own name moves what follows no weight or cache, and only that; the logits stay. */
static void layer_hints(void **state)
{
    (void)state;
    const qn_place_rule layer[] = {{"blk.1", 1}}, both[] = {{"blk.1.*", 1}, {"blk.?", 0}};
    rig_row want;
    qn_token tokens[6];
    rig_story(0, tokens, 6);
    for (int rules = 0; rules < 3; rules++) {
        qn_engine *e = rig_open(&(tiny){0}, &(qn_engine_options){.backends = "cpu,cpu:ref",
                                                                 .n_threads = 1,
                                                                 .rules = rules == 1 ? layer : both,
                                                                 .n_rules = rules,
                                                                 .strict = true});
        qn_session *s = rig_session(e, (qn_session_options){0});
        char *text = NULL;
        MUST(qn_session_print_plan(s, 6, &text, err));
        const int elsewhere = occurrences(text, " -> cpu:ref\n"); /* nodes; copies say both ends */
        assert_int_equal(occurrences(text, "swiglu \"ffn_act-0\" -> cpu:ref"), 0);
        if (rules == 1) { /* sums and activations there, products here */
            assert_int_equal(occurrences(text, "add \"attn_res-1\" -> cpu:ref"), 1);
            assert_int_equal(occurrences(text, "param \"blk.1.ffn_up.weight\" -> cpu:ref"), 0);
            assert_true(elsewhere > 3);
        }
        if (rules == 2) { /* products there, sums here */
            assert_int_equal(occurrences(text, "add \"attn_res-1\" -> cpu:ref"), 0);
            assert_int_equal(occurrences(text, "param \"blk.1.ffn_up.weight\" -> cpu:ref"), 1);
        }
        assert_int_equal(elsewhere > 0, rules > 0);
        qn_free(text);
        rig_feed(s, 0, tokens, 6);
        if (rules == 0) want = rig_logits(s, -1);
        SAME(rig_logits(s, -1), want);
        qn_session_destroy(s);
        qn_engine_close(e);
    }
}

/* The graph that ran last, with times that were measured and without; gone when another one may have taken its place.
 */
static void last_graph(void **state)
{
    (void)state;
    qn_engine *e = rig_open(&(tiny){0}, NULL);
    qn_token tokens[12];
    rig_story(0, tokens, 12);
    for (int no_cache = 0; no_cache < 2; no_cache++) {
        qn_session *s = rig_session(e, (qn_session_options){.no_plan_cache = no_cache});
        char *text = NULL, *plain = NULL;
        REFUSED(state, qn_session_print_last(s, -1, QN_GRAPH_text, &text, err), "no graph");
        rig_feed(s, 0, tokens, 9);
        MUST(qn_session_print_last(s, -1, QN_GRAPH_text, &plain, err));
        assert_non_null(strstr(plain, "[9,32]"));
        assert_null(strstr(plain, " us"));
        qn_session_set_timing(s, true);
        rig_feed(s, 0, tokens + 9, 1);
        rig_feed(s, 0, tokens + 10, 1);
        MUST(qn_session_print_last(s, -1, QN_GRAPH_text, &text, err));
        assert_non_null(strstr(text, "[1,32]"));
        /* each node's time */
        assert_true(occurrences(text, "us\n") + occurrences(text, "ns\n") + occurrences(text, "ms\n") > 20);
        qn_free(text);
        MUST(qn_session_print_last(s, 1, QN_GRAPH_svg, &text, err));
        assert_non_null(strstr(text, "</svg>"));
        qn_free(text);
        text = NULL;
        REFUSED(invalid, qn_session_print_last(s, 2, QN_GRAPH_text, &text, err), "layer 2");
        qn_session_set_timing(s, false);
        rig_feed(s, 0, tokens + 11, 1);
        SAME(rig_logits(s, -1), rig_fresh(e, (qn_session_options){0}, tokens, 12)); /* measuring changes nothing */
        MUST(qn_session_print_last(s, -1, QN_GRAPH_dot, &text, err));
        assert_int_equal(strncmp(text, "digraph", 7), 0);
        qn_free(text);
        text = NULL;
        /* compiles a graph, before which the last one may have to go */
        MUST(qn_session_seq_shift(s, 0, 0, -1, 1, err));
        REFUSED(state, qn_session_print_last(s, -1, QN_GRAPH_text, &text, err), "no graph");
        assert_null(text);
        qn_free(plain);
        qn_session_destroy(s);
    }
    qn_engine_close(e);
}

static bool go_on(void *ctx, const qn_node *node, bool after)
{
    (void)ctx, (void)node, (void)after;
    return true;
}

/* Far more sizes than the plan cache holds: what is printed last is never a graph that was thrown away. A backend that
 * cannot resize has a graph of each size, while somebody looks on. */
static void many_graphs(void **state)
{
    (void)state;
    enum { SIZES = 70, KEPT = 64 };
    qn_engine *e = rig_open(&(tiny){.n_layer = 1}, NULL);
    const qn_backend_type *type = e->backends[0]->type;
    qn_backend_type stiff = *type;
    stiff.resize = NULL;
    e->backends[0]->type = &stiff;
    qn_session *s = rig_session(e, (qn_session_options){.n_batch = SIZES});
    qn_session_set_eval(s, go_on, NULL);
    for (int round = 0; round < 2; round++)
        for (int n = 1; n <= SIZES; n++) {
            qn_token tokens[SIZES];
            char *text = NULL, shape[32];
            rig_story(n, tokens, n);
            qn_session_set_timing(s, n % 2);
            rig_feed(s, 0, tokens, n);
            MUST(qn_session_print_last(s, -1, QN_GRAPH_text, &text, err));
            snprintf(shape, sizeof(shape), "[%d,32]", n);
            assert_non_null(strstr(text, shape));
            qn_free(text);
            if (n % 20 == 0) SAME(rig_logits(s, -1), rig_fresh(e, (qn_session_options){0}, tokens, n));
            MUST(qn_session_seq_remove(s, 0, 0, -1, err));
        }
    qn_session_stats stats;
    qn_session_get_stats(s, &stats);
    /* the oldest goes first: none comes back in time */
    assert_int_equal(stats.plan_cache_misses, 2 * SIZES);
    for (int n = SIZES; n > SIZES - KEPT; n--) {
        qn_token tokens[SIZES];
        rig_story(n, tokens, n);
        rig_feed(s, 0, tokens, n);
        MUST(qn_session_seq_remove(s, 0, 0, -1, err));
    }
    qn_session_get_stats(s, &stats);
    assert_int_equal(stats.plan_cache_misses, 2 * SIZES);
    qn_session_destroy(s);
    e->backends[0]->type = type;
    qn_engine_close(e);
}

static qn_op_metrics cost_of(const char *op)
{
    qn_op_metrics rows[64];
    const int n = qn_op_metrics_snapshot(rows, 64);
    assert_true(n > 0 && n <= 64);
    for (int i = 0; i < n; i++)
        if (strcmp(rows[i].op, op) == 0) return rows[i];
    return (qn_op_metrics){op, 0, 0};
}

static bool look_only(void *ctx, const qn_node *node, bool after)
{
    (void)ctx, (void)node, (void)after;
    return true;
}

/* Every node of a run is counted under its operation, with or without a callback, and their times add up to no more
 * than the runs took. */
static void costs_by_operation(void **state)
{
    (void)state;
    qn_engine *e = rig_open(&(tiny){.n_layer = 5}, NULL);
    qn_session *s = rig_session(e, (qn_session_options){0});
    qn_token tokens[8];
    qn_metrics before, after;
    rig_story(0, tokens, 8);
    rig_feed(s, 0, tokens, 1);
    for (int i = 0; i < 2; i++) {
        qn_op_metrics rows[64];
        uint64_t ns = 0, n = 0;
        qn_session_set_eval(s, i ? look_only : NULL, NULL);
        qn_op_metrics_reset();
        qn_metrics_snapshot(&before);
        for (int k = 0; k < 3; k++) rig_feed(s, 0, tokens + 1 + k, 1);
        qn_metrics_snapshot(&after);
        assert_int_equal(cost_of("attention").count, 3 * 5);
        assert_int_equal(cost_of("rms_norm").count, 3 * (2 * 5 + 1));
        assert_int_equal(cost_of("linear").count, 3 * (7 * 5 + 1));
        const int n_ops = qn_op_metrics_snapshot(rows, 64);
        for (int k = 0; k < n_ops; k++) {
            assert_true(rows[k].ns > 0);
            ns += rows[k].ns;
            n += rows[k].count;
        }
        assert_int_equal(n, after.kernel_tasks - before.kernel_tasks);
        assert_true(ns <= after.compute_ns - before.compute_ns);
        if (i == 0) assert_true(ns > (after.compute_ns - before.compute_ns) / 20);
    }
    qn_session_destroy(s);
    qn_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_by_operation), cmocka_unit_test(every_node),  cmocka_unit_test(over_two_backends),
        cmocka_unit_test(reading_outside),    cmocka_unit_test(graphs),      cmocka_unit_test(plans),
        cmocka_unit_test(last_graph),         cmocka_unit_test(many_graphs), cmocka_unit_test(passes),
        cmocka_unit_test(layer_hints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
