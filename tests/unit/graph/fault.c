/* SPDX-License-Identifier: MIT */
/* tests/unit/graph/fault.c -- the N-th allocation fails, for every N, in building, optimizing with constants, planning,
 * caching, verifying and printing a graph: a clean error each time, and nothing leaks. */
#include "interp.h"
#include "unit/base/failing.h"

static void destroy_graph(void *value) { qn__graph_destroy(value); }

static void build(qn_graph *g)
{
    /* enough for the list of nodes to grow and the arena to get blocks */
    const decoder_shape s = {3, 3, 8, 2, 1, 4, 12, 10, 8};
    const float data[6] = {1, 2, 3, 4, 5, 6};
    decoder_build(g, &s);
    qn_node *c = qn__const(g, "c", F32, SHAPE(2, 3), data), *d = qn__const(g, "d", F32, SHAPE(2), data);
    qn_node *transposed = qn__permute(g, c, (int[]){1, 0}, 2);
    qn_node *x = qn__input(g, "x", F32, SHAPE(40, 3, 2)), *part = qn__narrow(g, x, 0, 3, 20);
    x = qn__add(g, qn__scale(g, qn__scale(g, x, 2, 0), 4, 0), qn__mul(g, qn__silu(g, transposed), d));
    qn__output(g, qn__name(g, x, "y"));
    qn__output(g, qn__silu(g, qn__narrow(g, qn__copy(g, part, F32), 1, 1, 2)));
    static float large[20000]; /* a block of its own in the arena */
    qn__output(g, qn__silu(g, qn__const(g, "large", F32, SHAPE(20000), large)));
    for (int i = 0; i < 150; i++) x = qn__name(g, qn__scale(g, x, 3, 0), "step-%d", i);
    qn__output(g, x);
}

static qn_status build_and_print(qn_graph *g, qn_str *text, qn_error *err)
{
    qn_plan plan;
    const qn_pass_options options = {.fold = interp_fold};
    build(g);
    QN_TRY(qn__graph_finish(g, err));
    QN_TRY(qn__graph_verify(g, err));
    QN_TRY(qn__graph_optimize(g, &options, NULL, err));
    for (int32_t i = 0; i < g->n_nodes; i++) g->nodes[i]->place = i % 2;
    QN_TRY(qn__plan_make(g, 2, 64, &plan, err));
    QN_TRY(qn__plan_verify(g, &plan, err));
    QN_TRY(qn__plan_print(g, &plan, text, err));
    for (int f = QN_GRAPH_text; f <= QN_GRAPH_svg; f++) QN_TRY(qn__graph_print(g, (qn_graph_format)f, NULL, text, err));
    return QN_OK;
}

static qn_status everything(qn_error *err)
{
    qn_graph *g = NULL;
    qn_cache *cache = NULL;
    qn_str text = {0};
    qn_status status = qn__cache_create(4, destroy_graph, &cache, err);
    if (status == QN_OK) status = qn__graph_create(&g, err);
    if (status == QN_OK) status = build_and_print(g, &text, err);
    if (status == QN_OK)
        status = qn__cache_put(cache, "key", 3, g, err);
    else
        qn__graph_destroy(g);
    qn__cache_destroy(cache);
    qn__str_deinit(&text);
    return status;
}

static void test_every_allocation(void **state)
{
    (void)state;
    long n = 0;
    for (bool done = false; !done; n++) {
        qn_error e = {0};
        books_open(n);
        const qn_status status = everything(&e);
        const bool failed = books.n_failed > 0;
        books_close();
        if (failed && status == QN_OK) continue; /* a string that was content with less */
        done = !failed;
        assert_int_equal(status, done ? QN_OK : QN_STATUS_nomem);
        assert_int_equal(e.status, status);
        if (!done) assert_non_null(strstr(e.text, "out of memory"));
    }
    print_message("%ld allocations failed, one at a time\n", n - 1);
    assert_true(n > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
