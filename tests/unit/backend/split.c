/* SPDX-License-Identifier: MIT */
/* tests/unit/backend/split.c -- values get to where they are needed: once a place, each state of resident memory for
 * itself, constants everywhere. */
#include "pair.h"

#include "unit/graph/builders.h"

static void test_chain_across_backends(void **state)
{
    (void)state;
    for (int hosts = 0; hosts < 4; hosts++) { /* all pairs of memories that the host can and cannot touch */
        A.shows_host = hosts & 1;
        B.shows_host = hosts & 2;
        A.scratch_bytes = 100;
        reopen(NULL);
        const float x[5] = {1, 2, 3, 4, -5}, want[5] = {112, 113, 114, 115, 106};
        qn_exec *e = compile(chain(5));
        assert_int_equal(qn__exec_n_transfers(e), 2);
        assert_int_equal(qn__exec_n_segments(e), 3);
        set(e, "x", x, 5);
        for (int i = 0; i < 3; i++) OK(qn__exec_run(e, NULL, err));
        expect(e, "y", want, 5);
    }
}

static void test_one_copy_for_all_readers(void **state)
{
    (void)state;
    qn_graph *g = new_graph();
    on(g, 0);
    qn_node *x = input(g, "x", 4), *a = shift(g, x, 1);
    on(g, 1);
    qn_node *b = qn__add(g, a, a), *c = qn__mul(g, b, a);
    on(g, 0);
    qn_node *d = shift(g, c, 5);
    on(g, 1);
    out(g, qn__add(g, d, a), "y"); /* a was brought over long before */
    qn_exec *e = compile(g);
    assert_int_equal(qn__exec_n_transfers(e), 3); /* a, c, d */
    const float v[4] = {0, 1, 2, 3};
    float want[4];
    for (int i = 0; i < 4; i++) want[i] = 2 * (v[i] + 1) * (v[i] + 1) + 5 + v[i] + 1;
    set(e, "x", v, 4);
    OK(qn__exec_run(e, NULL, err));
    expect(e, "y", want, 4);
}

static void test_views_across_backends(void **state)
{
    (void)state;
    qn_graph *g = new_graph();
    on(g, 0);
    qn_node *x = qn__input(g, "x", QN_DTYPE_F32, &qn_shape_of(3, 4)), *a = shift(g, x, 1);
    qn_node *row = qn__narrow(g, a, 0, 1, 1), *transposed = qn__permute(g, a, (int[]){1, 0}, 2);
    qn_node *b = shift(g, x, 3), *columns = qn__narrow(g, b, 1, 1, 2), *again = qn__narrow(g, columns, 1, 1, 1);
    on(g, 1);
    out(g, shift(g, row, 10), "row");               /* a part of a, which moves anyway: */
    out(g, shift(g, transposed, 20), "transposed"); /* all of a moves, and is looked at in the same way there */
    out(g, qn__add(g, transposed, transposed), "twice");
    out(g, qn__add(g, columns, columns), "columns"); /* a strided part: packed at home first */
    on(g, 0);
    qn_node *c = shift(g, b, 0.5f);
    on(g, 1);
    out(g, qn__add(g, b, c), "sum");
    out(g, shift(g, again, 1), "again"); /* a part of b, which is there already */
    qn_exec *e = compile(g);
    assert_int_equal(qn__exec_n_transfers(e), 4); /* a, columns, b, c */
    int n_copies = 0;
    for (int32_t i = 0; i < qn__exec_graph(e)->n_nodes; i++) n_copies += qn__exec_graph(e)->nodes[i]->op == QN_OP_copy;
    assert_int_equal(n_copies, 1);
    float v[12], row_want[4], turned_want[12], twice_want[12];
    for (int i = 0; i < 12; i++) v[i] = (float)i;
    for (int i = 0; i < 4; i++) row_want[i] = v[4 + i] + 11;
    for (int i = 0; i < 12; i++) {
        turned_want[i] = v[i % 3 * 4 + i / 3] + 21;
        twice_want[i] = 2 * (v[i % 3 * 4 + i / 3] + 1);
    }
    set(e, "x", v, 12);
    OK(qn__exec_run(e, NULL, err));
    expect(e, "row", row_want, 4);
    expect(e, "transposed", turned_want, 12);
    expect(e, "twice", twice_want, 12);
    expect(e, "columns", (const float[]){8, 10, 16, 18, 24, 26}, 6);
    expect(e, "again", (const float[]){6, 10, 14}, 3);
    for (int i = 0; i < 12; i++) turned_want[i] = 2 * (v[i] + 3) + 0.5f;
    expect(e, "sum", turned_want, 12);

    g = new_graph(); /* a dense part alone moves alone */
    on(g, 0);
    a = shift(g, qn__input(g, "x", QN_DTYPE_F32, &qn_shape_of(3, 4)), 1);
    on(g, 1);
    out(g, shift(g, qn__narrow(g, a, 0, 1, 1), 10), "row");
    e = compile(g);
    assert_int_equal(qn__exec_n_transfers(e), 1);
    for (int32_t i = 0; i < qn__exec_graph(e)->n_nodes; i++)
        if (qn__exec_graph(e)->nodes[i]->op == QN_OP_transfer)
            assert_int_equal(qn__node_bytes(qn__exec_graph(e)->nodes[i]), 16);
    set(e, "x", v, 12);
    OK(qn__exec_run(e, NULL, err));
    expect(e, "row", row_want, 4);
}

/* Each state of resident memory is a value of its own: readers elsewhere see the one that they name. */
static void test_state_across_backends(void **state)
{
    (void)state;
    const float zero[8] = {0};
    qn_buffer *kv = buffer_of(&A, zero, 8);
    qn_graph *g = new_graph();
    qn_node *cells = qn__param(g, "kv", QN_DTYPE_F32, &qn_shape_of(4, 2), kv, 0, QN_NODE_mutable);
    qn_node *x = qn__input(g, "x", QN_DTYPE_F32, &qn_shape_of(1, 2));
    qn_node *r0 = qn__input(g, "r0", QN_DTYPE_I32, &qn_shape_of(1)),
            *r1 = qn__input(g, "r1", QN_DTYPE_I32, &qn_shape_of(1));
    on(g, 1);
    out(g, shift(g, cells, 0.5f), "before");
    qn_node *u1 = qn__set_rows(g, cells, x, r0);
    out(g, shift(g, u1, 0.25f), "between");
    qn_node *u2 = qn__set_rows(g, u1, x, r1);
    out(g, shift(g, u2, 0.125f), "after");
    out(g, qn__add(g, u2, u2), "after, twice");
    qn_exec *e = compile(g);
    assert_int_equal(qn__exec_n_transfers(e), 3);

    for (int run = 1; run <= 2; run++) { /* the second run starts from what the first left */
        const float v[2] = {(float)run, (float)run * 10}, old = run == 2 ? 1 : 0;
        const int32_t rows[2] = {1, 3};
        set(e, "x", v, 2);
        OK(qn__exec_set(e, qn__exec_find(e, "r0"), &rows[0], 4, err));
        OK(qn__exec_set(e, qn__exec_find(e, "r1"), &rows[1], 4, err));
        OK(qn__exec_run(e, NULL, err));
        const float before[8] = {.5f, .5f, old + .5f, old * 10 + .5f, .5f, .5f, old + .5f, old * 10 + .5f};
        const float between[8] = {.25f, .25f, v[0] + .25f, v[1] + .25f, .25f, .25f, old + .25f, old * 10 + .25f};
        const float after[8] = {.125f, .125f, v[0] + .125f, v[1] + .125f, .125f, .125f, v[0] + .125f, v[1] + .125f};
        const float twice[8] = {0, 0, 2 * v[0], 2 * v[1], 0, 0, 2 * v[0], 2 * v[1]};
        expect(e, "before", before, 8);
        expect(e, "between", between, 8);
        expect(e, "after", after, 8);
        expect(e, "after, twice", twice, 8);
    }
    fake_buffer_destroy(kv);
}

static void test_constants_live_everywhere(void **state)
{
    (void)state;
    const float c[6] = {1, 2, 3, 4, 5, 6}, x[3] = {10, 20, 30};
    qn_graph *g = new_graph();
    on(g, 0);
    qn_node *in = input(g, "x", 3);
    on(g, -1);
    qn_node *k = qn__const(g, "c", QN_DTYPE_F32, &qn_shape_of(2, 3), c);
    qn_node *low = qn__reshape(g, qn__narrow(g, k, 0, 0, 1), qn_shape_of(3)),
            *high = qn__reshape(g, qn__narrow(g, k, 0, 1, 1), qn_shape_of(3));
    on(g, 0);
    qn_node *a = qn__add(g, in, high);
    on(g, 1);
    out(g, qn__add(g, qn__mul(g, a, low), high), "y");
    /* strided: no copy is needed for that */
    qn_node *column = qn__narrow(g, qn__permute(g, k, (int[]){1, 0}, 2), 1, 0, 1);
    out(g, qn__mul(g, qn__reshape(g, a, qn_shape_of(3, 1)), column), "z");
    reopen(&(qn_sched_options){.passes_off = 1u << QN_PASS_fold});
    qn_exec *e = compile(g);
    assert_int_equal(qn__exec_n_transfers(e), 1); /* only a */
    for (int32_t i = 0; i < qn__exec_graph(e)->n_nodes; i++) assert_true(qn__exec_graph(e)->nodes[i]->op != QN_OP_copy);
    set(e, "x", x, 3);
    OK(qn__exec_run(e, NULL, err));
    float want[3];
    for (int i = 0; i < 3; i++) want[i] = (x[i] + c[3 + i]) * c[i] + c[3 + i];
    expect(e, "y", want, 3);
    for (int i = 0; i < 3; i++) want[i] -= c[3 + i];
    expect(e, "z", want, 3);
}

static void test_folding(void **state)
{
    (void)state;
    const float c[3] = {1, 2, 3}, x[3] = {10, 20, 30}, want[3] = {10 + 7 * 1 + 2, 20 + 7 * 2 + 2, 30 + 7 * 3 + 2};
    for (int off = 0; off < 2; off++) {
        reopen(&(qn_sched_options){.passes_off = off ? 1u << QN_PASS_fold : 0});
        A.n_nodes = 0;
        qn_graph *g = new_graph();
        qn_node *k = qn__const(g, "c", QN_DTYPE_F32, &qn_shape_of(3), c);
        out(g, qn__add(g, input(g, "x", 3), qn__scale(g, k, 7, 2)), "y");
        const uint64_t builds = QN_METRIC_READ(graph_builds);
        qn_exec *e = compile(g);
        assert_int_equal(QN_METRIC_READ(graph_builds), builds); /* folding is no graph of its own */
        set(e, "x", x, 3);
        const int before = A.n_nodes;
        OK(qn__exec_run(e, NULL, err));
        expect(e, "y", want, 3);
        assert_int_equal(before, off ? 0 : 1);
        assert_int_equal(A.n_nodes - before, off ? 2 : 1);
    }
}

/* What a failed run has started is still waited for: its buffers go next. */
static void test_folding_fails(void **state)
{
    (void)state;
    const float c[3] = {1, 2, 3};
    qn_graph *g = new_graph();
    qn_exec *e;
    qn_error error;
    qn_node *k = qn__const(g, "c", QN_DTYPE_F32, &qn_shape_of(3), c);
    out(g, qn__add(g, input(g, "x", 3), qn__scale(g, k, 7, 2)), "y");
    A.fail_run = 1;
    assert_int_equal(qn__sched_compile(sched, g, NULL, 0, &e, &error), QN_STATUS_internal);
    assert_non_null(strstr(error.text, "as asked"));
    assert_int_equal(A.n_too_soon + A.n_queued, 0);
    assert_int_equal(A.n_buffers + A.n_programs, 0);
}

static void test_every_kind_of_output(void **state)
{
    (void)state;
    const float c[2] = {7, 8}, w[4] = {1, 2, 3, 4}, x[6] = {1, 2, 3, 4, 5, 6}, turned_want[6] = {1, 4, 2, 5, 3, 6};
    const float cut_want[4] = {3, 4, 6, 7};
    qn_buffer *b = buffer_of(&A, w, 4);
    qn_graph *g = new_graph();
    qn_node *in = qn__input(g, "x", QN_DTYPE_F32, &qn_shape_of(2, 3));
    out(g, in, "x");
    out(g, qn__param(g, "w", QN_DTYPE_F32, &qn_shape_of(4), b, 0, 0), "w");
    out(g, qn__const(g, "c", QN_DTYPE_F32, &qn_shape_of(2), c), "c");
    out(g, qn__permute(g, in, (int[]){1, 0}, 2), "transposed");
    qn_node *sum = shift(g, in, 1);
    out(g, qn__narrow(g, sum, 1, 1, 2), "cut");
    out(g, qn__narrow(g, sum, 0, 1, 1), "row");
    qn_exec *e = compile(g);
    OK(qn__exec_set(e, qn__exec_find(e, "x"), x, sizeof(x), err));
    OK(qn__exec_run(e, NULL, err));
    expect(e, "x", x, 6);
    expect(e, "w", w, 4);
    expect(e, "c", c, 2);
    expect(e, "transposed", turned_want, 6);
    expect(e, "cut", cut_want, 4);
    expect(e, "row", (const float[]){5, 6, 7}, 3);
    float part[2];
    OK(qn__exec_get(e, qn__exec_find(e, "transposed"), part, 8, 8, err)); /* elements 2 and 3 */
    assert_true(part[0] == 2 && part[1] == 5);
    fake_buffer_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_chain_across_backends), T(test_one_copy_for_all_readers),  T(test_views_across_backends),
        T(test_state_across_backends), T(test_constants_live_everywhere), T(test_folding),
        T(test_folding_fails),         T(test_every_kind_of_output),
    };
    RUN_AT_EVERY_PACE(tests);
}
