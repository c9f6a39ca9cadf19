/* SPDX-License-Identifier: MIT */
/* tests/unit/backend/place.c -- which backend computes what: memory first, then hints; fall-backs are told, or refused.
 */
#include "pair.h"

static void test_registry(void **state)
{
    (void)state;
    const qn_backend_type *type = qn__backend_find("fake");
    assert_non_null(type);
    assert_string_equal(type->name, "fake");
    assert_null(qn__backend_find("no such backend"));
}

static void test_work_goes_to_its_memory(void **state)
{
    (void)state;
    qn_buffer *w = buffer_of(&B, NULL, 64), *kv = buffer_of(&B, NULL, 64), *norm = buffer_of(&A, NULL, 8);
    qn_graph *g = new_graph();
    on(g, 0); /* hints lose against memory */
    qn_node *x = qn__input(g, "x", QN_DTYPE_F32, &qn_shape_of(2, 8)),
            *ids = qn__input(g, "ids", QN_DTYPE_I32, &qn_shape_of(2));
    qn_node *weight = qn__param(g, "w", QN_DTYPE_F32, &qn_shape_of(8, 8), w, 0, 0);
    qn_node *table = qn__param(g, "table", QN_DTYPE_F32, &qn_shape_of(4, 8), w, 0, 0);
    qn_node *cells = qn__param(g, "kv", QN_DTYPE_F32, &qn_shape_of(8, 8), kv, 0, QN_NODE_mutable);
    qn_node *scale = qn__param(g, "norm", QN_DTYPE_F32, &qn_shape_of(8), norm, 0, 0);
    out(g, qn__linear(g, x, weight, NULL), "linear");
    out(g, qn__get_rows(g, table, ids), "rows");
    out(g, qn__rms_norm(g, x, scale, 1e-5f), "norm of x");
    qn_node *half = qn__param(g, "half", QN_DTYPE_F16, &qn_shape_of(8), w, 0, 0); /* as files may store norms */
    out(g, qn__rms_norm(g, shift(g, x, 1), qn__copy(g, half, QN_DTYPE_F32), 1e-5f), "norm in 16 bits");
    qn_node *u = qn__name(g, qn__set_rows(g, cells, x, ids), "update");
    qn_node *k = qn__reshape(g, u, qn_shape_of(8, 2, 4)), *q = qn__reshape(g, x, qn_shape_of(2, 2, 4));
    qn_node *spans = qn__input(g, "spans", QN_DTYPE_I32, &qn_shape_of(2, 3));
    qn_node *lists = qn__input(g, "lists", QN_DTYPE_I32, &qn_shape_of(1, 8));
    out(g,
        qn__attention(g, &(qn_attn_sources){.q = q, .k = k, .v = k, .lists = lists, .spans = spans},
                      &(qn_attn_attrs){.scale = 0.5f}),
        "attention");
    on(g, -1);
    out(g, shift(g, qn__linear(g, x, weight, NULL), 3), "follows");

    qn_exec *e = compile(g);
    assert_int_equal(place_of(e, "linear"), 1);
    assert_int_equal(place_of(e, "rows"), 1);
    assert_int_equal(place_of(e, "update"), 1);
    assert_int_equal(place_of(e, "attention"), 1);
    assert_int_equal(place_of(e, "norm of x"), 0);
    assert_int_equal(place_of(e, "norm in 16 bits"), 1);
    assert_int_equal(place_of(e, "follows"), 1); /* without a hint: where its source is computed */
    assert_int_equal(place_of(e, "lists"), 0);   /* an input with a hint stays there and is copied over */
    fake_buffer_destroy(w);
    fake_buffer_destroy(kv);
    fake_buffer_destroy(norm);
}

static void test_hints_and_defaults(void **state)
{
    (void)state;
    qn_graph *g = new_graph();
    qn_node *x = input(g, "x", 4), *z = input(g, "z", 4);
    out(g, shift(g, x, 1), "default");
    on(g, 1);
    out(g, shift(g, z, 1), "hinted");
    qn_exec *e = compile(g);
    assert_int_equal(place_of(e, "default"), 0);
    assert_int_equal(place_of(e, "hinted"), 1);
    assert_int_equal(place_of(e, "x"), 0);
    assert_int_equal(place_of(e, "z"), 1); /* an input without a hint is uploaded to where it is used first */
    assert_int_equal(qn__exec_n_transfers(e), 0);
    assert_int_equal(qn__exec_n_segments(e), 2);

    g = new_graph();
    on(g, 2);
    out(g, shift(g, input(g, "x", 4), 1), "y");
    qn_error error;
    assert_int_equal(qn__sched_compile(sched, g, NULL, 0, &e, &error), QN_STATUS_invalid);
    assert_non_null(strstr(error.text, "backend 2 of 2"));
}

static void test_fall_back(void **state)
{
    (void)state;
    const float x[4] = {1, 2, 3, 4}, want[4] = {112, 113, 114, 115};
    B.refuses[QN_OP_scale] = true;
    for (int i = 0; i < 3; i++) {
        qn_exec *e = compile(chain(4));
        assert_int_equal(place_of(e, "b"), 0);
        set(e, "x", x, 4);
        OK(qn__exec_run(e, NULL, err));
        expect(e, "y", want, 4);
        assert_int_equal(n_logged, 1); /* once */
        assert_non_null(strstr(logged, "scale \"b\""));
        assert_non_null(strstr(logged, "fake:a"));
        assert_non_null(strstr(logged, "fake:b"));
    }
    A.refuses[QN_OP_scale] = true;
    qn_exec *e;
    qn_error error;
    assert_int_equal(qn__sched_compile(sched, chain(4), NULL, 0, &e, &error), QN_STATUS_unsupported);
    assert_non_null(strstr(error.text, "no backend takes it"));
}

static void test_strict(void **state)
{
    (void)state;
    reopen(&(qn_sched_options){.strict = true});
    compile(chain(4));
    B.refuses[QN_OP_scale] = true;
    qn_exec *e;
    qn_error error;
    assert_int_equal(qn__sched_compile(sched, chain(4), NULL, 0, &e, &error), QN_STATUS_unsupported);
    assert_non_null(strstr(error.text, "\"b\""));
    assert_non_null(strstr(error.text, "fake:b"));
    assert_non_null(strstr(error.text, "strict"));
    assert_int_equal(n_logged, 0);
}

static void test_updates_cannot_fall_back(void **state)
{
    (void)state;
    qn_buffer *kv = buffer_of(&B, NULL, 16);
    B.refuses[QN_OP_set_rows] = true;
    qn_graph *g = new_graph();
    qn_node *rows = qn__input(g, "rows", QN_DTYPE_I32, &qn_shape_of(1)),
            *x = qn__input(g, "x", QN_DTYPE_F32, &qn_shape_of(1, 4));
    out(g, qn__set_rows(g, qn__param(g, "kv", QN_DTYPE_F32, &qn_shape_of(4, 4), kv, 0, QN_NODE_mutable), x, rows), "y");
    qn_exec *e;
    qn_error error;
    assert_int_equal(qn__sched_compile(sched, g, NULL, 0, &e, &error), QN_STATUS_unsupported);
    assert_non_null(strstr(error.text, "must run on fake:b"));
    fake_buffer_destroy(kv);
}

static void test_params_must_be_ours(void **state)
{
    (void)state;
    fake other;
    fake_init(&other, "fake:other");
    qn_buffer *there = buffer_of(&other, NULL, 4), *small = buffer_of(&A, NULL, 4);
    const struct {
        void *buffer;
        uint64_t offset;
        const char *says;
    } cases[] = {
        {there, 0, "this scheduler does not have"},
        {NULL, 0, "has no buffer"},
        {small, 4, "of a buffer of 16"},
        {small, UINT64_MAX - 3, "of a buffer of 16"},
    };
    for (int i = 0; i < 4; i++) {
        qn_graph *g = new_graph();
        qn_node *w = qn__param(g, "w", QN_DTYPE_F32, &qn_shape_of(4), cases[i].buffer, cases[i].offset, 0);
        out(g, qn__add(g, input(g, "x", 4), w), "y");
        qn_exec *e;
        qn_error error;
        assert_int_equal(qn__sched_compile(sched, g, NULL, 0, &e, &error), QN_STATUS_invalid);
        assert_non_null(strstr(error.text, "\"w\""));
        assert_non_null(strstr(error.text, cases[i].says));
    }
    fake_buffer_destroy(there);
    fake_buffer_destroy(small);
}

static void test_same_graph_same_places(void **state)
{
    (void)state;
    qn_str first = {0}, again = {0};
    OK(qn__exec_print_plan(compile(chain(4)), &first, err));
    OK(qn__exec_print_plan(compile(chain(4)), &again, err));
    assert_string_equal(first.data, again.data);
    assert_non_null(strstr(first.data, "scale \"b\" -> fake:b"));
    assert_non_null(strstr(first.data, "split 1: fake:b, 1 nodes"));
    assert_non_null(strstr(first.data, "fake:a -> fake:b"));
    qn__str_deinit(&first);
    qn__str_deinit(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_registry), T(test_work_goes_to_its_memory),  T(test_hints_and_defaults),  T(test_fall_back),
        T(test_strict),   T(test_updates_cannot_fall_back), T(test_params_must_be_ours), T(test_same_graph_same_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
