/* SPDX-License-Identifier: MIT */
/* tests/unit/graph/build.c -- recording: the sticky error, names, scopes, accessors, hashes, and that building computes
 * nothing. */
#include "common.h"
#include "builders.h"
#include "base/metrics.h"
#include <math.h>

static void test_building_computes_nothing(void **state)
{
    (void)state;
    qn_metrics before, after;
    qn_metrics_snapshot(&before);
    qn_graph *g = graph_new();
    const decoder_shape s = {2, 7, 64, 4, 2, 16, 96, 500, 128};
    decoder_build(g, &s);
    OK(qn__graph_finish(g, err));
    qn_metrics_snapshot(&after);
    assert_int_equal(after.graph_builds - before.graph_builds, 1);
    assert_int_equal(after.kernel_tasks, before.kernel_tasks);
    assert_int_equal(after.graph_runs, before.graph_runs);
    /* The weights of this graph have 300 KB and its values 200 KB: nothing of that is there. */
    assert_true(after.live_bytes - before.live_bytes < (uint64_t)g->n_nodes * 700 + (128 << 10));
    OK(qn__graph_verify(g, err));
    qn__graph_destroy(g);
    qn_metrics_snapshot(&after);
    assert_int_equal(after.live_bytes, before.live_bytes);
}

static void test_error_is_sticky(void **state)
{
    (void)state;
    qn_graph *g = graph_new();
    qn_node *x = qn__input(g, "x", F32, SHAPE(4, 3)), *w = weight(g, "w", 5, 2);
    const int32_t n = g->n_nodes;
    qn__graph_scope(g, 7, -1);
    qn_node *bad = qn__linear(g, x, w, NULL);
    assert_non_null(bad);
    qn__graph_scope(g, 8, -1);
    /* whatever follows is harmless, and does not replace the first error */
    bad = qn__name(g, qn__add(g, bad, qn__reshape(g, bad, qn_shape_of(9, 9))), "sum-%d", 1);
    bad = qn__scale(g, qn__permute(g, qn__narrow(g, bad, 5, 5, 5), NULL, 3), 1, 0);
    bad = qn__slice_update(g, bad, bad, -4, 0, false);
    qn__const(g, "c", F32, SHAPE(1), NULL);
    qn__input(g, NULL, F32, SHAPE(1));
    qn__output(g, bad);
    assert_ptr_equal(bad, g->bad);
    assert_int_equal(g->n_nodes, n);
    qn_error e = {0};
    assert_int_equal(qn__graph_optimize(g, NULL, NULL, &e), QN_STATUS_invalid);
    assert_string_equal(e.text, "layer 7: linear: [4,3] x [5,2]: inner sizes 3 and 2 differ");
    graph_fails(g, QN_STATUS_invalid, "layer 7: linear: [4,3] x [5,2]: inner sizes 3 and 2 differ");
}

static void test_bad_calls(void **state)
{
    (void)state;
    qn_graph *other = graph_new();
    qn_node *foreign = qn__input(other, "f", F32, SHAPE(3));
    qn_graph *g = graph_new();
    qn__add(g, qn__input(g, "x", F32, SHAPE(3)), foreign);
    graph_fails(g, QN_STATUS_invalid, "add: source 1 belongs to another graph");
    g = graph_new();
    qn__op(g, (qn_op)1234, NULL, NULL, 0);
    graph_fails(g, QN_STATUS_invalid, "op 1234 does not exist");
    g = graph_new();
    qn__op(g, QN_OP_add, NULL, NULL, 7);
    graph_fails(g, QN_STATUS_invalid, "add: 7 sources, at most 6 are possible");
    g = graph_new();
    qn__reshape(g, NULL, qn_shape_of(1));
    graph_fails(g, QN_STATUS_invalid, "reshape: source 0 is missing");
    g = graph_new();
    qn__input(g, "evil\n\x1b[31m\"", F32, SHAPE(-1));
    qn_error e = {0};
    assert_int_equal(qn__graph_finish(g, &e), QN_STATUS_invalid);
    assert_non_null(strstr(e.text, "input \"evil\\x0a\\x1b[31m\\x22\": [-1] of rank 1 is no shape"));
    qn__graph_destroy(g);
    assert_int_equal(qn__graph_finish(other, NULL), QN_OK);
    qn__graph_destroy(other);
    qn__graph_destroy(NULL);
}

static void test_nodes_answer(void **state)
{
    (void)state;
    qn_graph *g = graph_new();
    qn_node *x = qn__input(g, "x", F32, SHAPE(4, 3));
    qn__graph_scope(g, 3, 1);
    qn_node *y = qn__name(g, qn__add(g, x, x), "sum-%d%s", 3, "!");
    qn__graph_scope(g, -5, -5);
    qn_node *z = qn__silu(g, y);
    assert_string_equal(qn_node_op_name(y), "add");
    assert_string_equal(qn_node_name(y), "sum-3!");
    assert_string_equal(qn_node_name(z), "");
    assert_int_equal(qn_node_layer(y), 3);
    assert_int_equal(y->hint, 1);
    assert_int_equal(qn_node_layer(z), -1);
    assert_int_equal(z->hint, -1);
    assert_int_equal(qn_node_place(z), -1);
    assert_int_equal(qn_node_id(z), 2);
    assert_int_equal(qn_node_n_sources(y), 2);
    assert_ptr_equal(qn_node_source(z, 0), y);
    assert_null(qn_node_source(z, 1));
    assert_null(qn_node_source(z, -1));
    qn__output(g, z);
    assert_true(z->flags & QN_NODE_output);
    qn__graph_destroy(g);
}

static void test_const_keeps_bytes(void **state)
{
    (void)state;
    qn_graph *g = graph_new();
    float data[3] = {1, 2, 3};
    qn_node *c = qn__const(g, "c", F32, SHAPE(3), data);
    data[1] = 9;
    assert_true(((const float *)c->host)[1] == 2);
    assert_true(c->flags & QN_NODE_const);
    qn_node *none = qn__const(g, "none", F32, SHAPE(0), NULL);
    assert_non_null(none->host);
    OK(qn__graph_verify(g, err));
    qn__graph_destroy(g);
}

/* A zero bias is written as -0, which changes no product, +0 and -0 included. */
static void test_scale_without_bias(void **state)
{
    (void)state;
    qn_graph *g = graph_new();
    qn_node *x = qn__input(g, "x", F32, SHAPE(1));
    const qn_scale_attrs *a = qn__scale(g, x, 1, 0)->attrs, *b = qn__scale(g, x, 1, 2)->attrs;
    assert_true(a->bias == 0 && signbit(a->bias) && b->bias == 2);
    volatile float zero = -0.0f;
    assert_true(signbit(a->scale * zero + a->bias));
    zero = 0.0f;
    assert_false(signbit(a->scale * zero + a->bias));
    qn__graph_destroy(g);
}

/* Attention's gradient has the attributes of attention; what it is not given it does not say that it has. */
static void test_sdpa_back_has_no_sinks(void **state)
{
    (void)state;
    qn_graph *g = graph_new();
    qn_node *q = qn__input(g, "q", F32, SHAPE(1, 2, 3, 4)), *k = qn__input(g, "k", F32, SHAPE(1, 1, 5, 4));
    qn_node *v = qn__input(g, "v", F32, SHAPE(1, 1, 5, 4)), *sinks = qn__input(g, "sinks", F32, SHAPE(2));
    qn_node *y = qn__sdpa(g, q, k, v, NULL, sinks, &(qn_sdpa_attrs){.scale = 0.5});
    qn_node *back = qn__sdpa_back(g, q, k, v, y, y, NULL, y->attrs);
    const qn_sdpa_attrs *attrs = y->attrs, *of_back = back->attrs;
    assert_true(y->n_src == 4 && attrs->has_sinks);
    assert_true(back->n_src == 5 && !of_back->has_sinks && !of_back->has_mask);
    assert_true(of_back->scale == 0.5);
    OK(qn__graph_finish(g, err));
    qn__graph_destroy(g);
}

typedef struct hash_case {
    int64_t rows;
    float eps;
    const char *name;
    uint32_t flags;
    bool swap, output;
    int perm;
} hash_case;

static uint64_t hash_of(hash_case c)
{
    qn_graph *g = graph_new();
    qn_node *x = qn__input(g, c.name, F32, SHAPE(c.rows, c.rows));
    qn_node *p = qn__param(g, "p", F32, SHAPE(c.rows, c.rows), NULL, 0, c.flags);
    qn_node *y = qn__rms_norm(g, qn__permute(g, x, c.perm ? (int[]){1, 0} : (int[]){0, 1}, 2), NULL, c.eps);
    y = c.swap ? qn__add(g, p, y) : qn__add(g, y, p);
    if (c.output) qn__output(g, y);
    OK(qn__graph_finish(g, err));
    const uint64_t h = qn__graph_hash(g);
    qn__graph_destroy(g);
    return h;
}

static void test_hash(void **state)
{
    (void)state;
    const hash_case base = {4, 1e-5f, "x", 0, false, true, 0};
    hash_case c = base;
    assert_true(hash_of(c) == hash_of(base));
    c.name = "another";
    assert_true(hash_of(c) == hash_of(base));
    c = base, c.rows = 5;
    assert_true(hash_of(c) != hash_of(base));
    c = base, c.eps = 1e-6f;
    assert_true(hash_of(c) != hash_of(base));
    c = base, c.flags = QN_NODE_mutable;
    assert_true(hash_of(c) != hash_of(base));
    c = base, c.swap = true;
    assert_true(hash_of(c) != hash_of(base));
    c = base, c.output = false;
    assert_true(hash_of(c) != hash_of(base));
    c = base, c.perm = 1;
    assert_true(hash_of(c) != hash_of(base));
}

static void test_compact(void **state)
{
    (void)state;
    qn_graph *g = graph_new();
    qn_node *x = qn__input(g, "x", F32, SHAPE(2)), *y = qn__silu(g, x), *z = qn__scale(g, x, 2, 0);
    y->flags |= QN_NODE_dead;
    qn__graph_compact(g);
    assert_int_equal(g->n_nodes, 2);
    assert_ptr_equal(g->nodes[1], z);
    assert_int_equal(z->id, 1);
    OK(qn__graph_verify(g, err));
    qn__graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_building_computes_nothing),
        cmocka_unit_test(test_error_is_sticky),
        cmocka_unit_test(test_bad_calls),
        cmocka_unit_test(test_nodes_answer),
        cmocka_unit_test(test_const_keeps_bytes),
        cmocka_unit_test(test_scale_without_bias),
        cmocka_unit_test(test_sdpa_back_has_no_sinks),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_compact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
